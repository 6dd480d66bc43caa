"""What the command line takes, as data: read off the parsers, for the completions, the man page and README's table."""

from __future__ import annotations

import argparse
from dataclasses import dataclass

from nd7tui import cli


@dataclass(frozen=True, slots=True)
class Argument:
    """One option or positional argument of a command.

    Attributes:
        names: `--json`, `-s`; empty for a positional one.
        value: how its value is printed (`PID`, `PATH`), or "" where it takes none.
        choices: the values that it takes, where they are few.
        help: one line; "" is refused by the tests.
    """

    names: tuple[str, ...]
    value: str
    choices: tuple[str, ...]
    help: str


@dataclass(frozen=True, slots=True)
class Command:
    """One command.

    Attributes:
        summary: the line of `nd7 --help`; description: the first line of `nd7 COMMAND --help`; examples: its last part.
    """

    name: str
    summary: str
    usage: str
    description: str
    examples: str
    options: tuple[Argument, ...]
    positionals: tuple[Argument, ...]


def commands() -> list[Command]:
    """Every command in the order of the table."""
    return [command(name) for name in cli.COMMANDS]


def command(name: str) -> Command:
    """One command.  Raises KeyError for a name that is not in the table."""
    parser = cli.command_parser(name)
    arguments = [_argument(action) for action in parser._actions if action.help is not argparse.SUPPRESS]
    return Command(
        name=name,
        summary=cli.COMMANDS[name][1],
        usage=" ".join(parser.format_usage().removeprefix("usage:").split()),
        description=parser.description or "",
        examples=parser.epilog or "",
        options=tuple(argument for argument in arguments if argument.names),
        positionals=tuple(argument for argument in arguments if not argument.names),
    )


def _argument(action: argparse.Action) -> Argument:
    choices = tuple(map(str, action.choices or ()))
    value = ""
    if action.nargs != 0:
        metavar = action.metavar if isinstance(action.metavar, str) else None
        value = metavar or ("|".join(choices) if choices else action.dest.upper())
    return Argument(tuple(action.option_strings), value, choices, _one_line(action))


def _one_line(action: argparse.Action) -> str:
    text = " ".join((action.help or "").split())
    return text % {"default": action.default, "prog": "nd7"} if "%(" in text else text.replace("%%", "%")
