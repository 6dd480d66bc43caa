"""Appending to a session's audit log, so that a crash at any step leaves it whole or visibly broken.

One append is: take `lock`, read `head` and the log's last line, compare them, write the next `head`
beside the old one, write the frame with one write(2), rename the new `head` into place.  A process
killed between the last two leaves a `head` one frame behind, which the next append recognises by the
link and mends before it writes anything, so that it is never two behind; one killed inside the write
leaves a line without its newline, which every later append refuses.  Nothing is synced to the disk:
the log outlives its writer, not the machine's power (an fdatasync costs 6 ms here, a hook has 10).
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import re
import stat
import time
from collections.abc import Iterator
from typing import Any

from nd7core.audit.frame import VERSION, Damage, Frame, decode, encode, genesis
from nd7core.errors import Nd7Error

EVENTS, HEAD, LOCK = "events.ndjson", "head", "lock"
HEAD_NEW = "head.new"

_ID = re.compile(r"[A-Za-z0-9._-]{1,255}")
_HEAD = re.compile(rb"(0|[1-9][0-9]{0,18}) ([0-9a-f]{64})\n")
_BLOCK = 8192
# A last line larger than this was not written by nd7; reading it whole would be the attacker's choice.
MAX_LINE = 64 << 20
_LOCK_SECONDS = 10.0


class AuditError(Nd7Error):
    """The log cannot be written or read as it stands; the message names the frame."""


def check_session_id(session_id: str) -> str:
    """The id itself, if it may name a log directory.

    Raises AuditError for anything but 1 to 255 ASCII letters, digits, `-`, `_`, `.`, and for `.` and `..`.
    """
    if _ID.fullmatch(session_id) is None or session_id in (".", ".."):
        shown = session_id.encode("ascii", "backslashreplace").decode()
        shown = shown if len(shown) <= 80 else shown[:80] + "..."
        raise AuditError(f"session id {shown!r} is not one: only letters, digits, '-', '_' and '.' may be in it")
    return session_id


def log_directory(state: str, session_id: str) -> str:
    """Where the log of a session is: `<state>/sessions/<session-id>`.  Raises AuditError for a bad id."""
    return os.path.join(state, "sessions", check_session_id(session_id))


class Log:
    """The log in one directory, for writing.

    Args:
        directory: as `log_directory` gives it; made (0700, its parents too) by the first append.
        host: the machine's name in the frames; uname's by default.
    """

    def __init__(self, directory: str, *, host: str | None = None) -> None:
        self.directory = directory
        self.session_id = check_session_id(os.path.basename(directory))
        self.host = os.uname().nodename if host is None else host

    def empty(self) -> bool:
        """Whether no frame stands in it yet."""
        try:
            return os.stat(os.path.join(self.directory, EVENTS)).st_size == 0
        except OSError:
            return True

    def append(self, kind: str, body: dict[str, Any], *, source: str, ts: int | None = None) -> Frame:
        """Write one frame and return it.

        Args:
            ts: nanoseconds since the epoch, of the moment the hook started; now by default.

        Raises AuditError with nothing written: the log and its `head` disagree, the last line is
        torn, the disk is full, the directory is not ours, the body is no JSON.
        """
        try:
            return self._append(kind, body, source, time.time_ns() if ts is None else ts)
        except OSError as error:
            raise AuditError(f"audit log {self.directory}: {error.strerror or error}") from error

    def _append(self, kind: str, body: dict[str, Any], source: str, ts: int) -> Frame:
        with open_directory(self.directory, create=True) as directory, locked(directory, create=True):
            events = os.open(
                EVENTS, os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600, dir_fd=directory
            )
            try:
                size = regular_size(events, EVENTS)
                seq, prev = self._position(directory, events, size)
                try:
                    line = encode(self.session_id, seq, ts, self.host, source, kind, prev, body)
                except (ValueError, RecursionError) as error:
                    raise AuditError(f"frame {seq} was not written: {error}") from None
                if len(line) >= MAX_LINE:
                    raise AuditError(f"frame {seq} was not written: {len(line)} bytes are more than {MAX_LINE}")
                digest = line[-66:-2].decode()
                # Before the frame: a disk that is full says so while there is nothing to take back.
                prepare_head(directory, seq, digest)
                _write_whole(events, line + b"\n", size, seq)
                commit_head(directory)
            finally:
                os.close(events)
        return Frame(
            VERSION, self.session_id, seq, ts, self.host, source, kind, prev, body, digest, size, len(line) + 1
        )

    def _position(self, directory: int, events: int, size: int) -> tuple[int, str]:
        """The next frame's `seq` and `prev`, from the log's end and `head`, which must agree."""
        try:
            head = read_head(directory)
        except AuditError as error:
            if size == 0:
                raise
            raise AuditError(f"frame {self._last_frame(events, size).seq}: {error.message}") from None
        if size == 0:
            if head is not None:
                raise AuditError(f"events.ndjson is empty, but head says frame {head[0]}: the log was cut")
            return 0, genesis(self.session_id)
        last = self._last_frame(events, size)
        if head is None:
            prepare_head(directory, last.seq, last.hash)
            commit_head(directory)
        elif head != (last.seq, last.hash):
            seq, digest = head
            if seq + 1 == last.seq and last.prev == digest:
                # The writer died after the frame and before `head`.  The link proves that nothing
                # stands between the two, so going on loses nothing.
                prepare_head(directory, last.seq, last.hash)
                commit_head(directory)
                return last.seq + 1, last.hash
            if seq == last.seq:
                raise AuditError(f"frame {seq}: head names another hash than the log's last frame has")
            if seq > last.seq:
                raise AuditError(f"frame {seq} is missing: head names it, but the log ends with frame {last.seq}")
            raise AuditError(f"frame {last.seq}: the log ends with it, but head names frame {seq} and does not link")
        return last.seq + 1, last.hash

    def _last_frame(self, events: int, size: int) -> Frame:
        torn = os.pread(events, 1, size - 1) != b"\n"
        line, start = line_before(events, size if torn else size - 1)
        frame = decode(line, check=True)
        if torn:
            raise AuditError(f"{_name_at(events, start)} is torn: its writer was stopped in the middle of it")
        if isinstance(frame, Damage):
            if frame.seq is None:
                raise AuditError(f"{_name_at(events, start)}, the log's last line: {frame.reason}")
            raise AuditError(frame.reason)
        if frame.v != VERSION:
            raise AuditError(f"frame {frame.seq} is of format version {frame.v}: a newer nd7 writes this log")
        if frame.session_id != self.session_id:
            raise AuditError(f"frame {frame.seq} is of another session")
        return frame


def line_before(events: int, end: int) -> tuple[bytes, int]:
    """The line of an open log that ends before byte `end`, without its newline, and where it starts.

    Read backwards, so that it costs the same whatever stands before it.  Raises AuditError.
    """
    parts: list[bytes] = []
    position, block = end, _BLOCK
    while position > 0:
        if end - position > MAX_LINE:
            raise AuditError(f"the log's last line is longer than {MAX_LINE} bytes")
        start = max(0, position - block)
        part = os.pread(events, position - start, start)
        if len(part) != position - start:
            raise AuditError("the log was cut while it was read")
        newline = part.rfind(b"\n")
        parts.append(part[newline + 1 :])
        position, block = start, block * 2
        if newline >= 0:
            position += newline + 1
            break
    return b"".join(reversed(parts)), position


def _name_at(events: int, start: int) -> str:
    """Which frame ought to stand at an offset, for a message: the one after the frame before it."""
    if start == 0:
        return "frame 0"
    before = decode(line_before(events, start - 1)[0])
    return f"frame {before.seq + 1}" if isinstance(before, Frame) else "the last frame"


def _write_whole(events: int, data: bytes, size: int, seq: int) -> None:
    """One write(2); a short one (disk full, limit) is taken back, so that the log ends where it ended."""
    try:
        written = os.write(events, data)
    except OSError as error:
        written, reason = -1, error.strerror or str(error)
    else:
        if written == len(data):
            return
        reason = "No space left on device"
    if written >= 0 or os.fstat(events).st_size != size:
        try:
            os.ftruncate(events, size)
        except OSError as error:
            raise AuditError(
                f"frame {seq} was written in part ({reason}) and could not be taken back: {error.strerror}"
            ) from None
    raise AuditError(f"frame {seq} was not written: {reason}")


def prepare_head(directory: int, seq: int, digest: str) -> None:
    """Write the next `head` beside the one in force.  Under the lock."""
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
    try:
        head = os.open(HEAD_NEW, flags, 0o600, dir_fd=directory)
    except FileExistsError:  # of a writer that was killed here; nobody else can hold the lock now
        os.unlink(HEAD_NEW, dir_fd=directory)
        head = os.open(HEAD_NEW, flags, 0o600, dir_fd=directory)
    data = f"{seq} {digest}\n".encode()
    try:
        written = os.write(head, data)
    finally:
        os.close(head)
    if written != len(data):
        raise AuditError(f"frame {seq} was not written: No space left on device")


def commit_head(directory: int) -> None:
    """Put the prepared `head` in force."""
    os.rename(HEAD_NEW, HEAD, src_dir_fd=directory, dst_dir_fd=directory)


def read_head(directory: int) -> tuple[int, str] | None:
    """`head` as (seq, hash); None where there is none.  Raises AuditError for another shape."""
    try:
        head = os.open(HEAD, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK, dir_fd=directory)
    except FileNotFoundError:
        return None
    try:
        regular_size(head, HEAD)
        data = os.read(head, 256)
    finally:
        os.close(head)
    found = _HEAD.fullmatch(data)
    if found is None:
        raise AuditError("head does not hold a frame's number and hash")
    return int(found[1]), found[2].decode()


@contextlib.contextmanager
def open_directory(path: str, *, create: bool = False) -> Iterator[int]:
    """A descriptor of a log directory that is a directory, ours, and writable by nobody else."""
    if create:
        make_directory(path)
    try:
        directory = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    except OSError as error:
        if error.errno in (errno.ELOOP, errno.ENOTDIR):
            raise AuditError(f"{path} is not a directory of its own") from None
        raise
    try:
        status = os.fstat(directory)
        if create and (status.st_uid != os.geteuid() or status.st_mode & 0o022):
            raise AuditError(f"{path} may be written by others: chmod 700 it, or move it away")
        yield directory
    finally:
        os.close(directory)


def make_directory(path: str) -> None:
    """Make a directory and its missing parents, each 0700 whatever the umask."""
    try:
        os.mkdir(path, 0o700)
    except FileExistsError:
        return
    except FileNotFoundError:
        parent = os.path.dirname(path)
        if parent == path:
            raise
        make_directory(parent)
        with contextlib.suppress(FileExistsError):
            os.mkdir(path, 0o700)


@contextlib.contextmanager
def locked(directory: int, *, create: bool = False, shared: bool = False) -> Iterator[bool]:
    """Hold a log's `lock`, exclusively or shared; gives False where there is none and `create` is off.

    Raises AuditError when another process keeps it for 10 s: a hook may not wait for ever.
    """
    flags = os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK | (os.O_RDWR | os.O_CREAT if create else os.O_RDONLY)
    try:
        lock = os.open(LOCK, flags, 0o600, dir_fd=directory)
    except FileNotFoundError:
        yield False
        return
    try:
        _flock(lock, fcntl.LOCK_SH if shared else fcntl.LOCK_EX)
        yield True
    finally:
        os.close(lock)


def _flock(lock: int, how: int) -> None:
    deadline = time.monotonic() + _LOCK_SECONDS
    pause = 0.0005
    while True:
        try:
            fcntl.flock(lock, how | fcntl.LOCK_NB)
            return
        except BlockingIOError:
            if time.monotonic() > deadline:
                raise AuditError("the log's lock is held by another process") from None
        time.sleep(pause)
        pause = min(pause * 1.5, 0.02)


def regular_size(descriptor: int, name: str) -> int:
    """The size of an open regular file; raises AuditError for a pipe, device or directory in its place."""
    status = os.fstat(descriptor)
    if not stat.S_ISREG(status.st_mode):
        raise AuditError(f"{name} is not a regular file")
    return status.st_size
