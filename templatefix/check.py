"""One template checked: the plan of runs, their replay, and what they come to."""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import timedelta
from typing import Any

from templatefix.chat.battery import PROBE
from templatefix.chat.conversation import Scenario
from templatefix.chat.present import Unpresentable, names_developer
from templatefix.chat.server import Server
from templatefix.dialect import named
from templatefix.dialect.author import Author, Unspoken
from templatefix.dialect.parsers import Parsers
from templatefix.errors import TargetError
from templatefix.findings.blame import Blame, Witness, blame
from templatefix.findings.divergence import divergence_of
from templatefix.findings.evidence import gather
from templatefix.findings.finding import Finding, Fix, Location, Severity, at_least
from templatefix.findings.outcome import (
    Coverage,
    Fault,
    NotEvaluated,
    Report,
    RunOutcome,
    TurnRow,
    Verdict,
)
from templatefix.findings.printed import begins_twice, lost
from templatefix.prefix import common_prefix
from templatefix.render import PINNED_CLOCK, Crashed, JinjaRenderer, Refused, SyntaxFault
from templatefix.replay.modes import Modes, Setting, discover
from templatefix.replay.run import Comparison, Plan, Run, replay
from templatefix.replay.sweep import plan, without_system
from templatefix.rules import RULES, classify
from templatefix.source.template import ChatTemplate
from templatefix.syntax import (
    Template,
    Unparsable,
    content_format,
    kwargs,
    literals,
    named_kwargs,
    parse,
    reads_attribute,
    unknown_names,
)
from templatefix.tokens import Encoder, load_encoder

#: Parameters of transformers' own function, which vLLM lets through whatever the template names.
_BASE_PARAMETERS = frozenset({"tools", "documents", "add_generation_prompt", "continue_final_message"})

#: The conversation that shows a template's usual prompt.
_GREETING = ({"role": "user", "content": "Which city lies at the mouth of the Douro?"},)


@dataclass(frozen=True)
class CheckOptions:
    """What a check is asked for; see the command line for each."""

    block_size: int = 16
    policy: str | None = None
    kwargs: Mapping[str, Any] | None = None
    conversation: Mapping[str, Any] | None = None
    reasoning_parser: str | None = None
    tool_call_parser: str | None = None
    full: bool = False
    max_examples: int = 0
    seed: int = 0


@dataclass
class _Notes:
    """What is gathered while runs are made."""

    runs: list[Run] = field(default_factory=list)
    findings: list[Finding] = field(default_factory=list)
    not_evaluated: list[NotEvaluated] = field(default_factory=list)
    lost_message: bool = False

    def skip(self, what: str, why: str) -> None:
        entry = NotEvaluated(what, why)
        if entry not in self.not_evaluated:
            self.not_evaluated.append(entry)


@dataclass(frozen=True)
class Subject:
    """A template made ready: parsed, compiled, with its tokenizer and its parsers."""

    template: ChatTemplate
    parsed: Template
    server: Server
    encoder: Encoder
    author: Author


def check(
    template: ChatTemplate,
    options: CheckOptions,
    policy: str = "keep-reasoning",
    scenario: Scenario | None = None,
) -> Report:
    """Check one template. ``scenario`` is the conversation of ``options``, already read.

    Raises ``TargetError`` when the tokenizer's files are unusable or a parser is not known.
    """
    try:
        subject = prepare(template, options)
    except (Unparsable, SyntaxFault) as fault:
        return _unparsable(template, options, policy, fault)
    modes = _modes(subject, options)
    notes = _Notes()
    for setting in modes.left_out:
        notes.skip(f"kwargs {_spell(setting)}", "more modes than are swept")
    plans = list(_plans(subject, modes, options, scenario, notes))
    for one in plans:
        _replay(one, subject, options.block_size, notes)
    breaks = _classified(notes.runs, subject)
    notes.runs = _without_parser_losses(notes.runs, breaks)
    findings = [
        *_breaks(breaks, notes.runs, modes, subject.encoder, policy),
        *_stop_mismatches(notes.runs, subject.encoder),
        *notes.findings,
        *_of_prompt(subject, notes),
        *_of_names(subject, options),
    ]
    return _report(subject, options, policy, notes, findings)


