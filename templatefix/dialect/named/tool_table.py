"""The tool dialects by the name of their vLLM ``--tool-call-parser``."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from types import MappingProxyType

from .harmony import read_harmony, write_harmony
from .tool import ToolDialect
from .tools_engine import (
    DSML,
    KIMI_SECTION,
    EngineReader,
    dsml_grammar,
    dsml_parameters,
    first_json,
    function_grammar,
    invoke_grammar,
    kimi_grammar,
    kimi_name,
    mistral_grammar,
    named_parameters,
    pair_grammar,
    pairs,
    parameters_trimmed,
    parameters_verbatim,
    stripped,
)
from .tools_gemma import CALL, gemma_grammar, gemma_values, write_gemma
from .tools_json import (
    DEEPSEEK_CALLS,
    json_entries,
    read_deepseek_v3,
    read_deepseek_v31,
    read_granite,
    read_granite4,
    read_hermes,
    read_llama3,
    read_mistral_array,
    write_deepseek_v3,
    write_deepseek_v31,
    write_hermes,
    write_llama3,
)
from .tools_pythonic import LFM2, OLMO3, read_lfm2, read_olmo3, write_lfm2, write_olmo3
from .tools_write import (
    dsml_writer,
    function_writer,
    pair_writer,
    write_kimi_k2,
    write_minimax_m2,
    write_mistral,
)

DUMPED = "spacing, escapes, number spelling and duplicate keys of arguments (dumped again)"
TRIMMED = "a newline at either end of a value"
FITTED = "spelling of arguments in which a value does not fit the schema (dumped again)"
TYPED = "the type of a value that the tool's schema does not name (it comes back as a text)"
STRIPPED = "whitespace around content beside calls (kept in a stream)"
BLANK = "content of whitespace alone before a call"
AFTER = "text after the calls"
LATER = "text after the first call, unless streamed"
AROUND = "all text around the calls"
UNKNOWN = "calls of tools that the request does not list"
LINES = "calls whose arguments span lines"

_ALL = (
    ToolDialect(
        name="hermes",
        open="<tool_call>",
        read=read_hermes,
        write=write_hermes,
        gap="\n",
        losses=(
            "spacing, escapes, number spelling and duplicate keys of arguments, unless streamed: "
            "a whole answer is dumped again, a stream passes the raw text on",
            BLANK,
            AFTER,
        ),
    ),
    ToolDialect(
        name="granite4",
        open="<tool_call>",
        read=read_granite4,
        write=write_hermes,
        gap="\n",
        losses=(DUMPED, BLANK),
    ),
    ToolDialect(
        name="qwen3_coder",
        open="<tool_call>",
        read=EngineReader(function_grammar(), parameters_trimmed),
        write=function_writer(),
        gap="\n",
        losses=(DUMPED, TYPED, STRIPPED, BLANK, LATER),
        engine=True,
        strips_content=True,
    ),
    ToolDialect(
        name="mimo",
        open="<tool_call>",
        read=EngineReader(function_grammar(), parameters_verbatim),
        write=function_writer(compact=True),
        losses=(DUMPED, TYPED, STRIPPED, BLANK, LATER),
        engine=True,
        strips_content=True,
    ),
    ToolDialect(
        name="seed_oss",
        open="<seed:tool_call>",
        read=EngineReader(
            function_grammar("<seed:tool_call>", "</seed:tool_call>", "seed:think"),
            parameters_trimmed,
        ),
        write=function_writer("<seed:tool_call>", "</seed:tool_call>", compact=True),
        gap="\n",
        losses=(DUMPED, TYPED, TRIMMED, STRIPPED, BLANK, LATER),
        engine=True,
        strips_content=True,
    ),
    ToolDialect(
        name="glm45",
        open="<tool_call>",
        read=EngineReader(pair_grammar(), pairs, known_names_only=True),
        write=pair_writer("\n"),
        gap="\n",
        losses=(DUMPED, TYPED, STRIPPED, BLANK, LATER, UNKNOWN),
        engine=True,
        tags_need_thinking=True,
        strips_content=True,
    ),
    ToolDialect(
        name="minimax_m2",
        open="<minimax:tool_call>",
        read=EngineReader(
            invoke_grammar("<minimax:tool_call>", "</minimax:tool_call>"),
            named_parameters,
            known_names_only=True,
        ),
        write=write_minimax_m2,
        gap="\n",
        losses=(DUMPED, TYPED, STRIPPED, BLANK, LATER, UNKNOWN),
        engine=True,
        strips_content=True,
    ),
    ToolDialect(
        name="kimi_k2",
        open=KIMI_SECTION[0],
        read=EngineReader(
            kimi_grammar(), stripped, kimi_name, strips_content=False, raw_in_stream=True
        ),
        write=write_kimi_k2,
        losses=("whitespace around arguments", FITTED, BLANK, AFTER),
        engine=True,
        tags_need_thinking=True,
    ),
    ToolDialect(
        name="deepseek_v32",
        open=f"<{DSML}function_calls>",
        read=EngineReader(
            dsml_grammar("function_calls", reasons=False), dsml_parameters, strips_content=False
        ),
        write=dsml_writer("function_calls"),
        gap="\n\n",
        losses=(DUMPED, BLANK, AFTER),
        engine=True,
    ),
    ToolDialect(
        name="deepseek_v4",
        open=f"<{DSML}tool_calls>",
        read=EngineReader(
            dsml_grammar("tool_calls", "toolcalls", "tool", reasons=True),
            dsml_parameters,
            strips_content=False,
        ),
        write=dsml_writer("tool_calls"),
        gap="\n\n",
        losses=(DUMPED, BLANK, AFTER),
        engine=True,
    ),
    ToolDialect(
        name="deepseek_v3",
        open=DEEPSEEK_CALLS[0],
        read=read_deepseek_v3,
        write=write_deepseek_v3,
        losses=(LINES, BLANK, AFTER),
    ),
    ToolDialect(
        name="deepseek_v31",
        open=DEEPSEEK_CALLS[0],
        read=read_deepseek_v31,
        write=write_deepseek_v31,
        losses=(LINES, BLANK, AFTER),
    ),
    ToolDialect(
        name="mistral",
        open="[TOOL_CALLS]",
        read=EngineReader(mistral_grammar(), first_json, nameless=True, raw_in_stream=True),
        write=write_mistral,
        losses=("whitespace around arguments and text after them", FITTED, STRIPPED, BLANK, LATER),
        engine=True,
        strips_content=True,
    ),
    ToolDialect(
        name="mistral-array",
        parser="mistral",
        open="[TOOL_CALLS]",
        read=read_mistral_array,
        write=lambda calls, ordinal: f"[TOOL_CALLS] [{json_entries(calls, ordinal)}]",
        losses=(DUMPED, BLANK, AFTER),
        engine=True,
    ),
    ToolDialect(
        name="llama3_json",
        open="{",
        read=read_llama3,
        write=write_llama3,
        losses=(DUMPED, "whether a call said arguments or parameters", AROUND),
    ),
    ToolDialect(
        name="granite",
        open="<|tool_call|>",
        read=read_granite,
        write=lambda calls, ordinal: f"<|tool_call|>[{json_entries(calls, ordinal)}]",
        losses=(
            "whitespace between the marker, the array and its members",
            FITTED,
            STRIPPED,
            BLANK,
            LATER,
        ),
        engine=True,
        strips_content=True,
    ),
    ToolDialect(
        name="gemma4",
        open=CALL[0],
        read=EngineReader(gemma_grammar(), gemma_values),
        write=write_gemma,
        losses=(DUMPED, TYPED, STRIPPED, BLANK, LATER),
        engine=True,
        strips_content=True,
    ),
    ToolDialect(
        name="lfm2",
        open=LFM2[0],
        read=read_lfm2,
        write=write_lfm2,
        losses=(DUMPED, "whitespace around content beside calls"),
    ),
    ToolDialect(
        name="olmo3",
        open=OLMO3[0],
        read=read_olmo3,
        write=write_olmo3,
        losses=(DUMPED, AROUND),
    ),
    ToolDialect(
        name="openai",
        open="<|channel|>commentary to=functions.",
        read=read_harmony,
        write=write_harmony,
        losses=(
            "spacing, number spelling and non-ASCII spelling of arguments (dumped again with "
            "escapes), unless streamed",
        ),
    ),
)

_BY_NAME = {dialect.name: dialect for dialect in _ALL}
_SAME = {
    "qwen3_xml": "qwen3_coder",
    "step3p5": "qwen3_coder",
    "qwen3_json": "hermes",
    "llama4_json": "llama3_json",
}
_BY_NAME.update({name: replace(_BY_NAME[same], name=name) for name, same in _SAME.items()})
_BY_NAME["glm47"] = replace(_BY_NAME["glm45"], name="glm47", write=pair_writer(""), gap="")
_BY_NAME["ling3"] = replace(_BY_NAME["glm45"], name="ling3")


def _with_tags(dialect: ToolDialect) -> ToolDialect:
    own = dialect.read.grammar.tags if isinstance(dialect.read, EngineReader) else ()
    return replace(dialect, tags=(dialect.open, *own))


TOOLS: Mapping[str, ToolDialect] = MappingProxyType(
    {name: _with_tags(dialect) for name, dialect in _BY_NAME.items()}
)
