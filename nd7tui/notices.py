"""Telling a person who looks elsewhere: a session waits for them, or was refused something.

The bell, a desktop notification, or a command of theirs.  What a session wrote goes into none of them but through
`safe`, and never through a shell: a command gets it as one argument and in its environment.
"""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

from nd7core.text import safe
from nd7tui.model import Row, SessionRow

# At most so often for one session and kind: ten agents that fail in a loop must not ring without end.
QUIET_NS = 20_000_000_000
SYSTEM = "/usr/bin:/bin:/usr/local/bin:/run/current-system/sw/bin"


@dataclass(frozen=True, slots=True)
class Wanted:
    """How to tell.

    Attributes:
        bell: the terminal's bell.
        desktop: notify-send, or osascript on macOS.
        command: a command line of the person's, or "".
    """

    bell: bool = False
    desktop: bool = False
    command: str = ""

    def __bool__(self) -> bool:
        return self.bell or self.desktop or bool(self.command)


@dataclass(frozen=True, slots=True)
class Notice:
    """One thing to tell: `kind` is "waiting" or "denied"."""

    kind: str
    session: SessionRow
    text: str


class Notices:
    """Finds what is worth telling, and tells it.

    Args:
        ring: rings the bell.
        environ: what the command's environment is made from.
    """

    def __init__(self, wanted: Wanted, ring: Callable[[], None], environ: Mapping[str, str]) -> None:
        self.wanted = wanted
        self._ring = ring
        self._environ = dict(environ)
        self._waited: set[str] = set()
        self._last: dict[tuple[str, str], int] = {}
        self._children: list[subprocess.Popen[bytes]] = []

    def look(
        self, sessions: Iterable[SessionRow], fresh: Iterable[Row], of: Callable[[Row], SessionRow | None], now: int
    ) -> list[Notice]:
        """What is new: sessions that began to wait, and refusals in sessions that run.  Told, where it is wanted."""
        found = []
        waiting = {session.key: session for session in sessions if session.activity == "waiting"}
        for key, session in waiting.items():
            if key not in self._waited and self._due(key, "waiting", now):
                found.append(Notice("waiting", session, f"waits for {session.waits_for or 'you'}"))
        self._waited = set(waiting)
        for row in fresh:
            owner = of(row)
            if row.source not in ("kernel", "nd7-exec") or owner is None or not owner.live:
                continue
            if self._due(owner.key, "denied", now):
                what = row.verdict.target or row.command
                found.append(Notice("denied", owner, f"was refused {row.verdict.operation}: {what}"))
        for notice in found:
            self._tell(notice)
        return found

    def _due(self, key: str, kind: str, now: int) -> bool:
        if now - self._last.get((key, kind), -QUIET_NS) < QUIET_NS:
            return False
        self._last[key, kind] = now
        return True

    def _tell(self, notice: Notice) -> None:
        name, text = str(safe(notice.session.name, 60)), str(safe(notice.text, 300))
        if self.wanted.bell:
            self._ring()
        if self.wanted.desktop:
            self._run(desktop(f"nd7: {name}", text))
        if self.wanted.command:
            self._run([*shlex.split(self.wanted.command), f"{name} {text}"], notice)

    def _run(self, command: list[str], notice: Notice | None = None) -> None:
        self._children = [child for child in self._children if child.poll() is None]
        if not command or len(self._children) > 20:
            return
        environ = dict(self._environ)
        if notice is not None:
            environ |= {"ND7_EVENT": notice.kind, "ND7_SESSION": str(notice.session.pid or "")}
        try:
            self._children.append(
                subprocess.Popen(
                    command,
                    stdin=subprocess.DEVNULL,
                    stdout=subprocess.DEVNULL,
                    stderr=subprocess.DEVNULL,
                    env=environ,
                    start_new_session=True,
                )
            )
        except (OSError, ValueError):
            # Said once, by the command line's check; a notice that cannot be given must not take the screen down.
            return


def desktop(title: str, text: str) -> list[str]:
    """The command that shows a desktop notification here, or nothing."""
    # Not by PATH: a project's .venv/bin or node_modules/.bin may be on it, and a session writes what lies there.
    if program := shutil.which("notify-send", path=SYSTEM):
        return [program, "--app-name=nd7", "--", title, text]
    if program := shutil.which("osascript", path=SYSTEM):
        script = "on run argv\ndisplay notification (item 2 of argv) with title (item 1 of argv)\nend run"
        return [program, "-e", script, title, text]
    return []


def check(wanted: Wanted, environ: Mapping[str, str] = os.environ) -> str:
    """What is wrong with what is wanted, or ""."""
    if wanted.desktop and not desktop("", ""):
        return "neither notify-send nor osascript is here, so there are no desktop notifications"
    if wanted.command:
        try:
            words = shlex.split(wanted.command)
        except ValueError as error:
            return f"--notify: {error}"
        if not words or shutil.which(words[0], path=environ.get("PATH")) is None:
            return f"--notify: there is no program {words[0] if words else ''!r}"
    return ""
