"""Session directories: whole or not there, nobody else's, and never a dead process's."""

from __future__ import annotations

import json
import os
import stat
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from nd7core import process, sessions
from nd7core.errors import Nd7Error
from nd7core.paths import Places, places_of
from nd7core.policy import build, decide, parse
from nd7core.private import PrivateError
from nd7core.record import Grant, Record
from nd7core.sessions import SessionError


@pytest.fixture
def places(tmp_path: Path) -> Places:
    home = Path(os.path.realpath(tmp_path)) / "home"
    home.mkdir(mode=0o700)
    return places_of(str(home))


@pytest.fixture
def owner() -> Iterator[subprocess.Popen[bytes]]:
    """A process that a session can belong to."""
    child = subprocess.Popen(["sleep", "600"])
    yield child
    child.kill()
    child.wait()


def record_of(places: Places, pid: int, project: str = "/srv/app") -> Record:
    return Record(
        project=project,
        home=places.home,
        state=places.state,
        tmp="/tmp/nd7-x",
        pid=pid,
        owner_start=process.start_time(pid) or "gone",
        started=time.time_ns(),
    )


def make(places: Places, pid: int, project: str = "/srv/app") -> str:
    record = record_of(places, pid, project)
    return sessions.create(places, record, build(record))


def test_a_session_is_private_whole_and_listed(places: Places, owner: subprocess.Popen[bytes]) -> None:
    old = os.umask(0)  # the modes must not hang on the person's umask
    try:
        directory = make(places, owner.pid)
    finally:
        os.umask(old)
    assert directory == sessions.path_of(places, owner.pid)
    for path in (places.nd7, places.sessions, directory):
        assert stat.S_IMODE(Path(path).stat().st_mode) == 0o700
    assert sorted(os.listdir(directory)) == ["policy.sb", "record.json"]
    for name in os.listdir(directory):
        assert stat.S_IMODE((Path(directory) / name).stat().st_mode) == 0o600
    (found,) = sessions.live(places)
    assert (found.pid, found.alive, found.problem, found.unsure) == (owner.pid, True, "", False)
    assert found.record is not None
    parse((Path(directory) / "policy.sb").read_bytes())


def test_a_session_ends_with_its_process(places: Places, owner: subprocess.Popen[bytes]) -> None:
    make(places, owner.pid)
    assert sessions.sweep(places) == []
    owner.kill()
    owner.wait()
    assert [session.alive for session in sessions.live(places)] == [False]
    assert sessions.sweep(places) == [owner.pid]
    assert sessions.live(places) == []


def test_a_reused_pid_is_no_session(places: Places, owner: subprocess.Popen[bytes]) -> None:
    record = replace(record_of(places, owner.pid), owner_start="another boot:1")
    sessions.create(places, record, build(record))
    (found,) = sessions.live(places)
    assert not found.alive
    assert not sessions.is_alive(found)
    with pytest.raises(SessionError, match="no session is running"):
        sessions.choose(places)
    assert sessions.sweep(places) == [owner.pid]


def test_a_leftover_makes_way_and_a_live_one_does_not(places: Places, owner: subprocess.Popen[bytes]) -> None:
    stale = replace(record_of(places, owner.pid), owner_start="old", project="/old")
    sessions.create(places, stale, build(stale))
    make(places, owner.pid)
    found = sessions.live(places)[0].record
    assert found is not None
    assert found.project == "/srv/app"
    with pytest.raises(SessionError, match="there already"):
        make(places, owner.pid)


def test_an_update_writes_both_files_and_counts(places: Places, owner: subprocess.Popen[bytes]) -> None:
    directory = Path(make(places, owner.pid))
    reader = (directory / "policy.sb").open("rb")
    record = sessions.update(places, owner.pid, lambda old: replace(old, grants=(Grant("/opt/x"),)))
    assert record.revision == 1
    assert json.loads((directory / "record.json").read_bytes())["grants"] == ["/opt/x"]
    assert decide(parse((directory / "policy.sb").read_bytes()), "write", "/opt/x/y").allowed
    with reader:  # replaced, not rewritten: whoever was reading reads the old one to its end
        assert b"/opt/x" not in reader.read()
    same = sessions.update(places, owner.pid, lambda old: old)
    assert same.revision == 1


