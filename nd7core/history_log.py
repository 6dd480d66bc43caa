"""One audit log read whole, from its beginning to its end: its denials and a summary of the session."""

from __future__ import annotations

import os
from array import array
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field

from nd7core.attribution import platform_named
from nd7core.attribution.verdict import Source
from nd7core.audit.frame import Damage, Frame
from nd7core.audit.log import EVENTS, AuditError, open_directory, read_head
from nd7core.audit.tail import FileFollower
from nd7core.denials import Denial, Denials
from nd7core.pairing import Pairing

_BEGINNING = 1 << 16


@dataclass(frozen=True, slots=True)
class SessionFacts:
    """What the first frame of a session's own log tells: `agent` is the adapter's name, or the program's."""

    name: str = ""
    project: str = ""
    agent: str = ""


def facts_of(frame: Frame) -> SessionFacts | None:
    """What a frame tells of its session, if it is the one that does; nothing confined can write it."""
    if frame.kind != "session" or frame.source != "nd7:recorder":
        return None
    name, project, agent = (frame.body.get(key) for key in ("name", "project", "agent"))
    program = frame.body.get("program")
    if not agent and type(program) is list and program and type(program[0]) is str:
        agent = program[0].rpartition("/")[2]
    texts = [value[:4096] if type(value) is str else "" for value in (name, project, agent)]
    return SessionFacts(texts[0], texts[1], texts[2][:60])


def told_of(directory: str) -> SessionFacts:
    """What the beginning of a log tells of its session, or its first working directory does.  Never raises."""
    follower = FileFollower(os.path.join(directory, EVENTS), os.path.basename(directory))
    try:
        frames = [item for item in follower.poll(_BEGINNING) if isinstance(item, Frame)]
    finally:
        follower.close()
    found = next((facts for frame in frames if (facts := facts_of(frame))), None)
    if found is not None:
        return found
    project = next((cwd[:4096] for frame in frames if type(cwd := frame.body.get("cwd")) is str), "")
    return SessionFacts(project.rstrip("/").rpartition("/")[2], project)


def promised(directory: str) -> int:
    """The number of the last frame that `head` names; -1 where there is none to be read.  Never raises.

    Asked before the log is read: frames may come meanwhile, and none may be fewer.
    """
    try:
        with open_directory(directory) as descriptor:
            head = read_head(descriptor)
    except (OSError, AuditError):
        return -1
    return -1 if head is None else head[0]


def cut_short(promise: int, last: int) -> str:
    """What is wrong with a log that ends at frame `last` (-1: holds none) and whose `head` named `promise`, or ""."""
    return f"frame {last + 1} is missing: head names frame {promise}, the log ends before it" if last < promise else ""


@dataclass(slots=True)
class LogReading:
    """What one log tells.

    Attributes:
        rows: denials and, with them, failures that are none of nd7's; in the order they first came.
        offsets: where each frame begins in the file, by its number, as far as numbers are dense.
        name: of the session, where its own log tells it.
        project: the session's, where its own log tells it, else the first directory that the agent worked in.
        damaged: how many places of the log are not as they were written.
        error: why the log could not be read, or "".
    """

    session_id: str
    rows: list[Denial] = field(default_factory=list)
    offsets: array[int] = field(default_factory=lambda: array("q"))
    frames: int = 0
    first: int = 0
    last: int = 0
    name: str = ""
    project: str = ""
    agent: str = ""
    nd7_session: int | None = None
    damaged: int = 0
    gaps: int = 0
    error: str = ""

    def counts(self) -> Counter[Source]:
        """Refusals by source, each repetition counted."""
        counts: Counter[Source] = Counter()
        for row in self.rows:
            counts[row.verdict.source] += row.count
        return counts

    def offset(self, seq: int) -> int:
        """Where a frame begins; the file's start where that is not known."""
        return self.offsets[seq] if 0 <= seq < len(self.offsets) else 0


def read_log(directory: str, *, home: str, platform: str = "linux", step: int = 1 << 20) -> LogReading:
    """Read a session's log whole."""
    reading = LogReading(os.path.basename(directory))
    for _ in read_in_steps(directory, reading, home=home, platform=platform, step=step):
        continue
    return reading


def read_in_steps(
    directory: str, reading: LogReading, *, home: str, platform: str = "linux", step: int = 1 << 20
) -> Iterator[int]:
    """Read a log into `reading`, giving the bytes read so far after each part of about `step` bytes.

    Never raises for what a log holds; the rows are there when the iterator ends.
    """
    follower = FileFollower(os.path.join(directory, EVENTS), reading.session_id)
    pairing, denials = Pairing(), Denials(home=home, platform=platform_named(platform))
    promise, last = promised(directory), -1
    try:
        while True:
            for item in follower.poll(step):
                if isinstance(item, Damage):
                    reading.damaged += item.kind != "version"
                    if item.kind == "file":
                        reading.error = item.reason
                    continue
                _about(reading, item)
                last = item.seq
                for event in pairing.feed(item):
                    denials.feed(event)
            if not follower.more:
                break
            yield follower.offset
    finally:
        follower.close()
    if not reading.damaged and (short := cut_short(promise, last)):
        reading.damaged, reading.error = 1, short
    for event in pairing.finish():
        denials.feed(event)
    reading.rows = denials.rows(all_failures=True)


def _about(reading: LogReading, frame: Frame) -> None:
    body = frame.body
    reading.frames += 1
    reading.first = reading.first or frame.ts
    reading.last = max(reading.last, frame.ts)
    if frame.seq == len(reading.offsets):
        reading.offsets.append(frame.offset)
    if facts := facts_of(frame):
        reading.name, reading.project, reading.agent = facts.name, facts.project, facts.agent
    if not reading.project and type(cwd := body.get("cwd")) is str:
        reading.project = cwd[:4096]
    if not reading.agent and frame.source.startswith("intent:"):
        reading.agent = frame.source[7:60]
    if reading.nd7_session is None and type(pid := body.get("nd7_session")) is int:
        reading.nd7_session = pid
    reading.gaps += frame.kind == "gap"
