"""Any keys in any order, at any size, while rows come and go: the dashboard stays up and nothing leaks."""

from __future__ import annotations

import random
from dataclasses import replace

import pytest
import tui_rows
from tui_screen import Still

from nd7tui import keys
from nd7tui.model import Batch
from nd7tui.screens.dashboard import Main

PRESSED = [word for key in keys.TABLE for word in key.keys.split(",") if key.id not in ("start",)]
TYPED = list('state:open -uv "x Y?/gGuyqjk\\')
SIZES = [(120, 40), (80, 24), (56, 14), (40, 10), (200, 60), (20, 5)]


async def nobody(command: list[str]) -> None:
    """No other program is run."""


@pytest.mark.parametrize("seed", range(4))
async def test_any_keys_in_any_order(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    chance = random.Random(seed)
    app = Still()
    monkeypatch.setattr(app, "exit", lambda *arguments, **more: None)
    monkeypatch.setattr(app, "outside", nobody)
    monkeypatch.setattr(app, "copy_to_clipboard", lambda text: None)
    monkeypatch.setattr("nd7tui.screens.history.History._index", lambda self: None)
    async with app.run_test(size=SIZES[0]) as pilot:
        app.arrived(tui_rows.batch())
        await pilot.pause()
        pressed: list[str] = []
        for step in range(80):
            what = chance.random()
            if what < 0.06:
                await pilot.resize_terminal(*chance.choice(SIZES))
            elif what < 0.2:
                rows = tui_rows.rows()
                row = replace(chance.choice(rows), id=f"m{step}", session_id=chance.choice(["3f0c", "77aa", "none"]))
                some = chance.choice([(), tui_rows.sessions(), tui_rows.sessions()[:1]])
                app.arrived(Batch([row, replace(chance.choice(rows), count=step + 2)], chance.choice([None, some])))
            else:
                key = chance.choice(PRESSED if what < 0.85 else TYPED)
                pressed.append(key)
                await pilot.press({" ": "space", "/": "slash", "?": "question_mark"}.get(key, key))
            if len(app.screen_stack) > 12:
                await pilot.press("escape")
        for _ in range(40):
            if isinstance(app.screen, Main):
                break
            await pilot.press("escape")
        assert not app.leaks, pressed[-10:]
        assert app._exception is None
