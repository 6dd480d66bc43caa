"""The session's seccomp filter: assembled here, constant for a session, over scalar arguments only.

A filter cannot read memory and cannot look at what a descriptor is, so whatever would need that goes
to the notifier (`nd7exec.linux.notifier`), which decides on copies and does the operation itself.

Sources: Documentation/userspace-api/seccomp_filter.rst, `include/uapi/linux/{seccomp,filter,audit}.h`.
Whether the arm64 program is right is only checked by running it in the interpreter below.
"""

from __future__ import annotations

import ctypes
import errno
import struct
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

from nd7exec.linux import syscalls

# The two protocol numbers of the rendezvous: socket(AF_UNIX, SOCK_STREAM, one of these).
EXEC_PROTOCOL: Final = 0x6E64
RECORD_PROTOCOL: Final = 0x6E65

ALLOW: Final = 0x7FFF0000
NOTIFY: Final = 0x7FC00000
KILL: Final = 0x80000000

_ARCHITECTURE: Final = {"x86_64": 0xC000003E, "aarch64": 0xC00000B7}

_LD, _JEQ, _JGT, _JSET, _AND, _RET = 0x20, 0x15, 0x25, 0x45, 0x54, 0x06
_NR, _ARCH = 0, 4

AF_UNIX, AF_INET, AF_INET6, AF_NETLINK = 1, 2, 10, 16
SOCK_STREAM, SOCK_DGRAM, SOCK_SEQPACKET = 1, 2, 5
IPPROTO_TCP, IPPROTO_UDP = 6, 17
MSG_FASTOPEN: Final = 0x20000000
# mount, cgroup, uts, ipc, user, pid, net; the low byte of clone's flags is a signal number.
NAMESPACES: Final = 0x7E020000
CLONE_NEWTIME: Final = 0x80

# Refused for everyone.  None has a use in building and testing software that outweighs what it opens.
REFUSED: Final = (
    # asynchronous system calls that this filter would never see
    "io_uring_setup",
    "io_uring_enter",
    "io_uring_register",
    # kernel interfaces with a long history of holes
    "bpf",
    "perf_event_open",
    "userfaultfd",
    "add_key",
    "request_key",
    "keyctl",
    "fanotify_init",
    # other processes' descriptors and memory: Landlock refuses it beyond the session, and nothing needs it within
    "pidfd_getfd",
    "kcmp",
    "process_madvise",
    "process_mrelease",
    # ways to a file that pass by its path
    "open_by_handle_at",
    # mounts and namespaces
    "mount",
    "umount2",
    "pivot_root",
    "chroot",
    "setns",
    "fsopen",
    "fsconfig",
    "fsmount",
    "fspick",
    "move_mount",
    "open_tree",
    "open_tree_attr",
    "mount_setattr",
    # the machine
    "init_module",
    "finit_module",
    "delete_module",
    "kexec_load",
    "kexec_file_load",
    "quotactl",
    "quotactl_fd",
    "swapon",
    "swapoff",
    "reboot",
    "acct",
    "syslog",
    "settimeofday",
    "clock_settime",
    "sethostname",
    "setdomainname",
    "vhangup",
    "iopl",
    "ioperm",
    "modify_ldt",
    "lsm_set_self_attr",
    "lookup_dcookie",
    "nfsservctl",
    "uselib",
    "_sysctl",
)

# Without an IPC namespace of the session's own these reach every other program of the same user.
_IPC: Final = (
    "shmget",
    "shmat",
    "shmctl",
    "semget",
    "semop",
    "semtimedop",
    "semctl",
    "msgget",
    "msgsnd",
    "msgrcv",
    "msgctl",
    "mq_open",
    "mq_unlink",
)

