"""What the dashboard's store holds: plain frozen data, made by the ingest thread, read by the screen.

The strings in here are the session's own, unescaped and hostile: whoever shows one goes through `nd7core.text.safe`.
They are bounded, so that a 10 MB output never reaches the thread that draws.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from nd7tui.look import Activity, RowState

if TYPE_CHECKING:
    # Not at run time: the package brings the whole engine along, a fifth of the time to the first paint.
    from nd7core.attribution.verdict import Source, Verdict

# What of a text is kept for showing.  A person reads a screenful; the log keeps everything.
COMMAND_LIMIT = 16_000
OUTPUT_LIMIT = 24_000


@dataclass(frozen=True, slots=True)
class Row:
    """One failed tool result, or one report by the agent, as the stream shows it.

    Attributes:
        id: stays the same while state and count change.
        ts, first_ts: of the latest and of the first time, nanoseconds since the epoch.
        session_id: the agent's own, which names the log; the store knows whose it is.
        nd7_session: pid of the `nd7 run` that it belongs to, or None in a log of others.
        tool: the agent's tool, or "" for words of the agent's.
        command: what was run, what another tool was asked to do, or what the agent said.
        output: what came back, cut round the line that the verdict rests on.
        cut: how many characters of the output were left out before and after.
        revision: of the profile then in force.
        count: how often the same was refused in this session.
        tied_to: of a report by the agent: id of the row of the call that it is about, or "".
        proof: of state `proved`: "nd7" where only its own try passed, "command" where the same command did.
        hidden: how many secrets are masked in its texts.
        bare: the same row with them, or None where there are none.
    """

    id: str
    ts: int
    session_id: str
    tool: str
    command: str
    output: str
    verdict: Verdict
    state: RowState = "open"
    count: int = 1
    nd7_session: int | None = None
    exit_code: int | None = None
    cwd: str = ""
    revision: int | None = None
    seq: int = 0
    cut: tuple[int, int] = (0, 0)
    first_ts: int = 0
    agent_id: str = ""
    note: str = ""
    tied_to: str = ""
    hidden: int = 0
    bare: Row | None = field(default=None, repr=False)
    proof: str = ""

    @property
    def source(self) -> Source:
        """Who refused."""
        return self.verdict.source


@dataclass(frozen=True, slots=True)
class GrantRow:
    """One grant of a live session, as its record has it; with pid 0 one that later sessions of a project start with."""

    pid: int
    path: str
    scope: str = "session"
    expires: int | None = None
    origin: str = ""
    created: int = 0
    uses: int = 0
    project: str = ""


@dataclass(frozen=True, slots=True)
class SessionRow:
    """One session: a live `nd7 run`, or a log that some session has left.

    Attributes:
        key: `pid:<n>` of a live one, else `log:<agent session id>`.
        waits_for: what it waits for, in a few words, while `activity` is waiting; how it ended once it has.
        counts: failed results by source.
        gaps: how many events are known to be missing from the log.
        canary: "lit" (a refusal was seen to be seen), "dark" (it was not), "" (no canary yet).
        problem: what is wrong with its directory or log, or "".
        light: the canary's state and why: "enforcing", "blind: ...", "log stopped: ...", "hooks dead: ...".
        foreign: another nd7 started it, whose rules this one neither knows nor changes.
        mute: runs a program that is no known agent, and no hook has told anything of it: its refusals are not seen.
    """

    key: str
    name: str
    pid: int | None = None
    session_ids: tuple[str, ...] = ()
    project: str = ""
    agent: str = ""
    home: str = ""
    activity: Activity = "starting"
    waits_for: str = ""
    started: int = 0
    changed: int = 0
    counts: dict[Source, int] = field(default_factory=dict, hash=False)
    grants: tuple[GrantRow, ...] = ()
    revision: int = 0
    enforced: dict[str, str] = field(default_factory=dict, hash=False)
    gaps: int = 0
    canary: str = ""
    problem: str = ""
    directory: str = ""
    light: str = ""
    mute: bool = False
    foreign: bool = False

    @property
    def live(self) -> bool:
        """Whether a process of it runs."""
        return self.pid is not None and self.activity not in ("ended", "orphaned")


@dataclass(frozen=True, slots=True)
class Deed:
    """One thing that nd7 itself did, with the command line that does the same."""

    ts: int
    what: str
    command: str
    result: str
    ok: bool = True


@dataclass(slots=True)
class Batch:
    """Everything that the ingest thread has found since the screen last took it: merged, never dropped."""

    rows: list[Row] = field(default_factory=list)
    sessions: tuple[SessionRow, ...] | None = None
    faults: list[str] = field(default_factory=list)
    caught_up: bool = False
    kept: tuple[GrantRow, ...] | None = None

    def __bool__(self) -> bool:
        return bool(self.rows or self.faults or self.sessions is not None or self.caught_up or self.kept is not None)
