"""Who renders a target: we do, or a running server, which may not need a template for it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from templatefix.chat.battery import TOOLS
from templatefix.chat.conversation import Message
from templatefix.chat.present import Unpresentable, names_developer
from templatefix.chat.served import ServedChat
from templatefix.chat.served_tokens import ServedEncoder
from templatefix.chat.server import Server, Tools
from templatefix.errors import TargetError
from templatefix.render import Crashed, JinjaRenderer, Refused
from templatefix.render.remote import Remote
from templatefix.replay.modes import histories, questions
from templatefix.source.template import ChatTemplate
from templatefix.syntax import Template, content_format, literals, parse, reads_attribute
from templatefix.tokens import Encoder, load_encoder

#: What tells tokenizers apart: words, numbers, spaces, accents, scripts, code.
_SPECIMEN = (
    "Which city lies at the mouth of the Douro? 1234567 + 89 = x\n\n    def café():\n"
    "\treturn 'Öl, œuvre, 河口の街'  # … 🏖\n"
)


_NO_CALLS = "the template does not read tool calls"


@dataclass(frozen=True)
class Rendering:
    """A target and who renders it; the template is empty where a server renders without it.

    ``texts`` is what may be printed, but for the texts of messages. ``without_tools`` is why no
    run can use tools, ``without_lines`` why findings have no lines; both are "" as a rule.
    """

    template: ChatTemplate
    parsed: Template
    server: Server
    encoder: Encoder
    texts: tuple[str, ...]
    without_tools: str
    without_lines: str = ""


def by_us(template: ChatTemplate, parsed: Template) -> Rendering:
    """Raises ``SyntaxFault`` or ``TargetError``."""
    texts = _texts_of(template, parsed)
    server = _our_server(template, parsed)
    encoder = load_encoder(template.tokenizer, texts)
    without_tools = "" if reads_attribute(parsed, "tool_calls") else _NO_CALLS
    return Rendering(template, parsed, server, encoder, texts, without_tools)


def served(template: ChatTemplate, parsed: Template, remote: Remote) -> Rendering:
    """Find out how a server renders ``template``. Raises ``SyntaxFault`` or ``TargetError``."""
    encoder = _encoder(template, parsed, remote)
    chat = ServedChat(remote, _our_server(template, parsed), encoder)
    without_lines = _without_lines(template, chat)
    if without_lines:
        template = replace(template, text="", display=template.target, name=None)
        parsed = parse("")
        chat = ServedChat(remote, _our_server(template, parsed), encoder)
        texts = (*_prompts(chat), *template.special_tokens.values())
    else:
        texts = _texts_of(template, parsed)
    if isinstance(encoder, ServedEncoder):
        encoder.look_for_special_tokens(texts, chat.seen_ids())
    without_tools = _without_tools(template, parsed, chat)
    return Rendering(template, parsed, chat, encoder, texts, without_tools, without_lines)


def _our_server(template: ChatTemplate, parsed: Template) -> Server:
    """The server's half of a chat, played by us. Raises ``SyntaxFault``."""
    renderer = JinjaRenderer(template.text, template.special_tokens)
    return Server(renderer, content_format(parsed), names_developer(template.text))


def _texts_of(template: ChatTemplate, parsed: Template) -> tuple[str, ...]:
    """What a template may print, but for the texts of messages."""
    return (*literals(parsed), *template.special_tokens.values())


def _encoder(template: ChatTemplate, parsed: Template, remote: Remote) -> Encoder:
    """The target's own tokenizer where it can be read and is the server's, else the server's."""
    served = ServedEncoder(remote)
    if template.tokenizer is None:
        return served
    try:
        own = load_encoder(template.tokenizer, _texts_of(template, parsed))
    except TargetError:
        return served
    if own.encode(_SPECIMEN) != served.encode(_SPECIMEN):
        raise TargetError(
            template.display,
            f"its tokenizer is not that of {remote.model!r}, which {remote.url} serves",
            "name the model that is served, or give its --tokenizer",
        )
    return own


def _without_lines(template: ChatTemplate, chat: ServedChat) -> str:
    """Why no line of the template can be blamed; "" where the server renders as it does."""
    if not template.text:
        return "the target has no template"
    asked = [(messages, tools, True) for messages, tools in questions()]
    for messages, tools, generation_prompt in (*asked, *histories()):
        if not chat.agrees(messages, tools, generation_prompt=generation_prompt):
            borrowed = "" if template.tokenizer else " (its special tokens come with --tokenizer)"
            return f"the server does not render as the target's template does{borrowed}"
    return ""


def _without_tools(template: ChatTemplate, parsed: Template, chat: ServedChat) -> str:
    """Why no run can use tools; "" where one can."""
    if template.text and not reads_attribute(parsed, "tool_calls"):
        return _NO_CALLS
    asked, told = _question_with_tools(), _history_with_calls()
    try:
        chat.prompt(asked, None, {})
        chat.prompt(asked, TOOLS, {})
    except (Refused, Crashed, Unpresentable) as fault:
        return "" if template.text else f"the server takes no tools: {_words(fault)}"
    if template.text:
        return ""
    try:
        shown = chat.prompt(told, TOOLS, {})
    except (Refused, Crashed, Unpresentable) as fault:
        return f"the server takes no tool calls: {_words(fault)}"
    names = [
        call["function"]["name"] for message in told for call in message.get("tool_calls") or ()
    ]
    bare = chat.prompt(asked, TOOLS, {})
    if all(shown.count(name) > bare.count(name) for name in names):
        return ""
    return "what the server renders does not show tool calls"


def _question_with_tools() -> Sequence[Message]:
    return next(messages for messages, tools in questions() if tools)


def _history_with_calls() -> list[Message]:
    """Without reasoning, which some servers refuse, and which is another matter."""
    told = next(messages for messages, tools, _ in histories() if tools)
    return [
        {name: value for name, value in message.items() if not name.startswith("reasoning")}
        for message in told
    ]


def _words(fault: Refused | Crashed | Unpresentable) -> str:
    return fault.what if isinstance(fault, Unpresentable) else fault.message


def _inline(messages: Sequence[Message]) -> bool:
    """Whether answers bring the tags of their reasoning themselves: then those tell nothing."""
    return any("</think>" in str(message.get("content")) for message in messages)


def _prompts(chat: ServedChat) -> Iterator[str]:
    """What the server prints, where no template tells what it may print."""
    tried: list[tuple[Sequence[Message], Tools]] = [
        *questions(),
        *((messages, tools) for messages, tools, _ in histories() if not _inline(messages)),
        (_history_with_calls(), TOOLS),
    ]
    for messages, tools in tried:
        try:
            yield chat.prompt(messages, tools, {})
        except (Refused, Crashed, Unpresentable):
            continue
