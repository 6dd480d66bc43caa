"""Live sessions: `~/.nd7/sessions/<pid>/` with `record.json` and `policy.sb`.

A directory is a session only as long as the process that made it lives, and that is told by its pid
and its start time together.  Writers take one lock for all sessions, and write policy.sb before
record.json: a reader that sees a new revision in the record finds its policy in place.
"""

from __future__ import annotations

import contextlib
import os
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

from nd7core import process, standing
from nd7core.errors import Nd7Error
from nd7core.paths import Places, within
from nd7core.policy import Policy, build, compile_linux, render
from nd7core.private import PrivateError, locked, open_directory, read_file, sweep_temporaries, write_file
from nd7core.record import MAX_BYTES, Record, RecordError, from_json, to_json
from nd7core.text import safe, safe_path

RECORD = "record.json"
POLICY = "policy.sb"
_LOCK = ".lock"
_LOCK_WAIT = 15.0
_START = "start one in a project: nd7 run claude"
"""Seconds to wait for another writer; it holds the lock for a few milliseconds."""


class SessionError(Nd7Error):
    """A session that is not there, cannot be used, or cannot be told from others."""


@dataclass(frozen=True, slots=True)
class Session:
    """One directory of `~/.nd7/sessions`.

    Attributes:
        pid: of `nd7 run`, from the directory's name; 0 where the sessions directory itself is the problem.
        record: None where it cannot be used; `problem` says why.
        alive: the process that made it lives.
        problem: one sentence, or "".
        unsure: the record holds no start time (the existing macOS nd7's): alive says only that the pid is in use.
    """

    pid: int
    directory: str
    record: Record | None
    alive: bool
    problem: str = ""
    unsure: bool = False

    @property
    def label(self) -> str:
        """How a person tells it from others: its name or project, and its pid.  Fit to be shown."""
        if self.record is None:
            return f"{self.pid}"
        return f"{self.pid}  {safe(self.record.name, 60)}  {safe_path(self.record.project, 80)}".replace("    ", "  ")


def path_of(places: Places, pid: int) -> str:
    """The directory of the session whose `nd7 run` has this pid, whether or not there is one."""
    return os.path.join(places.sessions, str(pid))


def is_pid(name: str) -> bool:
    """Whether a name is a pid as nd7 writes it: no sign, no leading zero."""
    return name.isascii() and name.isdigit() and name[0] != "0" and len(name) <= 10


@contextlib.contextmanager
def _root(places: Places, *, create: bool = False) -> Iterator[int]:
    """The sessions directory, checked, as a descriptor."""
    nd7 = open_directory(places.nd7, create=create)
    try:
        root = open_directory("sessions", at=nd7, create=create)
    finally:
        os.close(nd7)
    try:
        yield root
    finally:
        os.close(root)


def _locked(root: int) -> contextlib.AbstractContextManager[None]:
    """Hold the lock of all writers."""
    return locked(root, _LOCK, _LOCK_WAIT)


@contextlib.contextmanager
def writing(places: Places) -> Iterator[None]:
    """Hold the lock of all who write below `~/.nd7`.  Raises FileNotFoundError where there is nothing yet."""
    with _root(places) as root, _locked(root):
        yield


def _alive(pid: int, record: Record | None) -> bool:
    if record is not None and record.ours:
        return process.is_same(pid, record.owner_start)
    return process.exists(pid)


def _read_record(directory: int, pid: int) -> Record:
    record = from_json(read_file(directory, RECORD, MAX_BYTES))
    if record.pid not in (0, pid):
        raise RecordError(f"record.json is that of session {record.pid}")
    return record if record.pid else replace(record, pid=pid)


def _session(places: Places, root: int, name: str) -> Session:
    """What one entry of the sessions directory is.  Never raises for what stands there."""
    pid = int(name)
    record: Record | None = None
    problem = ""
    try:
        directory = open_directory(name, at=root)
        try:
            record = _read_record(directory, pid)
        finally:
            os.close(directory)
    except FileNotFoundError:
        problem = f"session {pid} has no record.json"
    except Nd7Error as error:
        problem = f"session {pid}: {error.message}"
    except OSError as error:
        problem = f"session {pid}: {error.strerror}"
    alive = _alive(pid, record)
    return Session(pid, path_of(places, pid), record, alive, problem, unsure=record is not None and not record.ours)


def live(places: Places) -> list[Session]:
    """Every session directory, oldest first, those of dead processes and damaged ones included (`alive`, `problem`).

    Never raises for what stands in the directories.  Where the sessions directory itself cannot be
    used, one Session with pid 0 says so; where there is none yet, the list is empty.
    """
    try:
        with _root(places) as root:
            names = sorted((name for name in os.listdir(root) if is_pid(name)), key=int)
            found = [_session(places, root, name) for name in names]
    except FileNotFoundError:
        return []
    except Nd7Error as error:
        return [Session(0, places.sessions, None, False, error.message)]
    except OSError as error:
        return [Session(0, places.sessions, None, False, f"{safe_path(places.sessions)}: {error.strerror}")]
    return sorted(found, key=lambda session: (session.record.started if session.record else 0, session.pid))


