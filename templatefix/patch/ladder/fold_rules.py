"""Where a model's answer differs from the original's own rendering of it, and how to mend that."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from itertools import product

from templatefix.chat.answer import Answer, ToolCall
from templatefix.chat.battery import TOOLS
from templatefix.chat.conversation import assistant_message
from templatefix.chat.present import Unpresentable
from templatefix.dialect.author import Unspoken
from templatefix.patch.bench import Bench
from templatefix.patch.ladder.fold_place import Place
from templatefix.patch.ladder.fold_text import CONTENT, REASONING, Calls, Rule, literal
from templatefix.prefix import common_prefix
from templatefix.render import Crashed, Refused

_LEAF = "Zq9leaf9qZ"
_NAMES = tuple(str(tool["function"]["name"]) for tool in TOOLS)
_CALLS = tuple(ToolCall(name, f'{{"place": "{_LEAF}{i}"}}') for i, name in enumerate(_NAMES))

#: Which fields an answer has: reasoning, content, tool calls.
_Fields = tuple[bool, bool, bool]
_TESTS = ("fold_thought", "fold_words", "fold_message.tool_calls")


@dataclass(frozen=True)
class _Case:
    """What the original prints for an answer of some fields, and what the model writes."""

    fields: _Fields
    tail: str
    extends: bool
    before: str
    after: str
    calls: bool


def rules_of(bench: Bench, places: Iterable[Place]) -> tuple[tuple[Rule, ...], Calls | None]:
    """The rules for all kinds of answers, and the spelling of calls that some of them need."""
    cases: dict[_Case, None] = {}
    calls = None
    for place in places:
        for fields in product((False, True), repeat=3):
            if not (fields[1] or fields[2]) or (fields[2] and not place.tools):
                continue
            case = _case(bench, place, fields)
            if case is None:
                continue
            if case.calls:
                found = _spelling(bench, place, fields[0])
                if found is None:
                    continue
                calls = calls or found
            cases[case] = None
    return tuple(_rules(list(cases))), calls


def _answer(fields: _Fields, calls: tuple[ToolCall, ...] = _CALLS[:1]) -> Answer:
    thought, words, called = fields
    return Answer(
        REASONING if thought else None, CONTENT if words else None, calls if called else ()
    )


def _case(bench: Bench, place: Place, fields: _Fields) -> _Case | None:
    """None where the model never gives such an answer, or what it writes is not known."""
    written = _written(bench, place, _answer(fields))
    if written is None:
        return None
    view = _view(bench, place, _answer(fields))
    extends = view.startswith(place.prompt)
    if not extends and not view.startswith(place.bare):
        return None
    shown = view[len(place.prompt if extends else place.bare) :]
    anchor = CONTENT if fields[1] and CONTENT in shown else _LEAF
    if anchor in shown:
        before, after = shown.partition(anchor)[0], written.partition(anchor)[0]
        same = _common_suffix(before, after)
        before, after = before[: len(before) - same], after[: len(after) - same]
        named = fields[2] and any(name in before + after for name in _NAMES)
        if not named and (after + shown[len(before) :]).startswith(written):
            return _Case(fields, place.tail, extends, before, after, False)
    if not fields[2]:
        return None
    lead = written.partition(CONTENT)[0] + CONTENT if fields[1] else ""
    if fields[0] and not fields[1]:
        silent = _written(bench, place, _answer((True, True, False)))
        lead = (silent or "").partition(CONTENT)[0]
    return _Case(fields, place.tail, extends, "", lead, True)


def _spelling(bench: Bench, place: Place, thought: bool) -> Calls | None:
    """How the model writes one call and two."""
    one = _written(bench, place, _answer((thought, True, True)), stop=True)
    two = _written(bench, place, _answer((thought, True, True), _CALLS), stop=True)
    if one is None or two is None:
        return None
    arguments = [call.arguments for call in _CALLS]
    if any(text not in two for text in (*arguments, *_NAMES)) or arguments[0] not in one:
        return None
    rest = two.partition(CONTENT)[2]
    first, _, rest = rest.partition(_NAMES[0])
    middle, _, rest = rest.partition(arguments[0])
    following, _, rest = rest.partition(_NAMES[1])
    again, _, last = rest.partition(arguments[1])
    ending = one.partition(arguments[0])[2]
    return Calls(first, middle, following, last) if again == middle and ending == last else None


def _written(bench: Bench, place: Place, answer: Answer, *, stop: bool = False) -> str | None:
    try:
        completion = bench.subject.author.completion(
            place.messages, place.tools, place.kwargs, answer
        )
    except Unspoken:
        return None
    written = completion.written
    if written is None:
        return None
    return written.text if stop else written.text[: written.stop[0]]


def _view(bench: Bench, place: Place, answer: Answer) -> str:
    """The original's rendering of a last answer; empty where it fails."""
    ids = bench.subject.author.parsers.call_ids(answer.tool_calls, place.messages)
    conversation = [*place.messages, assistant_message(answer, ids)]
    try:
        return bench.subject.server.prompt(
            conversation, place.tools, place.kwargs, generation_prompt=False
        )
    except (Refused, Crashed, Unpresentable):
        return ""


def _rules(cases: list[_Case]) -> Iterable[Rule]:
    """The cases as rules, each with the shortest condition that tells it from the others."""
    done: set[tuple[object, ...]] = set()
    for case in cases:
        if not case.calls and not case.before and not case.after:
            continue
        others = [
            other
            for other in cases
            if other.extends == case.extends and _change(other) != _change(case)
        ]
        tests = []
        left = others
        for position, test in enumerate(_TESTS):
            clash = [other for other in left if other.fields[position] != case.fields[position]]
            if clash or (position == 0 and REASONING in case.after and REASONING not in case.before):
                tests.append(test if case.fields[position] else f"not {test}")
                left = [other for other in left if other not in clash]
        if any(other.tail != case.tail for other in left):
            tests.append(f"fold_prompt.endswith({literal(case.tail)})")
        rule = Rule(" and ".join(tests), case.before, case.after, case.extends, case.calls)
        key = (rule.condition, rule.before, rule.extends)
        if key not in done:
            done.add(key)
            yield rule


def _change(case: _Case) -> tuple[str, str, bool]:
    return case.before, case.after, case.calls


def _common_suffix(a: str, b: str) -> int:
    return common_prefix(a[::-1], b[::-1])


def early(bench: Bench, place: Place) -> bool:
    """Whether the model writes whitespace before it opens its reasoning."""
    written = _written(bench, place, _answer((True, True, False))) or ""
    return written.startswith("\n")
