"""Tokenizers without a ``tokenizer.json``: read by transformers, when it is installed."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from templatefix.errors import TargetError

from .encoder import Encoder
from .segments import SegmentEncoder


def load_with_transformers(directory: Path, source: str) -> Encoder:
    """The encoder for a directory of slow tokenizer files. Raises ``TargetError``.

    No code from the directory runs, and nothing is fetched.
    """
    try:
        from transformers import AutoTokenizer
    except ImportError as error:
        raise TargetError(
            source,
            "has no tokenizer.json, and transformers is not installed to read its other files",
            "pip install 'templatefix[slow]', or pass --tokenizer with a tokenizer.json",
        ) from error
    try:
        tokenizer: Any = AutoTokenizer.from_pretrained(
            str(directory), trust_remote_code=False, local_files_only=True
        )
    except BaseException as error:
        # Missing files, unknown classes, sentencepiece not installed: all kinds of exceptions.
        if isinstance(error, Exception) or type(error).__name__ == "PanicException":
            first_line = (str(error).strip() or type(error).__name__).splitlines()[0]
            raise TargetError(
                source,
                f"has no tokenizer.json, and transformers cannot read its files: {first_line}",
                "pass --tokenizer with a path or a hub id that has a tokenizer.json",
            ) from error
        raise
    backend = getattr(tokenizer, "backend_tokenizer", None)
    if backend is not None:
        return SegmentEncoder(backend, source)
    return SlowEncoder(tokenizer, source)


class SlowEncoder:
    """An :class:`~.encoder.Encoder` over a Python tokenizer: whole texts, each encoded once."""

    approximate = False

    def __init__(self, tokenizer: Any, source: str) -> None:
        self.source = source
        self.characters_encoded = 0
        self._tokenizer = tokenizer
        self._known: dict[str, list[int]] = {}
        self._added: dict[str, int] = dict(tokenizer.get_added_vocab())
        self._added_text = {token_id: text for text, token_id in self._added.items()}

    def encode(self, text: str) -> list[int]:
        text = text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
        if text not in self._known:
            self.characters_encoded += len(text)
            try:
                ids = self._tokenizer.encode(text, add_special_tokens=False)
            except Exception as error:
                raise TargetError(
                    self.source, f"the tokenizer failed to encode a text: {error}"
                ) from error
            self._known[text] = list(ids)
        return list(self._known[text])

    def encode_continuation(self, text: str) -> list[int]:
        anchor = self.encode("\n")
        joint = self.encode("\n" + text)
        return joint[len(anchor) :] if joint[: len(anchor)] == anchor else self.encode(text)

    def token_text(self, token_id: int) -> str:
        if token_id in self._added_text:
            return self._added_text[token_id]
        if not 0 <= token_id < len(self._tokenizer):
            return ""
        spelling = self._tokenizer.convert_ids_to_tokens(token_id)
        return str(self._tokenizer.convert_tokens_to_string([spelling])) if spelling else ""

    def decode(self, token_ids: Sequence[int]) -> str:
        return str(
            self._tokenizer.decode(
                list(token_ids), skip_special_tokens=False, clean_up_tokenization_spaces=False
            )
        )

    def token_id(self, text: str) -> int | None:
        if text in self._added:
            return self._added[text]
        token_id = self._tokenizer.get_vocab().get(text)
        return token_id if isinstance(token_id, int) else None

    def special_tokens(self) -> frozenset[str]:
        return frozenset(self._added)
