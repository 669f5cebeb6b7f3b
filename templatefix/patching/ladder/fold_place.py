"""Where a model speaks, what it writes there, and what the original makes of that."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from templatefix.chat.answer import Answer
from templatefix.chat.conversation import Message, assistant_message
from templatefix.chat.present import Unpresentable
from templatefix.chat.server import Kwargs, Tools
from templatefix.dialect.author import Unspoken
from templatefix.dialect.thinking import State, Tags
from templatefix.patching.bench import Bench
from templatefix.patching.ladder.fold_text import CONTENT
from templatefix.prefix import common_prefix
from templatefix.render import Crashed, Refused


@dataclass(frozen=True)
class Place:
    """The messages before an answer, in one mode, and what the original prints for them.

    ``bare`` is the prompt without its generation prompt. ``quiet``: it is known what a model
    writes here that does not reason.
    """

    messages: tuple[Message, ...]
    tools: Tools
    kwargs: Kwargs
    prompt: str
    bare: str
    quiet: bool
    state: State
    tags: Tags | None

    @property
    def tail(self) -> str:
        """The generation prompt."""
        return self.prompt[common_prefix(self.prompt, self.bare) :]


def places(bench: Bench, *, system: bool = True) -> Iterator[Place]:
    """One place of each kind: a mode, with or without tools, after a question or a tool result.

    Without ``system`` the instructions are left out.
    """
    speaker = Speaker(bench)
    found: dict[tuple[str, str, bool], Place] = {}
    shown: set[tuple[str, str, bool]] = set()
    for run in bench.original.runs:
        for request in run.requests:
            key = (str(request.kwargs), str(request.messages[-1]["role"]), bool(run.tools))
            if key in shown:
                continue
            messages = tuple(
                message for message in request.messages if system or message["role"] != "system"
            )
            place = _place(bench, messages, run.tools, request.kwargs)
            found.setdefault(key, place)
            # Some templates refuse answers of their own kind later in a conversation.
            if speaker.view(place, Answer(None, CONTENT)):
                found[key] = place
                shown.add(key)
    yield from found.values()


def _place(bench: Bench, messages: tuple[Message, ...], tools: Tools, kwargs: Kwargs) -> Place:
    author, server = bench.subject.author, bench.subject.server
    seat = author.seat(messages, tools, kwargs)
    quiet = seat.state in ("closed", "none") or not author.must_reason(seat, kwargs)
    prompt = server.prompt(messages, tools, kwargs)
    bare = server.prompt(messages, tools, kwargs, generation_prompt=False)
    return Place(messages, tools, kwargs, prompt, bare, quiet, seat.state, seat.tags)


class Speaker:
    """Writes answers at places, and has the original render them."""

    def __init__(self, bench: Bench) -> None:
        self._author = bench.subject.author
        self._server = bench.subject.server

    def written(self, place: Place, answer: Answer, *, stop: bool = False) -> str | None:
        """What the model writes, without its stop token unless asked for; None if not known."""
        try:
            completion = self._author.completion(place.messages, place.tools, place.kwargs, answer)
        except Unspoken:
            return None
        written = completion.written
        if written is None:
            return None
        return written.text if stop else written.said

    def replayed(self, place: Place, answer: Answer) -> Answer:
        """What the server's parsers make of the answer."""
        text = self.written(place, answer)
        if text is None:
            return answer
        return self._author.parsers.answer(
            text, answer, state=place.state, kwargs=place.kwargs, tools=place.tools
        )

    def call_ids(self, place: Place, answer: Answer) -> tuple[str, ...]:
        """The ids that a server gives to the calls of the answer."""
        return self._author.parsers.call_ids(answer.tool_calls, place.messages)

    def view(self, place: Place, answer: Answer, new: Sequence[Message] = ()) -> str:
        """The original's rendering of the answer and what is new after it; empty if it fails."""
        ids = self.call_ids(place, answer)
        conversation = [*place.messages, assistant_message(answer, ids), *new]
        try:
            return self._server.prompt(
                conversation, place.tools, place.kwargs, generation_prompt=False
            )
        except (Refused, Crashed, Unpresentable):
            return ""
