"""One tool call as far as it is known: the mutable state behind `ToolEvent`, and reading its parts from a frame."""

from __future__ import annotations

from typing import Any, Literal

from nd7core.audit.frame import Frame
from nd7core.events import CallState, ToolEvent

Origin = Literal["", "hook", "batch", "transcript"]


class Call:
    """A call as far as it is known.  `event` is what others see of it.

    A class of its own beside `ToolEvent`, because that one is frozen and a call changes two or three times:
    replacing a frozen one costs three times what changing this one does.
    """

    __slots__ = (
        "agent_id",
        "call_id",
        "cwd",
        "ended",
        "exit_code",
        "first_seq",
        "input",
        "last_seq",
        "nd7_session",
        "note",
        "origin",
        "original",
        "output",
        "revision",
        "shown_id",
        "started",
        "state",
        "tool",
    )

    def __init__(self, call_id: str, frame: Frame, tool: str, tool_input: dict[str, Any]) -> None:
        body = frame.body
        self.call_id = self.shown_id = call_id
        self.tool = tool
        self.input = tool_input
        self.original = False  # whether `input` is known to be what the agent gave
        self.state: CallState = "running"
        self.output = ""
        self.exit_code: int | None = None
        self.cwd = text_of(body.get("cwd"))
        self.agent_id = text_of(body.get("agent_id"))
        self.revision = number_of(body.get("policy_revision"))
        self.nd7_session = number_of(body.get("nd7_session"))
        self.origin: Origin = ""
        self.first_seq = self.last_seq = frame.seq
        self.started = frame.ts
        self.ended: int | None = None
        self.note = ""

    def event(self, session_id: str) -> ToolEvent:
        return ToolEvent(
            session_id,
            self.shown_id,
            self.tool,
            self.input,
            self.state,
            self.output,
            self.exit_code,
            self.cwd,
            self.agent_id,
            self.revision,
            self.nd7_session,
            self.origin,
            self.first_seq,
            self.last_seq,
            self.started,
            self.ended,
            self.note,
        )


def call_of(body: dict[str, Any]) -> tuple[str, str, dict[str, Any]]:
    """The id, tool and input in a body; "" and {} for what is not there."""
    tool_input = body.get("tool_input")
    return (
        text_of(body.get("tool_use_id")),
        text_of(body.get("tool_name")),
        tool_input if type(tool_input) is dict else {},
    )


def text_of(value: object) -> str:
    """The value if it is text, else ""."""
    return value if type(value) is str else ""


def number_of(value: object) -> int | None:
    """The value if it is a whole number, else None."""
    return value if type(value) is int else None
