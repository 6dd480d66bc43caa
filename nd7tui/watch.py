"""Waiting for what the ingest thread reads about: a file that changes, a process that ends.  No clock ticks in it.

On Linux one poll(2) waits for an inotify queue and a descriptor of each process, so that an append is known of at
once and nothing runs where nothing happens.  watchfiles, which stands in elsewhere, sleeps in steps of some
milliseconds for as long as it waits: short ones for a quick answer, long ones so that idling costs little.

What is told of here is a hint.  A queue can overflow (that is told), and no event tells what another machine wrote
on a network file system: whoever waits here must look by itself now and then.
"""

from __future__ import annotations

import contextlib
import ctypes
import errno
import os
import select
import struct
import threading
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Protocol

# watchfiles only: an append waits one or two steps.
BUSY_STEP, CALM_STEP = 5, 25
BUSY_SECONDS = 20.0

# inotify(7)
_MODIFY, _ATTRIB, _MOVED_FROM, _MOVED_TO, _CREATE, _DELETE = 0x2, 0x4, 0x40, 0x80, 0x100, 0x200
_DELETE_SELF, _MOVE_SELF, _OVERFLOW, _IGNORED, _ISDIR = 0x400, 0x800, 0x4000, 0x8000, 0x4000_0000
_ONLYDIR, _DONT_FOLLOW = 0x0100_0000, 0x0200_0000
_NAMES = _CREATE | _DELETE | _MOVED_FROM | _MOVED_TO | _DELETE_SELF | _MOVE_SELF | _ONLYDIR | _DONT_FOLLOW
_EVENT = struct.Struct("iIII")


@dataclass(slots=True)
class Seen:
    """What has happened.

    Attributes:
        paths: of what has changed: directories in the roots, and files with one of the names in those.
        over: more may have happened than is told, and will: make another watch and look at everything.
        ended: pids of processes that have ended.
    """

    paths: set[str] = field(default_factory=set)
    over: bool = False
    ended: set[int] = field(default_factory=set)

    def __bool__(self) -> bool:
        return bool(self.paths or self.over or self.ended)


class Watch(Protocol):
    """One thread waits; `wake` may be called from any other."""

    def follow(self, pids: set[int]) -> set[int]:
        """Also wait for the end of these processes, and of no others; gives those for which that cannot be done."""
        ...

    def wait(self, seconds: float) -> Seen:
        """What has happened since the last time; waits for it so long at most.

        Raises OSError, RuntimeError or UnicodeError where no more will be told.
        """
        ...

    def wake(self) -> None:
        """End the wait."""
        ...

    def close(self) -> None:
        """Let go of everything; `wake` does nothing from then on."""
        ...


def watch(roots: Sequence[str], names: frozenset[str]) -> Watch:
    """Watch directories and, in those directly in them, files with these names; also such as appear later.

    Raises OSError where a limit of the system's is reached or a root is not there.
    """
    try:
        return Inotify(roots, names)
    except AttributeError:  # not Linux: the C library has no inotify
        return Notified(roots, names)


