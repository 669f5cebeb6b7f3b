"""A recording walked through once, and reported about."""

from __future__ import annotations

from array import array
from collections import Counter
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from templatefix.chat.conversation import Message
from templatefix.chat.present import Unpresentable
from templatefix.checking.options import CheckOptions
from templatefix.checking.outcome import unparsable
from templatefix.checking.runs import handed_on
from templatefix.checking.subject import GREETING, Subject, prepare
from templatefix.errors import TargetError
from templatefix.findings.finding import SEVERITIES, Finding
from templatefix.findings.outcome import Coverage, Report, Verdict
from templatefix.findings.recorded import (
    OWNERS,
    Owner,
    RecordedTraffic,
    SetAside,
    SkippedLine,
    TrafficLoss,
)
from templatefix.render import Crashed, Refused, SyntaxFault
from templatefix.serving.recorded.blaming import Blamer
from templatefix.serving.recorded.joining import Held, Match, OpenRequests
from templatefix.serving.recorded.keys import keys_of, setting_of
from templatefix.serving.recorded.lines import LONGEST, Recording
from templatefix.serving.recorded.pricing import Price, Pricer, Share
from templatefix.serving.recorded.recovery import Recoverer
from templatefix.serving.recorded.shapes import Exchange, Unreadable, exchange_of
from templatefix.source.template import ChatTemplate, sha256
from templatefix.syntax import Unparsable

#: Skipped lines that are reported one by one, reasons and modes that are told apart.
_SHOWN, _REASONS, _MODES = 20, 50, 16
#: Kinds of requests whose layouts are remembered.
_KINDS = 1000


def check_recorded(
    template: ChatTemplate,
    options: CheckOptions,
    policy: str,
    recording: Recording,
    *,
    recover: bool = True,
) -> Report:
    """Replay recorded traffic under a template. ``recover``: say what a patch would bring back.

    ``options.kwargs`` are the server's defaults: what a request says itself counts more. Raises
    ``TargetError`` for a recording or a tokenizer that cannot be used.
    """
    try:
        subject = prepare(template, options)
    except (Unparsable, SyntaxFault) as fault:
        return unparsable(template, options, policy, fault)
    recoverer = Recoverer(template, subject, options, policy) if recover else None
    walk = _Walk(subject, options, policy, recoverer)
    for number, line in recording.lines():
        walk.take(number, line)
    walk.expect_request(recording.label)
    return walk.report(recording.label)