# Terminal injection (TIOCSTI, TIOCLINUX), line disciplines (TIOCSETD), the console (TIOCCONS), hanging up.
_TERMINAL_IOCTLS: Final = (0x5412, 0x541C, 0x5423, 0x541D, 0x5437)
# FIOSETOWN, SIOCSPGRP: a signal to any process, by way of SIGIO.
_OWNER_IOCTLS: Final = (0x8901, 0x8902)
# FS_IOC_SETFLAGS (64, 32), FS_IOC_SETVERSION, FS_IOC_FSSETXATTR: chattr, which needs no write access.
_ATTRIBUTE_IOCTLS: Final = (0x40086602, 0x40046602, 0x40087602, 0x401C5820)
_F_SETOWN, _F_SETSIG, _F_SETOWN_EX = 8, 10, 15


@dataclass(frozen=True, slots=True)
class Surroundings:
    """What else confines the session, and so need not be refused by the filter.

    Attributes:
        machine: a key of `syscalls.NUMBERS`.
        mounts: the mount namespace is the session's own, everything outside is mounted read-only.
        ipc: so is the IPC namespace.
        namespaces_closed: no further user namespace can be made, whatever clone3 asks for.
        scopes: Landlock keeps signals inside the session (version 6).
    """

    machine: str
    mounts: bool = True
    ipc: bool = True
    namespaces_closed: bool = True
    scopes: bool = True


class Instruction(NamedTuple):
    """struct sock_filter."""

    code: int
    jump_true: int
    jump_false: int
    k: int


Block = list[Instruction]


def refuse(error: int) -> int:
    """The filter's return value for failing with an errno."""
    return 0x00050000 | error


def _ret(value: int) -> Block:
    return [Instruction(_RET, 0, 0, value)]


def _load(offset: int) -> Block:
    return [Instruction(_LD, 0, 0, offset)]


def _argument(index: int, *, high: bool = False) -> Block:
    """Load the low (or high) word of an argument; both machines are little endian.

    The kernel takes only the low word of an int, so looking at both would let a value with rubbish
    above it through (CVE-2019-10063's mistake).
    """
    return _load(16 + 8 * index + (4 if high else 0))


def _test(code: int, value: int, then: Block) -> Block:
    """Run `then`, which must end in a return, where the accumulator passes; else go on behind it."""
    if len(then) > 255:
        raise ValueError("a block of a seccomp filter is longer than a jump")
    return [Instruction(code, 0, len(then), value), *then]


def _equal(value: int, then: Block) -> Block:
    return _test(_JEQ, value, then)


def _any_of(values: Sequence[int], then: Block) -> Block:
    program: Block = []
    for value in values:
        program += _equal(value, then)
    return program


_ALLOW = _ret(ALLOW)
_NOTIFY = _ret(NOTIFY)
_EPERM = _ret(refuse(errno.EPERM))


def _socket() -> Block:
    of_type = [*_argument(1), Instruction(_AND, 0, 0, 0xF)]
    rendezvous = [
        *of_type,
        *_equal(SOCK_STREAM, [*_argument(2), *_any_of((EXEC_PROTOCOL, RECORD_PROTOCOL), _NOTIFY), *_EPERM]),
        *_EPERM,
    ]
    internet = [
        *of_type,
        # MPTCP (262) and SMC (256) are TCP that Landlock does not see.
        *_equal(
            SOCK_STREAM,
            [*_argument(2), *_any_of((0, IPPROTO_TCP), _ALLOW), *_ret(refuse(errno.EPROTONOSUPPORT))],
        ),
        *_equal(SOCK_DGRAM, [*_argument(2), *_any_of((0, IPPROTO_UDP), _ALLOW), *_EPERM]),
        *_EPERM,
    ]
    return [
        *_argument(0),
        *_equal(AF_UNIX, rendezvous),
        *_equal(AF_INET, internet),
        *_equal(AF_INET6, internet),
        # NETLINK_ROUTE, which getaddrinfo and getifaddrs ask.
        *_equal(AF_NETLINK, [*_argument(2), *_equal(0, _ALLOW), *_EPERM]),
        *_ret(refuse(errno.EAFNOSUPPORT)),
    ]


def _socketpair() -> Block:
    # A datagram pair can sendto() any socket's path.
    return [
        *_argument(0),
        *_equal(
            AF_UNIX, [*_argument(1), Instruction(_AND, 0, 0, 0xF), *_any_of((SOCK_STREAM, SOCK_SEQPACKET), _ALLOW)]
        ),
        *_EPERM,
    ]


