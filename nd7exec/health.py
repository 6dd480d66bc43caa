"""Whether "no denials" would mean something: what the canary found, whether the log goes on, whether hooks tell.

One word for it is in the record, for the dashboard's light, and in a `canary` frame whenever it changes.
"""

from __future__ import annotations

import contextlib
import os
import time
from typing import Any, Final

ENFORCING: Final = "enforcing"
BLIND: Final = "blind"
LOG_STOPPED: Final = "log stopped"
HOOKS_DEAD: Final = "hooks dead"


class Health:
    """The legs of the way of a denial, each with what is wrong with it or "".

    Attributes:
        verdict: the canary's latest: `state`, `checks`, `wrong`, `ts`; empty before the first.
        log: why nothing can be written down.
        hooks: why what the agent does is not told.
    """

    def __init__(self) -> None:
        self.verdict: dict[str, Any] = {}
        self.log = ""
        self.hooks = ""

    @property
    def state(self) -> str:
        """The worst of them; "" before the canary's first verdict."""
        if self.verdict.get("state") == BLIND:
            return BLIND
        if self.log:
            return LOG_STOPPED
        if self.hooks:
            return HOOKS_DEAD
        return str(self.verdict.get("state", ""))

    def body(self) -> dict[str, Any]:
        """A canary frame's body, and the record's `canary`."""
        wrong = [*self.verdict.get("wrong", []), *filter(None, (self.log, self.hooks))]
        checks = self.verdict.get("checks", {})
        known = {"probe": self.verdict.get("state", ""), "checks": checks, "wrong": wrong}
        return {"state": self.state, **known, "ts": self.verdict.get("ts", time.time_ns())}

    def take_up(self, canary: dict[str, Any]) -> None:
        """Go on where a scribe that died had been: its canary's verdict stands, the rest is tried anew."""
        if probe := canary.get("probe"):
            wrong = canary.get("wrong", []) if probe == BLIND else []
            self.verdict = {"state": probe, "checks": canary.get("checks", {}), "wrong": wrong}


def stopped(canary: dict[str, Any], why: str) -> dict[str, Any]:
    """The record's `canary` while there is no scribe."""
    return {**canary, "state": LOG_STOPPED, "wrong": [why]}


def try_log(directory: str) -> str:
    """Try to write below the directory of all logs what a frame needs.  Why it cannot be, or ""."""
    path = os.path.join(directory, f".trial-{os.getpid()}")
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
    try:
        os.makedirs(directory, mode=0o700, exist_ok=True)
        with contextlib.suppress(FileNotFoundError):
            os.unlink(path)
        fd = os.open(path, flags, 0o600)
        try:
            written = os.write(fd, bytes(4096))
        finally:
            os.close(fd)
            os.unlink(path)
    except OSError as error:
        return f"{directory}: {error.strerror or error}"
    return "" if written == 4096 else f"{directory}: No space left on device"
