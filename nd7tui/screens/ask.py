"""Asks before what is dangerous, and names the danger.  Nothing else asks."""

from __future__ import annotations

from collections.abc import Callable

from textual.app import ComposeResult
from textual.binding import Binding

from nd7core.text import safe
from nd7tui import keys
from nd7tui.line import Line, indented, wrap
from nd7tui.screens.page import Page
from nd7tui.widgets.bar import Bar
from nd7tui.widgets.textpane import TextPane


class Ask(Page):
    """Yes does it; every other way out does nothing.

    Args:
        head: what is asked, one sentence.
        subject: what it is about: a path, a session.
        dangers: what speaks against it, one phrase each.
        same: the command line that does the same.
        yes: what `Y` says.
        then: does it.
    """

    NAME = "ask"
    TITLE_WORD = "are you sure?"
    BINDINGS = [*keys.bindings("ask"), Binding("Y", "yes", "yes", show=False)]
    LINE = ("back", "help")

    def __init__(
        self, head: str, subject: str, dangers: tuple[str, ...], same: str, yes: str, then: Callable[[], object]
    ) -> None:
        super().__init__()
        self.head, self.subject, self.dangers, self.same, self.yes = head, subject, dangers, same, yes
        self._then = then

    def compose(self) -> ComposeResult:
        yield Bar(self.top_line, id="top")
        yield TextPane(self._text, id="text")
        yield Bar(self.bottom_line, id="bottom")

    def on_mount(self) -> None:
        self.query_one(TextPane).focus()

    def _text(self, width: int) -> list[Line]:
        inner = width - 4
        found = [Line(), *indented(wrap(safe(self.head), inner), 2, "bad"), Line()]
        found += indented(wrap(safe(self.subject), inner), 2, "path")
        found.append(Line())
        for danger in self.dangers:
            found += indented(wrap(safe("▸ " + danger, 600), inner), 2, "text")
        found += [Line(), *indented(wrap(safe("The same from a shell: " + self.same), inner), 2, "dim"), Line()]
        for cap, text, do in (("Y", self.yes, "screen.yes"), ("Esc", "leave it", "screen.press('back')")):
            found.append(Line().gap(2).put(safe(cap), "key", cells=5, do=do).put(safe(text), do=do))
        return found

    def action_yes(self) -> None:
        """`Y`, a capital, so that no key that is held down or typed ahead says it."""
        self.dismiss()
        self._then()
