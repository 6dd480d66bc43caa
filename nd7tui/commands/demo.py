"""See it live: a built-in agent plays a session in a throw-away home, with the dashboard in front.

examples:
  nd7 demo               watch it, press g on a refusal, see the agent get through; q ends it all
  nd7 demo --plain       the same in lines, for a pipe or CI
  nd7 demo --recorded    a session recorded earlier, as on a machine whose kernel cannot confine

Nothing of yours is read or written: the demo makes a directory below the temp directory and takes it away again.
The kernel, the supervisor, the hooks and the log are the real ones; only what the agent does is scripted.
"""

from __future__ import annotations

import argparse
import io
import os
import signal
import sys
from types import FrameType
from typing import TYPE_CHECKING

from nd7core.errors import Nd7Error
from nd7tui.commands.tui import THEME_HELP, THEMES

if TYPE_CHECKING:
    from nd7tui.demo.stage import Stage


def configure(parser: argparse.ArgumentParser) -> None:
    """The command's arguments."""
    parser.add_argument("--plain", action="store_true", help="print what happens instead of showing the dashboard")
    parser.add_argument("--recorded", action="store_true", help="show the recorded session")
    parser.add_argument("--theme", metavar="NAME", choices=THEMES, default=None, help=THEME_HELP)


def run(arguments: argparse.Namespace) -> int:
    """Play the demo; 0 where it went as it should, 1 where a grant did not help."""
    from nd7tui.demo import stage

    if not arguments.plain and not (os.isatty(0) and os.isatty(1)):
        raise Nd7Error("the dashboard needs a terminal", hint="nd7 demo --plain works without one", exit_code=2)
    record = arguments.recorded
    if not record and (why := cannot()):
        sys.stderr.write(f"nd7: {why}\n     This is the recorded session instead.\n")
        record = True
    before = {number: signal.signal(number, _ended) for number in (signal.SIGTERM, signal.SIGHUP)}
    set_up = stage.make()
    try:
        return show(set_up, arguments, record)
    finally:
        set_up.remove()
        for number, handler in before.items():
            signal.signal(number, handler)


def show(set_up: Stage, arguments: argparse.Namespace, record: bool) -> int:
    """Play on a stage that is there."""
    if arguments.plain:
        from nd7tui.demo import plain

        if isinstance(sys.stdout, io.TextIOWrapper):
            sys.stdout.reconfigure(errors="backslashreplace")  # a pipe's encoding may lack the glyphs

        return plain.show_recorded(set_up) if record else plain.play(set_up)
    from nd7core.paths import places
    from nd7tui.demo import board
    from nd7tui.themes import chosen

    theme = chosen(arguments.theme, places(), os.environ)
    return board.show_recorded(set_up, theme) if record else board.play(set_up, theme)


def cannot() -> str:
    """Why this machine cannot play a session, or ""."""
    if sys.platform != "linux":
        return f"sessions on {sys.platform} are not there yet: nothing would confine the agent."
    from nd7exec.linux import confinement

    try:
        support = confinement.supported()
    except Nd7Error as error:
        return error.message
    if not support.abi:
        return "this kernel has no Landlock, so nothing would confine the agent."
    return "" if support.notify else "this kernel has no seccomp user notification, so nothing would confine the agent."


def _ended(number: int, _frame: FrameType | None) -> None:
    """SIGTERM and SIGHUP end it like `q` does: through every `finally`."""
    raise SystemExit(128 + number)
