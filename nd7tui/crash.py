"""How the dashboard dies: in words that are safe to print, with the terminal as it was and every session alive.

Textual prints a traceback with the values of local variables, raw.  In this program those are what a session wrote.
"""

from __future__ import annotations

import asyncio
import codecs
import contextlib
import os
import queue
import select
import signal
import sys
import threading
import time
import traceback
from typing import Any

from rich.console import RenderableType
from textual.app import App
from textual.driver import Driver

from nd7core.text import safe
from nd7tui.line import last_words

LINES = 40
GRACE = 5.0  # seconds to end in, once the terminal is gone


def _forgiving(name: str) -> Any:
    """A decoder that shows what is no UTF-8 as U+FFFD.  Textual's own ends the input thread at such a byte."""
    make = codecs.getincrementaldecoder(name)
    return lambda errors="replace": make(errors)


class Mortal(App[None]):
    """An app whose last words go through `safe`, and which ends with its terminal."""

    def run(self, *args: Any, **kwargs: Any) -> None:
        """See `App.run`: until it returns, the terminal is watched."""
        self._over = threading.Event()
        try:
            super().run(*args, **kwargs)
        finally:
            self._over.set()

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
        if not self.is_headless and sys.__stdin__ is not None and sys.__stdin__.isatty():
            watch = (loop, sys.__stdin__.fileno())
            threading.Thread(target=self._watch, args=watch, name="nd7-terminal", daemon=True).start()

    def _watch(self, loop: asyncio.AbstractEventLoop, terminal: int) -> None:
        """End the dashboard when its terminal is gone, with a SIGHUP or without one.

        Textual's output thread dies of the first write then, and whoever writes waits for ever once its queue is
        full: with the main thread there, no signal but SIGKILL ends it, while the input thread reads the end of the
        file over and over (measured: a third of a core, for hours).  So the queue is emptied here until it is over.
        """
        poll = select.poll()
        poll.register(terminal, 0)  # a hang-up is told unasked, and nothing else wakes this thread
        while not any(event & (select.POLLHUP | select.POLLERR | select.POLLNVAL) for _, event in poll.poll()):
            pass
        with contextlib.suppress(RuntimeError):  # the loop is closed: it ends already
            loop.call_soon_threadsafe(self._told, int(signal.SIGHUP))
        end = time.monotonic() + GRACE
        while not self._over.wait(0.05):
            waiting = getattr(getattr(self._driver, "_writer_thread", None), "_queue", None)
            with contextlib.suppress(queue.Empty):
                while waiting is not None and waiting.full():
                    waiting.get_nowait()
            if time.monotonic() > end:
                os._exit(128 + signal.SIGHUP)  # nobody is left to tell, and no session depends on this process

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
