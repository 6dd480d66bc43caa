"""The one thread that reads: session directories and logs become rows, and rows become one message a frame.

It never touches a widget and never waits for one, and the thread that draws never touches a file.  What it finds is
merged into a `Batch`; while one message is under way no second is posted, so that ten thousand events a second cost
the screen as many messages as it draws frames.  A batch that nobody takes stops the reading, not the memory.

What the watcher tells are hints: a network file system has none.  So each followed file is also looked at once a
second; that is all that goes on where nothing happens.
"""

from __future__ import annotations

import contextlib
import os
import stat
import threading
import time
from collections.abc import Callable

from nd7core import sessions, standing
from nd7core.audit.frame import Damage
from nd7core.audit.log import EVENTS, make_directory
from nd7core.audit.tail import FileFollower
from nd7core.errors import Nd7Error
from nd7core.paths import Places
from nd7core.record import Record
from nd7tui.model import Batch, GrantRow, Row, SessionRow
from nd7tui.roster import roster
from nd7tui.strangers import tie
from nd7tui.tracker import Track
from nd7tui.watch import Watch, watch

# An append is read at once.  Before the next round the thread rests as long as the last one took, between these
# bounds: ten thousand appends a second must leave the interpreter to the thread that draws for half of the time.
LEAST_REST, MOST_REST = 0.002, 0.03
ORPHANED_SECONDS = 10.0
SWEEP_SECONDS = 1.0
READ_AT_ONCE = 1 << 20
FULL = 5_000  # rows that wait to be taken before reading stops
# Logs looked at from the start: of sessions that run, and the latest others.  All the rest are in the past denials.
RECENT = 24
RECENT_SECONDS = 24 * 3600


