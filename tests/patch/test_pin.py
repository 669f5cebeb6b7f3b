"""What moves with the last message is pinned where the first prompt had it."""

from __future__ import annotations

import pytest

from templatefix.chat.battery import TOOLS
from templatefix.patching.repair import PatchOptions, repair
from templatefix.render import JinjaRenderer, RenderRequest
from tests.subjects import PROMPT, STOP, template

#: Shows the tools before the last user message, wherever that is.
MOVES = (
    "{%- set users = messages | selectattr('role', 'equalto', 'user') | list %}\n"
    "{%- for message in messages %}\n"
    "    {%- if tools and message == users[-1] %}\n"
    "        {{- '<|im_start|>tools\\n' + tools | tojson + '<|im_end|>\\n' }}\n"
    "    {%- endif %}\n"
    "    {{- '<|im_start|>' + message.role + '\\n' + message.content }}\n"
    "    {%- for call in message.tool_calls or [] %}\n"
    '        {{- \'<tool_call>\\n{"name": "\' + call.function.name + \'", "arguments": \' }}\n'
    "        {{- call.function.arguments | tojson + '}\\n</tool_call>' }}\n"
    "        {{- '' if loop.last else '\\n' }}\n"
    "    {%- endfor %}\n"
    "    {{- '<|im_end|>\\n' }}\n"
    "{%- endfor %}\n" + PROMPT
)
#: The same where two questions without an answer are refused: then the first one is the last.
REFUSES = (
    "{%- set asked = messages | selectattr('role', 'equalto', 'user') | list | length %}\n"
    "{%- if asked > 1 + messages | selectattr('role', 'equalto', 'assistant') | list | length %}\n"
    "    {{- raise_exception('one at a time') }}\n"
    "{%- endif %}\n"
) + MOVES


@pytest.mark.parametrize(
    ("text", "pin"), [(MOVES, "select('in', users) | list | last"), (REFUSES, "users[0]")]
)
def test_the_tools_stay_where_the_first_prompt_had_them(text: str, pin: str) -> None:
    found = repair(template(text), PatchOptions(policy="lossless", max_examples=20))
    assert found.status == "patched", found.attempts
    assert found.candidate is not None
    assert found.proof is not None
    assert found.candidate.rung == 2
    assert found.proof.passed
    assert pin in found.candidate.text
    messages = [
        {"role": "user", "content": "One"},
        {"role": "assistant", "content": "Two"},
        {"role": "user", "content": "Three"},
    ]
    renderer = JinjaRenderer(found.candidate.text, STOP)
    shown = renderer.render(RenderRequest(messages, TOOLS, True, {}))
    assert shown.count("<|im_start|>tools") == 1
    assert shown.startswith("<|im_start|>tools")


def test_what_the_first_prompt_ended_with_is_looked_for_once_and_on_a_line_of_its_own() -> None:
    found = repair(template(MOVES), PatchOptions(policy="lossless", max_examples=5))
    assert found.candidate is not None
    lines = found.candidate.text.splitlines()
    (made,) = (number for number, line in enumerate(lines) if "select('in'" in line)
    assert lines[made + 1].startswith("{%- for message in messages")
