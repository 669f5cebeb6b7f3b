"""The text of a rebuilt branch, in Jinja."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from templatefix.patching.edits import Edit
from templatefix.patching.ladder.rebuild_case import CONTENT, REASONING, Case, Evidence
from templatefix.patching.ladder.rebuild_keep import Lines, kept
from templatefix.patching.ladder.rebuild_lines import (
    by_calls,
    comment,
    cut_off,
    deeper,
    either,
    indent_at,
    printed,
    statements,
)
from templatefix.patching.ladder.rebuild_opener import opener_of
from templatefix.patching.ladder.rebuild_place import Unbuildable
from templatefix.patching.ladder.rebuild_tree import Tree, Undecided, condition, decide
from templatefix.patching.proposals.text import ends, is_wrapped, joined, literal
from templatefix.syntax import Template, reads_attribute, spelled

#: Stands for the generation prompt.
_OPENED = "Zq9opened9qZ"

_OPENER = "The generation prompt as it was when this answer was written."
_FIELDS = "The texts of the answer, without what a parser left of the layout around them."
_BRANCH = "A past answer, as the model wrote it."


@dataclass(frozen=True)
class _Names:
    """Variables that the template does not have."""

    opener: str
    reasoning: str
    content: str
    calls: str


def rebuilt(
    template: Template,
    evidence: Evidence,
    holds: Callable[[Case], bool],
    tokens: Mapping[str, str],
) -> tuple[Edit, ...]:
    """The edits that print past answers for which ``holds`` by a branch of their own.

    ``tokens`` are the special tokens by the names of their variables. Raises :class:`Unbuildable`.
    """
    try:
        return _Writer(template, evidence, holds, tokens).edits()
    except Undecided:
        raise Unbuildable("answers of one kind are printed in more than one way") from None


class _Writer:
    def __init__(
        self,
        template: Template,
        evidence: Evidence,
        holds: Callable[[Case], bool],
        tokens: Mapping[str, str],
    ) -> None:
        self.template = template
        self.evidence = evidence
        self.region = evidence.region
        names = ("opener", "reasoning", "words", "call", "function")
        prefix = "turn_"
        while any(prefix + name in template.text for name in names):
            prefix = "past_" + prefix
        self.names = _Names(
            prefix + "opener", prefix + "reasoning", prefix + "words", prefix + "calls"
        )
        self.tokens = {
            token: name
            for name, token in tokens.items()
            if token and name in template.text and token not in template.text
        }
        self.known = [case for case in evidence.known if holds(case)]
        if not self.known:
            raise Unbuildable("it is not known what a model writes")
        thinks = any(case.kind.thought for case in self.known)
        if not thinks:  # then the field is asked for, and not set
            self.names = replace(self.names, reasoning=self._field("reasoning_content"))
        # A template that reads no reasoning, of which nothing is known, leaves it out.
        reads = reads_attribute(template, "reasoning_content")
        self.cases = [case for case in evidence.cases if thinks or reads or not case.kind.thought]
        self.tails = list(dict.fromkeys(case.tail for case in evidence.cases))
        self.opener = (
            opener_of(template, self.region.loop, evidence.pieces) if len(self.tails) > 1 else None
        )
        self.modes = sorted(
            {pair for case in evidence.cases for pair in case.place.kwargs.items()}, key=str
        )
        self.tests = self._tests()

    def _field(self, name: str) -> str:
        return spelled(self.template, self.region.variable, name)

    def _given(self, name: str, other: str) -> str:
        """A field of the message that may be missing.

        To look for it first takes Jinja a tenth of what a look at a missing field does.
        """
        return f"{self._field(name)} or {other} if '{name}' in {self.region.variable} else {other}"

    def edits(self) -> tuple[Edit, ...]:
        region, text = self.region, self.template.text
        indent = indent_at(text, region.start)
        before, after = text[: region.start], text[region.end :]
        dash = "-" if before.endswith("-%}") else ""
        tag = re.match(r"\{%([-+]?)", after)
        own = tag[1] if tag else ""
        lines, branch = self._lines()
        if lines and branch == "true":
            return (Edit(region.start, region.end, printed(lines, indent) + "\n" + indent[:-4]),)
        head = printed(lines, indent) + f"\n{indent}{{%- else {dash}%}}"
        if text[region.start :].startswith(("{%-", "{{-", "{#-")):
            head += "\n" + indent
        if not before.rpartition("\n")[2].strip():
            head = head.lstrip()
        foot = f"{{%{own} endif %}}"
        if own == "-":
            following = indent_at(text, region.end)
            foot = " " * (len(indent) - len(following)) + foot + "\n" + following
        return (Edit(region.start, region.start, head), Edit(region.end, region.end, foot))

    def _lines(self) -> tuple[Lines, str]:
        """The branch with what it needs, up to its ``else``; and the condition for it."""
        role = f"{self._field('role')} == 'assistant'" if self.region.shared else ""
        test = condition(
            self._decide(
                lambda case: "true" if any(case is each for each in self.known) else "false",
                self.cases,
            )
        )
        if self.evidence.parts:
            content = self._field("content")
            # Quicker than ``rejectattr``: nothing is left of the kinds of parts but text.
            other = f"{content} | join(attribute='type') | replace('text', '')"
            texts = f"({content} is string or not {content} or not {other})"
            test = texts if test == "true" else f"{texts} and {test}"
        if self.evidence.last_differs:
            test = "not loop.last" if test == "true" else f"not loop.last and {test}"
        test, fields, branch = self._with_calls(test, self._field_lines(), self._print_lines())
        fields = [*self._opener_lines(), (0, comment(_FIELDS)), *fields]
        if test == "true":
            whole = " ".join(filter(None, (role,))) or "true"
            opened: Lines = [] if whole == "true" else [(0, f"{{%- if {whole} %}}")]
            if whole == "true":
                return [(0, comment(_BRANCH)), *fields, *branch], "true"
            return [*opened, *deeper([(0, comment(_BRANCH)), *fields, *branch])], whole
        if not role and is_wrapped(test) and " if " not in test:
            test = test[1:-1]
        if role:
            fields = [(0, f"{{%- if {role} %}}"), *deeper(fields), (0, "{%- endif %}")]
            test = f"{role} and {test}"
        return [
            *fields,
            (0, f"{{%- if {test} %}}"),
            *deeper([(0, comment(_BRANCH)), *branch]),
        ], test

    def _with_calls(self, test: str, fields: Lines, branch: Lines) -> tuple[str, Lines, Lines]:
        """The variable for calls set where several lines read it, put in where one does."""
        name, field = self.names.calls, self._field("tool_calls")
        words = re.compile(rf"\b{name}\b")
        read = sum(len(words.findall(text)) for text in (test, *(t for _, t in fields + branch)))
        if read > 1:
            value = self._given("tool_calls", "[]")
            return test, [(0, f"{{%- set {name} = {value} %}}"), *fields], branch

        given = f"'tool_calls' in {self.region.variable} and {field}"

        def put(text: str) -> str:
            text = text.replace(f" in {name} %", f" in {field} or [] %")
            return words.sub(f"({given})", text.replace(f"if {name} %", f"if {given} %"))

        fields, branch = ([(d, put(text)) for d, text in lines] for lines in (fields, branch))
        return put(test), fields, branch

    def _opener_lines(self) -> Lines:
        opener, name = self.opener, self.names.opener
        if opener is None:
            return []
        return [(0, comment(_OPENER)), (0, opener.assigned(name))]

    def _field_lines(self) -> Lines:
        """Sets the fields: never none, and without what a parser left around them."""
        names = self.names
        lines: Lines = []
        if any(REASONING in case.before + case.after for case in self.known):
            value = self._given("reasoning_content", "''")
            lines.append((0, f"{{%- set {names.reasoning} = {value} %}}"))
            lines += self._cuts(names.reasoning, 0, lambda case: case.kind.thought)
        words = names.content
        value = f"{words} | default([], true) | join(attribute='text')"
        lines.append((0, f"{{%- set {words} = {self._field('content')} %}}"))
        lines.append((0, f"{{%- set {words} = {words} if {words} is string else {value} %}}"))
        lines += self._cuts(names.content, 1, lambda case: case.kind.words)
        return lines

    def _cuts(self, name: str, field: int, shown: Callable[[Case], bool]) -> Lines:
        cases = [case for case in self.known if shown(case)]
        blank = name == self.names.content

        def cut(case: Case) -> str:
            return "\n".join(cut_off(name, *case.around[field]))

        tests = [test for test in self.tests if test != name]
        tree = decide([(self._outcomes(case), cut(case)) for case in cases], tests)
        lines = statements(tree, lambda text: [(0, each) for each in text.split("\n") if each])
        if blank and any(case.around[1] != ("", "") for case in cases):
            lines.append((0, f"{{%- if not {name} | trim %}}"))
            lines.append((1, f"{{%- set {name} = '' %}}"))
            lines.append((0, "{%- endif %}"))
        return lines

    def _print_lines(self) -> Lines:
        """Prints the answer: what comes before the calls, the calls, and what comes after them."""
        called = [case for case in self.known if case.kind.called]
        own = any(case.spelling is None for case in called)
        lines = kept(self.template, self.region, self.evidence.calls if own else None)
        other = self._texts(
            [case for case in self.known if not case.kind.called],
            lambda case: _OPENED + case.before + case.after,
        )
        if not called:
            return [*lines, *other]
        closings = {case.after for case in called}
        end = "" if own or len(closings) != 1 else next(iter(closings))
        before = self._texts(called, lambda case: _OPENED + case.before)
        after = self._texts(called, lambda case: case.after.removesuffix(end))
        test = self.names.calls if len(called) < len(self.known) else ""
        if not own:
            return [*lines, *either(test, [*before, *self._spelled_calls(end), *after], other)]
        sides = by_calls(lines, self.region.variable)
        if sides is not None:
            always, loop, rest = sides
            return [*always, *either(test, [*before, *loop, *after], [*rest, *other])]
        return [*either(test, before, []), *lines, *either(test, after, other)]

    def _spelled_calls(self, end: str) -> Lines:
        """A loop over calls, as the dialect of the model spells them, with what ends the last."""
        spellings = {case.spelling for case in self.known if case.spelling is not None}
        if not spellings:
            return []
        if len(spellings) > 1:
            raise Unbuildable("calls are spelled in more than one way")
        ((middle, between),) = spellings
        call, made = (self.names.opener.replace("opener", name) for name in ("call", "function"))
        given, called = (spelled(self.template, made, field) for field in ("arguments", "name"))
        function = spelled(self.template, call, "function")
        # A loop in which ``loop`` is asked for takes Jinja longer, and so do the loops around it.
        last = f"{call} is sameas {self.names.calls}[-1]"
        lines: Lines = [
            (0, f"{{%- for {call} in {self.names.calls} %}}"),
            (1, f"{{%- set {made} = {function} or {call} %}}"),
            (1, f"{{{{- {called} ~ {literal(middle)}"),
            (2, f"~ ({given} if {given} is string else {given} | default({{}}, true) | tojson)"),
            (2, f"~ ({self._joined(end)} if {last} else {literal(between)}) }}}}"),
        ]
        return [*lines, (0, "{%- endfor %}")]

    def _output(self, text: str) -> Lines:
        return [(0, "{{- " + self._joined(text) + " }}")] if text else []

    def _joined(self, text: str) -> str:
        """An expression for a text with marks in it."""
        if self.opener is None:
            text = text.replace(_OPENED, self.tails[0])
        marks = {_OPENED: self.names.opener, REASONING: self.names.reasoning}
        marks |= {CONTENT: self.names.content, **self.tokens}
        pieces = re.split(f"({'|'.join(map(re.escape, marks))})", text)
        return joined([marks[piece] if piece in marks else literal(piece) for piece in pieces])

    def _texts(self, cases: Sequence[Case], of: Callable[[Case], str]) -> Lines:
        """What prints a text of each case; one with content does for none where it is the same."""
        full = {
            (id(case.place), case.kind.thought, case.kind.called, case.kind.many): of(case)
            for case in cases
            if case.kind.words
        }

        def text(case: Case) -> str:
            kind = case.kind
            other = full.get((id(case.place), kind.thought, kind.called, kind.many))
            if other is not None and other.replace(CONTENT, "") == of(case):
                return other
            return of(case)

        return statements(self._decide(text, cases), self._output)

    def _decide(self, of: Callable[[Case], str], cases: Iterable[Case]) -> Tree:
        return decide([(self._outcomes(case), of(case)) for case in cases], self.tests)

    def _tests(self) -> list[str]:
        return list(self._outcomes(self.known[0]))

    def _outcomes(self, case: Case) -> dict[str, bool]:
        kind, names = case.kind, self.names
        found = {
            names.reasoning: kind.thought,
            names.calls: kind.called,
            names.content: kind.words,
        }
        if self.opener is not None:
            found |= self._of_the_opener(case.tail)
        for name, value in self.modes:
            found[_is_set(name, value)] = case.place.kwargs.get(name) == value
        return found

    def _of_the_opener(self, tail: str) -> dict[str, bool]:
        """What can be asked of the generation prompt."""
        name = self.names.opener
        found = {}
        for tags in sorted({c.place.tags for c in self.evidence.cases if c.place.tags}, key=str):
            for tag in (tags.close.strip(), tags.open.strip()):
                found[self._ends_in(tag)] = tail.rstrip().endswith(tag)
        found[name] = bool(tail)
        for other in filter(None, self.tails):
            found[ends(name, other)] = tail.endswith(other)
        return found

    def _ends_in(self, tag: str) -> str:
        """The condition that the generation prompt ends in a tag and whitespace."""
        shown = [tail for tail in self.tails if tail.rstrip().endswith(tag)]
        spaces = {tail[len(tail.rstrip()) :] for tail in shown}
        if len(spaces) == 1:
            return ends(self.names.opener, tag + next(iter(spaces)))
        return ends(f"({self.names.opener} | trim)", tag)


def _is_set(name: str, value: object) -> str:
    """A condition for a kwarg of the request that has this value."""
    if isinstance(value, bool):
        return f"({name} is defined and {'' if value else 'not '}{name})"
    return f"({name} is defined and {name} == {literal(str(value))})"
