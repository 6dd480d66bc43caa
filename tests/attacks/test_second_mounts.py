"""A home, or a part of it, that is mounted in a second place, as containers and their volumes have it."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import cast

import confined
import pytest
from confined import BARE, FULL, Config, Targets

from nd7core.errors import Nd7Error
from nd7core.paths import places_of
from nd7core.policy.rules import LinuxRules
from nd7exec import lifecycle
from nd7exec.linux import syscalls

UIDS = (confined.UNPRIVILEGED, 0) if os.getuid() == 0 else (os.getuid(),)


def mounted(t: Targets) -> None:
    """In the cell's own mount namespace: the home in the temp directory, two folders of it in the project."""
    os.unlink(f"{t.project}/linked-before")  # a hard link to a key is the key, mounted or not
    for source, target in (("", f"{t.tmp}/home"), (".local/state", f"{t.project}/state"), (".ssh", f"{t.project}/ssh")):
        os.mkdir(target)
        syscalls.mount(os.fsencode(t.path(source)), os.fsencode(target), None, syscalls.MS_BIND | syscalls.MS_REC)


def rules(t: Targets) -> LinuxRules:
    made = confined.rules_for(t)
    state = t.path(".local/state/nd7")
    return LinuxRules(**{name: getattr(made, name) for name in LinuxRules.__slots__} | {"protected": (state,)})


def read_it(_: Targets, path: str) -> str:
    return Path(path).read_text()


def write_it(_: Targets, path: str) -> int:
    return Path(path).write_text("changed")


def change_its_mode(_: Targets, path: str) -> None:
    os.chmod(path, 0o666)


@pytest.fixture(
    scope="module",
    params=[(config, uid) for config in (FULL, BARE) for uid in UIDS],
    ids=lambda one: f"{one[0].name}-uid{one[1]}",
)
def cell(request: pytest.FixtureRequest) -> Iterator[confined.Cell]:
    config, uid = cast(tuple[Config, int], request.param)
    with confined.cell(config, uid, prepare=mounted, rules=rules) as made:
        yield made


@pytest.mark.parametrize(
    "name", ["tmp/home/.ssh/id_ed25519", "tmp/home/.aws/credentials", "home/project/ssh/id_ed25519"]
)
def test_what_is_hidden_is_hidden_there_too(cell: confined.Cell, name: str) -> None:
    outcome = cell.run(__name__, "read_it", argument=f"{cell.top}/{name}")
    assert (outcome.how, outcome.errno) == ("raised", 13), outcome


@pytest.mark.parametrize("name", ["home/project/state", "tmp/home/.local/state"])
def test_what_is_protected_is_protected_there_too(cell: confined.Cell, name: str) -> None:
    outcome = cell.run(__name__, "write_it", argument=f"{cell.top}/{name}/nd7/sessions/a/events.ndjson")
    assert outcome.how == "raised" and outcome.errno in (13, 30), outcome


@pytest.mark.parametrize("name", ["home/project/state", "tmp/home/.local/state"])
def test_so_are_modes_and_times(cell: confined.Cell, name: str) -> None:
    outcome = cell.run(__name__, "change_its_mode", argument=f"{cell.top}/{name}/nd7/sessions/a/events.ndjson")
    assert outcome.how == "raised" and outcome.errno in (13, 30), outcome
    assert cell.run(__name__, "change_its_mode", argument=f"{cell.top}/home/project/readme").how == "returned"


def test_what_lies_beside_it_is_as_it_was(cell: confined.Cell) -> None:
    assert cell.run(__name__, "read_it", argument=f"{cell.top}/tmp/home/notes.txt").value == "notes"
    # Beside what is closed, Landlock alone lets nothing new be made.
    names = ("new", "state/other") if cell.config.namespaces else ()
    for name in ("readme", ".claude/new", *names):
        assert cell.run(__name__, "write_it", argument=f"{cell.top}/home/project/{name}").value == 7, name


@pytest.mark.parametrize("holder", ["", "/.."])
def test_a_home_under_another_name_is_no_project_and_no_temp_directory(tmp_path: Path, holder: str) -> None:
    home = tmp_path / "home/dev"
    home.mkdir(parents=True)
    places = places_of(str(home))
    name = f"/proc/self/root{os.path.normpath(str(home) + holder)}"  # as a second mount would show it
    with pytest.raises(Nd7Error, match="home"):
        lifecycle.check_project(name, places)
    own = tmp_path / "own"
    own.mkdir()
    lifecycle.check_project(str(own), places)
    assert lifecycle.temporary({"TMPDIR": str(own)}, places) == str(own)
