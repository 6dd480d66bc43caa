"""The man page, made from the parsers and what each command says of itself."""

from __future__ import annotations

from nd7core import __version__
from nd7tui.json_fields import RULES, SHAPES, described
from nd7tui.usage import Argument, Command, commands

INTRODUCTION = """\
nd7 runs a coding agent confined by the kernel, shows each refusal with where it came from, and lets one key widen what
the next command may do.
.PP
A session may write its project, the temp directory and what the agent itself needs; it may read everything but
~/.ssh, ~/.aws and ~/.nd7; it reaches DNS and TCP port 443. A grant makes one path more writable for Bash commands,
from the next one on; the agent's own Write, Edit and Read tools need a restart. ~ is the home directory in
the password database, never $HOME."""

FILES = (
    ("~/.nd7/sessions/PID/", "a live session: record.json, and policy.sb, the profile that is in force."),
    (
        "$XDG_STATE_HOME/nd7/sessions/ID/",
        "a session's audit log, by the agent's own session id: events.ndjson, head. ~/.local/state by default.",
    ),
    (
        "$XDG_CONFIG_HOME/nd7/keys.toml",
        "the dashboard's keys, where they should be others: see nd7 tui. ~/.config without it. No session writes it.",
    ),
)
STATUS = (
    ("0", "it went as asked."),
    ("1", "it did not: the chain is broken, the grant was refused."),
    ("2", "the command line was wrong, or several sessions could be meant."),
    ("126", "nothing was run: nd7 or nd7-exec refused, with the reason on stderr."),
    ("127", "there is no PROGRAM."),
    ("128+N", "of nd7 run: signal N ended PROGRAM; 130 after Ctrl+C, 141 where the reader of a pipe has gone."),
    ("N", "of nd7 run, nd7-exec and nd7 attach: the exit status of what ran."),
)


def page() -> str:
    """The page in man(7) macros."""
    parts = [
        f'.TH ND7 1 "" "nd7 {roff(__version__)}" "User Commands"',
        ".SH NAME\nnd7 \\- run a coding agent in a kernel sandbox, and see where every refusal came from",
        ".SH SYNOPSIS\n.B nd7\n.I COMMAND\n[\\fIARGUMENTS\\fR...]",
        f".SH DESCRIPTION\n{_paragraphs(INTRODUCTION)}",
        ".SH COMMANDS",
        *(_command(command) for command in commands()),
        f".SH JSON\n{roff(RULES)}",
        *(_shape(name) for name in SHAPES),
        ".SH EXIT STATUS",
        *(f".TP\n.B {roff(number)}\n{roff(text)}" for number, text in STATUS),
        ".SH FILES",
        *(f".TP\n.I {roff(path)}\n{roff(text)}" for path, text in FILES),
    ]
    return "\n".join(parts) + "\n"


def _command(command: Command) -> str:
    lines = [f".SS {roff(command.usage)}", roff(command.description)]
    for argument in (*command.positionals, *command.options):
        lines.append(f".TP\n{_head(argument)}\n{roff(argument.help)}")
    if command.examples:
        lines.append(f".PP\n.nf\n{roff(command.examples)}\n.fi")
    return "\n".join(lines)


def _shape(name: str) -> str:
    shape = SHAPES[name]
    lines = [f".SS nd7 {name}: {roff(shape.form)}"]
    lines += [f".TP\n.B {roff(field.name)}\n{roff(described(field))}" for field in shape.fields]
    return "\n".join(lines)


def _head(argument: Argument) -> str:
    names = ", ".join(f"\\fB{roff(name)}\\fR" for name in argument.names)
    value = f"\\fI{roff(argument.value)}\\fR" if argument.value else ""
    return " ".join(filter(None, (names, value)))


def _paragraphs(text: str) -> str:
    return "\n".join(line if line == ".PP" else roff(line) for line in text.splitlines())


def plain(page: str) -> str:
    """The page without its macros, for a terminal where nothing formats it."""
    lines: list[str] = []
    tagged = False
    for line in page.splitlines():
        macro, _, rest = line.partition(" ") if line.startswith(".") else ("", "", line)
        text = rest
        for mark in ("\\fB", "\\fI", "\\fR", "\\&"):
            text = text.replace(mark, "")
        text = text.replace("\\-", "-").replace("\\e", "\\")
        if macro in (".SH", ".SS"):
            lines += ["", text if macro == ".SH" else f"  {text}"]
        elif macro == ".TP":
            tagged = True
        elif macro == ".PP":
            lines.append("")
        elif macro in ("", ".B", ".I"):
            lines.append(("    " if tagged else "        " if lines and lines[-1] else "    ") + text)
            tagged = False
    return "\n".join(lines) + "\n"


def roff(text: str) -> str:
    """Text as roff takes it literally: no line begins a macro, no hyphen is typeset as a dash."""
    lines = text.replace("\\", "\\e").replace("-", "\\-").splitlines()
    return "\n".join("\\&" + line if line[:1] in (".", "'") else line for line in lines)
