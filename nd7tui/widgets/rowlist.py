"""A list that draws only what is in view: a million rows mount in a few milliseconds.

DataTable and OptionList hold and measure every row (28 s and 17 s for 100,000); this asks a `Source` for the thirty
that are on the screen.  The cursor is a row's key and not its number, so rows that arrive never move the selection.
"""

from __future__ import annotations

from typing import Protocol

from textual import events
from textual.geometry import Size
from textual.scroll_view import ScrollView
from textual.strip import Strip

from nd7core.text import SafeText
from nd7tui.line import Line, blank
from nd7tui.messages import Opened, Paused, Picked
from nd7tui.theme import DARK, PALETTES, Palette

_BAR, _THIN, _NONE = SafeText("▌"), SafeText("│"), SafeText(" ")


class Source(Protocol):
    """What a list shows.  All of it answers at once, from memory."""

    def __len__(self) -> int: ...

    def key(self, place: int) -> str:
        """The key of the row at a place."""
        ...

    def place(self, key: str) -> int | None:
        """Where a row is, or None."""
        ...

    def line(self, place: int, width: int) -> Line:
        """The row as a line of `width` cells."""
        ...

    def empty(self, width: int) -> list[Line]:
        """What to show where there is no row: why, and the next step."""
        ...


class RowList(ScrollView, can_focus=True, inherit_bindings=False):
    """A list over a `Source` with a cursor.

    Attributes:
        cursor: the place of the cursor.
        following: whether the cursor stays on the last row as rows arrive.
    """

    DEFAULT_CSS = """
    RowList { height: 1fr; overflow-x: hidden; overflow-y: auto; scrollbar-size-vertical: 1; }
    """

    def __init__(self, source: Source, *, id: str, follow: bool = False) -> None:
        super().__init__(id=id)
        self.source = source
        self.cursor = 0
        self.can_follow = follow
        self.following = follow
        self._key = ""

    @property
    def palette(self) -> Palette:
        """The palette of the theme in force."""
        return PALETTES.get(self.app.theme, DARK)

    @property
    def key(self) -> str:
        """The key of the row under the cursor, or ""."""
        return self._key

    def on_mount(self) -> None:
        self.reload()

    def on_resize(self) -> None:
        self.virtual_size = Size(self.scrollable_content_region.width, len(self.source))
        self._show_cursor()

    def reload(self) -> None:
        """Look at the source again: its rows have changed."""
        count = len(self.source)
        self.virtual_size = Size(self.scrollable_content_region.width, count)
        if not count:
            self.cursor = 0
            self._set_key("")
        elif self.following:
            self.cursor = count - 1
            self._set_key(self.source.key(self.cursor))
        else:
            place = self.source.place(self._key) if self._key else None
            self.cursor = place if place is not None else min(self.cursor, count - 1)
            self._set_key(self.source.key(self.cursor))
        self._show_cursor()
        self.refresh()

    def _set_key(self, key: str) -> None:
        if key != self._key:
            self._key = key
            self.post_message(Picked(self.id or "", key))

    def select(self, key: str) -> bool:
        """Put the cursor on the row with this key, if there is one."""
        place = self.source.place(key)
        if place is None:
            return False
        self.move(place)
        return True

    def follow(self, on: bool) -> None:
        """Stay on the newest row, or stop doing so."""
        if self.can_follow and on != self.following:
            self.following = on
            self.post_message(Paused(self.id or "", on))
            if on:
                self.reload()

    def move(self, place: int) -> None:
        """Put the cursor at a place.  Leaving the last row stops following; reaching it by a move resumes it."""
        count = len(self.source)
        if not count:
            return
        self.cursor = max(0, min(place, count - 1))
        if self.can_follow:
            self.follow(self.cursor == count - 1)
        self._set_key(self.source.key(self.cursor))
        self._show_cursor()
        self.refresh()

    def _show_cursor(self) -> None:
        height = self.scrollable_content_region.height
        top = round(self.scroll_offset.y)
        if height <= 0:
            return
        if self.cursor < top:
            self._scroll_now(self.cursor)
        elif self.cursor >= top + height:
            self._scroll_now(self.cursor - height + 1)

    def _scroll_now(self, y: int) -> None:
        self.scroll_to(y=y, animate=False, immediate=True, force=True)

    @property
    def page(self) -> int:
        """Rows in view."""
        return max(1, self.scrollable_content_region.height)

    def render_line(self, y: int) -> Strip:
        """See Textual's line API."""
        width = self.size.width
        count = len(self.source)
        if not count:
            lines = self.source.empty(width)
            return lines[y].strip(width, self.palette) if y < len(lines) else blank(width, self.palette)
        place = y + round(self.scroll_offset.y)
        if place >= count:
            return blank(width, self.palette)
        selected = place == self.cursor
        bar = Line("accent").put(_BAR if selected and self.has_focus else _THIN if selected else _NONE)
        line = bar.join(self.source.line(place, width - 1))
        return line.strip(width, self.palette, selected=selected, focused=self.has_focus)

    def why_no_move(self, forward: bool) -> str:
        """Why the cursor cannot go on in a direction, or ""."""
        count = len(self.source)
        if not count:
            return "there are no rows"
        if forward:
            return "this is the last row" if self.cursor == count - 1 and self.following >= self.can_follow else ""
        return "" if self.cursor else "this is the first row"

    # -- keys and mouse -------------------------------------------------------------------------------------------

    def action_up(self) -> None:
        """One row up."""
        self.move(self.cursor - 1)

    def action_down(self) -> None:
        """One row down."""
        self.move(self.cursor + 1)

    def action_page_up(self) -> None:
        """A screenful up."""
        self.move(self.cursor - self.page)

    def action_page_down(self) -> None:
        """A screenful down."""
        self.move(self.cursor + self.page)

    def action_top(self) -> None:
        """The first row."""
        self.move(0)

    def action_bottom(self) -> None:
        """The last row."""
        self.move(len(self.source) - 1)

    def action_open(self) -> None:
        """Enter."""
        if self._key:
            self.post_message(Opened(self.id or "", self._key))

    def on_click(self, event: events.Click) -> None:
        event.stop()
        self.focus()
        place = event.y + round(self.scroll_offset.y)
        if place < len(self.source):
            again = place == self.cursor
            self.move(place)
            if again and event.chain >= 2:
                self.action_open()

    def on_focus(self) -> None:
        self.refresh()

    def on_blur(self) -> None:
        self.refresh()
