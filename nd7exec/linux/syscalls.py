"""System calls that Python has no name for, by number, for x86-64 and arm64.

Numbers are those of `asm/unistd_64.h` (x86-64) and `asm-generic/unistd.h` (arm64).  Everything here
raises OSError with the kernel's errno; nothing is retried, since a caller that confines must see every
failure.
"""

from __future__ import annotations

import ctypes
import errno
import os
import struct
from typing import Final

from nd7core.errors import Nd7Error

# name: (x86-64, arm64); None where the machine has no such call.
_TABLE: Final[dict[str, tuple[int | None, int | None]]] = {
    "_sysctl": (156, None),
    "acct": (163, 89),
    "add_key": (248, 217),
    "bind": (49, 200),
    "bpf": (321, 280),
    "capget": (125, 90),
    "capset": (126, 91),
    "chmod": (90, None),
    "chown": (92, None),
    "chroot": (161, 51),
    "clock_settime": (227, 112),
    "clone": (56, 220),
    "clone3": (435, 435),
    "connect": (42, 203),
    "delete_module": (176, 106),
    "fanotify_init": (300, 262),
    "fchmod": (91, 52),
    "fchmodat": (268, 53),
    "fchmodat2": (452, 452),
    "fchown": (93, 55),
    "fchownat": (260, 54),
    "fcntl": (72, 25),
    "file_setattr": (469, 469),
    "finit_module": (313, 273),
    "fremovexattr": (199, 16),
    "fsconfig": (431, 431),
    "fsetxattr": (190, 7),
    "fsmount": (432, 432),
    "fsopen": (430, 430),
    "fspick": (433, 433),
    "futimesat": (261, None),
    "init_module": (175, 105),
    "io_uring_enter": (426, 426),
    "io_uring_register": (427, 427),
    "io_uring_setup": (425, 425),
    "ioctl": (16, 29),
    "ioperm": (173, None),
    "iopl": (172, None),
    "ioprio_set": (251, 30),
    "kcmp": (312, 272),
    "kexec_file_load": (320, 294),
    "kexec_load": (246, 104),
    "keyctl": (250, 219),
    "kill": (62, 129),
    "landlock_add_rule": (445, 445),
    "landlock_create_ruleset": (444, 444),
    "landlock_restrict_self": (446, 446),
    "lchown": (94, None),
    "listen": (50, 201),
    "lookup_dcookie": (212, 18),
    "lremovexattr": (198, 15),
    "lsetxattr": (189, 6),
    "lsm_set_self_attr": (460, 460),
    "migrate_pages": (256, 238),
    "modify_ldt": (154, None),
    "mount": (165, 40),
    "mount_setattr": (442, 442),
    "move_mount": (429, 429),
    "move_pages": (279, 239),
    "mq_open": (240, 180),
    "mq_unlink": (241, 181),
    "msgctl": (71, 187),
    "msgget": (68, 186),
    "msgrcv": (70, 188),
    "msgsnd": (69, 189),
    "nfsservctl": (180, 42),
    "open_by_handle_at": (304, 265),
    "open_tree": (428, 428),
    "open_tree_attr": (467, 467),
    "openat2": (437, 437),
    "perf_event_open": (298, 241),
    "pidfd_getfd": (438, 438),
    "pidfd_send_signal": (424, 424),
    "pivot_root": (155, 41),
    "prctl": (157, 167),
    "prlimit64": (302, 261),
    "process_madvise": (440, 440),
    "process_mrelease": (448, 448),
    "process_vm_readv": (310, 270),
    "process_vm_writev": (311, 271),
    "ptrace": (101, 117),
    "quotactl": (179, 60),
    "quotactl_fd": (443, 443),
    "reboot": (169, 142),
    "removexattr": (197, 14),
    "removexattrat": (466, 466),
    "request_key": (249, 218),
    "rt_sigqueueinfo": (129, 138),
    "rt_tgsigqueueinfo": (297, 240),
    "sched_setaffinity": (203, 122),
    "sched_setattr": (314, 274),
    "sched_setparam": (142, 118),
    "sched_setscheduler": (144, 119),
    "seccomp": (317, 277),
    "semctl": (66, 191),
    "semget": (64, 190),
    "semop": (65, 193),
    "semtimedop": (220, 192),
    "sendmmsg": (307, 269),
    "sendmsg": (46, 211),
    "sendto": (44, 206),
    "setdomainname": (171, 162),
    "sethostname": (170, 161),
    "setns": (308, 268),
    "setpgid": (109, 154),
    "setpriority": (141, 140),
    "settimeofday": (164, 170),
    "setxattr": (188, 5),
    "setxattrat": (463, 463),
    "shmat": (30, 196),
    "shmctl": (31, 195),
    "shmdt": (67, 197),
    "shmget": (29, 194),
    "socket": (41, 198),
    "socketpair": (53, 199),
    "swapoff": (168, 225),
    "swapon": (167, 224),
    "syslog": (103, 116),
    "tgkill": (234, 131),
    "timerfd_create": (283, 85),
    "timerfd_settime": (286, 86),
    "tkill": (200, 130),
    "umount2": (166, 39),
    "unshare": (272, 97),
    "uselib": (134, None),
    "userfaultfd": (323, 282),
    "utime": (132, None),
    "utimensat": (280, 88),
    "utimes": (235, None),
    "vhangup": (153, 58),
}

