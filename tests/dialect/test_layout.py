"""A layout learned from sentinels holds real texts without altering them."""

from __future__ import annotations

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from templatefix.chat.answer import Answer, ToolCall
from templatefix.dialect.layout import (
    Layout,
    Slot,
    Unlearnable,
    before_calls,
    learn,
    leaves,
    sentinels,
    write,
)

quick = settings(max_examples=80, deadline=None, derandomize=True, database=None)

#: Whatever a template or a parser might trip over.
_texts = st.lists(
    st.sampled_from(
        [
            "a",
            "B 7",
            " ",
            "\n",
            "\t",
            '"',
            "'",
            "\\",
            "é",
            "漢",
            "👩‍🚀",
            "\u2028",
            "{{ x }}",
            "</think>",
        ]
    ),
    min_size=1,
    max_size=5,
).map("".join)


def _spell_raw(text: str) -> str:
    return f"<v>{text}</v>"


def _spell_json(text: str) -> str:
    return json.dumps({"k": text}, ensure_ascii=False)


def _spell_repr(text: str) -> str:
    return repr({"k": text})


def _spell_twice(text: str) -> str:
    return json.dumps(json.dumps({"k": text}, ensure_ascii=False), ensure_ascii=False)


_SPELLINGS = {
    "raw": _spell_raw,
    "json": _spell_json,
    "json-twice": _spell_twice,
    "repr": _spell_repr,
}


def _rendered(answer: Answer, spelling: str) -> str:
    parts = []
    if answer.reasoning:
        parts.append(f"<think>\n{answer.reasoning}\n</think>\n\n")
    parts.append(answer.content or "")
    texts = leaves(answer)
    for number, call in enumerate(answer.tool_calls):
        parts.append(f"[call {call.name} {_SPELLINGS[spelling](texts[number])}]")
    return "".join(parts)


def _answers(reasoning: str | None, content: str | None, values: list[str]) -> Answer:
    calls = tuple(ToolCall(f"walk{i}", json.dumps({"k": value})) for i, value in enumerate(values))
    return Answer(reasoning, content, calls)


@quick
@given(
    st.one_of(st.none(), _texts),
    st.one_of(st.none(), st.just(""), _texts),
    st.lists(_texts, max_size=2),
    st.sampled_from(sorted(_SPELLINGS)),
)
def test_real_texts_stand_verbatim_where_the_sentinels_stood(
    reasoning: str | None, content: str | None, values: list[str], spelling: str
) -> None:
    answer = _answers(reasoning, content, values)
    shape = sentinels(answer)
    layout = learn(_rendered(shape, spelling) + "<|end|>\nmore", shape, ["<|end|>"], ())
    written = write(layout, answer)
    assert written.text == _rendered(answer, spelling) + "<|end|>"
    assert written.text[slice(*written.stop)] == "<|end|>"
    for span, text in ((written.reasoning, reasoning), (written.content, content)):
        if text:
            assert span is not None
            assert written.text[slice(*span)] == text
        else:
            assert span is None
    assert (written.calls is not None) is bool(values)


@quick
@given(_texts, _texts)
def test_calls_begin_after_the_content_or_after_the_tag_that_closes_reasoning(
    reasoning: str, content: str
) -> None:
    for said in (content, None):
        answer = _answers(reasoning, said, ["v"])
        shape = sentinels(answer)
        layout = learn(_rendered(shape, "raw"), shape, (), ())
        written = write(layout, answer, "</think>")
        assert written.calls is not None
        assert written.text[slice(*written.calls)] == "[call walk0 <v>v</v>]"


def test_sentinels_keep_the_shape_and_everything_that_is_not_text() -> None:
    arguments = {"a": "x", "n": 1.5, "deep": [{"b": "y"}, None, True, "z"]}
    answer = Answer("r", "c", (ToolCall("f", json.dumps(arguments)), ToolCall("g", "{}")))
    shape = sentinels(answer)
    assert [call.name for call in shape.tool_calls] == ["f", "g"]
    known = json.loads(shape.tool_calls[0].arguments)
    first, second, third = leaves(shape)
    assert known == {"a": first, "n": 1.5, "deep": [{"b": second}, None, True, third]}
    assert len({shape.reasoning, shape.content, first, second, third}) == 5
    assert sentinels(Answer(None, "")) == Answer(None, "")
    assert leaves(sentinels(_answers(None, None, [""] * 12)))[11].isalnum()


