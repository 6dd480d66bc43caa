"""The error of this package."""

from __future__ import annotations

from nd7core.errors import Nd7Error


class ConfinementError(Nd7Error):
    """The kernel cannot be made to enforce a session's rules, so nothing is run (exit status 126)."""

    def __init__(self, message: str, *, hint: str = "") -> None:
        super().__init__(message, hint=hint, exit_code=126)
