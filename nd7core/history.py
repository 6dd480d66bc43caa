"""The index of past denials: every session ever recorded, searched as one types.

A cache in one SQLite file: the logs are the truth, the file may be deleted at any time and is made again.
It lies in nd7's state directory and not in the cache directory of the home, because no confined process may
ever write it: a forged row must not lead a person to a grant, nor a forged database to SQLite's own faults.

Writing is done by one `Indexer`; any number of `History` may read at the same time, one for each thread.
"""

from __future__ import annotations

import contextlib
import os
import sqlite3
import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from nd7core.audit.frame import Damage, Frame
from nd7core.audit.log import EVENTS
from nd7core.audit.tail import Tail
from nd7core.errors import Nd7Error
from nd7core.history_query import SOURCES, Query
from nd7core.history_sql import LATEST, hits, like, matching, ranked, statement

VERSION = 3
FILE = "history.sqlite"


class HistoryError(Nd7Error):
    """The index cannot be read or made."""


@dataclass(frozen=True, slots=True)
class Entry:
    """One past denial, or failure that was none.  Everything in it is from the confined side and hostile.

    Attributes:
        id: grows with time; unique in this index only.
        seq, offset: of the frame it rests on, in the session's log: see `moment`.
        source: "kernel", "nd7-exec", "model" or "none".
        grant: what `nd7 allow` would take, or "".
    """

    id: int
    session_id: str
    seq: int
    offset: int
    ts: int
    last_ts: int
    source: str
    state: str
    operation: str
    evidence: str
    remedy: str
    tool: str
    count: int
    command: str
    target: str
    grant: str
    reason: str
    line: str
    owner: str
    project: str
    nd7_session: int | None


@dataclass(frozen=True, slots=True)
class Page:
    """Rows, newest first.

    Attributes:
        next: give it as `before` for the rows behind these; None at the end.
        complete: whether the search came to its end or its limit within its time.
    """

    rows: tuple[Entry, ...]
    next: int | None
    complete: bool


@dataclass(frozen=True, slots=True)
class SeenTarget:
    """One refused thing over all sessions: "seen in 6 sessions"."""

    target: str
    source: str
    sessions: int
    count: int
    last: int


@dataclass(frozen=True, slots=True)
class PastSession:
    """One recorded session."""

    session_id: str
    frames: int
    first: int
    last: int
    project: str
    agent: str
    nd7_session: int | None
    damaged: int
    gaps: int
    error: str
    kernel: int
    nd7_exec: int
    model: int
    other: int


def index_path(state_dir: str) -> str:
    """Where the index of a state directory lies."""
    return os.path.join(state_dir, "index", FILE)


