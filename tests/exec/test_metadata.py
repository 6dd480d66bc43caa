"""Modes, times and attributes in a session without mounts: done for the session on its own files, on no others."""

from __future__ import annotations

import contextlib
import errno
import os
import stat
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import confined
import pytest
from confined import BARE, Cell, Outcome, Targets

from nd7exec.linux import syscalls
from nd7exec.linux.privileges import PutAside

UIDS = [confined.UNPRIVILEGED, 0] if os.getuid() == 0 else [os.getuid()]
NOFOLLOW = 0x100


# What runs inside, in the project


def mode(path: str) -> int:
    return stat.S_IMODE(os.lstat(path).st_mode)


def modes(t: Targets) -> Any:
    Path("m").write_text("x")
    found = []
    for value, change in (
        (0o600, lambda: os.chmod("m", 0o600)),
        (0o601, lambda: os.chmod(os.path.abspath("m"), 0o601)),
        (0o602, lambda: os.chmod("m", 0o602, dir_fd=os.open(".", os.O_PATH))),
        (0o603, lambda: os.fchmod(os.open("m", os.O_RDONLY), 0o603)),
        (0o604, lambda: os.chmod(f"/proc/self/fd/{os.open('m', os.O_RDONLY)}", 0o604)),
        (0o605, lambda: os.chmod(f"/dev/fd/{os.open('m', os.O_RDONLY)}", 0o605)),
        (0o606, lambda: os.chmod(f"/proc/{os.getpid()}/fd/{os.open('m', os.O_RDONLY)}", 0o606)),
        (0o607, lambda: os.chmod("./../project/./m", 0o607)),
    ):
        change()
        found.append(mode("m") == value)
    return found


def times(t: Targets) -> Any:
    Path("t").write_text("x")
    os.symlink("t", "t-link")
    os.utime("t", ns=(1_000_000_007, 2_000_000_009))
    first = os.stat("t").st_mtime_ns
    os.utime("t-link", ns=(3, 4), follow_symlinks=False)
    second = os.lstat("t-link").st_mtime_ns
    os.utime(os.open("t", os.O_RDONLY), ns=(5, 6))
    third = os.stat("t").st_mtime_ns
    os.utime("t")
    return [first, second, third, os.stat("t").st_mtime > 1e9]


def older_times(t: Targets) -> Any:
    """utime, utimes and futimesat, where the machine has them."""
    import struct

    Path("o").write_text("x")
    found = []
    for name, before, value in (
        ("utime", (), struct.pack("qq", 1, 2)),
        ("utimes", (), struct.pack("qqqq", 1, 500, 3, 700)),
        ("futimesat", (-100,), struct.pack("qqqq", 1, 0, 4, 0)),
    ):
        if name in syscalls.NUMBERS[syscalls.machine()]:
            syscalls.call(name, *before, b"o", value)
        else:
            os.utime("o", ns=(1, {"utime": 2_000_000_000, "utimes": 3_000_700_000}.get(name, 4_000_000_000)))
        found.append(os.stat("o").st_mtime_ns)
    return found


def attributes(t: Targets) -> Any:
    Path("a").write_text("x")
    os.setxattr("a", "user.one", b"1")
    os.setxattr(os.open("a", os.O_RDONLY), "user.two", b"2" * 1000)
    before = sorted(os.listxattr("a"))
    os.removexattr("a", "user.one")
    os.removexattr(os.open("a", os.O_RDONLY), "user.two")
    return [before, os.listxattr("a")]


def owner(t: Targets) -> Any:
    Path("w").write_text("x")
    os.chown("w", os.getuid(), os.getgid())
    os.chown("w", -1, -1)
    os.lchown("w", os.getuid(), -1)
    os.fchown(os.open("w", os.O_RDONLY), -1, os.getgid())
    return "done"


def nameless(t: Targets) -> Any:
    """Files that are nobody else's: unlinked, in memory, a pipe."""
    Path("gone").write_text("x")
    fd = os.open("gone", os.O_RDWR)
    os.unlink("gone")
    for number in (fd, os.memfd_create("m"), os.pipe()[0]):
        os.fchmod(number, 0o600)
    return "done"


def a_file_of_root(t: Targets) -> Any:
    return os.chmod("of-root", 0o666)


def give_away(t: Targets) -> Any:
    Path("mine").write_text("x")
    return os.chown("mine", 12345, -1)


def long_path(t: Targets) -> Any:
    return os.chmod("x" * 5000, 0o600)


def missing(t: Targets) -> Any:
    return os.chmod("nowhere", 0o600)


def null_path(t: Targets) -> Any:
    return syscalls.call("chmod", 0x10, 0o600)


def odd_flags(t: Targets) -> Any:
    return syscalls.call("fchmodat2", -100, b"readme", 0o600, 0x8000)


