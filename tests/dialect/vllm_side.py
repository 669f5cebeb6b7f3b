"""Runs inside a Python that has vLLM: what its ``derender`` makes of completions.

Reads a JSON list of cases from stdin, prints a JSON list of answers after a line of its own. A
case is ``{"reasoning", "tool", "tokenizer", "extra_tokens", "kwargs", "tools", "completion",
"prompt", "way"}``; an answer is ``{"reasoning", "content", "tool_calls": [[name, arguments]]}`` or
``{"error"}``. The way is ``whole`` or ``stream``, which are those of the endpoint
``/v1/chat/completions/derender``, or ``steps``: a stream as a chat request gets it, whose parser
stays from token to token.

The code that answers is that of a server (vLLM 0.32.0, ``renderers/online_derenderer.py``); of a
model's configuration and of its renderer it asks no more than what stands in here.
"""

# mypy: disable-error-code="import-not-found, import-untyped"

from __future__ import annotations

import functools
import json
import os
import sys
from collections.abc import Iterable, Sequence
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from multiprocessing import get_context
from types import SimpleNamespace
from typing import Any

ANSWERS = "--- answers ---"
PROCESSES = 2


@functools.cache
def tokenizer_of(directory: str, extra: tuple[str, ...]) -> Any:
    """A server's tokenizer, had the model these tokens, too."""
    from transformers import AutoTokenizer
    from vllm.tokenizers.hf import get_cached_tokenizer

    tokenizer = AutoTokenizer.from_pretrained(directory)
    known = tokenizer.get_vocab()
    tokenizer.add_tokens([token for token in extra if token not in known])
    return get_cached_tokenizer(tokenizer)


@functools.cache
def derenderer_of(
    directory: str, extra: tuple[str, ...], reasoning: str | None, tool: str | None
) -> Any:
    """What a server has that was started with these parsers on such a model."""
    from vllm.renderers.online_derenderer import OnlineDerenderer

    tokenizer = tokenizer_of(directory, extra)
    kind = SimpleNamespace(model_type="gpt_oss" if reasoning == "openai_gptoss" else "any")
    renderer = SimpleNamespace(
        tokenizer=tokenizer, get_tokenizer=lambda: tokenizer, _executor=ThreadPoolExecutor(1)
    )
    return OnlineDerenderer(
        SimpleNamespace(hf_config=kind, model="m"),
        renderer,
        request_logger=None,
        chat_template=None,
        chat_template_content_format="auto",
        enable_auto_tools=True,
        tool_parser=tool,
        reasoning_parser=reasoning,
    )


def answer(case: dict[str, Any]) -> dict[str, Any]:
    from vllm.entrypoints.openai.chat_completion.protocol import ChatCompletionRequest

    server = case["tokenizer"], tuple(case["extra_tokens"])
    tokenizer = tokenizer_of(*server)
    message = {"role": "user", "content": "q"}
    asked = {"model": "m", "messages": [message], "chat_template_kwargs": case["kwargs"]}
    request = ChatCompletionRequest(**asked, **({"tools": case["tools"]} if case["tools"] else {}))
    ids = tokenizer.encode(case["completion"], add_special_tokens=False)
    prompt = tokenizer.encode(case["prompt"], add_special_tokens=False)
    derenderer = derenderer_of(*server, case["reasoning"], case["tool"])
    if case["way"] == "whole":
        return whole(derenderer, request, ids, prompt)
    deltas = {"stream": stream, "steps": steps}[case["way"]](derenderer, request, ids, prompt)
    return joined(deltas, request)


def whole(derenderer: Any, request: Any, ids: list[int], prompt: list[int]) -> dict[str, Any]:
    from vllm.entrypoints.scale_out.token_in_token_out.protocol import GenerateTokensResponse

    if ids:
        choice = {"index": 0, "token_ids": ids, "finish_reason": "stop"}
        made = GenerateTokensResponse(request_id="r", prompt_token_ids=prompt, choices=[choice])
        message = derenderer._derender_chat(made, request, prompt)[0].message
    else:  # the endpoint takes no empty completion; what is behind it does
        kwargs = derenderer._resolve_chat_template_kwargs(request)
        tokenizer = derenderer.renderer.get_tokenizer()
        message = derenderer._parse_and_assemble(tokenizer, "", [], request, kwargs, prompt)
    # A chat request without tools gets no calls, whatever is derendered for it.
    calls = message.tool_calls if request.tools else []
    return {
        "reasoning": message.reasoning,
        "content": message.content,
        "tool_calls": [[call.function.name, call.function.arguments] for call in calls],
    }


