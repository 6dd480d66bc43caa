"""A part of the recorded runs once more, in real sessions on this machine's kernel with this machine's programs."""

from __future__ import annotations

import os
import shutil

import pytest
from collect import UNPRIVILEGED, environment_path, run_all
from confined import BARE, FULL
from programs import cases
from scoring import score

EVERYWHERE = {
    "bash",
    "cat",
    "cp",
    "dd",
    "grep",
    "head",
    "ln",
    "ls",
    "mkdir",
    "mv",
    "rm",
    "sort",
    "tail",
    "tee",
    "touch",
    "wc",
}
OFTEN = {"python3", "git", "tar", "sed", "perl", "node", "dash", "awk", "gzip", "curl", "make", "gcc"}


def test_refusals_and_look_alikes_of_this_machine(capsys: pytest.CaptureFixture[str]) -> None:
    chosen = [
        (number, case)
        for number, case in enumerate(cases())
        if case.program in EVERYWHERE | OFTEN and number % 4 == 1 and "LC_ALL" not in case.command
    ]
    assert all(shutil.which(name, path=environment_path()) for name in EVERYWHERE)
    found = list(run_all(chosen, (FULL, BARE), UNPRIVILEGED if os.geteuid() == 0 else os.getuid()))
    figures = score(found)
    with capsys.disabled():
        print(figures.table(f"this machine: {len(found)} runs in real sessions"))
    assert len(found) >= 100
    assert figures.share("kernel found as kernel") >= 0.98, figures.failed
    assert figures.share("others not taken for kernel") >= 0.98, figures.failed
    assert figures.share("target, where one is printed") >= 0.95, figures.failed
    assert figures.share("remedy") >= 0.95, figures.failed
