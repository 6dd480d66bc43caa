"""How many results a second the attribution engine explains on one core.

    python tests/bench/attribution.py

Three figures: results as a history holds them (nine ordinary ones to each that speaks of a refusal), such as speak of
a refusal only, and ordinary ones only.  Processor time of this process, so a busy machine counts little.  Each result
has an identity of its own (a number in its text and command), so nothing is answered from a cache.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))

from nd7core.attribution import Failure, explain
from nd7core.attribution.context import from_object

CLEAN = """On branch main
Your branch is up to date with 'origin/main'.

nothing to commit, working tree clean"""
ASSERTION = """    def test_total():
>       assert total([1, 2]) == 4
E       assert 3 == 4

tests/test_a.py:7: AssertionError
FAILED tests/test_a.py::test_total - assert 3 == 4
1 failed, 31 passed in 1.50s"""
MISMATCH = """   Compiling tool v0.1.0
error[E0308]: mismatched types
  --> src/main.rs:4:18
   |
4  |     let x: u32 = "a";
   |            ---   ^^^ expected `u32`, found `&str`

error: could not compile `tool` (bin "tool") due to 1 previous error"""
ADDED = """added 212 packages, and audited 213 packages in 9s

31 packages are looking for funding
found 0 vulnerabilities"""
ORDINARY = [
    ("git status", 0, CLEAN),
    ("ls -la", 0, "\n".join(f"-rw-r--r-- 1 kim kim {n * 37:>6} Mar  1 10:00 file{n}.py" for n in range(20))),
    ("pytest -q", 0, "................................      [100%]\n32 passed in 1.42s"),
    ("pytest -q", 1, ASSERTION),
    ("npm install", 0, ADDED),
    ("cargo build", 101, MISMATCH),
    ("npx tsc --noEmit", 2, "src/a.ts(3,7): error TS2322: Type 'string' is not assignable to type 'number'."),
    ("rg -n TODO src", 1, ""),
    ("cat src/main.py", 0, "import os\n\n\ndef main() -> None:\n    print(os.getcwd())\n" * 8),
]


def results() -> tuple[list[Failure], list[Failure]]:
    """Such that speak of a refusal, and ordinary ones."""
    with (ROOT / "tests" / "fixtures" / "attribution" / "denials.jsonl").open(encoding="utf-8") as file:
        spoken = [from_object(json.loads(line)) for line in file]
    project = spoken[0].project
    ordinary = [
        Failure(command=command, exit_code=code, output=output, project=project) for command, code, output in ORDINARY
    ]
    return spoken, ordinary


def numbered(given: Sequence[Failure], rounds: int) -> list[Failure]:
    """The results again and again, each time with another number in them."""
    return [
        replace(
            item,
            output=f"{item.output}\nstep {turn}.{index}",
            command=f"{item.command} # {turn}.{index}" if item.command else "",
        )
        for turn in range(rounds)
        for index, item in enumerate(given)
    ]


def rate(given: Sequence[Failure], work: Callable[[Failure], object] = explain) -> float:
    """Results a second of processor time, the best of three."""
    best = 0.0
    for _ in range(3):
        started = time.process_time()
        for item in given:
            work(item)
        best = max(best, len(given) / (time.process_time() - started))
    return best


def main() -> None:
    spoken, ordinary = results()
    for item in (*spoken, *ordinary):
        explain(item)
    mixed = [item for case in numbered(spoken, 4) for item in (case, *ordinary)]
    rows = [
        ("a history (1 in 10 speaks of a refusal)", rate(mixed)),
        ("refusals and look-alikes only", rate(numbered(spoken, 4))),
        ("ordinary results only", rate(numbered(ordinary, 400))),
    ]
    for name, figure in rows:
        print(f"{name:<44} {figure:>10,.0f} results a second   {1e6 / figure:6.1f} us each")
    print(f"a history of a million: {1e6 / rows[0][1]:.0f} s of one core (to reach: 50 s)")


if __name__ == "__main__":
    main()
