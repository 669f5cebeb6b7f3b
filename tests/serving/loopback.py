"""A small chat server on the loopback interface that speaks the protocol, well or badly.

It renders the example's template (or one that a request brings) with Jinja itself, writes answers
by rote, keeps a prefix cache as vLLM does (full blocks, hashed along the chain) or as a radix tree
does (blocks of one token), optionally with a store behind it, and counts everything it is sent.
``Manners`` say what it offers and how it misbehaves.
"""

from __future__ import annotations

import contextlib
import json
import ssl
import threading
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import urlsplit

import jinja2
from tokenizers import Tokenizer

from tests.example import EXAMPLE

SERVED = (EXAMPLE / "chat_template.jinja").read_text("utf-8")
#: Prints every answer as it was written; what a patch of the example comes to.
PRESERVING = """\
{%- for message in messages %}
    {{- '<|im_start|>' + message.role + '\\n' }}
    {%- if message.role == 'assistant' %}
        {%- if message.reasoning is string %}
            {{- '<think>' + message.reasoning + '</think>' }}
        {%- elif not message.reasoning and enable_thinking is false %}
            {{- '<think>\\n\\n</think>\\n\\n' }}
        {%- endif %}
        {{- message.content or ('\\n\\n' if message.reasoning is string else '') }}
        {%- for call in message.tool_calls or [] %}
            {{- '<tool_call>\\n{"name": "' + call.function.name + '", "arguments": ' }}
            {{- call.function.arguments + '}\\n</tool_call>' }}
        {%- endfor %}
    {%- else %}
        {{- message.content }}
    {%- endif %}
    {{- '<|im_end|>\\n' }}
{%- endfor %}
{%- if add_generation_prompt %}
    {{- '<|im_start|>assistant\\n' }}
    {%- if enable_thinking is defined and not enable_thinking %}
        {{- '<think>\\n\\n</think>\\n\\n' }}
    {%- endif %}
{%- endif %}
"""
#: The same, but that content beside calls is followed by a newline of the template's own.
SEPARATING = PRESERVING.replace(
    "{%- for call in", "{{- '\\n' if message.content and message.tool_calls }}{%- for call in"
)
_THOUGHTS = "The clerk looks that up, thinks about it for a while, and is then certain. "
_WORDS = "There is a train, and the weather will be fine enough for a walk along the river. "


@dataclass
class Manners:
    """What the server offers, and what it does wrong (``fault``) from request ``at`` on."""

    template: str = SERVED
    block_size: int = 16
    token_ids: bool = True
    details: bool = True
    metrics: bool = True
    tokenize: bool = True
    detokenize: bool = True
    trusts_templates: bool = False
    ignores_templates: bool = False
    resettable: bool = True
    refused_resets: int = 0
    external: bool = False
    write_back: bool = True
    key: str | None = None
    model: str = "tiny"
    sglang: bool = False
    cut: bool = False
    no_salt: bool = False
    strict: bool = False
    caching: bool = True
    #: The parser leaves the whitespace before a call in the content, as some do in streams.
    leaves_gap: bool = False
    fault: str = ""
    at: int = 1
    #: Requests of other clients that move the counters with each of ours.
    others: int = 0


@dataclass
class Cache:
    """Chains of full blocks, keyed by all tokens up to their end."""

    block_size: int
    chains: set[tuple[Any, ...]] = field(default_factory=set)

    def hit(self, salt: Any, prompt: Sequence[int], start: int = 0) -> int:
        at = start
        while (
            at + self.block_size <= len(prompt) - 1
            and self._key(salt, prompt, at + self.block_size) in self.chains
        ):
            at += self.block_size
        return at - start

    def keep(self, salt: Any, tokens: Sequence[int]) -> None:
        for end in range(self.block_size, len(tokens) + 1, self.block_size):
            self.chains.add(self._key(salt, tokens, end))

    @staticmethod
    def _key(salt: Any, tokens: Sequence[int], end: int) -> tuple[Any, ...]:
        return (salt, *tokens[:end])


