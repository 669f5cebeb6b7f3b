"""The tokenizer of a running vLLM, for targets that come without their own."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from templatefix.errors import TargetError
from templatefix.render import Crashed, Refused
from templatefix.render.remote import Remote
from templatefix.tokens.fallback import special_token_shapes

#: Ends in a way that no token of a usual text goes beyond.
_CARRIER = "\n\n\n"


class ServedEncoder:
    """Encodes and decodes through ``/tokenize`` and ``/detokenize``, each text once."""

    approximate = False

    def __init__(self, remote: Remote) -> None:
        self._remote = remote
        self.source = f"of {remote.name}"
        self.characters_encoded = 0
        self._ids: dict[str, list[int]] = {}
        self._texts: dict[tuple[int, ...], str] = {}
        self._special: set[str] = set()
        self._unspelled: dict[str, int] = {}

    def encode(self, text: str) -> list[int]:
        if self._unspelled:
            return [each for part in self._parts(text) for each in self._encoded(part)]
        return self._encoded(text)

    def _encoded(self, text: str) -> list[int]:
        if text in self._unspelled:
            return [self._unspelled[text]]
        known = self._ids.get(text)
        if known is None:
            self.characters_encoded += len(text)
            try:
                known = self._ids[text] = self._remote.tokenize(text) if text else []
            except (Refused, Crashed) as fault:
                raise self._unusable("/tokenize", fault) from fault
        return list(known)

    def _parts(self, text: str) -> list[str]:
        """The text cut around the special tokens that no text is encoded to."""
        longest_first = sorted(self._unspelled, key=len, reverse=True)
        pattern = "|".join(map(re.escape, longest_first))
        return [part for part in re.split(f"({pattern})", text) if part]

    def encode_continuation(self, text: str) -> list[int]:
        """The ids after a carrier that keeps dummy spaces away, where the two do not merge."""
        carrier, joint = self.encode(_CARRIER), self.encode(_CARRIER + text)
        if joint[: len(carrier)] == carrier:
            return joint[len(carrier) :]
        return self.encode(text)

    def token_text(self, token_id: int) -> str:
        try:
            return self._decoded((token_id,))
        except (Refused, Crashed):
            return ""

    def decode(self, token_ids: Sequence[int]) -> str:
        try:
            return self._decoded(tuple(token_ids))
        except (Refused, Crashed) as fault:
            raise self._unusable("/detokenize", fault) from fault

    def token_id(self, text: str) -> int | None:
        ids = self.encode(text)
        return ids[0] if len(ids) == 1 else None

    def special_tokens(self) -> frozenset[str]:
        """Those that were looked for: the server does not list them."""
        return frozenset(self._special)

    def look_for_special_tokens(self, texts: Iterable[str], ids: Iterable[int] = ()) -> None:
        """Take for special what has the shape of it in prompts and is a single token.

        Some tokenizers (Mistral's) encode no text to a special token. Those are found among the
        ``ids`` of the prompts.
        """
        shapes = special_token_shapes(texts)
        self._special.update(shape for shape in shapes if self.token_id(shape) is not None)
        missing = set(shapes) - self._special
        for token_id in sorted(set(ids)) if missing else ():
            text = self.token_text(token_id)
            if text in missing:
                missing.remove(text)
                self._special.add(text)
                self._unspelled[text] = token_id
            if not missing:
                break

    def _decoded(self, token_ids: tuple[int, ...]) -> str:
        known = self._texts.get(token_ids)
        if known is None:
            known = self._remote.detokenize(token_ids) if token_ids else ""
            self._texts[token_ids] = known
        return known

    def _unusable(self, path: str, fault: Refused | Crashed) -> TargetError:
        return TargetError(
            self._remote.url, f"{path} fails: {fault.message}", "give the model's --tokenizer"
        )