def stream(derenderer: Any, request: Any, ids: list[int], prompt: list[int]) -> Iterable[Any]:
    """The deltas of the endpoint, which begins anew with every token."""
    from vllm.entrypoints.scale_out.token_in_token_out.protocol import (
        DerenderStreamState,
        GenerateTokensStreamResponse,
    )

    state = DerenderStreamState()
    for position, token in enumerate(ids):
        last = position + 1 == len(ids)
        choice = {"index": 0, "token_ids": [token], "finish_reason": "stop" if last else None}
        chunk = GenerateTokensStreamResponse(request_id="r", choices=[choice])
        made, state = derenderer._derender_chat_stream_parsed(
            derenderer.parser, "m", chunk, state, request, len(prompt), prompt
        )
        yield made.choices[0].delta


def steps(derenderer: Any, request: Any, ids: list[int], prompt: list[int]) -> Iterable[Any]:
    from vllm.entrypoints.scale_out.token_in_token_out.protocol import DerenderStreamState

    tokenizer = derenderer.renderer.get_tokenizer()
    kwargs = derenderer._resolve_chat_template_kwargs(request)
    parser = derenderer.parser(tokenizer, request.tools, chat_template_kwargs=kwargs)
    state = DerenderStreamState()
    for position, token in enumerate(ids):
        text, state = derenderer._detokenize_delta(
            tokenizer, [token], state, skip_special_tokens=False
        )
        last = position + 1 == len(ids)
        yield parser.parse_delta(text, [token], request, prompt, finished=last)
    if not ids:
        yield parser.parse_delta("", [], request, prompt, finished=True)


def joined(deltas: Iterable[Any], request: Any) -> dict[str, Any]:
    """The message that a client puts together."""
    reasoning: list[str] = []
    content: list[str] = []
    calls: dict[int, list[str]] = {}
    for delta in deltas:
        if delta is None:
            continue
        reasoning.append(delta.reasoning or "")
        content.append(delta.content or "")
        for call in delta.tool_calls or ():
            known = calls.setdefault(call.index, ["", ""])
            if call.function is not None:
                known[0] += call.function.name or ""
                known[1] += call.function.arguments or ""
    return {
        "reasoning": "".join(reasoning) or None,
        "content": "".join(content) or None,
        "tool_calls": list(calls.values()) if request.tools else [],
    }


def answers(cases: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    found = []
    for case in cases:
        try:
            found.append(answer(case))
        except Exception as fault:  # what a parser refuses is an answer, too
            found.append({"error": f"{type(fault).__name__}: {fault}"})
    return found


def main() -> None:
    for name in ("HF_HUB_OFFLINE", "TRANSFORMERS_OFFLINE", "VLLM_NO_USAGE_STATS", "DO_NOT_TRACK"):
        os.environ[name] = "1"
    os.environ |= {"VLLM_LOGGING_LEVEL": "CRITICAL", "TOKENIZERS_PARALLELISM": "false"}
    cases = json.load(sys.stdin)
    for directory, extra in {(case["tokenizer"], tuple(case["extra_tokens"])) for case in cases}:
        derenderer_of(directory, extra, None, None)  # loaded once, before the process divides
    shares = [cases[at::PROCESSES] for at in range(PROCESSES)]
    found: list[dict[str, Any]] = [{}] * len(cases)
    with ProcessPoolExecutor(PROCESSES, get_context("fork")) as processes:
        for at, share in enumerate(processes.map(answers, shares)):
            found[at::PROCESSES] = share
    print(ANSWERS)
    json.dump(found, sys.stdout)


if __name__ == "__main__":
    main()
