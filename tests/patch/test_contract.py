"""Every clause of the contract fails a patch that is bad in just that way."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import pytest

from templatefix.chat.answer import Answer, ToolCall
from templatefix.chat.conversation import Scenario, Turn
from templatefix.chat.given import scenario_of
from templatefix.checking import CheckOptions
from templatefix.checking.runs import modes_of
from templatefix.patching.bench import Bench
from templatefix.patching.contract import CLAUSES, Proof, c6, verify
from templatefix.patching.contract.shrink import shrink
from tests.corpus import corpus_entry
from tests.example import EXAMPLE
from tests.subjects import APPENDS, results, subject

POLICIES = ("lossless", "keep-reasoning")
#: The loop that the small templates begin with.
LOOP = "{%- for message in messages %}"
ORIGINAL = (EXAMPLE / "chat_template.jinja").read_text("utf-8")

#: The example's branch for answers: how it is published, and how it is repaired by hand.
_PUBLISHED = """\
        {%- if loop.index0 > seen.question and (reasoning or loop.last) %}
            {{- '<think>\\n' + reasoning.strip('\\n') + '\\n</think>\\n\\n' + text.lstrip('\\n') }}
        {%- else %}
            {{- text }}
        {%- endif %}
"""
_REPAIRED = """\
        {%- if GUARD(reasoning or loop.last and loop.index0 > seen.question) %}
            {{- '<think>' + ('' if reasoning.startswith('\\n') else '\\n') + reasoning
                + ('' if reasoning[1:].endswith('\\n') else '\\n') + '</think>'
                + ('' if text.startswith('\\n\\n') else '\\n\\n') + text }}
        {%- elif enable_thinking is defined and not enable_thinking %}
            {{- '<think>\\n\\n</think>\\n\\n' + text }}
        {%- else %}
            {{- text }}
        {%- endif %}
