"""The session's seccomp filter: assembled here, constant for a session, over scalar arguments only.

A filter cannot read memory and cannot look at what a descriptor is, so whatever would need that goes
to the notifier (`nd7exec.linux.notifier`), which decides on copies and does the operation itself.

Sources: Documentation/userspace-api/seccomp_filter.rst, `include/uapi/linux/{seccomp,filter,audit}.h`.
Whether the arm64 program is right is only checked by running it in `bpf.interpret`.
"""

from __future__ import annotations

import errno
from dataclasses import dataclass
from typing import Final

from nd7exec.linux import syscalls
from nd7exec.linux.bpf import (
    ALLOW,
    ARCH,
    ARCHITECTURE,
    JEQ,
    JGT,
    JSET,
    KILL,
    NOTIFY,
    NR,
    Block,
    Instruction,
    any_of,
    argument,
    equal,
    load,
    masked,
    refuse,
    ret,
    test,
)

# The two protocol numbers of the rendezvous: socket(AF_UNIX, SOCK_STREAM, one of these).
EXEC_PROTOCOL: Final = 0x6E64
RECORD_PROTOCOL: Final = 0x6E65

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

# Landlock knows none of these; where no read-only mount does, nd7 does them for the session.
METADATA: Final = (
    "chmod",
    "fchmod",
    "fchmodat",
    "fchmodat2",
    "chown",
    "lchown",
    "fchown",
    "fchownat",
    "utime",
    "utimes",
    "futimesat",
    "utimensat",
    "setxattr",
    "lsetxattr",
    "fsetxattr",
    "removexattr",
    "lremovexattr",
    "fremovexattr",
)

# Terminal injection (TIOCSTI, TIOCLINUX), line disciplines (TIOCSETD), the console (TIOCCONS), hanging up.
_TERMINAL_IOCTLS: Final = (0x5412, 0x541C, 0x5423, 0x541D, 0x5437)
# FIOSETOWN, SIOCSPGRP: a signal to any process, by way of SIGIO.
_OWNER_IOCTLS: Final = (0x8901, 0x8902)
# FS_IOC_SETFLAGS (64, 32), FS_IOC_SETVERSION, EXT4_IOC_SETVERSION, FS_IOC_FSSETXATTR, FAT_IOCTL_SET_ATTRIBUTES: chattr,
# which needs no write access.
_ATTRIBUTE_IOCTLS: Final = (0x40086602, 0x40046602, 0x40087602, 0x40086604, 0x401C5820, 0x40047211)
# What a file system does by a descriptor that is open for reading, whatever the path to it is closed for: a snapshot of
# the person's home in the project (measured: the owner of a btrfs subvolume may, and ~/.ssh is in it), a subvolume made
# or destroyed outside, a file that nobody can write again (verity), encryption keys added and taken away.  By type, for
# there are many and more come; of btrfs's all but what every file system has: FICLONE, FICLONERANGE, FIDEDUPERANGE.
_SNAPSHOT_TYPES: Final = (0x9400, 0xBC00)  # btrfs, bcachefs
_CLONE_IOCTLS: Final = (0x40049409, 0x4020940D, 0xC0189436)
# FS_IOC_ENABLE_VERITY, _SET_ENCRYPTION_POLICY, _ADD_ENCRYPTION_KEY, _REMOVE_ENCRYPTION_KEY, the same for all users.
_FILE_SYSTEM_IOCTLS: Final = (0x40806685, 0x800C6613, 0xC0506617, 0xC0406618, 0xC0406619)
_F_SETOWN, _F_SETOWN_EX = 8, 15


@dataclass(frozen=True, slots=True)
class Surroundings:
    """What else confines the session, and so need not be refused by the filter.

    Attributes:
        machine: a key of `syscalls.NUMBERS`.
        mounts: the mount namespace is the session's own, everything outside is mounted read-only.
        ipc: so is the IPC namespace.
        namespaces_closed: no further user namespace can be made, whatever clone3 asks for.
        scopes: Landlock keeps signals inside the session (version 6).
        zygote: the pid of the process that starts commands, whose process group is its own: nobody in
            the session signals it, although it lives in the same signal scope.
    """

    machine: str
    mounts: bool = True
    ipc: bool = True
    namespaces_closed: bool = True
    scopes: bool = True
    zygote: int = 0


