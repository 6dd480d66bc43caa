"""What is in force in a session is to be read whole: on its card, on its screen at every size, and in a shell."""

from __future__ import annotations

from dataclasses import replace

import pytest
import tui_rows
from tui_screen import Still, picture, said

from nd7tui.commands.sessions import table
from nd7tui.model import Batch, GrantRow, SessionRow
from nd7tui.screens.session import Session

# As a supervisor tells it where namespaces work, and where they do not.
FULL = {
    "landlock": "version 7",
    "namespaces": "user, mount, ipc; everything outside is mounted read-only, hidden places are masked",
    "privileges": "no capabilities, no_new_privs",
    "signals": "Landlock scope",
    "network": "nd7's notifier on copied memory, Landlock",
    "seccomp": "61 kinds of system calls closed, unix sockets closed",
}
LESS = FULL | {
    "namespaces": "none",
    "not in force": "no unprivileged user namespaces here: names and attributes in hidden directories can be seen; "
    "/dev/shm is the machine's; programs cannot make terminals",
}


def batch(enforced: dict[str, str]) -> Batch:
    first, *others = tui_rows.sessions()
    grants = (*first.grants, GrantRow(4242, f"{tui_rows.HOME}/.cache/uv", created=tui_rows.START))
    return Batch(tui_rows.rows(), (replace(first, enforced=enforced, grants=grants), *others), [], True)


def words(text: str) -> str:
    """The text without rules and line breaks, so that what was wrapped can be found again."""
    return " ".join(text.translate(dict.fromkeys(map(ord, "│▌▐"), " ")).split())


def pane(text: str, width: int) -> str:
    """The left column of the wide screen."""
    return words("\n".join(line[:width] for line in text.splitlines()))


@pytest.mark.parametrize("enforced", [FULL, LESS], ids=["full", "less"])
@pytest.mark.parametrize("size", [(80, 24), (120, 36), (120, 40), (56, 14)])
async def test_i_shows_all_of_it_at_every_size(size: tuple[int, int], enforced: dict[str, str]) -> None:
    app = Still()
    async with app.run_test(size=size) as pilot:
        app.store.take(batch(enforced), tui_rows.NOW)
        app.changed()
        await pilot.press("home", "i")
        await pilot.pause()
        assert isinstance(app.screen, Session)
        seen = picture(app)
        for _ in range(6):  # what does not fit is a screenful away, and nowhere else
            await pilot.press("pagedown")
            await pilot.pause()
            seen += "\n" + picture(app)
        for part, how in enforced.items():
            if size[1] >= 24:
                assert f"{part}" in seen and how in words(pane_of_values(seen)), part
            assert all(word in words(seen) for word in how.split()), part
        assert "…" not in seen
        assert f"{tui_rows.HOME}/.cache/uv" in seen
        assert picture(app).splitlines()[0].split() == ["nd7", "›", "api-server", "›", "session"]
        await pilot.press("escape")
        assert app.screen.NAME == "dashboard"


def pane_of_values(text: str) -> str:
    """The column of values: what is wrapped goes on below itself."""
    return "\n".join(line[16:] for line in text.splitlines())


@pytest.mark.parametrize("enforced", [FULL, LESS], ids=["full", "less"])
@pytest.mark.parametrize("size", [(120, 36), (120, 40)])
async def test_the_card_beside_the_stream_cuts_nothing(size: tuple[int, int], enforced: dict[str, str]) -> None:
    app = Still()
    async with app.run_test(size=size) as pilot:
        app.store.take(batch(enforced), tui_rows.NOW)
        app.changed()
        await pilot.press("home")
        await pilot.pause()
        values = words("\n".join(line[12:41] for line in picture(app).splitlines()))
        for how in enforced.values():
            assert how in values or ("more line" in values and how is enforced.get("not in force")), how
        assert "notes" in picture(app)  # and the sessions are still there
        if "more line" in values:
            assert "i" in values.rpartition("more line")[2].split()


async def test_a_card_with_too_little_room_says_how_to_see_the_rest() -> None:
    app = Still()
    async with app.run_test(size=(110, 24)) as pilot:
        app.store.take(batch(LESS), tui_rows.NOW)
        app.changed()
        await pilot.press("home")
        await pilot.pause()
        assert "more lines: i" in picture(app)


async def test_a_session_that_is_over_has_nothing_in_force_and_says_so() -> None:
    app = Still()
    async with app.run_test(size=(100, 30)) as pilot:
        app.store.take(tui_rows.batch(), tui_rows.NOW)
        app.changed()
        await pilot.press("shift+tab", "end", "enter")
        assert "i tells what is known of it" in said(app)
        await pilot.press("i")
        await pilot.pause()
        assert "Nothing is in force any more" in picture(app)


async def test_i_without_a_session_says_why() -> None:
    app = Still()
    async with app.run_test(size=(100, 30)) as pilot:
        app.store.take(Batch(sessions=(), caught_up=True), tui_rows.NOW)
        await pilot.press("i")
        assert said(app) == "session: select a session, or a row of one"


@pytest.mark.parametrize("width", [80, 120])
def test_a_shell_is_told_too(width: int) -> None:
    sessions = batch(LESS).sessions
    assert sessions is not None
    lines = table(list(sessions), tui_rows.NOW, width)
    text = " ".join(" ".join(lines).split())
    for part, how in LESS.items():
        assert f"{part}: {how}" in text
    assert all(len(line) <= width for line in lines if line.startswith(" " * 10))
    quiet = table([SessionRow("pid:1", "x", 1, activity="working")], tui_rows.NOW, width)
    assert "in force in 1: its supervisor has not told yet" in " ".join(quiet)
    first = next(one for one in sessions if one.live)
    both = table([first, replace(first, pid=77, key="pid:77")], tui_rows.NOW, width)
    assert sum(line.strip().startswith(next(iter(LESS)) + ":") for line in both) == 1
    assert f"in force in {first.pid}, 77:" in both
    assert not any("in force" in line for line in table([sessions[-1]], tui_rows.NOW, width))
