"""Starting a session from a command line, in this terminal or detached from it."""

from __future__ import annotations

import errno
import json
import os
import time
from collections.abc import Callable
from dataclasses import replace
from typing import NoReturn

from nd7core import sessions
from nd7core.errors import Nd7Error
from nd7core.paths import Places, places
from nd7core.text import SafeText, safe, wrapped
from nd7exec import client, lifecycle, place, resume, terminal, worktree
from nd7exec.attach import CHORD
from nd7exec.lifecycle import Session, Wish
from nd7exec.supervisor import Supervisor
from nd7exec.wire import write_all

AT_ONCE_SECONDS = 0.5  # what is over sooner was never seen by anybody
LONGEST_LINE = 8000  # characters; a session may have many grants, each a long path


def say(line: str) -> None:
    """Something on stderr: one line, or as many as a terminal takes without breaking words; it may be raw.

    What a session wrote may stand in it (a command that no hook told of), so nothing in it acts on the terminal.
    """
    shown = safe(line, LONGEST_LINE)
    try:
        lines, end = wrapped(shown, max(os.get_terminal_size(2).columns, 40), "nd7: ", "     "), "\r\n"
    except OSError:  # no terminal
        lines, end = [SafeText(f"nd7: {shown}")], "\n"
    write_all(2, "".join(text + end for text in lines).encode("utf-8", "backslashreplace"))


def run(wish: Wish, environ: dict[str, str]) -> int:
    """Run a session to its end and return the program's exit status.  Raises Nd7Error.

    With `wish.detach` it is the session's start that is waited for: its pid goes to stdout, the rest to stderr.
    """
    try:
        where = places(environ)
        _check_not_inside()
        fds = terminal.terminals()
        if wish.worktree:
            return _in_worktree(wish, where, environ, fds)
        return _start(wish, where, environ, fds, lambda: None)
    except OSError as error:  # a full disk, a limit: what no check before could see
        what = f"{error.filename}: {error.strerror}" if error.filename else str(error)
        raise Nd7Error(what, exit_code=126) from None
    except Nd7Error as error:
        if error.exit_code == 1:  # from a part that does not know that it is on the way to a program
            error.exit_code = 126
        raise


def _start(wish: Wish, where: Places, environ: dict[str, str], fds: frozenset[int], started: Callable[[], None]) -> int:
    """Here or detached.  `started` is called once the program runs."""
    if wish.detach:
        status = _detached(wish, where, environ)
        started()
        return status

    def make(session: Session) -> Supervisor:
        supervisor = Supervisor(session, where, fds, say)
        supervisor.started = started
        return supervisor

    sessions.sweep(where)
    return _run(wish, environ, make, where)


def _in_worktree(wish: Wish, where: Places, environ: dict[str, str], fds: frozenset[int]) -> int:
    """See that the worktree is there, and start in it.  One that was made for a session that never ran goes again."""
    lifecycle.check_machine(wish, where)
    cwd = lifecycle.working_directory()
    tree = worktree.find(wish.worktree, place.project_of(wish.project, cwd, environ, where), where)
    lifecycle.find_program(wish.program[0], environ, cwd)  # before anything is made
    environ = worktree.without_local(environ)
    worktree.make(tree, where, environ)
    stays = f"the worktree {tree.path} stays when the session ends; `{tree.removal}` takes it away"
    inner = replace(
        wish,
        project=tree.path,
        repository=tree.repository,
        name=wish.name or f"{os.path.basename(tree.main)}/{tree.name}",
        notes=(stays,) if wish.detach else (),
    )
    running: list[bool] = []
    try:
        status = _start(inner, where, environ, fds, lambda: running.append(True))
    except (Nd7Error, OSError):
        if not running:
            worktree.undo(tree, where, environ)
        raise
    if not wish.detach:
        say(stays.replace(" stays when the session ends", " is still there"))
    return status


def _check_not_inside() -> None:
    """Refuse inside a session, where the rendezvous works (or its supervisor is gone).  Raises Nd7Error."""
    try:
        client.rendezvous(client.EXEC).close()
    except OSError as error:
        if error.errno != errno.ENOSYS:
            return
    raise Nd7Error(
        "this is inside a session already, and what a session starts is confined as it is",
        hint="start PROGRAM without nd7, or run this in a terminal of your own",
        exit_code=126,
    )


def _run(wish: Wish, environ: dict[str, str], make: Callable[[Session], Supervisor], where: Places) -> int:
    """One session after the other, as long as each asks for the next."""
    while True:
        supervisor = make(lifecycle.prepare(wish, where, environ))
        status = supervisor.run()
        if not supervisor.again:
            return status
        wish = replace(wish, program=resume.claude(wish.program, supervisor.again))


def _detached(wish: Wish, where: Places, environ: dict[str, str]) -> int:
    """Fork the supervisor into a session of its own, and pass on what it says until its program runs."""
    reader, writer = os.pipe()
    pid = os.fork()
    if pid == 0:
        os.close(reader)
        _supervise(wish, where, environ, writer)
    os.close(writer)
    with os.fdopen(reader, "rb") as told:
        for line in told:
            kind, text = json.loads(line)
            if kind == "say":
                say(text)
            elif kind == "error":
                os.waitpid(pid, 0)
                raise Nd7Error(text["message"], hint=text["hint"], exit_code=text["exit_code"])
            elif kind == "started":
                ended = _ended_at_once(pid)
                if ended is not None:
                    name = os.path.basename(wish.program[0])
                    say(f"{name} ended at once with exit status {ended}; run it without --detach to see what it says")
                    return ended
                say(f"detached; `nd7 attach {pid}` shows it, {CHORD} leaves it again")
                write_all(1, f"{pid}\n".encode())
                return 0
    raise Nd7Error("the session ended before its program ran", exit_code=126)


def _ended_at_once(pid: int) -> int | None:
    """The exit status of a session that is over in the same moment, or None where it runs on.

    Nobody has seen its screen and nobody will: without this it would be gone without a word.
    """
    until = time.monotonic() + AT_ONCE_SECONDS
    while time.monotonic() < until:
        ended, status = os.waitpid(pid, os.WNOHANG)
        if ended:
            return os.waitstatus_to_exitcode(status)
        time.sleep(0.02)
    return None


def _supervise(wish: Wish, where: Places, environ: dict[str, str], writer: int) -> NoReturn:
    """The forked supervisor: without a terminal, and without whoever started it once its program runs."""

    def tell(kind: str, content: object) -> None:
        if told:
            write_all(told[0], json.dumps([kind, content]).encode() + b"\n")

    def started() -> None:
        if told:
            tell("started", os.getpid())
            os.close(told.pop())

    def make(session: Session) -> Supervisor:
        supervisor = Supervisor(session, where, frozenset(), lambda line: tell("say", line), pty=True)
        supervisor.started = started
        return supervisor

    told = [writer]
    status = 126
    try:
        os.setsid()
        null = os.open(os.devnull, os.O_RDWR)
        for fd in (0, 1, 2):
            os.dup2(null, fd)
        os.close(null)
        sessions.sweep(where)
        status = _run(wish, environ, make, where)
    except Nd7Error as error:
        tell("error", {"message": error.message, "hint": error.hint, "exit_code": error.exit_code})
    except OSError as error:
        tell("error", {"message": str(error), "hint": "", "exit_code": 126})
    finally:
        os._exit(status)
    raise AssertionError("not reached")
