"""The one exception for what a user can cause, and how an exception is remembered."""

from __future__ import annotations

from typing import TypeVar

_Fault = TypeVar("_Fault", bound=Exception)


class TargetError(Exception):
    """A target or an input file could not be obtained or decoded.

    ``target`` is what the user named, ``message`` what is wrong with it, ``hint`` the next step,
    ``code`` the finding code under which it is reported.
    """

    def __init__(self, target: str, message: str, hint: str = "", code: str = "TF901") -> None:
        super().__init__(f"{target}: {message}" + (f" ({hint})" if hint else ""))
        self.target = target
        self.message = message
        self.hint = hint
        self.code = code


def again(fault: _Fault) -> _Fault:
    """The same fault as an exception that was never raised.

    One that is remembered and raised itself holds the frames that it has passed through, and all
    that they know.
    """
    kind = type(fault)
    made = kind.__new__(kind, *fault.args)
    vars(made).update(vars(fault))
    return made
