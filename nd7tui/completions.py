"""Shell completions, made from the parsers: nothing in here names a command or an option.

A value is completed by how the parser prints it: a PATH by files, a GRANTED-PATH by what is granted, a DIR by
directories, a session by the pids of `~/.nd7/sessions`, an agent's session id by the logs there are.
"""

from __future__ import annotations

import shlex
from collections.abc import Callable

from nd7tui.usage import Argument, Command, commands

SESSIONS = "command ls ~/.nd7/sessions 2>/dev/null"
GRANTED = "command nd7 grants --paths 2>/dev/null"
LOGS = 'command ls "${XDG_STATE_HOME:-$HOME/.local/state}/nd7/sessions" 2>/dev/null'


def kind(argument: Argument) -> str:
    """What completes a value: "words", "file", "directory", "session", "log", "program", "granted" or ""."""
    value = argument.value
    if argument.choices:
        return "words"
    first = value.partition(" ")[0].strip("[]")
    found = {
        "DIR": "directory",
        "PROGRAM": "program",
        "SESSION-ID": "log",
        "PID": "session",
        "SESSION": "session",
        "S": "session",
        "GRANTED-PATH": "granted",
    }
    if first in found:
        return found[first]
    return "file" if first in ("FILE", "OUT") or "PATH" in first else ""


# bash


def bash() -> str:
    """For `eval "$(nd7 completions bash)"`."""
    cases = "\n".join(_bash_case(command) for command in commands())
    names = " ".join(command.name for command in commands())
    return f"""# bash completion for nd7; in ~/.bashrc: eval "$(nd7 completions bash)"
_nd7_words() {{ local IFS=$' \\t\\n'; COMPREPLY=($(compgen -W "$1" -- "$cur")); }}
_nd7_granted() {{
    local path wanted=${{cur/#~\\//$HOME/}}
    compopt -o filenames 2>/dev/null
    while IFS= read -r path; do [[ $path == "$wanted"* ]] && COMPREPLY+=("$path"); done < <({GRANTED})
}}
_nd7_value() {{
    local IFS=$'\\n'
    case $1 in
        words) _nd7_words "$2" ;;
        file) compopt -o filenames 2>/dev/null; COMPREPLY=($(compgen -f -- "$cur")) ;;
        directory) compopt -o filenames 2>/dev/null; COMPREPLY=($(compgen -d -- "$cur")) ;;
        program) COMPREPLY=($(compgen -c -- "$cur")) ;;
        session) _nd7_words "$({SESSIONS})" ;;
        log) _nd7_words "$({LOGS})" ;;
        granted) _nd7_granted ;;
    esac
}}
_nd7() {{
    local cur=${{COMP_WORDS[COMP_CWORD]}} prev=${{COMP_WORDS[COMP_CWORD-1]}} command=${{COMP_WORDS[1]}}
    COMPREPLY=()
    if ((COMP_CWORD == 1)); then
        _nd7_words "{names} --help --version"
        return
    fi
    case $command in
{cases}
    esac
}}
complete -F _nd7 nd7
"""


def _bash_case(command: Command) -> str:
    lines = [f"        {command.name})"]
    taking = [argument for argument in command.options if argument.value]
    if taking:
        lines.append("            case $prev in")
        for argument in taking:
            value = f"_nd7_value {kind(argument) or 'none'} {shlex.quote(' '.join(argument.choices))}"
            lines.append(f"                {'|'.join(argument.names)}) {value}; return ;;")
        lines.append("            esac")
    words = " ".join(name for argument in command.options for name in argument.names)
    lines.append(f'            if [[ $cur == -* ]]; then _nd7_words "{words}"; return; fi')
    for argument in command.positionals[:1]:
        lines.append(f"            _nd7_value {kind(argument) or 'none'} {shlex.quote(' '.join(argument.choices))}")
    lines.append("            ;;")
    return "\n".join(lines)


# zsh


