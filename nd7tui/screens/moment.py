"""The whole of one denial: all of the command, all that is kept of the output, everything nd7 has to say."""

from __future__ import annotations

from textual.app import ComposeResult

from nd7tui import keys
from nd7tui.detail import detail, nothing
from nd7tui.line import Line
from nd7tui.messages import OutlookReady, StoreChanged
from nd7tui.model import Row, SessionRow
from nd7tui.outlook import why_not as row_why_not
from nd7tui.outlook import why_not_restart
from nd7tui.screens.doors import Doors
from nd7tui.widgets.bar import Bar
from nd7tui.widgets.textpane import TextPane


class Moment(Doors):
    """One row, full screen."""

    NAME = "moment"
    TITLE_WORD = "denial"
    BINDINGS = [*keys.bindings("moment")]
    LINE = ("grant", "wider", "undo", "copy", "restart", "session", "back", "help")

    def __init__(self, row_id: str) -> None:
        super().__init__()
        self.row_id = row_id
        self.revealed = False

    def compose(self) -> ComposeResult:
        yield Bar(self.top_line, id="top")
        yield TextPane(self._text, id="text")
        yield Bar(self.bottom_line, id="bottom")

    def on_mount(self) -> None:
        self.query_one(TextPane).focus()
        if self.row is not None:
            self.dash.work_out(self.row)

    @property
    def row(self) -> Row | None:
        """The row, as it is now."""
        return self.dash.store.row(self.row_id)

    @property
    def session(self) -> SessionRow | None:
        """The row's session."""
        row = self.row
        return self.dash.store.session_of(row) if row is not None else None

    def crumbs(self) -> list[str]:
        row = self.row
        name = self.dash.store.session_name(self.dash.store.key_of(row)) if row else ""
        return ["nd7", name, "denial"] if name else ["nd7", "denial"]

    def _text(self, width: int) -> list[Line]:
        row, dash = self.row, self.dash
        if row is None:
            return nothing(width, "This row is too long ago for the stream.", "h finds it in the past denials.")
        text = detail(
            row,
            dash.store.session_of(row),
            dash.outlook_of(row),
            dash.caps,
            width - 4,
            whole=True,
            read_only=dash.read_only,
            undo=dash.store.undo_of(row),
            revealed=self.revealed,
        )
        return [Line(), *(Line().gap(2).join(line) for line in text), Line()]

    def on_store_changed(self, message: StoreChanged) -> None:
        self.query_one(TextPane).redraw()
        self.redraw_bars()
        if self.row is not None:
            self.dash.work_out(self.row)  # a grant, or its end, makes what was foreseen void

    def on_outlook_ready(self, message: OutlookReady) -> None:
        self.query_one(TextPane).redraw()

    def why_not(self, key: str) -> str:
        row = self.row
        if (reason := super().why_not(key)) or row is None:
            return reason or ("the row is gone" if key in ("grant", "wider", "copy", "restart", "reveal") else "")
        if key in ("grant", "wider"):
            return row_why_not(row, self.dash.store.session_of(row))
        if key == "reveal":
            return "" if row.hidden else "nothing of this row is hidden"
        if key == "undo":
            return "" if self.dash.store.last_grant() else "no session has a grant to take back"
        if key == "restart":
            return why_not_restart(self.session)
        if key == "session":
            return "" if self.session is not None else "it belongs to no session of nd7's"
        return ""

    def do_grant(self) -> None:
        """`g`."""
        if self.row is not None:
            self.dash.grant(self.row)

    def to_copy(self) -> str:
        """The command line that would do it, or the target."""
        return self.of_row(self.row, revealed=self.revealed) if self.row is not None else ""

    def do_reveal(self) -> None:
        """`X`: the secrets of this row, until it is left."""
        self.revealed = not self.revealed
        self.query_one(TextPane).redraw()

    def do_restart(self) -> None:
        """`r`."""
        session = self.dash.store.session_of(self.row) if self.row else None
        if session is not None:
            self.dash.restart(session, self.row)
