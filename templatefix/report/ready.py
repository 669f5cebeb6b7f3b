"""Ready templates as a list, and one of them in full."""

from __future__ import annotations

import textwrap
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any

from templatefix.findings.ready import (
    Agreement,
    ChatReuse,
    Cost,
    EncoderReference,
    Header,
    Record,
    Reference,
)
from templatefix.report.json_report import to_json
from templatefix.report.kwargs import kwargs_text
from templatefix.report.visible import visible

_WIDTH = 88

Entry = tuple[str, Header, Record | None]


def listing(entries: Sequence[Entry], output_format: str) -> str:
    """All of them as ``text``, ``json`` or ``markdown``."""
    if output_format == "json":
        return to_json([_entry(*entry) for entry in entries]) + "\n"
    if output_format == "markdown":
        rows = [_row(*entry) for entry in entries]
        head = (
            "| name | published by | policy | cached before | cached after "
            "| more context | same as patch |\n|---|---|---|---|---|---|---|\n"
        )
        return head + "".join(f"{row}\n" for row in rows)
    if not entries:
        return "there are none\n"
    width = max(len(name) for name, _, _ in entries)
    lines = []
    for name, header, _ in entries:
        served = ", ".join(header.serves)
        lines += textwrap.wrap(
            f"{name:<{width}}  {served}",
            _WIDTH,
            subsequent_indent=" " * (width + 2),
            break_on_hyphens=False,
        )
    return "".join(f"{visible(line)}\n" for line in lines)


def _entry(name: str, header: Header, record: Record | None) -> dict[str, object]:
    return {
        "name": name,
        **asdict(header),
        "record": asdict(record) if record is not None else None,
    }


def _row(name: str, header: Header, record: Record | None) -> str:
    measured: list[Reference | EncoderReference] = []
    if record is not None:
        measured += [*record.references, *record.encoders]
    reference = measured[0] if measured else None
    published = (*header.references, *(encoder.name for encoder in header.encoders))
    cells = [f"`{name}`", ", ".join(published), header.policy]
    if reference is None:
        return "| " + " | ".join([*cells, "-", "-", "-", "-"]) + " |"
    chat = _chat(reference)
    before, after = (
        (" / ".join(str(turn.cached[which]) for turn in chat.turns) if chat is not None else "-")
        for which in (0, 1)
    )
    shown = [cost for cost in reference.costs if chat is None or cost.kwargs == chat.kwargs]
    cost = f"{shown[0].extra_context:+.1f}" if shown else "-"
    return "| " + " | ".join([*cells, before, after, cost, _same(reference)]) + " |"


def _same(reference: Reference | EncoderReference) -> str:
    if isinstance(reference, EncoderReference) or not reference.patch.prompts:
        return "no patch"
    return "yes" if not reference.patch.different else "differs"


def _chat(reference: Reference | EncoderReference) -> ChatReuse | None:
    """The chat that is shown: with reasoning in the default mode, else the first."""
    chats = [chat for chat in reference.reuse if chat.scenario == "reasoning-chat"]
    plain = [chat for chat in chats or reference.reuse if not chat.kwargs]
    return next(iter(plain or chats or reference.reuse), None)


def shown(name: str, path: str, header: Header, record: Record | None) -> str:
    """One of them: what it changes, what was measured, how it is served."""
    lines = [f"{name} ({header.policy})", f"  {path}", "", "serves"]
    lines += _wrapped(", ".join(header.serves))
    lines += ["", "changes"]
    for change in header.changes:
        lines += _wrapped(change, "- ")
    if header.differs:
        lines += ["", "unlike the patch of the published template"]
        for differs in header.differs:
            lines += _wrapped(differs, "- ")
    if header.limits:
        lines += ["", "limits"]
        for limit in header.limits:
            lines += _wrapped(limit, "- ")
    if record is not None:
        for reference in record.references:
            lines += ["", *_reference(reference, record)]
        for encoder in record.encoders:
            lines += ["", *_encoder(encoder, record)]
    else:
        lines += ["", "not measured yet: templatefix ready record writes its record"]
    lines += ["", "serve", f"  {_serve(name, header)}"]
    return "".join(f"{visible(line)}\n" for line in lines)


