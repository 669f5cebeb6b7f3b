"""What a fold has to know of a template, found by rendering it."""

from __future__ import annotations

import json

from templatefix.chat.answer import Answer
from templatefix.chat.present import Unpresentable
from templatefix.check.subject import GREETING
from templatefix.patch.bench import Bench
from templatefix.patch.ladder.fold_place import Place, Speaker, places
from templatefix.patch.ladder.fold_rules import rules_of
from templatefix.patch.ladder.fold_text import CONTENT, REASONING, Shape, literal
from templatefix.render import Crashed, Refused


def shape_of(bench: Bench, *, system: bool = True) -> Shape:
    """The shape of the bench's template.

    Without ``system`` it is one whose original prints the instructions with the last question.
    """
    found = list(places(bench, system=system))
    parsers = bench.subject.author.parsers
    return Shape(
        silent=_silent(found),
        close=next((place.tags.close for place in found if place.tags), ""),
        rules=rules_of(bench, found),
        leftovers=_leftovers(bench, found),
        early=_early(bench, found),
        endings=_endings(bench, found),
        stops=bench.subject.author.stops,
        parsed=parsers.reasoning is not None,
        system=system,
        thinking=_thinking(bench),
        drops=bench.policy == "lossless",
        moves=_moves(bench, found),
        refuses="raise_exception" in bench.subject.template.text,
    )


def _silent(found: list[Place]) -> str:
    """A condition that tells the prompts after which a model may answer without reasoning."""
    if all(place.quiet for place in found):
        return "true"
    if not any(place.quiet for place in found):
        return "false"
    for tags in sorted({place.tags for place in found if place.tags}, key=str):
        closed, opened = tags.close.strip(), tags.open.strip()
        if all(place.prompt.rstrip().endswith(closed) == place.quiet for place in found):
            return f"fold_prompt.rstrip().endswith({literal(closed)})"
        if all(place.prompt.rstrip().endswith(opened) != place.quiet for place in found):
            return f"not fold_prompt.rstrip().endswith({literal(opened)})"
    tails = {place.tail for place in found if place.quiet}
    return " or ".join(f"fold_prompt.endswith({literal(tail)})" for tail in sorted(tails))


def _leftovers(bench: Bench, found: list[Place]) -> tuple[tuple[str, str], ...]:
    """What a parser leaves of the layout around the content."""
    speaker = Speaker(bench)
    pairs: dict[tuple[str, str], None] = {}
    for place in found:
        for answer in (Answer(None, CONTENT), Answer(REASONING, CONTENT)):
            content = speaker.replayed(place, answer).content or ""
            before, mark, after = content.partition(CONTENT)
            if mark and (before.strip() or after.strip()) and REASONING not in before:
                pairs[before, after] = None
    return tuple(pairs)


def _endings(bench: Bench, found: list[Place]) -> tuple[str, ...]:
    """What the original prints after the content of a last answer, and of no other."""
    speaker = Speaker(bench)
    endings: dict[str, None] = {}
    for place in found:
        last = speaker.view(place, Answer(None, CONTENT)).partition(CONTENT)[2]
        past = speaker.view(place, Answer(None, CONTENT), GREETING).partition(CONTENT)[2]
        if last and past and not past.startswith(last):
            endings[last] = None
    return tuple(endings)


def _moves(bench: Bench, found: list[Place]) -> bool:
    """Whether a question is printed in another way once an answer and a question follow."""
    speaker = Speaker(bench)
    views = (
        (place, speaker.view(place, Answer(None, CONTENT), GREETING))
        for place in found
        if place.messages[-1]["role"] == "user"
    )
    return any(view and not view.startswith(place.bare) for place, view in views)


def _early(bench: Bench, found: list[Place]) -> bool:
    """Whether the model writes a newline before it opens its reasoning."""
    speaker = Speaker(bench)
    texts = (speaker.written(place, Answer(REASONING, CONTENT)) for place in found)
    return any(text is not None and text.startswith("\n") for text in texts)


def _thinking(bench: Bench) -> tuple[str, str] | None:
    """A kwarg that switches thinking, and an expression of Jinja for the value that turns it on."""
    author, server = bench.subject.author, bench.subject.server
    try:
        default = author.seat(GREETING, None, {})
        for setting in bench.modes.settings:
            if setting.effect != "mode":
                continue
            kwargs = {setting.name: setting.value}
            seat = author.seat(GREETING, None, kwargs)
            thinks = seat.state in ("opened", "free")
            if thinks == (default.state in ("opened", "free")):
                continue
            tags = seat.tags or default.tags
            closed = server.prompt(GREETING, None, {} if thinks else kwargs)
            if tags is not None and closed.rstrip().endswith(tags.close.strip()):
                # A name that nobody sets leaves the kwarg at its default.
                return setting.name, json.dumps(setting.value) if thinks else "fold_unset"
    except (Refused, Crashed, Unpresentable):
        pass
    return None
