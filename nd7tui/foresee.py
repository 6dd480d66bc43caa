"""Working out what each key would do for a row, before it is pressed.

This reads the session's record and profile and looks at the target in the file system, so it runs in a worker and
its answer is kept with the row; the thread that draws only shows it.
"""

from __future__ import annotations

import os

from nd7core import grants, policy
from nd7core.attribution import FileLook
from nd7core.errors import Nd7Error
from nd7core.paths import Places
from nd7core.sessions import Session, live
from nd7core.survey import survey
from nd7tui.model import Row, SessionRow
from nd7tui.outlook import Outlook, command_of, opened, why_not

MOST = 5_000  # of names below a path: the cursor waits for this; `G` counts on
_DECIDED = ("read", "write", "execute")


def session_of(places: Places, pid: int) -> Session | None:
    """The live session with this pid, or None."""
    for session in live(places):
        if session.pid == pid:
            return session
    return None


def look(places: Places, row: Row, session: SessionRow | None) -> Outlook:
    """Work out what `g` would do.  Never raises for what a session or a damaged record can cause."""
    reason = why_not(row, session)
    path = row.verdict.grant
    found = session_of(places, row.nd7_session) if row.nd7_session is not None else None
    line, text, ordinary = None, "", ""
    if found is not None and found.record is not None:
        operation = row.verdict.operation
        if operation in _DECIDED and row.verdict.target.startswith("/"):
            try:
                decision = policy.decide(policy.build(found.record), operation, row.verdict.target)
            except (Nd7Error, ValueError):
                decision = None
            if decision is not None and not decision.allowed:
                line, text = decision.line, decision.text
            seen = FileLook().at(row.verdict.target, operation)
            if seen is not None and seen.allowed is not None:
                ordinary = "would let it" if seen.allowed else f"would refuse it too: {seen.why}"
    if reason:
        return Outlook(path, reason, refused_by=text, line=line, ordinary=ordinary)
    if found is None or found.record is None:
        return Outlook(path, "the session has ended; a grant would reach nothing")
    refusal = grants.check(found.record, path)
    if refusal is not None and not refusal.force_helps:
        return Outlook(path, refusal.reason, refused_by=text, line=line, ordinary=ordinary)
    dangers = grants.dangers(path, home=found.record.home)
    if refusal is not None:
        dangers.insert(0, refusal.reason)
    already = any(path == grant.path or path.startswith(grant.path.rstrip("/") + "/") for grant in found.record.grants)
    return Outlook(
        path,
        dangers=tuple(dangers),
        already=already,
        refused_by=text,
        line=line,
        ordinary=ordinary,
        command=command_of(row.nd7_session or 0, path),
        opens="" if already else opens(path, found.record.home),
    )


def opens(path: str, home: str) -> str:
    """What a grant of `path` opens, in a few words, or "".  Looks at MOST names at most."""
    if not os.path.exists(path):
        return ""
    return opened(survey(path, home=home, limit=MOST), folder=os.path.isdir(path))
