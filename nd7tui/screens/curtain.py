"""What is painted first: the frame of the dashboard, while the dashboard itself is being loaded behind it.

Loading and laying out its panes takes a quarter of the time to the first paint, and nobody can read them sooner.
"""

from __future__ import annotations

from textual.app import ComposeResult

from nd7core.text import safe
from nd7tui.line import Line
from nd7tui.screens.page import Page
from nd7tui.widgets.bar import Bar


class Curtain(Page):
    """The first line, the last line, and one that says what is going on."""

    NAME = "dashboard"
    TITLE_WORD = "all sessions"
    LINE = ("help", "quit")

    DEFAULT_CSS = "Curtain #wait { height: 1fr; }"

    def compose(self) -> ComposeResult:
        yield Bar(self.top_line, id="top")
        yield Bar(self._wait, id="wait")
        yield Bar(self.bottom_line, id="bottom")

    def _wait(self, width: int) -> list[Line]:
        return [Line(), Line(), Line("dim").gap(2).put(safe("Looking for sessions …"))]

    def on_mount(self) -> None:
        self.call_after_refresh(self._lift)

    def _lift(self) -> None:
        from nd7tui.screens.dashboard import Main

        self.app.push_screen(Main())
