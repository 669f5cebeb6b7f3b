"""Lines of Jinja for a rebuilt branch."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable

from jinja2 import nodes

from templatefix.patching.ladder.rebuild_keep import Lines
from templatefix.patching.ladder.rebuild_place import conjuncts
from templatefix.patching.ladder.rebuild_tree import Choice, Tree
from templatefix.patching.proposals.text import begins, ends, negated
from templatefix.syntax import parse
from templatefix.syntax.names import loaded_names


def cut_off(name: str, before: str, after: str) -> list[str]:
    lines = []
    if before:
        lines.append(f"{{%- if {begins(name, before)} %}}")
        lines.append(f"    {{%- set {name} = {name}[{len(before)}:] %}}")
        lines.append("{%- endif %}")
    if after:
        lines.append(f"{{%- if {ends(name, after)} %}}")
        lines.append(f"    {{%- set {name} = {name}[:-{len(after)}] %}}")
        lines.append("{%- endif %}")
    return lines


def statements(tree: Tree, leaf: Callable[[str], Lines]) -> Lines:
    """A tree as ``if`` statements; what is empty on both sides is left out."""
    if isinstance(tree, str):
        return leaf(tree)
    then, other = statements(tree.then, leaf), statements(tree.other, leaf)
    if then == other:
        return then
    if then and isinstance(tree.other, Choice) and other and other[0][1].startswith("{%- if "):
        first, *rest = other
        if (
            rest
            and rest[-1] == (0, "{%- endif %}")
            and not any(depth == 0 and text == "{%- endif %}" for depth, text in rest[:-1])
        ):
            chained = first[1].replace("{%- if ", "{%- elif ", 1)
            return [(0, f"{{%- if {tree.test} %}}"), *deeper(then), (0, chained), *rest]
    return either(tree.test, then, other)


def either(test: str, then: Lines, other: Lines) -> Lines:
    """The one where the test holds and the other where it does not; the one without a test."""
    if not test:
        return then
    if not then and not other:
        return []
    if not then:
        test, then, other = f"not {test}", other, []
    rest = [(0, "{%- else %}"), *deeper(other)] if other else []
    return [(0, f"{{%- if {test} %}}"), *deeper(then), *rest, (0, "{%- endif %}")]


def by_calls(lines: Lines, variable: str) -> tuple[Lines, Lines, Lines] | None:
    """What lines do for all answers, for those with calls and for others, if that is all they ask.

    Variables are set, then comes one ``if`` statement, or a loop over calls. None elsewhere.
    """
    first = next((i for i, (_, text) in enumerate(lines) if not text.startswith("{%- set ")), 0)
    always, lines = lines[:first], lines[first:]
    if len(lines) <= 1:
        return always, lines, []
    tags = [i for i, (depth, _) in enumerate(lines) if depth == lines[0][0]]
    asked = re.fullmatch(r"\{%-? *if (.*?) *-?%\}", lines[0][1], re.DOTALL)
    if asked is None or [lines[i][1] for i in tags].index("{%- endif %}") != len(tags) - 1:
        return None
    (choice,) = parse(f"{{% if {asked[1]} %}}{{% endif %}}").ast.find_all(nodes.If)
    if not all(_asks_for_calls(part, variable) for part in conjuncts(choice.test)):
        return None
    called, rest = lines[1 : tags[1]], lines[tags[1] : -1]
    if rest and rest[0][1] == "{%- else %}":
        return always, _shallower(called), _shallower(rest[1:])
    if rest:
        (depth, tag), *others = rest
        tag = tag.replace("elif", "if", 1)
        if others[:1] == [(depth, "{%- else %}")]:
            others = others[1:]
            test = tag.removeprefix("{%- if ").removesuffix(" %}")
            tag = f"{{%- if {negated(test)} %}}"
        rest = [(depth, tag), *others, lines[-1]]
    return always, _shallower(called), rest


def _asks_for_calls(test: nodes.Node, variable: str) -> bool:
    if isinstance(test, nodes.Not):
        asked = test.node
        return (
            isinstance(asked, nodes.Test)
            and asked.name == "none"
            and _asks_for_calls(asked.node, variable)
        )
    return loaded_names(test) == {variable} and "tool_calls" in str(test)


def _shallower(lines: Lines) -> Lines:
    return [(depth - 1, text) for depth, text in lines]


def deeper(lines: Iterable[tuple[int, str]]) -> Lines:
    return [(depth + 1, text) for depth, text in lines]


def comment(text: str) -> str:
    return "{#- " + text + " #}"


def printed(lines: Lines, indent: str) -> str:
    return "".join(f"\n{indent}{'    ' * depth}{text}" for depth, text in lines)


def indent_at(text: str, at: int) -> str:
    """The whitespace before what stands first from ``at`` on, where it begins its line."""
    rest = text[at:]
    first = at + len(rest) - len(rest.lstrip())
    line = text[text.rfind("\n", 0, first) + 1 : first]
    return line if not line.strip() else ""
