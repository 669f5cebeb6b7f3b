"""For the test suites of those who publish models or templates."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from templatefix.findings.outcome import Report
from templatefix.library import Policy, Tokenizer, check, load
from templatefix.report.text import TextStyle, text_report
from templatefix.source import ChatTemplate


def assert_prefix_preserving(
    template: ChatTemplate | Tokenizer,
    tokenizer: Tokenizer | None = None,
    *,
    policy: Policy | None = None,
    kwargs: Mapping[str, Any] | None = None,
    conversation: Mapping[str, Any] | None = None,
    reasoning_parser: str | None = None,
    tool_call_parser: str | None = None,
    max_examples: int = 20,
    seed: int = 0,
) -> Report:
    """Fail the test, with the report of ``templatefix check``, if a template loses cached tokens.

    That is, if the check finds an error, or cannot say: it has no verdict then. Returns the report,
    whose warnings a test may look at. See :func:`templatefix.load` for ``template`` and
    ``tokenizer``, and :func:`templatefix.check` for the rest.

    Raises ``AssertionError``, and ``TargetError`` when a target cannot be used.

    >>> from templatefix.testing import assert_prefix_preserving
    >>> turns = "{% for m in messages %}<{{ m.role }}>{{ m.content }}</s>{% endfor %}"
    >>> head = "{% if add_generation_prompt %}<assistant>{% endif %}"
    >>> assert_prefix_preserving(turns + head, max_examples=0).verdict
    'preserving'
    """
    if not isinstance(template, ChatTemplate):
        template = load(template, tokenizer=tokenizer)
    elif tokenizer is not None:
        template = load(template.text, tokenizer=tokenizer)
    report = check(
        template,
        policy=policy,
        kwargs=kwargs,
        conversation=conversation,
        reasoning_parser=reasoning_parser,
        tool_call_parser=tool_call_parser,
        max_examples=max_examples,
        seed=seed,
    )
    if report.verdict != "preserving" or any(f.severity == "error" for f in report.findings):
        raise AssertionError("\n" + text_report([report], TextStyle(infos=False)))
    return report
