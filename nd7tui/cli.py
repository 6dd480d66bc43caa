"""The `nd7` command line: one table of commands, each in a module of its own that is imported only when asked for.

Nothing here may import textual, rich or watchfiles: `nd7 allow` in a script must start like git does.
"""

from __future__ import annotations

import argparse
import importlib
import io
import os
import re
import sys
from types import ModuleType
from typing import NoReturn

from nd7core import __version__
from nd7core.errors import Nd7Error

# name -> (module under nd7tui.commands, one line of help).  The module has `configure(parser)` and
# `run(arguments) -> int`, and a docstring whose text after the first line becomes the epilog (examples).
# README's command table, the completions and the man page are made from this table.
COMMANDS: dict[str, tuple[str, str]] = {
    "run": ("run", "run an agent, or any program, in the sandbox"),
    "tui": ("tui", "the dashboard: watch sessions, see denials, grant"),
    "demo": ("demo", "see it live with a built-in agent, nothing to install"),
    "allow": ("allow", "make a path writable for a session's next Bash commands"),
    "deny": ("deny", "take a grant back"),
    "grants": ("grants", "list what has been granted"),
    "sessions": ("sessions", "list sessions"),
    "denials": ("denials", "list what was refused, and where each refusal came from"),
    "explain": ("explain", "say where a failure on stdin came from"),
    "why": ("why", "what the policy in force says about a path or a port"),
    "attach": ("attach", "put this terminal on a session's screen"),
    "verify": ("verify", "check the hash chain of a session's audit log"),
    "export": ("export", "write denials as JSON, CSV or Markdown, secrets masked"),
    "doctor": ("doctor", "check this machine and say what to mend"),
    "record": ("record", "the hook: one payload on stdin"),
    "completions": ("completions", "print the completions of bash, zsh or fish"),
    "man": ("man", "print the man page"),
}


class Parser(argparse.ArgumentParser):
    """A parser that says what is wrong in one line, and the next step in another."""

    example = ""

    def error(self, message: str) -> NoReturn:
        """Raise Nd7Error in nd7's own words instead of printing the whole usage."""
        from nd7core.text import safe

        missing = message.removeprefix("the following arguments are required: ")
        unknown = message.removeprefix("unrecognized arguments: ")
        tells = f"`{self.prog} --help` tells more"
        hint = f"as in: {self.example}; {tells}" if self.example else tells
        if missing != message:
            several = "are" if "," in missing else "is"
            raise Nd7Error(f"{missing} {several} missing", hint=hint, exit_code=2)
        if unknown != message:
            import difflib

            word = next((word for word in unknown.split() if word.startswith("-")), unknown)
            options = [name for action in self._actions for name in action.option_strings]
            close = difflib.get_close_matches(word.partition("=")[0], options, 1)
            what = "no option" if word.startswith("-") else "not to be understood here:"
            hint = f"did you mean {close[0]}? {tells}" if close else f"{tells}"
            raise Nd7Error(f"{what} {safe(word, 80)}", hint=hint, exit_code=2)
        raise Nd7Error(str(safe(message, 300)), hint=hint, exit_code=2)


def load(command: str) -> ModuleType:
    """The module of a command.  Raises KeyError for a name that is not in the table."""
    return importlib.import_module(f"nd7tui.commands.{COMMANDS[command][0]}")


def command_parser(command: str) -> argparse.ArgumentParser:
    """The parser of one command, as `nd7 COMMAND --help` shows it."""
    module = load(command)
    summary, _, examples = (module.__doc__ or "").partition("\n")
    parser = Parser(
        prog=f"nd7 {command}",
        description=summary,
        epilog=examples.strip("\n") or None,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
        add_help=False,
    )
    parser.add_argument("-h", "--help", action=_Help, nargs=0, help="show this help message and exit")
    example = re.search(rf"^  (nd7 {command}\b.*?)(?:   .*)?$", examples, re.MULTILINE)
    parser.example = example[1] if example else ""
    module.configure(parser)
    return parser


