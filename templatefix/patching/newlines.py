"""The newlines of a patched template: those of the file that it was made from."""

from __future__ import annotations

import re
from collections import Counter
from difflib import SequenceMatcher

#: Line breaks as Jinja counts them; a last line may end without one.
_LINE = re.compile(r"([^\r\n]*)(\r\n|\r|\n|\Z)")


def with_newlines_of(original: str, patched: str) -> str:
    r"""The patched template, whose newlines are ``\n``, with those that the original has.

    Lines that are new end as most lines of the original do.

    >>> with_newlines_of("a\r\nb\r\n", "a\nc\nb\n")
    'a\r\nc\r\nb\r\n'
    """
    if "\r" not in original:
        return patched
    before, after = _lines(original), _lines(patched)
    usual = Counter(ending for _, ending in before if ending).most_common(1)[0][0]
    endings = [usual if ending else "" for _, ending in after]
    matcher = SequenceMatcher(
        None, [body for body, _ in before], [body for body, _ in after], autojunk=False
    )
    for old, new, size in matcher.get_matching_blocks():
        for offset in range(size):
            if endings[new + offset]:
                endings[new + offset] = before[old + offset][1] or usual
    return "".join(body + ending for (body, _), ending in zip(after, endings, strict=True))


def _lines(text: str) -> list[tuple[str, str]]:
    """Bodies and endings; the empty match at the end of the text is no line."""
    found = [(match[1], match[2]) for match in _LINE.finditer(text)]
    return [(body, ending) for body, ending in found if body or ending]
