"""Appending to the log: the chain, the two repairs, everything else refused, killed at every step, 40 at once."""

from __future__ import annotations

import json
import multiprocessing
import os
import resource
import signal
import stat
import subprocess
import sys
import textwrap
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from blake3 import blake3

from nd7core.audit.log import AuditError, Log, log_directory
from nd7core.audit.verify import verify

ROOT = Path(__file__).parent.parent.parent
SOURCE = "intent:claude-code"


@pytest.fixture
def log(tmp_path: Path) -> Log:
    return Log(log_directory(str(tmp_path / "state" / "nd7"), "5b1d-e"), host="box")


def fill(log: Log, count: int) -> None:
    for number in range(count):
        log.append("prompt", {"text": f"prompt {number}"}, source=SOURCE, ts=number)


def lines(log: Log) -> list[bytes]:
    return Path(log.directory, "events.ndjson").read_bytes().splitlines(keepends=True)


def head(log: Log) -> bytes:
    return Path(log.directory, "head").read_bytes()


def test_an_empty_log_starts_with_the_hash_of_the_session_id(log: Log) -> None:
    frame = log.append("prompt", {"text": "a"}, source=SOURCE, ts=5)
    (line,) = lines(log)
    assert line.startswith(
        b'{"v":0,"session_id":"5b1d-e","seq":0,"ts":5,"host":"box","source":"intent:claude-code","kind":"prompt",'
        b'"prev":"' + blake3(b"5b1d-e").hexdigest().encode() + b'","body":{"text":"a"},"hash":"'
    )
    assert head(log) == f"0 {frame.hash}\n".encode()
    assert (frame.offset, frame.size) == (0, len(line))


def test_each_frame_links_to_the_one_before(log: Log) -> None:
    fill(log, 5)
    frames = [json.loads(line) for line in lines(log)]
    assert [frame["seq"] for frame in frames] == [0, 1, 2, 3, 4]
    assert [frame["prev"] for frame in frames[1:]] == [frame["hash"] for frame in frames[:-1]]
    assert head(log) == f"4 {frames[-1]['hash']}\n".encode()
    assert verify(log.directory).ok


def test_nobody_else_can_read_what_is_written_whatever_the_umask(log: Log) -> None:
    old = os.umask(0)
    try:
        fill(log, 1)
    finally:
        os.umask(old)
    for folder in (log.directory, os.path.dirname(log.directory)):
        assert stat.S_IMODE(os.stat(folder).st_mode) == 0o700
    for name in ("events.ndjson", "head", "lock"):
        assert stat.S_IMODE(os.stat(os.path.join(log.directory, name)).st_mode) == 0o600


@pytest.mark.parametrize("bad", ["", ".", "..", "a/b", "a b", "a\0b", "../x", "ä", "a\n", "x" * 256, "\ud800"])
def test_a_session_id_that_is_none_is_refused(bad: str) -> None:
    with pytest.raises(AuditError, match="session id"):
        log_directory("/state", bad)


@pytest.mark.parametrize("good", ["a", "5b1d0c7e-2f", "..a", "A_b.c", "x" * 255])
def test_a_session_id_of_the_allowed_letters_is_taken(good: str) -> None:
    assert log_directory("/state", good) == f"/state/sessions/{good}"


def test_a_missing_head_is_made_again(log: Log) -> None:
    fill(log, 3)
    os.unlink(os.path.join(log.directory, "head"))
    fill(log, 1)
    assert verify(log.directory).ok
    assert len(lines(log)) == 4


def test_a_head_one_frame_behind_is_mended(log: Log) -> None:
    fill(log, 2)
    old = head(log)
    fill(log, 1)
    Path(log.directory, "head").write_bytes(old)
    fill(log, 1)
    assert verify(log.directory).ok
    assert [json.loads(line)["seq"] for line in lines(log)] == [0, 1, 2, 3]


def cut_last(log: Log) -> None:
    Path(log.directory, "events.ndjson").write_bytes(b"".join(lines(log)[:-1]))


