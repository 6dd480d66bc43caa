"""Switching the kernel's audit on for a while, and putting back what there was: it concerns the whole machine.

Never done unless asked for (`nd7 run --kernel-records`).  Needs CAP_AUDIT_CONTROL in the first user namespace.  Source:
`include/uapi/linux/audit.h`.  Measured on 6.18: with audit enabled and no daemon, the records also go to the
kernel's log (dmesg).
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import json
import os
import socket
import struct
from collections.abc import Iterator
from pathlib import Path
from typing import Final, NamedTuple

from nd7core.errors import Nd7Error

NETLINK_AUDIT: Final = 9
_GET, _SET, _ERROR = 1000, 1001, 2
_REQUEST, _ACK = 1, 4
_ENABLED, _BACKLOG = 1, 0x10
_HEADER: Final = struct.Struct("=IHHII")
_STATUS: Final = struct.Struct("=11I")
BACKLOG: Final = 8192  # the kernel's default of 64 overflows at a `tar x` of what is denied
RUN: Final = "/run/nd7-audit"


class Status(NamedTuple):
    """What of `struct audit_status` matters.

    Attributes:
        enabled: 0 off, 1 on, 2 on and locked until the next boot.
        backlog: how many records may wait before some are lost.
    """

    enabled: int
    backlog: int


def _ask(kind: int, payload: bytes) -> list[tuple[int, bytes]]:
    """Send one request, and what came back until its acknowledgement.  Raises OSError."""
    with socket.socket(socket.AF_NETLINK, socket.SOCK_RAW | socket.SOCK_CLOEXEC, NETLINK_AUDIT) as link:
        link.settimeout(2.0)
        link.send(_HEADER.pack(_HEADER.size + len(payload), kind, _REQUEST | _ACK, 1, 0) + payload)
        answers: list[tuple[int, bytes]] = []
        acknowledged = False
        while not acknowledged or (kind == _GET and not any(answer == _GET for answer, _ in answers)):
            data = link.recv(1 << 16)
            _, answer, _, _, _ = _HEADER.unpack_from(data)
            if answer == _ERROR:
                (code,) = struct.unpack_from("=i", data, _HEADER.size)
                if code:
                    raise OSError(-code, os.strerror(-code))
                acknowledged = True
            else:
                answers.append((answer, data[_HEADER.size :]))
        return answers


def status() -> Status:
    """How audit stands.  Raises OSError: EPERM without CAP_AUDIT_CONTROL, EPROTONOSUPPORT in a kernel without it."""
    for answer, data in _ask(_GET, b""):
        if answer == _GET:
            fields = struct.unpack_from("=6I", data)
            return Status(fields[1], fields[5])
    raise OSError(errno.EPROTO, "no status")


def _set(mask: int, *, enabled: int = 0, backlog: int = 0) -> None:
    _ask(_SET, _STATUS.pack(mask, enabled, 0, 0, 0, backlog, 0, 0, 0, 0, 0))


def switch_on(directory: str = RUN) -> int:
    """Switch audit on, unless it is, for as long as the returned descriptor is open somewhere.

    Several sessions may want it at once: each holds a shared lock on one file, and `let_go` puts back what there was
    when nobody does any more.  A lock goes with its process, so one that was killed keeps nothing on.

    Raises:
        Nd7Error: it cannot be, and why.
    """
    try:
        os.makedirs(directory, mode=0o700, exist_ok=True)
        if os.path.islink(directory) or os.lstat(directory).st_uid != os.geteuid():
            raise OSError(errno.EPERM, f"{directory} is not root's own")
        with _locked(directory):
            now = status()
            users = _open(directory, "users")
            try:
                fcntl.flock(users, fcntl.LOCK_SH)
                if now.enabled == 0:
                    with os.fdopen(_open(directory, "before"), "w", encoding="ascii") as file:
                        file.truncate()
                        json.dump(list(now), file)
                    _set(_BACKLOG, backlog=max(now.backlog, BACKLOG))
                    _set(_ENABLED, enabled=1)
            except OSError:
                os.close(users)
                raise
        return users
    except OSError as error:
        raise Nd7Error(
            f"the kernel's audit cannot be switched on: {error.strerror or error}",
            hint="--kernel-records needs root outside of any container, and a kernel with CONFIG_AUDIT",
            exit_code=126,
        ) from None


def let_go(directory: str = RUN) -> bool:
    """Put back what there was before `switch_on`, if nobody wants it on any more.  Never raises.

    Returns:
        Whether nothing is left to be put back.
    """
    try:
        with _locked(directory):
            before = os.path.join(directory, "before")
            if not os.path.exists(before):
                return True
            users = _open(directory, "users")
            try:
                fcntl.flock(users, fcntl.LOCK_EX | fcntl.LOCK_NB)
                enabled, backlog = map(int, json.loads(Path(before).read_text(encoding="ascii")))
                _set(_ENABLED, enabled=enabled)
                _set(_BACKLOG, backlog=backlog)
                os.unlink(before)
            finally:
                os.close(users)
    except (OSError, ValueError):
        return False
    return True


def _open(directory: str, name: str) -> int:
    flags = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC
    return os.open(os.path.join(directory, name), flags, 0o600)


@contextlib.contextmanager
def _locked(directory: str) -> Iterator[None]:
    guard = _open(directory, "guard")
    try:
        fcntl.flock(guard, fcntl.LOCK_EX)
        yield
    finally:
        os.close(guard)
