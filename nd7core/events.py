"""What happened in a session, after calls and results have been paired.

The audit log holds frames; `nd7core.pairing` makes these of them; attribution and the dashboard
read nothing else.  Everything in here comes from the confined side and is hostile: it is shown
only through `nd7core.text.safe`.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Literal

CallState = Literal["running", "succeeded", "failed", "rejected", "interrupted", "background", "no-result"]


@dataclass(frozen=True, slots=True)
class ToolEvent:
    """One tool call and, once there is one, its result.

    Attributes:
        session_id: the agent's own session id, which names the audit log.
        call_id: the agent's `tool_use_id`.
        tool: Bash, Write, Edit, Read, ...
        input: the tool's input as the agent gave it (the original, never a rewritten one).
        state: `rejected` is a person's "No" or a rule of the agent's own; `interrupted` is Esc or a
            kill; `background` runs on; `no-result` is a call whose end nobody reported.
        output: what came back, stdout and stderr merged, without the "Exit code N" line.
        exit_code: of a Bash command where known; None where the agent does not tell.
        revision: of the policy that was in force when the call started, or None in a log of others.
        origin: who told of the result: its own hook, PostToolBatch, or the transcript.
        first_seq, last_seq: of the frames that this rests on.
        started, ended: nanoseconds since the epoch; `ended` is None while it runs.
    """

    session_id: str
    call_id: str
    tool: str
    input: dict[str, Any] = field(hash=False)
    state: CallState
    output: str = ""
    exit_code: int | None = None
    cwd: str = ""
    agent_id: str = ""
    revision: int | None = None
    nd7_session: int | None = None
    origin: Literal["", "hook", "batch", "transcript"] = ""
    first_seq: int = 0
    last_seq: int = 0
    started: int = 0
    ended: int | None = None
    note: str = ""

    @property
    def command(self) -> str:
        """Bash's command, or "" for another tool."""
        value = self.input.get("command") if self.tool == "Bash" else None
        return value if isinstance(value, str) else ""


@dataclass(frozen=True, slots=True)
class AgentWords:
    """What the agent said, told once: in the middle of a turn or at its end, by whichever of
    `nd7core.words`' tellers came first.

    Attributes:
        seq: of the frame that told it, which may stand behind those of later calls.
        ts: when it was said, nanoseconds since the epoch: what is earlier was known to the agent.
    """

    session_id: str
    text: str
    seq: int
    ts: int
    agent_id: str = ""


@dataclass(frozen=True, slots=True)
class Note:
    """A frame that is neither a call nor words: a prompt, a start, a gap, a grant, the canary.

    `kind` is the frame's kind (or the hook event's name for kind `hook`), `text` one line about it, `source` the
    frame's.
    """

    session_id: str
    kind: str
    text: str
    seq: int
    ts: int
    body: dict[str, Any] = field(default_factory=dict, hash=False)
    source: str = ""


SessionEvent = ToolEvent | AgentWords | Note
