"""Print the man page.

examples:
  nd7 man | man -l -                                       read it now
  mkdir -p ~/.local/share/man/man1
  nd7 man > ~/.local/share/man/man1/nd7.1                  for man nd7
"""

from __future__ import annotations

import argparse


def configure(parser: argparse.ArgumentParser) -> None:
    """No arguments."""


def run(arguments: argparse.Namespace) -> int:
    """Print it."""
    from nd7tui.manual import page

    print(page(), end="")
    return 0
