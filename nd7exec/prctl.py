"""The prctl(2) calls that keep a session's processes together and name them (Linux; ctypes, no dependency)."""

from __future__ import annotations

import ctypes
import os
import sys

PR_SET_PDEATHSIG = 1
PR_SET_NAME = 15
PR_SET_CHILD_SUBREAPER = 36


def _prctl(option: int, value: int) -> None:
    if sys.platform != "linux":
        return
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.prctl(option, ctypes.c_ulong(value), ctypes.c_ulong(0), ctypes.c_ulong(0), ctypes.c_ulong(0)) != 0:
        raise OSError(ctypes.get_errno(), f"prctl {option}: {os.strerror(ctypes.get_errno())}")


def set_subreaper() -> None:
    """Become the parent of every orphan among this process's descendants."""
    _prctl(PR_SET_CHILD_SUBREAPER, 1)


def set_parent_death_signal(number: int, parent: int) -> None:
    """Get `number` when the parent dies; ProcessLookupError if `parent` is dead already."""
    _prctl(PR_SET_PDEATHSIG, number)
    if os.getppid() != parent:
        raise ProcessLookupError(f"the parent {parent} is gone")


def set_title(title: str) -> None:
    """What `ps` and `pkill` know this process as, by its short name and by its command line.

    A forked helper looks like the `python nd7 run claude` that it comes from: an agent's `pkill -f claude`, meant for
    something else, would ask it to end.  The command line is the memory that the arguments were given in.
    """
    if sys.platform != "linux":
        return
    libc = ctypes.CDLL(None, use_errno=True)
    libc.prctl(PR_SET_NAME, ctypes.c_char_p(title.encode()[:15]), 0, 0, 0)
    fd = os.open("/proc/self/stat", os.O_RDONLY | os.O_CLOEXEC)
    try:
        fields = os.read(fd, 4096).rpartition(b")")[2].split()
    finally:
        os.close(fd)
    start, end = int(fields[45]), int(fields[46])  # arg_start and arg_end, fields 48 and 49 of proc_pid_stat(5)
    if 0 < start < end:
        text = title.encode()[: end - start - 1]
        ctypes.memset(start, 0, end - start)
        ctypes.memmove(start, text, len(text))