_ALLOW = ret(ALLOW)
_NOTIFY = ret(NOTIFY)
_EPERM = ret(refuse(errno.EPERM))
_ENOSYS = ret(refuse(errno.ENOSYS))


def _socket() -> Block:
    of_type = [*argument(1), *masked(0xF)]
    rendezvous = [
        *of_type,
        *equal(SOCK_STREAM, [*argument(2), *any_of((EXEC_PROTOCOL, RECORD_PROTOCOL), _NOTIFY), *_EPERM]),
        *_EPERM,
    ]
    internet = [
        *of_type,
        # MPTCP (262) and SMC (256) are TCP that Landlock does not see.
        *equal(
            SOCK_STREAM,
            [*argument(2), *any_of((0, IPPROTO_TCP), _ALLOW), *ret(refuse(errno.EPROTONOSUPPORT))],
        ),
        *equal(SOCK_DGRAM, [*argument(2), *any_of((0, IPPROTO_UDP), _ALLOW), *_EPERM]),
        *_EPERM,
    ]
    return [
        *argument(0),
        *equal(AF_UNIX, rendezvous),
        *equal(AF_INET, internet),
        *equal(AF_INET6, internet),
        # NETLINK_ROUTE, which getaddrinfo and getifaddrs ask.
        *equal(AF_NETLINK, [*argument(2), *equal(0, _ALLOW), *_EPERM]),
        *ret(refuse(errno.EAFNOSUPPORT)),
    ]


def _socketpair() -> Block:
    # A datagram pair can sendto() any socket's path.
    return [
        *argument(0),
        *equal(AF_UNIX, [*argument(1), *masked(0xF), *any_of((SOCK_STREAM, SOCK_SEQPACKET), _ALLOW)]),
        *_EPERM,
    ]


def _own_process(index: int) -> Block:
    """Allowed on the caller itself (0); about another process the notifier decides."""
    return [*argument(index), *equal(0, _ALLOW), *_NOTIFY]


def _priority(process: int) -> Block:
    """setpriority(2), ioprio_set(2): on a process as `_own_process`; on a group only the caller's own; never a user."""
    return [
        *argument(0),
        *equal(process, _own_process(1)),
        *equal(process + 1, [*argument(1), *equal(0, _ALLOW), *_EPERM]),
        *_EPERM,
    ]


def _without(mask: int, index: int = 0) -> Block:
    return [*argument(index), *test(JSET, mask, _EPERM), *_ALLOW]


def _send(flags: int) -> Block:
    """sendmsg, sendmmsg: the address is in memory.  Fast open connects without asking Landlock (measured)."""
    return [*argument(flags), *test(JSET, MSG_FASTOPEN, _EPERM), *_NOTIFY]


def _ioctl(around: Surroundings) -> Block:
    always = (*_TERMINAL_IOCTLS, *_OWNER_IOCTLS, *_FILE_SYSTEM_IOCTLS)
    refused = (*always, *(() if around.mounts else _ATTRIBUTE_IOCTLS))
    of_type = [*masked(0xFF00), *any_of(_SNAPSHOT_TYPES, _EPERM)]
    return [*argument(1), *any_of(refused, _EPERM), *any_of(_CLONE_IOCTLS, _ALLOW), *of_type, *_ALLOW]


