"""Themes: the terminal's own colours, none at all, a person's own from files, and what is said of a bad file."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import tui_rows
from tui_pty import Sleeper, Story, Tty, dashboard
from tui_screen import HERE, Still, picture, said, until

from nd7core.errors import Nd7Error
from nd7core.paths import Places
from nd7tui import theme, themes
from nd7tui.app import Dashboard
from nd7tui.screens.dashboard import Main

SGR = re.compile(rb"\x1b\[([0-9;:]*)m")
# Attributes that are no colour: off, bold, dim, italic, underline, blink, reverse, and each switched off.
ATTRIBUTES = {"", "0", "1", "2", "3", "4", "5", "7", "22", "23", "24", "25", "27"}
DUSK = 'dark = true\nground = "#1b1a26"\naccent = "#C8B6FF"\n'


@pytest.fixture(autouse=True)
def no_leftovers() -> Iterator[None]:
    """The table of themes as it was."""
    before = dict(theme.PALETTES)
    yield
    theme.PALETTES.clear()
    theme.PALETTES.update(before)


@pytest.fixture
def owner() -> Iterator[Sleeper]:
    made = Sleeper()
    yield made
    made.end()


def put(places: Places, **files: str) -> str:
    """Theme files; the folder."""
    folder = Path(themes.directory(places, {}))
    folder.mkdir(parents=True, exist_ok=True)
    for name, text in files.items():
        (folder / f"{name}.toml").write_text(text, "utf-8")
    return str(folder)


def parameters(data: bytes) -> set[str]:
    """Every parameter of every SGR sequence in what a terminal was sent."""
    found: set[str] = set()
    for match in SGR.finditer(data):
        found.update(match[1].decode().replace(":", ";").split(";"))
    return found


def every_screen(tty: Tty) -> None:
    """Walk through the screens."""
    tty.wait_for("CACHEDIR.TAG")
    tty.read(1.0, 0.4)
    for keys in (
        ("home", "enter", "escape", "G", "escape", "a", "escape", "p", "escape"),
        ("?", "escape", "n", "x", "escape", "l", "escape", "h", "x", "escape", "escape", "escape"),
        ("/", "x", "escape", "ctrl+p", "g", "escape", "Z", "y", "tab", "down", "escape"),
    ):
        tty.press(*keys)
    assert tty.child.poll() is None


def story(places: Places, owner: Sleeper) -> None:
    """One session with a refusal."""
    os.makedirs(places.state, 0o700, exist_ok=True)
    told = Story(places, "3f0c", f"{places.home}/src/api", owner.pid, name="api")
    told.start()
    told.denied_write(f"{places.home}/.cache/uv/CACHEDIR.TAG")


def test_no_color_sends_no_colour_of_any_kind(here: Places, owner: Sleeper) -> None:
    """Not even grey: a terminal's user who sets it wants the two colours that the terminal has."""
    story(here, owner)
    tty = dashboard(here, env={"NO_COLOR": "1"})
    try:
        every_screen(tty)
        sent = bytes(tty.bytes)
        assert parameters(sent) <= ATTRIBUTES, parameters(sent) - ATTRIBUTES
        assert "1" in parameters(sent) and "7" in parameters(sent)  # what is bold and chosen still shows
        for word in ("▲ kernel", "□ open", "▌"):  # and each meaning is a glyph and a word
            assert word.encode() in re.sub(rb"\x1b\[[0-9;]*m", b"", sent), word
    finally:
        tty.close()


def test_that_test_would_see_a_colour(here: Places, owner: Sleeper) -> None:
    story(here, owner)
    tty = dashboard(here)
    try:
        tty.wait_for("CACHEDIR.TAG")
        assert "38" in parameters(bytes(tty.bytes)) and "48" in parameters(bytes(tty.bytes))
    finally:
        tty.close()


def test_the_terminals_own_colours_and_its_own_ground(here: Places, owner: Sleeper) -> None:
    story(here, owner)
    tty = dashboard(here, "--theme=nd7-ansi")
    try:
        every_screen(tty)
        sent = parameters(bytes(tty.bytes))
    finally:
        tty.close()
    sixteen = {str(n) for n in (*range(30, 38), 39, *range(90, 98))}
    assert sent <= ATTRIBUTES | sixteen | {"49"}, sent  # no colour of its own, and no ground but the terminal's
    assert {"31", "36", "33"} <= sent


@pytest.mark.parametrize("palette", theme.BUILT_IN, ids=lambda palette: palette.name)
def test_each_role_has_a_style_in_each_theme(palette: theme.Palette) -> None:
    for role in theme.Role.__args__:
        style = palette.style(role)
        assert (style.color is None) is (palette.kind == "plain")
        assert (palette.under(selected=True) + style).reverse is not True or palette.kind != "rgb"


async def test_a_theme_from_a_file(here: Places) -> None:
    put(here, dusk=DUSK)
    app = Dashboard(here, environ={}, follow=False, theme_name="dusk")
    async with app.run_test(size=(100, 30)) as pilot:
        await until(pilot, lambda: isinstance(app.screen, Main))
        await pilot.pause()
        assert app.theme == "dusk"
        shown = {
            color.triplet.hex
            for strip in app.screen._compositor.render_strips()
            for segment in strip
            for color in ((segment.style.color, segment.style.bgcolor) if segment.style else ())
            if color is not None and color.triplet is not None
        }
        assert "#1b1a26" in shown and "#c8b6ff" in shown
        assert theme.PALETTES["dusk"].text == theme.DARK.text  # what it leaves out is the dark theme's
        assert not {theme.DARK.ground, theme.DARK.accent} & shown


