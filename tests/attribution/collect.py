"""Run the commands of `programs.py` in real sessions and record what they printed, with the truth of the set-up.

    export PYTHONPATH=.:tests/support
    python tests/attribution/collect.py                                           # real_runs.jsonl: common programs
    python tests/attribution/collect.py --tools                                   # real_tools.jsonl: developers' tools
    python tests/attribution/collect.py --tools --path VENV/bin:node_modules/.bin # where some of them are installed

Both files lie in tests/fixtures/attribution.  A program that is not installed is named and left out; what was
recorded of it before stays, so the set never shrinks with the machine.  The order, the ids and the truths are the
same each time; temporary names, process numbers and the tools' own wording are whatever they were in that run.

Every command runs confined twice, with namespaces (refusals are EROFS) and with Landlock alone (EACCES), and once
outside.  A refusal counts when the session made the difference, a look-alike when it made none: the truth comes from
the set-up and from that comparison, never from the engine.  Paths are made neutral before anything is recorded.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import pwd
import re
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

from confined import BARE, FULL, Cell, Config, Targets
from programs import Case, cases, tools
from tree import build, protect

from nd7core.attribution.messages import MESSAGES
from nd7core.policy.rules import LinuxRules

FIXTURES = Path(__file__).resolve().parents[1] / "fixtures" / "attribution"
HOME, PROJECT, TEMP = "/home/mara", "/home/mara/project", "/tmp"
UNPRIVILEGED = pwd.getpwnam("games").pw_uid
"""A user that is in the password database (ssh and psql ask) and owns nothing."""
EXTRA: list[str] = []
"""Folders of programs beside the system's own (`--path`)."""
INSTALLED: list[tuple[str, str]] = []
"""Where they lie on this machine, and how that is written in the record."""
MORE: dict[str, str] = {}
"""Variables that the tools in them need."""
LIMIT = 3000
"""Characters of an output that are recorded."""

COLOURS = re.compile(r"\x1b\[[0-9;]*m")
NOT_NUMBERS = re.compile(r"\b[0-9a-f]{7,40}\b|0x[0-9a-f]+|\d+(?:\.\d+)?|(?<=[._/-])[A-Za-z0-9_]{6,10}(?=['\": \n]|$)")


class Neutral:
    """A tree's paths written as those of nobody's machine, and back."""

    def __init__(self, targets: Targets) -> None:
        self.pairs = [(targets.project, PROJECT), (targets.home, HOME), (targets.tmp, TEMP), *INSTALLED]
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
        "PATH": environment_path(),
        "USER": "mara",
        "LOGNAME": "mara",
        "SHELL": "/bin/bash",
        "GIT_TERMINAL_PROMPT": "0",
        "GIT_AUTHOR_NAME": "x",
        "GIT_AUTHOR_EMAIL": "x@example.org",
        "GIT_COMMITTER_NAME": "x",
        "GIT_COMMITTER_EMAIL": "x@example.org",
        "GIT_CONFIG_NOSYSTEM": "1",
        "PYTHONDONTWRITEBYTECODE": "1",
        **MORE,
    }


class Outside:
    """The same tree without a session, as the same user."""

    def __init__(self, uid: int, numbers: Sequence[int]) -> None:
        self.top = tempfile.mkdtemp(prefix="nd7-alone-")
        os.chmod(self.top, 0o755)
        self.uid = uid
        self.targets = confined_home(self.top, numbers, uid)
        self.neutral = Neutral(self.targets)

    def run(self, command: str, timeout: float = 60) -> tuple[int, str]:
        user = self.uid if os.geteuid() == 0 else None
        # An earlier command may have moved it away: out here that works.
        (Path(self.targets.project) / "readme").write_text("text\n")
        started = subprocess.Popen(
            ["/bin/bash", "-c", command],
            cwd=self.targets.project,
            env=environment(self.targets),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            start_new_session=True,
            user=user,
            group=user,
            extra_groups=[] if user is not None else None,
        )
        try:
            output, _ = started.communicate(timeout=timeout)
        except subprocess.TimeoutExpired:
            return -1000, ""
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(started.pid, signal.SIGKILL)  # a server in the background of what ended, too
            started.wait()
        return started.returncode, self.neutral.text(output.decode(errors="replace"))

    def close(self) -> None:
        """End what still runs here, a server that made a session of its own included, and remove the tree."""
        ours = os.fsencode(self.top)
        for name in filter(str.isdigit, os.listdir("/proc")):
            with contextlib.suppress(OSError):
                if ours in Path("/proc", name, "environ").read_bytes():
                    os.kill(int(name), signal.SIGKILL)
        subprocess.run(["chmod", "-R", "u+rwX", self.top], check=False)
        shutil.rmtree(self.top, ignore_errors=True)


