"""What a process wants to send, copied out of its memory, and sent for it."""

from __future__ import annotations

import array
import errno
import os
import socket
import struct
from dataclasses import dataclass, field
from typing import Final

from nd7exec.linux import syscalls

_MOST: Final = 1 << 20
_MOST_CONTROL: Final = 4096
_NLMSG_DONE: Final = 3
_FIRST_RTM: Final = 16
_RTM_GET: Final = 2


@dataclass(slots=True)
class Outgoing:
    """One message: bytes, where to, and the sender's numbers of the descriptors that go with it."""

    data: bytes
    address: bytes = b""
    fds: list[int] = field(default_factory=list)

    def send(self, sock: socket.socket, flags: int, fds: list[int]) -> int:
        """Send it, with `fds` in place of the sender's own numbers.  Returns the bytes that went; raises OSError."""
        if fds:
            rights = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", fds))]
            return sock.sendmsg([self.data], rights, flags)
        data = self.data or b"\0"
        return syscalls.call(
            "sendto", sock.fileno(), data, len(self.data), flags, self.address or None, len(self.address)
        )


def outgoing(pid: int, header: int, sock: socket.socket) -> Outgoing:
    """Copy a struct msghdr and all that it points to.

    Args:
        pid: whose memory.
        header: the address of the struct in it.
        sock: only its type matters: a stream may take a part, anything else all or nothing.

    Raises:
        OSError: EMSGSIZE, EFAULT; EPERM for credentials, which we would vouch for.
    """
    name, name_length, vector, count, control, control_length = struct.unpack(
        "QI4xQQQQ", syscalls.read_memory(pid, (header, 48))
    )
    if count > 1024:
        raise OSError(errno.EMSGSIZE, os.strerror(errno.EMSGSIZE))
    if name_length > 128:
        raise OSError(errno.EINVAL, os.strerror(errno.EINVAL))
    words = struct.unpack(f"{2 * count}Q", syscalls.read_memory(pid, (vector, 16 * count)))
    pieces, left = [], _MOST
    for address, length in zip(words[::2], words[1::2], strict=True):
        if length > left:
            if sock.type != socket.SOCK_STREAM:
                raise OSError(errno.EMSGSIZE, os.strerror(errno.EMSGSIZE))
            length = left
        pieces.append((address, length))
        left -= length
    message = Outgoing(syscalls.read_memory(pid, *pieces))
    if name and name_length:
        message.address = syscalls.read_memory(pid, (name, name_length))
    if control and control_length and sock.family == socket.AF_UNIX:
        if control_length > _MOST_CONTROL:
            raise OSError(errno.ENOBUFS, os.strerror(errno.ENOBUFS))
        message.fds = _descriptors(syscalls.read_memory(pid, (control, control_length)))
    return message


def _descriptors(control: bytes) -> list[int]:
    """The descriptor numbers of a control buffer (cmsg(3)).  Raises OSError for anything else in it."""
    found: list[int] = []
    while len(control) >= 16:
        length, level, kind = struct.unpack_from("QII", control)
        if not 16 <= length <= len(control):
            raise OSError(errno.EINVAL, os.strerror(errno.EINVAL))
        if (level, kind) != (socket.SOL_SOCKET, socket.SCM_RIGHTS):
            raise OSError(errno.EPERM, os.strerror(errno.EPERM))
        found += struct.unpack_from(f"{(length - 16) // 4}i", control, 16)
        control = control[(length + 7) & ~7 :]
    return found


def parse_address(address: bytes) -> tuple[str, int]:
    """Host and port of an internet address.

    The port lies at the same place in both families, and where the kernel takes AF_UNSPEC for AF_INET
    (udp_sendmsg) as well, so it is read whatever the family says.

    Raises:
        ValueError: too short.

    Examples:
        >>> parse_address(bytes.fromhex("0200003508080808") + bytes(8))
        ('8.8.8.8', 53)
        >>> parse_address(bytes.fromhex("0a0001bb00000000") + bytes(15) + b"\\x01" + bytes(4))
        ('[::1]', 443)
    """
    family = struct.unpack_from("=H", address)[0]
    port = struct.unpack_from("!H", address, 2)[0] if len(address) >= 4 else 0
    if family == socket.AF_INET6 and len(address) >= 24:
        return f"[{socket.inet_ntop(socket.AF_INET6, address[8:24])}]", port
    if family == socket.AF_UNSPEC and len(address) < 8:
        return "", port
    if len(address) < 8:
        raise ValueError("an address that is too short")
    return socket.inet_ntop(socket.AF_INET, address[4:8]), port


def netlink_only_asks(data: bytes) -> bool:
    """Whether every rtnetlink message in a buffer is a GET (rtnetlink(7): the types come in fours, GET third)."""
    while data:
        if len(data) < 16:
            return False
        length, kind = struct.unpack_from("=IH", data)
        if length < 16 or not (kind == _NLMSG_DONE or (kind >= _FIRST_RTM and kind & 3 == _RTM_GET)):
            return False
        data = data[(length + 3) & ~3 :]
    return True