def _own_process(index: int) -> Block:
    """Allowed on the caller itself (0); about another process the notifier decides."""
    return [*_argument(index), *_equal(0, _ALLOW), *_NOTIFY]


def _priority(process: int) -> Block:
    """setpriority(2), ioprio_set(2): on a process as `_own_process`; on a group only the caller's own; never a user."""
    return [
        *_argument(0),
        *_equal(process, _own_process(1)),
        *_equal(process + 1, [*_argument(1), *_equal(0, _ALLOW), *_EPERM]),
        *_EPERM,
    ]


def _without(mask: int, index: int = 0) -> Block:
    return [*_argument(index), *_test(_JSET, mask, _EPERM), *_ALLOW]


def _send(flags: int) -> Block:
    """sendmsg, sendmmsg: the address is in memory.  Fast open connects without asking Landlock (measured)."""
    return [*_argument(flags), *_test(_JSET, MSG_FASTOPEN, _EPERM), *_NOTIFY]


def _ioctl(around: Surroundings) -> Block:
    refused: tuple[int, ...] = _TERMINAL_IOCTLS
    refused += () if around.scopes else _OWNER_IOCTLS
    refused += () if around.mounts else _ATTRIBUTE_IOCTLS
    return [*_argument(1), *_any_of(refused, _EPERM), *_ALLOW]


def _rules(around: Surroundings) -> dict[str, Block]:
    """System call -> what to do about it; what is not in here is allowed."""
    rules: dict[str, Block] = {
        "ioctl": _ioctl(around),
        "socket": _socket(),
        "socketpair": _socketpair(),
        "connect": _NOTIFY,
        "bind": _NOTIFY,
        # Landlock's BIND_TCP does not cover listen() on a socket that was never bound.  Asked, so that it is recorded.
        "listen": _NOTIFY,
        "sendto": [
            *_argument(3),
            *_test(_JSET, MSG_FASTOPEN, _EPERM),
            *_argument(4),
            *_equal(0, [*_argument(4, high=True), *_equal(0, _ALLOW), *_NOTIFY]),
            *_NOTIFY,
        ],
        "sendmsg": _send(2),
        "sendmmsg": _send(3),
        "clone": _without(NAMESPACES),
        "unshare": _without(NAMESPACES | CLONE_NEWTIME),
        "prlimit64": [
            *_argument(0),
            *_equal(0, _ALLOW),
            *_argument(2),
            *_equal(0, [*_argument(2, high=True), *_equal(0, _ALLOW), *_NOTIFY]),
            *_NOTIFY,
        ],
        "setpriority": _priority(0),
        "ioprio_set": _priority(1),
        "move_pages": [*_argument(0), *_equal(0, _ALLOW), *_EPERM],
        "migrate_pages": [*_argument(0), *_equal(0, _ALLOW), *_EPERM],
    }
    for name in ("sched_setaffinity", "sched_setscheduler", "sched_setparam", "sched_setattr"):
        rules[name] = _own_process(0)
    if not around.namespaces_closed:
        # clone3 has its flags in memory.  Every libc goes back to clone where it is not there.
        rules["clone3"] = _ret(refuse(errno.ENOSYS))
    if not around.scopes:
        rules["kill"] = _own_process(0)
        for name in ("tkill", "tgkill", "rt_sigqueueinfo", "rt_tgsigqueueinfo", "pidfd_send_signal"):
            rules[name] = _NOTIFY
        rules["fcntl"] = [
            *_argument(1),
            *_equal(_F_SETOWN, [*_argument(2), *_equal(0, _ALLOW), *_EPERM]),
            *_any_of((_F_SETOWN_EX, _F_SETSIG), _EPERM),
            *_ALLOW,
        ]
    for name in (*REFUSED, *(() if around.ipc else _IPC)):
        rules[name] = _EPERM
    return rules


