"""Writing a session's log from outside it: the supervisor's side of the hooks.

Everything that arrives is hostile: payloads of any size and shape, session ids of other people's logs,
transcript paths that lead elsewhere.  What can be recorded is; what cannot leaves a `gap` frame, so that
silence is never mistaken for peace.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import re
import threading
import time
from collections.abc import Callable, Collection, Sequence
from typing import Any

from blake3 import blake3

from nd7core.audit.follow import Transcripts
from nd7core.audit.frame import Frame
from nd7core.audit.log import EVENTS, AuditError, Log, check_session_id, log_directory, make_directory
from nd7core.calls import text_of
from nd7core.errors import Nd7Error
from nd7core.hooks import SOURCE, HookError, HookFrame, frame_of
from nd7core.transcript import TranscriptFinding

# A confined process may name as many sessions as it likes; it does not get a log for each.
MAX_SESSIONS = 256
MAX_CALLS = 50_000
# Notes made before the agent's first hook wait for its log, so that a session has one log and not two.
MAX_PENDING = 256
# A transcript is the agent's to write: what it tells is written down this much at a time.
MAX_FOUND = 200
MAX_WAITING = 2_000
# Between the transcript's word of a result and the hooks' own; they may overtake each other.
GRACE_SECONDS = 2.0

_CALLED, _ENDED = 1, 2  # what hooks have told of a call
_OWN_ID = re.compile(r"nd7-\d+-\d+")
_GOES_ON = ("resume", "compact", "clear")


class Recorder:
    """The writer of one `nd7 run`.  May be called from several threads.

    Args:
        state_dir: nd7's state directory.
        nd7_session: the pid of `nd7 run`.
        allowed_ids: agent session ids whose existing logs may be continued (`--resume ID`).
        revision: gives the policy's revision in force.
        host: the machine's name in the frames.
        agent_config: the agent's configuration directory (canonical), below whose `projects/` transcripts
            are read; None follows none.
        output_roots: directories (canonical) below which a background command's output may be read.
        hook_command: the hook's command line as the agent was given it; failures of other hooks are not ours.
        agent: whether an agent with hooks is expected; else notes go to the recorder's own log at once.

    Attributes:
        gaps: how many gap frames were written.
    """

    def __init__(
        self,
        state_dir: str,
        *,
        nd7_session: int,
        allowed_ids: Collection[str],
        revision: Callable[[], int],
        host: str | None = None,
        agent_config: str | None = None,
        output_roots: Sequence[str] = (),
        hook_command: str = "",
        agent: bool = True,
    ) -> None:
        self.gaps = 0
        self._state, self._host = state_dir, host
        self._pid, self._revision = nd7_session, revision
        self._allowed = frozenset(allowed_ids)
        self._hook_command = hook_command
        self._started = time.time_ns()
        self._own_id = f"nd7-{nd7_session}-{self._started // 1_000_000_000}"
        self._logs: dict[str, Log] = {}
        self._held: list[int] = []
        self._current = ""
        self._calls: dict[str, int] = {}
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
        return list(self._logs)

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
                log = self._log_for(read)
                frame = self._append(log, read.kind, read.body, SOURCE, ts)
            except AuditError as error:
                self._keep(read, ts, error)
                raise
            self._current = read.session_id
            self._learn(read)
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
                return self._append(self._logs[self._current], kind, body, source, when)
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
                    grace = 0.0
                    if finding.kind == "result":
                        if self._calls.get(finding.call_id, 0) & _ENDED:
                            continue
                        grace = GRACE_SECONDS
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
            for _ in range(20):
                if not self.follow_transcripts(8 << 20, now=float("inf")):
                    break
            with contextlib.suppress(AuditError):
                if self._pending:
                    self._flush(self._own())
            self._transcripts.close()
            for descriptor in self._held:
                os.close(descriptor)
            self._held.clear()

    # whose log

    def _log_for(self, read: HookFrame) -> Log:
        """The log of a payload's session.  Raises AuditError where it is not this recorder's to write."""
        session_id = read.session_id
        known = self._logs.get(session_id)
        if known is not None:
            return known
        check_session_id(session_id)
        if _OWN_ID.fullmatch(session_id):
            raise AuditError(f"session id {session_id} is one of nd7's own")
        if len(self._logs) >= MAX_SESSIONS:
            raise AuditError(f"more than {MAX_SESSIONS} agent sessions in one nd7 session")
        directory = log_directory(self._state, session_id)
        fresh = not os.path.lexists(os.path.join(directory, EVENTS))
        goes_on = read.kind == "session_start" and read.body.get("reason") in _GOES_ON
        if not fresh and session_id not in self._allowed and not goes_on:
            raise AuditError(f"the log of session {session_id} belongs to another run")
        self._hold(directory)
        log = Log(directory, host=self._host)
        self._logs[session_id] = log
        if self._pending:
            self._flush(log)
        self._pending = None
        path = text_of(read.body.get("transcript_path"))
        self._transcripts.add(session_id, path, since=self._started, from_end=not fresh)
        return log

    def _hold(self, directory: str) -> None:
        """Take a log for this recorder's life, by a lock that the kernel drops with the process."""
        try:
            make_directory(directory)
            descriptor = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
        except OSError as error:
            raise AuditError(f"audit log {directory}: {error.strerror}") from error
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            os.close(descriptor)
            raise AuditError(f"the log {os.path.basename(directory)} is held by another live session") from None
        self._held.append(descriptor)

    def _own(self) -> Log:
        """The recorder's own log, for what has no other."""
        if self._own_id not in self._logs:
            directory = log_directory(self._state, self._own_id)
            self._hold(directory)
            self._logs[self._own_id] = Log(directory, host=self._host)
        return self._logs[self._own_id]

    def _flush(self, log: Log) -> None:
        while self._pending:
            self._append(log, *self._pending[0])
            del self._pending[0]

    def _append(self, log: Log, kind: str, body: dict[str, Any], source: str, ts: int) -> Frame:
        full = body | {"nd7_session": self._pid, "policy_revision": self._revision()}
        return log.append(kind, full, source=source, ts=ts)

    # what went wrong

    def _unreadable(self, payload: bytes, ts: int, error: HookError) -> None:
        body = gap_body(payload, error)
        self.gaps += 1
        with contextlib.suppress(Nd7Error):  # the caller gets the first error, which is the one to mend
            log = self._logs.get(error.facts.get("session_id", "")) or self._logs.get(self._current) or self._own()
            self._append(log, "gap", body, "nd7:recorder", ts)

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
            error.hint = f"kept in the log {self._own_id}"
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
        log = self._logs.get(session_id)
        if log is None:
            return []
        if finding.kind == "result":
            return self._result(log, finding)
        if finding.kind == "background":
            text = self._transcripts.output(finding.output_file)
            self._told(finding.call_id, _CALLED | _ENDED)
            more = {"task_id": finding.task_id, "text": finding.text}
            return [self._tell(log, finding, text, "background", more)]
        if finding.kind == "typed":
            return [self._tell(log, finding, finding.text, "typed", {})]
        if finding.kind == "hook-failed":
            if self._hook_command and self._hook_command not in finding.hook_command:
                return []
            self._hook_gaps.add(finding.call_id)
            text = f"a hook ({finding.hook_event or 'unknown'}) {finding.text}: what it would have told is missing"
            return [self._gap(log, text, "hook", finding, hook_event_name=finding.hook_event)]
        if finding.kind == "skipped":
            return [self._gap(log, finding.text, "transcript", finding)]
        return []

    def _result(self, log: Log, finding: TranscriptFinding) -> list[Frame]:
        told = self._calls.get(finding.call_id, 0)
        if told & _ENDED or not finding.call_id:
            return []
        self._told(finding.call_id, _ENDED)
        frames: list[Frame] = []
        if finding.call_id in self._hook_gaps:
            pass  # its hook's failure has been marked already
        elif not told & _CALLED:
            text = f"no hook told of a {finding.tool or 'tool'} call that the transcript has"
            frames.append(self._gap(log, text, "call", finding))
        elif finding.outcome not in ("rejected", "interrupted"):
            text = f"no hook told how a {finding.tool or 'tool'} call ended"
            frames.append(self._gap(log, text, "result", finding))
        frames.append(self._tell(log, finding, finding.text, finding.outcome, {}))
        return frames

    def _tell(self, log: Log, finding: TranscriptFinding, text: str, outcome: str, more: dict[str, Any]) -> Frame:
        body: dict[str, Any] = {}
        if finding.cwd:
            body["cwd"] = finding.cwd
        if finding.agent_id:
            body["agent_id"] = finding.agent_id
        body |= {
            "tool_use_id": finding.call_id,
            "tool_name": finding.tool,
            "tool_input": finding.input,
            "tool_response": text,
            "ok": finding.outcome in ("succeeded", "typed"),
            "outcome": outcome,
        }
        if finding.exit_code is not None:
            body["exit_code"] = finding.exit_code
        return self._append(log, "tool_result", body | more, "nd7:transcript", finding.ts or time.time_ns())

    def _gap(self, log: Log, text: str, reason: str, finding: TranscriptFinding, **facts: str) -> Frame:
        self.gaps += 1
        body = {"text": text, "reason": reason, "tool_use_id": finding.call_id, "tool_name": finding.tool} | facts
        return self._append(log, "gap", body, "nd7:transcript", finding.ts or time.time_ns())


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
