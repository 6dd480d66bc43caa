"""The session's terminal, seen from the supervisor: joined to the outer one, held for whoever attaches."""

from __future__ import annotations

import contextlib
import os
import signal
import termios
import time
from collections.abc import Callable
from types import FrameType

from nd7exec import processes
from nd7exec.hold import Host
from nd7exec.loop import Loop, Timer
from nd7exec.relay import Relay
from nd7exec.screen import LocalScreen
from nd7exec.terminal import DEFAULT_SIZE, OuterTerminal, set_size

FOREGROUND_SECONDS = 0.3
DRAIN_SECONDS = 1.0


def noted(_number: int, _frame: FrameType | None) -> None:
    """A handler must be there, or the signal would have its default effect; the wakeup pipe carries the number."""


class Console:
    """What of 0, 1 and 2 is a terminal, and the pty that the session has instead.

    Args:
        fds: the terminals among 0, 1, 2; none for a session that has no terminal, or one of its own only.
        detached: it has one of its own, and nobody's shell waits for this process.
        hung_up: called when the outer terminal is gone.
        about: what whoever attaches is told.
        restart: see `hold.Host`.
    """

    def __init__(
        self,
        loop: Loop,
        fds: frozenset[int],
        *,
        detached: bool,
        hung_up: Callable[[], object],
        about: Callable[[], dict[str, object]],
        restart: Callable[[], str],
    ) -> None:
        self.loop = loop
        self.outer = OuterTerminal(fds) if fds else None
        self.detached = detached
        self.replaced = frozenset((0, 1, 2)) if detached else fds
        self.relay: Relay | None = None
        self.host: Host | None = None
        self.local: LocalScreen | None = None
        self._hung_up, self._about, self._restart = hung_up, about, restart
        self._waiting: Timer | None = None
        self._alike = False

    @property
    def shown(self) -> bool:
        """Whether the session has the outer screen, so that a line of ours would go through the middle of it."""
        return self.local is not None

    def open(self, master: int, directory: str) -> None:
        """Make the session's terminal like the outer one, join the two, and let others attach."""
        self.relay = Relay(self.loop, master, self.resume_input)
        if self.outer:
            set_size(master, self.outer.size())
            self.local = LocalScreen(self.loop, self.outer, self.relay)
            self.relay.viewers.append(self.local)
            self._to_front()
            self.resume_input()
        else:
            set_size(master, (*DEFAULT_SIZE, 0, 0))
        self.host = Host(self.loop, self.relay, directory, self._about, self.resize, self._restart)

    def resume_input(self) -> None:
        """Read keys, unless the session has not taken the last ones yet, or another job has the terminal."""
        if not self.outer or self.outer.input is None or not self.relay:
            return
        foreground = self.outer.in_foreground()
        self.loop.watch(self.outer.input, self._keys if foreground and not self.relay.full else None)
        if not foreground and self._waiting is None:
            # A shell's `fg` tells nothing to a job that runs already.
            self._waiting = self.loop.later(FOREGROUND_SECONDS, self._foreground)

    def _foreground(self) -> None:
        self._waiting = None
        self._to_front()
        self.resume_input()

    def _to_front(self) -> None:
        """Take the outer terminal, if it is ours to take; the session's becomes like it the first time."""
        if not self.outer or not self.relay or not self.relay.open or not self.outer.in_foreground():
            return
        self.outer.raw()
        if not self._alike:
            self._alike = True
            with contextlib.suppress(termios.error):
                termios.tcsetattr(self.relay.master, termios.TCSANOW, self.outer.saved)
        self.resize()

    def _keys(self) -> None:
        if not self.outer or self.outer.input is None or not self.relay:
            return
        data = self.outer.read()
        if data == b"":
            self.loop.forget(self.outer.input)
            self._hung_up()
        elif data:
            if self.host and self.host.active:
                self.host.active = None
                self.resize()
            self.relay.type(data)
            self.resume_input()

    def resize(self) -> None:
        """Take over the outer terminal's size, unless somebody attached has typed since."""
        if self.relay and self.relay.open and self.outer and not (self.host and self.host.active):
            set_size(self.relay.master, self.outer.size())

    def suspend(self) -> bool:
        """The agent has stopped: so does our whole job, and the person's shell has its terminal again.

        Returns:
            False where nobody is there who could let it go on: then it must not stop.
        """
        if self.outer is None and not self.detached:
            return True  # no ^Z was typed: nobody else of our group, a script or what runs it, is to stop with it
        group = os.getpgrp()
        if self.detached or processes.group_is_orphaned(group, processes.table()):
            return False
        if self.outer:
            self.outer.restore()
        # The others of the job, a shell script that waits for us for one, stop as they would for ^Z; we by the signal
        # that no handler sees.
        signal.signal(signal.SIGTSTP, signal.SIG_IGN)
        os.killpg(group, signal.SIGTSTP)
        signal.signal(signal.SIGTSTP, noted)
        os.kill(os.getpid(), signal.SIGSTOP)
        return True

    def resumed(self) -> None:
        """After SIGCONT: the terminal may have been anybody's meanwhile."""
        self._to_front()
        self.resume_input()

    def drain(self, hurry: Callable[[], bool]) -> None:
        """Show what the session wrote last: its terminal is closed by now, so there is an end to it.

        Args:
            hurry: whether a terminal that takes nothing is no longer waited for.
        """
        end = time.monotonic() + DRAIN_SECONDS
        while self.relay and self.relay.open and time.monotonic() < end:
            if not self.relay.read():
                time.sleep(0.005)
        while self.local and self.local.backlog and not hurry():
            self.loop.turn()

    def close(self, status: int | None) -> None:
        """Tell those who are attached how it ended (None: it begins again), and restore the outer terminal."""
        try:
            if self.host:
                self.host.end(status)
        finally:
            if self.outer:
                self.outer.restore()
