"""The dashboard: watch sessions, see each refusal with where it came from, and mend it with one key.

examples:
  nd7 tui                in a second terminal, beside nd7 run claude
  nd7 tui --read-only    look, and change nothing
  nd7 tui --bell         ring when a session waits for you or is refused something
  nd7 tui --theme ansi   the terminal's own sixteen colours; NO_COLOR=1 has none at all

Keys of your own stand in ~/.config/nd7/keys.toml ($XDG_CONFIG_HOME/nd7), a line for each that is to be another:
  grant = "f5"
  down = ["down", "j", "ctrl+n"]
Their names: grant, wider, undo, take_back, restart, copy, print, open, choose, shorter, longer, start, reveal,
filter, source_1, source_2, source_3, source_4, pause, waiting, launch, grants, profile, session, history, group,
deeds, export, format, up, down, page_up, page_down, top, bottom, next_pane, back_pane, theme, help, back, quit.
A key is a character, or a word as in enter, space, slash, f2, pageup, ctrl+g, shift+tab.

A theme of your own is a TOML file of colours, those left out being the dark or the light theme's; dusk.toml might be
  dark = true
  ground = "#1b1a26"
  accent = "#c8b6ff"
"""

from __future__ import annotations

import argparse
import os
import sys

from nd7core.errors import Nd7Error


class Themes(tuple[str, ...]):
    """Names that a shell completes; any other is one of the person's own, which the parser cannot know."""

    __slots__ = ()

    def __contains__(self, name: object) -> bool:
        return True


THEMES = Themes(("dark", "light", "ansi", "plain"))
THEME_HELP = "dark, light, ansi (the terminal's own colours), or yours: ~/.config/nd7/themes/NAME.toml"


def configure(parser: argparse.ArgumentParser) -> None:
    """The command's arguments."""
    parser.add_argument("--read-only", action="store_true", help="change nothing: no grants, no sessions started")
    parser.add_argument("--bell", action="store_true", help="ring when a session waits for you or is refused something")
    parser.add_argument("--desktop", action="store_true", help="and show a desktop notification")
    parser.add_argument("--notify", metavar="COMMAND", default="", help="and run COMMAND with the text behind it")
    parser.add_argument("--theme", metavar="NAME", choices=THEMES, default=None, help=THEME_HELP)


def run(arguments: argparse.Namespace) -> int:
    """Run the dashboard until it is left."""
    if not (os.isatty(0) and os.isatty(1)):
        raise Nd7Error("the dashboard needs a terminal", hint="nd7 sessions and nd7 denials work without one")
    if not os.isatty(2):  # where it is drawn: without this the screen would stay blank
        sys.stdout.write("nd7: the dashboard draws on stderr, which is no terminal here: start it without 2>\n")
        sys.stdout.flush()
        raise Nd7Error("the dashboard draws on stderr, which is no terminal here", hint="start it without 2>")
    if os.environ.get("TERM", "dumb") == "dumb":
        raise Nd7Error("TERM=dumb cannot show the dashboard", hint="nd7 sessions and nd7 denials work there")
    from nd7core.paths import places
    from nd7tui.app import Dashboard
    from nd7tui.notices import Wanted, check
    from nd7tui.themes import chosen

    where = places()
    look = chosen(arguments.theme, where, os.environ)
    wanted = Wanted(arguments.bell, arguments.desktop, arguments.notify)
    if problem := check(wanted):
        raise Nd7Error(problem, exit_code=2)
    app = Dashboard(where, wanted=wanted, read_only=arguments.read_only, theme_name=look)
    app.run()
    return app.return_code or 0
