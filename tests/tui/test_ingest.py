"""The whole way from a real log on the disk to a row, and from a key to a real session's policy."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from textual.message import Message
from tui_pty import ROOT, Sleeper, Story
from tui_screen import picture, said, told, until

from nd7core import sessions
from nd7core.paths import Places
from nd7core.record import Grant
from nd7tui.app import Dashboard
from nd7tui.ingest import Ingest
from nd7tui.messages import Arrived
from nd7tui.model import Row
from nd7tui.notices import Wanted
from nd7tui.screens.ask import Ask
from nd7tui.screens.dashboard import Main
from nd7tui.screens.grants import Grants
from nd7tui.screens.profile import Profile
from nd7tui.screens.wider import Wider
from nd7tui.widgets.rowlist import RowList


@pytest.fixture
def owner() -> Iterator[Sleeper]:
    made = Sleeper()
    yield made
    made.end()


@pytest.fixture
def live(here: Places, owner: Sleeper) -> Story:
    """A session that runs, refused ~/.cache/uv."""
    project = f"{here.home}/src/api"
    os.makedirs(project)
    os.makedirs(f"{here.home}/.cache/uv")
    os.makedirs(here.state, 0o700)
    story = Story(here, "3f0c", project, owner.pid, name="api")
    story.start()
    story.denied_write(f"{here.home}/.cache/uv/x", "uv sync")
    return story


def rows(app: Dashboard) -> list[Row]:
    return app.store.rows


async def test_a_session_that_runs_already(here: Places, live: Story) -> None:
    app = Dashboard(here)
    async with app.run_test(size=(120, 36)) as pilot:
        await until(pilot, lambda: rows(app))
        session = app.store.session_of(rows(app)[0])
        assert session is not None and session.name == "api" and session.live and session.activity == "working"
        assert rows(app)[0].verdict.grant.startswith(f"{here.home}/.cache/uv")
        live.say("Done.")
        await until(pilot, lambda: app.store.sessions[session.key].activity == "idle")
        live.ask("Bash")
        await until(pilot, lambda: "1 waiting for you" in picture(app))
        assert "permission for Bash" in picture(app)


async def test_the_curtain_lifts_and_only_then_is_anything_read(here: Places, live: Story) -> None:
    app = Dashboard(here)
    assert app._thread is None
    async with app.run_test(size=(120, 36)) as pilot:
        await until(pilot, lambda: isinstance(app.screen, Main))
        await until(pilot, lambda: rows(app))
        assert app._thread is not None


def test_what_the_first_paint_does_not_need_is_not_loaded_before_it() -> None:
    program = "import sys, nd7tui.app, nd7tui.screens.curtain; print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True, check=True)
    loaded = set(done.stdout.split())
    assert "nd7tui.app" in loaded and "textual.app" in loaded
    late = {"nd7core.record", "nd7core.sessions", "nd7core.attribution", "nd7core.mask", "nd7tui.ingest", "sqlite3"}
    assert not loaded & (late | {"nd7tui.starting", "nd7tui.detail", "watchfiles"})


async def test_started_with_nothing_then_a_session_comes_and_goes(here: Places, owner: Sleeper) -> None:
    app = Dashboard(here)
    async with app.run_test(size=(120, 36)) as pilot:
        await until(pilot, lambda: app.store.caught_up)
        await until(pilot, lambda: "No sessions." in picture(app))
        story = Story(here, "3f0c", f"{here.home}/src/api", owner.pid, name="api")
        await until(pilot, lambda: "api" in picture(app))
        story.start()
        story.denied_write(f"{here.home}/.cache/uv/x")
        await until(pilot, lambda: len(rows(app)) == 1)
        owner.end()
        await until(pilot, lambda: all(not session.live for session in app.store.sessions.values()))
        await until(pilot, lambda: "0 live" in picture(app))
        assert len(rows(app)) == 1
        await pilot.press("g")
        assert "ended" in said(app)


async def test_a_session_whose_supervisor_was_killed_is_orphaned_and_then_cleared_away(
    here: Places, live: Story, owner: Sleeper, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("nd7tui.ingest.ORPHANED_SECONDS", 3.0)
    app = Dashboard(here)
    async with app.run_test(size=(120, 36)) as pilot:
        await until(pilot, lambda: rows(app))
        owner.end()
        await until(pilot, lambda: "orphaned" in picture(app))
        assert "0 live" in picture(app)
        await until(pilot, lambda: not os.path.exists(f"{here.sessions}/{owner.pid}"))
        await until(pilot, lambda: "orphaned" not in picture(app) and "ended" in picture(app))


@pytest.mark.parametrize("read_only", [False, True])
async def test_what_it_makes_is_private_and_read_only_makes_nothing(here: Places, read_only: bool) -> None:
    before = os.umask(0)
    try:
        app = Dashboard(here, read_only=read_only)
        async with app.run_test(size=(120, 36)) as pilot:
            await until(pilot, lambda: app.store.caught_up)
            if read_only:
                assert os.listdir(here.home) == []
                story = Story(here, "5b1d", "/srv/late")  # what appears later is seen all the same
                story.start()
                await until(pilot, lambda: "late" in picture(app))
            else:
                for path in (here.nd7, here.sessions, here.state):
                    assert os.stat(path).st_mode & 0o777 == 0o700, path
    finally:
        os.umask(before)


async def test_a_read_only_dashboard_clears_nothing_away(here: Places, live: Story, owner: Sleeper) -> None:
    owner.end()
    app = Dashboard(here, read_only=True)
    async with app.run_test(size=(120, 36)) as pilot:
        await until(pilot, lambda: "orphaned" in picture(app))
        await pilot.pause(1.5)
        assert os.path.exists(f"{here.sessions}/{owner.pid}")


async def test_sessions_that_are_over_are_shown(here: Places) -> None:
    story = Story(here, "5b1d", f"{here.home}/src/old")
    story.start()
    story.denied_write(f"{here.home}/.cache/uv/x")
    story.end()
    app = Dashboard(here)
    async with app.run_test(size=(120, 36)) as pilot:
        await until(pilot, lambda: rows(app))
        await until(pilot, lambda: next(iter(app.store.sessions.values())).activity == "ended")
        await until(pilot, lambda: "old" in picture(app))


async def test_a_log_that_is_cut_replaced_deleted_and_damaged(here: Places, live: Story) -> None:
    events = Path(live.log.directory) / "events.ndjson"
    app = Dashboard(here)
    async with app.run_test(size=(120, 36)) as pilot:
        await until(pilot, lambda: len(rows(app)) == 1)
        with events.open("ab") as file:
            file.write(b"\x1b]52;c;eA==\x07 this is no frame\n")
        await until(pilot, lambda: app.store.faults)
        whole = events.read_bytes()
        fresh = events.with_name("fresh")
        fresh.write_bytes(whole.replace(b"\x1b]52;c;eA==\x07 this is no frame\n", b""))
        os.replace(fresh, events)
        await until(pilot, lambda: any("replaced" in fault for fault in app.store.faults))
        live.denied_write(f"{here.home}/.cache/pip/x")
        await until(pilot, lambda: any(row.verdict.target.endswith("/pip/x") for row in rows(app)))
        events.write_bytes(b"")
        await until(pilot, lambda: any("cut" in fault or "shorter" in fault for fault in app.store.faults))
        shutil.rmtree(live.log.directory)
        await until(pilot, lambda: any("deleted" in fault for fault in app.store.faults))
        again = Story(here, "3f0c", live.project)
        again.start()
        again.denied_write(f"{here.home}/.npm/x")
        await until(pilot, lambda: any(row.verdict.target.endswith("/.npm/x") for row in rows(app)))
        assert not app.leaks and "fault" in picture(app)
        assert isinstance(app.screen, Main)


async def test_damaged_sessions_and_those_of_another_nd7(here: Places, owner: Sleeper) -> None:
    os.makedirs(here.sessions, 0o700)
    os.chmod(here.nd7, 0o700)
    os.makedirs(here.state, 0o700)
    other = Path(here.sessions) / str(owner.pid)
    other.mkdir(0o700)
    record = {"project": f"{here.home}/src/rust", "home": here.home, "state": here.state, "tmp": "/tmp/x"}
    (other / "record.json").write_text(
        json.dumps({**record, "exit": "/usr/bin/nd7-exec", "grants": [], "ssh_agent": None})
    )
    (Path(here.sessions) / "1").mkdir(0o700)
    (Path(here.sessions) / "1" / "record.json").write_bytes(b"{")
    app = Dashboard(here)
    async with app.run_test(size=(120, 36)) as pilot:
        await until(pilot, lambda: len(app.store.sessions) == 2)
        names = {session.key: session for session in app.store.sessions.values()}
        assert names[f"pid:{owner.pid}"].name == "rust" and names[f"pid:{owner.pid}"].live
        assert names["pid:1"].activity == "broken" and "no JSON" in names["pid:1"].problem


@pytest.mark.parametrize("told", ["by the process", "by the project"])
async def test_a_session_of_another_nd7_with_its_log(here: Places, owner: Sleeper, told: str) -> None:
    """Its record and its frames have the contract's keys and none of ours."""
    Story(here, "0ld0", f"{here.home}/src/rust").denied_write(f"{here.home}/.cache/old")  # yesterday's, never ended
    other = Path(here.sessions) / str(owner.pid)
    for directory in (Path(here.nd7), Path(here.sessions), other):
        directory.mkdir(0o700, exist_ok=True)
    record = {"project": f"{here.home}/src/rust", "home": here.home, "state": here.state, "tmp": "/tmp/x"}
    contract = json.dumps({**record, "exit": "/usr/bin/nd7-exec", "grants": [], "ssh_agent": None})
    (other / "record.json").write_text(contract)
    story = Story(here, "5b1d", f"{here.home}/src/rust")
    caller = {"hook_ppid": owner.pid if told == "by the process" else 2**22 + 1}
    story.append("session_start", story.body("SessionStart", reason="startup", **caller))
    app = Dashboard(here)
    async with app.run_test(size=(120, 36)) as pilot:
        await until(pilot, lambda: app.store.caught_up and "idle" in picture(app))
        session = app.store.sessions[f"pid:{owner.pid}"]
        assert session.session_ids == ("5b1d",) and session.agent == "claude-code" and session.foreign
        story.denied_write(f"{here.home}/.cache/uv/x")
        story.ask("Bash")
        await until(pilot, lambda: "waiting" in picture(app) and any(row.session_id == "5b1d" for row in rows(app)))
        session = app.store.sessions[f"pid:{owner.pid}"]
        assert session.live and session.waits_for == "permission for Bash" and session.counts["kernel"] == 1
        assert app.store.sessions["log:0ld0"].activity == "ended"
        await pilot.press("end", "g")
        await until(pilot, lambda: "another nd7 started this session" in said(app))
        await pilot.press("r")
        assert "another nd7 started this session" in said(app)
        assert (other / "record.json").read_text() == contract
        owner.end()
        await until(pilot, lambda: app.store.sessions.get("log:5b1d") is not None)


