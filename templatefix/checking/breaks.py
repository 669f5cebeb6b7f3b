"""From comparisons that do not preserve to findings, one per divergence."""

from __future__ import annotations

import json
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from templatefix.chat.server import Server
from templatefix.checking.options import CheckOptions
from templatefix.checking.subject import Subject
from templatefix.findings.blame import Blame, Witness, blame
from templatefix.findings.divergence import divergence_of
from templatefix.findings.evidence import gather
from templatefix.findings.finding import Finding, Fix, Severity, at_least
from templatefix.findings.repair import patch_words
from templatefix.prefix import common_prefix
from templatefix.replay.modes import Modes
from templatefix.replay.run import Comparison, Run
from templatefix.rules import RULES, classify
from templatefix.source.template import ChatTemplate
from templatefix.tokens import Encoder

#: What a patch repairs. Other tokens for the same text (TF105) are no template's to mend.
_REPAIRED = frozenset({"TF101", "TF102", "TF103", "TF104", "TF106", "TF107", "TF111"})
#: What it repairs if it is asked to, and whether nothing but failures becomes something else.
_ON_REQUEST = {"TF201": False, "TF202": False, "TF203": True, "TF204": False, "TF205": True}

#: Codes that no template is to blame for: other tokens for the same text, a parser's losses.
HARMLESS = frozenset({"TF105", "TF108", "TF301"})

#: Code, detail, and line and column of the guilty place.
Key = tuple[str, str, tuple[int, int]]


@dataclass(frozen=True)
class Break:
    """A comparison that does not preserve, with its name."""

    run: Run
    comparison: Comparison
    code: str
    detail: str
    also: tuple[str, ...]
    blame: Blame


def classified(runs: Sequence[Run], subject: Subject) -> list[Break]:
    """Every break that is not the client's own, those of core runs first."""
    found = []
    witness = witness_of(subject)
    blamed: dict[object, Blame] = {}
    for run in sorted(runs, key=lambda run: not run.plan.core):
        for comparison in run.comparisons:
            if comparison.preserving or comparison.client_loss:
                continue
            evidence = gather(comparison, canonical_reuse(comparison, subject.encoder))
            code, detail, also = classify(evidence)
            if run.plan.replay == "verbatim" and code in ("TF104", "TF106"):
                code, detail, also = "TF301", "separator", (code, *also)
            kind = _kind(run, comparison, code, detail, subject.server)
            if kind not in blamed:
                blamed[kind] = blame(comparison, evidence, run.tools, witness)
                if code == "TF301":
                    words = subject.author.parsers.loss(detail)
                    blamed[kind] = replace(blamed[kind], explanation=words)
            found.append(Break(run, comparison, code, detail, also, blamed[kind]))
    return found


def witness_of(subject: Subject) -> Witness:
    """What blame needs of a template."""
    return Witness(subject.parsed, subject.server, dict(subject.template.special_tokens))


def _kind(run: Run, comparison: Comparison, code: str, detail: str, server: Server) -> object:
    """Breaks of one kind have the same place in the template to blame: it is sought once."""
    before, after = comparison.before, comparison.after
    new = after.messages[len(before.messages) - 1 :]
    roles = tuple([str(message.get("role")) for message in new])
    calls = len(before.answer.tool_calls) if before.answer else 0
    said = bool(before.answer and before.answer.content)
    kwargs = server.spelling(before.kwargs), server.spelling(after.kwargs)
    return code, detail, run.plan.replay, roles, calls, said, kwargs


def without_parser_losses(runs: Sequence[Run], breaks: Sequence[Break]) -> list[Run]:
    """The runs, with those that only a parser breaks counted as the parser's."""
    blamed = {id(each.run) for each in breaks if each.code != "TF301"}
    lossy = {id(each.run) for each in breaks} - blamed
    return [
        replace(run, preserving=None, lost_to="parser") if id(run) in lossy else run for run in runs
    ]


def left_out_by(policy: str, breaks: Sequence[Break]) -> frozenset[str]:
    """The ids of runs that lose nothing but the reasoning that ``policy`` leaves out of history."""
    if policy != "lossless":
        return frozenset()
    others = {each.run.plan.id for each in breaks if each.code != "TF102"}
    return frozenset(each.run.plan.id for each in breaks) - others


