"""connect, bind, listen and the sends: decided on a copy, done on a duplicate.

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

import errno
import fcntl
import functools
import os
import socket
import struct
from collections.abc import Callable
from typing import Final

from nd7core.policy.rules import LinuxRules
from nd7exec.linux import bpf, seccomp, syscalls
from nd7exec.linux.asked import Call, Desk, Reply, done, fail
from nd7exec.linux.messages import Outgoing, netlink_only_asks, outgoing, parse_address
from nd7exec.linux.waiting import Waiting

_SO_COOKIE, _SO_LOCK_FILTER, _SO_ATTACH_FILTER = 57, 44, 26
_DNS: Final = 53


class Sockets:
    """The decisions about sockets.

    Attributes:
        rules: what may be connected to.
    """

    def __init__(self, desk: Desk, waiting: Waiting, rules: LinuxRules) -> None:
        self.rules = rules
        self._desk, self._waiting = desk, waiting
        self._shut: dict[bytes, None] = {}

    def _socket(self, call: Call) -> socket.socket:
        """A duplicate of the caller's socket.  Raises OSError, ENOTSOCK for another kind of file."""
        pidfd = self._desk.pidfd(call)
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
            self._desk.must_wait(call)
        except OSError:
            duplicate.close()
            raise
        return duplicate

    def listen(self, call: Call) -> Reply:
        """listen(2)."""
        with self._socket(call) as sock:
            target = _local_name(sock)
        return self._desk.refuse(call, "listen", target, errno.EACCES)

    def bind(self, call: Call) -> Reply:
        """bind(2)."""
        with self._socket(call) as sock:
            address = self._address(call, call.args[1], call.args[2])
            if sock.family == socket.AF_NETLINK:
                return done(lambda: syscalls.call("bind", sock.fileno(), address, len(address)))
            if sock.family not in (socket.AF_INET, socket.AF_INET6):
                return self._desk.refuse(call, "unix", "", errno.EPERM)
            host, port = parse_address(address)
            # Any free port is what a client binds to; a server comes to grief at listen().
            if port != 0:
                kind = "udp" if sock.type == socket.SOCK_DGRAM else "listen"
                return self._desk.refuse(call, kind, f"{host}:{port}", errno.EACCES)
            if sock.type == socket.SOCK_DGRAM:
                self._close_to_strangers(sock)
            return done(lambda: syscalls.call("bind", sock.fileno(), address, len(address)))

    def _address(self, call: Call, pointer: int, length: int) -> bytes:
        length &= 0xFFFFFFFF
        if length > 128:
            raise OSError(errno.EINVAL, os.strerror(errno.EINVAL))
        address = syscalls.read_memory(call.pid, (pointer, length))
        self._desk.must_wait(call)
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
        sock.setsockopt(socket.SOL_SOCKET, _SO_ATTACH_FILTER, bpf.only_from_port(_DNS))
        sock.setsockopt(socket.SOL_SOCKET, _SO_LOCK_FILTER, 1)
        self._shut[cookie] = None
        if len(self._shut) > 65536:
            del self._shut[next(iter(self._shut))]

    def connect(self, call: Call) -> Reply | None:
        """connect(2)."""
        sock = self._socket(call)
        kept = False
        try:
            address = self._address(call, call.args[1], call.args[2])
            family = struct.unpack_from("=H", address)[0]
            if sock.family == socket.AF_NETLINK:
                if any(address[4:12]):
                    return self._desk.refuse(call, "netlink", "", errno.EPERM)
                return done(lambda: syscalls.call("connect", sock.fileno(), address, len(address)))
            if sock.family not in (socket.AF_INET, socket.AF_INET6):
                return self._desk.refuse(call, "unix", "", errno.EPERM)
            host, port = parse_address(address)
            if sock.type == socket.SOCK_DGRAM:
                self._close_to_strangers(sock)
                if family != socket.AF_UNSPEC and not (port == _DNS and self.rules.dns):
                    # Nothing is sent by this, and getaddrinfo does it to sort addresses: refused, but not told.
                    return fail(errno.EACCES)
                return done(lambda: syscalls.call("connect", sock.fileno(), address, len(address)))
            if family != socket.AF_UNSPEC and port not in self._tcp_ports():
                return self._desk.refuse(call, "tcp", f"{host}:{port}", errno.EACCES)
            reply = _connect(sock, address)
            if reply is None:
                self._waiting.add(call, sock, lambda: _connect(sock, address, again=True))
                kept = True
            return reply
        finally:
            if not kept:
                sock.close()

    def _tcp_ports(self) -> set[int]:
        return {*self.rules.connect_tcp, *((_DNS,) if self.rules.dns else ())}

    def sendto(self, call: Call) -> Reply | None:
        """sendto(2)."""

        def message(sock: socket.socket) -> Outgoing:
            length = call.args[2]
            if length > 1 << 20:
                if sock.type != socket.SOCK_STREAM:
                    raise OSError(errno.EMSGSIZE, os.strerror(errno.EMSGSIZE))
                length = 1 << 20
            data = syscalls.read_memory(call.pid, (call.args[1], length))
            return Outgoing(data, self._address(call, call.args[4], call.args[5]))

        return self._send(call, call.args[3], message)

    def sendmsg(self, call: Call) -> Reply | None:
        """sendmsg(2)."""
        return self._send(call, call.args[2], functools.partial(outgoing, call.pid, call.args[1]))

    def sendmmsg(self, call: Call) -> Reply | None:
        """sendmmsg(2)."""
        count = min(call.args[2] & 0xFFFFFFFF, 64)
        for index in range(count):
            header = call.args[1] + 64 * index
            # Only the first may wait.
            flags = call.args[3] | (socket.MSG_DONTWAIT if index else 0)
            try:
                reply = self._send(call, flags, functools.partial(outgoing, call.pid, header), counter=header + 56)
            except OSError as error:
                reply = fail(error.errno or errno.EPERM)
            if reply is None:
                return None
            if reply.error:
                return Reply(value=index) if index else reply
        return Reply(value=count)

    def _send(
        self, call: Call, flags: int, message: Callable[[socket.socket], Outgoing], *, counter: int = 0
    ) -> Reply | None:
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
            self._desk.must_wait(call)
            refusal = self._may_send(call, sock, out)
            if refusal:
                return refusal
            fds = self._descriptors(call, out.fds)

            def attempt() -> Reply | None:
                try:
                    sent = out.send(sock, flags | socket.MSG_DONTWAIT, fds)
                except BlockingIOError:
                    if flags & socket.MSG_DONTWAIT or not _blocking(sock):
                        raise
                    return None
                if counter:
                    syscalls.write_memory(call.pid, counter, struct.pack("=I", sent))
                    return Reply(value=1)
                return Reply(value=sent)

            try:
                reply = attempt()
                if reply is None:
                    self._waiting.add(call, sock, attempt, fds)
                    kept = True
                return reply
            finally:
                if not kept:
                    for fd in fds:
                        os.close(fd)
        finally:
            if not kept:
                sock.close()

    def _may_send(self, call: Call, sock: socket.socket, out: Outgoing) -> Reply | None:
        if sock.family in (socket.AF_INET, socket.AF_INET6):
            # Ancillary data could set what only root may (SO_MARK), and we may be root.
            out.fds = []
            if sock.type != socket.SOCK_DGRAM:
                out.address = b""
                return None
            if out.address:
                host, port = parse_address(out.address)
                if port != _DNS or not self.rules.dns:
                    return self._desk.refuse(call, "udp", f"{host}:{port}", errno.EACCES)
            self._close_to_strangers(sock)
            return None
        if sock.family == socket.AF_NETLINK:
            # With an address the kernel asks for *our* capabilities only, so it goes without; without one
            # it asks for those of whoever opened the socket as well.
            if any(out.address[4:12]) or not netlink_only_asks(out.data):
                return self._desk.refuse(call, "netlink", "", errno.EPERM)
            out.address, out.fds = b"", []
            return None
        if out.address:
            return fail(errno.EISCONN)
        return None

    def _descriptors(self, call: Call, numbers: list[int]) -> list[int]:
        """Duplicates of the descriptors that a message carries."""
        found: list[int] = []
        if not numbers:
            return found
        pidfd = self._desk.pidfd(call)
        try:
            for number in numbers:
                found.append(syscalls.pidfd_getfd(pidfd, number))
            self._desk.must_wait(call)
        except OSError:
            for fd in found:
                os.close(fd)
            raise
        finally:
            os.close(pidfd)
        return found


def _blocking(sock: socket.socket) -> bool:
    return not fcntl.fcntl(sock.fileno(), fcntl.F_GETFL) & os.O_NONBLOCK


def _connect(sock: socket.socket, address: bytes, *, again: bool = False) -> Reply | None:
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
            return Reply()
        if blocking and error.errno in (errno.EINPROGRESS, errno.EALREADY):
            return None
        raise
    finally:
        if blocking:
            fcntl.fcntl(fd, fcntl.F_SETFL, flags)
    return Reply()


def _local_name(sock: socket.socket) -> str:
    try:
        name = sock.getsockname()
    except OSError:
        return ""
    return f"{name[0]}:{name[1]}" if isinstance(name, tuple) and len(name) >= 2 else ""
