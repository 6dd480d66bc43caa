"""List sessions: those that run, and the latest that are over.

examples:
  nd7 sessions                 who works, who waits for you, what was refused, what is in force in each
  nd7 sessions --json          the same for scripts: one array, keys only ever added
  nd7 sessions --live --json   those that run, alone
"""

from __future__ import annotations

import argparse
import json
import shutil
import sys
import time
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from nd7tui.model import SessionRow


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

    if not enforced:
        return ["in force: its supervisor has not told yet"]
    found: list[str] = []
    for part, how in enforced.items():
        found += textwrap.wrap(f"{safe(part, 60)}: {safe(how)}", max(width, 30), subsequent_indent="  ")
    return found


def table(rows: list[SessionRow], now: int, width: int = 100) -> list[str]:
    """The lines that a person reads, those that may be long in at most `width` columns."""
    from nd7core.text import safe, safe_path
    from nd7tui import look

    lines = [f"{'PID':>8}  {'STATE':<9} {'FOR':>4}  {'DENIED':<18} {'NAME':<18} PROJECT"]
    for session in rows:
        counts = " ".join(
            f"{look.SOURCE[source][1]} {session.counts[source]}"
            for source in look.SOURCES[:3]
            if session.counts.get(source)
        )
        name = safe(session.name, 18)
        project = safe_path(look.short_path(session.project, session.home), 60)
        line = f"{session.pid or '':>8}  {session.activity:<9} {look.age(session.changed or session.started, now):>4}  "
        lines.append(f"{line}{counts:<18} {name:<18} {project}".rstrip())
        if session.activity == "waiting":
            lines.append(f"{'':>10}waits for {safe(session.waits_for, 80)}")
        if session.problem:
            lines.append(f"{'':>10}! {safe(session.problem, 160)}")
        if session.canary == "dark":
            lines.append(f"{'':>10}! {safe(session.light or 'a test refusal did not arrive', 160)}")
        if session.gaps:
            lines.append(f"{'':>10}! {look.plural(session.gaps, 'event')} missing from its log")
        if session.live:
            lines += [f"{'':>10}{line}" for line in in_force(session.enforced, width - 10)]
    return lines


def run(arguments: argparse.Namespace) -> int:
    """Print the sessions."""
    from nd7core.paths import places
    from nd7tui.ingest import Ingest
    from nd7tui.store import Store

    store = Store()
    store.take(Ingest(places(), lambda: None).once(), time.time_ns())
    rows = [session for session in store.ordered() if session.live or not arguments.live]
    status = faults(store.faults)
    if arguments.json:
        print(json.dumps([as_json(session) for session in rows], indent=1))
        return status
    if not rows and status:
        return status
    if not rows:
        print("No sessions. Start one in a project: nd7 run claude")
        return 0
    print("\n".join(table(rows, time.time_ns(), shutil.get_terminal_size((100, 24)).columns)))
    return status


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
