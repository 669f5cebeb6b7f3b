"""vLLM's own renderer of a format that has no template: Python code, run by vLLM's Python.

It is asked as the server asks it (vLLM 0.32: ``renderers/deepseek_v4.py``): messages pass through
vLLM's ``parse_chat_messages``, then through ``apply_chat_template`` of the tokenizer mode. No
model and no tokenizer are needed for the text of a prompt.
"""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import IO, Any

from templatefix.chat.present import ContentFormat
from templatefix.errors import TargetError
from templatefix.render import Crashed, Refused, RenderRequest
from templatefix.serving.vllm_python import find_vllm

#: How header and record call such a renderer: this, and vLLM's name of the tokenizer mode.
PREFIX = "vllm:"

#: The tokenizer modes that are known, with the shape in which they take content.
MODES: Mapping[str, ContentFormat] = {"deepseek_v32": "string", "deepseek_v4": "openai"}

#: Asks the encoder for one prompt a line. What vLLM prints while it starts must not mix with it.
_PROGRAM = """
import importlib, json, os, sys
answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
os.dup2(2, 1)
from types import SimpleNamespace
from vllm import __version__
from vllm.renderers.chat_utils import parse_chat_messages
mode, content_format = sys.argv[1:]
made = getattr(importlib.import_module("vllm.tokenizers." + mode), "get_" + mode + "_tokenizer")
tokenizer = made(type("Bare", (), {"get_added_vocab": lambda self: {}})())
model = SimpleNamespace(enable_prompt_embeds=False, multimodal_config=None)
def answer(asked):
    messages = asked["messages"]
    try:
        conversation, _, _ = parse_chat_messages(messages, model, content_format=content_format)
        return {"prompt": tokenizer.apply_chat_template(
            conversation=conversation, messages=messages, tools=asked["tools"],
            tokenize=False, **asked["kwargs"])}
    except ValueError as error:
        return {"refused": str(error)}
    except Exception as error:
        return {"crashed": type(error).__name__, "said": str(error)}
def say(said):
    answers.write(json.dumps(said) + "\\n")
    answers.flush()
say({"version": __version__})
for line in sys.stdin:
    say(answer(json.loads(line)))
"""


class Encoding:
    """A renderer: see :class:`templatefix.render.Renderer`. Made by :func:`encoding`.

    ``kwargs`` are added to those of every request. The generation prompt is always printed, for
    the encoders know no prompt without it.
    """

    def __init__(
        self, mode: str, process: subprocess.Popen[str], kwargs: Mapping[str, Any]
    ) -> None:
        assert process.stdin is not None
        assert process.stdout is not None
        self.mode = mode
        self.content_format: ContentFormat = MODES[mode]
        self.kwargs = kwargs
        self._process = process
        self._questions: IO[str] = process.stdin
        self._answers: IO[str] = process.stdout
        self.version = str(self._answer()["version"])

    @property
    def name(self) -> str:
        return f"vLLM {self.version}'s {self.mode} encoder"

    def given(self, kwargs: Mapping[str, Any]) -> Encoding:
        """The same with other kwargs for every request."""
        twin = object.__new__(Encoding)
        twin.__dict__.update(self.__dict__, kwargs=kwargs)
        return twin

    def render(self, request: RenderRequest) -> str:
        """The text of a prompt. Raises ``Refused`` or ``Crashed``."""
        tools = list(request.tools) if request.tools else None
        kwargs = {**self.kwargs, **(request.kwargs or {})}
        asked = {"messages": list(request.messages), "tools": tools, "kwargs": kwargs}
        self._questions.write(json.dumps(asked) + "\n")
        self._questions.flush()
        answer = self._answer()
        if "refused" in answer:
            raise Refused(answer["refused"])
        if "crashed" in answer:
            raise Crashed(answer["crashed"], answer["said"])
        return str(answer["prompt"])

    def _answer(self) -> dict[str, Any]:
        line = self._answers.readline()
        if not line:
            raise TargetError(PREFIX + self.mode, "vLLM's Python ended", "see what it printed")
        answer: dict[str, Any] = json.loads(line)
        return answer


@contextmanager
def encoding(reference: str, python: str | None = None) -> Iterator[Encoding]:
    """The encoder that ``vllm:MODE`` names, in a process that ends with the block.

    ``python`` is a Python that has vLLM, else it is looked for. Raises ``TargetError`` where there
    is none, or no such mode.
    """
    mode = reference.removeprefix(PREFIX)
    if mode not in MODES:
        known = ", ".join(PREFIX + each for each in MODES)
        raise TargetError(reference, "no such encoder is known", f"known: {known}")
    command = [python or _python(reference), "-c", _PROGRAM, mode, MODES[mode]]
    environment = {**os.environ, "VLLM_LOGGING_LEVEL": "ERROR", "VLLM_NO_USAGE_STATS": "1"}
    with subprocess.Popen(
        command,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        env=environment,
        text=True,
        encoding="utf-8",
    ) as process:
        try:
            yield Encoding(mode, process, {})
        finally:
            process.kill()


def _python(reference: str) -> str:
    try:
        return find_vllm().path
    except TargetError as error:
        raise TargetError(reference, error.message, error.hint) from None
