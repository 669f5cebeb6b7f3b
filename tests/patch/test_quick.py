"""What a patch adds is spelled so that Jinja's sandbox is quick about it.

There a call of a method takes twenty times as long as a slice, and a field that is read with a dot
four times as long as one in brackets; a namespace is slower still.
"""

from __future__ import annotations

import difflib

import pytest
from jinja2 import nodes
from jinja2.sandbox import ImmutableSandboxedEnvironment

from templatefix.patching.ladder.rebuild_opener import opener_of
from templatefix.patching.long_chat import MANY, as_served, long_chat, seconds
from templatefix.patching.repair import PatchOptions, repair
from templatefix.render.trace import trace
from templatefix.syntax import parse, spelled
from tests.patch.test_fold import STRIPS, bench
from tests.patch.test_own_newlines import TRIMS
from tests.patch.test_rebuild import _CALLS, DROPS_ALL, ENDS_LATE
from tests.subjects import STOP, template

#: Repaired by edits of its outputs, by edits of other outputs, and by branches of their own.
BROKEN = {"edited": TRIMS, "stripped": STRIPS, "rebuilt": DROPS_ALL, "rebuilt late": ENDS_LATE}
#: One output prints every message.
BROKEN["shared"] = (
    "{% for message in messages %}"
    "{{ '<|im_start|>' + message.role + '\\n' + message.content + '<|im_end|>\\n' }}{% endfor %}"
    "{% if add_generation_prompt %}{{ '<|im_start|>assistant\\n<think>\\n' }}{% endif %}"
)


def repaired(text: str, rungs: tuple[int, ...] = (3, 4)) -> str:
    found = repair(template(text), PatchOptions(policy="keep-reasoning", max_examples=0))
    assert found.text is not None
    assert found.candidate is not None
    assert found.candidate.rung in rungs
    return found.text


def methods(text: str) -> set[str]:
    parsed = parse(text)
    calls = parsed.below(parsed.ast, nodes.Call)
    return {call.node.attr for call in calls if isinstance(call.node, nodes.Getattr)}


def added(before: str, after: str) -> str:
    lines = difflib.ndiff(before.splitlines(), after.splitlines())
    return "\n".join(line[2:] for line in lines if line.startswith("+ "))


@pytest.mark.parametrize("name", BROKEN)
def test_a_patch_calls_no_methods_that_the_original_does_not(name: str) -> None:
    assert methods(repaired(BROKEN[name])) <= methods(BROKEN[name])


@pytest.mark.parametrize("name", BROKEN)
def test_fields_are_spelled_as_the_template_spells_them(name: str) -> None:
    text = dots = BROKEN[name]
    for field in ("role", "content", "reasoning_content", "tool_calls"):
        text = text.replace(f"message.{field}", f"message['{field}']")
        dots = dots.replace(f"['{field}']", f".{field}")
    assert "message['" in added(text, repaired(text))
    assert "message." not in added(text, repaired(text))
    assert "(message['content'])[" not in added(text, repaired(text))
    assert "message['role']" not in added(dots, repaired(dots))
    assert "message.role" in repaired(dots)


def test_a_template_with_both_spellings_is_given_the_quicker_one() -> None:
    mixed = "{{ messages[0].role }}{{ messages[0].content }}{{ messages[0]['role'] }}"
    assert spelled(parse(mixed), "message", "role") == "message['role']"
    dots = parse("{{ messages[0].role }}{{ tools[0]['type'] }}")
    assert spelled(dots, "message", "role") == "message.role"
    assert spelled(parse("{{ messages }}"), "message", "role") == "message.role"


def looks(text: str, name: str) -> int:
    """How often a rendering looks at a field of a message that does not have it."""
    missed = 0

    class Watched(dict[str, object]):
        def __missing__(self, key: str) -> object:
            nonlocal missed
            missed += key == name
            raise KeyError(key)

    server = bench("strips", "keep-reasoning").subject.server
    messages = [Watched(each) for each in server.request(long_chat(4, None), None, {}).messages]
    served = ImmutableSandboxedEnvironment(trim_blocks=True, lstrip_blocks=True)
    served.from_string(text).render(messages=messages, add_generation_prompt=True, **STOP)
    return missed


