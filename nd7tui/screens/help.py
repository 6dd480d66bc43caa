"""The keys of the screen below this one, and whether each does something now."""

from __future__ import annotations

from textual.app import ComposeResult

from nd7core.text import SafeText, safe
from nd7tui import keys, look
from nd7tui.filters import HINT
from nd7tui.line import Line, indented, words, wrap
from nd7tui.screens.page import Page
from nd7tui.theme import Role
from nd7tui.widgets.bar import Bar
from nd7tui.widgets.textpane import TextPane

_GROUPS = ("Mend", "Look", "Go", "Move", "Around")


class Help(Page):
    """Help for one screen."""

    NAME = "help"
    TITLE_WORD = "keys"
    BINDINGS = [*keys.bindings("help")]
    LINE = ("theme", "back")

    def __init__(self, below: Page) -> None:
        super().__init__()
        self.below = below

    def compose(self) -> ComposeResult:
        yield Bar(self.top_line, id="top")
        yield TextPane(self.text, id="text")
        yield Bar(self.bottom_line, id="bottom")

    def crumbs(self) -> list[str]:
        return [*self.below.crumbs(), "keys"]

    def do_help(self) -> None:
        """`?` again leaves."""
        self.dismiss()

    def text(self, width: int) -> list[Line]:
        """All keys, by group; a key that does nothing now tells why."""
        found: list[Line] = []
        for group in _GROUPS:
            rows = [key for key in keys.of(self.below.NAME) if key.group == group and self.below.cap(key.id)]
            if not rows:
                continue
            found += [Line(), Line().gap(2).put(safe(group), "head")]
            for key in rows:
                # That the cursor is at the end needs no telling here.
                reason = self.below.why(key.id) if group != "Move" else ""
                line = Line("dim" if reason else "text").gap(2).put(safe(self.below.cap(key.id)), "key", cells=8)
                parts = wrap(safe(self.below.does(key.id)), max(width - 12, 20))
                found.append(line.put(parts[0]))
                found += indented(parts[1:], 10, "dim" if reason else "text")
                if reason:
                    found += indented(wrap(safe(f"not now: {reason}"), max(width - 12, 20)), 10, "faint")
        found += [Line(), Line().gap(2).put(safe("Marks"), "head")]
        for source in look.SOURCES:
            glyph, word, role = look.SOURCE[source]
            found.append(_mark(glyph, word, look.SOURCE_MEANS[source], role))
        for state, (glyph, word, role) in look.STATE.items():
            found.append(_mark(glyph, word, look.STATE_MEANS[state], role))
        if self.below.NAME in ("dashboard", "history"):
            found += [Line(), Line().gap(2).put(safe("Filter"), "head")]
            found += indented(wrap(safe(HINT), width - 4), 2, "text")
        where = keys.keymap_path(self.dash.places, dict(self.dash.environ))
        found += [Line(), words(("  Your own keys: ", "dim"), (where, "dim"), ('   grant = "f5"', "dim")), Line()]
        return found


def _mark(glyph: SafeText, word: SafeText, means: str, role: Role) -> Line:
    line = Line().gap(2).put(glyph, role, cells=2)
    return line.put(word, role, cells=10).put(safe(means), "dim")
