"""Show the man page, or print it where no terminal takes it.

examples:
  nd7 man                                                  read it now, on a terminal
  mkdir -p ~/.local/share/man/man1
  nd7 man > ~/.local/share/man/man1/nd7.1                  for man nd7
"""

from __future__ import annotations

import argparse
import shutil
import subprocess
import sys


def configure(parser: argparse.ArgumentParser) -> None:
    """No arguments."""


def run(arguments: argparse.Namespace) -> int:
    """Show it with man, plainly where there is none that can, and as it is to whatever is no terminal."""
    from nd7tui.manual import page, plain

    text = page()
    if not sys.stdout.isatty():
        print(text, end="")
        return 0
    viewer = shutil.which("man")
    if viewer and subprocess.run([viewer, "-l", "-"], input=text.encode(), check=False).returncode == 0:
        return 0
    print(plain(text), end="")
    return 0
