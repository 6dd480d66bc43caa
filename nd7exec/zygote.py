"""The zygote: a warm, single-threaded process in the session's domain that forks the agent and every command.

It is confined by everything that the whole session shares (namespaces, the scope layer, the seccomp filter) and by no
file or network rules, so that each child can take its own.  It decides nothing: the supervisor hands it a ruleset and
connections in one ordered stream.  The session cannot reach it (the filter refuses its pid); if the person kills it,
later commands end in exit 126, because nothing else starts any.

It is itself under the filter, whose sendto, sendmsg and connect wait for the supervisor: it only ever
uses read, write and recvmsg on its sockets.
"""

from __future__ import annotations

import errno
import fcntl
import gc
import json
import os
import resource
import select
import signal
import termios
from typing import NoReturn

from nd7core.errors import Nd7Error
from nd7exec import prctl, processes
from nd7exec.commands import BLOCKED, Commands, Plan, defaults, give_up
from nd7exec.linux import confinement
from nd7exec.wire import Link, write_all

TIOCGPTPEER = 0x5441  # ioctl_tty(2): open a master's slave without a path, so whatever /dev/pts is mounted where


class Zygote:
    """The loop.  `link` goes to the supervisor."""

    def __init__(self, link: Link, plan: Plan) -> None:
        self.link = link
        self.plan = plan
        self.pid = os.getpid()
        self.agent = 0
        self.slave: int | None = None
        self.handed: dict[int, int] = {}
        self.floor: int | None = None
        self.probes: set[int] = set()
        self.poll = select.poll()
        self.commands = Commands(plan, self.poll, self.reap, self.tell)

    def tell(self, kind: bytes, body: bytes = b"") -> None:
        """Tell the supervisor, by write(2) alone; a supervisor that is gone ends the session anyway.

        Waits where many have been told at once: the supervisor never waits for us, and a lost word of a command is one
        that the log never hears of.
        """
        while True:
            try:
                os.write(self.link.fileno(), kind + body)
                return
            except BlockingIOError:
                room = select.poll()
                room.register(self.link, select.POLLOUT)
                room.poll()
            except OSError:
                return

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
            entered = confinement.enter_session(self.plan.floor, bool(self.plan.terminal), records=self.plan.records)
        except confinement.ConfinementError as error:
            confinement.offer_error(error, self.plan.offer)
            raise SystemExit(1) from None
        self.commands.abi = entered.abi
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
        # No parent-death signal here: whoever kills the zygote must not end the agent with it.
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
            signal.pthread_sigmask(signal.SIG_SETMASK, ())
            os.chdir(plan.cwd)
            if self.floor is None:
                raise OSError(errno.EINVAL, "no ruleset")
            confinement.restrict(self.floor, self.commands.abi)
        except OSError as error:
            give_up(f"nd7: confine {plan.program}: {error.strerror or error}\n", 126)
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
            give_up(f"nd7: exec {plan.program}: {error.strerror}\n", number)

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
                signal.pthread_sigmask(signal.SIG_SETMASK, ())
                prctl.set_parent_death_signal(signal.SIGKILL, self.pid)
                if self.floor is None:
                    raise OSError(errno.EINVAL, "no ruleset")
                confinement.restrict(self.floor, self.commands.abi)
                os.chdir(self.plan.cwd)
                os.execve(argv[0], argv, {**self.plan.environ, "AI_AGENT": "nd7_canary"})
            except OSError as error:
                give_up(f"nd7: canary: {error.strerror or error}\n", 126)
        self.probes.add(pid)
        self.tell(b"P", str(pid).encode())

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
            elif self.commands.ended(pid, status):
                self.tell(b"c", str(pid).encode())

    def told(self) -> None:
        """Everything that the supervisor has said, in order."""
        while message := self.link.receive():
            # A descriptor that had no room in our table is not there: a connection then ends, and a ruleset that did
            # not arrive must never leave the one before it in force.
            if message.kind == b"X":
                if message.fds:
                    caller, top = map(int, message.body.split())
                    self.commands.accept(caller, top in self.probes, message.fds[0])
                continue
            if message.kind in (b"F", b"R"):
                new = message.fds[0] if message.fds else None
                old = self.floor if message.kind == b"F" else self.commands.ruleset
                if message.kind == b"F":
                    self.floor = new
                else:
                    self.commands.ruleset = new
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
            waiting = self.commands.waiting
            for fd, _ in self.poll.poll(1000 if waiting else None):
                if fd == self.link.fileno():
                    self.told()
                elif fd == wakeup:
                    os.read(wakeup, 4096)
                elif found := self.commands.commands.get(fd):
                    self.commands.read(found)
            self.reap()
            if waiting:
                self.commands.give_up_late()


def main(link: Link, plan: Plan) -> NoReturn:
    """The forked process's whole life.  Never returns, never shows a traceback."""
    status = 1
    try:
        os.setsid()
        prctl.set_title("nd7 zygote")
        prctl.set_subreaper()
        signal.pthread_sigmask(signal.SIG_BLOCK, BLOCKED)
        wakeup, write = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
        signal.set_wakeup_fd(write, warn_on_full_buffer=False)
        signal.signal(signal.SIGCHLD, lambda *_: None)
        zygote = Zygote(link, plan)
        zygote.enter()
        gc.freeze()  # a collection in a child would copy every page that the fork shares
        zygote.serve(wakeup)
        # The supervisor is gone.  The warden ends the session then; should that have been killed as well, we do.
        processes.kill_all_below(zygote.pid, zygote.reap)
        status = 0
    except (OSError, ValueError, RuntimeError, Nd7Error) as error:
        write_all(link.fileno(), b"N" + str(error).encode("utf-8", "backslashreplace"))
    finally:
        os._exit(status)
    raise AssertionError("not reached")
