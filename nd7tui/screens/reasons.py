"""Why a key of the first screen does nothing now: one sentence each, or "" where it does something."""

from __future__ import annotations

from typing import TYPE_CHECKING

from nd7tui import look
from nd7tui.outlook import why_not, why_not_restart
from nd7tui.screens.page import READ_ONLY

if TYPE_CHECKING:
    from nd7tui.screens.dashboard import Main


def reason(main: Main, key: str) -> str:
    """Why `key`, by its name in the table, does nothing now."""
    row, store = main.row, main.dash.store
    if key in ("grant", "wider"):
        return _grant(main, key)
    if key == "undo":
        return "" if store.last_grant() else "no session has a grant to take back"
    if key == "copy":
        return "" if row is not None else "no row is selected"
    if key == "reveal":
        return "no row is selected" if row is None else "" if row.hidden else "nothing in this row is hidden"
    if key == "open":
        if main.focused is main.session_list:
            return _attach(main)
        return "" if row is not None else "no row is selected"
    if key in ("pause", "filter"):
        return "" if store.rows else "there are no rows yet"
    if key == "waiting":
        return "" if any(s.activity == "waiting" for s in store.sessions.values()) else "no session waits for you"
    if key == "back":
        somewhere = store.filter.text or store.only or main.focused is not main.stream
        return "" if somewhere else "this is the first screen; q leaves"
    if key == "restart":
        return why_not_restart(main.session)
    if key == "session":
        return "" if main.session is not None else "select a session, or a row of one"
    if key == "profile":
        session = main.session
        return "" if session is not None and session.directory else "select a session that runs"
    return ""


def _grant(main: Main, key: str) -> str:
    row = main.row
    if row is None:
        return "no row is selected"
    home = main.dash.places.home
    if row.state == "granted" and key == "grant":
        return f"{look.short_path(row.verdict.grant, home)} is granted already"
    outlook = main.dash.outlook_of(row)
    if outlook is None:
        return look.short_text(why_not(row, main.dash.store.session_of(row)), home)
    if outlook.already and key == "grant":
        return f"{look.short_path(outlook.path, home)} is granted already"
    return look.short_text(outlook.why_not, home)


def _attach(main: Main) -> str:
    session = main.dash.store.sessions.get(main.session_list.key)
    if session is None:
        return "select one session"
    if main.dash.read_only:
        return f"{READ_ONLY}, and on its screen you could type; what it shows is below"
    return "" if session.live else f"the session has ended; {main.dash.caps['session']} tells what is known of it"
