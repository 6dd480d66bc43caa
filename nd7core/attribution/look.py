"""What ordinary permissions say of a path, looked up from outside the sandbox.

A file that its mode would refuse anyway is not helped by a grant.  The look-up is injected: the engine itself
touches nothing, so a log of another machine is never judged by the files of this one.
"""

from __future__ import annotations

import os
import stat
from dataclasses import dataclass
from posixpath import dirname
from typing import Protocol

MOST_LINKS = 10_000  # of one session


@dataclass(frozen=True, slots=True)
class Seen:
    """What is there.

    Attributes:
        exists: whether the path itself is there.
        is_folder: of the path, False where it is not there.
        allowed: whether mode, owner and mount let this user do it; for what is not there, whether its folder lets
            it be made.  None where that cannot be told.
        why: why not, in a few words for the person; "" where allowed.
    """

    exists: bool
    is_folder: bool
    allowed: bool | None
    why: str = ""


class Look(Protocol):
    """Asks the file system; answers None where it cannot tell."""

    def at(self, path: str, operation: str) -> Seen | None:
        """What ordinary permissions say of `operation` (read, write, execute) on an absolute path."""

    def real(self, path: str) -> str | None:
        """The same absolute path with every link in it followed; what is not there stays as it is spelled."""


class FileLook:
    """The real file system, seen by this (unconfined) process."""

    def at(self, path: str, operation: str) -> Seen | None:
        if not path.startswith("/") or "\0" in path:
            return None
        try:
            found = os.stat(path)
        except FileNotFoundError:
            return self._absent(path, operation)
        except (OSError, ValueError):
            return None
        folder = stat.S_ISDIR(found.st_mode)
        mode = {"read": os.R_OK, "execute": os.X_OK}.get(operation, os.W_OK)
        allowed = os.access(path, mode)
        return Seen(True, folder, allowed, "" if allowed else _reason(found, operation))

    def real(self, path: str) -> str | None:
        try:
            return os.path.realpath(path) if path.startswith("/") else None
        except (OSError, ValueError):
            return None

    def _absent(self, path: str, operation: str) -> Seen | None:
        parent = dirname(path)
        if operation != "write":
            return Seen(False, False, False, "it does not exist")
        try:
            found = os.stat(parent)
        except (OSError, ValueError):
            return Seen(False, False, None, "its folder does not exist")
        allowed = os.access(parent, os.W_OK | os.X_OK)
        return Seen(False, False, allowed, "" if allowed else f"its folder: {_reason(found, operation)}")


class NotedLinks:
    """The links that the log tells of, for a past session; of ordinary permissions nothing is known any more."""

    def __init__(self) -> None:
        self._links: dict[str, str] = {}

    def take(self, links: object) -> None:
        """What one `links` frame tells; what has another shape is passed over."""
        for path, real in links.items() if isinstance(links, dict) else ():
            if isinstance(real, str) and len(self._links) < MOST_LINKS:
                self._links[path] = real

    def at(self, path: str, operation: str) -> Seen | None:
        return None

    def real(self, path: str) -> str | None:
        return self._links.get(path)


def _reason(found: os.stat_result, operation: str) -> str:
    owner = "root" if found.st_uid == 0 else f"user {found.st_uid}" if found.st_uid != os.getuid() else "you"
    return f"mode {stat.S_IMODE(found.st_mode):04o}, owned by {owner}, gives no right to {operation}"
