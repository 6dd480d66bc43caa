"""Blocking calls whose processes wait: tried again when their sockets are ready."""

from __future__ import annotations

import errno
import os
import select
import socket
import struct
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

from nd7exec.linux import syscalls
from nd7exec.linux.asked import Call, Desk, Reply, fail
from nd7exec.linux.membership import status_field
from nd7exec.linux.privileges import PutAside

_MOST_PENDING: Final = 256
_CHECK_SECONDS: Final = 0.2


@dataclass(slots=True)
class _Pending:
    call: Call
    sock: socket.socket
    again: Callable[[], Reply | None]
    fds: Sequence[int]


class Waiting:
    """The waiting calls, behind the epoll that it is given."""

    def __init__(self, desk: Desk, epoll: select.epoll, unprivileged: PutAside) -> None:
        self._desk, self._epoll, self._unprivileged = desk, epoll, unprivileged
        self._pending: dict[int, _Pending] = {}
        self._timer = syscalls.call("timerfd_create", time.CLOCK_MONOTONIC, os.O_CLOEXEC | os.O_NONBLOCK)
        epoll.register(self._timer, select.EPOLLIN)

    def add(self, call: Call, sock: socket.socket, again: Callable[[], Reply | None], fds: Sequence[int] = ()) -> None:
        """Keep a call waiting until its socket may be ready, then try `again`.  Takes `sock` and `fds` over.

        Raises:
            OSError: ENOBUFS, too many wait already.
        """
        if len(self._pending) >= _MOST_PENDING:
            raise OSError(errno.ENOBUFS, os.strerror(errno.ENOBUFS))
        fd = sock.fileno()
        self._pending[fd] = _Pending(call, sock, again, fds)
        self._epoll.register(fd, select.EPOLLOUT)
        if len(self._pending) == 1:
            self._set_timer(_CHECK_SECONDS)

    def handle(self, fd: int) -> None:
        """What to do when one of this object's descriptors is ready; others are passed over."""
        if fd == self._timer:
            os.read(fd, 8)
            self._prune()
        elif fd in self._pending:
            pending = self._pending[fd]
            try:
                with self._unprivileged:
                    reply = pending.again()
            except OSError as error:
                reply = fail(error.errno or errno.EPERM)
            if reply is not None:
                self._desk.answer(pending.call, reply)
                self._forget(fd)

    def close(self) -> None:
        """Forget them all."""
        for fd in list(self._pending):
            self._forget(fd)
        os.close(self._timer)

    def _set_timer(self, seconds: float) -> None:
        nanoseconds = int(seconds * 1e9)
        syscalls.call("timerfd_settime", self._timer, 0, struct.pack("qqqq", 0, nanoseconds, 0, nanoseconds), None)

    def _forget(self, fd: int) -> None:
        pending = self._pending.pop(fd)
        self._epoll.unregister(fd)
        pending.sock.close()
        for number in pending.fds:
            os.close(number)
        if not self._pending:
            self._set_timer(0)

    def _prune(self) -> None:
        """Let go of calls whose process was killed, and interrupt those that have a signal to handle.

        The kernel keeps a caught signal waiting until we answer (WAIT_KILLABLE_RECV), since it could
        not tell whether a send has been done already.
        """
        for fd, pending in list(self._pending.items()):
            if not self._desk.valid(pending.call):
                self._forget(fd)
            elif _has_signal(pending.call.pid):
                self._desk.answer(pending.call, fail(errno.EINTR))
                self._forget(fd)


def _has_signal(tid: int) -> bool:
    """Whether a waiting thread has a signal that it would handle."""
    pending = int(status_field(tid, b"SigPnd") or "0", 16) | int(status_field(tid, b"ShdPnd") or "0", 16)
    if not pending:
        return False
    return bool(pending & int(status_field(tid, b"SigCgt") or "0", 16) & ~int(status_field(tid, b"SigBlk") or "0", 16))
