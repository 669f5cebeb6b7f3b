"""What a check says of small templates of our own."""

from __future__ import annotations

import shlex
from dataclasses import replace

import pytest

from templatefix.checking import CheckOptions, check
from templatefix.checking.breaks import repair_command, severity_of
from templatefix.errors import TargetError
from templatefix.findings.finding import Fix
from templatefix.findings.outcome import Report
from templatefix.patching.fixes import FIXERS
from templatefix.policy import HEADER
from templatefix.rules import RULES
from tests.subjects import APPENDS, APPENDS_ALL, STOP, branches, by_code, report, template

_HEADER = "{{- '<|im_start|>assistant\\n' }}"
_CONTENT = "{{- message.content + '<|im_end|>\\n' }}"
_KEPT = (
    "{%- if message.reasoning_content is defined and (loop.last or keep) %}"
    "{{- '<think>' + message.reasoning_content + '</think>' }}{% endif %}"
)
DROPS = branches(_HEADER + _KEPT + _CONTENT)
MOVES = "{{- messages | length }}" + APPENDS
TRIMS = branches(_HEADER + "{{- message.content | trim + '<|im_end|>\\n' }}")
CALLS = "{%- for m in messages %}{%- for call in m.tool_calls or [] %}BODY{% endfor %}{% endfor %}"


def _calls(body: str, text: str = APPENDS) -> str:
    return CALLS.replace("BODY", body) + text


ERRORS = {"TF101", "TF103", "TF106", "TF107", "TF111", "TF202", "TF902"}
WARNINGS = {"TF203", "TF204", "TF205"}
INFOS = {"TF105", "TF110", "TF201", "TF206", "TF301"}


def _errors(checked: Report) -> set[str]:
    return {finding.code for finding in checked.findings if finding.severity == "error"}


def test_severities_are_those_of_the_design() -> None:
    assert {code for code in ERRORS if RULES[code].severity == "error"} == ERRORS
    assert {code for code in WARNINGS if RULES[code].severity == "warning"} == WARNINGS
    assert {code for code in INFOS if RULES[code].severity == "info"} == INFOS


@pytest.mark.parametrize(
    ("code", "core", "policy", "severity"),
    [
        ("TF104", True, "keep-reasoning", "error"),
        ("TF104", False, "keep-reasoning", "warning"),
        ("TF108", True, "keep-reasoning", "warning"),
        ("TF108", False, "keep-reasoning", "info"),
        ("TF102", True, "lossless", "info"),
        ("TF102", False, "lossless", "info"),
        ("TF101", True, "lossless", "error"),
        ("TF101", False, "keep-reasoning", "warning"),
        ("TF110", False, "keep-reasoning", "info"),
        ("TF301", True, "keep-reasoning", "info"),
    ],
)
def test_what_only_edge_runs_show_is_a_warning_at_most(
    code: str, core: bool, policy: str, severity: str
) -> None:
    assert severity_of(code, core, policy) == severity


def test_a_template_that_only_appends_is_preserving_and_quiet() -> None:
    for text in (APPENDS, APPENDS_ALL):
        checked = report(text)
        assert checked.verdict == "preserving"
        assert all(finding.severity == "info" for finding in checked.findings)
        assert all(run.preserving is not False for run in checked.runs if run.core)


def test_one_fault_is_one_finding_for_all_runs_that_show_it() -> None:
    checked = report(DROPS)
    (dropped,) = [f for f in checked.findings if f.code == "TF102"]
    assert len(dropped.run_ids) > 1
    assert len(set(dropped.run_ids)) == len(dropped.run_ids)
    broken = {run.id for run in checked.runs if run.preserving is False}
    assert broken <= {run_id for f in checked.findings for run_id in f.run_ids}
    assert dropped.turn == 2
    assert dropped.lost_here is not None
    assert dropped.lost_tokens is not None
    assert dropped.lost_tokens > dropped.lost_here > 0
    assert dropped.cached is not None
    assert dropped.reused is not None
    assert dropped.cached <= dropped.reused < (dropped.total or 0)