def findings_of(
    breaks: Sequence[Break],
    runs: Sequence[Run],
    modes: Modes,
    subject: Subject,
    policy: str,
    options: CheckOptions,
) -> list[Finding]:
    """One finding per divergence, for all runs that show it."""
    groups: dict[Key, list[Break]] = {}
    # What a switch of modes shows, other runs may have shown before it.
    for each in sorted(breaks, key=_switches):
        if _switches(each):
            if key_of(each) not in groups:
                also = (each.code, *each.also)
                each = replace(each, code="TF110", detail=each.code, also=also)
        elif each.code == "TF108" and subject.encoder.approximate:
            continue
        key = key_of(each)
        if key not in groups and not each.run.plan.core:
            key = _known_by_its_origin(groups, each) or key
        groups.setdefault(key, []).append(each)
    found = []
    for group in groups.values():
        finding = _merged(group, policy, subject)
        fix = _fix(finding, runs, modes, subject.template, options)
        found.append(finding if fix is None else replace(finding, fix=fix))
    return found


def _switches(each: Break) -> bool:
    return each.run.plan.scenario.name == "mode-switch"


def with_requests(
    findings: Sequence[Finding], template: ChatTemplate, options: CheckOptions
) -> list[Finding]:
    """The findings, with the command that repairs them where a patch has to be asked for it."""
    return [
        replace(each, fix=repair_command(each.code, template, options))
        if each.code in _ON_REQUEST and template.text
        else each
        for each in findings
    ]


def canonical_reuse(comparison: Comparison, encoder: Encoder) -> int | None:
    """The common prefix in tokens if the stream were encoded in one piece."""
    if encoder.approximate:
        return None
    whole = encoder.encode(comparison.before.stream)
    if whole == comparison.before.stream_ids:
        return None
    return common_prefix(whole, comparison.after.prompt_ids)


def _merged(group: Sequence[Break], policy: str, subject: Subject) -> Finding:
    """The finding of breaks that are one: its evidence is that of the first."""
    first, *others = group
    finding = finding_of(first, policy, subject)
    if not others:
        return finding
    first_id = first.run.plan.id
    core = [each for each in others if each.run.plan.core]
    return replace(
        finding,
        run_ids=tuple(dict.fromkeys(each.run.plan.id for each in group)),
        also=tuple(dict.fromkeys(code for each in (first, *core) for code in each.also)),
        lost_tokens=sum(each.comparison.lost for each in group if each.run.plan.id == first_id),
    )


def finding_of(each: Break, policy: str, subject: Subject) -> Finding:
    """What a break by itself comes to."""
    run, comparison, code = each.run, each.comparison, each.code
    rule = RULES[code]
    return Finding(
        code,
        rule.name,
        severity_of(code, run.plan.core, policy),
        "medium" if run.completion in ("markers", "unknown") else "high",
        each.blame.explanation if code == "TF301" else rule.summary,
        detail=each.detail,
        also=each.also,
        run_ids=(run.plan.id,),
        kwargs=run.plan.kwargs,
        client=run.plan.client,
        replay=run.plan.replay,
        scenario=run.plan.scenario.name,
        turn=comparison.turn,
        lost_tokens=comparison.lost,
        lost_here=comparison.lost,
        reused=comparison.reuse,
        cached=comparison.hit,
        total=len(comparison.before.stream_ids),
        divergence=divergence_of(comparison),
        streams=subject.streams(comparison),
        locations=each.blame.locations,
        explanation=each.blame.explanation,
    )


def key_of(each: Break) -> Key:
    """What makes divergences one: the same code at the same guilty place.

    Dropped reasoning is one fault with and without its tag.
    """
    places = each.blame.locations
    place = (places[0].line, places[0].column) if places else (0, 0)
    return each.code, "" if each.code == "TF102" else each.detail, place


