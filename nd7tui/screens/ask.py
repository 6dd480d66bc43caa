"""Asks before what is dangerous, and names the danger.  Nothing else asks."""

from __future__ import annotations

from dataclasses import replace

from textual.app import ComposeResult
from textual.binding import Binding

from nd7core.text import safe
from nd7tui import deeds, keys, look
from nd7tui.line import Line, indented, wrap
from nd7tui.screens.page import Page
from nd7tui.widgets.bar import Bar
from nd7tui.widgets.textpane import TextPane


class Ask(Page):
    """Yes does it; every other way out does nothing."""

    NAME = "ask"
    TITLE_WORD = "are you sure?"
    BINDINGS = [*keys.bindings("ask"), Binding("Y", "yes", "yes", show=False)]
    LINE = ("back", "help")

    def __init__(self, wish: deeds.Wish, dangers: tuple[str, ...]) -> None:
        super().__init__()
        self.wish = wish
        self.dangers = dangers

    def compose(self) -> ComposeResult:
        yield Bar(self.top_line, id="top")
        yield TextPane(self._text, id="text")
        yield Bar(self.bottom_line, id="bottom")

    def on_mount(self) -> None:
        self.query_one(TextPane).focus()

    def crumbs(self) -> list[str]:
        return ["nd7", "grant", "are you sure?"]

    def _text(self, width: int) -> list[Line]:
        inner = width - 4
        found = [Line(), Line().gap(2).put(safe("This grant opens a way out of the sandbox:"), "bad"), Line()]
        found += indented(wrap(safe(look.short_path(self.wish.path, self.dash.places.home)), inner), 2, "path")
        found.append(Line())
        for danger in self.dangers:
            found += indented(wrap(safe("▸ " + danger, 600), inner), 2, "text")
        same = "The same from a shell: " + deeds.command(replace(self.wish, force=True))
        found += [Line(), *indented(wrap(safe(same), inner), 2, "dim"), Line()]
        for cap, text, do in (
            ("Y", "grant it all the same", "screen.yes"),
            ("Esc", "leave it", "screen.press('back')"),
        ):
            found.append(Line().gap(2).put(safe(cap), "key", cells=5, do=do).put(safe(text), do=do))
        return found

    def action_yes(self) -> None:
        """`Y`, a capital, so that no key that is held down or typed ahead says it."""
        self.dismiss()
        self.dash.wish(replace(self.wish, force=True))
