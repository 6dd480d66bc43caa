"""Makes tests/support and tests/rig importable by name, and gives every test a world that asks for one."""

from __future__ import annotations

import sys
from collections.abc import Generator, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE / "support"), str(HERE / "rig")]

if TYPE_CHECKING:
    from world import World


@pytest.fixture
def world() -> Iterator[World]:
    """A home, a network and a user of the test's own: see support/world.py."""
    from world import new_world

    with new_world() as made:
        yield made


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport() -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Make a failure fit to be sent: many tests are about bytes that are no UTF-8, on which pytest-xdist breaks."""
    report = yield
    shown = str(report.longrepr) if report.failed else ""
    if shown != plain(shown):
        report.longrepr = plain(shown)
    report.sections = [(plain(title), plain(text)) for title, text in report.sections]
    return report


def plain(text: str) -> str:
    return text.encode("utf-8", "backslashreplace").decode()


def pytest_sessionfinish(session: pytest.Session) -> None:
    """A skipped test fails the run: what cannot run here has not been shown to work here."""
    reporter = session.config.pluginmanager.get_plugin("terminalreporter")
    if reporter and reporter.stats.get("skipped"):
        reporter.write_line("tests were skipped, which counts as a failure here")
        session.exitstatus = pytest.ExitCode.TESTS_FAILED
