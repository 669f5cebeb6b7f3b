"""The pairs of parsers that real models are served with, and answers for them."""

from __future__ import annotations

import json
from typing import Any

from hypothesis import strategies as st

from templatefix.chat.answer import Answer, ToolCall
from templatefix.dialect.named import REASONING, TOOLS, ReasoningDialect, ToolDialect

#: (--reasoning-parser, tool dialect)
PAIRS: tuple[tuple[str | None, str | None], ...] = (
    ("qwen3", None),
    ("qwen3", "hermes"),
    ("qwen3", "qwen3_coder"),
    ("nemotron_v3", "qwen3_coder"),
    ("step3p5", "step3p5"),
    ("seed_oss", "seed_oss"),
    ("mimo", "mimo"),
    ("glm45", "glm45"),
    ("glm47", "glm47"),
    ("ling3", "ling3"),
    ("minimax_m2", "minimax_m2"),
    ("kimi_k2", "kimi_k2"),
    ("deepseek_r1", None),
    ("deepseek_r1", "deepseek_v3"),
    ("deepseek_r1", "hermes"),
    ("deepseek_v3", "deepseek_v31"),
    ("deepseek_v3", "deepseek_v32"),
    ("deepseek_v4", "deepseek_v4"),
    ("granite", "granite"),
    ("granite_thinking_parser", "qwen3_coder"),
    ("mistral", "mistral"),
    ("gemma4", "gemma4"),
    ("openai_gptoss", "openai"),
    ("olmo3", "olmo3"),
    ("hunyuan_a13b", None),
    ("ernie45", None),
    ("step3", None),
    ("hy_v3", None),
    ("minimax_m3", None),
    ("kimi_k3", None),
    (None, "llama3_json"),
    (None, "hermes"),
    (None, "granite4"),
    (None, "mistral-array"),
    (None, "lfm2"),
)

#: Parsers that do not know reasoning whose opening tag stands in the prompt, or know no other.
NEVER_OPENED = {"mistral", "granite", "hunyuan_a13b"}
ALWAYS_OPENED = {"step3"}

#: What turns thinking on where a request has to ask for it.
ASKED = {"enable_thinking": True, "thinking_mode": "enabled", "reasoning_effort": "high"}

TOOLS_ASKED: list[dict[str, Any]] = [
    {
        "type": "function",
        "function": {
            "name": name,
            "parameters": {
                "type": "object",
                "properties": {
                    "text": {"type": "string"},
                    "count": {"type": "integer"},
                    "share": {"type": "number"},
                    "sure": {"type": "boolean"},
                    "maybe": {"type": ["string", "null"]},
                    "list": {"type": "array", "items": {"type": "integer"}},
                    "tree": {"type": "object"},
                },
            },
        },
    }
    for name in ("look_up", "ring")
]


def dialects_of(
    pair: tuple[str | None, str | None],
) -> tuple[ReasoningDialect | None, ToolDialect | None]:
    reasoning, tool = pair
    return (REASONING[reasoning] if reasoning else None, TOOLS[tool] if tool else None)


#: No markup, since a text that imitates markers is none that a parser could give back.
words = st.text(alphabet="ab Z\n\t.,é中😀0", max_size=12)
values = st.fixed_dictionaries(
    {},
    optional={
        "text": words,
        "count": st.integers(-9, 99),
        "share": st.sampled_from([0.5, -2.25, 1e-3]),
        "sure": st.booleans(),
        "list": st.lists(st.integers(0, 9), max_size=3),
        "tree": st.dictionaries(st.sampled_from(["k", "m"]), words, max_size=2),
    },
)
calls = st.lists(
    st.builds(
        ToolCall,
        st.sampled_from(["look_up", "ring"]),
        values.map(lambda value: json.dumps(value, ensure_ascii=False)),
    ),
    max_size=2,
).map(tuple)


@st.composite
def answers(draw: st.DrawFn, pair: tuple[str | None, str | None]) -> Answer:
    """Any answer that a client of these parsers could get, up to what they lose."""
    reasoning = draw(st.none() | words) if pair[0] else None
    return Answer(reasoning, draw(st.none() | words), draw(calls) if pair[1] else ())


def kept(
    answer: Answer, reasoning: ReasoningDialect | None, tool: ToolDialect | None, streaming: bool
) -> Answer:
    """The answer without what the dialects say that they lose: whitespace, and emptiness."""
    thought, content = answer.reasoning, answer.content
    if reasoning is not None and reasoning.strips_tail:
        thought = (thought or "").rstrip()
    if reasoning is not None and reasoning.strips_gap:
        content = (content or "").lstrip("\n")
    if tool is not None and answer.tool_calls:
        content = content or ""
        if tool.strips_content or tool.name in ("lfm2", "granite4"):
            # A stream keeps the newline that the format writes before a call.
            content = content.rstrip() if streaming else content.strip()
        if streaming and tool.name == "deepseek_v3":
            content = content.rstrip()  # and here the one between calls
        if not content.strip():
            content = None
        if tool.name in ("llama3_json", "olmo3"):
            content = None
    return answer._replace(reasoning=thought or None, content=content or None)


def _values(arguments: str, trims: bool) -> str:
    found = json.loads(arguments)
    if trims and "text" in found:
        found["text"] = found["text"].removeprefix("\n").removesuffix("\n")
    return json.dumps(found, sort_keys=True)


def meant(answer: Answer, tool: ToolDialect | None) -> Answer:
    """The answer with empty fields as None, and arguments as values where they are dumped."""
    found = answer._replace(reasoning=answer.reasoning or None, content=answer.content or None)
    if tool is None:
        return found
    trims = tool.name == "seed_oss"  # the format writes values tightly, its parser trims them
    spelled = tuple(ToolCall(c.name, _values(c.arguments, trims)) for c in found.tool_calls)
    return found._replace(tool_calls=spelled)
