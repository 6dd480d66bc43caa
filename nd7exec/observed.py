"""What was refused to a session's processes, by the kernel or by the broker, tied to the command that met it.

A Landlock record names the domain that denied, and once for each domain the process that entered it: the zygote's child
that became a command, or the agent.  So a record is tied to its command by what the kernel says, not by a name.  An
attempt that the broker refused is tied by the caller's ancestors, while it still waits for the answer.  A record of a
system call that the filter refused names the process alone, which may have ended by then: what cannot be tied is told
as that.

What the kernel's records cannot show: with namespaces most writes outside meet a read-only mount first (EROFS), of
which there is no record; and what the broker decides itself (connections, datagrams) never reaches Landlock.
"""

from __future__ import annotations

import errno
import os
import time
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

from nd7exec import processes
from nd7exec.linux import confinement
from nd7exec.linux.kernel_audit import CallRefusal, KernelAudit, KernelDenial, why_not
from nd7exec.loop import Loop, Timer

MOST_ENDED = 512
MOST_WAITING = 256
MOST_FOLDED = 512
PER_SECOND, BURST = 20.0, 100.0
FOLD_SECONDS = 1.0
WAIT_SECONDS = 0.5  # a record may overtake the zygote's word of the command

Tell = Callable[[str, str, dict[str, Any], bytes], object]


@dataclass(frozen=True, slots=True)
class Command:
    """One command, as it was started.

    Attributes:
        started: nanoseconds since the epoch.
        by_agent: it claims to be one of the agent's own, of which hooks tell.
        text: what the shell got, cut short where it is long.
        canary: nd7's own, whose refusals are wanted.
    """

    started: int
    by_agent: bool
    text: bytes
    canary: bool = False


def operation(blockers: tuple[str, ...]) -> str:
    """The missing rights in the words of a denial: read, write, execute, network, signal or other.

    Examples:
        >>> operation(("fs.write_file", "fs.truncate")), operation(("net.connect_tcp",)), operation(("ptrace",))
        ('write', 'network', 'signal')
    """
    if any(blocker.startswith("net.") for blocker in blockers):
        return "network"
    if set(blockers) & {"scope.signal", "ptrace"}:
        return "signal"
    if set(blockers) <= {"fs.read_file", "fs.read_dir"}:
        return "read" if blockers else "other"
    if blockers == ("fs.execute",):
        return "execute"
    return "write" if any(blocker.startswith("fs.") for blocker in blockers) else "other"


def body_of(denial: KernelDenial | CallRefusal, tied_by: str) -> dict[str, Any]:
    """A `denial` frame's body; the scribe adds the agent's call."""
    if isinstance(denial, CallRefusal):
        told = "refused" if denial.action == "refused" else "killed for"
        text = f"the session's filter {told} a system call of {denial.comm or 'a process'}: {denial.call}"
        of = {"call": denial.call, "action": denial.action, "pid": denial.pid, "comm": denial.comm, "exe": denial.exe}
        return {"text": text, "operation": "other", **of, "tied_by": tied_by, "recorded": denial.ts}
    what = operation(denial.blockers)
    where = f"in {denial.path}" if denial.within else denial.path or denial.target
    body: dict[str, Any] = {
        "text": f"the kernel refused {denial.comm or 'a process'}: {what} {where}".rstrip(),
        "operation": what,
        "blockers": list(denial.blockers),
    }
    if denial.path:
        body |= {"path": denial.path, "within": denial.within}
    if denial.target:
        body["target"] = denial.target
    if denial.pid:
        body |= {"pid": denial.pid, "comm": denial.comm, "exe": denial.exe}
        body["errno"] = errno.errorcode.get(denial.error, str(denial.error))
    return body | {"domain": denial.domain, "tied_by": tied_by, "recorded": denial.ts}


@dataclass(slots=True)
class _Folded:
    """The same denial of the same domain: told once at first, then counted and told each second."""

    body: dict[str, Any]
    text: bytes
    count: int = 1


