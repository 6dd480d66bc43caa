"""Mounts of a session: masks, protected places, widening and taking back, with what happens outside meanwhile."""

from __future__ import annotations

import dataclasses
import errno
import os
import signal
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import confined
import pytest
from confined import FULL, Cell, Outcome, Targets

from nd7core.policy.rules import LinuxRules
from nd7exec.linux import mounts, namespaces, syscalls

UID = confined.UNPRIVILEGED if os.getuid() == 0 else os.getuid()
SETTINGS = "project/.claude/settings.json"


# What runs inside


def write(t: Targets, path: str) -> Any:
    with Path(path).open("a", encoding="utf-8") as file:
        return file.write("x")


def read(t: Targets, path: str) -> Any:
    return Path(path).read_text(encoding="utf-8")


def names(t: Targets, path: str) -> Any:
    return sorted(os.listdir(path))


def chmod(t: Targets, path: str) -> Any:
    return os.chmod(path, 0o700)


def rename(t: Targets, pair: list[str]) -> Any:
    return os.rename(*pair)


def remove(t: Targets, path: str) -> Any:
    return os.unlink(path)


def mountinfo(t: Targets) -> Any:
    return Path("/proc/self/mountinfo").read_text(encoding="utf-8")


def identity(t: Targets) -> Any:
    return [os.getuid(), os.getgid(), os.getcwd(), os.access(".", os.W_OK)]


def keep_writing(t: Targets, path: str) -> Any:
    """Leave a process behind that has a file open for writing."""
    if os.fork() == 0:
        os.setsid()
        fd = os.open(path, os.O_WRONLY | os.O_CREAT)
        os.write(fd, b"open")
        time.sleep(3)
        os._exit(0)
    time.sleep(0.2)


def run(cell: Cell, function: Any, argument: Any = None) -> Outcome:
    outcome = cell.run(__name__, function.__name__, argument=argument)
    assert outcome.how in ("returned", "raised"), outcome.text
    return outcome


def refused(outcome: Outcome, *errors: int) -> bool:
    return outcome.how == "raised" and outcome.errno in (errors or (errno.EROFS, errno.EACCES, errno.EPERM))


def with_protected(targets: Targets) -> LinuxRules:
    return dataclasses.replace(confined.rules_for(targets), protected=(targets.path(SETTINGS),))


@pytest.fixture
def cell() -> Iterator[Cell]:
    with confined.cell(FULL, UID, rules=with_protected) as made:
        yield made


# Reading mountinfo


def test_mountinfo_of_another_shape_is_passed_over() -> None:
    good = b"36 35 98:0 /r /a\\134b rw,relatime shared:1 - ext4 /dev/x rw"
    table = mounts.parse(b"\n".join([b"", b"1 2", good, b"x y z - - -", b"36 35 98:0 / /"]))
    assert [mount.point for mount in table] == ["/a\\b"]
    assert not table[0].read_only


def test_the_topmost_mount_of_a_point_is_the_visible_one() -> None:
    lines = b"1 0 8:1 / / rw - ext4 a rw\n2 1 8:2 / /m ro - ext4 b rw\n3 2 8:3 / /m rw - ext4 c rw\n"
    assert mounts.visible(mounts.parse(lines))["/m"].id == 3


def test_a_directory_is_found_under_every_mount_that_shows_it() -> None:
    lines = (
        b"1 0 8:1 / / rw - ext4 a rw\n2 1 8:2 / /home rw - ext4 b rw\n3 1 8:2 /u /srv/u rw - ext4 b rw\n"
        b"4 1 8:2 /u/.ssh/sub /srv/sub rw - ext4 b rw\n5 1 8:2 /other /srv/other rw - ext4 b rw\n"
    )
    assert mounts.aliases("/home/u/.ssh", mounts.parse(lines)) == {"/srv/u/.ssh", "/srv/sub"}
    assert mounts.aliases("/home/u/.ssh", []) == set()


# The session's own


def test_the_process_is_who_and_where_it_was(cell: Cell) -> None:
    assert run(cell, identity).value == [UID, UID, cell.targets.project, True]


def test_protected_is_read_only_and_so_are_the_ways_round_it(cell: Cell) -> None:
    t = cell.targets
    assert run(cell, read, t.path(SETTINGS)).value == "{}"
    assert refused(run(cell, write, t.path(SETTINGS)))
    assert refused(run(cell, remove, t.path(SETTINGS)), errno.EBUSY)
    assert refused(run(cell, rename, [t.path("project/readme"), t.path(SETTINGS)]), errno.EBUSY, errno.EXDEV)
    # Renaming the directory would take the mount along, so the directory is one, too.
    assert refused(run(cell, rename, [t.path("project/.claude"), t.path("project/.moved")]), errno.EBUSY)
    assert run(cell, write, t.path("project/.claude/other.json")).how == "returned"
    assert run(cell, write, t.path("project/readme")).how == "returned"