class Inotify:
    """See `watch`."""

    def __init__(self, roots: Sequence[str], names: frozenset[str]) -> None:
        libc = ctypes.CDLL(None, use_errno=True)
        self._add_watch = libc.inotify_add_watch
        self._add_watch.argtypes = (ctypes.c_int, ctypes.c_char_p, ctypes.c_uint32)
        self._file = libc.inotify_init1(os.O_NONBLOCK | os.O_CLOEXEC)
        if self._file < 0:
            raise _error()
        self._wakes = os.eventfd(0, os.EFD_NONBLOCK | os.EFD_CLOEXEC)
        self._open = threading.Lock()  # of the two descriptors above against a `wake` while they are closed
        self._poll = select.poll()
        self._poll.register(self._file, select.POLLIN)
        self._poll.register(self._wakes, select.POLLIN)
        self._processes: dict[int, int] = {}  # descriptors by pid
        self._paths: dict[int, str] = {}  # by inotify's own number
        self._roots: set[int] = set()
        self._names = {os.fsencode(name) for name in names}
        try:
            for root in roots:
                # The root first: a directory that appears between the two is then told of or listed, or both.
                self._roots.add(self._add(root, _NAMES))
                with os.scandir(root) as entries:
                    for entry in entries:
                        if entry.is_dir(follow_symlinks=False):
                            self._enter(entry.path)
        except OSError:
            self.close()
            raise

    def _add(self, path: str, mask: int) -> int:
        number = int(self._add_watch(self._file, os.fsencode(path), mask))
        if number < 0:
            raise _error()
        self._paths[number] = path
        return number

    def _enter(self, path: str) -> None:
        # One that has gone already, or may not be read, is no reason to see nothing of the others.
        try:
            self._add(path, _NAMES | _MODIFY | _ATTRIB)
        except OSError as error:
            if error.errno in (errno.ENOSPC, errno.ENOMEM):
                raise

    def follow(self, pids: set[int]) -> set[int]:
        """See `Watch`."""
        for pid in self._processes.keys() - pids:
            self._leave(pid)
        for pid in pids - self._processes.keys():
            with contextlib.suppress(OSError):
                self._processes[pid] = os.pidfd_open(pid)
                self._poll.register(self._processes[pid], select.POLLIN)
        return pids - self._processes.keys()

    def _leave(self, pid: int) -> None:
        file = self._processes.pop(pid)
        self._poll.unregister(file)
        os.close(file)

    def wait(self, seconds: float) -> Seen:
        """See `Watch`."""
        seen = Seen()
        ready = {file for file, _ in self._poll.poll(max(0.0, seconds * 1000))}
        if self._file in ready:
            with contextlib.suppress(BlockingIOError):
                self._take(os.read(self._file, 1 << 18), seen)
        if self._wakes in ready:
            with contextlib.suppress(BlockingIOError):
                os.eventfd_read(self._wakes)
        for pid in [pid for pid, file in self._processes.items() if file in ready]:
            self._leave(pid)
            seen.ended.add(pid)
        return seen

    def _take(self, data: bytes, seen: Seen) -> None:
        for number, mask, name in _events(data):
            if mask & _OVERFLOW or (number in self._roots and mask & (_DELETE_SELF | _MOVE_SELF | _IGNORED)):
                seen.over = True
                continue
            above = self._paths.get(number)
            if above is None:
                continue
            if mask & _IGNORED:
                del self._paths[number]
                continue
            if number in self._roots:
                path = os.path.join(above, os.fsdecode(name))
                seen.paths.add(path)
                if mask & _ISDIR and mask & (_CREATE | _MOVED_TO):
                    self._enter(path)
            elif name in self._names:
                seen.paths.add(os.path.join(above, os.fsdecode(name)))

    def wake(self) -> None:
        """See `Watch`."""
        with self._open:
            if self._wakes >= 0:
                os.eventfd_write(self._wakes, 1)

    def close(self) -> None:
        """See `Watch`."""
        for pid in list(self._processes):
            self._leave(pid)
        with self._open:
            for file in (self._file, self._wakes):
                if file >= 0:
                    os.close(file)
            self._file = self._wakes = -1


def _events(data: bytes) -> Iterator[tuple[int, int, bytes]]:
    """Number of the watch, mask and name of each event."""
    at = 0
    while at < len(data):
        number, mask, _, size = _EVENT.unpack_from(data, at)
        at += _EVENT.size + size
        yield number, mask, data[at - size : at].rstrip(b"\0")


def _error() -> OSError:
    number = ctypes.get_errno()
    return OSError(number, os.strerror(number))


class Notified:
    """The same by watchfiles.  Its poll mode is not used: it compares whole seconds and can lose the last append."""

    def __init__(self, roots: Sequence[str], names: frozenset[str]) -> None:
        from watchfiles._rust_notify import RustNotify

        self._stop = threading.Event()
        self._heard = -BUSY_SECONDS
        self._roots = tuple(roots)
        self._names = names
        self._watcher = RustNotify(list(roots), False, False, 0, True, False)

    def follow(self, pids: set[int]) -> set[int]:
        """None."""
        return pids

    def wait(self, seconds: float) -> Seen:
        """See `Watch`."""
        now = time.monotonic()
        step = BUSY_STEP if now - self._heard < BUSY_SECONDS else CALM_STEP
        changes = self._watcher.watch(50, step, max(1, int(seconds * 1000)), self._stop)
        seen = Seen()
        if isinstance(changes, set):
            self._heard = now
            for _, path in changes:
                above, _, name = path.rpartition("/")
                if above in self._roots or name in self._names:
                    seen.paths.add(path)
        return seen

    def wake(self) -> None:
        """See `Watch`."""
        self._stop.set()

    def close(self) -> None:
        """See `Watch`."""
        self._stop.set()
        self._watcher.close()
