"""What the dashboard does to a session: grants and takes back.  Runs in a worker and answers with a `Done`."""

from __future__ import annotations

import os
import time
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Literal

from nd7core import grants, sessions
from nd7core.errors import Nd7Error
from nd7core.paths import Places, canonical
from nd7core.record import Grant, Scope
from nd7core.text import safe_path
from nd7tui.foresee import opens
from nd7tui.look import short_path
from nd7tui.model import Deed
from nd7tui.outlook import quoted

if TYPE_CHECKING:
    from nd7tui.app import Dashboard
    from nd7tui.screens.ask import Ask


@dataclass(frozen=True, slots=True)
class Wish:
    """A grant to make.

    Attributes:
        expires: for scope `until`, nanoseconds since the epoch.
        origin: id of the row that it mends, or "".
        force: the person has seen the dangers and said yes.
    """

    pid: int
    path: str
    scope: Scope = "session"
    expires: int | None = None
    origin: str = ""
    force: bool = False


@dataclass(frozen=True, slots=True)
class Done:
    """How a deed went.

    Attributes:
        said: one sentence for the bottom line.
        asks: what is dangerous about it; the deed was not done and waits for a yes.
    """

    kind: Literal["grant", "take-back", "other"]
    ok: bool
    said: str
    deed: Deed
    wish: Wish | None = None
    asks: tuple[str, ...] = ()


def command(wish: Wish) -> str:
    """The command line that does the same."""
    return grants.command_line(
        "allow", wish.pid, wish.path, Grant(wish.path, wish.scope, wish.expires), force=wish.force
    )


def grant(places: Places, wish: Wish) -> Done:
    """Make a grant, unless it is dangerous and nobody has said yes to that."""
    now = time.time_ns()
    line = command(wish)
    try:
        if not wish.force:
            # One path from here on: what was looked at, said yes to and granted is the same, whatever becomes a link.
            shown, wish = wish.path, replace(wish, path=canonical(wish.path))
            if dangers := (*_elsewhere(shown, wish.path), *_dangers(places, wish)):
                return Done("grant", False, "", Deed(now, "grant", line, "asked first", False), wish, dangers)
        held = opens(canonical(wish.path), places.home)
        change = grants.allow(
            places,
            wish.pid,
            wish.path,
            force=wish.force,
            scope=wish.scope,
            expires=wish.expires,
            origin=wish.origin,
            exactly=True,
        )
    except (Nd7Error, OSError) as error:
        message = error.message if isinstance(error, Nd7Error) else str(error)
        return Done("grant", False, message, Deed(now, "grant", line, message, False), wish)
    wish = replace(wish, path=change.path)
    said = (
        "is writable already"
        if change.already
        else f"granted{f' ({held})' if held else ''}; the next Bash command has it"
    )
    said += f". {change.note}" if change.note else ""
    shown = short_path(change.path, places.home)  # the bottom line is short, and what follows counts
    return Done("grant", True, f"{shown}: {said}", Deed(now, "grant", change.command or line, said), wish)


def _elsewhere(shown: str, path: str) -> tuple[str, ...]:
    """That a row's path has become a link since: another session may be able to make it one."""
    # On macOS /tmp, /var and /etc are links, and rows have the names that people know.
    if os.path.normpath(shown) == path or path == "/private" + os.path.normpath(shown):
        return ()
    return (f"{safe_path(shown)} is a link now: what would be granted is {safe_path(path)}",)


def _dangers(places: Places, wish: Wish) -> tuple[str, ...]:
    record = sessions.load(places, wish.pid).record
    if record is None:
        return ()
    path = canonical(wish.path)
    refusal = grants.check(record, path)
    first = (refusal.reason,) if refusal is not None and refusal.force_helps else ()
    return (*first, *grants.dangers(path, home=record.home))


def take_back(places: Places, pid: int, path: str) -> Done:
    """Take a grant back."""
    line = grants.command_line("deny", pid, path)
    now = time.time_ns()
    try:
        change = grants.deny(places, pid, path)
    except (Nd7Error, OSError) as error:
        message = error.message if isinstance(error, Nd7Error) else str(error)
        return Done("take-back", False, message, Deed(now, "take back", line, message, False))
    said = "taken back; the next Bash command is without it" + (f". {change.note}" if change.note else "")
    shown = short_path(change.path, places.home)
    return Done("take-back", True, f"{shown}: {said}", Deed(now, "take back", change.command or line, said))


def forget(places: Places, path: str, project: str) -> Done:
    """Take back what later sessions of a project would start with, while none of them runs."""
    line, now = f"nd7 deny {quoted(path)}", time.time_ns()
    try:
        projects = grants.forget(places, path, project)
    except (Nd7Error, OSError) as error:
        message = error.message if isinstance(error, Nd7Error) else str(error)
        return Done("take-back", False, message, Deed(now, "take back", line, message, False))
    names = " and ".join(short_path(name, places.home) for name in projects)
    said = f"taken back; later sessions in {names} start without it" if projects else "is kept for no project any more"
    return Done(
        "take-back", bool(projects), f"{short_path(path, places.home)}: {said}", Deed(now, "take back", line, said)
    )


def ask(dash: Dashboard, wish: Wish, dangers: tuple[str, ...]) -> Ask:
    """The screen that asks before a dangerous grant."""
    from nd7tui.screens.ask import Ask

    sure = replace(wish, force=True)
    return Ask(
        "This grant opens a way out of the sandbox:",
        short_path(wish.path, dash.places.home),
        dangers,
        command(sure),
        "grant it all the same",
        partial(dash.wish, sure),
    )