def test_a_protected_place_that_does_not_exist_refuses_the_session() -> None:
    def rules(targets: Targets) -> LinuxRules:
        return dataclasses.replace(confined.rules_for(targets), protected=(targets.path("project/gone"),))

    with pytest.raises(RuntimeError, match=r"cannot keep .*project/gone unwritable: it does not exist"):
        Cell(FULL, UID, rules=rules)


def test_a_grant_is_writable_and_one_taken_back_is_not(cell: Cell) -> None:
    t = cell.targets
    wider = dataclasses.replace(cell.rules, writable=(*cell.rules.writable, t.path("outside")))
    assert refused(run(cell, write, t.path("outside/file")), errno.EROFS)
    for _ in range(2):
        assert cell.widen(wider) == []
        assert run(cell, write, t.path("outside/file")).how == "returned"
        assert run(cell, chmod, t.path("outside")).how == "returned"
        assert refused(run(cell, write, t.path("notes.txt")))
        assert cell.widen(cell.rules) == []
        assert refused(run(cell, write, t.path("outside/file")))
        assert refused(run(cell, chmod, t.path("outside")), errno.EROFS)
        assert run(cell, write, t.path("project/readme")).how == "returned"


def test_a_grant_taken_back_while_something_writes_there(cell: Cell) -> None:
    t = cell.targets
    cell.widen(dataclasses.replace(cell.rules, writable=(*cell.rules.writable, t.path("outside"))))
    run(cell, keep_writing, t.path("outside/open"))
    cell.widen(cell.rules)
    assert refused(run(cell, write, t.path("outside/file")))
    assert refused(run(cell, chmod, t.path("outside")), errno.EROFS)


def test_a_grant_of_the_whole_home_opens_nothing_that_is_hidden_or_protected(cell: Cell) -> None:
    t = cell.targets
    assert cell.widen(dataclasses.replace(cell.rules, writable=(*cell.rules.writable, t.home))) == []
    assert run(cell, write, t.path("notes.txt")).how == "returned"
    assert run(cell, write, t.path("new")).how == "returned"
    for name in (".ssh/id_ed25519", ".aws/credentials", ".nd7/kept/record.json"):
        assert refused(run(cell, read, t.path(name)), errno.EACCES)
        assert refused(run(cell, write, t.path(name)))
    assert refused(run(cell, rename, [t.path(".ssh"), t.path("ssh")]), errno.EBUSY)
    assert refused(run(cell, write, t.path(SETTINGS)))
    assert refused(run(cell, rename, [t.path("project"), t.path("moved")]), errno.EBUSY)
    assert cell.widen(cell.rules) == []
    assert refused(run(cell, write, t.path("notes.txt")))
    assert run(cell, write, t.path("project/readme")).how == "returned"


def test_a_grant_of_one_file(cell: Cell) -> None:
    t = cell.targets
    cell.widen(dataclasses.replace(cell.rules, writable_files=(t.path("notes.txt"),)))
    assert run(cell, write, t.path("notes.txt")).how == "returned"
    assert refused(run(cell, remove, t.path("notes.txt")), errno.EBUSY, errno.EROFS)
    assert refused(run(cell, write, t.path(".bashrc")))


def test_what_does_not_exist_is_told(cell: Cell) -> None:
    gone = cell.targets.path("gone")
    notes = cell.widen(dataclasses.replace(cell.rules, writable=(*cell.rules.writable, gone)))
    assert notes == [f"not writable because it does not exist: {gone}"]


def test_a_hidden_place_that_comes_to_be_is_masked_by_the_next_widening(cell: Cell) -> None:
    t = cell.targets
    late = Path(t.path(".late"))
    rules = dataclasses.replace(cell.rules, hidden=(*cell.rules.hidden, str(late)))
    assert cell.widen(rules) == []
    late.mkdir(mode=0o755)
    (late / "secret").write_text("x")
    cell.widen(rules)
    assert refused(run(cell, read, str(late / "secret")), errno.EACCES)
    assert ".late" in run(cell, names, t.home).value