"""
assert _PUBLISHED in ORIGINAL


def repaired(policy: str) -> str:
    """The example, repaired by hand."""
    guard = "loop.index0 > seen.question and " if policy == "lossless" else ""
    return ORIGINAL.replace(_PUBLISHED, _REPAIRED.replace("GUARD", guard))


def changed(text: str, old: str, new: str) -> str:
    assert text.count(old) == 1, old
    return text.replace(old, new)


@lru_cache(maxsize=8)
def bench(text: str, policy: str) -> Bench:
    """The tokenizer of the example belongs to the example, and to what is made of it, alone."""
    made = subject(text, exact=text.startswith(ORIGINAL[:99]))
    return Bench(made, modes_of(made, CheckOptions()), policy, 16)


def judged(
    candidate: str, policy: str = "lossless", original: str = ORIGINAL, **more: Any
) -> Proof:
    examples = more.pop("max_examples", 0)
    ground = bench(original, policy)
    proof = verify(ground, candidate, max_examples=examples, seed=0, exhaustive=True, **more)
    for violation in proof.violations:
        if violation.conversation is not None:
            scenario_of(violation.conversation)
    return proof


def broken(proof: Proof) -> list[str]:
    return [result.clause for result in proof.results if not result.passed]


@pytest.mark.parametrize("policy", POLICIES)
def test_a_repair_by_hand_keeps_the_contract(policy: str) -> None:
    proof = judged(repaired(policy), policy, max_examples=60)
    assert [v.message for v in proof.violations] == []
    assert {result.clause for result in proof.results} == {
        name for name, _ in CLAUSES if name != "C8" or policy == "lossless"
    }
    assert all(result.tried > 0 for result in proof.results)
    assert proof.examples >= 60


def test_a_patch_that_changes_the_system_prompt_breaks_c1() -> None:
    bad = changed(repaired("keep-reasoning"), "system\\n' + instr", "system\\nHello. ' + instr")
    assert broken(judged(bad, "keep-reasoning")) == ["C1"]


def test_a_patch_that_freezes_the_date_breaks_c1() -> None:
    dated = "{{- '<|im_start|>system\\nIt is ' + DATE + '.<|im_end|>\\n' }}" + APPENDS
    original = dated.replace("DATE", "strftime_now('%B %Y')")
    frozen = dated.replace("DATE", "'January 2026'")
    assert broken(judged(original, original=original)) == []
    assert broken(judged(frozen, original=original)) == ["C1"]


@pytest.mark.parametrize("policy", POLICIES)
def test_the_original_breaks_c2_alone(policy: str) -> None:
    proof = judged(ORIGINAL, policy)
    assert broken(proof) == ["C2"]
    assert proof.violations[0].message.startswith("TF10")


def test_a_patch_that_frames_users_otherwise_breaks_c3() -> None:
    bad = changed(
        repaired("keep-reasoning"),
        "'<|im_start|>user\\n' + text + '<|im_end|>\\n'",
        "'<|im_start|>user\\n' + text + (' ' if loop.previtem is defined and "
        "loop.previtem.role == 'assistant' else '') + '<|im_end|>\\n'",
    )
    assert broken(judged(bad, "keep-reasoning")) == ["C3"]


def test_a_patch_that_rewrites_what_users_said_earlier_breaks_c3() -> None:
    """... where the policy leaves a break before it, so that C2 does not see it."""
    bad = changed(
        repaired("lossless"),
        "'<|im_start|>user\\n' + text + '<|im_end|>\\n'",
        "'<|im_start|>user\\n' + text + (' ' if 0 < loop.index0 < seen.question and "
        "enable_thinking is not defined else '') + '<|im_end|>\\n'",
    )
    assert "C3" in broken(judged(bad))


def test_a_patch_that_drops_a_tool_result_breaks_c3_and_c5() -> None:
    bad = changed(
        repaired("keep-reasoning"),
        "<tool_response>\\n' + text",
        "<tool_response>\\n' + (text if loop.previtem is not defined or "
        "loop.previtem.role != 'assistant' else '')",
    )
    proof = judged(bad, "keep-reasoning")
    assert broken(proof) == ["C3", "C5"]
    assert "a tool message" in proof.violations[1].message


#: Prints the system text with the last user message; or with the last one before any answer.
_MOVES = """\
{%- set place = namespace(user=-1, answered=false) %}
{%- for message in messages %}
{%- if message.role == 'assistant' %}{% set place.answered = true %}{% endif %}
{%- if message.role == 'user' GUARD %}{% set place.user = loop.index0 %}{% endif %}
{%- endfor %}
{%- set system = messages[0].content if messages[0].role == 'system' else '' %}
{%- for message in messages %}
{%- if message.role == 'user' %}
{{- '[INST]' + (system + '\\n' if loop.index0 == place.user and system else '') }}
{{- message.content + '[/INST]' }}
{%- elif message.role == 'assistant' %}{{- message.content + eos_token }}{% endif %}
{%- endfor %}
"""


def test_a_head_that_moved_may_be_pinned_where_the_first_prompt_had_it() -> None:
    moving = _MOVES.replace("GUARD", "")
    pinned = _MOVES.replace("GUARD", "and not place.answered")
    assert broken(judged(moving, original=moving)) == ["C2"]
    proof = judged(pinned, original=moving, max_examples=30)
    assert [v.message for v in proof.violations] == []
    notes = [note for result in proof.results for note in result.notes]
    assert len(notes) == 1
    assert "moves what comes before the conversation" in notes[0]
    lossy = pinned.replace("message.content + '[/INST]'", "message.content[:9] + '[/INST]'")
    assert "C3" in broken(judged(lossy, original=moving))


def test_an_answer_that_is_moved_behind_what_follows_may_stay_in_its_place() -> None:
    text = "{{- message.content }}"
    moves, keeps = results("", text), results(text, "")
    assert "C3" not in broken(judged(keeps, original=moves))
    proof = judged(keeps, original=moves)
    assert any("behind the messages that follow" in n for r in proof.results for n in r.notes)
    cuts = results(text, "", "other.content[1:]")
    assert "C3" in broken(judged(cuts, original=moves))
    nothing = results(text, "", "''").replace("<tool_response>", "").replace("</tool_response>", "")
    assert broken(judged(nothing, original=moves)) == ["C5"]


#: Ends answers with a text that is no special token, and cuts off spaces before it.
_ENDS = """\
{%- for message in messages %}
{%- if message.role == 'assistant' %}{{- '[A]' + CONTENT + '[/A]' }}
{%- else %}{{- '[U]' + message.content + '[/U]' }}{% endif %}
{%- endfor %}
{%- if add_generation_prompt %}{{- '[A]' }}{% endif %}
"""


def test_a_patch_that_ends_an_answer_twice_breaks_c3() -> None:
    original = _ENDS.replace("CONTENT", "(message.content or '') | trim")
    good = _ENDS.replace("CONTENT", "(message.content or '') | string")
    assert broken(judged(good, "keep-reasoning", original)) == []
    twice = good.replace("'[/A]'", "'[/A][/A]'")
    assert broken(judged(twice, "keep-reasoning", original)) == ["C3"]


def test_a_patch_that_no_longer_ends_an_answer_breaks_c3() -> None:
    ends = "{% if not loop.last %}{{- '[/A]' }}{% endif %}"
    said = _ENDS.replace("{{- '[A]' + CONTENT + '[/A]' }}", "{{- '[A]' + CONTENT }}" + ends)
    original = said.replace("CONTENT", "(message.content or '') | trim")
    good = said.replace("CONTENT", "(message.content or '') | string")
    assert "C3" not in broken(judged(good, "keep-reasoning", original))
    assert "C3" in broken(judged(good.replace(ends, ""), "keep-reasoning", original))


def test_a_patch_that_prints_an_answer_twice_breaks_c5() -> None:
    original = _ENDS.replace("CONTENT", "(message.content or '') | trim")
    good = _ENDS.replace("CONTENT", "(message.content or '') | string")
    later = good.replace(
        "'[/A]' }}", "'[/A]' }}{% if loop.last %}{{- message.content }}{% endif %}"
    )
    assert "C5" in broken(judged(later, "keep-reasoning", original))


def test_a_patch_that_prints_a_last_answer_otherwise_breaks_c5() -> None:
    """No request ends with one, but trainers render it so."""
    original = _ENDS.replace("CONTENT", "(message.content or '') | trim")
    good = _ENDS.replace("CONTENT", "(message.content or '') | string")
    shouts = good.replace("{{- '[A]' +", "{{- ('[ANSWER]' if loop.last else '[A]') +")
    assert shouts != good
    assert broken(judged(shouts, "keep-reasoning", original)) == ["C5"]


_REFUSES = "{%- if message.role == 'narrator' %}{{- raise_exception('nobody tells') }}{% endif %}"


@pytest.mark.parametrize(
    "instead",
    [
        "",
        _REFUSES.replace("nobody", "anybody"),
        _REFUSES + "{%- if message.role == 'function' %}{{- message.nothing.at.all }}{% endif %}",
        _REFUSES + "{%- if message.role == 'tool' and loop.first %}{{- 1 / 0 }}{% endif %}",
    ],
    ids=["swallowed", "other words", "fails on what rendered", "fails on an opening"],
)
def test_a_patch_that_refuses_otherwise_breaks_c4(instead: str) -> None:
    def with_body(body: str) -> str:
        return changed(APPENDS, LOOP, LOOP + body)

    assert broken(judged(with_body(_REFUSES), original=with_body(_REFUSES))) == []
    assert broken(judged(with_body(instead), original=with_body(_REFUSES))) == ["C4"]


def test_a_patch_that_does_not_compile_breaks_c4() -> None:
    assert broken(judged("{% if %}")) == ["C4"]


def test_a_patch_that_fails_in_a_conversation_breaks_c4() -> None:
    bad = changed(repaired("lossless"), "message.tool_calls or []", "message.tool_calls[1:2]")
    proof = judged(bad)
    assert "C4" in broken(proof)


def test_a_patch_that_loses_reasoning_breaks_c5() -> None:
    bad = changed(
        repaired("lossless"), "{%- if loop.index0 > seen.question and (r", "{%- if not 1 and (r"
    )
    proof = judged(bad)
    assert broken(proof) == ["C5"]
    assert "reasoning" in proof.violations[0].message


def test_a_patch_that_loses_what_a_mode_retains_breaks_c5() -> None:
    keeps = changed(
        repaired("lossless"),
        "{%- if loop.index0 > seen.question and (r",
        "{%- if (keep_all or loop.index0 > seen.question) and (r",
    )
    bad = changed(keeps, "keep_all or", "keep_all is none or")
    assert broken(judged(keeps, original=keeps)) == []
    assert broken(judged(bad, original=keeps)) == ["C5"]


def test_c6_leaves_a_repaired_template_alone_and_no_other() -> None:
    for policy in POLICIES:
        assert c6(bench(repaired(policy), policy)).passed
        again = c6(bench(ORIGINAL, policy))
        assert not again.passed
        assert again.violation is not None
        assert again.violation.conversation is not None
        scenario_of(again.violation.conversation)


_SCAN = "{%- for other in RANGE %}{% if other is none %}{{- '' }}{% endif %}{% endfor %}"


def test_a_patch_that_scans_all_messages_for_each_breaks_c7() -> None:
    start = "{%- for message in messages %}\n    {%- set text"
    assert start in ORIGINAL
    scan = _SCAN.replace("RANGE", "messages")
    bad = repaired("lossless").replace(start, start.replace("\n", "\n" + scan))
    assert broken(judged(bad)) == ["C7"]
    assert broken(judged(bad, fold=True)) == ["C7"]


def test_only_a_fold_may_cost_more_than_the_original() -> None:
    bad = changed(APPENDS, LOOP, LOOP + _SCAN.replace("RANGE", "'abc'"))
    assert broken(judged(bad, original=APPENDS)) == ["C7"]
    assert broken(judged(bad, original=APPENDS, fold=True)) == []


def test_a_patch_that_shows_empty_blocks_to_dropping_clients_breaks_c8() -> None:
    bad = changed(
        repaired("lossless"),
        "{%- elif enable_thinking is defined and not enable_thinking",
        "{%- elif true",
    )
    assert broken(judged(bad)) == ["C8"]
    assert (
        broken(judged(bad.replace("loop.index0 > seen.question and (r", "(r"), "keep-reasoning"))
        == []
    )


def test_a_patch_that_brings_back_what_the_original_drops_breaks_c8() -> None:
    proof = judged(repaired("keep-reasoning"), "lossless")
    assert broken(proof) == ["C8"]
    assert "reasoning that the original leaves out" in proof.violations[0].message


def test_content_that_is_repaired_may_show_to_dropping_clients() -> None:
    """C8 is about reasoning: a client that drops it profits from the rest of a repair."""
    trimming = changed(
        repaired("lossless"),
        "{%- else %}\n            {{- text }}",
        "{%- else %}\n            {{- text.rstrip(' ') }}",
    )
    assert broken(judged(repaired("lossless"), original=trimming)) == []


def test_a_change_that_no_fixed_conversation_shows_is_found_by_the_search_and_shrunk() -> None:
    good = repaired("keep-reasoning")
    bad = changed(good, "message.content if message.content is string", "WITHOUT_TABS").replace(
        "WITHOUT_TABS",
        "(message.content.replace('\\t', ' ') if message.role == 'assistant' else message.content) "
        "if message.content is string",
    )
    assert broken(judged(bad, "keep-reasoning")) == []
    proof = judged(bad, "keep-reasoning", max_examples=60)
    assert broken(proof) == ["C2"]
    violation = proof.violations[0]
    assert violation.conversation is not None
    messages = violation.conversation["messages"]
    assert [message["role"] for message in messages] == ["user", "assistant", "user"]
    assert "\t" in messages[1]["content"]
    assert judged(bad, "keep-reasoning", max_examples=60) == proof


def test_verify_stops_at_the_first_clause_that_is_broken() -> None:
    bad = changed(repaired("keep-reasoning"), "system\\n' + instr", "system\\nHello. ' + instr")
    proof = verify(bench(ORIGINAL, "keep-reasoning"), bad, max_examples=60, seed=0)
    assert [result.clause for result in proof.results] == ["C1"]
    assert not proof.passed
    assert proof.examples == 0


def test_a_proof_takes_in_a_clause_judged_elsewhere() -> None:
    proof = judged(repaired("lossless")).including(c6(bench(repaired("lossless"), "lossless")))
    assert [result.clause for result in proof.results] == [f"C{i}" for i in range(1, 9)]
    assert proof.passed


@pytest.mark.corpus
@pytest.mark.parametrize(
    "model",
    [
        "Qwen/Qwen3-8B",
        "openai/gpt-oss-20b",
        "deepseek-ai/DeepSeek-V3.1",
        "mistralai/Mistral-7B-Instruct-v0.3",
        "nvidia/NVIDIA-Nemotron-3-Ultra",
        "ai21labs/AI21-Jamba-Reasoning-3B",
    ],
)
def test_a_real_template_keeps_all_clauses_but_c2_by_itself(model: str) -> None:
    entry = corpus_entry(model)
    if entry is None:
        pytest.skip("the corpus is not here")
    assert set(broken(judged(entry.text, original=entry.text))) <= {"C2"}


def test_shrinking_keeps_the_words_that_tell_texts_apart() -> None:
    calls = (ToolCall("find", '{"who": "x"}'), ToolCall("find", "{}"))
    results = tuple(
        {"role": "tool", "tool_call_id": i, "content": f"odd t1{i} end"} for i in range(2)
    )
    turns = (
        Turn(({"role": "system", "content": "s0  "}, _asked("0")), Answer(" r0", "so a0", calls)),
        Turn(results, Answer("r1 ", "\ta1 said")),
        Turn((_asked("2"),), Answer(None, "a2")),
        Turn((_asked("3"),)),
    )
    scenario = Scenario("search", turns, core=False)

    def shows(smaller: Scenario) -> bool:
        return any(turn.answer and "\t" in (turn.answer.content or "") for turn in smaller.turns)

    small = shrink(scenario, shows)
    assert small.turns == (
        Turn(({"role": "user", "content": "q10"},), Answer(None, "\ta1")),
        Turn(({"role": "user", "content": "q2"},)),
    )


def test_messages_without_text_or_role_are_no_hindrance_to_shrinking() -> None:
    parts = {"role": "user", "content": [{"type": "text", "text": "well, q2?"}]}
    turns = (
        Turn(({"role": "user"}, {"content": "well, q0?"}), Answer(None, "so a0")),
        Turn((parts,), Answer(None, "so a1", (ToolCall("find", "{}"),))),
        Turn(({"role": "tool", "tool_call_id": "call_0"},), Answer(None, "a2 said")),
        Turn(({"role": "user", "content": None},)),
    )

    def shows(smaller: Scenario) -> bool:
        return any(turn.answer and turn.answer.tool_calls for turn in smaller.turns)

    small = shrink(Scenario("search", turns, core=False), shows)
    assert small.turns == (
        Turn((parts,), Answer(None, "a1", (ToolCall("find", "{}"),))),
        Turn(({"role": "tool", "tool_call_id": "call_0"},)),
    )


def _asked(number: str) -> dict[str, str]:
    return {"role": "user", "content": f"well, q{number}?"}


def test_a_candidate_gets_the_messages_that_vllm_would_send_to_it() -> None:
    """A loop over content makes vLLM send lists of parts, which this one cannot concatenate."""
    looked_at = (
        "{% if message.content is not string %}{% for part in message.content %}{% endfor %}"
    )
    bad = changed(APPENDS, LOOP, LOOP + looked_at + "{% endif %}")
    assert judged(bad, original=APPENDS).violations[0].clause == "C4"
    fine = changed(APPENDS, LOOP, LOOP + "{% if message.content is not string %}{% endif %}")
    assert judged(fine, original=APPENDS).passed
