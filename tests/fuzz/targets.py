"""What is fuzzed: each function takes an input and lets through no exception that is no answer."""

from __future__ import annotations

import io
import json
from collections.abc import Sequence
from pathlib import Path

from templatefix import api
from templatefix.baseline import read_baseline
from templatefix.checking import CheckOptions
from templatefix.checking.runs import modes_of
from templatefix.checking.subject import prepare
from templatefix.errors import TargetError
from templatefix.findings.outcome import Report
from templatefix.limits import Limits, limited
from templatefix.patching.bench import Bench
from templatefix.patching.contract import verify
from templatefix.patching.repair import PatchOptions, repair
from templatefix.policy import policy_of
from templatefix.render import SyntaxFault
from templatefix.report.edition import Edition
from templatefix.report.github import github_report
from templatefix.report.json_report import json_report
from templatefix.report.sarif import sarif_report
from templatefix.report.text import TextStyle, text_report
from templatefix.rules import RULES
from templatefix.serving.recorded.lines import Recording
from templatefix.serving.recorded.traffic import check_recorded
from templatefix.source import ChatTemplate, SourceOptions, load_each
from templatefix.source.template import sha256
from templatefix.suppress import suppressions
from templatefix.syntax import Unparsable, normalise_newlines, parse
from tests.syntax.exact import check_spans

LIMITS = Limits(seconds=2, megabytes=2048, characters=400_000)
_EDITION = Edition("0", "vllm", "jinja", "2024-01-01T00:00:00")


def reading(text: str) -> bool:
    """A template's text is parsed with exact spans, or refused. Returns whether it parsed."""
    try:
        template = parse(text)
    except Unparsable:
        return False
    assert template.text == normalise_newlines(text)
    check_spans(template)
    return True


def suppressing(text: str) -> int:
    """Comments that suppress are found where they are. Returns how many."""
    try:
        parse(text)
    except Unparsable:
        return 0
    found = suppressions(text)
    for each in found:
        assert each.codes or each.malformed
        assert (1, 1) <= tuple(each.start) < tuple(each.end)
        assert each.end.line <= normalise_newlines(text).count("\n") + 1
    return len(found)


def checking(text: str) -> str:
    """A check comes to a report, and the report to text in every format. Returns the verdict."""
    with limited(LIMITS):
        report = api.check_template(ChatTemplate("t", "t.jinja", text), CheckOptions())
    reporting([report])
    return report.verdict


def reporting(reports: Sequence[Report]) -> None:
    """Every format holds what the others hold, and none is broken by what it shows."""
    shown = text_report(reports, TextStyle(verbose=True))
    assert not any(character < " " and character != "\n" for character in shown)
    shown.encode("utf-8")
    for text in (json_report(reports, _EDITION), sarif_report(reports, _EDITION, RULES)):
        json.loads(text.encode("utf-8"))
    for line in github_report(reports).encode("utf-8").decode().splitlines():
        assert line.startswith("::")


def loading(file: Path) -> int:
    """A file yields templates, or says what is wrong with it. Returns how many templates."""
    count = 0
    for found in load_each(str(file), SourceOptions(offline=True)):
        if isinstance(found, TargetError):
            assert "\n" not in str(found)
        else:
            found.text.encode("utf-8")
            count += 1
    return count


def accepting(file: Path) -> bool:
    """A baseline is read, or refused."""
    try:
        read_baseline(file)
    except TargetError:
        return False
    return True


def conversing(text: str) -> bool:
    """A conversation is read, or refused."""
    try:
        api.read_conversation(text, "conversation")
    except TargetError:
        return False
    return True


def recording(content: bytes, template: ChatTemplate) -> int:
    """Recorded requests are replayed, lines that cannot be read are counted, and what holds no
    request is refused. Returns how many requests were replayed."""
    recorded = Recording("-", io.BytesIO(content))
    try:
        report = check_recorded(template, CheckOptions(), "keep-reasoning", recorded, recover=False)
    except TargetError:
        return 0  # not a line of it is a request: it is some other file
    reporting([report])
    assert report.recorded is not None
    return report.recorded.requests


def patching(text: str, policy: str) -> str:
    """Whatever a repair emits keeps the contract, and its check shows nothing in the policy's
    scope. Returns the status."""
    template = ChatTemplate("t", "t.jinja", text)
    with limited(LIMITS):
        try:
            patched = repair(template, PatchOptions(policy=policy, max_examples=2))
        except (TargetError, Unparsable, SyntaxFault):
            return "refused"
        if patched.text is None:
            return patched.status
        if patched.status == "patched":
            assert policy_of(patched.text) == policy
        asked = CheckOptions(policy=policy)
        subject = prepare(template, asked)
        bench = Bench(subject, modes_of(subject, asked), policy, 16)
        proof = verify(
            bench,
            patched.text,
            max_examples=0,
            seed=1,
            fold=patched.candidate is not None and patched.candidate.rung == 5,
        )
        assert proof.violations == (), (proof.violations, text)
        again = ChatTemplate("t", "t.jinja", patched.text)
        report = api.check_template(again, CheckOptions(policy=policy))
        core = {"TF101", "TF103", "TF104", "TF106", "TF107", "TF111"}
        core |= {"TF102"} if policy == "keep-reasoning" else set()
        left = [f for f in report.findings if f.code in core and f.severity == "error"]
        assert not left, (sha256(text), left)
    return patched.status