def load(places: Places, pid: int) -> Session:
    """One session as it stands now.

    Raises:
        SessionError: there is no such directory, or it cannot be read.
    """
    try:
        with _root(places) as root:
            session = _session(places, root, str(pid))
    except (FileNotFoundError, PermissionError):
        raise _unreachable(places, f"there is no session {pid}") from None
    if session.record is None and not os.path.lexists(session.directory):
        raise _unreachable(places, f"there is no session {pid}")
    return session


def _unreachable(places: Places, otherwise: str, hint: str = "`nd7 sessions` lists those that run") -> SessionError:
    """Why no session is to be seen: from inside one, `~/.nd7` cannot be read, by design."""
    try:
        os.close(os.open(places.nd7, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC))
        hidden = not os.path.lexists(places.sessions)  # a mask: there is a folder, with nothing in it
    except OSError as error:
        hidden = isinstance(error, PermissionError)
    if hidden and process.looks_confined():
        return SessionError(
            f"{safe_path(places.nd7)} cannot be read from inside a confined session",
            hint="a session can never widen itself: ask the person to run this in a terminal of their own",
        )
    return SessionError(otherwise, hint=hint)


def complain_if_hidden(places: Places) -> None:
    """Raise SessionError where `~/.nd7` cannot be read, as inside a session; "none" would be the wrong answer there."""
    try:
        with _root(places):
            return
    except FileNotFoundError:
        if os.path.lexists(places.nd7) and process.looks_confined():
            raise _unreachable(places, "no session can be seen from here") from None
    except PermissionError:
        raise _unreachable(places, f"{safe_path(places.nd7)} cannot be read") from None


def create(places: Places, record: Record, policy: Policy) -> str:
    """Write a new session's directory and return its path.

    It appears whole: made under another name, then renamed.  A leftover of a dead process with the
    same pid makes way.

    Raises:
        SessionError, PrivateError: it cannot be made, or that pid is a live session already.
    """
    if record.pid <= 0 or not record.owner_start:
        raise SessionError("a session's record needs its owner's pid and start time")
    name = str(record.pid)
    with _root(places, create=True) as root, _locked(root):
        if os.path.lexists(path_of(places, record.pid)):
            if _session(places, root, name).alive and record.pid != os.getpid():
                raise SessionError(f"session {record.pid} is there already")
            _discard(places, root, name)
        fresh = f".new-{name}-{os.urandom(4).hex()}"
        directory = open_directory(fresh, at=root, create=True)
        try:
            write_file(directory, POLICY, render(policy))
            write_file(directory, RECORD, to_json(record))
        finally:
            os.close(directory)
        os.rename(fresh, name, src_dir_fd=root, dst_dir_fd=root)
        os.fsync(root)
    return path_of(places, record.pid)


def update(places: Places, pid: int, change: Callable[[Record], Record], *, now: int | None = None) -> Record:
    """Change a session's record and its policy with it; returns the record as written.

    Under the lock: the record is read again and changed; where that changes the policy its revision grows by one and
    policy.sb is replaced; then record.json is.  A change that changes nothing writes nothing, and one that leaves
    the policy alone (a gap, the canary) leaves policy.sb alone, too, with what the person wrote into it.  A policy
    that cannot be enforced is refused before anything is written.

    Args:
        change: called once, under the lock; may raise to refuse.
        now: nanoseconds since the epoch, for grants that end.

    Raises:
        SessionError: no such session, a damaged one, or one of another nd7.
        Unenforceable: this system's kernel cannot be told the new policy.
    """
    try:
        with _root(places) as root, _locked(root):
            directory = open_directory(str(pid), at=root)
            try:
                return _update(directory, pid, change, now)
            finally:
                os.close(directory)
    except (FileNotFoundError, PermissionError):
        raise _unreachable(places, f"there is no session {pid}") from None


def _update(directory: int, pid: int, change: Callable[[Record], Record], now: int | None) -> Record:
    sweep_temporaries(directory)
    try:
        old = _read_record(directory, pid)
    except FileNotFoundError:
        raise SessionError(f"session {pid} has no record.json") from None
    if not old.ours:
        raise SessionError(
            f"session {pid} was started by another nd7, whose rules this one does not know",
            hint="use the nd7 that started it",
        )
    changed = change(old)
    if changed == old:
        return old
    if _policy_of(changed) == _policy_of(old):
        record = replace(changed, revision=old.revision)
    else:
        record = replace(changed, revision=old.revision + 1)
        policy = build(record, now=now)
        if sys.platform != "darwin":
            compile_linux(policy)
        write_file(directory, POLICY, render(policy))
    write_file(directory, RECORD, to_json(record))
    return record


