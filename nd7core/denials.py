"""From what happened in a session to its denials: grouped, counted, each with a state.  Sans-IO.

`Denials.feed` takes the events of `nd7core.pairing` with the session's record, if it is live, and gives the rows
that changed.  The dashboard and `nd7 denials` read the same rows.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from posixpath import dirname
from typing import Any

from nd7core.attribution import Failure, Look, Rules, Verdict, explain, explain_words
from nd7core.attribution.failure import BASH_TOOLS, Platform
from nd7core.attribution.paths import inside, is_shared
from nd7core.attribution.rules import home_of, of_context, of_record
from nd7core.attribution.shell import place
from nd7core.denial import STATES, Denial, Proposal, State, Tie, as_fields, denial_fields
from nd7core.events import AgentWords, Note, SessionEvent, ToolEvent
from nd7core.record import Record

__all__ = ["STATES", "Denial", "Denials", "Proposal", "State", "Tie", "as_fields", "denial_fields"]

MAX_CALLS = 100_000
"""Calls of one session that are remembered, so that a newer state of one corrects the older."""


@dataclass(slots=True)
class _Session:
    session_id: str
    project: str = ""
    nd7_session: int | None = None
    record: Record | None = None
    rules: dict[tuple[object, ...], Rules] = field(default_factory=dict)
    rows: dict[tuple[str, ...], Denial] = field(default_factory=dict)
    calls: dict[str, tuple[tuple[str, ...], str, str]] = field(default_factory=dict)
    grants: dict[str, tuple[int, int | None]] = field(default_factory=dict)  # path -> (ts, revision)
    words: set[tuple[int, str]] = field(default_factory=set)
    ended: bool = False


class Denials:
    """The denials of any number of sessions.

    Args:
        platform: whose errors the outputs hold.
        home: the person's home, for sessions whose record is gone.
        look: asks ordinary permissions; only for sessions of this machine.
    """

    def __init__(self, *, platform: Platform = "linux", home: str = "", look: Look | None = None) -> None:
        self.platform = platform
        self.home = home
        self.look = look
        self._sessions: dict[str, _Session] = {}

    # ------------------------------------------------------------------ reading

    def rows(self, session_id: str | None = None, *, all_failures: bool = False) -> list[Denial]:
        """The rows in the order they first came; with `all_failures` those that are none of nd7's too."""
        wanted = self._sessions.values() if session_id is None else filter(None, [self._sessions.get(session_id)])
        rows = [row for session in wanted for row in session.rows.values() if all_failures or row.denied]
        return sorted(rows, key=lambda row: (row.ts, row.id))

    def get(self, identifier: str) -> Denial | None:
        """The row of an id."""
        session = self._sessions.get(identifier.rpartition("#")[0])
        if session is None:
            return None
        return next((row for row in session.rows.values() if row.id == identifier), None)

    def proposals(self, session_id: str) -> list[Proposal]:
        """The grants that would let the open refusals of a session through, siblings under one folder as one."""
        wanted: dict[str, list[str]] = {}
        for row in self.rows(session_id):
            if row.state in ("open", "repeated") and row.verdict.remedy == "grant" and row.verdict.grant:
                wanted.setdefault(row.verdict.grant, []).append(row.id)
        folders: dict[str, list[str]] = {}
        for path in wanted:
            folders.setdefault(dirname(path), []).append(path)
        merged: dict[str, list[str]] = {}
        for folder, members in folders.items():
            together = len(members) > 1 and not is_shared(folder, self._home(self._sessions[session_id]))
            for path in members:
                merged.setdefault(folder if together else path, []).extend(wanted[path])
        # A proposal below another one is part of it.
        tops = [path for path in merged if not any(path != other and inside(path, other) for other in merged)]
        return [
            Proposal(session_id, top, tuple(i for path, ids in merged.items() if inside(path, top) for i in ids))
            for top in tops
        ]

    # ------------------------------------------------------------------ feeding

    def feed(self, event: SessionEvent, record: Record | None = None) -> list[Denial]:
        """Take one event; give the rows that are new or changed.

        Args:
            record: of the live session, whose grants and project make the rules; None for a past one.
        """
        session = self._sessions.get(event.session_id)
        if session is None:
            session = self._sessions[event.session_id] = _Session(event.session_id)
        changed: dict[str, Denial] = {}
        if record is not None and record != session.record:
            changed.update((row.id, row) for row in self._take_record(session, record))
        if isinstance(event, ToolEvent):
            rows = self._tool(session, event)
        elif isinstance(event, AgentWords):
            rows = self._words(session, event)
        else:
            rows = self._note(session, event)
        changed.update((row.id, row) for row in rows)
        return list(changed.values())

    def feed_all(self, events: Iterable[SessionEvent], record: Record | None = None) -> list[Denial]:
        """`feed` for many; the rows that changed, each once, as they are now."""
        changed: dict[str, Denial] = {}
        for event in events:
            changed.update((row.id, row) for row in self.feed(event, record))
        return list(changed.values())

    def update(self, session_id: str, record: Record) -> list[Denial]:
        """Take a session's newer record: a grant by the person changes the state of what it covers."""
        session = self._sessions.get(session_id)
        if session is None or session.record == record:
            return []
        return self._take_record(session, record)

    # ------------------------------------------------------------------ grants

    def _take_record(self, session: _Session, record: Record) -> list[Denial]:
        session.record = record
        session.project = record.project
        session.nd7_session = record.pid or session.nd7_session
        now = {grant.path: (grant.created, record.revision) for grant in record.grants}
        gone = [path for path in session.grants if path not in now]
        for path in gone:
            del session.grants[path]
        changed: list[Denial] = []
        for path, (created, revision) in now.items():
            if path not in session.grants:
                session.grants[path] = (created, revision)
                changed += self._granted(session, path, created, revision)
        if gone:
            changed += self._taken_back(session)
        return changed

    def _granted(self, session: _Session, path: str, ts: int, revision: int | None) -> list[Denial]:
        changed = []
        for key, row in list(session.rows.items()):
            if row.state not in ("open", "repeated") or not self._mended_by(row, path) or (ts and ts < row.ts):
                continue
            again = bool(ts) and row.last_ts > ts
            session.rows[key] = row = replace(row, state="repeated" if again else "granted", revision=revision)
            changed.append(row)
        return changed

    def _taken_back(self, session: _Session) -> list[Denial]:
        changed = []
        for key, row in list(session.rows.items()):
            if row.state in ("granted", "proved", "repeated") and not any(
                self._mended_by(row, path) for path in session.grants
            ):
                session.rows[key] = row = replace(row, state="open", revision=None)
                changed.append(row)
        return changed

    def _mended_by(self, row: Denial, path: str) -> bool:
        """Whether a grant of `path` lets a row's refusal through."""
        if row.verdict.remedy not in ("grant", "restart-wider"):
            return False
        target = row.verdict.grant or row.verdict.target
        if target.startswith("~"):
            target = place(target, "", self._home(self._sessions[row.session_id]))
        return target.startswith("/") and inside(target, path)

    # ------------------------------------------------------------------ calls

    def _home(self, session: _Session) -> str:
        return session.record.home if session.record else self.home or home_of(session.project)

    def _rules(self, session: _Session, ts: int) -> Rules:
        """The rules as they stood at `ts`: a grant counts from when it was given."""
        record = session.record
        if record is None:
            granted = tuple(sorted(path for path, (since, _) in session.grants.items() if since <= ts))
            return of_context(self.platform, session.project, self._home(session), granted, None, ())
        then = tuple(grant for grant in record.grants if grant.created <= ts)
        key: tuple[object, ...] = (then, record.project, record.tmp, record.writable, record.protected)
        rules = session.rules.get(key)
        if rules is None:
            if len(session.rules) > 64:
                session.rules.clear()
            rules = session.rules[key] = of_record(replace(record, grants=then), self.platform)
        return rules

    def _tool(self, session: _Session, event: ToolEvent) -> list[Denial]:
        if not session.project and event.cwd:
            session.project = event.cwd
        if session.nd7_session is None:
            session.nd7_session = event.nd7_session
        if event.state == "running":
            return []
        seen = session.calls.get(event.call_id)
        if seen is not None:
            if seen[1] == event.state and seen[2] == event.output:
                return []
            self._forget(session, seen[0], event.call_id)
        verdict = self._verdict(session, event)
        again = self._repeated(session, event, verdict)
        if again is not None:
            self._remember(session, event, again.key)
            return [again]
        changed = self._passed(session, event) if event.state == "succeeded" and verdict.source == "none" else []
        if verdict.source == "none" and event.state in ("succeeded", "background", "no-result"):
            if event.state != "succeeded" or seen is not None:
                self._remember(session, event, ())
            return changed
        row = Denial(
            f"{session.session_id}#{event.first_seq}",
            session.session_id,
            event.nd7_session if event.nd7_session is not None else session.nd7_session,
            event.started,
            event.ended or event.started,
            event.tool,
            _command(event),
            verdict,
            event,
            agent_id=event.agent_id,
            cwd=event.cwd,
            calls=(event.call_id,),
        )
        row = self._add(session, row)
        self._remember(session, event, row.key)
        return [*changed, row]

    def _repeated(self, session: _Session, event: ToolEvent, verdict: Verdict) -> Denial | None:
        """The granted row whose refusal came again although the policy now allows it, with that said."""
        if verdict.source != "none" or not verdict.contradiction or not verdict.target:
            return None
        for key, row in session.rows.items():
            if row.state not in ("granted", "proved", "repeated") or row.verdict.target != verdict.target:
                continue
            told = replace(row.verdict, evidence="likely", contradiction=f"{verdict.contradiction} {verdict.reason}")
            session.rows[key] = row = replace(
                row,
                state="repeated",
                verdict=told,
                count=row.count + 1,
                last_ts=max(row.last_ts, event.ended or event.started),
                event=event,
                calls=(*row.calls[-999:], event.call_id),
            )
            return row
        return None

    def _remember(self, session: _Session, event: ToolEvent, key: tuple[str, ...]) -> None:
        if len(session.calls) >= MAX_CALLS:
            session.calls.pop(next(iter(session.calls)))
        session.calls[event.call_id] = (key, event.state, event.output)

    def _forget(self, session: _Session, key: tuple[str, ...], call_id: str) -> None:
        """Take back what an older state of a call had said."""
        row = session.rows.get(key)
        if row is None or call_id not in row.calls:
            return
        calls = tuple(call for call in row.calls if call != call_id)
        if calls:
            session.rows[key] = replace(row, calls=calls, count=max(1, row.count - 1))
        else:
            del session.rows[key]

    def _verdict(self, session: _Session, event: ToolEvent) -> Verdict:
        if event.state == "rejected":
            verdict = explain(self._failure(session, event))
            if verdict.owner in ("agent", "person"):
                return verdict
            return Verdict(
                "none", "recorded", reason="The person or the agent's own rules refused the call.", owner="person"
            )
        if event.state == "interrupted":
            return Verdict("none", "recorded", reason="The person interrupted it.", owner="person")
        return explain(self._failure(session, event), look=self.look)

    def _failure(self, session: _Session, event: ToolEvent) -> Failure:
        return Failure(
            platform=self.platform,
            tool=event.tool,
            command=_command(event),
            exit_code=0 if event.state == "succeeded" and event.exit_code is None else event.exit_code,
            output=event.output,
            cwd=event.cwd,
            project=session.project,
            home=self._home(session),
            rules=self._rules(session, event.started),
        )

    def _add(self, session: _Session, row: Denial) -> Denial:
        old = session.rows.get(row.key)
        if old is None:
            covered = [given for path, given in session.grants.items() if self._mended_by(row, path)]
            if covered and row.denied:
                since, revision = covered[-1]
                row = replace(row, state="repeated" if since <= row.ts else "granted", revision=revision)
            session.rows[row.key] = row
            return row
        state = old.state
        if state in ("granted", "proved") and self._after_grant(session, old, row.last_ts):
            state = "repeated"
        elif state == "obsolete":
            state = "open"
        row = replace(
            row,
            id=old.id,
            ts=min(old.ts, row.ts),
            last_ts=max(old.last_ts, row.last_ts),
            count=old.count + 1,
            state=state,
            revision=old.revision,
            calls=(*old.calls[-999:], *row.calls),
            tie=row.tie or old.tie,
            tied_to=row.tied_to or old.tied_to,
        )
        session.rows[row.key] = row
        return row

    def _after_grant(self, session: _Session, row: Denial, ts: int) -> bool:
        return any(self._mended_by(row, path) and since <= ts for path, (since, _) in session.grants.items())

    def _passed(self, session: _Session, event: ToolEvent) -> list[Denial]:
        """What a success proves: the same call went through that had been refused."""
        if event.tool not in BASH_TOOLS and not event.input:
            return []
        command = _command(event)
        changed = []
        for key, row in list(session.rows.items()):
            if not row.denied or row.state in ("proved", "obsolete") or not isinstance(row.event, ToolEvent):
                continue
            if row.tool != event.tool or row.command != command or not command or event.started < row.last_ts:
                continue
            granted = row.state in ("granted", "repeated")
            session.rows[key] = row = replace(row, state="proved" if granted else "obsolete")
            changed.append(row)
        return changed

    # ------------------------------------------------------------------ words and notes

    def _words(self, session: _Session, event: AgentWords) -> list[Denial]:
        if (event.seq, event.text) in session.words:
            return []
        session.words.add((event.seq, event.text))
        rules = self._rules(session, event.ts)
        failure = Failure(
            platform=self.platform,
            tool="assistant",
            output=event.text,
            project=session.project,
            home=self._home(session),
            rules=rules,
        )
        changed = []
        for number, verdict in enumerate(explain_words(failure)):
            tied = self._borne_out(session, verdict)
            tie: Tie = "confirmed" if tied else "contradicted" if verdict.contradiction else "unconfirmed"
            if tied:
                verdict = replace(
                    verdict,
                    contradiction="",
                    reason=f"The agent reports it, and an earlier call shows it ({tied.tool}).",
                )
            suffix = f"{event.seq}.{number}" if number else str(event.seq)
            row = Denial(
                f"{session.session_id}#{suffix}w",
                session.session_id,
                session.nd7_session,
                event.ts,
                event.ts,
                "assistant",
                "",
                verdict,
                event,
                agent_id=event.agent_id,
                tie=tie,
                tied_to=tied.id if tied else "",
            )
            changed.append(self._add(session, row))
        return changed

    def _borne_out(self, session: _Session, verdict: Verdict) -> Denial | None:
        """The latest earlier call that was refused what a report names, or anything where it names nothing."""
        rows = [row for row in session.rows.values() if row.verdict.source in ("kernel", "nd7-exec")]
        home = self._home(session)
        for row in reversed(rows):
            if not verdict.target:
                if row.verdict.operation == verdict.operation or verdict.operation == "other":
                    return row
                continue
            said = [place(target, session.project, home) if "/" in target else target for target in verdict.targets]
            seen = [row.verdict.target, *row.verdict.targets]
            if any(_same(one, other) for one in said for other in seen if other):
                return row
        return None

    def _note(self, session: _Session, note: Note) -> list[Denial]:
        body = note.body
        if note.kind == "session_start":
            session.project = session.project or _text(body, "cwd")
            session.ended = False
        if note.kind == "session_end":
            session.ended = True
        path = _text(body, "path") or _text(body, "grant")
        revision = body.get("revision")
        number = revision if isinstance(revision, int) and not isinstance(revision, bool) else None
        if note.kind == "grant" and path.startswith("/"):
            if body.get("action") in ("deny", "undo", "take-back", "expired"):
                session.grants.pop(path, None)
                return self._taken_back(session)
            if path not in session.grants:
                session.grants[path] = (note.ts, number)
                return self._granted(session, path, note.ts, number)
        if note.kind in ("proof", "canary") and path.startswith("/"):
            return self._proved(session, path, allowed=body.get("allowed") is not False, revision=number)
        return []

    def _proved(self, session: _Session, path: str, *, allowed: bool, revision: int | None) -> list[Denial]:
        """The same operation was tried under the new policy."""
        changed = []
        for key, row in list(session.rows.items()):
            # What was tried is a command's write: it proves nothing about the agent's own Write and Edit, which no
            # grant reaches while the agent runs.
            if row.state not in ("granted", "repeated") or row.verdict.remedy != "grant":
                continue
            if path not in (row.verdict.target, *row.verdict.targets) and not self._mended_by(row, path):
                continue
            session.rows[key] = row = replace(
                row, state="proved" if allowed else "repeated", revision=revision or row.revision
            )
            changed.append(row)
        return changed


def _same(one: str, other: str) -> bool:
    if one == other:
        return True
    if one.startswith("/") and other.startswith("/"):
        return inside(one, other) or (inside(other, one) and one.count("/") > 2)
    return bool(one) and one.split(":")[0] == other.split(":")[0] and "/" not in one


def _text(body: dict[str, Any], key: str) -> str:
    value = body.get(key)
    return value if isinstance(value, str) else ""


def _command(event: ToolEvent) -> str:
    """The command of Bash, the path of a file tool, the address of a fetch."""
    if event.command:
        return event.command
    for key in ("file_path", "notebook_path", "url", "pattern", "command"):
        value = event.input.get(key)
        if isinstance(value, str):
            return value
    return ""
