"""A pane of lines that scrolls: the detail, the profile, help."""

from __future__ import annotations

from collections.abc import Callable

from textual import events
from textual.geometry import Size
from textual.scroll_view import ScrollView
from textual.strip import Strip

from nd7tui.line import Line, blank
from nd7tui.theme import DARK, PALETTES, Palette

Draw = Callable[[int], list[Line]]


class TextPane(ScrollView, can_focus=True, inherit_bindings=False):
    """Draws the lines that a function makes for its width."""

    DEFAULT_CSS = """
    TextPane { height: 1fr; overflow-x: hidden; overflow-y: auto; scrollbar-size-vertical: 1; }
    """

    def __init__(self, draw: Draw, *, id: str) -> None:
        super().__init__(id=id)
        self._draw = draw
        self._lines: list[Line] | None = None

    @property
    def palette(self) -> Palette:
        """The palette of the theme in force."""
        return PALETTES.get(self.app.theme, DARK)

    @property
    def lines(self) -> list[Line]:
        """The lines as they are drawn now."""
        if self._lines is None:
            width = self.scrollable_content_region.width or self.size.width
            self._lines = self._draw(max(width, 8))
            self.virtual_size = Size(width, len(self._lines))
        return self._lines

    def redraw(self, *, top: bool = False) -> None:
        """Ask the function again; `top` also goes back to the first line, for another subject."""
        self._lines = None
        if self.is_mounted and self.size.width:
            len(self.lines)
            if top:
                self.scroll_to(y=0, animate=False, immediate=True, force=True)
        self.refresh()

    def on_mount(self) -> None:
        self.redraw()

    def on_resize(self) -> None:
        self.redraw()

    def render_line(self, y: int) -> Strip:
        """See Textual's line API."""
        width = self.size.width
        at = y + round(self.scroll_offset.y)
        lines = self.lines
        return lines[at].strip(width, self.palette) if at < len(lines) else blank(width, self.palette)

    @property
    def page(self) -> int:
        """Lines in view."""
        return max(1, self.scrollable_content_region.height)

    def _by(self, lines: int) -> None:
        self.scroll_to(y=round(self.scroll_offset.y) + lines, animate=False, immediate=True, force=True)

    def why_no_move(self, forward: bool) -> str:
        """Why nothing more is to be seen in a direction, or ""."""
        if self.max_scroll_y <= 0:
            return "all of it is on the screen"
        at = round(self.scroll_offset.y)
        return ("this is the end" if at >= self.max_scroll_y else "") if forward else "" if at else "this is the top"

    def action_up(self) -> None:
        """One line up."""
        self._by(-1)

    def action_down(self) -> None:
        """One line down."""
        self._by(1)

    def action_page_up(self) -> None:
        """A screenful up."""
        self._by(-self.page)

    def action_page_down(self) -> None:
        """A screenful down."""
        self._by(self.page)

    def action_top(self) -> None:
        """The first line."""
        self._by(-len(self.lines))

    def action_bottom(self) -> None:
        """The last line."""
        self._by(len(self.lines))

    async def on_click(self, event: events.Click) -> None:
        at = event.y + round(self.scroll_offset.y)
        if at < len(self.lines) and (do := self.lines[at].do_at(event.x)):
            event.stop()
            await self.run_action(do)