async def test_g_grants_and_u_takes_back_for_real(here: Places, live: Story, owner: Sleeper) -> None:
    app = Dashboard(here)
    async with app.run_test(size=(120, 50)) as pilot:
        await until(pilot, lambda: rows(app) and app.outlook_of(rows(app)[0]) is not None)
        text = picture(app)
        assert "grant ~/.cache/uv to api's next Bash commands" in text
        assert f"nd7 allow --session {owner.pid}" in text and "policy.sb line" in text
        assert "own permissions would let it" in text
        await pilot.press("g")
        await until(pilot, lambda: rows(app)[0].state == "granted")
        record = sessions.load(here, owner.pid).record
        assert record is not None and [grant.path for grant in record.grants] == [f"{here.home}/.cache/uv"]
        assert record.grants[0].origin == rows(app)[0].id and record.grants[0].scope == "session"
        assert f"{here.home}/.cache/uv" in Path(here.sessions, str(owner.pid), "policy.sb").read_text()
        assert app.store.deeds[-1].command == f"nd7 allow --session {owner.pid} {here.home}/.cache/uv"
        await pilot.press("g")
        assert "granted already" in said(app)
        live.denied_write(f"{here.home}/.cache/uv/x", "uv sync")
        await until(pilot, lambda: rows(app)[0].state == "repeated")
        live.call("uv sync", "Resolved 12 packages", 0)
        await until(pilot, lambda: rows(app)[0].state == "proved")
        await pilot.press("u")
        await until(pilot, lambda: rows(app)[0].state == "open")
        after = sessions.load(here, owner.pid).record
        assert after is not None and not after.grants
        # What the keys would do is told again, without a move to another row and back.
        await until(pilot, lambda: app.outlook_of(rows(app)[0]) is not None and "policy.sb line" in picture(app))