class _Walk:
    """What is known of a recording so far; nothing in it grows with the recording's length."""

    def __init__(
        self, subject: Subject, options: CheckOptions, policy: str, recoverer: Recoverer | None
    ) -> None:
        self._subject = subject
        self._options = options
        self._policy = policy
        self._recoverer = recoverer
        self._tag = _closing_tag(subject)
        self._open = OpenRequests(self._tag)
        self._pricer = Pricer(subject, options.block_size, self._tag)
        self._blamer = Blamer(subject, options, policy)
        self._count: Counter[str] = Counter()
        self._known: Counter[str] = Counter()
        self._losses: dict[tuple[Owner, str, int | None, int | None], TrafficLoss] = {}
        self._skipped: list[SkippedLine] = []
        self._aside: dict[str, SetAside] = {}
        self._modes: list[Mapping[str, Any]] = []

    def take(self, number: int, line: bytes | None) -> None:
        """The next line of the recording; None for one that is too long."""
        self._count["lines"] += 1
        if line is not None and not line.strip():
            return
        try:
            if line is None:
                raise Unreadable(f"longer than {LONGEST // 2**20} MB")
            exchange = exchange_of(number, line)
        except Unreadable as why:
            self._count["skipped"] += 1
            if len(self._skipped) < _SHOWN:
                self._skipped.append(SkippedLine(number, str(why)))
            return
        self._count["read"] += 1
        try:
            self._replay(exchange)
        except Unpresentable as why:
            self._set_aside(number, why.what)
        except Refused as refused:
            self._blamer.fault(refused, number)
            self._set_aside(number, f"the template refuses it: {refused.message}")
        except Crashed as crashed:
            self._blamer.fault(crashed, number)
            self._set_aside(number, f"rendering fails: {crashed}")
        except RecursionError:
            self._set_aside(number, "it is nested too deeply")
        finally:
            self._subject.server.forget()
            if self._subject.author.kinds > _KINDS:
                self._subject.author.forget()

    def expect_request(self, file: str) -> None:
        """Raises ``TargetError`` where no line could be read, which is some other file; an empty
        one has recorded nothing yet."""
        if self._skipped and not self._count["read"]:
            first = self._skipped[0]
            raise TargetError(
                file,
                f"holds no request; line {first.line} is {first.why}",
                "name a file with one JSON request a line",
            )

    def report(self, file: str) -> Report:
        """What all of it comes to."""
        subject, options = self._subject, self._options
        template, encoder, parsers = subject.template, subject.encoder, subject.author.parsers
        findings = sorted(
            self._blamer.findings,
            key=lambda each: (-SEVERITIES.index(each.severity), -(each.lost_tokens or 0)),
        )
        return Report(
            template.target,
            template.display,
            template.name,
            sha256(template.text),
            encoder.source,
            encoder.approximate,
            options.block_size,
            self._policy,
            self._verdict(),
            coverage=Coverage(tuple(self._modes), ("recorded",)),
            findings=tuple(findings),
            source=template.text,
            attention=template.attention,
            parsers=(
                parsers.reasoning.name if parsers.reasoning else None,
                parsers.tool.name if parsers.tool else None,
            ),
            recorded=self._traffic(file),
        )

    def _verdict(self) -> Verdict:
        if any(loss.owner == "template" for loss in self._losses.values()):
            return "breaks"
        return "preserving" if self._count["judged"] else "not-evaluated"

    def _traffic(self, file: str) -> RecordedTraffic:
        count = self._count
        losses = sorted(
            self._losses.values(),
            key=lambda loss: (OWNERS.index(loss.owner), -loss.lost_tokens, loss.example),
        )
        recoverer = self._recoverer
        return RecordedTraffic(
            file,
            count["lines"],
            count["requests"],
            self._open.conversations,
            count["continued"],
            count["branches"],
            self._open.closed,
            {known: self._known[known] for known in ("ids", "text", "unknown")},
            count["cut"],
            count["prompt"],
            count["reused"],
            count["ideal"],
            tuple(losses),
            count["skipped"],
            tuple(self._skipped),
            tuple(sorted(self._aside.values(), key=lambda each: -each.requests)),
            count["other prompts"],
            None if recoverer is None else recoverer.recovery,
        )

    def _replay(self, exchange: Exchange) -> None:
        if exchange.why_not is not None:
            self._set_aside(exchange.line, exchange.why_not)
            return
        subject = self._subject
        kwargs = handed_on({**(self._options.kwargs or {}), **(exchange.kwargs or {})}, subject)
        messages = exchange.messages
        keys = keys_of(messages, self._tag)
        setting = setting_of(messages, exchange.tools, kwargs)
        match = self._open.match(keys, setting, messages)
        if match is not None:
            messages = _shared(messages, match.held.messages)
        prompt = subject.server.prompt(messages, exchange.tools, kwargs)
        ids = array("I", subject.encoder.encode(prompt))
        held = Held(
            exchange.line,
            messages,
            exchange.tools,
            kwargs,
            keys,
            setting,
            exchange.answer,
            prompt,
            ids,
            match.held.conversation if match is not None else self._open.begin(),
        )
        self._count["requests"] += 1
        self._count["prompt"] += len(ids)
        if len(self._modes) < _MODES and kwargs not in self._modes:
            self._modes.append(kwargs)
        if exchange.prompt_ids is not None and not subject.encoder.approximate:
            self._count["other prompts"] += exchange.prompt_ids != tuple(ids)
        if match is not None:
            self._continue(match, held)
        self._open.add(held)

    def _continue(self, match: Match, held: Held) -> None:
        price = self._pricer.price(match, held, self._open.of(held.conversation))
        self._count["continued"] += 1
        self._count["reused"] += price.reused
        self._count["ideal"] += price.ideal
        if match.answer is not None:
            self._known[price.spoken.known] += 1
            kept = all(each.owner == "client" and not each.shared for each in price.shares)
            self._count["judged"] += kept and price.spoken.known != "unknown"
            self._count["branches"] += match.held.continued
            answer = match.held.answer
            self._count["cut"] += answer is not None and not answer.ended
            self._open.passed(match.held)
        for share in price.shares:
            self._lose(share, match, held)
        if self._recoverer is not None and any(s.owner == "template" for s in price.shares):
            self._recover(match, held, price)

    def _recover(self, match: Match, held: Held, price: Price) -> None:
        assert self._recoverer is not None
        self._recoverer.add(match.held, held, price)

    def _lose(self, share: Share, match: Match, held: Held) -> None:
        place: tuple[int | None, int | None] = (None, None)
        if share.comparison is not None:
            finding: Finding = self._blamer.blame(share, match.held.tools, held.line)
            place = (finding.line, finding.column)
        key = (share.owner, share.what, *place)
        known = self._losses.get(key)
        if known is None:
            known = TrafficLoss(share.owner, share.what, 0, 0, held.line, *place)
        self._losses[key] = replace(
            known,
            lost_tokens=known.lost_tokens + share.tokens,
            requests=known.requests + 1,
            shared_tokens=known.shared_tokens + share.shared,
        )

    def _set_aside(self, line: int, why: str) -> None:
        if why not in self._aside and len(self._aside) >= _REASONS:
            why = "other reasons"
        known = self._aside.get(why, SetAside(why, 0, line))
        self._aside[why] = replace(known, requests=known.requests + 1)


def _closing_tag(subject: Subject) -> str:
    """The tag that ends reasoning in this template's format; nothing where there is none."""
    tags = subject.author.parsers.tags
    if tags is None:
        try:
            tags = subject.author.seat(GREETING, None, {}).tags
        except (Refused, Crashed, Unpresentable):
            return ""
    return tags.close if tags is not None else ""


def _shared(messages: tuple[Message, ...], known: tuple[Message, ...]) -> tuple[Message, ...]:
    """The messages, those that an earlier request had at the same place kept only once."""
    return tuple(
        known[i] if i < len(known) and known[i] == message else message
        for i, message in enumerate(messages)
    )
