"""Past denials: the search as one types, its pages, its groups, its moments, and the file it writes."""

from __future__ import annotations

import asyncio
import os
import sys
from pathlib import Path

import pytest
from tui_pty import Story
from tui_screen import picture, said, until

from nd7core.paths import Places
from nd7tui import look
from nd7tui.app import Dashboard
from nd7tui.screens.dashboard import Main
from nd7tui.screens.history import History
from nd7tui.screens.past import Past, describe, kind_of


def recorded(places: Places, sessions: int = 3) -> None:
    """Sessions that are over, each refused ~/.cache/uv and something of its own."""
    for number in range(sessions):
        story = Story(places, f"5b1d{number:04}", f"{places.home}/src/app{number}")
        story.start()
        story.call("ls", "a", 0)
        # Not below /tmp, where the tests' homes are: a session may write there.
        story.denied_write("/srv/cache/uv/x", "uv sync")
        story.denied_write(f"/srv/own/{number}")
        story.say("All done.")
        story.end()


def history_of(app: Dashboard) -> History:
    assert isinstance(app.screen, History)
    return app.screen


async def test_search_as_one_types(here: Places) -> None:
    recorded(here)
    app = Dashboard(here, follow=False)
    async with app.run_test(size=(120, 36)) as pilot:
        await until(pilot, lambda: isinstance(app.screen, Main))
        await pilot.press("h")
        await until(pilot, lambda: len(history_of(app).entries) == 6)
        await pilot.press(*"uv")
        await until(pilot, lambda: len(history_of(app).entries) == 3)
        assert "3 found" in picture(app) and "app2" in picture(app)
        await pilot.press(*" session:5b1d0001")
        await until(pilot, lambda: len(history_of(app).entries) == 1)
        history_of(app).box.value += " source:q"
        await until(pilot, lambda: "no source 'q'" in picture(app))
        assert len(history_of(app).entries) == 1  # what was found stays while the query makes no sense


async def test_grouped_by_target_and_into_a_moment(here: Places) -> None:
    recorded(here)
    app = Dashboard(here, follow=False)
    async with app.run_test(size=(120, 36)) as pilot:
        await until(pilot, lambda: isinstance(app.screen, Main))
        await pilot.press("h")
        await until(pilot, lambda: len(history_of(app).entries) == 6)
        await pilot.press("down", "v")
        await until(pilot, lambda: "3 sessions" in picture(app))
        assert history_of(app).targets[0].target == "/srv/cache/uv/x"
        await pilot.press("enter")
        await until(pilot, lambda: len(history_of(app).entries) == 3 and not history_of(app).by_target)
        history_of(app).list.focus()
        await pilot.press("enter")
        await until(pilot, lambda: isinstance(app.screen, Past) and "▸" in picture(app))
        text = picture(app)
        assert "touch: cannot touch" in text and "was asked" in text and "All done." in text
        await pilot.press("escape", "escape")
        await pilot.pause()
        assert isinstance(app.screen, History)  # the first Esc in it takes the search off
        await pilot.press("escape")
        await pilot.pause()
        assert not isinstance(app.screen, History)


