"""`nd7 demo` with the dashboard in front: the real one, on the demo's places, with its session played behind."""

from __future__ import annotations

import asyncio
import signal
import sys
import threading
from collections.abc import Callable

from nd7core.paths import Places
from nd7tui.app import Dashboard
from nd7tui.demo import recorded
from nd7tui.demo.drive import Driver
from nd7tui.demo.stage import Stage
from nd7tui.model import SessionRow

PACE = 1.6
HELLO = "this is a demo in a throw-away home: g grants the selected refusal, q ends it all"
OVER = "the agent waits: grant one of its refusals (g) and it tries again"
# These would reach into the person's own home, or want a screen that the demo's agent does not have.
OFF = {
    "launch": "not in a demo: nd7 tui starts sessions of yours",
    "export": "not in a demo: it would write what your own sessions were refused",
    "restart": "not in a demo; a real agent would come back, wider",
}
NO_SCREEN = "the demo's agent has no screen; a real one's would be here now"
RECORDED = "this is a recorded session: nothing runs, so nothing can be granted; q leaves"


class DemoBoard(Dashboard):
    """The dashboard, leaving on the signals that ask a program to end, so that the demo is cleared away.

    Args:
        hello: said once it is up.
    """

    LEFT = "the demo and its session end with it"

    def __init__(self, where: Places, hello: str, *, theme_name: str, read_only: bool = False) -> None:
        super().__init__(where, theme_name=theme_name, read_only=read_only)
        self.hello = hello
        self.off = OFF
        self.failed = False

    def on_mount(self) -> None:
        super().on_mount()
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGHUP):
            loop.add_signal_handler(number, self.exit, None, 128 + number)
        self.call_after_refresh(self.say, self.hello, "good")

    async def attach(self, session: SessionRow) -> None:
        """Say what it would be."""
        self.say(NO_SCREEN, "warn")


def from_thread(app: DemoBoard, call: Callable[[], object]) -> None:
    """Do something in the dashboard's thread, if it is still up."""
    if app.is_running:
        app.call_later(call)


def play(stage: Stage, theme_name: str) -> int:
    """Play the live session behind the dashboard; returns its exit status."""
    app = DemoBoard(stage.places, HELLO, theme_name=theme_name)
    driver = Driver(stage, pace=PACE, waiting=lambda: from_thread(app, lambda: app.say(OVER, "good")))

    def drive() -> None:
        driver.run()
        if not driver.stopping:  # it has ended by itself: nothing more will come
            app.failed = True
            from_thread(app, lambda: app.exit(None, 1))

    thread = threading.Thread(target=drive, name="nd7-demo", daemon=True)
    thread.start()
    try:
        app.run()
    finally:
        driver.end()
        thread.join(5.0)
    if app.failed:
        sys.stderr.write("".join(f"{line}\n" for line in driver.lines))
    return app.return_code or 0


def show_recorded(stage: Stage, theme_name: str) -> int:
    """Show the recorded session."""
    app = DemoBoard(recorded.places(stage), RECORDED, theme_name=theme_name, read_only=True)
    left = threading.Event()
    thread = threading.Thread(
        target=recorded.play,
        args=(stage,),
        kwargs={"pace": PACE / 2, "going": lambda: not left.is_set()},
        name="nd7-demo",
        daemon=True,
    )
    thread.start()
    try:
        app.run()
    finally:
        left.set()
        thread.join(5.0)
    return app.return_code or 0