def confined_home(top: str, numbers: Sequence[int], uid: int) -> Targets:
    """A tree like a cell's, filled."""
    from confined import build_home

    targets = build_home(top)
    build(Path(targets.home), numbers)
    protect(Path(targets.home), uid)
    if os.geteuid() == 0:
        os.chown(targets.tmp, uid, uid)
    return targets


def session(config: Config, uid: int, numbers: Sequence[int]) -> Cell:
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
    one, other = (NOT_NUMBERS.sub("#", COLOURS.sub("", text[:LIMIT])) for text in (one, other))
    return one == other


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
    chosen: Iterable[tuple[int, Case]],
    configs: Iterable[Config],
    uid: int,
    *,
    say: bool = False,
    ran: Callable[[int, Neutral], None] = lambda number, neutral: None,
) -> Iterator[dict[str, Any]]:
    """Run the cases; give the recorded ones.

    Args:
        say: tell on stderr what is dropped, and why.
        ran: called when a case has been run confined, with its number and the neutral names of its tree.
    """
    numbered = [(number, case) for number, case in chosen if installed(case)]
    numbers = [number for number, _ in numbered]
    outside = Outside(uid, numbers)
    controls = {}
    try:
        for number, case in numbered:
            if case.control:
                # Out here a server serves until it is told to stop.
                patience = 5 if case.operation == "network" else 60
                controls[number] = outside.run(outside.neutral.command(case, number), patience)
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
                ran(number, neutral)
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
    outside = control[1].rstrip("\n")
    # Some name the error of a connection by its number only.
    same = output == outside if case.operation == "network" else alike(output, outside)
    if case.source == "kernel" and same:
        return "the same outside"
    if case.source == "none" and not same:
        return f"differs outside: {control[1][:120]!r}"
    return ""


def environment_path() -> str:
    return ":".join((*EXTRA, "/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin"))


def installed(case: Case) -> bool:
    """Whether this machine has the program, and what it needs."""
    if not shutil.which(case.program, path=environment_path()):
        return False
    environ = {"PATH": environment_path(), "HOME": "/nonexistent", **MORE}
    return (
        not case.needs
        or not subprocess.run(
            ["/bin/bash", "-c", case.needs], env=environ, stdin=subprocess.DEVNULL, capture_output=True, check=False
        ).returncode
    )


def collect(name: str, chosen: Sequence[tuple[int, Case]]) -> None:
    """Run the cases and write the fixture anew, keeping what is recorded of programs that are not here."""
    path = FIXTURES / name
    here = [(number, case) for number, case in chosen if installed(case)]
    missing = sorted(
        {case.program if not case.needs else case.needs for _, case in chosen}
        - {case.program if not case.needs else case.needs for _, case in here}
    )
    if missing:
        print(f"not installed, left out: {', '.join(missing)}", file=sys.stderr)
    ran = {number for number, _ in here}
    kept = []
    if path.exists():
        kept = [
            row for row in map(json.loads, path.read_text(encoding="utf-8").splitlines()) if _number(row) not in ran
        ]
    uid = UNPRIVILEGED if os.geteuid() == 0 else os.getuid()
    found = [*kept, *run_all(here, (FULL, BARE), uid, say=True)]
    found.sort(key=lambda row: (row["confinement"] != FULL.name, _number(row)))
    with path.open("w", encoding="utf-8", errors="backslashreplace") as file:
        for row in found:
            file.write(json.dumps(row, ensure_ascii=False) + "\n")
    counts = {source: sum(row["truth"]["source"] == source for row in found) for source in ("kernel", "none")}
    print(f"{path}: {counts['kernel']} refused, {counts['none']} look-alikes, {len(kept)} of them kept from before")


def _number(row: dict[str, Any]) -> int:
    """The number of a recorded case, which its id holds behind the way it was confined."""
    return int(row["id"].removeprefix(row["confinement"] + "-").partition("-")[0])


def main() -> None:
    words = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    words.add_argument("--tools", action="store_true", help="developers' tools instead of what most machines have")
    words.add_argument("--path", default="", help="folders of programs beside the system's own, with colons between")
    words.add_argument("--only", default="", help="programs to run, with commas between; all others stay as recorded")
    arguments = words.parse_args()
    for folder in filter(None, arguments.path.split(":")):
        path = Path(folder).absolute()
        EXTRA.append(str(path))
        if path.parent.name == "node_modules":
            MORE["NODE_PATH"] = str(path.parent)
            INSTALLED.append((str(path.parent.parent), "/usr/lib"))
        else:
            INSTALLED.append((str(path.parent), "/usr/local"))
    if arguments.tools:
        MORE["CI"] = "1"
    chosen = tools() if arguments.tools else list(enumerate(cases()))
    only = set(filter(None, arguments.only.split(",")))
    chosen = [(number, case) for number, case in chosen if not only or case.program in only]
    FIXTURES.mkdir(parents=True, exist_ok=True)
    collect("real_tools.jsonl" if arguments.tools else "real_runs.jsonl", chosen)


if __name__ == "__main__":
    main()
