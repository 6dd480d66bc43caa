"""Ways round the sandbox that are no system call: what nd7 itself says, starts and grants for a person outside."""

from __future__ import annotations

import json
import os
import shutil
import sys
import time
from dataclasses import replace
from pathlib import Path

import pytest
from world import World

from nd7core import grants, process, sessions, standing
from nd7core.grants import GrantError
from nd7core.paths import Places
from nd7core.policy import build
from nd7core.record import Grant, Record
from nd7tui import deeds, notices

EXEC = "~/.local/state/nd7/bin/nd7-exec"
PLANTED = "#!/bin/sh\n: > ~/planted\necho 2.1.197\n"


def test_nd7s_own_lines_carry_no_escape_of_the_sessions(world: World) -> None:
    """A command that no hook told of is named in nd7's own voice, after the session's end on a clean screen."""
    world.write(
        "claude", f"#!/bin/sh\nAI_AGENT=x_agent {EXEC} -c \"$(printf 'true # \\033]0;owned\\007')\"\nsleep 8\n", 0o755
    )
    done = world.run(["nd7", "run", "./claude"])
    assert "no hook told" in done.err
    assert "\x1b" not in done.err
    assert "\x07" not in done.err


def test_doctor_starts_nothing_that_a_session_may_have_put_there(world: World) -> None:
    world.write("node_modules/.bin/claude", PLANTED, 0o755)
    path = f"{world.project}/node_modules/.bin:{world.environ()['PATH']}"
    done = world.run(["nd7", "doctor"], env={"PATH": path})
    assert "was not asked for its version" in done.out
    running = world.start(["nd7", "run", "sleep", "60"])
    world.wait(lambda: world.listdir(f"{world.home}/.nd7/sessions"))
    done = world.run(["nd7", "doctor"], env={"PATH": path}, cwd="/")
    running.terminate()
    assert "was not asked for its version" in done.out
    assert not world.exists(f"{world.home}/planted")


def test_the_dashboard_starts_no_notifier_from_a_project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    planted = tmp_path / "notify-send"
    planted.write_text(PLANTED)
    planted.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    assert shutil.which("notify-send") == str(planted)
    assert str(planted) not in notices.desktop("title", "text")[:1]
    assert "notify-send" not in notices.desktop("title", "text")


def prepared(tmp_path: Path) -> tuple[Places, int]:
    """A session of this process, in a home with a folder of another project and one that matters."""
    home = Path(os.path.realpath(tmp_path)) / "home"
    for name in ("project", "other/out", "private", "tmp", ".nd7"):
        (home / name).mkdir(parents=True, mode=0o700)
    home.chmod(0o700)
    state = f"{home}/.local/state/nd7"
    record = Record(
        project=f"{home}/project", home=str(home), state=state, tmp=f"{home}/tmp", exit=f"{state}/bin/nd7-exec",
        pid=os.getpid(), name="project", program=("claude",), agent="claude", started=1,
        owner_start=process.start_time(os.getpid()) or "", revision=1,
    )  # fmt: skip
    places = Places(home=str(home), nd7=f"{home}/.nd7", sessions=f"{home}/.nd7/sessions", state=state)
    sessions.create(places, record, build(record))
    return places, record.pid


def turn(places: Places) -> None:
    """What another session, whose project `other` is, can do to a path in it."""
    os.rename(f"{places.home}/other/out", f"{places.home}/other/gone")
    os.symlink(f"{places.home}/private", f"{places.home}/other/out")


def granted(places: Places, pid: int) -> list[str]:
    record = sessions.load(places, pid).record
    assert record
    return [grant.path for grant in record.grants]


def test_a_row_whose_path_has_become_a_link_is_asked_about(tmp_path: Path) -> None:
    places, pid = prepared(tmp_path)
    shown = f"{places.home}/other/out"
    turn(places)
    done = deeds.grant(places, deeds.Wish(pid, shown))
    assert not done.ok
    assert done.asks[0].endswith(f"a link now: what would be granted is {places.home}/private")
    assert done.wish
    assert done.wish.path == f"{places.home}/private"
    assert granted(places, pid) == []


