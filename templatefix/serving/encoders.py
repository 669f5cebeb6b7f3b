"""Libraries that render as vLLM's own code does, for machines that have no vLLM."""

from __future__ import annotations

from fnmatch import fnmatchcase
from pathlib import Path

from templatefix.errors import TargetError
from templatefix.render.harmony_encoder import HarmonyEncoder
from templatefix.render.mistral_encoder import MistralEncoder
from templatefix.render.remote import Remote
from templatefix.serving.renderers import HARMONY, MISTRAL, MISTRAL_TOKENIZERS, Renderer
from templatefix.source import ChatTemplate


def encoder_of(template: ChatTemplate, renderer: Renderer) -> Remote | None:
    """What renders in the place of ``renderer``; None where no library does.

    Raises ``TargetError`` where it is not installed or the model's files do not suffice.
    """
    extra = {HARMONY.mode: "harmony", MISTRAL.mode: "mistral"}.get(renderer.mode)
    if extra is None:
        return None
    try:
        if renderer is HARMONY:
            return HarmonyEncoder(template.tokenizer.json_path if template.tokenizer else None)
        return MistralEncoder(_tokenizer_file(template))
    except ImportError as error:
        raise TargetError(
            template.display,
            f"{error.name} is not installed in this Python",
            f"pip install 'templatefix[{extra}]'",
        ) from error
    except OSError as error:
        raise TargetError(template.display, str(error), "look at the model's files") from error


def _tokenizer_file(template: ChatTemplate) -> Path:
    tokenizer = template.tokenizer
    directory = tokenizer.directory if tokenizer is not None else None
    directory = directory or Path(template.target)
    for pattern in MISTRAL_TOKENIZERS:
        for name in sorted(template.files):
            if fnmatchcase(name, pattern) and (directory / name).is_file():
                return directory / name
    raise TargetError(template.display, "its tokenizer is not there", "give --tokenizer")
