"""Make a path writable for a session's next Bash commands.

examples:
  nd7 allow ~/.cache/pip              the session of this directory, or the only one
  nd7 allow ../lib --session 4711     a certain one, by pid, name or agent session id
  nd7 allow build.log --once          for the next command only
  nd7 allow /srv/data --for 2h        ends by itself; --until 18:30 does, too
  nd7 allow ~/.m2 --project           for this project's later sessions as well

The path and all that lies below it become writable for Bash commands, from the next one on.  The agent's own Write,
Edit and Read run under the rules the session started with and need a restart.  ~/.ssh, ~/.aws, ~/.nd7, the audit
log, nd7's own settings (~/.config/nd7) and the agent's are never granted.  A path that does not exist yet is made,
empty: on Linux only what exists can be opened.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import shlex
import time
from typing import TYPE_CHECKING

from nd7core.errors import Nd7Error
from nd7core.text import SafeText, safe, safe_path, wrapped

if TYPE_CHECKING:
    from nd7core.record import Record

_UNITS = {"s": 1, "m": 60, "h": 3600, "d": 86400}


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("path", metavar="PATH", help="a file or folder; all below a folder becomes writable")
    parser.add_argument("--session", metavar="S", help="a session's pid, name or agent session id")
    parser.add_argument("--force", action="store_true", help="grant what would open nearly everything")
    how_long = parser.add_mutually_exclusive_group()
    how_long.add_argument("--once", action="store_true", help="for the next command only")
    how_long.add_argument("--for", dest="duration", metavar="TIME", help="90s, 30m, 2h, 1d")
    how_long.add_argument("--until", metavar="WHEN", help="18:30, or 2026-12-31T18:30 (with Z: in UTC)")
    how_long.add_argument("--project", action="store_true", help="for the project's later sessions as well")
    kind = parser.add_mutually_exclusive_group()
    kind.add_argument("--file", action="store_const", const="file", dest="make", help="make a missing PATH as a file")
    kind.add_argument("--directory", action="store_const", const="directory", dest="make", help="... as a folder")
    parser.add_argument("--json", action="store_true", help="one JSON object on stdout")


def run(arguments: argparse.Namespace) -> int:
    from nd7core import grants, sessions
    from nd7core.paths import places
    from nd7core.record import Scope

    where = places()
    now = time.time_ns()
    expires = ending(arguments.duration, arguments.until, now)
    scope: Scope = "once" if arguments.once else "project" if arguments.project else "session"
    session = sessions.choose(where, arguments.session, cwd=current_directory())
    typed = with_home(arguments.path, where.home)
    if session.record is not None and not arguments.force:
        refuse_link(session.record, typed)
    change = grants.allow(
        where,
        session.pid,
        typed,
        force=arguments.force,
        scope=scope,
        expires=expires,
        origin="command line",
        now=now,
        make=arguments.make,
    )
    if arguments.json:
        print(json.dumps(as_json(change)))
        return 0
    name = safe(change.record.name, 60) or safe_path(os.path.basename(change.record.project), 60)
    who = f"session {session.pid} ({name})"
    if change.already:
        print(f"{safe_path(change.path)} is writable already in {who}; nothing changed")
        return 0
    print(f"granted {safe_path(change.path)} to {who}, policy revision {change.record.revision}")
    if expires is not None:
        print(f"  {until_when(expires, now)}")
    for line in sentence(change.when):
        print(f"  {line}")
    if hopeless := helpless(change.path):
        print(f"  {hopeless}")
    for danger in change.dangers:
        print(f"  careful, this runs later outside the sandbox: {safe(danger)}")
    if change.note:
        print(f"  {safe(change.note)}")
    print(f"  take it back: {safe(grants.command_line('deny', session.pid, change.path))}")
    return 0


def refuse_link(record: Record, typed: str) -> None:
    """Refuse a path that leads through a link which the session can have made: `build` would be wherever it likes.

    Raises:
        GrantError: with the command line that grants what the link leads to.
    """
    from nd7core.grants import GrantError
    from nd7core.policy import build, decide
    from nd7exec.place import resolve

    path, links = resolve(typed if typed.startswith("/") else os.path.join(current_directory(), typed))
    policy = build(record)
    for link in links:
        if decide(policy, "write", link).allowed and not decide(policy, "write", path).allowed:
            raise GrantError(
                f"{safe_path(link)} is a link that the session can have made, and leads to {safe_path(path)}",
                hint=f"if you mean that: {shlex.join(['nd7', 'allow', str(safe_path(path))])}",
            )


def as_json(change: object) -> dict[str, object]:
    """A `Change` as the JSON that allow and deny print."""
    from nd7core.grants import Change

    assert isinstance(change, Change)
    return {
        "session": change.record.pid,
        "path": change.path,
        "changed": not change.already,
        "revision": change.record.revision,
        "grants": [grant.path for grant in change.record.grants],
        "created": change.created or None,
        "note": change.note,
        "dangers": list(change.dangers),
        "command": change.command,
        "when": change.when,
        "permitted": None if change.command.startswith("nd7 deny") else not helpless(change.path),
    }


def sentence(text: str) -> list[SafeText]:
    """A sentence for stdout: one line for a program; for a terminal broken at blanks, its command on a line of its own.

    A command that was broken could not be copied.
    """
    shown = safe(text)
    try:
        width = max(os.get_terminal_size(1).columns - 2, 40)
    except OSError:
        return [shown]
    words, colon, command = shown.partition(": nd7 ")
    lines = wrapped(SafeText(words + colon[:1]), width)
    return [*lines, SafeText(f"  nd7 {command}")] if command else lines


def helpless(path: str) -> str:
    """Why a grant of this path helps nothing: what holds without nd7 refuses it as well.  "" where it may help."""
    try:
        if os.statvfs(path).f_flag & os.ST_RDONLY:
            return "It lies on a file system that is mounted read-only: the grant will not help."
        if os.access(path, os.W_OK, effective_ids=os.access in os.supports_effective_ids):
            return ""
        if os.path.isdir(path):
            with os.scandir(path) as entries:
                if any(os.access(entry.path, os.W_OK) for entry in entries):
                    return ""
    except OSError:
        # What cannot even be looked at may still be written below.
        return ""
    return "Your own permissions refuse writing there: the grant will not help."


def with_home(path: str, home: str) -> str:
    """`~/x` that the shell did not expand (in quotes, from a program), with the password database's home."""
    return home + path[1:] if path == "~" or path.startswith("~/") else path