def prepare(template: ChatTemplate, options: CheckOptions) -> Subject:
    """Parse and compile a template and load its tokenizer.

    Raises ``Unparsable``, ``SyntaxFault`` or ``TargetError``.
    """
    parsed = parse(template.text)
    template = replace(template, special_tokens=_special_tokens(template, parsed))
    renderer = JinjaRenderer(template.text, template.special_tokens)
    texts = (*literals(parsed), *template.special_tokens.values())
    encoder = load_encoder(template.tokenizer, texts)
    server = Server(renderer, content_format(parsed), names_developer(template.text))
    tail = _usual_tail(server)
    parsers = _parsers(texts, tail, options, template.target)
    stops = _stop_tokens(template, encoder)
    return Subject(
        template, parsed, server, encoder, Author(server, stops, encoder.special_tokens(), texts, parsers)
    )


def _special_tokens(template: ChatTemplate, parsed: Template) -> dict[str, str]:
    """The special tokens, with placeholders for those that the template reads and nothing gives.

    A template that comes without its tokenizer would otherwise fail on the first of them.
    """
    tokens = dict(template.special_tokens)
    if template.tokenizer is None:
        for name in sorted(named_kwargs(parsed)):
            if name.endswith("_token"):
                tokens.setdefault(name, f"<|{name.removesuffix('_token')}|>")
    return tokens


def _usual_tail(server: Server) -> str:
    try:
        prompt = server.prompt(_GREETING, None, {})
        bare = server.prompt(_GREETING, None, {}, generation_prompt=False)
    except (Refused, Crashed):
        return ""
    return prompt[common_prefix(prompt, bare) :]


def _parsers(
    texts: Sequence[str], tail: str, options: CheckOptions, target: str
) -> Parsers:
    inferred = Parsers.inferred(texts, tail)
    reasoning, tool = inferred.reasoning, inferred.tool
    if options.reasoning_parser is not None:
        reasoning = named.REASONING.get(options.reasoning_parser)
        if reasoning is None:
            raise TargetError(
                target,
                f"no dialect for the reasoning parser {options.reasoning_parser!r}",
                "known: " + ", ".join(sorted(named.REASONING)),
            )
    if options.tool_call_parser is not None:
        tool = named.TOOLS.get(options.tool_call_parser)
        if tool is None:
            raise TargetError(
                target,
                f"no dialect for the tool call parser {options.tool_call_parser!r}",
                "known: " + ", ".join(sorted(named.TOOLS)),
            )
    return Parsers(reasoning, tool)


def _stop_tokens(template: ChatTemplate, encoder: Encoder) -> tuple[str, ...]:
    """The tokens that end generation, those of the generation config first."""
    found = [encoder.token_text(token_id) for token_id in template.stop_token_ids]
    eos = template.special_tokens.get("eos_token")
    return tuple(dict.fromkeys(text for text in [*found, eos] if text))


def _modes(subject: Subject, options: CheckOptions) -> Modes:
    if options.kwargs is not None or options.conversation is not None:
        given = dict(options.kwargs or {})
        if options.conversation is not None:
            given = {**(options.conversation.get("chat_template_kwargs") or {}), **given}
        known = named_kwargs(subject.parsed) | _BASE_PARAMETERS
        given = {name: value for name, value in given.items() if name in known}
        return Modes((given,), tuple(Setting(name, value, "mode") for name, value in given.items()))
    candidates = kwargs(subject.parsed, subject.template.special_tokens)
    return discover(subject.server, [(kwarg.name, kwarg.values) for kwarg in candidates])


def _plans(
    subject: Subject,
    modes: Modes,
    options: CheckOptions,
    scenario: Scenario | None,
    notes: _Notes,
) -> Iterable[Plan]:
    if scenario is not None:
        yield Plan(scenario, modes.sweep[0], replay="given", requested=True)
        if any(turn.answer and turn.answer.reasoning for turn in scenario.turns):
            yield Plan(
                scenario, modes.sweep[0], "reasoning-dropping", "given", core=False, requested=True
            )
        return
    speaks_tools = reads_attribute(subject.parsed, "tool_calls")
    refuses_system = _refuses_system(subject.server)
    for one in plan(modes):
        if one.scenario.tools and not speaks_tools:
            notes.skip(one.scenario.name, "the template does not read tool calls")
            continue
        if refuses_system and one.scenario.name != "plain-chat":
            one = replace(one, scenario=without_system(one.scenario))
        yield one


