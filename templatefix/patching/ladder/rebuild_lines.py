"""Lines of Jinja for a rebuilt branch."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from templatefix.patching.ladder.rebuild_keep import Lines
from templatefix.patching.ladder.rebuild_opener import Opener
from templatefix.patching.ladder.rebuild_tree import Choice, Tree
from templatefix.patching.proposals.text import begins, ends


def capture(opener: Opener, name: str) -> str:
    """The generation prompt's own source, with its text in a variable."""
    left, right = "-" if opener.left else "", "-" if opener.right else ""
    if opener.tests:
        test = " and ".join(opener.tests)
        body = f"{{%- if {test} {left}%}}{opener.source}{{%{right} endif %}}"
        return f"{{%- set {name} %}}{body}{{% endset %}}"
    return f"{{%- set {name} {left}%}}{opener.source}{{%{right} endset %}}"


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
    if not then:
        return [(0, f"{{%- if not {tree.test} %}}"), *deeper(other), (0, "{%- endif %}")]
    lines = [(0, f"{{%- if {tree.test} %}}"), *deeper(then)]
    if isinstance(tree.other, Choice) and other and other[0][1].startswith("{%- if "):
        first, *rest = other
        if (
            rest
            and rest[-1] == (0, "{%- endif %}")
            and not any(depth == 0 and text == "{%- endif %}" for depth, text in rest[:-1])
        ):
            return [*lines, (0, first[1].replace("{%- if ", "{%- elif ", 1)), *rest]
    if other:
        lines += [(0, "{%- else %}"), *deeper(other)]
    return [*lines, (0, "{%- endif %}")]


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
