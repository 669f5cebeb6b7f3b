"""A render server on the loopback interface: our own renderer behind vLLM's endpoints.

It serves one template with the shipped tokenizer, and misbehaves where a test asks it to.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from templatefix.chat.conversation import assistant_message
from templatefix.chat.present import Unpresentable, names_developer
from templatefix.chat.server import Server
from templatefix.dialect import named
from templatefix.render import Crashed, JinjaRenderer, Refused
from templatefix.source.template import TokenizerRef
from templatefix.syntax import content_format, named_kwargs, parse
from templatefix.tokens import Encoder, load_encoder
from tests.example import EXAMPLE

VERSION, MODEL = "0.32.0", "served"
RENDER, DERENDER = "/v1/chat/completions/render", "/v1/chat/completions/derender"

#: What a test puts in the place of a reply: it is given the handler of the request.
Trick = Callable[[BaseHTTPRequestHandler], None]


@dataclass
class Fake:
    """``heeds_the_flag``: whether ``add_generation_prompt`` matters, which renderers in Python
    ignore. ``tricks`` are what it does instead of answering a path. ``asked`` counts requests."""

    text: str
    special_tokens: Mapping[str, str]
    reasoning: str | None = "qwen3"
    tool: str | None = "hermes"
    heeds_the_flag: bool = True
    tricks: dict[str, Trick] = field(default_factory=dict)
    asked: list[tuple[str, str]] = field(default_factory=list)
    connections: set[Any] = field(default_factory=set)

    def __post_init__(self) -> None:
        parsed = parse(self.text)
        self.known = named_kwargs(parsed)
        self.chat = Server(
            JinjaRenderer(self.text, self.special_tokens),
            content_format(parsed),
            names_developer(self.text),
        )
        self.encoder: Encoder = load_encoder(
            TokenizerRef("example", EXAMPLE, EXAMPLE / "tokenizer.json")
        )

    def reply(self, path: str, body: Mapping[str, Any]) -> tuple[int, Any]:
        answers: dict[str, Callable[[Mapping[str, Any]], Any]] = {
            "/health": lambda body: {},
            "/version": lambda body: {"version": VERSION},
            "/v1/models": lambda body: {"data": [{"id": MODEL, "parent": None}]},
            "/tokenize": lambda body: {"tokens": self.encoder.encode(body["prompt"])},
            "/detokenize": lambda body: {"prompt": self.encoder.decode(body["tokens"])},
            RENDER: self._render,
            DERENDER: self._derender,
        }
        if path not in answers:
            return 404, {"detail": "Not Found"}
        try:
            return 200, answers[path](body)
        except (Refused, Crashed) as fault:
            return 400, {"error": {"message": fault.message, "type": "BadRequestError"}}
        except Unpresentable as fault:
            message = f"1 validation error:\n  {fault.what}"
            return 400, {"error": {"message": message, "type": "Bad Request"}}

    def _render(self, body: Mapping[str, Any]) -> dict[str, Any]:
        if body.get("tools") and self.tool is None:
            raise Refused('"auto" tool choice requires --tool-call-parser to be set')
        flag = bool(body.get("add_generation_prompt", True)) or not self.heeds_the_flag
        kwargs = body.get("chat_template_kwargs") or {}
        prompt = self.chat.prompt(
            body["messages"],
            body.get("tools"),
            {name: value for name, value in kwargs.items() if name in self.known},
            generation_prompt=flag and body["messages"][-1]["role"] != "assistant",
        )
        return {"token_ids": self.encoder.encode(prompt)}

    def _derender(self, body: Mapping[str, Any]) -> dict[str, Any]:
        (choice,) = body["generate_response"]["choices"]
        if not choice["token_ids"]:
            raise Refused("choice 0 has empty or null token_ids")
        asked = body["chat_request"]
        reasoning = named.REASONING[self.reasoning] if self.reasoning else None
        kwargs = asked.get("chat_template_kwargs") or {}
        prompt = self.encoder.decode(body["prompt_token_ids"])
        answer = named.parse(
            self.encoder.decode(choice["token_ids"]),
            reasoning,
            named.TOOLS[self.tool] if self.tool else None,
            opened=prompt.rstrip().endswith("<think>"),
            thinking=reasoning is not None and reasoning.enabled(kwargs),
            tools=asked.get("tools"),
        )
        return {"choices": [{"message": assistant_message(answer)}]}


@contextmanager
def serving(fake: Fake, port: int = 0) -> Iterator[str]:
    """The URL of the server, until the block is left."""

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        # Without it, a reply in two packets waits for the client's acknowledgement.
        wbufsize = -1

        def do_GET(self) -> None:
            self._answer({})

        def do_POST(self) -> None:
            content = self.rfile.read(int(self.headers["Content-Length"]))
            self._answer(json.loads(content))

        def _answer(self, body: Mapping[str, Any]) -> None:
            fake.connections.add(self.client_address)
            fake.asked.append((self.path, json.dumps(body, sort_keys=True)))
            if self.path in fake.tricks:
                fake.tricks[self.path](self)
                return
            status, answer = fake.reply(self.path, body)
            send(self, status, json.dumps(answer).encode())

        def log_message(self, format: str, *args: Any) -> None:
            pass

    class Quiet(ThreadingHTTPServer):
        def handle_error(self, request: Any, client_address: Any) -> None:
            """A client that hangs up is none of this server's business."""

    server = Quiet(("127.0.0.1", port), Handler)
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}"
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def send(
    handler: BaseHTTPRequestHandler, status: int, content: bytes, kind: str = "application/json"
) -> None:
    handler.send_response(status)
    handler.send_header("Content-Type", kind)
    handler.send_header("Content-Length", str(len(content)))
    handler.end_headers()
    handler.wfile.write(content)


def says(status: int, content: Any) -> Trick:
    """A reply of that status, JSON or (as a text) something else."""
    text = content if isinstance(content, str) else json.dumps(content)
    return lambda handler: send(handler, status, text.encode())


def example(**more: Any) -> Fake:
    """The shipped example, served."""
    text = (EXAMPLE / "chat_template.jinja").read_text(encoding="utf-8")
    return Fake(text, _tokens(), **more)


def of(text: str, **more: Any) -> Fake:
    """Another template with the same tokenizer."""
    return Fake(text, _tokens(), **more)


def _tokens() -> dict[str, str]:
    return {"eos_token": "<|im_end|>", "pad_token": "<|endoftext|>"}


def tokenizer_alone(directory: Path) -> str:
    """A model directory with the example's tokenizer and no template."""
    for name in ("tokenizer.json", "tokenizer_config.json", "generation_config.json"):
        (directory / name).write_bytes((EXAMPLE / name).read_bytes())
    return str(directory)
