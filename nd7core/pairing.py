"""From frames to what happened: each tool call paired with its result, under everything real logs hold.

Sans-IO: `Pairing.feed` takes one session's frames in order and gives events; the same `call_id` comes again
with a newer state whenever more is known.  A result can be told by three:

    its own hook (PostToolUse, PostToolUseFailure)  best: it has the output as it was
    PostToolBatch                                    the only word of calls that never ran
    the transcript                                   the only word of Esc, "No" and background ends

A better teller corrects a worse one, never the other way round, and nothing is told twice.  The input is
the original: the one of PreToolUse or PostToolBatch, for PostToolUse shows what a hook made of it.
"""

from __future__ import annotations

from typing import Any

from nd7core import claude_results as results
from nd7core.audit.frame import Frame
from nd7core.calls import Call, Origin, call_of, text_of
from nd7core.events import AgentWords, Note, SessionEvent, ToolEvent
from nd7core.words import Teller, Words

_RANK: dict[Origin, int] = {"": 0, "transcript": 1, "batch": 2, "hook": 3}

_REFUSED = "no hook told of a result: a hook or rule of the agent's refused it"
_BATCH_ONLY = "only the batch told of it"

# Calls kept open or remembered: a hostile session may start calls without end.
MAX_CALLS = 50_000


