"""What the agent's own transcript tells that no hook does: words, Esc, "No", background ends, hooks that failed open.

Sans-IO: bytes of Claude Code's `<session>.jsonl` in, findings out.  The file is written by the confined side
and is hostile; a line that is not understood is passed over, for the transcript is a second source only.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Literal

from nd7core import claude_results as results
from nd7core.calls import text_of
from nd7core.words import MAX_SAID

FindingKind = Literal["call", "result", "background", "hook-failed", "typed", "said", "skipped"]

# A tool result with pictures is some megabytes; a longer line is passed over.
MAX_LINE = 8 << 20
_SHORTEST = 20  # bytes; no object with any of `_WORDS` is that short
MAX_CALLS = 20_000
# Lines without one of these words hold nothing for us, and parsing them is most of the cost.
_WORDS = (b'"text"', b'"tool_use', b'"tool_result"', b"task-notification>", b'"hook_', b"[Request inter", b"<bash-")
# What is kept of a saying beside its text.  The line is the session's, and may hold anything.
_MAX_AGENT, _MAX_CWD = 128, 4096
_SURROGATE = re.compile("[\ud800-\udfff]")


@dataclass(frozen=True, slots=True)
class TranscriptFinding:
    """One thing that the transcript tells.

    Attributes:
        kind: `call` (the agent asked for a tool), `result`, `background` (a background command ended),
            `hook-failed` (a hook that failed, so that the call went on without it), `typed` (the person ran a
            command with `!`), `said` (a text of the agent's, whole), `skipped` (a line too long to read).
        outcome: of a result: "succeeded", "failed", "rejected" (the person or the agent's rules), "interrupted".
        text: what came back, or a sentence.
        ts: nanoseconds since the epoch, 0 where the line has none.
    """

    kind: FindingKind
    call_id: str = ""
    tool: str = ""
    input: dict[str, Any] = field(default_factory=dict, hash=False)
    outcome: str = ""
    text: str = ""
    exit_code: int | None = None
    task_id: str = ""
    output_file: str = ""
    hook_event: str = ""
    hook_command: str = ""
    cwd: str = ""
    agent_id: str = ""
    ts: int = 0


class Transcript:
    """One transcript file.

    Args:
        since: lines of an earlier time (nanoseconds since the epoch) tell nothing: a resumed or forked
            session's file begins with what an earlier run already recorded.
        heard: the texts that were told already, by their line; given on where a file is read from its start again,
            as it is when the agent has taken a line out of it.
    """

    def __init__(self, *, since: int = 0, heard: dict[int, None] | None = None) -> None:
        self._since = since
        self._heard: dict[int, None] = {} if heard is None else heard
        self._buffer = bytearray()
        self._searched = 0
        self._skipping = False
        self._calls: dict[str, tuple[str, dict[str, Any], str]] = {}
        self._refused: list[tuple[TranscriptFinding, str]] = []
        self._tasks: set[str] = set()
        self._typed = ""

    @property
    def unsettled(self) -> bool:
        """Whether a refused call waits for the line that tells Esc from "No"."""
        return bool(self._refused)

    def feed(self, data: bytes) -> list[TranscriptFinding]:
        """Take the next bytes.  Never raises."""
        found: list[TranscriptFinding] = []
        buffer = self._buffer
        buffer += data
        end = buffer.rfind(b"\n", self._searched)
        # Split at once: a megabyte of empty lines, taken one by one, is a million steps.
        for line in bytes(memoryview(buffer)[:end]).split(b"\n") if end >= 0 else ():
            if self._skipping or len(line) > MAX_LINE:
                self._skipping = False
                found.append(TranscriptFinding("skipped", text="a line of the transcript is too long to read"))
            elif len(line) >= _SHORTEST and any(word in line for word in _WORDS):
                found += self._line(line)
        if end >= 0:
            del buffer[: end + 1]
        if len(buffer) > MAX_LINE or self._skipping:
            self._skipping = True
            buffer.clear()
        self._searched = len(buffer)
        return found

    def settle(self) -> list[TranscriptFinding]:
        """Take refused calls whose next line has not come for "No"."""
        found = [finding for finding, _ in self._refused]
        self._refused.clear()
        return found

    def _line(self, line: bytes) -> list[TranscriptFinding]:
        try:
            value = json.loads(line.decode("utf-8", "replace"))
        except (ValueError, RecursionError):
            return []
        if type(value) is not dict:
            return []
        ts = _time(value.get("timestamp"))
        found = list(self._read(value, ts))
        return [] if ts and ts < self._since else found

    def _read(self, value: dict[str, Any], ts: int) -> Iterator[TranscriptFinding]:
        kind = value.get("type")
        message = value.get("message")
        content = message.get("content") if type(message) is dict else None
        if kind == "assistant" and type(message) is dict:
            yield from self.settle()
            yield from self._words(value, message, ts)
            for block in _blocks(content, "tool_use"):
                yield from self._call(value, block, text_of(message.get("id")), ts)
        elif kind == "user" and type(content) is list:
            for block in _blocks(content, "tool_result"):
                yield from self._result(value, block, ts)
            for block in _blocks(content, "text"):
                if text_of(block.get("text")).startswith(results.INTERRUPTED):
                    yield from self._interrupted(text_of(value.get("interruptedMessageId")))
        elif kind == "user" and type(content) is str:
            yield from self.settle()
            yield from self._said(value, content, ts)
        elif kind == "queue-operation":
            if value.get("operation") == "enqueue":
                yield from self._notified(text_of(value.get("content")), ts)
        elif kind == "attachment" and type(value.get("attachment")) is dict:
            yield from self._attached(value["attachment"], ts)

    def _words(self, value: dict[str, Any], message: dict[str, Any], ts: int) -> Iterator[TranscriptFinding]:
        """A line is written when its block is whole, so no text comes in pieces.

        Left out: what a branched conversation has from the one before, and what the client itself puts in the
        agent's mouth ("API Error: ...").
        """
        if "forkedFrom" in value or value.get("isApiErrorMessage") is True or message.get("model") == "<synthetic>":
            return
        for number, block in enumerate(_blocks(message.get("content"), "text")):
            text = _SURROGATE.sub("\ufffd", text_of(block.get("text")).strip()[:MAX_SAID])
            line = hash((text_of(value.get("uuid")), number, text))
            if not text or line in self._heard:
                continue
            if len(self._heard) >= MAX_CALLS:
                self._heard.pop(next(iter(self._heard)))
            self._heard[line] = None
            cwd, agent_id = text_of(value.get("cwd"))[:_MAX_CWD], text_of(value.get("agentId"))[:_MAX_AGENT]
            yield TranscriptFinding("said", text=text, cwd=cwd, agent_id=agent_id, ts=ts)

    def _call(
        self, value: dict[str, Any], block: dict[str, Any], message_id: str, ts: int
    ) -> Iterator[TranscriptFinding]:
        call_id, tool = text_of(block.get("id")), text_of(block.get("name"))
        tool_input = block.get("input")
        tool_input = tool_input if type(tool_input) is dict else {}
        if not call_id or call_id in self._calls:
            return
        if len(self._calls) >= MAX_CALLS:
            self._calls.pop(next(iter(self._calls)))
        self._calls[call_id] = (tool, tool_input, message_id)
        yield TranscriptFinding(
            "call",
            call_id,
            tool,
            tool_input,
            cwd=text_of(value.get("cwd")),
            agent_id=text_of(value.get("agentId")),
            ts=ts,
        )

    def _result(self, value: dict[str, Any], block: dict[str, Any], ts: int) -> Iterator[TranscriptFinding]:
        call_id = text_of(block.get("tool_use_id"))
        tool, tool_input, message_id = self._calls.get(call_id, ("", {}, ""))
        text = results.flat(block.get("content"))
        refused = results.says_person_refused(text) or value.get("toolUseResult") == "User rejected tool use"
        if refused or results.says_agent_refused(text):
            outcome = "rejected"
        else:
            outcome = "failed" if block.get("is_error") is True else "succeeded"
        finding = TranscriptFinding(
            "result",
            call_id,
            tool,
            tool_input,
            outcome,
            text,
            cwd=text_of(value.get("cwd")),
            agent_id=text_of(value.get("agentId")),
            ts=ts,
        )
        if refused:
            self._refused.append((finding, message_id))
        else:
            yield finding

    def _interrupted(self, message_id: str) -> Iterator[TranscriptFinding]:
        """Esc of a running call names the message that asked for it; Esc or "No" at the prompt names none."""
        for finding, asked_in in self._refused:
            if message_id and asked_in in ("", message_id):
                yield _replaced(finding, "interrupted")
            else:
                yield finding
        self._refused.clear()

    def _said(self, value: dict[str, Any], text: str, ts: int) -> Iterator[TranscriptFinding]:
        if text.startswith("<bash-input>"):
            self._typed = text[len("<bash-input>") :].removesuffix("</bash-input>")
        elif text.startswith("<bash-stdout>") and self._typed:
            out, _, err = text[len("<bash-stdout>") :].partition("</bash-stdout><bash-stderr>")
            err = err.removesuffix("</bash-stderr>")
            call_id = f"typed-{text_of(value.get('uuid'))}"
            command, self._typed = self._typed, ""
            yield TranscriptFinding(
                "typed", call_id, "Bash", {"command": command}, "typed", out + err, cwd=text_of(value.get("cwd")), ts=ts
            )
        else:
            yield from self._notified(text, ts)

    def _notified(self, text: str, ts: int) -> Iterator[TranscriptFinding]:
        end = results.task_end(text)
        if end is None or end.task_id in self._tasks:
            return
        if len(self._tasks) < MAX_CALLS:
            self._tasks.add(end.task_id)
        tool, tool_input, _ = self._calls.get(end.call_id, ("", {}, ""))
        yield TranscriptFinding(
            "background",
            end.call_id,
            tool,
            tool_input,
            "succeeded" if end.status == "completed" else "failed",
            end.summary,
            end.exit_code,
            end.task_id,
            end.output_file,
            ts=ts,
        )

    def _attached(self, attachment: dict[str, Any], ts: int) -> Iterator[TranscriptFinding]:
        kind = attachment.get("type")
        if kind == "queued_command":
            yield from self._notified(text_of(attachment.get("prompt")), ts)
            return
        if kind == "hook_non_blocking_error":
            code = attachment.get("exitCode")
            said = text_of(attachment.get("stderr")).strip()[:300]
            text = f"exit {code}" if type(code) is int else "failed"
            text = f"{text}: {said}" if said else text
        elif kind == "hook_cancelled":
            timeout = attachment.get("timeoutMs")
            timed_out = attachment.get("timedOut") is True
            text = f"timed out after {timeout} ms" if timed_out and type(timeout) is int else "was cancelled"
        else:
            return
        yield TranscriptFinding(
            "hook-failed",
            text_of(attachment.get("toolUseID")),
            text=text,
            hook_event=text_of(attachment.get("hookEvent")),
            hook_command=text_of(attachment.get("command")),
            ts=ts,
        )


def _replaced(finding: TranscriptFinding, outcome: str) -> TranscriptFinding:
    return TranscriptFinding(
        finding.kind,
        finding.call_id,
        finding.tool,
        finding.input,
        outcome,
        finding.text,
        cwd=finding.cwd,
        agent_id=finding.agent_id,
        ts=finding.ts,
    )


def _blocks(content: object, kind: str) -> list[dict[str, Any]]:
    if type(content) is not list:
        return []
    return [block for block in content if type(block) is dict and block.get("type") == kind]


def _time(stamp: object) -> int:
    """Nanoseconds since the epoch of `2026-11-29T12:58:55.649Z`, or 0."""
    if type(stamp) is not str or len(stamp) > 40:
        return 0
    try:
        return int(datetime.fromisoformat(stamp).timestamp() * 1000) * 1_000_000
    except (ValueError, OverflowError, OSError):
        return 0
