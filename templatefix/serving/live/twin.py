"""Our own rendering of what a server renders, for servers that keep token ids to themselves.

Its word counts as long as the lengths that the server reports agree with it.
"""

from __future__ import annotations

from templatefix.chat.conversation import answer_of
from templatefix.chat.present import Unpresentable
from templatefix.checking.limited import too_much
from templatefix.checking.options import CheckOptions
from templatefix.checking.subject import Subject, prepare
from templatefix.dialect.author import Unspoken
from templatefix.dialect.parsers import stripped
from templatefix.errors import TargetError
from templatefix.render import Crashed, OverLimit, Refused, SyntaxFault
from templatefix.serving.live.drive import Exchange
from templatefix.source import ChatTemplate
from templatefix.syntax import Unparsable, located
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
            message = located(fault.message, fault.line)
            raise TargetError(template.display, message, "mend the template", fault.code) from None
        if self._subject.encoder.approximate:
            hint = "name a model directory or a hub id"
            raise TargetError(template.display, "comes without the model's tokenizer", hint)

    def __call__(self, exchange: Exchange) -> list[int] | None:
        """The ids that an exchange asks for, if they are as many as the server counted."""
        subject, messages, answer = self._subject, exchange.messages, exchange.answer
        tools, kwargs = exchange.tools, exchange.kwargs
        written = None
        try:
            prompt = subject.server.prompt(messages, tools, kwargs)
            if answer is not None:
                # The fields carry the whitespace that the parser left around them.
                meant = stripped(answer_of(answer))
                written = subject.author.completion(messages, tools, kwargs, meant, None).written
        except OverLimit as over:
            raise too_much(subject.template, over) from None
        except (Refused, Crashed, Unpresentable, Unspoken):
            return None
        ids = subject.encoder.encode(prompt)
        if answer is not None:
            if written is None:
                return None
            ids = completion_ids(subject.encoder, prompt, ids, written.text)
        return ids if len(ids) == exchange.length else None
