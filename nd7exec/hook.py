"""`nd7 record`: one hook payload on stdin into the audit log.

Inside a session it is the client's hook, which hands the payload to the supervisor.  Outside, where whoever
calls it may write the log anyway, it appends by itself, so that the format can be used by hand.
"""

from __future__ import annotations

import errno
import os
import platform
import sys
import time

from nd7core.audit import by_hand
from nd7core.errors import Nd7Error
from nd7core.paths import places
from nd7exec import client


def main() -> int:
    """Record stdin.  Exit status 0 whatever happens, as a hook must: an error is a line on stderr."""
    ts = time.time_ns()
    try:
        connection = client.rendezvous(client.RECORD)
    except OSError as error:
        if error.errno in (errno.EPROTONOSUPPORT, errno.EAFNOSUPPORT):
            return append(ts)
        return client.record()
    return client.record(connection)


def append(ts: int) -> int:
    """Append without a supervisor."""
    try:
        data = sys.stdin.buffer.read(64 << 20)
        state = places(os.environ).state
        frame = by_hand.record(state, data, ts, host=platform.node(), hook_ppid=os.getppid())
        if note := frame.body.get("nd7_note"):
            sys.stderr.write(f"nd7 record: {note}\n")
    except (Nd7Error, OSError) as error:
        reason = error.message if isinstance(error, Nd7Error) else error.strerror or str(error)
        sys.stderr.write(f"nd7 record: {reason}\n")
    return 0
