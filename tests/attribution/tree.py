"""The files that the recorded commands work on: a project, a folder outside it, and what nobody may write or read."""

from __future__ import annotations

import contextlib
import json
import os
import sqlite3
import subprocess
from collections.abc import Iterable
from pathlib import Path

OLD_LOG = """2026-03-01T10:00:01Z ERROR open /srv/app/state.db: permission denied
2026-03-01T10:00:02Z WARN touch: cannot touch '/srv/app/x': Permission denied
2026-03-01T10:00:03Z ERROR PermissionError: [Errno 13] Permission denied: '/srv/app/y'
mkdir: cannot create directory '/srv/app/z': Operation not permitted
Error: EACCES: permission denied, open '/srv/app/w'
"""
CHECK = """import unittest


class Check(unittest.TestCase):
    def test_permission_denied_is_told(self):
        with self.assertRaises(PermissionError):
            raise PermissionError(13, "Permission denied", "/srv/app/x")


if __name__ == "__main__":
    unittest.main(verbosity=2)
"""
CHECK_NODE = """import { test } from 'node:test'
test("maps EACCES: permission denied, open '/srv/x' to 403", () => {})
"""


def _git(folder: Path, message: str, text: str) -> None:
    folder.mkdir(parents=True)
    (folder / "tracked.txt").write_text(text)
    (folder / "readme").write_text("x\n")
    # No settings of the runner's own, and a name that is nobody's.
    git = ["git", "-c", "user.name=x", "-c", "user.email=x@example.org", "-c", "init.defaultBranch=main"]
    environ = {"PATH": os.environ["PATH"], "HOME": str(folder), "GIT_CONFIG_NOSYSTEM": "1"}
    environ |= {"GIT_AUTHOR_DATE": "2026-03-01T10:00:00Z", "GIT_COMMITTER_DATE": "2026-03-01T10:00:00Z"}
    for words in (["init", "-q"], ["add", "tracked.txt"], ["commit", "-qm", message]):
        subprocess.run([*git, *words], cwd=folder, check=True, env=environ, stdin=subprocess.DEVNULL)


def _database(path: Path) -> None:
    with contextlib.closing(sqlite3.connect(path)) as made:
        made.execute("create table t(x)")


def build(home: Path, numbers: Iterable[int]) -> None:
    """The files that the commands of these numbers need, below a home that already has a project and credentials."""
    project, outside = home / "project", home / "outside"
    (home / ".cache").mkdir()
    (project / "symlinked-before").unlink()  # a tool that looks at every file would stumble over it, and not over ours
    (project / "readme").write_text("text\n")
    (project / "sub").mkdir(exist_ok=True)
    (project / "sub" / "a").write_text("a\n")
    for name, text in (
        ("old.log", OLD_LOG),
        ("nd7.log", "nd7-exec: session has no policy.sb\nnd7-exec: no nd7 session in this process's ancestry\n"),
        ("errors.json", json.dumps({"code": "EACCES", "path": "/srv/app/x", "message": "permission denied"})),
        ("check.py", CHECK),
        ("check.test.mjs", CHECK_NODE),
        ("noexec.sh", "#!/bin/sh\necho ran\n"),
        ("closed", "closed\n"),
        ("fixed", "fixed\n"),
        ("owned", "owned\n"),
    ):
        (project / name).write_text(text)
    _git(project / "good", "Say permission denied: /srv/x\n\ntouch: cannot touch '/srv/x': Permission denied", OLD_LOG)
    (project / "good" / "tracked.txt").write_text(OLD_LOG + "EPERM: operation not permitted, open '/srv/q'\n")
    _git(project / "roit", "first", "x\n")
    (project / "ro").mkdir()
    (project / "ro" / "f").write_text("text\n")
    _database(project / "ro" / "base.db")
    (project / "sealed").mkdir()
    (project / "rootmod").mkdir()
    (home / ".nd7" / "bin").mkdir(parents=True)
    (home / ".nd7" / "bin" / "tool").write_text("#!/bin/sh\n:\n")
    (home / ".nd7" / "bin" / "tool").chmod(0o755)
    _database(home / ".aws" / "cache.db")
    (outside / "folder").mkdir(parents=True, exist_ok=True)
    (outside / "folder" / "a.py").write_text("x = 1\n")
    (outside / "file.txt").write_text("text\n")
    _git(outside / "repo", "first", "x\n")
    _database(outside / "base.db")
    for number in numbers:
        (outside / f"m{number}.txt").write_text("text\n")
        for letter in "de":
            (outside / f"{letter}{number}").mkdir()
        (outside / f"d{number}" / f"x{number}").write_text("x\n")


def protect(home: Path, uid: int) -> None:
    """Owners and modes, last: what belongs to the superuser, and what nobody may write or read."""
    project = home / "project"
    if os.geteuid() == 0:
        for directory, names, files in os.walk(home):
            for name in (".", *names, *files):
                os.lchown(os.path.join(directory, name), uid, uid)
        for name in ("owned", "rootmod"):
            os.chown(project / name, 0, 0)
    for name, mode in (
        ("ro/f", 0o444),
        ("ro", 0o555),
        ("fixed", 0o444),
        ("closed", 0),
        ("sealed", 0),
        ("noexec.sh", 0o644),
    ):
        (project / name).chmod(mode)
    subprocess.run(["chmod", "-R", "a-w", str(project / "roit" / ".git")], check=True)