def test_what_is_not_of_the_policy_leaves_the_policy_alone(places: Places, owner: subprocess.Popen[bytes]) -> None:
    """The canary's result comes often; it must not look like a new policy, nor undo what a person wrote."""
    policy = Path(make(places, owner.pid)) / "policy.sb"
    policy.write_bytes(policy.read_bytes() + b"; mine\n")
    sessions.update(places, owner.pid, lambda old: replace(old, grants=(Grant("/opt/x"),)))
    policy.write_bytes(policy.read_bytes() + b"; mine\n")

    def note(old: Record) -> Record:
        used = tuple(replace(grant, uses=grant.uses + 1) for grant in old.grants)
        return replace(old, gaps=3, canary={"state": "enforcing"}, agent_sessions=("a",), grants=used)

    record = sessions.update(places, owner.pid, note)
    assert (record.revision, record.gaps, record.grants[0].uses) == (1, 3, 1)
    assert policy.read_bytes().endswith(b"; mine\n")
    assert sessions.load(places, owner.pid).record == record


def test_a_change_that_refuses_leaves_everything_as_it_was(places: Places, owner: subprocess.Popen[bytes]) -> None:
    directory = Path(make(places, owner.pid))
    before = {name: (directory / name).read_bytes() for name in os.listdir(directory)}

    def refuse(record: Record) -> Record:
        raise SessionError("no")

    with pytest.raises(SessionError, match="no"):
        sessions.update(places, owner.pid, refuse)
    assert before == {name: (directory / name).read_bytes() for name in os.listdir(directory)}


def test_twenty_grants_at_once_lose_none(places: Places, owner: subprocess.Popen[bytes]) -> None:
    directory = Path(make(places, owner.pid))
    code = (
        "import sys; from dataclasses import replace\n"
        "from nd7core import sessions; from nd7core.paths import places_of; from nd7core.record import Grant\n"
        "home, pid, path = sys.argv[1], int(sys.argv[2]), sys.argv[3]; sys.stdin.read()\n"
        "sessions.update(places_of(home), pid, lambda r: replace(r, grants=(*r.grants, Grant(path))))\n"
    )
    root = str(Path(sessions.__file__).parent.parent)
    start, gate = os.pipe()
    children = [
        subprocess.Popen(
            [sys.executable, "-c", code, places.home, str(owner.pid), f"/opt/{number}"],
            stdin=start,
            env={**os.environ, "PYTHONPATH": root},
        )
        for number in range(20)
    ]
    os.close(start)
    os.close(gate)  # all of them at once
    assert [child.wait(60) for child in children] == [0] * 20
    data = json.loads((directory / "record.json").read_bytes())
    assert sorted(data["grants"]) == sorted(f"/opt/{number}" for number in range(20))
    assert data["revision"] == 20
    policy = parse((directory / "policy.sb").read_bytes())
    assert all(decide(policy, "write", f"/opt/{number}/x").allowed for number in range(20))
    assert sorted(os.listdir(directory)) == ["policy.sb", "record.json"]


def test_a_writer_that_was_killed_leaves_nothing_that_counts(places: Places, owner: subprocess.Popen[bytes]) -> None:
    directory = Path(make(places, owner.pid))
    (directory / ".tmp-0123").write_bytes(b"half")
    (Path(places.sessions) / ".new-99-aa").mkdir()
    sessions.update(places, owner.pid, lambda old: replace(old, gaps=1))
    assert sorted(os.listdir(directory)) == ["policy.sb", "record.json"]
    sessions.sweep(places)
    assert sorted(os.listdir(places.sessions)) == [".lock", str(owner.pid)]


def _damage(places: Places, pid: int, how: str) -> None:
    directory = Path(sessions.path_of(places, pid))
    record = directory / "record.json"
    if how == "empty":
        record.write_bytes(b"")
    elif how == "missing":
        record.unlink()
    elif how == "json":
        record.write_bytes(b"[1]")
    elif how == "huge":
        os.truncate(record, 100_000_000)
    elif how == "fifo":
        record.unlink()
        os.mkfifo(record)
    elif how == "link":
        record.rename(directory / "other")
        record.symlink_to("other")
    elif how == "folder":
        record.unlink()
        record.mkdir()
    elif how == "writable":
        record.chmod(0o666)
    elif how == "open directory":
        directory.chmod(0o777)
    elif how == "linked directory":
        directory.rename(directory.with_name("elsewhere"))
        directory.symlink_to("elsewhere")
    elif how == "file":
        for path in directory.iterdir():
            path.unlink()
        directory.rmdir()
        directory.write_bytes(b"")
    elif how == "another's pid":
        record.write_bytes(record.read_bytes().replace(str(pid).encode(), str(pid + 1).encode()))


