"""Recording a payload without a supervisor: for `nd7 record` outside a session, where its caller may write the log.

Nobody vouches for such a frame, and it says so by lacking `nd7_session`.
"""

from __future__ import annotations

import contextlib
import os

from nd7core.audit.frame import Frame
from nd7core.audit.log import AuditError, Log, log_directory
from nd7core.audit.recorder import gap_body
from nd7core.hooks import SOURCE, HookError, frame_of


def record(state_dir: str, payload: bytes, ts: int, *, host: str | None = None, hook_ppid: int | None = None) -> Frame:
    """Append one hook payload to the log that it names.  Any number may do so at once.

    Args:
        state_dir: nd7's state directory.
        ts: nanoseconds since the epoch, of the hook's start.

    Raises HookError for what is no payload, AuditError for a log that cannot be written.  Nothing is written then,
    but for a gap in the log of a session that a payload too large or broken can still be seen to belong to.
    """
    try:
        read = frame_of(payload, hook_ppid=hook_ppid)
    except HookError as error:
        with contextlib.suppress(AuditError):  # the caller gets the first error, which is the one to mend
            directory = log_directory(state_dir, error.facts.get("session_id", ""))
            if os.path.isdir(directory):
                Log(directory, host=host).append("gap", gap_body(payload, error), source="nd7:recorder", ts=ts)
        raise
    log = Log(log_directory(state_dir, read.session_id), host=host)
    return log.append(read.kind, read.body, source=SOURCE, ts=ts)
