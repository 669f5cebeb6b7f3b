"""Source text for values: string literals and the fields of a message."""

from __future__ import annotations


def literal(text: str) -> str:
    """A Jinja string literal for ``text``.

    >>> literal("<think>\\n")
    "'<think>\\\\n'"
    """
    escaped = (
        text.replace("\\", "\\\\").replace("\n", "\\n").replace("\t", "\\t").replace("\r", "\\r")
    )
    return "'" + escaped.replace("'", "\\'") + "'"


def begins(source: str, text: str) -> str:
    """The condition that an expression begins with ``text``.

    A slice and not ``startswith``: Jinja's sandbox takes twenty times as long over a method.

    >>> begins("content", "\\n\\n")
    "content[:2] == '\\\\n\\\\n'"
    """
    return f"{source}[:{len(text)}] == {literal(text)}"


def ends(source: str, text: str) -> str:
    """The condition that an expression ends with ``text``.

    >>> ends("content", "\\n"), ends("content", "")
    ("content[-1:] == '\\\\n'", 'true')
    """
    if not text:
        return "true"  # a slice from -0 on is all of it
    return f"{source}[-{len(text)}:] == {literal(text)}"


def negated(condition: str) -> str:
    """The condition that another one does not hold.

    >>> negated("message.reasoning_content"), negated("a and b")
    ('not message.reasoning_content', 'not (a and b)')
    """
    return f"not {condition}" if " " not in condition else f"not {operand(condition)}"


def joined(parts: list[str]) -> str:
    """A chain of operands, empty literals left out; ``''`` for none."""
    kept = [part for part in parts if part not in ("''", "")]
    return " + ".join(kept) if kept else "''"


def reasoning_between(before: str, after: str, field: str, generated: int) -> list[str]:
    """Operands that print ``field`` between two literals, newlines at the seams but once.

    A parser hands reasoning back with the newlines that the model wrote around it, or without
    them: each is printed only where the field does not bring its own. Of ``before`` the model
    wrote the last ``generated`` characters; the prompt's own newlines are never in the field.
    """
    wrote = before[len(before) - generated :]
    lead = wrote[len(wrote.rstrip("\n")) :]
    tail = after[: len(after) - len(after.lstrip("\n"))]
    parts = [literal(before[: len(before) - len(lead)])]
    if lead:
        parts.append(f"('' if {begins(field, lead)} else {literal(lead)})")
    parts.append(field)
    if tail:
        parts.append(f"('' if {ends(field, tail)} else {literal(tail)})")
    parts.append(literal(after[len(tail) :]))
    return parts


def operand(condition: str) -> str:
    """A condition in parentheses, if it has none around it."""
    return condition if is_wrapped(condition) else f"({condition})"


def is_wrapped(test: str) -> bool:
    """Whether one pair of parentheses holds all of a test."""
    depth = 0
    for i, character in enumerate(test):
        depth += (character == "(") - (character == ")")
        if depth == 0:
            return test.startswith("(") and i == len(test) - 1
    return False
