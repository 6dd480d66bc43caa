"""Starting a session from a command line, in this terminal or detached from it."""

from __future__ import annotations

import os

from nd7core import sessions
from nd7core.paths import places
from nd7exec import lifecycle, terminal
from nd7exec.lifecycle import Wish
from nd7exec.supervisor import Supervisor


def say(line: str) -> None:
    """One line on stderr, in a terminal that may be raw."""
    end = "\r\n" if os.isatty(2) else "\n"
    try:
        os.write(2, f"nd7: {line}{end}".encode("utf-8", "backslashreplace"))
    except OSError:
        return  # nobody reads it any more


def run(wish: Wish, environ: dict[str, str]) -> int:
    """Run a session to its end and return the program's exit status.  Raises Nd7Error."""
    where = places(environ)
    fds = terminal.terminals()
    session = lifecycle.prepare(wish, where, environ)
    sessions.sweep(where)
    return Supervisor(session, where, fds, say).run()
