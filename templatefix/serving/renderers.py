"""Models whose prompts vLLM does not render with Jinja: Python code in the server does.

Which model that is, is vLLM's own behaviour, not a judgement of ours. Source: vLLM 0.32.0,
``config/model.py`` (tokenizer mode by architecture), ``tokenizers/registry.py`` (Mistral's files),
``renderers/online_renderer.py`` (harmony by model type) and ``renderers/registry.py``; vLLM 0.33.0
is the same in all of them.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from fnmatch import translate
from functools import lru_cache
from types import MappingProxyType
from typing import Any

from templatefix.source.template import ChatTemplate


@dataclass(frozen=True)
class Renderer:
    """Code of the server that renders prompts where a template would.

    ``mode`` is vLLM's ``--tokenizer-mode``, or ``harmony``. ``parsers`` are the reasoning and the
    tool parser for what all such models write. ``history`` says what the code does with past turns,
    ``append_only`` is under which kwargs it keeps them all (None: there are none). ``escapes`` is
    whether ``--tokenizer-mode hf`` makes vLLM render with Jinja, for which the model needs a
    template; ``pins`` are environment variables that keep the head of the prompt as it is. ``eos``
    ends every answer, where the model's files need not say so.
    """

    mode: str
    parsers: tuple[str | None, str | None]
    history: str
    append_only: Mapping[str, Any] | None = None
    escapes: bool = True
    pins: Mapping[str, str] = field(default_factory=dict)
    eos: str | None = None


@dataclass(frozen=True)
class Recognised:
    """A renderer, and what in the model's files vLLM chooses it by."""

    renderer: Renderer
    evidence: str


_RETAINING = MappingProxyType({"drop_thinking": False})

DEEPSEEK_V32 = Renderer(
    "deepseek_v32",
    ("deepseek_v3", "deepseek_v32"),
    "it drops the reasoning of past answers as soon as a user message follows, whatever the kwargs",
)
DEEPSEEK_V4 = Renderer(
    "deepseek_v4",
    ("deepseek_v4", "deepseek_v4"),
    "without tools it drops the reasoning of past answers as soon as a user message follows",
    append_only=_RETAINING,
)
DEEPSEEK_V41 = Renderer(
    "deepseek_v41",
    ("deepseek_v41", "deepseek_v41"),
    DEEPSEEK_V4.history,
    append_only=_RETAINING,
)
KIMI_K3 = Renderer(
    "kimi_k3",
    ("kimi_k3", "kimi_k3"),
    "it sorts tool results by the order of the calls; what else it does to past turns is the "
    "tokenizer's own code",
)
MISTRAL = Renderer(
    "mistral",
    (None, "mistral"),
    "mistral-common decides where system text and tools stand in a longer conversation",
    eos="</s>",
)
INKLING = Renderer(
    "inkling",
    ("inkling", "inkling"),
    "it encodes messages to token ids directly",
    escapes=False,
)
HARMONY = Renderer(
    "harmony",
    ("openai_gptoss", "openai"),
    "it drops the analysis before the last final answer, and writes today's date into the head",
    escapes=False,
    pins=MappingProxyType({"VLLM_SYSTEM_START_DATE": "2026-01-01"}),
)

_BY_ARCHITECTURE = MappingProxyType(
    {
        "KimiK3ForConditionalGeneration": KIMI_K3,
        "DeepseekV32ForCausalLM": DEEPSEEK_V32,
        "DeepseekV4ForCausalLM": DEEPSEEK_V4,
        "DeepseekV4ForConditionalGeneration": DEEPSEEK_V4,
        "DeepseekV41ForCausalLM": DEEPSEEK_V41,
        "InklingForCausalLM": INKLING,
        "InklingForConditionalGeneration": INKLING,
    }
)
_BY_MODEL_TYPE = MappingProxyType({"gpt_oss": HARMONY})
#: vLLM takes Mistral's tokenizer where a file matches each of these.
_MISTRAL_WEIGHTS = ("consolidated*.safetensors",)
MISTRAL_TOKENIZERS = ("tekken.json", "tokenizer.model.v*")


def recognise(config: Mapping[str, Any], files: Collection[str]) -> Recognised | None:
    """The renderer that vLLM chooses for a model instead of Jinja; None where it chooses Jinja.

    ``config`` is the object in ``config.json``, ``files`` are the names of the model's files.
    """
    model_type = config.get("model_type")
    if isinstance(model_type, str) and model_type in _BY_MODEL_TYPE:
        return Recognised(_BY_MODEL_TYPE[model_type], f"model_type {model_type}")
    listed = config.get("architectures")
    for architecture in listed if isinstance(listed, list) else ():
        if isinstance(architecture, str) and architecture in _BY_ARCHITECTURE:
            return Recognised(_BY_ARCHITECTURE[architecture], f"architecture {architecture}")
    names = frozenset(files)
    weights = _first(names, _MISTRAL_WEIGHTS)
    tokenizer = _first(names, MISTRAL_TOKENIZERS) if weights else None
    if tokenizer:
        return Recognised(MISTRAL, f"{tokenizer} beside {weights}")
    return None


def renderer_of(template: ChatTemplate, arguments: Sequence[str] = ()) -> Renderer | None:
    """What renders a model on a server started with ``arguments``; None where Jinja does.

    A mode that the arguments name is the user's choice: only harmony is used whatever it is.
    """
    found = recognise(template.config, template.files)
    if found is None or (names_mode(arguments) and found.renderer is not HARMONY):
        return None
    return found.renderer


def names_mode(arguments: Sequence[str]) -> bool:
    """Whether arguments of a server choose its tokenizer mode."""
    return any(each.partition("=")[0] == "--tokenizer-mode" for each in arguments)


@lru_cache(maxsize=8)
def _first(files: frozenset[str], patterns: tuple[str, ...]) -> str | None:
    matches = re.compile("|".join(map(translate, patterns))).match  # directories may be large
    return min(filter(matches, files), default=None)
