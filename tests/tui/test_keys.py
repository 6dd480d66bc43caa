"""Each key on each screen does something or says why not; the mouse does what the keys do; where one is is told."""

from __future__ import annotations

import pytest
import tui_rows
from textual.pilot import Pilot
from textual.widget import Widget
from textual.widgets import Input
from tui_screen import Still, picture, said
from tui_still import SCREENS, show

from nd7tui import keys
from nd7tui.screens.dashboard import Main
from nd7tui.screens.page import Page
from nd7tui.widgets.bar import Bar
from nd7tui.widgets.rowlist import RowList
from nd7tui.widgets.textpane import TextPane

# Where keys of the table are pressed, not text typed.
LEAVING = ("back", "quit", "choose")
PAGES = [name for name in SCREENS if name not in ("filter", "launch", "palette")]

# The same screen with another row selected.
ALIKE = ("dashboard-port", "dashboard-exec", "dashboard-others", "dashboard-said")


class Noting(Still):
    """What would reach the clipboard, or is left with, is noted."""

    def __init__(self) -> None:
        super().__init__()
        self.copied: list[str] = []
        self.left: list[str] = []
        self.asked: list[object] = []

    def do(self, deed: object) -> None:
        """Noted."""
        self.asked.append(deed)

    def copy_to_clipboard(self, text: str) -> None:
        """Noted."""
        self.copied.append(text)

    def leave_with(self, text: str) -> None:
        """Noted."""
        self.left.append(text)


def state(app: Noting) -> tuple[object, ...]:
    """Everything by which a person can tell that a key did something; the clipboard and deeds are noted."""
    return (app.screen, picture(app), app.theme, app.focused, len(app.copied), len(app.left), len(app.asked))


async def press(app: Noting, pilot: Pilot[None], page: Page, pressed: str) -> bool:
    """Press a key on a page, and go back to it where the key went elsewhere; whether the page is still there."""
    app.quiet()
    await pilot.pause()
    before = state(app)
    await pilot.press(pressed)
    await pilot.pause(0.02)
    shown = app.is_running and (state(app) != before or said(app))
    assert shown or app.return_code is not None, f"{page.NAME}: {pressed} does nothing and says nothing"
    while app.is_running and page in app.screen_stack and app.screen is not page:
        app.pop_screen()
        await pilot.pause()
    if app.is_running and isinstance(app.focused, Input):  # where the next key would be a letter
        await pilot.press("escape")
        await pilot.pause()
    return app.is_running and app.screen is page


@pytest.mark.parametrize("name", [name for name in PAGES if name not in ALIKE])
async def test_no_key_is_silent_on_any_screen(name: str) -> None:
    """Those that are of no use just then say why, moves at the end of a list included."""
    wanted: list[str] | None = None
    while wanted is None or wanted:
        app = Noting()
        async with app.run_test(size=(100, 30)) as pilot:
            await show(app, pilot, name)
            page = app.screen
            assert isinstance(page, Page)
            if wanted is None:
                table = sorted(keys.of(page.NAME), key=lambda key: key.id in LEAVING)
                wanted = [one for key in table for one in key.keys.split(",")]
            while wanted and await press(app, pilot, page, wanted.pop(0)):
                pass


@pytest.mark.parametrize("name", PAGES)
async def test_where_one_is_stands_above_and_the_way_out_below(name: str) -> None:
    app = Noting()
    async with app.run_test(size=(80, 24)) as pilot:
        await show(app, pilot, name)
        app.quiet()
        await pilot.pause(0.1)
        lines = picture(app).splitlines()
        assert lines[0].startswith(" nd7  ›  ")
        page = app.screen
        assert isinstance(page, Page)
        for crumb in page.crumbs():
            assert crumb in lines[0]
        assert "? help" in lines[-1] or page.NAME == "help"
        assert "Esc back" in lines[-1] or "q leave" in lines[-1]


@pytest.mark.parametrize("name", [name for name in PAGES if name != "help"])
async def test_ctrl_p_lists_every_action_of_the_screen(name: str) -> None:
    app = Noting()
    async with app.run_test(size=(100, 30)) as pilot:
        await show(app, pilot, name)
        page = app.screen
        assert isinstance(page, Page)
        commands = list(app.get_system_commands(page))
        titles = [command.title for command in commands]
        for key in keys.of(page.NAME):
            assert f"{key.word}  ({app.caps[key.id]})" in titles, key.id
        assert {"theme dark", "theme light", "theme ansi"} <= set(titles)
        for command in commands:
            if command.title.startswith("grant  ") and page.NAME == "dashboard" and page.why("grant"):
                assert "not now: " in command.help


async def test_ctrl_p_does_what_is_chosen() -> None:
    app = Noting()
    async with app.run_test(size=(100, 30)) as pilot:
        await show(app, pilot, "dashboard")
        await pilot.press("ctrl+p", *"grants")
        await pilot.pause(0.5)
        await pilot.press("enter")
        await pilot.pause(0.5)
        assert app.screen.NAME == "grants"


