"""Findings of TF2xx that somebody asked to have repaired, before the ladder is climbed.

A fix has a contract of its own: every input that rendered is rendered byte for byte as before,
but for what the finding is about; refusals stay in the same words; and the finding is gone.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from types import MappingProxyType

from templatefix.checking import CheckOptions
from templatefix.patching.edits import Overlap, apply
from templatefix.patching.fixes import bos, crash, names, prompt, unprinted
from templatefix.patching.fixes.ground import Ground, Leave, Proposal, again, survey
from templatefix.render import SyntaxFault
from templatefix.source.template import ChatTemplate
from templatefix.syntax import Unparsable

#: Changes that one code may take, proposals looked at for each, and those of them that are driven
#: through all the runs of a check.
STEPS, PROPOSALS, SURVEYS = 8, 60, 4


@dataclass(frozen=True)
class Fixer:
    """What to try for a code, in the order of preference, and what may come out otherwise."""

    proposals: Callable[[Ground], Iterator[Proposal]]
    leave: Leave


FIXERS: Mapping[str, Fixer] = MappingProxyType(
    {
        # A name that is not there may crash, and a crash hides what else is wrong: they go first.
        "TF205": Fixer(names.proposals, names.leave),
        "TF203": Fixer(crash.proposals, crash.leave),
        "TF204": Fixer(prompt.proposals, prompt.leave),
        "TF201": Fixer(bos.proposals, bos.leave),
        "TF202": Fixer(unprinted.proposals, unprinted.leave),
    }
)


@dataclass(frozen=True)
class Mending:
    """What came of one code: ``words`` say what was changed, ``tried`` counts the inputs that had
    to stay as they were, ``left`` what is still found where no fix was."""

    code: str
    found: bool
    words: tuple[str, ...] = ()
    tried: int = 0
    left: str = ""


@dataclass(frozen=True)
class Mended:
    """The text with all fixes that were found, and what came of each code."""

    text: str
    mendings: tuple[Mending, ...]

    @property
    def changed(self) -> bool:
        return any(mending.words for mending in self.mendings)

    @property
    def failed(self) -> bool:
        return any(mending.left for mending in self.mendings)


def mend(template: ChatTemplate, codes: Sequence[str], options: CheckOptions) -> Mended:
    """Fix what is asked for, as far as it shows. Raises as :func:`survey` does."""
    ground = survey(template, options)
    mendings = []
    for code in (each for each in FIXERS if each in codes):
        ground, mending = _mend(ground, code, options)
        mendings.append(mending)
    # What one fix has uncovered, another that is asked for as well may have gone past.
    mendings = [_checked(ground, mending) for mending in mendings]
    changed = any(mending.words for mending in mendings)
    return Mended(ground.source if changed else template.text, tuple(mendings))


def _mend(ground: Ground, code: str, options: CheckOptions) -> tuple[Ground, Mending]:
    words: list[str] = []
    tried = 0
    for _ in range(STEPS):
        if not ground.shown(code):
            break
        found = _step(ground, code, options)
        if found is None:
            break
        tried = max(tried, sum(case.outcome.crash is None for case in ground.cases))
        ground, proposal = found
        words.append(proposal.words)
    mending = Mending(code, bool(words), tuple(dict.fromkeys(words)), tried)
    return ground, mending


def _checked(ground: Ground, mending: Mending) -> Mending:
    shown = ground.shown(mending.code)
    left = "; ".join(dict.fromkeys(finding.message for finding in shown))
    return replace(mending, found=bool(shown) or mending.found, left=left)


def _step(ground: Ground, code: str, options: CheckOptions) -> tuple[Ground, Proposal] | None:
    """The first proposal that keeps what has to stay and leaves the first finding no more."""
    fixer = FIXERS[code]
    first = ground.shown(code)[0]
    known = {finding.code for finding in ground.findings}
    spare: tuple[Ground, Proposal] | None = None
    surveys = 0
    for proposal in islice(fixer.proposals(ground), PROPOSALS):
        text = _keeping(ground, proposal, fixer.leave)
        if text is None:
            continue
        if surveys >= SURVEYS:
            break
        surveys += 1
        try:
            changed = again(ground, text, options)
        except (Unparsable, SyntaxFault):
            continue
        if any((f.detail, f.line) == (first.detail, first.line) for f in changed.shown(code)):
            continue
        if {finding.code for finding in changed.findings} <= known:
            return changed, proposal
        spare = spare or (changed, proposal)
    return spare


def _keeping(ground: Ground, proposal: Proposal, leave: Leave) -> str | None:
    """The text with a proposal made, where all inputs that may not change stay as they were."""
    try:
        text = apply(ground.source, proposal.edits)
        server = ground.server(text)
    except (Overlap, SyntaxFault):
        return None
    return text if ground.departs(server, leave) is None else None
