"""Recording a payload without a supervisor: for `nd7 record` outside a session, where its caller may write the log.

Nobody vouches for such a frame, and it says so by lacking `nd7_session`.
"""

from __future__ import annotations

from nd7core.audit.frame import Frame
from nd7core.audit.log import Log, log_directory
from nd7core.hooks import SOURCE, frame_of


def record(state_dir: str, payload: bytes, ts: int, *, host: str | None = None, hook_ppid: int | None = None) -> Frame:
    """Append one hook payload to the log that it names.  Any number may do so at once.

    Args:
        state_dir: nd7's state directory.
        ts: nanoseconds since the epoch, of the hook's start.

    Raises HookError for what is no payload, AuditError for a log that cannot be written; nothing is written then.
    """
    read = frame_of(payload, hook_ppid=hook_ppid)
    return Log(log_directory(state_dir, read.session_id), host=host).append(read.kind, read.body, source=SOURCE, ts=ts)
