"""Confinement on Linux, the part that the rest of nd7 uses.

Who does what:

    supervisor S (unconfined)                     zygote Z (forked early, single-threaded)
    supported()
    fork ──────────────────────────────────────▶  entered = enter_session(rules, terminal_master)
    session = take(zygote_pid, reader, writer) ◀─  offer(entered, writer, reader)
    notifier = Notifier(session.listener_fd, ...)  (from here on Z and all its children are under the filter)
    ruleset = Ruleset(rules, session.namespaced, session.abi, root_fd=session.root_fd, ...)
    send ruleset.fd ───────────────────────────▶  fork; in the child: restrict(fd, session.abi); execve
    widen(session, rules)   when the rules changed, or ruleset.stale()

**Never wait for Z while not serving the notifier.**  Z lives under the filter: its connect, bind,
sendmsg, sendmmsg, sendto with an address and socket(AF_UNIX) wait until S answers.  A pipe, read,
write, recvmsg and fork are free of it, so Z can be given descriptors (S sends, Z receives) at any time.

If S dies its listener closes, and every call that would have been asked about fails with ENOSYS.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import json
import os
import struct
from dataclasses import dataclass
from typing import Any, Final

from nd7core.policy.rules import LinuxRules
from nd7exec.linux import bpf, landlock, mounts, namespaces, seccomp, syscalls
from nd7exec.linux.asked import Refusal
from nd7exec.linux.errors import ConfinementError
from nd7exec.linux.handover import Entered, Session, may_look, offer, offer_error, take, write_all
from nd7exec.linux.membership import Membership
from nd7exec.linux.notifier import Notifier
from nd7exec.linux.ruleset import Ruleset

__all__ = [
    "ConfinementError",
    "Entered",
    "Membership",
    "Notifier",
    "Refusal",
    "Ruleset",
    "Session",
    "Support",
    "enter_session",
    "offer",
    "offer_error",
    "restrict",
    "supported",
    "take",
    "widen",
]

_TIOCGPTN, _TIOCSPTLCK = 0x80045430, 0x40045431


@dataclass(frozen=True, slots=True)
class Support:
    """What this machine can enforce.

    Attributes:
        abi: Landlock's version, 0 where there is none: then no session can be had.
        errata: the Landlock fixes that the kernel carries.
        userns: whether an unprivileged user namespace with mounts of its own works.
        notify: whether seccomp user notification can be used, without which no session can be had either.
        problems: what is missing, one sentence each.
    """

    abi: int
    errata: int
    userns: bool
    notify: bool
    problems: tuple[str, ...] = ()


def supported() -> Support:
    """Look at this machine.  Forks once, to try a namespace.  Raises Nd7Error on a machine of another kind."""
    syscalls.machine()
    problems = []
    abi, notify, why = landlock.kernel_abi(), bpf.notify_supported(), namespaces.usable()
    if not abi:
        problems.append("the kernel has no Landlock, or it is switched off: no session can be confined")
    elif abi < 6:
        problems.append(f"Landlock version {abi}: {_missing_of(abi)}")
    if not notify:
        problems.append("the kernel has no seccomp user notification: no session can be confined")
    elif blind := may_look():
        problems.append(f"nd7 may not look at its own children ({blind}): no session can be served")
        notify = False
    if why:
        problems.append(f"no user namespace ({why}): {_WITHOUT_NAMESPACES}")
    return Support(abi, landlock.kernel_errata(), not why, notify, tuple(problems))


_WITHOUT_NAMESPACES: Final = (
    "names and attributes of hidden files can be seen, /dev/shm is shared, programs cannot make terminals, "
    "and files that appear later in the home directory are unreadable to the agent"
)


def _missing_of(abi: int) -> str:
    parts = []
    if abi < 2:
        parts.append("moving a file to another directory fails")
    if abi < 3:
        parts.append("files outside can be truncated where mounts do not prevent it")
    if abi < 6:
        parts.append("signals are checked by nd7 instead of the kernel")
    return ", ".join(parts)


def enter_session(
    rules: LinuxRules,
    terminal_master: bool,
    *,
    records: bool = False,
    use_namespaces: bool = True,
    abi: int | None = None,
) -> Entered:
    """Put this process, and all that it will fork, into a session.  Once, single-threaded, in the zygote.

    What it leaves free is what `Ruleset` and `restrict` take for each command: which files and ports.
    Starts a new process session (setsid), so that no terminal of the person's is `/dev/tty` in here,
    and becomes a subreaper, so that every orphan of the session stays below this process.
    Set PR_SET_PDEATHSIG after it, not before.

    Args:
        rules: for the mounts; later changed by `widen`.
        terminal_master: make a terminal inside, for the agent.
        records: have the kernel make audit records of the system calls that the filter refuses.
        use_namespaces: False leaves them out as if the machine had none (tests).
        abi: use at most this Landlock version (tests).

    Raises:
        ConfinementError: it cannot be done; the process must exit without running anything.
    """
    kernel = landlock.kernel_abi()
    if not kernel:
        raise ConfinementError(
            "this kernel has no Landlock, so nothing can be confined",
            hint="Linux 5.13 or later with `landlock` in the lsm= boot parameter",
        )
    version = min(kernel, landlock.NEWEST, abi or landlock.NEWEST)
    with contextlib.suppress(PermissionError):
        os.setsid()
    syscalls.prctl(syscalls.PR_SET_CHILD_SUBREAPER, 1)
    try:
        why_not = namespaces.usable() if use_namespaces else "not asked for"
        return _enter(rules, terminal_master, why_not, version, records)
    except OSError as error:
        raise ConfinementError(f"cannot enter the session: {_step(error)}{error.strerror or error}") from error


def _step(error: OSError) -> str:
    notes = getattr(error, "__notes__", ())
    return f"{notes[0]}: " if notes else ""


@contextlib.contextmanager
def _narrated(step: str) -> Any:
    try:
        yield
    except OSError as error:
        error.add_note(step)
        raise


def _enter(rules: LinuxRules, terminal_master: bool, why_not: str, version: int, records: bool) -> Entered:
    enforced, missing = {"landlock": f"version {version}"}, []
    closed, proc = False, -1
    namespaced = not why_not
    if namespaced:
        try:
            where = os.getcwd()
        except OSError:
            where = "/"
        with _narrated("namespaces"):
            closed, proc = namespaces.enter()
        with _narrated("mounts"):
            missing += mounts.reconcile(rules)
        # The old working directory lies in the mounts as they were, below the new ones.
        try:
            os.chdir(where)
        except OSError:
            os.chdir("/")
        enforced["namespaces"] = "user, mount, ipc; everything outside is mounted read-only, hidden places are masked"
    else:
        missing.append(f"no user namespace ({why_not}): {_WITHOUT_NAMESPACES}")
    master, terminal = _terminal() if terminal_master else (None, "")
    root = os.open("/", os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
    if namespaced:
        with _narrated("second user namespace"):
            namespaces.lock(proc)
        closed = closed and namespaces.namespaces_closed()
    with _narrated("capabilities"):
        namespaces.drop_capabilities()
    enforced["privileges"] = "no capabilities, no_new_privs"
    missing += _of_others(rules)
    with _narrated("Landlock scopes"):
        scoped = landlock.enter_scope(version)
    enforced["signals"] = "Landlock scope" if scoped else "nd7's notifier"
    enforced["network"] = "nd7's notifier on copied memory" + (", Landlock" if version >= 4 else "")
    if version < 6:
        missing.append(f"Landlock version {version}: {_missing_of(version)}")
    around = seccomp.Surroundings(
        syscalls.machine(),
        mounts=namespaced,
        ipc=namespaced,
        namespaces_closed=closed,
        scopes=scoped,
        zygote=os.getpid(),
    )
    try:
        listener = bpf.install(seccomp.program(around))
        if records:
            bpf.install_logged(seccomp.refusals(around))
    except OSError as error:
        if error.errno == errno.EBUSY:
            raise ConfinementError(
                "another sandbox outside already answers seccomp notifications, and the kernel allows one",
                hint="run nd7 outside that container or sandbox",
            ) from error
        error.add_note("seccomp filter")
        raise
    enforced["seccomp"] = f"{len(seccomp.REFUSED)} kinds of system calls closed, unix sockets closed"
    if missing:
        # The record keeps only this table, and the dashboard shows it.
        enforced["not in force"] = "; ".join(missing)
    return Entered(listener, master, root, terminal, namespaced, version, enforced, missing)


def _of_others(rules: LinuxRules) -> list[str]:
    """What root, who has no capability in a session, cannot write there as it could outside."""
    if os.geteuid() != 0:
        return []
    notes = []
    for path in rules.writable:
        with contextlib.suppress(OSError):
            owner = os.stat(path)
            if owner.st_uid != 0 and not owner.st_mode & 0o002 and path not in ("/dev/pts", "/dev/shm"):
                notes.append(f"root has no privilege in a session, so {path} of user id {owner.st_uid} is not writable")
    return notes


def _terminal() -> tuple[int, str]:
    master = os.open("/dev/ptmx", os.O_RDWR | os.O_NOCTTY | os.O_CLOEXEC)
    fcntl.ioctl(master, _TIOCSPTLCK, struct.pack("i", 0))
    (number,) = struct.unpack("I", fcntl.ioctl(master, _TIOCGPTN, bytes(4)))
    return master, f"/dev/pts/{number}"


def restrict(fd: int, abi: int, *, log: bool = True) -> None:
    """In a forked child, before execve: put it under a ruleset, for good.

    Args:
        fd: `Ruleset.fd`, as it arrived in the zygote.
        abi: `Session.abi`.
        log: whether the kernel's audit may record its denials (version 7).

    Raises:
        OSError: then nothing may be run.
    """
    landlock.restrict(fd, abi, log=log)


def widen(session: Session, rules: LinuxRules) -> list[str]:
    """Make the session's mounts fit new rules: wider or narrower.  Without namespaces nothing is to be done.

    Done by a forked helper that joins the outer namespaces; costs about a millisecond.  Does not wait
    for anything inside the session, so S may call it between two answers of the notifier.

    Returns:
        What could not be done and does no harm, one sentence each.

    Raises:
        ConfinementError: the rules cannot be enforced; the mounts may stand between the old and the new
            rules, but never with something hidden or protected laid open.
    """
    if not session.namespaced:
        return []
    reader, writer = os.pipe2(os.O_CLOEXEC)
    child = os.fork()
    if child == 0:
        answer: dict[str, Any] = {"error": "the helper failed"}
        try:
            syscalls.setns(session.user_ns_fd, syscalls.CLONE_NEWUSER)
            syscalls.setns(session.mount_ns_fd, syscalls.CLONE_NEWNS)
            answer = {"notes": mounts.reconcile(rules)}
        except ConfinementError as error:
            answer = {"error": error.message, "hint": error.hint}
        except OSError as error:
            answer = {"error": f"cannot change the session's mounts: {error.strerror}"}
        finally:
            write_all(writer, json.dumps(answer).encode())
            os._exit(0)
    os.close(writer)
    with os.fdopen(reader, "rb") as answers:
        data = answers.read()
    os.waitpid(child, 0)
    said = json.loads(data) if data else {"error": "the helper that changes the session's mounts died"}
    if "error" in said:
        raise ConfinementError(said["error"], hint=said.get("hint", ""))
    return list(said["notes"])
