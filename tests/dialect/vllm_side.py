"""Runs inside a Python that has vLLM: feeds completions to vLLM's own parsers.

Reads a JSON list of cases from stdin, prints a JSON list of answers after a line of its own. A
case is ``{"reasoning", "tool", "tokenizer", "extra_tokens", "kwargs", "tools", "completion",
"prompt", "streaming"}``; an answer is ``{"reasoning", "content", "tool_calls": [[name,
arguments]]}`` or ``{"error"}``.
"""

# mypy: disable-error-code="import-not-found, import-untyped"

from __future__ import annotations

import functools
import json
import os
import sys
from typing import Any

ANSWERS = "--- answers ---"


@functools.cache
def tokenizer_of(directory: str, extra: tuple[str, ...]) -> Any:
    from vllm.tokenizers import get_tokenizer

    tokenizer = get_tokenizer(directory)
    missing = [token for token in extra if token not in tokenizer.get_vocab()]
    if missing:
        tokenizer.add_tokens(missing)
        # vLLM's cached tokenizer keeps the vocabulary of before.
        vocab = {**tokenizer.get_vocab(), **tokenizer.get_added_vocab()}
        tokenizer.get_vocab = lambda: vocab
    return tokenizer


@functools.cache
def parser_of(reasoning: str | None, tool: str | None) -> Any:
    from vllm.parser.parser_manager import ParserManager

    harmony = reasoning == "openai_gptoss"
    return ParserManager.get_parser(
        tool_parser_name=tool,
        reasoning_parser_name=reasoning,
        enable_auto_tools=True,
        is_harmony=harmony,
    )


def answer(case: dict[str, Any]) -> dict[str, Any]:
    from vllm.entrypoints.openai.chat_completion.protocol import ChatCompletionRequest

    tokenizer = tokenizer_of(case["tokenizer"], tuple(case.get("extra_tokens") or ()))
    kwargs = case.get("kwargs") or {}
    message: dict[str, Any] = {"role": "user", "content": "q"}
    asked: dict[str, Any] = {"model": "m", "messages": [message], "chat_template_kwargs": kwargs}
    if case.get("tools"):
        asked["tools"] = case["tools"]
    request = ChatCompletionRequest(**asked)
    parser_class = parser_of(case["reasoning"], case["tool"])
    parser = parser_class(tokenizer, request.tools, chat_template_kwargs=kwargs)
    completion = case["completion"]
    ids = tokenizer.encode(completion, add_special_tokens=False)
    prompt = tokenizer.encode(case.get("prompt", ""), add_special_tokens=False)
    if case.get("streaming"):
        return streamed(parser, tokenizer, request, ids, prompt)
    parser.set_prompt_token_ids(prompt)
    reasoning, content, calls = parser.parse(
        completion, request, enable_auto_tools=True, model_output_token_ids=ids
    )
    listed = calls if request.tools and calls else []
    return {
        "reasoning": reasoning,
        "content": content,
        "tool_calls": [[call.name, call.arguments] for call in listed],
    }


def streamed(
    parser: Any, tokenizer: Any, request: Any, ids: list[int], prompt: list[int]
) -> dict[str, Any]:
    reasoning: list[str] = []
    content: list[str] = []
    calls: dict[int, list[str]] = {}
    held = 0
    for position in range(len(ids)):
        before = tokenizer.decode(ids[:held]) if held else ""
        text = tokenizer.decode(ids[: position + 1])
        last = position + 1 == len(ids)
        if text.endswith("\ufffd") and not last:
            continue
        delta = parser.parse_delta(
            text[len(before) :], ids[held : position + 1], request, prompt, finished=last
        )
        held = position + 1
        if delta is None:
            continue
        reasoning.append(delta.reasoning or "")
        content.append(delta.content or "")
        for call in delta.tool_calls or ():
            known = calls.setdefault(call.index, ["", ""])
            if call.function is not None:
                known[0] += call.function.name or ""
                known[1] += call.function.arguments or ""
    if not ids:
        parser.parse_delta("", [], request, prompt, finished=True)
    return {
        "reasoning": "".join(reasoning) or None,
        "content": "".join(content) or None,
        "tool_calls": list(calls.values()) if request.tools else [],
    }


def main() -> None:
    for name in ("HF_HUB_OFFLINE", "TRANSFORMERS_OFFLINE", "VLLM_NO_USAGE_STATS", "DO_NOT_TRACK"):
        os.environ[name] = "1"
    os.environ["VLLM_LOGGING_LEVEL"] = "ERROR"
    answers = []
    for case in json.load(sys.stdin):
        try:
            answers.append(answer(case))
        except Exception as fault:  # what a parser refuses is an answer, too
            answers.append({"error": f"{type(fault).__name__}: {fault}"})
    print(ANSWERS)
    json.dump(answers, sys.stdout)


if __name__ == "__main__":
    main()
