"""Telling a person who looks elsewhere: what, how often, and with nothing of a session's raw in it."""

from __future__ import annotations

import stat
import time
from dataclasses import replace
from pathlib import Path

import pytest
import tui_rows
from tui_screen import Still, picture

from nd7core.errors import Nd7Error
from nd7core.paths import Places
from nd7tui import keys
from nd7tui.model import Batch, Row, SessionRow
from nd7tui.notices import QUIET_NS, Notices, Wanted, check

EVIL = "a\x1b]52;c;eA==\x07b$(touch pwned)`id`"


def owner(row: Row) -> SessionRow | None:
    return {"3f0c": tui_rows.sessions()[0], "77aa": tui_rows.sessions()[1]}.get(row.session_id)


def test_what_is_told_and_how_often() -> None:
    rung: list[int] = []
    notices = Notices(Wanted(bell=True), lambda: rung.append(1), {})
    api, shop, notes = tui_rows.sessions()
    idle = replace(shop, activity="idle")
    assert notices.look([api, idle, notes], [], owner, 0) == []
    assert [notice.kind for notice in notices.look([api, shop, notes], [], owner, 1)] == ["waiting"]
    assert notices.look([api, shop, notes], [], owner, 2) == []  # it waits on
    notices.look([api, idle, notes], [], owner, 3)
    assert notices.look([api, shop, notes], [], owner, 4) == []  # again, too soon
    notices.look([api, idle, notes], [], owner, 5)
    assert len(notices.look([api, shop, notes], [], owner, 5 + QUIET_NS)) == 1
    rows = tui_rows.rows()
    told = notices.look([], rows, owner, 10)
    assert [(notice.kind, notice.session.name) for notice in told] == [("denied", "api-server"), ("denied", "webshop")]
    assert len(rung) == 4
    other = [row for row in rows if row.source in ("none", "model")]
    assert notices.look([], other, owner, 10 + 2 * QUIET_NS) == []


def test_a_command_gets_it_as_one_argument_and_never_through_a_shell(tmp_path: Path) -> None:
    script = tmp_path / "tell"
    script.write_text(f'#!/bin/sh\nprintf "%s|%s|%s|%s" "$#" "$1" "$2" "$ND7_EVENT $ND7_SESSION" > {tmp_path}/told\n')
    script.chmod(script.stat().st_mode | stat.S_IXUSR)
    notices = Notices(Wanted(command=f"{script} --urgent"), lambda: None, {"PATH": "/usr/bin:/bin"})
    session = replace(tui_rows.sessions()[1], name=EVIL, waits_for=EVIL)
    notices.look([session], [], owner, 0)
    for _ in range(100):
        if (tmp_path / "told").exists() and (tmp_path / "told").read_text():
            break
        time.sleep(0.05)
    count, first, text, event = (tmp_path / "told").read_text().split("|")
    assert (count, first, event) == ("2", "--urgent", "waiting 5150")
    assert "\x1b" not in text and "\x07" not in text and "$(touch pwned)" in text
    assert not (tmp_path / "pwned").exists() and not Path("pwned").exists()


def test_what_cannot_be_told_is_said_before_the_dashboard_starts() -> None:
    assert check(Wanted()) == ""
    assert "no program" in check(Wanted(command="no-such-program-anywhere x"))
    assert "--notify" in check(Wanted(command="'unclosed"))
    assert "no program" in check(Wanted(command="   x".strip()))


async def test_a_session_with_news_is_marked_until_it_is_looked_at(here: Places) -> None:
    app = Still()
    async with app.run_test(size=(120, 36)) as pilot:
        app.arrived(tui_rows.batch())
        await pilot.pause()
        await pilot.press("home")
        await pilot.pause()
        assert "•" not in picture(app)
        app.arrived(Batch([replace(tui_rows.rows()[2], id="news")]))
        await pilot.pause()
        app.store.sessions["pid:5150"] = replace(app.store.sessions["pid:5150"], gaps=0)
        assert "pid:5150" in app.store.unseen
        await pilot.press("end")
        await pilot.pause()
        assert "pid:5150" not in app.store.unseen


def keymap(tmp_path: Path, text: str) -> dict[str, str]:
    path = tmp_path / "keys.toml"
    path.write_text(text)
    return keys.read_keymap(str(path))


def test_keys_of_ones_own(tmp_path: Path) -> None:
    assert keymap(tmp_path, 'grant = "f2"\nup = ["up", "p"]\nprofile = "P"\n') == {
        "grant": "f2",
        "up": "up,p",
        "profile": "P",
    }
    assert keymap(tmp_path, '[keys]\nundo = "U"\n') == {"undo": "U"}
    assert keys.read_keymap(str(tmp_path / "none")) == {}


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ('grnt = "a"', "no key 'grnt'"),
        ("grant = 3", "takes a key"),
        ("grant = []", "takes a key"),
        ('grant = "u"', "is both"),
        ("grant = ", "keys.toml"),
        ('grant = "\\u001b]52"', "is no key"),
    ],
)
def test_a_wrong_file_is_one_sentence(tmp_path: Path, text: str, says: str) -> None:
    with pytest.raises(Nd7Error) as caught:
        keymap(tmp_path, text)
    assert says in caught.value.message


async def test_the_help_shows_the_keys_of_ones_own(here: Places) -> None:
    app = Still()
    async with app.run_test(size=(120, 60)) as pilot:
        app.store.take(tui_rows.batch(), tui_rows.NOW)
        app.use_keymap({"filter": "f2", "deeds": "L"})
        await pilot.pause()
        assert "f2 filter" in picture(app)
        await pilot.press("l")
        await pilot.pause()
        assert "does nothing here" in (app.said or ("",))[0]
        await pilot.press("L")
        await pilot.pause()
        assert "what nd7 did" in picture(app)
