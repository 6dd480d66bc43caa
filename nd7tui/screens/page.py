"""What every screen has: its keys from the one table, a reason for each that does nothing, and the bottom line."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, cast

from textual import events
from textual.screen import Screen
from textual.widget import Widget

from nd7core.text import safe
from nd7tui import keys
from nd7tui.line import Line, both, fit, indented, wrap_to
from nd7tui.look import short_path
from nd7tui.widgets.bar import Bar

if TYPE_CHECKING:
    from nd7tui.app import Dashboard
    from nd7tui.model import Row

# What is said takes as many lines as it needs, up to this: a note that is cut may be cut before what matters.
SAID_LINES = 4
READ_ONLY = "this dashboard was started with --read-only"
MOVES = ("up", "down", "page_up", "page_down", "top", "bottom")


def _why_no_move(focused: Widget | None, key: str) -> str:
    """Why a move changes nothing, or ""; lists and panes know, and an input has no such keys."""
    why: Callable[[bool], str] | None = getattr(focused, "why_no_move", None)
    return why(key in ("down", "page_down", "bottom")) if why is not None else "nothing here moves"


class Page(Screen[None]):
    """A screen of the dashboard.

    A key runs `press(id)`, which asks `why_not(id)` first: a key that does nothing says why at the bottom.
    """

    NAME = ""
    TITLE_WORD = ""
    # Keys named in the bottom line, the most important first; what does not fit is left to the help.
    LINE: tuple[str, ...] = ("help", "back", "quit")

    @property
    def dash(self) -> Dashboard:
        """The application."""
        from nd7tui.app import Dashboard

        return cast(Dashboard, self.app)

    # -- the keys -------------------------------------------------------------------------------------------------

    def why_not(self, key: str) -> str:
        """Why a key does nothing now, or ""."""
        if key in self.dash.off:
            return self.dash.off[key]
        if self.dash.read_only and keys.BY_ID[key].changes:
            return READ_ONLY
        if key == "theme":
            return self.dash.why_no_theme()
        if key in MOVES:
            return _why_no_move(self.focused, key)
        if key in ("next_pane", "back_pane") and len(self.focus_chain) < 2:
            return "there is one pane here"
        return ""

    def why(self, key: str) -> str:
        """The same, for each key of the table: what cannot be copied cannot be printed, either."""
        return self.why_not("copy" if key == "print" else key)

    async def action_press(self, key: str) -> None:
        """A key of the table."""
        self.dash.quiet()
        reason = self.why(key)
        if reason:
            self.dash.say(f"{keys.BY_ID[key].word}: {reason}", "warn")
            return
        if key in MOVES:
            getattr(self.focused, f"action_{key}")()
            return
        result = getattr(self, f"do_{key}")()
        if result is not None:
            await result

    def on_key(self, event: events.Key) -> None:
        """A key that is bound to nothing says so, instead of silence."""
        if event.is_printable and event.key not in self.active_bindings and not self._typing():
            event.stop()
            shown = safe(event.character or event.key, 8)
            self.dash.say(f"{shown}: does nothing here; {self.dash.caps['help']} shows the keys", "dim")

    def _typing(self) -> bool:
        return type(self.focused).__name__ == "Input"

    def to_copy(self) -> str:
        """What `y` copies and `Y` prints here."""
        return ""

    def do_copy(self) -> None:
        """`y`."""
        self.dash.copy(self.to_copy())

    def do_print(self) -> None:
        """`Y`."""
        self.dash.leave_with(self.to_copy())

    def do_next_pane(self) -> None:
        """Tab."""
        self.focus_next()

    def do_back_pane(self) -> None:
        """Shift+Tab."""
        self.focus_previous()

    def do_help(self) -> None:
        """Show the help of this screen."""
        from nd7tui.screens.help import Help

        self.app.push_screen(Help(self))

    def do_deeds(self) -> None:
        """Show what nd7 did."""
        from nd7tui.screens.deeds import Deeds

        self.app.push_screen(Deeds())

    def of_row(self, row: Row, *, revealed: bool) -> str:
        """The command line that would mend a row, or its target, or what was run as it is shown."""
        outlook = self.dash.outlook_of(row)
        shown = row.bare or row if revealed else row
        return (outlook.command if outlook else "") or row.verdict.target or shown.command

    def do_theme(self) -> None:
        """The next theme."""
        self.dash.turn_theme()

    def do_back(self) -> None:
        """Leave this screen."""
        self.dismiss()

    def do_quit(self) -> None:
        """Leave this screen, or the dashboard from its first one."""
        self.dismiss()

    # -- the lines at the top and the bottom ----------------------------------------------------------------------

    def crumbs(self) -> list[str]:
        """Where one is, from the outside in."""
        return ["nd7", self.TITLE_WORD]

    def at_right(self) -> Line:
        """What stands at the right of the first line."""
        return Line()

    def top_line(self, width: int) -> list[Line]:
        """The first line of the screen."""
        line = Line("dim").gap()
        crumbs = self.crumbs()
        for at, crumb in enumerate(crumbs):
            if at:
                line.put(safe("  ›  "), "faint")
            line.put(safe(crumb, 60), "strong" if at == len(crumbs) - 1 else "accent" if not at else "dim")
        return [both(line, self.at_right().gap(), width)]

    def bottom_line(self, width: int) -> list[Line]:
        """The last line of the screen: what was said, or else the keys."""
        said = self.dash.said
        if said is not None:
            text, role = said
            more = safe(f"… (whole: {self.dash.caps['deeds']})")
            return indented(wrap_to(text, width - 2, SAID_LINES, more), 1, role)
        line = Line("dim").gap()
        # The last two are how one gets help and gets out: they are always there.
        last = Line("dim")
        for name in self.LINE[-2:]:
            last.join(self._hint(name))
        for name in self.LINE[:-2]:
            if self.dash.read_only and keys.BY_ID[name].changes:
                continue  # it would only say that it does nothing
            piece = self._hint(name)
            if line.cells + piece.cells + last.cells > width:
                break
            line.join(piece)
        return [line.join(last)]

    def _hint(self, name: str) -> Line:
        do = f"screen.press('{name}')"
        piece = Line("dim").put(safe(self.dash.caps[name]), "key", do=do)
        return piece.put(safe(f" {self.word(name)}"), "dim", do=do).gap(2)

    def of_session(self) -> str:
        """The key of the session that is selected here, or "": its grants are undone before those of others."""
        return ""

    def word(self, name: str) -> str:
        """What a key is called in the key line.

        `q` leaves the dashboard from its first screen alone.  `u` names what it would take back, and whose, where that
        is not the selected session's: it may be a grant that a shell has made.
        """
        if name == "quit" and self.NAME != "dashboard":
            return keys.BY_ID["back"].word
        selected = self.of_session()
        last = self.dash.store.last_grant(selected) if name == "undo" else None
        if last is None:
            return keys.BY_ID[name].word
        key = f"pid:{last.pid}"
        whose = "" if key == selected else f" ({self.dash.store.session_name(key)[:14]})"
        return f"undo {fit(safe(short_path(last.path, self.dash.places.home)), 22, 'middle')}{whose}"

    def cap(self, name: str) -> str:
        """How a key is printed in this screen's help; "" where it would only be typed."""
        return self.dash.caps[name]

    def does(self, name: str) -> str:
        """What a key does here, as the help says it."""
        if name != "quit":
            return keys.BY_ID[name].does
        return f"leave; {self.dash.LEFT}" if self.NAME == "dashboard" else "back to the screen before this one"

    def do_undo(self) -> None:
        """`u`: take back the last grant."""
        self.dash.undo(self.of_session())

    def tick(self) -> None:
        """Once a second: what tells the time is drawn again."""

    def redraw_bars(self) -> None:
        """Ask every bar again."""
        for bar in self.query(Bar):
            bar.redraw()
