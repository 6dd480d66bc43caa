"""A terminal of a world: a program in a private tmux, its keys and its screen."""

from __future__ import annotations

import itertools
import os
import shlex
import time
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from world import World

NAMED = {"Enter", "Escape", "Up", "Down", "Left", "Right", "Tab", "BTab", "Space", "Home", "End", "PPage", "NPage"}
numbers = itertools.count()


class Terminal:
    """A program on a screen of `size` (columns, rows).

    When the program has ended the screen shows `EXITED <status>`.
    """

    def __init__(
        self,
        world: World,
        argv: Sequence[str],
        *,
        size: tuple[int, int],
        cwd: str | None = None,
        env: Mapping[str, str | None] | None = None,
    ) -> None:
        self.world = world
        self.socket = f"{world.files}/tmux-{next(numbers)}"
        os.chmod(world.path(world.files), 0o1777)
        self.env = env
        # What is pressed once too often must not end the shell that shows how it ended.  At first it is caught and not
        # ignored, because the program would inherit that.
        end = "code=$?; trap '' INT QUIT; echo; echo EXITED $code; sleep 600"
        command = f"trap : INT QUIT; {shlex.join(argv)}; {end}"
        where = os.path.join(world.project, cwd or "")
        self.tmux("new-session", "-d", "-x", str(size[0]), "-y", str(size[1]), "-c", where, command)
        self.tmux("set-option", "-g", "escape-time", "0")

    def tmux(self, *arguments: str) -> str:
        done = self.world.run(["tmux", "-S", self.socket, "-f", "/dev/null", *arguments], env=self.env)
        if done.code != 0:
            raise AssertionError(f"tmux {arguments}: {done.err}")
        return done.out

    def keys(self, *keys: str, pause: float = 0.25) -> None:
        """Press keys: tmux's names (Enter, Escape, C-c, F1) or literal text, with a pause after each."""
        for key in keys:
            named = key in NAMED or key[:2] in ("C-", "M-", "S-") or (key[:1] == "F" and key[1:].isdigit())
            self.tmux("send-keys", *(() if named else ("-l",)), key)
            time.sleep(pause)

    def screen(self, *, history: int = 0, colour: bool = False) -> str:
        """The text on the screen, with `history` lines above it."""
        more = ["-S", f"-{history}"] if history else []
        return self.tmux("capture-pane", "-p", *(["-e"] if colour else []), *more)

    def wait_for(self, wanted: str | Callable[[str], object], timeout: float = 30) -> str:
        """Wait until a text, or what a function looks for, is on the screen."""
        end = time.monotonic() + timeout
        while True:
            shown = self.screen()
            if wanted(shown) if callable(wanted) else wanted in shown:
                return shown
            if time.monotonic() > end:
                raise AssertionError(f"no {wanted!r} on the screen after {timeout} s:\n{shown}")
            time.sleep(0.1)

    def resize(self, columns: int, rows: int) -> None:
        self.tmux("resize-window", "-x", str(columns), "-y", str(rows))

    def close(self) -> None:
        """End the terminal as closing its window does: its programs get SIGHUP."""
        self.world.run(["tmux", "-S", self.socket, "kill-server"])
