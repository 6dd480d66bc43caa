"""What the filter cannot decide: the supervisor's end of seccomp user notification.

The rule that keeps this safe: an operation is decided on a *copy* of what the process passed, and then
done here, on a duplicate of its socket, with that copy.  The process is never told to go on with a
call whose meaning lies in memory or in its descriptor table (`CONTINUE`), because both can be changed
by another thread between the decision and the kernel's own look (measured: dup2 of a datagram socket
over a stream socket, during a connect, would let any datagram out).  `CONTINUE` is used only for calls
whose arguments are plain numbers.

The supervisor may be root, so it must not lend its privileges: ancillary data of internet sockets is
dropped, netlink requests go without an address and only if they ask for something, credentials are
refused.

Sources: seccomp_unotify(2), Documentation/userspace-api/seccomp_filter.rst.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import functools
import os
import select
import signal
import socket
import struct
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from nd7core.policy.rules import LinuxRules
from nd7exec.linux import seccomp, syscalls
from nd7exec.linux.membership import Membership, status_field, thread_group
from nd7exec.linux.messages import Outgoing, netlink_only_asks, outgoing, parse_address

_RECV, _SEND, _ID_VALID, _ADDFD, _SET_FLAGS = 0xC0502100, 0xC0182101, 0x40082102, 0x40182103, 0x40082104
_CONTINUE: Final = 1
_ADDFD_SEND: Final = 2
_PIDFD_THREAD: Final = os.O_EXCL
_SO_PROTOCOL, _SO_DOMAIN, _SO_COOKIE, _SO_LOCK_FILTER, _SO_ATTACH_FILTER = 38, 39, 57, 44, 26
_MOST_PENDING: Final = 256
_AT_ONCE: Final = 32
_CHECK_SECONDS: Final = 0.2
_DNS: Final = 53


@dataclass(frozen=True, slots=True)
class Refusal:
    """Something that the notifier refused: an attempt, told by nd7 itself.

    Attributes:
        pid: the process that tried; by the time this is read it may be gone.
        call: the system call's name.
        kind: "tcp", "udp", "listen", "unix", "netlink", "process" or "signal".
        target: `host:port`, a pid, or "".
        error: the errno that the process got.
        more: how many others were left out since the last one that was told.
    """

    pid: int
    call: str
    kind: str
    target: str
    error: int
    more: int = 0


@dataclass(frozen=True, slots=True)
class _Call:
    id: int
    pid: int
    name: str
    args: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class _Reply:
    value: int = 0
    error: int = 0
    flags: int = 0


_GO_ON: Final = _Reply(flags=_CONTINUE)


def _fail(error: int) -> _Reply:
    return _Reply(error=-error)


@dataclass(slots=True)
class _Pending:
    """A blocking call whose process waits: tried again whenever its socket may be ready."""

    call: _Call
    sock: socket.socket
    again: Callable[[], _Reply | None]
    since: float


class Notifier:
    """Answers the filter's questions.  Single-threaded; nothing in it blocks.

    Poll `fileno()` for reading and call `handle()` when it is ready.  Blocking connects and sends of
    the session are waited for inside, behind that one descriptor.

    Attributes:
        rules: what may be connected to; assign new ones at any time.
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
    ) -> None:
        """Take over a listener (and close it in the end).

        Args:
            listener_fd: `Session.listener_fd`.
            rendezvous: called as (protocol number, pid of the caller, our end of a stream socket) while
                the caller waits, so its pid is certainly its own; the callee owns the descriptor.  An
                OSError it raises is what the caller gets; any socket that is closed unread is an EOF.
            refused: called for what was refused, at most some ten times a second.
            rules: `connect_tcp` and `dns` are used.
            membership: `Session.membership()`.
        """
        self.rules = rules
        self.closed = False
        self._listener = listener_fd
        self._rendezvous, self._refused, self._membership = rendezvous, refused, membership
        self._names = {number: name for name, number in syscalls.NUMBERS[syscalls.machine()].items()}
        self._pending: dict[int, _Pending] = {}
        self._limit = _Limit()
        self._shut: dict[bytes, None] = {}
        self._epoll = select.epoll()
        self._epoll.register(listener_fd, select.EPOLLIN)
        self._timer = syscalls.call("timerfd_create", time.CLOCK_MONOTONIC, os.O_CLOEXEC | os.O_NONBLOCK)
        self._epoll.register(self._timer, select.EPOLLIN)
        with contextlib.suppress(OSError):
            # SYNC_WAKE_UP (6.6): the answer comes on the asker's own core, half the latency.
            fcntl.ioctl(listener_fd, _SET_FLAGS, struct.pack("Q", 1))

    def fileno(self) -> int:
        """A descriptor that is readable when `handle` has something to do."""
        return self._epoll.fileno()

    def handle(self) -> None:
        """Do what there is to do, a bounded amount of it, without blocking."""
        for fd, events in self._epoll.poll(0):
            if fd == self._listener:
                self._listen(events)
            elif fd == self._timer:
                os.read(self._timer, 8)
                self._prune()
            elif fd in self._pending:
                self._retry(fd)

    def close(self) -> None:
        """Let go: waiting calls of the session fail with ENOSYS."""
        for fd in list(self._pending):
            self._forget(fd)
        self._epoll.close()
        os.close(self._timer)
        os.close(self._listener)
        self.closed = True

    # -- receiving and answering ------------------------------------------------------------------

    def _listen(self, events: int) -> None:
        if not events & select.EPOLLIN:
            self._epoll.unregister(self._listener)
            self.closed = True
            return
        poll = select.poll()
        poll.register(self._listener, select.POLLIN)
        for _ in range(_AT_ONCE):
            self._one()
            if not poll.poll(0):
                return

    def _one(self) -> None:
        buffer = bytearray(80)
        try:
            fcntl.ioctl(self._listener, _RECV, buffer)
        except OSError as error:
            if error.errno in (errno.ENOENT, errno.EINTR):
                return  # killed before it was asked about
            raise
        identity, pid, _, nr, _, _, *args = struct.unpack("=QIIiIQ6Q", buffer)
        call = _Call(identity, pid, self._names.get(nr, ""), tuple(args))
        self._answer(call, self._decide(call))

    def _decide(self, call: _Call) -> _Reply | None:
        try:
            decide = getattr(self, f"_on_{call.name}", None)
            return decide(call) if decide else _fail(errno.EPERM)
        except OSError as error:
            return _fail(error.errno or errno.EPERM)
        except (ValueError, struct.error, OverflowError):
            return _fail(errno.EINVAL)

    def _answer(self, call: _Call, reply: _Reply | None) -> None:
        if reply is None:
            return
        # ENOENT: the process was killed meanwhile.
        with contextlib.suppress(FileNotFoundError):
            data = struct.pack("=QqiI", call.id, reply.value, reply.error, reply.flags)
            fcntl.ioctl(self._listener, _SEND, bytearray(data))

    def _valid(self, call: _Call) -> bool:
        """Whether the caller still waits: only then its pid, and what was read by it, are its own."""
        try:
            fcntl.ioctl(self._listener, _ID_VALID, struct.pack("=Q", call.id))
        except OSError:
            return False
        return True

    def _must_wait(self, call: _Call) -> None:
        if not self._valid(call):
            raise OSError(errno.EPERM, "the caller has gone")

    def _refuse(self, call: _Call, kind: str, target: str, error: int) -> _Reply:
        told, more = self._limit.take()
        if told:
            self._refused(Refusal(thread_group(call.pid), call.name, kind, target, error, more))
        return _fail(error)

    # -- waiting for blocking calls ---------------------------------------------------------------

    def _wait(self, call: _Call, sock: socket.socket, again: Callable[[], _Reply | None]) -> None:
        """Keep a blocking call's process waiting until its socket may be ready.  Takes `sock` over."""
        if len(self._pending) >= _MOST_PENDING:
            raise OSError(errno.ENOBUFS, os.strerror(errno.ENOBUFS))
        fd = sock.fileno()
        self._pending[fd] = _Pending(call, sock, again, time.monotonic())
        self._epoll.register(fd, select.EPOLLOUT)
        if len(self._pending) == 1:
            self._set_timer(_CHECK_SECONDS)

    def _set_timer(self, seconds: float) -> None:
        nanoseconds = int(seconds * 1e9)
        syscalls.call("timerfd_settime", self._timer, 0, struct.pack("qqqq", 0, nanoseconds, 0, nanoseconds), None)

    def _retry(self, fd: int) -> None:
        pending = self._pending[fd]
        try:
            reply = pending.again()
        except OSError as error:
            reply = _fail(error.errno or errno.EPERM)
        if reply is not None:
            self._answer(pending.call, reply)
            self._forget(fd)

    def _forget(self, fd: int) -> None:
        pending = self._pending.pop(fd)
        self._epoll.unregister(fd)
        pending.sock.close()
        if not self._pending:
            self._set_timer(0)

    def _prune(self) -> None:
        """Let go of calls whose process was killed, and interrupt those that have a signal to handle.

        The kernel keeps a caught signal waiting until we answer (WAIT_KILLABLE_RECV), since it could
        not tell whether a send has been done already.
        """
        for fd, pending in list(self._pending.items()):
            if not self._valid(pending.call):
                self._forget(fd)
            elif _has_signal(pending.call.pid):
                self._answer(pending.call, _fail(errno.EINTR))
                self._forget(fd)

    # -- sockets ----------------------------------------------------------------------------------

    def _pidfd(self, call: _Call) -> int:
        try:
            return os.pidfd_open(call.pid, _PIDFD_THREAD)
        except OSError:
            # Linux before 6.9 knows processes only.  A thread with a descriptor table of its own then gets its
            # process's socket, decided and used alike.
            return os.pidfd_open(thread_group(call.pid))

    def _socket(self, call: _Call) -> socket.socket:
        """A duplicate of the caller's socket.  Raises OSError, ENOTSOCK for another kind of file."""
        pidfd = self._pidfd(call)
        try:
            fd = syscalls.pidfd_getfd(pidfd, call.args[0] & 0xFFFFFFFF)
        finally:
            os.close(pidfd)
        try:
            duplicate = socket.socket(fileno=fd)
        except OSError:
            os.close(fd)
            raise
        try:
            self._must_wait(call)
        except OSError:
            duplicate.close()
            raise
        return duplicate

    def _on_socket(self, call: _Call) -> _Reply | None:
        ours, theirs = socket.socketpair()
        try:
            self._rendezvous(call.args[2] & 0xFFFFFFFF, thread_group(call.pid), ours.detach())
            flags = os.O_CLOEXEC if call.args[1] & socket.SOCK_CLOEXEC else 0
            if call.args[1] & socket.SOCK_NONBLOCK:
                theirs.setblocking(False)
            add = bytearray(struct.pack("=QIIII", call.id, _ADDFD_SEND, theirs.fileno(), 0, flags))
            try:
                fcntl.ioctl(self._listener, _ADDFD, add)
            except OSError as error:
                if error.errno != errno.EINVAL:
                    raise
                # Before 5.14 the two steps are two calls.
                struct.pack_into("=I", add, 8, 0)
                return _Reply(value=fcntl.ioctl(self._listener, _ADDFD, add))
            return None
        finally:
            theirs.close()

    def _on_listen(self, call: _Call) -> _Reply:
        with self._socket(call) as sock:
            target = _local_name(sock)
        return self._refuse(call, "listen", target, errno.EACCES)

    def _on_bind(self, call: _Call) -> _Reply:
        with self._socket(call) as sock:
            address = self._address(call, call.args[1], call.args[2])
            if sock.family == socket.AF_NETLINK:
                return _done(lambda: syscalls.call("bind", sock.fileno(), address, len(address)))
            if sock.family not in (socket.AF_INET, socket.AF_INET6):
                return self._refuse(call, "unix", "", errno.EPERM)
            host, port = parse_address(address)
            # Any free port is what a client binds to; a server comes to grief at listen().
            if port != 0:
                kind = "udp" if sock.type == socket.SOCK_DGRAM else "listen"
                return self._refuse(call, kind, f"{host}:{port}", errno.EACCES)
            if sock.type == socket.SOCK_DGRAM:
                self._close_to_strangers(sock)
            return _done(lambda: syscalls.call("bind", sock.fileno(), address, len(address)))

    def _address(self, call: _Call, pointer: int, length: int) -> bytes:
        length &= 0xFFFFFFFF
        if length > 128:
            raise OSError(errno.EINVAL, os.strerror(errno.EINVAL))
        address = syscalls.read_memory(call.pid, (pointer, length))
        self._must_wait(call)
        if len(address) < 2:
            raise OSError(errno.EINVAL, os.strerror(errno.EINVAL))
        return address

    def _close_to_strangers(self, sock: socket.socket) -> None:
        """Let a datagram socket receive from port 53 only, for good.

        A socket that somebody else locked first is refused: its filter is not ours.
        """
        cookie = sock.getsockopt(socket.SOL_SOCKET, _SO_COOKIE, 8)
        if cookie in self._shut:
            return
        sock.setsockopt(socket.SOL_SOCKET, _SO_ATTACH_FILTER, seccomp.only_from_port(_DNS))
        sock.setsockopt(socket.SOL_SOCKET, _SO_LOCK_FILTER, 1)
        self._shut[cookie] = None
        if len(self._shut) > 65536:
            del self._shut[next(iter(self._shut))]

    # -- connect ----------------------------------------------------------------------------------

    def _on_connect(self, call: _Call) -> _Reply | None:
        sock = self._socket(call)
        kept = False
        try:
            address = self._address(call, call.args[1], call.args[2])
            family = struct.unpack_from("=H", address)[0]
            if sock.family == socket.AF_NETLINK:
                if any(address[4:12]):
                    return self._refuse(call, "netlink", "", errno.EPERM)
                return _done(lambda: syscalls.call("connect", sock.fileno(), address, len(address)))
            if sock.family not in (socket.AF_INET, socket.AF_INET6):
                return self._refuse(call, "unix", "", errno.EPERM)
            host, port = parse_address(address)
            if sock.type == socket.SOCK_DGRAM:
                self._close_to_strangers(sock)
                if family != socket.AF_UNSPEC and not (port == _DNS and self.rules.dns):
                    # Nothing is sent by this, and getaddrinfo does it to sort addresses: refused, but not told.
                    return _fail(errno.EACCES)
                return _done(lambda: syscalls.call("connect", sock.fileno(), address, len(address)))
            if family != socket.AF_UNSPEC and port not in self._tcp_ports():
                return self._refuse(call, "tcp", f"{host}:{port}", errno.EACCES)
            reply = _connect(sock, address)
            if reply is None:
                self._wait(call, sock, lambda: _connect(sock, address, again=True))
                kept = True
            return reply
        finally:
            if not kept:
                sock.close()

    def _tcp_ports(self) -> set[int]:
        return {*self.rules.connect_tcp, *((_DNS,) if self.rules.dns else ())}

    # -- sending ----------------------------------------------------------------------------------

    def _on_sendto(self, call: _Call) -> _Reply | None:
        def message(sock: socket.socket) -> Outgoing:
            length = call.args[2]
            if length > 1 << 20:
                if sock.type != socket.SOCK_STREAM:
                    raise OSError(errno.EMSGSIZE, os.strerror(errno.EMSGSIZE))
                length = 1 << 20
            data = syscalls.read_memory(call.pid, (call.args[1], length))
            return Outgoing(data, self._address(call, call.args[4], call.args[5]))

        return self._send(call, call.args[3], message)

    def _on_sendmsg(self, call: _Call) -> _Reply | None:
        return self._send(call, call.args[2], functools.partial(outgoing, call.pid, call.args[1]))

    def _on_sendmmsg(self, call: _Call) -> _Reply | None:
        count = min(call.args[2] & 0xFFFFFFFF, 64)
        for index in range(count):
            header = call.args[1] + 64 * index
            # Only the first may wait.
            flags = call.args[3] | (socket.MSG_DONTWAIT if index else 0)
            try:
                reply = self._send(call, flags, functools.partial(outgoing, call.pid, header), counter=header + 56)
            except OSError as error:
                reply = _fail(error.errno or errno.EPERM)
            if reply is None:
                return None
            if reply.error:
                return _Reply(value=index) if index else reply
        return _Reply(value=count)

    def _send(
        self, call: _Call, flags: int, message: Callable[[socket.socket], Outgoing], *, counter: int = 0
    ) -> _Reply | None:
        """Send one message for the caller.

        Args:
            flags: the call's.
            message: reads it out of the caller's memory, once.
            counter: where to write the number of bytes (sendmmsg, which itself returns the messages).
        """
        flags &= 0x7FFFFFFF & ~(seccomp.MSG_FASTOPEN | 0x4000000)  # MSG_ZEROCOPY: the memory is not the caller's
        sock = self._socket(call)
        kept = False
        try:
            out = message(sock)
            self._must_wait(call)
            refusal = self._may_send(call, sock, out)
            if refusal:
                return refusal
            fds = self._descriptors(call, out.fds)

            def attempt() -> _Reply | None:
                try:
                    sent = out.send(sock, flags | socket.MSG_DONTWAIT, fds)
                except BlockingIOError:
                    if flags & socket.MSG_DONTWAIT or not _blocking(sock):
                        raise
                    return None
                if counter:
                    syscalls.write_memory(call.pid, counter, struct.pack("=I", sent))
                    return _Reply(value=1)
                return _Reply(value=sent)

            try:
                reply = attempt()
                if reply is None:
                    self._wait(call, sock, attempt)
                    kept = True
                return reply
            finally:
                if not kept:
                    for fd in fds:
                        os.close(fd)
        finally:
            if not kept:
                sock.close()

    def _may_send(self, call: _Call, sock: socket.socket, out: Outgoing) -> _Reply | None:
        if sock.family in (socket.AF_INET, socket.AF_INET6):
            # Ancillary data could set what only root may (SO_MARK), and we may be root.
            out.fds = []
            if sock.type != socket.SOCK_DGRAM:
                out.address = b""
                return None
            if out.address:
                host, port = parse_address(out.address)
                if port != _DNS or not self.rules.dns:
                    return self._refuse(call, "udp", f"{host}:{port}", errno.EACCES)
            self._close_to_strangers(sock)
            return None
        if sock.family == socket.AF_NETLINK:
            # With an address the kernel asks for *our* capabilities only, so it goes without; without one
            # it asks for those of whoever opened the socket as well.
            if any(out.address[4:12]) or not netlink_only_asks(out.data):
                return self._refuse(call, "netlink", "", errno.EPERM)
            out.address, out.fds = b"", []
            return None
        if out.address:
            return _fail(errno.EISCONN)
        return None

    def _descriptors(self, call: _Call, numbers: list[int]) -> list[int]:
        """Duplicates of the descriptors that a message carries."""
        found: list[int] = []
        if not numbers:
            return found
        pidfd = self._pidfd(call)
        try:
            for number in numbers:
                found.append(syscalls.pidfd_getfd(pidfd, number))
            self._must_wait(call)
        except OSError:
            for fd in found:
                os.close(fd)
            raise
        finally:
            os.close(pidfd)
        return found

    # -- other processes --------------------------------------------------------------------------

    def _on_prlimit64(self, call: _Call) -> _Reply:
        return self._process(call, call.args[0])

    _on_sched_setaffinity = _on_sched_setscheduler = _on_sched_setparam = _on_sched_setattr = _on_prlimit64

    def _on_setpriority(self, call: _Call) -> _Reply:
        return self._process(call, call.args[1])

    _on_ioprio_set = _on_setpriority

    def _process(self, call: _Call, pid: int) -> _Reply:
        pid = _signed(pid)
        if self._membership.contains(pid) and self._valid(call):
            return _GO_ON
        return self._refuse(call, "process", str(pid), errno.EPERM)

    def _on_kill(self, call: _Call) -> _Reply:
        """Only asked about where Landlock has no signal scope."""
        pid, number = _signed(call.args[0]), _signed(call.args[1])
        if pid > 0:
            return self._signal(call, pid, number)
        if pid < -1 and self._membership.group_inside(-pid) and self._valid(call):
            return _GO_ON
        return self._refuse(call, "signal", str(pid), errno.EPERM)

    def _signal(self, call: _Call, pid: int, number: int) -> _Reply:
        """Send it ourselves, through a descriptor, so that the pid cannot become another process meanwhile."""
        try:
            pidfd = os.pidfd_open(thread_group(pid) or pid)
        except OSError as error:
            return _fail(errno.ESRCH if error.errno in (errno.ESRCH, errno.EINVAL) else errno.EPERM)
        try:
            if not self._membership.contains(pid) or not self._valid(call):
                return self._refuse(call, "signal", str(pid), errno.EPERM)
            signal.pidfd_send_signal(pidfd, number)
        finally:
            os.close(pidfd)
        return _Reply()

    def _on_tgkill(self, call: _Call) -> _Reply:
        group = _signed(call.args[0])
        if self._valid(call) and (group == thread_group(call.pid) or self._membership.contains(group)):
            return _GO_ON
        return self._refuse(call, "signal", str(group), errno.EPERM)

    _on_rt_tgsigqueueinfo = _on_tgkill

    def _on_tkill(self, call: _Call) -> _Reply:
        pid = _signed(call.args[0])
        if self._membership.contains(pid) and self._valid(call):
            return _GO_ON
        return self._refuse(call, "signal", str(pid), errno.EPERM)

    _on_rt_sigqueueinfo = _on_tkill

    def _on_pidfd_send_signal(self, call: _Call) -> _Reply:
        pidfd = self._pidfd(call)
        try:
            target = syscalls.pidfd_getfd(pidfd, call.args[0] & 0xFFFFFFFF)
        finally:
            os.close(pidfd)
        try:
            fields = syscalls.read_file(f"/proc/self/fdinfo/{target}").split()
            pid = int(fields[fields.index(b"Pid:") + 1])
            if not self._membership.contains(pid) or not self._valid(call):
                return self._refuse(call, "signal", str(pid), errno.EPERM)
            signal.pidfd_send_signal(target, _signed(call.args[1]))
        finally:
            os.close(target)
        return _Reply()


