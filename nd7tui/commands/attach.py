"""Put this terminal on a session's screen.

examples:
  nd7 attach                 the session of this project, or the only one
  nd7 attach 4242            by the pid that `nd7 sessions` shows; a session's name or the agent's session id will do
  nd7 attach 4242 --json     and say how it ended in JSON; `nd7 sessions --json` tells of it without attaching

Ctrl+\\ then d detaches, and the session goes on; Ctrl+\\ twice sends Ctrl+\\ to the session.  The exit status is 0
after detaching, and the session's own where it ended meanwhile.
"""

from __future__ import annotations

import argparse
import os
import sys


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("session", metavar="SESSION", nargs="?", help="pid, name or the agent's session id")
    parser.add_argument("--json", action="store_true", help="one JSON object on stdout, once it is over: how it ended")


def run(arguments: argparse.Namespace) -> int:
    from nd7core import sessions
    from nd7core.errors import Nd7Error
    from nd7core.paths import places
    from nd7exec import attach

    session = sessions.choose(places(), arguments.session, cwd=os.path.realpath(os.getcwd()), how="nd7 attach PID")
    sys.stderr.write(f"nd7: session {session.label}; {attach.CHORD} detaches\n")
    sys.stderr.flush()
    end = attach.attach(session.directory)
    if arguments.json:
        import json

        print(json.dumps({"session": session.pid, "detached": end.detached, "status": end.status}))
    if end.detached:
        sys.stderr.write(f"nd7: detached; `nd7 attach {session.pid}` brings it back\n")
        return 0
    if end.status is None:
        raise Nd7Error("the connection to the session broke", hint=f"`nd7 attach {session.pid}`, if it still runs")
    sys.stderr.write(f"nd7: session {session.pid} has ended with exit status {end.status}\n")
    return end.status
