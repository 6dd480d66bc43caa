"""The zygote: a warm, single-threaded process in the session's domain that forks the agent and every command.

It is confined by everything that the whole session shares (namespaces, the scope layer, the seccomp filter) and by no
file or network rules, so that each child can take its own.  It decides nothing: the supervisor hands it a ruleset and
connections in one ordered stream.  Commands may kill it, being in its domain; then the session's later commands end
in exit 126, because nothing else starts any.

It is itself under the filter, whose sendto, sendmsg and connect wait for the supervisor: it only ever
uses read, write and recvmsg on its sockets.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import gc
import json
import os
import resource
import select
import signal
import socket
import termios
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import NoReturn

from nd7core.errors import Nd7Error
from nd7core.policy.rules import LinuxRules
from nd7exec import client, prctl, processes
from nd7exec.linux import confinement
from nd7exec.wire import Link, receive, write_all

TIOCGPTPEER = 0x5441  # ioctl_tty(2): open a master's slave without a path, so whatever /dev/pts is mounted where
# A command's body may be as long as execve(2) would take it: 6 MB, three quarters of the largest stack it reckons with.
LONGEST_REQUEST = 8 << 20
REQUEST_SECONDS = 30.0
DEFAULTED = (
    signal.SIGHUP, signal.SIGINT, signal.SIGQUIT, signal.SIGPIPE, signal.SIGTERM, signal.SIGCHLD, signal.SIGTSTP,
    signal.SIGTTIN, signal.SIGTTOU, signal.SIGXFSZ, signal.SIGUSR1, signal.SIGUSR2, signal.SIGCONT, signal.SIGALRM,
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


class Zygote:
    """The loop.  `link` goes to the supervisor."""

    def __init__(self, link: Link, plan: Plan) -> None:
        self.link = link
        self.plan = plan
        self.pid = os.getpid()
        self.abi = 0
        self.agent = 0
        self.slave: int | None = None
        self.handed: dict[int, int] = {}
        self.floor: int | None = None
        self.ruleset: int | None = None
        self.probes: set[int] = set()
        self.commands: dict[int, Command] = {}
        self.by_pid: dict[int, Command] = {}
        self.poll = select.poll()

    def tell(self, kind: bytes, body: bytes = b"") -> None:
        """Tell the supervisor, by write(2) alone; a supervisor that is gone ends the session anyway."""
        write_all(self.link.fileno(), kind + body)

    # Entering the session

    def enter(self) -> None:
        """Confine this process, and hand the supervisor what only it may hold: the listener, the terminal's master."""
        for fd in (0, 1, 2):
            if fd not in self.plan.terminal:
                self.handed[fd] = fcntl.fcntl(fd, fcntl.F_DUPFD_CLOEXEC, 10)
        null = os.open(os.devnull, os.O_RDWR)
        for fd in (0, 1, 2):  # the outer terminal's descriptors end here
            os.dup2(null, fd)
        os.close(null)
        try:
            entered = confinement.enter_session(self.plan.floor, bool(self.plan.terminal))
        except confinement.ConfinementError as error:
            confinement.offer_error(error, self.plan.offer)
            raise SystemExit(1) from None
        self.abi = entered.abi
        if entered.master_fd is not None:
            self.slave = fcntl.ioctl(entered.master_fd, TIOCGPTPEER, os.O_RDWR | os.O_NOCTTY | os.O_CLOEXEC)
        confinement.offer(entered, self.plan.offer, self.plan.taken)
        if self.slave is not None:
            # This process is the session leader of the terminal and the agent a group of its own in it: an agent that
            # led the session itself would be an orphaned group, whose ^Z the kernel throws away.
            fcntl.ioctl(self.slave, termios.TIOCSCTTY, 0)

    # The agent

    def start_agent(self) -> None:
        """Fork the agent under the floor."""
        ready, go = os.pipe()
        self.agent = os.fork()
        if self.agent == 0:
            os.close(go)
            os.read(ready, 1)  # not before it is in its group and that group in the foreground
            self.become_agent()
        os.close(ready)
        os.setpgid(self.agent, self.agent)
        if self.slave is not None:
            os.tcsetpgrp(self.slave, self.agent)
        os.close(go)
        # Nothing of the agent's own input and output stays open here: its reader must see the end when it closes.
        for fd in self.handed.values():
            os.close(fd)
        self.handed.clear()
        self.tell(b"A", str(self.agent).encode())

    def become_agent(self) -> NoReturn:
        plan = self.plan
        # No parent-death signal here: a command that kills the zygote must not end the agent with it.
        try:
            for fd in (0, 1, 2):
                source = self.handed.get(fd, self.slave)
                if source is not None:
                    os.dup2(source, fd)
            defaults()
            for number in plan.ignored:
                signal.signal(number, signal.SIG_IGN)
            os.umask(plan.umask)
            resource.setrlimit(resource.RLIMIT_NOFILE, plan.open_files)
            os.chdir(plan.cwd)
            if self.floor is None:
                raise OSError(errno.EINVAL, "no ruleset")
            confinement.restrict(self.floor, self.abi)
        except OSError as error:
            self.give_up(f"nd7: confine {plan.program}: {error.strerror or error}\n", 126)
        try:
            try:
                os.execve(plan.program, list(plan.argv), dict(plan.environ))
            except OSError as error:
                if error.errno != errno.ENOEXEC:
                    raise
                # A script without its #! line: what a shell or execvp(3) would do with it.
                os.execve("/bin/sh", ["sh", plan.program, *plan.argv[1:]], dict(plan.environ))
        except OSError as error:
            number = 127 if error.errno == errno.ENOENT else 126
            self.give_up(f"nd7: exec {plan.program}: {error.strerror}\n", number)

    def give_up(self, text: str, status: int) -> NoReturn:
        os.write(2, text.encode("utf-8", "backslashreplace"))
        os._exit(status)

    def start_probe(self, body: bytes, output: int, go: int) -> None:
        """Fork nd7's own canary under the floor, its output going where the supervisor says, once `go` is closed."""
        argv = json.loads(body)
        pid = os.fork()
        if pid == 0:
            try:
                os.read(go, 1)  # not before the supervisor knows whose commands are to come
                os.setsid()
                os.dup2(output, 1)
                defaults()
                prctl.set_parent_death_signal(signal.SIGKILL, self.pid)
                if self.floor is None:
                    raise OSError(errno.EINVAL, "no ruleset")
                confinement.restrict(self.floor, self.abi)
                os.chdir(self.plan.cwd)
                os.execve(argv[0], argv, {**self.plan.environ, "AI_AGENT": "nd7_canary"})
            except OSError as error:
                self.give_up(f"nd7: canary: {error.strerror or error}\n", 126)
        self.probes.add(pid)
        self.tell(b"P", str(pid).encode())

    # Commands

    def accept(self, caller: int, top: int, connection: int) -> None:
        """A client's connection, handed over by the supervisor, which has checked it."""
        taken = socket.socket(fileno=connection)
        taken.setblocking(False)
        self.commands[taken.fileno()] = Command(taken, caller, time.monotonic(), top in self.probes)
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
            prctl.set_parent_death_signal(signal.SIGKILL, self.pid)
            if self.ruleset is None:
                raise OSError(errno.EINVAL, "no ruleset")
            confinement.restrict(self.ruleset, self.abi)
        except OSError as error:
            self.give_up(f"nd7-exec: apply session policy: {error.strerror or error}\n", 126)
        try:
            os.execve(shell, [shell, b"-c", text], environ)
        except (OSError, ValueError) as error:
            reason = error.strerror if isinstance(error, OSError) else str(error)
            self.give_up(f"nd7-exec: exec {self.plan.shell}: {reason}\n", 126)

    def pass_on(self, pid: int, number: int) -> None:
        """A signal that the client got goes to the command's group; TERM and STOP/CONT to all that descends from it."""
        if not 0 < number < signal.NSIG:
            return
        try:
            os.killpg(pid, number)
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

    def close_fds(self, command: Command) -> None:
        while command.fds:
            os.close(command.fds.pop())

    # The loop

    def reap(self) -> None:
        """Collect what has ended: the agent, commands, and orphans that came to us."""
        while True:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG | os.WUNTRACED)
            except ChildProcessError:
                return
            if pid == 0:
                return
            if os.WIFSTOPPED(status):
                if pid == self.agent:
                    self.tell(b"s", str(os.WSTOPSIG(status)).encode())
                continue
            if pid == self.agent:
                self.agent = 0
                self.tell(b"a", str(status).encode())
            elif pid in self.probes:
                self.probes.discard(pid)
                self.tell(b"p", f"{pid} {status}".encode())
            elif command := self.by_pid.pop(pid, None):
                self.answer(command, b"X" + (status & 0xFFFF).to_bytes(4, "little"))
                # nd7's own probe uses up no grant for one command, and no hook tells of it.
                told = f"{command.started} {int(command.by_agent)} ".encode() + command.text[:32768]
                if not command.probe:
                    self.tell(b"c", told)

    def told(self) -> None:
        """Everything that the supervisor has said, in order."""
        while message := self.link.receive():
            # A descriptor that had no room in our table is not there: a connection then ends, and a ruleset that did
            # not arrive must never leave the one before it in force.
            if message.kind == b"X":
                if message.fds:
                    caller, top = map(int, message.body.split())
                    self.accept(caller, top, message.fds[0])
                continue
            if message.kind in (b"F", b"R"):
                new = message.fds[0] if message.fds else None
                old = self.floor if message.kind == b"F" else self.ruleset
                if message.kind == b"F":
                    self.floor = new
                else:
                    self.ruleset = new
                if old is not None:
                    os.close(old)
                continue
            if message.kind == b"A":
                self.start_agent()
            elif message.kind == b"P" and len(message.fds) == 2:
                self.start_probe(message.body, message.fds[0], message.fds[1])
            for fd in message.fds:
                os.close(fd)

    def serve(self, wakeup: int) -> None:
        """Until the supervisor is gone."""
        self.poll.register(self.link, select.POLLIN)
        self.poll.register(wakeup, select.POLLIN)
        while not self.link.closed:
            waiting = any(not command.pid for command in self.commands.values())
            for fd, _ in self.poll.poll(1000 if waiting else None):
                if fd == self.link.fileno():
                    self.told()
                elif fd == wakeup:
                    os.read(wakeup, 4096)
                elif found := self.commands.get(fd):
                    self.read(found)
            self.reap()
            if waiting:
                late = time.monotonic() - REQUEST_SECONDS
                for command in [c for c in self.commands.values() if not c.pid and c.began < late]:
                    self.drop(command)