@dataclass(slots=True)
class Ledger:
    """Folds and limits what of a stream of denials is told."""

    tell: Callable[[dict[str, Any], bytes], object]
    _folded: OrderedDict[tuple[object, ...], _Folded] = field(default_factory=OrderedDict)
    _tokens: float = BURST
    _then: float = 0.0
    _more: int = 0

    def add(self, denial: KernelDenial | CallRefusal, tied_by: str, text: bytes, now: float) -> None:
        """Take one; `now` is of the monotonic clock."""
        same: tuple[object, ...]
        if isinstance(denial, CallRefusal):
            same = (denial.owner, denial.call, denial.comm)
        else:
            same = (denial.domain, denial.blockers, denial.path, denial.target, denial.comm)
        if known := self._folded.get(same):
            known.count += 1
            return
        if len(self._folded) >= MOST_FOLDED:
            self._send(self._folded.popitem(last=False)[1], now)
        self._folded[same] = _Folded(body_of(denial, tied_by), text)
        self._send(self._folded[same], now)

    def flush(self, now: float) -> None:
        """Tell what was only counted."""
        for folded in self._folded.values():
            self._send(folded, now)

    def _send(self, folded: _Folded, now: float) -> None:
        if not folded.count:
            return
        count, folded.count = folded.count, 0
        self._tokens = min(BURST, self._tokens + (now - self._then) * PER_SECOND)
        self._then = now
        if self._tokens < 1:
            self._more += count
            return
        self._tokens -= 1
        more, self._more = {"more": self._more} if self._more else {}, 0
        self.tell({**folded.body, "count": count, **more}, folded.text)


