"""What a form is filled in with, beside Textual's own: several lines of text, and folders completed as one types."""

from __future__ import annotations

import asyncio
from typing import Any

from textual.suggester import Suggester
from textual.widgets import TextArea

from nd7core.text import safe
from nd7tui.starting import complete


class Prompt(TextArea):
    """Several lines, kept as they were typed or pasted, and shown with nothing in them that acts on a terminal."""

    def get_line(self, line_index: int) -> Any:
        """See Textual's `TextArea`.  Each character keeps its place, for the cursor is counted in them."""
        line = super().get_line(line_index)
        text = line.plain
        if not text.isprintable():
            line.plain = "".join(char if char == "\t" or safe(char) == char else "?" for char in text)
        return line


class Folders(Suggester):
    """Completes a folder's path as it is typed."""

    def __init__(self, home: str) -> None:
        super().__init__(use_cache=False, case_sensitive=True)
        self._home = home

    async def get_suggestion(self, value: str) -> str | None:
        """See Textual's `Suggester`.  Reads one directory, in a thread."""
        return await asyncio.to_thread(complete, value, self._home)
