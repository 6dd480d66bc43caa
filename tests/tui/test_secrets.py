"""Secrets on the screen: hidden by default, shown for one row by a key, hidden again when the selection moves."""

from __future__ import annotations

from dataclasses import replace

import pytest
import tui_rows
from textual.pilot import Pilot
from tui_screen import picture, said

from nd7core.audit.log import Log, log_directory
from nd7core.paths import Places
from nd7tui.app import Dashboard
from nd7tui.ingest import Ingest
from nd7tui.messages import Peeked
from nd7tui.model import Batch, Row, SessionRow
from nd7tui.notices import Notices, Wanted
from nd7tui.screens.dashboard import Main
from nd7tui.screens.help import Help
from nd7tui.screens.moment import Moment
from nd7tui.widgets.card import peek_lines

# Made up, of the shapes that issuers use; put together here so that no scanner takes this file for a leak.
TOKEN = "ghp_" + "a1B2c3D4e5F6g7H8i9J0" * 2
PASSWORD = "hunter2" * 2
BODY = ["MIIEowIBAAKCAQEAu1SU1LfVLPHCozMxH2Mo4lgOEePzNm0tRgeLezV6ffAt0gu" + str(n) for n in range(10)]
KEY = ["-----BEGIN RSA PRIVATE KEY-----", *BODY, "-----END RSA PRIVATE KEY-----"]
REFUSED = "touch: cannot touch '/srv/x': Permission denied"


class Shown(Dashboard):
    """A dashboard over one batch, which notes what is copied."""

    def __init__(self, places: Places) -> None:
        super().__init__(places, follow=False, now=lambda: tui_rows.NOW)
        self.copied: list[str] = []

    def work_out(self, row: Row) -> None:
        """Nothing is looked up."""

    def peek(self, session: SessionRow) -> None:
        """Nothing is looked at."""

    def copy_to_clipboard(self, text: str) -> None:
        """Noted."""
        self.copied.append(text)

    def get_default_screen(self) -> Main:
        return Main()


def record(here: Places, *calls: tuple[str, str]) -> Batch:
    """What the ingest thread makes of a log with these failed commands and their outputs."""
    log = Log(log_directory(here.state, "5b1d-a"))
    for number, (command, output) in enumerate(calls):
        call = {"tool_use_id": f"t{number}", "tool_name": "Bash", "tool_input": {"command": command}}
        log.append("tool_call", {"cwd": "/home/dev/app", **call}, source="s")
        told = {"tool_response": f"Exit code 1\n{output}", "ok": False}
        log.append("tool_result", {"cwd": "/home/dev/app", **call, **told}, source="s")
    return Ingest(here, lambda: None).once()


def leaks(text: str) -> list[str]:
    """What of the secrets a text holds, however it is wrapped."""
    flat = "".join(text.split())
    return [secret for secret in (TOKEN, PASSWORD, *BODY) if secret[:14] in flat or secret[-14:] in flat]


async def begin(app: Shown, pilot: Pilot[None], batch: Batch) -> Main:
    app.store.take(batch, tui_rows.NOW)
    app.changed()
    await pilot.pause()
    screen = app.screen
    assert isinstance(screen, Main)
    return screen


TWO = (
    (f"DB_PASSWORD={PASSWORD} touch /srv/w", REFUSED.replace("/x", "/w")),
    (f"curl -H 'Authorization: Bearer {TOKEN}' https://h; touch /srv/x", f"token={TOKEN}\n{REFUSED}"),
)


@pytest.mark.parametrize("size", [(80, 24), (120, 40)])
async def test_a_key_shows_them_until_the_selection_moves(here: Places, size: tuple[int, int]) -> None:
    app = Shown(here)
    async with app.run_test(size=size) as pilot:
        main = await begin(app, pilot, record(here, *TWO))
        await pilot.press("end")
        await pilot.pause()
        assert main.row is not None and main.row.hidden == 2
        main.detail.styles.height = 30
        await pilot.pause()
        text = picture(app)
        assert leaks(text) == []
        assert "[masked]" in text
        assert "2 secrets hidden; X shows them" in text
        await pilot.press("X")
        await pilot.pause()
        text = picture(app)
        assert leaks(text) == [TOKEN]
        assert "2 secrets shown; X hides them" in text
        await pilot.press("up", "down")
        await pilot.pause()
        assert leaks(picture(app)) == []
        await pilot.press("X", "X")
        await pilot.pause()
        assert leaks(picture(app)) == []


