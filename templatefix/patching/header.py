"""The comment at the head of a patched template: what was changed, why, and by whom."""

from __future__ import annotations

import difflib
import re
import textwrap

from templatefix import __version__
from templatefix.patching.candidate import Candidate
from templatefix.policy import HEADER, ORIGINAL

_RUNGS = {
    1: "a kwarg's default was changed",
    2: "conditions that depend on the position were widened",
    3: "outputs for past answers were edited",
    4: "the branch for answers was rebuilt",
    5: "the original is folded: an inner macro renders each turn as if it were the last",
}


#: The header of a template that was patched before, with the newline that ends it.
_EARLIER = re.compile(
    r"\{#\n(?P<told>  Patched by templatefix (?:(?!#\}).)*)\n"
    r"  original-sha256: (?P<sha256>[0-9a-f]{64})\n  templatefix-policy: [a-z-]+\n#\}\n",
    re.DOTALL,
)

#: No more changed lines than this are named.
_LINES = 12


def changed_lines(original: str, text: str) -> tuple[str, ...]:
    """One note for each run of changed lines, by their numbers in the original."""
    before, after = original.split("\n"), text.split("\n")
    matcher = difflib.SequenceMatcher(None, before, after, autojunk=False)
    notes = []
    for kind, start, end, new_start, new_end in matcher.get_opcodes():
        if kind == "equal":
            continue
        if end - start == new_end - new_start:
            notes += [
                f"line {number + 1}: {_short(after[new_start + number - start])}"
                for number in range(start, end)
            ]
        else:
            notes.append(
                f"lines {start + 1} to {end}: {_short(' '.join(after[new_start:new_end]))}"
            )
    if len(notes) > _LINES:
        notes = [*notes[: _LINES - 1], f"and {len(notes) - _LINES + 1} more"]
    return tuple(notes)


def _short(line: str) -> str:
    words = " ".join(line.split())
    return words if len(words) <= 160 else words[:157] + "..."


def with_header(candidate: Candidate, before: str, sha256: str, policy: str) -> str:
    """The candidate's text under its header, which renders as nothing.

    ``before`` is the text that it was made of, ``sha256`` what that hashes to. Where it has such a
    header already, there is one afterwards, which tells of both and names the first original.

    A newline right after a comment is removed by ``trim_blocks``, so that what follows starts
    as it did.
    """
    earlier = _EARLIER.match(before)
    told = ["Before that:", *textwrap.dedent(earlier["told"]).split("\n")] if earlier else []
    text = candidate.text.replace(earlier[0], "", 1) if earlier else candidate.text
    lines = [
        *_title(candidate),
        *(
            line
            for note in candidate.notes
            for line in textwrap.wrap(_plain(note), 94, initial_indent="- ", subsequent_indent="  ")
        ),
        *told,
        ORIGINAL.format(sha256=earlier["sha256"] if earlier else sha256),
        HEADER.format(policy=policy),
    ]
    return "{#\n" + "\n".join(f"  {line}" for line in lines) + "\n#}\n" + text


def _title(candidate: Candidate) -> list[str]:
    """What was done; a candidate without a rung has nothing but fixes, which its notes name."""
    if not candidate.rung:
        return [f"Patched by templatefix {__version__}:"]
    why = (
        "so that history is rendered as the model wrote it, and the KV cache of the last answer "
        "can be reused"
    )
    return [
        f"Patched by templatefix {__version__}, rung {candidate.rung}:",
        *textwrap.wrap(f"{_RUNGS[candidate.rung]}, {why}.", 96),
    ]


def _plain(note: str) -> str:
    """A note that cannot end the comment it stands in."""
    return note.replace("#}", "# }").replace("{#", "{ #")
