"""List what was refused, and where each refusal came from.

examples:
  nd7 denials                        of every session on record
  nd7 denials --session 4711         of one: nd7 run's pid, the session's name, or the agent's session id
  nd7 denials --session 5b1d         the beginning of that id, where no other begins so
  nd7 denials --json                 one JSON object a line
  nd7 denials --all                  failures that are none of nd7's too, with whose they are
  nd7 denials --json --show-secrets  keys and tokens as they are: for you, not for a bug report

A row is one refusal however often it came.  Its state: open; granted, once a grant covers it; proved, once the same
call, or nd7's own try of it, went through; repeated, when it came again after the grant; obsolete, when it passes
without one.
What one grant of a folder would let through together is told below the rows, in JSON as `proposal`.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
from collections.abc import Iterator
from typing import TYPE_CHECKING

from nd7core.errors import Nd7Error
from nd7core.text import safe

if TYPE_CHECKING:
    from nd7core.denials import Denial, Denials, Proposal
    from nd7core.paths import Places
    from nd7core.record import Record

_PIECE = 1 << 20


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--session", metavar="S", help="a session's pid, name or agent session id, or its beginning")
    parser.add_argument("--all", action="store_true", help="failures that are no denials too")
    parser.add_argument("--json", action="store_true", help="one JSON object a line")
    parser.add_argument("--show-secrets", action="store_true", help="what looks like a secret is masked else")


def run(arguments: argparse.Namespace) -> int:
    from nd7core.denials import denial_fields
    from nd7core.mask import fields
    from nd7core.paths import places
    from nd7core.text import safe_path

    where = places()
    rows: list[Denial] = []
    of: dict[str, tuple[str, str]] = {}
    proposed: dict[str, Proposal] = {}
    damaged: dict[str, str] = {}
    for session_id, record in chosen(where, arguments.session):
        found, problem = read(where, session_id, record)
        if problem:
            damaged[session_id] = problem
        if more := found.rows(session_id, all_failures=arguments.all):
            of[session_id] = of_session(where, session_id, record)
            rows += more
            several = (one for one in found.proposals(session_id) if len(one.denials) > 1)
            proposed.update((row_id, one) for one in several for row_id in one.denials)
    rows.sort(key=lambda row: (row.ts, row.id))
    for row in rows:
        if arguments.json:
            name, project = of[row.session_id]
            told = {**denial_fields(row), "name": name, "project": project}
            if row.id in proposed:
                told["proposal"] = proposed[row.id].grant
            print(json.dumps(told if arguments.show_secrets else fields(told)))
        else:
            name = of[row.session_id][0] if len(of) > 1 else ""
            print(shown(row, name, secrets=arguments.show_secrets))
    if not arguments.json:
        for one in dict.fromkeys(proposed.values()):
            print(f"one grant for {len(one.denials)} of them: nd7 allow {safe_path(one.grant)}")
        # "None" is a promise, which a log that cannot be trusted does not allow.
        if not rows and not damaged:
            print("no refusal is on record")
    for session_id, problem in damaged.items():
        complain(session_id, problem)
    return 1 if damaged else 0


def complain(session_id: str, problem: str) -> None:
    """Say on stderr which log cannot be trusted, what is wrong with it, and what tells more."""
    shown = safe(session_id, 200)
    sys.stderr.write(
        f"nd7: the log {shown} is damaged, refusals may be missing: {safe(problem, 300)}\n     `nd7 verify {shown}`\n"
    )


def chosen(where: Places, wanted: str | None) -> Iterator[tuple[str, Record | None]]:
    """The agent session ids on record with the record of each that is live, those that `wanted` names.

    Raises:
        Nd7Error: for a `wanted` that names none.
    """
    from nd7core import sessions

    live: dict[str, Record] = {}
    named: set[str] = set()
    for session in sessions.live(where):
        if session.record is None:
            continue
        live.update((agent_session, session.record) for agent_session in session.record.agent_sessions)
        # By another of its ids: that log alone.
        if wanted and wanted in (str(session.pid), session.record.name, session.record.chosen):
            named.update(session.record.agent_sessions)
            named.add("")  # it exists, whether or not it has a log yet
    root = os.path.join(where.state, "sessions")
    try:
        ids = sorted(entry.name for entry in os.scandir(root) if entry.is_dir(follow_symlinks=False))
    except FileNotFoundError:
        ids = []
    except OSError as error:
        raise Nd7Error(f"cannot read {root}: {error.strerror}") from None
    if wanted is not None and wanted in ids:
        named.add(wanted)
    if wanted is not None and not named:
        from nd7tui.commands import verify

        named.update(verify.named(where, wanted, ids))
    if wanted is not None and not named and wanted:
        begin = [name for name in ids if name.startswith(wanted)]
        if len(begin) > 1:
            raise Nd7Error(
                f"{len(begin)} sessions begin with {wanted!a}", hint="one of: " + ", ".join(map(safe, begin[:5]))
            )
        named.update(begin)
    if wanted is not None and not named:
        from nd7tui.commands.verify import near

        names = [record.name for session in sessions.live(where) if (record := session.record) is not None]
        raise Nd7Error(f"no session {wanted!a}", hint=near(wanted, [*names, *ids]))
    for session_id in ids:
        if wanted is None or session_id in named:
            yield session_id, live.get(session_id)


def of_session(where: Places, session_id: str, record: Record | None) -> tuple[str, str]:
    """The name and the project of a log's session."""
    from nd7core.history_log import told_of

    if record is not None:
        return record.name, record.project
    facts = told_of(os.path.join(where.state, "sessions", session_id))
    return facts.name, facts.project


