"""Runs inside a Python that has vLLM: what vLLM makes of commands, files and directories.

Reads a JSON list of questions from stdin and prints a JSON list of answers after a line of its
own. A question is ``{"words"}``, the words after ``vllm``; ``{"mooncake"}``, the text of a
Mooncake configuration; ``{"directory"}``, a model's; ``{"parsers"}`` or ``{"modes"}``.
"""

# mypy: disable-error-code="import-not-found, import-untyped"

from __future__ import annotations

import ast
import functools
import inspect
import json
import sys
import tempfile
from dataclasses import asdict
from typing import Any

ANSWERS = "--- answers ---"


@functools.cache
def parser() -> Any:
    from vllm.entrypoints.cli import serve
    from vllm.utils.argparse_utils import FlexibleArgumentParser

    made = FlexibleArgumentParser()
    subparsers = made.add_subparsers(required=True, dest="subparser")
    for command in serve.cmd_init():
        command.subparser_init(subparsers)
    return made


def parsed(words: list[str]) -> dict[str, Any]:
    """The values that matter, as ``vllm serve`` would have them before it loads a model."""
    from vllm.config import KVTransferConfig
    from vllm.distributed.kv_transfer.kv_connector.factory import KVConnectorFactory
    from vllm.entrypoints.cli.serve import ServeSubcommand

    try:
        arguments = parser().parse_args(words)
    except SystemExit:
        return {"refused": True}
    ServeSubcommand().validate(arguments)
    kv = arguments.kv_transfer_config
    if isinstance(kv, dict):
        kv = KVTransferConfig(**kv)
    names = []
    if kv is not None:
        children = kv.kv_connector_extra_config.get("connectors", [])
        children = [KVTransferConfig(**child) for child in children]
        names = [kv.kv_connector, *(child.kv_connector for child in children)]
    return {
        "model": arguments.model_tag or arguments.model,
        "revision": arguments.revision,
        "chat_template": arguments.chat_template,
        "kwargs": arguments.default_chat_template_kwargs,
        "tokenizer_mode": arguments.tokenizer_mode,
        "reasoning": arguments.reasoning_parser,
        "tool": arguments.tool_call_parser,
        "auto": arguments.enable_auto_tool_choice,
        "details": arguments.enable_prompt_tokens_details,
        "kv": kv
        and {
            "kv_connector": kv.kv_connector,
            "kv_role": kv.kv_role,
            "kv_connector_extra_config": kv.kv_connector_extra_config,
        },
        "connectors": {name: name in KVConnectorFactory._registry for name in names},
    }


def mooncake(text: str) -> dict[str, Any]:
    from vllm.distributed.mooncake_store import MooncakeStoreConfig

    with tempfile.NamedTemporaryFile("w", suffix=".json") as file:
        file.write(text)
        file.flush()
        return asdict(MooncakeStoreConfig.from_file(file.name))


def tokenizer_mode(directory: str) -> str:
    from vllm.tokenizers.registry import resolve_tokenizer_args

    return str(resolve_tokenizer_args(directory)[0])


def modes() -> dict[str, Any]:
    """The tokenizer mode of each architecture that has one, and what renders each mode."""
    from vllm.config import model
    from vllm.renderers import online_renderer
    from vllm.renderers.registry import _VLLM_RENDERERS

    found: dict[str, str] = {}
    for node in ast.walk(ast.parse(inspect.getsource(model))):
        if isinstance(node, ast.If) and "arch" in {
            each.id for each in ast.walk(node.test) if isinstance(each, ast.Name)
        }:
            for said in node.body:
                if isinstance(said, ast.Assign) and "tokenizer_mode" in ast.unparse(
                    said.targets[0]
                ):
                    names = [c.value for c in ast.walk(node.test) if isinstance(c, ast.Constant)]
                    found |= dict.fromkeys(map(str, names), ast.literal_eval(said.value))
    harmony = [
        node.comparators[0].value
        for node in ast.walk(ast.parse(inspect.getsource(online_renderer)))
        if isinstance(node, ast.Compare)
        and ast.unparse(node.left).endswith("model_type")
        and isinstance(node.comparators[0], ast.Constant)
    ]
    renderers = {mode: where[1] for mode, where in _VLLM_RENDERERS.items()}
    return {"architectures": found, "renderers": renderers, "harmony": harmony}


def parsers() -> dict[str, list[str]]:
    from vllm.reasoning import ReasoningParserManager
    from vllm.tool_parsers import ToolParserManager

    return {
        "reasoning": ReasoningParserManager.list_registered(),
        "tool": ToolParserManager.list_registered(),
    }


def answer(question: dict[str, Any]) -> Any:
    if "words" in question:
        return parsed(question["words"])
    if "mooncake" in question:
        return mooncake(question["mooncake"])
    if "directory" in question:
        return tokenizer_mode(question["directory"])
    return parsers() if "parsers" in question else modes()


def main() -> None:
    answers = [answer(question) for question in json.load(sys.stdin)]
    print(ANSWERS)
    print(json.dumps(answers, default=str))


if __name__ == "__main__":
    main()