async def test_y_copies_and_capital_y_leaves_and_prints() -> None:
    for name, expected in {
        "dashboard": f"{tui_rows.HOME}/.cache/uv/CACHEDIR.TAG",
        "detail": f"{tui_rows.HOME}/.cache/uv/CACHEDIR.TAG",
        "grants": f"nd7 allow --session 4242 {tui_rows.HOME}/.cache/pip",
        "deeds": "nd7 allow --session 4242 /home/ada/.cache/uv",
        "history": f"{tui_rows.HOME}/.cache/uv/CACHEDIR.TAG",
        "history-targets": f"{tui_rows.HOME}/.cache/uv/CACHEDIR.TAG",
        "moment": f"{tui_rows.HOME}/.cache/uv/CACHEDIR.TAG",
    }.items():
        app = Noting()
        async with app.run_test(size=(100, 30)) as pilot:
            await show(app, pilot, name)
            await pilot.press("y")
            assert app.copied == [expected], name
            assert said(app).startswith(f"copied: {expected}") and "Y leaves and prints it" in said(app)
            await pilot.press("Y")
            assert app.left == [expected], name


async def test_a_click_on_a_row_selects_it_and_two_open_it() -> None:
    app = Noting()
    async with app.run_test(size=(120, 36)) as pilot:
        await show(app, pilot, "dashboard")
        stream = page_of(app).stream
        await pilot.click("#stream", offset=(10, 2))
        await pilot.pause()
        assert stream.key == "77aa/1" and app.focused is stream
        await pilot.click("#sessions", offset=(5, 2))
        await pilot.pause()
        assert app.store.only == "pid:5150"
        await pilot.press("escape", "home")
        await pilot.click("#stream", offset=(10, 0), times=2)
        await pilot.pause()
        assert app.screen.NAME == "moment"


def page_of(app: Noting) -> Main:
    assert isinstance(app.screen, Main)
    return app.screen


async def wheel(pilot: Pilot[None], widget: Widget, *, down: bool) -> None:
    """Turn the wheel over a widget, as the terminal reports it."""
    from textual.events import MouseScrollDown, MouseScrollUp

    kind = MouseScrollDown if down else MouseScrollUp
    region = widget.region
    await pilot._post_mouse_events([kind], widget=widget, offset=(region.width // 2, 1), button=0)
    await pilot.pause(0.2)


async def test_the_wheel_scrolls_what_it_is_over() -> None:
    app = Noting()
    async with app.run_test(size=(80, 24)) as pilot:
        await show(app, pilot, "dashboard")
        pane = page_of(app).detail
        assert pane.max_scroll_y > 0 and app.focused is not pane
        key = page_of(app).stream.key
        await wheel(pilot, pane, down=True)
        assert pane.scroll_offset.y > 0
        await wheel(pilot, pane, down=False)
        assert pane.scroll_offset.y == 0
        assert page_of(app).stream.key == key  # looking does not move the selection


async def test_a_click_on_a_key_of_the_last_line_presses_it() -> None:
    for name in ("dashboard", "detail", "grants", "profile", "history", "moment", "session", "help", "deeds"):
        app = Noting()
        async with app.run_test(size=(120, 36)) as pilot:
            await show(app, pilot, name)
            app.quiet()
            await pilot.pause()
            page, line = app.screen, picture(app).splitlines()[-1]
            word = "? help" if "? help" in line else "Esc back"
            await pilot.click(offset=(line.index(word) + 3, 35))
            await pilot.pause()
            assert app.screen is not page, name
            assert ("help" if word == "? help" else "dashboard") == app.screen.NAME


async def test_a_click_on_a_line_of_the_detail_does_what_it_says() -> None:
    app = Noting()
    async with app.run_test(size=(120, 36)) as pilot:
        await show(app, pilot, "dashboard")
        lines = picture(app).splitlines()
        y = next(at for at, line in enumerate(lines) if "choose wider or narrower" in line)
        await pilot.click(offset=(lines[y].index("choose"), y))
        await pilot.pause(0.2)
        assert app.screen.NAME == "wider"


async def test_what_is_said_is_said_whole() -> None:
    app = Noting()
    async with app.run_test(size=(80, 24)) as pilot:
        await show(app, pilot, "dashboard-said")
        text = " ".join(picture(app).split())
        assert "a program that replaces it instead of writing into it needs its folder." in text
        app.quiet()
        await pilot.pause(0.1)
        assert picture(app).splitlines()[-1].startswith(" g grant") and app.screen.query_one("#bottom").size.height == 1


async def test_every_list_and_pane_can_be_reached_by_tab() -> None:
    app = Noting()
    async with app.run_test(size=(120, 36)) as pilot:
        await show(app, pilot, "dashboard")
        seen = set()
        for _ in range(4):
            await pilot.press("tab")
            assert isinstance(app.focused, (RowList, TextPane))
            seen.add(app.focused.id)
        assert seen == {"sessions", "stream", "detail"}
        assert app.screen.query_one("#bottom", Bar).size.height == 1


async def test_capital_e_chooses_what_e_writes() -> None:
    app = Noting()
    async with app.run_test(size=(100, 30)) as pilot:
        await show(app, pilot, "history")
        told = []
        for _ in range(3):
            await pilot.press("E")
            told.append(said(app))
        assert told == ["e writes JSON now", "e writes CSV now", "e writes Markdown now"]
        await pilot.press("E", "e")
        assert said(app) == "writing JSON …" and "json" in repr(app.asked[-1])
