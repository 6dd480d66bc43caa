"""Which processes belong to a session, as the kernel tells it."""

from __future__ import annotations

import os
from typing import Final

from nd7exec.linux import syscalls

_DEEPEST: Final = 512


class Membership:
    """Tells a session's processes from others'.

    With namespaces a process belongs when it is in the session's inner user namespace, which it can
    neither leave nor be put into from outside.  Without them it belongs when the zygote is among its
    ancestors; the zygote is a subreaper, so an orphan stays below it as long as it lives.
    """

    def __init__(self, zygote_pid: int, inner_ns: str) -> None:
        self._zygote, self._namespace = zygote_pid, inner_ns

    def contains(self, pid: int) -> bool:
        """Whether a process (or thread) belongs; False for one that is gone or may not be looked at.

        The zygote does not, although it lives there: nobody in the session has any business with it.
        """
        if pid <= 0 or pid == self._zygote:
            return False
        if self._namespace:
            try:
                return os.readlink(f"/proc/{pid}/ns/user") == self._namespace
            except OSError:
                return False
        for _ in range(_DEEPEST):
            if pid == self._zygote:
                return True
            if pid <= 1:
                return False
            pid = int(status_field(pid, b"PPid") or 0)
        return False

    def group_inside(self, group: int) -> bool:
        """Whether a process group has members and all of them belong."""
        members = []
        for name in os.listdir("/proc"):
            if name.isdigit() and _process_group(int(name)) == group:
                members.append(int(name))
        return bool(members) and all(self.contains(pid) for pid in members)


def _process_group(pid: int) -> int:
    try:
        return os.getpgid(pid)
    except OSError:
        return -1


def status_field(pid: int, name: bytes) -> str:
    """A field of /proc/<pid>/status (pid may be a thread), or "" where there is none."""
    try:
        data = syscalls.read_file(f"/proc/{pid}/status")
    except OSError:
        return ""
    _, found, rest = (b"\n" + data).partition(b"\n" + name + b":")
    return rest.split(b"\n", 1)[0].strip().decode(errors="replace") if found else ""


def thread_group(tid: int) -> int:
    """The process that a thread belongs to, 0 where it is gone."""
    return int(status_field(tid, b"Tgid") or 0)
