"""What a fold has to know of a template, found by rendering it."""

from __future__ import annotations

from collections.abc import Iterator

from templatefix.patch.bench import Bench
from templatefix.patch.ladder.fold_place import Place
from templatefix.patch.ladder.fold_rules import early, rules_of
from templatefix.patch.ladder.fold_text import Shape, literal


def shape_of(bench: Bench) -> Shape:
    """The shape of the bench's template."""
    places = list(_places(bench))
    close = next((place.tags.close for place in places if place.tags), "")
    source = bench.subject.template.text
    rules, calls = rules_of(bench, places)
    return Shape(
        silent=_silent(places),
        close=close,
        rules=rules,
        calls=calls,
        early=any(rule.after.startswith("\n") and REASONING in rule.after for rule in rules) or any(early(bench, place) for place in places),
        stops=bench.subject.author.stops,
        thinks=bench.subject.author.parsers.reasoning is not None,
        drops=bench.policy == "lossless",
        refuses="raise_exception" in source,
    )


def _places(bench: Bench) -> Iterator[Place]:
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
            yield Place(
                request.messages, run.tools, request.kwargs,
                server.prompt(request.messages, run.tools, request.kwargs), bare,
                quiet, seat.state == "opened", seat.tags,
            )


def _silent(places: list[Place]) -> str:
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


