"""Making the index of past denials: the one writer of what `nd7core.history` reads."""

from __future__ import annotations

import contextlib
import os
import random
import sqlite3
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from nd7core.audit.log import make_directory
from nd7core.denials import Denial
from nd7core.history import FILE, VERSION, HistoryError, connect, index_path, log_stamps
from nd7core.history_log import LogReading, read_in_steps
from nd7core.history_query import SOURCES
from nd7core.history_sql import SLOTS, row_number, tag_of, within

SCHEMA = f"""
CREATE TABLE log(
  id INTEGER PRIMARY KEY, session TEXT UNIQUE NOT NULL, stamp TEXT NOT NULL, frames INTEGER, first INTEGER,
  last INTEGER, project TEXT, agent TEXT, nd7_session INTEGER, damaged INTEGER, gaps INTEGER, error TEXT,
  kernel INTEGER, exec INTEGER, model INTEGER, other INTEGER);
CREATE INDEX log_last ON log(last DESC);
CREATE TABLE entry(
  id INTEGER PRIMARY KEY, log INTEGER NOT NULL, seq INTEGER, offset INTEGER, ts INTEGER, last_ts INTEGER,
  source INTEGER, state TEXT, operation TEXT, evidence TEXT, remedy TEXT, tool TEXT, count INTEGER,
  command TEXT, target TEXT, place TEXT, tag TEXT, grant_path TEXT, reason TEXT, line TEXT, owner TEXT);
CREATE INDEX entry_log ON entry(log, id);
CREATE TABLE seen(
  target TEXT, source INTEGER, log INTEGER, count INTEGER, last INTEGER,
  PRIMARY KEY(target, source, log)) WITHOUT ROWID;
CREATE INDEX seen_log ON seen(log);
CREATE TABLE target(
  target TEXT, source INTEGER, sessions INTEGER, count INTEGER, last INTEGER,
  PRIMARY KEY(target, source)) WITHOUT ROWID;
CREATE INDEX target_rank ON target(sessions DESC, last DESC);
CREATE VIRTUAL TABLE hit USING fts5(
  command, target, place, tag, content='entry', content_rowid='id', tokenize='trigram', detail='none');
PRAGMA user_version = {VERSION};
"""
# Longer commands are searched and shown by their beginning; the log has them whole.
MAX_COMMAND, MAX_TARGET, MAX_TEXT = 1000, 1000, 500
# A log written to this recently belongs to a session that runs, which the dashboard shows by itself.
QUIET_SECONDS = 10.0
_TRANSACTION_SECONDS = 0.25


@dataclass(frozen=True, slots=True)
class Progress:
    """How far the index is: logs that are in it as they are on the disk, of all."""

    done: int
    total: int

    @property
    def finished(self) -> bool:
        """Whether nothing is left to do."""
        return self.done >= self.total


