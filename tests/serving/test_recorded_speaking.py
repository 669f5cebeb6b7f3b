"""Completions of recorded answers: their ids, else the text that the parsers' fields stand for."""

from __future__ import annotations

from typing import Any

import pytest

from tests.example import EXAMPLE
from tests.serving.test_recorded_owners import CALL, TOOLS
from tests.serving.traffic_log import Log, losses

ASK = {"role": "user", "content": "Which city lies at the mouth of the Douro, and how far is it?"}
NEXT = {"role": "user", "content": "And which one lies at the mouth of the Tagus?"}
RESULT = {"role": "tool", "tool_call_id": "call_1", "content": "It is 93 metres high there."}
STOP = "<|im_end|>"
SAID = "Porto lies there, on the north bank, facing Gaia across the river."
THOUGHT = "The Douro reaches the Atlantic at Porto. One sentence is enough here."
OFF = {"enable_thinking": False}


def example() -> Log:
    return Log.under((EXAMPLE / "chat_template.jinja").read_text("utf-8"))


def figures(log: Log) -> tuple[int, int]:
    traffic = log.replayed()
    losses(traffic)
    return traffic.reused_tokens, traffic.ideal_tokens


@pytest.mark.parametrize(
    ("answer", "wrote", "kwargs", "next_message"),
    [
        ({"content": SAID}, SAID, OFF, NEXT),
        (
            {"content": f"\n\n{SAID}", "reasoning": f"\n{THOUGHT}\n"},
            f"<think>\n{THOUGHT}\n</think>\n\n{SAID}",
            {},
            NEXT,
        ),
        (
            {"content": SAID, "reasoning_content": THOUGHT},
            f"<think>\n{THOUGHT}\n</think>\n\n{SAID}",
            {},
            NEXT,
        ),
        (
            {"content": f"<think>\n{THOUGHT}\n</think>\n\n{SAID}"},
            f"<think>\n{THOUGHT}\n</think>\n\n{SAID}",
            {},
            NEXT,
        ),
        (
            {"content": None, "tool_calls": [CALL]},
            '<tool_call>\n{"name": "height", "arguments": {"place": "Porto"}}\n</tool_call>',
            OFF,
            RESULT,
        ),
    ],
    ids=["content", "raw-fields", "stripped-fields", "inline", "call"],
)
@pytest.mark.parametrize("responses", [True, False])
def test_fields_say_what_the_model_wrote(
    answer: dict[str, Any],
    wrote: str,
    kwargs: dict[str, Any],
    next_message: dict[str, Any],
    responses: bool,
) -> None:
    """With the response recorded or only sent back, text and ids come to the same figures."""
    tools = TOOLS if "tool_calls" in answer else None
    replayed = {"role": "assistant", **answer}
    log, with_ids = example(), example()
    for each, ids in ((log, None), (with_ids, wrote + STOP)):
        recorded = answer if responses or ids else None
        each.add([ASK], recorded, completion=ids, tools=tools, chat_template_kwargs=kwargs)
        each.add([ASK, replayed, next_message], tools=tools, chat_template_kwargs=kwargs)
    stream = log.prompt([ASK], tools, kwargs) + log.ids(wrote + STOP)
    expected = log.hit(stream, log.prompt([ASK, replayed, next_message], tools, kwargs))
    assert figures(log) == expected
    assert figures(with_ids) == expected


@pytest.mark.parametrize("finish", ["length", "abort", None])
@pytest.mark.parametrize("ids", [True, False])
def test_the_stream_of_a_cut_answer_has_no_stop_token(finish: str | None, ids: bool) -> None:
    log = example()
    wrote = SAID[:40]
    log.add(
        [ASK],
        {"content": wrote},
        completion=wrote if ids else None,
        finish=finish,
        chat_template_kwargs=OFF,
    )
    again = [ASK, {"role": "assistant", "content": wrote}, {"role": "user", "content": "Go on."}]
    log.add(again, chat_template_kwargs=OFF)
    stream = log.prompt([ASK], None, OFF) + log.ids(wrote)
    assert figures(log) == log.hit(stream, log.prompt(again, None, OFF))
    assert log.replayed().cut == 1


def test_an_answer_cut_inside_its_reasoning_ends_there() -> None:
    log = example()
    wrote = f"\n{THOUGHT[:30]}"
    log.add([ASK], {"content": None, "reasoning": wrote}, finish="length")
    replayed = {"role": "assistant", "content": None, "reasoning": wrote}
    log.add([ASK, replayed, NEXT])
    stream = log.prompt([ASK]) + log.ids("<think>" + wrote)
    assert figures(log) == log.hit(stream, log.prompt([ASK, replayed, NEXT]))


def test_an_answer_that_no_model_gives_is_unknown_beyond_its_prompt() -> None:
    """In a mode that thinks: what stood before an answer without reasoning nobody knows."""
    log = example()
    log.add([ASK], {"content": SAID})
    log.add([ASK, {"role": "assistant", "content": SAID}, NEXT])
    traffic = log.replayed()
    assert traffic.completions == {"ids": 0, "text": 0, "unknown": 1}
    stream = log.prompt([ASK])
    later = log.prompt([ASK, {"role": "assistant", "content": SAID}, NEXT])
    assert (traffic.reused_tokens, traffic.ideal_tokens) == log.hit(stream, later)
    assert log.report().verdict == "not-evaluated"


def test_prompt_ids_of_another_template_are_counted() -> None:
    log = example()
    log.add([ASK], prompt_token_ids=log.prompt([ASK]))
    log.add([NEXT], prompt_token_ids=[1, 2, 3])
    assert log.replayed().other_prompts == 1


def test_tools_kwargs_and_calls_of_a_recording_reach_the_prompt() -> None:
    log = example()
    called = {"role": "assistant", "content": None, "tool_calls": [CALL]}
    log.add([ASK, called, RESULT], tools=TOOLS, chat_template_kwargs=OFF)
    assert log.replayed().prompt_tokens == len(log.prompt([ASK, called, RESULT], TOOLS, OFF))
