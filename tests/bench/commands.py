"""What a command, a hook and a grant cost under nd7, in one run and as ratios.

    python tests/bench/commands.py [ROUNDS]

The last row is what a person waits for: the grant, by the function that the dashboard's key calls, and the next
command, which has it.  bwrap is measured where it is installed.

Every round runs each command once, in turn, so that a slow moment of the machine falls on all of them; the ratios
are of the medians.  No figure here passes or fails: read the ratios, the milliseconds are this machine's.
"""

from __future__ import annotations

import json
import os
import shutil
import statistics
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from world import World

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parent / "support"), str(HERE.parent / "rig"), str(HERE.parent.parent)]
# Without byte code every Python below would compile its modules anew, which is what nobody runs.
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)


class Driver:
    """A running driver.py: inside a session, or beside it."""

    def __init__(self, world: World, before: Sequence[str] = ()) -> None:
        argv = [*before, sys.executable, "-P", str(HERE / "driver.py")]
        self.process = world.start(argv, stdin=subprocess.PIPE, stderr=subprocess.DEVNULL)

    def time(self, argv: Sequence[str], data: str = "", expect: int = 0) -> float:
        """Milliseconds that `argv` took.  Raises RuntimeError where it did not end as expected."""
        assert self.process.stdin and self.process.stdout
        self.process.stdin.write(json.dumps([list(argv), data]).encode() + b"\n")
        self.process.stdin.flush()
        taken, status = json.loads(self.process.stdout.readline())
        if status != expect:
            raise RuntimeError(f"{list(argv)} ended with {status}")
        return float(taken) / 1e6

    def close(self) -> None:
        assert self.process.stdin
        self.process.stdin.close()
        self.process.wait()


def payload(number: int) -> str:
    """A PostToolUse payload of ordinary size."""
    return json.dumps(
        {
            "session_id": "bench-0000",
            "transcript_path": "",
            "cwd": "/home/dev/project",
            "hook_event_name": "PostToolUse",
            "tool_name": "Bash",
            "tool_input": {"command": "make", "description": "build"},
            "tool_use_id": f"toolu_{number}",
            "tool_response": {"stdout": "cc -c a.c\n" * 40, "stderr": "", "interrupted": False},
            "duration_ms": 12,
        }
    )


def measure(world: World, rounds: int) -> dict[str, list[float]]:
    """Milliseconds by command, `rounds` of each."""
    outside, inside = Driver(world), Driver(world, ["nd7", "run"])
    state = f"{world.home}/.local/state/nd7/bin"
    python = os.path.realpath(sys.executable)
    taken: dict[str, list[float]] = {}

    def note(name: str, value: float) -> None:
        taken.setdefault(name, []).append(value)

    world.mkdir(f"{world.home}/granted")
    for number in range(rounds + 2):
        if number == 2:
            taken.clear()  # the first two rounds fill caches
        note("sh -c true", outside.time(["sh", "-c", "true"]))
        if shutil.which("bwrap"):
            note("bwrap --ro-bind / / true", outside.time(["bwrap", "--ro-bind", "/", "/", "true"]))
        note("python3 -I -S -c pass", outside.time([python, "-I", "-S", "-c", "pass"]))
        note("nd7-exec -c true", inside.time([f"{state}/nd7-exec", "-c", "true"]))
        note("hook (nd7-record)", inside.time([f"{state}/nd7-record"], payload(number)))
        target = f"{world.home}/granted/{number}"
        world.mkdir(target)
        write = [f"{state}/nd7-exec", "-c", f": > {target}/file"]
        inside.time(write, expect=1)
        grant = outside.time(["allow", target])
        note("grant", grant)
        note("grant, then the command that it helps", grant + inside.time(write))
    for driver in (inside, outside):
        driver.close()
    return taken


def report(taken: dict[str, list[float]]) -> str:
    """The table: medians, spread, and each as a multiple of two yardsticks."""
    medians = {name: statistics.median(values) for name, values in taken.items()}
    sh, python = medians["sh -c true"], medians["python3 -I -S -c pass"]
    rows = [f"{'':<38}{'ms':>8}{'min':>8}{'max':>8}{'x sh':>8}{'x python':>10}"]
    for name, values in taken.items():
        value = medians[name]
        rows.append(
            f"{name:<38}{value:>8.2f}{min(values):>8.2f}{max(values):>8.2f}{value / sh:>8.1f}{value / python:>10.2f}"
        )
    return "\n".join(rows)


def main() -> int:
    from world import new_world

    rounds = int(sys.argv[1]) if len(sys.argv) > 1 else 40
    with new_world() as world:
        print(report(measure(world, rounds)))
    return 0


if __name__ == "__main__":
    sys.exit(main())
