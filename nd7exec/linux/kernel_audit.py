"""What the kernel itself recorded: Landlock's denials and seccomp's refusals, from the audit's netlink group.

Records 1423 (an access that was denied) and 1424 (its domain, told with the first denial) since Linux 6.15; format:
Documentation/admin-guide/LSM/landlock.rst, and measured on 6.18.  Record 1326, of a system call that a filter refused
which was installed with SECCOMP_FILTER_FLAG_LOG, names nothing but the process and the call, neither arguments nor
parent (measured on 6.18).  Nothing is taken away from a daemon, which has a channel of its own.
"""

from __future__ import annotations

import contextlib
import errno
import re
import socket
import struct
from collections import OrderedDict
from dataclasses import dataclass, replace
from typing import Final

from nd7exec.linux import audit, syscalls
from nd7exec.linux.bpf import ARCHITECTURE

_SYSCALL, _ACCESS, _DOMAIN, _END, _SECCOMP = 1300, 1423, 1424, 1320, 1326
# The actions of a filter that are refusals; SECCOMP_RET_USER_NOTIF and _LOG are recorded as well.
_ACTIONS: Final = {0x00050000: "refused", 0x00000000: "killed", 0x80000000: "killed"}
_GROUP_READLOG: Final = 1
_RECEIVE: Final = 8 << 20
_AT_ONCE: Final = 256
_MOST_DOMAINS: Final = 4096
_MOST_OPEN: Final = 256
_STAMP = re.compile(rb"audit\((\d+)\.(\d{3}):(\d+)\): ?")
_FIELD = re.compile(rb'(\w+)=("[^"]*"|\S*)')
# The kernel names the directory in which something was to be made or removed, not the thing itself.
_WITHIN: Final = ("fs.make_", "fs.remove_", "fs.refer")


@dataclass(frozen=True, slots=True)
class KernelDenial:
    """One access that Landlock denied, as the kernel tells it.

    Attributes:
        ts: nanoseconds since the epoch (the kernel's milliseconds).
        domain: the Landlock domain's number, hexadecimal.
        creator: the process that entered the domain first, which became the command (or the agent); 0 if untold.
        pid, comm, exe, error: the process that was denied, its name (its own choice) and program, the errno that it
            got; 0 and "" if untold.
        blockers: the missing rights, e.g. `fs.write_file`, `net.connect_tcp`, `scope.signal`, `ptrace`.
        path: of the file, or "".
        within: whether `path` is the directory of what was to be made, moved or removed.
        target: `host:port` of a connection, the pid of another process, or "".
    """

    ts: int
    domain: str
    creator: int = 0
    pid: int = 0
    comm: str = ""
    exe: str = ""
    error: int = 0
    blockers: tuple[str, ...] = ()
    path: str = ""
    within: bool = False
    target: str = ""


@dataclass(frozen=True, slots=True)
class CallRefusal:
    """One system call that a seccomp filter refused, as the kernel tells it.

    Attributes:
        ts: nanoseconds since the epoch (the kernel's milliseconds).
        pid, uid, comm, exe: the process's number, user, name (its own choice) and program.
        call: the system call's name, or its number where the tables do not know it.
        action: refused, or killed for it.
        owner: the zygote's child that the process descends from; 0 where that has not been looked up.
    """

    ts: int
    pid: int
    uid: int
    comm: str
    exe: str
    call: str
    action: str
    owner: int = 0


class Records:
    """Puts records together to denials.  Sans-IO: feed it what arrives, in its order."""

    def __init__(self) -> None:
        self._creators: OrderedDict[str, int] = OrderedDict()
        self._open: OrderedDict[int, list[KernelDenial]] = OrderedDict()

    def feed(self, kind: int, text: bytes) -> list[KernelDenial | CallRefusal]:
        """One record.  Returns the denials that are complete by it; what has another form is passed over."""
        stamp = _STAMP.match(text)
        if stamp is not None and kind == _SECCOMP:
            return _call(_time(stamp), dict(_FIELD.findall(text[stamp.end() :])))
        if stamp is None or kind not in (_ACCESS, _DOMAIN, _SYSCALL, _END):
            return []
        serial = int(stamp[3])
        # An event whose end was lost is over when another one's records come.
        done = [denial for other in [s for s in self._open if s < serial - 8] for denial in self._open.pop(other)]
        fields = dict(_FIELD.findall(text[stamp.end() :]))
        if kind == _END:
            done += self._open.pop(serial, [])
        elif kind == _DOMAIN:
            self._domain(fields)
        elif kind == _ACCESS and len(self._open) < _MOST_OPEN:
            self._open.setdefault(serial, []).append(_access(_time(stamp), fields))
        elif kind == _SYSCALL and serial in self._open:
            self._open[serial] = [
                replace(
                    denial,
                    pid=_number(fields, b"pid"),
                    comm=_string(fields.get(b"comm", b"")),
                    exe=_string(fields.get(b"exe", b"")),
                    error=max(0, -_number(fields, b"exit")),
                )
                for denial in self._open[serial]
            ]
        return [replace(denial, creator=self._creators.get(denial.domain, 0)) for denial in done]

    def _domain(self, fields: dict[bytes, bytes]) -> None:
        domain = fields.get(b"domain", b"").decode("ascii", "replace")
        if fields.get(b"status") == b"allocated":
            self._creators[domain] = _number(fields, b"pid")
            if len(self._creators) > _MOST_DOMAINS:
                self._creators.popitem(last=False)


