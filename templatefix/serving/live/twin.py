"""Our own rendering of what a server renders, for servers that keep token ids to themselves.

Its word counts as long as the lengths that the server reports agree with it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from templatefix.chat.conversation import Message, answer_of
from templatefix.chat.present import Unpresentable
from templatefix.checking.limited import CODE, HINT
from templatefix.checking.options import CheckOptions
from templatefix.checking.subject import Subject, prepare
from templatefix.dialect.author import Unspoken
from templatefix.dialect.parsers import stripped
from templatefix.errors import TargetError
from templatefix.render import Crashed, OverLimit, Refused, SyntaxFault
from templatefix.source import ChatTemplate
from templatefix.syntax import Unparsable
from templatefix.tokens import completion_ids


class Twin:
    """A template and a tokenizer that are said to be the server's.

    Raises ``TargetError`` for a template that does not compile or comes without its tokenizer, and
    whenever it takes more than it may.
    """

    def __init__(self, template: ChatTemplate) -> None:
        try:
            self._subject: Subject = prepare(template, CheckOptions())
        except (Unparsable, SyntaxFault) as fault:
            raise _refused(template, fault, "mend the template", fault.code) from None
        if self._subject.encoder.approximate:
            hint = "name a model directory or a hub id"
            raise TargetError(template.display, "comes without the model's tokenizer", hint)

    def prompt_ids(
        self, messages: Sequence[Message], body: Mapping[str, Any], length: int
    ) -> list[int] | None:
        """The ids of a request's prompt, if they are as many as the server computed."""
        subject = self._subject
        try:
            text = subject.server.prompt(messages, body.get("tools"), _kwargs(body))
        except OverLimit as over:
            raise _refused(subject.template, over, HINT, CODE) from None
        except (Refused, Crashed, Unpresentable):
            return None
        ids = subject.encoder.encode(text)
        return ids if len(ids) == length else None

    def completion_ids(
        self,
        messages: Sequence[Message],
        body: Mapping[str, Any],
        answer: Message,
        length: int,
    ) -> list[int] | None:
        """The ids that were parsed into an answer, if they are as many as the server wrote."""
        subject, tools, kwargs = self._subject, body.get("tools"), _kwargs(body)
        try:
            prompt = subject.server.prompt(messages, tools, kwargs)
            # The fields carry the whitespace that the parser left around them.
            meant = stripped(answer_of(answer))
            completion = subject.author.completion(messages, tools, kwargs, meant, None)
        except OverLimit as over:
            raise _refused(subject.template, over, HINT, CODE) from None
        except (Refused, Crashed, Unpresentable, Unspoken):
            return None
        if completion.written is None:
            return None
        encoder = subject.encoder
        ids = completion_ids(encoder, prompt, encoder.encode(prompt), completion.written.text)
        return ids if len(ids) == length else None


def _refused(
    template: ChatTemplate, fault: Unparsable | SyntaxFault | OverLimit, hint: str, code: str
) -> TargetError:
    where = f"line {fault.line}: " if fault.line else ""
    return TargetError(template.display, f"{where}{fault.message}", hint, code)


def _kwargs(body: Mapping[str, Any]) -> Mapping[str, Any]:
    kwargs: Mapping[str, Any] = body.get("chat_template_kwargs") or {}
    return kwargs
