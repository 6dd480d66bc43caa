"""`nd7 attach`: this terminal on a session's screen, until the chord is typed or the session ends."""

from __future__ import annotations

import json
import os
import re
import select
import signal
import socket
import struct
import time
from dataclasses import dataclass
from types import FrameType

from nd7core.errors import Nd7Error
from nd7exec import hold, terminal
from nd7exec.replay import Replay
from nd7exec.terminal import OuterTerminal

CHORD = "Ctrl+\\ then d"
# The screen is the session's from its first byte on; the window's title says how to leave, until the session has one.
TITLE = b"\x1b[22;2t\x1b]2;nd7: " + CHORD.encode() + b" detaches\x07"
TITLE_BACK = b"\x1b[23;2t"
RESTART_SECONDS = 20.0  # an agent may take five to end, and a session one to begin
# Ctrl+\ as terminals send it when a program has asked for other keyboard protocols: kitty's (with the event's
# kind: pressed, repeated, released), and xterm's modifyOtherKeys.
PREFIXES = re.compile(rb"\x1c|\x1b\[92;5(?::([123]))?u|\x1b\[27;5;92~")
DETACH = re.compile(rb"[dD]|\x1b\[100(?:;1(?::[12])?)?u")
RELEASE = re.compile(rb"\x1b\[[0-9;]+:3u")


class Chord:
    """Finds the chord in what is typed, whole sequences at a time, and passes everything else on."""

    def __init__(self) -> None:
        self._prefix = b""

    def feed(self, data: bytes) -> tuple[bytes, bool]:
        """What to pass on, and whether to detach."""
        out = bytearray()
        while data:
            if self._prefix:
                released = RELEASE.match(data)
                if released:
                    data = data[released.end() :]
                    continue
                if DETACH.match(data):
                    return bytes(out), True
                again = PREFIXES.match(data)
                out += self._prefix
                self._prefix = b""
                if again:  # typed twice: once for the program
                    data = data[again.end() :]
                continue
            found = PREFIXES.search(data)
            if not found or found[1] == b"3":
                out += data if not found else data[: found.end()]
                data = b"" if not found else data[found.end() :]
                continue
            out += data[: found.start()]
            self._prefix = found[0]
            data = data[found.end() :]
        return bytes(out), False


@dataclass(frozen=True, slots=True)
class End:
    """How an attachment ended: detached, the session's exit status, a restart, or a connection that broke."""

    detached: bool
    status: int | None
    restarted: bool = False


@dataclass(frozen=True, slots=True)
class Screen:
    """A session's screen now: the bytes that draw it on a fresh terminal of this size, and what it is."""

    data: bytes
    rows: int
    columns: int
    about: dict[str, object]


def connect(directory: str) -> socket.socket:
    """A connection to the session's host.  Raises Nd7Error with what can be done."""
    connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        holder = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            connection.settimeout(5.0)
            connection.connect(hold.reach(holder, directory))
        finally:
            os.close(holder)
    except FileNotFoundError:
        connection.close()
        raise Nd7Error(
            "the session has no terminal to attach to",
            hint="it was started with its input and output in a file or a pipe, or it has just ended",
        ) from None
    except OSError as error:
        connection.close()
        raise Nd7Error(f"the session cannot be reached: {error.strerror or error}") from None
    return connection


def peek(directory: str, seconds: float = 2.0) -> Screen:
    """What the session's screen holds now, without changing its size or typing.  Raises Nd7Error."""
    with connect(directory) as connection:
        connection.settimeout(seconds)
        try:
            connection.sendall(hold.frame(b"H", json.dumps({"rows": 24, "columns": 80, "peek": True}).encode()))
            frames = hold.Frames()
            about: dict[str, object] = {}
            while data := connection.recv(1 << 16):
                for kind, body in frames.feed(data):
                    if kind == b"H":
                        about = json.loads(body)
                    elif kind == b"O":
                        rows, columns = _size(about)
                        return Screen(body, rows, columns, about)
        except (OSError, ValueError) as error:
            raise Nd7Error(f"the session's screen cannot be read: {error}") from None
    raise Nd7Error("the session has ended")


def _size(about: dict[str, object]) -> tuple[int, int]:
    size = about.get("size")
    if isinstance(size, list) and len(size) == 4 and all(isinstance(value, int) for value in size):
        return size[0], size[1]
    return terminal.DEFAULT_SIZE


