"""The filter's input, with its syntax and what it finds shown while typing."""

from __future__ import annotations

from collections.abc import Callable

from textual import events
from textual.app import ComposeResult
from textual.containers import Vertical
from textual.widgets import Input

from nd7core.text import safe
from nd7tui.filters import HINT, Filter, FilterError, parse
from nd7tui.line import Line, indented, wrap
from nd7tui.widgets.bar import Bar


class FilterBar(Vertical):
    """Typed into, it filters at once; Enter keeps the filter, Esc takes back what it was before."""

    DEFAULT_CSS = """
    FilterBar { height: auto; display: none; }
    FilterBar #hint { height: auto; }
    FilterBar.-open { display: block; }
    FilterBar Input { height: 1; border: none; padding: 0 1; background: $panel; }
    FilterBar Input:focus { border: none; }
    """

    def __init__(self, apply: Callable[[Filter], str], close: Callable[[], None]) -> None:
        """
        Args:
            apply: takes the filter into force and says what it finds, in a few words.
            close: gives the focus back.
        """
        super().__init__(id="filterbar")
        self._apply = apply
        self._close = close
        self._before = Filter()
        self._found = ""
        self._wrong = ""

    def compose(self) -> ComposeResult:
        box = Input(placeholder="filter", id="filter")
        box.cursor_blink = False
        yield box
        yield Bar(self._hint, id="hint")

    def open(self, now: Filter) -> None:
        """Show the input, with the filter that is in force."""
        self._before = now
        self.add_class("-open")
        box = self.query_one(Input)
        box.value = now.text
        box.focus()
        self._try(now.text)

    @property
    def is_open(self) -> bool:
        """Whether it is shown."""
        return self.has_class("-open")

    def shut(self) -> None:
        """Hide the input."""
        self.remove_class("-open")
        self._close()

    def _hint(self, width: int) -> list[Line]:
        if self._wrong:
            return indented(wrap(safe(self._wrong), width - 2), 1, "warn")
        found = Line("text").gap().put(safe(self._found)).gap(3)
        at = found.cells  # before the first piece is put behind it
        first, *more = wrap(safe(HINT), width - at - 1)
        return [found.put(first, "dim"), *indented(more, at, "dim")]

    def _try(self, text: str) -> None:
        try:
            found = parse(text)
        except FilterError as error:
            self._wrong = str(error)
        else:
            self._wrong = ""
            self._found = self._apply(found)
        self.query_one(Bar).redraw()

    def on_input_changed(self, event: Input.Changed) -> None:
        event.stop()
        if self.is_open:
            self._try(event.value)

    def on_input_submitted(self, event: Input.Submitted) -> None:
        event.stop()
        if not self._wrong:
            self.shut()

    def on_key(self, event: events.Key) -> None:
        if event.key == "escape":
            event.stop()
            event.prevent_default()
            self._apply(self._before)
            self.shut()