async def test_more_pages_come_as_one_goes_down(here: Places, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("nd7tui.screens.history.PAGE", 5)
    monkeypatch.setattr("nd7tui.screens.history.NEAR", 2)
    recorded(here, 8)
    app = Dashboard(here, follow=False)
    async with app.run_test(size=(120, 36)) as pilot:
        await until(pilot, lambda: isinstance(app.screen, Main))
        await pilot.press("h")
        await until(pilot, lambda: len(history_of(app).entries) == 5)
        await pilot.press("down", "end")
        await until(pilot, lambda: len(history_of(app).entries) == 10)
        for _ in range(4):
            await pilot.press("end")
            await pilot.pause(0.2)
        assert len(history_of(app).entries) == 16
        assert len({entry.id for entry in history_of(app).entries}) == 16


async def test_nothing_recorded_says_the_next_step(here: Places) -> None:
    app = Dashboard(here, follow=False)
    async with app.run_test(size=(100, 30)) as pilot:
        await until(pilot, lambda: isinstance(app.screen, Main))
        await pilot.press("h")
        await until(pilot, lambda: "nd7 demo" in picture(app))
        await pilot.press("down", "enter", "e")
        assert "there is nothing to write" in said(app)


def test_the_file_it_writes_is_readable_by_its_owner_alone_and_never_over_another(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Not by a real `nd7 export`, which would read the logs of whoever runs the tests; that has tests of its own."""
    from nd7tui.export import export

    asked: list[tuple[str, ...]] = []

    def writes(*words: str) -> list[str]:
        asked.append(words)
        return [sys.executable, "-c", "print('# Denials')"]

    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("nd7tui.export.nd7", writes)
    done = export("uv", 1_795_000_000_000_000_000)
    (written,) = tmp_path.glob("nd7-denials-*.md")
    assert done.ok and os.stat(written).st_mode & 0o777 == 0o600 and written.read_text() == "# Denials\n"
    assert asked == [("export", "--format", "md", "--", "uv")]
    assert done.deed.command.startswith("nd7 export --format md -- uv > ")
    assert export("uv", 1_795_000_000_000_000_000, "csv").ok and asked[-1] == ("export", "--format", "csv", "--", "uv")
    again = export("uv", 1_795_000_000_000_000_000)
    assert not again.ok and "exists" in again.said and len(asked) == 2


def test_a_frame_of_any_shape_is_described() -> None:
    from nd7core.audit.frame import Frame

    for kind in ("tool_call", "tool_result", "hook", "prompt", "turn_end", "grant", "proof", "canary", "odd"):
        for body in ({}, {"tool_input": 3, "raw": [], "tool_response": None}, {"raw": {"message": 7}, "text": ["x"]}):
            frame = Frame(0, "s", 0, 0, "h", "x", kind, "", body, "")
            what, rest = describe(frame)
            assert isinstance(what, str) and isinstance(rest, str)
            assert isinstance(kind_of(frame), str)


def test_a_grant_that_is_taken_back_is_told_apart_from_one_that_is_given() -> None:
    from nd7core.audit.frame import Frame

    def told(kind: str, **body: object) -> tuple[str, str]:
        frame = Frame(0, "s", 0, 0, "h", "x", kind, "", body, "")
        return kind_of(frame), describe(frame)[0]

    assert told("grant", action="grant", path="/srv/x") == ("granted", "/srv/x")
    assert told("grant", action="take-back", path="/srv/x") == ("taken back", "/srv/x")
    assert told("proof", path="/srv/x", operation="write", allowed=True) == ("tested", "write /srv/x: passes")
    assert told("proof", path="/srv/x", operation="write", allowed=False) == ("tested", "write /srv/x: refused")
    assert told("canary", state="enforcing") == ("self-test", "enforcing")


async def test_leaving_ends_the_indexer(here: Places) -> None:
    recorded(here, 1)
    app = Dashboard(here, follow=False)
    async with app.run_test(size=(100, 30)) as pilot:
        await until(pilot, lambda: isinstance(app.screen, Main))
        await pilot.press("h")
        await until(pilot, lambda: history_of(app).entries)
        screen = history_of(app)
        await pilot.press("escape", "escape")
        await until(pilot, lambda: screen._indexer is None or screen._indexer.poll() is not None)
        await asyncio.sleep(0)


def test_the_words_of_a_grade_do_not_contradict_a_reports_reason() -> None:
    assert look.evidence("reported", confirmed=True) == "reported, and confirmed by an earlier call"
    assert look.evidence("reported", confirmed=False) == "reported: only the agent says so"
    assert look.evidence("matched", confirmed=True).startswith("matched: the text, and the profile in force")
