"""Run the commands of `programs.py` in real sessions and record what they printed, with the truth of the set-up, in
tests/fixtures/attribution/real_runs.jsonl.

    PYTHONPATH=.:tests/support python tests/attribution/collect.py

Every command runs confined twice, with namespaces (refusals are EROFS) and with Landlock alone (EACCES), and once
outside.  A refusal counts when the session made the difference, a look-alike when it made none: the truth comes from
the set-up and from that comparison, never from the engine.  Paths are made neutral before anything is recorded.
"""

from __future__ import annotations

import contextlib
import json
import os
import pwd
import re
import shutil
import sqlite3
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from confined import BARE, FULL, Cell, Config, Targets
from programs import Case, cases

from nd7core.attribution.messages import MESSAGES
from nd7core.policy.rules import LinuxRules

FIXTURE = Path(__file__).resolve().parents[1] / "fixtures" / "attribution" / "real_runs.jsonl"
HOME, PROJECT, TEMP = "/home/mara", "/home/mara/project", "/tmp"
UNPRIVILEGED = pwd.getpwnam("games").pw_uid
"""A user that is in the password database (ssh and psql ask) and owns nothing."""
LIMIT = 3000
"""Characters of an output that are recorded."""

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
NOT_NUMBERS = re.compile(r"\b[0-9a-f]{7,40}\b|0x[0-9a-f]+|\d+(?:\.\d+)?|(?<=[._/-])[A-Za-z0-9_]{6,10}(?=['\": \n]|$)")


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


def build(home: Path, numbers: int) -> None:
    """The files that the commands need, below a home that already has a project and credentials."""
    project, outside = home / "project", home / "outside"
    (home / ".cache").mkdir()
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
    for number in range(numbers):
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


class Neutral:
    """A tree's paths written as those of nobody's machine, and back."""

    def __init__(self, targets: Targets) -> None:
        self.pairs = [(targets.project, PROJECT), (targets.home, HOME), (targets.tmp, TEMP)]
        self.names = {"P": targets.project, "O": f"{targets.home}/outside", "H": targets.home, "T": targets.tmp}

    def text(self, text: str) -> str:
        for real, neutral in self.pairs:
            text = text.replace(real, neutral)
        return text

    def command(self, case: Case, number: int) -> str:
        return case.command.format(n=number, **self.names)


def real_rules(targets: Targets) -> LinuxRules:
    """Those of a session without grants, of this tree."""
    hidden = tuple(targets.path(name) for name in (".ssh", ".aws", ".nd7"))
    return LinuxRules(hidden=hidden, writable=(targets.project, targets.tmp), connect_tcp=(443,), dns=True)


def environment(targets: Targets) -> dict[str, str]:
    return {
        "HOME": targets.home,
        "TMPDIR": targets.tmp,
        "LANG": "C.UTF-8",
        "PATH": "/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin",
        "USER": "mara",
        "LOGNAME": "mara",
        "SHELL": "/bin/bash",
        "GIT_TERMINAL_PROMPT": "0",
        "GIT_AUTHOR_NAME": "x",
        "GIT_AUTHOR_EMAIL": "x@example.org",
        "GIT_COMMITTER_NAME": "x",
        "GIT_COMMITTER_EMAIL": "x@example.org",
        "GIT_CONFIG_NOSYSTEM": "1",
    }


class Outside:
    """The same tree without a session, as the same user."""

    def __init__(self, uid: int, numbers: int) -> None:
        self.top = tempfile.mkdtemp(prefix="nd7-alone-")
        os.chmod(self.top, 0o755)
        self.uid = uid
        self.targets = confined_home(self.top, numbers, uid)
        self.neutral = Neutral(self.targets)

    def run(self, command: str) -> tuple[int, str]:
        user = self.uid if os.geteuid() == 0 else None
        # An earlier command may have moved it away: out here that works.
        (Path(self.targets.project) / "readme").write_text("text\n")
        try:
            done = subprocess.run(
                ["/bin/bash", "-c", command],
                cwd=self.targets.project,
                env=environment(self.targets),
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                timeout=60,
                check=False,
                user=user,
                group=user,
                extra_groups=[] if user is not None else None,
            )
        except subprocess.TimeoutExpired:
            return -1000, ""
        return done.returncode, self.neutral.text(done.stdout.decode(errors="replace"))

    def close(self) -> None:
        subprocess.run(["chmod", "-R", "u+rwX", self.top], check=False)
        shutil.rmtree(self.top, ignore_errors=True)


def confined_home(top: str, numbers: int, uid: int) -> Targets:
    """A tree like a cell's, filled."""
    from confined import build_home

    targets = build_home(top)
    build(Path(targets.home), numbers)
    protect(Path(targets.home), uid)
    if os.geteuid() == 0:
        os.chown(targets.tmp, uid, uid)
    return targets


