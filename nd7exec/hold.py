"""Holding a session's screen for whoever attaches: the supervisor's own pty host.

`attach.sock` lies in the session's directory, which nothing confined can read, and no confined process can make the
unix socket to connect with; whoever connects is asked for its user id by the kernel as well.  Several may be
attached.  The size is that of the one that typed last.  One that does not keep up loses the middle and is
sent the whole screen again, so it slows nobody down.
"""

from __future__ import annotations

import contextlib
import json
import os
import socket
import struct
import sys
from collections import deque
from collections.abc import Callable

from nd7exec.loop import Loop
from nd7exec.relay import Relay
from nd7exec.terminal import DEFAULT_SIZE, set_size, size_of

NAME = "attach.sock"
HEADER = struct.Struct("<cI")
MOST_BACKLOG = 2 << 20
LONGEST_FRAME = 1 << 20
NUDGE_SECONDS = 0.05
Size = tuple[int, int, int, int]


def frame(kind: bytes, body: bytes = b"") -> bytes:
    """One message of the attach protocol, both ways: a kind, a length, a body."""
    return HEADER.pack(kind, len(body)) + body


class Frames:
    """Cuts a stream into messages.  Raises ValueError for one that is too long to be ours."""

    def __init__(self) -> None:
        self._data = bytearray()

    def feed(self, data: bytes) -> list[tuple[bytes, bytes]]:
        self._data += data
        found = []
        while len(self._data) >= HEADER.size:
            kind, length = HEADER.unpack_from(self._data)
            if length > LONGEST_FRAME:
                raise ValueError("a message is too long")
            if len(self._data) < HEADER.size + length:
                break
            found.append((kind, bytes(self._data[HEADER.size : HEADER.size + length])))
            del self._data[: HEADER.size + length]
        return found


def peer_uid(connection: socket.socket) -> int:
    """The user id of whoever connected, as the kernel says it."""
    if sys.platform == "linux":
        credentials = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12)
        return int(struct.unpack("3i", credentials)[1])
    # LOCAL_PEERCRED of unix(4) on macOS: struct xucred begins with a version and the uid.
    return int(struct.unpack_from("Ii", connection.getsockopt(0, 1, 76))[1])


class Attached:
    """One that is attached: a viewer with a connection."""

    def __init__(self, host: Host, connection: socket.socket) -> None:
        self.host = host
        self.connection = connection
        self.size: Size = (*DEFAULT_SIZE, 0, 0)
        self.watching = False
        self.reading_only = False
        self._frames = Frames()
        self._pending: deque[memoryview] = deque()
        self._backlog = 0
        self._lost = False
        connection.setblocking(False)
        self.arm()

    @property
    def backlog(self) -> int:
        return 0  # never holds the session back

    def arm(self) -> None:
        self.host.loop.watch(self.connection.fileno(), self.read, self.write if self._pending else None)

    def show(self, data: bytes) -> None:
        if self._backlog > MOST_BACKLOG:
            self._lost = True
            # The first may be half sent; what follows it is dropped whole.
            while len(self._pending) > 1:
                self._backlog -= len(self._pending.pop())
        if not self._lost:
            self.send(b"O", data)

    def send(self, kind: bytes, body: bytes = b"") -> None:
        """Queue a message.  A long screen becomes several, which a terminal cannot tell from one."""
        for start in range(0, len(body) or 1, LONGEST_FRAME):
            self._pending.append(memoryview(frame(kind, body[start : start + LONGEST_FRAME])))
            self._backlog += len(self._pending[-1])
        self.write()

    def write(self) -> None:
        while self._pending:
            try:
                sent = self.connection.send(self._pending[0], socket.MSG_NOSIGNAL)
            except (BlockingIOError, InterruptedError):
                break
            except OSError:
                self.host.drop(self)
                return
            self._backlog -= sent
            self._pending[0] = self._pending[0][sent:]
            if not self._pending[0]:
                self._pending.popleft()
        if self._lost and not self._pending:
            self._lost = False
            self.send(b"O", self.host.relay.replay.enter())
            return
        self.arm()

    def read(self) -> None:
        try:
            data = self.connection.recv(1 << 16)
        except (BlockingIOError, InterruptedError):
            return
        except OSError:
            data = b""
        if not data:
            self.host.drop(self)
            return
        try:
            for kind, body in self._frames.feed(data):
                self.take(kind, body)
        except (ValueError, struct.error, KeyError, TypeError):
            self.host.drop(self)

    def take(self, kind: bytes, body: bytes) -> None:
        if kind == b"H":
            hello = json.loads(body)
            rows, columns, width, height = (int(hello.get(key, 0)) for key in ("rows", "columns", "width", "height"))
            self.size = (rows, columns, width, height)
            self.reading_only = bool(hello.get("peek"))
            self.host.joined(self)
        elif kind == b"W":
            rows, columns, width, height = struct.unpack("<4H", body)
            self.size = (rows, columns, width, height)
            self.host.active = self
            self.host.resized(self)
        elif kind == b"R":
            self.send(b"E" if (why := self.host.restart()) else b"R", why.encode())
        elif kind == b"I" and self.watching and not self.reading_only:
            self.host.typed(self, body)


