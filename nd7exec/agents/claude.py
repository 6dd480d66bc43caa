"""Claude Code: how it is recognised, what it may write, and what it is started with.

Measured with 2.1.197 on Linux (strace, and Landlock refusing): without a prompt, with one, and on its own screen,
with everything unwritable but the subtrees of `STATE`, it runs a session to the end, writes its transcript, and resumes
it.  What it then cannot do: keep typed prompts for the arrow key of later sessions (`history.jsonl`, which it locks by
a directory beside it), remember that a folder is trusted, refresh a subscription's sign-in (it locks that too, and goes
on with the token it has), and change its settings, which is the point.
"""

from __future__ import annotations

import os
import re
import time
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from nd7core.errors import Nd7Error
from nd7core.paths import canonical, within
from nd7exec.agents import Launch, claude_arguments

STATE = ("session-env", "sessions", "shell-snapshots", "tasks", "todos", "teams", "file-history", "plans", "debug")
"""Below the configuration directory, written by a session; a session's transcripts come beside these."""

PRIVATE = ("session-env", "shell-snapshots", "teams")
"""Of these: scripts that a session's every command sources, and the mailboxes of its team, kept while it runs.  They
lie beside those of the person's other sessions, confined or not, which would run the ones and obey the others (a
message there may set an agent's permission mode); so it gets some of its own."""

SPARE = ("shell-snapshots", "teams")
"""Of these, what is not written where a session can have none of its own.  Without the snapshots each command starts a
login shell (measured), without the mailboxes there is no team."""

SETTINGS = (
    "settings.json",
    "settings.local.json",
    "CLAUDE.md",
    "agents",
    "commands",
    "hooks",
    "output-styles",
    "plugins",
    "rules",
    "skills",
    "workflows",
    "backups",
    "keybindings.json",
    "daemon.json",
    "loop.md",
    "local",
    ".credentials.json",
    ".config.json",
)
"""Below the configuration directory: these decide what the next session starts, or as whom."""

LONGEST_NAME = 200
NATIVE = re.compile(r"/@anthropic-ai/claude-code(-[a-z0-9-]+)?/|/share/claude/versions/[^/]+$")
FORWARDS = re.compile(rb'^[^#\n]*\b(?:claude|claude-code)(?:\.exe)?["\']?(?:\s[^\n]*)?\s"\$@"', re.MULTILINE)
SOON = 3600  # seconds; a sign-in that ends before is worth a word


class Claude:
    """The adapter."""

    name = "claude"

    def knows(self, program: str, name: str) -> bool:
        """By its name, by where a link leads, or by a script that hands its arguments on to it."""
        real = os.path.realpath(program)
        names = {os.path.basename(path).removesuffix(".exe") for path in (name, program, real)}
        return "claude" in names or bool(NATIVE.search(real)) or _forwards(real)

    def prepare(self, launch: Launch) -> Launch:
        """See `Adapter.prepare`."""
        config = configuration(launch)
        given = claude_arguments.merge(launch.argv[1:], launch.project, launch.record)
        environ = dict(launch.environ)
        # Takes every Bash command, also the subagents' and those a person types with `!`, and fails closed.  One path
        # without an option, because stdio MCP servers are started with the whole text as the program's name.
        environ["CLAUDE_CODE_SHELL_PREFIX"] = launch.prefix or f"{launch.exit} -c"
        environ.setdefault("DISABLE_AUTOUPDATER", "1")  # it cannot: its own files are unwritable
        environ.setdefault("CLAUDE_CODE_DISABLE_OFFICIAL_MARKETPLACE_AUTOINSTALL", "1")  # nor write plugins
        for key in ("TMPDIR", "CLAUDE_CODE_TMPDIR"):
            # With an unwritable one `claude -p` ends at once, status 0, and says nothing (measured).
            if environ.get(key) and not within(canonical(environ[key], cwd=launch.project), launch.tmp):
                environ[key] = launch.tmp
        writable = _state(config, launch.project)
        return replace(
            launch,
            argv=(launch.argv[0], *given.arguments),
            environ=environ,
            writable=(*launch.writable, *writable),
            private=(*launch.private, *(canonical(os.path.join(config, name)) for name in PRIVATE)),
            spare=(*launch.spare, *(canonical(os.path.join(config, name)) for name in SPARE)),
            protected=(*launch.protected, *_protected(config, launch)),
            allowed_ids=launch.allowed_ids | given.session_ids,
            older=_conversations(os.path.join(config, "projects", project_folder(launch.project))),
            choosing=given.choosing,
            notes=(*launch.notes, *_notes(config, launch)),
            agent_config=config,
            output_roots=(os.path.join(_temporary(environ, launch), f"claude-{os.getuid()}"),),
            hook_command=launch.record,
        )


def _conversations(folder: str) -> frozenset[str]:
    """The ids of the conversations whose transcripts lie in a folder."""
    names = (name.removesuffix(".jsonl") for name in os.listdir(folder) if name.endswith(".jsonl"))
    return frozenset(name for name in names if claude_arguments.UUID.fullmatch(name))


def _temporary(environ: Mapping[str, str], launch: Launch) -> str:
    """Where claude keeps the outputs of running commands."""
    own = environ.get("CLAUDE_CODE_TMPDIR") or environ.get("TMPDIR") or "/tmp"
    return canonical(own, cwd=launch.project)


