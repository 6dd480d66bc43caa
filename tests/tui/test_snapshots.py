"""Every screen, at 80x24 and 120x40, in the dark theme, the light one and under NO_COLOR: its text and its looks.

The pictures lie in `snapshots`, one a screen, a size and an appearance; `tests/support/tui_look.py` tells how to read
one.  To write them anew, and then read the difference before you keep it:

    ND7_UPDATE_SNAPSHOTS=1 python -m pytest tests/tui/test_snapshots.py && git diff tests/tui/snapshots
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest
import tui_rows
from tui_look import difference, looks
from tui_screen import HERE, Still
from tui_still import SCREENS, show

from nd7tui import theme
from nd7tui.messages import StoreChanged

SNAPSHOTS = Path(__file__).with_name("snapshots")
UPDATE = os.environ.get("ND7_UPDATE_SNAPSHOTS") == "1"
SIZES = {"80x24": (80, 24), "120x40": (120, 40)}
APPEARANCES = {"dark": theme.DARK, "light": theme.LIGHT, "nocolor": theme.PLAIN}
# Textual's own: its colours are mixed from the theme's, and it says of itself when it has finished looking.
NOT_OURS = ("palette",)
NAMES = [name for name in SCREENS if name not in NOT_OURS]
# These have an input, whose ground is mixed by Textual.
MIXED = ("filter", "launch", "history", "history-targets")
RENEW = "If it is meant to: ND7_UPDATE_SNAPSHOTS=1 python -m pytest tests/tui/test_snapshots.py"


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("name", NAMES)
async def test_as_it_was(name: str, size: str) -> None:
    app = Still()
    taken = {}
    async with app.run_test(size=SIZES[size]) as pilot:
        await show(app, pilot, name)
        for appearance, palette in APPEARANCES.items():
            app.no_color = appearance == "nocolor"
            app.theme = palette.name
            app.screen.post_message(StoreChanged())
            await pilot.pause(0.1)
            taken[appearance] = looks(app)
    assert not app.leaks
    problems = []
    for appearance, now in taken.items():
        path = SNAPSHOTS / f"{name}-{size}-{appearance}.txt"
        if UPDATE:
            SNAPSHOTS.mkdir(exist_ok=True)
            path.write_text(now, "utf-8")
        assert path.exists(), f"there is no {path.name} yet. {RENEW}"
        problems.append(difference(path.read_text("utf-8"), now, f"{name} at {size}, {appearance},"))
        if name not in MIXED:
            strange = [line for line in now.splitlines()[1::2] if "?" in line.partition("   @ ")[0] or " on #" in line]
            assert not strange, f"{name}, {appearance}: a colour that is none of the palette's: {strange[0]}"
    assert not any(problems), "\n".join(one for one in problems if one) + f"\n{RENEW}"
    # What is dark and what is light says the same, in the same roles; and without colours it still says the same.
    assert taken["dark"].splitlines()[::2] == taken["light"].splitlines()[::2] == taken["nocolor"].splitlines()[::2]
    if name not in MIXED:
        assert taken["dark"] == taken["light"]


def test_no_picture_is_left_over() -> None:
    known = {f"{name}-{size}-{appearance}.txt" for name in NAMES for size in SIZES for appearance in APPEARANCES}
    assert {path.name for path in SNAPSHOTS.iterdir()} == known
    assert sum(path.stat().st_size for path in SNAPSHOTS.iterdir()) < 2_000_000


async def test_what_has_changed_is_told_in_words() -> None:
    app = Still()
    async with app.run_test(size=(80, 24)) as pilot:
        await show(app, pilot, "dashboard")
        before = looks(app)
        assert difference(before, before, "it") == ""
        await pilot.press("down")
        await pilot.pause(0.1)
        told = difference(before, looks(app), "it")
        assert told.startswith("it does not look as it did:\n") and "reads '▌11:08:15 api-server" in told
        lines = before.splitlines()
        at = next(at for at, line in enumerate(lines) if "□ open" in line)
        lines[at + 1] = lines[at + 1].replace("m mmmm", "r RRRR").replace("   @ chosen", "   @ reverse")
        told = difference(before, "\n".join(lines), "it")
        assert "'□': was amber, is red" in told and "'open': was amber, is bold red" in told
        assert "was chosen 0-80, is reverse 0-80" in told


async def test_the_colours_are_the_palettes() -> None:
    """The pictures name roles; this holds each role to its value on the screen."""
    for palette in (theme.DARK, theme.LIGHT):
        app = Still(palette.name)
        async with app.run_test(size=(120, 40)) as pilot:
            await show(app, pilot, "dashboard")
            shown = {
                color.triplet.hex
                for strip in app.screen._compositor.render_strips()
                for segment in strip
                for color in ((segment.style.color, segment.style.bgcolor) if segment.style else ())
                if color is not None and color.triplet is not None
            }
        known = {value for value in vars(palette).values() if isinstance(value, str) and value.startswith("#")}
        assert shown <= known and len(shown) >= 10


def test_places_are_not_the_runners() -> None:
    assert HERE.home == tui_rows.HOME != os.path.expanduser("~")