def _refuses_system(server: Server) -> bool:
    system = {"role": "system", "content": "You plan short trips."}
    try:
        server.prompt(_GREETING, None, {})
    except (Refused, Crashed):
        return False
    try:
        server.prompt((system, *_GREETING), None, {})
    except Refused:
        return True
    except Crashed:
        return False
    return False


def _replay(one: Plan, subject: Subject, block_size: int, notes: _Notes) -> None:
    """Make a run, or say why it cannot be made."""
    try:
        run = replay(one, subject.author, subject.encoder, block_size)
    except Unspoken as unspoken:
        notes.skip(_what(one), unspoken.why)
    except Unpresentable as unpresentable:
        notes.skip(_what(one), unpresentable.what)
    except Refused as refused:
        notes.skip(one.scenario.name, f"the template refuses it: {refused.message}")
        _note(notes, one, "TF206", refused.message)
    except Crashed as crashed:
        notes.skip(one.scenario.name, f"rendering fails: {crashed.kind}: {crashed.message}")
        _note(notes, one, "TF203", f"{crashed.kind}: {crashed.message}", crashed.line)
    else:
        if not _same_as_another(run, notes.runs):
            notes.runs.append(run)
        _look_for_loss(run, subject, notes)


def _same_as_another(run: Run, runs: Sequence[Run]) -> bool:
    """Whether another client or replay form has sent the very same requests."""
    if run.plan.client == "faithful" and run.plan.replay in ("raw", "given"):
        return False
    prompts = [request.prompt for request in run.requests]
    return any(
        other.plan.scenario.name == run.plan.scenario.name
        and other.plan.kwargs == run.plan.kwargs
        and other.plan.client == run.plan.client
        and [request.prompt for request in other.requests] == prompts
        for other in runs
    )


def _note(notes: _Notes, one: Plan, code: str, words: str, line: int | None = None) -> None:
    """Record a refusal or a crash, once for the same words at the same place."""
    location = (Location("source", line, 1, line, 1),) if line else ()
    for i, known in enumerate(notes.findings):
        if known.code == code and known.detail == words and known.line == line:
            notes.findings[i] = replace(known, run_ids=(*known.run_ids, one.id))
            return
    rule = RULES[code]
    notes.findings.append(
        Finding(
            code,
            rule.name,
            rule.severity,
            "high",
            f"{rule.summary}: {words}",
            detail=words,
            run_ids=(one.id,),
            kwargs=one.kwargs,
            client=one.client,
            scenario=one.scenario.name,
            locations=location,
        )
    )


def _look_for_loss(run: Run, subject: Subject, notes: _Notes) -> None:
    """TF202 and TF201 for the last prompt of a faithful run."""
    if run.plan.client != "faithful" or run.plan.replay not in ("raw", "given"):
        return
    last = run.requests[-1]
    if begins_twice(last.prompt, subject.template.special_tokens.get("bos_token")):
        _add_once(notes, run, "TF201", "", "error")
    if run.plan.core:
        found = lost(last.messages, last.prompt)
        if found is not None:
            _add_once(notes, run, "TF202", found[1], "warning")


def _add_once(notes: _Notes, run: Run, code: str, detail: str, severity: Severity) -> None:
    for i, known in enumerate(notes.findings):
        if (known.code, known.detail) == (code, detail):
            notes.findings[i] = replace(known, run_ids=(*known.run_ids, run.plan.id))
            return
    rule = RULES[code]
    notes.findings.append(
        Finding(
            code,
            rule.name,
            severity,
            "high",
            f"{rule.summary}: {detail}" if detail else rule.summary,
            detail=detail,
            run_ids=(run.plan.id,),
            kwargs=run.plan.kwargs,
            client=run.plan.client,
            scenario=run.plan.scenario.name,
        )
    )


#: Code, detail, and line and column of the guilty place.
_Key = tuple[str, str, tuple[int, int]]


