"""Kinds of answers, and what is known of how each is written and printed."""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import product

from jinja2 import nodes

from templatefix.chat.answer import Answer, ToolCall
from templatefix.chat.battery import TOOLS
from templatefix.patching.ladder.fold_place import Place
from templatefix.patching.ladder.rebuild_place import Region
from templatefix.render.trace import Piece

#: Alphanumeric, so that no filter changes them; nobody writes them in a chat.
REASONING, CONTENT, LEAF = "Zq9reasoning9qZ", "Zq9content9qZ", "Zq9leaf9qZ"
CALLS = tuple(
    ToolCall(str(tool["function"]["name"]), f'{{"place": "{LEAF}{i}", "days": 90}}')
    for i, tool in enumerate(TOOLS)
)


@dataclass(frozen=True)
class Kind:
    """Which fields an answer has."""

    thought: bool
    words: bool
    called: bool
    many: bool = False

    @property
    def answer(self) -> Answer:
        calls = CALLS if self.many else CALLS[:1] if self.called else ()
        return Answer(
            REASONING if self.thought else None, CONTENT if self.words else None, tuple(calls)
        )


KINDS = tuple(
    Kind(*fields)
    for fields in product((False, True), repeat=4)
    if any(fields[:3]) and (fields[2] or not fields[3])
)


@dataclass(frozen=True)
class Case:
    """An answer of one kind at one place.

    ``known``: it is known what a model writes there. That is, with marks for the texts, ``before``
    the calls and ``after`` them; without calls all is ``before``. ``after`` goes on with what
    history prints after the answer. ``spelling`` is the text between the name of a call and its
    arguments, and between two calls, where the template's own loop does not print them so.
    ``around`` are the texts that a parser leaves around reasoning and around content. ``tail`` is
    what the prompt prints after the messages.
    """

    place: Place
    kind: Kind
    known: bool
    before: str = ""
    after: str = ""
    spelling: tuple[str, str] | None = None
    around: tuple[tuple[str, str], tuple[str, str]] = (("", ""), ("", ""))
    tail: str = ""

    def differs_in_calls(self, other: Case) -> bool:
        """Whether two answers differ in nothing but how many calls they have."""
        return (
            self.place is other.place
            and self.kind != other.kind
            and replace(self.kind, many=other.kind.many) == other.kind
        )


@dataclass(frozen=True)
class Evidence:
    """All cases; where past answers are printed; the loop that prints calls as a model does.

    ``pieces`` printed the generation prompts. ``last_differs``: a last answer ends otherwise.
    ``parts``: of the content of a past answer, more than its texts is printed.
    """

    cases: tuple[Case, ...]
    region: Region
    calls: nodes.For | None
    pieces: tuple[Piece, ...]
    last_differs: bool
    parts: bool

    @property
    def known(self) -> tuple[Case, ...]:
        """The known cases of answers that are known with one call as well as with more."""
        unknown = [case for case in self.cases if not case.known]
        return tuple(
            case
            for case in self.cases
            if case.known and not any(case.differs_in_calls(other) for other in unknown)
        )
