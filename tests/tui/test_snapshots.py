"""Every screen as characters, at 80x24 and 120x40; every colour of each theme one of its palette's; NO_COLOR grey.

The pictures are text, so that a change to one can be read in a diff.  ND7_UPDATE_SNAPSHOTS=1 writes them anew; read
the diff before you keep it.
"""

from __future__ import annotations

import os
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest
import tui_rows
from textual.pilot import Pilot
from tui_screen import HERE, Still, picture

from nd7core.paths import Places
from nd7core.survey import Survey
from nd7tui import theme
from nd7tui.app import Dashboard
from nd7tui.ladder import Rung
from nd7tui.model import Batch, Deed
from nd7tui.screens.ask import Ask
from nd7tui.screens.launch import Launch
from nd7tui.screens.wider import Wider

SNAPSHOTS = Path(__file__).with_name("snapshots")


class StillWider(Wider):
    """The ladder without a file system below it."""

    def _climb(self) -> None:
        home = tui_rows.HOME
        self.ladder = [
            Rung(f"{home}/.cache/uv/CACHEDIR.TAG", "not there yet"),
            Rung(f"{home}/.cache/uv", "tool cache"),
            Rung(f"{home}/.cache", "folder", dangers=("programs on the PATH: ~/.cache/bin",)),
        ]
        self.surveys = {
            f"{home}/.cache/uv": Survey(1204, 96, True, (f"{home}/.cache/uv/token.json",), (), True),
            f"{home}/.cache": Survey(20_000, 0, False, (), (), True),
        }
        self.app.call_from_thread(self._made)

    def _made(self) -> None:
        rows = self.query_one("#ladder")
        rows.reload()
        rows.select(f"{tui_rows.HOME}/.cache/uv")
        self._refresh()

    def _count(self, path: str) -> None:
        """Counted already."""


class StillLaunch(Launch):
    """The form, in a folder that is the same everywhere."""

    def _default(self, name: str) -> str:
        return f"{tui_rows.HOME}/src/api-server" if name == "project" else super()._default(name)


Steps = Callable[[Still, "Pilot[None]"], Awaitable[None]]


def keys(*pressed: str) -> Steps:
    async def steps(app: Still, pilot: Pilot[None]) -> None:
        await pilot.press(*pressed)

    return steps


async def wider(app: Still, pilot: Pilot[None]) -> None:
    await app.push_screen(StillWider(tui_rows.rows()[0]))
    await pilot.pause(0.2)


async def ask(app: Still, pilot: Pilot[None]) -> None:
    dangers = ("a shell start file: ~/.bashrc",)
    same = "nd7 allow --session 4242 --force /home/ada/.bashrc"
    await app.push_screen(
        Ask(
            "This grant opens a way out of the sandbox:",
            "~/.bashrc",
            dangers,
            same,
            "grant it all the same",
            lambda: None,
        )
    )


async def launch(app: Still, pilot: Pilot[None]) -> None:
    await app.push_screen(StillLaunch())


async def deeds(app: Still, pilot: Pilot[None]) -> None:
    app.store.did(Deed(tui_rows.NOW, "grant", "nd7 allow --session 4242 /home/ada/.cache/uv", "granted"))
    await pilot.press("l")


async def empty(app: Still, pilot: Pilot[None]) -> None:
    app.store.take(Batch(sessions=()), tui_rows.NOW)
    app.store.rows.clear()
    app.store.refilter()
    app.changed()


SCREENS: dict[str, Steps] = {
    "dashboard": keys("home"),
    "dashboard-port": keys("home", "down", "down"),
    "dashboard-words": keys("end"),
    "dashboard-others": keys("4"),
    "one-session": keys("shift+tab", "down", "down"),
    "filter": keys("slash", *"state:open op:write"),
    "moment": keys("home", "enter"),
    "help": keys("question_mark"),
    "grants": keys("a"),
    "deeds": deeds,
    "wider": wider,
    "ask": ask,
    "launch": launch,
    "empty": empty,
}


@pytest.mark.parametrize("size", [(80, 24), (120, 40)], ids=["80x24", "120x40"])
@pytest.mark.parametrize("name", SCREENS)
async def test_as_it_was(name: str, size: tuple[int, int]) -> None:
    app = Still()
    async with app.run_test(size=size) as pilot:
        app.store.take(tui_rows.batch(), tui_rows.NOW)
        app.changed()
        await pilot.pause()
        await SCREENS[name](app, pilot)
        await pilot.pause(0.1)
        now = "".join(line.rstrip() + "\n" for line in picture(app).splitlines())
    assert not app.leaks
    path = SNAPSHOTS / f"{name}-{size[0]}x{size[1]}.txt"
    if os.environ.get("ND7_UPDATE_SNAPSHOTS") == "1":
        SNAPSHOTS.mkdir(exist_ok=True)
        path.write_text(now, "utf-8")
    assert path.exists(), f"{path.name} is missing: ND7_UPDATE_SNAPSHOTS=1 writes it"
    assert now == path.read_text("utf-8")


def colors(app: Dashboard) -> set[str]:
    """Every colour on the screen."""
    found = set()
    for strip in app.screen._compositor.render_strips():
        for segment in strip:
            style = segment.style
            for color in (style.color, style.bgcolor) if style else ():
                if color is not None and color.triplet is not None:
                    found.add(color.triplet.hex)
    return found


@pytest.mark.parametrize("name", [name for name in SCREENS if name not in ("filter", "launch")])
@pytest.mark.parametrize("palette", (theme.DARK, theme.LIGHT), ids=lambda palette: palette.name)
async def test_no_colour_but_the_palettes(name: str, palette: theme.Palette) -> None:
    app = Still(palette.name)
    async with app.run_test(size=(120, 40)) as pilot:
        app.store.take(tui_rows.batch(), tui_rows.NOW)
        app.changed()
        await pilot.pause()
        await SCREENS[name](app, pilot)
        await pilot.pause(0.1)
        shown = colors(app)
    known = {value for value in vars(palette).values() if isinstance(value, str) and value.startswith("#")}
    assert shown <= known, shown - known


async def test_no_color_says_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    pictures = []
    for no_color in (False, True):
        if no_color:
            monkeypatch.setenv("NO_COLOR", "1")
        app = Still()
        async with app.run_test(size=(120, 40)) as pilot:
            app.store.take(tui_rows.batch(), tui_rows.NOW)
            app.changed()
            await pilot.press("home")
            await pilot.pause()
            pictures.append(picture(app))
    assert pictures[0] == pictures[1]


def test_places_are_not_the_runners(here: Places) -> None:
    assert HERE.home == tui_rows.HOME != os.path.expanduser("~")
