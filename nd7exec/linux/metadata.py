"""Modes, owners, times and attributes, where no read-only mount protects them: decided on an opened file.

Landlock knows none of these calls.  Each is asked about; the path is copied, opened here without following
what only the asking process could follow, and the operation is done on that opened file if it is one that the
session may write.  A hundred microseconds a call, and only in sessions without mounts of their own.

Sources: chmod(2), chown(2), utimensat(2), setxattr(2), openat2(2).
"""

from __future__ import annotations

import errno
import os
import re
import struct
from collections.abc import Callable
from typing import Final

from nd7core.policy.rules import LinuxRules
from nd7exec.linux import mounts, syscalls
from nd7exec.linux.asked import Call, Desk, Reply, signed

_O_PATH: Final = os.O_PATH | os.O_CLOEXEC
_MOST_VALUE: Final = 65536
_OWN_DESCRIPTOR = re.compile(r"/(?:proc/(?:self|thread-self|(\d+))|dev)/fd/(\d+)")
_FOLLOW, _NO_FOLLOW = 0, syscalls.AT_SYMLINK_NOFOLLOW


class Metadata:
    """The decisions about metadata."""

    def __init__(self, desk: Desk, rules: LinuxRules, terminal: str) -> None:
        self.rules = rules
        self._desk, self._terminal = desk, terminal

    @property
    def rules(self) -> LinuxRules:
        """What may be written; new ones may be assigned at any time."""
        return self._rules

    @rules.setter
    def rules(self, rules: LinuxRules) -> None:
        self._rules = mounts.with_aliases(rules)

    def decisions(self) -> dict[str, Callable[[Call], Reply]]:
        """System call -> what answers it."""
        return {
            "chmod": lambda call: self._chmod(call, self._at(call, syscalls.AT_FDCWD, call.args[0], _FOLLOW), 1),
            "fchmod": lambda call: self._chmod(call, self._descriptor(call, call.args[0]), 1),
            "fchmodat": lambda call: self._chmod(call, self._at(call, call.args[0], call.args[1], _FOLLOW), 2),
            "fchmodat2": lambda call: self._chmod(call, self._at(call, call.args[0], call.args[1], call.args[3]), 2),
            "chown": lambda call: self._chown(call, self._at(call, syscalls.AT_FDCWD, call.args[0], _FOLLOW), 1),
            "lchown": lambda call: self._chown(call, self._at(call, syscalls.AT_FDCWD, call.args[0], _NO_FOLLOW), 1),
            "fchown": lambda call: self._chown(call, self._descriptor(call, call.args[0]), 1),
            "fchownat": lambda call: self._chown(call, self._at(call, call.args[0], call.args[1], call.args[4]), 2),
            "utime": lambda call: self._utime(
                call, self._at(call, syscalls.AT_FDCWD, call.args[0], _FOLLOW), 1, "qq", 0
            ),
            "utimes": lambda call: self._utime(
                call, self._at(call, syscalls.AT_FDCWD, call.args[0], _FOLLOW), 1, "qqqq", 1000
            ),
            "futimesat": lambda call: self._utime(
                call, self._at(call, call.args[0], call.args[1], _FOLLOW), 2, "qqqq", 1000
            ),
            "utimensat": lambda call: self._utime(
                call, self._at(call, call.args[0], call.args[1], call.args[3]), 2, "qqqq", 1
            ),
            "setxattr": lambda call: self._set(call, self._at(call, syscalls.AT_FDCWD, call.args[0], _FOLLOW)),
            "lsetxattr": lambda call: self._set(call, self._at(call, syscalls.AT_FDCWD, call.args[0], _NO_FOLLOW)),
            "fsetxattr": lambda call: self._set(call, self._descriptor(call, call.args[0])),
            "removexattr": lambda call: self._remove(call, self._at(call, syscalls.AT_FDCWD, call.args[0], _FOLLOW)),
            "lremovexattr": lambda call: self._remove(
                call, self._at(call, syscalls.AT_FDCWD, call.args[0], _NO_FOLLOW)
            ),
            "fremovexattr": lambda call: self._remove(call, self._descriptor(call, call.args[0])),
        }

    # Which file

    def _descriptor(self, call: Call, number: int) -> int:
        """A duplicate of one of the caller's descriptors."""
        pidfd = self._desk.pidfd(call)
        try:
            return syscalls.pidfd_getfd(pidfd, number & 0xFFFFFFFF)
        finally:
            os.close(pidfd)

    def _at(self, call: Call, directory: int, pointer: int, flags: int) -> int:
        """The file that a path names for the caller, opened with O_PATH.  Raises OSError."""
        directory, flags = signed(directory), flags & 0xFFFFFFFF
        if flags & ~(syscalls.AT_SYMLINK_NOFOLLOW | syscalls.AT_EMPTY_PATH):
            raise OSError(errno.EINVAL, os.strerror(errno.EINVAL))
        path = self._path(call, pointer) if pointer else ""
        if not path:
            # utimensat(fd, NULL), and AT_EMPTY_PATH: the descriptor itself.
            if pointer and not flags & syscalls.AT_EMPTY_PATH:
                raise OSError(errno.ENOENT, os.strerror(errno.ENOENT))
            return self._base(call, directory)
        own = _OWN_DESCRIPTOR.fullmatch(path)
        if own and not flags & syscalls.AT_SYMLINK_NOFOLLOW and own[1] in (None, str(call.pid)):
            return self._descriptor(call, int(own[2]))
        base = -1 if path.startswith("/") else self._base(call, directory)
        try:
            follow = os.O_NOFOLLOW if flags & syscalls.AT_SYMLINK_NOFOLLOW else 0
            # A magic link of /proc would be this process's own, not the caller's.
            how = struct.pack("QQQ", _O_PATH | follow, 0, syscalls.RESOLVE_NO_MAGICLINKS)
            at = syscalls.AT_FDCWD if base < 0 else base
            return syscalls.call("openat2", at, os.fsencode(path), how, len(how))
        finally:
            if base >= 0:
                os.close(base)

    def _base(self, call: Call, directory: int) -> int:
        if directory != syscalls.AT_FDCWD:
            return self._descriptor(call, directory)
        return os.open(f"/proc/{call.pid}/cwd", _O_PATH)

    def _path(self, call: Call, pointer: int) -> str:
        """A string of the caller's, at most PATH_MAX long.  Read a page at a time: the next may not exist."""
        data = b""
        while b"\0" not in data:
            if len(data) >= 4096:
                raise OSError(errno.ENAMETOOLONG, os.strerror(errno.ENAMETOOLONG))
            at = pointer + len(data)
            data += syscalls.read_memory(call.pid, (at, 4096 - at % 4096))
        return os.fsdecode(data[: data.index(b"\0")])

    # Whether

    def _do(self, call: Call, fd: int, operation: Callable[[str], object]) -> Reply:
        """Do it on an opened file, if that is one to write.  Closes the descriptor."""
        try:
            self._desk.must_wait(call)
            shown = os.readlink(f"/proc/self/fd/{fd}")
            if not self._may(fd, shown):
                return self._desk.refuse(call, "metadata", shown, errno.EACCES)
            operation(f"/proc/self/fd/{fd}")
            return Reply()
        finally:
            os.close(fd)

    def _may(self, fd: int, shown: str) -> bool:
        # A pipe, a memfd, or a file without a name, which is nobody else's any more.
        if not shown.startswith("/") or shown.startswith("/memfd:") or os.fstat(fd).st_nlink == 0:
            return True
        rules = self.rules
        if mounts.inside_any(shown, (*rules.hidden, *rules.protected)):
            return False
        if mounts.inside(shown, "/dev"):
            return shown == self._terminal or mounts.inside(shown, "/dev/shm")
        return shown in rules.writable_files or mounts.inside_any(shown, rules.writable)

    # What

    def _chmod(self, call: Call, fd: int, at: int) -> Reply:
        return self._do(call, fd, lambda path: os.chmod(path, call.args[at] & 0o7777))

    def _chown(self, call: Call, fd: int, at: int) -> Reply:
        owner, group = signed(call.args[at]), signed(call.args[at + 1])
        return self._do(call, fd, lambda _: syscalls.call("fchownat", fd, b"", owner, group, syscalls.AT_EMPTY_PATH))

    def _utime(self, call: Call, fd: int, at: int, form: str, nanoseconds: int) -> Reply:
        """Set times: `form` and the length of the sub-second unit say how the caller gives them."""
        times: bytes | None = None
        try:
            if call.args[at]:
                words = struct.unpack(form, syscalls.read_memory(call.pid, (call.args[at], struct.calcsize(form))))
                if len(words) == 2:
                    words = (words[0], 0, words[1], 0)
                times = struct.pack("qqqq", words[0], words[1] * nanoseconds, words[2], words[3] * nanoseconds)
        except OSError:
            os.close(fd)
            raise
        return self._do(call, fd, lambda _: syscalls.call("utimensat", fd, b"", times, syscalls.AT_EMPTY_PATH))

    def _set(self, call: Call, fd: int) -> Reply:
        try:
            size = call.args[3]
            if size > _MOST_VALUE:
                raise OSError(errno.E2BIG, os.strerror(errno.E2BIG))
            name = self._path(call, call.args[1])
            value = syscalls.read_memory(call.pid, (call.args[2], size))
        except OSError:
            os.close(fd)
            raise
        return self._do(call, fd, lambda path: os.setxattr(path, name, value, signed(call.args[4])))

    def _remove(self, call: Call, fd: int) -> Reply:
        try:
            name = self._path(call, call.args[1])
        except OSError:
            os.close(fd)
            raise
        return self._do(call, fd, lambda path: os.removexattr(path, name))