@dataclass(frozen=True)
class _Break:
    """A comparison that does not preserve, with its name."""

    run: Run
    comparison: Comparison
    code: str
    detail: str
    also: tuple[str, ...]
    blame: Blame


def _classified(runs: Sequence[Run], subject: Subject) -> list[_Break]:
    """Every break that is not the client's own, those of core runs first."""
    found = []
    witness = Witness(subject.parsed, subject.server, dict(subject.template.special_tokens))
    blamed: dict[str, Blame] = {}
    for run in sorted(runs, key=lambda run: not run.plan.core):
        for comparison in run.comparisons:
            if comparison.preserving or comparison.client_loss:
                continue
            evidence = gather(comparison, _canonical_reuse(comparison, subject.encoder))
            code, detail, also = classify(evidence)
            if run.plan.replay == "verbatim":
                code, detail, also = "TF301", "separator", (code, *also)
            kind = _kind(run, comparison, code, detail)
            if kind not in blamed:
                blamed[kind] = blame(comparison, evidence, run.tools, witness)
            found.append(_Break(run, comparison, code, detail, also, blamed[kind]))
    return found


def _kind(run: Run, comparison: Comparison, code: str, detail: str) -> str:
    """Breaks of one kind have the same place in the template to blame: it is sought once."""
    before, after = comparison.before, comparison.after
    roles = [str(message.get("role")) for message in after.messages[len(before.messages) - 1 :]]
    calls = len(before.answer.tool_calls) if before.answer else 0
    said = bool(before.answer and before.answer.content)
    kwargs = [dict(before.kwargs), dict(after.kwargs)]
    return json.dumps([code, detail, run.plan.replay, roles, calls, said, kwargs])


def _without_parser_losses(runs: Sequence[Run], breaks: Sequence[_Break]) -> list[Run]:
    """The runs, with those that only a parser breaks counted as the parser's."""
    blamed = {id(each.run) for each in breaks if each.code != "TF301"}
    lossy = {id(each.run) for each in breaks} - blamed
    return [
        replace(run, preserving=None, lost_to="parser") if id(run) in lossy else run
        for run in runs
    ]


def _breaks(
    breaks: Sequence[_Break], runs: Sequence[Run], modes: Modes, encoder: Encoder, policy: str
) -> list[Finding]:
    """One finding per divergence, for all runs that show it."""
    found: dict[_Key, Finding] = {}
    switched = [each for each in breaks if each.run.plan.scenario.name == "mode-switch"]
    for each in breaks:
        if each not in switched and not (each.code == "TF108" and encoder.approximate):
            _merge(found, each, policy)
    for each in switched:
        if _key(each) not in found:
            also = (each.code, *each.also)
            each = replace(each, code="TF110", detail=each.code, also=also)
        _merge(found, each, policy)
    return [replace(finding, fix=_fix(finding, runs, modes)) for finding in found.values()]


def _canonical_reuse(comparison: Comparison, encoder: Encoder) -> int | None:
    """The common prefix in tokens if the stream were encoded in one piece."""
    if encoder.approximate:
        return None
    whole = encoder.encode(comparison.before.stream)
    if whole == comparison.before.stream_ids:
        return None
    return common_prefix(whole, comparison.after.prompt_ids)


def _merge(found: dict[_Key, Finding], each: _Break, policy: str) -> None:
    run, comparison, code, detail, also = (
        each.run,
        each.comparison,
        each.code,
        each.detail,
        each.also,
    )
    key = _key(each)
    known = found.get(key)
    if known is not None:
        same_run = known.run_ids[0] == run.plan.id
        found[key] = replace(
            known,
            run_ids=tuple(dict.fromkeys((*known.run_ids, run.plan.id))),
            also=tuple(dict.fromkeys((*known.also, *also))) if run.plan.core else known.also,
            lost_tokens=(known.lost_tokens or 0) + (comparison.lost if same_run else 0),
        )
        return
    rule = RULES[code]
    found[key] = Finding(
        code,
        rule.name,
        severity_of(code, run.plan.core, policy),
        "medium" if run.completion in ("markers", "unknown") else "high",
        rule.summary,
        detail=detail,
        also=also,
        run_ids=(run.plan.id,),
        kwargs=run.plan.kwargs,
        client=run.plan.client,
        scenario=run.plan.scenario.name,
        turn=comparison.turn,
        lost_tokens=comparison.lost,
        lost_here=comparison.lost,
        reused=comparison.reuse,
        cached=comparison.hit,
        total=len(comparison.before.stream_ids),
        divergence=divergence_of(comparison),
        locations=each.blame.locations,
        explanation=each.blame.explanation,
    )