async def test_u_also_works_after_a_restart(here: Places, live: Story, owner: Sleeper) -> None:
    from nd7core import grants

    grants.allow(here, owner.pid, f"{here.home}/.cache/uv")
    app = Dashboard(here)
    async with app.run_test(size=(120, 36)) as pilot:
        await until(pilot, lambda: app.store.last_grant() is not None)
        await pilot.press("u")
        await until(pilot, lambda: app.store.last_grant() is None)


async def test_what_is_dangerous_asks_and_names_the_danger(here: Places, live: Story, owner: Sleeper) -> None:
    Path(here.home, ".bashrc").write_text("# mine\n")
    live.denied_write(f"{here.home}/.bashrc", "echo alias >> ~/.bashrc")
    app = Dashboard(here)
    async with app.run_test(size=(120, 40)) as pilot:
        await until(pilot, lambda: len(rows(app)) == 2 and app.outlook_of(rows(app)[1]) is not None)
        assert "asks first" in picture(app) and "shell start file" in picture(app)
        await pilot.press("g")
        await until(pilot, lambda: isinstance(app.screen, Ask))
        assert "a shell start file: ~/.bashrc" in picture(app)
        await pilot.press("y", "enter", "g", "escape")  # none of these is a yes
        await pilot.pause(0.3)
        assert isinstance(app.screen, Main)
        record = sessions.load(here, owner.pid).record
        assert record is not None and not record.grants
        await pilot.press("g")
        await until(pilot, lambda: isinstance(app.screen, Ask))
        await pilot.press("Y")
        await until(pilot, lambda: rows(app)[1].state == "granted")