def _policy_of(record: Record) -> tuple[object, ...]:
    """What of a record its policy is made of."""
    paths = (record.project, record.home, record.state, record.tmp, record.ssh_agent, record.pid)
    lists = (record.writable, record.writable_files, record.protected, record.hidden)
    return (*paths, *lists, tuple(replace(grant, uses=0) for grant in record.grants))


def _discard(places: Places, root: int, name: str) -> None:
    """Take a session's directory away.  Renamed first, so that nobody meets it half removed."""
    record = _session(places, root, name).record
    if record is not None and record.ours:
        # A damaged file of remembered grants must not keep a dead session alive.
        with contextlib.suppress(Nd7Error):
            standing.remember(places, record, time.time_ns())
    dead = f".dead-{name}-{os.urandom(4).hex()}"
    try:
        os.rename(name, dead, src_dir_fd=root, dst_dir_fd=root)
    except FileNotFoundError:
        return
    _erase(places, root, dead)


def _erase(places: Places, root: int, name: str) -> None:
    import shutil  # only those who clean up pay for it

    path = os.path.join(places.sessions, name)
    try:
        # rmtree refuses a link and does not follow any inside.
        if os.path.islink(path) or not os.path.isdir(path):
            os.unlink(name, dir_fd=root)
        else:
            shutil.rmtree(path)
    except FileNotFoundError:
        return
    except OSError as error:
        raise PrivateError(f"cannot remove {safe_path(path)}: {error.strerror}") from None


def remove(places: Places, pid: int) -> None:
    """Remove a session's directory; nothing happens where there is none."""
    try:
        with _root(places) as root, _locked(root):
            _discard(places, root, str(pid))
    except FileNotFoundError:
        return


def sweep(places: Places) -> list[int]:
    """Remove what sessions that ended left behind; returns their pids.

    Keeps what it cannot be sure of: a directory without a readable record whose pid is in use.
    What cannot be removed is left, `live` reports it.
    """
    swept: list[int] = []
    try:
        with _root(places) as root, _locked(root):
            for name in os.listdir(root):
                with contextlib.suppress(PrivateError):
                    if is_pid(name):
                        if not _session(places, root, name).alive:
                            _discard(places, root, name)
                            swept.append(int(name))
                    elif name.startswith((".new-", ".dead-")):
                        # Made and renamed under the lock that is held here: nobody is at work on it.
                        _erase(places, root, name)
    except FileNotFoundError:
        return []
    return swept


def is_alive(session: Session) -> bool:
    """Whether the session's owner still runs, asked anew."""
    return _alive(session.pid, session.record)


def choose(places: Places, wanted: str | None = None, *, cwd: str = "", how: str = "--session PID") -> Session:
    """The session that a command is about.

    Args:
        wanted: a pid, a session's name, or an agent's own session id; None lets nd7 choose: the only
            one that runs, or the one whose project holds `cwd` (the deepest).
        cwd: canonical, or "".
        how: what says which, in the command's own words.

    Raises:
        SessionError: none, or several, which it lists.
    """
    every = live(places)
    running = [session for session in every if session.alive and session.record is not None]
    if wanted is not None:
        for session in every:
            if session.pid and str(session.pid) == wanted:
                if not session.alive:
                    raise SessionError(f"session {session.pid} has ended")
                if session.problem:
                    raise SessionError(session.problem)
                return session
        named = [s for s in running if s.record and s.record.called(wanted)]
        if len(named) == 1:
            return named[0]
        shown = safe(wanted, 60)
        if named:
            raise _several(named, f"several sessions are called {shown}", how)
        if not running:
            raise _unreachable(places, f"there is no session {shown}; none is running", _START)
        raise _several(running, f"there is no session {shown}", how)
    if not running:
        broken = next((session.problem for session in every if session.problem and not session.pid), "")
        raise _unreachable(places, broken or "no session is running", _START)
    if len(running) == 1:
        return running[0]
    around = [s for s in running if s.record and cwd and within(cwd, s.record.project)]
    around.sort(key=lambda s: len(s.record.project) if s.record else 0, reverse=True)
    if around and (len(around) == 1 or _project(around[0]) != _project(around[1])):
        return around[0]
    raise _several(around or running, "several sessions are running", how)


def _project(session: Session) -> str:
    return session.record.project if session.record else ""


def _several(found: list[Session], message: str, how: str) -> SessionError:
    rows = "\n     ".join(session.label for session in found[:20])
    return SessionError(message, hint=f"say which with {how}:\n     {rows}", exit_code=2)