def cut_two(log: Log) -> None:
    Path(log.directory, "events.ndjson").write_bytes(b"".join(lines(log)[:-2]))


def cut_all(log: Log) -> None:
    Path(log.directory, "events.ndjson").write_bytes(b"")


def tear(log: Log) -> None:
    Path(log.directory, "events.ndjson").write_bytes(b"".join(lines(log))[:-1])


def tear_more(log: Log) -> None:
    Path(log.directory, "events.ndjson").write_bytes(b"".join(lines(log))[:-40])


def stale_by_two(log: Log) -> None:
    frame = json.loads(lines(log)[-3])
    Path(log.directory, "head").write_text(f"{frame['seq']} {frame['hash']}\n")


def other_hash(log: Log) -> None:
    Path(log.directory, "head").write_text(f"{len(lines(log)) - 1} {'0' * 64}\n")


def behind_without_link(log: Log) -> None:
    Path(log.directory, "head").write_text(f"{len(lines(log)) - 2} {'0' * 64}\n")


def odd_head(log: Log) -> None:
    Path(log.directory, "head").write_bytes(head(log)[:-1])


def empty_head(log: Log) -> None:
    Path(log.directory, "head").write_bytes(b"")


def changed(log: Log) -> None:
    data = b"".join(lines(log))
    Path(log.directory, "events.ndjson").write_bytes(data[:-90] + b"X" + data[-89:])


def foreign(log: Log) -> None:
    other = Log(log.directory.removesuffix("5b1d-e") + "other", host="box")
    fill(other, 4)
    os.replace(os.path.join(other.directory, "events.ndjson"), os.path.join(log.directory, "events.ndjson"))
    os.replace(os.path.join(other.directory, "head"), os.path.join(log.directory, "head"))


def junk_behind(log: Log) -> None:
    with Path(log.directory, "events.ndjson").open("ab") as file:
        file.write(b"not a frame\n")


def blank_behind(log: Log) -> None:
    with Path(log.directory, "events.ndjson").open("ab") as file:
        file.write(b"\n")


@pytest.mark.parametrize(
    ("damage", "named"),
    [
        (cut_last, "frame 3"),
        (cut_two, "frame 3"),
        (cut_all, "frame 3"),
        (tear, "frame 3 is torn"),
        (tear_more, "frame 3 is torn"),
        (stale_by_two, "frame 3"),
        (other_hash, "frame 3"),
        (behind_without_link, "frame 3"),
        (odd_head, "frame 3: head"),
        (empty_head, "frame 3: head"),
        (changed, "frame 3"),
        (foreign, "frame 3"),
        (junk_behind, "frame 4, the log's last line"),
        (blank_behind, "frame 4, the log's last line"),
    ],
)
def test_every_other_mismatch_is_refused_and_nothing_is_written(
    log: Log, damage: Callable[[Log], None], named: str
) -> None:
    fill(log, 4)
    damage(log)
    before = {path.name: path.read_bytes() for path in Path(log.directory).iterdir()}
    for _ in range(2):
        with pytest.raises(AuditError, match=named):
            log.append("prompt", {"text": "more"}, source=SOURCE)
    assert {path.name: path.read_bytes() for path in Path(log.directory).iterdir()} == before
    assert not verify(log.directory).ok


@pytest.mark.parametrize("name", ["events.ndjson", "head", "lock"])
def test_a_link_in_place_of_a_file_is_not_followed(log: Log, name: str, tmp_path: Path) -> None:
    fill(log, 2)
    target = tmp_path / "target"
    os.replace(os.path.join(log.directory, name), target)
    before = target.read_bytes()
    os.symlink(target, os.path.join(log.directory, name))
    with pytest.raises(AuditError):
        log.append("prompt", {"text": "x"}, source=SOURCE)
    assert target.read_bytes() == before


@pytest.mark.parametrize("name", ["events.ndjson", "head"])
def test_a_pipe_in_place_of_a_file_is_refused_at_once(log: Log, name: str) -> None:
    fill(log, 2)
    os.unlink(os.path.join(log.directory, name))
    os.mkfifo(os.path.join(log.directory, name))
    with pytest.raises(AuditError):
        log.append("prompt", {"text": "x"}, source=SOURCE)