def test_reasoning_is_dropped_once_whether_or_not_its_tag_goes_with_it() -> None:
    opened = branches(_HEADER + _KEPT + _CONTENT, "{%- if open %}{{- '<think>' }}{% endif %}")
    dropped = [f for f in report(opened).findings if f.code == "TF102"]
    assert len(dropped) == 1
    assert any("open=true" in run_id for run_id in dropped[0].run_ids)


def test_the_first_rule_that_holds_names_it_and_the_others_go_along() -> None:
    text = branches(
        _HEADER + "{{- (message.content | upper) + '<|im_end|>\\n' }}", "{{- '<think></think>' }}"
    )
    found = by_code(report(text))
    assert found["TF101"].also == ("TF104",)
    assert "TF104" not in found


def test_the_verdict_is_taken_over_core_runs() -> None:
    checked = report(TRIMS)
    assert checked.verdict == "preserving"
    assert by_code(checked)["TF104"].severity == "warning"
    assert any(run.preserving is False and not run.core for run in checked.runs)


def test_fixed_kwargs_are_the_only_mode() -> None:
    closing = "{%- if not think %}{{- '<think></think>' }}{% endif %}"
    text = branches(_HEADER + _KEPT + _CONTENT, closing)
    assert {str(m) for m in report(text).coverage.modes} >= {"{}", "{'think': True}"}
    checked = report(text, CheckOptions(kwargs={"think": True}))
    assert checked.coverage.modes == ({"think": True},)
    assert _errors(checked) == {"TF102"}
    default = report(text, CheckOptions(kwargs={}))
    assert default.coverage.modes == ({},)
    assert _errors(default) == {"TF101"}


def test_a_misspelt_kwarg_reaches_no_template_and_is_named() -> None:
    checked = report(DROPS, CheckOptions(kwargs={"kept": True}))
    assert checked.coverage.modes == ({},)
    assert by_code(checked)["TF408"].detail == "kept"


def test_a_kwarg_that_repairs_is_the_fix() -> None:
    fix = by_code(report(DROPS))["TF102"].fix
    assert fix is not None
    assert "'{\"keep\": true}'" in fix.text


def test_the_fix_of_what_no_kwarg_repairs_is_a_patch() -> None:
    body = _KEPT.replace(" or keep", "")
    fix = by_code(report(branches(_HEADER + body + _CONTENT)))["TF102"].fix
    assert fix == Fix("templatefix patch t --out fixed.jinja --policy keep-reasoning", safe=False)
    block = "{{- '<think>\\n\\n</think>\\n\\n' }}"
    fix = by_code(report(branches(_HEADER + _CONTENT, prompt=block)))["TF101"].fix
    assert fix == Fix("templatefix patch t --out fixed.jinja")


def test_a_suggested_patch_of_what_it_would_write_is_told_to_replace_it() -> None:
    asked = replace(template(DROPS), target="fixed.jinja")
    fix = repair_command("TF101", asked, CheckOptions())
    assert fix == Fix("templatefix patch fixed.jinja --out fixed.jinja --force")


def test_a_fix_repeats_what_was_given() -> None:
    body = _KEPT.replace(" or keep", "")
    shown = replace(
        template(branches(_HEADER + body + _CONTENT)),
        arguments=("a model", "--tokenizer", "o/m", "--template-name", "tool_use"),
    )
    asked = CheckOptions(kwargs={}, reasoning_parser="qwen3", tool_call_parser="hermes")
    fix = by_code(check(shown, asked))["TF102"].fix
    assert fix is not None
    assert shlex.split(fix.text) == [
        *("templatefix", "patch", "a model"),
        *("--tokenizer", "o/m", "--template-name", "tool_use", "--out", "fixed.jinja"),
        *("--kwargs", "{}", "--reasoning-parser", "qwen3", "--tool-call-parser", "hermes"),
        *("--policy", "keep-reasoning"),
    ]


def test_what_a_patch_repairs_on_request_is_asked_for() -> None:
    text = APPENDS.replace("message.content", "message.content.nothing.at.all")
    fix = by_code(report(text))["TF203"].fix
    assert fix == Fix("templatefix patch t --out fixed.jinja --fix TF203")
    tokens = {**STOP, "bos_token": "<|endoftext|>"}
    twice = report("{{- bos_token + bos_token }}" + APPENDS, special_tokens=tokens)
    assert by_code(twice)["TF201"].fix == Fix(
        "templatefix patch t --out fixed.jinja --fix TF201", safe=False
    )


