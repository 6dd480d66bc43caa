"""What the ingest thread waits for is told of at once, and waiting costs nothing."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from tui_pty import Sleeper, Story

from nd7core.paths import Places
from nd7tui.ingest import Ingest
from nd7tui.watch import Inotify, Notified, Seen, Watch, watch

NAMES = frozenset({"events.ndjson"})


@pytest.fixture(params=[Inotify, Notified])
def watching(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Watch]:
    (tmp_path / "old").mkdir()
    made: Watch = request.param([str(tmp_path)], NAMES)
    yield made
    made.close()


def until(watching: Watch, wanted: Callable[[Seen], object], seconds: float = 10.0) -> Seen:
    """Everything that was told until there was what a function looks for."""
    seen = Seen()
    end = time.monotonic() + seconds
    while not wanted(seen):
        assert time.monotonic() < end, seen
        more = watching.wait(0.5)
        seen = Seen(seen.paths | more.paths, seen.over or more.over, seen.ended | more.ended)
    return seen


def test_an_append_is_told_of(watching: Watch, tmp_path: Path) -> None:
    log = tmp_path / "old" / "events.ndjson"
    for _ in range(3):
        with log.open("a") as file:
            file.write("x\n")
        until(watching, lambda seen: str(log) in seen.paths)


def test_a_directory_that_appears_is_told_of_and_watched(watching: Watch, tmp_path: Path) -> None:
    fresh = tmp_path / ".new"
    fresh.mkdir()
    (fresh / "events.ndjson").write_text("written before anybody can watch it\n")
    named = tmp_path / "new"
    fresh.rename(named)
    until(watching, lambda seen: str(named) in seen.paths)
    for place in (named, tmp_path / "old"):
        (place / "events.ndjson").write_text("more\n")
        until(watching, lambda seen, place=place: str(place / "events.ndjson") in seen.paths)


def test_what_nobody_reads_is_not_told_of(watching: Watch, tmp_path: Path) -> None:
    (tmp_path / "old" / "head.new").write_text("x")
    (tmp_path / "old" / "head.new").rename(tmp_path / "old" / "head")
    (tmp_path / "old" / "events.ndjson").write_text("x\n")
    seen = until(watching, lambda seen: seen.paths)
    assert {os.path.basename(path) for path in seen.paths} <= {"events.ndjson", "old"}


def test_a_wait_is_ended_from_another_thread(watching: Watch) -> None:
    timer = threading.Timer(0.2, watching.wake)
    timer.start()
    start = time.monotonic()
    assert not watching.wait(30.0).paths
    assert time.monotonic() - start < 10
    timer.join()


def test_the_end_of_a_process_is_told_of_at_once(tmp_path: Path) -> None:
    one, other = Sleeper(), Sleeper()
    watching = watch([str(tmp_path)], NAMES)
    try:
        assert watching.follow({one.pid, other.pid, 1 << 22}) == {1 << 22}  # above every pid: there is no such process
        assert not watching.wait(0.05)
        one.end()
        assert until(watching, lambda seen: seen.ended).ended == {one.pid}
        assert watching.follow({other.pid}) == set()
        assert not watching.wait(0.05)
        watching.follow(set())
        other.end()
        assert not watching.wait(0.05)
    finally:
        watching.close()
        one.end()
        other.end()


def test_a_root_that_is_replaced_needs_another_watch(tmp_path: Path) -> None:
    root = tmp_path / "root"
    root.mkdir()
    watching = watch([str(root)], NAMES)
    root.rename(tmp_path / "aside")
    assert until(watching, lambda seen: seen.over).over
    watching.close()
    watching.wake()  # a thread that has not heard of it: nothing happens


def test_a_queue_that_overflows_needs_another_watch(tmp_path: Path) -> None:
    limit = int(Path("/proc/sys/fs/inotify/max_queued_events").read_text())
    (tmp_path / "a").mkdir()
    watching = watch([str(tmp_path)], NAMES)
    names = [tmp_path / "a" / name for name in ("b", "c")]
    names[0].touch()
    for number in range(limit // 2 + 10):  # each two events, and no two alike in a row, which would be one
        names[number % 2].rename(names[1 - number % 2])
    assert until(watching, lambda seen: seen.over).over
    watching.close()


def test_names_of_any_bytes(tmp_path: Path) -> None:
    watching = watch([str(tmp_path)], NAMES)
    path = os.path.join(tmp_path, os.fsdecode(b"\xff\x1b"))
    os.mkdir(path)
    until(watching, lambda seen: path in seen.paths)
    watching.close()


def test_nothing_runs_where_nothing_happens(here: Places) -> None:
    """Twenty sessions that run: the thread wakes for its look at everything once a second, and for nothing else."""
    owners = [Sleeper() for _ in range(20)]
    os.makedirs(here.state, 0o700)
    for number, owner in enumerate(owners):
        Story(here, f"idle-{number}", f"/srv/idle{number}", owner.pid, name=f"idle{number}").start()
    arrived = threading.Event()
    ingest = Ingest(here, arrived.set)
    thread = threading.Thread(target=ingest.run)
    thread.start()
    try:
        assert arrived.wait(20)
        ingest.take()
        time.sleep(1.5)

        def wakings() -> int:
            status = Path(f"/proc/self/task/{thread.native_id}/status").read_text()
            return int(status.partition("\nvoluntary_ctxt_switches:")[2].split()[0])

        before = wakings()
        time.sleep(4.0)
        assert 1 <= wakings() - before <= 25
    finally:
        ingest.stop()
        thread.join(5)
        for owner in owners:
            owner.end()
    assert not thread.is_alive()
