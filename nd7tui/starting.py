"""Starting `nd7 run --detach` from the dashboard: the session is nobody's child here and lives on without it.

What is asked for, as a command line; which folders there are and which were used; and running it.
"""

from __future__ import annotations

import errno
import os
import shlex
import subprocess
import sys
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from nd7core.paths import within
from nd7core.record import WORKTREES
from nd7tui.model import SessionRow

SECONDS = 30.0
# git may have a large repository to check out, and hooks to run; `nd7 run` itself gives it so much.
WORKTREE_SECONDS = 660.0
MOST_RECENT = 20
MOST_NAMES = 200


@dataclass(frozen=True, slots=True)
class Start:
    """What is asked for.

    Attributes:
        project: the folder's whole path.
        prompt: handed to the agent as it is, line ends and blanks included; one of blanks alone is none.
        worktree: its name, or "": in the project itself.
    """

    agent: str
    project: str
    prompt: str = ""
    name: str = ""
    worktree: str = ""

    def words(self) -> list[str]:
        """The arguments of `nd7`.  A prompt stays one: behind a dash at its beginning, and behind claude's own options,
        some of which (`--allowedTools`) take all the words that follow."""
        words = ["run", "--detach", "--project", self.project]
        if self.worktree:
            # With an equals sign, so that a name that is none is refused as one, and not read as an option.
            words += [f"--worktree={self.worktree}"] if self.worktree.startswith("-") else ["--worktree", self.worktree]
        if self.name:
            words += [f"--name={self.name}"] if self.name.startswith("-") else ["--name", self.name]
        try:
            agent = shlex.split(self.agent)
        except ValueError:  # a quote that is still open, while one types
            agent = [self.agent]
        words += agent
        if self.prompt.strip():
            options = agent[1:] and os.path.basename(agent[0]) == "claude"
            words += ["--", self.prompt] if options or self.prompt.startswith("-") else [self.prompt]
        return words

    def command(self) -> str:
        """As one would type it."""
        return shlex.join(["nd7", *self.words()])


def at_home(value: str, home: str) -> str:
    """A path as typed, with the person's own `~` written out."""
    return home + value[1:] if value == "~" or value.startswith("~/") else value


def folders(value: str, home: str) -> tuple[str, list[str]]:
    """What stands in a path before the name that is being typed, and the folders, by name, that it may become.

    Hidden ones only where the dot is typed; none that could not be shown.  Reads one directory.
    """
    if value == "~":
        return "", ["~"]
    full = at_home(value, home)
    folder, slash, start = full.rpartition("/")
    if not slash or not full.startswith("/"):
        return value, []
    try:
        with os.scandir(folder or "/") as entries:
            names = sorted(
                entry.name
                for entry in entries
                if entry.name.startswith(start)
                and (start or not entry.name.startswith("."))
                and entry.name.isprintable()
                and entry.is_dir()
            )
    except (OSError, ValueError):
        return value, []
    return value[: len(value) - len(start)], names


def complete(value: str, home: str) -> str | None:
    """The first folder, by name, whose path begins with `value` and is longer; None where there is none."""
    before, names = folders(value, home)
    return next((before + name + "/" for name in names if before + name != value), None) if value else None


def expand(value: str, home: str) -> tuple[str, list[str]]:
    """What Tab makes of a path, as in a shell.

    Returns:
        The path as far as it is certain, and the folders that it may become, MOST_NAMES at most: where it has become
        one, those in that.
    """
    before, names = folders(value, home)
    if not names:
        return value, []
    if len(names) > 1:
        first, last = names[0], names[-1]  # sorted: what these two begin with, all do
        same = next((at for at, char in enumerate(first) if last[at : at + 1] != char), len(first))
        return before + first[:same], names[:MOST_NAMES]
    whole = before + names[0] + "/"
    return whole, folders(whole, home)[1][:MOST_NAMES]


def recent(sessions: Iterable[SessionRow], home: str) -> list[tuple[str, str]]:
    """Projects of sessions, the latest first and each once, with the worktree's name where it was one of nd7's.

    A past session's project may be its agent's own word.  What no person works in is not offered, for one key more and
    all of it would be writable: the home directory and what holds it, and folders with a dot.
    """
    found: dict[tuple[str, str], None] = {}
    for session in sorted(sessions, key=lambda session: session.started or session.changed, reverse=True):
        path = session.project
        plain = path.isprintable() and path.startswith("/") and os.path.normpath(path) == path
        if plain and "/." not in path and not within(home, path):
            found[_apart(session)] = None
    return list(found)[:MOST_RECENT]


def _apart(session: SessionRow) -> tuple[str, str]:
    holder, _, name = session.project.rpartition("/")
    main = holder.removesuffix(WORKTREES)
    if main != holder and session.name == f"{os.path.basename(main)}/{name}":
        return main, name
    return session.project, ""


def nd7(*words: str) -> list[str]:
    """The command line of `nd7 WORDS...`.

    -P: not with the folder that one is in before everything else on the module path, for a session may write there.
    """
    return [sys.executable, "-P", "-m", "nd7tui.cli", *words]


def start(words: Sequence[str], seconds: float = SECONDS) -> tuple[bool, str]:
    """Run `nd7 WORDS...` to the end of its starting.  Returns whether it worked, and the last line that it said."""
    try:
        ended = subprocess.run(
            nd7(*words), stdin=subprocess.DEVNULL, capture_output=True, timeout=seconds, start_new_session=True
        )
    except subprocess.TimeoutExpired:
        return False, f"it did not come up within {seconds:.0f} s"
    except ValueError:
        return False, "what was typed holds a NUL or half a character, which no command line can; take it out"
    except OSError as error:
        if error.errno == errno.E2BIG:
            return False, "the prompt is too long for a command line; write it to a file and name that in the prompt"
        return False, str(error)
    lines = ended.stderr.decode("utf-8", "replace").splitlines()
    told = "; ".join(filter(None, (" ".join(line.split()).removeprefix("nd7: ") for line in lines)))
    if ended.returncode:
        return False, told or f"it ended with status {ended.returncode}"
    return True, told or "started"
