"""Commands, in the zygote: a request is read, a child is forked for it, its end is told.

Each child takes the ruleset that arrived last, then becomes the shell.  A client that is killed takes its command
along, whole; a signal to it is one to the command.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import resource
import select
import signal
import socket
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NoReturn

from nd7core.policy.rules import LinuxRules
from nd7exec import client, prctl, processes
from nd7exec.linux import confinement
from nd7exec.wire import receive

# A command's body may be as long as execve(2) would take it: 6 MB, three quarters of the largest stack it reckons with.
LONGEST_REQUEST = 8 << 20
REQUEST_SECONDS = 30.0
DEFAULTED = (
    signal.SIGHUP, signal.SIGINT, signal.SIGQUIT, signal.SIGPIPE, signal.SIGTERM, signal.SIGCHLD, signal.SIGTSTP,
    signal.SIGTTIN, signal.SIGTTOU, signal.SIGXFSZ, signal.SIGUSR1, signal.SIGUSR2, signal.SIGCONT, signal.SIGALRM,
)  # fmt: skip
# The zygote has these blocked, and a child lets them through when it is ready: one that came to a child too early
# waits for it, and one to the zygote for ever.
BLOCKED = (
    signal.SIGHUP, signal.SIGINT, signal.SIGQUIT, signal.SIGTERM, signal.SIGUSR1, signal.SIGUSR2, signal.SIGTSTP,
    signal.SIGTTIN, signal.SIGTTOU,
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Plan:
    """What the zygote is told before it is forked; nothing in it can change later.

    Attributes:
        program: the agent's absolute path; argv, environ: what it is started with.
        terminal: which of 0, 1, 2 are to be the session's own terminal; the others are handed over as they are.
        shell: the absolute path of the shell that runs commands.
        open_files: RLIMIT_NOFILE as the person had it; the zygote's own is raised, for the connections that it holds.
        offer, taken: pipes for `confinement.offer`, to and from the supervisor.
        marker: what PreToolUse frames call an agent's own command: the end of AI_AGENT in its environment.
        records: have the kernel record the system calls that the filter refuses.
        ignored: signals that `nd7 run` was started with ignored (nohup, a script's `&`), and so is the agent.
    """

    program: str
    argv: Sequence[str]
    environ: Mapping[str, str]
    cwd: str
    floor: LinuxRules
    shell: str
    offer: int
    taken: int
    terminal: frozenset[int] = frozenset()
    umask: int = 0o022
    open_files: tuple[int, int] = (1024, 1 << 20)
    marker: bytes = b"_agent"
    ignored: frozenset[int] = frozenset()
    records: bool = False


@dataclass(slots=True)
class Command:
    """One connection of a client and, once its request is whole, the command's process."""

    connection: socket.socket
    caller: int
    began: float
    probe: bool = False
    buffer: bytearray = field(default_factory=bytearray)
    fds: list[int] = field(default_factory=list)
    pid: int = 0
    started: int = 0
    text: bytes = b""
    by_agent: bool = False


class Commands:
    """Every command that runs or is being asked for.

    Args:
        reap: collects what has ended.
        tell: tells the supervisor, by kind and body.

    Attributes:
        abi: the Landlock version.
        ruleset: what the next command is put under; None until there is one, and whenever it is not sure which.
    """

    def __init__(
        self, plan: Plan, poll: select.poll, reap: Callable[[], object], tell: Callable[[bytes, bytes], object]
    ) -> None:
        self.plan = plan
        self.poll = poll
        self.reap = reap
        self.tell = tell
        self.zygote = os.getpid()
        self.abi = 0
        self.ruleset: int | None = None
        self.commands: dict[int, Command] = {}
        self.by_pid: dict[int, Command] = {}

    def accept(self, caller: int, probe: bool, connection: int) -> None:
        """A client's connection, handed over by the supervisor, which has checked it."""
        taken = socket.socket(fileno=connection)
        taken.setblocking(False)
        self.commands[taken.fileno()] = Command(taken, caller, time.monotonic(), probe)
        self.poll.register(taken, select.POLLIN)

    def read(self, command: Command) -> None:
        """Something came on a connection: a piece of the request, a signal to pass on, or the client's end."""
        try:
            data, fds = receive(command.connection, 1 << 20)
        except (BlockingIOError, InterruptedError):
            return
        except OSError:
            data, fds = b"", []
        command.fds += fds
        if len(command.fds) > 4:
            self.drop(command)  # nobody of ours sends more
            return
        if not data:
            self.drop(command)
            if command.pid:
                # The client was killed: what it stood for dies with it, whole.
                self.end_tree(command.pid)
        elif command.pid:
            for number in data[1::2]:
                self.pass_on(command.pid, number)
        else:
            command.buffer += data
            try:
                self.try_start(command)
            except ValueError as error:
                self.refuse(command, str(error))

    def try_start(self, command: Command) -> None:
        """Start the command if its request is whole.  Raises ValueError with what is wrong with it."""
        data = command.buffer
        if len(data) < 8:
            return
        length = int.from_bytes(data[4:8], "little")
        if data[:4] != client.REQUEST or length > LONGEST_REQUEST:
            raise ValueError(f"exec {self.plan.shell}: Argument list too long")
        if len(data) < 8 + length:
            return
        present, umask, ignored, size = (int.from_bytes(data[at : at + 4], "little") for at in (8, 12, 16, 20))
        wanted = [fd for fd in (0, 1, 2) if present >> fd & 1]
        if len(command.fds) != len(wanted) + 1 or 24 + size > len(data):
            raise ValueError("apply session policy: the request is damaged")
        text, environ = bytes(data[24 : 24 + size]), bytes(data[24 + size : 8 + length])
        variables = dict(item.partition(b"=")[::2] for item in environ.split(b"\0") if b"=" in item[1:])
        if self.ruleset is None:
            raise ValueError("apply session policy: no ruleset")
        try:
            pid = os.fork()
        except OSError as error:
            raise ValueError(f"exec {self.plan.shell}: {error.strerror}") from None
        if pid == 0:
            self.become_command(command, dict(zip(wanted, command.fds, strict=False)), text, variables, umask, ignored)
        command.pid, command.started = pid, time.time_ns()
        command.text, command.by_agent = text, variables.get(b"AI_AGENT", b"").endswith(self.plan.marker)
        command.buffer = bytearray()
        self.by_pid[pid] = command
        self.close_fds(command)
        told = f"{pid} {command.started} {int(command.by_agent)} {int(command.probe)} "
        self.tell(b"b", told.encode() + command.text[:32768])

    def become_command(
        self,
        command: Command,
        fds: dict[int, int],
        text: bytes,
        environ: dict[bytes, bytes],
        umask: int,
        ignored: int,
    ) -> NoReturn:
        shell = os.fsencode(self.plan.shell)
        try:
            os.setsid()
            # First out of the way of 0, 1, 2, then into place: a received descriptor may have one of these numbers.
            moved = {fd: fcntl.fcntl(source, fcntl.F_DUPFD_CLOEXEC, 10) for fd, source in fds.items()}
            cwd = fcntl.fcntl(command.fds[-1], fcntl.F_DUPFD_CLOEXEC, 10)
            for fd in (0, 1, 2):
                if fd in moved:
                    os.dup2(moved[fd], fd)
                else:
                    os.close(fd)
            os.fchdir(cwd)
            os.umask(umask & 0o777)
            resource.setrlimit(resource.RLIMIT_NOFILE, self.plan.open_files)
            defaults()
            for number in client.MAY_BE_IGNORED:
                if ignored >> number & 1:
                    signal.signal(number, signal.SIG_IGN)
            signal.pthread_sigmask(signal.SIG_SETMASK, ())
            prctl.set_parent_death_signal(signal.SIGKILL, self.zygote)
            if self.ruleset is None:
                raise OSError(errno.EINVAL, "no ruleset")
            confinement.restrict(self.ruleset, self.abi)
        except OSError as error:
            give_up(f"nd7-exec: apply session policy: {error.strerror or error}\n", 126)
        try:
            os.execve(shell, [shell, b"-c", text], environ)
        except (OSError, ValueError) as error:
            reason = error.strerror if isinstance(error, OSError) else str(error)
            give_up(f"nd7-exec: exec {self.plan.shell}: {reason}\n", 126)

    def pass_on(self, pid: int, number: int) -> None:
        """A signal that the client got goes to the command's group; TERM and STOP/CONT to all that descends from it."""
        if not 0 < number < signal.NSIG:
            return
        try:
            os.killpg(pid, number)
        except ProcessLookupError:
            # It has not made its group yet: there it waits, blocked, until the child is ready for it.
            processes.send([pid], number)
            return
        except OSError:
            return
        if number in (signal.SIGTERM, signal.SIGSTOP, signal.SIGCONT):
            # An agent that ends a command signals every descendant that it sees, and here it sees the client alone.
            seen = processes.table()
            processes.send((p for p in processes.of_command(pid, seen) if seen[p].group != pid), number)

    def end_tree(self, pid: int) -> None:
        """Kill a command and all that it has started and that has not left it (a daemon has)."""
        for _ in range(50):
            seen = processes.table()
            left = {p for p in processes.of_command(pid, seen) if p in seen and seen[p].state not in "ZX"}
            if not left:
                return
            processes.send(left, signal.SIGSTOP)
            processes.send(left, signal.SIGKILL)
            self.reap()
            time.sleep(0.001)

    def refuse(self, command: Command, reason: str) -> None:
        self.answer(command, b"E" + reason.encode("utf-8", "surrogateescape"))

    def answer(self, command: Command, data: bytes) -> None:
        with contextlib.suppress(OSError):  # the client has gone; there is nobody to tell
            os.write(command.connection.fileno(), data)
        self.drop(command)

    def drop(self, command: Command) -> None:
        fd = command.connection.fileno()
        if self.commands.pop(fd, None) is not None:
            self.poll.unregister(fd)
            command.connection.close()
        self.close_fds(command)

    def ended(self, pid: int, status: int) -> Command | None:
        """A process of ours has ended: if it was a command, its client is told."""
        command = self.by_pid.pop(pid, None)
        if command:
            self.answer(command, b"X" + (status & 0xFFFF).to_bytes(4, "little"))
        return command

    @property
    def waiting(self) -> bool:
        """Whether a request is not whole yet."""
        return any(not command.pid for command in self.commands.values())

    def give_up_late(self) -> None:
        """Let go of connections on which no request came."""
        late = time.monotonic() - REQUEST_SECONDS
        for command in [c for c in self.commands.values() if not c.pid and c.began < late]:
            self.drop(command)

    def close_fds(self, command: Command) -> None:
        while command.fds:
            os.close(command.fds.pop())


def give_up(text: str, status: int) -> NoReturn:
    """In a child that cannot become what it should: say why, and end."""
    os.write(2, text.encode("utf-8", "backslashreplace"))
    os._exit(status)


def defaults() -> None:
    """The signal dispositions that a program expects at its start, before its exec."""
    signal.set_wakeup_fd(-1)
    for number in DEFAULTED:
        signal.signal(number, signal.SIG_DFL)