def session(config: Config, uid: int, numbers: int) -> Cell:
    """A real session around a filled tree."""

    def prepare(targets: Targets) -> LinuxRules:
        build(Path(targets.home), numbers)
        protect(Path(targets.home), uid)
        if os.geteuid() == 0:
            os.chown(targets.tmp, uid, uid)
        return real_rules(targets)

    return Cell(config, uid, rules=prepare)


ENGLISH = re.compile(
    r"denied|not permitted|read-?only|EACCES|EPERM|EROFS|EXDEV|cross-device|not writable|privileges|\(13\)",
    re.I,
)


def plain(output: str) -> bool:
    """Whether the system's words for a refusal are there, in English or another language."""
    return bool(ENGLISH.search(output)) or any(text in output for texts in MESSAGES.values() for text in texts)


def alike(one: str, other: str) -> bool:
    """Whether two outputs differ in numbers and made-up names only."""
    return NOT_NUMBERS.sub("#", one[:LIMIT]) == NOT_NUMBERS.sub("#", other[:LIMIT])


def record(case: Case, number: int, config: Config, code: int, output: str) -> dict[str, Any]:
    """One line of the fixture."""
    neutral = {"P": PROJECT, "O": f"{HOME}/outside", "H": HOME, "T": TEMP}
    target = case.target.format(n=number, **neutral)
    found: dict[str, Any] = {
        "id": f"{config.name}-{number}-{case.program}",
        "platform": "linux",
        "program": case.program,
        "tool": "Bash",
        "command": case.command.format(n=number, **neutral),
        "exit_code": code,
        "output": output[:LIMIT],
        "truth": {"source": case.source, "operation": case.operation, "target": target or None, "fix": case.fix},
        "context": {"project": PROJECT, "home": HOME},
        "evidence": "measured",
        "confinement": config.name,
    }
    if case.source == "kernel" and re.search(r"EXDEV|cross-device", output):
        # A rename across mounts fails whatever is granted; the program has to copy.
        found["truth"]["fix"] = "cannot-grant"
    if case.source == "kernel" and not plain(output):
        found |= {"ambiguous": True, "ambiguous_reason": "the program says no word of a refusal"}
    return found


def run_all(
    chosen: Iterable[tuple[int, Case]], configs: Iterable[Config], uid: int, *, say: bool = False
) -> Iterator[dict[str, Any]]:
    """Run the cases; give the recorded ones."""
    numbered = [(number, case) for number, case in chosen if shutil.which(case.program, path=environment_path())]
    numbers = max((number for number, _ in numbered), default=0) + 1
    outside = Outside(uid, numbers)
    controls = {}
    try:
        for number, case in numbered:
            if case.control:
                controls[number] = outside.run(outside.neutral.command(case, number))
    finally:
        outside.close()
    for config in configs:
        cell = session(config, uid, numbers)
        try:
            neutral = Neutral(cell.targets)
            for number, case in numbered:
                if case.only not in ("", "full" if config is FULL else "bare"):
                    continue
                done = cell.execute(
                    ["/bin/bash", "-c", neutral.command(case, number)], timeout=60, env=environment(cell.targets)
                )
                output = neutral.text(done.text).rstrip("\n")
                code = int(done.value) if done.value is not None else 1
                why = _dropped(case, code, output, controls.get(number))
                if why:
                    if say:
                        print(
                            f"dropped ({why}): {config.name} {case.command[:90]!r}: {output[:120]!r}", file=sys.stderr
                        )
                    continue
                yield record(case, number, config, code if code >= 0 else 128 - code, output)
        finally:
            subprocess.run(["chmod", "-R", "u+rwX", cell.top], check=False)
            cell.close()


def _dropped(case: Case, code: int, output: str, control: tuple[int, str] | None) -> str:
    if code == -1000:
        return "timed out"
    if control is None:
        return "" if (output and code != 0) or (case.operation == "network" and output) else "said nothing"
    same = alike(output, control[1].rstrip("\n"))
    if case.source == "kernel" and same:
        return "the same outside"
    if case.source == "none" and not same:
        return f"differs outside: {control[1][:120]!r}"
    return ""


def environment_path() -> str:
    return "/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin"


def main() -> None:
    uid = UNPRIVILEGED if os.geteuid() == 0 else os.getuid()
    FIXTURE.parent.mkdir(parents=True, exist_ok=True)
    counts = {"kernel": 0, "none": 0}
    with FIXTURE.open("w", encoding="utf-8", errors="backslashreplace") as file:
        for found in run_all(enumerate(cases()), (FULL, BARE), uid, say=True):
            counts[found["truth"]["source"]] += 1
            file.write(json.dumps(found, ensure_ascii=False) + "\n")
    print(f"{FIXTURE}: {counts['kernel']} refused, {counts['none']} look-alikes")


if __name__ == "__main__":
    main()
