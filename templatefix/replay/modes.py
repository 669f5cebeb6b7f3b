"""The modes of a template: which request kwargs change what, found by trying them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any, Literal

from templatefix.chat.battery import PROBE, PROBE_CALLS, TOOLS
from templatefix.chat.conversation import Message, Scenario, assistant_message, numbered
from templatefix.chat.present import Unpresentable
from templatefix.chat.server import Kwargs, Server, Tools
from templatefix.prefix import common_prefix
from templatefix.render import Crashed, Refused

#: ``mode`` changes the generation prompt, ``retention`` only what history shows of answers,
#: ``head`` what comes before history.
Effect = Literal["mode", "retention", "head"]

#: Kwargs that chat formats without a template document, with values that their documentation
#: names. They are tried like those that a template names: what has no effect is not swept.
DOCUMENTED: tuple[tuple[str, tuple[Any, ...]], ...] = (
    ("thinking", (True, False)),
    ("enable_thinking", (True, False)),
    ("drop_thinking", (True, False)),
    ("preserve_thinking", (True, False)),
    ("clear_thinking", (True, False)),
    ("reasoning_effort", ("none", "low", "medium", "high", "max")),
)

#: The ids of calls in what is tried; nine digits, for some templates ask for that.
_IDS = ("000000000", "000000001")

#: No more modes than this are swept; the rest is reported as not evaluated.
LIMIT = 16


@dataclass(frozen=True)
class Setting:
    """A kwarg's value and what it does. ``retains`` is whether it shows more of past answers."""

    name: str
    value: Any
    effect: Effect
    retains: bool = False


@dataclass(frozen=True)
class Modes:
    """The kwargs to sweep, the default first; the settings found; what was left out.

    ``without_effect`` are the kwargs of which no value changed any probe. ``alike`` holds values
    that are not swept, each with the one tried before that renders the same.
    """

    sweep: tuple[Mapping[str, Any], ...]
    settings: tuple[Setting, ...]
    left_out: tuple[Mapping[str, Any], ...] = ()
    without_effect: tuple[str, ...] = ()
    alike: tuple[tuple[Mapping[str, Any], Mapping[str, Any]], ...] = ()


def discover(
    server: Server,
    candidates: Iterable[tuple[str, Sequence[Any]]],
    *,
    several_names: bool = False,
) -> Modes:
    """Try every candidate value on a few conversations and sweep those that matter.

    ``several_names``: candidates are other names of one another, so that of values that render
    alike the first is enough.
    """
    candidates = list(candidates)
    settings: list[Setting] = []
    alike: list[tuple[Mapping[str, Any], Mapping[str, Any]]] = []
    known: dict[tuple[str, ...], Setting] = {}
    for name, values in candidates:
        for value in values:
            setting = _classify(server, name, value)
            if setting is None:
                continue
            if several_names:
                same = known.setdefault(_everything(server, {name: value}), setting)
                if same is not setting:
                    alike.append(({name: value}, {same.name: same.value}))
                    continue
            settings.append(setting)
    modes: list[dict[str, Any]] = [{}]
    modes += [{s.name: s.value} for s in settings if s.effect == "mode"]
    modes += [{s.name: s.value} for s in settings if s.effect == "head"]
    keeping = [s for s in settings if s.effect == "retention" and s.retains]
    swept = modes + [{**mode, s.name: s.value} for s in keeping for mode in modes]
    effective = {setting.name for setting in settings} | {
        name for like, _ in alike for name in like
    }
    without = [name for name, _ in candidates if name not in effective]
    return Modes(
        tuple(swept[:LIMIT]), tuple(settings), tuple(swept[LIMIT:]), tuple(without), tuple(alike)
    )


def _everything(server: Server, kwargs: Kwargs) -> tuple[str, ...]:
    """What kwargs make of every conversation that is tried."""
    asked = [(messages, tools, True) for messages, tools in questions()]
    return tuple(
        _shown(server, messages, tools, kwargs, generation_prompt=generation_prompt)
        for messages, tools, generation_prompt in (*asked, *histories())
    )


def _classify(server: Server, name: str, value: Any) -> Setting | None:
    """The effect of one kwarg value; None where no probe shows any."""
    kwargs = {name: value}
    for messages, tools in questions():
        default = _shown(server, messages, tools, {})
        changed = _shown(server, messages, tools, kwargs)
        if default and not changed:
            return None  # not even a question renders: no request says this
        if default != changed:
            bare = _shown(server, messages, tools, {}, generation_prompt=False)
            return Setting(name, value, _where(default, changed, bare))
    gained, differs = 0, False
    for messages, tools, generation_prompt in histories():
        default = _shown(server, messages, tools, {}, generation_prompt=generation_prompt)
        changed = _shown(server, messages, tools, kwargs, generation_prompt=generation_prompt)
        differs = differs or default != changed
        gained += len(changed) - len(default)
    return Setting(name, value, "retention", retains=gained > 0) if differs else None


def _shown(
    server: Server,
    messages: Sequence[Message],
    tools: Tools,
    kwargs: Kwargs,
    *,
    generation_prompt: bool = True,
) -> str:
    """The prompt; nothing where it cannot be rendered, which is an effect like any other."""
    try:
        return server.prompt(messages, tools, kwargs, generation_prompt=generation_prompt)
    except (Refused, Crashed, Unpresentable):
        return ""


def _where(default: str, changed: str, bare: str) -> Effect:
    """Whether a prompt changed in its generation prompt or before it."""
    head = common_prefix(default, bare)
    return "mode" if common_prefix(default, changed) >= head else "head"


@cache
def questions() -> tuple[tuple[tuple[Message, ...], Tools], ...]:
    """Conversations without an answer: with and without a system message, and with tools."""
    opening = PROBE.turns[0].new_messages
    return (opening, None), (opening[1:], None), (opening, TOOLS)


@cache
def histories() -> tuple[tuple[tuple[Message, ...], Tools, bool], ...]:
    """Conversations with answers: reasoning in its field and inside the content, and calls."""
    chat = _conversation(PROBE, 2)
    return (
        (chat, None, True),
        (tuple(map(_inline, chat)), None, True),
        (chat[:-1], None, False),
        (_conversation(PROBE_CALLS, 2), TOOLS, True),
    )


def _conversation(scenario: Scenario, answers: int) -> tuple[Message, ...]:
    """So many turns of a scenario, and what is said after them."""
    messages: list[Message] = []
    for turn in scenario.turns[:answers]:
        messages.extend(numbered(turn.new_messages, _IDS))
        assert turn.answer is not None
        messages.append(assistant_message(turn.answer, _IDS))
    return (*messages, *numbered(scenario.turns[answers].new_messages, _IDS))


def _inline(message: Message) -> Message:
    """An answer as a server without a reasoning parser returns it."""
    if message.get("role") != "assistant":
        return message
    content = f"<think>\n{message.get('reasoning')}\n</think>\n\n{message.get('content')}"
    return {"role": "assistant", "content": content}
