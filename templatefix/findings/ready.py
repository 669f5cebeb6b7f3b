"""The values that a ready template is told in: its header, and the record of what was measured."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class EncoderName:
    """A renderer of vLLM's that takes the place of a published template, ``vllm:MODE``.

    ``kwargs`` make it keep history; None where nothing does.
    """

    name: str
    kwargs: Mapping[str, Any] | None


@dataclass(frozen=True)
class Header:
    """What the header says.

    ``serves`` are model ids; ``references`` those of them whose published template it was
    measured against; ``encoders`` what it was measured against where none is published.
    ``differs`` says where it renders otherwise than what ``templatefix patch`` makes of a
    reference, and why.
    """

    serves: tuple[str, ...]
    references: tuple[str, ...]
    encoders: tuple[EncoderName, ...]
    policy: str
    reasoning_parser: str | None
    tool_call_parser: str | None
    server_flags: tuple[str, ...]
    changes: tuple[str, ...]
    differs: tuple[str, ...]
    limits: tuple[str, ...]


@dataclass(frozen=True)
class TurnReuse:
    """One request of a chat of four, in tokens: ``(published, ready)`` each.

    ``cached`` is what a server finds in its cache, ``ideal`` what it would find if the whole
    stream before were reused; both in whole blocks.
    """

    turn: int
    prompt: tuple[int, int]
    cached: tuple[int, int]
    ideal: tuple[int, int]


@dataclass(frozen=True)
class ChatReuse:
    """Four turns of one scenario in one mode."""

    scenario: str
    kwargs: Mapping[str, Any]
    turns: tuple[TurnReuse, ...]


@dataclass(frozen=True)
class Cost:
    """What one mode costs in tokens a request, on average over its core runs."""

    kwargs: Mapping[str, Any]
    requests: int
    extra_context: float
    saved_prefill: float


@dataclass(frozen=True)
class Patch:
    """The comparison with what ``templatefix patch`` makes of the published template.

    ``rung`` is None where it makes nothing; ``prompts`` were compared, ``different`` of them were
    not the same, of which ``example`` shows one.
    """

    rung: int | None
    prompts: int
    different: int
    example: str | None


@dataclass(frozen=True)
class Reference:
    """The measurement against one published template."""

    model_id: str
    sha256: str
    tokenizer: str
    approximate: bool
    modes: tuple[Mapping[str, Any], ...]
    clauses: Mapping[str, int]
    conversations: int
    generated: int
    tokens: int
    steps: float
    reuse: tuple[ChatReuse, ...]
    costs: tuple[Cost, ...]
    patch: Patch


@dataclass(frozen=True)
class Agreement:
    """Prompts that an encoder and a template rendered alike, in text and so in tokens.

    ``refused`` are those besides them that the encoder refuses and the template renders.
    """

    prompts: int
    refused: int


@dataclass(frozen=True)
class EncoderReference:
    """The measurement against one encoder of vLLM's, whose ``version`` it has.

    ``clauses`` are those that need no published template; ``openings`` hold no answer yet,
    ``histories`` do, and are compared where ``kwargs`` make the encoder keep them. ``generated``
    conversations are among both.
    """

    name: str
    version: str
    kwargs: Mapping[str, Any] | None
    tokenizer: str
    approximate: bool
    modes: tuple[Mapping[str, Any], ...]
    clauses: Mapping[str, int]
    conversations: int
    generated: int
    tokens: int
    openings: Agreement
    histories: Agreement | None
    reuse: tuple[ChatReuse, ...]
    costs: tuple[Cost, ...]


@dataclass(frozen=True)
class Record:
    """Everything that is known of a ready template.

    ``clauses`` of a reference count the inputs on which each clause of the contract was judged
    and held, ``tokens`` the prompt tokens of its runs, ``steps`` how many times the outputs and
    loop bodies of the published template are executed over a hundred turns.
    """

    name: str
    sha256: str
    policy: str
    block_size: int
    seed: int
    versions: Mapping[str, str]
    references: tuple[Reference, ...]
    limits: tuple[str, ...]
    encoders: tuple[EncoderReference, ...] = ()