class _Help(argparse.Action):
    """`--help`, with the fields of `--json`: they are read only where somebody asks."""

    def __call__(self, parser: argparse.ArgumentParser, *_: object) -> NoReturn:
        from nd7tui.json_fields import epilog

        parser.epilog = "\n\n".join(filter(None, (parser.epilog, epilog(parser.prog.removeprefix("nd7 ")))))
        parser.print_help()
        parser.exit()


def usage() -> str:
    """The text of `nd7 --help`."""
    width = max(map(len, COMMANDS))
    rows = "\n".join(f"  {name:<{width}}  {line}" for name, (_, line) in COMMANDS.items())
    return (
        "usage: nd7 COMMAND [ARGUMENTS...]\n\n"
        "Run a coding agent in a kernel sandbox, and see where every refusal came from.\n\n"
        f"commands:\n{rows}\n\n"
        "examples:\n"
        "  nd7 demo                see it live\n"
        "  nd7 run claude          Claude Code, confined to this project\n"
        "  nd7 tui                 the dashboard, in a second terminal\n\n"
        "nd7 COMMAND --help tells more of one, with examples; nd7 man all of it, with exit statuses and the fields of\n"
        "each --json; nd7 --version prints the version.\n"
    )


def fail(error: Nd7Error) -> int:
    """Say an error on stderr as `nd7: what` and, where there is one, the next step."""
    from nd7core.text import SafeText, safe, wrapped  # names of programs and paths are whatever somebody called them

    message = safe(error.message, keep_newlines=True)
    try:
        width = max(os.get_terminal_size(2).columns, 40)
    except OSError:  # no terminal: lines are for programs
        sys.stderr.write(f"nd7: {message}\n")
    else:
        first, *more = message.split("\n")
        lines = wrapped(SafeText(first), width, "nd7: ", "     ")
        sys.stderr.write("\n".join([*lines, *more]) + "\n")
    if error.hint:
        sys.stderr.write(f"     {safe(error.hint, keep_newlines=True)}\n")
    return error.exit_code


def _mend_streams() -> None:
    """See that each stream is there and takes any text: one may be closed (`>&-`), or not be UTF-8."""
    for name, mode, flags in (("stdin", "r", os.O_RDONLY), ("stdout", "w", os.O_WRONLY), ("stderr", "w", os.O_WRONLY)):
        if getattr(sys, name) is None:  # lowest number first: no other file may get it
            setattr(sys, name, os.fdopen(os.open(os.devnull, flags), mode))
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")


def main(argv: list[str] | None = None) -> int:
    """Run one command and return its exit status.  Never a traceback for what a person can cause."""
    _mend_streams()
    try:
        status = _run(sys.argv[1:] if argv is None else argv)
        sys.stdout.flush()
    except Nd7Error as error:
        return fail(error)
    except BrokenPipeError:
        # `nd7 denials | head`: the reader has gone, which is no error of anyone's.
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        return 141
    except KeyboardInterrupt:
        return 130
    except OSError as error:
        # A full disk behind stdout, no descriptor left: what is still to be written goes nowhere, and not again.
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        what = f"{error.filename}: {error.strerror}" if error.filename else error.strerror or str(error)
        return fail(Nd7Error(what))
    return status


def _run(words: list[str]) -> int:
    if not words or words[0] in ("-h", "--help", "help"):
        (sys.stdout if words else sys.stderr).write(usage())
        return 0 if words else 2
    if words[0] in ("-V", "--version", "version"):
        print(f"nd7 {__version__}")
        return 0
    name = words[0]
    if name not in COMMANDS:
        import difflib

        close = difflib.get_close_matches(name, COMMANDS, 1)
        shown = name.encode("ascii", "backslashreplace").decode()[:80]
        lists = "`nd7 --help` lists the commands"
        hint = f"did you mean `nd7 {close[0]}`? {lists}" if close else lists
        return fail(Nd7Error(f"no command {shown!r}", hint=hint, exit_code=2))
    module = load(name)
    return int(module.run(command_parser(name).parse_args(words[1:])))


if __name__ == "__main__":
    sys.exit(main())
