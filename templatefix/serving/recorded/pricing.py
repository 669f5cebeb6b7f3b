"""Whose the lost tokens are: one request against the one that it continues.

The request is compared with the one that a faithful client would have sent. What that one would
have lost as well is the template's, the parser's or the tokenizer's; what it would have kept, the
client has lost.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from templatefix.chat.answer import Answer
from templatefix.chat.conversation import answer_of
from templatefix.chat.present import Unpresentable
from templatefix.chat.server import Tools
from templatefix.checking.breaks import canonical_reuse
from templatefix.checking.subject import Subject
from templatefix.dialect.author import Unspoken
from templatefix.findings.evidence import Evidence, gather
from templatefix.findings.recorded import Owner
from templatefix.prefix import common_prefix
from templatefix.render import Crashed, Refused
from templatefix.replay.accounting import hit_tokens
from templatefix.replay.run import Comparison, Request, compare
from templatefix.rules import classify
from templatefix.serving.recorded.changes import Change, Departure, Sent, departure
from templatefix.serving.recorded.joining import Held, Match, Spoken
from templatefix.serving.recorded.shapes import Recorded
from templatefix.serving.recorded.speaking import Speaker

#: Other requests of a conversation whose streams may hold more of a prompt.
_SIBLINGS = 8


@dataclass(frozen=True)
class Share:
    """Tokens that one owner lost. ``shared`` of them the template would lose as well.

    ``comparison`` and ``evidence`` are there where the client is not to blame.
    """

    owner: Owner
    what: str
    tokens: int
    shared: int = 0
    detail: str = ""
    comparison: Comparison | None = None
    evidence: Evidence | None = None


@dataclass(frozen=True)
class Price:
    """One continued request in tokens: what it reused, what it could have, and whose the rest is.

    ``preserving`` is whether the whole stream could be reused, whatever full blocks it fills.
    """

    comparison: Comparison
    reused: int
    ideal: int
    preserving: bool
    shares: tuple[Share, ...]
    spoken: Spoken


class Pricer:
    """Prices continued requests under one template."""

    def __init__(self, subject: Subject, block_size: int, closing_tag: str) -> None:
        self.speaker = Speaker(subject.author, subject.encoder)
        self._subject = subject
        self._block_size = block_size
        self._closing_tag = closing_tag

    def price(self, match: Match, later: Held, siblings: Iterable[Held]) -> Price:
        """What ``later`` loses of the stream of the request that it continues.

        ``siblings`` are other requests of the conversation: a server holds theirs, too. Raises
        ``Unpresentable``.
        """
        answer = _answer(match, later)
        spoken = self.spoken(match, answer)
        before = _request(match.held, spoken, answer)
        after = request_of(later)
        comparison = self._compare(before, after)
        if comparison.preserving:
            return Price(comparison, comparison.ideal, comparison.ideal, True, (), spoken)
        reused = min(comparison.ideal, max(comparison.hit, self._elsewhere(later, siblings, match)))
        sent = Sent(later.messages, later.tools, later.kwargs)
        server = self._subject.server
        departed = departure(match, answer, sent, server.content_format, self._closing_tag)
        shares = tuple(self._shares(comparison, reused, departed, match.held.tools))
        return Price(comparison, reused, comparison.ideal, False, shares, spoken)

    def spoken(self, match: Match, answer: Recorded | None) -> Spoken:
        """The completion that is continued. From its recorded answer it is written once."""
        held = match.held
        if match.answer is None:
            return self.speaker.completion(held, None)
        if answer is not held.answer:
            return self.speaker.completion(held, answer)
        if held.spoken is None:
            held.spoken = self.speaker.completion(held, answer)
        return held.spoken

    def _shares(
        self, comparison: Comparison, reused: int, departed: Departure, tools: Tools
    ) -> Iterable[Share]:
        ideal = comparison.ideal
        faithful = comparison
        if departed.alone:
            sent = self._sent(comparison.before, departed.faithful)
            if sent is None:  # only what the client made of it can be rendered
                yield Share("client", _first(departed), ideal - reused)
                return
            faithful = sent
        reachable = ideal if faithful.preserving else max(reused, min(faithful.hit, ideal))
        rest = ideal - reachable
        if departed.alone and (faithful.preserving or faithful.reuse > comparison.reuse):
            change = self._guilty(comparison.before, departed)
            yield Share("client", change, reachable - reused)
            if not rest:
                return
        else:
            rest = ideal - reused
        share = self._beyond(faithful, rest, tools)
        if share.what == "TF102" and departed.drops_this:
            # Both leave it out: a patch brings nothing back while the client sends nothing.
            share = Share("client", "dropped-reasoning", rest, shared=rest)
        yield share

    def _beyond(self, faithful: Comparison, tokens: int, tools: Tools) -> Share:
        """The share of what a faithful client loses: the template's, or of what feeds it."""
        encoder = self._subject.encoder
        evidence = gather(faithful, canonical_reuse(faithful, encoder))
        code, detail, _ = classify(evidence)
        if self._is_the_parsers(faithful, evidence, code, tools):
            code, detail = "TF301", "calls" if code == "TF106" else "separator"
        owner: Owner = "template"
        if code == "TF301":
            owner = "parser"
        elif code == "TF108":
            owner = "tokenizer"
        return Share(owner, code, tokens, 0, detail, faithful, evidence)

    def _is_the_parsers(
        self, faithful: Comparison, evidence: Evidence, code: str, tools: Tools
    ) -> bool:
        """Whether no field of the answer tells how the model spelled a call.

        That is whitespace which the parser left in the content although it belongs to the call,
        or a call that the model wrote otherwise than it would be written from its fields.
        """
        before = faithful.before
        answer, written = before.answer, before.completion and before.completion.written
        if code not in ("TF104", "TF106") or not evidence.current:
            return False
        if answer is None or not answer.tool_calls or not written:
            return False
        content = answer.content or ""
        if content != content.rstrip():
            return True
        if code != "TF106" or written.calls is None:
            return False
        usual = self._usual(before, answer, tools)
        calls = written.text[written.calls[0] : written.stop[0]].strip()
        return bool(usual) and calls not in usual

    def _usual(self, before: Request, answer: Answer, tools: Tools) -> str:
        """What a model usually writes for an answer with calls; nothing where that is not known."""
        author = self._subject.author
        for reasoning in (answer.reasoning, "x"):  # whatever it thought, the calls look the same
            meant = answer._replace(reasoning=reasoning)
            try:
                found = author.completion(before.messages, tools, before.kwargs, meant)
            except Unspoken:
                continue
            except (Unpresentable, Refused, Crashed):
                break
            return found.written.text if found.written is not None else ""
        return ""

    def _guilty(self, before: Request, departed: Departure) -> Change:
        """Of several changes the one that by itself parts from the stream first."""
        if len(departed.alone) == 1:
            return _first(departed)
        reuse = {}
        for change, sent in departed.alone.items():
            comparison = self._sent(before, sent)
            if comparison is not None:
                reuse[change] = comparison.reuse
        return min(reuse, key=lambda change: reuse[change], default=_first(departed))

    def _sent(self, before: Request, sent: Sent) -> Comparison | None:
        """A request that nobody sent, compared like one; None where it cannot be rendered."""
        try:
            prompt = self._subject.server.prompt(sent.messages, sent.tools, sent.kwargs)
        except (Refused, Crashed, Unpresentable):
            return None
        ids = self._subject.encoder.encode(prompt)
        after = Request(sent.messages, sent.kwargs, prompt, ids, None, prompt, ids)
        return self._compare(before, after)

    def _compare(self, before: Request, after: Request) -> Comparison:
        return compare(2, before, after, self._subject.encoder, self._block_size)

    def _elsewhere(self, later: Held, siblings: Iterable[Held], match: Match) -> int:
        """The longest hit in the stream of another request of the conversation, in tokens."""
        best = 0
        for _, held in zip(range(_SIBLINGS), siblings, strict=False):
            if held is match.held:
                continue
            ids = held.ids + held.spoken.ids if held.spoken is not None else held.ids
            reuse = common_prefix(ids, later.ids)
            best = max(best, hit_tokens(reuse, len(ids), len(later.ids), self._block_size))
        return best


def request_of(held: Held) -> Request:
    """A recorded request by its prompt alone."""
    ids = held.ids.tolist()
    return Request(held.messages, held.kwargs, held.prompt, ids, None, held.prompt, ids)


def _request(held: Held, spoken: Spoken, answer: Recorded | None) -> Request:
    returned = None if answer is None else answer_of(answer.message)
    ids = held.ids.tolist()
    return Request(
        held.messages,
        held.kwargs,
        held.prompt,
        ids,
        spoken.completion,
        held.prompt + spoken.text,
        ids + spoken.ids.tolist(),
        returned,
    )


def _answer(match: Match, later: Held) -> Recorded | None:
    """The answer of the continued request: as recorded, else as it was sent back."""
    if match.answer is None:
        return None
    return match.held.answer or Recorded(later.messages[match.answer])


def _first(departed: Departure) -> Change:
    return next(iter(departed.alone))
