"""List sessions: those that run, and the latest that are over.

examples:
  nd7 sessions                 who works, who waits for you, what was refused, what is in force in each
  nd7 sessions --json          the same for scripts: one array, keys only ever added
  nd7 sessions --live --json   those that run, alone
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import sys
import time
from collections.abc import Iterable
from dataclasses import replace
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from nd7core.paths import Places
    from nd7tui.model import SessionRow

SHORTEST = 8
"""Characters of an ended session's id, or more where others begin so."""


def configure(parser: argparse.ArgumentParser) -> None:
    """The command's arguments."""
    parser.add_argument("--json", action="store_true", help="an array of objects")
    parser.add_argument("--live", action="store_true", help="those that run, alone")


def as_json(session: SessionRow) -> dict[str, Any]:
    """One session as `--json` gives it.  Times are nanoseconds since the epoch; paths keep odd bytes as \\udcNN."""
    return {
        "pid": session.pid,
        "name": session.name,
        "project": session.project,
        "agent": session.agent,
        "state": session.activity,
        "waits_for": session.waits_for,
        "started": session.started,
        "changed": session.changed,
        "agent_sessions": list(session.session_ids),
        "denials": {source: session.counts.get(source, 0) for source in ("kernel", "nd7-exec", "model")},
        "other_failures": session.counts.get("none", 0),
        "grants": [grant.path for grant in session.grants],
        "revision": session.revision,
        "enforced": session.enforced,
        "gaps": session.gaps,
        "canary": session.canary,
        "light": session.light,
        "problem": session.problem,
    }


def in_force(enforced: dict[str, str], width: int) -> list[str]:
    """What is enforced in a session, each part on a line of its own and none of it cut; long ones are wrapped."""
    import textwrap

    from nd7core.text import safe

    found: list[str] = []
    for part, how in enforced.items():
        found += textwrap.wrap(f"{safe(part, 60)}: {safe(how)}", max(width, 30), subsequent_indent="  ")
    return found


def beginnings(rows: list[SessionRow], known: Iterable[str] = ()) -> dict[str, str]:
    """For each session that is over the beginning of its log's id which `nd7 verify` takes, by the session's key."""
    every = sorted({*known, *(name for row in rows for name in row.session_ids)})
    found = {}
    for row in rows:
        if not row.live and row.session_ids:
            name = row.session_ids[-1]
            at = every.index(name)
            beside = (*every[max(at - 1, 0) : at], *every[at + 1 : at + 2])
            size = SHORTEST
            while size < len(name) and any(other.startswith(name[:size]) for other in beside):
                size += 1
            found[row.key] = name[:size]
    return found


def force_of_all(rows: list[SessionRow], width: int) -> list[str]:
    """What is in force in the sessions that run, told once for all in which the same is."""
    together: dict[tuple[tuple[str, str], ...], list[SessionRow]] = {}
    for row in rows:
        if row.live:
            together.setdefault(tuple(row.enforced.items()), []).append(row)
    lines = []
    for enforced, those in together.items():
        pids = ", ".join(str(row.pid) for row in those)
        if not enforced:
            lines.append(f"in force in {pids}: its supervisor has not told yet")
            continue
        lines.append(f"in force in {pids}:")
        lines += [f"{'':>10}{line}" for line in in_force(dict(enforced), width - 10)]
    return lines


def table(rows: list[SessionRow], now: int, width: int = 100, known: Iterable[str] = ()) -> list[str]:
    """The lines that a person reads, those that may be long in at most `width` columns.

    Args:
        known: the ids of all logs, among which the beginning of one must be unique.
    """
    from nd7core.text import safe, safe_path
    from nd7tui import look

    short = beginnings(rows, known)
    room = max((9, *map(len, short.values())))
    lines = [f"{'PID or ID':>{room}}  {'STATE':<9} {'FOR':>4}  {'DENIED':<18} {'NAME':<18} PROJECT"]
    for session in rows:
        counts = " ".join(
            f"{look.SOURCE[source][1]} {session.counts[source]}"
            for source in look.SOURCES[:3]
            if session.counts.get(source)
        )
        name = safe(session.name, 18)
        project = safe_path(look.short_path(session.project, session.home), 60)
        who = session.pid if session.live else safe(short.get(session.key, str(session.pid or "")))
        line = f"{who:>{room}}  {session.activity:<9} {look.age(session.changed or session.started, now):>4}  "
        lines.append(f"{line}{counts:<18} {name:<18} {project}".rstrip())
        if session.activity == "waiting":
            lines.append(f"{'':>10}waits for {safe(session.waits_for, 80)}")
        if session.problem:
            lines.append(f"{'':>10}! {safe(session.problem, 160)}")
        if session.canary == "dark":
            lines.append(f"{'':>10}! {safe(session.light or 'a test refusal did not arrive', 160)}")
        if session.gaps:
            lines.append(f"{'':>10}! {look.plural(session.gaps, 'event')} missing from its log")
    return lines + force_of_all(rows, width)


def run(arguments: argparse.Namespace) -> int:
    """Print the sessions."""
    from nd7core.paths import places
    from nd7tui.ingest import Ingest
    from nd7tui.store import Store

    store = Store()
    place = places()
    store.take(Ingest(place, lambda: None).once(), time.time_ns())
    rows = [session for session in store.ordered() if session.live or not arguments.live]
    status = faults(store.faults)
    if inside := hidden(place):
        sys.stderr.write("nd7: which sessions still run cannot be told from inside a session: `unknown` here\n")
        rows = [replace(row, activity="unknown") if row.activity == "ended" else row for row in rows]
    if arguments.json:
        print(json.dumps([as_json(session) for session in rows], indent=1))
        return status
    if not rows and status:
        return status
    if not rows and inside:
        return 1
    if not rows:
        print("No sessions. Start one in a project: nd7 run claude")
        return 0
    try:
        known = os.listdir(os.path.join(place.state, "sessions"))
    except OSError:
        known = []
    print("\n".join(table(rows, time.time_ns(), shutil.get_terminal_size((100, 24)).columns, known)))
    return status


def hidden(place: Places) -> bool:
    """Whether we are inside a session, from where nobody sees which others run, nor that this one does."""
    from nd7core import sessions
    from nd7core.sessions import SessionError

    try:
        sessions.complain_if_hidden(place)
    except SessionError:
        return True
    return False


def faults(found: list[str]) -> int:
    """Say on stderr what could not be read; 1 where that is anything: its counts may be too low."""
    from nd7core.text import safe
    from nd7tui.commands.denials import complain

    for fault in dict.fromkeys(found):
        session_id, colon, problem = fault.partition(": ")
        if colon and "/" not in session_id and " " not in session_id:
            complain(session_id, problem)
        else:
            sys.stderr.write(f"nd7: {safe(fault, 300)}\n")
    return 1 if found else 0
