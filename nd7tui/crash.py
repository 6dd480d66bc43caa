"""How the dashboard dies: in words that are safe to print, with the terminal as it was and every session alive.

Textual prints a traceback with the values of local variables, raw.  In this program those are what a session wrote.
"""

from __future__ import annotations

import asyncio
import codecs
import contextlib
import signal
import sys
import traceback
from typing import Any

from rich.console import RenderableType
from textual.app import App
from textual.driver import Driver

from nd7core.text import safe
from nd7tui.line import last_words

LINES = 40


def _forgiving(name: str) -> Any:
    """A decoder that shows what is no UTF-8 as U+FFFD.  Textual's own ends the input thread at such a byte."""
    make = codecs.getincrementaldecoder(name)
    return lambda errors="replace": make(errors)


class Mortal(App[None]):
    """An app whose last words go through `safe`."""

    def get_driver_class(self) -> type[Driver]:
        driver = super().get_driver_class()
        module = sys.modules[driver.__module__]
        if hasattr(module, "getincrementaldecoder"):
            vars(module)["getincrementaldecoder"] = _forgiving
        return driver

    def on_load(self) -> None:
        """Being told to end is no crash: the terminal is given back as it was."""
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGHUP):
            # Not in the main thread (a test's), or not on this system: then the signal does what it always does.
            with contextlib.suppress(RuntimeError, ValueError, NotImplementedError):
                loop.add_signal_handler(number, self._told, int(number))

    def _told(self, number: int) -> None:
        self.exit(return_code=128 + number)

    def panic(self, *renderables: RenderableType) -> None:
        """See `App.panic`: what it would print, made safe."""
        options = self.console.options
        self._end("".join(segment.text for one in renderables for segment in self.console.render(one, options)))

    def _fatal_error(self) -> None:
        self._end(traceback.format_exc())

    def _end(self, text: str) -> None:
        lines = [safe(line, 400) for line in text.splitlines()[-LINES:]]
        head = safe("nd7: the dashboard failed. Every session lives on; nd7 tui starts it anew. What failed:")
        self._exit_renderables.append(last_words([head, *lines]))
        self._close_messages_no_wait()
