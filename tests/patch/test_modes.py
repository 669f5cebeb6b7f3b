"""Under ``lossless`` a thinking mode stays as it was, while one that does not think is mended."""

from __future__ import annotations

import pytest

from templatefix.patching.repair import Patched, PatchOptions, repair
from templatefix.render import JinjaRenderer, RenderRequest
from tests.subjects import STOP, template

#: Trims every answer, and every question by the same expression where ``EVERYWHERE`` is true.
_TRIMS = """\
{%- for message in messages %}
{%- set content = message.content %}
{%- if message.role == 'assistant' or EVERYWHERE %}{% set content = content | trim %}{% endif %}
{{- '<|im_start|>' + message.role + '\\n' }}
{%- if message.role == 'assistant' %}
{%- set thought = message.reasoning_content if loop.last else '' %}
{{- '<think>' + (thought or '') + '</think>\\n' }}
{%- endif %}
{{- content + '<|im_end|>\\n' }}
{%- endfor %}
{%- if add_generation_prompt %}
{{- '<|im_start|>assistant\\n<think>' }}
{%- if silent is defined and silent %}{{- '</think>\\n' }}{% endif %}
{%- endif %}
"""


def _repaired(everywhere: str) -> Patched:
    text = _TRIMS.replace("EVERYWHERE", everywhere)
    return repair(template(text), PatchOptions(policy="lossless", max_examples=20))


@pytest.mark.parametrize("everywhere", ["false", "true"])
def test_whitespace_comes_back_in_the_mode_that_does_not_think_and_in_no_other(
    everywhere: str,
) -> None:
    found = _repaired(everywhere)
    assert found.status == "patched", found.attempts
    assert found.candidate is not None
    assert found.candidate.rung == 3
    before = JinjaRenderer(found.template.text, STOP)
    after = JinjaRenderer(found.candidate.text, STOP)
    messages = [
        {"role": "user", "content": " One "},
        {"role": "assistant", "content": "  Two  "},
        {"role": "user", "content": " Three "},
    ]
    thinking = RenderRequest(messages, None, True, {})
    assert after.render(thinking) == before.render(thinking)
    silent = RenderRequest(messages, None, True, {"silent": True})
    assert "</think>\n  Two  <|im_end|>" in after.render(silent)
    assert after.render(silent).replace("  Two  ", "Two") == before.render(silent)


#: Keeps reasoning, and closes thinking in the prompt of a mode that does without.
_KEEPS = """\
{%- for message in messages %}
{{- '<|im_start|>' + message.role + '\\n' }}
{%- if message.reasoning_content %}
{{- '<think>' + message.reasoning_content + '</think>' }}
{%- endif %}
{{- message.content + '<|im_end|>\\n' }}
{%- endfor %}
{%- if add_generation_prompt %}
{{- '<|im_start|>assistant\\n' }}
{%- if silent is defined and silent %}{{- '<think></think>' }}{% endif %}
{%- endif %}
"""


@pytest.mark.parametrize("policy", ["lossless", "keep-reasoning"])
def test_an_answer_of_a_thinking_mode_gets_no_empty_block_when_thinking_is_off(policy: str) -> None:
    found = repair(template(_KEEPS), PatchOptions(policy=policy, max_examples=5))
    assert found.candidate is not None
    messages = [
        {"role": "user", "content": "One"},
        {"role": "assistant", "content": "Two", "reasoning_content": "Count."},
        {"role": "user", "content": "Three"},
        {"role": "assistant", "content": "Four"},
        {"role": "user", "content": "Five"},
    ]
    silent = RenderRequest(messages, None, False, {"silent": True})
    shown = JinjaRenderer(found.candidate.text, STOP).render(silent)
    assert "assistant\n<think>Count.</think>Two" in shown
    assert "assistant\n<think></think>Four" in shown
