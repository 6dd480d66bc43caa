"""The command line that brings the agent back."""

from __future__ import annotations

import pytest

from nd7exec.resume import claude


@pytest.mark.parametrize(
    ("given", "wanted"),
    [
        (["claude"], []),
        (["claude", "fix the tests"], []),
        (["claude", "--model", "opus", "fix"], ["--model", "opus"]),
        (["claude", "--model=opus", "-c"], ["--model=opus"]),
        (["claude", "-r", "old", "--fork-session", "go on"], []),
        (["claude", "--resume"], []),
        (["claude", "--resume", "--verbose"], ["--verbose"]),
        (["claude", "--session-id=x", "--add-dir", "a", "b", "--verbose", "p"], ["--add-dir", "a", "b", "--verbose"]),
        (["claude", "--append-system-prompt", "-dash", "--", "-p"], ["--append-system-prompt", "-dash"]),
    ],
)
def test_what_stays(given: list[str], wanted: list[str]):
    assert claude(given, "ID") == ("claude", "--resume", "ID", *wanted)
