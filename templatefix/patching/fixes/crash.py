"""TF203: an expression that fails on what may be missing, or of another type, is guarded."""

from __future__ import annotations

from collections.abc import Iterator

from jinja2 import nodes

from templatefix.chat.server import Server
from templatefix.findings.printed import lost
from templatefix.patching.contract.exam import Outcome
from templatefix.patching.edits import Edit, apply
from templatefix.patching.fixes.ground import Case, Ground, Proposal, crashes
from templatefix.patching.fixes.place import atom, near_line
from templatefix.render import Crashed, Refused, SyntaxFault
from templatefix.syntax import Template

#: What stands for a value that is not there, by what is done with it.
_TEXT, _LIST, _MAPPING = "''", "[]", "{}"

#: Failing requests that every guard is tried on.
SAMPLE = 6

_PARTS = "{0} if {0} is string else {0} | map(attribute='text') | join"
_JSON = "{0} if {0} is string else {0} | tojson"


def leave(ground: Ground, case: Case, after: Outcome) -> bool:
    """Whatever rendered before stays as it was."""
    return False


def proposals(ground: Ground) -> Iterator[Proposal]:
    """Guards that make the first kind of crash go away; those that lose no text of it first."""
    failing = list(crashes(ground))
    if not failing:
        return
    kind = (failing[0].outcome.crash, failing[0].line)
    same = [case for case in failing if (case.outcome.crash, case.line) == kind]
    template = ground.subject.parsed
    if kind[1] is None:
        return
    ranked: list[tuple[int, int, Proposal]] = []
    for number, proposal in enumerate(guards(template, kind[1])):
        worth = _worth(ground, proposal, same)
        if worth is not None:
            ranked.append((worth, number, proposal))
    ranked.sort(key=lambda each: each[:2])
    yield from (proposal for _, _, proposal in ranked)


def _worth(ground: Ground, proposal: Proposal, same: list[Case]) -> int | None:
    """How many of the failing requests lose something now; None where one fails as before."""
    try:
        server = ground.server(apply(ground.source, proposal.edits))
    except SyntaxFault:
        return None
    losing = 0
    for case in same[:SAMPLE]:
        after, line = again(case, server)
        if after.crash is not None and (line in (None, case.line) or _is_endless(after.crash)):
            return None  # the guard has led to nothing but another error
        if after.text is None:
            # It fails elsewhere now, or refuses: the next step's business.
            losing += 1
        elif lost(case.input.messages, after.text) is not None:
            losing += 1
    return losing


def _is_endless(crash: str) -> bool:
    """Whether a macro calls itself for ever now, on a value that stands for nothing."""
    return crash.startswith("RecursionError")


def again(case: Case, server: Server) -> tuple[Outcome, int | None]:
    """What comes of an input under another template, and the line where it crashes."""
    try:
        return Outcome(case.render(server, case.input)), None
    except Refused as refused:
        return Outcome(refusal=refused.message), None
    except Crashed as crashed:
        return Outcome(crash=str(crashed)), crashed.line


def guards(template: Template, line: int) -> Iterator[Proposal]:
    """One expression guarded, or all of the line that read the same."""
    found: dict[tuple[str, str], list[Edit]] = {}
    seen = set()
    for node in near_line(template, line):
        span = template.outer_span(node)
        if span in seen or isinstance(node, nodes.Const):
            continue
        seen.add(span)
        text = atom(template, node)
        for guarded, why in _variants(template, node, text):
            edit = Edit(span.start, span.end, f"({guarded})")
            words = f"`{' '.join(text.split())}` {why}"
            yield Proposal((edit,), words)
            found.setdefault((guarded, words), []).append(edit)
    for (_, words), edits in found.items():
        if len(edits) > 1:
            yield Proposal(tuple(edits), words)


def _variants(template: Template, node: nodes.Expr, text: str) -> Iterator[tuple[str, str]]:
    """Expressions to put in the place of one, by what its surroundings do with it."""
    place = template.parents[id(node)]
    parent, field = place.parent, place.field
    absent = "may be missing"
    if isinstance(parent, nodes.For):
        if field == "iter":
            yield f"{text} or {_LIST}", absent
        return
    if isinstance(parent, nodes.Filter):
        if field == "node":
            if parent.name == "tojson":
                yield f"{text} | default({_MAPPING})", absent
            yield f"{text} or {_TEXT}", absent
            yield f"{text} or {_LIST}", absent
            yield f"{text} or {_MAPPING}", absent
            yield from _converted(text)
        return
    if isinstance(parent, (nodes.Getattr, nodes.Getitem)) and field == "node":
        above = template.parents[id(parent)]
        called = isinstance(above.parent, nodes.Call) and above.field == "node"
        if called or isinstance(parent, nodes.Getitem):
            yield f"{text} or {_TEXT}", absent
            yield from _converted(text)
        yield f"{text} or {_MAPPING}", absent
        return
    if isinstance(parent, (nodes.BinExpr, nodes.Concat, nodes.Operand, nodes.Compare)):
        if isinstance(parent, (nodes.And, nodes.Or)):
            return
        yield f"{text} or {_TEXT}", absent
        yield from _converted(text)
        return
    if isinstance(parent, nodes.Call) and field != "node":
        yield f"{text} or {_TEXT}", absent


def _converted(text: str) -> Iterator[tuple[str, str]]:
    yield _PARTS.format(text), "may be a list of parts"
    yield _JSON.format(text), "may be no text"
