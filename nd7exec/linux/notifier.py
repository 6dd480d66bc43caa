"""What the filter cannot decide: the supervisor's end of seccomp user notification."""

from __future__ import annotations

import errno
import os
import select
import socket
import struct
from collections.abc import Callable
from typing import Final

from nd7core.policy.rules import LinuxRules
from nd7exec.linux.asked import Call, Desk, Refusal, Reply, fail
from nd7exec.linux.membership import Membership, thread_group
from nd7exec.linux.metadata import Metadata
from nd7exec.linux.privileges import PutAside
from nd7exec.linux.processes import Processes
from nd7exec.linux.sockets import Sockets
from nd7exec.linux.waiting import Waiting

_AT_ONCE: Final = 32


class Notifier:
    """Answers the filter's questions.  Single-threaded; nothing in it blocks.

    Poll `fileno()` for reading and call `handle()` when it is ready.  Blocking connects and sends of
    the session are waited for inside, behind that one descriptor.

    Attributes:
        closed: True once no process is left under the filter.
    """

    def __init__(
        self,
        listener_fd: int,
        rendezvous: Callable[[int, int, int], None],
        refused: Callable[[Refusal], None],
        *,
        rules: LinuxRules,
        membership: Membership,
        terminal: str = "",
    ) -> None:
        """Take over a listener (and close it in the end).

        Args:
            listener_fd: `Session.listener_fd`.
            rendezvous: called as (protocol number, pid of the caller, our end of a stream socket) while
                the caller waits, so its pid is certainly its own; the callee owns the descriptor from
                then on, whatever happens.  An OSError that it raises is what the caller gets.
            refused: called for what was refused, at most some ten times a second.
            rules: ports, and without namespaces which files' modes and times may be changed.
            membership: `Session.membership()`.
            terminal: `Session.terminal`.
        """
        self.closed = False
        self._rendezvous = rendezvous
        self._desk = Desk(listener_fd, refused)
        self._epoll = select.epoll()
        self._epoll.register(listener_fd, select.EPOLLIN)
        self._unprivileged = PutAside()
        self._waiting = Waiting(self._desk, self._epoll, self._unprivileged)
        self._sockets = Sockets(self._desk, self._waiting, rules)
        self._metadata = Metadata(self._desk, rules, terminal)
        processes = Processes(self._desk, membership)
        self._decisions: dict[str, Callable[[Call], Reply | None]] = {
            "socket": self._socket,
            "bind": self._sockets.bind,
            "connect": self._sockets.connect,
            "listen": self._sockets.listen,
            "sendto": self._sockets.sendto,
            "sendmsg": self._sockets.sendmsg,
            "sendmmsg": self._sockets.sendmmsg,
            "prlimit64": processes.first,
            "sched_setaffinity": processes.first,
            "sched_setscheduler": processes.first,
            "sched_setparam": processes.first,
            "sched_setattr": processes.first,
            "setpriority": processes.second,
            "ioprio_set": processes.second,
            "kill": processes.kill,
            "tkill": processes.tkill,
            "rt_sigqueueinfo": processes.tkill,
            "tgkill": processes.tgkill,
            "rt_tgsigqueueinfo": processes.tgkill,
            "pidfd_send_signal": processes.pidfd_send_signal,
            **self._metadata.decisions(),
        }

    @property
    def rules(self) -> LinuxRules:
        """What is allowed; new ones may be assigned at any time."""
        return self._sockets.rules

    @rules.setter
    def rules(self, rules: LinuxRules) -> None:
        self._sockets.rules = self._metadata.rules = rules

    def fileno(self) -> int:
        """A descriptor that is readable when `handle` has something to do."""
        return self._epoll.fileno()

    def handle(self) -> None:
        """Do what there is to do, a bounded amount of it, without blocking."""
        for fd, events in self._epoll.poll(0):
            if fd == self._desk.listener_fd:
                self._listen(events)
            else:
                self._waiting.handle(fd)

    def close(self) -> None:
        """Let go: waiting calls of the session fail with ENOSYS."""
        self._waiting.close()
        self._epoll.close()
        os.close(self._desk.listener_fd)
        self.closed = True

    def _listen(self, events: int) -> None:
        if not events & select.EPOLLIN:
            self._epoll.unregister(self._desk.listener_fd)
            self.closed = True
            return
        poll = select.poll()
        poll.register(self._desk.listener_fd, select.POLLIN)
        for _ in range(_AT_ONCE):
            call = self._desk.receive()
            if call:
                reply = self._decide(call)
                if reply:
                    self._desk.answer(call, reply)
            if not poll.poll(0):
                return

    def _decide(self, call: Call) -> Reply | None:
        decide = self._decisions.get(call.name)
        if decide is None:
            return fail(errno.EPERM)
        try:
            if call.name == "socket":
                return decide(call)  # its callback is the supervisor's own business
            with self._unprivileged:
                return decide(call)
        except OSError as error:
            return fail(error.errno or errno.EPERM)
        except (ValueError, struct.error, OverflowError):
            return fail(errno.EINVAL)

    def _socket(self, call: Call) -> Reply | None:
        """The rendezvous: the caller gets one end of a new pair, `rendezvous` the other."""
        ours, theirs = socket.socketpair()
        with theirs:
            self._rendezvous(call.args[2] & 0xFFFFFFFF, thread_group(call.pid), ours.detach())
            if call.args[1] & socket.SOCK_NONBLOCK:
                theirs.setblocking(False)
            return self._desk.give(call, theirs.fileno(), os.O_CLOEXEC if call.args[1] & socket.SOCK_CLOEXEC else 0)
