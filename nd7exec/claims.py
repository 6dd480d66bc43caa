"""What the zygote says, believed as far as the kernel bears it out.

The zygote lives in the session's domain.  Nothing of the session reaches it by any way that is known; should something
have taken it over all the same, a pid that it makes up must not become one that the unconfined supervisor signals, or
whose commands get the session's policy.
"""

from __future__ import annotations

import contextlib
import os

from nd7exec import processes


class Untrue(ValueError):
    """It said what cannot be: one sentence."""


def child(body: bytes, zygote: int) -> processes.Stat | None:
    """What the kernel says of a process that the zygote names as its child; None if that has ended, or the zygote has.

    A process group of that number is the session's then, too: only the process itself and its parent can have made it.

    Args:
        body: its pid in decimal, as the zygote wrote it.

    Raises:
        Untrue: it is another's child, or no pid at all.
    """
    pid = number(body)
    stat = processes.stat_of(pid)
    if stat is None or stat.parent == zygote:
        return stat
    if not stat.parent and processes.stat_of(pid) is None:
        return None  # it was just being taken down: the kernel names no parent of one then
    teller = processes.stat_of(zygote)
    if teller is None or teller.state in "ZX":
        return None  # its children are another's now
    raise Untrue(f"it named process {pid}, which is not its own, as one that it had started")


def number(body: bytes) -> int:
    """A whole number that a pid, a status or a time can be.  Raises Untrue."""
    if not body.isdigit() or len(body) > 19:
        raise Untrue("it said what is no number where one belongs")
    return int(body)


def status(body: bytes) -> int:
    """A process's status as wait(2) gives one.  Raises Untrue."""
    found = number(body)
    if found > 0xFFFF:
        raise Untrue(f"it told {found} as the status that a process ended with")
    return found


def signal_group(leader: int, start: int, signal_number: int) -> None:
    """Signal a process group, as long as its leader is the process that began at `start` (clock ticks since boot).

    The zygote could have collected it without a word, and its number could be another's by now.
    """
    stat = processes.stat_of(leader)
    if stat is not None and stat.start == start:
        with contextlib.suppress(OSError):
            os.killpg(leader, signal_number)