# The last system call that the filter's author has looked at (file_setattr, Linux 6.17).
LAST_KNOWN: Final = 469

MACHINES: Final = ("x86_64", "aarch64")
NUMBERS: Final[dict[str, dict[str, int]]] = {
    machine: {name: row[column] or 0 for name, row in _TABLE.items() if row[column] is not None}
    for column, machine in enumerate(MACHINES)
}

AT_FDCWD: Final = -100
AT_EMPTY_PATH: Final = 0x1000
AT_RECURSIVE: Final = 0x8000
AT_SYMLINK_NOFOLLOW: Final = 0x100
OPEN_TREE_CLONE: Final = 1
OPEN_TREE_CLOEXEC: Final = os.O_CLOEXEC
MOVE_MOUNT_F_EMPTY_PATH: Final = 4
MOVE_MOUNT_T_EMPTY_PATH: Final = 0x40
MOUNT_ATTR_RDONLY: Final = 1
MOUNT_ATTR_NOSUID: Final = 2
MOUNT_ATTR_NODEV: Final = 4
MOUNT_ATTR_NOEXEC: Final = 8
MS_RDONLY, MS_NOSUID, MS_NODEV, MS_NOEXEC, MS_BIND, MS_REC, MS_PRIVATE = 1, 2, 4, 8, 4096, 16384, 1 << 18
MNT_DETACH: Final = 2
RESOLVE_NO_MAGICLINKS: Final = 2
RESOLVE_NO_SYMLINKS: Final = 4
RESOLVE_IN_ROOT: Final = 0x10
CLONE_NEWNS, CLONE_NEWUSER, CLONE_NEWIPC = 0x20000, 0x10000000, 0x8000000

PR_CAPBSET_READ, PR_CAPBSET_DROP, PR_SET_SECUREBITS, PR_SET_NO_NEW_PRIVS = 23, 24, 28, 38
PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL, PR_SET_DUMPABLE, PR_SET_CHILD_SUBREAPER = 47, 4, 4, 36

_LIBC = ctypes.CDLL(None, use_errno=True)
_SYSCALL = _LIBC.syscall
_SYSCALL.restype = ctypes.c_long

Argument = int | bytes | ctypes.Array[ctypes.c_char] | None


def read_file(path: str) -> bytes:
    """The whole of a file, /proc's included, which tell no size.  Raises OSError."""
    fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        pieces = []
        while piece := os.read(fd, 65536):
            pieces.append(piece)
        return b"".join(pieces)
    finally:
        os.close(fd)


def machine() -> str:
    """This machine's name in NUMBERS.  Raises Nd7Error on any other, or for a 32-bit Python."""
    name = os.uname().machine
    if name not in NUMBERS or struct.calcsize("P") != 8:
        raise Nd7Error(
            f"nd7 knows the system calls of {' and '.join(MACHINES)} (64-bit) only, and this is {name}", exit_code=126
        )
    return name


def number(name: str) -> int:
    """The number of a system call on this machine.  KeyError for one that this machine has not."""
    return NUMBERS[machine()][name]