def _key(each: _Break) -> _Key:
    """What makes divergences one: the same code at the same guilty place.

    Dropped reasoning is one fault with and without its tag.
    """
    places = each.blame.locations
    place = (places[0].line, places[0].column) if places else (0, 0)
    return each.code, "" if each.code == "TF102" else each.detail, place


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


def _fix(finding: Finding, runs: Sequence[Run], modes: Modes) -> Fix | None:
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
                and dict(run.plan.kwargs) == wanted
            ):
                spelled = json.dumps({setting.name: setting.value})
                return Fix(f"vllm serve --default-chat-template-kwargs '{spelled}'")
    return None


def _stop_mismatches(runs: Sequence[Run], encoder: Encoder) -> list[Finding]:
    """TF105: nothing is lost, but the turn is closed by another token in history."""
    if encoder.approximate:
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
            )
    return [found] if found else []


def _of_prompt(subject: Subject, notes: _Notes) -> list[Finding]:
    """TF109 and TF204: what one prompt shows by itself."""
    found = []
    clock = _clock_finding(subject)
    if clock is not None:
        found.append(clock)
    if _ignores_generation_prompt(subject):
        rule = RULES["TF204"]
        found.append(Finding(rule.code, rule.name, rule.severity, "high", rule.summary))
    return found


def _clock_finding(subject: Subject) -> Finding | None:
    if "strftime_now" not in subject.template.text:
        return None
    rule = RULES["TF109"]
    steps = (("second", 1), ("hour", 3600), ("day", 86400))
    try:
        now = subject.server.prompt(_GREETING, None, {})
        for name, seconds in steps:
            later = subject.server.prompt(
                _GREETING, None, {}, clock=PINNED_CLOCK + timedelta(seconds=seconds)
            )
            if later != now:
                severity: Severity = "info" if name == "day" else "warning"
                words = f"{rule.summary}: it is another one {name} later"
                return Finding(rule.code, rule.name, severity, "high", words, detail=name)
    except (Refused, Crashed):
        return None
    return None


def _ignores_generation_prompt(subject: Subject) -> bool:
    """Whether answers begin with a header that no generation prompt ever prints."""
    try:
        prompt = subject.server.prompt(_GREETING, None, {})
        if prompt != subject.server.prompt(_GREETING, None, {}, generation_prompt=False):
            return False
        completion = subject.author.completion(_GREETING, None, {}, PROBE.turns[0].answer)  # type: ignore[arg-type]
    except (Refused, Crashed):
        return False
    except Unspoken:
        return _header_without_prompt(subject, prompt)
    return _begins_with_header(completion)


def _header_without_prompt(subject: Subject, prompt: str) -> bool:
    from templatefix.chat.answer import Answer

    try:
        return _begins_with_header(
            subject.author.completion(_GREETING, None, {}, Answer(None, "A city."))
        )
    except (Unspoken, Refused, Crashed):
        return False


def _begins_with_header(completion: Any) -> bool:
    written = completion.written
    if written is None or written.content is None:
        return False
    begin = written.reasoning[0] if written.reasoning else written.content[0]
    lead = written.text[:begin].strip()
    opener = completion.tags.open if completion.tags else ""
    return bool(lead.removesuffix(opener).strip())


def _of_names(subject: Subject, options: CheckOptions) -> list[Finding]:
    """TF205: names that nobody supplies."""
    rule = RULES["TF205"]
    return [
        Finding(
            rule.code,
            rule.name,
            rule.severity,
            "medium",
            f"{rule.summary}: {unknown.name}",
            detail=unknown.name,
            locations=(
                Location(
                    "source",
                    unknown.line,
                    unknown.column,
                    unknown.line,
                    unknown.column + len(unknown.name),
                ),
            ),
        )
        for unknown in unknown_names(subject.parsed, subject.template.special_tokens)
    ]


