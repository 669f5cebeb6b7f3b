"""A check through a server comes to what a check of our own does, and says who rendered."""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import replace
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest

from templatefix.api import CheckOptions, ServerOptions, SourceOptions, check_target
from templatefix.cli.program import templatefix
from templatefix.findings.outcome import Report
from tests.example import EXAMPLE
from tests.served.fake import RENDER, Fake, example, of, serving, tokenizer_alone
from tests.subjects import APPENDS, APPENDS_ALL, PROMPT

QUICK = CheckOptions(max_examples=0)
QWEN3 = CheckOptions(full=True, reasoning_parser="qwen3", tool_call_parser="hermes")

#: Renders as an encoder in Python does: no generation prompt is left out, and of the answers
#: before the last question only the text is kept, unless ``drop_thinking`` says otherwise.
ENCODER = """\
{%- set seen = namespace(last=-1) %}
{%- for m in messages if m.role == "user" %}{% set seen.last = messages.index(m) %}{% endfor %}
{%- for m in messages %}
{%- if m.role == 'assistant' %}
{%- if loop.index0 > seen.last or drop_thinking is false %}
{{- '<think>' + (m.reasoning_content or '') }}
{%- endif %}
{{- '</think>' + m.content + '<|im_end|>' }}
{%- elif m.role == 'user' %}
{{- '<|im_start|>' + m.content + '<|im_end|>' }}
{%- else %}
{{- m.content }}
{%- endif %}
{%- endfor %}
{%- if add_generation_prompt %}{{- '<think>' }}{% endif %}
"""


def through(fake: Fake, target: str, options: CheckOptions = QWEN3, **source: Any) -> Report:
    with serving(fake) as url:
        (checked,) = check_target(
            target, SourceOptions(offline=True, **source), options, server=ServerOptions(url)
        )
    return checked


def by_us(target: str, options: CheckOptions = QWEN3) -> Report:
    (checked,) = check_target(target, SourceOptions(offline=True), options)
    return checked


def test_the_report_is_our_own_but_for_who_rendered() -> None:
    fake = example()
    checked, ours = through(fake, str(EXAMPLE)), by_us(str(EXAMPLE))
    assert checked.fault is None
    assert checked.renderer.startswith("vLLM 0.32.0 at http://127.0.0.1:")
    assert ours.renderer == "jinja"
    assert replace(checked, renderer="jinja") == ours
    assert {finding.code for finding in checked.findings} >= {"TF101", "TF102"}
    assert all(finding.line for finding in checked.findings if finding.code in ("TF101", "TF102"))


def test_no_request_is_sent_twice_and_one_connection_does() -> None:
    fake = example()
    through(fake, str(EXAMPLE))
    rendered = Counter(body for path, body in fake.asked if path == RENDER)
    assert len(rendered) > 100
    assert max(rendered.values()) == 1
    assert len(fake.connections) == 1


def test_the_search_goes_through_the_server_too() -> None:
    options = replace(QWEN3, max_examples=3)
    checked, ours = through(example(), str(EXAMPLE), options), by_us(str(EXAMPLE), options)
    assert replace(checked, renderer="jinja") == ours


def test_a_target_without_a_tokenizer_borrows_that_of_the_server(tmp_path: Path) -> None:
    target = str(tmp_path / "alone.jinja")
    Path(target).write_bytes((EXAMPLE / "chat_template.jinja").read_bytes())
    with serving(example()) as url:
        (checked,) = check_target(
            target, SourceOptions(offline=True), QWEN3, server=ServerOptions(url)
        )
        assert checked.tokenizer_source == f"of vLLM 0.32.0 at {url}"
    assert not checked.tokenizer_approximate
    ours = by_us(str(EXAMPLE))
    assert _core(checked) == _core(ours)
    assert [(f.code, f.line) for f in checked.findings] == [(f.code, f.line) for f in ours.findings]


def _core(checked: Report) -> list[tuple[str, bool | None, list[int]]]:
    """Core runs and the lengths of their prompts: the stop token is not known to every target."""
    return [
        (run.id, run.preserving, [row.prompt_tokens for row in run.turns])
        for run in checked.runs
        if run.core
    ]


def test_another_template_than_the_target_s_is_checked_without_lines() -> None:
    checked = through(of(APPENDS_ALL), str(EXAMPLE))
    assert checked.verdict == "preserving"
    assert checked.template_sha256 is None
    why = {each.what: each.why for each in checked.coverage.not_evaluated}
    assert (
        why["the lines of findings"] == "the server does not render as the target's template does"
    )