async def test_credentials_cannot_be_granted(here: Places, live: Story, owner: Sleeper) -> None:
    os.mkdir(f"{here.home}/.ssh")
    live.call("cat ~/.ssh/id_ed25519", f"cat: {here.home}/.ssh/id_ed25519: Permission denied")
    app = Dashboard(here)
    async with app.run_test(size=(120, 40)) as pilot:
        await until(pilot, lambda: len(rows(app)) == 2)
        await pilot.pause(0.3)
        await pilot.press("g")
        await pilot.pause(0.2)
        assert said(app).startswith("grant: ")
        record = sessions.load(here, owner.pid).record
        assert record is not None and not record.grants


async def test_the_ladder_says_what_each_rung_would_open(here: Places, live: Story, owner: Sleeper) -> None:
    Path(here.home, ".cache/uv/wheels").mkdir()
    for name in ("a.whl", "b.whl", "token.json"):
        Path(here.home, ".cache/uv/wheels", name).write_text("x")
    app = Dashboard(here)
    async with app.run_test(size=(120, 40)) as pilot:
        await until(pilot, lambda: rows(app))
        await pilot.press("G")
        await until(pilot, lambda: isinstance(app.screen, Wider) and len(app.screen) >= 3)
        screen = app.screen
        assert isinstance(screen, Wider)
        await until(pilot, lambda: f"{here.home}/.cache/uv" in screen.surveys)
        text = picture(app)
        assert "3 files" in text and "looks like a secret" in text and "token.json" in text
        assert "not there yet" in text and "tool cache" in text
        await pilot.press("left", "left")  # a time ends with the session at the latest: it is the shorter one
        await pilot.pause()
        assert "for ◂ 1 hour ▸" in picture(app)
        await pilot.press("enter")
        await until(pilot, lambda: rows(app)[0].state == "granted")
        record = sessions.load(here, owner.pid).record
        assert record is not None and record.grants[0].scope == "until" and record.grants[0].expires is not None
        assert "--until" in app.store.deeds[-1].command
        await pilot.press("a")
        await until(pilot, lambda: isinstance(app.screen, Grants) and "unused" in picture(app))
        assert "(1h)  " in picture(app) and "because of" in picture(app) and "uv sync" in picture(app)
        await pilot.press("x")
        await until(pilot, lambda: "No session has a grant." in picture(app))


