"""From the zygote, which has entered a session, to the supervisor, which holds on to it."""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
from dataclasses import dataclass, field
from typing import Final

from nd7exec.linux import syscalls
from nd7exec.linux.errors import ConfinementError
from nd7exec.linux.membership import Membership

_NS_GET_USERNS: Final = 0xB701


@dataclass(slots=True)
class Entered:
    """What `enter_session` made, in the zygote's own descriptors.

    Attributes:
        listener_fd: the notifier's.
        master_fd: the session terminal's master, if asked for.
        root_fd: the session's `/`, O_PATH.
        terminal: the session terminal's path (`/dev/pts/N`), as the session sees it, or "".
        namespaced: whether the session has mounts of its own.
        abi: the Landlock version in force.
        enforced: what is in force: a word -> how.
        missing: what is not, one sentence each.
    """

    listener_fd: int
    master_fd: int | None
    root_fd: int
    terminal: str
    namespaced: bool
    abi: int
    enforced: dict[str, str] = field(default_factory=dict)
    missing: list[str] = field(default_factory=list)


def offer(entered: Entered, write_fd: int, read_fd: int) -> None:
    """Zygote's side of the hand-over: say what there is, wait until S has taken it, close it here.

    Two pipes made before the fork.  The descriptors travel by pidfd_getfd, which needs nothing of Z: a
    sendmsg of them would be asked about at a listener that S does not have yet.

    Raises:
        ConfinementError: S has gone.
    """
    said = {
        "listener": entered.listener_fd,
        "master": entered.master_fd,
        "root": entered.root_fd,
        "terminal": entered.terminal,
        "namespaced": entered.namespaced,
        "abi": entered.abi,
        "enforced": entered.enforced,
        "missing": entered.missing,
    }
    try:
        write_all(write_fd, json.dumps(said).encode() + b"\n")
        answered = os.read(read_fd, 1)
    except OSError:
        answered = b""
    if not answered:
        raise ConfinementError("the supervisor has gone")
    for fd in (entered.listener_fd, entered.master_fd, entered.root_fd):
        if fd is not None:
            os.close(fd)


def offer_error(error: ConfinementError, write_fd: int) -> None:
    """Zygote's side when `enter_session` raised: S's `take` raises the same.  Then exit."""
    with contextlib.suppress(OSError):
        write_all(write_fd, json.dumps({"error": error.message, "hint": error.hint}).encode() + b"\n")


def write_all(fd: int, data: bytes) -> None:
    """write(2) until all is written.  Raises OSError."""
    while data:
        data = data[os.write(fd, data) :]


@dataclass(slots=True)
class Session:
    """The supervisor's hold on a session.  `close` lets go of the descriptors; it ends nothing.

    Attributes:
        zygote_pid, zygote_pidfd: the zygote; its pid means nothing once the pidfd says it has ended.
        listener_fd, master_fd, root_fd, terminal, namespaced, abi, enforced, missing: as in `Entered`.
        mount_ns_fd, user_ns_fd, inner_ns: the namespaces, for `widen` and `Membership`; -1 and "" without.
    """

    zygote_pid: int
    zygote_pidfd: int
    listener_fd: int
    master_fd: int | None
    root_fd: int
    terminal: str
    namespaced: bool
    abi: int
    enforced: dict[str, str]
    missing: list[str]
    mount_ns_fd: int = -1
    user_ns_fd: int = -1
    inner_ns: str = ""

    def membership(self) -> Membership:
        """How to tell the session's processes from others'."""
        return Membership(self.zygote_pid, self.inner_ns)

    def close(self) -> None:
        """Close every descriptor but `listener_fd` and `master_fd`, which their users close."""
        for fd in (self.zygote_pidfd, self.root_fd, self.mount_ns_fd, self.user_ns_fd):
            if fd >= 0:
                os.close(fd)
        self.zygote_pidfd = self.root_fd = self.mount_ns_fd = self.user_ns_fd = -1


def take(zygote_pid: int, read_fd: int, write_fd: int) -> Session:
    """Supervisor's side of the hand-over; blocks until Z has entered (milliseconds) or died.

    Args:
        zygote_pid: a child of this process that has not been waited for.
        read_fd, write_fd: the other ends of `offer`'s pipes.

    Raises:
        ConfinementError: Z could not enter, with its reason.
    """
    data = b""
    while not data.endswith(b"\n"):
        piece = os.read(read_fd, 65536)
        if not piece:
            raise ConfinementError("the session's zygote died before it was confined")
        data += piece
    said = json.loads(data)
    if "error" in said:
        raise ConfinementError(said["error"], hint=said.get("hint", ""))
    try:
        pidfd = os.pidfd_open(zygote_pid)
        session = Session(
            zygote_pid,
            pidfd,
            syscalls.pidfd_getfd(pidfd, said["listener"]),
            None if said["master"] is None else syscalls.pidfd_getfd(pidfd, said["master"]),
            syscalls.pidfd_getfd(pidfd, said["root"]),
            said["terminal"],
            said["namespaced"],
            said["abi"],
            said["enforced"],
            said["missing"],
        )
        if session.namespaced:
            session.inner_ns = os.readlink(f"/proc/{zygote_pid}/ns/user")
            session.mount_ns_fd = os.open(f"/proc/{zygote_pid}/ns/mnt", os.O_RDONLY | os.O_CLOEXEC)
            # The namespace that owns the mounts is the outer one, not the one that Z is in.
            session.user_ns_fd = fcntl.ioctl(session.mount_ns_fd, _NS_GET_USERNS)
            os.set_inheritable(session.user_ns_fd, False)
        os.write(write_fd, b"+")
    except OSError as error:
        raise ConfinementError(
            f"cannot take over the session: {error.strerror}",
            hint="where /proc/sys/kernel/yama/ptrace_scope is 2 or 3, no process may look at another, as nd7 must",
        ) from error
    return session


def may_look() -> str:
    """Why this process may not look at its own children's descriptors and memory, or "" where it may.

    Tried on a forked child.  A container without CAP_SYS_PTRACE in its seccomp profile refuses it, and so
    does a Yama scope of 3; a session's connections could not be made then.
    """
    reader, writer = os.pipe2(os.O_CLOEXEC)
    child = os.fork()
    if child == 0:
        os.close(writer)
        os.read(reader, 1)
        os._exit(0)
    step = "pidfd_getfd"
    try:
        pidfd = os.pidfd_open(child)
        try:
            os.close(syscalls.pidfd_getfd(pidfd, reader))
            step = "process_vm_readv"
            # The same program at the same address: the child is a copy.
            syscalls.read_memory(child, (id(step), 1))
        finally:
            os.close(pidfd)
    except OSError as error:
        return f"{step}: {error.strerror}"
    finally:
        os.close(writer)
        os.close(reader)
        os.waitpid(child, 0)
    return ""
