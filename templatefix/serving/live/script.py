"""What is asked of a live server, turn by turn: our own questions, or a conversation of the user's.

The answers are the server's own. A conversation file's assistant messages only say where a turn
ends; a message of a turn may carry ``extra_body``, fields that are merged into that turn's
request.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from templatefix.chat.battery import TOOLS
from templatefix.chat.conversation import Message

#: Keys of a message in a conversation file that are ours, and are not sent to the server.
_OURS = ("extra_body", "completion", "completion_token_ids")

_SYSTEM = "You are a travel clerk in Portugal. Answer in one short sentence."
_QUESTIONS = (
    "Which city lies at the mouth of the Douro?",
    "And which one at the mouth of the Tagus?",
    "How far are the two apart by train?",
    "Which of them is the older one?",
    "Where between them would you stop for lunch?",
)
_ERRANDS = (
    "Will it rain in Porto tomorrow? Look it up.",
    "Then find me a train from Lisbon to Porto.",
    "What will the weather be in Coimbra in three days?",
    "Is there a train from Porto to Coimbra?",
)
_RESULT = '{"ok": true, "summary": "light rain, 17 degrees; trains at 07:39, 08:09 and 09:39"}'


class Unanswerable(Exception):
    """The script cannot go on from the answer that the server gave."""


@dataclass(frozen=True)
class Ask:
    """One turn: the messages that are new in it, and fields for its request alone."""

    messages: tuple[Message, ...]
    extra_body: Mapping[str, Any] = field(default_factory=dict)


class Script(Protocol):
    """Says what to ask next."""

    @property
    def turns(self) -> int: ...

    @property
    def tools(self) -> Sequence[Message] | None: ...

    @property
    def kwargs(self) -> Mapping[str, Any]: ...

    def ask(self, turn: int, answer: Message | None) -> Ask:
        """What to send in ``turn`` (1-based) after ``answer`` (None in the first turn).

        Raises :class:`Unanswerable`.
        """


@dataclass(frozen=True)
class OwnScript:
    """Short questions, one a turn; with ``tools``, calls are answered in a turn of their own."""

    turns: int
    tools: Sequence[Message] | None = None
    kwargs: Mapping[str, Any] = field(default_factory=dict)

    def ask(self, turn: int, answer: Message | None) -> Ask:
        calls = (answer or {}).get("tool_calls") or ()
        if calls:
            return Ask(tuple(_result(call) for call in calls))
        questions = _ERRANDS if self.tools else _QUESTIONS
        round_, place = divmod(turn - 1, len(questions))
        text = questions[place] + (f" (asked {round_ + 1} times now)" if round_ else "")
        question = {"role": "user", "content": text}
        system = {"role": "system", "content": _SYSTEM}
        return Ask((system, question) if turn == 1 else (question,))


def own_script(turns: int, *, tools: bool, kwargs: Mapping[str, Any]) -> OwnScript:
    """Our own conversation of so many requests."""
    return OwnScript(turns, TOOLS if tools else None, kwargs)


@dataclass(frozen=True)
class _Given:
    """A turn of a file: its messages, and the ids of the calls that they may answer."""

    messages: tuple[Message, ...]
    extra_body: Mapping[str, Any]
    call_ids: tuple[Any, ...]


@dataclass(frozen=True)
class FileScript:
    """The user's own messages."""

    given: tuple[_Given, ...]
    tools: Sequence[Message] | None
    kwargs: Mapping[str, Any]

    @property
    def turns(self) -> int:
        return len(self.given)

    def ask(self, turn: int, answer: Message | None) -> Ask:
        given = self.given[turn - 1]
        ids = [call.get("id") for call in (answer or {}).get("tool_calls") or ()]
        messages, results = [], 0
        for message in given.messages:
            if message.get("role") == "tool":
                messages.append({**message, "tool_call_id": _call_id(given, message, results, ids)})
                results += 1
            else:
                messages.append(dict(message))
        return Ask(tuple(messages), given.extra_body)


def file_script(
    conversation: Mapping[str, Any],
    *,
    turns: int | None,
    tools: bool | None,
    kwargs: Mapping[str, Any],
) -> FileScript:
    """The script in a conversation that ``scenario_of`` accepts.

    ``turns`` takes its beginning only. ``tools`` leaves the file's tools out, or offers ours where
    it has none. ``kwargs`` replace the file's. Raises ``ValueError`` with the place of a fault.
    """
    given: list[_Given] = []
    pending: list[Message] = []
    extra: dict[str, Any] = {}
    call_ids: tuple[Any, ...] = ()
    for i, message in enumerate(conversation["messages"]):
        fields = message.get("extra_body", {})
        if not isinstance(fields, Mapping):
            raise ValueError(f"messages[{i}].extra_body is not an object")
        extra |= fields
        if message["role"] != "assistant":
            pending.append({key: value for key, value in message.items() if key not in _OURS})
            continue
        if not pending:
            raise ValueError(f"messages[{i}] is an answer to nothing: no message precedes it")
        given.append(_Given(tuple(pending), extra, call_ids))
        call_ids = tuple(call.get("id") for call in message.get("tool_calls") or ())
        pending, extra = [], {}
    if pending:
        given.append(_Given(tuple(pending), extra, call_ids))
    offered = conversation.get("tools") or (TOOLS if tools else None)
    return FileScript(
        tuple(given[:turns]),
        None if tools is False else offered,
        {**(conversation.get("chat_template_kwargs") or {}), **kwargs},
    )


def _call_id(given: _Given, result: Message, number: int, ids: Sequence[Any]) -> Any:
    """The id of the server's call that a result of the file answers."""
    named = result.get("tool_call_id")
    place = given.call_ids.index(named) if named in given.call_ids else number
    if place >= len(ids):
        called = f"{len(ids)} tools" if ids else "no tool"
        raise Unanswerable(
            f"the conversation goes on with the result of a tool, but the answer calls {called}"
        )
    return ids[place]


def _result(call: Mapping[str, Any]) -> dict[str, Any]:
    return {"role": "tool", "tool_call_id": call.get("id"), "content": _RESULT}
