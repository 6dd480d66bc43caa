"""A Python that nd7 starts never takes modules from the working directory: a session may have written them."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent


def test_every_python_is_started_without_the_working_directory_on_its_path() -> None:
    starts = []
    for package in ("nd7core", "nd7exec", "nd7tui"):
        for path in sorted((ROOT / package).rglob("*.py")):
            for start in re.findall(r'sys\.executable,((?:\s*"-\w+",)*)\s*"-[mc]"', path.read_text("utf-8")):
                starts.append((path.name, start))
    assert starts, "none found: the pattern is out of date"
    assert [start for start in starts if '"-P"' not in start[1] and '"-I"' not in start[1]] == []