def test_every_code_with_a_repair_on_request_says_how_to_ask() -> None:
    asked = {code for code in RULES if repair_command(code, template(APPENDS), CheckOptions())}
    assert set(FIXERS) == {code for code in asked if code.startswith("TF2")}
    assert "TF206" not in asked
    assert "TF105" not in asked


def test_no_patch_is_offered_for_what_only_an_edge_run_shows() -> None:
    edge = [finding for finding in report(TRIMS).findings if finding.severity == "warning"]
    assert [finding.code for finding in edge] == ["TF104"]
    assert edge[0].fix is None


def test_under_lossless_dropped_reasoning_is_information() -> None:
    lossless = by_code(report(DROPS, policy="lossless"))["TF102"]
    assert lossless.severity == "info"
    assert by_code(report(DROPS))["TF102"].severity == "error"
    header = HEADER.format(policy="lossless")
    assert header == "templatefix-policy: lossless"


def test_the_stand_in_tokenizer_is_marked_and_nothing_is_said_of_ids() -> None:
    ends = branches(_HEADER + "{{- message.content }}{{- '\\n' if loop.last else '\\n\\n' }}")
    bare = "{%- for m in messages %}{{- m.role + ':\\n' + m.content + '\\n' }}{% endfor %}"
    bare += "{%- if add_generation_prompt %}{{- 'assistant:\\n' }}{% endif %}"
    for text in (ends, bare):
        exact = report(text, special_tokens={})
        assert {"TF105", "TF108"} & {f.code for f in exact.findings}
        assert not exact.tokenizer_approximate
        stand_in = report(text, special_tokens={}, exact=False)
        assert stand_in.tokenizer_approximate
        assert not {"TF105", "TF108"} & {f.code for f in stand_in.findings}


@pytest.mark.parametrize("use", ["bos_token", "bos_token + '\\n'", "bos_token ~ pad_token"])
def test_a_special_token_that_nobody_gave_is_no_crash(use: str) -> None:
    checked = report("{{- " + use + " }}" + APPENDS, special_tokens={}, exact=False)
    assert checked.verdict == "preserving"
    assert not {"TF203", "TF205"} & {finding.code for finding in checked.findings}


def test_a_refusal_is_no_crash_and_keeps_the_template_s_own_words() -> None:
    refused = report(_calls("{{- raise_exception('calls are ' + 'off') }}"))
    finding = by_code(refused)["TF206"]
    assert (finding.severity, finding.detail) == ("info", "calls are off")
    assert "TF203" not in by_code(refused)
    assert refused.verdict == "preserving"
    assert {n.what for n in refused.coverage.not_evaluated if "calls are off" in n.why} == {
        "tool-loop",
        "parallel-tools",
        "tool-rounds",
        "tool-loop-then-user",
        "truncated",
    }


def test_any_other_exception_is_a_crash_with_its_line() -> None:
    crashed = by_code(report("\n" + _calls("{{- call.function.arguments + '' }}")))
    finding = crashed["TF203"]
    assert finding.severity == "warning"
    assert finding.line == 2
    assert finding.detail.startswith("TypeError: ")
    assert "TF206" not in crashed


def test_a_system_message_that_is_refused_is_left_out_of_the_other_scenarios() -> None:
    refuses = "{%- if messages[0].role == 'system' %}{{ raise_exception('no') }}{% endif %}"
    checked = report(refuses + APPENDS)
    assert checked.verdict == "preserving"
    assert "whitespace" in checked.coverage.scenarios
    assert "plain-chat" not in checked.coverage.scenarios


def test_a_template_that_refuses_everything_has_no_verdict() -> None:
    checked = report("{{- raise_exception('never') }}{{ messages }}")
    assert checked.verdict == "not-evaluated"
    assert checked.runs == ()
    assert by_code(checked)["TF206"].detail == "never"


@pytest.mark.parametrize(
    ("words", "detail"),
    [("0", "0"), ("true", "True"), ("[1]", "[1]"), ("nobody.name", ""), ("none", "")],
)
def test_a_template_may_refuse_with_whatever_it_likes(words: str, detail: str) -> None:
    checked = report("{% set nobody = {} %}{{- raise_exception(" + words + ") }}{{ messages }}")
    assert checked.verdict == "not-evaluated"
    assert by_code(checked)["TF206"].detail == detail


