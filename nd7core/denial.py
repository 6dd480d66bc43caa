"""One denial as a row: what it is, how often it came, what has become of it, and how it is written as JSON."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Literal

from nd7core.attribution.failure import BASH_TOOLS
from nd7core.attribution.verdict import Verdict
from nd7core.events import AgentWords, ToolEvent

State = Literal["open", "granted", "proved", "repeated", "obsolete"]
Tie = Literal["", "confirmed", "unconfirmed", "contradicted"]
Proof = Literal["", "nd7", "command"]
STATES: tuple[State, ...] = ("open", "granted", "proved", "repeated", "obsolete")


CONFIRMED = "The agent reports it, and an earlier call shows it"
"""How the reason of a report starts that is tied to a call."""


@dataclass(frozen=True, slots=True)
class Denial:
    """One row: a refusal, however often it came, or a failure that was none of nd7's.

    Attributes:
        id: stable over runs: the session and the frame that it first rests on.
        nd7_session: the pid of `nd7 run`, None where the log does not tell.
        ts, last_ts: of the first and the latest call, nanoseconds since the epoch.
        verdict: of the latest.
        state: `granted` carries `revision`; `repeated` came again after its grant; `obsolete` passes now without one.
        count: how often it came.
        event: the latest call or words.
        tie: of a model's report: whether an earlier call bears it out.
        tied_to: that call's row, "" where there is none.
        proof: of state `proved`: whether the same command passed, or only nd7's own try of the operation.
    """

    id: str
    session_id: str
    nd7_session: int | None
    ts: int
    last_ts: int
    tool: str
    command: str
    verdict: Verdict
    event: ToolEvent | AgentWords = field(repr=False)
    state: State = "open"
    revision: int | None = None
    count: int = 1
    agent_id: str = ""
    cwd: str = ""
    tie: Tie = ""
    tied_to: str = ""
    calls: tuple[str, ...] = ()
    proof: Proof = ""

    @property
    def denied(self) -> bool:
        """Whether it is a denial at all, and not a failure of somebody else's."""
        return self.verdict.source != "none"

    @property
    def key(self) -> tuple[str, ...]:
        """What makes two refusals the same."""
        verdict = self.verdict
        what = verdict.target or self.command[:500]
        bash = "bash" if self.tool in BASH_TOOLS else self.tool
        return self.session_id, verdict.source, verdict.operation, what, bash, verdict.owner


@dataclass(frozen=True, slots=True)
class Proposal:
    """One grant that lets several refusals through."""

    session_id: str
    grant: str
    denials: tuple[str, ...]


def as_fields(verdict: Verdict) -> dict[str, Any]:
    """A verdict as `nd7 explain` and `nd7 denials` write it; `exec` is what the format calls running a program."""
    operation = "exec" if verdict.operation == "execute" else verdict.operation
    fields: dict[str, Any] = {
        "source": verdict.source,
        "evidence": verdict.evidence,
        "operation": operation,
        "target": verdict.target or None,
        "targets": list(verdict.targets),
        "remedy": verdict.remedy,
        "grant": verdict.grant or None,
        "reason": verdict.reason,
    }
    if verdict.owner:
        fields["owner"] = verdict.owner
    if verdict.line:
        fields["line"] = verdict.line
    if verdict.contradiction:
        fields["contradiction"] = verdict.contradiction
    return fields


def denial_fields(row: Denial) -> dict[str, Any]:
    """A row as `nd7 denials --json` writes it."""
    fields: dict[str, Any] = {
        "id": row.id,
        "session": row.session_id,
        "nd7_session": row.nd7_session,
        "ts": row.ts,
        "last_ts": row.last_ts,
        "tool": row.tool,
        "command": row.command,
        "state": row.state,
        "revision": row.revision,
        "count": row.count,
        **as_fields(row.verdict),
    }
    if row.tie:
        fields["tie"] = row.tie
        fields["tied_to"] = row.tied_to or None
    return fields