SHAPE = sentinels(_answers("r", "c", ["v", "w"]))
R, C = SHAPE.reasoning, SHAPE.content
V, W = leaves(SHAPE)
CALLS = f"walk0 {V} walk1 {W}"


@pytest.mark.parametrize(
    ("rendered", "why"),
    [
        (f"{C}{CALLS}", "reasoning is not printed"),
        (f"{R}{CALLS}", "content is not printed"),
        (f"{R}{C}walk0 {V} walk1", "argument of a tool call is not printed"),
        (f"{R}{C.lower() if C else ''}{CALLS}", "content is not printed"),
        (f"{R}{C}{C}{CALLS}", "content is printed twice"),
        (f"{R}{R}{C}{CALLS}", "reasoning is printed twice"),
        (f"{R}{C}{CALLS} {W}", "argument of a tool call is printed twice"),
        (f"{C}{R}{CALLS}", "out of order"),
        (f"{R}{CALLS}{C}", "out of order"),
        (f"{R}{C}{V}{W}", "name of the call walk0 is not printed"),
        (f"{R}{C}walk1 {V} walk0 {W}", "name of the call walk1 is not printed"),
    ],
)
def test_a_rendering_that_does_not_show_the_layout_is_refused(rendered: str, why: str) -> None:
    with pytest.raises(Unlearnable, match=why):
        learn(rendered, SHAPE, (), ())


_CONTENT = sentinels(Answer(None, "c"))


def _stop(after: str, stops: tuple[str, ...], added: tuple[str, ...] = ()) -> tuple[str, str]:
    """What is kept after the content, and the stop token."""
    layout = learn(f"<a>{_CONTENT.content}{after}", _CONTENT, stops, added)
    assert layout.parts[:2] == ("<a>", Slot("content"))
    return "".join(str(part) for part in layout.parts[2:]), layout.stop


def test_the_completion_ends_at_the_first_stop_token_after_the_last_text() -> None:
    assert _stop("\n<e><f>\n<g>", ("<g>", "<f>")) == ("\n<e>", "<f>")
    assert _stop("<e>", ("<a>", "<e>")) == ("", "<e>")


def test_of_stop_tokens_at_one_place_the_longest_is_meant() -> None:
    assert _stop("<end>_of_turn", ("<end>", "<end>_of_turn")) == ("", "<end>_of_turn")


def test_a_stop_token_before_the_last_text_ends_nothing() -> None:
    assert _stop("", ("<a>",)) == ("", "")


def test_without_a_known_stop_token_the_last_added_token_ends_the_turn() -> None:
    assert _stop("\n<e>\n", ("<g>",), ("<e>", "<a>", "</t>")) == ("\n", "<e>")
    assert _stop("<t>x</t>\n", (), ("<t>", "</t>")) == ("<t>x</t>", "")
    assert _stop("<e> more", (), ("<e>",)) == ("<e> more", "")
    assert _stop("<e>body<e>", (), ("<e>",)) == ("<e>body<e>", "")


def test_an_empty_answer_ends_at_the_stop_token() -> None:
    layout = learn("<think></think><e>", Answer(None, ""), ["<e>"], ())
    assert write(layout, Answer(None, "")).text == "<think></think><e>"


def test_content_goes_between_reasoning_and_calls_where_the_two_layouts_part() -> None:
    thought, content = Slot("reasoning"), Slot("content")
    words = Layout((thought, "</t>\n", content), "<e>")
    calls = Layout((thought, "</t>\n<call>", Slot("argument")), "<f>")
    found = before_calls(words, calls)
    assert found == (thought, "</t>\n", content, "<call>", Slot("argument"))


def test_whitespace_before_content_is_its_own() -> None:
    found = before_calls(Layout((" ", Slot("content")), ""), Layout(("<call>",), ""))
    assert found == (" ", Slot("content"), "<call>")


def test_layouts_that_begin_otherwise_are_not_joined() -> None:
    words = Layout(("<t></t>", Slot("content")), "")
    assert before_calls(words, Layout(("<call>",), "")) is None
    assert before_calls(words, Layout((), "")) is None
