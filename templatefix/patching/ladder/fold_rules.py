"""Where a model's answer differs from the original's own rendering of it, and how to mend that."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from itertools import product
from typing import Literal

from templatefix.chat.answer import Answer, ToolCall
from templatefix.chat.battery import TOOLS
from templatefix.patching.bench import Bench
from templatefix.patching.ladder.fold_place import Place, Speaker
from templatefix.patching.ladder.fold_text import CONTENT, REASONING, Rule
from templatefix.patching.proposals.text import ends
from templatefix.prefix import common_prefix

_LEAF, _RESULT = "Zq9leaf9qZ", "Zq9result9qZ"
_NAMES = tuple(str(tool["function"]["name"]) for tool in TOOLS)
#: Arguments that no scenario has, so that the layout of these calls is learned afresh.
_CALLS = tuple(
    ToolCall(name, f'{{"place": "{_LEAF}{i}", "days": 90}}') for i, name in enumerate(_NAMES)
)

#: Which fields an answer has: reasoning, content, tool calls, more than one of these.
_Fields = tuple[bool, bool, bool, bool]
_ANY = (False, True)
_TESTS = ("fold_thought", "fold_words", "fold_calls", "fold_calls | length > 1")


@dataclass(frozen=True)
class _Change:
    kind: Literal["swap", "front", "calls", "whole"]
    before: str
    after: str
    spelling: tuple[str, str, str] = ("", "", "")

    @property
    def none(self) -> bool:
        return self.kind == "swap" and self.before == self.after == ""


@dataclass(frozen=True)
class _Case:
    """What becomes of an answer of some fields after prompts that end alike."""

    fields: _Fields
    tail: str
    view: Literal["extends", "follows", "unusable"]
    change: _Change


def rules_of(bench: Bench, places: Iterable[Place]) -> tuple[Rule, ...]:
    """The rules for all kinds of answers."""
    cases: dict[_Case, None] = {}
    speaker = Speaker(bench)
    for place in places:
        for fields in product(_ANY, _ANY, _ANY, _ANY):
            if not any(fields) or (fields[3] and not fields[2]):
                continue
            if fields[2] and not place.tools:
                continue
            case = _case(speaker, place, fields)
            if case is None:
                continue
            thinks = place.state in ("opened", "free")
            dropped = bench.policy == "lossless" and thinks and not case.fields[0]
            if dropped and case.change.kind == "calls":
                # A client that drops reasoning is shown the calls as it was shown them before.
                case = replace(case, change=_Change("swap", "", ""))
            cases[case] = None
    return tuple(_rules(list(cases)))


def prints_behind(bench: Bench, places: Iterable[Place]) -> bool:
    """Whether the content of an answer with calls is printed behind the results of the calls.

    Or is no longer printed once they are answered.
    """
    speaker = Speaker(bench)
    answer = Answer(None, CONTENT, _CALLS[:1])
    for place in places:
        if not place.tools:
            continue
        (call_id,) = speaker.call_ids(place, answer)
        result = {"role": "tool", "tool_call_id": call_id, "name": _NAMES[0], "content": _RESULT}
        view = speaker.view(place, answer, [result])
        if CONTENT in view.partition(_RESULT)[2]:
            return True
        answered = speaker.view(place, answer, [result, {"role": "assistant", "content": _LEAF}])
        if CONTENT in view and _LEAF in answered and CONTENT not in answered:
            return True
    return False


def _answer(fields: _Fields) -> Answer:
    thought, words, called, many = fields
    calls = _CALLS if many else _CALLS[:1] if called else ()
    return Answer(REASONING if thought else None, CONTENT if words else None, calls)


def _case(speaker: Speaker, place: Place, fields: _Fields) -> _Case | None:
    """None where the model never gives such an answer, or what it writes is not known."""
    answer = _answer(fields)
    written = speaker.written(place, answer)
    if written is None:
        return None
    view = speaker.view(place, answer)
    known = place.prompt if view.startswith(place.prompt) else place.bare
    change = None
    if view.startswith(known):
        change = _swap(view[len(known) :], written, fields)
        change = change or _front(view[len(known) :], written, fields)
    if change is None:
        change = _anew(speaker, place, fields)
    if change is None:
        return None
    if not view.startswith(known):
        return _Case(fields, place.tail, "unusable", change)
    return _Case(fields, place.tail, "extends" if known == place.prompt else "follows", change)


def _swap(shown: str, written: str, fields: _Fields) -> _Change | None:
    """The change at the start of ``shown`` that makes it begin with ``written``."""
    anchor = CONTENT if fields[1] and CONTENT in shown else _LEAF if fields[2] else REASONING
    if anchor not in shown:
        return None
    before, after = shown.partition(anchor)[0], written.partition(anchor)[0]
    same = common_prefix(before[::-1], after[::-1])
    before, after = before[: len(before) - same], after[: len(after) - same]
    if any(name in before + after for name in _NAMES):
        return None
    if not (after + shown[len(before) :]).startswith(written):
        return None
    return _Change("swap", before, after)


def _front(shown: str, written: str, fields: _Fields) -> _Change | None:
    """The change that also puts the content before the calls, where it is shown after them."""
    if not (fields[1] and fields[2]) or CONTENT not in shown.partition(_LEAF)[2]:
        return None
    found = _swap(shown.replace(CONTENT, "", 1), written, (fields[0], False, True, fields[3]))
    return None if found is None else replace(found, kind="front")


def _anew(speaker: Speaker, place: Place, fields: _Fields) -> _Change | None:
    """The whole answer, written without the original."""
    thought, words, called, many = fields
    if not called:
        text = speaker.written(place, _answer(fields), stop=True)
        return None if text is None else _Change("whole", "", text)
    two = speaker.written(place, _answer((thought, words, True, True)), stop=True)
    arguments = [call.arguments for call in _CALLS]
    if two is None or any(text not in two for text in (*arguments, *_NAMES)):
        return None
    first, _, rest = two.partition(_NAMES[0])
    middle, _, rest = rest.partition(arguments[0])
    following, _, rest = rest.partition(_NAMES[1])
    again, _, last = rest.partition(arguments[1])
    if again != middle:
        return None
    one = speaker.written(place, _answer((thought, words, True, False)), stop=True) or ""
    said = speaker.written(place, _answer((thought, words, True, False))) or ""
    if not many and one != first + _NAMES[0] + middle + arguments[0] + last:
        return None
    # A call that the original prints by itself tells with which stop token calls end.
    several = speaker.written(place, _answer((thought, words, True, True))) or ""
    if one.startswith(said) and two.startswith(several):
        last = last.removesuffix(two[len(several) :]) + one[len(said) :]
    return _Change("calls", "", first, (middle, following, last))


def _rules(cases: list[_Case]) -> Iterator[Rule]:
    """The cases as rules, each with the shortest condition that tells it from the others."""
    done: set[tuple[object, ...]] = set()
    # The first rule that holds counts: a prompt that ends in a tail ends in that tail's end, too.
    for case in sorted(cases, key=lambda case: _ends_another(case.tail, cases)):
        change = case.change
        if change.none:
            continue
        left = [o for o in cases if o.view == case.view and o.change != change]
        tests = []
        for position, test in enumerate(_TESTS):
            clash = [other for other in left if other.fields[position] != case.fields[position]]
            needed = (REASONING, CONTENT, "", "")[position]
            adds = bool(needed) and needed in change.after and needed not in change.before
            if clash or adds or (position == 2 and change.kind == "calls"):
                tests.append(test if case.fields[position] else f"not {test}")
                left = [other for other in left if other not in clash]
        if case.tail and any(other.tail != case.tail for other in left):
            tests.append(ends("fold_prompt", case.tail))
        rule = Rule(
            case.view,
            " and ".join(tests),
            change.kind,
            change.before,
            change.after,
            change.spelling,
        )
        key = (rule.view, rule.condition, rule.before)
        if key not in done:
            done.add(key)
            yield rule


def _ends_another(tail: str, cases: Iterable[_Case]) -> bool:
    return any(case.tail != tail and case.tail.endswith(tail) for case in cases)
