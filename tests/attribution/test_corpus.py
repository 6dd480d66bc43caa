"""The engine against cases whose truth is known: public and measured ones, and runs in real sessions."""

from __future__ import annotations

import pytest
from scoring import Score, load, score


def _held(found: Score) -> None:
    assert found.share("kernel found as kernel") >= 0.98, found.failed
    assert found.share("others not taken for kernel") >= 0.98, found.failed
    assert found.share("target, where one is printed") >= 0.95, found.failed
    assert found.share("remedy") >= 0.95, found.failed


def test_the_corpus(capsys: pytest.CaptureFixture[str]) -> None:
    found = score(load("denials.jsonl"))
    with capsys.disabled():
        print(found.table("the corpus: 279 public, measured and derived cases"))
    _held(found)
    for name in ("model found as model", "nd7-exec found as nd7-exec", "none found as none"):
        assert found.share(name) >= 0.95, found.failed


def test_runs_in_real_sessions(capsys: pytest.CaptureFixture[str]) -> None:
    cases = load("real_runs.jsonl")
    assert sum(case["truth"]["source"] == "kernel" for case in cases) >= 150
    assert sum(case["truth"]["source"] == "none" for case in cases) >= 150
    found = score(cases)
    with capsys.disabled():
        print(found.table(f"real sessions: {len(cases)} recorded runs"))
    _held(found)


def test_what_other_programs_print(capsys: pytest.CaptureFixture[str]) -> None:
    """Formats of programs that cannot be run here (macOS, clouds, registries), written down from memory: trust less."""
    cases = load("written.jsonl")
    found = score(cases)
    with capsys.disabled():
        print(found.table(f"{len(cases)} outputs of known formats"))
    _held(found)
    assert found.share("model found as model") >= 0.95, found.failed
