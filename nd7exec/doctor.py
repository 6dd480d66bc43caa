"""Looks at this machine: what a session would be confined by, whether its hooks reach the log, and what to mend.

Changes nothing, asks the network nothing, and runs one foreign program: the agent, for its version, with
a time limit.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import stat
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final, Literal

from nd7core import sessions
from nd7core.errors import Nd7Error
from nd7core.paths import Places, within

State = Literal["ok", "degraded", "missing"]

# The agent's version whose hooks, phrases and folders were measured.
MEASURED: Final = "2.1.197"
_VERSION_SECONDS: Final = 20.0
_LITTLE, _VERY_LITTLE = 1 << 30, 50 << 20
_LOGS: Final = 12
_LOG_BYTES: Final = 16 << 20
_RELEASED: Final = 1_790_000_000  # September 2026: a clock before it is wrong


@dataclass(frozen=True, slots=True)
class Check:
    """One thing that was looked at.

    Attributes:
        name: what.
        state: `ok`; `degraded`, a session runs with less; `missing`, no session runs, or none is recorded.
        found: what there is, one line.
        means: what that means for a session, one sentence; "" where it means nothing special.
        mend: the command or step that mends it; "" where there is nothing to mend or nothing that would.
    """

    name: str
    state: State
    found: str
    means: str = ""
    mend: str = ""


def examine(places: Places, environ: Mapping[str, str]) -> list[Check]:
    """Every check, in the order in which a person reads them.  Never raises for what it finds."""
    kernel = _linux() if sys.platform == "linux" else _macos()
    checks: list[Callable[[], Check | list[Check]]] = [
        lambda: _program(places, environ),
        lambda: _hooks(places),
        lambda: _permissions(places),
        lambda: _own_code(places, environ),
        lambda: _logs(places),
        lambda: _disk(places),
        lambda: _clock(places),
    ]
    for check in checks:
        try:
            answer = check()
        except (OSError, Nd7Error) as error:
            what = error.message if isinstance(error, Nd7Error) else error.strerror or str(error)
            answer = Check("self-check", "degraded", what, "this could not be looked at")
        kernel += answer if isinstance(answer, list) else [answer]
    return kernel


# The kernel


def _linux() -> list[Check]:
    from nd7exec.linux import bpf, handover, landlock, namespaces, syscalls

    machine = os.uname()
    found = f"Linux {machine.release} on {machine.machine}"
    try:
        syscalls.machine()
    except Nd7Error as error:
        return [Check("kernel", "missing", found, error.message)]
    checks = [Check("kernel", "ok", found, _measured(machine.machine)), _landlock(landlock.kernel_abi())]
    why = namespaces.usable()
    checks.append(_namespaces(why))
    checks.append(_notify(bpf.notify_supported(), bpf.listener_free))
    if blind := handover.may_look():
        checks.append(_blind(blind))
    return checks


def _measured(machine: str) -> str:
    return (
        "" if machine == "x86_64" else "coded for and checked in an interpreter, but never run on this machine's kind"
    )


def _landlock(abi: int) -> Check:
    if not abi:
        return Check(
            "Landlock",
            "missing",
            "not in this kernel, or switched off",
            "no session can be confined, so none is started",
            "Linux 5.13 or later with `landlock` in the lsm= boot parameter: "
            "add `lsm=landlock,$(cat /sys/kernel/security/lsm)` to the kernel's command line",
        )
    if abi < 6:
        lost = [
            (2, "moving a file to another directory fails inside a session"),
            (3, "without namespaces, files outside could be truncated"),
            (4, "ports are decided by nd7 alone, not by the kernel as well"),
            (6, "signals are decided by nd7 instead of the kernel"),
        ]
        means = "; ".join(text for version, text in lost if abi < version)
        return Check("Landlock", "degraded", f"version {abi}", means, "a newer kernel: 6.12 or later")
    return Check("Landlock", "ok", f"version {abi}")


def _namespaces(why: str) -> Check:
    if not why:
        return Check("namespaces", "ok", "a user, mount and IPC namespace of a session's own work")
    means = (
        "sessions run on Landlock and seccomp alone: names in ~/.ssh can be listed, /dev/shm is shared, programs "
        "cannot make terminals, and files that appear or are rewritten in the home directory become unreadable to an "
        "agent that runs"
    )
    return Check("namespaces", "degraded", f"refused ({why})", means, _mend_namespaces())


def _mend_namespaces() -> str:
    if _read("/proc/sys/kernel/apparmor_restrict_unprivileged_userns") == "1":
        # A profile that lets this one program make namespaces is narrower than switching the rule off.
        profile = f"abi <abi/4.0>, profile nd7 {os.path.realpath(sys.executable)} flags=(unconfined) {{ userns, }}"
        return f"echo '{profile}' | sudo tee /etc/apparmor.d/nd7 && sudo apparmor_parser -r /etc/apparmor.d/nd7"
    settings = {
        "/proc/sys/kernel/unprivileged_userns_clone": ("0", "1"),
        "/proc/sys/user/max_user_namespaces": ("0", "10000"),
    }
    for path, (bad, good) in settings.items():
        if _read(path) == bad:
            return f"sudo sysctl -w {path.removeprefix('/proc/sys/').replace('/', '.')}={good}"
    return "in a container: start it with --security-opt seccomp=unconfined --security-opt apparmor=unconfined"


def _notify(known: bool, free: Callable[[], bool]) -> Check:
    if not known:
        return Check("seccomp", "missing", "no user notification", "no session can be confined", "Linux 5.13 or later")
    if not free():
        return Check(
            "seccomp",
            "missing",
            "another sandbox outside already answers notifications",
            "the kernel allows one, so no session can be confined here",
            "run nd7 outside that container or sandbox",
        )
    recorded = "what the notifier refuses is recorded; other system calls as root, with `nd7 run --kernel-records`"
    return Check("seccomp", "ok", "filter and user notification work", recorded)


def _blind(why: str) -> Check:
    scope = _read("/proc/sys/kernel/yama/ptrace_scope")
    means = "nd7 may not look at a session's sockets, so it cannot make its connections"
    if scope in ("2", "3"):
        mend = "sudo sysctl -w kernel.yama.ptrace_scope=1 (from 3 only after a restart of the machine)"
        return Check("tracing", "missing", f"refused ({why}); kernel.yama.ptrace_scope is {scope}", means, mend)
    return Check("tracing", "missing", f"refused ({why})", means, "in a container: start it with --cap-add SYS_PTRACE")


def _macos() -> list[Check]:
    found = f"{os.uname().sysname} {os.uname().release}"
    if os.path.exists("/usr/bin/sandbox-exec"):
        return [Check("kernel", "ok", found), Check("Seatbelt", "ok", "/usr/bin/sandbox-exec")]
    return [Check("kernel", "missing", found, "nd7 confines on Linux, and on macOS with sandbox-exec")]


# The agent and its hooks


def _program(places: Places, environ: Mapping[str, str]) -> Check:
    found = shutil.which("claude", path=environ.get("PATH", os.defpath))
    if not found:
        return Check(
            "agent",
            "degraded",
            "claude is not on PATH",
            "any other program runs confined, too, but only Claude Code is recorded",
            f"npm install -g @anthropic-ai/claude-code@{MEASURED}",
        )
    path = os.path.realpath(found)
    if root := _of_a_session(places, found):
        return Check(
            "agent",
            "degraded",
            f"claude ({path}) was not asked for its version",
            f"it lies in {root}, where a session may have put it, and here it would run outside the sandbox",
            "take that folder from PATH, or install the agent outside of it",
        )
    version = _version(found, environ)
    if version == MEASURED:
        return Check("agent", "ok", f"claude {version} ({path})")
    if not version:
        return Check(
            "agent", "degraded", f"claude ({path}) does not tell its version", "it may not start", "claude --version"
        )
    means = f"its hooks and words were measured with {MEASURED}: a denial may be explained less well"
    return Check("agent", "degraded", f"claude {version} ({path})", means, "nd7 denials shows what is recorded of it")


def _of_a_session(places: Places, program: str) -> str:
    """Where a program lies that some session could write: the working directory, or a live session's place; or ""."""
    roots = set()
    with contextlib.suppress(FileNotFoundError):
        roots = {os.getcwd()} - {"/", places.home}
    for session in sessions.live(places):
        if record := session.record:
            roots |= {record.project, record.tmp, *record.writable, *(grant.path for grant in record.grants)}
    names = (os.path.abspath(program), os.path.realpath(program))
    return next((root for root in sorted(roots) if any(within(name, root) for name in names)), "")


