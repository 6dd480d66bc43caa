"""Which sessions there are: those that run, each with its logs, and the logs whose session is over."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace

from nd7core.attribution.verdict import Source
from nd7core.record import Record
from nd7core.sessions import Session
from nd7tui.look import Activity
from nd7tui.model import GrantRow, SessionRow
from nd7tui.tracker import Track


def key_of(track: Track, live: dict[int, Session]) -> str:
    """The key of the session that a log belongs to.

    A pid alone proves nothing, pids are used again: the log must not be older than the session.
    """
    pid = track.nd7_session
    session = live.get(pid) if pid is not None else None
    if session is not None and session.record is not None:
        record = session.record
        if track.session_id in record.agent_sessions or not record.started or track.latest >= record.started:
            return f"pid:{pid}"
    for session in live.values():
        if session.record is not None and track.session_id in session.record.agent_sessions:
            return f"pid:{session.pid}"
    return f"log:{track.session_id}"


def roster(live: Sequence[Session], tracks: Sequence[Track], home: str) -> tuple[SessionRow, ...]:
    """One row for each session."""
    running = {session.pid: session for session in live}
    logs: dict[str, list[Track]] = {f"pid:{pid}": [] for pid in running}
    for track in tracks:
        if not track.frames and not track.problem:
            continue
        track.key = key_of(track, running)
        logs.setdefault(track.key, []).append(track)
    rows = []
    for key, belonging in logs.items():
        belonging.sort(key=lambda track: track.latest)
        if key.startswith("pid:"):
            rows.append(_live_row(running[int(key[4:])], belonging, home))
        else:
            rows.append(_past_row(key, belonging[-1], home))
    return tuple(rows)


def _counts(tracks: Sequence[Track]) -> dict[Source, int]:
    total: Counter[Source] = Counter()
    for track in tracks:
        total.update(track.counts)
    return dict(total)


def _live_row(session: Session, tracks: Sequence[Track], home: str) -> SessionRow:
    record = session.record
    latest = tracks[-1] if tracks else None
    activity: Activity = "broken" if record is None else latest.activity if latest is not None else "starting"
    waits_for = latest.waits_for if latest is not None else ""
    mute = record is not None and bool(record.program) and not record.agent and activity == "starting"
    if mute:
        activity = "working"  # a program without hooks: nothing will ever say that it has started
    if record is not None and activity == "ended":
        # The agent has said goodbye and `nd7 run` has not ended yet, or the agent starts anew.
        activity, waits_for = "idle", ""
    row = SessionRow(
        key=f"pid:{session.pid}",
        name=f"pid {session.pid}",
        pid=session.pid,
        session_ids=tuple(track.session_id for track in tracks),
        home=home,
        activity=activity,
        waits_for=waits_for,
        changed=latest.since if latest is not None else 0,
        counts=_counts(tracks),
        problem=session.problem or next((track.problem for track in tracks if track.problem), ""),
        directory=session.directory,
    )
    if not session.alive:
        row = replace(row, activity="orphaned", waits_for="its nd7 run was killed")
    if record is None:
        return row
    return replace(
        row,
        name=name_of(record),
        project=record.project,
        agent=record.agent
        or (record.program[0].rpartition("/")[2] if record.program else latest.agent if latest is not None else ""),
        home=record.home,
        started=record.started,
        grants=tuple(
            GrantRow(session.pid, grant.path, grant.scope, grant.expires, grant.origin, grant.created, grant.uses)
            for grant in record.grants
        ),
        revision=record.revision,
        enforced=record.enforced,
        gaps=max(record.gaps, sum(track.gaps for track in tracks)),  # the record counts those that the log has, too
        canary=canary_of(record),
        light=light_of(record),
        mute=mute,
        foreign=not record.ours,
    )


def _past_row(key: str, track: Track, home: str) -> SessionRow:
    return SessionRow(
        key=key,
        name=track.name or track.cwd.rstrip("/").rpartition("/")[2] or track.session_id[:12],
        session_ids=(track.session_id,),
        project=track.cwd,
        agent=track.agent,
        home=home,
        activity="ended",
        waits_for=track.waits_for if track.activity == "ended" else "",
        started=track.started,
        changed=track.latest,
        counts=dict(track.counts),
        gaps=track.gaps,
        problem=track.problem,
        mute=track.stranger and not track.caller,
    )


def name_of(record: Record) -> str:
    """What a session is called: its own name, else the project's."""
    return record.name or record.project.rstrip("/").rpartition("/")[2] or record.project


def canary_of(record: Record) -> str:
    """Whether a test refusal was seen to be seen: "lit", "dark" or ""."""
    if not record.canary:
        return ""
    state = record.canary.get("ok", record.canary.get("state"))
    if isinstance(state, bool):
        return "lit" if state else "dark"
    return "lit" if state in ("lit", "ok", "enforcing") else "dark" if isinstance(state, str) else ""


def light_of(record: Record) -> str:
    """The canary's state in words, with what is wrong; "" before there is one."""
    state, wrong = record.canary.get("state"), record.canary.get("wrong")
    if not isinstance(state, str):
        return ""
    reasons = [part for part in wrong if isinstance(part, str)] if isinstance(wrong, list) else []
    return f"{state}: {'; '.join(reasons)}" if reasons else state