def _time(stamp: re.Match[bytes]) -> int:
    return (int(stamp[1]) * 1000 + int(stamp[2])) * 1_000_000


def _call(ts: int, fields: dict[bytes, bytes]) -> list[KernelDenial | CallRefusal]:
    action = _ACTIONS.get(_number(fields, b"code", 16))
    if action is None:
        return []
    architecture, number = _number(fields, b"arch", 16), _number(fields, b"syscall")
    machine = next((name for name, value in ARCHITECTURE.items() if value == architecture), "")
    known = syscalls.NUMBERS.get(machine, {})
    call = next((name for name, value in known.items() if value == number), f"system call {number}")
    if not machine:
        call = f"system call {number} of architecture {architecture:x}"  # as a 32-bit program makes them
    pid, uid = _number(fields, b"pid"), _number(fields, b"uid")
    comm, exe = _string(fields.get(b"comm", b"")), _string(fields.get(b"exe", b""))
    return [CallRefusal(ts, pid, uid, comm, exe, call, action)]


def _access(ts: int, fields: dict[bytes, bytes]) -> KernelDenial:
    blockers = tuple(part.decode("ascii", "replace") for part in fields.get(b"blockers", b"").split(b",") if part)
    target = str(_number(fields, b"opid")) if b"opid" in fields else ""
    for address, port in ((b"daddr", b"dest"), (b"saddr", b"src")):
        if port in fields:
            host = _string(fields.get(address, b"")) or "*"
            target = f"[{host}]:{_number(fields, port)}" if ":" in host else f"{host}:{_number(fields, port)}"
            break
    return KernelDenial(
        ts=ts,
        domain=fields.get(b"domain", b"").decode("ascii", "replace"),
        blockers=blockers,
        path=_string(fields.get(b"path", b"")),
        within=bool(blockers) and all(part.startswith(_WITHIN) for part in blockers),
        target=target,
    )


def _number(fields: dict[bytes, bytes], name: bytes, base: int = 10) -> int:
    try:
        return int(fields.get(name, b"0"), base)
    except ValueError:
        return 0


def _string(text: bytes) -> str:
    """A string as audit writes one: quoted, or hexadecimal where it holds a quote, a space or a control."""
    if text.startswith(b'"'):
        return text[1:-1].decode("utf-8", "surrogateescape")
    if re.fullmatch(rb"(?:[0-9A-F]{2})+", text):
        return bytes.fromhex(text.decode()).decode("utf-8", "surrogateescape")
    return "" if text == b"(null)" else text.decode("utf-8", "surrogateescape")


def why_not() -> str:
    """Why the kernel's records cannot be read here, or "" where they can."""
    try:
        KernelAudit().close()
        if not audit.status().enabled:
            return "audit is switched off on this machine"
    except OSError as error:
        if error.errno == errno.EPERM:
            return "only root may read the kernel's audit records"
        return f"no audit on this kernel ({error.strerror or error})"
    return ""


class KernelAudit:
    """The records of the whole machine, as they come.  Poll `fileno()`, call `read()`.

    Raises:
        OSError: EPERM without CAP_AUDIT_READ in the first user namespace.

    Attributes:
        lost: how often the kernel dropped records because they came too fast.
    """

    def __init__(self) -> None:
        self.lost = 0
        self._records = Records()
        kind = socket.SOCK_RAW | socket.SOCK_CLOEXEC | socket.SOCK_NONBLOCK
        self._socket = socket.socket(socket.AF_NETLINK, kind, audit.NETLINK_AUDIT)
        try:
            with contextlib.suppress(OSError):  # without CAP_NET_ADMIN it stays as small as it is
                self._socket.setsockopt(socket.SOL_SOCKET, getattr(socket, "SO_RCVBUFFORCE", 33), _RECEIVE)
            self._socket.bind((0, _GROUP_READLOG))
        except OSError:
            self._socket.close()
            raise

    def fileno(self) -> int:
        """A descriptor that is readable when records have come."""
        return self._socket.fileno()

    def read(self) -> list[KernelDenial | CallRefusal]:
        """The denials that are complete, from what has come; a bounded amount of it.  Raises OSError."""
        found: list[KernelDenial | CallRefusal] = []
        for _ in range(_AT_ONCE):
            try:
                data = self._socket.recv(1 << 16)
            except (BlockingIOError, InterruptedError):
                break
            except OSError as error:
                if error.errno != errno.ENOBUFS:
                    raise
                self.lost += 1
                continue
            if len(data) >= 16:
                found += self._records.feed(struct.unpack_from("=IH", data)[1], data[16:].rstrip(b"\0\n"))
        return found

    def close(self) -> None:
        """Stop listening."""
        self._socket.close()
