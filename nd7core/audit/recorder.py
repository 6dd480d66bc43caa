"""Writing a session's log from outside it: the supervisor's side of the hooks.

Everything that arrives is hostile: payloads of any size and shape, session ids of other people's logs,
transcript paths that lead elsewhere.  What can be recorded is; what cannot leaves a `gap` frame, so that
silence is never mistaken for peace.
"""

from __future__ import annotations

import contextlib
import os
import threading
import time
from collections.abc import Callable, Collection, Sequence
from functools import partial
from typing import Any

from blake3 import blake3

from nd7core.audit.follow import Transcripts
from nd7core.audit.frame import Frame
from nd7core.audit.links import followed
from nd7core.audit.log import AuditError
from nd7core.audit.logs import Logs, Place, of_another_project, own_id
from nd7core.calls import text_of
from nd7core.errors import Nd7Error
from nd7core.hooks import SOURCE, HookError, HookFrame, frame_of
from nd7core.transcript import TranscriptFinding
from nd7core.words import MAX_SAID, Words

# A confined process may name as many sessions as it likes; it does not get a log for each.
MAX_SESSIONS = 256
MAX_CALLS = 50_000
# Notes made before the agent's first hook wait for its log, so that a session has one log and not two.
MAX_PENDING = 256
# A transcript is the agent's to write: what it tells is written down this much at a time.
MAX_FOUND = 200
MAX_WAITING = 2_000
# At the end, for what the transcripts still hold; whoever waits for this process gives it 8.
CLOSE_SECONDS = 4.0
# Between the transcript's word of a result or a saying and the hooks' own; they may overtake each other.
GRACE_SECONDS = 2.0

_CALLED, _ENDED = 1, 2  # what hooks have told of a call


