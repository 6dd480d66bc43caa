"""The supervisor's own processes: forking them, talking to them, waiting for their end.

All are forked from a process with one thread, so at any time; each keeps nothing open but what it is given.
"""

from __future__ import annotations

import contextlib
import errno
import os
import resource
import select
import signal
import sys
import time
from collections.abc import Callable, Collection

from nd7core.errors import Nd7Error
from nd7core.paths import Places
from nd7core.policy.rules import LinuxRules
from nd7exec import scribe, warden, wire
from nd7exec.commands import Plan
from nd7exec.lifecycle import Session
from nd7exec.loop import Loop
from nd7exec.wire import Link, Message

END_SECONDS = 8.0
MOST_FILES = 1 << 16  # a thousand commands at once must not run out of descriptors
Receive = Callable[[Message], object]


class Colleague:
    """A link to one process of ours, watched by the loop: each message goes to `receive`, the end to `gone`."""

    def __init__(self, loop: Loop, link: Link, receive: Receive, gone: Callable[[], object]) -> None:
        self.loop, self.link, self._receive, self._gone = loop, link, receive, gone
        self._told_gone = False

    def watch(self) -> None:
        """Watch, for writing too while something is queued."""
        if not self.link.closed:
            self.loop.watch(self.link.fileno(), self.read, self._flush if self.link.pending else None)

    def read(self) -> None:
        """Take what is there now."""
        while message := self.link.receive():
            self._receive(message)
        if self.link.closed and not self._told_gone:
            self._told_gone = True
            self.loop.forget(self.link.fileno())
            self._gone()

    def tell(self, kind: bytes, body: bytes = b"", fds: Collection[int] = ()) -> None:
        """Send, without ever waiting.  Raises OSError where the descriptors cannot be duplicated."""
        self.link.send(kind, body, tuple(fds))
        self.watch()

    def _flush(self) -> None:
        self.link.flush()
        self.watch()

    def close(self) -> None:
        self.loop.forget(self.link.fileno())
        self._told_gone = True
        self.link.close()


def as_child(handled: Collection[int], keep: Collection[int]) -> None:
    """In a forked process: nothing of the supervisor's stays open but 0, 1, 2 and `keep`, no handler stays."""
    signal.set_wakeup_fd(-1)
    for number in handled:
        signal.signal(number, signal.SIG_DFL)
    kept = {0, 1, 2, *keep}
    for name in os.listdir("/proc/self/fd" if os.path.isdir("/proc/self/fd") else "/dev/fd"):
        if int(name) not in kept:
            with contextlib.suppress(OSError):  # the listing's own descriptor is closed already
                os.close(int(name))


def fork_scribe(session: Session, places: Places, directory: str, handled: Collection[int]) -> tuple[int, Link]:
    """The log's writer: its pid and our end.  Raises OSError where nothing can be forked just now."""
    ours, theirs = wire.pair()
    with theirs:
        try:
            pid = os.fork()
        except OSError:
            ours.close()
            raise
        if pid == 0:
            as_child(handled, [theirs.fileno()])
            scribe.main(Link(theirs), places, session, directory)
    return pid, Link(ours)


def planned(
    session: Session,
    floor: LinuxRules,
    terminal: frozenset[int],
    limit: tuple[int, int],
    ignored: frozenset[int],
) -> Callable[[int, int], Plan]:
    """What the zygote is told before it is forked, once its two pipes are there.

    Args:
        terminal: which of 0, 1, 2 are to be the session's own terminal.
        limit: RLIMIT_NOFILE as the person had it.
        ignored: signals that the person has had ignored.
    """

    def plan(offer: int, taken: int) -> Plan:
        return Plan(
            program=session.program,
            argv=session.argv,
            environ=session.environ,
            cwd=session.record.project,
            floor=floor,
            shell=session.shell,
            offer=offer,
            taken=taken,
            terminal=terminal,
            umask=umask(),
            open_files=limit,
            ignored=ignored,
            records=session.kernel_records,
        )

    return plan


class Household:
    """Warden and zygote, as they were forked.

    Attributes:
        warden, zygote: pids.
        to_warden, to_zygote: our ends.
        offered, take_back: the pipes of `confinement.take`.
    """

    def __init__(self, plan: Callable[[int, int], Plan], sweep: Callable[[], None], handled: Collection[int]):
        """Fork both.  `plan` is given the zygote's two pipes.  Raises OSError or Nd7Error."""
        warden_ours, warden_end = wire.pair()
        zygote_ours, zygote_end = wire.pair()
        self.offered, offer = os.pipe()
        taken, self.take_back = os.pipe()
        self.to_warden, self.to_zygote = Link(warden_ours), Link(zygote_ours)
        for stream in (sys.stdout, sys.stderr):
            if stream is not None:  # what is in the buffer would be written by each fork
                stream.flush()
        self.warden = os.fork()
        if self.warden == 0:
            as_child(handled, [warden_end.fileno(), zygote_end.fileno(), offer, taken])
            warden.main(Link(warden_end), plan(offer, taken), Link(zygote_end), sweep)
        warden_end.close()
        zygote_end.close()
        os.close(offer)
        os.close(taken)
        self.zygote = self._first_word()

    def _first_word(self) -> int:
        """The zygote's pid, which the warden says first.  Blocks: nothing of ours is under the filter yet."""
        while not self.to_warden.closed:
            select.select([self.to_warden], [], [], END_SECONDS)
            message = self.to_warden.receive()
            if message:
                return int(message.body)
        raise Nd7Error("the session's warden could not be started", exit_code=126)


def raise_limit() -> tuple[int, int]:
    """Raise this process's RLIMIT_NOFILE as far as is useful; returns what it was, for the person's programs."""
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    most = MOST_FILES if before[1] == resource.RLIM_INFINITY else min(before[1], MOST_FILES)
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(most, before[0]), before[1]))
    return before


def umask() -> int:
    """This process's umask."""
    value = os.umask(0o077)
    os.umask(value)
    return value


def wait_for(pid: int) -> None:
    """Wait until a child of ours is gone, for END_SECONDS at most; then it is killed."""
    end = time.monotonic() + END_SECONDS
    while pid:
        try:
            if os.waitpid(pid, os.WNOHANG)[0]:
                return
        except OSError as error:
            if error.errno != errno.ECHILD:
                raise
            return
        if time.monotonic() > end:
            os.kill(pid, signal.SIGKILL)
        time.sleep(0.005)
