"""One log as it is read: frames to calls, calls to rows, and what the session is doing.  Does no IO of its own."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from nd7core.attribution import FileLook, platform_named
from nd7core.attribution.verdict import Source, Verdict
from nd7core.audit.frame import Damage, Frame
from nd7core.audit.tail import FileFollower
from nd7core.denials import Denial, Denials
from nd7core.events import AgentWords, Note, SessionEvent, ToolEvent
from nd7core.history_log import facts_of
from nd7core.mask import Masked, mask, window
from nd7core.pairing import Pairing
from nd7core.record import Record
from nd7tui.look import Activity
from nd7tui.model import COMMAND_LIMIT, OUTPUT_LIMIT, Row

# How Claude Code names the ends of a session.
ENDED = {"prompt_input_exit": "at its prompt", "other": "", "logout": "by a logout", "clear": "by /clear"}


class Track:
    """What one log has told so far.

    Args:
        find: the record of the live session with a pid that a frame of a time can belong to, or None.

    Attributes:
        key: of the session that it belongs to, as the roster sees it.
        nd7_session: pid of the `nd7 run` that it names or was tied to, or None.
        caller: pid of the process that called the last hook, or 0.
        name: of the session, where the log tells it.
        stranger: the session runs a program that no adapter knows.
        activity, since: what the session does, and from when (nanoseconds since the epoch).
        started, latest: times of the first and the last frame.
        changed: grows with each frame, over all logs; the order in which they were written.
    """

    def __init__(
        self,
        session_id: str,
        follower: FileFollower,
        home: str,
        find: Callable[[int, int], Record | None] = lambda pid, ts: None,
    ) -> None:
        self.session_id = session_id
        self._find = find
        self.follower = follower
        self.home = home
        self.key = f"log:{session_id}"
        self.record: Record | None = None
        self._shown: dict[str, Row] = {}
        self._forget()

    def _forget(self) -> None:
        self._pairing = Pairing()
        look = FileLook() if self.record is not None else None
        self._denials = Denials(home=self.home, look=look, platform=platform_named(sys.platform))
        self._generation = self.follower.generation
        self._shown.clear()
        self.nd7_session: int | None = None
        self.caller = 0
        self.activity: Activity = "starting"
        self.since = 0
        self.waits_for = ""
        self.name = ""
        self.agent = ""
        self.stranger = False
        self.cwd = ""
        self.started = 0
        self.latest = 0
        self.frames = 0
        self.gaps = 0
        self.problem = ""
        self.counts: Counter[Source] = Counter()

    @property
    def changed(self) -> int:
        """When the last frame was written."""
        return self.latest

    def feed(self, frame: Frame) -> list[Row]:
        """Take a frame; give the rows that are new or changed."""
        if self.follower.generation != self._generation:
            # Another file under the name, read from its start: what the old one told is kept in the stream,
            # but calls of the two must not be paired.
            self._forget()
        self._about(frame)
        rows: list[Row] = []
        if self.record is None and self.nd7_session is not None:
            # Before the first row: without its session's rules a refusal would be judged by the usual ones.
            rows += self.under(self._find(self.nd7_session, frame.ts))
        for event in self._pairing.feed(frame):
            self._state(event)
            rows += self._rows(self._denials.feed(event, self.record))
            if isinstance(event, ToolEvent):
                rows += self._corrected(event)
        return rows

    def _rows(self, denials: list[Denial]) -> list[Row]:
        return [self._row(denial) for denial in denials]

    def _corrected(self, event: ToolEvent) -> list[Row]:
        """A better teller has said that a call did not fail after all: its row stays, and says so."""
        denial_id = f"{self.session_id}#{event.first_seq}"
        row = self._shown.get(denial_id)
        if row is None or row.state == "obsolete" or self._denials.get(denial_id) is not None:
            return []
        row = self._shown[denial_id] = replace(row, state="obsolete", note="a later report took this back")
        return [row]

    def damaged(self, damage: Damage) -> list[Row]:
        """Note damage; the session shows it."""
        if damage.kind == "gap":
            self.gaps += 1
        if damage.kind != "torn":
            self.problem = damage.reason
        return []

    def under(self, record: Record | None) -> list[Row]:
        """The session's record as it is now; a grant changes the states of the rows that it covers."""
        if record == self.record:
            return []
        if record is None:
            self.activity, self.waits_for = "ended", self.waits_for or "with nd7 run"
        self.record = record
        # Ordinary permissions are asked only while the session runs on this machine, as it is now.
        self._denials.look = FileLook() if record is not None else None
        return self._rows(self._denials.update(self.session_id, record)) if record is not None else []

    def _about(self, frame: Frame) -> None:
        body = frame.body
        self.frames += 1
        self.started = self.started or frame.ts
        self.latest = max(self.latest, frame.ts)
        pid = body.get("nd7_session")
        if type(pid) is int:
            self.nd7_session = pid
        if type(caller := body.get("hook_ppid")) is int:
            self.caller = caller
        if facts := facts_of(frame):
            self.stranger = not frame.body.get("agent")
            self.name, self.cwd, self.agent = facts.name, facts.project, facts.agent
        if not self.cwd and type(cwd := body.get("cwd")) is str:
            self.cwd = cwd[:4096]
        if not self.agent and frame.source.startswith("intent:"):
            self.agent = frame.source[7:60]

    def _state(self, event: SessionEvent) -> None:
        """What the session does, from its hooks alone: never from what its screen seems to say."""
        before = (self.activity, self.waits_for)
        if isinstance(event, ToolEvent):
            self.activity, self.waits_for = "working", ""
        elif isinstance(event, Note):
            # Not of words: they are told seconds after they were said, in the middle of a turn as well.
            self._noted(event)
        if before != (self.activity, self.waits_for):
            self.since = self.latest

    def _noted(self, note: Note) -> None:
        kind = note.kind
        if kind == "session_start":
            self.activity, self.waits_for = "idle", ""
        elif kind in ("prompt", "UserPromptSubmit"):
            self.activity, self.waits_for = "working", ""
        elif kind == "PermissionRequest":
            self.activity, self.waits_for = "waiting", mask(self._pairing.waiting, 80) or "an answer"
        elif kind == "Notification":
            if _raw(note).get("notification_type") == "idle_prompt" or note.text.endswith("waiting for your input"):
                self.activity, self.waits_for = "idle", ""
            else:
                self.activity, self.waits_for = "waiting", mask(note.text, 80) or "an answer"
        elif kind in ("StopFailure", "turn_end"):
            self.activity, self.waits_for = "idle", mask(note.text, 80)
        elif kind == "session_end":
            self.activity, self.waits_for = "ended", ENDED.get(note.text, mask(note.text, 80))
        elif kind == "gap":
            self.gaps += 1

    def _row(self, denial: Denial) -> Row:
        event = denial.event
        if isinstance(event, AgentWords):
            command, output, exit_code, cwd, agent_id, note, revision = (
                event.text,
                "",
                None,
                "",
                event.agent_id,
                "",
                None,
            )
        else:
            command, output, exit_code, cwd = denial.command, event.output, event.exit_code, event.cwd
            agent_id, note, revision = event.agent_id, event.note, event.revision
        (start, end), cut = excerpt(output, denial.verdict.line)
        bare = Row(
            id=denial.id,
            ts=denial.last_ts,
            first_ts=denial.ts,
            session_id=self.session_id,
            tool="" if isinstance(event, AgentWords) else denial.tool,
            command=command[:COMMAND_LIMIT],
            output=output[start:end],
            verdict=denial.verdict,
            state=denial.state,
            count=denial.count,
            nd7_session=denial.nd7_session if denial.nd7_session is not None else self.nd7_session,
            exit_code=exit_code,
            cwd=cwd[:4096],
            revision=revision,
            cut=cut,
            agent_id=agent_id,
            note=note[:400],
            tied_to=denial.tied_to,
            proof=denial.proof,
        )
        # The whole command and output stand behind what is shown: a key is known by lines that the cut leaves out.
        row = unsecret(
            bare, window(command, 0, COMMAND_LIMIT), window(output, start, end), window(note, 0, 400), denial.verdict
        )
        known = self._shown.get(row.id)
        if known is not None:
            self.counts[known.source] -= 1
        self.counts[row.source] += 1
        self._shown[row.id] = row
        return row


