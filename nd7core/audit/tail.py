"""Following a log: bytes to frames without IO (`Tail`), and the file under it (`FileFollower`).

A reader never stops at damage: what is whole is shown, what is not is shown as damaged.  The same
bytes in any pieces give the same answer.
"""

from __future__ import annotations

import errno
import json
import os
import stat
import time
from typing import Any

from nd7core.audit.frame import VERSION, Damage, Frame, decode, from_object, genesis, true_hash

# A line that grows past this without a newline is skipped as damage; real ones stay below 20 MB.
MAX_LINE = 64 << 20
# Inside a damaged line, this many places are tried for a whole frame.
_TRIES = 1000
_WORK = 32 << 20
_START = b'{"v":'

_parse = json.JSONDecoder().raw_decode


class Tail:
    """Frames from a log's bytes, in any pieces.

    Args:
        session_id: whose log it is, where known: frame 0 must then start its chain.
        check: whether each frame's hash is recomputed (about 2 microseconds for an ordinary frame).
        start: the offset of the first byte that will be fed; behind 0, the first frame's link is not judged.
        max_line: a longer line is skipped as damage.
    """

    def __init__(
        self, session_id: str | None = None, *, check: bool = True, start: int = 0, max_line: int = MAX_LINE
    ) -> None:
        self.session_id = session_id
        self._max_line = max_line
        self.offset = start  # of the first byte that has not become a frame or damage
        self.frames = 0
        self.damaged = 0
        self._check = check
        self._buffer = bytearray()
        self._searched = 0
        self._skipping = 0
        self._last: Frame | None = None
        self._from_start = start == 0
        self._newest = VERSION

    @property
    def pending(self) -> int:
        """How many bytes are held back because their line has not ended."""
        return self._skipping + len(self._buffer)

    def feed(self, data: bytes) -> list[Frame | Damage]:
        """Take the next bytes; give what they complete, in order.  Never raises."""
        found: list[Frame | Damage] = []
        buffer = self._buffer
        buffer += data
        start, searched = 0, self._searched
        while (end := buffer.find(b"\n", searched)) >= 0:
            if self._skipping or end - start > self._max_line:
                self._skip_end(end + 1 - start, found)
            else:
                self._line(bytes(memoryview(buffer)[start:end]), end + 1 - start, found)
            start = searched = end + 1
        if start:
            del buffer[:start]
        if len(buffer) > self._max_line or self._skipping:
            self._skipping += len(buffer)
            buffer.clear()
        self._searched = len(buffer)
        return found

    def finish(self) -> list[Frame | Damage]:
        """Say what stands in a last line that has no newline: damage, with the whole frames in it before it.

        Only for a log that nobody writes any more: the bytes are given up.
        """
        found: list[Frame | Damage] = []
        if self._skipping:
            self._skip_end(len(self._buffer), found)
        elif self._buffer:
            line = bytes(self._buffer)
            self._recover(line, len(line), "the last line has no end: its writer was stopped", "torn", found)
        self._buffer.clear()
        self._searched = 0
        return found

    def _skip_end(self, size: int, found: list[Frame | Damage]) -> None:
        size += self._skipping
        self._skipping = 0
        self._add(Damage(f"a line of {size} bytes, which is no frame's", "line", self.offset, size), found)
        self.offset += size

    def _line(self, line: bytes, size: int, found: list[Frame | Damage]) -> None:
        frame = decode(line)
        if isinstance(frame, Frame):
            self._frame(frame, line, self.offset, size, found)
            self.offset += size
        elif line:
            self._recover(line, size, frame.reason, "line", found)
        else:
            self._add(Damage("an empty line", "line", self.offset, size), found)
            self.offset += size

    def _recover(self, line: bytes, size: int, reason: str, kind: str, found: list[Frame | Damage]) -> None:
        """Whole frames inside a line that is none: cut records, two on one line, bytes between them."""
        base, position, bad, told = self.offset, 0, 0, False
        text = line.decode("latin-1")  # one character a byte, so that places agree; frames are re-read as UTF-8
        work = max(_WORK, 4 * len(line))  # a try may read to the line's end, and 1,000 tries of 10 MB are an hour
        for _ in range(_TRIES):
            start = line.find(_START, position)
            if start < 0 or work < 0:
                break
            work -= len(line) - start
            frame, end = _whole_frame(line, text, start)
            if frame is None:
                position = start + 1
                continue
            if start > bad:
                told = True
                self._bad(line, base, bad, start, reason, "line", found)
            self._frame(frame, line[start:end], base + start, end - start, found)
            position = bad = end
        if bad < len(line):
            self._bad(line, base, bad, len(line), reason, kind, found)
        elif kind == "torn":
            self._add(Damage("the last frame has no newline behind it", "torn", base + bad, 0), found)
        elif not told:
            self._add(Damage("several frames on one line", "line", base, size), found)
        self.offset = base + size

    def _bad(
        self, line: bytes, base: int, start: int, end: int, reason: str, kind: str, found: list[Frame | Damage]
    ) -> None:
        self._add(Damage(reason, kind, base + start, end - start, None, line[start : min(end, start + 200)]), found)

    def _frame(self, frame: Frame, line: bytes, offset: int, size: int, found: list[Frame | Damage]) -> None:
        frame.offset, frame.size = offset, size
        last, seq = self._last, frame.seq
        if frame.v > self._newest:
            self._newest = frame.v
            reason = (
                f"frame {seq} is of format version {frame.v}, newer than {VERSION}: what this nd7 can read is shown"
            )
            self._add(Damage(reason, "version", offset, size, seq), found)
        if (
            self._check
            and frame.v <= VERSION
            and (frame.hash != line[-66:-2].decode("latin-1") or true_hash(line) != frame.hash)
        ):
            self._add(Damage(f"frame {seq}: its hash is not that of its bytes", "hash", offset, size, seq), found)
        if last is None:
            if self._from_start:
                self._first(frame, found)
        elif seq != last.seq + 1:
            self._add(Damage(_gap(last.seq, seq), "gap", offset, 0, seq), found)
        elif frame.prev != last.hash and frame.v <= VERSION:
            self._add(Damage(f"frame {seq} does not link to frame {last.seq}", "link", offset, size, seq), found)
        self._last = frame
        self.frames += 1
        found.append(frame)

    def _first(self, frame: Frame, found: list[Frame | Damage]) -> None:
        if frame.seq > 0:
            self._add(Damage(_gap(-1, frame.seq), "gap", frame.offset, 0, frame.seq), found)
        elif frame.prev != genesis(frame.session_id) and frame.v <= VERSION:
            self._add(Damage("frame 0 does not start a chain", "link", frame.offset, frame.size, 0), found)
        if self.session_id is not None and frame.session_id != self.session_id:
            reason = f"frame {frame.seq} is of another session than its directory's"
            self._add(Damage(reason, "link", frame.offset, frame.size, frame.seq), found)

    def _add(self, damage: Damage, found: list[Frame | Damage]) -> None:
        self.damaged += damage.kind != "version"
        found.append(damage)


