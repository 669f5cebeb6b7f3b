"""Where a prompt leaves the stream, in terms of the conversation."""

from __future__ import annotations

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from templatefix.chat.answer import Answer
from templatefix.chat.conversation import Message, Scenario, Turn
from templatefix.chat.strategies import conversations
from templatefix.findings.evidence import Evidence, anchors, gap, gather, in_order
from templatefix.findings.printed import begins_twice, lost
from templatefix.replay.run import Plan, replay
from tests.subjects import APPENDS, PROMPT, branches, subject

quick = settings(
    max_examples=40,
    deadline=None,
    derandomize=True,
    database=None,
    suppress_health_check=list(HealthCheck),
)

_HEADER = "{{- '<|im_start|>assistant\\n' }}"
_CONTENT = "{{- message.content + '<|im_end|>\\n' }}"


def _scenario(*answers: Answer, system: bool = True) -> Scenario:
    head: tuple[Message, ...] = ({"role": "system", "content": "plan trips"},) if system else ()
    turns = [
        Turn((*(head if i == 0 else ()), {"role": "user", "content": f"question {i}"}), answer)
        for i, answer in enumerate(answers)
    ]
    return Scenario("s", (*turns, Turn(({"role": "user", "content": "last"},))), core=True)


def _evidence(text: str, scenario: Scenario) -> Evidence:
    """The evidence for the first loss."""
    ready = subject(text, exact=False)
    run = replay(Plan(scenario, {}), ready.author, ready.encoder, 16)
    return gather(next(each for each in run.comparisons if not each.preserving))


_PLAIN = _scenario(Answer(None, "first answer"), Answer(None, "second answer"))


def test_a_head_that_changes() -> None:
    found = _evidence("{{- messages | length }}" + APPENDS, _PLAIN)
    assert (found.region, found.current) == ("head", False)


def test_a_system_message_that_moves_is_the_head_in_every_turn() -> None:
    moves = branches(
        _HEADER + _CONTENT,
        before="{%- if messages | length > 4 %}{{- 'x' }}{% endif %}",
    )
    assert _evidence(moves, _PLAIN).region == "head"
    at_the_end = (
        "{%- for message in messages if message.role != 'system' %}"
        "{%- if loop.last and loop.index0 > 1 %}{{- '[' + messages[0].content + ']' }}{% endif %}"
        "{{- '<|im_start|>' + message.role + '\\n' }}" + _CONTENT + "{%- endfor %}" + PROMPT
    )
    found = _evidence(at_the_end, _PLAIN)
    assert (found.region, found.current) == ("head", False)


@pytest.mark.parametrize(
    ("printed", "scenario"),
    [
        ("message.content + ('!' if loop.last else '')", 0),
        ("message.content if loop.last else message.content | upper", 0),
        ("(message.content if messages | length < 6 else '!' + message.content)", 1),
    ],
)
def test_a_user_message_that_changes_is_a_frame(printed: str, scenario: int) -> None:
    text = (
        "{%- for message in messages %}{{- '<|im_start|>' + message.role + '\\n' }}"
        "{%- if message.role == 'user' and loop.index0 >= FROM %}{{- " + printed + " }}"
        "{%- else %}{{- message.content }}{%- endif %}"
        "{{- '<|im_end|>\\n' }}{%- endfor %}" + PROMPT
    ).replace("FROM", "2" if scenario else "0")
    found = _evidence(text, _PLAIN)
    assert (found.region, found.current) == ("frame", False)


def test_the_generation_prompt_s_own_text_is_the_tail() -> None:
    found = _evidence(branches(_HEADER + _CONTENT, "{{- '<|x|>\\n' }}"), _PLAIN)
    assert (found.region, found.current, found.message) == ("tail", True, 2)
    assert found.tail is not None
    assert found.inside(found.tail)
    assert found.stream_part[slice(*found.tail)] == "<|im_start|>assistant\n<|x|>\n"


def test_what_the_generation_flag_changes_before_the_last_message_is_no_tail() -> None:
    text = (
        "{%- for message in messages %}{{- '<' + message.role }}"
        "{{- '!' if loop.last and add_generation_prompt }}"
        "{{- '>' + message.content + '<|im_end|>' }}"
        "{%- endfor %}" + PROMPT
    )
    found = _evidence(text, _PLAIN)
    assert (found.region, found.current) == ("head", False)


def test_what_is_put_before_the_whole_generation_prompt_is_a_frame() -> None:
    # The filter takes off the newline that stands before the next header later on.
    text = (
        "{%- filter trim %}" + APPENDS.partition("{%- if add_gen")[0] + "{%- endfilter %}" + PROMPT
    )
    assert _evidence(text, _PLAIN).region == "frame"


def test_an_answer_that_is_printed_otherwise_is_a_completion() -> None:
    found = _evidence(
        branches(_HEADER + "{{- message.content | upper + '<|im_end|>\\n' }}"), _PLAIN
    )
    assert (found.region, found.current, found.message) == ("completion", True, 2)
    assert found.content is not None
    assert found.stream_part[slice(*found.content)] == "first answer"
    assert found.inside(found.content)
    assert found.content_is_altered
    assert not found.reasoning_is_gone


def test_an_older_answer_that_is_printed_otherwise_later() -> None:
    later = "{{- (message.content if messages | length < 6 else 'x') + '<|im_end|>\\n' }}"
    found = _evidence(branches(_HEADER + later), _PLAIN)
    assert (found.region, found.current, found.message) == ("completion", False, 2)
    assert found.answer == Answer(None, "first answer")
    assert found.content is not None
    assert found.stream_part[slice(*found.content)] == "first answer"