def _known_by_its_origin(groups: Mapping[Key, Sequence[Break]], each: Break) -> Key | None:
    """The finding that an edge run shows again, at another output because of an empty field."""
    origins = [place for place in each.blame.locations if place.role == "printed-then"]
    if not origins or each.blame.locations[0].role == "cause":
        return None
    for key, (first, *_) in groups.items():
        if first.code == each.code and origins[0] in first.blame.locations:
            return key
    return None


def severity_of(code: str, core: bool, policy: str) -> Severity:
    """A code's severity: what only edge runs show is a warning at most."""
    if code == "TF102" and policy == "lossless":
        return "info"
    severity = RULES[code].severity
    if core:
        return severity
    if code == "TF108":
        return "info"
    return "warning" if at_least(severity, "warning") else severity


def _fix(
    finding: Finding,
    runs: Sequence[Run],
    modes: Modes,
    template: ChatTemplate,
    options: CheckOptions,
) -> Fix | None:
    """A kwarg that the template already has, or else the command that repairs the template.

    That is for what breaks in a core run: of the others a patch promises nothing.
    """
    fix = _kwarg_fix(finding, runs, modes)
    core = {run.plan.id for run in runs if run.plan.core}
    if fix is not None or core.isdisjoint(finding.run_ids) or not template.text:
        return fix
    return repair_command(finding.code, template, options)


def repair_command(code: str, template: ChatTemplate, options: CheckOptions) -> Fix | None:
    """The command that repairs what a code stands for; None where a patch mends no such thing."""
    words = list(patch_words(template))
    if options.kwargs is not None:
        words += ["--kwargs", json.dumps(dict(options.kwargs), ensure_ascii=False)]
    if options.reasoning_parser is not None:
        words += ["--reasoning-parser", options.reasoning_parser]
    if options.tool_call_parser is not None:
        words += ["--tool-call-parser", options.tool_call_parser]
    safe = True
    if code == "TF102":
        words += ["--policy", "keep-reasoning"]
        safe = False
    elif code in _ON_REQUEST:
        words += ["--fix", code]
        safe = _ON_REQUEST[code]
    elif code not in _REPAIRED:
        return None
    return Fix(shlex.join(words), safe)


def _kwarg_fix(finding: Finding, runs: Sequence[Run], modes: Modes) -> Fix | None:
    """A kwarg that the template already has and under which the same run is preserving."""
    if finding.scenario is None or finding.client != "faithful":
        return None
    retaining = [s for s in modes.settings if s.effect == "retention" and s.retains]
    for setting in retaining:
        wanted = {**finding.kwargs, setting.name: setting.value}
        for run in runs:
            if (
                run.preserving
                and run.plan.scenario.name == finding.scenario
                and run.plan.client == "faithful"
                and run.plan.replay == finding.replay
                and dict(run.plan.kwargs) == wanted
            ):
                spelled = json.dumps({setting.name: setting.value})
                return Fix(f"vllm serve --default-chat-template-kwargs '{spelled}'")
    return None


def stop_mismatches(runs: Sequence[Run], subject: Subject) -> list[Finding]:
    """TF105: nothing is lost, but the turn is closed by another token in history."""
    if subject.encoder.approximate:
        return []
    found: Finding | None = None
    for run in runs:
        for comparison in run.comparisons:
            if not comparison.stop_differs:
                continue
            if found is not None:
                run_ids = tuple(dict.fromkeys((*found.run_ids, run.plan.id)))
                found = replace(found, run_ids=run_ids)
                continue
            rule = RULES["TF105"]
            guilty = blame(comparison, gather(comparison), run.tools, witness_of(subject))
            found = Finding(
                rule.code,
                rule.name,
                rule.severity,
                "high",
                rule.summary,
                run_ids=(run.plan.id,),
                kwargs=run.plan.kwargs,
                client=run.plan.client,
                scenario=run.plan.scenario.name,
                turn=comparison.turn,
                lost_tokens=0,
                lost_here=0,
                reused=comparison.reuse,
                cached=comparison.hit,
                total=len(comparison.before.stream_ids),
                divergence=divergence_of(comparison),
                streams=subject.streams(comparison),
                locations=guilty.locations,
                explanation=guilty.explanation,
            )
    return [found] if found else []
