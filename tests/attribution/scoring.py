"""How well the engine does on cases with a known truth, class by class."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from posixpath import join, normpath
from typing import Any

from nd7core.attribution import Verdict, explain
from nd7core.attribution.context import from_object
from nd7core.attribution.rules import home_of

FIXTURES = Path(__file__).resolve().parents[1] / "fixtures" / "attribution"
Case = dict[str, Any]


def load(name: str) -> list[Case]:
    """The cases of a fixture."""
    with (FIXTURES / name).open(encoding="utf-8") as file:
        return [json.loads(line) for line in file]


def answer(case: Case) -> Verdict:
    """The engine's verdict on a case."""
    return explain(from_object(case))


def _spelt(path: str, case: Case) -> str:
    """One spelling for a path as it was printed and as it is resolved."""
    project = case["context"]["project"]
    home = case["context"].get("home") or home_of(project)
    if path.startswith("~"):
        path = home + path[1:]
    if (not path.startswith("/") and "/" in path) or ":" not in path:
        path = join(project, path)
    return normpath(path.removeprefix("unix://"))


def right_target(case: Case, verdict: Verdict) -> bool:
    """Whether one of what the verdict names is what was refused, or the thing to act on."""
    wanted = {_spelt(target, case) for target in (case["truth"]["target"], *case.get("targets", ())) if target}
    named = {_spelt(target, case) for target in (verdict.target, *verdict.targets) if target}
    if wanted & named:
        return True
    # Of a folder that may not be read, the file in it that the program stumbled over.
    return case["truth"]["operation"] == "read" and any(
        one.startswith(f"{other}/") for one in named for other in wanted
    )


def prints_target(case: Case) -> bool:
    """Whether the output names what was refused: whole, or relative, by its last part."""
    target = case["truth"]["target"]
    return bool(target) and (target in case["output"] or target.rsplit("/", 1)[-1] in case["output"])


def right_remedy(case: Case, verdict: Verdict) -> bool:
    """Whether the remedy is right; the rules know no wider network, so cannot-grant is right for it."""
    wanted = case["truth"]["fix"]
    if wanted == "restart-wider" and case["truth"]["operation"] in ("network", "ipc"):
        return verdict.remedy in (wanted, "cannot-grant")
    return bool(verdict.remedy == wanted)


@dataclass
class Score:
    """Figures over cases that are not ambiguous, and the ids that failed."""

    figures: dict[str, list[int]] = field(default_factory=dict)
    failed: dict[str, list[str]] = field(default_factory=dict)

    def add(self, name: str, right: bool, identifier: str) -> None:
        figure = self.figures.setdefault(name, [0, 0])
        figure[0] += right
        figure[1] += 1
        if not right:
            self.failed.setdefault(name, []).append(identifier)

    def share(self, name: str) -> float:
        right, whole = self.figures[name]
        return right / whole

    def table(self, title: str) -> str:
        rows = [f"\n{title}"]
        for name, (right, whole) in sorted(self.figures.items()):
            missed = self.failed.get(name, [])
            which = f"   missed: {', '.join(missed[:8])}{' ...' if len(missed) > 8 else ''}" if missed else ""
            rows.append(f"  {name:<34} {right:>4} of {whole:<4} {100 * right / whole:6.1f} %{which}")
        return "\n".join(rows)


def score(cases: Iterable[Case]) -> Score:
    """Hold the engine against the cases."""
    found = Score()
    for case in cases:
        verdict = answer(case)
        truth, identifier = case["truth"], case["id"]
        source = truth["source"]
        if case.get("ambiguous"):
            found.add("ambiguous, by source (for interest)", verdict.source == source, identifier)
            continue
        found.add(f"{source} found as {source}", verdict.source == source, identifier)
        if source != "kernel":
            found.add("others not taken for kernel", verdict.source != "kernel", identifier)
        if source in ("kernel", "model") and prints_target(case):
            found.add("target, where one is printed", right_target(case, verdict), identifier)
        found.add("remedy", right_remedy(case, verdict), identifier)
        found.add(f"{source} on {case['platform']}", verdict.source == source, identifier)
        if source == "kernel":
            found.add(f"kernel, {truth['operation']}", verdict.source == source, identifier)
    return found
