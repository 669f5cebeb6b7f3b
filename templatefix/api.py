"""The library's front door: targets in, reports out.

All of it works in the calling process, where a template may take what it likes. For templates of
strangers there is ``templatefix.worker``: the same work in a child process under limits, as the
command line does it; or ``templatefix.limits.limited``, where soft limits will do.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

from templatefix.chat.conversation import Scenario
from templatefix.chat.given import Malformed, scenario_of
from templatefix.checking import CheckOptions, check, limited
from templatefix.checking.outcome import unparsable
from templatefix.errors import TargetError
from templatefix.findings.outcome import Fault, Report
from templatefix.policy import policy_for
from templatefix.render import SyntaxFault
from templatefix.serving.options import ServerOptions
from templatefix.serving.recorded.lines import Recording
from templatefix.serving.renderers import recognise
from templatefix.source import ChatTemplate, NoTemplate, SourceOptions, load, load_each, load_part
from templatefix.source.choice import MARKERS
from templatefix.source.template import sha256
from templatefix.syntax import Unparsable, located, looks_like_chat, parse, reads_messages

if TYPE_CHECKING:  # a check imports nothing of the patcher
    from templatefix.findings.repair import RepairReport
    from templatefix.patching.repair import PatchOptions
    from templatefix.serving.assemble import ServeOptions
    from templatefix.serving.plan import Serving

__all__ = [
    "CheckOptions",
    "Recording",
    "ServerOptions",
    "SourceOptions",
    "check_target",
    "check_template",
    "not_compiling",
    "patch_target",
    "patch_template",
    "read_conversation",
    "serve",
    "serve_patched",
    "the_template",
]


def read_conversation(text: str, name: str) -> dict[str, Any]:
    """The conversation in a JSON text; ``name`` is what errors call it.

    Raises ``TargetError`` when it is no JSON or not a conversation.
    """
    try:
        conversation = json.loads(text)
        scenario_of(conversation)
    except RecursionError:
        raise TargetError(name, "the JSON is nested too deeply") from None
    except ValueError as error:
        raise TargetError(
            name, f"not a JSON conversation: {error}", 'expected {"messages": [...]}'
        ) from None
    except Malformed as malformed:
        raise TargetError(name, str(malformed), "see the documentation on --conversation") from None
    assert isinstance(conversation, dict)
    return conversation


def check_target(
    target: str,
    source: SourceOptions,
    options: CheckOptions,
    stdin: IO[bytes] | None = None,
    alone: bool = True,
    *,
    recording: Recording | None = None,
    recover: bool = True,
    server: ServerOptions | None = None,
) -> list[Report]:
    """Check every template of a target; at least one report comes back.

    ``alone``: the target was the only one named, so that not being a chat template is an error.
    ``recording``: replay this recorded traffic instead of the battery; with ``recover`` a patch is
    made where the template loses tokens, to say how many come back.
    With ``server``, a running vLLM renders and parses in our place, and so does one that is started
    here for a model that vLLM renders without Jinja, where vLLM is installed.
    What a user can cause is a report with a fault, never an exception.
    """
    return list(
        check_each(
            target,
            source,
            options,
            stdin,
            alone,
            recording=recording,
            recover=recover,
            server=server,
        )
    )


def check_each(
    target: str,
    source: SourceOptions,
    options: CheckOptions,
    stdin: IO[bytes] | None = None,
    alone: bool = True,
    *,
    recording: Recording | None = None,
    recover: bool = True,
    server: ServerOptions | None = None,
    part: Path | None = None,
    begun: Callable[[ChatTemplate], bool] = lambda template: True,
) -> Iterator[Report]:
    """The reports of :func:`check_target`, each as soon as it is made.

    ``part`` is the one of a directory's ``source.parts`` that is looked into, which may have none.
    ``begun`` is told of every template before it is looked into, and may say that it is passed
    over.
    """
    scenario = scenario_of(options.conversation) if options.conversation is not None else None
    if server is not None:
        source = replace(source, without_template=True)

    def judge(template: ChatTemplate, policy: str) -> Report:
        if recording is not None:
            from templatefix.serving.recorded.traffic import check_recorded

            return check_recorded(template, options, policy, recording, recover=recover)
        return _judged(template, options, policy, scenario, source, server)

    for loaded in _loaded(target, source, stdin, part):
        if isinstance(loaded, NoTemplate) and recording is None:
            loaded = _without_template(target, source) or loaded
        if isinstance(loaded, TargetError):
            yield _failed(target, loaded, options)
        elif begun(loaded):
            named = alone and _named(target, loaded)
            yield _check_one(loaded, options, judge, named)


def check_template(template: ChatTemplate, options: CheckOptions) -> Report:
    """Check a template that is there already; what goes wrong is a report with a fault."""
    scenario = scenario_of(options.conversation) if options.conversation is not None else None

    def judge(template: ChatTemplate, policy: str) -> Report:
        return _judged(template, options, policy, scenario, SourceOptions(), None)

    return _check_one(template, options, judge, alone=True)


def _judged(
    template: ChatTemplate,
    options: CheckOptions,
    policy: str,
    scenario: Scenario | None,
    source: SourceOptions,
    server: ServerOptions | None,
) -> Report:
    """The check by whoever renders for the model."""
    found = recognise(template.config, template.files)
    if found is None and server is None:
        return _repaired(check(template, options, policy, scenario), template, options)
    from templatefix.serving import elsewhere

    asked = elsewhere.Asked(options, policy, scenario, source)
    try:
        if found is not None:
            return elsewhere.check_elsewhere(template, found, asked, server)
        assert server is not None
        return elsewhere.check_served(template, asked, server)
    except TargetError as error:
        return _unserved(template, error, options)


def patch_target(
    target: str,
    source: SourceOptions,
    options: PatchOptions,
    stdin: IO[bytes] | None = None,
) -> RepairReport:
    """Repair the one template of a target; nothing is written.

    Raises ``TargetError`` when the target holds several templates or none that can be used.
    """
    return patch_template(the_template(target, source, stdin), options)


def the_template(
    target: str, source: SourceOptions, stdin: IO[bytes] | None = None
) -> ChatTemplate:
    """The one template of a target. Raises ``TargetError`` like :func:`patch_target`."""
    template = _the_one(target, load(target, source, stdin))
    try:
        reads = reads_messages(parse(template.text))
    except (Unparsable, SyntaxFault) as fault:
        raise not_compiling(template, fault) from None
    if not reads:
        why = "not a chat template: it never reads messages"
        raise TargetError(template.display, why, "name a chat template")
    return template


def patch_template(template: ChatTemplate, options: PatchOptions) -> RepairReport:
    """Repair a template; nothing is written. Raises ``TargetError``."""
    from templatefix.patching.repair import repair
    from templatefix.patching.result import report_of

    try:
        return report_of(repair(template, options), options)
    except (Unparsable, SyntaxFault) as fault:
        raise not_compiling(template, fault) from None


def serve(
    target: str,
    source: SourceOptions,
    options: ServeOptions,
    model: str | None = None,
    stdin: IO[bytes] | None = None,
) -> Serving:
    """The ``vllm serve`` command for a target, with the check of the template that it serves.

    ``model`` is what the server is started with, where the target does not say so. Raises
    ``TargetError``, and ``ValueError`` when the options do not go together.
    """
    from templatefix.findings.repair import patch_words
    from templatefix.serving import assemble, served

    try:
        template = the_template(target, source, stdin)
    except NoTemplate:
        bare = served.without_template(target, source)
        if bare is None:
            raise
        return assemble.serving(bare, options)
    plan = assemble.serving(served.of_target(template, source, model), options)
    if plan.renderer is not None:
        return plan
    asked = CheckOptions(kwargs=options.kwargs or None)
    policy = policy_for(None, template.text)
    try:
        report = check(template, asked, policy)
    except TargetError:
        if source.tokenizer is not None:
            raise
        # The verdict needs no figures: a stand-in does where the tokenizer cannot be read.
        report = check(replace(template, tokenizer=None), asked, policy)
    if report.fault is not None:
        fault = report.fault
        raise TargetError(template.display, fault.message, fault.hint, fault.code)
    over = next((each for each in report.findings if each.code == limited.CODE), None)
    if over is not None:
        raise TargetError(template.display, over.message, limited.HINT, limited.CODE)
    return assemble.checked(plan, report, patch_words(template))


def serve_patched(
    template: ChatTemplate, options: ServeOptions, file: str | None, revision: str | None = None
) -> Serving:
    """The command that serves a patched ``template`` from ``file`` (None: with kwargs alone)."""
    from templatefix.serving import assemble, served

    return assemble.serving(served.of_template(template, file, revision), options)


def _repaired(report: Report, template: ChatTemplate, options: CheckOptions) -> Report:
    """The report of a template that breaks, with the repairs that the options ask for."""
    if report.verdict != "breaks" or not options.repair_under:
        return report
    from templatefix.patching.repair import PatchOptions

    repairs = []
    for policy in options.repair_under:
        asked = PatchOptions(
            policy=policy,
            kwargs=options.kwargs,
            block_size=options.block_size,
            seed=options.seed,
            reasoning_parser=options.reasoning_parser,
            tool_call_parser=options.tool_call_parser,
            afterwards=replace(options, policy=None, repair_under=()),
        )
        repairs.append(patch_template(template, asked))
        if not repairs[-1].excluded:
            break  # a policy that allows more has nothing more to repair
    return replace(report, repairs=tuple(repairs))


def not_compiling(template: ChatTemplate, fault: Unparsable | SyntaxFault) -> TargetError:
    """The error for a template that does not compile."""
    message = located(fault.message, fault.line)
    return TargetError(template.display, message, "mend the template", fault.code)


def _the_one(target: str, found: Sequence[ChatTemplate]) -> ChatTemplate:
    if len(found) == 1:
        return found[0]
    files = list(dict.fromkeys(each.display for each in found))
    if all(each.name for each in found):
        names = ", ".join(str(each.name) for each in found)
        raise TargetError(target, f"holds several templates: {names}", "pick with --template-name")
    more = f" and {len(files) - 5} more" if len(files) > 5 else ""
    listed = ", ".join(files[:5]) + more
    raise TargetError(target, f"holds several templates: {listed}", "name one of them")


def _named(target: str, loaded: ChatTemplate) -> bool:
    """Whether a target stands for this template, and was not just searched for templates."""
    directory = Path(target)
    if loaded.path is None or not directory.is_dir():
        return True
    return loaded.path.parent == directory and loaded.path.name in MARKERS


def _loaded(
    target: str, source: SourceOptions, stdin: IO[bytes] | None, part: Path | None
) -> Iterator[ChatTemplate | TargetError]:
    if part is not None:
        yield from load_part(target, part, source)
        return
    try:
        yield from load_each(target, source, stdin)
    except TargetError as error:
        yield error


def _check_one(
    template: ChatTemplate,
    options: CheckOptions,
    judge: Callable[[ChatTemplate, str], Report],
    alone: bool,
) -> Report:
    policy = policy_for(options.policy, template.text)
    try:
        parsed = parse(template.text)
        if template.text and not reads_messages(parsed):
            why = "not a chat template: it never reads messages"
            return _no_chat_template(template, options, policy, alone, why)
        if template.text and not alone and not looks_like_chat(parsed):
            why = "not a chat template: it reads neither roles nor content"
            return _no_chat_template(template, options, policy, alone, why)
    except Unparsable as fault:
        if fault.code != "TF902":  # parsing it again would take as much again
            return unparsable(template, options, policy, fault)
        # else the check reports it with its line
    try:
        return judge(template, policy)
    except TargetError as error:
        return _failed(template.target, error, options, template)


def _without_template(target: str, source: SourceOptions) -> ChatTemplate | TargetError | None:
    """A model that needs no template, since vLLM renders it with code of its own."""
    from templatefix.serving import elsewhere

    try:
        return elsewhere.without_template(target, source)
    except TargetError as error:
        return error


def _unserved(template: ChatTemplate, error: TargetError, options: CheckOptions) -> Report:
    """The report on a template whose server failed."""
    if error.target not in (template.target, template.display):
        message = f"{error.target}: {error.message}"
        error = TargetError(template.display, message, error.hint, error.code)
    return _failed(template.target, error, options, template)


def _no_chat_template(
    template: ChatTemplate, options: CheckOptions, policy: str, alone: bool, why: str
) -> Report:
    fault = Fault("TF901", why, "name a chat template") if alone else None
    return Report(
        template.target,
        template.display,
        template.name,
        sha256(template.text),
        None,
        True,
        options.block_size,
        policy,
        "error" if alone else "not-evaluated",
        fault,
        skipped=None if alone else why,
        source=template.text,
    )


def _failed(
    target: str,
    error: TargetError,
    options: CheckOptions,
    template: ChatTemplate | None = None,
) -> Report:
    return Report(
        target,
        error.target if template is None else template.display,
        template.name if template else None,
        sha256(template.text) if template and template.text else None,
        None,
        True,
        options.block_size,
        policy_for(options.policy),
        "error",
        Fault(error.code, error.message, error.hint),
        source=(template.text or None) if template else None,
    )
