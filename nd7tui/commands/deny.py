"""Take a grant back.

examples:
  nd7 deny ~/.cache/pip               the session of this directory, or the only one
  nd7 deny /srv/data --session 4711
  nd7 deny ~/.m2 --project            only what this project's later sessions start with, whoever runs
  nd7 grants                          what has been granted

The next Bash command is without it; a command that runs keeps what it started with.
"""

from __future__ import annotations

import argparse
import json
from typing import TYPE_CHECKING

from nd7core.text import safe, safe_path

if TYPE_CHECKING:
    from nd7core.paths import Places


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("path", metavar="GRANTED-PATH", help="what was granted")
    which = parser.add_mutually_exclusive_group()
    which.add_argument("--session", metavar="S", help="a session's pid, name or agent session id")
    which.add_argument("--project", action="store_true", help="only for later sessions of the project you are in")
    parser.add_argument("--json", action="store_true", help="one JSON object on stdout")


def run(arguments: argparse.Namespace) -> int:
    from nd7core import grants, paths, sessions
    from nd7tui.commands.allow import as_json, current_directory, with_home

    where = paths.places()
    path = with_home(arguments.path, where.home)
    cwd = current_directory()
    if arguments.session is None and (arguments.project or _only_lasting(where, path, cwd)):
        if arguments.project and not grants.lasting(where, path, cwd):
            sessions.complain_if_hidden(where)
            raise grants.GrantError(
                f"no project that holds {safe_path(cwd)} has {safe_path(paths.canonical(path))} for its later sessions",
                hint="`nd7 grants` lists what projects start with",
            )
        projects = grants.forget(where, path, cwd)
        if projects:
            if arguments.json:
                print(
                    json.dumps({"session": None, "path": paths.canonical(path), "changed": True, "projects": projects})
                )
            for project in [] if arguments.json else projects:
                print(f"later sessions of {safe_path(project)} start without {safe_path(paths.canonical(path))}")
            return 0
    session = sessions.choose(where, arguments.session, cwd=cwd)
    change = grants.deny(where, session.pid, path)
    if arguments.json:
        print(json.dumps(as_json(change)))
        return 0
    name = safe(change.record.name, 60)
    who = f"session {session.pid}" + (f" ({name})" if name else "")
    print(f"took {safe_path(change.path)} back from {who}, policy revision {change.record.revision}")
    print(f"  {safe(change.when)}")
    if change.note:
        print(f"  {safe(change.note)}")
    return 0


def _only_lasting(where: Places, path: str, cwd: str) -> bool:
    """Whether what is meant is what a project starts with: nothing runs, or nothing of the project that we are in."""
    from nd7core import grants, sessions

    running = [session.record.project for session in sessions.live(where) if session.alive and session.record]
    if not running:
        return True
    having = grants.lasting(where, path, cwd)
    return bool(having) and not any(project in having for project in running)
