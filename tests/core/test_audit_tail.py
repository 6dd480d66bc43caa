"""Following a log: any pieces, any damage, any fate of the file."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nd7core.audit.frame import Damage, Frame, encode, genesis, true_hash
from nd7core.audit.log import Log, log_directory
from nd7core.audit.tail import FileFollower, Tail


def chain(count: int, session: str = "s", *, size: int = 10, v: int = 0) -> list[bytes]:
    lines, prev = [], genesis(session)
    for seq in range(count):
        line = encode(session, seq, 5, "h", "src", "prompt", prev, {"text": "x" * size, "n": seq}, v=v)
        prev = true_hash(line)
        lines.append(line + b"\n")
    return lines


def split(found: list[Frame | Damage]) -> tuple[list[int], list[str]]:
    return (
        [item.seq for item in found if isinstance(item, Frame)],
        [item.kind for item in found if isinstance(item, Damage)],
    )


CHAIN = chain(6)
MESSY = b"".join(
    [
        CHAIN[0],
        CHAIN[1].rstrip(b"\n") + CHAIN[2],  # }{
        b"\n",
        CHAIN[3][:50] + CHAIN[3],  # a cut record and a whole one on one line
        b"\xff\xfe\x00 binary \x80\n",
        CHAIN[4][:-10] + b"\n",
        b"\0" * 40 + b"\n",
        CHAIN[5],
        b'{"v":0,"unfinished',
    ]
)


def test_a_whole_log_is_read_without_a_word() -> None:
    found = Tail("s").feed(b"".join(CHAIN))
    assert split(found) == ([0, 1, 2, 3, 4, 5], [])
    for line, frame in zip(CHAIN, found, strict=True):
        assert isinstance(frame, Frame)
        assert b"".join(CHAIN)[frame.offset : frame.offset + frame.size] == line


@given(st.lists(st.integers(0, len(MESSY)), max_size=30))
def test_any_pieces_give_the_same(cuts: list[int]) -> None:
    whole = Tail("s")
    expected = whole.feed(MESSY) + whole.finish()
    tail, found, start = Tail("s"), [], 0
    for cut in [*sorted(cuts), len(MESSY)]:
        found += tail.feed(MESSY[start:cut])
        start = cut
    assert found + tail.finish() == expected


@given(st.lists(st.binary(max_size=60) | st.sampled_from(CHAIN), max_size=12), st.integers(1, 50))
def test_no_bytes_make_it_raise_and_pieces_do_not_matter(parts: list[bytes], step: int) -> None:
    data = b"".join(parts)
    whole = Tail("s", max_line=200)
    expected = whole.feed(data) + whole.finish()
    tail, found = Tail("s", max_line=200), []
    for start in range(0, len(data), step):
        found += tail.feed(data[start : start + step])
    assert found + tail.finish() == expected


def test_what_is_whole_inside_damage_is_recovered() -> None:
    found = Tail("s").feed(MESSY)
    frames, damage = split(found)
    assert frames == [0, 1, 2, 3, 5]
    assert damage.count("gap") == 1
    assert damage.count("line") == 6
    assert any(isinstance(item, Damage) and item.reason == "frame 4 is missing" for item in found)


@pytest.mark.parametrize(
    ("lines", "kinds", "reason"),
    [
        (CHAIN[:2] + CHAIN[4:], ["gap"], "frames 2 to 3 are missing"),
        (CHAIN[1:], ["gap"], "frame 0 is missing"),
        ([*CHAIN[:3], CHAIN[2], *CHAIN[3:]], ["gap"], "frame 2 stands after frame 2"),
        ([*CHAIN[:3], CHAIN[3].replace(b"xxxxx", b"yxxxx"), *CHAIN[4:]], ["hash"], "its hash is not that of its bytes"),
        ([CHAIN[0], *chain(3, size=3)[1:]], ["link"], "frame 1 does not link to frame 0"),
        (chain(2, "other"), ["link"], "of another session"),
    ],
)
def test_a_broken_chain_is_told_and_shown(lines: list[bytes], kinds: list[str], reason: str) -> None:
    found = Tail("s").feed(b"".join(lines))
    assert split(found)[1] == kinds
    assert any(isinstance(item, Damage) and reason in item.reason for item in found)
    assert len(split(found)[0]) == len(lines)


def test_a_newer_format_is_told_once_and_shown() -> None:
    tail = Tail("s")
    frames, damage = split(tail.feed(b"".join(chain(3, v=7))))
    assert (frames, damage) == ([0, 1, 2], ["version"])
    assert tail.damaged == 0


def test_a_newer_frame_without_our_keys_is_shown_as_far_as_it_goes() -> None:
    (told, frame) = Tail().feed(b'{"v":3,"session_id":"s","seq":0,"kind":"dream","more":[1]}\n')
    assert isinstance(told, Damage) and told.kind == "version"
    assert isinstance(frame, Frame) and frame.kind == "dream"


def test_other_peoples_keys_and_kinds_are_no_damage() -> None:
    line = encode("s", 0, 1, "h", "someone", "dream", genesis("s"), {"what": [1, {"a": None}]})
    assert split(Tail("s").feed(line + b"\n")) == ([0], [])


def test_a_torn_last_line_is_damage_only_at_the_end() -> None:
    tail = Tail("s")
    assert split(tail.feed(b"".join(CHAIN)[:-30])) == ([0, 1, 2, 3, 4], [])
    assert tail.pending
    assert split(tail.finish()) == ([], ["torn"])


def test_a_last_frame_without_its_newline_is_shown() -> None:
    tail = Tail("s")
    tail.feed(b"".join(CHAIN)[:-1])
    assert split(tail.finish()) == ([5], ["torn"])


def test_a_line_of_ten_megabytes_is_read_in_linear_time() -> None:
    (line,) = chain(1, size=10_000_000)
    tail, found = Tail("s"), []
    before = time.process_time()
    for start in range(0, len(line), 4096):
        found += tail.feed(line[start : start + 4096])
    assert split(found) == ([0], [])
    assert time.process_time() - before < 5  # quadratic would be minutes


def test_a_damaged_line_is_searched_for_frames_in_bounded_time() -> None:
    bad = b'{"v":[' + b"1," * 2000
    line = bad * 500 + b"\n"
    before = time.process_time()
    found = Tail("s").feed(line + CHAIN[0])
    assert split(found) == ([0], ["line"])
    assert time.process_time() - before < 10


def test_a_line_without_end_is_given_up_and_what_follows_is_read() -> None:
    tail, found = Tail("s", max_line=1000), []
    for part in (CHAIN[0], b"x" * 800, b"x" * 800, b"x" * 800, b"\n", *CHAIN[1:]):
        found += tail.feed(part)
    assert split(found) == ([0, 1, 2, 3, 4, 5], ["line"])
    assert tail.pending == 0


def test_reading_from_the_middle_judges_no_first_link() -> None:
    offset = len(b"".join(CHAIN[:3]))
    tail = Tail("s", start=offset)
    found = tail.feed(b"".join(CHAIN[3:]))
    assert split(found) == ([3, 4, 5], [])
    assert isinstance(found[0], Frame) and found[0].offset == offset


@pytest.fixture
def log(tmp_path: Path) -> Log:
    return Log(log_directory(str(tmp_path), "s"))


def put(log: Log, count: int, text: str = "x") -> None:
    for _ in range(count):
        log.append("prompt", {"text": text}, source="s")


def events(log: Log) -> Path:
    return Path(log.directory, "events.ndjson")


def follow(log: Log) -> FileFollower:
    return FileFollower(str(events(log)), "s")


def test_a_file_that_comes_later_and_grows(log: Log) -> None:
    follower = follow(log)
    assert follower.poll() == []
    assert not follower.exists
    put(log, 2)
    assert split(follower.poll()) == ([0, 1], [])
    assert follower.poll() == []
    put(log, 1)
    assert split(follower.poll()) == ([2], [])
    assert follower.offset == events(log).stat().st_size
    follower.close()


def test_a_poll_reads_no_more_than_asked(log: Log) -> None:
    put(log, 50, "x" * 1000)
    follower = follow(log)
    seen, polls = [], 0
    while True:
        seen += split(follower.poll(4096))[0]
        polls += 1
        if not follower.more:
            break
    assert seen == list(range(50))
    assert polls > 10
    follower.close()


def restart(log: Log) -> None:
    for path in Path(log.directory).iterdir():
        path.unlink()


def test_cut_shorter(log: Log) -> None:
    put(log, 3)
    follower = follow(log)
    follower.poll()
    events(log).write_bytes(b"".join(events(log).read_bytes().splitlines(keepends=True)[:1]))
    assert split(follower.poll()) == ([0], ["file"])
    follower.close()


def test_cut_and_grown_past_the_old_offset(log: Log) -> None:
    put(log, 3)
    follower = follow(log)
    follower.poll()
    descriptor = os.open(events(log), os.O_RDWR | os.O_TRUNC)  # the same inode
    os.write(descriptor, b"".join(chain(9, size=500)))
    os.close(descriptor)
    assert split(follower.poll()) == (list(range(9)), ["file"])
    follower.close()


def test_written_anew_with_the_same_size(log: Log) -> None:
    put(log, 3, "x")
    follower = follow(log)
    follower.poll()
    size = events(log).stat().st_size
    data = events(log).read_bytes()
    events(log).write_bytes(data[: size - 200] + b"?" * 100 + data[size - 100 :])
    found = follower.poll()
    assert split(found)[1][0] == "file"
    follower.close()


def test_replaced_by_rename_after_the_old_one_grew(log: Log) -> None:
    put(log, 2)
    follower = follow(log)
    follower.poll()
    put(log, 2)  # not yet seen when the file goes
    os.rename(events(log), events(log).with_suffix(".old"))
    restart_log = Log(log.directory)
    (Path(log.directory) / "head").unlink()
    put(restart_log, 1)
    found = follower.poll()
    assert split(found) == ([2, 3, 0], ["file"])
    follower.close()


def test_deleted_and_made_again(log: Log) -> None:
    put(log, 3)
    follower = follow(log)
    follower.poll()
    restart(log)
    assert split(follower.poll()) == ([], ["file"])
    assert not follower.exists
    assert follower.poll() == []
    put(log, 2)
    assert split(follower.poll()) == ([0, 1], [])
    restart(log)
    put(log, 4)
    assert split(follower.poll()) == ([0, 1, 2, 3], ["file"])
    follower.close()


def test_a_torn_end_is_told_once_when_nobody_goes_on_writing(log: Log) -> None:
    put(log, 2)
    data = events(log).read_bytes()
    events(log).write_bytes(data[:-20])
    follower = follow(log)
    assert split(follower.poll(now=0.0)) == ([0], [])
    assert follower.poll(now=1.0) == []
    assert split(follower.poll(now=2.5)) == ([], ["torn"])
    assert follower.poll(now=9.0) == []
    with events(log).open("ab") as file:
        file.write(data[-20:])
    assert split(follower.poll(now=10.0)) == ([1], [])
    follower.close()


def test_no_file_but_something_else(log: Log) -> None:
    os.makedirs(log.directory)
    os.mkfifo(events(log))
    follower = follow(log)
    assert split(follower.poll())[1] == ["file"]
    assert follower.poll() == []
    events(log).unlink()
    os.symlink("/etc/passwd", events(log))
    assert split(follower.poll())[1] == ["file"]
    events(log).unlink()
    put(log, 1)
    assert split(follower.poll()) == ([0], [])
    follower.close()


operations = st.lists(
    st.sampled_from(["append", "append", "part", "truncate", "replace", "delete", "rewrite", "poll"]), max_size=25
)


@settings(max_examples=60, deadline=None)
@given(operations)
def test_whatever_happens_to_the_file_the_last_poll_has_what_is_in_it(
    tmp_path_factory: pytest.TempPathFactory, steps: list[str]
) -> None:
    folder = tmp_path_factory.mktemp("f")
    path = folder / "events.ndjson"
    follower = FileFollower(str(path), "s")
    latest: list[int] = []

    def poll() -> None:
        for item in follower.poll():
            if isinstance(item, Damage) and item.kind == "file":
                latest.clear()
            elif isinstance(item, Frame):
                latest.append(item.seq)

    for number, step in enumerate(steps, 1):
        lines = chain(5, size=number)
        if step == "poll":
            poll()
        elif step == "append":
            have = path.read_bytes() if path.exists() else b""
            with path.open("ab") as file:
                file.write(lines[min(have.count(b"\n"), 4)])
        elif step == "part":
            with path.open("ab") as file:
                file.write(lines[0][:20])
        elif step == "truncate" and path.exists():
            poll()
            os.truncate(path, path.stat().st_size // 2)
            poll()
        elif step == "replace":
            (folder / "new").write_bytes(b"".join(lines[:2]))
            os.replace(folder / "new", path)
        elif step == "delete" and path.exists():
            path.unlink()
        elif step == "rewrite":
            path.write_bytes(b"".join(lines[: number % 5]))
    poll()
    fresh = FileFollower(str(path), "s")
    expected = [item.seq for item in fresh.poll() if isinstance(item, Frame)]
    assert latest == expected
    fresh.close()
    follower.close()
