"""The pictures show what the dashboard shows now."""

from __future__ import annotations

import importlib
import pkgutil
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from nd7tui import screens
from nd7tui.screens.doors import Doors
from nd7tui.screens.page import Page

if TYPE_CHECKING:
    from world import World

ROOT = Path(__file__).resolve().parent.parent.parent
SIZES = ("120x36", "80x24")


def test_they_are_current(world: World) -> None:
    done = world.run([sys.executable, "-P", str(ROOT / "screenshots/make.py"), "--check"], timeout=120)
    assert done.code == 0, f"{done.out}{done.err}\nrun python screenshots/make.py"


def test_every_screen_has_one() -> None:
    for module in pkgutil.iter_modules(screens.__path__):
        importlib.import_module(f"{screens.__name__}.{module.name}")
    names = {page.NAME for page in (*Page.__subclasses__(), *Doors.__subclasses__()) if page.NAME}
    assert len(names) >= 12
    for name in names - {"deeds"} | {"log", "filter", "screen"}:
        assert (ROOT / f"screenshots/{name}-120x36.svg").exists(), name


def test_each_is_there_in_both_sizes_and_both_forms() -> None:
    names = {path.stem.rpartition("-")[0] for path in (ROOT / "screenshots").glob("*.svg")}
    assert len(names) >= 7
    for name in names:
        for size in SIZES:
            for form in ("svg", "png"):
                assert (ROOT / f"screenshots/{name}-{size}.{form}").stat().st_size > 5_000


def test_they_need_nothing_from_elsewhere() -> None:
    for path in (ROOT / "screenshots").glob("*.svg"):
        text = path.read_text("utf-8")
        assert "@font-face" not in text
        assert "url(http" not in text
        assert str(ROOT) not in text
