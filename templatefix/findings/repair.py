"""What came of repairing one template: the values that a report of it is made of."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from templatefix.findings.finding import Severity
from templatefix.findings.run_outcome import RunOutcome
from templatefix.source.template import ChatTemplate

#: ``unchanged``: nothing breaks within the policy's scope; ``failed``: no candidate was good.
RepairStatus = Literal["unchanged", "patched", "failed"]

#: Where the commands that we suggest write a repaired template.
_SUGGESTED = "fixed.jinja"


def patch_words(template: ChatTemplate) -> tuple[str, ...]:
    """The command that repairs a template: the one that it was patched from, where that is known.

    It replaces its output where that is what the template was read from.

    >>> " ".join(patch_words(ChatTemplate("model", "model/chat_template.jinja", "")))
    'templatefix patch model --out fixed.jinja'
    >>> " ".join(patch_words(ChatTemplate("./fixed.jinja", "fixed.jinja", "")))
    'templatefix patch ./fixed.jinja --out fixed.jinja --force'
    """
    read = template.arguments or (template.target,)
    again = any(os.path.normpath(word) == _SUGGESTED for word in read)
    force = ("--force",) if again else ()
    return ("templatefix", "patch", *(template.original or read), "--out", _SUGGESTED, *force)


@dataclass(frozen=True)
class ClauseOutcome:
    """One clause of the contract: ``tried`` counts the inputs that it was judged on."""

    clause: str
    passed: bool
    tried: int
    notes: tuple[str, ...] = ()


@dataclass(frozen=True)
class Refusal:
    """A candidate that was refused: its rung, the clause it broke, and what shows that.

    ``rung`` is None for the original itself. ``conversation`` has the form that
    ``--conversation`` takes, where there is one.
    """

    rung: int | None
    clause: str
    message: str
    conversation: Mapping[str, Any] | None = None


@dataclass(frozen=True)
class Rungless:
    """A rung that had no candidate, and what stood in the way."""

    rung: int
    why: str


@dataclass(frozen=True)
class Broken:
    """A comparison that does not preserve; ``turn`` is the later request."""

    code: str
    run_id: str
    turn: int
    lost_tokens: int


@dataclass(frozen=True)
class Remaining:
    """A loss of reuse that ``check`` shows on the file: one of its findings, as it marks it.

    ``edge``: no core run shows it, so that it never decides a verdict. ``run_id`` is the first of
    ``runs`` runs that do (None for what shows without one: a clock), ``turn`` its request that
    loses. ``mode_switch``: only a client that changes the mode between requests loses; ``note``
    says then why that stays.
    """

    code: str
    severity: Severity
    edge: bool
    message: str
    run_id: str | None
    runs: int
    turn: int | None
    lost_tokens: int | None
    mode_switch: bool = False
    note: str = ""


@dataclass(frozen=True)
class FixOutcome:
    """A code that was to be fixed, and what came of it.

    ``changes`` say what was done (nothing where the code did not show), ``tried`` counts the inputs
    that had to be rendered as before, ``left`` is what is still found where there was no fix.
    """

    code: str
    changes: tuple[str, ...]
    tried: int
    left: str = ""

    @property
    def status(self) -> Literal["fixed", "not-shown", "not-found"]:
        if self.left:
            return "not-found"
        return "fixed" if self.changes else "not-shown"


@dataclass(frozen=True)
class Trade:
    """What the repaired template costs and saves in one mode, over all its core runs.

    ``requests`` counts those that come after another one. ``extra_context`` is how many tokens
    their prompts grew by in all, ``saved_prefill`` how many fewer of their tokens a server has to
    compute; both are negative where it is the other way round.
    """

    kwargs: Mapping[str, Any]
    requests: int
    extra_context: int
    saved_prefill: int


@dataclass(frozen=True)
class RenderCost:
    """What rendering takes after a fold, in a chat of ``turns`` turns.

    ``steps`` and ``steps_before`` are executed outputs and loop bodies a turn, the same on every
    machine; ``milliseconds`` a turn and ``ratio``, how often the original's time it is, were
    measured where the repair was made.
    """

    turns: int
    steps: int
    steps_before: int
    milliseconds: float
    ratio: float


@dataclass(frozen=True)
class RepairReport:
    """The outcome for one template.

    ``text`` is the template to serve, with the newlines of the original; None when the repair
    failed. ``broken`` counts the core comparisons that broke within the policy's scope,
    ``excluded`` those that still break because the policy leaves them alone. ``flag_kwargs`` are
    the defaults that a server can be given instead of the changed template. ``render_cost`` is
    that of a fold. ``remaining`` is what ``check`` still shows of ``text``; of the original where
    the repair failed. Then ``unrepaired`` are the comparisons in scope, and ``failing`` is a small
    case of what could not be mended. ``runs`` are those of a faithful client under ``text``, where
    it differs from ``source``.
    """

    target: str
    display: str
    template_name: str | None
    policy: str
    block_size: int
    status: RepairStatus
    original_sha256: str
    source: str
    text: str | None = None
    patched_sha256: str | None = None
    tokenizer_source: str | None = None
    tokenizer_approximate: bool = True
    rung: int | None = None
    changes: tuple[str, ...] = ()
    flag_kwargs: Mapping[str, Any] | None = None
    clauses: tuple[ClauseOutcome, ...] = ()
    seed: int = 0
    examples: int = 0
    broken: int = 0
    excluded: int = 0
    remaining: tuple[Remaining, ...] = ()
    unrepaired: tuple[Broken, ...] = ()
    failing: Refusal | None = None
    fixes: tuple[FixOutcome, ...] = ()
    trades: tuple[Trade, ...] = ()
    refusals: tuple[Refusal, ...] = ()
    passed_over: tuple[Rungless, ...] = ()
    render_cost: RenderCost | None = None
    runs: tuple[RunOutcome, ...] = ()