def test_a_directory_that_others_may_write_is_refused(log: Log) -> None:
    fill(log, 1)
    os.chmod(log.directory, 0o777)
    with pytest.raises(AuditError, match="others"):
        fill(log, 1)


def test_a_link_in_place_of_the_directory_is_refused(log: Log, tmp_path: Path) -> None:
    os.makedirs(os.path.dirname(log.directory), 0o700)
    (tmp_path / "elsewhere").mkdir()
    os.symlink(tmp_path / "elsewhere", log.directory)
    with pytest.raises(AuditError, match="not a directory"):
        fill(log, 1)


def test_a_body_that_json_cannot_hold_leaves_the_log_as_it_was(log: Log) -> None:
    fill(log, 2)
    with pytest.raises(AuditError, match="frame 2"):
        log.append("x", {"a": float("nan")}, source="s")
    fill(log, 1)
    assert verify(log.directory).frames == 3


def test_large_frames_are_found_again_from_the_logs_end(log: Log) -> None:
    for size in (10, 8192, 8193, 40_000, 3_000_000):
        log.append("prompt", {"text": "é" * size}, source=SOURCE)
    assert verify(log.directory).frames == 5


def test_a_full_disk_takes_the_part_back_that_was_written(log: Log) -> None:
    fill(log, 3)
    before = b"".join(lines(log))
    pid = os.fork()
    if pid == 0:
        status = 1
        try:
            limit = len(before) + 300
            resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))
            log.append("prompt", {"text": "x" * 5000}, source=SOURCE)
        except AuditError as error:
            status = 0 if "frame 3 was not written" in error.message else 2
        finally:
            os._exit(status)
    assert os.waitpid(pid, 0)[1] == 0
    assert b"".join(lines(log)) == before
    fill(log, 1)
    assert verify(log.directory).frames == 4


FULL = textwrap.dedent("""
    import sys
    from pathlib import Path
    from nd7core.audit.log import AuditError, Log, log_directory
    from nd7core.audit.verify import verify

    disk = Path(sys.argv[1])
    log = Log(log_directory(str(disk / "nd7"), "s"))
    log.append("prompt", {}, source="s")
    (disk / "ballast").write_bytes(b"x" * 30_000)
    refused = ""
    for _ in range(100):
        try:
            log.append("prompt", {"text": "x" * 1500}, source="s")
        except AuditError as error:
            refused = error.message
            break
    full = verify(log.directory)
    (disk / "ballast").unlink()
    log.append("prompt", {}, source="s")
    after = verify(log.directory)
    print(refused, full.ok, after.ok, after.frames - full.frames, sep="|")
""")


