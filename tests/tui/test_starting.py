"""Starting a session from the dashboard: what came of it, on one line."""

from __future__ import annotations

from pathlib import Path

import pytest

from nd7tui import starting


def test_a_start_that_failed_says_why_and_what_to_do_apart(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program = tmp_path / "nd7"
    monkeypatch.setattr(starting, "nd7", lambda *words: [str(program), *words])
    program.write_text("#!/bin/sh\nprintf 'nd7: no such place\\n     name one\\n' >&2; exit 3\n")
    program.chmod(0o755)
    assert starting.start(["run"]) == (False, "no such place; name one")
    program.write_text("#!/bin/sh\nexit 3\n")
    assert starting.start(["run"]) == (False, "it ended with status 3")
    program.write_text("#!/bin/sh\nprintf 'nd7: session 5\\nnd7: detached\\n' >&2\n")
    assert starting.start(["run"]) == (True, "session 5; detached")