class Attachment:
    """The loop between this terminal and the session's host."""

    def __init__(self, connection: socket.socket, outer: OuterTerminal) -> None:
        self.connection = connection
        self.outer = outer
        self.chord = Chord()
        self.frames = hold.Frames()
        self.replay = Replay(most=1 << 12)  # only for the modes that have to be left
        self.screen = bytearray()
        self.outgoing = bytearray()
        self.end: End | None = None

    def size(self) -> bytes:
        return hold.frame(b"W", struct.pack("<4H", *(min(value, 0xFFFF) for value in self.outer.size())))

    def keys(self) -> None:
        data = self.outer.read()
        if data == b"":
            self.end = End(True, None)  # this terminal was closed; the session goes on
        elif data:
            typed, leave = self.chord.feed(data)
            for start in range(0, len(typed), hold.LONGEST_FRAME):
                self.outgoing += hold.frame(b"I", typed[start : start + hold.LONGEST_FRAME])
            if leave:
                self.end = End(True, None)

    def told(self) -> None:
        try:
            data = self.connection.recv(1 << 16)
        except (BlockingIOError, InterruptedError):
            return
        except OSError:
            data = b""
        if not data:
            self.end = self.end or End(False, None)
            return
        for kind, body in self.frames.feed(data):
            if kind == b"O":
                self.replay.feed(body)
                self.screen += body
            elif kind == b"X":
                self.end = End(False, int(body))
            elif kind == b"R":
                self.end = End(False, None, restarted=True)

    def run(self) -> End:
        """Until detached or ended.  The terminal is restored, and the session's modes left, whatever happens."""
        wakeup, write = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
        numbers = (signal.SIGWINCH, signal.SIGTERM, signal.SIGHUP, signal.SIGCONT)
        saved = [(number, signal.signal(number, _noted)) for number in numbers]
        old = signal.set_wakeup_fd(write, warn_on_full_buffer=False)
        rows, columns, width, height = self.outer.size()
        hello = {"rows": rows, "columns": columns, "width": width, "height": height}
        self.outgoing += hold.frame(b"H", json.dumps(hello).encode())
        self.connection.setblocking(False)
        try:
            self.outer.raw()
            self.screen += TITLE
            while self.end is None or self.screen:
                self.turn(wakeup)
        finally:
            signal.set_wakeup_fd(old)
            for number, handler in saved:
                signal.signal(number, handler)
            os.close(wakeup)
            os.close(write)
            rest = self.replay.leave() + TITLE_BACK
            while rest and (taken := self.outer.write(rest)):
                rest = rest[taken:]
            self.outer.restore()
        return self.end

    def turn(self, wakeup: int) -> None:
        poll = select.poll()
        poll.register(wakeup, select.POLLIN)
        if self.end is None:
            read = select.POLLIN if len(self.screen) < 1 << 18 else 0
            poll.register(self.connection, read | (select.POLLOUT if self.outgoing else 0))
            if self.outer.input is not None and len(self.outgoing) < 1 << 16:
                poll.register(self.outer.input, select.POLLIN)
        if self.screen:
            poll.register(self.outer.output, select.POLLOUT)
        for fd, event in poll.poll():
            if fd == wakeup:
                self.signals(os.read(wakeup, 4096))
            elif fd == self.connection.fileno() and self.end is None:
                if event & (select.POLLIN | select.POLLHUP):
                    self.told()
                if self.outgoing:
                    self.send()
            elif fd == self.outer.input and self.end is None:
                self.keys()
            elif fd == self.outer.output and self.screen:
                del self.screen[: self.outer.write(bytes(self.screen[: 1 << 16]))]
        if self.end and self.end.detached:
            self.screen.clear()

    def send(self) -> None:
        try:
            del self.outgoing[: self.connection.send(self.outgoing)]
        except (BlockingIOError, InterruptedError):
            return
        except OSError:
            self.outgoing.clear()

    def signals(self, numbers: bytes) -> None:
        if signal.SIGTERM in numbers or signal.SIGHUP in numbers:
            self.end = End(True, None)
        if signal.SIGCONT in numbers:
            self.outer.is_raw = False
            self.outer.raw()
        if signal.SIGWINCH in numbers or signal.SIGCONT in numbers:
            self.outgoing += self.size()


def _noted(_number: int, _frame: FrameType | None) -> None:
    """Only there so that the signal reaches the wakeup pipe."""


def attach(directory: str) -> End:
    """Put the terminal of 0, 1 or 2 on a session's screen.  Raises Nd7Error."""
    fds = terminal.terminals()
    if 0 not in fds or not fds & {1, 2}:  # `nd7 attach --json > how-it-ended`: the screen is drawn on the other one
        raise Nd7Error("attach needs a terminal for its input and output", exit_code=2)
    until = 0.0
    while True:
        try:
            connection = connect(directory)
        except Nd7Error:
            if time.monotonic() > until:
                raise
            time.sleep(0.1)
            continue
        with connection:
            end = Attachment(connection, OuterTerminal(fds)).run()
        if not end.restarted:
            return end
        until = time.monotonic() + RESTART_SECONDS


def restart(directory: str, seconds: float = 5.0) -> None:
    """Have a session's agent end and come back, resumed, under a floor that has the grants.

    Raises:
        Nd7Error: it cannot, and why.
    """
    with connect(directory) as connection:
        connection.settimeout(seconds)
        frames = hold.Frames()
        try:
            connection.sendall(hold.frame(b"R"))
            while data := connection.recv(1 << 16):
                for kind, body in frames.feed(data):
                    if kind == b"R":
                        return
                    if kind == b"E":
                        raise Nd7Error(body.decode("utf-8", "replace"))
        except (OSError, ValueError) as error:
            raise Nd7Error(f"the session cannot be restarted: {error}") from None
    raise Nd7Error("the session has ended")
