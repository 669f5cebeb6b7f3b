"""A model that says what it is told to: a logits processor for vLLM that forces token ids.

vLLM loads it with ``--logits-processors tests.vllm.scripted:Scripted``. A request brings its own
answer as ``vllm_xargs: {"answer_ids": [...]}``, the stop token last. For clients that cannot, the
file that ``TEMPLATEFIX_SCRIPT`` names has an answer for every turn (:class:`Script`).

This runs inside vLLM's own Python, which has nothing of ours but this file.
"""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch
from vllm.v1.sample.logits_processor import LogitsProcessor

if TYPE_CHECKING:
    from vllm.config import VllmConfig
    from vllm.sampling_params import SamplingParams
    from vllm.v1.sample.logits_processor import BatchUpdate

SCRIPT = "TEMPLATEFIX_SCRIPT"


@dataclass(frozen=True)
class Script:
    """Answers as token ids, by turn and by mode; after the last one it begins again.

    ``header`` opens every assistant turn of a prompt, so that the turns can be counted;
    ``closed`` ends the prompt of a mode that does not think.
    """

    header: list[int]
    closed: list[int]
    thinking: list[list[int]]
    plain: list[list[int]]

    def answer(self, prompt: Sequence[int]) -> list[int]:
        width = len(self.header)
        turns = sum(
            list(prompt[at : at + width]) == self.header for at in range(len(prompt) - width + 1)
        )
        closed = list(prompt[-len(self.closed) :]) == self.closed
        answers = self.plain if closed else self.thinking
        return answers[(turns - 1) % len(answers)]


@dataclass(frozen=True)
class _Speech:
    """What one request has to say; ``said`` is vLLM's own list, which grows as it is said."""

    answer: list[int]
    said: list[int]


class Scripted(LogitsProcessor):  # type: ignore[misc]
    """Leaves one token possible at each step: the next of the request's answer."""

    def __init__(self, vllm_config: VllmConfig, device: torch.device, is_pin_memory: bool) -> None:
        named = os.environ.get(SCRIPT)
        self._script = None
        if named:
            with open(named, encoding="utf-8") as file:
                self._script = Script(**json.load(file))
        self._speeches: dict[int, _Speech] = {}

    def is_argmax_invariant(self) -> bool:
        return False

    def update_state(self, batch_update: BatchUpdate | None) -> None:
        if batch_update is None:
            return
        for index in batch_update.removed:
            self._speeches.pop(index, None)
        for index, parameters, prompt, said in batch_update.added:
            answer = self._answer(parameters, prompt or [])
            self._speeches.pop(index, None)
            if answer:
                self._speeches[index] = _Speech(answer, said)
        for source, target, direction in batch_update.moved:
            moved, other = self._speeches.pop(source, None), self._speeches.pop(target, None)
            if moved is not None:
                self._speeches[target] = moved
            if other is not None and direction.name == "SWAP":
                self._speeches[source] = other

    def _answer(self, parameters: SamplingParams, prompt: Sequence[int]) -> list[int]:
        asked = (parameters.extra_args or {}).get("answer_ids")
        if asked:
            return [int(token) for token in asked]
        return self._script.answer(prompt) if self._script is not None else []

    def apply(self, logits: torch.Tensor) -> torch.Tensor:
        for index, speech in self._speeches.items():
            at = len(speech.said)
            if at < len(speech.answer):
                token = speech.answer[at]
                logits[index, :] = float("-inf")
                logits[index, token] = 0.0
        return logits
