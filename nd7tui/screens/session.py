"""All that is known of one session, and exactly what is in force in it, whole at every size."""

from __future__ import annotations

from textual.app import ComposeResult

from nd7core.text import safe
from nd7tui import keys
from nd7tui.detail import nothing
from nd7tui.line import Line, indented, wrap
from nd7tui.messages import StoreChanged
from nd7tui.model import Row, SessionRow
from nd7tui.screens.doors import Doors
from nd7tui.widgets.bar import Bar
from nd7tui.widgets.card import in_force, known
from nd7tui.widgets.textpane import TextPane

COLUMN = 14
NONE_RUNS = "Nothing is in force any more: the session is over."
ALWAYS = (
    "Whatever is granted: nd7's own files, and the settings that decide what the agent's next session starts with, "
    "cannot be written. What may be read and written besides is in the profile."
)


class Session(Doors):
    """The card of one session, full screen."""

    NAME = "session"
    TITLE_WORD = "session"
    BINDINGS = [*keys.bindings("session")]
    LINE = ("profile", "grants", "back", "help")

    def __init__(self, session: SessionRow) -> None:
        super().__init__()
        self.session_key = session.key
        self._last = session

    def compose(self) -> ComposeResult:
        yield Bar(self.top_line, id="top")
        yield TextPane(self._text, id="text")
        yield Bar(self.bottom_line, id="bottom")

    def on_mount(self) -> None:
        self.query_one(TextPane).focus()

    @property
    def row(self) -> Row | None:
        """None: a session is selected here, and no row of it."""
        return None

    @property
    def session(self) -> SessionRow:
        """The session as it is now, or as it last was."""
        self._last = self.dash.store.sessions.get(self.session_key, self._last)
        return self._last

    def crumbs(self) -> list[str]:
        return ["nd7", self.session.name, "session"]

    def on_store_changed(self, message: StoreChanged) -> None:
        self.query_one(TextPane).redraw()
        self.redraw_bars()

    def why_not(self, key: str) -> str:
        if key == "profile" and not self.session.directory:
            return "the session is over, and its profile with it"
        return super().why_not(key)

    def tick(self) -> None:
        self.query_one(TextPane).redraw()

    def _text(self, width: int) -> list[Line]:
        session, inner = self.session, width - 2
        lines = [Line()]
        known(lines, session, inner, self.dash.now(), COLUMN)
        if not session.live:
            return [*self._in(lines), *nothing(width, NONE_RUNS)]
        lines += [Line(), Line().gap().put(safe("in force"), "head")]
        in_force(lines, session, inner, COLUMN)
        lines += [Line(), *indented(wrap(safe(ALWAYS), inner - 2), 1, "dim"), Line()]
        if session.grants:
            lines.append(Line().gap().put(safe("granted besides"), "head"))
            for grant in session.grants:
                lines += indented(wrap(safe(grant.path), inner - 2), 1, "path")
        return self._in(lines)

    def _in(self, lines: list[Line]) -> list[Line]:
        return [Line().gap().join(line) for line in lines]
