"""What a process id means: who it is now, who started it, whether it is still the same one.

A pid alone names nobody: it is reused.  Together with the time at which its process started, and the
boot in which that was, it names one process for ever.
"""

from __future__ import annotations

import functools
import os
import sys

MAX_DEPTH = 256
"""Steps of a walk up the parents; a deeper tree is taken for a loop."""


def _stat_fields(pid: int) -> list[bytes] | None:
    """The fields of /proc/PID/stat from the state (field 3) on, or None (proc_pid_stat(5)).

    The command's name, field 2, may hold spaces and brackets: the last `)` ends it.
    """
    try:
        fd = os.open(f"/proc/{pid}/stat", os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return None
    try:
        data = os.read(fd, 4096)
    except OSError:
        # ESRCH: it ended between the open and the read.
        return None
    finally:
        os.close(fd)
    fields = data[data.rfind(b")") + 1 :].split()
    return fields if len(fields) >= 20 else None


@functools.cache
def _boot_id() -> str:
    try:
        fd = os.open("/proc/sys/kernel/random/boot_id", os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return ""
    try:
        return os.read(fd, 64).decode("ascii", "replace").strip()
    finally:
        os.close(fd)


def _ps(pid: int, column: str) -> str | None:
    """One column of `ps` for a pid, or None; for systems without /proc.  Not run on a Mac by us."""
    import subprocess  # not needed, and not cheap, where there is /proc

    try:
        done = subprocess.run(
            ["/bin/ps", "-o", f"{column}=", "-p", str(pid)],
            capture_output=True,
            timeout=5,
            env={"LC_ALL": "C", "TZ": "UTC", "PATH": "/usr/bin:/bin"},
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    text = done.stdout.decode("ascii", "replace").strip()
    return text if done.returncode == 0 and text else None


def start_time(pid: int) -> str | None:
    """When a process started, as a string to be compared and not read; None where there is no such process.

    On Linux the boot's id and clock ticks since the boot (field 22 of /proc/PID/stat): no clock that is
    set can change it, and no reboot can bring it back.  A zombie has ended.
    """
    if pid <= 0:
        return None
    if sys.platform == "darwin":
        return _ps(pid, "lstart")
    fields = _stat_fields(pid)
    if fields is None or fields[0] in (b"Z", b"X", b"x"):
        return None
    return f"{_boot_id()}:{fields[19].decode('ascii', 'replace')}"


def parent(pid: int) -> int | None:
    """The parent of a process, or None where it is gone or has none that is visible here."""
    if sys.platform == "darwin":
        text = _ps(pid, "ppid")
        found = int(text) if text is not None and text.isdigit() else 0
    else:
        fields = _stat_fields(pid)
        found = int(fields[1]) if fields is not None and fields[1].isdigit() else 0
    return found if found > 0 else None


def parents(pid: int) -> list[int]:
    """The ancestors of a process, nearest first, without itself.  Ends at pid 1, at a pid namespace's edge, or where
    one of them has just ended."""
    found: list[int] = []
    at = parent(pid)
    while at is not None and at not in found and len(found) < MAX_DEPTH:
        found.append(at)
        at = parent(at)
    return found


def exists(pid: int) -> bool:
    """Whether some process has this pid, whoever's it is."""
    return start_time(pid) is not None


def is_same(pid: int, started: str) -> bool:
    """Whether the process with this pid is the one that started then."""
    return bool(started) and start_time(pid) == started


def looks_confined() -> bool:
    """Whether this process runs under a sandbox's filter with no way to new privileges, as every process of a
    session does.  A hint for a clearer sentence, never a decision: others' sandboxes look the same."""
    try:
        fd = os.open("/proc/self/status", os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return False
    try:
        lines = os.read(fd, 8192).split(b"\n")
    finally:
        os.close(fd)
    return b"NoNewPrivs:\t1" in lines and b"Seccomp:\t2" in lines