def defaults() -> None:
    """The signal dispositions that a program expects at its start, before its exec."""
    signal.set_wakeup_fd(-1)
    for number in DEFAULTED:
        signal.signal(number, signal.SIG_DFL)


def main(link: Link, plan: Plan, parent: int) -> NoReturn:
    """The forked process's whole life.  Never returns, never shows a traceback."""
    status = 1
    try:
        os.setsid()
        prctl.set_title("nd7 zygote")
        prctl.set_parent_death_signal(signal.SIGKILL, parent)
        prctl.set_subreaper()
        for number in (signal.SIGHUP, signal.SIGINT, signal.SIGQUIT, signal.SIGTERM, signal.SIGTTOU, signal.SIGTSTP):
            signal.signal(number, signal.SIG_IGN)
        wakeup, write = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
        signal.set_wakeup_fd(write, warn_on_full_buffer=False)
        signal.signal(signal.SIGCHLD, lambda *_: None)
        zygote = Zygote(link, plan)
        zygote.enter()
        gc.freeze()  # a collection in a child would copy every page that the fork shares
        zygote.serve(wakeup)
        status = 0
    except (OSError, ValueError, RuntimeError, Nd7Error) as error:
        write_all(link.fileno(), b"N" + str(error).encode("utf-8", "backslashreplace"))
    finally:
        os._exit(status)
    raise AssertionError("not reached")
