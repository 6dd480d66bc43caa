"""What attacks are made of: a registry, and system calls that Python does not have."""

from __future__ import annotations

import ctypes
import errno
import os
import struct
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from confined import Config, Targets

from nd7exec.linux import syscalls

Attack = Callable[[Targets], Any]

# What a refusal looks like.  Anything else is a broken attack, which proves nothing.
REFUSALS = {
    errno.EACCES, errno.EPERM, errno.EROFS, errno.EXDEV, errno.EBUSY, errno.ENOSYS, errno.ENOSPC,
    errno.EAFNOSUPPORT, errno.EPROTONOSUPPORT, errno.EISCONN,
}  # fmt: skip


@dataclass(frozen=True)
class Case:
    """One attack and what must come of it.

    Attributes:
        open_when: names a reason where a configuration is known to leave this open; None where it must hold.
        arrives: listeners at which nothing may arrive either.
        dies: the attacker may also be killed for it (SIGSYS).
        errors: what else than the usual refusals it may end in, where the kernel has a word of its own for it.
    """

    name: str
    kind: str
    run: Attack
    open_when: Callable[[Config], str | None]
    arrives: tuple[str, ...] = ()
    dies: bool = False
    errors: tuple[int, ...] = ()


CASES: dict[str, Case] = {}


def closed(_: Config) -> str | None:
    return None


def always(reason: str) -> Callable[[Config], str | None]:
    """Open in every configuration, and why."""
    return lambda config: reason


def without_mounts(reason: str) -> Callable[[Config], str | None]:
    """Open where the session has no mounts of its own, and why."""
    return lambda config: None if config.namespaces else reason


def below(version: int, reason: str) -> Callable[[Config], str | None]:
    """Open where neither mounts nor that version of Landlock are there, and why."""
    return lambda config: reason if not config.namespaces and config.version < version else None


def attack(
    kind: str,
    *,
    opens: Callable[[Config], str | None] = closed,
    arrives: tuple[str, ...] = (),
    dies: bool = False,
    errors: tuple[int, ...] = (),
) -> Callable[[Attack], Attack]:
    """Register a function as an attack: it must raise OSError where it is refused, and return where it got through."""

    def register(function: Attack) -> Attack:
        CASES[function.__name__] = Case(
            function.__name__, kind, function, opens, arrives=arrives, dies=dies, errors=errors
        )
        return function

    return register


EXTRA = {
    "x86_64": {
        "capget": 125, "chmod": 90, "fchmodat2": 452, "get_robust_list": 274, "inotify_init1": 294, "link": 86,
        "linkat": 265, "mq_timedsend": 242, "name_to_handle_at": 303, "renameat2": 316, "setxattr": 188, "shmdt": 67,
        "truncate": 76, "mknodat": 259, "personality": 135, "waitid": 247, "setgid": 106, "setuid": 105,
        "inotify_add_watch": 254, "statx": 332, "sched_setparam": 142,
    },
    "aarch64": {
        "capget": 90, "fchmodat2": 452, "get_robust_list": 100, "inotify_init1": 26, "linkat": 37,
        "mq_timedsend": 182, "name_to_handle_at": 264, "renameat2": 276, "setxattr": 5, "shmdt": 197, "truncate": 45,
        "mknodat": 33, "personality": 92, "waitid": 95, "setgid": 144, "setuid": 146, "inotify_add_watch": 27,
        "statx": 291, "sched_setparam": 118,
    },
}  # fmt: skip


def call(name: str, *arguments: Any) -> int:
    """A system call by name; strings are paths."""
    machine = os.uname().machine
    number = syscalls.NUMBERS[machine].get(name)
    if number is None:
        number = EXTRA[machine][name]
    return syscalls.raw(number, *[os.fsencode(value) if isinstance(value, str) else value for value in arguments])


def refused(error: int = errno.EPERM) -> OSError:
    """What an attack raises that failed without an errno."""
    return OSError(error, os.strerror(error))


def in_address(host: str, port: int) -> bytes:
    """struct sockaddr_in."""
    return struct.pack("=H", 2) + struct.pack("!H", port) + bytes(map(int, host.split("."))) + bytes(8)


def un_address(path: bytes) -> bytes:
    """struct sockaddr_un."""
    return struct.pack("=H", 1) + path + b"\0"


class Header:
    """A struct msghdr with one buffer, whose parts stay alive."""

    def __init__(self, data: bytes, address: bytes = b"", control: bytes = b"") -> None:
        self.data, self.address = ctypes.create_string_buffer(data, len(data)), ctypes.create_string_buffer(address)
        self.control = ctypes.create_string_buffer(control, len(control))
        vector = struct.pack("QQ", ctypes.addressof(self.data), len(data))
        self.vector = ctypes.create_string_buffer(vector, 16)
        self.bytes = struct.pack(
            "QI4xQQQQi4x",
            ctypes.addressof(self.address) if address else 0,
            len(address),
            ctypes.addressof(self.vector),
            1,
            ctypes.addressof(self.control) if control else 0,
            len(control),
            0,
        )
