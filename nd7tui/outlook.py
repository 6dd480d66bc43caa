"""What each key would do for a row, and why one does nothing: plain data for the screen.

It is worked out in `nd7tui.foresee`, in a worker; here is what needs neither disk nor profile.
"""

from __future__ import annotations

import shlex
from dataclasses import dataclass
from typing import TYPE_CHECKING

from nd7tui.look import plural
from nd7tui.model import Row, SessionRow

if TYPE_CHECKING:
    from nd7core.survey import Survey

FOREIGN = "another nd7 started this session, so only that one can change it"


@dataclass(frozen=True, slots=True)
class Outlook:
    """What `g` would do for a row, and what speaks against it.

    Attributes:
        path: the path that `g` would grant, or "".
        why_not: why `g` does nothing, or "".
        dangers: what a grant of `path` would let run later outside the sandbox; not empty means that it asks first.
        already: whether a grant covers it.
        refused_by: the profile's line that refuses the target, as it stands there.
        line: its number, or None.
        ordinary: what the file's own permissions say of it: "would let it", "would refuse it too: ...", or "".
        command: the command line that does the same as `g`.
        opens: what a grant of `path` opens, in a few words, or "" where that is one file with nothing to be said of it.
    """

    path: str = ""
    why_not: str = ""
    dangers: tuple[str, ...] = ()
    already: bool = False
    refused_by: str = ""
    line: int | None = None
    command: str = ""
    ordinary: str = ""
    opens: str = ""


def opened(survey: Survey, *, folder: bool) -> str:
    """What a grant opens, in a few words, or "": `4 files, 1 looks like a secret`, the words of the ladder."""
    parts = []
    if folder:
        much = plural(survey.files, "file") if survey.files else "an empty folder"
        parts.append(much if survey.complete else f"over {survey.files:,} files")
    if count := len(survey.secrets):
        parts.append(
            f"{count} {'looks' if count == 1 else 'look'} like a secret" if folder else "which looks like a secret"
        )
    return ", ".join(parts)


def why_not(row: Row, session: SessionRow | None) -> str:
    """Why `g` cannot do anything about a row, from what the row itself says; "" where it may."""
    verdict = row.verdict
    if verdict.source == "none":
        return "this is no denial of nd7's, so no grant helps"
    if verdict.source == "nd7-exec":
        return "no path was refused: nd7-exec could not run the command at all"
    if row.tied_to:
        return "it is about an earlier call, which has a row of its own"
    if verdict.remedy == "cannot-grant":
        return "this cannot be granted" + (f": {verdict.reason}" if verdict.reason else "")
    if verdict.remedy == "restart-wider" and not verdict.grant:
        return "only a restart under a wider floor helps"
    if not verdict.grant:
        return "there is no path here that a grant could open"
    if session is not None and session.live and session.foreign:
        return FOREIGN
    if session is None or row.nd7_session is None:
        return "it belongs to no session of nd7's"
    if not session.live:
        return "the session has ended; a grant would reach nothing"
    return ""


def why_not_restart(session: SessionRow | None) -> str:
    """Why `r` cannot restart a session, or ""."""
    if session is None:
        return "no session is selected"
    if not session.live:
        return "the session has ended; nd7 run claude --resume brings it back"
    if session.foreign:
        return FOREIGN
    if session.agent != "claude":
        return "only Claude Code can come back to its conversation"
    if not session.session_ids:
        return "the agent has not told its session's id yet"
    return ""


def command_of(pid: int, path: str) -> str:
    """`nd7 allow` as one would type it, in printable characters only: it is copied, and pasted into a shell."""
    return f"nd7 allow --session {pid} {quoted(path)}"


def quoted(word: str) -> str:
    """A word for a shell; where it has characters that do not print, as $'...', which bash and zsh read."""
    if word.isprintable():
        return shlex.quote(word)
    made = []
    for char in word:
        if char in "'\\":
            made.append("\\" + char)
        elif char.isprintable():
            made.append(char)
        else:
            made += [f"\\x{byte:02x}" for byte in char.encode("utf-8", "surrogateescape")]
    return "$'" + "".join(made) + "'"
