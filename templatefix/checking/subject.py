"""A template made ready to be checked: parsed, compiled, with tokenizer and parsers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TypeVar

from templatefix.chat.battery import PROBE
from templatefix.chat.present import Unpresentable
from templatefix.chat.server import Server
from templatefix.checking.options import CheckOptions
from templatefix.checking.rendering import by_us, served
from templatefix.dialect import named
from templatefix.dialect.author import Author
from templatefix.dialect.parsers import Parsers
from templatefix.errors import TargetError
from templatefix.findings.finding import Streams
from templatefix.findings.streams import streams_of
from templatefix.prefix import common_prefix
from templatefix.render import Crashed, Refused
from templatefix.render.remote import Remote
from templatefix.replay.run import Comparison
from templatefix.source.template import ChatTemplate
from templatefix.syntax import Template, named_kwargs, parse
from templatefix.tokens import Encoder

D = TypeVar("D")

#: The conversation that shows a template's usual prompt.
GREETING = ({"role": "user", "content": "Which city lies at the mouth of the Douro?"},)


@dataclass(frozen=True)
class Subject:
    """A template made ready: parsed, compiled, with its tokenizer and its parsers."""

    template: ChatTemplate
    parsed: Template
    server: Server
    encoder: Encoder
    author: Author
    #: Why there are no runs with tools; "" where there are.
    without_tools: str = ""
    #: Why findings have no lines; "" where they have.
    without_lines: str = ""
    #: Whether reports show the tokens around each divergence.
    full: bool = False

    @property
    def speaks_tools(self) -> bool:
        return not self.without_tools

    def streams(self, comparison: Comparison) -> Streams | None:
        """Both sides of a divergence, token by token; None where no report shows them."""
        return streams_of(comparison, self.encoder) if self.full else None


def prepare(template: ChatTemplate, options: CheckOptions, remote: Remote | None = None) -> Subject:
    """Parse and compile a template and load its tokenizer.

    With ``remote``, prompts and answers are those of a running server. Where it does not render
    as the template does, or there is none (an empty text), the subject's template is empty.

    Raises ``Unparsable``, ``SyntaxFault`` or ``TargetError``.
    """
    parsed = parse(template.text)
    template = replace(template, special_tokens=_special_tokens(template, parsed))
    rendering = by_us(template, parsed) if remote is None else served(template, parsed, remote)
    template, encoder, texts = rendering.template, rendering.encoder, rendering.texts
    parsers = _parsers(texts, _usual_tail(rendering.server), options, template.target)
    stops = _stop_tokens(template, encoder)
    # With a generation config the set is whole; without one, what the template ends a turn with
    # may belong to it.
    added = () if template.stop_token_ids else encoder.special_tokens()
    return Subject(
        template,
        rendering.parsed,
        rendering.server,
        encoder,
        Author(rendering.server, stops, added, texts, parsers),
        rendering.without_tools,
        rendering.without_lines,
        options.full,
    )


def _special_tokens(template: ChatTemplate, parsed: Template) -> dict[str, str]:
    """The special tokens, with placeholders for those that the template reads and nothing gives.

    A template that comes without its tokenizer would otherwise fail on the first of them.
    """
    tokens = dict(template.special_tokens)
    if template.tokenizer is None:
        for name in sorted(named_kwargs(parsed)):
            if name.endswith("_token"):
                tokens.setdefault(name, f"<|{name.removesuffix('_token')}|>")
    return tokens


def _usual_tail(server: Server) -> str:
    try:
        prompt = server.prompt(GREETING, None, {})
        bare = server.prompt(GREETING, None, {}, generation_prompt=False)
    except (Refused, Crashed, Unpresentable):
        return ""
    return prompt[common_prefix(prompt, bare) :]


def _parsers(texts: Sequence[str], tail: str, options: CheckOptions, target: str) -> Parsers:
    inferred = Parsers.inferred(texts, tail)
    reasoning, tool = inferred.reasoning, inferred.tool
    if options.reasoning_parser is not None:
        reasoning = _named("reasoning", options.reasoning_parser, named.REASONING, target)
    if options.tool_call_parser is not None:
        tool = _named("tool call", options.tool_call_parser, named.TOOLS, target)
    return Parsers(reasoning, tool)


def _named(kind: str, name: str, known: Mapping[str, D], target: str) -> D:
    dialect = known.get(name)
    if dialect is None:
        what = f"no dialect for the {kind} parser {name!r}"
        raise TargetError(target, what, "known: " + ", ".join(sorted(known)))
    return dialect


def _stop_tokens(template: ChatTemplate, encoder: Encoder) -> tuple[str, ...]:
    """The tokens that end generation, those of the generation config first."""
    found = [encoder.token_text(token_id) for token_id in template.stop_token_ids]
    eos = template.special_tokens.get("eos_token")
    return tuple(dict.fromkeys(text for text in [*found, eos] if text))


def refuses_system(server: Server) -> bool:
    """Whether the template raises on a system message and not without one."""
    try:
        server.prompt(GREETING, None, {})
    except (Refused, Crashed):
        return False
    try:
        server.prompt(PROBE.turns[0].new_messages, None, {})  # the greeting, after such a message
    except Refused:
        return True
    except Crashed:
        return False
    return False
