"""The one exception for what a user can cause."""


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