def _gap(last: int, seq: int) -> str:
    if seq <= last:
        return f"frame {seq} stands after frame {last}"
    if seq == last + 2:
        return f"frame {seq - 1} is missing"
    return f"frames {last + 1} to {seq - 1} are missing"


def _whole_frame(line: bytes, text: str, start: int) -> tuple[Frame | None, int]:
    try:
        _, end = _parse(text, start)
        value: Any = json.loads(line[start:end].decode())
    except (ValueError, RecursionError):
        return None, start
    return from_object(value), end


class FileFollower:
    """A log file as it grows, is cut, replaced, deleted or made anew.

    Events of a file watcher are hints; call `poll` on them and about once a second anyway.

    Args:
        path: of `events.ndjson`.  It need not exist yet.
        session_id, check: as for `Tail`.
        settle: seconds after which a last line without newline counts as torn and is told of.
    """

    def __init__(self, path: str, session_id: str | None = None, *, check: bool = True, settle: float = 2.0) -> None:
        self.path = path
        self.exists = False
        self.more = False  # whether the last poll stopped at its limit
        self.generation = 0  # counts the files seen under this name and the cuts; offsets are of the latest
        self._session_id, self._check, self._settle = session_id, check, settle
        self._descriptor = -1
        self._identity = (-1, -1)  # of the file that is open: its device and inode
        self._tail = Tail(session_id, check=check)
        self._read = 0
        self._first = b""  # the first bytes, and the last ones read: they tell another content of the same size
        self._latest = b""
        self._grown = 0.0
        self._torn_at = -1
        self._error = ""
        self._seen: tuple[int, int] = (-1, -1)

    @property
    def offset(self) -> int:
        """How many bytes of the file have been taken."""
        return self._read

    def poll(self, limit: int = 1 << 20, *, now: float | None = None) -> list[Frame | Damage]:
        """Read at most about `limit` bytes and give what they complete.  Raises nothing; a read error is Damage."""
        found: list[Frame | Damage] = []
        try:
            self._poll(limit, time.monotonic() if now is None else now, found)
        except OSError as error:
            self.more = False
            self._forget()
            reason = f"the log cannot be read: {error.strerror or error}"
            if reason != self._error:  # said once, not at every poll
                found.append(Damage(reason, "file", self._read))
            self._error = reason
        else:
            self._error = ""
        return found

    def close(self) -> None:
        """Let the file go.  A later `poll` starts from its beginning."""
        self._forget()
        self._restart()

    def _poll(self, limit: int, now: float, found: list[Frame | Damage]) -> None:
        self.more = False
        try:
            named = os.stat(self.path, follow_symlinks=False)
        except FileNotFoundError:
            if self._descriptor >= 0:
                self._drain(limit, found)
                if self.more:
                    return
                self._forget()
                found += self._tail.finish()
                found.append(Damage("the log was deleted", "file", self._read))
                self._restart()
            return
        if self._descriptor >= 0 and self._identity != (named.st_dev, named.st_ino):
            self._drain(limit, found)  # nothing of the old file is lost
            if self.more:
                return
            self._forget()
            found += self._tail.finish()
            found.append(Damage("the log was replaced by another file: read from its start", "file", self._read))
            self._restart()
        if self._descriptor < 0:
            self._open()
            named = os.fstat(self._descriptor)
        state = (named.st_size, named.st_mtime_ns)
        if state != self._seen:  # one call, where nothing has happened: a dashboard asks dozens of files each second
            held = os.fstat(self._descriptor)
            if held.st_size < self._read:
                self._cut("the log was cut shorter: read from its start", found)
            elif self._read and not self._same():
                self._cut("the log was written anew: read from its start", found)
            self._drain(limit, found)
            if not self.more:
                self._seen = state
            self._grown = now
        elif self._tail.pending and now - self._grown >= self._settle and self._torn_at != self._tail.offset:
            self._torn_at = self._tail.offset
            reason = "the last line has no end: its writer was stopped, or still writes"
            found.append(Damage(reason, "torn", self._tail.offset, self._tail.pending))

    def _open(self) -> None:
        flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
        descriptor = os.open(self.path, flags)
        status = os.fstat(descriptor)
        if not stat.S_ISREG(status.st_mode):
            os.close(descriptor)
            raise OSError(errno.EINVAL, "not a regular file")
        self._identity = (status.st_dev, status.st_ino)
        self._descriptor, self.exists = descriptor, True
        self.generation += 1

    def _drain(self, limit: int, found: list[Frame | Damage]) -> None:
        left = limit
        while left > 0:
            data = os.pread(self._descriptor, min(left, 1 << 18), self._read)
            if not data:
                self.more = False
                return
            if len(self._first) < 256:
                self._first += data[: 256 - len(self._first)]
            self._latest = (self._latest + data[-256:])[-256:]
            self._read += len(data)
            left -= len(data)
            found += self._tail.feed(data)
        self.more = True

    def _same(self) -> bool:
        """Whether the bytes already read still stand there, judged by the first and the last of them.

        A frame ends in its hash, so the last bytes identify the whole chain before them.
        """
        return (
            os.pread(self._descriptor, len(self._first), 0) == self._first
            and os.pread(self._descriptor, len(self._latest), self._read - len(self._latest)) == self._latest
        )

    def _cut(self, reason: str, found: list[Frame | Damage]) -> None:
        found.append(Damage(reason, "file", self._read))
        self._restart()
        self.generation += 1

    def _restart(self) -> None:
        self._tail = Tail(self._session_id, check=self._check)
        self._read, self._first, self._latest, self._torn_at, self._seen = 0, b"", b"", -1, (-1, -1)

    def _forget(self) -> None:
        if self._descriptor >= 0:
            os.close(self._descriptor)
        self._descriptor, self.exists = -1, False
