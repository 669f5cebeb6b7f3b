"""What a fold has to know of a template, found by rendering it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from templatefix.chat.answer import Answer
from templatefix.chat.conversation import Message, assistant_message
from templatefix.chat.present import Unpresentable
from templatefix.chat.server import Kwargs, Tools
from templatefix.dialect.author import Unspoken
from templatefix.dialect.thinking import Tags
from templatefix.patch.bench import Bench
from templatefix.patch.ladder.fold_text import CONTENT, REASONING, Lead, Shape, literal
from templatefix.prefix import common_prefix
from templatefix.render import Crashed, Refused


@dataclass(frozen=True)
class _Place:
    """A place where the model speaks: the messages before it, in one mode."""

    messages: tuple[Message, ...]
    tools: Tools
    kwargs: Kwargs
    prompt: str
    bare: str
    quiet: bool
    opened: bool
    tags: Tags | None

    @property
    def tail(self) -> str:
        return self.prompt[common_prefix(self.prompt, self.bare) :]


def shape_of(bench: Bench) -> Shape:
    """The shape of the bench's template."""
    places = list(_places(bench))
    close = next((place.tags.close for place in places if place.tags), "")
    source = bench.subject.template.text
    return Shape(
        silent=_silent(places),
        close=close,
        leads=_leads(bench, places),
        openers=_openers(bench, places),
        stops=bench.subject.author.stops,
        thinks=bench.subject.author.parsers.reasoning is not None,
        drops=bench.policy == "lossless",
        refuses="raise_exception" in source,
    )


def _places(bench: Bench) -> Iterator[_Place]:
    author, server = bench.subject.author, bench.subject.server
    seen = set()
    for run in bench.original.runs:
        for request in run.requests:
            after = request.messages[-1].get("role")
            key = (str(request.kwargs), after, bool(run.tools))
            if key in seen:
                continue
            seen.add(key)
            seat = author.seat(request.messages, run.tools, request.kwargs)
            quiet = seat.state in ("closed", "none") or not author.must_reason(seat, request.kwargs)
            bare = server.prompt(request.messages, run.tools, request.kwargs, generation_prompt=False)
            yield _Place(
                request.messages, run.tools, request.kwargs,
                server.prompt(request.messages, run.tools, request.kwargs), bare,
                quiet, seat.state == "opened", seat.tags,
            )


def _silent(places: list[_Place]) -> str:
    """A condition that tells the prompts after which a model answers without reasoning."""
    if all(place.quiet for place in places):
        return "true"
    tags = {place.tags for place in places if place.tags}
    for each in sorted(tags, key=str):
        for condition, holds in (
            (f"fold_prompt.rstrip().endswith({literal(each.close.strip())})", lambda p, t=each: p.prompt.rstrip().endswith(t.close.strip())),
            (f"not fold_prompt.rstrip().endswith({literal(each.open.strip())})", lambda p, t=each: not p.prompt.rstrip().endswith(t.open.strip())),
        ):
            if all(holds(place) == place.quiet for place in places):
                return condition
    if not any(place.quiet for place in places):
        return "false"
    tails = {place.tail for place in places if place.quiet}
    return " or ".join(f"fold_prompt.endswith({literal(tail)})" for tail in sorted(tails))


def _leads(bench: Bench, places: list[_Place]) -> tuple[Lead, ...]:
    """The layouts of reasoning that the original does not print even in a last answer."""
    found: dict[Lead, None] = {}
    answer = Answer(REASONING, CONTENT)
    for place in places:
        view = _view(bench, place, answer)
        if view is None or (REASONING in view and view.startswith(place.prompt)):
            continue
        try:
            completion = bench.subject.author.completion(
                place.messages, place.tools, place.kwargs, answer
            )
        except Unspoken:
            continue
        if completion.written is None:
            continue
        text = completion.written.text
        before, _, rest = text.partition(REASONING)
        after, _, _ = rest.partition(CONTENT)
        opened = place.tail if place.opened else None
        found[Lead(opened, before, after)] = None
    return tuple(sorted(found, key=lambda lead: lead.opened is None))


def _openers(bench: Bench, places: list[_Place]) -> tuple[str, ...]:
    """What the original prints before the content of an answer and no model writes."""
    found: dict[str, None] = {}
    for place in places:
        for answer in (Answer(None, CONTENT), Answer(REASONING, CONTENT)):
            view = _view(bench, place, answer)
            if view is None or view.startswith(place.prompt) or not view.startswith(place.bare):
                continue
            before = view[len(place.bare) :].partition(CONTENT)[0]
            if REASONING in before:
                before = before[: common_prefix(before, place.tail)]
            if before:
                found[before] = None
    return tuple(sorted(found, key=len, reverse=True))


def _view(bench: Bench, place: _Place, answer: Answer) -> str | None:
    try:
        return bench.subject.server.prompt(
            [*place.messages, assistant_message(answer)],
            place.tools, place.kwargs, generation_prompt=False,
        )
    except (Refused, Crashed, Unpresentable):
        return None