def _version(program: str, environ: Mapping[str, str]) -> str:
    """What `claude --version` begins with, or ""."""
    keep = {name: environ[name] for name in ("PATH", "HOME", "LANG") if name in environ}
    try:
        done = subprocess.run(
            [program, "--version"],
            cwd="/",
            env={**keep, "DISABLE_AUTOUPDATER": "1"},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            timeout=_VERSION_SECONDS,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired):
        return ""
    words = done.stdout[:200].decode("utf-8", "replace").split()
    return words[0] if words and words[0][:1].isdigit() else ""


def _hooks(places: Places) -> list[Check]:
    """What the live sessions say of themselves: their canaries and their gaps."""
    live = [session for session in sessions.live(places) if session.alive]
    if not live:
        return [
            Check("sessions", "ok", "none runs", "start one to see whether its hooks reach the log", "nd7 run claude")
        ]
    checks = []
    for session in live:
        name, record = f"session {session.pid}", session.record
        if record is None:
            checks.append(Check(name, "missing", session.problem or "its record cannot be read", mend="end it"))
            continue
        wrong = [str(item) for item in record.canary.get("wrong", ()) or ()]
        if wrong:
            found, means = "; ".join(wrong)[:300], "what its policy refuses is not refused, or is not seen"
            checks.append(Check(name, "missing", found, means, "end it and start it again"))
        elif record.gaps:
            found = f"its log marks {record.gaps} gap{'s' if record.gaps > 1 else ''}"
            means = "a command of which no hook told, say, or an older conversation that nobody asked for by its id"
            checks.append(
                Check(name, "degraded", found, means, "end it and start it again with `nd7 run claude --resume ID`")
            )
        elif not record.canary:
            checks.append(
                Check(name, "degraded", "its self-test has not ended", "nothing is known yet", "wait a moment")
            )
        else:
            checks.append(Check(name, "ok", "its self-test passed: enforcing, and seen to be"))
    return checks


