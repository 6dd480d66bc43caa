"""A question of the filter's, its answer, and the desk where both pass.

Sources: seccomp_unotify(2).
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import signal
import struct
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from nd7exec.linux import syscalls
from nd7exec.linux.membership import thread_group

_RECV, _SEND, _ID_VALID, _ADDFD, _SET_FLAGS = 0xC0502100, 0xC0182101, 0x40082102, 0x40182103, 0x40082104
_CONTINUE: Final = 1
_ADDFD_SEND: Final = 2
_PIDFD_THREAD: Final = os.O_EXCL


@dataclass(frozen=True, slots=True)
class Refusal:
    """Something that the notifier refused: an attempt, told by nd7 itself.

    Attributes:
        pid: the process that tried; by the time this is read it may be gone.
        call: the system call's name.
        kind: "tcp", "udp", "listen", "unix", "netlink", "process" or "signal".
        target: `host:port`, a pid, or "".
        error: the errno that the process got.
        more: how many others were left out since the last one that was told.
    """

    pid: int
    call: str
    kind: str
    target: str
    error: int
    more: int = 0


@dataclass(frozen=True, slots=True)
class Call:
    """A system call that waits for an answer: `id` is the kernel's cookie, `pid` the thread's."""

    id: int
    pid: int
    name: str
    args: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Reply:
    """What the call returns: a value, or an errno (negative), or the flag to go on with it."""

    value: int = 0
    error: int = 0
    flags: int = 0


GO_ON: Final = Reply(flags=_CONTINUE)


def fail(error: int) -> Reply:
    """The call fails with this errno."""
    return Reply(error=-error)


def signed(word: int) -> int:
    """An argument as the C int that it is."""
    word &= 0xFFFFFFFF
    return word - (1 << 32) if word >> 31 else word


def done(operation: Callable[[], int]) -> Reply:
    """Do it; the call returns 0, or the OSError that is raised."""
    operation()
    return Reply()


class Desk:
    """The listener, and what every decision needs of it."""

    def __init__(self, listener_fd: int, refused: Callable[[Refusal], None]) -> None:
        self.listener_fd = listener_fd
        self._refused = refused
        self._limit = _Limit()
        self._names = {number: name for name, number in syscalls.NUMBERS[syscalls.machine()].items()}
        with contextlib.suppress(OSError):
            # SYNC_WAKE_UP (6.6): the answer comes on the asker's own core, half the latency.
            fcntl.ioctl(listener_fd, _SET_FLAGS, struct.pack("Q", 1))

    def receive(self) -> Call | None:
        """The next question; None where its process was killed before it was asked."""
        buffer = bytearray(80)
        try:
            fcntl.ioctl(self.listener_fd, _RECV, buffer)
        except OSError as error:
            if error.errno in (errno.ENOENT, errno.EINTR):
                return None
            raise
        identity, pid, _, nr, _, _, *args = struct.unpack("=QIIiIQ6Q", buffer)
        return Call(identity, pid, self._names.get(nr, ""), tuple(args))

    def answer(self, call: Call, reply: Reply) -> None:
        """Let the call return."""
        data = struct.pack("=QqiI", call.id, reply.value, reply.error, reply.flags)
        try:
            fcntl.ioctl(self.listener_fd, _SEND, bytearray(data))
        except OSError as error:
            # The process was killed meanwhile; or it has its answer already.
            if error.errno not in (errno.ENOENT, errno.EINPROGRESS):
                raise

    def give(self, call: Call, fd: int, flags: int) -> Reply | None:
        """Put a descriptor into the caller's table and let the call return its number.

        Returns:
            The answer that is still to be given, on kernels before 5.14.
        """
        add = bytearray(struct.pack("=QIIII", call.id, _ADDFD_SEND, fd, 0, flags))
        # The kernel waits until the caller has taken it, and a signal to us (^C) would break that off half done: the
        # call would return 0, a descriptor that the caller does have.
        blocked = signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())
        try:
            fcntl.ioctl(self.listener_fd, _ADDFD, add)
        except OSError as error:
            if error.errno != errno.EINVAL:
                raise
            struct.pack_into("=I", add, 8, 0)
            return Reply(value=fcntl.ioctl(self.listener_fd, _ADDFD, add))
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, blocked)
        return None

    def valid(self, call: Call) -> bool:
        """Whether the caller still waits: only then its pid, and what was read by it, are its own."""
        try:
            fcntl.ioctl(self.listener_fd, _ID_VALID, struct.pack("=Q", call.id))
        except OSError:
            return False
        return True

    def must_wait(self, call: Call) -> None:
        """Raise OSError where the caller does not wait any more."""
        if not self.valid(call):
            raise OSError(errno.EPERM, "the caller has gone")

    def refuse(self, call: Call, kind: str, target: str, error: int) -> Reply:
        """Fail, and tell."""
        told, more = self._limit.take()
        if told:
            self._refused(Refusal(thread_group(call.pid), call.name, kind, target, error, more))
        return fail(error)

    def pidfd(self, call: Call) -> int:
        """A pidfd of the calling thread (of its process before Linux 6.9).  Raises OSError."""
        try:
            return os.pidfd_open(call.pid, _PIDFD_THREAD)
        except OSError:
            # A thread with a descriptor table of its own then gets its process's socket, decided and used alike.
            return os.pidfd_open(thread_group(call.pid))


class _Limit:
    """At most `_PER_SECOND` refusals are told, with a start of `_BURST`; the rest is counted."""

    _BURST: Final = 50.0
    _PER_SECOND: Final = 10.0

    def __init__(self) -> None:
        self._tokens, self._then, self._left_out = self._BURST, time.monotonic(), 0

    def take(self) -> tuple[bool, int]:
        """Whether this one is told, and how many were not since the last."""
        now = time.monotonic()
        self._tokens = min(self._BURST, self._tokens + (now - self._then) * self._PER_SECOND)
        self._then = now
        if self._tokens < 1:
            self._left_out += 1
            return False, 0
        self._tokens -= 1
        left_out, self._left_out = self._left_out, 0
        return True, left_out