def test_reasoning_that_is_gone() -> None:
    text = branches(_HEADER + _CONTENT, "{{- '<think>\\n' }}")
    found = _evidence(text, _scenario(Answer("because", "so")))
    assert found.reasoning_is_gone
    assert found.reasoning is not None
    assert found.stream_part[slice(*found.reasoning)] == "because"
    assert not found.content_is_altered
    assert not found.dropped_block


@pytest.mark.parametrize("block", ["<think></think>", "<think>\\n\\n</think>\\n\\n"])
def test_an_empty_block_that_is_gone(block: str) -> None:
    found = _evidence(branches(_HEADER + _CONTENT, "{{- '" + block + "' }}"), _PLAIN)
    assert found.dropped_block
    assert not found.reasoning_is_gone


def test_the_same_text_in_other_tokens_is_the_seam() -> None:
    scenario = _scenario(Answer(None, "\nfirst"), Answer(None, "second"))
    ready = subject(branches("{{- '<|im_start|>assistant\\n' }}" + _CONTENT))
    run = replay(Plan(scenario, {}), ready.author, ready.encoder, 1)
    broken = [each for each in run.comparisons if not each.preserving]
    assert broken
    assert gather(broken[0]).region == "seam"


@quick
@given(conversations((), tools=False, system=True), st.sampled_from(["upper", "trim", "reverse"]))
def test_evidence_is_cut_out_of_the_stream_around_the_divergence(
    scenario: Scenario, changed: str
) -> None:
    text = branches(_HEADER + "{{- (message.content | %s) + '<|im_end|>\\n' }}" % changed)  # noqa: UP031
    ready = subject(text, exact=False)
    run = replay(Plan(_thoughtless(scenario), {}), ready.author, ready.encoder, 16)
    for comparison in run.comparisons:
        if comparison.preserving:
            continue
        found = gather(comparison)
        stream, at = comparison.before.stream, comparison.characters
        left = at - found.at
        assert stream[left : left + len(found.stream_part)] == found.stream_part
        assert found.prompt_part in comparison.after.prompt
        assert found.region in ("completion", "seam")
        answer = comparison.before.answer
        assert answer is not None
        if found.current and found.content is not None:
            assert found.stream_part[slice(*found.content)] == answer.content


def _thoughtless(scenario: Scenario) -> Scenario:
    turns = [
        Turn(t.new_messages, Answer(None, t.answer.content) if t.answer else None)
        for t in scenario.turns
    ]
    return Scenario("s", tuple(turns), core=True)


_MESSAGES: list[Message] = [
    {"role": "system", "content": "s0"},
    {"role": "user", "content": " u1 "},
    {"role": "assistant", "content": "a2"},
    {"role": "user", "content": [{"type": "text", "text": "u3"}, {"type": "text", "text": "v3"}]},
    {"role": "tool", "content": None},
]


def test_messages_are_found_in_order_by_their_texts() -> None:
    text = "<s0> <u1> <a2> <u3 and v3>"
    found = anchors(_MESSAGES, text)
    assert {i: text[slice(*span)] for i, span in found.items()} == {
        0: "s0",
        1: "u1",
        3: "u3 and v3",
    }
    assert gap(2, found, len(text)) == (found[1][1], found[3][0])
    assert gap(0, found, len(text)) == (0, found[1][0])
    assert gap(9, found, len(text)) == (found[3][1], len(text))


def test_a_system_message_that_was_moved_is_no_neighbour_of_an_answer() -> None:
    text = "<u1> <a2> <s0> <u3 and v3>"
    found = anchors(_MESSAGES, text)
    assert 0 in found
    assert 0 not in in_order(_MESSAGES, found)
    assert set(in_order(_MESSAGES, found)) == {1, 3}
    assert in_order(_MESSAGES, anchors(_MESSAGES, "s0 u1 u3 v3")).keys() == {0, 1, 3}


_CALLED: list[Message] = [
    {"role": "user", "content": "Porto or Faro?"},
    {
        "role": "assistant",
        "content": None,
        "tool_calls": [
            {"function": {"name": "look", "arguments": '{"k": "Porto"}'}},
            {"function": {"name": "look", "arguments": '{"k": "Faro\\n1"}'}},
        ],
    },
    {"role": "tool", "content": "Faro is dry"},
]


def test_a_call_is_sought_where_it_belongs() -> None:
    whole = "look! Porto or Faro? look(Porto) look(Faro\n1) Faro is dry"
    assert lost(_CALLED, whole) is None
    assert lost(_CALLED, whole.replace("\n1", "\\n1")) is None
    assert lost(_CALLED, whole.replace(" look(Faro\n1)", "")) == (1, "an argument of a tool call")
    assert lost(_CALLED, "look! Porto or Faro? Faro is dry") == (1, "a tool call")


def test_a_message_that_is_not_printed_is_named_by_its_role() -> None:
    said: list[Message] = [
        {"role": "user", "content": "a b"},
        {"role": "assistant", "content": "c"},
    ]
    assert lost(said, "ab c") is None
    assert lost(said, "ab") == (1, "the content of an assistant message")
    assert lost(said, "c") == (0, "the content of a user message")


def test_a_prompt_begins_twice_only_with_the_token_that_there_is() -> None:
    assert begins_twice("<s><s>hi", "<s>")
    assert not begins_twice("<s>hi<s><s>", "<s>")
    assert not begins_twice("hi", None)
    assert not begins_twice("hi", "")
