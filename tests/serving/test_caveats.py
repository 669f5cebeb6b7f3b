"""What the check of the served template says beside the command."""

from __future__ import annotations

from dataclasses import replace

from templatefix.api import patch_target
from templatefix.checking import CheckOptions, check
from templatefix.findings.outcome import Report
from templatefix.patching.repair import PatchOptions
from templatefix.serving.caveats import of_check
from templatefix.serving.plan import Warned
from templatefix.source import ChatTemplate, SourceOptions
from tests.example import EXAMPLE
from tests.subjects import APPENDS_ALL, STOP

PATCH = ("templatefix", "patch", "a b", "--out", "fixed.jinja")


def report_of(text: str, **options: object) -> Report:
    template = ChatTemplate("a b", "t.jinja", text, special_tokens=STOP)
    return check(template, CheckOptions(**options))  # type: ignore[arg-type]


def warned(report: Report) -> list[Warned]:
    return list(of_check(report, PATCH))


def test_a_template_that_appends_is_not_warned_of() -> None:
    assert warned(report_of(APPENDS_ALL)) == []


def test_each_place_is_named_with_its_mode_and_the_repairs_once() -> None:
    text = (EXAMPLE / "chat_template.jinja").read_text("utf-8")
    (found,) = warned(report_of(text))
    assert found.kind == "not-prefix-preserving"
    assert "t.jinja does not print every answer" in found.reason
    assert "(enable_thinking=false)" in found.reason
    assert "(the default mode)" in found.reason
    assert len(found.instead) == len(set(found.instead)) == 2
    assert set(found.instead) == {
        "templatefix patch 'a b' --out fixed.jinja",
        "templatefix patch 'a b' --out fixed.jinja --policy keep-reasoning "
        "(the model then sees past reasoning)",
    }


def test_only_what_breaks_under_the_kwargs_counts() -> None:
    text = (EXAMPLE / "chat_template.jinja").read_text("utf-8")
    (found,) = warned(report_of(text, kwargs={"enable_thinking": False}))
    assert "TF101" in found.reason
    assert "TF102" not in found.reason


def test_what_a_lossless_patch_leaves_is_still_told() -> None:
    patched = patch_target(str(EXAMPLE), SourceOptions(), PatchOptions(max_examples=0))
    assert patched.text is not None
    (found,) = warned(report_of(patched.text))
    assert "TF102" in found.reason
    assert "TF101" not in found.reason
    assert len(found.instead) == 1
    assert "--policy keep-reasoning" in found.instead[0]


def test_many_findings_are_counted() -> None:
    text = (EXAMPLE / "chat_template.jinja").read_text("utf-8")
    whole = report_of(text)
    guilty = [each for each in whole.findings if each.code.startswith("TF10")]
    many = tuple(
        replace(each, locations=tuple(replace(at, line=at.line + 10 * i) for at in each.locations))
        for i in range(6)
        for each in guilty
    )
    (found,) = warned(replace(whole, findings=many))
    assert found.reason.count("TF10") == 4
    assert " more. There the next prompt" in found.reason
    (found,) = warned(replace(whole, findings=tuple(guilty * 6)))
    assert found.reason.count("TF10") == len({(each.code, each.line) for each in guilty})


def test_without_a_verdict_the_reason_is_told() -> None:
    refuses = "{{ raise_exception('never') }}{{ messages }}"
    (found,) = warned(report_of(refuses))
    assert found.kind == "not-checked"
    assert "never" in found.reason
    assert found.instead == ("templatefix check 'a b' --verbose",)
