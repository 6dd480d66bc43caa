"""The transcripts of a session's agents, read as they grow, as untrusted files.

Only regular files of this user below the agent's `projects/` are opened, each component without following
links; reading is bounded at every call and remembers where it was.
"""

from __future__ import annotations

import contextlib
import os
import re
from collections.abc import Sequence

from nd7core.audit.below import open_below, parts_below
from nd7core.transcript import Transcript, TranscriptFinding

MAX_FILES = 64
# What is kept of a background command's output: its end, as much as the agent itself keeps.
MAX_OUTPUT = 30_000
# A refused call whose next line has not come within this many polls of a quiet file was a "No".
_QUIET_POLLS = 3
_NAME = re.compile(r"[A-Za-z0-9_-]{1,128}")


class TranscriptFollower:
    """One transcript: where it is, how far it was read."""

    def __init__(self, session_id: str, root: str, parts: list[str], since: int, heard: dict[int, None]) -> None:
        self.session_id = session_id
        self.parts = parts
        self._root, self._since, self._heard = root, since, heard
        self._file = -1
        self._offset = 0
        self._quiet = 0
        self._transcript = Transcript(since=since, heard=heard)

    def read(self, limit: int) -> tuple[int, list[TranscriptFinding]]:
        """Read on, at most `limit` bytes; gives how many were read and what they tell.

        A file that is not there, or is no regular file of ours, tells nothing; one that was cut or replaced is
        read from its start again.
        """
        if self._file < 0 and not self._open():
            return 0, []
        status = os.fstat(self._file)
        if status.st_nlink == 0 or status.st_size < self._offset:
            self.close()
            self._offset, self._transcript = 0, Transcript(since=self._since, heard=self._heard)
            if not self._open():
                return 0, []
        data = os.pread(self._file, max(0, min(limit, 1 << 20)), self._offset)
        if not data:
            self._quiet += 1
            if self._transcript.unsettled and self._quiet >= _QUIET_POLLS:
                return 0, self._transcript.settle()
            return 0, []
        self._quiet = 0
        self._offset += len(data)
        return len(data), self._transcript.feed(data)

    def start_at_end(self) -> None:
        """Pass over what stands in the file now: the run before this one recorded it."""
        if self._file >= 0 or self._open():
            self._offset = os.fstat(self._file).st_size

    def settle(self) -> list[TranscriptFinding]:
        """What waits for a line that will not come."""
        return self._transcript.settle()

    def _open(self) -> bool:
        try:
            self._file = open_below(self._root, self.parts)
        except OSError:
            return False
        return True

    def close(self) -> None:
        """Let the file go."""
        if self._file >= 0:
            os.close(self._file)
            self._file = -1


class Transcripts:
    """All transcripts of one recorder.

    Args:
        agent_config: the agent's configuration directory, canonical; None follows nothing.
        output_roots: canonical directories below which background output may be read.
    """

    def __init__(self, agent_config: str | None, output_roots: Sequence[str]) -> None:
        self._root = None if agent_config is None else os.path.join(agent_config, "projects")
        self._output_roots = tuple(output_roots)
        self._followed: dict[tuple[str, ...], TranscriptFollower] = {}
        self._heard: dict[int, None] = {}
        self._next = 0

    def add(self, session_id: str, path: str, *, since: int, from_end: bool = False) -> None:
        """Follow a transcript that a payload names, if it is below the agent's `projects/`."""
        parts = None if self._root is None else parts_below(self._root, path)
        if self._root is None or parts is None or not path.endswith(".jsonl") or tuple(parts) in self._followed:
            return
        if len(self._followed) >= MAX_FILES:
            self._followed.pop(next(iter(self._followed))).close()
        follower = TranscriptFollower(session_id, self._root, parts, since, self._heard)
        self._followed[tuple(parts)] = follower
        if from_end:
            follower.start_at_end()

    def add_subagent(self, session_id: str, path: str, agent_id: str, *, since: int) -> None:
        """Follow a subagent's transcript, which lies in a folder beside its parent's."""
        if _NAME.fullmatch(agent_id) is None or not path.endswith(".jsonl"):
            return
        self.add(session_id, f"{path.removesuffix('.jsonl')}/subagents/agent-{agent_id}.jsonl", since=since)

    def poll(self, limit: int, now: float) -> list[tuple[TranscriptFollower, TranscriptFinding]]:
        """Read on in turn, at most about `limit` bytes in all."""
        found: list[tuple[TranscriptFollower, TranscriptFinding]] = []
        followers = list(self._followed.values())
        for step in range(len(followers)):
            if limit <= 0:
                break
            follower = followers[(self._next + step) % len(followers)]
            with contextlib.suppress(OSError):  # a file that cannot be read tells nothing, and the hooks go on
                taken, findings = follower.read(limit)
                limit -= taken
                found += [(follower, finding) for finding in findings]
            if now == float("inf"):
                found += [(follower, finding) for finding in follower.settle()]
        if followers:
            self._next = (self._next + 1) % len(followers)
        return found

    def output(self, path: str) -> str:
        """The end of a background command's output, or "" where it may not or cannot be read."""
        for root in self._output_roots:
            parts = parts_below(root, path)
            if parts is None:
                continue
            try:
                file = open_below(root, parts)
            except OSError:
                return ""
            try:
                size = os.fstat(file).st_size
                return os.pread(file, MAX_OUTPUT, max(0, size - MAX_OUTPUT)).decode("utf-8", "replace")
            except OSError:
                return ""
            finally:
                os.close(file)
        return ""

    def close(self) -> None:
        """Let all files go."""
        for follower in self._followed.values():
            follower.close()
        self._followed.clear()