def program(around: Surroundings) -> Block:
    """The whole filter for a machine and its surroundings."""
    numbers = syscalls.NUMBERS[around.machine]
    code: Block = [
        *_load(_ARCH),
        # 32-bit calls have other numbers: no rule below would mean what it says.
        Instruction(_JEQ, 1, 0, _ARCHITECTURE[around.machine]),
        *_ret(KILL),
        *_load(_NR),
        # Calls that came after this was written, and x32's, which are numbered from 0x40000000.
        *_test(_JGT, syscalls.LAST_KNOWN, _ret(refuse(errno.ENOSYS))),
    ]
    for name, block in _rules(around).items():
        if name in numbers:
            code += _equal(numbers[name], block)
    return code + _ALLOW


def encode(code: Block) -> bytes:
    """The program as the kernel takes it."""
    return b"".join(struct.pack("<HBBI", *instruction) for instruction in code)


def interpret(code: Block, machine: str, nr: int, arguments: Sequence[int], *, arch: int | None = None) -> int:
    """What the kernel would return for a system call: an interpreter of the few instructions used here.

    It is how the arm64 program is checked on an x86-64 machine, and the only use of this function.
    """
    words = (*arguments, *(0,) * (6 - len(arguments)))
    where = _ARCHITECTURE[machine] if arch is None else arch
    data = struct.pack("<IIQ6Q", nr & 0xFFFFFFFF, where, 0, *(word & (1 << 64) - 1 for word in words))
    accumulator = at = 0
    while True:
        code_, jump_true, jump_false, k = code[at]
        at += 1
        if code_ == _RET:
            return k
        if code_ == _LD:
            accumulator = struct.unpack_from("<I", data, k)[0]
        elif code_ == _AND:
            accumulator &= k
        else:
            taken = {_JEQ: accumulator == k, _JGT: accumulator > k, _JSET: bool(accumulator & k)}[code_]
            at += jump_true if taken else jump_false


_KEEP: Final[dict[int, ctypes.Array[ctypes.c_char]]] = {}


def only_from_port(port: int) -> bytes:
    """A struct sock_fprog for SO_ATTACH_FILTER: datagrams from one source port, and no others.

    A filter on a datagram socket sees the UDP header first (socket(7)): the source port is its first half-word.
    """
    if port not in _KEEP:
        code = [Instruction(0x28, 0, 0, 0), Instruction(_JEQ, 0, 1, port), *_ret(0xFFFF), *_ret(0)]
        _KEEP[port] = ctypes.create_string_buffer(encode(code), 8 * len(code))
    return struct.pack("=H6xQ", len(_KEEP[port]) // 8, ctypes.addressof(_KEEP[port]))


class _Program(ctypes.Structure):
    """struct sock_fprog."""

    _fields_ = [("length", ctypes.c_ushort), ("filter", ctypes.c_void_p)]


_SET_MODE_FILTER: Final = 1
_GET_NOTIF_SIZES: Final = 3
_NEW_LISTENER: Final = 8
# Linux 5.19: a caught signal does not tear a notified call that is already being done for the process.
_WAIT_KILLABLE: Final = 32


def install(code: Block) -> int:
    """Install the filter for the calling thread and return the notifier's descriptor (close-on-exec).

    no_new_privs must be set.  Raises OSError: EBUSY where a supervisor outside already listens.
    """
    data = encode(code)
    buffer = ctypes.create_string_buffer(data, len(data))
    fprog = _Program(len(code), ctypes.addressof(buffer))
    pointer = ctypes.addressof(fprog)
    try:
        return syscalls.call("seccomp", _SET_MODE_FILTER, _NEW_LISTENER | _WAIT_KILLABLE, pointer)
    except OSError as error:
        if error.errno != errno.EINVAL:
            raise
    return syscalls.call("seccomp", _SET_MODE_FILTER, _NEW_LISTENER, pointer)


def notify_supported() -> bool:
    """Whether the kernel has seccomp user notification, as far as can be seen without installing a filter."""
    sizes = ctypes.create_string_buffer(6)
    try:
        syscalls.call("seccomp", _GET_NOTIF_SIZES, 0, sizes)
    except OSError:
        return False
    return True