def _wrapped(text: str, mark: str = "") -> list[str]:
    return textwrap.wrap(
        text,
        _WIDTH,
        initial_indent=f"  {mark}",
        subsequent_indent="  " + " " * len(mark),
        break_on_hyphens=False,
    )


def _reference(reference: Reference, record: Record) -> list[str]:
    tokens = "approximate tokens" if reference.approximate else "tokens"
    lines = [f"measured against {reference.model_id} (sha256 {reference.sha256[:12]})"]
    held = ", ".join(f"{clause} {tried}" for clause, tried in reference.clauses.items())
    lines += _wrapped(
        f"the contract held on every input: {held}; {reference.conversations} conversations and "
        f"{reference.generated} generated ones (seed {record.seed}), {reference.tokens} {tokens} "
        f"in the prompts"
    )
    lines += _figures(reference.reuse, reference.costs)
    patch = reference.patch
    if not patch.prompts:
        lines.append("  templatefix patch makes nothing of the published template")
    else:
        same = patch.prompts - patch.different
        how = "which changes nothing" if patch.rung is None else f"rung {patch.rung}"
        lines.append(f"  same prompt as templatefix patch ({how}): {same} of {patch.prompts}")
    return lines


def _encoder(encoder: EncoderReference, record: Record) -> list[str]:
    """Measured against Python code: no template is published that could be patched."""
    tokens = "approximate tokens" if encoder.approximate else "tokens"
    lines = [f"measured against the encoder {encoder.name} of vLLM {encoder.version}"]
    held = ", ".join(f"{clause} {tried}" for clause, tried in encoder.clauses.items())
    lines += _wrapped(
        f"preserving on every input: {held}; {encoder.conversations} conversations and "
        f"{encoder.generated} generated ones (seed {record.seed}), {encoder.tokens} {tokens} "
        f"in the prompts"
    )
    lines += _wrapped(f"the same prompts without an answer: {_agreement(encoder.openings)}")
    if encoder.histories is None:
        lines += _wrapped(
            "prompts with answers were not compared: the encoder drops their reasoning"
        )
    else:
        asked = f"with answers, the encoder asked with {kwargs_text(encoder.kwargs or {})}"
        lines += _wrapped(f"the same prompts {asked}: {_agreement(encoder.histories)}")
    return lines + _figures(encoder.reuse, encoder.costs)


def _agreement(agreement: Agreement) -> str:
    refused = f", besides {agreement.refused} that the encoder refuses" if agreement.refused else ""
    return f"all {agreement.prompts}{refused}"


def _figures(reuse: Sequence[ChatReuse], costs: Sequence[Cost]) -> list[str]:
    lines = []
    for chat in reuse:
        lines.append(f"  {chat.scenario}, {_mode(chat.kwargs)}")
        lines.append("    request  prompt          cached          if all were reused")
        lines += [
            f"    {turn.turn:>7}  {_change(turn.prompt):<14}  {_change(turn.cached):<14}"
            f"  {_change(turn.ideal)}"
            for turn in chat.turns
        ]
    for cost in costs:
        lines.append(
            f"  {_mode(cost.kwargs)}: {cost.extra_context:+.1f} context tokens and "
            f"{-cost.saved_prefill:+.1f} prefilled tokens a request"
        )
    return lines


def _change(pair: tuple[int, int]) -> str:
    return f"{pair[0]} -> {pair[1]}"


def _serve(name: str, header: Header) -> str:
    words = [f'vllm serve MODEL --chat-template "$(templatefix ready path {name})"']
    words += header.server_flags
    if header.reasoning_parser:
        words.append(f"--reasoning-parser {header.reasoning_parser}")
    if header.tool_call_parser:
        words.append(f"--enable-auto-tool-choice --tool-call-parser {header.tool_call_parser}")
    return " ".join(words)


def _mode(kwargs: Mapping[str, Any]) -> str:
    return kwargs_text(kwargs) or "default mode"
