"""Repairs that are asked for: each mends what its code is about, and nothing else."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from templatefix.checking import CheckOptions
from templatefix.patching.fixes import FIXERS, Unfixable, codes, crash, mend, unprinted
from templatefix.patching.fixes.ground import Ground, survey
from templatefix.patching.repair import PatchOptions, repair
from templatefix.rules import RULES
from tests.subjects import APPENDS, STOP, branches, template

PLAIN = CheckOptions()
LOOP = "{%- for message in messages %}\n"
PROMPT = "{%- if add_generation_prompt %}{{- '<|im_start|>assistant\\n' }}{% endif %}"
SAYS = "{{- '<|im_start|>' + message.role + '\\n' + message.content + '<|im_end|>\\n' }}\n"
CALLS = (
    "{%- for call in message.tool_calls or [] %}"
    "{{- '<call>' + call.function.name + (call.function.arguments | tojson) + '</call>' }}"
    "{%- endfor %}"
)


def loop(body: str, before: str = "") -> str:
    return before + LOOP + body + "{%- endfor %}\n" + PROMPT


#: Faulty templates, and what a fix of each has to write: code, template, old and new text.
FAULTY: Mapping[str, tuple[str, str, str, str]] = {
    "calls-only-without-content": (
        "TF202",
        RULES["TF202"].bad,
        "message.tool_calls and message.content is none",
        "message.tool_calls",
    ),
    "calls-in-another-branch": (
        "TF202",
        loop(
            "{{- '<|im_start|>' + message.role + '\\n' }}\n"
            "{%- if message.content %}{{- message.content }}\n"
            "{%- elif message.tool_calls %}" + CALLS + "{%- endif %}\n"
            "{{- '<|im_end|>\\n' }}\n"
        ),
        "{%- elif message.tool_calls %}",
        "{%- endif %}{%- if message.tool_calls %}",
    ),
    "content-beside-calls": (
        "TF202",
        loop(
            "{%- if message.role == 'assistant' and message.tool_calls %}\n"
            "{{- '<|im_start|>assistant\\n' }}" + CALLS + "{{- '<|im_end|>\\n' }}\n"
            "{%- else %}\n" + SAYS + "{%- endif %}\n"
        ),
        "{{- '<|im_start|>assistant\\n' }}{%- for",
        "{{- '<|im_start|>assistant\\n' + message.content }}{%- for",
    ),
    "no-branch-for-tools": (
        "TF202",
        loop(
            "{%- if message.role == 'user' or message.role == 'system' %}\n"
            + SAYS
            + "{%- elif message.role == 'assistant' %}\n"
            "{{- '<|im_start|>assistant\\n' + message.content }}"
            + CALLS
            + "{{- '<|im_end|>\\n' }}\n{%- endif %}\n"
        ),
        "message.role == 'user' or",
        "(message.role == 'user' or message.role == 'tool') or",
    ),
    "arguments-are-no-text": (
        "TF203",
        RULES["TF203"].bad,
        "+ call.function.arguments +",
        "+ (call.function.arguments if call.function.arguments is string else "
        "call.function.arguments | tojson) +",
    ),
    "no-reasoning-to-strip": (
        "TF203",
        branches(
            "{{- '<|im_start|>assistant\\n<think>' + message.reasoning_content.strip() + "
            "'</think>' + message.content + '<|im_end|>\\n' }}"
        ),
        "message.reasoning_content.strip",
        "(message.reasoning_content or '').strip",
    ),
    "no-tools-to-list": (
        "TF203",
        "{%- for tool in tools %}{{- tool | tojson }}{% endfor %}" + APPENDS,
        "in tools",
        "in (tools or [])",
    ),
    "header-of-answers": (
        "TF204",
        RULES["TF204"].bad,
        "{%- endfor %}\n",
        "{%- endfor %}\n{%- if add_generation_prompt %}{{- '<|im_start|>assistant\\n' }}"
        "{% endif %}\n",
    ),
    "name-of-nobody": (
        "TF205",
        RULES["TF205"].bad,
        "{{ separator }}",
        "{{ separator | default('') }}",
    ),
    "second-token": (
        "TF201",
        RULES["TF201"].bad,
        "{% if loop.first %}{{- bos_token }}".replace("{% if", "{%- if"),
        "{%- if loop.first %}",
    ),
    "token-in-a-chain": (
        "TF201",
        "{{- bos_token }}" + loop("{%- if loop.first %}{{- bos_token + '' }}{% endif %}\n" + SAYS),
        "{{- bos_token + '' }}",
        "{{- '' }}",
    ),
}


def ground(text: str, code: str) -> Ground:
    tokens = RULES[code].special_tokens or STOP
    return survey(template(text, tokens, exact=False), PLAIN)


@pytest.mark.parametrize("name", FAULTY)
def test_the_fault_is_mended_by_a_small_change(name: str) -> None:
    code, text, old, new = FAULTY[name]
    before = ground(text, code)
    assert before.shown(code)
    mended = mend(before.subject.template, [code], PLAIN)
    (mending,) = mended.mendings
    assert (mending.left, mending.found, bool(mending.words)) == ("", True, True)
    assert text.count(old) == 1
    assert mended.text == text.replace(old, new)
    assert not ground(mended.text, code).shown(code)
    assert mending.tried > 0


@pytest.mark.parametrize("name", FAULTY)
def test_what_rendered_is_rendered_as_before_but_for_the_fault(name: str) -> None:
    code, text, _, _ = FAULTY[name]
    before = ground(text, code)
    after = before.server(mend(before.subject.template, [code], PLAIN).text)
    changed = 0
    for case in before.cases:
        now = case.under(after)
        if case.outcome.refusal is not None:
            assert now == case.outcome
        elif case.outcome.text is not None and now != case.outcome:
            changed += 1
            assert FIXERS[code].leave(before, case, now)
    # Crashes and names of nobody change no prompt that there was.
    assert (changed > 0) == (code not in ("TF203", "TF205"))


def test_a_fix_that_changes_something_else_is_not_taken() -> None:
    code, text, old, new = FAULTY["no-reasoning-to-strip"]
    before = ground(text, code)
    good = text.replace(old, new)
    assert before.departs(before.server(good), crash.leave) is None
    loud = before.departs(before.server(good.replace("</think>", "</THINK>")), crash.leave)
    assert loud is not None
    assert "</think>" in (loud.outcome.text or "")


@pytest.mark.parametrize(
    ("code", "text"),
    [
        ("TF205", APPENDS + "{{ footer() }}"),
        ("TF203", APPENDS + "{{ messages | length // 0 }}"),
        ("TF202", APPENDS.replace("in messages", "in messages[-1:]")),
    ],
)
def test_what_has_no_fix_is_left_with_what_is_found(code: str, text: str) -> None:
    options = PatchOptions(fix=(code,), max_examples=0)
    patched = repair(template(text), options)
    assert (patched.status, patched.text) == ("failed", None)
    (mending,) = patched.fixes
    assert RULES[code].summary in mending.left


def test_a_fixed_template_is_left_alone() -> None:
    code, text, _, _ = FAULTY["arguments-are-no-text"]
    options = PatchOptions(fix=(code,), max_examples=0)
    once = repair(template(text), options)
    assert once.status == "patched"
    assert f"- {code}: `call.function.arguments` may be no text" in (once.text or "")
    again = repair(template(once.text or ""), options)
    assert (again.status, again.text) == ("unchanged", once.text)
    assert [(each.found, each.left) for each in again.fixes] == [(False, "")]


def test_a_fix_and_a_rung_of_the_ladder_go_together() -> None:
    text = branches(
        "{{- '<|im_start|>assistant\\n' + message.content + '<|im_end|>\\n' }}",
        prompt="{{- '<think>\\n\\n</think>\\n\\n' }}",
        before="{%- for tool in tools %}{{- tool | tojson }}{% endfor %}",
    )
    patched = repair(template(text), PatchOptions(fix=("TF203",), max_examples=0))
    assert patched.status == "patched"
    assert patched.candidate is not None
    assert patched.candidate.rung > 1
    assert "in (tools or [])" in (patched.text or "")
    assert patched.proof is not None
    assert patched.proof.passed


def test_codes_are_named_alone_or_by_what_they_begin_with() -> None:
    assert codes(["TF203"]) == ("TF203",)
    assert set(codes(["TF2"])) == set(FIXERS)
    assert codes(["TF202", "TF202"]) == ("TF202",)


@pytest.mark.parametrize(
    ("code", "why"),
    [
        ("TF206", "the template's author refuses that order on purpose"),
        ("TF102", "repaired without being asked for"),
        ("TF301", "no template can print again"),
        ("TF402", "no run has shown"),
        ("TF902", "there is no template"),
        ("TF001", "suppressions"),
        ("TF999", "no rule has the code 'TF999'"),
        ("tf203", "no rule has the code 'tf203'"),
    ],
)
def test_a_code_without_a_fix_is_refused_with_the_reason(code: str, why: str) -> None:
    with pytest.raises(Unfixable, match=why):
        codes([code])


def test_every_rule_has_a_fix_or_a_reason() -> None:
    for code in RULES:
        if code not in FIXERS:
            with pytest.raises(Unfixable, match=f"{code} has no fix: (?!no repair of it is known)"):
                codes([code])


def test_a_lost_message_may_come_back_but_nothing_may_go() -> None:
    code, text, old, new = FAULTY["calls-in-another-branch"]
    before = ground(text, code)
    worse = text.replace(old, new).replace(
        "{{- message.content }}", "{{- message.content if not message.tool_calls else '' }}"
    )
    assert before.departs(before.server(worse), unprinted.leave) is not None
