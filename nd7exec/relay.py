"""Between the session's own terminal and whoever looks at it: bytes, untouched, with backpressure both ways."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable
from typing import Protocol

from nd7exec.loop import Loop
from nd7exec.replay import Replay

READ = 1 << 16
MOST_INPUT = 1 << 16  # keys that the session has not read yet; beyond it the outer terminal is no longer read
MOST_OUTPUT = 1 << 18  # screen that a viewer has not taken yet; beyond it the session has to wait


class Viewer(Protocol):
    """Somebody who looks at the session's screen."""

    @property
    def backlog(self) -> int:
        """Bytes that were shown to it and that it has not taken yet."""

    def show(self, data: bytes) -> None:
        """Take output of the session.  Must not block and not fail."""


class Relay:
    """The master's side of the session's terminal.

    The session waits (as it would for any terminal) while the fastest viewer is behind, so one that hangs
    does not stop the others.  Without any viewer the output is only remembered.
    """

    def __init__(self, loop: Loop, master: int, resumed: Callable[[], object]) -> None:
        self.loop = loop
        self.master = master
        self.replay = Replay()
        self.viewers: list[Viewer] = []
        self.open = True
        self._resumed = resumed
        self._input = bytearray()
        os.set_blocking(master, False)
        self.arm()

    def arm(self) -> None:
        """Watch for what can be done now."""
        if not self.open:
            return
        behind = min((viewer.backlog for viewer in self.viewers), default=0)
        self.loop.watch(
            self.master,
            self.read if behind < MOST_OUTPUT else None,
            self._write if self._input else None,
        )

    @property
    def full(self) -> bool:
        """Whether more input should wait."""
        return len(self._input) >= MOST_INPUT

    def read(self) -> bool:
        """Take what the session wrote.  False if there was nothing, or its terminal is closed for good."""
        try:
            data = os.read(self.master, READ)
        except (BlockingIOError, InterruptedError):
            return False
        except OSError as error:
            if error.errno != errno.EIO:
                raise
            data = b""  # no process has the slave open any more
        if not data:
            self.close()
            return False
        self.replay.feed(data)
        for viewer in list(self.viewers):
            viewer.show(data)
        self.arm()
        return True

    def type(self, data: bytes) -> None:
        """Give the session input."""
        self._input += data
        self._write()

    def _write(self) -> None:
        was_full = self.full
        while self._input and self.open:
            try:
                del self._input[: os.write(self.master, self._input[:READ])]
            except (BlockingIOError, InterruptedError):
                break
            except OSError:
                self._input.clear()  # the session's end of it is closed
        self.arm()
        if was_full and not self.full:
            self._resumed()

    def close(self) -> None:
        if self.open:
            self.open = False
            self.loop.forget(self.master)
            os.close(self.master)
