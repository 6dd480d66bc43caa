"""`r`: a session ends and comes back under a floor that has its grants, with its conversation.

A confined process can never be widened, so what Write, Edit and Read were refused is mended by no grant alone: the
agent itself has to start again.  `nd7 run` gives a session that is resumed the grants that it had, in the floor, too.
"""

from __future__ import annotations

import os
import shlex
import signal
import time
from collections.abc import Sequence
from dataclasses import dataclass

from nd7core import grants, process, sessions
from nd7core.errors import Nd7Error
from nd7core.paths import Places
from nd7core.record import Record
from nd7tui.deeds import Done
from nd7tui.model import Deed
from nd7tui.starting import start

END_SECONDS = 25.0
# Options of claude's that describe how it works, and not what it was asked: they are given again.  Each with whether
# a value follows.  Everything else (a prompt, --print, another session's id) belonged to the run that ends.
KEPT = {
    "--dangerously-skip-permissions": False,
    "--allow-dangerously-skip-permissions": False,
    "--verbose": False,
    "--strict-mcp-config": False,
    "--model": True,
    "--fallback-model": True,
    "--permission-mode": True,
    "--settings": True,
    "--append-system-prompt": True,
}


@dataclass(frozen=True, slots=True)
class Again:
    """What is asked for.

    Attributes:
        grant: a path to grant first, or "".
        origin: id of the row that it mends.
    """

    pid: int
    grant: str = ""
    origin: str = ""


def kept(arguments: Sequence[str]) -> list[str]:
    """Those of an agent's arguments that are given to it again."""
    found: list[str] = []
    words = iter(arguments)
    for word in words:
        if word == "--":
            break
        name, equals, _ = word.partition("=")
        if name in KEPT:
            found.append(word)
            if KEPT[name] and not equals:
                found += [value for value in [next(words, None)] if value is not None]
    return found


def words_of(record: Record) -> list[str]:
    """The arguments of `nd7` that bring a session back."""
    program, *arguments = record.program or ("claude",)
    main, worktree = record.worktree
    # By its name, so that the repository's own directory is writable again.
    where = ["--project", main, "--worktree", worktree] if worktree else ["--project", record.project]
    words = ["run", "--detach", *where]
    if record.name:
        words += ["--name", record.name]
    return [*words, program, *kept(arguments), "--resume", record.conversation]


def command_of(again: Again, record: Record) -> str:
    """The same from a shell."""
    steps = [shlex.join(["kill", str(again.pid)]), shlex.join(["nd7", *words_of(record)])]
    if again.grant:
        steps.insert(0, grants.command_line("allow", again.pid, again.grant))
    return " && ".join(steps)


def restart(places: Places, again: Again) -> Done:
    """Do it, in a worker.  Where the session does not end, nothing is started beside it."""
    now = time.time_ns()
    line = f"kill {again.pid}"

    def failed(said: str) -> Done:
        return Done("other", False, said, Deed(now, "restart", line, said, False))

    try:
        session = sessions.load(places, again.pid)
        record = session.record
        if record is None or not session.alive:
            return failed(session.problem or "the session has ended")
        if not record.conversation:
            return failed("the agent has not told its session's id yet, so it could not come back to it")
        line = command_of(again, record)
        if again.grant:
            grants.allow(places, again.pid, again.grant, origin=again.origin)
            record = sessions.load(places, again.pid).record or record
        if in_its_own_terminal(session.directory):
            return _in_place(places, again, session, line)
        os.kill(again.pid, signal.SIGTERM)
    except (Nd7Error, OSError) as error:
        return failed(error.message if isinstance(error, Nd7Error) else str(error))
    end = time.monotonic() + END_SECONDS
    while process.is_same(again.pid, record.owner_start):
        if time.monotonic() > end:
            return failed(f"the session has not ended within {END_SECONDS:.0f} s; nothing was started")
        time.sleep(0.1)
    ok, said = start(words_of(record))
    said = "it is back, with its grants; Enter on it attaches" if ok else f"it has ended, and did not come back: {said}"
    return Done("other", ok, said, Deed(now, "restart", line, said, ok))


def in_its_own_terminal(directory: str) -> bool:
    """Whether a session runs in a terminal that a person started it in, and should come back there."""
    from nd7exec import attach

    try:
        return attach.peek(directory).about.get("terminal") is True
    except Nd7Error:
        return False


def _in_place(places: Places, again: Again, session: sessions.Session, line: str) -> Done:
    """Have the supervisor end the agent and begin again, in the same terminal and under the same pid."""
    from nd7exec import attach

    record = session.record
    now = time.time_ns()
    ok, said = False, f"the session has not come back within {END_SECONDS:.0f} s"
    attach.restart(session.directory)
    end = time.monotonic() + END_SECONDS
    while record is not None and time.monotonic() < end:
        time.sleep(0.1)
        if not process.is_same(again.pid, record.owner_start):
            said = "it has ended, and did not come back"
            break
        try:
            found = sessions.load(places, again.pid).record
        except Nd7Error:
            continue  # between the old session's end and the new one's beginning
        if found is not None and found.started != record.started:
            ok, said = True, "it is back in its own terminal, with its grants"
            break
    return Done("other", ok, said, Deed(now, "restart", line, said, ok))