def unsecret(bare: Row, command: Masked, output: Masked, note: Masked, verdict: Verdict) -> Row:
    """A row as it is shown by default, with the other one in it where that differs.

    Its paths stay, because keys act on them.
    """
    hidden = command.hidden + output.hidden + note.hidden
    if not hidden and bare.cut == (0, 0) and len(bare.command) < COMMAND_LIMIT:
        return bare  # the sentences quote nothing but what has been looked through
    sentences = [window(text, 0, len(text)) for text in (verdict.line, verdict.reason, verdict.contradiction)]
    # What the sentences quote stands in the command or the output as well, and is not counted twice.
    hidden = hidden or max(found.hidden for found in sentences)
    if not hidden:
        return bare
    line, reason, contradiction = (found.text for found in sentences)
    return replace(
        bare,
        command=command.text,
        output=output.text,
        note=note.text,
        verdict=replace(verdict, line=line, reason=reason, contradiction=contradiction),
        hidden=hidden,
        bare=bare,
    )


def excerpt(output: str, line: str) -> tuple[tuple[int, int], tuple[int, int]]:
    """Where at most `OUTPUT_LIMIT` characters of an output begin and end, round the line that the verdict rests on.

    Returns that with how many characters are left out before and after.
    """
    if len(output) <= OUTPUT_LIMIT:
        return (0, len(output)), (0, 0)
    at = output.find(line) if line else -1
    middle = at if at >= 0 else len(output)
    start = max(0, min(middle - OUTPUT_LIMIT // 2, len(output) - OUTPUT_LIMIT))
    newline = output.find("\n", start, start + 2_000)
    if start and newline >= 0 and (at < 0 or newline < at):
        start = newline + 1
    end = min(len(output), start + OUTPUT_LIMIT)
    return (start, end), (start, len(output) - end)


def _raw(note: Note) -> dict[str, Any]:
    raw = note.body.get("raw")
    return raw if type(raw) is dict else {}
