"""Grants: what is given, what is refused and why, and taking back."""

from __future__ import annotations

import os
import time
from dataclasses import replace
from pathlib import Path

import pytest

from nd7core import grants, process, sessions, standing
from nd7core.errors import Nd7Error
from nd7core.grants import GrantError, allow, check, deny
from nd7core.paths import Places, canonical, places_of
from nd7core.policy import build, decide, parse
from nd7core.record import Grant, Record
from nd7core.survey import dangers, survey

PID = os.getpid()


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return Path(os.path.realpath(tmp_path))


@pytest.fixture
def places(root: Path) -> Places:
    for name in ("h/ada/.ssh", "h/ada/.aws", "h/ada/.claude", "h/ada/work/app", "other"):
        (root / name).mkdir(parents=True)
    (root / "h/ada/.claude/settings.json").write_text("{}")
    found = places_of(str(root / "h/ada"))
    record = Record(
        project=f"{found.home}/work/app",
        home=found.home,
        state=found.state,
        exit=f"{root}/lib/nd7-exec",
        pid=PID,
        owner_start=process.start_time(PID) or "",
        protected=(f"{found.home}/.claude/settings.json",),
        program=("claude", "-c"),
        agent="claude",
        agent_sessions=("0a1b2c3d-0000-4000-8000-0123456789ab",),
    )
    sessions.create(found, record, build(record))
    return found


def allowed(places: Places, path: Path | str, operation: str = "write") -> bool:
    text = (Path(sessions.path_of(places, PID)) / "policy.sb").read_bytes()
    return decide(parse(text), operation, str(path)).allowed


def test_a_grant_reaches_the_policy_and_goes_again(places: Places, root: Path) -> None:
    change = allow(places, PID, str(root / "other"), origin="denial 3", now=7)
    assert (change.path, change.already, change.created) == (str(root / "other"), False, "")
    assert change.record.grants == (Grant(str(root / "other"), "session", None, "denial 3", 7),)
    assert allowed(places, root / "other/x")
    assert change.command == f"nd7 allow --session {PID} {root}/other"
    assert change.when.endswith("nd7 run claude --resume 0a1b2c3d-0000-4000-8000-0123456789ab")
    again = allow(places, PID, str(root / "other"))
    assert again.already
    assert again.record.revision == change.record.revision
    back = deny(places, PID, str(root / "other"))
    assert back.record.grants == ()
    assert back.command == f"nd7 deny --session {PID} {root}/other"
    assert not allowed(places, root / "other/x")