def _signals(around: Surroundings) -> dict[str, Block]:
    """Signals: the zygote is out of reach, and where Landlock has no scopes, so is what is not the session's.

    kill(-1) would reach the zygote among everybody else; SIGIO's owner is in memory but for F_SETOWN.
    """
    # A group of processes is its leader's pid, negated.
    zygote = (around.zygote, -around.zygote & 0xFFFFFFFF) if around.zygote else ()
    otherwise = _ALLOW if around.scopes else _NOTIFY
    by_pid = [*argument(0), *any_of(zygote, _EPERM), *otherwise]
    rules = dict.fromkeys(("tkill", "tgkill", "rt_sigqueueinfo", "rt_tgsigqueueinfo"), by_pid)
    rules["kill"] = [*argument(0), *equal(0, _ALLOW), *any_of((0xFFFFFFFF, *zygote), _EPERM), *otherwise]
    # From within the zygote's process group kill(0) would reach it.
    rules["setpgid"] = [*argument(1), *any_of(zygote[:1], _EPERM), *_ALLOW]
    # Whose the descriptor is cannot be seen here.
    rules["pidfd_send_signal"] = _NOTIFY
    owner = [*argument(2), *equal(0, _ALLOW), *any_of(zygote, _EPERM), *(_ALLOW if around.scopes else _EPERM)]
    rules["fcntl"] = [*argument(1), *equal(_F_SETOWN, owner), *equal(_F_SETOWN_EX, _EPERM), *_ALLOW]
    return rules


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
            *argument(3),
            *test(JSET, MSG_FASTOPEN, _EPERM),
            *argument(4),
            *equal(0, [*argument(4, high=True), *equal(0, _ALLOW), *_NOTIFY]),
            *_NOTIFY,
        ],
        "sendmsg": _send(2),
        "sendmmsg": _send(3),
        "clone": _without(NAMESPACES),
        "unshare": _without(NAMESPACES | CLONE_NEWTIME),
        "prlimit64": [
            *argument(0),
            *equal(0, _ALLOW),
            *argument(2),
            *equal(0, [*argument(2, high=True), *equal(0, _ALLOW), *_NOTIFY]),
            *_NOTIFY,
        ],
        "setpriority": _priority(0),
        "ioprio_set": _priority(1),
        "move_pages": [*argument(0), *equal(0, _ALLOW), *_EPERM],
        "migrate_pages": [*argument(0), *equal(0, _ALLOW), *_EPERM],
    }
    for name in ("sched_setaffinity", "sched_setscheduler", "sched_setparam", "sched_setattr"):
        rules[name] = _own_process(0)
    if not around.namespaces_closed:
        # clone3 has its flags in memory.  Every libc goes back to clone where it is not there.
        rules["clone3"] = _ENOSYS
    rules |= _signals(around)
    if not around.mounts:
        rules |= dict.fromkeys(METADATA, _NOTIFY)
        # Linux 6.13; whoever uses them goes back to the older ones.
        rules |= dict.fromkeys(("setxattrat", "removexattrat"), _ENOSYS)
    # file_setattr (Linux 6.17) is chattr by path.
    for name in (*REFUSED, *(() if around.ipc else _IPC), *(() if around.mounts else ("file_setattr",))):
        rules[name] = _EPERM
    return rules


def refusals(around: Surroundings) -> Block:
    """The same filter's refusals alone, for a filter that is installed behind it so that the kernel records them.

    Of two filters' same answers the one installed last counts, with its flags.  What the notifier decides is recorded
    by it, and what does not exist (ENOSYS) is no refusal: programs ask for new calls to see whether they are there.
    """
    passed = {_NOTIFY[0], _ENOSYS[0]}
    return [_ALLOW[0] if instruction in passed else instruction for instruction in program(around)]


def program(around: Surroundings) -> Block:
    """The whole filter for a machine and its surroundings."""
    numbers = syscalls.NUMBERS[around.machine]
    code: Block = [
        *load(ARCH),
        # 32-bit calls have other numbers: no rule below would mean what it says.
        Instruction(JEQ, 1, 0, ARCHITECTURE[around.machine]),
        *ret(KILL),
        *load(NR),
        # Calls that came after this was written, and x32's, which are numbered from 0x40000000.
        *test(JGT, syscalls.LAST_KNOWN, ret(refuse(errno.ENOSYS))),
    ]
    for name, block in _rules(around).items():
        if name in numbers:
            code += equal(numbers[name], block)
    return code + _ALLOW