@pytest.mark.parametrize(
    "how",
    [
        *("empty", "missing", "json", "huge", "fifo", "link", "folder", "writable"),
        *("open directory", "linked directory", "file", "another's pid"),
    ],
)
def test_a_damaged_session_is_reported_and_never_used(places: Places, owner: subprocess.Popen[bytes], how: str) -> None:
    make(places, owner.pid)
    make(places, os.getpid(), "/srv/good")
    _damage(places, owner.pid, how)
    found = {session.pid: session for session in sessions.live(places)}
    assert found[os.getpid()].record is not None
    assert found[owner.pid].record is None
    assert found[owner.pid].problem.startswith(f"session {owner.pid}")
    with pytest.raises(Nd7Error):
        sessions.update(places, owner.pid, lambda old: replace(old, gaps=9))
    assert sessions.choose(places).pid == os.getpid()
    with pytest.raises(SessionError):
        sessions.choose(places, str(owner.pid))
    # Its process lives, so it stays for whoever looks into it; when that ends it goes.
    assert sessions.sweep(places) == []
    owner.kill()
    owner.wait()
    assert sessions.sweep(places) == [owner.pid]
    assert [session.pid for session in sessions.live(places)] == [os.getpid()]


def test_a_link_is_never_followed_when_sweeping(places: Places, tmp_path: Path) -> None:
    make(places, os.getpid())
    precious = tmp_path / "precious"
    precious.mkdir()
    (precious / "file").write_text("x")
    (Path(places.sessions) / "2147483646").symlink_to(precious)
    sessions.sweep(places)
    assert (precious / "file").exists()
    assert not os.path.lexists(os.path.join(places.sessions, "2147483646"))


@pytest.mark.parametrize("where", ["nd7", "sessions"])
def test_a_sessions_directory_of_others_is_not_used(places: Places, where: str) -> None:
    make(places, os.getpid())
    Path(getattr(places, where)).chmod(0o770)
    (found,) = sessions.live(places)
    assert (found.pid, found.record) == (0, None)
    assert "can be written by others" in found.problem
    with pytest.raises(PrivateError, match="can be written by others"):
        sessions.update(places, os.getpid(), lambda old: replace(old, gaps=1))
    with pytest.raises(PrivateError):
        make(places, os.getpid())
    with pytest.raises(SessionError, match="can be written by others"):
        sessions.choose(places)


def test_a_directory_that_somebody_else_owns_is_a_problem(places: Places, monkeypatch: pytest.MonkeyPatch) -> None:
    directory = make(places, os.getpid())
    if os.geteuid() == 0:
        os.chown(directory, 12345, 12345)
    else:
        # Only root can give a directory away; to whoever is not its owner it is somebody else's.
        monkeypatch.setattr(os, "geteuid", lambda: 12345)
    (found,) = sessions.live(places)
    assert "belongs to user id" in found.problem
    assert found.record is None


def test_sessions_of_the_macos_nd7_are_shown_and_left_alone(places: Places, owner: subprocess.Popen[bytes]) -> None:
    make(places, os.getpid())
    directory = Path(sessions.path_of(places, owner.pid))
    directory.mkdir(mode=0o700)
    keys = {
        "project": "/p",
        "home": "/h",
        "state": "/s",
        "tmp": "/t",
        "exit": "/e",
        "grants": ["/g"],
        "ssh_agent": None,
    }
    (directory / "record.json").write_text(json.dumps(keys))
    found = {session.pid: session for session in sessions.live(places)}[owner.pid]
    assert (found.alive, found.unsure, found.problem) == (True, True, "")
    assert found.record is not None
    assert found.record.pid == owner.pid
    with pytest.raises(SessionError, match="another nd7"):
        sessions.update(places, owner.pid, lambda old: replace(old, grants=()))
    assert json.loads((directory / "record.json").read_text()) == keys


def test_which_session_is_meant(places: Places, owner: subprocess.Popen[bytes]) -> None:
    with pytest.raises(SessionError, match="no session is running"):
        sessions.choose(places)
    make(places, owner.pid, "/srv/app")
    assert sessions.choose(places).pid == owner.pid
    record = replace(record_of(places, os.getpid(), "/srv/app/sub"), name="beta", agent_sessions=("id-1",))
    sessions.create(places, record, build(record))
    assert sessions.choose(places, cwd="/srv/app/sub/x").pid == os.getpid()
    assert sessions.choose(places, cwd="/srv/app/other").pid == owner.pid
    for wanted in (str(os.getpid()), "beta", "id-1"):
        assert sessions.choose(places, wanted).pid == os.getpid()
    with pytest.raises(SessionError, match="several sessions are running") as caught:
        sessions.choose(places, cwd="/srv/apple")
    assert str(owner.pid) in caught.value.hint
    assert str(os.getpid()) in caught.value.hint
    with pytest.raises(SessionError, match="no session gamma"):
        sessions.choose(places, "gamma")
    with pytest.raises(SessionError, match="no session 1"):
        sessions.load(places, 1)
    assert sessions.load(places, owner.pid).alive


def test_before_the_first_session_there_is_nothing(places: Places) -> None:
    assert sessions.live(places) == []
    assert sessions.sweep(places) == []
    sessions.remove(places, 5)
    assert not Path(places.nd7).exists()
