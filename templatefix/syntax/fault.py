"""The error for a template text that cannot be analysed."""


class Unparsable(Exception):
    """The text is no template that Jinja can parse, or is too large or deep to be read.

    ``line`` is 1-based, None where none is to blame. ``code`` is TF902, or TF601 where it takes
    too much to parse it.
    """

    def __init__(self, message: str, line: int | None = None, code: str = "TF902") -> None:
        super().__init__(message if line is None else f"line {line}: {message}")
        self.message = message
        self.line = line
        self.code = code
