"""What a fold has to know of a template, found by rendering it."""

from __future__ import annotations

import json

from templatefix.chat.answer import Answer
from templatefix.chat.present import Unpresentable
from templatefix.checking.subject import GREETING
from templatefix.patching.bench import Bench
from templatefix.patching.ladder.fold_place import Place, Speaker, places
from templatefix.patching.ladder.fold_rules import prints_behind, rules_of
from templatefix.patching.ladder.fold_text import CONTENT, REASONING, Shape
from templatefix.patching.proposals.text import ends
from templatefix.render import Crashed, Refused
from templatefix.syntax import content_format


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
        parsed=parsers.reasoning is not None or _led(bench, found),
        system=system,
        thinking=_thinking(bench),
        drops=bench.policy == "lossless",
        trims=_trims(bench, found),
        moves=_moves(bench, found),
        exact=_exact(bench, found),
        mute=len({place.tags is None for place in found}) == 2,
        behind=prints_behind(bench, found),
        refuses="raise_exception" in bench.subject.template.text,
        parts=content_format(bench.subject.parsed) == "openai",
    )


def _led(bench: Bench, found: list[Place]) -> bool:
    """Whether content comes back with the whitespace that the layout has before it."""
    speaker = Speaker(bench)
    said = (speaker.replayed(place, Answer(None, CONTENT)) for place in found if place.quiet)
    return any(answer.content not in (None, CONTENT) for answer in said)


def _exact(bench: Bench, found: list[Place]) -> bool:
    """Whether whitespace before reasoning is the model's own where a parser hands it on."""
    speaker = Speaker(bench)
    shown = False
    for place in found:
        lead = (speaker.written(place, Answer(REASONING, CONTENT)) or "").partition(REASONING)[0]
        if lead == lead.rstrip():
            continue
        for reasoning in (REASONING, "\n" + REASONING):
            if speaker.replayed(place, Answer(reasoning, CONTENT)).reasoning != reasoning:
                return False
        shown = True
    return shown


def _silent(found: list[Place]) -> str:
    """A condition that tells the prompts after which a model may answer without reasoning."""
    if all(place.quiet for place in found):
        return "true"
    if not any(place.quiet for place in found):
        return "false"
    for tags in sorted({place.tags for place in found if place.tags}, key=str):
        closed, opened = tags.close.strip(), tags.open.strip()
        if all(place.prompt.rstrip().endswith(closed) == place.quiet for place in found):
            return ends("(fold_prompt | trim)", closed)
        if all(place.prompt.rstrip().endswith(opened) != place.quiet for place in found):
            return f"not {ends('(fold_prompt | trim)', opened)}"
    quiet, loud = ({p.tail for p in found if p.quiet is silent} for silent in (True, False))
    if "" in quiet:  # every prompt ends in nothing: the others are told by what they end in
        told = [f"not {ends('fold_prompt', tail)}" for tail in sorted(loud - {""})]
        return " and ".join(told) or "true"
    return " or ".join(ends("fold_prompt", tail) for tail in sorted(quiet))


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
    """What the original prints after the content of a last answer, and of no other.

    Then what the model itself writes there, where history prints that with what follows.
    """
    speaker = Speaker(bench)
    endings: dict[str, None] = {}
    closings: dict[str, None] = {}
    for place in found:
        last = speaker.view(place, Answer(None, CONTENT)).partition(CONTENT)[2]
        past = speaker.view(place, Answer(None, CONTENT), GREETING).partition(CONTENT)[2]
        if last and past and not past.startswith(last):
            endings[last] = None
            for answer in (Answer(None, CONTENT), Answer(REASONING, CONTENT)):
                closing = (speaker.written(place, answer) or "").partition(CONTENT)[2]
                if closing and past.startswith(closing):
                    closings[closing] = None
    return (*endings, *(closing for closing in closings if closing not in endings))


def _moves(bench: Bench, found: list[Place]) -> str:
    """What introduces an answer, where a question is printed in another way once one follows.

    Empty where questions stay as they are.
    """
    speaker = Speaker(bench)
    for place in found:
        asked = place.messages[-1]
        if asked["role"] != "user" or not isinstance(asked["content"], str):
            continue
        view = speaker.view(place, Answer(None, CONTENT), GREETING)
        if not view or view.startswith(place.bare):
            continue
        end = place.bare.rpartition(asked["content"])[2]
        for shown in (view, speaker.view(place, Answer(None, CONTENT))):
            lead = shown.partition(CONTENT)[0].rpartition(asked["content"])[2]
            if lead.startswith(end) and lead != end:
                return lead[len(end) :]
            # Something is printed after the last message: the answer's header is in the prompt.
            for length in range(len(place.tail), 0, -1):
                at = lead.rfind(place.tail[:length])
                if at >= 0 and place.tail[length - 1] in ">]\n":
                    return lead[at:]
    return ""


def _trims(bench: Bench, found: list[Place]) -> bool:
    """Whether whitespace ends an answer of nothing but reasoning, and no model writes it."""
    speaker = Speaker(bench)
    for place in found:
        view = speaker.view(place, Answer(REASONING, None)).partition(REASONING)[2]
        written = speaker.written(place, Answer(REASONING, None)) or ""
        if view != view.rstrip() and view.rstrip() == written.partition(REASONING)[2].rstrip():
            return True
    return False


def _early(bench: Bench, found: list[Place]) -> bool:
    """Whether the model writes a newline before it opens reasoning that is parsed as reasoning."""
    speaker = Speaker(bench)
    for place in found:
        lead = (speaker.written(place, Answer(REASONING, CONTENT)) or "").partition(REASONING)[0]
        parsed = speaker.replayed(place, Answer(REASONING, CONTENT)).reasoning or ""
        inside = lead[len(lead.rstrip()) :]
        if lead.strip() and lead[0] == "\n" and parsed.startswith("\n" + inside + REASONING):
            return True
    return False


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
                # What is not there leaves the kwarg at its default.
                return setting.name, json.dumps(setting.value) if thinks else "{}.unset"
    except (Refused, Crashed, Unpresentable):
        pass
    return None