async def test_the_whole_of_a_row(here: Places) -> None:
    app = Shown(here)
    async with app.run_test(size=(120, 40)) as pilot:
        await begin(app, pilot, record(here, *TWO))
        await pilot.press("end", "X", "enter")
        await pilot.pause()
        assert isinstance(app.screen, Moment)
        assert leaks(picture(app)) == []
        await pilot.press("X")
        await pilot.pause()
        assert leaks(picture(app)) == [TOKEN]


async def test_what_is_copied_is_what_is_shown(here: Places) -> None:
    app = Shown(here)
    command = f"DB_PASSWORD={PASSWORD} make"
    async with app.run_test(size=(120, 40)) as pilot:
        await begin(app, pilot, record(here, (command, "make: Permission denied")))
        app.store.hidden.discard("none")
        app.store.refilter()
        app.changed()
        await pilot.pause()
        await pilot.press("end", "y", "X", "y")
        await pilot.pause()
        assert app.copied == ["DB_PASSWORD=[masked] make", command]
        assert "copied" in said(app) and leaks(said(app)) == []


async def test_where_nothing_is_hidden_the_key_says_so_and_the_help_has_it(here: Places) -> None:
    app = Shown(here)
    async with app.run_test(size=(120, 60)) as pilot:
        main = await begin(app, pilot, record(here, ("touch /srv/x", REFUSED)))
        assert main.row is not None and main.row.hidden == 0
        assert "X shows" not in picture(app)
        await pilot.press("X")
        await pilot.pause()
        assert "nothing in this row is hidden" in said(app)
        await pilot.press("question_mark")
        await pilot.pause()
        assert isinstance(app.screen, Help)
        assert "show the secrets hidden in the selected row" in picture(app)


@pytest.mark.parametrize("lines", [0, 2_000, 60_000])
@pytest.mark.parametrize("part", [slice(None), slice(1, None), slice(0, -1), slice(3, 9)])
def test_an_output_that_is_cut_lays_no_key_bare(here: Places, lines: int, part: slice) -> None:
    """Up to 1.5 MB, of which a few thousand characters round the refusal are shown; the key lies across the cut."""
    noise = ["building part of it now"] * lines
    key, near = KEY[part], ["building part of it now"] * min(lines // 2, 480)
    output = "\n".join([*noise, *key, *near, REFUSED, *near, *key, *near])
    row = record(here, (f"make {TOKEN}", output)).rows[-1]
    assert row.verdict.target == "/srv/x"
    assert leaks(row.output + row.command + row.verdict.line + row.verdict.reason) == []
    assert REFUSED in row.output
    assert row.bare is not None and TOKEN in row.bare.command


def test_a_command_that_is_cut_in_a_token_shows_nothing_of_it(here: Places) -> None:
    for length in range(15_950, 16_010, 7):
        command = "echo " + "x" * length + " " + TOKEN + "; touch /srv/x"
        row = record(here, (command, REFUSED)).rows[-1]
        assert "ghp_" not in row.command, length


@pytest.mark.parametrize("first", [0, 1, 4])
def test_a_sessions_screen_seen_from_here(first: int) -> None:
    session = tui_rows.sessions()[0]
    lines = ["$ cat key", *KEY[first:], f"$ echo {TOKEN}", "$ "]
    shown = [line.text for line in peek_lines(session, Peeked(session.key, lines), 100)]
    assert leaks("\n".join(shown)) == []
    assert len(shown) == len(lines)
    assert shown[0].strip() == "$ cat key"


def test_notices_tell_no_secret(here: Places) -> None:
    """A notice is an argument of the person's command, which every user of the machine can read."""
    notices = Notices(Wanted(), lambda: None, {})
    session = replace(tui_rows.sessions()[0], activity="waiting", waits_for="permission")
    row = record(here, TWO[1]).rows[-1]
    row = replace(row, verdict=replace(row.verdict, target=""))
    told = notices.look([session], [row], lambda _: session, 1)
    assert [notice.kind for notice in told] == ["waiting", "denied"]
    assert leaks("".join(notice.text for notice in told)) == []


@pytest.mark.parametrize("kind", ["Notification", "PermissionRequest", "StopFailure"])
def test_what_a_session_waits_for_is_told_without_secrets(here: Places, kind: str) -> None:
    for length in range(30, 80, 3):
        log = Log(log_directory(here.state, f"{kind}-{length}".lower()))
        text = "x" * length + f" {TOKEN} is what I need"
        raw = {"message": text, "tool_name": "Bash", "tool_input": {"command": text}, "error": text}
        log.append("hook", {"hook_event_name": kind, "raw": raw, "text": text}, source="intent:claude")
    sessions = Ingest(here, lambda: None).once().sessions
    assert sessions is not None and len(sessions) == 17
    assert leaks("".join(session.waits_for for session in sessions)) == []
