"""Every grant of every live session: where it came from, how old it is, how often it was of use."""

from __future__ import annotations

import os

from textual import on
from textual.app import ComposeResult

from nd7core.text import safe
from nd7tui import detail, keys, look
from nd7tui.commands.grants import left
from nd7tui.line import Line, fit, indented, wrap
from nd7tui.messages import Opened, Picked, StoreChanged
from nd7tui.model import GrantRow
from nd7tui.outlook import command_of, quoted
from nd7tui.screens.page import Page
from nd7tui.widgets.bar import Bar
from nd7tui.widgets.rowlist import RowList
from nd7tui.widgets.textpane import TextPane

SCOPE = {
    "session": "this session",
    "once": "the next command",
    "until": "until",
    "project": "this project",
}


def _key(row: GrantRow) -> str:
    return f"{row.pid}{row.project} {row.path}"


class Grants(Page):
    """All grants, unused ones first: those are the ones to take back."""

    NAME = "grants"
    TITLE_WORD = "grants"
    BINDINGS = [*keys.bindings("grants")]
    LINE = ("take_back", "undo", "copy", "open", "back", "help")

    DEFAULT_CSS = """
    Grants #grants { height: 2fr; }
    Grants #about { height: 1fr; min-height: 6; }
    """

    def compose(self) -> ComposeResult:
        yield Bar(self.top_line, id="top")
        yield Bar(self._columns, id="columns")
        yield RowList(self, id="grants")
        yield TextPane(self._about, id="about")
        yield Bar(self.bottom_line, id="bottom")

    def on_mount(self) -> None:
        self.query_one(RowList).focus()

    def __bool__(self) -> bool:
        # A screen is true whatever its list holds: Textual tests screens for truth.
        return True

    # -- the list's source ----------------------------------------------------------------------------------------

    def _rows(self) -> list[GrantRow]:
        return self.dash.store.grants()

    def __len__(self) -> int:
        return len(self._rows())

    def key(self, place: int) -> str:
        """See `Source`."""
        row = self._rows()[place]
        return _key(row)

    def place(self, key: str) -> int | None:
        """See `Source`."""
        return next((at for at, row in enumerate(self._rows()) if _key(row) == key), None)

    def _columns(self, width: int) -> list[Line]:
        if not len(self):
            return [Line()]
        line = Line("faint").gap(2).put(safe("age"), cells=6).put(safe("used"), cells=8).put(safe("session"), cells=16)
        return [line.put(safe("for"), cells=22).put(safe("what may be written"))]

    def line(self, place: int, width: int) -> Line:
        """See `Source`."""
        row = self._rows()[place]
        now = self.dash.now()
        line = Line().gap().put(look.age(row.created, now), "dim", cells=6)
        used = f"{row.uses}×" if row.uses else "unused"
        line.put(safe(used), "text" if row.uses else "warn", cells=8)
        line.put(safe(self.dash.store.session_name(f"pid:{row.pid}") if row.pid else "later ones"), "dim", cells=16)
        line.put(safe(self._how_long(row)), "dim", cells=22)
        return line.put(
            fit(safe(look.short_path(row.path, self.dash.places.home)), width - line.cells, "middle"), "path"
        )

    def _how_long(self, row: GrantRow) -> str:
        if row.scope == "until" and row.expires is not None:
            still = row.expires - self.dash.now()
            until = look.clock(row.expires, seconds=False)
            return f"until {until} ({left(still)})" if still > 0 else "its time is over"
        if not row.pid:
            return f"project {os.path.basename(row.project)}"
        return SCOPE.get(row.scope, row.scope)

    def empty(self, width: int) -> list[Line]:
        """See `Source`."""
        return detail.nothing(width, "No session has a grant.", "g on a denial grants the narrowest thing that helps.")

    # -- the lines below ------------------------------------------------------------------------------------------

    @property
    def selected(self) -> GrantRow | None:
        """The grant under the cursor."""
        place = self.place(self.query_one(RowList).key)
        return None if place is None else self._rows()[place]

    def _about(self, width: int) -> list[Line]:
        row = self.selected
        found = [Line("rule").put(safe("─" * width), "rule")]
        if row is None:
            return found
        inner = width - 14

        def fact(name: str, text: str) -> None:
            for at, part in enumerate(wrap(safe(text, 1000), inner, 3)):
                found.append(Line().gap().put(safe(name if not at else ""), "dim", cells=12).put(part))

        fact("path", row.path)
        if not row.pid:
            fact("project", f"{row.project}: what is started there begins with it")
        fact("granted", f"{look.day(row.created)}" if row.created else "nobody said when")
        origin = self.dash.store.row(row.origin)
        if origin is not None:
            fact("because of", " ".join(origin.command.split())[:300])
        else:
            fact("because of", row.origin or "nobody said")
        if not row.uses and row.pid:
            found += indented(
                wrap(safe("No command has run since with it in force: it may not be needed."), inner), 13, "dim"
            )
        return found

    @on(Picked)
    def _picked(self, message: Picked) -> None:
        self.query_one(TextPane).redraw(top=True)

    @on(Opened)
    async def _opened(self, message: Opened) -> None:
        await self.action_press("open")

    def on_store_changed(self, message: StoreChanged) -> None:
        self.query_one(RowList).reload()
        self.query_one(TextPane).redraw()
        self.redraw_bars()

    # -- keys -----------------------------------------------------------------------------------------------------

    def why_not(self, key: str) -> str:
        if reason := super().why_not(key):
            return reason
        if key in ("take_back", "copy") and self.selected is None:
            return "no grant is selected"
        if key == "undo" and self.dash.store.last_grant() is None:
            return "no session has a grant to take back"
        if key == "open":
            row = self.selected
            if row is None:
                return "no grant is selected"
            return "" if self.dash.store.row(row.origin) else "the denial that it came from is not in the stream"
        return ""

    def do_take_back(self) -> None:
        """`x`: this one."""
        row = self.selected
        if row is not None:
            if row.pid:
                self.dash.take_back(row.pid, row.path)
            else:
                self.dash.forget(row.path, row.project)

    def to_copy(self) -> str:
        """The command line that gives it again; of one that waits for a session, the one that takes it back."""
        row = self.selected
        if row is None:
            return ""
        return command_of(row.pid, row.path) if row.pid else f"nd7 deny {quoted(row.path)}"

    def do_open(self) -> None:
        """Enter: the denial that it came from."""
        from nd7tui.screens.moment import Moment

        row = self.selected
        if row is not None:
            self.app.push_screen(Moment(row.origin))
