"""Where the demo plays: a throw-away directory with a home, a project and a temp directory of its own.

Nothing of the person's is in it, and nothing of it is outside: `remove` leaves no trace.  The home is not the one in
the password database, which is why the demo hands nd7 its Places through Python and never through the environment.
"""

from __future__ import annotations

import os
import secrets
import shlex
import shutil
import sys
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from nd7core.errors import Nd7Error
from nd7core.paths import Places, places_of
from nd7tui.demo import agent

NAME = "nd7-demo"

FILES = {
    "home/.ssh/id_ed25519": "-----BEGIN OPENSSH PRIVATE KEY-----\nnot a key: this is nd7's demo\n",
    "home/notes/releases.txt": "v0 released\n",
    "home/notes/.envrc": "# what direnv runs when somebody enters the folder\n",
    "home/notes/ideas.md": "- a demo\n",
    "home/notes/meetings/monday.md": "- ship it\n",
    "home/notes/wifi-password.txt": "not a password: this is nd7's demo\n",
    "home/.cache/.keep": "",
    "home/app/README.md": "# app\n\nThe demo's project.\n",
    "tmp/.keep": "",
}
# What the agent asks a port with: no machine is sure to have curl, or a shell with /dev/tcp.
FETCH = """#!{python} -IS
import socket, sys
host, port = sys.argv[1].split(":")
try:
    socket.create_connection((host, int(port)), 2).close()
except OSError as error:
    sys.exit(f"fetch: connect to {{host}}:{{port}}: {{error.strerror}}")
"""


@dataclass(frozen=True, slots=True)
class Stage:
    """The demo's directory: `top` is absolute and canonical."""

    top: str

    @property
    def home(self) -> str:
        return os.path.join(self.top, "home")

    @property
    def project(self) -> str:
        return os.path.join(self.home, "app")

    @property
    def places(self) -> Places:
        """Where nd7 keeps the demo's session and log."""
        return places_of(self.home)

    @property
    def program(self) -> str:
        """The agent, as a program of its own name."""
        return os.path.join(self.top, "bin", "demo-agent")

    def log(self) -> str:
        """The directory of the agent's audit log, or "" while there is none; nd7's own log is beside it."""
        logs = os.path.join(self.places.state, "sessions")
        try:
            names = [name for name in os.listdir(logs) if not name.startswith("nd7-")]
        except OSError:
            return ""
        return os.path.join(logs, min(names)) if names else ""

    def environ(self, environ: Mapping[str, str]) -> dict[str, str]:
        """The agent's environment: the person's language, shell and terminal, and nothing else of theirs."""
        kept = {name: environ[name] for name in ("LANG", "LC_ALL", "SHELL", "TERM") if name in environ}
        path = environ.get("PATH", os.defpath)
        return {**kept, "PATH": path, "HOME": self.home, "TMPDIR": os.path.join(self.top, "tmp"), "USER": "demo"}

    def remove(self) -> None:
        """Take it away.  Done twice, or half done by another process, is no error."""
        shutil.rmtree(self.top, ignore_errors=True)


def bases() -> list[str]:
    """Directories that the stage can be in, the best first.

    /tmp comes late: every session may write there, so once the demo has ended its log would seem to say that a
    refused write below /tmp was nobody's policy.
    """
    cache = os.path.join(os.path.expanduser("~"), ".cache")
    wanted = [os.environ.get("TMPDIR", ""), "/var/tmp", tempfile.gettempdir(), cache]
    return [path for path in wanted if os.path.isabs(path)]


def runs_programs(directory: str) -> bool:
    """Whether programs can be run from it: some machines mount /tmp without."""
    try:
        return not os.statvfs(directory).f_flag & getattr(os, "ST_NOEXEC", 8) and os.access(directory, os.W_OK)
    except OSError:
        return False


def make() -> Stage:
    """Make the directory and what is in it.  Raises Nd7Error where no directory will do."""
    for base in bases():
        if runs_programs(base):
            return furnish(_directory(os.path.realpath(base)))
    raise Nd7Error("the demo needs a temp directory that it can write and run programs from", hint="set TMPDIR to one")


def _directory(base: str) -> str:
    # A name that reads well in a path, where it is free: mkdir takes no link that somebody else has put there.
    names = [NAME, *(f"{NAME}-{secrets.token_hex(3)}" for _ in range(20))]
    for name in names:
        path = os.path.join(base, name)
        try:
            os.mkdir(path, 0o700)
        except FileExistsError:
            continue
        except OSError as error:
            raise Nd7Error(f"cannot make {path}: {error.strerror}", hint="set TMPDIR to another directory") from None
        return path
    raise Nd7Error(f"cannot make a directory for the demo in {base}", hint="set TMPDIR to another directory")


def furnish(top: str) -> Stage:
    """Fill an empty directory."""
    stage = Stage(top)
    for name, text in FILES.items():
        path = Path(top, name)
        path.parent.mkdir(0o700, parents=True, exist_ok=True)
        path.write_text(text, "utf-8")
        path.chmod(0o600)
    python = os.path.realpath(sys.executable)
    _program(Path(stage.project, "fetch"), FETCH.format(python=python))
    # -X utf8: what the agent prints goes to our pipe, whatever the person's locale is.
    words = f"exec {shlex.quote(python)} -I -X utf8 {shlex.quote(os.path.realpath(agent.__file__))}"
    _program(Path(stage.program), f'#!/bin/sh\n{words} "$@"\n')
    return stage


def _program(path: Path, text: str) -> None:
    path.parent.mkdir(0o700, exist_ok=True)
    path.write_text(text, "utf-8")
    path.chmod(0o700)