def read(where: Places, session_id: str, record: Record | None) -> tuple[Denials, str]:
    """The denials of one log, and the first thing that is wrong with it, or "".  What is whole is read around that."""
    from nd7core.attribution import FileLook, platform_named
    from nd7core.audit.frame import Damage, Frame
    from nd7core.audit.tail import Tail
    from nd7core.denials import Denials
    from nd7core.history_log import cut_short, promised
    from nd7core.pairing import Pairing

    look = FileLook() if record is not None else None
    denials = Denials(platform=platform_named(sys.platform), home=where.home, look=look)
    tail, pairing, problem, last = Tail(session_id), Pairing(), "", -1
    directory = os.path.join(where.state, "sessions", session_id)
    promise = promised(directory)

    def take(items: list[Frame | Damage]) -> None:
        nonlocal problem, last
        for item in items:
            if isinstance(item, Damage):
                problem = problem or item.reason
            else:
                last = item.seq
                denials.feed_all(pairing.feed(item), record)

    try:
        path = os.path.join(directory, "events.ndjson")
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK)
        with os.fdopen(descriptor, "rb") as file:
            while data := file.read(_PIECE):
                take(tail.feed(data))
    except FileNotFoundError:
        return denials, cut_short(promise, -1)
    except OSError as error:
        return denials, f"it cannot be read: {error.strerror}"
    if record is None:
        take(tail.finish())
        denials.feed_all(pairing.finish())
    # The last line of a log that is being written may have no end yet.
    return denials, problem or cut_short(promise, last)


def shown(row: Denial, session: str = "", *, secrets: bool = False) -> str:
    """One row for a person, with its session's name where there are several."""
    from nd7core.mask import mask
    from nd7core.text import safe_path

    verdict = row.verdict
    when = time.strftime("%m-%d %H:%M:%S", time.localtime(min(max(row.ts, 0), 2**62) / 1e9))
    text = verdict.target or row.command or verdict.line
    text = text if secrets else mask(text, 4096)
    what = safe_path(text) if verdict.target else safe(text, 120)
    count = f"  x{row.count}" if row.count > 1 else ""
    remedy = f"nd7 allow {safe_path(verdict.grant)}" if verdict.remedy == "grant" and verdict.grant else verdict.remedy
    source = verdict.source if row.denied else f"none ({verdict.owner or 'program'})"
    tie = f" {row.tie}" if row.tie else ""
    place = f"  in {safe(session, 40)}" if session else ""
    return (
        f"{when}  {source}{tie}  {row.state}{count}  {verdict.operation}  {what}  [{verdict.evidence}]  {remedy}{place}"
    )
