"""The outer terminal: raw while the session has it, exactly as it was at every end.

Its bytes are relayed untouched.  It is written through an open description of nd7's own, because O_NONBLOCK on the
inherited one would be set for the person's shell too, and a terminal that is stopped (^S) must not stop the supervisor.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import struct
import termios
import tty
from collections.abc import Iterable
from typing import Any

Attributes = list[Any]
DEFAULT_SIZE = (24, 80)  # rows, columns: what the VT100 had, and what every program takes where there is no terminal


def terminals() -> frozenset[int]:
    """Which of 0, 1 and 2 are terminals.  A closed one is opened on /dev/null first: no file may get its number."""
    for fd in (0, 1, 2):
        try:
            os.fstat(fd)
        except OSError:
            os.open(os.devnull, os.O_RDWR)  # the lowest free number is this one
            os.set_inheritable(fd, True)
    return frozenset(fd for fd in (0, 1, 2) if os.isatty(fd))


def size_of(fd: int) -> tuple[int, int, int, int]:
    """Rows, columns, and both in pixels (0 where the terminal does not say); ioctl_tty(2), TIOCGWINSZ."""
    try:
        rows, columns, width, height = struct.unpack("HHHH", fcntl.ioctl(fd, termios.TIOCGWINSZ, bytes(8)))
    except OSError:
        return (*DEFAULT_SIZE, 0, 0)
    return rows or DEFAULT_SIZE[0], columns or DEFAULT_SIZE[1], width, height


def set_size(fd: int, size: tuple[int, int, int, int]) -> None:
    """Set the size of a pty by its master; the foreground group gets SIGWINCH if it is another one."""
    fcntl.ioctl(fd, termios.TIOCSWINSZ, struct.pack("HHHH", *(min(max(0, value), 0xFFFF) for value in size)))


class OuterTerminal:
    """The terminal that a command was started in.

    Attributes:
        input: a descriptor to read keys from, or None where stdin is no terminal.
        output: a non-blocking descriptor to write the screen to.
        chunk: how much one write may carry without blocking.
    """

    def __init__(self, fds: Iterable[int]) -> None:
        found = sorted(fds)
        self.control = found[0]
        shown = next((fd for fd in (1, 2, 0) if fd in found), self.control)
        self.input: int | None = 0 if 0 in found else None
        self.chunk = 256  # Linux reports a tty as writable while fewer bytes than this wait in it
        self.saved: Attributes = termios.tcgetattr(self.control)
        self.is_raw = False
        self._shared = False
        try:
            self.output = os.open(os.ttyname(shown), os.O_RDWR | os.O_NOCTTY | os.O_NONBLOCK | os.O_CLOEXEC)
            self.chunk = 1 << 16
        except OSError:
            # Its name means nothing here: a number of its own, to be watched beside the input.
            self.output = os.dup(shown)
            self._shared = True
            self._wait_for_it(not self.in_foreground())

    def _wait_for_it(self, blocking: bool) -> None:
        """Where the terminal could not be opened anew (after su, in a container), its one open description is shared
        with the person's shell: what is written to it must not block us while we have it, nor the shell be surprised.
        """
        if self._shared:
            with contextlib.suppress(OSError):
                os.set_blocking(self.output, blocking)

    def in_foreground(self) -> bool:
        """Whether this job may change the terminal without being stopped for it."""
        try:
            return os.tcgetpgrp(self.control) == os.getpgrp()
        except OSError:
            return True  # not our controlling terminal: nothing stops us

    def size(self) -> tuple[int, int, int, int]:
        return size_of(self.control)

    def raw(self) -> None:
        """No echo, no signals, no translation: every byte goes through.

        Not while in the background, and not where keys are not ours to read: ^C is then a signal as ever.
        """
        self._wait_for_it(not self.in_foreground())
        if not self.is_raw and self.input is not None and self.in_foreground():
            with contextlib.suppress(termios.error):
                # Asked for each time: what it was while another job had it, a shell's line editor, was not ours.
                self.saved = termios.tcgetattr(self.control)
                tty.setraw(self.control, termios.TCSANOW)
                self.is_raw = True

    def restore(self) -> None:
        """As it was.  Does not wait for output: a stopped terminal would hold us here.

        What has come in and was not read was for the session, and may be of its making: a terminal answers what a
        program asks of it as if the answer were typed, and the shell would take it for a command.
        """
        self._wait_for_it(True)
        if self.is_raw:
            self.is_raw = False
            with contextlib.suppress(termios.error):
                termios.tcflush(self.control, termios.TCIFLUSH)
                termios.tcsetattr(self.control, termios.TCSANOW, self.saved)

    def read(self) -> bytes | None:
        """Keys; b"" when the terminal is gone; None if there are none just now."""
        if self.input is None:
            return None
        try:
            return os.read(self.input, 1 << 16)
        except (BlockingIOError, InterruptedError):
            return None
        except OSError:
            return b""

    def write(self, data: memoryview | bytes) -> int:
        """Write what the terminal takes now, and return how much.  A terminal that is gone takes everything."""
        try:
            return os.write(self.output, data[: self.chunk])
        except (BlockingIOError, InterruptedError):
            return 0
        except OSError:
            return len(data)