def test_the_path_is_made_canonical(places: Places, root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (root / "link").symlink_to("other")
    (root / "other/deep").mkdir()
    monkeypatch.chdir(root / "other")
    assert allow(places, PID, str(root / "link/deep")).path == f"{root}/other/deep"
    assert allow(places, PID, "./deep/../deep").already


def test_what_does_not_exist_is_granted_where_its_folder_does(places: Places, root: Path) -> None:
    folder = allow(places, PID, f"{root}/other/cache")
    assert folder.created == "directory"
    assert "did not exist" in folder.note
    assert (root / "other/cache").is_dir()
    file = allow(places, PID, f"{root}/other/notes.txt")
    assert file.created == "file"
    assert (root / "other/notes.txt").read_bytes() == b""
    assert allow(places, PID, f"{root}/other/.hidden").created == "directory"
    assert allow(places, PID, f"{root}/other/x.d/").created == "directory"
    assert allow(places, PID, f"{root}/other/any", make="file").created == "file"
    for name in (".bashrc", ".profile", ".gitconfig", ".env", "Makefile"):
        assert allow(places, PID, f"{root}/other/{name}").created == "file", name
    for name in (".venv", ".config", "bin"):
        assert allow(places, PID, f"{root}/other/{name}").created == "directory", name
    (root / "other/circle").symlink_to("circle")
    with pytest.raises(GrantError, match="symbolic links"):
        allow(places, PID, f"{root}/other/circle")
    with pytest.raises(GrantError, match="folder does not exist"):
        allow(places, PID, f"{root}/nowhere/x")
    assert not (root / "nowhere").exists()
    (root / "other/dangling").symlink_to(root / "other/target")
    assert allow(places, PID, f"{root}/other/dangling").path == f"{root}/other/target"


@pytest.mark.parametrize(
    ("path", "words"),
    [
        (".ssh", "credentials"),
        (".ssh/config", "credentials"),
        (".aws/new", "credentials"),
        (".nd7", "nd7's own"),
        (".nd7/sessions", "nd7's own"),
        (".local/state/nd7", "audit log"),
        (".claude/settings.json", "next session starts with"),
        ("to-ssh", "credentials"),
        ("to-ssh/x", "credentials"),
        ("work/../.ssh/", "credentials"),
    ],
)
@pytest.mark.parametrize("force", [False, True])
def test_what_is_never_granted(places: Places, path: str, words: str, force: bool) -> None:
    (Path(places.home) / "to-ssh").symlink_to(".ssh")
    Path(places.state).mkdir(parents=True)
    with pytest.raises(GrantError, match=words):
        allow(places, PID, f"{places.home}/{path}", force=force)
    assert sessions.load(places, PID).record == sessions.update(places, PID, lambda record: record)
    for secret in (".ssh/x", ".aws/x", ".nd7/x"):
        assert not allowed(places, f"{places.home}/{secret}")


@pytest.mark.parametrize("path", ["/", "/home", "/usr", "/etc", "/tmp", "/opt", "HOME", "HOME/..", "HOME/.claude"])
def test_what_opens_nearly_everything_wants_force_and_leaves_the_protected(places: Places, path: str) -> None:
    path = path.replace("HOME", places.home)
    with pytest.raises(GrantError) as caught:
        allow(places, PID, path)
    assert "--force" in caught.value.hint
    change = allow(places, PID, path, force=True)
    assert "--force" in change.command
    assert allowed(places, canonical(path) + "/some-name")
    for kept in (".ssh/x", ".aws/x", ".nd7/x", ".local/state/nd7/x", ".claude/settings.json"):
        assert not allowed(places, f"{places.home}/{kept}")


def test_what_must_stay_shut_in_a_wide_grant_is_there_to_be_kept_shut(places: Places) -> None:
    """Linux can keep only what exists from being made: without this every later command would be refused."""
    (Path(places.home) / ".aws").rmdir()
    change = allow(places, PID, places.home, force=True)
    for name in (".aws", ".local/state/nd7"):
        assert (Path(places.home) / name).is_dir()
        assert f"{places.home}/{name}" in change.note
    deny(places, PID, places.home)
    (Path(places.home) / ".claude/settings.json").unlink()
    with pytest.raises(GrantError, match=r"settings\.json must stay unwritable, does not exist"):
        allow(places, PID, places.home, force=True)


def test_other_homes_the_kernel_and_our_own_code_want_force(places: Places) -> None:
    record = sessions.load(places, PID).record
    assert record is not None
    for path, kind in [
        ("/home/somebody", "root"),
        ("/proc/self", "root"),
        ("/sys/fs", "root"),
        (os.path.dirname(os.path.realpath(grants.__file__)), "code"),
        (os.path.dirname(os.path.dirname(os.path.realpath(grants.__file__))), "code"),
    ]:
        refusal = check(record, path)
        assert refusal is not None
        assert (refusal.kind, refusal.force_helps) == (kind, True)
    refusal = check(record, record.exit)
    assert refusal is not None
    assert not refusal.force_helps
    assert check(record, "/opt/tool") is None


def test_a_path_that_is_writable_already_changes_nothing(places: Places, root: Path) -> None:
    assert allow(places, PID, f"{places.home}/work/app/src").already
    allow(places, PID, str(root / "other"))
    inside = allow(places, PID, f"{root}/other/sub")
    assert inside.already
    assert not (root / "other/sub").exists()


def test_a_grant_that_ends(places: Places, root: Path) -> None:
    now = time.time_ns()
    change = allow(places, PID, str(root / "other"), expires=now + 10**12, now=now)
    assert change.record.grants[0].scope == "until"
    assert "--until 20" in change.command
    assert grants.expired(change.record, now) == ()
    assert len(grants.expired(change.record, now + 10**12)) == 1
    assert grants.expire(places, PID, now + 10**12).grants == ()
    assert not allowed(places, root / "other/x")
    with pytest.raises(GrantError, match="ended before"):
        allow(places, PID, str(root / "other"), expires=now - 1, now=now)
    # A grant that ends does not stand in the way of one that lasts.
    allow(places, PID, str(root / "other"), expires=time.time_ns() + 10**12)
    assert not allow(places, PID, str(root / "other")).already
    assert len(sessions.update(places, PID, lambda record: record).grants) == 1


def test_a_grant_for_one_command_is_spent(places: Places, root: Path) -> None:
    (root / "b").mkdir()
    allow(places, PID, str(root / "other"), scope="once")
    record = allow(places, PID, str(root / "b")).record
    after = grants.spend(record, time.time_ns())
    assert [(grant.path, grant.uses) for grant in after.grants] == [(str(root / "b"), 1)]


def test_a_grant_for_the_project_is_there_in_its_next_session(places: Places, root: Path) -> None:
    project = f"{places.home}/work/app"
    allow(places, PID, str(root / "other"), scope="project", origin="me")
    assert [grant.path for grant in standing.project_grants(places, project)] == [str(root / "other")]
    assert standing.project_grants(places, "/elsewhere") == ()
    deny(places, PID, str(root / "other"))
    assert standing.project_grants(places, project) == ()
    (Path(places.nd7) / "grants.json").write_text("{")
    with pytest.raises(Nd7Error, match="damaged"):
        standing.project_grants(places, project)


def test_taking_back_what_is_not_granted_names_what_is(places: Places, root: Path) -> None:
    with pytest.raises(GrantError, match="is not granted") as caught:
        deny(places, PID, str(root / "other"))
    assert caught.value.hint == "nothing is"
    allow(places, PID, str(root / "other"))
    for path, hint in [("other/sub", "which holds it"), ("othre", "granted: "), (".", "granted: ")]:
        with pytest.raises(GrantError) as caught:
            deny(places, PID, str(root / path))
        assert hint in caught.value.hint
        assert str(root / "other") in caught.value.hint


def test_a_grant_is_taken_back_by_its_name_when_it_became_a_link(places: Places, root: Path) -> None:
    allow(places, PID, str(root / "other"))
    (root / "other").rename(root / "moved")
    (root / "other").symlink_to("moved")
    assert deny(places, PID, str(root / "other")).record.grants == ()


def test_what_stays_open_through_another_grant_is_said(places: Places, root: Path) -> None:
    (root / "other/sub").mkdir()
    allow(places, PID, str(root / "other/sub"))
    allow(places, PID, str(root / "other"))
    assert str(root / "other") in deny(places, PID, str(root / "other/sub")).note


def test_a_file_is_granted_with_a_word_about_replacing(places: Places, root: Path) -> None:
    (root / "other/f").write_text("")
    assert "replaces it" in allow(places, PID, str(root / "other/f")).note


def test_paths_that_are_none(places: Places) -> None:
    for path in ("", "a\0b", "/\ud800"):
        with pytest.raises(Nd7Error):
            allow(places, PID, path)
        with pytest.raises(Nd7Error):
            deny(places, PID, path)


def test_odd_names_come_through_whole(places: Places, root: Path) -> None:
    for name in (b"sp ace", b"new\nline", b'q"uote', b"\xff\xfe", b"\x1b[31m", "\u202eabc".encode()):
        path = root / os.fsdecode(name)
        path.mkdir()
        change = allow(places, PID, str(path))
        assert allowed(places, str(path) + "/x")
        assert change.command.isprintable()
    assert len(sessions.update(places, PID, lambda record: record).grants) == 6


def test_what_runs_later_is_named(places: Places) -> None:
    home = places.home
    (Path(home) / ".bashrc").write_text("")
    (Path(home) / "lib/.git/hooks").mkdir(parents=True)
    assert any("shell start file: ~/.bashrc" in found for found in dangers(home, home=home))
    assert dangers(f"{home}/.bashrc", home=home) == ["a shell start file: ~/.bashrc"]
    assert dangers(f"{home}/.config/autostart/x.desktop", home=home) == [
        "something started at login: ~/.config/autostart"
    ]
    assert dangers(f"{home}/lib", home=home) == ["hooks of another repository: ~/lib/.git/hooks"]
    assert dangers(f"{home}/lib/.git/hooks", home=home) == ["hooks of another repository: ~/lib/.git/hooks"]
    assert any("agent's settings" in found for found in dangers(f"{home}/.claude", home=home))
    assert dangers(f"{home}/work", home=home) == []
    assert any("jobs and services" in found for found in dangers("/etc/cron.d", home=home))
    assert dangers("/", home=home)


def test_a_survey_counts_and_stops(root: Path) -> None:
    for number in range(30):
        (root / f"d{number}").mkdir()
        (root / f"d{number}/f").write_text("")
    (root / "d1/.env").write_text("")
    (root / "d2/server.key").write_text("")
    (root / "loop").symlink_to(root)
    found = survey(str(root), home="/nobody")
    assert (found.files, found.folders, found.complete, found.exists) == (33, 30, True, True)
    assert found.secrets == (f"{root}/d1/.env", f"{root}/d2/server.key")
    cut = survey(str(root), home="/nobody", limit=10)
    assert not cut.complete
    assert cut.files + cut.folders == 10
    assert survey(f"{root}/d2/server.key", home="/nobody").secrets == (f"{root}/d2/server.key",)
    assert not survey(f"{root}/nothing", home="/nobody").exists


def test_a_session_of_another_revision_is_not_overwritten(places: Places, root: Path) -> None:
    sessions.update(places, PID, lambda record: replace(record, extra={"future": 1}))
    allow(places, PID, str(root / "other"))
    record = sessions.load(places, PID).record
    assert record is not None
    assert record.extra == {"future": 1}
    assert record.revision == 1


def test_a_resumed_session_starts_with_what_it_had(places: Places, root: Path) -> None:
    (root / "b").mkdir()
    (root / "c").mkdir()
    allow(places, PID, str(root / "other"), origin="denial 1")
    allow(places, PID, str(root / "b"), scope="once")
    allow(places, PID, str(root / "c"), scope="project")
    record = sessions.load(places, PID).record
    assert record is not None
    sessions.remove(places, PID)
    fresh = replace(record, grants=(), revision=0)
    carried = grants.starting(places, fresh, ["0a1b2c3d-0000-4000-8000-0123456789ab"])
    assert {grant.path for grant in carried} == {str(root / "other"), str(root / "c")}
    assert {grant.path for grant in grants.starting(places, fresh)} == {str(root / "c")}
    assert grants.starting(places, replace(fresh, project="/elsewhere"), ["0a1b2c3d-0000-4000-8000-0123456789ab"]) == ()
    # They are in the floor, so that Write, Edit and Read have them, too; a later grant is not.
    fresh = replace(fresh, grants=(*carried, Grant(str(root / "b"))))
    assert decide(build(fresh, grants=False), "write", f"{root}/other/x").allowed
    assert not decide(build(fresh, grants=False), "write", f"{root}/b/x").allowed
    sessions.create(places, fresh, build(fresh))
    assert "keep it until they restart" in deny(places, PID, str(root / "other")).note
    # What became a link since, or is protected now, does not come back.
    (root / "c").rmdir()
    (root / "c").symlink_to(places.home + "/.ssh")
    assert grants.starting(places, fresh) == ()


def test_a_swept_session_is_remembered_too_and_a_damaged_file_stops_nothing(places: Places, root: Path) -> None:
    allow(places, PID, str(root / "other"))
    sessions.update(places, PID, lambda record: replace(record, owner_start="another process"))
    assert sessions.sweep(places) == [PID]
    record = Record(project=f"{places.home}/work/app", home=places.home)
    assert [grant.path for grant in grants.starting(places, record, ["0a1b2c3d-0000-4000-8000-0123456789ab"])] == [
        str(root / "other")
    ]
    (Path(places.nd7) / "grants.json").write_text("[]")
    with pytest.raises(Nd7Error, match="damaged"):
        grants.starting(places, record, ["0a1b2c3d-0000-4000-8000-0123456789ab"])
    fresh = replace(record, pid=PID, owner_start="x", agent_sessions=("0a1b2c3d-0000-4000-8000-0123456789ab",))
    sessions.create(places, fresh, build(fresh))
    sessions.remove(places, PID)
    assert sessions.live(places) == []