def raw(nr: int, *arguments: Argument) -> int:
    """A system call by number.  Raises OSError; integers are passed as C longs, bytes as pointers."""
    ctypes.set_errno(0)
    result: int = _SYSCALL(
        ctypes.c_long(nr), *[ctypes.c_long(value) if isinstance(value, int) else value for value in arguments]
    )
    if result == -1:
        error = ctypes.get_errno()
        raise OSError(error, os.strerror(error))
    return result


def call(name: str, *arguments: Argument) -> int:
    """A system call by name.  Raises OSError."""
    return raw(number(name), *arguments)


def prctl(option: int, *arguments: int) -> int:
    """prctl(2), with the unused arguments zero, as newer options demand.  Raises OSError."""
    return call("prctl", option, *(arguments + (0,) * (4 - len(arguments))))


def unshare(flags: int) -> None:
    """unshare(2).  Raises OSError."""
    call("unshare", flags)


def setns(fd: int, kind: int) -> None:
    """setns(2).  Raises OSError."""
    call("setns", fd, kind)


def mount(source: bytes, target: bytes, fstype: bytes | None, flags: int, data: bytes | None = None) -> None:
    """mount(2).  Raises OSError."""
    call("mount", source, target, fstype, flags, data)


def umount(target: bytes, flags: int) -> None:
    """umount2(2).  Raises OSError."""
    call("umount2", target, flags)


def mount_setattr(fd: int, path: bytes, flags: int, *, set_: int = 0, clear: int = 0) -> None:
    """mount_setattr(2).  Raises OSError: EPERM for a flag that a more privileged namespace locked."""
    attributes = struct.pack("QQQQ", set_, clear, 0, 0)
    call("mount_setattr", fd, path, flags, attributes, len(attributes))


def open_tree(fd: int, path: bytes, flags: int) -> int:
    """open_tree(2): with OPEN_TREE_CLONE a detached copy of a mount.  Raises OSError."""
    return call("open_tree", fd, path, flags | OPEN_TREE_CLOEXEC)


def move_mount(from_fd: int, to_fd: int) -> None:
    """move_mount(2) between two descriptors, so that no path is walked twice.  Raises OSError."""
    call("move_mount", from_fd, b"", to_fd, b"", MOVE_MOUNT_F_EMPTY_PATH | MOVE_MOUNT_T_EMPTY_PATH)


def open_below(root_fd: int, path: str, *, flags: int = os.O_PATH) -> int:
    """Open a canonical absolute path as the process whose root is `root_fd` would see it.

    No symlink is followed: a canonical path has none, and one that has appeared since is somebody's
    trick.  Raises OSError (ELOOP for such a symlink).
    """
    how = struct.pack("QQQ", flags | os.O_CLOEXEC, 0, RESOLVE_IN_ROOT | RESOLVE_NO_SYMLINKS | RESOLVE_NO_MAGICLINKS)
    return call("openat2", root_fd, os.fsencode(path), how, len(how))


def pidfd_getfd(pidfd: int, fd: int) -> int:
    """A duplicate of another process's descriptor, close-on-exec.  Raises OSError."""
    return call("pidfd_getfd", pidfd, fd, 0)


def read_memory(pid: int, *pieces: tuple[int, int]) -> bytes:
    """The bytes of a process's memory at (address, length) pieces, joined.

    Raises OSError: EFAULT where it is shorter, EPERM where the process may not be read.
    """
    wanted = [piece for piece in pieces if piece[1]]
    length = sum(piece[1] for piece in wanted)
    if length == 0:
        return b""
    buffer = ctypes.create_string_buffer(length)
    local = struct.pack("QQ", ctypes.addressof(buffer), length)
    remote = b"".join(struct.pack("QQ", *piece) for piece in wanted)
    if call("process_vm_readv", pid, local, 1, remote, len(wanted), 0) != length:
        raise OSError(errno.EFAULT, os.strerror(errno.EFAULT))
    return buffer.raw


def write_memory(pid: int, address: int, data: bytes) -> None:
    """Write into a process's memory.  Raises OSError."""
    buffer = ctypes.create_string_buffer(data, len(data))
    local = struct.pack("QQ", ctypes.addressof(buffer), len(data))
    call("process_vm_writev", pid, local, 1, struct.pack("QQ", address, len(data)), 1, 0)