async def test_the_profile_and_its_changes(here: Places, live: Story, owner: Sleeper) -> None:
    from nd7core import grants

    app = Dashboard(here)
    async with app.run_test(size=(120, 60)) as pilot:
        await until(pilot, lambda: rows(app))
        await pilot.press("p")
        await until(pilot, lambda: isinstance(app.screen, Profile) and "(version 1)" in picture(app))
        assert "as it was at the start" in picture(app)
        grants.allow(here, owner.pid, f"{here.home}/.cache/uv")
        await until(pilot, lambda: "more than at the start" in picture(app))
        screen = app.screen
        assert isinstance(screen, Profile) and screen.read is not None
        assert any(mark == "+" and "/.cache/uv" in text for mark, _, text in screen.read.lines)


async def test_what_a_session_started_with_is_no_change_of_its_profile(here: Places, owner: Sleeper) -> None:
    begun = Grant(f"{here.home}/.cache/pip", scope="project", created=1, floor=True)
    Story(here, "3f0c", f"{here.home}/src/api", owner.pid, grants=(begun,)).start()
    app = Dashboard(here)
    async with app.run_test(size=(120, 60)) as pilot:
        await until(pilot, lambda: "1 live" in picture(app))
        await pilot.press("shift+tab", "down", "p")
        await until(pilot, lambda: isinstance(app.screen, Profile) and "as it was at the start" in picture(app))
        assert "/.cache/pip" in picture(app)


@pytest.mark.parametrize(("steps", "scope"), [(["left"] * 4, "once"), (["right"], "project")])
async def test_the_ladder_grants_for_one_command_and_for_good(
    here: Places, live: Story, owner: Sleeper, steps: list[str], scope: str
) -> None:
    app = Dashboard(here)
    async with app.run_test(size=(120, 40)) as pilot:
        await until(pilot, lambda: rows(app))
        await pilot.press("G")
        await until(pilot, lambda: isinstance(app.screen, Wider) and len(app.screen) >= 3)
        await pilot.press(*steps, "enter")
        await until(pilot, lambda: rows(app)[0].state == "granted")
        record = sessions.load(here, owner.pid).record
        assert record is not None and [grant.scope for grant in record.grants] == [scope]
        assert f"--{scope}" in app.store.deeds[-1].command


async def test_a_command_of_the_persons_is_told_of_what_is_new(
    here: Places, live: Story, tmp_path_factory: pytest.TempPathFactory
) -> None:
    folder = tmp_path_factory.mktemp("told")
    (folder / "tell").write_text(f'#!/bin/sh\necho "$ND7_EVENT $1" >> {folder}/told\n')
    (folder / "tell").chmod(0o700)
    app = Dashboard(here, wanted=Wanted(command=str(folder / "tell")))
    async with app.run_test(size=(120, 36)) as pilot:
        await until(pilot, lambda: app.store.caught_up)
        live.denied_write(f"{here.home}/.npm/x")
        live.ask("Bash")
        await until(pilot, lambda: (folder / "told").exists() and (folder / "told").read_text().count("\n") == 2)
        told = (folder / "told").read_text()  # and nothing of the refusal that was there before
        assert f"denied api was refused write: {here.home}/.npm/x" in told
        assert "waiting api waits for permission for Bash" in told


async def test_a_burst_is_one_message_a_frame_and_loses_nothing(here: Places, live: Story) -> None:
    seen: list[Message] = []
    app = Dashboard(here)
    async with app.run_test(size=(120, 36), message_hook=seen.append) as pilot:
        await until(pilot, lambda: app.store.caught_up)
        for number in range(300):
            live.denied_write(f"{here.home}/out/{number}")
        await until(pilot, lambda: len(rows(app)) == 301)
        assert app.store.counts()["kernel"] == 301
    assert len(told(seen, Arrived)) < 150