def current_directory() -> str:
    """Where this command was called, canonical; "" where that directory is gone."""
    try:
        return os.path.realpath(os.getcwd())
    except OSError:
        return ""


def until_when(expires: int, now: int) -> SafeText:
    """When a grant ends, on this machine's clock, and how long that is: `--until 16:00` may mean tomorrow's."""
    import datetime

    from nd7tui.commands.grants import left

    try:
        end, today = (datetime.datetime.fromtimestamp(ns // 10**9).astimezone() for ns in (expires, now))
    except (ValueError, OverflowError, OSError):
        return SafeText("It ends in a time beyond what this machine's clock can tell.")
    days = (end.date() - today.date()).days
    day = {0: "today", 1: "tomorrow"}.get(days, f"{end:%A}")
    return safe(f"It ends {day}, {end:%Y-%m-%d %H:%M:%S %Z}: in {left(expires - now)}.")


def ending(duration: str | None, until: str | None, now: int) -> int | None:
    """When a grant ends, in nanoseconds since the epoch; None for never.

    Raises:
        Nd7Error: for what is neither a duration nor a time, or lies behind us.
    """
    if duration is not None:
        match = re.fullmatch(r"([0-9]{1,6})([smhd])", duration)
        if match is None or int(match[1]) == 0:
            raise Nd7Error(f"{safe(duration, 40)} is no duration", hint="90s, 30m, 2h or 1d", exit_code=2)
        return now + int(match[1]) * _UNITS[match[2]] * 10**9
    if until is None:
        return None
    import datetime

    try:
        if re.fullmatch(r"[0-9]{1,2}:[0-9]{2}", until):
            clock = datetime.datetime.fromtimestamp(now / 1e9).astimezone()
            hour, minute = map(int, until.split(":"))
            when = clock.replace(hour=hour, minute=minute, second=0, microsecond=0)
            if when <= clock:
                when += datetime.timedelta(days=1)
        else:
            when = datetime.datetime.fromisoformat(until).astimezone()
    except (ValueError, OverflowError, OSError):
        raise Nd7Error(f"{safe(until, 40)} is no time", hint="18:30 or 2026-12-31T18:30", exit_code=2) from None
    end = int(when.timestamp()) * 10**9
    if end <= now:
        raise Nd7Error(f"{safe(until, 40)} has passed", exit_code=2)
    return end
