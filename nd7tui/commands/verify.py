"""Check the hash chain of a session's audit log.

Walks the log frame by frame and stops at the first break, naming the frame.  Exit status: 0 the chain
holds, 1 it is broken or there is no such log, 2 asked wrongly.

examples:
  nd7 verify 4711                a session that runs, by pid or name, as `nd7 sessions` lists it
  nd7 verify 5b1d0c7e-...        any session ever recorded, by the agent's session id
  nd7 verify 5b1d                its beginning, where no other begins so
  nd7 verify 5b1d --json         {"session_id", "ok", "frames", "problem", "broken", ...}
"""

from __future__ import annotations

import argparse
import difflib
import json
import os
import sys
from collections.abc import Iterable

from nd7core import sessions
from nd7core.audit.log import AuditError, check_session_id, log_directory
from nd7core.audit.verify import PROVES, Verification, verify
from nd7core.paths import Places, places
from nd7core.text import safe


def configure(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    parser.add_argument(
        "session",
        metavar="SESSION-ID",
        help="the agent's session id or its unique beginning, or a live session's pid or name",
    )
    parser.add_argument("--json", action="store_true", help="print the result as one JSON object")


def run(arguments: argparse.Namespace) -> int:
    """Check the named log; 0 where the chain holds, 1 at a break."""
    where = places()
    result = verify(log_directory(where.state, find(where, arguments.session)))
    if arguments.json:
        print(json.dumps(as_json(result)))
    else:
        show(result)
    return 0 if result.ok else 1


def find(where: Places, wanted: str) -> str:
    """The id of the one log that is named: by its id, by a live session's pid or name, by the id's beginning.

    Raises AuditError: a bad id, none, or several; the nearest ids are named.
    """
    try:
        known = sorted(os.listdir(os.path.join(where.state, "sessions")))
    except OSError:
        known = []
    if wanted in known:
        return wanted
    matches = [name for name in _of_live(where, wanted) if name in known]
    how = "logs are of"
    if not matches:
        matches = named(where, wanted, known)
    if not matches:
        check_session_id(wanted)
        matches = [name for name in known if name.startswith(wanted)]
        how = "sessions begin with"
    if len(matches) == 1:
        return matches[0]
    if matches:
        raise AuditError(
            f"{len(matches)} {how} {safe(wanted, 60)}", hint="one of: " + ", ".join(map(safe, matches[:5]))
        )
    names = [session.record.name for session in sessions.live(where) if session.record is not None]
    raise AuditError(f"no audit log of a session {wanted}", hint=near(wanted, [*names, *known]))


def named(where: Places, wanted: str, known: Iterable[str]) -> list[str]:
    """The logs of nd7's own that tell of a session, live or over, called so."""
    from nd7core.history_log import told_of

    own = (name for name in known if name.startswith("nd7-"))
    return [name for name in own if told_of(os.path.join(where.state, "sessions", name)).name == wanted]


def near(wanted: str, known: Iterable[str]) -> str:
    """The next step where no session is called so: what is called nearly so, and what lists them all."""
    close = difflib.get_close_matches(wanted, dict.fromkeys(filter(None, known)), 3, 0.4)
    lists = "`nd7 sessions` lists them"
    return f"near it: {', '.join(safe(name, 60) for name in close)}; {lists}" if close else lists


def _of_live(where: Places, wanted: str) -> list[str]:
    """The agent's session ids of the live sessions of a pid or name."""
    live = [session for session in sessions.live(where) if session.record is not None]
    named = [one.record for one in live if one.record and wanted in (str(one.pid), one.record.name)]
    return sorted({agent_session for record in named for agent_session in record.agent_sessions})


def as_json(result: Verification) -> dict[str, object]:
    """The stable shape of `--json`."""
    return {
        "session_id": result.session_id,
        "ok": result.ok,
        "frames": result.frames,
        "problem": result.problem,
        "broken": result.broken,
        "first": result.first,
        "last": result.last,
        "head": result.head,
        "size": result.size,
        "proves": PROVES if result.ok else "",
    }


def show(result: Verification) -> None:
    """Say it on stdout, a break on stderr."""
    count = f"{result.frames} frame{'' if result.frames == 1 else 's'}"
    if result.ok:
        print(f"{result.session_id}: the chain holds, {count}, {result.size} bytes\nhead {result.head}\n{PROVES}")
        return
    sys.stderr.write(f"nd7: {result.session_id}: {safe(result.problem)}\n     {count} before it are good\n")
