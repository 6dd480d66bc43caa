"""Two prctl(2) calls that keep a session's processes together (Linux; ctypes, no dependency)."""

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
