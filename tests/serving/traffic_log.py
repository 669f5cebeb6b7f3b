"""Recorded traffic of our own making, and what a server would have made of it.

The figures that tests expect come from here: from the renderer and the tokenizer alone, and from
nothing of what reads, joins and prices a recording.
"""

from __future__ import annotations

import io
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from templatefix.chat.conversation import Message
from templatefix.checking import CheckOptions, Subject, prepare
from templatefix.findings.outcome import Report
from templatefix.findings.recorded import RecordedTraffic
from templatefix.serving.recorded.lines import Recording
from templatefix.serving.recorded.traffic import check_recorded
from templatefix.source import ChatTemplate
from tests.subjects import template

Fields = Mapping[str, Any]


@dataclass
class Log:
    """A recording that grows by one line for each request."""

    subject: Subject
    block_size: int = 16
    lines: list[str] = field(default_factory=list)

    @classmethod
    def under(cls, text: str, **options: Any) -> Log:
        return cls(prepare(template(text, **options), CheckOptions()))

    def prompt(
        self, messages: Sequence[Message], tools: Any = None, kwargs: Fields | None = None
    ) -> list[int]:
        """The token ids of a request's prompt."""
        text = self.subject.server.prompt(messages, tools, kwargs or {})
        return self.subject.encoder.encode(text)

    def ids(self, text: str) -> list[int]:
        return self.subject.encoder.encode(text)

    def add(
        self,
        messages: Sequence[Message],
        answer: Fields | None = None,
        *,
        completion: str | Sequence[int] | None = None,
        finish: str | None = "stop",
        **fields: Any,
    ) -> None:
        """A request and its response, with the completion's ids if it is given."""
        entry: dict[str, Any] = {"request": {"messages": list(messages), **fields}}
        if answer is not None:
            message = {"role": "assistant", **answer}
            choice: dict[str, Any] = {"index": 0, "message": message, "finish_reason": finish}
            if completion is not None:
                given = self.ids(completion) if isinstance(completion, str) else completion
                choice["token_ids"] = list(given)
            entry["response"] = {"choices": [choice]}
        self.lines.append(json.dumps(entry))

    def hit(self, stream: Sequence[int], prompt: Sequence[int]) -> tuple[int, int]:
        """The tokens of a prompt that a server finds, and those that it could find at best."""
        same = 0
        while same < min(len(stream), len(prompt)) and stream[same] == prompt[same]:
            same += 1
        most = min(len(stream), len(prompt)) - 1
        size = self.block_size
        return min(same, most) // size * size, most // size * size

    def report(self, *, recover: bool = False, policy: str = "keep-reasoning") -> Report:
        return report(self.subject.template, self.lines, self.block_size, recover, policy)

    def replayed(self, **options: Any) -> RecordedTraffic:
        traffic = self.report(**options).recorded
        assert traffic is not None
        return traffic


def report(
    checked: ChatTemplate,
    lines: Iterable[str | bytes],
    block_size: int = 16,
    recover: bool = False,
    policy: str = "keep-reasoning",
) -> Report:
    """The report about a recording with these lines."""
    content = b"".join(
        (line if isinstance(line, bytes) else line.encode("utf-8", "surrogatepass")) + b"\n"
        for line in lines
    )
    recording = Recording("-", io.BytesIO(content))
    options = CheckOptions(block_size=block_size)
    return check_recorded(checked, options, policy, recording, recover=recover)


def losses(traffic: RecordedTraffic) -> dict[tuple[str, str], tuple[int, int, int]]:
    """Tokens, requests and the first line, by owner and what was lost."""
    found: dict[tuple[str, str], tuple[int, int, int]] = {}
    for loss in traffic.losses:
        tokens, requests, line = found.get((loss.owner, loss.what), (0, 0, loss.example))
        found[loss.owner, loss.what] = (
            tokens + loss.lost_tokens,
            requests + loss.requests,
            min(line, loss.example),
        )
    assert sum(tokens for tokens, _, _ in found.values()) == traffic.lost_tokens
    return found
