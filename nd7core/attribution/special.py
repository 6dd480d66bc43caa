"""Refusals that name no path and no port: nested sandboxes, set-uid programs, tracing, signals, name spaces.

No grant can mend one of these; what helps instead is said with it.
"""

from __future__ import annotations

import re
from typing import Literal, NamedTuple

from nd7core.attribution import markers
from nd7core.attribution.finding import names
from nd7core.attribution.gate import words
from nd7core.attribution.verdict import Operation


class Special(NamedTuple):
    """A form, what was refused, and what to do instead."""

    pattern: re.Pattern[str]
    operation: Operation
    reason: str
    needs: Literal["", "any", "EPERM"] = "any"  # the error that must be on the line: the words are also talked about


_NEST = "A sandbox cannot be started inside this session; switch that program's own sandbox off."
_SETUID = "Programs cannot gain rights in a session (no_new_privs); run it in a terminal of your own."
_TRACE = "Tracing other processes is refused in a session."
_SPACE = "Namespaces and mounts cannot be changed in a session."
_SIGNAL = "Only processes of this session can be signalled."
_CLOSED = "The kernel's interface for that is closed to a session."
_SERVICE = "System services are not reachable from a session."

SPECIALS = (
    Special(
        re.compile(
            r"no.new.privileges.{0,20}flag is set|no_new_privs|PR_SET_NO_NEW_PRIVS|"
            r"must be owned by uid 0 and have the setuid|is owned by uid 65534, should be 0|"
            r"effective uid is not 0, is sudo installed setuid",
            re.IGNORECASE,
        ),
        "execute",
        _SETUID,
        needs="",
    ),
    Special(
        re.compile(
            r"forbidden-sandbox-reinit|cannot be used within an App Sandbox|No usable sandbox|SUID sandbox helper|"
            r"No permissions to creat\w+ (?:a )?new namespace",
            re.IGNORECASE,
        ),
        "other",
        _NEST,
        needs="",
    ),
    Special(
        re.compile(
            r"sandbox_apply|sandbox_init|sandbox-exec:|setting up uid map|cannot clone: |re-exec process to join|"
            r"user namespace|new namespace|namespace sandbox|CLONE_NEW|newuidmap|newgidmap|uid_map|linux-sandbox|"
            r"failed to sandbox|bwrap: |\bclone3?(?:\(\))?: |\bcloning \w+ process\b",
            re.IGNORECASE,
        ),
        "other",
        _NEST,
    ),
    Special(re.compile(r"\b(?:unshare|nsenter|setns|pivot_root|rootlesskit)\b", re.IGNORECASE), "other", _SPACE),
    Special(
        re.compile(
            r"\bptrace\b|PTRACE_|process_vm_|task_for_pid|could not attach to process|\battach: ", re.IGNORECASE
        ),
        "other",
        _TRACE,
    ),
    Special(re.compile(r"\bfusermount\d?\b|cannot set (?:groups|user id|uid|gid)\b"), "execute", _SETUID),
    Special(re.compile(r"file system sandbox blocked"), "read", _CLOSED, needs=""),
    Special(
        re.compile(
            r"\bio_uring|\b(?:openpty|forkpty|posix_openpt)\b|\b(?:add_key|request_key|keyctl\w*|userfaultfd)\b|"
            r"\bfork(?: failed)?:|set tty pgrp|set terminal process group|tcset(?:attr|pgrp)"
        ),
        "other",
        _CLOSED,
        needs="EPERM",
    ),
    Special(re.compile(r"\b(?:shmget|semget|msgget|shmat)\b"), "ipc", _CLOSED, needs="EPERM"),
    Special(re.compile(r"perf_event|PERF_", re.IGNORECASE), "other", _TRACE, needs="EPERM"),
    Special(
        re.compile(r"\bkill(?:all|ing|pg)?\b|\bsignal(?:l?ing)?\b|\bprocess\.kill\b", re.IGNORECASE),
        "signal",
        _SIGNAL,
        needs="EPERM",
    ),
    Special(
        re.compile(
            r"mach-lookup|bootstrap_(?:look_up|check_in)|SecKeychain\w*|CFMessagePort|LSOpenURLs\w*", re.IGNORECASE
        ),
        "ipc",
        _SERVICE,
    ),
    Special(re.compile(r"CoreSimulatorService connection \w+ in(?:valid|terrupted)"), "ipc", _SERVICE, needs=""),
    Special(
        re.compile(r"LSOpenURLs\w*\(\) failed (?:for the application .{1,200} )?with error -(?:54|10810)\b"),
        "ipc",
        _SERVICE,
        needs="",
    ),
)
WORDS = words(
    "privil fusermount cannot_set sandbox_blocked io·uring ·key keyctl userfaultfd fork tty_pgrp process_group "
    "openpt forkpty coresimulator tcset shmget semget msgget shmat setuid owned_by_uid no_new no·new sandbox uid "
    "namespace unshare nsenter setns pivot·root rootlesskit bwrap ptrace process·vm perf· task·for attach kill "
    "signal mach- bootstrap· seckeychain lsopenurls cfmessage clone cloning zygote newgid re-exec"
)
# Set-uid programs of macOS, which no sandboxed process can start.
MAC_SETUID = {
    "ps": "/bin/ps",
    **{name: f"/usr/bin/{name}" for name in names("top sudo su login newgrp quota crontab at atq atrm batch passwd")},
    "traceroute": "/usr/sbin/traceroute",
}
_PID = re.compile(r"(?:\bpid |\bprocess |\()(\d{1,8})\b")
_ANY_PID = re.compile(r"\b(\d{2,8})\b")


def of_line(line: str) -> Special | None:
    """The refusal without a path that a line tells of, or None; to be asked where one of `WORDS` stands."""
    for special in SPECIALS:
        if special.pattern.search(line):
            mark = markers.find(line) if special.needs else None
            if not special.needs or (mark and (special.needs == "any" or mark.errno in ("EPERM", "ANY"))):
                return special
    return None


def process(line: str) -> str:
    """`pid N` of a signal that was refused, "" where none is named."""
    match = _PID.search(line) or _ANY_PID.search(line)
    return f"pid {match[1]}" if match else ""