async def test_t_goes_round_through_all_and_the_palette_names_each(here: Places) -> None:
    put(here, dusk=DUSK)
    app = Dashboard(here, environ={}, follow=False)
    async with app.run_test(size=(100, 30)) as pilot:
        await until(pilot, lambda: "dusk" in theme.PALETTES and isinstance(app.screen, Main))
        seen = [app.theme]
        for _ in range(4):
            await pilot.press("t")
            await pilot.pause()
            seen.append(app.theme)
        assert seen == ["nd7-dark", "nd7-light", "nd7-ansi", "dusk", "nd7-dark"]
        assert said(app) == "theme: dark"
        await pilot.press("ctrl+p", *"theme ansi")
        await pilot.pause(0.5)
        await pilot.press("enter")
        await until(pilot, lambda: app.theme == "nd7-ansi")
        assert {"theme dusk", "theme light", "theme plain"} <= {one.title for one in app.theme_commands()}


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ('dark = true\naccent = "blue"\n', ("bad.toml, line 2: accent: 'blue' is no colour", "as in #86a8f8")),
        ('accnt = "#000000"\n', ("bad.toml, line 1: accnt: no such colour", "accent, red")),
        ("dark = 3\n", ("bad.toml, line 1: dark: 3 is neither true nor false",)),
        ("accent = \n", ("bad.toml: ", "line 1", "TOML")),
        ("x" * 40_000 + " = 1\n", ("bad.toml, line 1:", "no such colour")),
        ("[colours]\naccent = 1\n", ("bad.toml", "colours: no such colour")),
        ("accent = ['#000000']\n", ("is no colour",)),
    ],
)
async def test_what_is_wrong_with_a_file_is_said_and_the_default_goes_on(
    here: Places, text: str, says: tuple[str, ...]
) -> None:
    put(here, bad=text, dusk=DUSK)
    found, problems = themes.read(here, {})
    assert [palette.name for palette in found] == ["dusk"] and len(problems) == 1
    for word in says:
        assert word in problems[0], problems
    assert themes.chosen("bad", here, {}) == "bad"
    app = Dashboard(here, environ={}, follow=False, theme_name="bad")
    async with app.run_test(size=(100, 30)) as pilot:
        await until(pilot, lambda: isinstance(app.screen, Main) and said(app))
        assert app.theme == "nd7-dark" and "bad.toml" in said(app)
        assert "nd7" in picture(app)


def test_what_is_no_theme_file_is_passed_over(here: Places) -> None:
    folder = put(here, dusk=DUSK, **{"nd7-dark": DUSK, "Big Name": DUSK})
    os.mkfifo(f"{folder}/pipe.toml")  # reading it would wait for ever
    os.mkdir(f"{folder}/folder.toml")
    Path(f"{folder}/latin.toml").write_bytes(b'accent = "\xe9"\n')
    Path(f"{folder}/notes.txt").write_text("x")
    found, problems = themes.read(here, {})
    assert [palette.name for palette in found] == ["dusk"]
    assert len(problems) == 3 and any("not UTF-8" in one for one in problems)
    assert sum("cannot be called" in one for one in problems) == 2


def test_which_theme(here: Places) -> None:
    put(here, dusk=DUSK)
    assert themes.chosen(None, here, {}) == "nd7-dark"
    assert themes.chosen(None, here, {"COLORFGBG": "0;15"}) == "nd7-light"
    assert themes.chosen("ansi", here, {"COLORFGBG": "0;15"}) == "nd7-ansi"
    assert themes.chosen("dusk", here, {}) == "dusk"
    assert themes.chosen("light", here, {"NO_COLOR": "1"}) == "nd7-plain"
    assert themes.chosen(None, here, {"NO_COLOR": ""}) == "nd7-dark"
    with pytest.raises(Nd7Error) as error:
        themes.chosen("../../etc/passwd", here, {})
    assert "there is no theme" in error.value.message and "dark, light, ansi, plain, dusk" in error.value.hint


def test_a_theme_that_is_not_there_is_named_on_the_command_line(here: Places) -> None:
    with Tty([sys.executable, "-P", "-m", "nd7tui.cli", "tui", "--theme", "x\x1b[31m"], (80, 24)) as tty:
        tty.wait_for("there is no theme")
        assert b"\x1b[31m" not in tty.bytes and b"there are dark, light, ansi, plain" in tty.bytes
        assert tty.child.wait(10) == 2


async def test_under_no_color_t_says_why_it_does_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NO_COLOR", "1")
    app = Still()
    async with app.run_test(size=(100, 30)) as pilot:
        app.store.take(tui_rows.batch(), tui_rows.NOW)
        await pilot.press("t")
        assert "NO_COLOR is set" in said(app) and app.theme == "nd7-plain"
        assert list(app.theme_commands()) == []


def test_the_help_says_how() -> None:
    done = subprocess.run(
        [sys.executable, "-P", "-m", "nd7tui.cli", "tui", "--help"], capture_output=True, text=True, check=True
    )
    assert "themes/NAME.toml" in done.stdout and "--theme ansi" in done.stdout and "NO_COLOR" in done.stdout


def test_places_are_a_tests_own() -> None:
    assert HERE.home == tui_rows.HOME
