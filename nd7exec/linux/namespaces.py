"""The session's own namespaces: who may make them, entering them, and locking them behind.

Order matters and each step says why.  `enter` makes the outer user namespace, which owns the mounts
and which the supervisor can join later because it owns it; `lock` makes an inner one and gives every
capability away, so that nothing inside can undo a mount, as root neither.

Sources: user_namespaces(7), mount_namespaces(7), capabilities(7), mount_setattr(2).
"""

from __future__ import annotations

import contextlib
import ctypes
import errno
import os
import struct
from typing import Final

from nd7exec.linux import syscalls

_SECUREBITS: Final = 0xEF  # NOROOT, NO_SETUID_FIXUP, NO_CAP_AMBIENT_RAISE, all locked; KEEP_CAPS off and locked
_LIMIT: Final = "/proc/sys/user/max_user_namespaces"
_FSCONFIG_SET_STRING, _FSCONFIG_CREATE = 1, 6

# What a session gets of /dev: what programs need to run, and nothing that holds data or drives hardware.
DEVICES: Final = ("null", "zero", "full", "random", "urandom", "tty")
_LINKS: Final = {
    "fd": "/proc/self/fd",
    "stdin": "/proc/self/fd/0",
    "stdout": "/proc/self/fd/1",
    "stderr": "/proc/self/fd/2",
    "ptmx": "pts/ptmx",
}


def _write(path: str, data: str, *, dir_fd: int | None = None) -> None:
    fd = os.open(path, os.O_WRONLY | os.O_CLOEXEC, dir_fd=dir_fd)
    try:
        os.write(fd, data.encode())
    finally:
        os.close(fd)


def _map_ids(uid: int, gid: int, *, proc: int | None = None) -> None:
    """Map the ids to themselves.  setgroups must be denied before an unprivileged gid_map is taken.

    Args:
        proc: a /proc that can be written, where the one at /proc cannot.
    """
    where = "self/" if proc is not None else "/proc/self/"
    with contextlib.suppress(FileNotFoundError, PermissionError):
        # EPERM in a nested namespace whose parent has denied it already, which is what is wanted.
        _write(where + "setgroups", "deny", dir_fd=proc)
    _write(where + "uid_map", f"{uid} {uid} 1\n", dir_fd=proc)
    _write(where + "gid_map", f"{gid} {gid} 1\n", dir_fd=proc)


def new_mount(fstype: str, options: dict[str, str], attributes: int) -> int:
    """A file system, mounted nowhere yet.  Returns its descriptor; raises OSError."""
    context = syscalls.call("fsopen", fstype.encode(), 1)
    try:
        for key, value in options.items():
            syscalls.call("fsconfig", context, _FSCONFIG_SET_STRING, key.encode(), value.encode(), 0)
        syscalls.call("fsconfig", context, _FSCONFIG_CREATE, None, None, 0)
        return syscalls.call("fsmount", context, 1, attributes)
    finally:
        os.close(context)


def put(mount_fd: int, target: str) -> None:
    """Attach a detached mount to a path and close it.  Raises OSError."""
    try:
        target_fd = os.open(target, os.O_PATH | os.O_CLOEXEC | os.O_NOFOLLOW)
        try:
            syscalls.move_mount(mount_fd, target_fd)
        finally:
            os.close(target_fd)
    finally:
        os.close(mount_fd)


def _unshare() -> None:
    uid, gid = os.geteuid(), os.getegid()
    syscalls.unshare(syscalls.CLONE_NEWUSER | syscalls.CLONE_NEWNS | syscalls.CLONE_NEWIPC)
    _map_ids(uid, gid)
    # Private, not slave: a file system mounted outside later would arrive writable.
    syscalls.mount(b"none", b"/", None, syscalls.MS_REC | syscalls.MS_PRIVATE)


def usable() -> str:
    """Why no namespace can be had here, or "" where one can.

    Tried in a forked child, because Ubuntu's AppArmor rule lets unshare() pass and refuses what
    comes after it, and a process cannot come back from there.
    """
    reader, writer = os.pipe2(os.O_CLOEXEC)
    child = os.fork()
    if child == 0:
        step = "unshare"
        try:
            _unshare()
            step = "mount a tmpfs"
            put(new_mount("tmpfs", {"size": "4k"}, 0), "/dev")
            step = "mount a devpts"
            put(new_mount("devpts", {"ptmxmode": "0666"}, 0), "/dev")
            os.write(writer, b"+")
        except OSError as error:
            os.write(writer, f"{step}: {error.strerror}".encode())
        finally:
            os._exit(0)
    os.close(writer)
    with os.fdopen(reader, "rb") as answers:
        answer = answers.read()
    os.waitpid(child, 0)
    return "" if answer == b"+" else answer.decode(errors="replace") or "the probe died"


