"""Words and glyphs: what each source, state and grade is called, everywhere the same.

Glyphs are of the Geometric Shapes block and its like: one cell wide in every terminal font, no emoji.
"""

from __future__ import annotations

import re
import time
from typing import TYPE_CHECKING, Literal

from nd7core.text import SafeText, safe
from nd7tui.theme import Role

if TYPE_CHECKING:
    # Not at run time: the package brings the whole engine along, a fifth of the time to the first paint.
    from nd7core.attribution.verdict import Operation, Source

RowState = Literal["open", "granted", "proved", "repeated", "obsolete"]
Activity = Literal["starting", "working", "waiting", "idle", "ended", "orphaned", "broken", "unknown"]

SOURCES: tuple[Source, ...] = ("kernel", "nd7-exec", "model", "none")

SOURCE: dict[str, tuple[SafeText, SafeText, Role]] = {
    "kernel": (safe("▲"), safe("kernel"), "kernel"),
    "nd7-exec": (safe("◆"), safe("nd7-exec"), "nd7-exec"),
    "model": (safe("○"), safe("model"), "model"),
    "none": (safe("·"), safe("other"), "none"),
}

SOURCE_MEANS: dict[str, str] = {
    "kernel": "the kernel refused it, under this session's profile",
    "nd7-exec": "nd7-exec refused to run the command at all",
    "model": "only the agent says so; nothing else does",
    "none": "no denial of nd7's",
}

STATE: dict[str, tuple[SafeText, SafeText, Role]] = {
    "open": (safe("□"), safe("open"), "warn"),
    "granted": (safe("◧"), safe("granted"), "accent"),
    "proved": (safe("■"), safe("proved"), "good"),
    "repeated": (safe("↻"), safe("repeated"), "bad"),
    "obsolete": (safe("–"), safe("obsolete"), "dim"),
}

STATE_MEANS: dict[str, str] = {
    "open": "nothing has been done about it",
    "granted": "a grant covers it; not tried again yet",
    "proved": "let through now: nd7's own try, or the command, passed",
    "repeated": "refused again after the grant",
    "obsolete": "the session is over, or the profile no longer refuses it",
}

# A try of nd7's own is no promise that the command passes: it may fail for reasons of its own.
PROVED_BY: dict[str, str] = {
    "nd7": "nd7's own try under the new profile passes; the command itself has not passed yet",
    "command": "the same command passed under the new profile",
}

ACTIVITY: dict[str, tuple[SafeText, SafeText, Role]] = {
    "starting": (safe("◌"), safe("starting"), "dim"),
    "working": (safe("●"), safe("working"), "good"),
    "waiting": (safe("◉"), safe("waiting"), "warn"),
    "idle": (safe("○"), safe("idle"), "text"),
    "ended": (safe("–"), safe("ended"), "dim"),
    "orphaned": (safe("✗"), safe("orphaned"), "bad"),
    "broken": (safe("✗"), safe("damaged"), "bad"),
}

EVIDENCE_MEANS: dict[str, str] = {
    "recorded": "the kernel's or the broker's own record",
    "matched": "the text, and the profile in force refuses exactly that and nothing else would",
    "likely": "the text alone",
    "reported": "only the agent says so",
}


def evidence(grade: str, source: str = "", *, confirmed: bool) -> str:
    """A grade with what it means; a report that an earlier call bears out is more than what the agent says."""
    if grade == "matched" and source == "nd7-exec":
        return "matched: nd7-exec's own words, and the exit status with which it refuses"
    if grade == "reported" and confirmed:
        return "reported, and confirmed by an earlier call"
    return f"{grade}: {EVIDENCE_MEANS.get(grade, '')}"


OPERATION: dict[Operation, SafeText] = {
    "read": safe("read"),
    "write": safe("write"),
    "execute": safe("run"),
    "network": safe("connect"),
    "signal": safe("signal"),
    "ipc": safe("socket"),
    "other": safe("–"),
}


def operation(name: str) -> SafeText:
    """What an operation is called; hostile where it is none of nd7's."""
    return next((word for known, word in OPERATION.items() if known == name), safe(name, 20))


OWNER: dict[str, str] = {
    "permissions": "the file's own permissions",
    "agent": "the agent's own rules",
    "person": "you, at the agent's prompt",
    "remote": "the other end",
    "program": "the program itself",
    "sandbox": "another sandbox, not this one",
    "nd7": "nd7, which made it for a grant",
    "": "unknown",
}


def clock(ns: int, *, seconds: bool = True) -> SafeText:
    """The local time of day of a time in nanoseconds."""
    if ns <= 0 or ns > 4_000_000_000_000_000_000:
        return SafeText("--:--:--" if seconds else "--:--")
    return safe(time.strftime("%H:%M:%S" if seconds else "%H:%M", time.localtime(ns / 1e9)))


def day(ns: int) -> SafeText:
    """The local date and time of a time in nanoseconds."""
    if ns <= 0 or ns > 4_000_000_000_000_000_000:
        return SafeText("no date")
    return safe(time.strftime("%Y-%m-%d %H:%M", time.localtime(ns / 1e9)))


def age(ns: int, now: int) -> SafeText:
    """How long ago, in the largest unit: 12s, 5m, 3h, 2d."""
    seconds = max(0, (now - ns) // 1_000_000_000)
    if ns <= 0:
        return SafeText("–")
    for size, unit in ((86_400, "d"), (3_600, "h"), (60, "m")):
        if seconds >= size:
            return SafeText(f"{seconds // size}{unit}")
    return SafeText(f"{seconds}s")


def short_path(path: str, home: str) -> str:
    """`path` with the home directory as ~, for showing only."""
    if home and (path == home or path.startswith(home + "/")):
        return "~" + path[len(home) :]
    return path


def short_text(text: str, home: str) -> str:
    """A sentence with the home directory as ~ wherever a path in it starts with that."""
    return re.sub(rf"(?<![\w/.~-]){re.escape(home)}(?![\w.-])", "~", text) if len(home) > 1 else text


def short_name(name: str) -> str:
    """A session's name within a sentence: a session chooses it, and may choose a page."""
    return name if len(name) <= 48 else name[:47] + "…"


def plural(count: int, one: str, many: str = "") -> str:
    """`3 grants`, `1 grant`."""
    return f"{count:,} {one if count == 1 else many or one + 's'}"