def by_symlink(t: Targets) -> Any:
    os.symlink(t.path("notes.txt"), "to-notes")
    return os.chmod("to-notes", 0o600)


def by_other_processes_descriptor(t: Targets) -> Any:
    return os.chmod(f"/proc/{t.supervisor}/fd/0", 0o600)


def by_own_root(t: Targets) -> Any:
    return os.chmod("/proc/self/root" + t.path("notes.txt"), 0o600)


def by_directory(t: Targets) -> Any:
    return os.chmod("notes.txt", 0o600, dir_fd=os.open(t.home, os.O_RDONLY))


def by_working_directory(t: Targets) -> Any:
    os.chdir(t.home)
    return os.chmod("notes.txt", 0o600)


def by_path_descriptor(t: Targets) -> Any:
    return os.chmod(f"/proc/self/fd/{os.open(t.path('notes.txt'), os.O_PATH)}", 0o600)


def empty_path(t: Targets) -> Any:
    return syscalls.call("fchownat", os.open(t.path("notes.txt"), os.O_PATH), b"", -1, -1, 0x1000)


def a_device(t: Targets) -> Any:
    return os.utime("/dev/null")


def a_race(t: Targets) -> Any:
    """Another thread turns a link between one's own file and another's."""
    Path("own").write_text("x")
    before = os.stat(t.path("notes.txt")).st_mode
    stop = threading.Event()

    def flip() -> None:
        while not stop.is_set():
            for target in ("own", t.path("notes.txt")):
                with contextlib.suppress(OSError):
                    os.symlink(target, "new")
                    os.replace("new", "flips")

    thread = threading.Thread(target=flip)
    thread.start()
    for _ in range(150):
        with contextlib.suppress(OSError):
            os.chmod("flips", 0o751)
    stop.set()
    thread.join()
    return os.stat(t.path("notes.txt")).st_mode == before


@pytest.fixture(scope="module", params=UIDS, ids=lambda uid: f"uid{uid}")
def cell(request: pytest.FixtureRequest) -> Iterator[Cell]:
    def prepare(targets: Targets) -> None:
        Path(targets.project, "of-root").write_text("x")
        if os.geteuid() == 0:
            os.chown(Path(targets.project, "of-root"), 0 if request.param else 4242, 0)

    with confined.cell(BARE, request.param, prepare=prepare) as made:
        yield made


def run(cell: Cell, function: Any) -> Outcome:
    outcome = cell.run(__name__, function.__name__)
    assert outcome.how in ("returned", "raised"), outcome.text
    return outcome


def test_modes(cell: Cell) -> None:
    assert run(cell, modes).value == [True] * 8


def test_times(cell: Cell) -> None:
    assert run(cell, times).value == [2_000_000_009, 4, 6, True]
    assert run(cell, older_times).value == [2_000_000_000, 3_000_700_000, 4_000_000_000]


def test_attributes(cell: Cell) -> None:
    assert run(cell, attributes).value == [["user.one", "user.two"], []]


def test_owner_and_nameless(cell: Cell) -> None:
    assert run(cell, owner).value == run(cell, nameless).value == "done"


@pytest.mark.parametrize(
    ("function", "error"),
    [
        (missing, errno.ENOENT),
        (long_path, errno.ENAMETOOLONG),
        (null_path, errno.EFAULT),
        (odd_flags, errno.EINVAL),
    ],
)
def test_errors_are_the_kernels_own(cell: Cell, function: Any, error: int) -> None:
    assert run(cell, function).errno == error


def test_a_file_cannot_be_given_away(cell: Cell) -> None:
    assert run(cell, give_away).errno in (errno.EPERM, errno.EINVAL)  # in a namespace the other does not exist


@pytest.mark.parametrize(
    "function",
    [
        by_symlink, by_other_processes_descriptor, by_own_root, by_directory, by_working_directory, by_path_descriptor,
        empty_path, a_device,
    ],
)  # fmt: skip
def test_files_outside_are_refused_by_every_way(cell: Cell, function: Any) -> None:
    assert run(cell, function).errno in (errno.EACCES, errno.ELOOP)


def test_a_link_that_turns_does_not_help(cell: Cell) -> None:
    assert run(cell, a_race).value is True


def test_the_supervisors_own_privileges_are_not_lent(cell: Cell) -> None:
    """A file in the project that is another user's: a supervisor who is root could, the session may not."""
    if os.getuid() == 0:
        assert run(cell, a_file_of_root).errno == errno.EPERM
    else:
        assert run(cell, a_file_of_root).how == "returned"


def test_capabilities_are_put_aside_and_come_back() -> None:
    def effective() -> str:
        return next(line for line in Path("/proc/self/status").read_text().splitlines() if line.startswith("CapEff"))

    before = effective()
    with PutAside():
        assert int(effective().split()[1], 16) == 0
    assert effective() == before
