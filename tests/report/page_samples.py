"""Reports with all that a page shows, made by hand; and what a page's markup holds."""

from __future__ import annotations

from dataclasses import fields, is_dataclass, replace
from html.parser import HTMLParser
from typing import Any

from templatefix.findings.finding import Streams, Token
from templatefix.findings.outcome import Report
from templatefix.findings.repair import ClauseOutcome, Remaining, RepairReport, Trade
from templatefix.findings.run_outcome import TurnRow
from tests.report.samples import SOURCE, finding, info, report, run

SHIPPED = (
    TurnRow(1, 36, 72, None, None, None, None),
    TurnRow(2, 75, 108, 72, 35, 32, 64, 54, 16),
    TurnRow(3, 104, 140, 108, 74, 64, 96, 86, 16),
    TurnRow(4, 140, 168, 140, 103, 96, 128, 121, 16),
)
PATCHED = (
    TurnRow(1, 36, 72, None, None, None, None),
    TurnRow(2, 93, 126, 72, 72, 64, 64, 72, 0),
    TurnRow(3, 144, 180, 126, 126, 112, 112, 126, 0),
    TurnRow(4, 199, 227, 180, 180, 176, 176, 180, 0),
)
_LIMIT = "loop.index0 > last_question"


def token(text: str, number: int = 7, *, special: bool = False) -> Token:
    return Token(number, text, special)


def streams(**changes: Any) -> Streams:
    made = Streams(
        12,
        (token("<|im_start|>", 151644, special=True), token("assistant"), token("\n", 198)),
        (
            (token("<think>", 151667, special=True), None),
            (token("\n\n", 271), None),
            (token("</think>", 151668, special=True), None),
            (token("Porto", 9), token("Porto", 9)),
            (token(" lies there", 10), token(" lies there", 10)),
            (None, token("!", 0)),
        ),
        (token("\n", 198), token("<|im_start|>", 151644, special=True)),
        (3, 40),
    )
    return replace(made, **changes)


def repaired(**changes: Any) -> RepairReport:
    made = RepairReport(
        "models/small.jinja",
        "models/small.jinja",
        None,
        "keep-reasoning",
        16,
        "patched",
        "ab" * 32,
        SOURCE,
        SOURCE.replace(_LIMIT, f"{_LIMIT} or message.reasoning is defined"),
        rung=2,
        changes=("line 3: {%- if loop.index0 > last_question or message.reasoning is defined %}",),
        clauses=(ClauseOutcome("C1", True, 40), ClauseOutcome("C2", True, 61, ("a note",))),
        examples=60,
        broken=19,
        excluded=2,
        remaining=(Remaining("TF110", "info", True, "another mode", "r9", 1, 2, 16, True, "why"),),
        trades=(Trade({"enable_thinking": True}, 18, 550, 284),),
        runs=(run(preserving=True, turns=PATCHED),),
    )
    return replace(made, **changes)


def full(**changes: Any) -> Report:
    """A template that breaks, with a finding of each kind and a repair."""
    made = report(
        runs=(run(turns=SHIPPED), run("r2", preserving=True, scenario="plain-chat")),
        findings=(finding(streams=streams(), explanation="`x > 1` was true"), info()),
        repairs=(repaired(),),
    )
    return replace(made, **changes)


def with_texts(value: Any, text: str) -> Any:
    """A value with the text in place of every free text in it, keys of mappings among them."""
    if is_dataclass(value) and not isinstance(value, type):
        return replace(value, **{n: with_texts(v, text) for n, v in _free(value)})
    if isinstance(value, dict):
        return {text if isinstance(k, str) else k: with_texts(v, text) for k, v in value.items()}
    if isinstance(value, tuple):
        return tuple(with_texts(each, text) for each in value)
    return text if isinstance(value, str) else value


#: What the program itself chooses from a fixed set.
_OURS = frozenset("severity confidence verdict status by role policy client replay id".split())


def _free(value: Any) -> list[tuple[str, Any]]:
    return [(f.name, getattr(value, f.name)) for f in fields(value) if f.name not in _OURS]


class Markup(HTMLParser):
    """The elements of a page. Raises AssertionError where they do not nest, or an id is not one."""

    _VOID = frozenset("meta link input br hr img rect line".split())

    def __init__(self, text: str) -> None:
        super().__init__()
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.texts: list[str] = []
        self._open: list[str] = []
        self.feed(text)
        self.close()
        assert not self._open, self._open
        ids = self.attributes("id")
        assert len(ids) == len(set(ids)), "an id is there twice"
        named = [*self.attributes("aria-labelledby"), *self.attributes("aria-describedby")]
        named += self.attributes("for")
        named += [h[1:] for h in self.attributes("href") if h.startswith("#")]
        assert {each for name in named for each in name.split()} <= set(ids)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))
        assert len(dict(attrs)) == len(attrs), f"{tag} has an attribute twice"
        if tag not in self._VOID:
            self._open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))

    def handle_endtag(self, tag: str) -> None:
        assert self._open, f"</{tag}> closes nothing"
        assert self._open.pop() == tag, f"</{tag}> closes another element"

    def handle_data(self, data: str) -> None:
        self.texts.append(data)

    def attributes(self, name: str) -> list[str]:
        return [value for _, named in self.elements if (value := named.get(name)) is not None]

    def count(self, tag: str, **attributes: str) -> int:
        """Elements of a name with these attributes; ``class_`` may be one of several classes."""
        wanted = attributes.pop("class_", None)
        return sum(
            name == tag
            and attributes.items() <= named.items()
            and (wanted is None or wanted in (named.get("class") or "").split())
            for name, named in self.elements
        )

    @property
    def text(self) -> str:
        return "".join(self.texts)
