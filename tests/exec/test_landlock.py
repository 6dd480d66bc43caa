"""Our Landlock calls against another implementation's, and rulesets on the kernel of this machine."""

from __future__ import annotations

import dataclasses
import errno
import os
from collections.abc import Callable
from pathlib import Path

import landlockpy
import pytest

from nd7core.policy.rules import LinuxRules
from nd7exec.linux import landlock, syscalls
from nd7exec.linux.confinement import ConfinementError, Ruleset, supported

ABI = landlock.kernel_abi()
VERSIONS = range(1, landlock.NEWEST + 1)


def confined(ruleset: Ruleset, function: Callable[[], object]) -> str:
    """What a function returns, or the name of the errno it raises, in a child under a ruleset."""
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            syscalls.prctl(syscalls.PR_SET_NO_NEW_PRIVS, 1)
            landlock.restrict(ruleset.fd, ABI)
            text = str(function())
        except OSError as error:
            text = errno.errorcode[error.errno or 0]
        os.write(writer, text.encode())
        os._exit(0)
    os.close(writer)
    with os.fdopen(reader, "rb") as answers:
        text = answers.read().decode()
    os.waitpid(child, 0)
    return text


def test_the_version_and_the_errata_are_what_the_other_implementation_reads() -> None:
    assert landlock.kernel_abi() == landlockpy.abi_version() >= 1
    assert landlock.kernel_errata() == landlockpy.errata()


@pytest.mark.parametrize("version", VERSIONS)
def test_the_rights_of_each_version_are_those_of_the_other_implementation(version: int) -> None:
    files, net, scopes = landlock.handled(version)
    assert files == int(landlockpy.fs_for_abi(version))
    assert net == int(landlockpy.net_for_abi(version))
    assert scopes == int(landlockpy.scope_for_abi(version))


@pytest.mark.parametrize("name", [right.name for right in landlockpy.AccessFS])
def test_each_right_has_the_same_bit(name: str) -> None:
    assert getattr(landlock, name) == int(landlockpy.AccessFS[name])


@pytest.mark.parametrize("version", [version for version in VERSIONS if version <= ABI])
def test_a_ruleset_of_each_older_version_can_be_made(version: int, tmp_path: Path) -> None:
    ruleset = Ruleset(LinuxRules(writable=(str(tmp_path),), connect_tcp=(443,), dns=True), True, version)
    assert confined(ruleset, lambda: (tmp_path / "x").write_text("1")) == "1"
    ruleset.close()


@pytest.fixture
def home(tmp_path: Path) -> Path:
    home = tmp_path / "home"
    for name in (".ssh/key", "notes", "project/a/b/kept", "project/a/other", "project/c"):
        (home / name).parent.mkdir(parents=True, exist_ok=True)
        (home / name).write_text("x")
    return home


def rules(home: Path, **more: tuple[str, ...]) -> LinuxRules:
    ordinary = LinuxRules(hidden=(str(home / ".ssh"),), writable=(str(home / "project"),))
    return dataclasses.replace(ordinary, **more)


def test_without_namespaces_hidden_is_left_out_and_its_siblings_are_not(home: Path) -> None:
    ruleset = Ruleset(rules(home), False, ABI)
    assert confined(ruleset, (home / "notes").read_text) == "x"
    assert confined(ruleset, (home / ".ssh/key").read_text) == "EACCES"
    assert confined(ruleset, lambda: len(os.listdir("/")) > 3) == "True"
    assert confined(ruleset, lambda: (home / "project/new").write_text("1")) == "1"
    assert confined(ruleset, lambda: (home / "new").write_text("1")) == "EACCES"
    assert confined(ruleset, lambda: Path("/dev/null").write_text("1")) == "1"


