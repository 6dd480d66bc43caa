"""From what happened in a session to its denials: judged, grouped, counted, each with a state.  Sans-IO.

`Denials.feed` takes the events of `nd7core.pairing` with the session's record, if it is live, and gives the rows
that changed.  The dashboard and `nd7 denials` read the same rows.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from posixpath import dirname
from typing import Any

from nd7core.attribution import Failure, Look, NotedLinks, Rules, Verdict, explain, explain_words
from nd7core.attribution.failure import BASH_TOOLS, Platform
from nd7core.attribution.paths import inside, is_shared
from nd7core.attribution.rules import home_of, of_context, of_record
from nd7core.attribution.shell import place
from nd7core.denial import CONFIRMED, STATES, Denial, Proposal, State, Tie, as_fields, denial_fields
from nd7core.denial_rows import SessionRows
from nd7core.events import AgentWords, Note, SessionEvent, ToolEvent
from nd7core.record import Record
from nd7core.recorded import Refusals

__all__ = ["STATES", "Denial", "Denials", "Proposal", "State", "Tie", "as_fields", "denial_fields"]

_MAX_WORDS = 10_000


class _Session:
    """What is known of a session beside its rows."""

    def __init__(self, session_id: str) -> None:
        self.rows = SessionRows(session_id)
        self.project = ""
        self.nd7_session: int | None = None
        self.record: Record | None = None
        self.rules: dict[tuple[object, ...], Rules] = {}
        self.words: set[tuple[int, str]] = set()
        self.refusals = Refusals()
        self.links = NotedLinks()


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
        rows = [row for session in wanted for row in session.rows.rows.values() if all_failures or row.denied]
        return sorted(rows, key=lambda row: (row.ts, row.id))

    def get(self, identifier: str) -> Denial | None:
        """The row of an id."""
        session = self._sessions.get(identifier.rpartition("#")[0])
        return session.rows.get(identifier) if session is not None else None

    def proposals(self, session_id: str) -> list[Proposal]:
        """The grants that would let the open refusals of a session through, siblings under one folder as one."""
        wanted: dict[str, list[str]] = {}
        for row in self.rows(session_id):
            stands = row.state in ("open", "repeated") and row.tie in ("", "confirmed")  # words alone widen nothing
            if stands and row.verdict.remedy == "grant" and row.verdict.grant:
                wanted.setdefault(row.verdict.grant, []).append(row.id)
        session = self._sessions.get(session_id)
        if session is None:
            return []
        home, project = self._home(session), session.project
        folders: dict[str, list[str]] = {}
        for path in wanted:
            folders.setdefault(dirname(path), []).append(path)
        merged: dict[str, list[str]] = {}
        for folder, members in folders.items():
            # One around the project would open what lies beside it as well, other projects first of all.
            wide = is_shared(folder, home) or (project and inside(project, folder))
            together = len(members) > 1 and not wide
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

    def _take_record(self, session: _Session, record: Record) -> list[Denial]:
        session.record = record
        session.project = record.project
        session.nd7_session = record.pid or session.nd7_session
        return session.rows.take_record(record)

    # ------------------------------------------------------------------ calls

    def _home(self, session: _Session) -> str:
        return session.record.home if session.record else self.home or home_of(session.project)

    def _rules(self, session: _Session, ts: int, *, floor: bool = False) -> Rules:
        """The rules as they stood at `ts`: a grant counts from when it was given, and never for the floor."""
        record = session.record
        if record is None:
            granted = () if floor else tuple(sorted(p for p, (since, _) in session.rows.grants.items() if since <= ts))
            home = self._home(session)
            kept = _settings(home, session.project) if home else ()
            return of_context(self.platform, session.project, home, granted, None, kept)
        then = () if floor else tuple(grant for grant in record.grants if grant.created <= ts)
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
        rows = session.rows
        rows.home = self._home(session)
        if event.state == "running" or rows.seen(event):
            return []
        verdict = self._verdict(session, event)
        again = rows.repeated(event, verdict)
        if again is not None:
            rows.remember(event, again.key)
            return [again]
        quiet = verdict.source == "none" and event.state in ("succeeded", "background", "no-result")
        if quiet:
            rows.remember(event, ())
            return rows.passed(event, command_of(event)) if event.state == "succeeded" else []
        row = rows.add(
            Denial(
                f"{event.session_id}#{event.first_seq}",
                event.session_id,
                event.nd7_session if event.nd7_session is not None else session.nd7_session,
                event.started,
                event.ended or event.started,
                event.tool,
                command_of(event),
                verdict,
                event,
                agent_id=event.agent_id,
                cwd=event.cwd,
                calls=(event.call_id,),
            )
        )
        rows.remember(event, row.key)
        return [row]

    def _verdict(self, session: _Session, event: ToolEvent) -> Verdict:
        if event.state == "interrupted":
            return Verdict("none", "recorded", reason="The person interrupted it.", owner="person")
        failure = self._failure(session, event)
        if event.state == "rejected":
            verdict = explain(failure)
            if verdict.owner in ("agent", "person"):
                return verdict
            reason = "The person or the agent's own rules refused the call."
            return Verdict("none", "recorded", reason=reason, owner="person")
        verdict = explain(failure, look=self.look or session.links)
        if verdict.source == "none" and (made := session.rows.made(event, failure.command)):
            reason = f"{made} is there because nd7 made it, empty, for the grant: Linux can only open what exists."
            return replace(verdict, owner="nd7", target=verdict.target or made, reason=reason)
        return verdict

    def _failure(self, session: _Session, event: ToolEvent) -> Failure:
        return Failure(
            platform=self.platform,
            tool=event.tool,
            command=command_of(event),
            exit_code=0 if event.state == "succeeded" and event.exit_code is None else event.exit_code,
            output=event.output,
            cwd=event.cwd,
            project=session.project,
            home=self._home(session),
            rules=self._rules(session, event.started, floor=event.tool not in BASH_TOOLS),
            recorded=session.refusals.of(event),
        )

    # ------------------------------------------------------------------ words and notes

    def _words(self, session: _Session, event: AgentWords) -> list[Denial]:
        if (event.seq, event.text) in session.words:
            return []
        if len(session.words) < _MAX_WORDS:
            session.words.add((event.seq, event.text))
        home = self._home(session)
        failure = Failure(
            platform=self.platform,
            tool="assistant",
            output=event.text,
            project=session.project,
            home=home,
            rules=self._rules(session, event.ts),
        )
        changed = []
        for number, verdict in enumerate(explain_words(failure)):
            said = [place(target, session.project, home) if "/" in target else target for target in verdict.targets]
            tied = session.rows.bears_out(verdict, said, event.ts)
            tie: Tie = "confirmed" if tied else "contradicted" if verdict.contradiction else "unconfirmed"
            if tied:
                reason = f"{CONFIRMED} ({tied.tool})."
                verdict = replace(verdict, contradiction="", reason=reason)
            suffix = f"{event.seq}.{number}" if number else str(event.seq)
            row = Denial(
                f"{event.session_id}#{suffix}w",
                event.session_id,
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
            changed.append(session.rows.add(row))
        return changed

    def _note(self, session: _Session, note: Note) -> list[Denial]:
        body = note.body
        if note.kind in ("session_start", "prompt"):
            session.project = session.project or _text(body, "cwd")
            return []
        if session.refusals.feed(note):
            return []
        if note.source == "nd7:recorder" and note.kind == "session":
            session.project = _text(body, "project") or session.project
        elif note.source == "nd7:recorder" and note.kind == "links":
            session.links.take(body.get("links"))
        path = _text(body, "path")
        if not path.startswith("/"):
            return []
        revision = body.get("revision")
        number = revision if isinstance(revision, int) and not isinstance(revision, bool) else None
        if note.kind == "grant":
            if body.get("action") in ("take-back", "deny", "undo", "expired"):
                return session.rows.take_back(path)
            # A live session's record tells it with the time that counts.
            return session.rows.grant(path, note.ts, number) if path not in session.rows.grants else []
        if note.kind in ("proof", "canary"):
            return session.rows.proved(path, allowed=body.get("allowed") is not False, revision=number)
        return []


def _text(body: dict[str, Any], key: str) -> str:
    value = body.get(key)
    return value if isinstance(value, str) else ""


def _settings(home: str, project: str) -> tuple[str, ...]:
    """What a session of Claude Code may never write: known from its record while it runs, and by name afterwards."""
    names = ("settings.json", "settings.local.json", "CLAUDE.md", "agents", "commands", "hooks", "plugins", "skills")
    return (
        *(f"{home}/.claude/{name}" for name in names),
        f"{home}/.claude.json",
        *((f"{project}/.claude",) if project else ()),
    )


def command_of(event: ToolEvent) -> str:
    """The command of Bash, the path of a file tool, the address of a fetch."""
    if event.command:
        return event.command
    for key in ("file_path", "notebook_path", "url", "pattern", "command"):
        value = event.input.get(key)
        if isinstance(value, str):
            return value
    return ""