def test_a_hidden_file(cell: Cell) -> None:
    t = cell.targets
    assert run(cell, read, t.path("notes.txt")).value == "notes"
    cell.widen(dataclasses.replace(cell.rules, hidden=(*cell.rules.hidden, t.path("notes.txt"))))
    assert refused(run(cell, read, t.path("notes.txt")), errno.EACCES)


def test_a_protected_file_that_is_replaced_outside_is_protected_again_by_the_next_widening(cell: Cell) -> None:
    t = cell.targets
    fresh = Path(t.path("project/.claude/new"))
    fresh.write_text("[]")
    if os.getuid() == 0:
        os.chown(fresh, UID, UID)
    fresh.replace(t.path(SETTINGS))  # as an editor does: the mount in the session goes with the old file
    cell.widen(cell.rules)
    assert run(cell, read, t.path(SETTINGS)).value == "[]"
    assert refused(run(cell, write, t.path(SETTINGS)))


def test_files_that_appear_or_are_rewritten_outside_are_readable_inside(cell: Cell) -> None:
    t = cell.targets
    Path(t.path("later")).write_text("later")
    Path(t.path("next")).write_text("rewritten")
    Path(t.path("next")).replace(t.path("notes.txt"))
    assert run(cell, read, t.path("later")).value == "later"
    assert run(cell, read, t.path("notes.txt")).value == "rewritten"


def test_names_are_listed_and_the_root_too(cell: Cell) -> None:
    listed = run(cell, names, cell.targets.home).value
    assert {".ssh", ".aws", ".nd7", "notes.txt", "project"} <= set(listed)
    assert "usr" in run(cell, names, "/").value


def test_a_second_mount_of_the_home_does_not_show_what_is_hidden() -> None:
    def prepare(targets: Targets) -> None:
        twice = os.path.join(os.path.dirname(targets.home), "twice")
        os.mkdir(twice)
        syscalls.mount(os.fsencode(targets.home), os.fsencode(twice), None, syscalls.MS_BIND)

    with confined.cell(FULL, UID, prepare=prepare) as made:
        twice = os.path.join(os.path.dirname(made.targets.home), "twice")
        assert run(made, read, twice + "/notes.txt").value == "notes"
        assert refused(run(made, read, twice + "/.ssh/id_ed25519"), errno.EACCES)
        assert refused(run(made, write, twice + "/notes.txt"), errno.EROFS)


def test_a_place_that_was_mounted_read_only_before_stays_so_and_is_told() -> None:
    def prepare(targets: Targets) -> None:
        place = os.fsencode(targets.path("outside"))
        syscalls.mount(place, place, None, syscalls.MS_BIND)
        syscalls.mount_setattr(syscalls.AT_FDCWD, place, 0, set_=syscalls.MOUNT_ATTR_RDONLY)

    with confined.cell(FULL, UID, prepare=prepare) as made:
        place = made.targets.path("outside")
        notes = made.widen(dataclasses.replace(made.rules, writable=(*made.rules.writable, place)))
        assert notes == [f"not writable because it was mounted read-only before: {place}"]
        assert refused(run(made, write, place + "/file"), errno.EROFS)


def test_every_mount_but_the_writable_ones_is_read_only_and_has_no_devices(cell: Cell) -> None:
    t = cell.targets
    table = mounts.visible(mounts.parse(run(cell, mountinfo).value.encode()))
    writable = {point for point, mount in table.items() if not mount.read_only and not point.startswith("/dev/")}
    assert writable == {t.project, t.tmp, t.path(".claude/projects"), t.path("project/.claude")}


def test_a_probe_of_namespaces_leaves_this_process_as_it_was() -> None:
    before = os.readlink("/proc/self/ns/user"), os.readlink("/proc/self/ns/mnt")
    assert namespaces.usable() == ""
    assert (os.readlink("/proc/self/ns/user"), os.readlink("/proc/self/ns/mnt")) == before
    assert signal.getsignal(signal.SIGCHLD) == signal.SIG_DFL


@pytest.mark.parametrize("uid", [0, UID] if os.getuid() == 0 else [UID])
def test_root_is_told_which_writable_places_are_anothers(uid: int) -> None:
    def prepare(targets: Targets) -> None:
        if os.geteuid() == 0:
            os.chown(targets.project, 4242, 4242)

    with confined.cell(FULL, uid, prepare=prepare) as made:
        told = [text for text in made.missing if text.startswith("root has no privilege in a session")]
        assert bool(told) == (uid == 0)
        if uid == 0:
            # In the session's namespace that user has no name, and is shown as nobody.
            assert made.targets.project in told[0]
            assert refused(run(made, write, made.targets.project + "/new"), errno.EACCES)
