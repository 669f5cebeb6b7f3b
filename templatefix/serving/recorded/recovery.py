"""What a repaired template would have changed: the same streams and requests, priced with it."""

from __future__ import annotations

from dataclasses import replace

from templatefix.chat.present import Unpresentable
from templatefix.chat.server import Server
from templatefix.checking.options import CheckOptions
from templatefix.checking.subject import Subject, prepare
from templatefix.errors import TargetError
from templatefix.findings.recorded import Recovery
from templatefix.render import Crashed, Refused
from templatefix.replay.run import Request, compare
from templatefix.serving.recorded.joining import Held
from templatefix.serving.recorded.pricing import Price
from templatefix.source.template import ChatTemplate


class Recoverer:
    """Repairs the template when the first tokens are lost to it, and adds up what that helps."""

    def __init__(
        self, template: ChatTemplate, subject: Subject, options: CheckOptions, policy: str
    ) -> None:
        self._template = template
        self._subject = subject
        self._options = options
        self._server: Server | None = None
        self.recovery: Recovery | None = None
        self._policy = policy

    def add(self, held: Held, later: Held, price: Price) -> None:
        """Price a request that loses tokens to the template again, under the repaired one."""
        if self.recovery is None:
            self._repair()
        assert self.recovery is not None
        if self._server is None:
            return
        try:
            asked = self._server.prompt(held.messages, held.tools, held.kwargs)
            prompt = self._server.prompt(later.messages, later.tools, later.kwargs)
        except (Refused, Crashed, Unpresentable):
            return
        finally:
            self._server.forget()
        encoder = self._subject.encoder
        before = Request(
            held.messages,
            held.kwargs,
            asked,
            [],
            price.spoken.completion,
            asked + price.spoken.text,
            encoder.encode(asked) + price.spoken.ids.tolist(),
            price.comparison.before.answer,
        )
        ids = encoder.encode(prompt)
        after = Request(later.messages, later.kwargs, prompt, ids, None, prompt, ids)
        repaired = compare(2, before, after, encoder, self._options.block_size)
        hit = repaired.ideal if repaired.preserving else repaired.hit
        lost, still = price.ideal - price.reused, repaired.ideal - hit
        computed = (len(later.ids) - price.reused) - (len(ids) - hit)
        self.recovery = replace(
            self.recovery,
            recovered_tokens=self.recovery.recovered_tokens + lost - still,
            saved_prefill_tokens=self.recovery.saved_prefill_tokens + computed,
        )

    def _repair(self) -> None:
        # A check that loses nothing imports nothing of the patcher.
        from templatefix.patching.repair import PatchOptions, repair

        options = self._options
        asked = PatchOptions(
            policy=self._policy,
            block_size=options.block_size,
            seed=options.seed,
            reasoning_parser=options.reasoning_parser,
            tool_call_parser=options.tool_call_parser,
        )
        try:
            patched = repair(self._template, asked)
        except TargetError:
            self.recovery = Recovery(self._policy, "failed")
            return
        self.recovery = Recovery(self._policy, patched.status)
        if patched.status == "patched" and patched.text is not None:
            template = replace(self._template, text=patched.text)
            self._server = prepare(template, options).server