class Ingest:
    """Reads until it is stopped.

    Args:
        arrived: called in this thread when there is something to take; must only post a message.
        clears: also remove the directories of sessions whose process died without doing so.
    """

    def __init__(self, places: Places, arrived: Callable[[], None], *, clears: bool = False) -> None:
        self.places = places
        self._arrived = arrived
        self._logs = os.path.join(places.state, "sessions")
        self._lock = threading.Lock()
        self._taken = threading.Condition(self._lock)
        self._pending = Batch()
        self._under_way = False
        self._stop = threading.Event()
        self._tracks: dict[str, Track] = {}
        self._live: list[sessions.Session] = []
        self._listed = (-1, -1)
        self._said: set[str] = set()
        self._roster: tuple[SessionRow, ...] = ()
        self._bounded = False
        self._watching: Watch | None = None
        self._alone: list[sessions.Session] = []  # live ones whose end nothing tells
        self._moved = True  # whether what the roster is made of has changed
        self._dead: list[sessions.Session] = []
        self._died = 0.0
        self._clears = clears
        self._kept_stamp: tuple[int, int] | None = None
        self._seen: dict[str, tuple[int, int, int]] = {}

    # -- the other thread's side ----------------------------------------------------------------------------------

    def take(self) -> Batch:
        """What has been found since the last time.  For the thread that draws; returns at once."""
        with self._lock:
            batch, self._pending = self._pending, Batch()
            self._under_way = False
            self._taken.notify_all()
        return batch

    def stop(self) -> None:
        """End the thread; it is gone within a step."""
        self._stop.set()
        watching = self._watching
        if watching is not None:
            watching.wake()
        with self._lock:
            self._taken.notify_all()

    # -- this thread's side ---------------------------------------------------------------------------------------

    def run(self) -> None:
        """The thread.  Returns when stopped; a fault of ours ends in the batch's faults and not in a dead screen."""
        self._bounded = True
        try:
            self._start()
            while not self._stop.is_set():
                self._watch()
        except Exception as error:  # the screen must say that it has gone blind, whatever it was
            self._fault(f"nd7 stopped reading: {type(error).__name__}: {error}")
            self._hand_over()

    def once(self) -> Batch:
        """Read what there is and stop: for a command that prints it.  Makes no directory."""
        self._look_at_sessions()
        self._list_logs(first=True)
        self._read_all()
        self._hand_over(force=True)
        return self.take()

    def _start(self) -> None:
        for directory in (self.places.sessions, self._logs) if self._clears else ():
            # So that there is something to watch.  Each 0700, its missing parents too, whatever the umask: a ~/.nd7
            # that a group may write is one that no session starts from.
            with contextlib.suppress(OSError):
                make_directory(directory)
        self._look_at_sessions()
        self._clear(now=True)
        self._list_logs(first=True)
        self._read_all()
        self._pending.caught_up = True
        self._hand_over(force=True)

    def _roots(self) -> list[tuple[str, int, int]]:
        """What there is to watch; a directory that was replaced is another one."""
        found = []
        for path in (self.places.sessions, self._logs):
            with contextlib.suppress(OSError):
                status = os.stat(path)
                found.append((path, status.st_dev, status.st_ino))
        return found

    def _watch(self) -> None:
        """Read what changes, until the directories are others or the thread is stopped."""
        roots = self._roots()
        try:
            watching = watch([path for path, _, _ in roots], frozenset({EVENTS, sessions.RECORD}))
        except FileNotFoundError:
            return  # it has gone in between
        except (OSError, RuntimeError) as error:
            self._blind(error)
            return
        with contextlib.closing(watching):
            self._watching = watching
            try:
                self._wait(watching, roots)
            except (OSError, RuntimeError, UnicodeError) as error:
                self._blind(error)
            finally:
                self._watching = None

    def _blind(self, error: Exception) -> None:
        """The system's limits of watchers are reached: the sweep alone goes on."""
        self._fault(f"the file watcher gave up ({error}); nd7 looks once a second instead")
        self._alone = self._live
        while not self._stop.wait(SWEEP_SECONDS):
            self._sweep()
            self._alone = self._live

    def _wait(self, watching: Watch, roots: list[tuple[str, int, int]]) -> None:
        followed: list[sessions.Session] | None = None
        due = rested = 0.0  # what was written before the watcher was up is found by a look at everything
        while not self._stop.is_set():
            if time.monotonic() >= due:
                if self._roots() != roots:
                    return
                self._sweep()
                due = time.monotonic() + SWEEP_SECONDS
            if self._live is not followed:
                followed = self._live
                untold = watching.follow({session.pid for session in followed})
                self._alone = [session for session in followed if session.pid in untold]
                if not all(sessions.is_alive(session) for session in followed):  # the pid may be another's by now
                    self._changed(set(), ended=True)
            seen = watching.wait(due - time.monotonic())
            if seen.over:
                return
            early = rested - time.monotonic()
            if seen.paths and early > 0:
                self._stop.wait(early)
                more = watching.wait(0)
                if more.over:
                    return
                seen.paths |= more.paths
                seen.ended |= more.ended
            if seen.paths or seen.ended:
                began = time.monotonic()
                self._changed(seen.paths, ended=bool(seen.ended))
                ended = time.monotonic()
                rested = ended + min(max(ended - began, LEAST_REST), MOST_REST)

    def _changed(self, paths: set[str], *, ended: bool = False) -> None:
        live = ended
        ids = set()
        for path in paths:
            if path.startswith(self._logs + "/"):
                ids.add(path[len(self._logs) + 1 :].partition("/")[0])
            else:
                live = True
        if live:
            self._look_at_sessions()
        for session_id in ids:
            track = self._follow(session_id)
            if track is not None:
                self._read(track)
        self._hand_over()

    def _sweep(self) -> None:
        if self._stamps() != self._seen or not all(sessions.is_alive(session) for session in self._alone):
            self._look_at_sessions()
        self._clear()
        self._look_at_kept()
        self._list_logs()
        self._read_all()
        self._hand_over()

    def _clear(self, *, now: bool = False) -> None:
        """Remove what sessions whose `nd7 run` was killed have left; they are shown as orphaned for a while before."""
        if not self._dead or not self._clears:
            self._died = 0.0
        elif now or (self._died and time.monotonic() - self._died > ORPHANED_SECONDS):
            self._died = 0.0
            with contextlib.suppress(OSError, Nd7Error):
                sessions.sweep(self.places)
            self._look_at_sessions()
        else:
            self._died = self._died or time.monotonic()

    def _stamps(self) -> dict[str, tuple[int, int, int]]:
        """What tells whether a record may have changed, without reading it."""
        found = {}
        with contextlib.suppress(OSError):
            for name in os.listdir(self.places.sessions):
                if sessions.is_pid(name):
                    found[name] = (0, 0, 0)
                    with contextlib.suppress(OSError):
                        status = os.lstat(os.path.join(self.places.sessions, name, sessions.RECORD))
                        found[name] = (status.st_ino, status.st_size, status.st_mtime_ns)
        return found

    def _look_at_kept(self) -> None:
        """What later sessions of each project start with; changed by a shell, it is seen at the next sweep."""
        try:
            status = os.stat(os.path.join(self.places.nd7, "grants.json"))
            stamp = (status.st_ino, status.st_mtime_ns)
        except OSError:
            stamp = (0, 0)
        if stamp == self._kept_stamp:
            return
        self._kept_stamp = stamp
        try:
            every = standing.every(self.places)
        except (OSError, Nd7Error) as error:
            self._fault(str(error))
            return
        found = tuple(
            GrantRow(0, grant.path, grant.scope, grant.expires, grant.origin, grant.created, grant.uses, project)
            for project, given in every.items()
            for grant in given
        )
        with self._lock:
            self._pending.kept = found

    def _look_at_sessions(self) -> None:
        self._look_at_kept()
        self._seen = self._stamps()
        self._moved = True
        try:
            found = sessions.live(self.places)
        except (OSError, Nd7Error) as error:
            self._fault(f"{self.places.sessions}: {error}")
            return
        for session in found:
            if not session.pid:
                self._fault(session.problem)
        self._live = [session for session in found if session.pid and session.alive]
        self._dead = [session for session in found if session.pid and not session.alive]
        for session in self._live:
            record = session.record
            if record is None:
                continue
            for session_id in record.agent_sessions:
                self._follow(session_id)
        self._under()

    def _under(self) -> None:
        """Give each log the record of its session as it is now."""
        records = {session.pid: session.record for session in self._live if session.record is not None}
        for track in self._tracks.values():
            record = records.get(track.nd7_session) if track.nd7_session is not None else None
            self._add(track.under(record))

    def _record_of(self, pid: int, ts: int) -> Record | None:
        """The record of a live session; a pid alone proves nothing, so not of one that started after `ts`."""
        for session in self._live:
            if session.pid == pid and session.record is not None and session.record.started <= ts:
                return session.record
        return None

    def _list_logs(self, *, first: bool = False) -> None:
        """Logs that have appeared; at the first time the latest ones."""
        try:
            status = os.stat(self._logs)
            if (status.st_mtime_ns, status.st_ino) == self._listed:
                return
            self._listed = (status.st_mtime_ns, status.st_ino)
            names = os.listdir(self._logs)
        except OSError:
            return
        found = []
        for name in names:
            if name in self._tracks:
                continue
            with contextlib.suppress(OSError):
                found.append((os.stat(os.path.join(self._logs, name, EVENTS)).st_mtime, name))
        found.sort(reverse=True)
        oldest = time.time() - (RECENT_SECONDS if first else 60)
        for changed, name in found[:RECENT] if first else found:
            if changed >= oldest:
                self._follow(name)

    def _follow(self, session_id: str) -> Track | None:
        track = self._tracks.get(session_id)
        if track is None:
            directory = os.path.join(self._logs, session_id)
            with contextlib.suppress(OSError, ValueError):
                if stat.S_ISDIR(os.lstat(directory).st_mode):
                    follower = FileFollower(os.path.join(directory, EVENTS), session_id)
                    track = Track(session_id, follower, self.places.home, self._record_of)
                    self._tracks[session_id] = track
        return track

    def _read_all(self) -> None:
        # Those that were written last come first: a person looks at what happens now.
        for track in sorted(self._tracks.values(), key=lambda track: -track.changed):
            if self._stop.is_set():
                return
            self._read(track)

    def _read(self, track: Track) -> None:
        while not self._stop.is_set():
            for item in track.follower.poll(READ_AT_ONCE):
                self._moved = True
                if isinstance(item, Damage):
                    self._add(track.damaged(item))
                    if item.kind != "torn":
                        self._fault(f"{track.session_id[:36]}: {item.reason}")
                else:
                    self._add(track.feed(item))
            if not track.follower.more:
                return
            self._hand_over()

    def _add(self, rows: list[Row]) -> None:
        if rows:
            with self._lock:
                self._pending.rows += rows

    def _fault(self, text: str) -> None:
        if text not in self._said and len(self._said) < 10_000:
            self._said.add(text)
            with self._lock:
                self._pending.faults.append(text)

    def _hand_over(self, *, force: bool = False) -> None:
        """Tell the screen that there is something, if it has not been told; wait where it does not come to take it."""
        rows = self._roster
        if self._moved or force:
            self._moved = False
            if tie(self._tracks.values(), self._live):
                self._under()
            rows = roster([*self._live, *self._dead], list(self._tracks.values()), self.places.home)
        with self._lock:
            if rows != self._roster or force:
                self._roster = rows
                self._pending.sessions = rows
            tell = bool(self._pending) and not self._under_way
            self._under_way = self._under_way or tell
        if tell:
            self._arrived()
        with self._lock:
            while self._bounded and len(self._pending.rows) > FULL and not self._stop.is_set():
                self._taken.wait(0.5)