class Recorder:
    """The writer of one `nd7 run`.  May be called from several threads.

    Args:
        state_dir: nd7's state directory.
        nd7_session: the pid of `nd7 run`.
        allowed_ids: conversations whose existing logs may be continued: those that the person named (`--resume ID`).
        older: conversations that were there before the session; of those that nobody named, and of any that has a
            log already, the frames go into the session's own log.
        choosing: the person asked the agent to go on with an older conversation without naming it (`--continue`).
        chosen: the one that it went on with, where this recorder follows one that died; "" otherwise.
        started: when the session began, nanoseconds since the epoch; names its own log.
        about: what the first frame of the session's own log tells of it.
        revision: gives the policy's revision in force.
        host: the machine's name in the frames.
        own_folders: directories (canonical) that the session writes; a conversation with a transcript below
            `agent_config` that lies in none of them is another project's, and not taken for a new one.
        agent_config: the agent's configuration directory (canonical), below whose `projects/` transcripts
            are read; None follows none.
        output_roots: directories (canonical) below which a background command's output may be read.
        link_roots: directories (canonical) below which the links that a failed call went through are noted.
        hidden: directories (canonical) that the session may not look into.
        hook_command: the hook's command line as the agent was given it; failures of other hooks are not ours.
        agent: whether an agent with hooks is expected; else notes go to the recorder's own log at once.

    Attributes:
        gaps: how many gap frames were written.
        chosen: the older conversation that a session went on with which was asked to choose one, or "".
    """

    def __init__(
        self,
        state_dir: str,
        *,
        nd7_session: int,
        allowed_ids: Collection[str],
        revision: Callable[[], int],
        older: Collection[str] = (),
        choosing: bool = False,
        chosen: str = "",
        started: int = 0,
        about: dict[str, Any] | None = None,
        host: str | None = None,
        agent_config: str | None = None,
        own_folders: Collection[str] | None = None,
        output_roots: Sequence[str] = (),
        link_roots: Sequence[str] = (),
        hidden: Sequence[str] = (),
        hook_command: str = "",
        agent: bool = True,
    ) -> None:
        self.gaps = 0
        self.chosen = chosen
        self._pid, self._revision, self._about = nd7_session, revision, about or {}
        self._choosing, self._link_roots, self._hidden = choosing, tuple(link_roots), tuple(hidden)
        self._hook_command = hook_command
        self._started = time.time_ns()
        self._began = started or self._started
        projects = os.path.join(agent_config, "projects") if agent_config and own_folders is not None else ""
        self._logs = Logs(
            state_dir,
            own_id(nd7_session, self._began),
            asked=allowed_ids,
            older=older,
            elsewhere=partial(of_another_project, projects, frozenset(own_folders or ())),
            host=host,
        )
        self._places: dict[str, Place] = {}
        self._current = ""
        self._calls: dict[str, int] = {}
        self._words = Words()
        self._open_bash: dict[str, str] = {}  # call id -> agent id
        self._hook_gaps: set[str] = set()
        self._pending: list[tuple[str, dict[str, Any], str, int]] | None = [] if agent else None
        self._refused: set[str] = set()
        self._waiting: list[tuple[float, str, TranscriptFinding]] = []
        self._transcripts = Transcripts(agent_config, output_roots)
        self._lock = threading.RLock()

    @property
    def session_ids(self) -> list[str]:
        """The logs that this recorder writes, in the order they began; the record's `agent_sessions`."""
        return self._logs.ids

    @property
    def open_bash_calls(self) -> int:
        """Bash calls that a hook announced and none ended.  A command that runs with none open is a gap."""
        return len(self._open_bash)

    def record(self, payload: bytes, ts: int, *, hook_ppid: int | None = None) -> Frame:
        """Write what a hook delivered.

        Args:
            ts: nanoseconds since the epoch, of the hook's start.

        Raises HookError for what is no payload and AuditError for a log that cannot be written or is not this
        session's.  A gap frame tells of it, and what could be read is kept in the recorder's own log.
        """
        with self._lock:
            try:
                read = frame_of(payload, hook_ppid=hook_ppid)
            except HookError as error:
                self._unreadable(payload, ts, error)
                raise
            try:
                place = self._place_of(read, ts)
                frame = self._append(place, read.kind, read.body, SOURCE, ts)
            except AuditError as error:
                self._keep(read, ts, error)
                raise
            self._current = read.session_id
            self._learn(read)
            self._words.learn(read.kind, read.body, ts, read.session_id)
            return frame

    def note(
        self, kind: str, body: dict[str, Any], source: str = "nd7:recorder", *, ts: int | None = None
    ) -> Frame | None:
        """Write a frame of nd7's own into the log of the agent's latest session.

        Before the agent's first hook it waits and None is returned; `close` writes what still waits.
        Raises AuditError.
        """
        with self._lock:
            when = time.time_ns() if ts is None else ts
            if kind == "gap":
                self.gaps += 1
            if self._current:
                return self._append(self._places[self._current], kind, body, source, when)
            if self._pending is not None:
                self._pending.append((kind, body, source, when))
                if len(self._pending) <= MAX_PENDING:
                    return None
                self._flush(self._own())
                self._pending = None
                return None
            return self._append(self._own(), kind, body, source, when)

    def gap(self, text: str, **facts: Any) -> Frame | None:
        """Mark that something is missing: one sentence, and what is known of it."""
        return self.note("gap", {"text": text} | facts)

    def follow_transcripts(self, limit: int = 1 << 20, *, now: float | None = None) -> list[Frame]:
        """Read on in the transcripts, at most about `limit` bytes, and write what no hook told.  Returns the frames.

        Never raises for what a transcript holds or is; a log that cannot be written is counted in `gaps`.
        """
        with self._lock:
            clock = time.monotonic() if now is None else now
            if len(self._waiting) < MAX_WAITING:
                for follower, finding in self._transcripts.poll(limit, clock):
                    if finding.kind == "result" and self._calls.get(finding.call_id, 0) & _ENDED:
                        continue
                    grace = GRACE_SECONDS if finding.kind in ("result", "said") else 0.0
                    self._waiting.append((clock + grace, follower.session_id, finding))
            due: list[tuple[float, str, TranscriptFinding]] = []
            later: list[tuple[float, str, TranscriptFinding]] = []
            for item in self._waiting:
                (due if item[0] <= clock and len(due) < MAX_FOUND else later).append(item)
            self._waiting = later
            frames: list[Frame] = []
            for _, session_id, finding in due:
                try:
                    frames += self._found(session_id, finding)
                except AuditError:
                    self.gaps += 1
            return frames

    def close(self) -> None:
        """Write what still waits and let the logs go.  Never raises."""
        with self._lock:
            until = time.monotonic() + CLOSE_SECONDS
            for _ in range(20):
                if not self.follow_transcripts(8 << 20, now=float("inf")) and not self._waiting:
                    break
                if time.monotonic() > until:
                    with contextlib.suppress(AuditError):
                        self.gap("the transcripts were too long to be read to their ends", reason="transcript")
                    break
            with contextlib.suppress(AuditError):
                if self._pending:
                    self._flush(self._own())
            self._transcripts.close()
            self._logs.close()

    # whose log

    def _place_of(self, read: HookFrame, ts: int) -> Place:
        """Where a payload's frame goes.  Raises AuditError where there is no such place."""
        session_id = read.session_id
        known = self._places.get(session_id)
        if known is not None:
            return known
        if len(self._places) >= MAX_SESSIONS:
            raise AuditError(f"more than {MAX_SESSIONS} agent sessions in one nd7 session")
        if self._logs.claimed(session_id):
            place, fresh = self._own()._replace(claimed=session_id), False
        else:
            place = Place(self._logs.open(session_id))
            fresh = place.log.empty()
        if self._pending:
            self._flush(Place(place.log))
        self._pending = None
        if place.claimed and session_id != self.chosen:
            self._claimed(place, read, ts)
        self._places[session_id] = place
        path = text_of(read.body.get("transcript_path"))
        self._transcripts.add(session_id, path, since=self._started, from_end=not fresh)
        return place

    def _claimed(self, place: Place, read: HookFrame, ts: int) -> None:
        """Mark in the own log that what follows is of an older conversation, which the person asked for or did not."""
        body = {"reason": "conversation", "agent_session": place.claimed}
        if self._choosing and not self.chosen and not self._places and read.kind == "session_start":
            # The agent's first word, after `--continue` or the picker: one was to be chosen, and this is it.
            self.chosen = place.claimed
            text = f"goes on with conversation {place.claimed}, which the agent chose: recorded here, not in its log"
            self._append(place, "conversation", {"text": text} | body, "nd7:recorder", ts)
            return
        self.gaps += 1
        text = (
            f"the session says that it goes on with the older conversation {place.claimed}, for which nobody asked "
            "by its id: recorded here; that one's log and grants stay as they are"
        )
        self._append(place, "gap", {"text": text} | body, "nd7:recorder", ts)

    def _own(self) -> Place:
        """The session's own log, for what has no other.  It begins with what the session is."""
        place = Place(self._logs.open(self._logs.own))
        if self._about and place.log.empty():
            self._append(place, "session", self._about, "nd7:recorder", self._began)
        self._about = {}
        return place

    def _flush(self, place: Place) -> None:
        while self._pending:
            self._append(place, *self._pending[0])
            del self._pending[0]

    def _append(self, place: Place, kind: str, body: dict[str, Any], source: str, ts: int) -> Frame:
        of = {"agent_session": place.claimed} if place.claimed else {}
        ours = of | {"nd7_session": self._pid, "policy_revision": self._revision()}
        if kind == "tool_result" and (links := followed(body, self._link_roots, self._hidden)):
            # Before the result, whose reader is to know them.
            told = {"tool_use_id": text_of(body.get("tool_use_id")), "links": links}
            place.log.append("links", told | ours, source="nd7:recorder", ts=ts)
        return place.log.append(kind, body | ours, source=source, ts=ts)

    # what went wrong

    def _unreadable(self, payload: bytes, ts: int, error: HookError) -> None:
        body = gap_body(payload, error)
        self.gaps += 1
        with contextlib.suppress(Nd7Error):  # the caller gets the first error, which is the one to mend
            named = self._places.get(error.facts.get("session_id", ""))
            place = named or self._places.get(self._current) or self._own()
            self._append(place, "gap", body, "nd7:recorder", ts)

    def _keep(self, read: HookFrame, ts: int, error: AuditError) -> None:
        """Keep in our own log what could not go into its session's, behind a gap frame that says why."""
        try:
            own = self._own()
            if read.session_id not in self._refused:
                if len(self._refused) < MAX_SESSIONS:
                    self._refused.add(read.session_id)
                self.gaps += 1
                body = {"text": error.message, "reason": "log", "agent_session": read.session_id[:255]}
                self._append(own, "gap", body, "nd7:recorder", ts)
            self._append(own, read.kind, read.body | {"agent_session": read.session_id[:255]}, SOURCE, ts)
            error.hint = f"kept in the log {self._logs.own}"
        except Nd7Error as second:
            self.gaps += 1
            error.hint = f"and not kept elsewhere: {second.message}"

    # what hooks and transcripts told

    def _learn(self, read: HookFrame) -> None:
        body = read.body
        if read.kind == "tool_call":
            self._told(text_of(body.get("tool_use_id")), _CALLED)
            if body.get("tool_name") == "Bash":
                self._open_bash[text_of(body.get("tool_use_id"))] = text_of(body.get("agent_id"))
        elif read.kind == "tool_result":
            self._told(text_of(body.get("tool_use_id")), _ENDED)
        elif body.get("hook_event_name") == "PostToolBatch":
            raw = body.get("raw")
            calls = raw.get("tool_calls") if type(raw) is dict else None
            for call in calls if type(calls) is list else []:
                if type(call) is dict:
                    self._told(text_of(call.get("tool_use_id")), _ENDED)
        elif read.kind in ("turn_end", "prompt"):
            self._open_bash = {call: agent for call, agent in self._open_bash.items() if agent}
        elif read.kind == "session_end":
            self._open_bash.clear()
        agent_id = text_of(body.get("agent_id")) or _raw_text(body, "agent_id")
        path = text_of(body.get("transcript_path"))
        if agent_id:
            self._transcripts.add_subagent(read.session_id, path, agent_id, since=self._started)

    def _told(self, call_id: str, what: int) -> None:
        if not call_id:
            return
        if call_id not in self._calls and len(self._calls) >= MAX_CALLS:
            self._calls.pop(next(iter(self._calls)))
        self._calls[call_id] = self._calls.get(call_id, 0) | what
        if what == _ENDED:
            self._open_bash.pop(call_id, None)

    def _found(self, session_id: str, finding: TranscriptFinding) -> list[Frame]:
        place = self._places.get(session_id)
        if place is None:
            return []
        if finding.kind == "result":
            return self._result(place, finding)
        if finding.kind == "background":
            text = self._transcripts.output(finding.output_file)
            self._told(finding.call_id, _CALLED | _ENDED)
            more = {"task_id": finding.task_id, "text": finding.text}
            return [self._tell(place, finding, text, "background", more)]
        if finding.kind == "typed":
            return [self._tell(place, finding, finding.text, "typed", {})]
        if finding.kind == "hook-failed":
            if self._hook_command and self._hook_command not in finding.hook_command:
                return []
            self._hook_gaps.add(finding.call_id)
            text = f"a hook ({finding.hook_event or 'unknown'}) {finding.text}: what it would have told is missing"
            return [self._gap(place, text, "hook", finding, hook_event_name=finding.hook_event)]
        if finding.kind == "said":
            now = time.time_ns()
            when = min(finding.ts or now, now)  # a time to come would stand before all that is said later
            if not self._words.new(session_id + finding.agent_id, finding.text, when, "transcript"):
                return []
            body = _where(finding) | {"text": finding.text}
            if len(finding.text) >= MAX_SAID:
                body["nd7_note"] = f"cut at {MAX_SAID} characters"
            return [self._append(place, "words", body, "nd7:transcript", when)]
        if finding.kind == "skipped":
            return [self._gap(place, finding.text, "transcript", finding)]
        return []

    def _result(self, place: Place, finding: TranscriptFinding) -> list[Frame]:
        told = self._calls.get(finding.call_id, 0)
        if told & _ENDED or not finding.call_id:
            return []
        self._told(finding.call_id, _ENDED)
        frames: list[Frame] = []
        if finding.call_id in self._hook_gaps:
            pass  # its hook's failure has been marked already
        elif not told & _CALLED:
            text = f"no hook told of a {finding.tool or 'tool'} call that the transcript has"
            frames.append(self._gap(place, text, "call", finding))
        elif finding.outcome not in ("rejected", "interrupted"):
            text = f"no hook told how a {finding.tool or 'tool'} call ended"
            frames.append(self._gap(place, text, "result", finding))
        frames.append(self._tell(place, finding, finding.text, finding.outcome, {}))
        return frames

    def _tell(self, place: Place, finding: TranscriptFinding, text: str, outcome: str, more: dict[str, Any]) -> Frame:
        body = _where(finding) | {
            "tool_use_id": finding.call_id,
            "tool_name": finding.tool,
            "tool_input": finding.input,
            "tool_response": text,
            "ok": finding.outcome in ("succeeded", "typed"),
            "outcome": outcome,
        }
        if finding.exit_code is not None:
            body["exit_code"] = finding.exit_code
        return self._append(place, "tool_result", body | more, "nd7:transcript", finding.ts or time.time_ns())

    def _gap(self, place: Place, text: str, reason: str, finding: TranscriptFinding, **facts: str) -> Frame:
        self.gaps += 1
        body = {"text": text, "reason": reason, "tool_use_id": finding.call_id, "tool_name": finding.tool} | facts
        return self._append(place, "gap", body, "nd7:transcript", finding.ts or time.time_ns())


def _where(finding: TranscriptFinding) -> dict[str, Any]:
    where = {"cwd": finding.cwd, "agent_id": finding.agent_id}
    return {key: value for key, value in where.items() if value}


def gap_body(payload: bytes, error: HookError) -> dict[str, Any]:
    """The body of the gap frame that stands for a payload which could not be recorded."""
    facts = {key: value for key, value in error.facts.items() if key != "session_id"}
    return {
        "text": error.message,
        "reason": "payload",
        **facts,
        "agent_session": error.facts.get("session_id", ""),
        "size": len(payload),
        "blake3": blake3(payload).hexdigest(),
        "excerpt": payload[:300].decode("utf-8", "replace"),
    }


def _raw_text(body: dict[str, Any], key: str) -> str:
    raw = body.get("raw")
    return text_of(raw.get(key)) if type(raw) is dict else ""