def test_a_file_system_without_space_refuses_and_goes_on_when_there_is_some(tmp_path: Path) -> None:
    done = subprocess.run(
        [
            *("unshare", "--user", "--map-root-user", "--mount", "sh", "-c"),
            'mount -t tmpfs -o size=64k tmpfs "$1" && exec "$2" -c "$3" "$1"',
            *("sh", str(tmp_path), sys.executable, FULL),
        ],
        cwd=ROOT,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    refused, *rest = done.stdout.strip().split("|")
    assert "No space left" in refused
    assert rest == ["True", "True", "1"]


# A child that appends and kills itself before the n-th system call of the append, or inside the write.
KILLED = textwrap.dedent("""
    import os, signal, sys
    from nd7core.audit import log as module

    class Counting:
        left = int(sys.argv[2])
        def __getattr__(self, name):
            real = getattr(os, name)
            if not callable(real) or name in ("fspath", "uname"):
                return real
            def call(*args, **keys):
                if Counting.left == 0:
                    if name == "write" and sys.argv[3] == "torn":
                        real(args[0], args[1][: len(args[1]) // 2])
                    os.kill(os.getpid(), signal.SIGKILL)
                Counting.left -= 1
                return real(*args, **keys)
            return call

    log = module.Log(sys.argv[1])
    real_path, module.os = os.path, Counting()
    Counting.path = real_path
    log.append("prompt", {"text": "the one that is killed"}, source="s")
""")


@pytest.mark.parametrize("how", ["before", "torn"])
@pytest.mark.parametrize("start", [0, 1, 3])
def test_killed_at_every_step_the_log_is_mended_or_refused_never_silently_wrong(
    tmp_path: Path, start: int, how: str
) -> None:
    outcomes = set()
    for step in range(100):
        log = Log(log_directory(str(tmp_path / str(step)), "s"))
        fill(log, start)
        done = subprocess.run([sys.executable, "-c", KILLED, log.directory, str(step), how], cwd=ROOT)
        events = Path(log.directory, "events.ndjson")
        after = events.read_bytes() if events.exists() else b""
        whole = after.count(b"\n")
        try:
            log.append("prompt", {"text": "after"}, source="s")
        except AuditError as error:
            assert after and not after.endswith(b"\n")
            assert "torn" in error.message
            assert events.read_bytes() == after
            outcomes.add("refused")
        else:
            result = verify(log.directory)
            assert result.ok, result.problem
            assert result.frames == whole + 1
            assert b"\n".join(events.read_bytes().splitlines()[:whole]) == after.rstrip(b"\n")
            outcomes.add("kept" if whole == start + 1 else "not written")
        if done.returncode == 0:
            break
        assert done.returncode == -signal.SIGKILL
    else:
        raise AssertionError("the append never ended")
    assert step > 8
    assert outcomes == {"not written", "kept"} | ({"refused"} if how == "torn" else set())


def append_many(directory: str, writer: int, count: int) -> None:
    log = Log(directory)
    for number in range(count):
        log.append("prompt", {"text": f"{writer}.{number} " + "y" * (writer * 997 % 5000)}, source=SOURCE)


def test_forty_at_once_lose_and_double_nothing(log: Log) -> None:
    context = multiprocessing.get_context("fork")
    writers = [context.Process(target=append_many, args=(log.directory, writer, 5)) for writer in range(40)]
    for writer in writers:
        writer.start()
    for writer in writers:
        writer.join()
    assert [writer.exitcode for writer in writers] == [0] * 40
    result = verify(log.directory)
    assert result.ok
    told = [json.loads(line)["body"]["text"].split()[0] for line in lines(log)]
    assert sorted(told) == sorted(f"{writer}.{number}" for writer in range(40) for number in range(5))


def append_for_ever(directory: str) -> None:
    log = Log(directory)
    while True:
        log.append("prompt", {"text": "z" * 300_000}, source=SOURCE)


def test_writers_killed_at_any_moment_leave_a_log_that_goes_on_or_refuses(tmp_path: Path) -> None:
    context = multiprocessing.get_context("fork")
    for round_ in range(12):
        log = Log(log_directory(str(tmp_path / str(round_)), "s"))
        fill(log, 1)
        writers = [context.Process(target=append_for_ever, args=(log.directory,)) for _ in range(3)]
        for writer in writers:
            writer.start()
        time.sleep(0.02 + 0.011 * round_)
        for writer in writers:
            writer.kill()
        for writer in writers:
            writer.join()
        try:
            log.append("prompt", {"text": "after"}, source=SOURCE)
        except AuditError as error:
            assert "is torn" in error.message
            assert not verify(log.directory).ok
        else:
            assert verify(log.directory).ok


def test_an_append_reads_no_more_of_a_long_log_than_of_a_short_one(log: Log) -> None:
    fill(log, 3)
    data = lines(log)[-1]
    read: list[int] = []
    real = os.pread
    Path(log.directory, "events.ndjson").write_bytes(b"x" * 5_000_000 + b"\n" + data)

    def counting(descriptor: int, size: int, offset: int) -> bytes:
        read.append(size)
        return real(descriptor, size, offset)

    os.pread = counting
    try:
        fill(log, 1)
    finally:
        os.pread = real
    assert sum(read) < 20_000