def zsh() -> str:
    """For a file `_nd7` in a directory of `fpath`."""
    named = "\n".join(f"    {shlex.quote(f'{command.name}:{command.summary}')}" for command in commands())
    cases = "\n".join(_zsh_case(command) for command in commands())
    return f"""#compdef nd7
# zsh completion for nd7: nd7 completions zsh > ~/.zfunc/_nd7, with ~/.zfunc in fpath before compinit
_nd7_sessions() {{ local -a found; found=(${{(f)"$({SESSIONS})"}}); compadd -a found }}
_nd7_granted() {{ local -a found; found=(${{(f)"$({GRANTED})"}}); compadd -a found }}
_nd7_logs() {{ local -a found; found=(${{(f)"$({LOGS})"}}); compadd -a found }}
_nd7() {{
  local -a commands
  commands=(
{named}
  )
  if (( CURRENT == 2 )); then
    _describe command commands
    return
  fi
  local command=$words[2]
  shift words
  (( CURRENT-- ))
  case $command in
{cases}
  esac
}}
_nd7 "$@"
"""


ZSH = {
    "file": "_files",
    "directory": "_files -/",
    "session": "_nd7_sessions",
    "log": "_nd7_logs",
    "granted": "_nd7_granted",
    "program": "_command_names -e",
    "": " ",
}


def _zsh_case(command: Command) -> str:
    specs = []
    for argument in command.options:
        value = f":{_zsh(argument.value)}:{_zsh_action(argument)}" if argument.value else ""
        specs += [f"{name}[{_zsh(argument.help)}]{value}" for name in argument.names]
    for argument in command.positionals:
        if kind(argument) == "program":
            specs += [f":{_zsh(argument.value)}:_command_names -e", "*::arguments:_normal"]
        else:
            many = "*" if "..." in command.usage else ""
            specs.append(f"{many}:{_zsh(argument.value)}:{_zsh_action(argument)}")
    quoted = " \\\n        ".join(shlex.quote(spec) for spec in specs)
    return f"    {command.name})\n      _arguments -S \\\n        {quoted}\n      ;;"


def _zsh_action(argument: Argument) -> str:
    return f"({' '.join(argument.choices)})" if argument.choices else ZSH[kind(argument)]


def _zsh(text: str) -> str:
    for char in "\\[]:":
        text = text.replace(char, "\\" + char)
    return text


# fish


def fish() -> str:
    """For `~/.config/fish/completions/nd7.fish`."""
    lines = [
        "# fish completion for nd7: nd7 completions fish > ~/.config/fish/completions/nd7.fish",
        "complete -c nd7 -f",
    ]
    for command in commands():
        lines.append(f"complete -c nd7 -n __fish_use_subcommand -a {command.name} -d {_fish(command.summary)}")
        seen = f"-n '__fish_seen_subcommand_from {command.name}'"
        for argument in command.options:
            names = "".join(f" -l {n[2:]}" if n.startswith("--") else f" -s {n[1:]}" for n in argument.names)
            value = f" -x -a {_fish(_fish_values(argument))}" if argument.value else ""
            lines.append(f"complete -c nd7 {seen}{names}{value} -d {_fish(argument.help)}")
        for argument in command.positionals[:1]:
            lines.append(f"complete -c nd7 {seen} -a {_fish(_fish_values(argument))} -d {_fish(argument.help)}")
    return "\n".join(lines) + "\n"


def _fish_values(argument: Argument) -> str:
    values = {
        "file": "(__fish_complete_path)",
        "directory": "(__fish_complete_directories)",
        "session": "(command ls ~/.nd7/sessions 2>/dev/null)",
        "log": "(command ls ~/.local/state/nd7/sessions 2>/dev/null)",
        "granted": f"({GRANTED})",
        "program": "(__fish_complete_command)",
        "": "",
    }
    return " ".join(argument.choices) or values[kind(argument)]


def _fish(text: str) -> str:
    return "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"


SHELLS: dict[str, Callable[[], str]] = {"bash": bash, "zsh": zsh, "fish": fish}
