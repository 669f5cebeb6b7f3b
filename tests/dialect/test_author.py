"""Completions come from what a template shows of answers, and say where they are known from."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from templatefix.chat.answer import Answer, ToolCall
from templatefix.chat.conversation import Cut, Message
from templatefix.chat.server import Server
from templatefix.checking import CheckOptions, check
from templatefix.dialect.author import Author, Completion, Unspoken
from templatefix.dialect.named import REASONING
from templatefix.dialect.named import TOOLS as TOOL_DIALECTS
from templatefix.dialect.parsers import Parsers
from templatefix.dialect.thinking import State, Tags
from templatefix.render import JinjaRenderer
from templatefix.source import ChatTemplate, TokenizerRef
from tests.example import EXAMPLE
from tests.subjects import APPENDS, APPENDS_ALL, branches, report, subject

quick = settings(max_examples=40, deadline=None, derandomize=True, database=None)

ASKED: tuple[Message, ...] = ({"role": "user", "content": "Which city?"},)
CALL = ToolCall("look", '{"k": "a \\"b\\""}')
TOOLS: tuple[Message, ...] = ({"type": "function", "function": {"name": "look"}},)
ANSWERED: tuple[Message, ...] = (
    *ASKED,
    {
        "role": "assistant",
        "content": None,
        "tool_calls": [{"type": "function", "function": {"name": "look", "arguments": "{}"}}],
    },
    {"role": "tool", "tool_call_id": "c", "content": "Porto"},
)

_SAID = "{{- '<|im_start|>assistant\\n' }}%s{{- message.content + '<|im_end|>\\n' }}"
_THOUGHT = (
    "{%- if message.reasoning_content is defined %}"
    "{{- '<think>\\n' + message.reasoning_content + '\\n</think>\\n\\n' }}{% endif %}"
)
KEEPS = branches(_SAID % _THOUGHT)
TRIMS = branches("{{- '<|im_start|>assistant\\n' + message.content | trim + '<|im_end|>\\n' }}")
OPENS = branches(_SAID % _THOUGHT, "{{- '<think>\\n' }}")
CLOSES = branches(_SAID % "", "{{- '<think>\\n\\n</think>\\n\\n' }}")
SPLITS = branches(
    "{{- '<|im_start|>assistant\\n' + message.content.split('</TAG>')[-1] + '<|im_end|>\\n' }}",
    "{{- '<TAG>\\n' }}",
)

_texts = st.lists(
    st.sampled_from(["a", " ", "\n", "\t", "é", '"', "{{ x }}", "\u2028"]), min_size=1, max_size=4
).map("".join)


def _completion(
    text: str,
    answer: Answer,
    *,
    messages: Sequence[Message] = ASKED,
    tools: Sequence[Message] | None = None,
    kwargs: Mapping[str, Any] | None = None,
    cut: Cut | None = None,
) -> Completion:
    return subject(text).author.completion(messages, tools, kwargs or {}, answer, cut)


def _text(completion: Completion) -> str:
    assert completion.written is not None
    return completion.written.text


def _state(text: str, messages: Sequence[Message] = ASKED, **kwargs: Any) -> State:
    return subject(text).author.state(messages, None, kwargs)


def test_the_training_view_is_used_where_it_continues_the_prompt() -> None:
    known = _completion(KEEPS, Answer("r", "c"))
    assert known.source == "training-view"
    assert _text(known) == "<think>\nr\n</think>\n\nc<|im_end|>"
    assert known.tags == Tags("<think>", "</think>")
    assert known.tail == "<|im_start|>assistant\n"


def test_what_the_prompt_opened_is_not_written_again() -> None:
    known = _completion(OPENS, Answer("r", "c"))
    assert known.source == "training-view"
    assert known.state == "opened"
    assert _text(known) == "r\n</think>\n\nc<|im_end|>"


@quick
@given(_texts)
def test_a_template_that_trims_does_not_trim_its_own_evidence(content: str) -> None:
    known = _AUTHOR.completion(ASKED, None, {}, Answer(None, content))
    assert known.source == "training-view"
    assert _text(known) == content + "<|im_end|>"


_AUTHOR = subject(TRIMS).author


def test_a_view_that_strips_even_the_last_reasoning_yields_the_parser_s_dialect() -> None:
    known = _completion(SPLITS.replace("TAG", "think"), Answer(" r", "\nc "))
    assert known.source == "dialect"
    assert _text(known) == " r\n</think>\n\n\nc <|im_end|>"


def test_without_a_parser_the_tags_in_the_prompt_are_the_markers() -> None:
    known = _completion(SPLITS.replace("TAG", "ponder"), Answer("r", "c"))
    assert known.source == "markers"
    assert known.tags == Tags("<ponder>", "</ponder>")
    assert _text(known) == "r\n</ponder>\n\nc<|im_end|>"


def test_calls_that_the_view_does_not_print_are_unknown() -> None:
    known = _completion(APPENDS, Answer(None, "c", (CALL,)), tools=TOOLS)
    assert known.source == "unknown"
    assert known.written is None


def test_a_view_that_crashes_leaves_the_answer_unknown() -> None:
    crashing = branches("{{- message.nothing.at_all }}")
    assert _completion(crashing, Answer(None, "c", (CALL,)), tools=TOOLS).source == "unknown"


def test_calls_are_written_as_the_template_prints_them() -> None:
    known = _completion(APPENDS_ALL, Answer("r", "c", (CALL,)), tools=TOOLS)
    assert known.source == "training-view"
    call = '<tool_call>{"name": "look", "arguments": {"k": "a \\"b\\""}}</tool_call>'
    assert _text(known) == f"<think>r</think>c{call}<|im_end|>"
    assert known.written is not None
    assert known.written.calls is not None
    assert known.written.text[slice(*known.written.calls)] == call


_HYBRID = branches(
    _SAID % _THOUGHT, "{%- if not thinking %}{{- '<think>\\n\\n</think>\\n\\n' }}{%- endif %}"
)


def test_the_generation_prompt_tells_whether_a_mode_thinks() -> None:
    assert _state(OPENS) == "opened"
    assert _state(CLOSES) == "closed"
    assert _state(KEEPS) == "free"
    assert _state(APPENDS) == "none"
    assert _state(_HYBRID) == "closed"
    assert _state(_HYBRID, thinking=True) == "free"


@pytest.mark.parametrize("text", [CLOSES, APPENDS])
def test_no_model_reasons_in_a_mode_that_does_not_think(text: str) -> None:
    with pytest.raises(Unspoken, match="does not think"):
        _completion(text, Answer("r", "c"))


@pytest.mark.parametrize("text", [OPENS, KEEPS])
def test_an_answer_without_reasoning_is_not_known_where_thinking_is_open(text: str) -> None:
    with pytest.raises(Unspoken, match="not known"):
        _completion(text, Answer(None, "c"))


def test_a_closed_block_is_followed_by_the_answer_alone() -> None:
    known = _completion(CLOSES, Answer(None, "c"))
    assert known.source == "markers"
    assert _text(known) == "c<|im_end|>"


_AFTER_TOOL = branches(
    _SAID % _THOUGHT, "{%- if messages[-1].role == 'user' %}{{- TAIL }}{% endif %}"
)


@pytest.mark.parametrize("tail", ["'<think>\\n'", "'<think>\\n\\n</think>\\n\\n'"])
def test_a_format_that_speaks_of_thinking_after_users_only_does_not_think_after_tools(
    tail: str,
) -> None:
    text = _AFTER_TOOL.replace("TAIL", tail)
    assert _state(text, ANSWERED) == "closed"
    assert _text(_completion(text, Answer(None, "c"), messages=ANSWERED)) == "c<|im_end|>"


def test_other_formats_think_after_tools_as_after_users() -> None:
    assert _state(OPENS, ANSWERED) == "opened"
    assert _state(KEEPS, ANSWERED) == "free"
    assert _state(CLOSES, ANSWERED) == "closed"
    assert _state(APPENDS, ANSWERED) == "none"


_STOPS_BY_TURN = """\
{%- for message in messages %}
{{- '<|' + message.role + '|>' + message.content }}
{%- for call in message.tool_calls or [] %}{{- '{' + call.function.name }}{% endfor %}
{%- set final = message.role == 'assistant' and loop.last %}
{{- '<|call|>' if message.tool_calls else ('<|return|>' if final else '<|end|>') }}
{%- endfor %}
{%- if add_generation_prompt %}{{- '<|assistant|>' }}{% endif %}
"""


_BOTH = ("<|call|>", "<|return|>")


def _author(text: str, *stops: str, added: Sequence[str] = ()) -> Author:
    server = Server(JinjaRenderer(text, {}), "string", False)
    return Author(server, stops, added, (), Parsers(None, None))


def _ends(author: Author, answer: Answer) -> str:
    written = author.completion(ASKED, TOOLS, {}, answer).written
    assert written is not None
    return written.text[slice(*written.stop)]


@pytest.mark.parametrize(
    "stops", [("<|return|>", "<|call|>"), ("<|call|>", "<|return|>"), ("<|end|>", *_BOTH)]
)
def test_a_call_and_a_final_answer_end_in_their_own_stop_tokens(stops: tuple[str, ...]) -> None:
    author = _author(_STOPS_BY_TURN, *stops)
    assert _ends(author, Answer(None, "c")) == "<|return|>"
    assert _ends(author, Answer(None, "c", (ToolCall("look", "{}"),))) == "<|call|>"


_BARE = """\
{%- for message in messages %}
{{- '<|' + message.role + '|>' + message.content }}
{%- if message.role == 'assistant' and not loop.last %}{{- '<|end|>' }}{% endif %}
{%- endfor %}
{%- if add_generation_prompt %}{{- '<|assistant|>' }}{% endif %}
"""


def test_a_view_that_prints_no_stop_token_takes_that_of_the_next_prompt_else_the_first() -> None:
    assert _ends(_author(_BARE, "<|return|>", "<|end|>"), Answer(None, "c")) == "<|end|>"
    assert _ends(_author(_BARE, "<|return|>", "<|other|>"), Answer(None, "c")) == "<|return|>"
    assert _ends(_author(_BARE), Answer(None, "c")) == ""


@pytest.mark.parametrize(
    ("cut", "text"),
    [
        ("reasoning", "<think>rr"),
        ("content", "<think>rr</think>cc"),
        ("call", "<think>rr</think>cc<tool_call>{"),
    ],
)
def test_an_answer_that_was_cut_ends_inside_its_field_and_without_a_stop_token(
    cut: Cut, text: str
) -> None:
    answer = Answer("rr", "cc", (CALL,))
    known = _completion(APPENDS_ALL, answer, tools=TOOLS, cut=cut)
    whole = _text(_completion(APPENDS_ALL, answer, tools=TOOLS))
    assert whole.startswith(_text(known))
    assert _text(known).startswith(text) if cut == "call" else _text(known) == text
    assert known.written is not None
    assert known.written.stop == (len(_text(known)),) * 2


def test_a_template_that_moves_its_head_is_learned_without_the_system_message() -> None:
    moves = branches(
        "{{- '<|im_start|>assistant\\n' + message.content + '<|im_end|>\\n' }}",
        before="{%- if messages[-1].role == 'user' %}{{- messages[0].content }}{% endif %}",
    )
    asked = ({"role": "system", "content": "s"}, *ASKED)
    assert _text(_completion(moves, Answer(None, " c"), messages=asked)) == " c<|im_end|>"


@pytest.mark.parametrize(("opening", "closing"), [("<bot>\\n", "\\n</bot>"), ("[BOT]", "[/BOT]")])
def test_tags_around_whole_answers_are_no_thoughts(opening: str, closing: str) -> None:
    text = (
        "{%- for message in messages %}{%- if message.role == 'assistant' %}"
        "{{- 'OPEN' + message.content + 'CLOSE' }}{%- else %}{{- '<|' + message.content + '|>' }}"
        "{%- endif %}{%- endfor %}{%- if add_generation_prompt %}{{- 'OPEN' }}{% endif %}"
    )
    text = text.replace("OPEN", opening).replace("CLOSE", closing)
    assert _state(text) == "none"
    end = closing.replace("\\n", "\n")
    assert _text(_completion(text, Answer(None, "c"))).startswith("c" + end)


def test_a_view_that_never_closes_what_the_prompt_opened_is_not_the_layout() -> None:
    opens = (
        "{{- '<|im_start|>assistant\\n<think>\\n' + (message.reasoning_content or '') }}"
        "{{- message.content + '<|im_end|>\\n' }}{#- </think> #}"
    )
    known = _completion(branches(opens, "{{- '<think>\\n' }}"), Answer("r", "c"))
    assert known.source != "training-view"
    assert "</think>" in _text(known)


@pytest.mark.parametrize(
    "said",
    [
        "'<think>' + message.reasoning_content + '</think>' + message.reasoning_content"
        " + message.content",
        "message.content + '<think>' + message.reasoning_content + '</think>'",
    ],
    ids=["twice", "after-content"],
)
def test_reasoning_that_is_printed_oddly_is_written_in_the_dialect(said: str) -> None:
    branch = "{{- '<|im_start|>assistant\\n' + SAID + '<|im_end|>\\n' }}".replace("SAID", said)
    known = _completion(branches(branch, "{{- '<think>' }}"), Answer("r", "c"))
    assert known.source == "dialect"
    assert _text(known) == "r\n</think>\n\nc<|im_end|>"


def test_a_generation_config_names_all_that_ends_a_turn() -> None:
    """What history ends turns with is no stop token where the set is known and lacks it."""
    text = (
        "{% for m in messages %}{{ '<|im_start|>' + m.role + '\\n' + m.content + '<|im_end|>\\n' }}"
        "{% endfor %}{% if add_generation_prompt %}{{ '<|im_start|>assistant\\n' }}{% endif %}"
    )
    tokenizer = TokenizerRef("example", EXAMPLE, EXAMPLE / "tokenizer.json")
    config = json.loads((EXAMPLE / "tokenizer.json").read_text(encoding="utf-8"))
    end = next(t["id"] for t in config["added_tokens"] if t["content"] == "<|endoftext|>")

    def codes(stop_token_ids: tuple[int, ...]) -> set[str]:
        template = ChatTemplate(
            "t", "t.jinja", text, stop_token_ids=stop_token_ids, tokenizer=tokenizer
        )
        checked = check(template, CheckOptions())
        assert checked.verdict == "preserving"
        return {finding.code for finding in checked.findings}

    assert "TF105" in codes((end,))
    assert "TF105" not in codes(())


#: Spells calls as no parser does, and prints no content beside them.
_DROPS = (
    "{%- if message.tool_calls %}{{- '<|im_start|>assistant\\n' }}"
    "{%- for call in message.tool_calls %}"
    "{{- '[[' + call.function.name + ' ' + call.function.arguments.k + ']]' }}"
    "{%- endfor %}{%- else %}{{- '<|im_start|>assistant\\n' + message.content }}{%- endif %}"
    "{{- '<|im_end|>\\n' }}"
)


def test_content_that_is_not_printed_beside_calls_stands_before_them() -> None:
    known = _completion(branches(_DROPS), Answer(None, " c", (CALL, CALL)), tools=TOOLS)
    assert known.source == "markers"
    assert known.written is not None
    assert known.written.text == ' c[[look a "b"]][[look a "b"]]<|im_end|>'
    assert known.written.content == (0, 2)
    assert known.written.calls == (2, len(known.written.text) - len("<|im_end|>"))


def test_content_beside_calls_is_learned_without_a_system_message_that_moves() -> None:
    system = "{%- if messages[0].role == 'system' and messages[-1].role == 'user' %}"
    moves = branches(_DROPS, before=system + "{{- messages[0].content }}{% endif %}")
    asked = ({"role": "system", "content": "s"}, *ASKED)
    answer = Answer(None, " c", (CALL,))
    known = _completion(moves, answer, messages=asked, tools=TOOLS)
    assert _text(known) == ' c[[look a "b"]]<|im_end|>'


#: Prints content beside calls in the last answer only, and calls as no parser does.
_MOVES = (
    "{{- '<|im_start|>assistant\\n' }}"
    "{%- set later = messages[loop.index:] | selectattr('role', 'equalto', 'assistant') | list %}"
    "{%- if not (message.tool_calls and later) %}{{- message.content or '' }}{% endif %}"
    "{%- for call in message.tool_calls or [] %}"
    "{{- '[[' + call.function.name + ' ' + call.function.arguments | string + ']]' }}"
    "{%- endfor %}{{- '<|im_end|>\\n' }}"
)


def test_calls_are_learned_where_what_an_earlier_answer_says_beside_its_calls_moves() -> None:
    (asked, called, told) = ANSWERED
    spoke = (asked, {**called, "content": "First this."}, told)
    answer = Answer(None, None, (ToolCall("look", '{"n": 1}'),))
    known = _completion(branches(_MOVES), answer, messages=spoke, tools=TOOLS)
    assert known.source == "training-view"
    assert _text(known) == "[[look {'n': 1}]]<|im_end|>"


#: Sorts arguments, prints no content beside calls, and never any reasoning.
_SORTS = (
    "{{- '<|im_start|>assistant\\n' }}"
    "{%- for call in message.tool_calls or [] %}"
    '{{- \'<tool_call>\\n{"name": "\' + call.function.name + \'", "arguments": {\' }}'
    "{%- for key, value in call.function.arguments | dictsort %}"
    "{{- '\"' + key + '\": ' + value | tojson + ('' if loop.last else ', ') }}"
    "{%- endfor %}{{- '}}\\n</tool_call>' }}"
    "{%- else %}{{- message.content.split('</think>')[-1] }}{%- endfor %}{{- '<|im_end|>\\n' }}"
)


def test_calls_after_reasoning_of_a_dialect_are_spelled_as_the_template_spells_them() -> None:
    call = ToolCall("look", '{"y": "b", "x": "a"}')
    known = _completion(
        branches(_SORTS, "{{- '<think>\\n' }}"), Answer("r", "c", (call,)), tools=TOOLS
    )
    assert known.source == "dialect"
    assert '"arguments": {"x": "a", "y": "b"}' in _text(known)


#: Never prints reasoning, and a newline between content and calls.
_PARTS = (
    "{{- '<|im_start|>assistant\\n' + (message.content or '').split('</think>')[-1] }}"
    "{%- for call in message.tool_calls or [] %}{{- '\\n' if message.content else '' }}"
    '{{- \'<tool_call>\\n{"name": "\' + call.function.name + \'", "arguments": \' }}'
    "{{- call.function.arguments | tojson + '}\\n</tool_call>' }}{%- endfor %}"
    "{{- '<|im_end|>\\n' }}"
)


def test_content_and_calls_after_reasoning_of_a_dialect_stay_as_the_template_prints_them() -> None:
    known = _completion(branches(_PARTS), Answer("r", "c", (CALL,)), tools=TOOLS)
    assert known.source == "dialect"
    assert "c\n<tool_call>" in _text(known)


@pytest.mark.parametrize("tags", [("<|muse|>", "<|/muse|>"), ("[[mull]]", "[[/mull]]")])
def test_an_opener_in_the_prompt_is_told_by_the_closing_tag(tags: tuple[str, str]) -> None:
    opening, closing = tags
    said = (
        "{{- '<|im_start|>assistant\\n' }}{%- if message.reasoning_content %}"
        f"{{{{- '{opening}' + message.reasoning_content + '{closing}' }}}}{{% endif %}}"
        "{{- message.content + '<|im_end|>\\n' }}"
    )
    text = branches(said, f"{{{{- '{opening}' }}}}")
    assert _state(text) == "opened"
    assert _completion(text, Answer("r", "c")).tags == Tags(opening, closing)


def test_a_space_that_the_format_puts_before_an_answer_comes_back_with_it() -> None:
    """vLLM 0.32 decodes a completion as what follows the prompt, and keeps its first space."""
    spaced = "{{- '<|im_start|>assistant\\n' + %s + '<|im_end|>\\n' }}"
    twice = report(branches(spaced % "' ' + message.content"))
    assert [finding.code for finding in twice.findings if finding.severity == "error"] == ["TF104"]
    once = "('' if message.content[:1] == ' ' else ' ') + message.content"
    assert report(branches(spaced % once)).verdict == "preserving"


@pytest.mark.parametrize(
    ("answer", "text"),
    [
        (Answer(None, "c"), "<|channel|>final<|message|>c"),
        (
            Answer("r", "c"),
            "<|channel|>analysis<|message|>r<|end|><|start|>assistant<|channel|>final<|message|>c",
        ),
        (
            Answer(None, "c", (ToolCall("look", "{}"),)),
            "<|channel|>commentary<|message|>c<|end|><|start|>assistant"
            "<|channel|>commentary to=functions.look <|constrain|>json<|message|>{}",
        ),
    ],
)
def test_a_dialect_opens_its_content_too(answer: Answer, text: str) -> None:
    hides = branches("{{- '<|im_start|>assistant\\n<|im_end|>\\n' }}")
    server = Server(JinjaRenderer(hides, {}), "string", False)
    parsers = Parsers(REASONING["openai_gptoss"], TOOL_DIALECTS["openai"])
    author = Author(server, (), (), ("<|end|><|start|>assistant",), parsers)
    assert _text(author.completion(ASKED, TOOLS, {}, answer)) == text
