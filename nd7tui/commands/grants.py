"""List what has been granted, unused first.

examples:
  nd7 grants                     every live session's, and what projects start with
  nd7 grants --session 4711
  nd7 grants --json              [{"session", "project", "path", "scope", "expires", "created", "uses", "origin"}]

`uses` counts the commands that ran while the grant was in force.  `nd7 deny PATH` takes one back.
"""

from __future__ import annotations

import argparse
import json
import time
from typing import Any

from nd7core.text import SafeText, safe, safe_path


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--session", metavar="S", help="only of this session: its pid, name or agent session id")
    form = parser.add_mutually_exclusive_group()
    form.add_argument("--json", action="store_true", help="a JSON list on stdout")
    form.add_argument("--paths", action="store_true", help="the paths alone, one a line, for a shell to complete")


def run(arguments: argparse.Namespace) -> int:
    from nd7core import sessions, standing
    from nd7core.paths import places
    from nd7tui.commands.allow import current_directory

    where = places()
    now = time.time_ns()
    if arguments.session is not None:
        chosen = [sessions.choose(where, arguments.session, cwd=current_directory())]
    else:
        chosen = [session for session in sessions.live(where) if session.alive and session.record is not None]
        if not chosen:
            # Says so in a session, too, where ~/.nd7 cannot be read and silence would look like "none".
            sessions.complain_if_hidden(where)
    rows: list[dict[str, Any]] = []
    for session in chosen:
        if session.record is not None:
            rows += [_row(session.pid, session.record.project, grant, now) for grant in session.record.grants]
    if arguments.session is None:
        for project, kept in standing.every(where).items():
            here = {row["path"] for row in rows if row["project"] == project}
            rows += [_row(None, project, grant, now) for grant in kept if grant.path not in here]
    rows.sort(key=lambda row: (row["session"] is None, row["uses"], row["created"] or 0))
    if arguments.json:
        print(json.dumps(rows))
        return 0
    if arguments.paths:
        for path in dict.fromkeys(row["path"] for row in rows):
            if safe_path(path) == path:  # what a terminal cannot show, nobody can type
                print(path)
        return 0
    if not rows:
        print("nothing is granted")
        return 0
    print(f"{'SESSION':<10} {'LASTS':<14} {'AGE':>5} {'USES':>5}  PATH  (FROM)")
    for row in rows:
        origin = f"  ({safe(row['origin'], 80)})" if row["origin"] else ""
        age = _span(now - row["created"]) if row["created"] else "?"
        print(
            f"{row['session'] or 'later':<10} {_lasts(row, now):<14} {age:>5} {row['uses']:>5}  "
            f"{safe_path(row['path'])}{_whose(row)}{origin}"
        )
    return 0


def _row(session: int | None, project: str, grant: Any, now: int) -> dict[str, Any]:
    return {
        "session": session,
        "project": project,
        "path": grant.path,
        "scope": grant.scope,
        "expires": grant.expires,
        "in_force": grant.in_force(now),
        "created": grant.created or None,
        "uses": grant.uses,
        "origin": grant.origin,
    }


def _whose(row: dict[str, Any]) -> str:
    """Which project's later sessions start with it, where it is no session's yet."""
    return f"  for {safe_path(row['project'])}" if row["session"] is None else ""


def _lasts(row: dict[str, Any], now: int) -> str:
    if not row["in_force"]:
        return "ended"
    if row["expires"] is not None:
        return f"{left(row['expires'] - now)} more"
    return {"once": "one command", "project": "this project"}.get(row["scope"], "this session")


def _span(ns: int) -> str:
    seconds = max(0, ns // 10**9)
    for size, unit in ((86400, "d"), (3600, "h"), (60, "m")):
        if seconds >= size:
            return f"{seconds // size}{unit}"
    return f"{seconds}s"


def left(ns: int) -> SafeText:
    """How long still, in two units at most and rounded up: 2h, 1h 59m, 1d 3h, 40s; what is to come is not cut short."""
    seconds = max(0, -(-ns // 1_000_000_000))
    if seconds < 60:
        return SafeText(f"{seconds}s")
    minutes = -(-seconds // 60)
    days, hours, minutes = minutes // 1440, minutes % 1440 // 60, minutes % 60
    parts = [f"{n}{unit}" for n, unit in ((days, "d"), (hours, "h"), (minutes, "m")) if n]
    return SafeText(" ".join(parts[:2]))
