"""Landlock: what each version can do, rulesets, and the two layers that nd7 stacks.

Sources: `include/uapi/linux/landlock.h` and Documentation/userspace-api/landlock.rst.  A ruleset's
rules pin inodes, not paths: a ruleset built in one mount namespace means the same in another.
"""

from __future__ import annotations

import errno
import os
import stat
import struct
from typing import Final

from nd7exec.linux import syscalls

EXECUTE, WRITE_FILE, READ_FILE, READ_DIR = 1, 2, 4, 8
REMOVE_DIR, REMOVE_FILE, MAKE_CHAR, MAKE_DIR, MAKE_REG, MAKE_SOCK, MAKE_FIFO, MAKE_BLOCK, MAKE_SYM = (
    1 << bit for bit in range(4, 13)
)
REFER, TRUNCATE, IOCTL_DEV, RESOLVE_UNIX = 1 << 13, 1 << 14, 1 << 15, 1 << 16
BIND_TCP, CONNECT_TCP, BIND_UDP, CONNECT_SEND_UDP = 1, 2, 4, 8
SCOPE_ABSTRACT, SCOPE_SIGNAL = 1, 2

# Without LOG_NEW_EXEC_ON nothing is logged after the command's first execve (measured on 6.18).
LOG_NEW_EXEC_ON: Final = 2

READ: Final = EXECUTE | READ_FILE | READ_DIR
# No device nodes: a session has no use for making them, and a whiteout (character device 0,0) needs no privilege.
WRITE: Final = (
    WRITE_FILE | REMOVE_DIR | REMOVE_FILE | MAKE_DIR | MAKE_REG | MAKE_SOCK | MAKE_FIFO | MAKE_SYM | REFER | TRUNCATE
)
WRITE_ONE: Final = WRITE_FILE | TRUNCATE
DEVICE: Final = READ_FILE | WRITE_FILE | TRUNCATE | IOCTL_DEV
# The kernel refuses directory rights on a file (EINVAL).
_FILE_RIGHTS: Final = EXECUTE | WRITE_FILE | READ_FILE | TRUNCATE | IOCTL_DEV | RESOLVE_UNIX

# The newest version whose rights this module uses.  RESOLVE_UNIX (9) and the UDP rights (10) are left
# to the seccomp filter, which refuses every unix socket and decides every datagram on every kernel.
NEWEST: Final = 8

_RULE_PATH, _RULE_PORT = 1, 2
_QUERY_VERSION, _QUERY_ERRATA = 1, 2


def kernel_abi() -> int:
    """The kernel's Landlock version; 0 where it has none or it is switched off."""
    try:
        return syscalls.call("landlock_create_ruleset", None, 0, _QUERY_VERSION)
    except OSError as error:
        if error.errno in (errno.ENOSYS, errno.EOPNOTSUPP, errno.EPERM):
            return 0
        raise


def kernel_errata() -> int:
    """The bit mask of Landlock fixes that this kernel carries; 0 where it cannot tell."""
    try:
        return syscalls.call("landlock_create_ruleset", None, 0, _QUERY_ERRATA)
    except OSError:
        return 0


def handled(abi: int) -> tuple[int, int, int]:
    """The file, network and scope rights that a version knows and nd7 uses.

    Examples:
        >>> [hex(part) for part in handled(1)]
        ['0x1fff', '0x0', '0x0']
        >>> [hex(part) for part in handled(7)]
        ['0xffff', '0x3', '0x3']
    """
    files = (1 << 13) - 1
    files |= REFER if abi >= 2 else 0
    files |= TRUNCATE if abi >= 3 else 0
    files |= IOCTL_DEV if abi >= 5 else 0
    return files, BIND_TCP | CONNECT_TCP if abi >= 4 else 0, SCOPE_ABSTRACT | SCOPE_SIGNAL if abi >= 6 else 0


class RulesetFd:
    """One kernel ruleset under construction.  Rights that the version does not know are left out.

    Attributes:
        fd: the ruleset's descriptor, close-on-exec; the caller closes it.
        files, net, scoped: what it handles, that is, refuses unless a rule allows it.
        count: how many path rules it holds.
    """

    def __init__(self, abi: int, *, files: int = -1, net: int = -1, scoped: int = 0) -> None:
        known_files, known_net, known_scopes = handled(abi)
        self.files, self.net, self.scoped = files & known_files, net & known_net, scoped & known_scopes
        self.count = 0
        attributes = struct.pack("QQQ", self.files, self.net, self.scoped)
        # An older kernel knows a shorter struct and answers E2BIG to a longer one that is not zero behind it.
        size = 8 if abi < 4 else 16 if abi < 6 else 24
        self.fd = syscalls.call("landlock_create_ruleset", attributes[:size], size, 0)

    def allow_fd(self, fd: int, access: int) -> None:
        """Allow `access` on the file or below the directory behind an O_PATH descriptor.  Raises OSError."""
        if not stat.S_ISDIR(os.fstat(fd).st_mode):
            access &= _FILE_RIGHTS
        access &= self.files
        if access:
            syscalls.call("landlock_add_rule", self.fd, _RULE_PATH, struct.pack("=Qi", access, fd), 0)
            self.count += 1

    def allow_port(self, port: int, access: int) -> None:
        """Allow TCP `access` on a port, of any address.  Raises OSError."""
        access &= self.net
        if access:
            syscalls.call("landlock_add_rule", self.fd, _RULE_PORT, struct.pack("QQ", access, port), 0)

    def close(self) -> None:
        """Close the descriptor; a domain made of it stays."""
        if self.fd >= 0:
            os.close(self.fd)
            self.fd = -1


def restrict(fd: int, abi: int, *, log: bool = True) -> None:
    """Put the calling thread, and what it forks from now on, under a ruleset.  Cannot be undone.

    no_new_privs must be set.  Raises OSError: E2BIG at the seventeenth layer.
    """
    syscalls.call("landlock_restrict_self", fd, LOG_NEW_EXEC_ON if log and abi >= 7 else 0)


def enter_scope(abi: int) -> bool:
    """The layer that agent and commands share: no signal and no abstract socket out of it.

    Each command stacks a layer without scopes on it, so that a later command can signal what an
    earlier one started.  A layer that handles any file right denies REFER unless a rule grants it, so
    REFER is granted on `/`.

    Returns:
        Whether the kernel knows scopes (version 6); below that nothing is applied.
    """
    if abi < 6:
        return False
    ruleset = RulesetFd(abi, files=REFER, net=0, scoped=SCOPE_ABSTRACT | SCOPE_SIGNAL)
    root = os.open("/", os.O_PATH | os.O_CLOEXEC)
    try:
        ruleset.allow_fd(root, REFER)
        restrict(ruleset.fd, abi)
    finally:
        os.close(root)
        ruleset.close()
    return True