class Loopback:
    """The server's state: what it was asked, what it holds, and the model that it is not."""

    def __init__(self, manners: Manners) -> None:
        self.manners = manners
        self.requests: list[tuple[str, str, Any, dict[str, str]]] = []
        self.tokenizer = Tokenizer.from_file(str(EXAMPLE / "tokenizer.json"))
        self.local = Cache(manners.block_size)
        self.store = Cache(manners.block_size)
        self.counted = dict.fromkeys(("queries", "hits", "external_hits"), 0)
        self.environment = jinja2.Environment(trim_blocks=True, lstrip_blocks=True)
        self.chats = 0
        self.proxied: list[str] = []
        self.released = threading.Event()
        self.url = ""

    def sent(self, path: str) -> list[Any]:
        """The bodies of the requests to a path."""
        return [body for _, to, body, _ in self.requests if to == path]

    def prompt_ids(self, body: dict[str, Any]) -> list[int]:
        template = body.get("chat_template") or self.manners.template
        if self.manners.ignores_templates:
            template = self.manners.template
        messages = []
        for message in body["messages"]:
            reasoning = message.get("reasoning", message.get("reasoning_content"))
            messages.append({**message, "reasoning": reasoning, "reasoning_content": reasoning})
        text = self.environment.from_string(template).render(
            messages=messages,
            tools=body.get("tools"),
            add_generation_prompt=True,
            **(body.get("chat_template_kwargs") or {}),
        )
        ids: list[int] = self.tokenizer.encode(text, add_special_tokens=False).ids
        return ids

    def written(self, body: dict[str, Any]) -> tuple[str, dict[str, Any]]:
        """The completion and the answer that parsers make of it."""
        turn = sum(message["role"] == "assistant" for message in body["messages"]) + 1
        scripted = (body.get("vllm_xargs") or {}).get("answer")
        content = scripted or f"Answer {turn}. " + _WORDS * (1 + turn % 3)
        message: dict[str, Any] = {"role": "assistant", "content": content, "tool_calls": []}
        text = content
        if body.get("tools") and body["messages"][-1]["role"] == "user":
            arguments = f'{{"place": "Porto {turn}"}}'
            name = body["tools"][0]["function"]["name"]
            call = {"name": name, "arguments": arguments}
            message["tool_calls"] = [{"id": f"call-{turn}", "type": "function", "function": call}]
            message["content"] = None
            text = f'<tool_call>\n{{"name": "{name}", "arguments": {arguments}}}\n</tool_call>'
        if (body.get("chat_template_kwargs") or {}).get("enable_thinking") is not False:
            reasoning = f"\nThought {turn}. {_THOUGHTS}\n"
            message["reasoning"] = reasoning
            if message["content"] is not None:
                message["content"] = "\n\n" + content
            elif self.manners.leaves_gap:
                message["content"] = "\n\n"
            text = f"<think>{reasoning}</think>\n\n{text}"
        return text + "<|im_end|>", message

    def answer(self, body: dict[str, Any]) -> dict[str, Any]:
        """The whole chat completion, and the cache after it."""
        manners = self.manners
        prompt = self.prompt_ids(body)
        text, message = self.written(body)
        completion = self.tokenizer.encode(text, add_special_tokens=False).ids
        finish = "tool_calls" if message["tool_calls"] else "stop"
        if manners.cut:
            completion, finish = completion[: body["max_tokens"]], "length"
            message = {"role": "assistant", "content": self.tokenizer.decode(completion)}
        salt = None if manners.no_salt else body.get("cache_salt")
        local = self.local.hit(salt, prompt) if manners.caching else 0
        external = self.store.hit(salt, prompt, local) if manners.external else 0
        # The last token of a stream has no KV.
        stream = (prompt + completion)[:-1]
        self.local.keep(salt, stream)
        self.store.keep(salt, stream if manners.write_back else prompt)
        for _ in range(1 + manners.others):
            self.counted["queries"] += len(prompt)
            self.counted["hits"] += local
            self.counted["external_hits"] += external
        usage: dict[str, Any] = {
            "prompt_tokens": len(prompt),
            "completion_tokens": len(completion),
            "total_tokens": len(prompt) + len(completion),
        }
        if manners.details:
            usage["prompt_tokens_details"] = {"cached_tokens": local + external}
        choice: dict[str, Any] = {"index": 0, "message": message, "finish_reason": finish}
        document: dict[str, Any] = {"id": "x", "choices": [choice], "usage": usage}
        if manners.sglang:
            message["reasoning_content"] = message.pop("reasoning", None)
            tiers = {"device": local, "host": external, "storage": 0}
            document["sglext"] = {"cached_tokens_details": tiers}
        if manners.token_ids and body.get("return_token_ids"):
            document["prompt_token_ids"] = prompt
            choice["token_ids"] = completion
        return document

    def exposition(self) -> str:
        if self.manners.sglang:
            cached = 'sglang:cached_tokens_total{cache_source="%s",engine="0"} %s\n'
            return (
                f"sglang:prompt_tokens_total 1.0\nsglang:prompt_tokens_total"
                f'{{engine="0"}} {self.counted["queries"]}\n'
                + cached % ("device", self.counted["hits"])
                + cached % ("host", self.counted["external_hits"])
            )
        size = self.manners.block_size
        return (
            "# HELP vllm:prefix_cache_queries_total Tokens.\n"
            f'vllm:cache_config_info{{block_size="{size}",engine="0",note="a \\"b\\" }}"}} 1.0\n'
            f'vllm:prefix_cache_queries_total{{engine="0"}} {float(self.counted["queries"])}\n'
            f'vllm:prefix_cache_hits_total{{engine="0"}} {float(self.counted["hits"])}\n'
            'vllm:external_prefix_cache_hits_total{engine="0"} '
            f"{float(self.counted['external_hits'])}\n"
            "vllm:prefix_cache_queries_created 1.7e9\n"
        )