def _forwards(path: str) -> bool:
    """Whether a script runs claude with its own arguments: somebody's wrapper under another name."""
    try:
        fd = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:
        return False
    try:
        head = os.read(fd, 16384)
    except OSError:
        return False
    finally:
        os.close(fd)
    return head.startswith(b"#!") and bool(FORWARDS.search(head))


def configuration(launch: Launch) -> str:
    """The configuration directory, canonical: CLAUDE_CONFIG_DIR, else `.claude` in the HOME that claude will see.

    This is the person's own environment, read before anything runs.  Wherever it points, what is opened there is
    the agent's state by name and nothing else.

    Raises:
        Nd7Error: it lies where no session may write.
    """
    own = launch.environ.get("CLAUDE_CONFIG_DIR") or os.path.join(launch.environ.get("HOME") or launch.home, ".claude")
    found = canonical(own, cwd=launch.project)
    for name in (".ssh", ".aws", ".nd7"):
        if within(found, os.path.join(launch.home, name)):
            raise Nd7Error(f"Claude Code's configuration would lie in {found}, which no session may write")
    return found


def project_folder(project: str) -> str:
    """The name below `projects` under which claude keeps a folder's transcripts.

    Examples:
        >>> project_folder("/home/dev/my_app.2")
        '-home-dev-my-app-2'
    """
    text = os.fsencode(project).decode("utf-8", "replace")
    # JavaScript counts UTF-16 units: a character beyond the first plane is two, and becomes two dashes.
    units = text.encode("utf-16-le")
    codes = [int.from_bytes(units[i : i + 2], "little") for i in range(0, len(units), 2)]
    name = "".join(chr(code) if code < 128 and chr(code).isalnum() else "-" for code in codes)
    if len(name) <= LONGEST_NAME:
        return name
    total = 0
    for code in codes:
        total = ((total << 5) - total + code) & 0xFFFFFFFF
    signed = total - (1 << 32) if total >> 31 else total
    return f"{name[:LONGEST_NAME]}-{_base36(abs(signed))}"


def _base36(number: int) -> str:
    digits = ""
    while number:
        number, rest = divmod(number, 36)
        digits = "0123456789abcdefghijklmnopqrstuvwxyz"[rest] + digits
    return digits or "0"


def _state(config: str, project: str) -> list[str]:
    """Make the folders of the agent's state where they are missing, and name them.

    A session cannot make them, for it may not write the directory that they are in.  Other projects' transcripts and
    memories stay out: what is written there would speak to sessions that have nothing to do with this one.
    """
    found = []
    for name in (*STATE, os.path.join("projects", project_folder(project))):
        path = os.path.join(config, name)
        try:
            os.makedirs(path, mode=0o700, exist_ok=True)
        except OSError as error:
            raise Nd7Error(
                f"{path}, which Claude Code needs, cannot be made: {error.strerror}",
                hint="make it a directory that you may write",
                exit_code=126,
            ) from None
        found.append(canonical(path))
    return found


def _protected(config: str, launch: Launch) -> list[str]:
    home = launch.environ.get("HOME") or launch.home
    names = [os.path.join(config, name) for name in SETTINGS]
    names += [os.path.join(top, ".claude.json") for top in (home, launch.home, config)]
    roots = [launch.project, launch.tmp]
    # Something in a writable place that does not exist cannot be kept from being made, so only what is there counts.
    wanted = [path for path in names if os.path.lexists(path) or not any(within(path, root) for root in roots)]
    found = dict.fromkeys([*wanted, *map(canonical, wanted)])
    if not within(config, os.path.join(launch.project, ".claude")):
        found.update(dict.fromkeys(_project_settings(launch.project)))
    return [path for path in found if not os.path.islink(path)]


def _project_settings(project: str) -> list[str]:
    """The project's own settings: hooks, permissions, commands and servers that the next session would start.

    The folder is made where there is none, so that it can be kept: git does not see an empty one.
    """
    folder = os.path.join(project, ".claude")
    if os.path.islink(folder):
        raise Nd7Error(
            f"{folder} is a symbolic link, which the session could turn to settings of its own",
            hint="put the directory that it names in its place",
            exit_code=126,
        )
    try:
        os.makedirs(folder, exist_ok=True)
    except OSError as error:
        raise Nd7Error(f"{folder} cannot be made: {error.strerror}", exit_code=126) from None
    servers = os.path.join(project, ".mcp.json")
    return [folder, *([servers] if os.path.isfile(servers) and not os.path.islink(servers) else [])]


def _notes(config: str, launch: Launch) -> list[str]:
    """What a person should know before the session: it cannot sign in, and where a sign-in is about to end."""
    import json

    notes = []
    home = launch.environ.get("HOME") or launch.home
    if not any(os.path.exists(os.path.join(top, ".claude.json")) for top in (home, config)):
        notes.append("Claude Code has never run here: start it once without nd7, so that it can save its sign-in")
    try:
        with Path(config, ".credentials.json").open("rb") as file:
            expires = json.loads(file.read(1 << 20))["claudeAiOauth"]["expiresAt"]
        if isinstance(expires, int) and expires / 1000 < time.time() + SOON:
            notes.append("Claude Code's sign-in ends within the hour and cannot be renewed in here: run `claude` once")
    except (OSError, ValueError, LookupError, TypeError):
        pass
    return notes