def test_a_bos_that_is_printed_twice() -> None:
    tokens = {**STOP, "bos_token": "<|endoftext|>"}
    twice = report("{{- bos_token + bos_token }}" + APPENDS, special_tokens=tokens)
    assert by_code(twice)["TF201"].severity == "info"
    assert "TF201" not in by_code(report("{{- bos_token }}" + APPENDS, special_tokens=tokens))


def test_a_message_that_is_not_printed() -> None:
    later = "{%- set said = messages[1:] %}" + APPENDS.replace("in messages", "in said")
    found = by_code(report(later))
    assert found["TF202"].severity == "error"
    assert found["TF202"].detail == "the content of a system message"


def test_a_generation_prompt_that_is_ignored() -> None:
    ignores = APPENDS.partition("{%- if add_generation_prompt")[0]
    assert by_code(report(ignores))["TF204"].severity == "warning"
    assert "TF204" not in by_code(report(APPENDS))
    headless = (
        "{%- for m in messages %}{{- ('[INST] ' + m.content + ' [/INST]') if m.role == 'user'"
        " else m.content + eos_token }}{% endfor %}"
    )
    assert "TF204" not in by_code(report(headless))


def test_a_name_that_nobody_supplies() -> None:
    finding = by_code(report(APPENDS + "\n{{ seperator }}"))["TF205"]
    assert (finding.severity, finding.detail, finding.line) == ("warning", "seperator", 2)
    assert "TF205" not in by_code(report(APPENDS + "{{ seperator | default('') }}"))


@pytest.mark.parametrize(
    ("form", "step", "severity"),
    [
        ("%S", "second", "warning"),
        ("%H:%M", "hour", "warning"),
        ("%d %b %Y", "day", "info"),
        ("%Y", None, None),
    ],
)
def test_the_clock_is_moved_by_a_second_an_hour_and_a_day(
    form: str, step: str | None, severity: str | None
) -> None:
    found = by_code(report("\n{{- strftime_now('" + form + "') }}" + APPENDS)).get("TF109")
    assert (found.detail if found else None) == step
    assert (found.severity if found else None) == severity
    if found:
        assert found.locations[0].snippet == f"strftime_now('{form}')"
        assert found.line == 2


def test_history_that_depends_on_the_mode_of_the_request() -> None:
    text = branches(
        _HEADER + "{{- ('<|b|>' if bold else '') + message.content + '<|im_end|>\\n' }}",
        "{%- if bold %}{{- '<|b|>' }}{% endif %}",
    )
    found = by_code(report(text))["TF110"]
    assert found.severity == "info"
    assert found.scenario == "mode-switch"
    assert found.detail in found.also
    assert report(text).verdict == "preserving"


def test_a_template_that_does_not_compile() -> None:
    for text, line in (("\n{% for m in messages %}", 2), ("{{ messages | nofilter }}", 1)):
        checked = report(text)
        assert checked.verdict == "error"
        assert checked.fault is not None
        assert checked.fault.code == "TF902"
        assert by_code(checked)["TF902"].severity == "error"
        assert by_code(checked)["TF902"].line == line


@pytest.mark.parametrize(
    "options", [CheckOptions(reasoning_parser="nope"), CheckOptions(tool_call_parser="nope")]
)
def test_a_parser_that_is_not_known_is_the_user_s_error(options: CheckOptions) -> None:
    with pytest.raises(TargetError, match=r"no dialect for the .* parser 'nope'"):
        report(APPENDS, options)


def test_selected_parsers_are_shown() -> None:
    chosen = CheckOptions(reasoning_parser="deepseek_r1", tool_call_parser="hermes")
    assert report(APPENDS_ALL, chosen).parsers == ("deepseek_r1", "hermes")
    assert report(APPENDS).parsers == (None, None)


def test_a_head_that_changes_breaks_in_every_scenario() -> None:
    checked = report(MOVES)
    assert checked.verdict == "breaks"
    finding = by_code(checked)["TF107"]
    assert finding.severity == "error"
    assert finding.line == 1
    assert finding.locations[0].snippet == "messages | length"
