"""Where nd7 keeps its things, and what counts as the same path."""

from __future__ import annotations

import os
import pwd
from pathlib import Path

import pytest

from nd7core.credentials import elsewhere
from nd7core.paths import PathError, canonical, places, places_of, within


def test_the_home_is_that_of_the_password_database() -> None:
    found = places({"HOME": "/somewhere/else"})
    assert found.home == os.path.realpath(pwd.getpwuid(os.getuid()).pw_dir)
    assert found.sessions == found.home + "/.nd7/sessions"


def test_the_state_directory_is_canonical(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to("real")
    assert places({"XDG_STATE_HOME": str(tmp_path / "link")}).state == os.path.realpath(tmp_path / "real/nd7")


@pytest.mark.parametrize(
    ("value", "state"),
    [("/srv/state", "/srv/state/nd7"), ("", "/h/.local/state/nd7"), ("relative", "/h/.local/state/nd7")],
)
def test_the_state_directory_follows_an_absolute_xdg_state_home_only(value: str, state: str) -> None:
    assert places_of("/h", state_home=value).state == state


def test_canonical_resolves_links_and_keeps_a_missing_tail(tmp_path: Path) -> None:
    root = os.path.realpath(tmp_path)
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to("real")
    assert canonical(f"{root}/link/new/x") == f"{root}/real/new/x"
    assert canonical("link/../y", cwd=root) == f"{root}/y"
    assert canonical(f"{root}/real/") == f"{root}/real"
    (tmp_path / "loop").symlink_to("loop")
    assert canonical(f"{root}/loop/x").startswith(root)


@pytest.mark.parametrize("path", ["", "a\0b", "/x/\ud800"])
def test_what_no_file_can_be_called_is_refused(path: str) -> None:
    with pytest.raises(PathError):
        canonical(path)


def test_bytes_that_are_no_utf8_stay_what_they_are(tmp_path: Path) -> None:
    raw = os.fsencode(os.path.realpath(tmp_path)) + b"/\xff\xfe"
    Path(os.fsdecode(raw)).mkdir()
    assert os.fsencode(canonical(os.fsdecode(raw))) == raw


def test_within_knows_prefixes_from_parents() -> None:
    assert within("/a/b", "/a/b")
    assert within("/a/b/c", "/a/b")
    assert not within("/a/bc", "/a/b")
    assert not within("/a", "/a/b")
    assert within("/a", "/")


def test_where_the_credentials_really_are(tmp_path: Path) -> None:
    root = Path(os.path.realpath(tmp_path))
    home = root / "home"
    for name in ("home/.aws", "home/dots/ssh", "data"):
        (root / name).mkdir(parents=True)
    assert elsewhere(str(home)) == ()
    (home / ".ssh").symlink_to("dots/ssh")
    (root / "data/id").write_text("key")
    (home / "dots/ssh/id").symlink_to(root / "data/id")
    (home / "dots/ssh/known_hosts").symlink_to("/etc/passwd")
    (home / "dots/ssh/gone").symlink_to(root / "data/gone")
    (home / "dots/ssh/all").symlink_to(home)
    (home / ".aws/up").symlink_to("/")
    (home / ".aws/config").write_text("")
    (home / ".aws/here").symlink_to("config")
    assert elsewhere(str(home)) == (f"{home}/dots/ssh", f"{root}/data/id")
    assert elsewhere(str(root / "nobody")) == ()
