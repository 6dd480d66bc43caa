"""Checking a log's hash chain: every frame's shape, hash, number and link, then `head`.

A clean result proves that the log is as its last writer left it.  It does not prove that nobody who
may write the directory rewrote it whole: the chain has no secret.
"""

from __future__ import annotations

import json
import os
from dataclasses import dataclass
from typing import Any, BinaryIO

from nd7core.audit.frame import KEYS, VERSION, Frame, dump, from_object, genesis, stated_hash, true_hash
from nd7core.audit.log import (
    EVENTS,
    MAX_LINE,
    AuditError,
    check_session_id,
    locked,
    open_directory,
    read_head,
    regular_size,
)

PROVES = (
    "This proves that the log is as its last writer left it: no frame was changed, taken out or put in since. "
    "It does not prove that nobody who may write the directory rewrote the log whole."
)


@dataclass(frozen=True, slots=True)
class Verification:
    """What a check found.

    Attributes:
        session_id: the directory's name.
        frames: how many frames are good, from the first on.
        problem: what is wrong at the first break, naming the frame; "" for a clean log.
        broken: the number of the frame at the break (the one expected there), or None.
        first, last: the times of the first and last good frame, nanoseconds since the epoch.
        head: the hash of the last good frame, or "".
        size: bytes of the log.
    """

    session_id: str
    frames: int
    problem: str = ""
    broken: int | None = None
    first: int | None = None
    last: int | None = None
    head: str = ""
    size: int = 0

    @property
    def ok(self) -> bool:
        """Whether nothing is wrong."""
        return not self.problem


class _Break(Exception):
    def __init__(self, problem: str, seq: int | None) -> None:
        super().__init__(problem)
        self.problem, self.seq = problem, seq


def verify(directory: str) -> Verification:
    """Walk the log in a directory up to the first break.

    The shared lock is held only while the log's size and `head` are taken: what stands before that size is never
    written again, and an hour-long log must not keep a running session's hooks from appending while it is read.

    Raises AuditError where there is no log to walk: no such directory, no permission, no regular file.
    """
    session_id = check_session_id(os.path.basename(directory))
    try:
        with open_directory(directory) as descriptor:
            with locked(descriptor, shared=True):
                try:
                    flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
                    events = os.open(EVENTS, flags, dir_fd=descriptor)
                except FileNotFoundError:
                    return Verification(session_id, 0, "events.ndjson is missing", 0)
                file = os.fdopen(events, "rb", buffering=1 << 20)
                try:
                    size = regular_size(events, EVENTS)
                    head = _head(descriptor)
                except BaseException:
                    file.close()
                    raise
            with file:
                return _verify(file, size, head, session_id)
    except FileNotFoundError:
        raise AuditError(f"no audit log at {directory}") from None
    except OSError as error:
        raise AuditError(f"audit log {directory}: {error.strerror or error}") from error


def _head(directory: int) -> tuple[int, str] | str | None:
    """`head`, None where there is none, or what is wrong with it."""
    try:
        return read_head(directory)
    except AuditError as error:
        return error.message


def _verify(file: BinaryIO, size: int, head: tuple[int, str] | str | None, session_id: str) -> Verification:
    last: Frame | None = None
    first: int | None = None
    count, left = 0, size
    problem, broken = "", None
    try:
        while left and (line := file.readline(min(left, MAX_LINE + 1))):
            left -= len(line)
            last = _next(line, last, session_id, count)
            if first is None:
                first = last.ts
            count += 1
        _check_head(head, last)
    except _Break as found:
        problem, broken = found.problem, found.seq
    return Verification(
        session_id, count, problem, broken, first, last.ts if last else None, last.hash if last else "", size
    )


def _next(line: bytes, last: Frame | None, session_id: str, seq: int) -> Frame:
    if not line.endswith(b"\n"):
        why = "its line has no end" if len(line) <= MAX_LINE else f"its line is longer than {MAX_LINE} bytes"
        raise _Break(f"frame {seq}: {why}", seq)
    line = line[:-1]
    frame = _read(line, seq)
    if stated_hash(line) != frame.hash:
        raise _Break(f"frame {seq}: its hash is not at its end", seq)
    if true_hash(line) != frame.hash:
        raise _Break(f"frame {seq}: its hash is not that of its bytes", seq)
    if frame.seq != seq:
        raise _Break(f"frame {seq} is missing: frame {frame.seq} stands in its place", seq)
    if frame.prev != (genesis(session_id) if last is None else last.hash):
        raise _Break(f"frame {seq} does not link to {'its session' if last is None else f'frame {seq - 1}'}", seq)
    if frame.session_id != session_id:
        raise _Break(f"frame {seq} is of another session", seq)
    return frame


def _read(line: bytes, seq: int) -> Frame:
    """A frame of exactly the format's shape.  Raises _Break."""
    try:
        value: Any = json.loads(line.decode())
    except (ValueError, RecursionError):
        raise _Break(f"frame {seq}: its line is no JSON", seq) from None
    frame = from_object(value)
    if frame is None:
        raise _Break(f"frame {seq}: its line is no frame", seq)
    if frame.v > VERSION:
        raise _Break(f"frame {seq} is of format version {frame.v}, which this nd7 does not know", seq)
    if tuple(value) != KEYS or frame.v < 0:
        raise _Break(f"frame {seq}: its keys are not the format's", seq)
    try:
        same = dump(value) == line
    except (ValueError, RecursionError):
        same = False
    if not same and _loose(line):
        raise _Break(f"frame {seq}: it holds white space, a key twice, or other bytes than the format's", seq)
    return frame


def _loose(line: bytes) -> bool:
    """Whether a line that we would have written otherwise is one no writer of the format writes.

    Other writers spell some numbers and escapes otherwise (`1e16`, `\\u007f`), which is no break.
    """
    position, size, in_string = 0, len(line), False
    while position < size:
        byte = line[position]
        if in_string:
            if byte == 0x5C:
                position += 1
            elif byte == 0x22:
                in_string = False
        elif byte == 0x22:
            in_string = True
        elif byte in b" \t\r\n":
            return True
        position += 1
    try:
        json.loads(line.decode(), object_pairs_hook=_no_twice)
    except ValueError:
        return True
    return False


def _no_twice(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    made = dict(pairs)
    if len(made) != len(pairs):
        raise ValueError("a key stands twice")
    return made


def _check_head(head: tuple[int, str] | str | None, last: Frame | None) -> None:
    if isinstance(head, str):
        raise _Break(f"frame {last.seq}: {head}" if last else head, last.seq if last else None)
    if last is None:
        if head is None:
            raise _Break("the log holds no frame", 0)
        raise _Break(f"frame 0 is missing: the log is empty, but head names frame {head[0]}", 0)
    if head is None:
        raise _Break(f"frame {last.seq}: head is missing (the next append mends that)", last.seq)
    if head == (last.seq, last.hash):
        return
    seq = head[0]
    if head == (last.seq - 1, last.prev):
        raise _Break(f"frame {last.seq}: head is one frame behind (the next append mends that)", last.seq)
    if seq > last.seq:
        raise _Break(f"frame {last.seq + 1} is missing: head names frame {seq}, the log ends before it", last.seq + 1)
    if seq < last.seq:
        raise _Break(f"frame {seq + 1}: head names frame {seq} as the last, but the log goes on", seq + 1)
    raise _Break(f"frame {seq}: head names another hash than it has", seq)
