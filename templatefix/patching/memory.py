"""What a bench has found out once: it holds whatever the policy, and whatever a search finds."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from templatefix.chat.conversation import Scenario
from templatefix.chat.present import Unpresentable
from templatefix.chat.server import Server
from templatefix.checking.subject import Subject
from templatefix.dialect.author import Unspoken
from templatefix.errors import again
from templatefix.render import Crashed, JinjaRenderer, Refused
from templatefix.replay.run import Plan, Run, replay

#: Candidates whose compiled templates and prompts are kept, the latest used ones.
SERVERS = 64

#: Why a conversation cannot be replayed.
Fault = Unspoken | Unpresentable | Refused | Crashed


@dataclass
class Memory:
    """Conversations as the original renders them, what was drawn of them, and servers.

    ``drawn`` are generated conversations by their number and the seed, ``steps`` what a long chat
    costs by the template's text, the number of messages, whether there are tools, and kwargs;
    ``servers`` are those of candidates by their texts.
    """

    runs: dict[str, Run | Fault] = field(default_factory=dict)
    drawn: dict[tuple[int, int], tuple[tuple[Scenario, Mapping[str, Any]], ...]] = field(
        default_factory=dict
    )
    steps: dict[tuple[str, int, bool, str], int | None] = field(default_factory=dict)
    servers: OrderedDict[str, Server] = field(default_factory=OrderedDict)

    def run(self, plan: Plan, subject: Subject, block_size: int) -> Run:
        """A plan under the original. Raises one of :data:`Fault`."""
        key = repr(plan)
        known = self.runs.get(key)
        if known is None:
            try:
                known = replay(plan, subject.author, subject.encoder, block_size)
            except (Unspoken, Unpresentable, Refused, Crashed) as fault:
                known = again(fault)
            self.runs[key] = known
        if isinstance(known, Run):
            return known
        raise again(known)

    def server(self, text: str, subject: Subject) -> Server:
        """A server of a candidate. Raises ``SyntaxFault``."""
        known = self.servers.get(text)
        if known is None:
            renderer = JinjaRenderer(text, subject.template.special_tokens)
            known = self.servers[text] = subject.server.like(renderer)
            if len(self.servers) > SERVERS:
                self.servers.popitem(last=False)
        self.servers.move_to_end(text)
        return known