def test_without_namespaces_protected_is_written_around(home: Path) -> None:
    project = home / "project"
    ruleset = Ruleset(rules(home, protected=(str(project / "a/b"),)), False, ABI)
    assert confined(ruleset, lambda: (project / "a/b/kept").write_text("1")) == "EACCES"
    assert confined(ruleset, (project / "a/b/kept").read_text) == "x"
    assert confined(ruleset, lambda: (project / "a/b").rename(project / "c2")) == "EACCES"
    assert confined(ruleset, lambda: (project / "a").rename(project / "a2")) == "EACCES"
    assert confined(ruleset, lambda: (project / "a/other").write_text("12")) == "2"
    assert confined(ruleset, lambda: (project / "c").write_text("123")) == "3"


def test_a_protected_place_that_does_not_exist_cannot_be_enforced_so_it_is_refused(home: Path) -> None:
    with pytest.raises(ConfinementError, match=r"cannot keep .*gone unwritable: it does not exist"):
        Ruleset(rules(home, protected=(str(home / "project/gone"),)), False, ABI)


def test_a_hidden_place_inside_a_writable_one_stays_hidden(home: Path) -> None:
    ruleset = Ruleset(rules(home, writable=(str(home),)), False, ABI)
    assert confined(ruleset, (home / ".ssh/key").read_text) == "EACCES"
    assert confined(ruleset, lambda: (home / ".ssh/new").write_text("1")) == "EACCES"
    assert confined(ruleset, lambda: (home / "notes").write_text("12")) == "2"


def test_a_writable_file_may_be_written_but_not_replaced(home: Path) -> None:
    ruleset = Ruleset(rules(home, writable_files=(str(home / "notes"),)), False, ABI)
    assert confined(ruleset, lambda: (home / "notes").write_text("12")) == "2"
    assert confined(ruleset, lambda: (home / "project/c").replace(home / "notes")) == "EACCES"
    assert confined(ruleset, (home / "notes").unlink) == "EACCES"


def test_it_is_stale_once_a_listed_directory_has_changed(home: Path) -> None:
    ruleset = Ruleset(rules(home), False, ABI)
    assert not ruleset.stale()
    (home / "later").write_text("x")
    assert confined(ruleset, (home / "later").read_text) == "EACCES"
    assert ruleset.stale()
    assert confined(Ruleset(rules(home), False, ABI), (home / "later").read_text) == "x"


def test_with_namespaces_nothing_is_listed_and_a_new_file_is_readable_and_makes_nothing_stale(home: Path) -> None:
    ruleset = Ruleset(rules(home), True, ABI)
    (home / "later").write_text("x")
    assert confined(ruleset, (home / "later").read_text) == "x"
    assert not ruleset.stale()


def test_it_is_stale_once_a_hidden_place_comes_to_be(home: Path) -> None:
    ruleset = Ruleset(rules(home, hidden=(str(home / ".aws"),)), True, ABI)
    assert not ruleset.stale()
    (home / ".aws").mkdir()
    assert ruleset.stale()


def test_what_does_not_exist_is_skipped_and_told(home: Path) -> None:
    gone = str(home / "gone")
    for namespaced in (True, False):
        assert Ruleset(rules(home, writable=(gone,)), namespaced, ABI).skipped == [gone]


def test_a_symlink_in_the_place_of_a_writable_directory_opens_nothing(home: Path) -> None:
    (home / "trick").symlink_to(home / ".ssh")
    ruleset = Ruleset(rules(home, writable=(str(home / "trick"),)), True, ABI)
    assert ruleset.skipped == [str(home / "trick")]


def test_paths_of_odd_bytes(home: Path) -> None:
    odd = os.path.join(str(home), os.fsdecode(b"a b\n\xff\x1b"))
    os.mkdir(odd)
    ruleset = Ruleset(rules(home, writable=(odd,)), False, ABI)
    assert confined(ruleset, lambda: Path(odd, "x").write_text("1")) == "1"


def test_what_this_machine_can_do_is_told_in_sentences() -> None:
    support = supported()
    assert support.abi == ABI
    assert support.notify
    assert support.userns == (not any("user namespace" in problem for problem in support.problems))