class Observed:
    """The session's commands by their processes, and what was refused to each.

    Args:
        zygote: its pid; commands and the agent are its children.
        tell: writes a frame: source, kind, body, and the command's text, "" where it is not a command's.
        calls: the session's filter has the kernel record the system calls that it refuses.

    Attributes:
        what: which of the kernel's records are read.
        agents: the agent's process.
        canaries: processes of nd7's own probes.
    """

    def __init__(self, loop: Loop, zygote: int, tell: Tell, *, calls: bool = False) -> None:
        self.agents: set[int] = set()
        self.canaries: set[int] = set()
        self._loop, self._zygote, self._tell = loop, zygote, tell
        self._commands: dict[int, Command] = {}
        self._ended: OrderedDict[int, Command] = OrderedDict()
        self._waiting: list[tuple[float, KernelDenial | CallRefusal]] = []
        self._calls, self._gone = calls, 0
        self._ledger = Ledger(lambda body, text: tell("effect:landlock-audit", "denial", body, text))
        self._refusals = Ledger(lambda body, text: tell("effect:seccomp-audit", "denial", body, text))
        also = " and the filter's refusals" if calls else ""
        self.what = f"Landlock's denials{also} are read from the kernel's audit"
        self._kernel: KernelAudit | None = None
        self._lost = 0
        self._timer: Timer | None = None

    # The zygote's word

    def started(self, pid: int, command: Command) -> None:
        """A command has been forked."""
        self._commands[pid] = command

    def ended(self, pid: int) -> Command | None:
        """It has ended; its records may still be under way."""
        command = self._commands.pop(pid, None)
        if command is not None:
            self._ended[pid] = command
            if len(self._ended) > MOST_ENDED:
                self._ended.popitem(last=False)
        return command

    def _command(self, pid: int) -> Command | None:
        return self._commands.get(pid) or self._ended.get(pid)

    # The broker's refusals

    def attempt(self, refusal: confinement.Refusal) -> None:
        """The broker has refused something; its process waits for the answer.  It is an attempt, and no more."""
        body: dict[str, Any] = {"call": refusal.call, "kind": refusal.kind, "target": refusal.target}
        body |= {"pid": refusal.pid, "errno": errno.errorcode.get(refusal.error, str(refusal.error))}
        body["more"] = refusal.more
        top = processes.reached_through(refusal.pid, self._zygote) or 0
        command = self._command(top)
        if top not in self.canaries and not (command and command.canary):
            self._tell("effect:nd7-broker", "attempt", body, command.text if command else b"")

    # The kernel's records

    def listen(self) -> str:
        """Read the kernel's records from now on.  Returns why not, or ""."""
        why = why_not()
        if not why:
            try:
                self._kernel = KernelAudit()
            except OSError as error:
                return error.strerror or str(error)
            self._loop.watch(self._kernel.fileno(), self._read)
        return why

    def close(self) -> None:
        """Stop reading, and tell what was not told yet."""
        if self._kernel:
            for _ in range(64):
                if not self._take():
                    break
            self._settle(last=True)
            self._loop.forget(self._kernel.fileno())
            self._kernel.close()
            self._kernel = None

    def _read(self) -> None:
        self._take()
        self._settle()

    def _take(self) -> int:
        """What has come.  How many denials, of whatever Landlock domain on this machine."""
        if self._kernel is None:
            return 0
        read = self._kernel.read()
        found = [known for denial in read if (known := self._of_the_session(denial))]
        until = time.monotonic() + WAIT_SECONDS
        self._waiting += [(until, denial) for denial in found[: max(0, MOST_WAITING - len(self._waiting))]]
        if self._kernel.lost > self._lost:
            self._lost = self._kernel.lost
            self._tell(
                "effect:landlock-audit", "gap", {"text": "the kernel's records came too fast: some are lost"}, b""
            )
        return len(read)

    def _of_the_session(self, denial: KernelDenial | CallRefusal) -> KernelDenial | CallRefusal | None:
        """A denial, if it can be the session's: a refused call's process is looked up at once, before it ends."""
        if not isinstance(denial, CallRefusal):
            return denial
        if not self._calls:
            return None
        owner = processes.reached_through(denial.pid, self._zygote)
        if owner is None:
            self._gone += denial.uid == os.getuid() and processes.stat_of(denial.pid) is None
            return None
        return replace(denial, owner=owner)

    def _flush(self, now: float) -> None:
        self._ledger.flush(now)
        self._refusals.flush(now)
        gone, self._gone = self._gone, 0
        if gone:
            text = (
                "system calls that a filter refused to processes which had ended before it was seen whose they were: "
                "this session's, or another program's"
            )
            self._tell("effect:seccomp-audit", "untied", {"text": text, "count": gone}, b"")

    def _settle(self, *, last: bool = False) -> None:
        now = time.monotonic()
        waiting, self._waiting = self._waiting, []
        for until, denial in waiting:
            if self._tied(denial, now):
                continue
            if until > now and not last:
                self._waiting.append((until, denial))
            elif isinstance(denial, CallRefusal):  # what has left its command, a daemon, is the session's still
                self._refusals.add(denial, "session", b"", now)
        if last:
            self._flush(now)
        elif self._timer is None:
            self._timer = self._loop.later(FOLD_SECONDS, self._later)

    def _later(self) -> None:
        self._timer = None
        self._flush(time.monotonic())
        if self._waiting:
            self._settle()

    def _tied(self, denial: KernelDenial | CallRefusal, now: float) -> bool:
        """Take a denial that is the session's; False where it is not (yet) known to be."""
        if isinstance(denial, CallRefusal):
            owner, by, ledger = denial.owner, "process", self._refusals
        else:
            owner, by, ledger = denial.creator, "domain", self._ledger
        if owner == self._zygote:  # the layer that all share: only the process itself tells whose it is
            owner, by = processes.reached_through(denial.pid, self._zygote) or 0, "process"
        command = self._command(owner)
        if owner in self.canaries or (command and command.canary):
            return True
        if command is None and owner not in self.agents:
            return False
        ledger.add(denial, by, command.text if command else b"", now)
        return True
