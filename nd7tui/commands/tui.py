"""The dashboard: watch sessions, see each refusal with where it came from, and mend it with one key.

examples:
  nd7 tui                in a second terminal, beside nd7 run claude
  nd7 tui --read-only    look, and change nothing
  nd7 tui --bell         ring when a session waits for you or is refused something
"""

from __future__ import annotations

import argparse
import os

from nd7core.errors import Nd7Error


def configure(parser: argparse.ArgumentParser) -> None:
    """The command's arguments."""
    parser.add_argument("--read-only", action="store_true", help="change nothing: no grants, no sessions started")
    parser.add_argument("--bell", action="store_true", help="ring when a session waits for you or is refused something")
    parser.add_argument("--desktop", action="store_true", help="and show a desktop notification")
    parser.add_argument("--notify", metavar="COMMAND", default="", help="and run COMMAND with the text behind it")
    parser.add_argument("--theme", choices=("dark", "light"), default=None, help="dark unless COLORFGBG says otherwise")


def theme_of(wanted: str | None, environ: dict[str, str]) -> str:
    """The theme's name: what was asked for, else what COLORFGBG says of the background, else dark."""
    if wanted is None:
        background = environ.get("COLORFGBG", "").rpartition(";")[2]
        wanted = "light" if background in ("7", "15") else "dark"
    return f"nd7-{wanted}"


def run(arguments: argparse.Namespace) -> int:
    """Run the dashboard until it is left."""
    if not (os.isatty(0) and os.isatty(1)):
        raise Nd7Error("the dashboard needs a terminal", hint="nd7 sessions and nd7 denials work without one")
    if os.environ.get("TERM", "dumb") == "dumb":
        raise Nd7Error("TERM=dumb cannot show the dashboard", hint="nd7 sessions and nd7 denials work there")
    from nd7core.paths import places
    from nd7tui.app import Dashboard
    from nd7tui.notices import Wanted, check

    wanted = Wanted(arguments.bell, arguments.desktop, arguments.notify)
    if problem := check(wanted):
        raise Nd7Error(problem, exit_code=2)
    app = Dashboard(
        places(), wanted=wanted, read_only=arguments.read_only, theme_name=theme_of(arguments.theme, dict(os.environ))
    )
    app.run()
    return app.return_code or 0
