"""What a dashboard under test shows, and what its parts told each other."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from textual.message import Message
from textual.pilot import Pilot

from nd7tui.app import Dashboard

M = TypeVar("M", bound=Message)


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
    raise AssertionError("it did not happen; on the screen:\n" + picture(pilot.app))  # type: ignore[arg-type]
