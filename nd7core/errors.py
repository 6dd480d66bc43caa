"""The one exception that reaches a person as a sentence instead of a traceback."""

from __future__ import annotations


class Nd7Error(Exception):
    """Something the person can understand and act on.

    Args:
        message: what is wrong, naming the thing (a path, a pid, a line).
        hint: the next step, or empty.
        exit_code: the process's exit status when nothing handles this.  1 is "did not work",
            2 is "asked wrongly", 126 is "nothing was run".
    """

    def __init__(self, message: str, *, hint: str = "", exit_code: int = 1) -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint
        self.exit_code = exit_code
