"""Claude Code's command line: nd7's settings and paragraph in front, and the person's own put together with them.

Of two `--settings`, and of two `--append-system-prompt`, the last one wins and the first is forgotten (measured with
2.1.197), so a person's own would silence the hooks.  Both are read here and joined.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import takewhile
from pathlib import Path
from typing import Any

from nd7core.errors import Nd7Error

EVENTS = (
    "PreToolUse",
    "PostToolUse",
    "PostToolUseFailure",
    "PostToolBatch",  # the only word of calls that a rule refuses, or that fail before they run
    "PermissionRequest",
    "PermissionDenied",
    "UserPromptSubmit",
    "UserPromptExpansion",
    "Notification",
    "SessionStart",
    "SessionEnd",
    "Setup",
    "Stop",
    "StopFailure",
    "SubagentStart",
    "SubagentStop",
    "PreCompact",
    "PostCompact",
    "TaskCreated",
    "TaskCompleted",
    "TeammateIdle",
    "ConfigChange",
    "InstructionsLoaded",
    "CwdChanged",
    "FileChanged",
    "Elicitation",
    "ElicitationResult",
)
"""What tells what happened.  Left out: WorktreeCreate and WorktreeRemove, whose hooks take the work over, and
MessageDisplay: a process for every message that is drawn, on the screen after the call it was said before, and for
none of a subagent's.  The transcript has those words too, each with its time (`nd7core.transcript`)."""

HOOK_SECONDS = 5  # the client's own limit is 4, so it is the client that says what went wrong

PARAGRAPH = (
    "Bash commands in this session run under a kernel policy of nd7, the sandbox that this session was started in. "
    "The project directory and the temporary directory are writable and most of the rest is not; ~/.ssh, ~/.aws "
    "and ~/.nd7 cannot be read; of the network only HTTPS (TCP port 443) and DNS go out, localhost included. When a "
    "command fails with `Permission denied`, `Operation not permitted`, `Read-only file system`, or a line that "
    "begins with `nd7-exec:`, that is this policy and not Claude Code's permission rules. Do not work round it: do "
    "not try other paths, other tools or other users. Tell the person what was denied, naming the exact path or host "
    "and port. `nd7 allow <path>`, typed by the person in another terminal, makes a path writable for Bash from the "
    "next call on; Write, Edit and Read run in this process and reach it only after a restart with a wider policy."
)

CONTINUE = re.compile(r"-[a-z]*c[a-z]*")  # alone or among other letters
UUID = re.compile(r"[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}")
LONGEST_FILE = 8 << 20


@dataclass(frozen=True, slots=True)
class Merged:
    """The command line behind the program's name, and what it asks for.

    Attributes:
        session_ids: the sessions that it names.
        choosing: it asks for an older session that it does not name: the latest one, or one from a list.
    """

    arguments: tuple[str, ...]
    session_ids: frozenset[str]
    choosing: bool = False


def merge(arguments: Sequence[str], cwd: str, record: str) -> Merged:
    """Join the person's arguments with nd7's.

    Args:
        arguments: without the program's name.
        cwd: where claude will look for a settings file that is named relatively.
        record: the absolute path of the hook's program.

    Raises:
        Nd7Error: a settings or prompt file of the person's cannot be read; claude would not start either.
    """
    settings, rest = _take(arguments, ("--settings",))
    texts, rest = _take(rest, ("--append-system-prompt", "--append-system-prompt-file"))
    joined = _with_hooks(_read_settings(settings[-1][1], cwd) if settings else {}, record)
    # ASCII: a lone surrogate, which a file can hold as \ud800, has no bytes that an argument could carry.
    ours = ["--settings", json.dumps(joined, separators=(",", ":"))]
    paragraphs = [PARAGRAPH]
    for option, value in texts[-1:]:
        paragraphs.append(_read(value, cwd, option) if option.endswith("-file") else value)
    ours += ["--append-system-prompt", "\n\n".join(paragraphs)]
    return Merged((*ours, *rest), _session_ids(arguments), _choosing(arguments))


def _take(arguments: Sequence[str], options: Sequence[str]) -> tuple[list[tuple[str, str]], list[str]]:
    """Split options with one value from the rest; what stands behind `--` is never an option."""
    taken: list[tuple[str, str]] = []
    rest: list[str] = []
    words = iter(arguments)
    for word in words:
        name, equals, value = word.partition("=")
        if word == "--":
            rest += [word, *words]
        elif name in options and equals:
            taken.append((name, value))
        elif word in options:
            given = next(words, None)
            if given is None:
                rest.append(word)  # claude's own error says what is missing
            else:
                taken.append((word, given))
        else:
            rest.append(word)
    return taken, rest


def _session_ids(arguments: Sequence[str]) -> frozenset[str]:
    taken, _ = _take(arguments, ("--resume", "-r", "--session-id"))
    return frozenset(value.lower() for _, value in taken if UUID.fullmatch(value))


def _choosing(arguments: Sequence[str]) -> bool:
    """Whether the agent is to choose which older session it goes on with.

    Examples:
        >>> _choosing(["-pc", "go on"]), _choosing(["--resume"]), _choosing(["--", "-c"])
        (True, True, False)
        >>> _choosing(["--resume=0a1b2c3d-0000-4000-8000-0123456789ab"])
        False
    """
    words = list(takewhile(lambda word: word != "--", arguments))
    for index, word in enumerate(words):
        name, equals, value = word.partition("=")
        if name in ("--continue", "--from-pr") or CONTINUE.fullmatch(name):
            return True
        given = value if equals else next(iter(words[index + 1 :]), "")
        if name in ("--resume", "-r") and UUID.fullmatch(given) is None:
            return True
    return False


def _read(name: str, cwd: str, option: str) -> str:
    path = Path(os.path.join(cwd, name))
    try:
        if not path.is_file():
            raise Nd7Error(f"{option} {name}: no such file", exit_code=2)
        with path.open("rb") as file:
            return file.read(LONGEST_FILE).decode("utf-8", "replace")
    except OSError as error:
        raise Nd7Error(f"{option} {name}: {error.strerror}", exit_code=2) from None


def _read_settings(value: str, cwd: str) -> dict[str, Any]:
    """The person's own settings: JSON on the command line, or the file that it names."""
    inline = value.strip().startswith("{")
    text = value if inline else _read(value, cwd, "--settings")
    try:
        found = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise Nd7Error(f"--settings: {'the text' if inline else value} is no JSON ({error})", exit_code=2) from None
    if not isinstance(found, dict):
        raise Nd7Error("--settings: not a JSON object", exit_code=2)
    return found


def _with_hooks(own: dict[str, Any], record: str) -> dict[str, Any]:
    """The person's settings with claude's sandbox off and nd7's hook behind theirs, at every event."""
    hooks = dict(own["hooks"]) if isinstance(own.get("hooks"), dict) else {}
    # `args` makes claude start the program itself: no shell, and not the prefix that commands go through.
    hook = {"type": "command", "command": record, "args": [], "timeout": HOOK_SECONDS}
    for event in EVENTS:
        theirs = hooks.get(event)
        hooks[event] = [*(theirs if isinstance(theirs, list) else []), {"matcher": "*", "hooks": [hook]}]
    sandbox = own["sandbox"] if isinstance(own.get("sandbox"), dict) else {}
    # Its own sandbox would need namespaces and sockets that a session has not got, and confine nothing more.
    return {**own, "hooks": hooks, "sandbox": {**sandbox, "enabled": False}}
