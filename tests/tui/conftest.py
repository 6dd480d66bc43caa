"""The dashboard's tests: no home but a temporary one, a clock and a time zone that do not move."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from nd7core.paths import Places, places_of


@pytest.fixture(autouse=True)
def still(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """UTC, no animation, and no variable of the runner's that changes the picture."""
    monkeypatch.setenv("TZ", "UTC")
    monkeypatch.setenv("TEXTUAL_ANIMATIONS", "none")
    monkeypatch.delenv("NO_COLOR", raising=False)
    monkeypatch.delenv("COLORFGBG", raising=False)
    monkeypatch.delenv("XDG_CONFIG_HOME", raising=False)  # where keys.toml is: the tests' own home has none
    time.tzset()
    yield
    os.environ.pop("TZ", None)
    time.tzset()


@pytest.fixture
def here(tmp_path: Path) -> Places:
    """Places in a temporary directory."""
    home = tmp_path / "home"
    home.mkdir()
    return places_of(os.path.realpath(home))
