"""Every token that recorded traffic loses has an owner, and the figures are exact."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from templatefix.chat.conversation import Message
from tests.example import EXAMPLE
from tests.serving.traffic_log import Log, losses
from tests.subjects import APPENDS_ALL

SYSTEM = {"role": "system", "content": "You plan short trips along rivers, and answer briefly."}
ASK = {"role": "user", "content": "Which city lies at the mouth of the Douro, and how far is it?"}
NEXT = {"role": "user", "content": "And which one lies at the mouth of the Tagus, further south?"}
LAST = {"role": "user", "content": "Thanks. Where does the Guadiana reach the sea?"}
SAID = "Porto lies there, on the north bank, facing Gaia across the river."
THOUGHT = "The Douro reaches the Atlantic at Porto. One sentence is enough here."
TOOLS = [
    {
        "type": "function",
        "function": {
            "name": name,
            "description": f"Looks up the {name} of a place.",
            "parameters": {"type": "object", "properties": {"place": {"type": "string"}}},
        },
    }
    for name in ("height", "forecast")
]
STOP = "<|im_end|>"
CALL = {
    "id": "call_1",
    "type": "function",
    "function": {"name": "height", "arguments": '{"place": "Porto"}'},
}


def example() -> Log:
    """A log under the template that ships as an example, with its own tokenizer."""
    return Log.under((EXAMPLE / "chat_template.jinja").read_text("utf-8"))


def appending() -> Log:
    """A log under a template that only appends: whatever is lost, others have lost it."""
    return Log.under(APPENDS_ALL)


def said(content: str = SAID, **fields: Any) -> Message:
    return {"role": "assistant", "content": content, **fields}


def test_an_empty_block_that_history_drops_is_the_templates_loss() -> None:
    log, off = example(), {"enable_thinking": False}
    first = [SYSTEM, ASK]
    second = [*first, said(), NEXT]
    third = [*second, said("Lisbon does."), LAST]
    log.add(first, {"content": SAID}, completion=SAID + STOP, chat_template_kwargs=off)
    log.add(second, {"content": "Lisbon does."}, chat_template_kwargs=off)
    log.add(third, chat_template_kwargs=off)
    prompts = [log.prompt(messages, None, off) for messages in (first, second, third)]
    streams = [prompts[0] + log.ids(SAID + STOP), prompts[1] + log.ids("Lisbon does." + STOP)]
    hits = [log.hit(stream, prompt) for stream, prompt in zip(streams, prompts[1:], strict=True)]

    traffic = log.replayed()

    assert traffic.prompt_tokens == sum(map(len, prompts))
    assert traffic.reused_tokens == sum(hit for hit, _ in hits)
    assert traffic.ideal_tokens == sum(ideal for _, ideal in hits)
    lost = sum(ideal - hit for hit, ideal in hits)
    assert lost > 0
    assert losses(traffic) == {("template", "TF101"): (lost, 2, 2)}
    assert (traffic.requests, traffic.conversations, traffic.continued) == (3, 1, 2)
    assert traffic.completions == {"ids": 1, "text": 1, "unknown": 0}


def test_a_template_loss_is_a_finding_with_its_line_and_its_requests() -> None:
    log = example()
    for start in (ASK, NEXT):
        log.add([start], {"content": f"\n\n{SAID}", "reasoning": f"\n{THOUGHT}\n"})
        log.add([start, said(f"\n\n{SAID}", reasoning=f"\n{THOUGHT}\n"), LAST])
    report = log.report()
    (finding,) = report.findings
    assert report.verdict == "breaks"
    assert (finding.code, finding.severity, finding.requests) == ("TF102", "error", 2)
    assert finding.scenario == "line 2"
    text = log.subject.template.text.splitlines()[(finding.line or 0) - 1]
    assert "loop.index0 > seen.question" in text
    lenient = log.report(policy="lossless")
    assert [each.severity for each in lenient.findings] == ["info"]


def test_what_the_servers_parser_strips_is_the_parsers_loss() -> None:
    log = appending()
    wrote = f"  {SAID}{STOP}"
    log.add([SYSTEM, ASK], {"content": SAID}, completion=wrote)
    log.add([SYSTEM, ASK, said(), NEXT])
    stream = log.prompt([SYSTEM, ASK]) + log.ids(wrote)
    hit, ideal = log.hit(stream, log.prompt([SYSTEM, ASK, said(), NEXT]))

    report = log.report()

    assert report.recorded is not None
    assert losses(report.recorded) == {("parser", "TF301"): (ideal - hit, 1, 2)}
    assert ideal > hit
    assert [finding.severity for finding in report.findings] == ["info"]
    assert report.verdict == "not-evaluated"


def test_a_call_that_no_field_tells_the_spelling_of_is_the_parsers_loss() -> None:
    log = appending()
    wrote = '<tool_call>{"name": "height", "arguments": {"place":"Porto"}}</tool_call>' + STOP
    result = {"role": "tool", "tool_call_id": "call_1", "content": "93 metres"}
    log.add([ASK], {"content": None, "tool_calls": [CALL]}, completion=wrote, tools=TOOLS)
    log.add([ASK, said("", tool_calls=[CALL]), result], tools=TOOLS)
    stream = log.prompt([ASK], TOOLS) + log.ids(wrote)
    hit, ideal = log.hit(stream, log.prompt([ASK, said("", tool_calls=[CALL]), result], TOOLS))
    assert losses(log.replayed()) == {("parser", "TF301"): (ideal - hit, 1, 2)}


def test_the_same_text_in_other_tokens_is_the_tokenizers_loss() -> None:
    log = appending()
    spelled = [log.ids(character)[0] for character in SAID] + log.ids(STOP)
    assert log.subject.encoder.decode(spelled) == SAID + STOP
    log.add([ASK], {"content": SAID}, completion=spelled)
    log.add([ASK, said(), NEXT])
    hit, ideal = log.hit(log.prompt([ASK]) + spelled, log.prompt([ASK, said(), NEXT]))
    report = log.report()
    assert report.recorded is not None
    assert losses(report.recorded) == {("tokenizer", "TF108"): (ideal - hit, 1, 2)}
    assert [(each.code, each.severity) for each in report.findings] == [("TF108", "warning")]


THINKS = {"content": SAID, "reasoning": THOUGHT}
DATED = {"role": "system", "content": "You plan short trips. Today is the 2nd of March."}
TODAY = {"role": "system", "content": "You plan short trips. Today is the 1st of March."}


@pytest.mark.parametrize(
    ("name", "before", "after"),
    [
        ("dropped-reasoning", {}, {"messages": [SYSTEM, ASK, said(), NEXT]}),
        (
            "changed-system",
            {"messages": [TODAY, ASK]},
            {"messages": [DATED, ASK, said(reasoning=THOUGHT), NEXT]},
        ),
        ("reordered-tools", {"tools": TOOLS}, {"tools": TOOLS[::-1]}),
        ("changed-tools", {"tools": TOOLS}, {"tools": TOOLS[:1]}),
        (
            "edited-history",
            {},
            {"messages": [SYSTEM, ASK, said("Gaia does.", reasoning=THOUGHT), NEXT]},
        ),
        (
            "reformatted-answer",
            {},
            {"messages": [SYSTEM, ASK, said(f"\n{SAID}", reasoning=THOUGHT), NEXT]},
        ),
    ],
)
def test_what_a_client_changes_is_the_clients_loss_under_its_name(
    name: str, before: dict[str, Any], after: dict[str, Any]
) -> None:
    log = appending()
    first: dict[str, Any] = {"messages": [SYSTEM, ASK], "tools": None, **before}
    second: dict[str, Any] = {
        "messages": [SYSTEM, ASK, said(reasoning=THOUGHT), NEXT],
        "tools": None,
        **after,
    }
    wrote = f"<think>{THOUGHT}</think>{SAID}{STOP}"
    log.add(first["messages"], THINKS, completion=wrote, tools=first["tools"])
    log.add(second["messages"], tools=second["tools"])
    stream = log.prompt(first["messages"], first["tools"]) + log.ids(wrote)
    hit, ideal = log.hit(stream, log.prompt(second["messages"], second["tools"]))

    report = log.report()

    assert ideal > hit
    assert report.recorded is not None
    assert losses(report.recorded) == {("client", name): (ideal - hit, 1, 2)}
    assert report.recorded.losses[0].shared_tokens == 0
    assert report.verdict == "preserving"  # with a faithful client nothing would be lost
    assert report.findings == ()


def test_a_history_that_the_client_shortens_is_its_loss() -> None:
    log = appending()
    long = [ASK, said(), NEXT]
    log.add([ASK], {"content": SAID}, completion=SAID + STOP)
    log.add(long, {"content": "Lisbon does."}, completion="Lisbon does." + STOP)
    short = [NEXT, said("Lisbon does."), LAST]
    log.add(short)
    stream = log.prompt(long) + log.ids("Lisbon does." + STOP)
    hit, ideal = log.hit(stream, log.prompt(short))
    assert losses(log.replayed()) == {("client", "truncated-history"): (ideal - hit, 1, 3)}


def test_a_mode_that_the_client_switches_is_its_loss() -> None:
    text = "{{- 'effort ' ~ effort ~ '\\n' if effort is defined }}" + APPENDS_ALL
    log = Log.under(text)
    low, high = {"effort": "low"}, {"effort": "high"}
    log.add([ASK], {"content": SAID}, completion=SAID + STOP, chat_template_kwargs=low)
    log.add([ASK, said(), NEXT], chat_template_kwargs=high)
    stream = log.prompt([ASK], None, low) + log.ids(SAID + STOP)
    hit, ideal = log.hit(stream, log.prompt([ASK, said(), NEXT], None, high))
    assert losses(log.replayed()) == {("client", "changed-kwargs"): (ideal - hit, 1, 2)}


def test_of_several_changes_the_first_in_the_prompt_has_lost_the_tokens() -> None:
    log = appending()
    wrote = f"<think>{THOUGHT}</think>{SAID}{STOP}"
    log.add([TODAY, ASK], THINKS, completion=wrote)
    log.add([DATED, ASK, said(), NEXT])
    assert list(losses(log.replayed())) == [("client", "changed-system")]


def test_client_and_template_share_what_both_of_them_lose() -> None:
    """What a faithful client would have kept is the client's, the rest is the template's."""
    log, off = example(), {"enable_thinking": False}
    first, second = [TODAY, ASK], [DATED, ASK, said(), NEXT]
    faithful = [TODAY, ASK, said(), NEXT]
    log.add(first, {"content": SAID}, completion=SAID + STOP, chat_template_kwargs=off)
    log.add(second, chat_template_kwargs=off)
    stream = log.prompt(first, None, off) + log.ids(SAID + STOP)
    hit, ideal = log.hit(stream, log.prompt(second, None, off))
    kept, _ = log.hit(stream, log.prompt(faithful, None, off))
    assert hit < kept < ideal
    assert losses(log.replayed()) == {
        ("client", "changed-system"): (kept - hit, 1, 2),
        ("template", "TF101"): (ideal - kept, 1, 2),
    }


def test_reasoning_that_neither_client_nor_template_keeps_is_told_apart() -> None:
    log = example()
    log.add([ASK], {"content": f"\n\n{SAID}", "reasoning": f"\n{THOUGHT}\n"})
    log.add([ASK, said(f"\n\n{SAID}"), NEXT])
    report = log.report()
    assert report.recorded is not None
    (loss,) = report.recorded.losses
    assert (loss.owner, loss.what) == ("client", "dropped-reasoning")
    assert loss.shared_tokens == loss.lost_tokens > 0
    assert report.verdict == "not-evaluated"


def test_what_a_patch_recovers_is_priced_on_the_recorded_conversations() -> None:
    log, off = example(), {"enable_thinking": False}
    messages: Sequence[Message] = [SYSTEM, ASK]
    log.add(messages, {"content": SAID}, completion=SAID + STOP, chat_template_kwargs=off)
    log.add([*messages, said(), NEXT], chat_template_kwargs=off)
    traffic = log.replayed(recover=True, policy="lossless")
    assert traffic.recovery is not None
    assert (traffic.recovery.policy, traffic.recovery.status) == ("lossless", "patched")
    lost = traffic.lost_to("template")
    assert traffic.recovery.recovered_tokens == lost > 0
    prompt = log.prompt([*messages, said(), NEXT], None, off)
    block = len(log.ids("<think>\n\n</think>\n\n"))
    stream = log.prompt(messages, None, off) + log.ids(SAID + STOP)
    repaired_hit = (len(stream) - 1) // 16 * 16
    computed_now = len(prompt) - traffic.reused_tokens
    computed_then = len(prompt) + block - repaired_hit
    assert traffic.recovery.saved_prefill_tokens == computed_now - computed_then


def test_nothing_is_repaired_where_the_template_loses_nothing() -> None:
    log = appending()
    log.add([ASK], {"content": SAID}, completion=SAID + STOP)
    log.add([ASK, said(), NEXT])
    traffic = log.replayed(recover=True)
    assert traffic.recovery is None
    assert traffic.lost_tokens == 0 < traffic.reused_tokens
