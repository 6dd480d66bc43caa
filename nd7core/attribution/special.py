"""Refusals that name no path and no port: nested sandboxes, set-uid programs, tracing, signals, name spaces.

No grant can mend one of these; what helps instead is said with it.
"""

from __future__ import annotations

import re
from typing import NamedTuple

from nd7core.attribution.finding import names
from nd7core.attribution.gate import words
from nd7core.attribution.verdict import Operation


class Special(NamedTuple):
    """A form, what was refused, and what to do instead."""

    pattern: re.Pattern[str]
    operation: Operation
    reason: str
    errno: str = ""  # the error that must be on the line for it to be the kernel's, "" for any


_NEST = "A sandbox cannot be started inside this session; switch that program's own sandbox off."
_SETUID = "Programs cannot gain rights in a session (no_new_privs); run it in a terminal of your own."
_TRACE = "Tracing other processes is refused in a session."
_SPACE = "Namespaces and mounts cannot be changed in a session."
_SIGNAL = "Only processes of this session can be signalled."
_SERVICE = "System services are not reachable from a session."

SPECIALS = (
    Special(
        re.compile(r"no.new.privileges.{0,20}flag is set|no_new_privs|PR_SET_NO_NEW_PRIVS", re.I), "execute", _SETUID
    ),
    Special(
        re.compile(
            r"sandbox_apply|sandbox_init|sandbox-exec:|forbidden-sandbox-reinit|"
            r"cannot be used within an App Sandbox|setting up uid map|cannot clone: |re-exec process to join|"
            r"user namespace|Creating new namespace failed|No permissions to creat\w+ (?:a )?new namespace|"
            r"Failed to move to new namespace|namespace sandbox|No usable sandbox|The SUID sandbox helper|"
            r"clone\w*\(?.{0,40}CLONE_NEW|zygote_host_impl|user namespaces? (?:are|is) not|newuidmap|newgidmap|"
            r"write to uid_map failed|failed to sandbox|bwrap: ",
            re.I,
        ),
        "other",
        _NEST,
    ),
    Special(
        re.compile(
            r"\b(?:unshare|nsenter|setns|pivot_root|rootlesskit)\b.{0,160}(?:failed|error|not permitted|denied)", re.I
        ),
        "other",
        _SPACE,
    ),
    Special(
        re.compile(
            r"\bptrace\b|PTRACE_|process_vm_|perf_event|PERF_|task_for_pid|could not attach to process|attach: ", re.I
        ),
        "other",
        _TRACE,
    ),
    Special(
        re.compile(
            r"\bkill(?:all|ing|pg)?\b.{0,120}(?:not permitted|refused)|\bsignal(?:ling)?\b.{0,60}not permitted"
            r"|kill EPERM",
            re.I,
        ),
        "signal",
        _SIGNAL,
        "EPERM",
    ),
    Special(
        re.compile(r"(?:mach-lookup|bootstrap_(?:look_up|check_in)|SecKeychain\w*|LSOpenURLs\w*|CFMessagePort)", re.I),
        "ipc",
        _SERVICE,
    ),
    Special(
        re.compile(r"^(?:\S*[/ ])?(?:Bad system call|SIGSYS)", re.I),
        "other",
        "The session's filter of system calls ended the program.",
    ),
)
_WORDS = words(
    "privil no_new no·new sandbox uid namespace unshare nsenter setns pivot·root rootlesskit bwrap ptrace "
    "process·vm perf· task·for attach kill signal mach- bootstrap· seckeychain lsopenurls cfmessage system_call "
    "sigsys clone·new zygote newgid cannot_clone re-exec"
)
# Set-uid programs of macOS, which no sandboxed process can start.
MAC_SETUID = names("ps top sudo su login newgrp quota crontab at traceroute passwd")
_PID = re.compile(r"(?:\bpid |\bprocess |\()(\d{1,8})\b")
_ANY_PID = re.compile(r"\b(\d{2,8})\b")


def of_line(line: str) -> Special | None:
    """The refusal without a path that a line tells of, or None."""
    lowered = line.lower()
    if not any(word in lowered for word in _WORDS):
        return None
    for special in SPECIALS:
        if special.pattern.search(line):
            return special
    return None


def process(line: str) -> str:
    """`pid N` of a signal that was refused, "" where none is named."""
    match = _PID.search(line) or _ANY_PID.search(line)
    return f"pid {match[1]}" if match else ""
