"""The error for a template text that cannot be analysed."""

from __future__ import annotations


def located(message: str, line: int | None) -> str:
    """A message with the template's line, 1-based, where one is known."""
    return f"line {line}: {message}" if line else message


class Unparsable(Exception):
    """The text is no template that Jinja can parse, or is too large or deep to be read.

    ``line`` is 1-based, None where none is to blame. ``code`` is TF902, or TF601 where it takes
    too much to parse it.
    """

    def __init__(self, message: str, line: int | None = None, code: str = "TF902") -> None:
        super().__init__(located(message, line))
        self.message = message
        self.line = line
        self.code = code