class Pairing:
    """The calls of one session.

    `running` is how many calls have no end yet, background ones not counted; `waiting` is what the person is asked
    (a tool's name or a notification's words), or "".
    """

    def __init__(self) -> None:
        self.session_id = ""
        self.waiting = ""
        self._calls: dict[str, Call] = {}
        self._running: dict[str, Call] = {}
        self._tasks: dict[str, Call] = {}
        self._lost: dict[str, str] = {}
        self._spoken: dict[str, list[str]] = {}
        self._words = Words()

    @property
    def running(self) -> int:
        return len(self._running)

    def feed(self, frame: Frame) -> list[SessionEvent]:
        """Take the next frame.  Never raises, whatever a frame holds."""
        self.session_id = frame.session_id
        kind, body = frame.kind, frame.body
        if kind == "tool_call":
            return self._tool_call(frame, body)
        if kind == "tool_result":
            if frame.source == "nd7:transcript":
                return self._transcript(frame, body)
            return self._tool_result(frame, body)
        if kind == "turn_end":
            self.waiting = ""
            return [
                *self._close(frame, "", "the turn ended without a result"),
                *self._last_words(frame),
                self._note(frame, kind, ""),
            ]
        if kind == "prompt":
            self.waiting = ""
            self._words.learn(kind, body, frame.ts)
            events = self._close(frame, "", "a new prompt came before a result")
            events.append(self._note(frame, kind, text_of(body.get("text"))))
            return events
        if kind == "session_start":
            return [self._note(frame, kind, text_of(body.get("reason")))]
        if kind == "session_end":
            self.waiting = ""
            events = self._close(frame, None, "the session ended without a result")
            events.append(self._note(frame, kind, text_of(body.get("reason"))))
            return events
        if kind == "hook":
            return self._hook(frame, body)
        if kind == "gap":
            return self._gap(frame, body)
        if kind == "words" and frame.source == "nd7:transcript":
            return self._said(frame, text_of(body.get("text")), text_of(body.get("agent_id")), "transcript")
        return [self._note(frame, kind, text_of(body.get("text")))]

    def finish(self) -> list[SessionEvent]:
        """Say that no more frames come: what still runs has no result."""
        events: list[SessionEvent] = []
        for call in list(self._running.values()):
            events.append(self._no_result(call, None, "the log ends without a result"))
        self._running.clear()
        return events

    # the hooks of one call

    def _tool_call(self, frame: Frame, body: dict[str, Any]) -> list[SessionEvent]:
        call_id, tool, tool_input = call_of(body)
        if not call_id:
            return [self._note(frame, frame.kind, "a call without an id")]
        self.waiting = ""
        known = self._calls.get(call_id)
        if known is not None and known.tool == tool:
            if known.original and known.input == tool_input:
                if known.note is _BATCH_ONLY:
                    known.state, known.note = "rejected", _REFUSED
                    return [known.event(frame.session_id)]
                return []  # two hooks told of one call
            if not known.original:
                # Its result was written first: hooks of a fast call overtake each other.
                known.input, known.original = tool_input, True
                known.cwd = text_of(body.get("cwd")) or known.cwd
                known.first_seq = min(known.first_seq, frame.seq)
                known.started = min(known.started, frame.ts)
                return [known.event(frame.session_id)]
        call = self._new(call_id, frame, tool, tool_input)
        call.original = True
        self._running[call_id] = call
        return [call.event(frame.session_id)]

    def _tool_result(self, frame: Frame, body: dict[str, Any]) -> list[SessionEvent]:
        call_id, tool, tool_input = call_of(body)
        if not call_id:
            return [self._note(frame, frame.kind, "a result without an id")]
        self.waiting = ""
        call = self._calls.get(call_id)
        if call is None:
            call = self._new(call_id, frame, tool, tool_input)
            duration = body.get("duration_ms")
            if isinstance(duration, (int, float)) and 0 <= duration < 1e9:
                call.started = frame.ts - int(duration * 1_000_000)
        elif call.origin == "hook":
            return []  # two hooks told of one result
        response = body.get("tool_response")
        if body.get("ok") is False:
            self._failed(call, response if type(response) is str else results.flat(response))
            more = body.get("nd7_more")
            if type(more) is dict and more.get("is_interrupt") is True:
                call.state = "interrupted"
        else:
            self._succeeded(call, response)
        return [self._ended(call, frame, "hook")]

    def _failed(self, call: Call, text: str) -> None:
        call.state = "failed"
        call.exit_code, call.output, call.note = results.read_failure(call.tool, text)

    def _succeeded(self, call: Call, response: object) -> None:
        call.state, call.note, call.exit_code = "succeeded", "", None
        call.output = results.flat(response)
        if type(response) is not dict:
            return
        task = response.get("backgroundTaskId")
        if type(task) is str and task:
            call.state, call.note = "background", f"runs on in the background as {task}"
            self._tasks[task] = call
            return
        if response.get("interrupted") is True:
            call.state = "interrupted"
        meaning = response.get("returnCodeInterpretation")
        if type(meaning) is str and meaning:
            call.note = meaning
        elif call.tool == "Bash" and call.state == "succeeded":
            call.exit_code = 0
        remark = response.get("stderr")  # never the command's: what the agent says about the call
        if call.tool == "Bash" and type(remark) is str and remark.strip():
            call.note = f"{call.note}; {remark.strip()}" if call.note else remark.strip()

    # PostToolBatch

    def _batch(self, frame: Frame, raw: dict[str, Any]) -> list[SessionEvent]:
        events: list[SessionEvent] = []
        calls = raw.get("tool_calls")
        for told in calls if type(calls) is list else []:
            if type(told) is not dict:
                continue
            call_id, tool, tool_input = call_of(told)
            if not call_id:
                continue
            call = self._calls.get(call_id)
            if call is None:
                call = self._new(call_id, frame, tool, tool_input)
                call.cwd, call.agent_id = text_of(raw.get("cwd")), text_of(raw.get("agent_id"))
                call.original = True
                self._from_batch(call, told.get("tool_response"), False)
            elif call.origin == "hook":
                if call.original or call.input == tool_input:
                    call.original = True
                    continue
                call.input, call.original = tool_input, True
                events.append(call.event(frame.session_id))
                continue
            elif call.origin == "batch":
                continue
            else:
                call.original = True
                self._from_batch(call, told.get("tool_response"), True)
            events.append(self._ended(call, frame, "batch"))
        return events

    def _from_batch(self, call: Call, response: object, announced: bool) -> None:
        """The state of a call of which only the batch tells, from what the model was told."""
        text = results.flat(response)
        task = results.background_id(text)
        if task:
            call.state, call.output, call.note = "background", "", f"runs on in the background as {task}"
            self._tasks[task] = call
            return
        call.output = text
        if results.says_person_refused(text) or results.says_agent_refused(text):
            call.state = "rejected"
        elif results.says_failed(call.tool, text):
            self._failed(call, text)
        elif call.call_id in self._lost:
            # The hook that would have told was lost, so the call may well have run.
            call.state = "failed" if self._lost[call.call_id] == "PostToolUseFailure" else "succeeded"
            call.note = "its hook's payload was lost; this is what the model was told"
        elif announced:
            # PreToolUse, then no Post hook: it never ran.  The text is a hook's own reason, in any words.
            call.state, call.note = "rejected", _REFUSED
        else:
            call.state, call.note = "succeeded", _BATCH_ONLY

    # the transcript, as nd7's supervisor writes it down

    def _transcript(self, frame: Frame, body: dict[str, Any]) -> list[SessionEvent]:
        call_id, tool, tool_input = call_of(body)
        outcome, task = body.get("outcome"), text_of(body.get("task_id"))
        call = self._calls.get(call_id) if call_id else None
        if call is None and task:
            call = self._tasks.get(task)
        if outcome == "background":
            if call is None:
                return [self._note(frame, "background", text_of(body.get("text")))]
            if call.state not in ("background", "running", "no-result"):
                return []
        elif call is None:
            if not call_id:
                return [self._note(frame, frame.kind, text_of(body.get("text")))]
            call = self._new(call_id, frame, tool, tool_input)
            call.original = True
        elif _RANK[call.origin] > _RANK["transcript"] or (call.origin == "transcript" and call.state == outcome):
            return []
        text = results.flat(body.get("tool_response"))
        if outcome in ("rejected", "interrupted"):
            call.state, call.output = outcome, text
            call.note = "the person said no" if outcome == "rejected" else "the person interrupted it"
        elif body.get("ok") is False:
            self._failed(call, text)
        else:
            call.state, call.output = "succeeded", text
        code = body.get("exit_code")
        if type(code) is int:
            call.exit_code = code
        if outcome == "background":
            self._tasks.pop(task, None)
            call.note = text_of(body.get("text")) or "ended in the background"
        if outcome == "typed":
            call.note = "typed by the person with !"
        events: list[SessionEvent] = [self._ended(call, frame, "transcript")]
        if outcome == "interrupted" and call.tool in ("Agent", "Task"):
            # Esc ends the subagents with their call, and no hook of theirs tells.
            for inner in [other for other in self._running.values() if other.agent_id]:
                events.append(self._no_result(inner, frame, "its agent was interrupted"))
        return events

    # everything else

    def _hook(self, frame: Frame, body: dict[str, Any]) -> list[SessionEvent]:
        raw = body.get("raw")
        event = text_of(body.get("hook_event_name"))
        if type(raw) is not dict:
            return [self._note(frame, event or "hook", "")]
        agent_id = text_of(raw.get("agent_id"))
        if event == "PostToolBatch":
            self.waiting = ""
            return self._batch(frame, raw)
        if event == "MessageDisplay":
            return self._displayed(frame, raw)
        if event == "SubagentStop":
            return [
                *self._close(frame, agent_id, "the subagent ended without a result"),
                *self._last_words(frame),
            ]
        if event == "SubagentStart":
            self._words.learn(frame.kind, body, frame.ts)
        elif event == "StopFailure":
            self.waiting = ""
            events = self._close(frame, agent_id, "the turn failed without a result")
            events.append(self._note(frame, event, text_of(raw.get("last_assistant_message"))))
            return events
        elif event == "PermissionRequest":
            self.waiting = f"permission for {text_of(raw.get('tool_name'))}"
        elif event == "Notification":
            self.waiting = text_of(raw.get("message"))
        return [self._note(frame, event, _hook_text(event, raw))]

    def _gap(self, frame: Frame, body: dict[str, Any]) -> list[SessionEvent]:
        call_id = text_of(body.get("tool_use_id"))
        if call_id and len(self._lost) < MAX_CALLS:
            self._lost[call_id] = text_of(body.get("hook_event_name"))
        return [self._note(frame, frame.kind, text_of(body.get("text")) or text_of(body.get("reason")))]

    def _displayed(self, frame: Frame, raw: dict[str, Any]) -> list[SessionEvent]:
        """Streamed text, in pieces; it counts when the last has come."""
        message, delta = text_of(raw.get("message_id")), text_of(raw.get("delta"))
        parts = self._spoken.setdefault(message, [])
        if len(parts) < 10_000:
            parts.append(delta)
        if raw.get("final") is not True:
            if len(self._spoken) > 100:
                self._spoken.pop(next(iter(self._spoken)))
            return []
        del self._spoken[message]
        return self._said(frame, "".join(parts), text_of(raw.get("agent_id")), "display")

    def _said(self, frame: Frame, text: str, agent_id: str, teller: Teller) -> list[SessionEvent]:
        new = self._words.new(agent_id, text, frame.ts, teller)
        return [AgentWords(frame.session_id, new, frame.seq, frame.ts, agent_id)] if new else []

    def _last_words(self, frame: Frame) -> list[SessionEvent]:
        agent_id, new = self._words.learn(frame.kind, frame.body, frame.ts)
        return [AgentWords(frame.session_id, new, frame.seq, frame.ts, agent_id)] if new else []

    def _note(self, frame: Frame, kind: str, text: str) -> Note:
        line = text if len(text) <= 300 else text[:300]
        return Note(frame.session_id, kind, line.partition("\n")[0], frame.seq, frame.ts, frame.body, frame.source)

    def _new(self, call_id: str, frame: Frame, tool: str, tool_input: dict[str, Any]) -> Call:
        call = Call(call_id, frame, tool, tool_input)
        known = self._calls.pop(call_id, None)
        if known is not None:
            # An id used again for another call must not overwrite what is known of the first.
            number = int(known.shown_id.rpartition("#")[2]) + 1 if known.shown_id != call_id else 2
            call.shown_id = f"{call_id}#{number}"
            call.note = "this call's id was used before"
        elif len(self._calls) >= MAX_CALLS:
            self._calls.pop(next(iter(self._calls)))
        self._calls[call_id] = call
        return call

    def _ended(self, call: Call, frame: Frame, origin: Origin) -> ToolEvent:
        self._running.pop(call.call_id, None)
        call.origin = origin
        call.last_seq = max(call.last_seq, frame.seq)
        call.ended = None if call.state == "background" else frame.ts
        return call.event(frame.session_id)

    def _close(self, frame: Frame, agent_id: str | None, note: str) -> list[SessionEvent]:
        """End what still runs of one agent, or of all: nobody tells of it any more."""
        if not self._running:
            return []
        ending = [call for call in self._running.values() if agent_id is None or call.agent_id == agent_id]
        return [self._no_result(call, frame, note) for call in ending]

    def _no_result(self, call: Call, frame: Frame | None, note: str) -> ToolEvent:
        self._running.pop(call.call_id, None)
        call.state, call.note = "no-result", note
        if frame is not None:
            call.last_seq, call.ended = frame.seq, frame.ts
        return call.event(self.session_id)


def _hook_text(event: str, raw: dict[str, Any]) -> str:
    if event == "PermissionRequest":
        tool_input = raw.get("tool_input")
        command = text_of(tool_input.get("command")) if type(tool_input) is dict else ""
        return (
            f"asks for {text_of(raw.get('tool_name'))}: {command}"
            if command
            else f"asks for {text_of(raw.get('tool_name'))}"
        )
    if event == "CwdChanged":
        return f"{text_of(raw.get('old_cwd'))} -> {text_of(raw.get('new_cwd'))}"
    for key in ("message", "prompt", "trigger", "agent_type", "reason", "source", "error"):
        if text := text_of(raw.get(key)):
            return text
    return ""
