"""Print the completions of a shell.

examples:
  eval "$(nd7 completions bash)"                                  in ~/.bashrc
  mkdir -p ~/.zfunc ~/.config/fish/completions                    where they are not there yet
  nd7 completions zsh > ~/.zfunc/_nd7                             with ~/.zfunc in fpath before compinit
  nd7 completions fish > ~/.config/fish/completions/nd7.fish
"""

from __future__ import annotations

import argparse


def configure(parser: argparse.ArgumentParser) -> None:
    """The command's arguments."""
    parser.add_argument("shell", choices=("bash", "zsh", "fish"), help="which shell")


def run(arguments: argparse.Namespace) -> int:
    """Print them."""
    from nd7tui.completions import SHELLS

    print(SHELLS[arguments.shell](), end="")
    return 0
