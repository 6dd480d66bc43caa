"""What a dashboard under test shows, and what its parts told each other."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

import tui_rows
from textual.message import Message
from textual.pilot import Pilot

from nd7core.paths import places_of
from nd7tui.app import Dashboard
from nd7tui.messages import Peeked
from nd7tui.model import Row, SessionRow
from nd7tui.screens.dashboard import Main

M = TypeVar("M", bound=Message)
HERE = places_of(tui_rows.HOME)


class Still(Dashboard):
    """A dashboard in which nothing moves and nothing is looked up."""

    def __init__(self, theme_name: str = "nd7-dark") -> None:
        super().__init__(HERE, environ={}, follow=False, now=lambda: tui_rows.NOW, theme_name=theme_name)

    def get_default_screen(self) -> Main:
        return Main()

    def begin(self) -> None:
        """Nothing is read."""

    def do(self, deed: Callable[[], object]) -> None:
        """Nothing is done: no grant, no session started, no file written."""

    def work_out(self, row: Row) -> None:
        """Nothing is looked up."""

    def peek(self, session: SessionRow) -> None:
        """A screen that never changes."""
        lines = ["❯ make it work", "", "● Bash(npm run dev)", "  ⎿  Waiting for permission…", "", "❯ 1. Yes", "  2. No"]
        self.screen.post_message(Peeked(session.key, lines))


def picture(app: Dashboard) -> str:
    """The characters on the screen, line by line."""
    return "\n".join(strip.text for strip in app.screen._compositor.render_strips())


def said(app: Dashboard) -> str:
    """What the bottom line says, or ""."""
    return app.said[0] if app.said else ""


def told(seen: list[Message], kind: type[M]) -> list[M]:
    """The messages of one kind, each once: the hook sees them at every widget that they pass."""
    return list({id(message): message for message in seen if isinstance(message, kind)}.values())


async def until(pilot: Pilot[None], true: Callable[[], object], seconds: float = 15.0) -> None:
    """Wait for what a worker or the ingest thread does."""
    for _ in range(int(seconds / 0.05)):
        await pilot.pause(0.05)
        if true():
            return
    raise AssertionError("it did not happen; on the screen:\n" + picture(pilot.app))
