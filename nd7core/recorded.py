"""What the kernel or nd7's broker recorded as refused: frames with source `effect:...`, as evidence for a call."""

from __future__ import annotations

from collections import deque
from typing import Any

from nd7core.events import Note, ToolEvent

KINDS = {"denial": ("effect:landlock-audit", "effect:seccomp-audit"), "attempt": ("effect:nd7-broker",)}
"""Frame kinds and the sources that each may come from: nothing confined can write any."""

MOST = 10_000


def entries(body: dict[str, Any]) -> tuple[str, ...]:
    """What a frame's body says was refused, as `Failure.recorded` takes it.

    A path; `FOLDER/` for something made or removed directly in a folder, of which the kernel names the folder
    alone; `host:port`, with the host's address.

    Examples:
        >>> entries({"path": "/home/u", "within": True})
        ('/home/u/',)
        >>> entries({"target": "127.0.0.1:3000"})
        ('127.0.0.1:3000',)
    """
    path, target = body.get("path"), body.get("target")
    if isinstance(path, str) and path.startswith("/"):
        return (path.rstrip("/") + "/",) if body.get("within") is True else (path,)
    return (target,) if isinstance(target, str) and target else ()


class Refusals:
    """What was recorded in one session, the latest of it."""

    def __init__(self) -> None:
        self._found: deque[tuple[int, str, tuple[str, ...]]] = deque(maxlen=MOST)

    def feed(self, note: Note) -> bool:
        """Take a note; whether it was a record of a refusal."""
        if note.source not in KINDS.get(note.kind, ()):
            return False
        call = note.body.get("tool_use_id")
        if found := entries(note.body):
            self._found.append((note.ts, call if isinstance(call, str) else "", found))
        return True

    def of(self, event: ToolEvent) -> tuple[str, ...]:
        """What was refused to a call: what is tied to it, and of what is tied to none what came while it ran."""
        call, ended = event.call_id.partition("#")[0], event.ended or event.started
        found: dict[str, None] = {}
        for ts, tied, refused in self._found:
            if tied == call if tied else event.started <= ts <= ended:
                found |= dict.fromkeys(refused)
        return tuple(found)
