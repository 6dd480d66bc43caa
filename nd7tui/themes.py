"""Themes: those that come with nd7, a person's own from files, and changing from one to another.

A file is `themes/NAME.toml` in nd7's configuration directory.  Each of its keys is a colour of `nd7tui.theme.Palette`;
those that it leaves out are the dark or the light theme's.  What is wrong with one is said, and the dashboard goes on
without it: nobody should miss a refusal for a colour.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from textual.app import App, SystemCommand
from textual.filter import LineFilter
from textual.scrollbar import ScrollBar

from nd7core.errors import Nd7Error
from nd7core.paths import Places
from nd7core.text import safe
from nd7tui import theme
from nd7tui.keys import config_path
from nd7tui.line import NoColour, OwnColours, Thumb
from nd7tui.messages import StoreChanged
from nd7tui.theme import BUILT_IN, DARK, GROUNDS, INKS, LIGHT, PALETTES, PLAIN, Palette

if TYPE_CHECKING:
    from nd7tui.app import Dashboard

_NAME = re.compile(r"[a-z0-9][a-z0-9_-]{0,29}")
_COLOUR = re.compile(r"#[0-9a-fA-F]{6}")
# A file of a dozen lines; more is not one.
LIMIT = 64 << 10
SHORT = {palette.name.removeprefix("nd7-"): palette.name for palette in BUILT_IN}


def directory(places: Places, environ: Mapping[str, str]) -> str:
    """Where theme files are looked for."""
    return config_path(places, environ, "themes")


def _line_of(text: str, key: str) -> str:
    match = re.search(rf"(?m)^[ \t]*[\"']?{re.escape(key)}[\"']?[ \t]*=", text)
    return f", line {text.count(chr(10), 0, match.start()) + 1}" if match else ""


def parse(name: str, text: str, where: str) -> Palette:
    """The theme that a file means.

    Args:
        name: what it will be called.
        where: the file, for the errors.

    Raises:
        Nd7Error: naming the file, the line and the key that is wrong, and what would be right.
    """
    import tomllib

    def wrong(key: str, what: str, hint: str) -> Nd7Error:
        return Nd7Error(f"{where}{_line_of(text, key)}: {key}: {what}", hint=hint, exit_code=2)

    try:
        table: dict[str, Any] = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise Nd7Error(f"{where}: {error}", hint='it is TOML: accent = "#86a8f8"', exit_code=2) from error
    if _NAME.fullmatch(name) is None or name in SHORT or name.startswith("nd7-"):
        raise Nd7Error(f"{where}: a theme cannot be called {name!r}", hint="a-z, 0-9 and -, as in dusk", exit_code=2)
    dark = table.pop("dark", True)
    if not isinstance(dark, bool):
        raise wrong("dark", f"{dark!r} is neither true nor false", "dark = false for one on a light ground")
    for key, value in table.items():
        if key not in (*GROUNDS, *INKS):
            raise wrong(key, "no such colour", "there are dark, " + ", ".join((*GROUNDS, *INKS)))
        if not isinstance(value, str) or _COLOUR.fullmatch(value) is None:
            raise wrong(key, f"{value!r} is no colour", "as in #86a8f8")
    base = DARK if dark else LIGHT
    colours = {key: table.get(key, getattr(base, key)).lower() for key in (*GROUNDS, *INKS)}
    return Palette(name, dark, **colours)


def read(places: Places, environ: Mapping[str, str]) -> tuple[list[Palette], list[str]]:
    """The themes in a person's files, by name, and what is wrong with the others, one sentence each."""
    folder = directory(places, environ)
    found: list[Palette] = []
    problems: list[str] = []
    try:
        names = sorted(os.listdir(folder))
    except FileNotFoundError:
        return [], []
    except OSError as error:
        return [], [f"{folder}: {error.strerror}"]
    for file in names:
        name, dot, ending = file.rpartition(".")
        where = os.path.join(folder, file)
        if not dot or ending != "toml" or name.startswith(".") or not os.path.isfile(where):
            continue
        try:
            with Path(where).open("rb") as stream:
                text = stream.read(LIMIT).decode("utf-8")
            found.append(parse(name, text, where))
        except Nd7Error as error:
            problems.append(error.message + (f"; {error.hint}" if error.hint else ""))
        except OSError as error:
            problems.append(f"{where}: {error.strerror}")
        except UnicodeDecodeError:
            problems.append(f"{where}: not UTF-8")
    return found, problems