def test_a_model_that_is_not_rendered_with_jinja(tmp_path: Path) -> None:
    target = tokenizer_alone(tmp_path)
    options = CheckOptions(full=True, reasoning_parser="deepseek_r1")
    checked = through(of(ENCODER, reasoning="deepseek_r1", heeds_the_flag=False), target, options)
    assert checked.verdict == "breaks"
    core = {run.id: run.preserving for run in checked.runs if run.core}
    assert core["reasoning-chat/default/faithful/raw"] is False
    assert core["reasoning-chat/drop_thinking=false/faithful/raw"] is True
    (finding,) = [each for each in checked.findings if each.code == "TF102"]
    assert finding.line is None
    assert "not at hand" in finding.explanation
    assert finding.fix is not None
    assert '{"drop_thinking": false}' in finding.fix.text
    assert any("tool calls" in each.why for each in checked.coverage.not_evaluated)


def test_the_head_s_day_and_kwargs_show_without_a_template(tmp_path: Path) -> None:
    today = datetime.now().strftime("%d %B %Y")
    effort = "{% if reasoning_effort == 'max' %}{{ 'Think long. ' }}{% endif %}"
    text = f"Today is {today}. {effort}{APPENDS}"
    checked = through(of(text, reasoning=None), tokenizer_alone(tmp_path), QUICK)
    found = {each.code: each for each in checked.findings}
    assert today in found["TF109"].message
    assert found["TF109"].severity == "info"
    assert found["TF404"].detail == "reasoning_effort"
    assert '"max"' in found["TF404"].message
    assert '"low"' not in found["TF404"].message


def test_another_day_and_a_kwarg_further_on_do_not_count(tmp_path: Path) -> None:
    text = "Today is 24 December 1999. " + APPENDS.replace(
        PROMPT, PROMPT + "{% if reasoning_effort == 'max' %}{{ 'Think long. ' }}{% endif %}"
    )
    checked = through(of(text, reasoning=None), tokenizer_alone(tmp_path), QUICK)
    assert {"reasoning_effort": "max"} in checked.coverage.modes
    assert not {"TF109", "TF404"} & {each.code for each in checked.findings}


def test_a_kwarg_that_a_server_reads_is_not_said_to_be_unread(tmp_path: Path) -> None:
    options = replace(QUICK, kwargs={"drop_thinking": False})
    fake = of(ENCODER, reasoning="deepseek_r1", heeds_the_flag=False)
    checked = through(fake, tokenizer_alone(tmp_path), options)
    assert "TF408" not in {each.code for each in checked.findings}


def test_values_that_render_alike_are_swept_once(tmp_path: Path) -> None:
    block = "{% if false in (thinking, enable_thinking) %}{{ '<think></think>' }}{% endif %}"
    text = APPENDS.replace(PROMPT, PROMPT.replace("{% endif %}", block + "{% endif %}"))
    fake = of(text, reasoning=None)
    checked = through(fake, tokenizer_alone(tmp_path), CheckOptions(full=True))
    assert {"thinking": False} in checked.coverage.modes
    assert {"enable_thinking": False} not in checked.coverage.modes
    why = {each.what: each.why for each in checked.coverage.not_evaluated}
    assert why["kwargs enable_thinking=false"] == "renders as thinking=false does"


def test_what_the_server_has_no_parser_for_comes_back_in_the_text() -> None:
    checked = through(example(reasoning=None), str(EXAMPLE))
    (run,) = [r for r in checked.runs if r.id == "reasoning-chat/default/faithful/raw"]
    assert run.preserving is False
    assert any("<think>" in str(finding.divergence) for finding in checked.findings)


def test_without_a_tool_parser_runs_with_tools_are_set_aside() -> None:
    checked = through(example(tool=None), str(EXAMPLE))
    assert not any("tool" in run.scenario for run in checked.runs)
    whys = {each.what: each.why for each in checked.coverage.not_evaluated}
    assert "--tool-call-parser" in whys["tool-loop"]


@pytest.mark.parametrize("format", ["text", "json", "sarif"])
def test_every_report_names_the_renderer(format: str, capsys: pytest.CaptureFixture[str]) -> None:
    with serving(example()) as url:
        args = [str(EXAMPLE), "--isolated", "--server", url, "--no-search"]
        code = templatefix.main(["check", *args, "--output-format", format], standalone_mode=False)
        printed = capsys.readouterr().out
        name = f"vLLM 0.32.0 at {url}"
    assert code == 1
    if format == "text":
        assert f"rendered by {name}" in " ".join(printed.split())
        return
    document = json.loads(printed)
    if format == "json":
        assert document["renderer"] == document["reports"][0]["renderer"] == name
    else:
        assert document["runs"][0]["properties"]["renderer"] == name