@pytest.mark.parametrize("name", BROKEN)
@pytest.mark.parametrize("field", ["reasoning_content", "tool_calls"])
def test_a_patch_does_not_look_for_fields_that_messages_lack(name: str, field: str) -> None:
    text = BROKEN[name]
    assert looks(repaired(text), field) <= looks(text, field)


def test_what_the_template_holds_in_a_variable_is_read_from_there() -> None:
    text = (
        "{%- set ns = namespace(last=0) %}{%- for message in messages %}"
        "{%- if message.role == 'user' %}{%- set ns.last = loop.index0 %}{%- endif %}{%- endfor %}"
        "{%- for message in messages %}{%- if message.role == 'user' %}"
        "{{- '<|im_start|>user\\n' + message.content + '<|im_end|>\\n' }}"
        "{%- elif message.role == 'assistant' %}"
        "{%- set thought = message.reasoning_content %}{{- '<|im_start|>assistant\\n' }}"
        "{%- if loop.index0 > ns.last and thought %}"
        "{{- '<think>' + thought + '</think>' }}{%- endif %}"
        "{{- message.content + '<|im_end|>\\n' }}{%- endif %}{%- endfor %}"
        "{%- if add_generation_prompt %}{{- '<|im_start|>assistant\\n' }}{%- endif %}"
    )
    assert "thought or loop.index0 > ns.last" in repaired(text, (2,))


def test_a_flag_is_cleared_without_a_look_at_it() -> None:
    text = ENDS_LATE.replace(
        "{%- set at.tool = false %}", "{%- if at.tool %}{%- set at.tool = false %}{% endif %}"
    )
    assert text != ENDS_LATE
    branch = added(text, repaired(text))
    assert "set at.tool = false" in branch
    assert branch.count("if at.tool") == 1  # the generation prompt's own


def test_a_rebuilt_branch_has_no_empty_part_and_asks_for_nothing_that_is_known() -> None:
    kept = "{%- if message.role == 'assistant' and not message.tool_calls %}{%- else %}"
    text = DROPS_ALL.replace(
        "            " + _CALLS, "            " + kept + _CALLS + "{%- endif %}"
    )
    assert text != DROPS_ALL
    branch = added(text, repaired(text))
    assert "message.role == 'assistant' and" not in branch
    assert "not message.tool_calls" not in branch


def test_the_end_of_a_rebuilt_branch_stands_below_its_beginning() -> None:
    lines = repaired(DROPS_ALL).splitlines()
    at = next(i for i, line in enumerate(lines) if "A past answer" in line) - 1
    margin = lines[at][: len(lines[at]) - len(lines[at].lstrip())]
    assert margin
    below = [line.strip() for line in lines[at:] if line.startswith(margin + "{%")]
    assert below[1] == "{%- else %}"
    begun = sum(line.startswith("{%- if") for line in below)
    assert begun == below.count("{%- endif %}")


def test_a_generation_prompt_looks_once_at_what_decides_between_two_texts() -> None:
    text = (
        "{%- set ns = namespace(tool=false) %}"
        "{%- for message in messages %}{{- message.content }}"
        "{%- set ns.tool = message.role == 'tool' %}{%- endfor -%}"
        "{% if ns.tool %}{{ '</results>' }}{% endif %}"
        "{% if add_generation_prompt and not ns.tool %}{{ '<think>' }}{% endif %}"
    )
    parsed = parse(text)
    loop = parsed.below(parsed.ast, nodes.For)[0]
    server = bench("strict", "lossless").subject.server
    pieces = [
        piece
        for role in ("tool", "user")
        for piece in trace(
            text, server.request([{"role": role, "content": "x"}], None, {}), STOP
        ).pieces
        if piece.span.start > parsed.span(loop).end
    ]
    assert opener_of(parsed, loop, pieces).assigned("opener") == (
        "{%- set opener = '</results>' if ns.tool else '<think>' %}"
    )


def test_rendering_is_timed_as_servers_render() -> None:
    its = bench("strips", "keep-reasoning")
    served, quick = as_served(STRIPS, its), its.subject.server.renderer
    request = its.subject.server.request(long_chat(MANY, None), None, {})
    assert served.render(request) == quick.render(request)
    assert type(served.environment) is ImmutableSandboxedEnvironment
    assert all(taken > 0 for taken in seconds([served, quick], its.subject.server, 2, None, 1))
