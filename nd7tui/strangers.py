"""Which logs belong to sessions of another nd7, whose frames do not name the `nd7 run` that they are of.

The frames of the existing nd7 tell which process called the hook.  Where that process still lives, its ancestors say
whose it is; where it has ended, a session in the same project that began before the log's last frame does, if there is
only one.  Without this such a session would stand there without a state, and its log as one that has ended.
"""

from __future__ import annotations

import os
from collections.abc import Iterable

from nd7core import process
from nd7core.sessions import Session
from nd7tui.tracker import Track


def tie(tracks: Iterable[Track], live: Iterable[Session]) -> bool:
    """Say of each log that names no session whose it is, where that can be told; whether any was tied."""
    sessions = [session for session in live if session.unsure]
    found = False
    for track in tracks if sessions else ():
        if track.nd7_session is None and (pid := _owner(track, sessions)) is not None:
            track.nd7_session = pid
            found = True
    return found


def _owner(track: Track, sessions: list[Session]) -> int | None:
    if track.caller:
        line = {track.caller, *process.parents(track.caller)}
        if owner := next((session.pid for session in sessions if session.pid in line), None):
            return owner
    same = [session.pid for session in sessions if _may_be(track, session)]
    return same[0] if len(same) == 1 else None


def _may_be(track: Track, session: Session) -> bool:
    record = session.record
    if record is None or track.activity == "ended" or track.cwd != record.project:
        return False
    try:
        status = os.stat(session.directory)
    except OSError:
        return False
    # Its making, where the system tells it; else its last change, which is not before that.
    return track.latest / 1e9 >= getattr(status, "st_birthtime", status.st_mtime)
