"""TF204: the header that every answer begins with becomes the generation prompt."""

from __future__ import annotations

from collections.abc import Iterator

from templatefix.chat.answer import Answer
from templatefix.chat.present import Unpresentable
from templatefix.checking.subject import GREETING
from templatefix.dialect.author import Unspoken
from templatefix.patching.contract.exam import Outcome
from templatefix.patching.edits import Edit
from templatefix.patching.fixes.ground import Case, Ground, Proposal
from templatefix.patching.proposals.text import literal
from templatefix.render import Crashed, Refused

_WORDS = "the header of an answer is printed where a generation prompt is asked for"


def leave(ground: Ground, case: Case, after: Outcome) -> bool:
    """Where a generation prompt is asked for, the header of answers is added at the end."""
    header = _header(ground)
    if not case.input.generation_prompt or case.outcome.text is None or header is None:
        return False
    return after.text == case.outcome.text + header


def proposals(ground: Ground) -> Iterator[Proposal]:
    header = _header(ground)
    if header is None:
        return
    source = ground.source
    # The last newline of a template is not printed: it stays the last.
    end = len(source) - source.endswith("\n")
    text = literal(header)
    tag = f"{{% if add_generation_prompt %}}{{{{- {text} }}}}{{% endif %}}"
    gap = "\n" if "\n" in source[:end] else ""
    for spelled in (f"{gap}{tag.replace('{% if', '{%- if', 1)}", tag):
        yield Proposal((Edit(end, end, spelled),), _WORDS)
    printed = f"{{{{ {text} if add_generation_prompt else '' }}}}"
    yield Proposal((Edit(end, end, printed),), _WORDS)


def _header(ground: Ground) -> str | None:
    """What stands before the text of an answer to a greeting."""
    author = ground.subject.author
    try:
        completion = author.completion(GREETING, None, {}, Answer(None, "A city."))
    except (Unspoken, Unpresentable, Refused, Crashed):
        return None
    written = completion.written
    if written is None or written.content is None:
        return None
    return written.text[: written.content[0]] or None