class Host:
    """The listening side.

    Attributes:
        active: who typed last; None is the terminal that the session was started in, if there is one.
        hello: what is told to whoever attaches about the session.
        resume: makes that terminal's size count again.
        restart: ends the agent so that it comes back; returns why it cannot, or "".
    """

    def __init__(
        self,
        loop: Loop,
        relay: Relay,
        directory: str,
        hello: Callable[[], dict[str, object]],
        resume: Callable[[], object],
        restart: Callable[[], str],
    ) -> None:
        self.loop = loop
        self.relay = relay
        self.hello = hello
        self.resume = resume
        self.restart = restart
        self.active: Attached | None = None
        self.clients: list[Attached] = []
        self.listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.listener.setblocking(False)
        bind(self.listener, directory)
        self.listener.listen(16)
        loop.watch(self.listener.fileno(), self.accept)

    def accept(self) -> None:
        try:
            connection, _ = self.listener.accept()
        except OSError:
            return
        if peer_uid(connection) != os.getuid():
            connection.close()
            return
        self.clients.append(Attached(self, connection))

    def joined(self, client: Attached) -> None:
        """It has said who it is: show it the whole screen."""
        client.send(b"H", json.dumps({**self.hello(), "size": self.screen_size()}).encode())
        client.send(b"O", self.relay.replay.enter())
        if client.reading_only:
            return
        client.watching = True
        self.active = client
        self.relay.viewers.append(client)
        before = size_of(self.relay.master)
        self.resized(client)
        if before == client.size and (self.relay.replay.alternate or not self.relay.replay.whole):
            # The kernel tells a program of a new size only; one that is a line smaller for a moment makes it redraw.
            set_size(self.relay.master, (max(1, before[0] - 1), *before[1:]))
            self.loop.later(NUDGE_SECONDS, lambda: self.resized(client))

    def screen_size(self) -> list[int]:
        return list(size_of(self.relay.master)) if self.relay.open else [*DEFAULT_SIZE, 0, 0]

    def resized(self, client: Attached) -> None:
        """Its size counts now: at least one cell, and no more than a program can allocate."""
        if client.reading_only or not self.relay.open:
            return
        rows, columns = (min(max(1, value), 4096) for value in client.size[:2])
        set_size(self.relay.master, (rows, columns, *client.size[2:]))

    def typed(self, client: Attached, data: bytes) -> None:
        if self.active is not client:
            self.active = client
            self.resized(client)
        self.relay.type(data)

    def drop(self, client: Attached) -> None:
        """It has gone, or sent what nobody of ours sends."""
        if client not in self.clients:
            return
        self.loop.forget(client.connection.fileno())
        client.connection.close()
        self.clients.remove(client)
        if client in self.relay.viewers:
            self.relay.viewers.remove(client)
        if self.active is client:
            self.active = next((other for other in reversed(self.clients) if other.watching), None)
            if self.active:
                self.resized(self.active)
            else:
                self.resume()
        self.relay.arm()

    def end(self, status: int | None) -> None:
        """The session is over, or (None) begins again: say so to all, and close."""
        # First of all: who is told of a new beginning must not connect to what is about to be closed.
        self.loop.forget(self.listener.fileno())
        self.listener.close()
        for client in list(self.clients):
            client.connection.setblocking(True)
            client.connection.settimeout(1.0)
            client.send(*((b"R", b"") if status is None else (b"X", str(status).encode())))
            self.drop(client)


def bind(listener: socket.socket, directory: str) -> None:
    """Bind to `attach.sock` in a directory, however long its path is (a socket's may have 107 bytes)."""
    holder = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    old = os.umask(0o177)
    try:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(NAME, dir_fd=holder)
        listener.bind(reach(holder, directory))
    finally:
        os.umask(old)
        os.close(holder)


def reach(holder: int, directory: str) -> str:
    """A path of the socket that is short enough, through a descriptor of its directory where there is /proc."""
    return f"/proc/self/fd/{holder}/{NAME}" if sys.platform == "linux" else os.path.join(directory, NAME)
