"""What nd7 itself did since the dashboard started: each deed with the command line that does the same."""

from __future__ import annotations

from textual import on
from textual.app import ComposeResult

from nd7core.text import safe
from nd7tui import detail, keys, look
from nd7tui.line import Line, fit, indented, wrap
from nd7tui.messages import Picked, StoreChanged
from nd7tui.screens.page import Page
from nd7tui.widgets.bar import Bar
from nd7tui.widgets.rowlist import RowList
from nd7tui.widgets.textpane import TextPane


class Deeds(Page):
    """The log of what nd7 did."""

    NAME = "deeds"
    TITLE_WORD = "what nd7 did"
    BINDINGS = [*keys.bindings("deeds")]
    LINE = ("copy", "back", "help")

    DEFAULT_CSS = """
    Deeds #deeds { height: 1fr; }
    Deeds #deed { height: 8; }
    """

    def compose(self) -> ComposeResult:
        yield Bar(self.top_line, id="top")
        yield RowList(self, id="deeds", follow=True)
        yield TextPane(self._whole, id="deed")
        yield Bar(self.bottom_line, id="bottom")

    def _whole(self, width: int) -> list[Line]:
        """The selected deed, none of it cut."""
        found = [Line("rule").put(safe("─" * width), "rule")]
        at = self.query_one(RowList).cursor
        if at < len(self):
            deed = self.dash.store.deeds[at]
            found += indented(wrap(safe(deed.command), width - 3), 1, "code")
            found += indented(wrap(safe(deed.result), width - 3), 1, "dim" if deed.ok else "bad")
        return found

    @on(Picked)
    def _picked(self, message: Picked) -> None:
        self.query_one(TextPane).redraw(top=True)

    def on_mount(self) -> None:
        self.query_one(RowList).focus()

    def on_store_changed(self, message: StoreChanged) -> None:
        self.query_one(RowList).reload()

    def __len__(self) -> int:
        return len(self.dash.store.deeds)

    def __bool__(self) -> bool:
        # A screen is true whatever its list holds: Textual tests screens for truth.
        return True

    def key(self, place: int) -> str:
        """See `Source`."""
        return str(place)

    def place(self, key: str) -> int | None:
        """See `Source`."""
        return int(key) if int(key) < len(self) else None

    def line(self, place: int, width: int) -> Line:
        """See `Source`."""
        deed = self.dash.store.deeds[place]
        line = Line().gap().put(look.clock(deed.ts), "dim").gap(2)
        line.put(safe("done" if deed.ok else "not done"), "good" if deed.ok else "bad", cells=9)
        # What came of it stands below, whole; where it is narrow, what was done needs the room.
        result = 32 if width >= 100 else 0
        line.put(fit(safe(deed.command), width - line.cells - result - 2, "middle"), "code")
        return line.gap(2).put(fit(safe(deed.result), result), "dim") if result else line

    def empty(self, width: int) -> list[Line]:
        """See `Source`."""
        return detail.nothing(
            width,
            "nd7 has changed nothing since this dashboard started.",
            "Each grant, and each one taken back, will stand here with the command line that does the same.",
        )

    def why_not(self, key: str) -> str:
        if key == "copy" and not self.dash.store.deeds:
            return "there is nothing to copy"
        if key == "deeds":
            return "this is the log"
        return super().why_not(key)

    def to_copy(self) -> str:
        """The command line of the selected deed."""
        return self.dash.store.deeds[self.query_one(RowList).cursor].command
