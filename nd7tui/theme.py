"""How the dashboard looks: roles instead of colours, one palette for each theme.

No role is told by colour alone: a source has its glyph and word, a state its own, the selected row a bar at its left.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Literal

from rich.style import Style

if TYPE_CHECKING:
    from textual.theme import Theme

Role = Literal[
    "text", "dim", "faint", "strong", "accent", "kernel", "nd7-exec", "model", "none", "good", "warn", "bad", "key",
    "head", "path", "code", "mark", "rule",
]  # fmt: skip


@dataclass(frozen=True)
class Palette:
    """The colours of one theme, as #rrggbb.

    `text` on `ground` has a contrast of at least 12:1, `dim` of 5:1 and `faint` of 3:1 (faint is for rules and hints
    that repeat something).
    """

    name: str
    dark: bool
    ground: str
    raised: str
    chosen: str
    chosen_away: str
    text: str
    dim: str
    faint: str
    accent: str
    red: str
    amber: str
    violet: str
    green: str

    def style(self, role: Role) -> Style:
        """The rich style of a role, without a background."""
        return _style(self, role)

    def under(self, *, selected: bool = False, focused: bool = True, raised: bool = False) -> Style:
        """The background of a line; of the selected one, paler where its pane has not the focus."""
        if selected:
            return _ground(self.chosen if focused else self.chosen_away)
        return _ground(self.raised if raised else self.ground)


@lru_cache(maxsize=256)
def _style(palette: Palette, role: Role) -> Style:
    color, bold, reverse = {
        "text": (palette.text, False, False),
        "dim": (palette.dim, False, False),
        "faint": (palette.faint, False, False),
        "strong": (palette.text, True, False),
        "accent": (palette.accent, False, False),
        "kernel": (palette.red, False, False),
        "nd7-exec": (palette.amber, False, False),
        "model": (palette.violet, False, False),
        "none": (palette.dim, False, False),
        "good": (palette.green, False, False),
        "warn": (palette.amber, False, False),
        "bad": (palette.red, True, False),
        "key": (palette.accent, True, False),
        "head": (palette.text, True, False),
        "path": (palette.text, True, False),
        "code": (palette.text, False, False),
        "mark": (palette.red, True, False),
        "rule": (palette.faint, False, False),
    }[role]
    return Style(color=color, bold=bold, reverse=reverse)


@lru_cache(maxsize=16)
def _ground(color: str) -> Style:
    return Style(bgcolor=color)


DARK = Palette(
    "nd7-dark", True,
    ground="#12151b", raised="#191d25", chosen="#2b3550", chosen_away="#222733",
    text="#dde1e8", dim="#969eac", faint="#666e7d", accent="#86a8f8",
    red="#f5808f", amber="#e2b468", violet="#c3a2f5", green="#98cf7a",
)  # fmt: skip
LIGHT = Palette(
    "nd7-light", False,
    ground="#fbfbf8", raised="#f1f1ec", chosen="#d6e1fa", chosen_away="#e8e9e6",
    text="#1f2329", dim="#5c636e", faint="#858b95", accent="#2a56c6",
    red="#b3203a", amber="#8a5300", violet="#7034b8", green="#2f6f18",
)  # fmt: skip
PALETTES = {palette.name: palette for palette in (DARK, LIGHT)}


def textual_theme(palette: Palette) -> Theme:
    """The same colours for what Textual draws itself: scroll bars, the palette, the input."""
    from textual.theme import Theme

    return Theme(
        name=palette.name,
        primary=palette.accent,
        secondary=palette.violet,
        accent=palette.accent,
        warning=palette.amber,
        error=palette.red,
        success=palette.green,
        foreground=palette.text,
        background=palette.ground,
        surface=palette.ground,
        panel=palette.raised,
        dark=palette.dark,
        variables={
            "scrollbar": palette.chosen_away,
            "scrollbar-hover": palette.chosen,
            "scrollbar-active": palette.accent,
            "scrollbar-background": palette.ground,
            "scrollbar-background-hover": palette.ground,
            "scrollbar-background-active": palette.ground,
            "scrollbar-corner-color": palette.ground,
        },
    )
