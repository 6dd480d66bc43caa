"""Which shell runs the session's commands: the one that the agent itself would have used.

The agent writes its commands for one shell (Claude Code sources a snapshot of that shell's functions), so another
would break them.  It is decided once, from the person's own environment, before anything is confined.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Mapping

from nd7core.errors import Nd7Error

DIRECTORIES = ("/bin", "/usr/bin", "/usr/local/bin", "/opt/homebrew/bin")


def works(path: str) -> bool:
    """Whether `path` is an absolute path of a program."""
    return os.path.isabs(path) and os.path.isfile(path) and os.access(path, os.X_OK)


def agent_shell(environ: Mapping[str, str]) -> str:
    """The absolute path of the shell, as Claude Code 2.1 chooses (measured: tests/e2e).

    CLAUDE_CODE_SHELL if it names a bash or a zsh that works; then SHELL, the same; then bash and zsh as found on
    PATH and in the usual directories, the one that SHELL names first, zsh before bash otherwise; at last /bin/sh.

    Raises:
        Nd7Error: when there is none at all.
    """
    chosen = environ.get("CLAUDE_CODE_SHELL", "")
    if ("bash" in chosen or "zsh" in chosen) and works(chosen):
        return chosen
    own = environ.get("SHELL", "")
    if ("bash" in own or "zsh" in own) and works(own):
        return own
    order = ("bash", "zsh") if "bash" in own else ("zsh", "bash")
    found = {name: shutil.which(name, path=environ.get("PATH", os.defpath)) for name in order}
    candidates = [found[order[0]] or ""]
    candidates += [f"{directory}/{name}" for name in order for directory in DIRECTORIES]
    candidates += [found[order[1]] or "", "/bin/sh"]
    for candidate in candidates:
        if works(candidate):
            return candidate
    raise Nd7Error(
        "no shell was found to run commands with", hint="set SHELL to the path of bash or zsh", exit_code=126
    )
