"""Which server renders in our place, and how it is asked."""

from __future__ import annotations

from dataclasses import dataclass

#: In place of a URL: start one, and stop it at the end.
AUTO = "auto"


@dataclass(frozen=True)
class ServerOptions:
    """``url`` is that of a vLLM server, or ``auto``.

    ``arguments`` are added to ``vllm launch render`` when one is started. ``timeout`` is in
    seconds: for a request and its reply, and for the start of a server ``start_timeout``.
    """

    url: str
    arguments: tuple[str, ...] = ()
    api_key: str | None = None
    timeout: float = 30.0
    start_timeout: float = 240.0
