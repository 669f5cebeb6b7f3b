"""A model that says what it is told to: a logits processor for vLLM that forces token ids.

vLLM loads it with ``--logits-processors scripted:Scripted``. A request brings its own answer as
``vllm_xargs: {"answer_ids": [...]}``, the stop token last; one that brings none is left alone.

This runs inside vLLM's own Python, which has nothing of ours but this file.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch
from vllm.v1.sample.logits_processor import LogitsProcessor

if TYPE_CHECKING:
    from vllm.config import VllmConfig
    from vllm.v1.sample.logits_processor import BatchUpdate


@dataclass(frozen=True)
class _Speech:
    """What one request has to say; ``said`` is vLLM's own list, which grows as it is said."""

    answer: list[int]
    said: list[int]


class Scripted(LogitsProcessor):  # type: ignore[misc]
    """Leaves one token possible at each step: the next of the request's answer."""

    def __init__(self, vllm_config: VllmConfig, device: torch.device, is_pin_memory: bool) -> None:
        self._speeches: dict[int, _Speech] = {}

    def is_argmax_invariant(self) -> bool:
        return False

    def update_state(self, batch_update: BatchUpdate | None) -> None:
        if batch_update is None:
            return
        for index in batch_update.removed:
            self._speeches.pop(index, None)
        for index, parameters, _, said in batch_update.added:
            self._speeches.pop(index, None)
            if answer := (parameters.extra_args or {}).get("answer_ids"):
                self._speeches[index] = _Speech([int(token) for token in answer], said)
        for source, target, direction in batch_update.moved:
            moved, other = self._speeches.pop(source, None), self._speeches.pop(target, None)
            if moved is not None:
                self._speeches[target] = moved
            if other is not None and direction.name == "SWAP":
                self._speeches[source] = other

    def apply(self, logits: torch.Tensor) -> torch.Tensor:
        for index, speech in self._speeches.items():
            at = len(speech.said)
            if at < len(speech.answer):
                token = speech.answer[at]
                logits[index, :] = float("-inf")
                logits[index, token] = 0.0
        return logits