class History:
    """Reading the index.  For one thread; `close` it there.

    Args:
        state_dir: nd7's state directory.

    An index that does not exist yet is an empty one; it is looked for again at every call.

    Attributes:
        complete: whether the last `search` or `targets` came to its end or its limit within its time.
    """

    def __init__(self, state_dir: str) -> None:
        self._path = index_path(state_dir)
        self._state = state_dir
        self._database: sqlite3.Connection | None = None
        self._inode = -1
        self.complete = True

    def search(self, query: Query, *, limit: int = 50, before: int | None = None, budget: float = 0.03) -> Page:
        """The newest rows that fit.

        Args:
            before: `next` of the page before.
            budget: seconds; a search that takes longer gives what it has, `complete` False.

        Raises HistoryError for an index that cannot be read.
        """
        found = self._connected()
        if found is None:
            return Page((), None, True)
        sql, values = statement(query, before, self._logs(found, query))
        found_rows = self._until(found, sql + " LIMIT ?", [*values, limit], time.perf_counter() + budget)
        rows = [_entry(row) for row in found_rows]
        after = rows[-1].id if rows and (len(rows) == limit or not self.complete) else None
        return Page(tuple(rows), after, self.complete)

    def targets(self, query: Query, *, limit: int = 100, budget: float = 0.03) -> list[SeenTarget]:
        """What was refused, each with the number of sessions; the most widespread first.

        Of a query, the words, paths and sources count.  After `budget` seconds it gives what it has, and `complete`
        is False.  Raises HistoryError.
        """
        self.complete = True
        database = self._connected()
        if database is None:
            return []
        end = time.perf_counter() + budget
        sources = query.sources or SOURCES[:3]
        words = (*query.words, *query.paths)
        match = matching(Query(words), sources)
        # By rank, which finds what is frequent at once; what few rows have, the full text index finds.
        sql, values = ranked(words, sources, limit)
        rows = self._until(database, sql, values, end - budget / 2 if match else end)
        if match and not self.complete:
            sql, values = hits(words, sources, match)
            latest = self._until(database, sql, values, end)
            self.complete = self.complete and len(latest) < LATEST
            rows = sorted({*rows, *latest}, key=lambda row: (-row[2], -row[4]))[:limit]
        return [SeenTarget(row[0], SOURCES[row[1]], row[2], row[3], row[4]) for row in rows]

    def sessions(self, *, project: str = "", limit: int = 100, before: int | None = None) -> list[PastSession]:
        """Recorded sessions, the latest first.  `before` is the `last` of the page before.  Raises HistoryError."""
        sql = (
            "SELECT session, frames, first, last, project, agent, nd7_session, damaged, gaps, error, kernel, exec,"
            " model, other FROM log WHERE last < ? AND project LIKE ? ESCAPE '\\' ORDER BY last DESC LIMIT ?"
        )
        values = [before if before is not None else 1 << 62, like(project), limit]
        return [PastSession(*row) for row in self._rows(sql, values)]

    def moment(self, entry: Entry, *, before: int = 20, after: int = 20) -> list[Frame | Damage]:
        """What the log holds around a row: so many frames before it, its own, and so many after.

        Read from the log itself, at most 2 MB on either side.  Never raises; a log that is gone gives nothing.
        """
        return moment(os.path.join(self._state, "sessions", entry.session_id), entry.offset, before, after)

    def close(self) -> None:
        """Let the file go."""
        if self._database is not None:
            self._database.close()
            self._database = None

    def _until(self, found: sqlite3.Connection, sql: str, values: list[Any], deadline: float) -> list[Any]:
        """The rows of a statement, or those found until a time (of `perf_counter`), and `complete` accordingly."""
        rows: list[Any] = []
        self.complete = True
        found.set_progress_handler(lambda: time.perf_counter() > deadline, 1000)
        try:
            for row in found.execute(sql, values):
                rows.append(row)
        except sqlite3.OperationalError as error:
            if "interrupted" not in str(error):
                raise _unreadable(error) from None
            self.complete = False
        except sqlite3.Error as error:
            raise _unreadable(error) from None
        finally:
            found.set_progress_handler(None, 0)
        return rows

    def _rows(self, sql: str, values: list[Any]) -> list[Any]:
        found = self._connected()
        if found is None:
            return []
        try:
            return found.execute(sql, values).fetchall()
        except sqlite3.Error as error:
            raise _unreadable(error) from None

    def _connected(self) -> sqlite3.Connection | None:
        try:
            inode = os.stat(self._path).st_ino
        except OSError:
            self.close()
            return None
        if self._database is None or inode != self._inode:
            self.close()
            self._inode = inode
            try:
                self._database = connect(self._path, read_only=True)
            except sqlite3.Error as error:
                raise _unreadable(error) from None
        return self._database

    def _logs(self, found: sqlite3.Connection, query: Query) -> list[int] | None:
        """The logs that a query asks for by session or project; None for all."""
        if not query.session and not query.project:
            return None
        sql = "SELECT id FROM log WHERE session LIKE ? ESCAPE '\\' AND project LIKE ? ESCAPE '\\' LIMIT 5000"
        try:
            rows = found.execute(sql, [like(query.session)[1:], like(query.project)]).fetchall()
        except sqlite3.Error as error:
            raise _unreadable(error) from None
        return [row[0] for row in rows]


def connect(path: str, *, read_only: bool = False) -> sqlite3.Connection:
    """A connection to an index.  Raises sqlite3.Error."""
    if read_only:
        uri = "file:" + path.replace("%", "%25").replace("?", "%3f").replace("#", "%23") + "?mode=ro"
        found = sqlite3.connect(uri, uri=True, timeout=0.2)
    else:
        found = sqlite3.connect(path, timeout=10, isolation_level=None)
    found.execute("PRAGMA trusted_schema = OFF")
    found.execute("PRAGMA cache_size = -32000")
    return found


def _unreadable(error: sqlite3.Error) -> HistoryError:
    return HistoryError(f"the index of past denials cannot be read: {error}", hint="delete it; it is made again")


def _entry(row: Any) -> Entry:
    values = list(row)
    values[6] = SOURCES[values[6]]
    return Entry(*values)


def moment(directory: str, offset: int, before: int, after: int, *, reach: int = 2 << 20) -> list[Frame | Damage]:
    """The frames of a log around a byte offset: see `History.moment`."""
    flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
    with contextlib.suppress(OSError):
        file = os.open(os.path.join(directory, EVENTS), flags)
        try:
            start = max(0, offset - reach)
            data = os.pread(file, offset - start + reach, start)
        finally:
            os.close(file)
        if start:
            cut = data.find(b"\n") + 1
            start, data = start + cut, data[cut:]
        found = Tail(os.path.basename(directory), start=start).feed(data)
        here = next((n for n, item in enumerate(found) if item.offset >= offset), len(found))
        return found[max(0, here - before) : here + after + 1]
    return []


def log_stamps(state_dir: str) -> Iterator[tuple[str, str, int]]:
    """Each recorded session's id, a stamp that changes with its log, and when that was (nanoseconds)."""
    root = os.path.join(state_dir, "sessions")
    try:
        names = os.listdir(root)
    except OSError:
        return
    for name in names:
        with contextlib.suppress(OSError):
            status = os.stat(os.path.join(root, name, EVENTS), follow_symlinks=False)
            yield name, f"{status.st_ino}.{status.st_size}.{status.st_mtime_ns}", status.st_mtime_ns