def enter() -> tuple[bool, int]:
    """Enter a user, a mount and an IPC namespace, everything in it read-only, with a /dev of its own.

    Call it single-threaded, after `usable()` said "".  The working directory is entered anew by the
    caller: it still points into the mounts as they were.

    Returns:
        Whether further user namespaces were closed (the one that `lock` makes is still open), and a
        /proc that can be written, for `lock`, which closes it.

    Raises:
        OSError: a step failed; the process is of no use any more.
    """
    _unshare()
    closed = True
    try:
        # Counts the children of this namespace, at any depth: the inner one is the last.
        _write(_LIMIT, "1")
    except OSError:
        closed = False  # /proc/sys is read-only in many containers; the filter then refuses clone3
    proc = syscalls.open_tree(syscalls.AT_FDCWD, b"/proc", syscalls.OPEN_TREE_CLONE)
    devices = {}
    for name in DEVICES:
        with contextlib.suppress(FileNotFoundError):
            devices[name] = syscalls.open_tree(syscalls.AT_FDCWD, f"/dev/{name}".encode(), syscalls.OPEN_TREE_CLONE)
    # NODEV: root owns /dev/sda and copies of it, and could read the whole disk through one.
    syscalls.mount_setattr(
        syscalls.AT_FDCWD,
        b"/",
        syscalls.AT_RECURSIVE,
        set_=syscalls.MOUNT_ATTR_RDONLY | syscalls.MOUNT_ATTR_NOSUID | syscalls.MOUNT_ATTR_NODEV,
    )
    _private_dev(devices)
    return closed, proc


def _private_dev(devices: dict[str, int]) -> None:
    flags = syscalls.MOUNT_ATTR_NOSUID | syscalls.MOUNT_ATTR_NOEXEC
    put(new_mount("tmpfs", {"mode": "0755", "size": "64k"}, flags), "/dev")
    for name, fd in devices.items():
        os.close(os.open(f"/dev/{name}", os.O_CREAT | os.O_WRONLY | os.O_CLOEXEC, 0o600))
        put(fd, f"/dev/{name}")
    os.mkdir("/dev/pts", 0o755)
    # A devpts of its own: terminals of other sessions have no name in here.
    put(new_mount("devpts", {"ptmxmode": "0666", "mode": "0620"}, flags), "/dev/pts")
    os.mkdir("/dev/shm", 0o1777)
    put(new_mount("tmpfs", {"mode": "1777"}, flags | syscalls.MOUNT_ATTR_NODEV), "/dev/shm")
    for name, target in _LINKS.items():
        os.symlink(target, f"/dev/{name}")
    syscalls.mount_setattr(syscalls.AT_FDCWD, b"/dev", 0, set_=syscalls.MOUNT_ATTR_RDONLY)


def lock(proc: int) -> None:
    """A second user namespace, which does not own the mounts.  Closes `proc`; raises OSError."""
    uid, gid = os.geteuid(), os.getegid()
    try:
        syscalls.unshare(syscalls.CLONE_NEWUSER)
        _map_ids(uid, gid, proc=proc)
    finally:
        os.close(proc)


def namespaces_closed() -> bool:
    """Whether a user namespace can no longer be made here; tried in a forked child."""
    child = os.fork()
    if child == 0:
        try:
            syscalls.unshare(syscalls.CLONE_NEWUSER)
            os._exit(1)
        except OSError:
            os._exit(0)
        finally:
            os._exit(1)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


def drop_capabilities() -> None:
    """Give every capability away, for good, and set no_new_privs.  Raises OSError.

    The bounding set and the securebits are what keeps a root's execve from getting them back; where
    the caller may not set them it has no capability to lose, and is not root.
    """
    syscalls.prctl(syscalls.PR_CAP_AMBIENT, syscalls.PR_CAP_AMBIENT_CLEAR_ALL)
    for step in (_drop_bounding, _lock_securebits):
        try:
            step()
        except PermissionError:
            if os.geteuid() == 0 and _holds_capabilities():
                raise
    header = struct.pack("<II", 0x20080522, 0)
    syscalls.call("capset", header, bytes(24))
    syscalls.prctl(syscalls.PR_SET_NO_NEW_PRIVS, 1)


def _drop_bounding() -> None:
    for capability in range(64):
        try:
            if syscalls.prctl(syscalls.PR_CAPBSET_READ, capability):
                syscalls.prctl(syscalls.PR_CAPBSET_DROP, capability)
        except OSError as error:
            if error.errno == errno.EINVAL:
                return  # behind the last one that this kernel knows
            raise


def _lock_securebits() -> None:
    syscalls.prctl(syscalls.PR_SET_SECUREBITS, _SECUREBITS)


def _holds_capabilities() -> bool:
    data = ctypes.create_string_buffer(24)
    syscalls.call("capget", struct.pack("<II", 0x20080522, 0), data)
    return any(data.raw[:8] + data.raw[12:20])