def _report(
    subject: Subject,
    options: CheckOptions,
    policy: str,
    notes: _Notes,
    findings: list[Finding],
) -> Report:
    template, encoder = subject.template, subject.encoder
    runs = notes.runs
    outcomes = tuple(_run_outcome(run, options.full) for run in runs)
    core = [run for run in runs if run.plan.core]
    if any(run.preserving is False for run in core):
        verdict: Verdict = "breaks"
    elif any(run.preserving for run in core):
        verdict = "preserving"
    else:
        verdict = "not-evaluated"
    coverage = Coverage(
        tuple(_unique(run.plan.kwargs for run in runs)),
        tuple(dict.fromkeys(run.plan.scenario.name for run in runs)),
        tuple(dict.fromkeys(run.plan.client for run in runs)),
        tuple(_grouped(notes.not_evaluated)),
    )
    order = {"error": 0, "warning": 1, "info": 2}
    findings.sort(key=lambda finding: (order[finding.severity], finding.code))
    parsers = subject.author.parsers
    return Report(
        template.target,
        template.display,
        template.name,
        sha256(template.text),
        encoder.source,
        encoder.approximate,
        options.block_size,
        policy,
        verdict,
        coverage=coverage,
        runs=outcomes,
        findings=tuple(findings),
        source=template.text,
        attention=template.attention,
        parsers=(
            parsers.reasoning.name if parsers.reasoning else None,
            parsers.tool.name if parsers.tool else None,
        ),
    )


def _run_outcome(run: Run, full: bool) -> RunOutcome:
    one = run.plan
    rows: tuple[TurnRow, ...] = ()
    if full or one.requested or run.preserving is not True:
        rows = tuple(_rows(run))
    return RunOutcome(
        one.id,
        one.core,
        one.kwargs,
        one.client,
        one.replay,
        one.scenario.name,
        run.preserving,
        run.lost_to,
        run.completion,
        rows,
        one.requested,
    )


def _rows(run: Run) -> Iterable[TurnRow]:
    for i, request in enumerate(run.requests):
        comparison = run.comparisons[i - 1] if i else None
        yield TurnRow(
            i + 1,
            len(request.prompt_ids),
            len(request.stream_ids),
            len(comparison.before.stream_ids) if comparison else None,
            comparison.reuse if comparison else None,
            comparison.hit if comparison else None,
            comparison.ideal if comparison else None,
        )


def _unparsable(
    template: ChatTemplate, options: CheckOptions, policy: str, fault: Unparsable | SyntaxFault
) -> Report:
    rule = RULES["TF902"]
    message = getattr(fault, "message", str(fault))
    line = getattr(fault, "line", None)
    location = (Location("source", line, 1, line, 1),) if line else ()
    finding = Finding(
        rule.code,
        rule.name,
        rule.severity,
        "high",
        f"{rule.summary}: {message}",
        detail=message,
        locations=location,
    )
    return Report(
        template.target,
        template.display,
        template.name,
        sha256(template.text),
        template.tokenizer.source if template.tokenizer else None,
        template.tokenizer is None,
        options.block_size,
        policy,
        "error",
        Fault("TF902", message, "mend the template"),
        findings=(finding,),
        source=template.text,
        attention=template.attention,
    )


def sha256(text: str) -> str:
    """The hash that names a template: of its text as UTF-8."""
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


def _what(one: Plan) -> str:
    name = one.scenario.name + (f" ({one.scenario.variant})" if one.scenario.variant else "")
    return f"{name} under {_spell(one.kwargs)}"


def _spell(given: Mapping[str, Any]) -> str:
    if not given:
        return "default kwargs"
    return ", ".join(f"{name}={json.dumps(value)}" for name, value in given.items())


def _unique(items: Iterable[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    found: list[Mapping[str, Any]] = []
    for item in items:
        if item not in found:
            found.append(item)
    return found


def _grouped(entries: Sequence[NotEvaluated]) -> list[NotEvaluated]:
    """Entries in the order of how often their reason is given, most frequent first."""
    counts = Counter(entry.why for entry in entries)
    return sorted(entries, key=lambda entry: -counts[entry.why])