def test_reading_stops_where_nobody_takes(here: Places, live: Story, monkeypatch: pytest.MonkeyPatch) -> None:
    """A batch that is not taken is merged into, never dropped, and told of once."""
    calls: list[int] = []
    ingest = Ingest(here, lambda: calls.append(1))
    ingest.once()
    calls.clear()
    live.denied_write(f"{here.home}/a/1")
    ingest._sweep()
    live.denied_write(f"{here.home}/a/2")
    ingest._sweep()
    assert calls == [1]
    batch = ingest.take()
    assert [row.verdict.target for row in batch.rows] == [f"{here.home}/a/1", f"{here.home}/a/2"]
    assert not ingest.take()


def test_a_huge_output_is_cut_round_the_line_that_counts(here: Places, live: Story) -> None:
    line = f"sh: 1: cannot create {here.home}/x: Permission denied"
    live.call("make", "a" * 3_000_000 + f"\n{line}\n" + "b" * 3_000_000)
    batch = Ingest(here, lambda: None).once()
    row = batch.rows[-1]
    assert len(row.output) <= 24_000
    if row.verdict.line:
        assert row.verdict.line.strip() in row.output and row.cut[0] > 0 and row.cut[1] > 0


async def test_the_list_of_sessions_from_a_shell(here: Places, live: Story, capsys: pytest.CaptureFixture[str]) -> None:
    import time

    from nd7tui.commands.sessions import as_json, table
    from nd7tui.store import Store

    store = Store()
    store.take(Ingest(here, lambda: None).once(), time.time_ns())
    told_of = json.loads(json.dumps([as_json(session) for session in store.ordered()]))
    assert told_of[0]["name"] == "api" and told_of[0]["denials"]["kernel"] == 1 and told_of[0]["state"] == "working"
    assert "api" in table(store.ordered(), time.time_ns())[1]


async def test_attach_hands_the_terminal_over(here: Places, live: Story, owner: Sleeper) -> None:
    ran: list[list[str]] = []

    class Handing(Dashboard):
        async def outside(self, command: list[str]) -> None:
            ran.append(command)

    app = Handing(here)
    async with app.run_test(size=(120, 36)) as pilot:
        await until(pilot, lambda: rows(app))
        screen = app.screen
        assert isinstance(screen, Main)
        screen.session_list.focus()
        await pilot.press("home", "enter")
        assert "select one session" in said(app)
        await pilot.press("down", "enter")
        await until(pilot, lambda: ran)
        assert ran[0][1:] == ["-P", "-m", "nd7tui.cli", "attach", str(owner.pid)]


async def test_a_list_keeps_its_cursor_by_key(here: Places, live: Story) -> None:
    app = Dashboard(here)
    async with app.run_test(size=(120, 36)) as pilot:
        await until(pilot, lambda: rows(app))
        await until(pilot, lambda: app.screen.query_one("#stream", RowList).key == rows(app)[0].id)


async def test_what_comes_when_the_screens_are_gone_harms_nothing(here: Places, live: Story) -> None:
    app = Dashboard(here)
    async with app.run_test(size=(80, 24)) as pilot:
        await until(pilot, lambda: rows(app))
    assert not app.screen_stack
    app.changed()


async def test_no_refusal_of_a_program_that_tells_nothing_is_no_proof_of_none(here: Places, owner: Sleeper) -> None:
    """No adapter knows it, so no hook tells: a test refusal that was seen says nothing of its own."""
    from nd7core.policy import build
    from nd7core.process import start_time
    from nd7core.record import Record

    record = Record(
        project=f"{here.home}/src",
        home=here.home,
        state=here.state,
        pid=owner.pid,
        owner_start=start_time(owner.pid) or "",
        program=("/bin/bash",),
        name="look",
        canary={"state": "enforcing"},
    )
    sessions.create(here, record, build(record))
    app = Dashboard(here)
    async with app.run_test(size=(120, 36)) as pilot:
        await until(pilot, lambda: "No refusal was seen." in picture(app))
        assert "bash (look) is no agent that nd7 knows" in picture(app)
