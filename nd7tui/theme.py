"""How the dashboard looks: roles instead of colours, one palette for each theme.

No role is told by colour alone: a source has its glyph and word, a state its own, the selected row a bar at its left.
So a palette may do without any: `plain`, which is what NO_COLOR gets, has bold, dim and reverse only.
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


# The colours that a palette names, and so the keys of a theme's file.
INKS = ("text", "dim", "faint", "accent", "red", "amber", "violet", "green")
GROUNDS = ("ground", "raised", "chosen", "chosen_away")
# "rgb" has colours of its own, "ansi" the terminal's sixteen on its own ground, "plain" none.
Kind = Literal["rgb", "ansi", "plain"]


@dataclass(frozen=True)
class Palette:
    """The colours of one theme: #rrggbb, or of "ansi" the names of the terminal's own.

    In the two that come with nd7 `text` on `ground` has a contrast of at least 12:1, `dim` of 5:1 and `faint` of 3:1
    (faint is for rules and hints that repeat something).
    """

    name: str
    dark: bool
    ground: str = "default"
    raised: str = "default"
    chosen: str = "default"
    chosen_away: str = "default"
    text: str = "default"
    dim: str = "default"
    faint: str = "default"
    accent: str = "default"
    red: str = "default"
    amber: str = "default"
    violet: str = "default"
    green: str = "default"
    kind: Kind = "rgb"

    def style(self, role: Role) -> Style:
        """The rich style of a role, without a background."""
        return _style(self, role)

    def under(self, *, selected: bool = False, focused: bool = True, raised: bool = False) -> Style:
        """The background of a line; of the selected one, paler where its pane has not the focus.

        Without colours of its own a palette turns the selected line round, and its inks with it.
        """
        if self.kind != "rgb":
            return _TURNED if selected and focused else _PLAIN if self.kind == "plain" else _AS_IT_IS
        if selected:
            return _ground(self.chosen if focused else self.chosen_away)
        return _ground(self.raised if raised else self.ground)


_BOLD: frozenset[Role] = frozenset(("strong", "bad", "key", "head", "path", "mark"))
_INK: dict[Role, str] = {
    "accent": "accent", "key": "accent", "kernel": "red", "bad": "red", "mark": "red", "nd7-exec": "amber",
    "warn": "amber", "model": "violet", "good": "green", "dim": "dim", "none": "dim", "faint": "faint", "rule": "faint",
}  # fmt: skip
_TURNED = Style(color="default", bgcolor="default", reverse=True, dim=False)
_AS_IT_IS = Style(bgcolor="default")
_PLAIN = Style()


@lru_cache(maxsize=256)
def _style(palette: Palette, role: Role) -> Style:
    ink, bold = _INK.get(role, "text"), role in _BOLD
    if palette.kind == "rgb":
        return Style(color=vars(palette)[ink], bold=bold)
    # Sixteen colours hold no shades of grey that show on every ground, so what is dim is so by its attribute.
    quiet = ink in ("dim", "faint")
    return Style(color=None if palette.kind == "plain" else vars(palette)[ink], bold=bold, dim=quiet)


@lru_cache(maxsize=64)
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
ANSI = Palette(
    "nd7-ansi", True, accent="cyan", red="red", amber="yellow", violet="magenta", green="green", kind="ansi",
)  # fmt: skip
PLAIN = Palette("nd7-plain", True, kind="plain")
BUILT_IN = (DARK, LIGHT, ANSI, PLAIN)
# All that are known, by name; `nd7tui.themes` adds those from files.
PALETTES = {palette.name: palette for palette in BUILT_IN}


# What Textual draws by itself, brought into line: it has blacks and greens of its own in its palette, and a cursor of
# black on white, which a terminal with a white ground does not show, and an emoji that few fonts have.
CSS = """
Screen { background: $background; color: $foreground; }
Bar#bottom { background: $panel; }
Input:ansi > .input--cursor { background: ansi_default; color: ansi_default; text-style: reverse; }
SearchIcon { display: none; }
CommandPalette #--input { border: hkey $primary; }
CommandList { border-bottom: hkey $primary; }
CommandList:ansi > .option-list--option-highlighted {
    color: ansi_default; background: ansi_default; text-style: reverse;
}
"""


def textual_theme(palette: Palette) -> Theme:
    """The same colours for what Textual draws itself: scroll bars, the palette, the input."""
    from textual.theme import Theme

    if palette.kind != "rgb":
        return _own_colours(palette)
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
            "scrollbar": palette.faint,
            "scrollbar-hover": palette.dim,
            "scrollbar-active": palette.accent,
            "scrollbar-background": palette.ground,
            "scrollbar-background-hover": palette.ground,
            "scrollbar-background-active": palette.ground,
            "scrollbar-corner-color": palette.ground,
        },
    )


def _own_colours(palette: Palette) -> Theme:
    """A theme of the terminal's own colours on its own ground."""
    from textual.theme import BUILTIN_THEMES, Theme

    turned = {"foreground": "ansi_default", "background": "ansi_default", "text-style": "reverse"}
    return Theme(
        name=palette.name,
        primary="ansi_cyan",
        secondary="ansi_magenta",
        accent="ansi_cyan",
        warning="ansi_yellow",
        error="ansi_red",
        success="ansi_green",
        foreground="ansi_default",
        background="ansi_default",
        surface="ansi_default",
        panel="ansi_default",
        boost="ansi_default",
        dark=palette.dark,
        ansi=True,
        variables={
            **BUILTIN_THEMES["ansi-dark"].variables,
            **{f"block-cursor-{part}": value for part, value in turned.items()},
            **{f"input-cursor-{part}": value for part, value in turned.items()},
            "scrollbar": "ansi_cyan",
            "scrollbar-hover": "ansi_cyan",
            "scrollbar-active": "ansi_cyan",
            "scrollbar-background": "ansi_default",
            "scrollbar-background-hover": "ansi_default",
            "scrollbar-background-active": "ansi_default",
            "scrollbar-corner-color": "ansi_default",
        },
    )