def chosen(wanted: str | None, places: Places, environ: Mapping[str, str]) -> str:
    """The theme's name: what was asked for; else plain under NO_COLOR; else what COLORFGBG says of the ground.

    Raises:
        Nd7Error: there is no such theme.  A file that is wrong is one: the dashboard starts without it and says so.
    """
    if environ.get("NO_COLOR"):
        return PLAIN.name
    if wanted is None:
        background = environ.get("COLORFGBG", "").rpartition(";")[2]
        wanted = "light" if background in ("7", "15") else "dark"
    if wanted in SHORT:
        return SHORT[wanted]
    found, _ = read(places, environ)
    PALETTES.update({palette.name: palette for palette in found})
    if _NAME.fullmatch(wanted) and os.path.lexists(os.path.join(directory(places, environ), wanted + ".toml")):
        return wanted
    names = [*SHORT, *(palette.name for palette in found)]
    raise Nd7Error(
        f"there is no theme {safe(wanted, 40)!r}",
        hint=f"there are {', '.join(names)}; yours go to {directory(places, environ)}/NAME.toml",
        exit_code=2,
    )


class Themed(App[None]):
    """The part of the dashboard that deals with how it looks."""

    @property
    def _own(self) -> Dashboard:
        return cast("Dashboard", self)

    def dress(self, name: str) -> None:
        """Put on a theme, before the first paint; those of a person's files are looked for only where one is named."""
        ScrollBar.renderer = Thumb
        self.no_color = bool(os.environ.get("NO_COLOR"))  # set and not empty; Textual takes an empty one as well
        for palette in PALETTES.values():
            self.register_theme(theme.textual_theme(palette))
        if name not in PALETTES:
            self._take_in()
        self.theme = PLAIN.name if self.no_color else name if name in PALETTES else DARK.name

    def more_themes(self) -> None:
        """Take in the themes of a person's files, and say what is wrong with those that are left out."""
        said = self._own.said
        problems = [str(said[0])] if said is not None and said[1] == "bad" else []
        problems += self._take_in()
        if problems:
            self._own.say(" ".join(problems), "bad")

    def _take_in(self) -> list[str]:
        found, problems = read(self._own.places, self._own.environ)
        for palette in found:
            PALETTES[palette.name] = palette
            self.register_theme(theme.textual_theme(palette))
        return problems

    @property
    def palette(self) -> Palette:
        """The one that is on."""
        return PALETTES.get(self.theme, DARK)

    def get_line_filters(self) -> Sequence[LineFilter]:
        """See `App`.  NO_COLOR means none: Textual would write greys, which are colours to a terminal."""
        if self.no_color or self.palette.kind == "plain":
            return [NoColour()]
        return [OwnColours()] if self.palette.kind == "ansi" else super().get_line_filters()

    def wear(self, name: str) -> None:
        """Change the theme."""
        self.theme = name
        self._own.say(f"theme: {name.removeprefix('nd7-')}", "dim")
        self.screen.post_message(StoreChanged())

    def turn_theme(self) -> None:
        """The next theme."""
        names = [name for name in PALETTES if name != PLAIN.name]
        at = names.index(self.theme) if self.theme in names else -1
        self.wear(names[(at + 1) % len(names)])

    def why_no_theme(self) -> str:
        """Why no other theme can be put on, or ""."""
        return "NO_COLOR is set, so there are no colours" if self.no_color else ""

    def theme_commands(self) -> Iterable[SystemCommand]:
        """For Ctrl+P: each theme by its name."""
        if self.why_no_theme():
            return
        for name in PALETTES:
            wear: Callable[[], None] = partial(self.wear, name)
            yield SystemCommand(f"theme {name.removeprefix('nd7-')}", _told(PALETTES[name]), wear)


def _told(palette: Palette) -> str:
    if palette not in BUILT_IN:
        return "your own, from a file"
    return {
        "rgb": f"for a {'dark' if palette.dark else 'light'} ground",
        "ansi": "the terminal's own sixteen colours, on its own ground",
        "plain": "no colours at all, as under NO_COLOR",
    }[palette.kind]
