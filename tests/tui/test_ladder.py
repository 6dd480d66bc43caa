"""The ladder of widths: its rungs, what each is called, and where it stops."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from nd7core.record import Record
from nd7tui.ladder import cache_of, rungs, worktrees


def record(home: Path) -> Record:
    return Record(project=f"{home}/src/app", home=str(home), state=f"{home}/.local/state/nd7")


def test_from_the_file_to_below_the_home(tmp_path: Path) -> None:
    home = Path(os.path.realpath(tmp_path))
    (home / ".cache/uv/wheels").mkdir(parents=True)
    (home / ".cache/uv/wheels/a").write_text("x")
    found = rungs(record(home), f"{home}/.cache/uv", f"{home}/.cache/uv/wheels/a")
    assert [(rung.path.removeprefix(str(home)), rung.what) for rung in found] == [
        ("/.cache/uv/wheels/a", "file"),
        ("/.cache/uv/wheels", "folder"),
        ("/.cache/uv", "tool cache"),
        ("/.cache", "folder"),
    ]
    assert not any(rung.refused for rung in found)


def test_credentials_are_refused_and_what_runs_later_is_named(tmp_path: Path) -> None:
    home = Path(os.path.realpath(tmp_path))
    (home / ".ssh").mkdir()
    (home / ".bashrc").write_text("x")
    assert all(rung.refused for rung in rungs(record(home), f"{home}/.ssh/config"))
    (found,) = rungs(record(home), f"{home}/.bashrc")
    assert found.dangers == ("a shell start file: ~/.bashrc",)


@pytest.mark.parametrize(
    ("path", "cache"),
    [
        (".cache/pip/http/x", ".cache/pip"),
        (".cache", ""),
        (".npm/_cacache/x", ".npm"),
        (".cargo/registry/x", ".cargo/registry"),
        ("src/app/x", ""),
    ],
)
def test_which_tools_cache_it_is(path: str, cache: str) -> None:
    assert cache_of(f"/home/ada/{path}", "/home/ada") == (f"/home/ada/{cache}" if cache else "")


def test_the_projects_other_worktrees(tmp_path: Path) -> None:
    home = Path(os.path.realpath(tmp_path))
    main, other = home / "src/app", home / "src/app-fix"
    main.mkdir(parents=True)
    git = ["git", "-c", "user.name=a", "-c", "user.email=a@example.org", "-C", str(main)]
    environ = {"PATH": os.environ["PATH"], "HOME": str(home), "GIT_CONFIG_GLOBAL": "/dev/null"}
    for words in (["init", "-q"], ["commit", "-q", "--allow-empty", "-m", "x"], ["worktree", "add", "-q", str(other)]):
        subprocess.run([*git, *words], check=True, env=environ, capture_output=True)
    assert worktrees(str(main)) == {str(other)}
    assert worktrees(str(other)) == {str(main)}
    named = {rung.path: rung.what for rung in rungs(record(home), f"{other}/x.txt")}
    assert named[str(other)] == "other worktree"


def test_hostile_git_files_name_nothing(tmp_path: Path) -> None:
    home = Path(os.path.realpath(tmp_path))
    assert worktrees(str(home)) == set()
    (home / ".git").write_bytes(b"gitdir: \xff\x00../../..\x1b")
    assert isinstance(worktrees(str(home)), set)
    (home / ".git").unlink()
    (home / ".git/worktrees/w").mkdir(parents=True)
    os.mkfifo(home / ".git/worktrees/w/gitdir")
    assert worktrees(str(home)) == set()