def test_a_path_that_becomes_a_link_between_the_question_and_the_yes_is_not_granted(tmp_path: Path) -> None:
    places, pid = prepared(tmp_path)
    shown = f"{places.home}/other/out"
    turn(places)
    done = deeds.grant(places, deeds.Wish(pid, shown, force=True))
    assert not done.ok
    assert "has become a link" in done.said
    with pytest.raises(GrantError, match="has become a link"):
        grants.allow(places, pid, shown, exactly=True)
    assert granted(places, pid) == []
    # Typed by a person it is what it leads to, and said so.
    assert grants.allow(places, pid, shown).path == f"{places.home}/private"


def test_a_session_that_claims_another_projects_conversation_changes_nothing_of_it(tmp_path: Path) -> None:
    """Any process of a session may send a payload with any id, and past ids can be read in nd7's log."""
    places, pid = prepared(tmp_path)
    ours = sessions.load(places, pid).record
    assert ours
    name = "11111111-1111-1111-1111-111111111111"
    theirs = replace(
        ours, project=f"{places.home}/other", agent_sessions=(name,), grants=(Grant(f"{places.home}/private"),)
    )
    standing.remember(places, theirs, time.time_ns())
    for grants_of_ours in ((), (Grant(f"{places.home}/tmp"),)):
        standing.remember(places, replace(ours, agent_sessions=(name,), grants=grants_of_ours), time.time_ns())
        kept = standing.ended_with(places, theirs.project, name)
        assert [grant.path for grant in kept] == [f"{places.home}/private"]
        assert standing.ended_with(places, ours.project, name) == ()


def test_a_session_of_many_conversations_makes_those_of_others_not_forgotten(tmp_path: Path) -> None:
    places, pid = prepared(tmp_path)
    ours = sessions.load(places, pid).record
    assert ours
    theirs = replace(ours, project=f"{places.home}/other", grants=(Grant(f"{places.home}/private"),))
    names = [f"{number:08x}-1111-1111-1111-111111111111" for number in range(256 + 20)]
    for name in names[:20]:
        standing.remember(places, replace(theirs, agent_sessions=(name,)), time.time_ns())
    for more in (names[20:], [name.replace("1111", "2222") for name in names[20:]]):
        had = replace(ours, agent_sessions=tuple(more), grants=(Grant(f"{places.home}/tmp"),))
        standing.remember(places, had, time.time_ns())
        assert standing.ended_with(places, ours.project, more[-1])
    assert all(standing.ended_with(places, theirs.project, name) for name in names[:20])


NAMED = "nd7 run --project ~/work/app sh -c 'echo x > ~/.config/outside'"
ENTERED = "cd ~/work/app && nd7 run sh -c 'echo x > ~/.config/outside'"
DOT = "cd ~/work/app && nd7 run --project . sh -c 'echo x > ~/.config/outside'"


@pytest.mark.parametrize("start", [NAMED, ENTERED, DOT])
def test_no_session_chooses_anothers_project_by_a_link(world: World, start: str) -> None:
    world.mkdir(f"{world.home}/.config")
    world.mkdir(f"{world.home}/work")
    first = "ln -s ~/.config app; exec sleep 60"
    world.start(["nd7", "run", "sh", "-c", first], cwd=f"{world.home}/work")
    world.wait(lambda: world.exists(f"{world.home}/work/app"))
    done = world.run(["bash", "-c", start])
    assert done.code == 126
    assert f"where the link {world.home}/work/app leads, and session " in done.err
    assert not world.exists(f"{world.home}/.config/outside")


@pytest.mark.parametrize("start", [NAMED, ENTERED])
def test_no_repository_chooses_a_project_outside_of_it_by_a_link(world: World, start: str) -> None:
    world.mkdir(f"{world.home}/.config")
    world.mkdir(f"{world.home}/work/.git")
    world.path(f"{world.home}/work/app").symlink_to("../.config")
    done = world.run(["bash", "-c", start])
    assert done.code == 126
    assert "leads out of it" in done.err
    assert not world.exists(f"{world.home}/.config/outside")


