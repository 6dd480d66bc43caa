"""What goes into the engine: one failed call, as text and what is known around it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from nd7core.attribution.rules import Rules

Platform = Literal["linux", "darwin"]

BASH_TOOLS = frozenset({"Bash", "BashOutput", "TaskOutput", "Shell", "shell", ""})
"""Tools whose commands run under the current policy, so that a grant reaches the next one."""
READING_TOOLS = frozenset({"Read", "Grep", "Glob", "LS", "NotebookRead"})
"""Tools that only read: what refused them was no rule about writing, whatever the words would bear."""
ASSISTANT = "assistant"


def platform_named(name: str) -> Platform:
    """`linux` or `darwin` for what a person or a program may call it."""
    return "darwin" if name.lower() in ("darwin", "macos", "mac", "osx", "mac os x") else "linux"


@dataclass(frozen=True, slots=True)
class Failure:
    """One call and what came of it.

    Attributes:
        platform: whose kernel: which errors can be a sandbox's differs.
        tool: the agent's tool; `assistant` for words the agent said.
        command: of Bash; for Write, Edit and Read the file's path, where known.
        exit_code: None where the agent does not tell.
        output: what came back, stdout and stderr in one.  Hostile.
        cwd: where the command started; the project where nothing is known.
        project, home, grants: of the session; what is needed to know its rules.
        rules: those that were in force, where they are known; made from the three above otherwise.
        temp: the temporary folders, where they are not the system's.
        protected: paths or name patterns that stay unwritable beside the usual ones.
        recorded: paths or `host:port` that the kernel or the broker itself recorded as refused for this call.
    """

    platform: Platform = "linux"
    tool: str = "Bash"
    command: str = ""
    exit_code: int | None = None
    output: str = ""
    cwd: str = ""
    project: str = ""
    home: str = ""
    grants: tuple[str, ...] = ()
    rules: Rules | None = None
    temp: tuple[str, ...] | None = None
    protected: tuple[str, ...] = ()
    recorded: tuple[str, ...] = ()
