"""Looking at and ending trees of processes through /proc (Linux): never by name, never a pid that was reused."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable, Iterable
from typing import NamedTuple


class Stat(NamedTuple):
    """Four fields of /proc/PID/stat (proc_pid_stat(5)); `start` is in clock ticks since boot."""

    parent: int
    group: int
    session: int
    start: int
    state: str


def stat_of(pid: int) -> Stat | None:
    """The state of a process or thread, or None if it is gone."""
    try:
        fd = os.open(f"/proc/{pid}/stat", os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return None
    try:
        text = os.read(fd, 4096)
    except OSError:  # it has ended since the open
        return None
    finally:
        os.close(fd)
    # The name between the parentheses is the process's own choice and may hold spaces and ")".
    fields = text[text.rfind(b")") + 2 :].split()
    if len(fields) < 20:
        return None
    return Stat(int(fields[1]), int(fields[2]), int(fields[3]), int(fields[19]), fields[0].decode("ascii", "replace"))


def table() -> dict[int, Stat]:
    """Every process that /proc shows."""
    found = {}
    for name in os.listdir("/proc"):
        if name.isdigit() and (stat := stat_of(int(name))):
            found[int(name)] = stat
    return found


def below(root: int, processes: dict[int, Stat]) -> set[int]:
    """The pids of all descendants of `root`, without itself."""
    children: dict[int, list[int]] = {}
    for pid, stat in processes.items():
        children.setdefault(stat.parent, []).append(pid)
    found: set[int] = set()
    todo = [root]
    while todo:
        for pid in children.get(todo.pop(), ()):
            if pid not in found:
                found.add(pid)
                todo.append(pid)
    return found


def group_is_orphaned(group: int, processes: dict[int, Stat]) -> bool:
    """Whether nobody would notice that a process group has stopped, and let it go on.

    As setpgid(2) has it: no member has a parent in another group of the same session.
    """
    for stat in processes.values():
        above = processes.get(stat.parent)
        if stat.group == group and above and above.group != group and above.session == stat.session:
            return False
    return True


def of_command(root: int, processes: dict[int, Stat]) -> set[int]:
    """The processes of one command: its whole session (setsid(2)) and whatever descends from any of those."""
    found = {pid for pid, stat in processes.items() if stat.session == root or pid == root}
    for pid in list(found):
        found |= below(pid, processes)
    return found


def send(pids: Iterable[int], number: int) -> None:
    """Signal each; one that has gone meanwhile is no error."""
    for pid in pids:
        try:
            os.kill(pid, number)
        except OSError:  # gone, or not ours to signal
            continue


def kill_all_below(
    root: int, reap: Callable[[], object], *, spare: set[int] | None = None, seconds: float = 5.0
) -> bool:
    """Kill every descendant of `root` until none is left, calling `reap` between.  Whether none was left in time.

    Works because whoever calls it is the subreaper of them all (prctl(2), PR_SET_CHILD_SUBREAPER): a process
    that loses its parent stays a descendant, so there is no way out of the tree.  They are stopped before
    they are killed, or a fork bomb would be faster than we are.  `spare` and its descendants are left alone.
    """
    end = time.monotonic() + seconds
    while True:
        processes = table()
        left = below(root, processes)
        for pid in spare or ():
            left -= {pid} | below(pid, processes)
        reap()
        left = {pid for pid in left if pid in processes and processes[pid].state not in "ZX"}
        if not left:
            return True
        if time.monotonic() > end:
            return False
        send(left, signal.SIGSTOP)
        send(left, signal.SIGKILL)
        time.sleep(0.002)


def reap_ended() -> list[tuple[int, int]]:
    """Collect every child that has ended: (pid, wait status) of each."""
    ended: list[tuple[int, int]] = []
    while True:
        try:
            pid, status = os.waitpid(-1, os.WNOHANG)
        except ChildProcessError:
            return ended
        if pid == 0:
            return ended
        ended.append((pid, status))


def reached_through(pid: int, zygote: int) -> int | None:
    """Which child of the zygote a process descends from: that child's pid, or None if it does not.

    Read twice, because a parent may end between two reads and its number be given to another: the chain
    counts only if every link is the same the second time and no child is older than its parent.
    """
    first = _chain(pid, zygote)
    if first is None or _chain(pid, zygote) != first:
        return None
    return first[-1][0]


def _chain(pid: int, zygote: int) -> list[tuple[int, int]] | None:
    chain: list[tuple[int, int]] = []
    while len(chain) < 4096:
        stat = stat_of(pid)
        if stat is None or (chain and stat.start > chain[-1][1]):
            return None
        chain.append((pid, stat.start))
        if stat.parent == zygote:
            return chain
        if stat.parent <= 1:
            return None
        pid = stat.parent
    return None