# Files


def _permissions(places: Places) -> list[Check]:
    from nd7exec import lifecycle

    try:
        lifecycle.check_places(places)
    except Nd7Error as error:
        return [Check("permissions", "missing", error.message, "`nd7 run` starts no session", error.hint)]
    for path in (places.nd7, places.sessions, places.state, os.path.join(places.state, "sessions")):
        with contextlib.suppress(FileNotFoundError):
            mode = stat.S_IMODE(os.stat(path).st_mode)
            if mode & 0o077:
                means = "others can read what your sessions did"
                return [Check("permissions", "degraded", f"{path} is {mode:04o}", means, f"chmod 700 {path}")]
    return [Check("permissions", "ok", f"{places.nd7} and {places.state} are yours alone")]


def _own_code(places: Places, environ: Mapping[str, str]) -> Check:
    """nd7's own code and Python must be out of the reach of others, and of every session."""
    import nd7exec
    from nd7exec import lifecycle, ourselves

    for path in (os.path.dirname(nd7exec.__file__), os.path.realpath(sys.executable), sys.prefix):
        if why := lifecycle.others_write(path):
            return Check(
                "nd7 itself", "missing", f"{path}: {why}", "they could change what confines you", f"chmod go-w {path}"
            )
    try:
        ourselves.check([lifecycle.temporary(environ, places)])  # what every session may write, in any project
    except Nd7Error as error:
        return Check("nd7 itself", "missing", error.message, "`nd7 run` starts no session", error.hint)
    return Check("nd7 itself", "ok", os.path.dirname(nd7exec.__file__))


def _logs(places: Places) -> Check:
    """The chains of the latest logs: in a damaged one a refusal may be missing, and `none` would be no answer."""
    from nd7core.audit.verify import verify
    from nd7core.history import log_stamps

    latest = sorted(log_stamps(places.state), key=lambda log: -log[2])[:_LOGS]
    small = [name for name, *_ in latest if _size(os.path.join(places.state, "sessions", name)) <= _LOG_BYTES]
    results = [verify(os.path.join(places.state, "sessions", name)) for name in small]
    broken = [result for result in results if not result.ok]
    if not broken:
        return Check("logs", "ok", f"the chains of the latest {len(results)} hold" if results else "none yet")
    return Check(
        "logs",
        "degraded",
        f"{len(broken)} of the latest {len(results)} damaged; {broken[0].session_id}: {broken[0].problem}",
        "refusals may be missing from what nd7 shows of it",
        f"`nd7 verify {broken[0].session_id}` says where; what is damaged stays so",
    )


def _size(directory: str) -> int:
    try:
        return os.stat(os.path.join(directory, "events.ndjson")).st_size
    except OSError:
        return 0


def _disk(places: Places) -> Check:
    path = places.state
    while not os.path.isdir(path):
        path = os.path.dirname(path)
    free = os.statvfs(path)
    left = free.f_bavail * free.f_frsize
    found = f"{left / (1 << 30):.1f} GB free for the log at {path}"
    mend = f"du -sh {places.state}/sessions/*"
    if free.f_files and not free.f_favail:
        return Check("disk", "missing", f"no inodes left at {path}", "nothing can be recorded", mend)
    if left < _VERY_LITTLE:
        return Check("disk", "missing", found, "sessions would soon run without being recorded", mend)
    if left < _LITTLE:
        return Check("disk", "degraded", found, "a long session's log may not fit", mend)
    return Check("disk", "ok", found)


def _clock(places: Places) -> Check:
    now = time.time()
    shown = time.strftime("%Y-%m-%d %H:%M:%S %z", time.localtime(now))
    if now < _RELEASED:
        means = "frames and grants would be dated wrongly"
        return Check("clock", "degraded", shown, means, "sudo timedatectl set-ntp true")
    newest = 0.0
    directory = os.path.join(places.state, "sessions")
    with contextlib.suppress(OSError), os.scandir(directory) as entries:
        for entry in entries:
            with contextlib.suppress(OSError):
                newest = max(newest, entry.stat(follow_symlinks=False).st_mtime)
    if newest > now + 120:
        means = "a log was written later than now: the clock has gone back, and frames may seem out of order"
        return Check("clock", "degraded", shown, means, "sudo timedatectl set-ntp true")
    return Check("clock", "ok", shown)


def _read(path: str) -> str:
    try:
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return ""
    try:
        return os.read(fd, 4096).decode(errors="replace").strip()
    except OSError:
        return ""
    finally:
        os.close(fd)
