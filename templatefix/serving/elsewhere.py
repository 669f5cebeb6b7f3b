"""Models that vLLM renders with code of its own: who is asked for the verdict, and what is said."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import PurePath

from templatefix.chat.conversation import Scenario
from templatefix.checking import CheckOptions, check
from templatefix.dialect import named
from templatefix.errors import TargetError
from templatefix.findings.finding import SEVERITIES, Finding, Fix, Severity
from templatefix.findings.outcome import NotEvaluated, Report
from templatefix.rules import RULES
from templatefix.serving.encoders import encoder_of
from templatefix.serving.options import AUTO, ServerOptions
from templatefix.serving.plan import KWARGS_FLAG, flag_text
from templatefix.serving.render_server import render_server
from templatefix.serving.renderers import Recognised, Renderer, recognise, renderer_of
from templatefix.serving.served import names_a_model
from templatefix.serving.vllm_python import find_vllm
from templatefix.source import ChatTemplate, SourceOptions, load_bare

#: Codes of what a history changes, for which vLLM's own code is to blame here.
_HISTORY = frozenset(("TF101", "TF102", "TF103", "TF104", "TF106", "TF107", "TF111"))
_NO_WAY_OUT = "no flag and no kwarg of vLLM changes what it does with past answers"


@dataclass(frozen=True)
class Asked:
    """What a check was asked for: its options, policy and conversation, and where from."""

    options: CheckOptions
    policy: str
    scenario: Scenario | None
    source: SourceOptions


def without_template(target: str, source: SourceOptions) -> ChatTemplate | None:
    """A model without a template that the server renders with code of its own.

    None for every other. Raises ``TargetError``.
    """
    if source.chat_template is not None or not names_a_model(target):
        return None
    beside = load_bare(target, source)
    if recognise(beside.config, beside.files) is None:
        return None
    return ChatTemplate(
        target,
        target,
        "",
        special_tokens=beside.special_tokens,
        stop_token_ids=beside.stop_token_ids,
        tokenizer=beside.tokenizer,
        attention=beside.attention,
        format="none",
        config=beside.config,
        files=beside.files,
    )


def check_elsewhere(
    template: ChatTemplate, found: Recognised, asked: Asked, server: ServerOptions | None
) -> Report:
    """Check a model that vLLM renders with code of its own, by that code where it can be run.

    ``server`` is the one that the user wants to be asked; without it one is started where vLLM is
    installed. A template that the user named as such is checked itself. Raises ``TargetError``.
    """
    renderer = found.renderer
    if renderer.eos is not None:
        tokens = {"eos_token": renderer.eos, **template.special_tokens}
        template = replace(template, special_tokens=tokens)
    if server is not None:
        report = _through(template, renderer, asked, server)
        by_template = server.url == AUTO and renderer_of(template, server.arguments) is None
        if by_template or (template.text and report.source is not None):
            return report
        return _explained(report, template, found)
    if asked.source.chat_template is not None or not names_a_model(template.target):
        report = check(template, asked.options, asked.policy, asked.scenario)
        words = "a server of this model reads the template only with --tokenizer-mode hf"
        if not renderer.escapes:
            words = "no flag makes vLLM read the template for this model"
        return _with(report, _finding(template, found, "info", words))
    reasons: list[TargetError] = []
    for way in (_through_vllm, _through_library):
        try:
            rendered = way(template, renderer, asked)
        except TargetError as reason:
            reasons.append(reason)
            continue
        if rendered is not None:
            return _explained(rendered, template, found)
    return _unchecked(template, found, asked, reasons)


def _through_vllm(template: ChatTemplate, renderer: Renderer, asked: Asked) -> Report | None:
    find_vllm()
    if template.tokenizer is None:
        raise TargetError(template.display, "its tokenizer is not there", "give --tokenizer")
    return _through(template, renderer, asked, ServerOptions(AUTO))


def _through_library(template: ChatTemplate, renderer: Renderer, asked: Asked) -> Report | None:
    encoder = encoder_of(template, renderer)
    if encoder is None:
        return None
    bare = replace(template, text="", display=template.target, name=None)
    options = _with_parsers(asked.options, renderer)
    return check(bare, options, asked.policy, asked.scenario, encoder)


def check_served(template: ChatTemplate, asked: Asked, server: ServerOptions) -> Report:
    """Check a model through a server. Raises ``TargetError``."""
    with render_server(template, asked.options, server) as remote:
        return check(template, asked.options, asked.policy, asked.scenario, remote)


def _through(
    template: ChatTemplate, renderer: Renderer, asked: Asked, server: ServerOptions
) -> Report:
    with render_server(template, asked.options, server) as remote:
        options = _with_parsers(asked.options, renderer)
        report = check(template, options, asked.policy, asked.scenario, remote)
        if server.url == AUTO and report.source is None:
            # The address is of no use to anybody once the server has ended.
            report = replace(report, renderer=f"{renderer.mode} of vLLM {remote.version}")
        return report


def _with_parsers(options: CheckOptions, renderer: Renderer) -> CheckOptions:
    reasoning, tool = renderer.parsers
    return replace(
        options,
        reasoning_parser=options.reasoning_parser
        or (reasoning if reasoning in named.REASONING else None),
        tool_call_parser=options.tool_call_parser or (tool if tool in named.TOOLS else None),
    )


def _unchecked(
    template: ChatTemplate, found: Recognised, asked: Asked, reasons: Sequence[TargetError]
) -> Report:
    """The report where vLLM's code cannot be run here: of the template, where there is one."""
    why = "; ".join(reason.message for reason in reasons)
    if template.text:
        report = check(template, asked.options, asked.policy, asked.scenario)
        words = "the verdict is that of the template, and does not apply to vLLM"
    else:
        report = Report(
            template.target,
            template.display,
            None,
            None,
            template.tokenizer.source if template.tokenizer else None,
            template.tokenizer is None,
            asked.options.block_size,
            asked.policy,
            "not-evaluated",
            attention=template.attention,
        )
        words = "there is no template, and that code was not checked"
    skipped = NotEvaluated(f"the renderer {found.renderer.mode}", why)
    coverage = replace(report.coverage, not_evaluated=(skipped, *report.coverage.not_evaluated))
    report = replace(report, coverage=coverage)
    hints = ", or ".join(reason.hint for reason in reasons)
    hint = f"to check it, {hints}; or give the --server URL of a vLLM that runs"
    return _with(report, replace(_finding(template, found, "warning", words), explanation=hint))


