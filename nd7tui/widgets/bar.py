"""Lines that stand still: titles, breadcrumbs, the key line."""

from __future__ import annotations

from collections.abc import Callable

from textual import events
from textual.geometry import Size
from textual.strip import Strip
from textual.widget import Widget

from nd7tui.line import Line, blank
from nd7tui.theme import DARK, PALETTES, Palette

# Called with the width at each drawing, so that a bar is never staler than the store.
Draw = Callable[[int], list[Line]]


class Bar(Widget):
    """Draws what a function says, line by line.  A click on a piece that names an action runs it."""

    DEFAULT_CSS = """
    Bar { height: 1; }
    Bar#bottom { height: auto; }
    """

    def __init__(self, draw: Draw, *, id: str | None = None, classes: str | None = None) -> None:
        super().__init__(id=id, classes=classes)
        self._draw = draw
        self._lines: list[Line] | None = None
        self._high = 1

    @property
    def palette(self) -> Palette:
        """The palette of the theme in force."""
        return PALETTES.get(self.app.theme, DARK)

    def redraw(self) -> None:
        """Ask the function again."""
        self._lines = None
        width = self.size.width
        grows = self.styles.is_auto_height and self.is_mounted and width > 0
        self.refresh(layout=grows and len(self._draw(width)) != self._high)

    def get_content_height(self, container: Size, viewport: Size, width: int) -> int:
        """See `Widget`: for a bar whose height is that of what it says."""
        self._high = max(1, len(self._draw(width)))
        return self._high

    def notify_style_update(self) -> None:
        super().notify_style_update()
        self._lines = None

    def on_resize(self) -> None:
        self.redraw()

    def lines(self) -> list[Line]:
        """The lines as they are drawn now."""
        if self._lines is None:
            self._lines = self._draw(self.size.width)
        return self._lines

    def render_line(self, y: int) -> Strip:
        """See Textual's line API."""
        lines = self.lines()
        width = self.size.width
        raised = self.id == "bottom"
        return lines[y].strip(width, self.palette, raised=raised) if y < len(lines) else blank(width, self.palette)

    async def on_click(self, event: events.Click) -> None:
        lines = self.lines()
        if event.y < len(lines) and (do := lines[event.y].do_at(event.x)):
            event.stop()
            await self.run_action(do)