def events(document: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """A chat completion in pieces, as vLLM sends them."""
    choice = document["choices"][0]
    message = choice["message"]
    ids = choice.get("token_ids")
    first: dict[str, Any] = {
        "choices": [{"index": 0, "delta": {"role": "assistant", "content": ""}}]
    }
    if "prompt_token_ids" in document:
        first["prompt_token_ids"] = document["prompt_token_ids"]
    yield first

    def piece(delta: dict[str, Any], share: list[int]) -> dict[str, Any]:
        part: dict[str, Any] = {"index": 0, "delta": delta, "finish_reason": None}
        if ids is not None:
            part["token_ids"] = share
        return {"choices": [part]}

    for key in ("reasoning", "reasoning_content", "content"):
        text = message.get(key) or ""
        for start in range(0, len(text), 7):
            yield piece({key: text[start : start + 7]}, [])
    for index, call in enumerate(message.get("tool_calls") or []):
        function = call["function"]
        head = {"index": index, "id": call["id"], "function": {"name": function["name"]}}
        yield piece({"tool_calls": [head]}, [])
        for start in range(0, len(function["arguments"]), 5):
            share = {"arguments": function["arguments"][start : start + 5]}
            yield piece({"tool_calls": [{"index": index, "function": share}]}, [])
    for start in range(0, len(ids or []), 4):
        yield piece({}, ids[start : start + 4])
    last = piece({}, [])
    last["choices"][0]["finish_reason"] = choice["finish_reason"]
    yield last
    yield {"choices": []} | {k: document[k] for k in ("usage", "sglext") if k in document}


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    loopback: Loopback

    def log_message(self, *_: Any) -> None:
        return

    def do_GET(self) -> None:
        self._as_a_proxy()
        self._note(None)
        if self.path == "/metrics" and self.loopback.manners.metrics:
            self._send(200, self.loopback.exposition(), "text/plain")
        else:
            self._send(404, '{"detail": "Not Found"}')

    def _as_a_proxy(self) -> None:
        """A proxy is asked for whole URLs; this one answers for whatever server is meant."""
        if self.path.startswith("http://"):
            self.loopback.proxied.append(self.path)
            self.path = urlsplit(self.path).path

    def do_POST(self) -> None:
        self._as_a_proxy()
        content = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        body: Any = json.loads(content) if content else None
        self._note(body)
        manners = self.loopback.manners
        sent_key = self.headers.get("Authorization", "").removeprefix("Bearer ")
        if manners.key is not None and sent_key != manners.key:
            self._refuse(401, f"Incorrect API key provided: {sent_key}")
        elif self.path == "/v1/chat/completions":
            self._chat(body)
        elif self.path == "/tokenize" and manners.tokenize:
            # vLLM drops reasoning_content here.
            ids = self.loopback.prompt_ids(
                {**body, "messages": [_without(m, "reasoning_content") for m in body["messages"]]}
            )
            self._send(200, json.dumps({"count": len(ids), "tokens": ids}))
        elif self.path == "/detokenize" and manners.detokenize:
            text = self.loopback.tokenizer.decode(body["tokens"], skip_special_tokens=False)
            self._send(200, json.dumps({"prompt": text}))
        elif self.path == "/reset_prefix_cache" and manners.resettable:
            refused, manners.refused_resets = manners.refused_resets, manners.refused_resets - 1
            if refused <= 0:
                self.loopback.local.chains.clear()
            self._send(200, json.dumps({"success": refused <= 0}))
        else:
            self._send(404, '{"detail": "Not Found"}')

    def _note(self, body: Any) -> None:
        self.loopback.requests.append((self.command, self.path, body, dict(self.headers)))

    def _chat(self, body: dict[str, Any]) -> None:
        manners = self.loopback.manners
        self.loopback.chats += 1
        fault = manners.fault if self.loopback.chats >= manners.at else ""
        if body["model"] != manners.model:
            self._refuse(404, f"The model `{body['model']}` does not exist.")
        elif manners.strict and {"cache_salt", "return_token_ids"} & body.keys():
            self._refuse(400, "Unrecognized request argument supplied: cache_salt")
        elif "chat_template" in body and not manners.trusts_templates:
            self._refuse(400, "Chat template is passed with request, but it is not trusted.")
        elif fault and self._misbehave(fault, body):
            return
        elif body["stream"]:
            self._stream(self.loopback.answer(body), fault)
        else:
            self._send(200, json.dumps(_lying(self.loopback.answer(body), fault)))

    def _misbehave(self, fault: str, body: dict[str, Any]) -> bool:
        """Whether that was all of the answer."""
        if fault == "hangs":
            self.loopback.released.wait(30)
        elif fault == "drips":
            self._start(200, "application/json", None)
            with contextlib.suppress(OSError):
                while not self.loopback.released.wait(0.02):
                    self.wfile.write(b" ")
        elif fault == "dies-before":
            self.close_connection = True
        elif fault == "dies-midway" and not body["stream"]:
            self._start(200, "application/json", 1000)
            self.wfile.write(b'{"choices": [')
            self.close_connection = True
        elif fault == "not-json":
            self._send(200, "{'choices': []}")
        elif fault == "html":
            self._send(200, "<html><body>It works!</body></html>", "text/html")
        elif fault == "html-error":
            self._send(502, "<html><body>Bad Gateway</body></html>", "text/html")
        elif fault == "list":
            self._send(200, "[]")
        elif fault == "crashes":
            self._refuse(500, "EngineDeadError: the engine core died")
        elif fault == "redirects":
            self.send_response(307)
            self.send_header("Location", "http://127.0.0.1:9/elsewhere")
            self.send_header("Content-Length", "0")
            self.end_headers()
        elif fault == "huge":
            self._start(200, "application/json", None)
            with contextlib.suppress(OSError):
                while True:
                    self.wfile.write(b" " * 2**20)
        elif fault == "no-http":
            self.wfile.write(b"SSH-2.0-OpenSSH_9.2\r\n")
            self.close_connection = True
        else:
            return False
        return True

    def _stream(self, document: dict[str, Any], fault: str) -> None:
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream; charset=utf-8")
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        pieces = list(events(_lying(document, fault)))
        with contextlib.suppress(OSError):
            self._chunk(": a comment\n\n")
            for number, piece in enumerate(pieces):
                if number == 3 and self._spoil(fault):
                    return
                self._chunk(f"data: {json.dumps(piece)}\n\n")
            self._chunk("data: [DONE]\n\n")
            self.wfile.write(b"0\r\n\r\n")

    def _spoil(self, fault: str) -> bool:
        self.close_connection = True
        if fault == "dies-midway":
            return True
        if fault == "error-event":
            self._chunk('data: {"error": {"message": "EngineDeadError", "code": 500}}\n\n')
            return True
        if fault == "endless":
            while True:
                self._chunk('data: {"choices": [{"index": 0, "delta": {"content": "on "}}]}\n\n')
        if fault == "endless-line":
            while True:
                self._chunk("data: " + "x" * 2**20)
        return False

    def _chunk(self, text: str) -> None:
        content = text.encode()
        self.wfile.write(f"{len(content):x}\r\n".encode() + content + b"\r\n")

    def _start(self, status: int, kind: str, length: int | None) -> None:
        self.send_response(status)
        self.send_header("Content-Type", kind)
        if length is None:
            self.send_header("Connection", "close")
            self.close_connection = True
        else:
            self.send_header("Content-Length", str(length))
        self.end_headers()

    def _send(self, status: int, text: str, kind: str = "application/json") -> None:
        content = text.encode()
        self._start(status, kind, len(content))
        self.wfile.write(content)

    def _refuse(self, status: int, message: str) -> None:
        self._send(status, json.dumps({"error": {"message": message, "code": status}}))


def _without(message: dict[str, Any], key: str) -> dict[str, Any]:
    return {name: value for name, value in message.items() if name != key}


def _lying(document: dict[str, Any], fault: str) -> dict[str, Any]:
    """The answer with what a fault makes of its figures."""
    usage, choice = document["usage"], document["choices"][0]
    details = usage.get("prompt_tokens_details", {})
    if fault == "cached-too-many":
        details["cached_tokens"] = usage["prompt_tokens"] + 1
    elif fault == "cached-negative":
        details["cached_tokens"] = -1
    elif fault == "cached-text":
        details["cached_tokens"] = "many"
    elif fault == "cached-wrong":
        details["cached_tokens"] += 16
    elif fault == "no-usage":
        del document["usage"]
        document.pop("prompt_token_ids", None)
    elif fault == "prompt-ids-short":
        document["prompt_token_ids"] = document["prompt_token_ids"][1:]
    elif fault == "completion-ids-short":
        choice["token_ids"] = choice["token_ids"][1:]
    elif fault == "ids-text":
        document["prompt_token_ids"] = ["a"] * usage["prompt_tokens"]
    elif fault == "no-choices":
        document["choices"] = []
    elif fault == "content-list":
        choice["message"]["content"] = ["a"]
    elif fault == "call-without-id":
        function = {"name": "f", "arguments": "{}"}
        choice["message"]["tool_calls"] = [{"type": "function", "function": function}]
    return document


@contextlib.contextmanager
def serving(
    manners: Manners | None = None, tls: ssl.SSLContext | None = None
) -> Iterator[Loopback]:
    """A server with these manners, at ``url`` while the block lasts."""
    loopback = Loopback(manners or Manners())
    handler = type("Handler", (_Handler,), {"loopback": loopback})

    class Server(ThreadingHTTPServer):
        daemon_threads = True

        def handle_error(self, *_: Any) -> None:
            return

    server = Server(("127.0.0.1", 0), handler)
    if tls is not None:
        server.socket = tls.wrap_socket(server.socket, server_side=True)
    port = server.server_address[1]
    loopback.url = f"{'https' if tls else 'http'}://127.0.0.1:{port}"
    thread = threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True)
    thread.start()
    try:
        yield loopback
    finally:
        loopback.released.set()
        server.shutdown()
        server.server_close()
        thread.join(5)