class _Limit:
    """At most `_PER_SECOND` refusals are told, with a start of `_BURST`; the rest is counted."""

    _BURST: Final = 50.0
    _PER_SECOND: Final = 10.0

    def __init__(self) -> None:
        self._tokens, self._then, self._left_out = self._BURST, time.monotonic(), 0

    def take(self) -> tuple[bool, int]:
        """Whether this one is told, and how many were not since the last."""
        now = time.monotonic()
        self._tokens = min(self._BURST, self._tokens + (now - self._then) * self._PER_SECOND)
        self._then = now
        if self._tokens < 1:
            self._left_out += 1
            return False, 0
        self._tokens -= 1
        left_out, self._left_out = self._left_out, 0
        return True, left_out


def _signed(word: int) -> int:
    word &= 0xFFFFFFFF
    return word - (1 << 32) if word >> 31 else word


def _done(operation: Callable[[], int]) -> _Reply:
    operation()
    return _Reply()


def _blocking(sock: socket.socket) -> bool:
    return not fcntl.fcntl(sock.fileno(), fcntl.F_GETFL) & os.O_NONBLOCK


def _connect(sock: socket.socket, address: bytes, *, again: bool = False) -> _Reply | None:
    """Start a connection, or look how it stands; None while a blocking one is on its way."""
    fd = sock.fileno()
    flags = fcntl.fcntl(fd, fcntl.F_GETFL)
    blocking = not flags & os.O_NONBLOCK
    if blocking:
        # The flag belongs to the open file, so the session sees it, for some microseconds, on a socket
        # that is not connected yet.
        fcntl.fcntl(fd, fcntl.F_SETFL, flags | os.O_NONBLOCK)
    try:
        syscalls.call("connect", fd, address, len(address))
    except OSError as error:
        if again and error.errno == errno.EISCONN:
            return _Reply()
        if blocking and error.errno in (errno.EINPROGRESS, errno.EALREADY):
            return None
        raise
    finally:
        if blocking:
            fcntl.fcntl(fd, fcntl.F_SETFL, flags)
    return _Reply()


def _local_name(sock: socket.socket) -> str:
    try:
        name = sock.getsockname()
    except OSError:
        return ""
    return f"{name[0]}:{name[1]}" if isinstance(name, tuple) and len(name) >= 2 else ""


def _has_signal(tid: int) -> bool:
    """Whether a waiting thread has a signal that it would handle."""
    pending = int(status_field(tid, b"SigPnd") or "0", 16) | int(status_field(tid, b"ShdPnd") or "0", 16)
    if not pending:
        return False
    return bool(pending & int(status_field(tid, b"SigCgt") or "0", 16) & ~int(status_field(tid, b"SigBlk") or "0", 16))