class Indexer:
    """Brings the index up to date with the logs.  For one thread.

    Args:
        state_dir: nd7's state directory.
        home: the person's home, for sessions whose record is gone.
        platform: whose logs these are.
        quiet: seconds that a log must have been left alone, unless it is not in the index at all.
    """

    def __init__(self, state_dir: str, *, home: str, platform: str = "linux", quiet: float = QUIET_SECONDS) -> None:
        self._state, self._home, self._platform, self._quiet = state_dir, home, platform, quiet
        self._path = index_path(state_dir)
        self._database: sqlite3.Connection | None = None
        self._began = 0.0

    def work(self) -> Iterator[Progress]:
        """Do all there is to do, the latest logs first, giving the progress every few hundred milliseconds.

        Stop by not going on: what was given is kept.  Raises HistoryError; an index that is damaged or of another
        version is deleted and made anew first.
        """
        try:
            yield from self._work()
        except sqlite3.DatabaseError as error:
            if isinstance(error, sqlite3.OperationalError) and "locked" in str(error):
                raise HistoryError("the index of past denials is being made by another nd7") from None
            self.close()
            self._delete()
            try:
                yield from self._work()
            except sqlite3.Error as second:
                raise HistoryError(f"the index of past denials cannot be made: {second}") from None
        except OSError as error:
            raise HistoryError(f"the index of past denials cannot be made: {error.strerror}") from None
        finally:
            self.close()

    def close(self) -> None:
        """Let the file go."""
        if self._database is not None:
            self._database.close()
            self._database = None

    def _work(self) -> Iterator[Progress]:
        database = self._open()
        logs = {name: (stamp, changed) for name, stamp, changed in log_stamps(self._state)}
        known = dict(database.execute("SELECT session, stamp FROM log"))
        now = time.time_ns()
        todo = [
            (changed, name, stamp)
            for name, (stamp, changed) in logs.items()
            if known.get(name) != stamp and (name not in known or now - changed > self._quiet * 1e9)
        ]
        todo.sort(reverse=True)
        done, total = len(logs) - len(todo), len(logs)
        self._begin(database)
        for name in known.keys() - logs.keys():
            self._remove(database, name)
        yield Progress(done, total)
        for _, name, stamp in todo:
            reading = LogReading(name)
            directory = os.path.join(self._state, "sessions", name)
            for _ in read_in_steps(directory, reading, home=self._home, platform=self._platform):
                yield Progress(done, total)
            self._remove(database, name)
            self._insert(database, reading, stamp)
            done += 1
            if time.perf_counter() - self._began > _TRANSACTION_SECONDS:
                database.execute("COMMIT")
                yield Progress(done, total)
                self._begin(database)
        database.execute("COMMIT")
        if todo:
            database.execute("PRAGMA optimize")
        yield Progress(done, total)

    def _begin(self, database: sqlite3.Connection) -> None:
        database.execute("BEGIN IMMEDIATE")
        self._began = time.perf_counter()

    def _open(self) -> sqlite3.Connection:
        if self._database is None:
            make_directory(os.path.dirname(self._path))
            # Made by hand first, so that SQLite's files are nobody else's to read from the start.
            os.close(os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600))
            database = self._database = connect(self._path)
            database.execute("PRAGMA journal_mode = WAL")
            database.execute("PRAGMA synchronous = NORMAL")  # a cache: a lost power supply costs the last rows
            version = database.execute("PRAGMA user_version").fetchone()[0]
            if version not in (0, VERSION):
                raise sqlite3.DatabaseError("another version")
            if version == 0:
                database.executescript(f"BEGIN IMMEDIATE; {SCHEMA} COMMIT;")
        return self._database

    def _delete(self) -> None:
        for ending in ("", "-wal", "-shm", "-journal"):
            with contextlib.suppress(FileNotFoundError):
                os.unlink(os.path.join(os.path.dirname(self._path), FILE + ending))

    def _remove(self, database: sqlite3.Connection, name: str) -> None:
        found = database.execute("SELECT id FROM log WHERE session = ?", [name]).fetchone()
        if found is None:
            return
        log = found[0]
        database.execute(
            "INSERT INTO hit(hit, rowid, command, target, place, tag)"
            " SELECT 'delete', id, command, target, place, tag FROM entry WHERE log = ?",
            [log],
        )
        database.execute("DELETE FROM entry WHERE log = ?", [log])
        database.execute(
            "UPDATE target SET sessions = sessions - 1, count = target.count - s.count"
            " FROM (SELECT * FROM seen WHERE log = ?) AS s WHERE target.target = s.target AND target.source = s.source",
            [log],
        )
        database.execute(
            "DELETE FROM target WHERE sessions <= 0"
            " AND (target, source) IN (SELECT target, source FROM seen WHERE log = ?)",
            [log],
        )
        database.execute("DELETE FROM seen WHERE log = ?", [log])
        database.execute("DELETE FROM log WHERE id = ?", [log])

    def _insert(self, database: sqlite3.Connection, reading: LogReading, stamp: str) -> None:
        counts = reading.counts()
        last = within(reading.last) or 1
        log = database.execute(
            "INSERT INTO log(session, stamp, frames, first, last, project, agent, nd7_session, damaged, gaps, error,"
            " kernel, exec, model, other) VALUES(?,?,?,?,?,?,?,?,?,?,?,?,?,?,?)",
            [
                *(
                    reading.session_id,
                    stamp,
                    reading.frames,
                    within(reading.first),
                    last,
                    _clean(reading.project, MAX_TARGET),
                ),
                *(
                    _clean(reading.agent, 100),
                    within(reading.nd7_session) if reading.nd7_session else None,
                    reading.damaged,
                    reading.gaps,
                    reading.error,
                ),
                *(counts[source] for source in ("kernel", "nd7-exec", "model", "none")),
            ],
        ).lastrowid
        place = os.path.basename(reading.project)
        seen: Counter[tuple[str, int]] = Counter()
        latest: dict[tuple[str, int], int] = {}
        for row in reading.rows:
            values = self._values(row, reading, log, _clean(place, 200))
            number = self._free(database, row_number(row.last_ts))
            database.execute("INSERT INTO entry VALUES(?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?)", [number, *values])
            database.execute(
                "INSERT INTO hit(rowid, command, target, place, tag) VALUES(?,?,?,?,?)", [number, *values[12:16]]
            )
            key = (values[13], values[5])
            seen[key] += row.count
            latest[key] = max(latest.get(key, 0), within(row.last_ts))
        for (target, source), count in seen.items():
            when = latest[target, source]
            database.execute("INSERT INTO seen VALUES(?,?,?,?,?)", [target, source, log, count, when])
            database.execute(
                "INSERT INTO target VALUES(?,?,1,?,?) ON CONFLICT(target, source) DO UPDATE SET"
                " sessions = sessions + 1, count = count + excluded.count, last = max(last, excluded.last)",
                [target, source, count, when],
            )

    def _values(self, row: Denial, reading: LogReading, log: int | None, place: str) -> list[Any]:
        verdict = row.verdict
        source = SOURCES.index(verdict.source)
        tag = tag_of(verdict.source, row.state, verdict.operation, _clean(row.tool, 100))
        seq = getattr(row.event, "last_seq", None)
        seq = seq if isinstance(seq, int) else getattr(row.event, "seq", 0)
        return [
            *(
                log,
                within(seq),
                reading.offset(seq),
                within(row.ts),
                within(row.last_ts),
                source,
                row.state,
                verdict.operation,
            ),
            *(verdict.evidence, verdict.remedy, _clean(row.tool, 100), row.count),
            *(_clean(row.command, MAX_COMMAND), _clean(verdict.target, MAX_TARGET), place, tag),
            *(_clean(verdict.grant, MAX_TARGET), _clean(verdict.reason, MAX_TEXT), _clean(verdict.line, MAX_TEXT)),
            verdict.owner,
        ]

    def _free(self, database: sqlite3.Connection, number: int) -> int:
        """A free row number: the next one of its millisecond, or where that is full, one nearby.

        By chance, and further and further away: a hostile log may have all its rows at one time.
        """
        last = database.execute("SELECT max(id) FROM entry WHERE id BETWEEN ? AND ?", [number, number + SLOTS - 1])
        taken = last.fetchone()[0]
        if taken is None or taken < number + SLOTS - 1:
            return number if taken is None else int(taken) + 1
        reach = SLOTS * 1000
        while True:
            chosen = number + random.randrange(reach)
            if database.execute("SELECT 1 FROM entry WHERE id = ?", [chosen]).fetchone() is None:
                return chosen
            reach *= 2


def _clean(text: str, limit: int) -> str:
    """Cut, and without what SQLite's text or its full text index stumbles over (NUL, half surrogates)."""
    text = text[:limit].replace("\0", "\ufffd")
    return text if text.isprintable() else text.encode("utf-8", "replace").decode()