def _explained(report: Report, template: ChatTemplate, found: Recognised) -> Report:
    """A report on vLLM's own code, with what can be done about it."""
    words = f"what is reported is what {report.renderer} does"
    findings = tuple(_with_way_out(each, template, found.renderer) for each in report.findings)
    return _with(replace(report, findings=findings), _finding(template, found, "info", words))


def _with_way_out(finding: Finding, template: ChatTemplate, renderer: Renderer) -> Finding:
    if finding.code == "TF109" and renderer.pins:
        return replace(finding, fix=Fix(_pinned(renderer)))
    if finding.code not in _HISTORY or finding.severity != "error" or finding.fix is not None:
        return finding
    if renderer.escapes:
        return replace(finding, fix=Fix(_by_jinja(template.target), safe=False))
    return replace(finding, explanation=_NO_WAY_OUT)


def _finding(template: ChatTemplate, found: Recognised, severity: Severity, words: str) -> Finding:
    rule = RULES["TF501"]
    message = f"{rule.summary} ({found.renderer.mode}, chosen by {found.evidence}): {words}"
    if not found.renderer.escapes and found.renderer.append_only is None:
        message += f"; {_NO_WAY_OUT}"
    ways = "; or ".join(_ways_out(template.target, found.renderer))
    return Finding(
        rule.code,
        rule.name,
        severity,
        "high",
        message,
        detail=found.renderer.mode,
        fix=Fix(ways) if ways else None,
    )


def _ways_out(target: str, renderer: Renderer) -> Iterator[str]:
    if renderer.append_only is not None:
        kwargs = shlex.join((KWARGS_FLAG, flag_text(renderer.append_only)))
        yield f"{kwargs}, with clients that send reasoning back"
    if renderer.escapes:
        yield _by_jinja(target)
    if renderer.pins:
        yield _pinned(renderer)


def _by_jinja(target: str) -> str:
    ready = _ready(target)
    if not ready:
        return "--tokenizer-mode hf with a prefix-preserving template (--chat-template FILE)"
    return f'--tokenizer-mode hf --chat-template "$(templatefix ready path {ready[0]})"'


def _ready(target: str) -> list[str]:
    """The ready templates that serve a model, by its id or by the directory's name."""
    from templatefix.ready.shelf import shelf

    wanted = PurePath(target).name.casefold()
    return [
        each.name
        for each in shelf()
        if any(PurePath(name).name.casefold() == wanted for name in each.header.serves)
    ]


def _pinned(renderer: Renderer) -> str:
    pins = shlex.join(f"{name}={value}" for name, value in renderer.pins.items())
    return f"{pins} in the server's environment, which keeps the head from day to day"


def _with(report: Report, finding: Finding) -> Report:
    """The finding in its place: after what is as grave."""
    order = {severity: rank for rank, severity in enumerate(reversed(SEVERITIES))}
    findings = sorted((*report.findings, finding), key=lambda each: order[each.severity])
    return replace(report, findings=tuple(findings))
