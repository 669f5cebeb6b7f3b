"""The chats that a live server is driven through, with what we say of them beforehand.

Everything is ours: the model's completions are the ones that we take it to write, the answers the
ones that we take the parsers to return. A server that sees a token otherwise tells us so.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from templatefix.api import patch_template
from templatefix.chat.answer import Answer
from templatefix.chat.battery import PROBE_CALLS
from templatefix.chat.conversation import Scenario, Turn
from templatefix.checking import CheckOptions
from templatefix.checking.subject import Subject, prepare
from templatefix.patching.repair import PatchOptions
from templatefix.replay.run import Client, Plan, Run, replay
from templatefix.source import SourceOptions, load
from tests import packages
from tests.vllm.engine import BLOCK

GOLDEN = json.loads(
    (Path(__file__).parent.parent / "golden" / "qwen3_four_turns.json").read_text(encoding="utf-8")
)

FOUR_TURNS = Scenario(
    "four-turns",
    tuple(
        Turn(
            ({"role": "system", "content": GOLDEN["system"]},) * (i == 0)
            + ({"role": "user", "content": user},),
            Answer(reasoning, answer),
        )
        for i, (user, answer, reasoning) in enumerate(
            zip(GOLDEN["user"], GOLDEN["answer"], GOLDEN["reasoning"], strict=True)
        )
    ),
    core=True,
    reasoning="if-thinking",
)

_PLANS = (
    (
        "Plan a day in Porto for us.",
        "They want one day in Porto: four parts of the day, on foot where that is possible.",
        "Morning: walk along the river from the old bridge to the market hall, look at the tiled "
        "church on the way, and have a coffee on the square in front of it. Noon: take the small "
        "tram up the hill, see the gardens and the view over the harbour, and eat a plate of "
        "grilled fish with potatoes. Afternoon: cross the iron bridge on foot, visit one of the "
        "wine cellars on the other bank, and come back by boat. Evening: listen to the singers in "
        "the upper town, then stroll home slowly through the narrow lanes while the lamps are lit "
        "and the river is quiet.",
    ),
    (
        "And a second day, out of town?",
        "A trip that needs no car: the valley by train, one village, and back before dark.",
        "Morning: take the early train up the valley and sit on the right, where the windows look "
        "at the water for most of two hours. Noon: get off at the village with the blue station, "
        "climb to the chapel above the vineyards, and share soup, bread and cheese in the yard of "
        "the inn. Afternoon: follow the path between the terraces down to the landing, and wait "
        "in the shade for the slow boat that calls at every village. Evening: the last train "
        "leaves a little after eight; buy oranges from the woman at the gate before you board it, "
        "for there is nothing to eat on the way back.",
    ),
    (
        "What do we do when it rains?",
        "Indoor places near each other, so that nobody gets wet between them.",
        "Morning: begin in the bookshop with the red stairs as soon as it opens, since an hour "
        "later there is a queue around the corner. Noon: have lunch in the covered market, where "
        "each stall cooks one dish and you can carry the plates to the long tables. Afternoon: "
        "the museum in the white building has more rooms than anyone can see; choose the photos "
        "on the second floor and the drawings beside the stairs, and rest in the library. "
        "Evening: book seats for a concert in the hall that looks like a stone dropped from the "
        "sky, and take the underground home, for its station is right below the hall.",
    ),
    (
        "Thanks. What should we pack?",
        "A short list is enough.",
        "Good shoes, a light coat, a hat, and a bag that folds.",
    ),
)
#: Answers of more than a hundred tokens: several blocks each.
LONG_ANSWERS = Scenario(
    "long-answers",
    tuple(
        Turn(
            ({"role": "system", "content": "You plan trips. Be concrete, and say when."},)
            * (i == 0)
            + ({"role": "user", "content": question},),
            Answer(reasoning, answer),
        )
        for i, (question, reasoning, answer) in enumerate(_PLANS)
    ),
    core=True,
    reasoning="if-thinking",
)


def addressed(scenario: Scenario, to: str) -> Scenario:
    """The scenario with another system message, so that no cache knows it from before."""
    first, *others = scenario.turns
    (system, *asked) = first.new_messages
    system = {**system, "content": f"{to}: {system['content']}"}
    return replace(scenario, turns=(replace(first, new_messages=(system, *asked)), *others))


#: A call, its result, and two questions more.
TOOL_LOOP = replace(PROBE_CALLS, name="tool-loop")

FORMS = ("published", "lossless", "keep-reasoning")


@dataclass(frozen=True)
class Predicted:
    """A replayed chat under one template, before a server has seen it."""

    template: str
    run: Run

    @property
    def hits(self) -> list[int]:
        """Tokens of each prompt that a server finds in its own cache; none for the first."""
        return [0, *(comparison.hit for comparison in self.run.comparisons)]

    @property
    def completions(self) -> list[list[int]]:
        """What the model writes in each turn, as token ids with the stop token last."""
        return [request.stream_ids[len(request.prompt_ids) :] for request in self.run.requests]

    def conversation(self) -> dict[str, Any]:
        """The chat in the form that ``--conversation`` takes: what to ask, and, as the fields of
        each request, what the model shall say to it."""
        messages: list[dict[str, Any]] = []
        plan = self.run.plan
        for turn, completion in zip(plan.scenario.turns, self.completions, strict=True):
            *before, last = turn.new_messages
            script = {"max_tokens": len(completion), "vllm_xargs": {"answer_ids": completion}}
            messages += [*map(dict, before), {**last, "extra_body": script}]
            messages.append({"role": "assistant", "content": turn.answer and turn.answer.content})
        document = {"messages": messages, "chat_template_kwargs": dict(plan.kwargs)}
        return document | ({"tools": list(plan.scenario.tools)} if plan.scenario.tools else {})

    def hits_of_prompts_alone(self) -> list[int]:
        """The same where only what was prefilled is kept: a store without decode write-back."""
        hits = [0]
        for comparison in self.run.comparisons:
            kept = min(comparison.reuse, len(comparison.before.prompt_ids))
            hits.append(min(kept, len(comparison.after.prompt_ids) - 1) // BLOCK * BLOCK)
        return hits


class Qwen3:
    """Qwen3's published template and what ``templatefix patch`` makes of it.

    ``model`` is a directory with the real tokenizer.
    """

    def __init__(self, model: Path, scratch: Path) -> None:
        path = scratch / "chat_template.jinja"
        path.write_text(packages.or_skip(packages.qwen3_template), encoding="utf-8")
        (self._published,) = load(str(path), SourceOptions(tokenizer=str(model)))
        self._texts: dict[str, str] = {"published": self._published.text}
        self._subjects: dict[str, Subject] = {}

    def text(self, form: str) -> str:
        """The template: as it is published, or patched under a policy."""
        if form not in self._texts:
            report = patch_template(self._published, PatchOptions(policy=form, block_size=BLOCK))
            assert report.status == "patched", report
            assert report.text is not None
            self._texts[form] = report.text
        return self._texts[form]

    def _subject(self, form: str) -> Subject:
        if form not in self._subjects:
            template = replace(self._published, text=self.text(form))
            self._subjects[form] = prepare(template, CheckOptions(block_size=BLOCK))
        return self._subjects[form]

    def predicted(
        self, form: str, scenario: Scenario, kwargs: Mapping[str, Any], client: Client
    ) -> Predicted:
        """What happens when the model writes as under the published template, whatever serves."""
        writing, serving = self._subject("published"), self._subject(form)
        plan = Plan(scenario, kwargs, client)
        run = replay(plan, writing.author, writing.encoder, BLOCK, serving.server)
        return Predicted(serving.template.text, run)
