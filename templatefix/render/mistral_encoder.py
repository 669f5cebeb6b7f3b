"""Prompts of Mistral's own tokenizer files by ``mistral_common``, as vLLM 0.32 asks for them.

Source: vLLM's ``tokenizers/mistral.py`` and the backend of transformers behind it, which hand a
chat request to the library unchanged, in the validation mode of its tests.
"""

from __future__ import annotations

import importlib.metadata
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from templatefix.render.protocol import Crashed, Refused
from templatefix.render.remote import Message


class MistralEncoder:
    """Renders chat requests; it has no parsers of its own.

    Raises ``ImportError`` where the library is not installed and ``OSError`` where it cannot read
    ``file``.
    """

    url = "mistral-common"
    model = "mistral"

    def __init__(self, file: Path) -> None:
        from mistral_common import exceptions
        from mistral_common.protocol.instruct.request import ChatCompletionRequest
        from mistral_common.protocol.instruct.validator import ValidationMode
        from mistral_common.tokens.tokenizers.base import SpecialTokenPolicy
        from mistral_common.tokens.tokenizers.mistral import MistralTokenizer

        self._request = ChatCompletionRequest
        self._refusals = (exceptions.MistralCommonException, AssertionError, ValueError)
        self._keep = SpecialTokenPolicy.KEEP
        try:
            self._chat = MistralTokenizer.from_file(str(file), mode=ValidationMode.test)
        except (*self._refusals, KeyError, TypeError) as error:
            raise OSError(f"mistral-common cannot read it: {error}") from error
        self._words = self._chat.instruct_tokenizer.tokenizer

    @property
    def name(self) -> str:
        return f"mistral-common {importlib.metadata.version('mistral-common')}"

    def render(
        self,
        messages: Sequence[Message],
        tools: Sequence[Message] | None,
        kwargs: Mapping[str, Any],
        *,
        generation_prompt: bool = True,
    ) -> list[int]:
        """The prompt's ids. As in vLLM, kwargs and ``generation_prompt`` change nothing."""
        if messages and messages[-1].get("role") == "assistant" and generation_prompt:
            raise Refused("the last message is an answer, and none is to be generated after it")
        try:
            request: Any = self._request.from_openai(
                messages=[dict(each) for each in messages],
                tools=[dict(each) for each in tools] if tools else None,
            )
            return list(self._chat.encode_chat_completion(request).tokens)
        except self._refusals as error:
            raise Refused(str(error)) from error
        except (KeyError, TypeError, AttributeError) as error:
            raise Crashed(type(error).__name__, str(error)) from error

    def derender(
        self,
        messages: Sequence[Message],
        tools: Sequence[Message] | None,
        kwargs: Mapping[str, Any],
        prompt_ids: Sequence[int],
        completion_ids: Sequence[int],
        *,
        cut: bool = False,
    ) -> None:
        return None

    def tokenize(self, text: str) -> list[int]:
        return list(self._words.encode(text, bos=False, eos=False))

    def detokenize(self, token_ids: Sequence[int]) -> str:
        return str(self._words.decode(list(token_ids), special_token_policy=self._keep))
