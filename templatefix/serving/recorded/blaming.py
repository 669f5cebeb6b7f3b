"""Findings out of what recorded requests lose, one for each guilty place."""

from __future__ import annotations

import json
from dataclasses import replace

from templatefix.chat.conversation import Scenario
from templatefix.chat.server import Tools
from templatefix.checking.breaks import (
    Break,
    Key,
    finding_of,
    key_of,
    repair_command,
    witness_of,
)
from templatefix.checking.options import CheckOptions
from templatefix.checking.subject import Subject
from templatefix.findings.blame import Blame, blame
from templatefix.findings.finding import Finding, Location
from templatefix.render import Crashed, OverLimit
from templatefix.replay.run import Comparison, Plan, Run
from templatefix.rules import RULES
from templatefix.serving.recorded.pricing import Share

_SCENARIO = Scenario("recorded", (), core=True)

#: Kinds of divergences whose guilty place is remembered.
_REMEMBERED = 500
#: Refusals and crashes that are told apart.
_FAULTS = 20


class Blamer:
    """The findings of a recording so far: their number is bounded by the template's places."""

    def __init__(self, subject: Subject, options: CheckOptions, policy: str) -> None:
        self._subject = subject
        self._options = options
        self._policy = policy
        self._witness = witness_of(subject)
        self._blamed: dict[str, Blame] = {}
        self._found: dict[Key, Finding] = {}
        self._faults: dict[tuple[str, int | None, str], Finding] = {}

    @property
    def findings(self) -> list[Finding]:
        return [*self._found.values(), *self._faults.values()]

    def blame(self, share: Share, tools: Tools, line: int) -> Finding:
        """The finding that a share of the template, a parser or the tokenizer belongs to."""
        comparison, evidence = share.comparison, share.evidence
        assert comparison is not None
        assert evidence is not None
        kind = _kind(comparison, share)
        if kind not in self._blamed:
            if len(self._blamed) >= _REMEMBERED:
                self._blamed.clear()
            guilty = blame(comparison, evidence, tools, self._witness)
            if share.what == "TF301":
                words = self._subject.author.parsers.loss(share.detail)
                guilty = replace(guilty, explanation=words)
            self._blamed[kind] = guilty
        each = Break(_run(comparison), comparison, share.what, share.detail, (), self._blamed[kind])
        key = key_of(each)
        if key not in self._found:
            self._found[key] = replace(
                finding_of(each, self._policy, self._subject),
                run_ids=(),
                client=None,
                replay=None,
                scenario=f"line {line}",
                turn=None,
                lost_tokens=0,
                lost_here=share.tokens,
                requests=0,
                fix=repair_command(share.what, self._subject.template, self._options),
            )
        known = self._found[key]
        self._found[key] = replace(
            known,
            lost_tokens=(known.lost_tokens or 0) + share.tokens,
            requests=(known.requests or 0) + 1,
        )
        return self._found[key]

    def fault(self, fault: Exception, line: int) -> None:
        """A request that the template refuses (TF206), fails on (TF203) or that takes too much."""
        crashed = isinstance(fault, Crashed)
        rule = RULES["TF203" if crashed else "TF206"]
        if isinstance(fault, OverLimit):
            rule = RULES["TF601"]
        words, place = str(fault), fault.line if isinstance(fault, Crashed) else None
        key = (rule.code, place, words)
        known = self._faults.get(key)
        if known is not None:
            self._faults[key] = replace(known, requests=(known.requests or 0) + 1)
        elif len(self._faults) < _FAULTS:
            self._faults[key] = Finding(
                rule.code,
                rule.name,
                rule.severity,
                "high",
                f"{rule.summary}: {words}",
                detail=words,
                scenario=f"line {line}",
                locations=(Location("source", place, 1, place, 1),) if place else (),
                requests=1,
            )


def _run(comparison: Comparison) -> Run:
    """A run of the comparison alone, for what counts with runs."""
    requests = (comparison.before, comparison.after)
    completion = comparison.before.completion
    source = completion.source if completion is not None else "unknown"
    plan = Plan(_SCENARIO, comparison.before.kwargs, replay="given")
    return Run(plan, requests, (comparison,), False, None, source)


def _kind(comparison: Comparison, share: Share) -> str:
    """Divergences of one kind have the same place in the template to blame: it is sought once."""
    before, after = comparison.before, comparison.after
    evidence = share.evidence
    assert evidence is not None
    # Of a divergence in an older answer, what surrounds that one decides.
    index = evidence.message if evidence.message is not None else len(before.messages)
    roles = [str(message.get("role")) for message in after.messages[max(0, index - 1) : index + 3]]
    end = str(after.messages[-1].get("role"))
    answer = evidence.answer
    shape = [
        bool(answer and answer.reasoning),
        bool(answer and answer.content),
        len(answer.tool_calls) if answer else 0,
    ]
    region = [evidence.region, evidence.current]
    return json.dumps(
        [share.what, share.detail, region, roles, end, shape, dict(before.kwargs)], default=str
    )
