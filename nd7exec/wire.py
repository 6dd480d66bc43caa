"""Messages between the processes of one session: one kind byte, a body, and file descriptors.

Every pair of nd7's own processes shares a SOCK_SEQPACKET socketpair: the kernel keeps messages whole and in
order, which is what "under the policy as it stands at that moment" rests on (a new ruleset is always read
before the command that came after it).  No pathname is involved, so nothing confined can connect.
"""

from __future__ import annotations

import array
import os
import socket
from collections import deque
from collections.abc import Sequence
from typing import NamedTuple

# AF_UNIX refuses a packet larger than the send buffer (212992 by default, net.core.wmem_default); stay well below.
LIMIT = 64 * 1024
MOST_FDS = 16


class Message(NamedTuple):
    """One message: `kind` is a single byte; the receiver owns `fds` and must close them."""

    kind: bytes
    body: bytes
    fds: list[int]


def pair() -> tuple[socket.socket, socket.socket]:
    """A socketpair for a Link at either end (close-on-exec)."""
    return socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)


def receive(connection: socket.socket, size: int) -> tuple[bytes, list[int]]:
    """At most `size` bytes and what descriptors came with them, close-on-exec.  Raises OSError.

    Without the flag a descriptor arrives inheritable, and would be open in everything that is started.
    """
    space = socket.CMSG_SPACE(MOST_FDS * 4)
    data, ancillary, _, _ = connection.recvmsg(size, space, getattr(socket, "MSG_CMSG_CLOEXEC", 0))
    fds = array.array("i")
    for level, kind, payload in ancillary:
        if level == socket.SOL_SOCKET and kind == socket.SCM_RIGHTS:
            fds.frombytes(payload[: len(payload) - len(payload) % fds.itemsize])
    return data, fds.tolist()


def close_all(fds: Sequence[int]) -> None:
    """Close descriptors; one that is closed already is an error of ours and raises."""
    for fd in fds:
        os.close(fd)


class Link:
    """One end of a pair.  Sending never blocks: what does not fit waits in a queue until `flush`.

    Attributes:
        closed: the other end is gone; what is sent from then on is dropped, which is right, because every
            message is a request or a report to a process that no longer exists.
    """

    def __init__(self, end: socket.socket) -> None:
        self.socket = end
        self.socket.setblocking(False)
        self.closed = False
        self._queue: deque[tuple[bytes, list[int]]] = deque()

    def fileno(self) -> int:
        return self.socket.fileno()

    @property
    def pending(self) -> bool:
        """Whether there is something that `flush` should send once the socket is writable."""
        return bool(self._queue)

    def send(self, kind: bytes, body: bytes = b"", fds: Sequence[int] = ()) -> None:
        """Send a message, or queue it.  The descriptors are duplicated; the caller keeps its own."""
        if len(kind) != 1 or len(body) > LIMIT or len(fds) > MOST_FDS:
            raise ValueError(f"a message of {len(body)} bytes and {len(fds)} descriptors does not fit")
        if not self.closed:
            self._queue.append((kind + body, [os.dup(fd) for fd in fds]))
            self.flush()

    def flush(self) -> None:
        """Send what is queued, as far as the socket takes it."""
        while self._queue and not self.closed:
            data, fds = self._queue[0]
            rights = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", fds))] if fds else []
            try:
                self.socket.sendmsg([data], rights, socket.MSG_NOSIGNAL)
            except BlockingIOError:
                return
            except InterruptedError:
                continue
            except OSError:
                self.closed = True
                break
            self._queue.popleft()
            close_all(fds)
        if self.closed:
            self._drop()

    def _drop(self) -> None:
        while self._queue:
            close_all(self._queue.popleft()[1])

    def receive(self) -> Message | None:
        """The next message, or None if there is none yet.  Sets `closed` at the end of the stream."""
        try:
            data, fds = receive(self.socket, LIMIT + 1)
        except (BlockingIOError, InterruptedError):
            return None
        except OSError:
            data, fds = b"", []
        if not data:
            close_all(fds)
            self.closed = True
            self._drop()
            return None
        return Message(data[:1], data[1:], fds)

    def close(self) -> None:
        self.closed = True
        self._drop()
        self.socket.close()


def write_all(fd: int, data: bytes) -> bool:
    """Write to a blocking descriptor by write(2) alone.  False if the reader is gone.

    A process under the session's filter uses this instead of `send`: the filter hands sendto, sendmsg and
    connect to the supervisor, and a process the supervisor waits for must not wait for the supervisor.
    """
    view = memoryview(data)
    while view:
        try:
            view = view[os.write(fd, view) :]
        except OSError:
            return False
    return True