def test_a_persons_own_link_to_a_project_works(world: World) -> None:
    world.mkdir(f"{world.home}/disk/work/.git")
    world.mkdir(f"{world.home}/disk/work/packages/one")
    world.path(f"{world.home}/work").symlink_to("disk/work")
    world.path(f"{world.home}/disk/work/app").symlink_to("packages/one")
    for start in (
        "cd ~/work/app && nd7 run",
        "nd7 run --project ~/work/app",
        "cd ~ && PWD=/ nd7 run --project work/app",
    ):
        done = world.run(["bash", "-c", f"{start} sh -c 'pwd -P >> seen'"])
        assert done.code == 0, done.err
    assert world.read(f"{world.home}/disk/work/packages/one/seen") == f"{world.home}/disk/work/packages/one\n" * 3


def test_a_link_of_the_sessions_is_not_granted_by_its_name(world: World) -> None:
    """`nd7 allow build`, in a project where the session has made `build` a link to what starts with the desktop."""
    world.mkdir(f"{world.home}/.config")
    running = world.start(["nd7", "run", "sh", "-c", "ln -s ~/.config build; exec sleep 60"])
    world.wait(lambda: world.exists("build"))
    done = world.run(["nd7", "allow", "build"])
    assert done.code == 1
    assert "build is a link that the session can have made" in done.err
    assert f"nd7 allow {world.home}/.config" in done.err
    assert ".config" not in world.run(["nd7", "grants"]).out
    assert world.run(["nd7", "allow", "--force", f"{world.home}/.config"]).code == 0
    running.terminate()


def test_only_the_three_descriptors_reach_agent_and_command(world: World) -> None:
    listing = "import os, json; json.dump(sorted(os.listdir('/proc/self/fd'), key=int), open('{}', 'w'))"
    for name in ("agent", "command"):
        world.write(f"{name}.py", listing.format(f"{name}.json"))
    done = world.run(["nd7", "run", "sh", "-c", f"{sys.executable} agent.py; {EXEC} -c '{sys.executable} command.py'"])
    assert done.code == 0, done.err
    for name in ("agent", "command"):
        assert json.loads(world.read(f"{name}.json")) == ["0", "1", "2", "3"]  # 3 is the listing's own


WATCHER = """
import os, time
end = time.monotonic() + 20
while True:
    try:
        directory = os.open(os.path.expanduser("~/.ssh"), os.O_RDONLY)
        break
    except OSError:
        assert time.monotonic() < end
open("opened", "w").close()
while not os.path.exists("written"):
    time.sleep(0.05)
found = {}
for name, path, at in (("path", os.path.expanduser("~/.ssh/id"), None), ("descriptor", "id", directory)):
    try:
        found[name] = os.read(os.open(path, os.O_RDONLY, dir_fd=at), 99).decode()
    except OSError as error:
        found[name] = error.strerror
import json
json.dump(found, open("found.json", "w"))
"""


def test_a_key_store_that_is_first_made_beside_a_running_session(world: World) -> None:
    """Its path is closed within two seconds.  A descriptor opened before that stays: what is not there has no mask."""
    world.write("watcher.py", WATCHER)
    running = world.start(["nd7", "run", sys.executable, "watcher.py"])
    world.wait(lambda: world.listdir(f"{world.home}/.nd7/sessions"))
    time.sleep(0.5)
    world.run(["mkdir", "-m", "700", f"{world.home}/.ssh"])
    world.wait(lambda: world.exists("opened"))
    time.sleep(3)
    world.write(f"{world.home}/.ssh/id", "SECRET")
    world.write("written", "")
    running.wait(30)
    assert json.loads(world.read("found.json")) == {"path": "Permission denied", "descriptor": "SECRET"}
