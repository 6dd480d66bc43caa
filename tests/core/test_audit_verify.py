"""The check of a log, as a function and as `nd7 verify`."""

from __future__ import annotations

import json
import os
import threading
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from nd7core import sessions
from nd7core.audit.frame import encode, genesis, true_hash
from nd7core.audit.log import AuditError, Log, log_directory
from nd7core.audit.verify import verify
from nd7core.paths import Places, places_of
from nd7core.policy import build
from nd7core.process import start_time
from nd7core.record import Record
from nd7tui.commands import verify as command


@pytest.fixture
def log(tmp_path: Path) -> Log:
    log = Log(log_directory(str(tmp_path), "session-1"), host="box")
    for number in range(5):
        log.append("prompt", {"text": f"{number}", "cwd": "/p"}, source="s", ts=100 + number)
    return log


def test_a_clean_log(log: Log) -> None:
    result = verify(log.directory)
    assert result.ok
    assert (result.frames, result.first, result.last, result.broken) == (5, 100, 104, None)
    assert result.size == os.path.getsize(os.path.join(log.directory, "events.ndjson"))


def rewrite(log: Log, change: Callable[[list[bytes]], list[bytes]]) -> None:
    path = Path(log.directory, "events.ndjson")
    path.write_bytes(b"".join(change(path.read_bytes().splitlines(keepends=True))))


def forged(line: bytes, old: bytes, new: bytes) -> bytes:
    """A line changed by someone who recomputes its hash."""
    changed = line[:-1].replace(old, new)
    return changed[:-66] + true_hash(changed).encode() + b'"}\n'


@pytest.mark.parametrize(
    ("change", "broken", "why"),
    [
        (lambda x: [*x[:2], *x[3:]], 2, "frame 2 is missing: frame 3 stands in its place"),
        (lambda x: [*x[:2], x[3], x[2], x[4]], 2, "frame 2 is missing"),
        (lambda x: [*x[:3], x[2], *x[3:]], 3, "frame 3 is missing: frame 2"),
        (lambda x: [*x[:2], x[2].replace(b'"2"', b'"9"'), *x[3:]], 2, "frame 2: its hash is not that of its bytes"),
        (lambda x: [*x[:2], forged(x[2], b'"2"', b'"9"'), *x[3:]], 3, "frame 3 does not link to frame 2"),
        (lambda x: [*x[:2], forged(x[2], b'"2"', b'"2" '), *x[3:]], 2, "white space"),
        (lambda x: [*x[:2], forged(x[2], b'"cwd"', b'"text"'), *x[3:]], 2, "a key twice"),
        (lambda x: [forged(x[0], b'"prev":"', b'"prev":"0'), *x[1:]], 0, "frame 0 does not link to its session"),
        (lambda x: [*x[:2], b"rubbish\n", *x[3:]], 2, "no JSON"),
        (lambda x: [*x[:2], b"\n", *x[2:]], 2, "no JSON"),
        (lambda x: [*x[:2], b"{}\n", *x[3:]], 2, "no frame"),
        (lambda x: [*x[:4], x[4][:-1]], 4, "no end"),
        (lambda x: x[:4], 4, "frame 4 is missing: head names frame 4"),
        (lambda x: [], 0, "empty"),
        (lambda x: [x[0].replace(b'{"v":0', b'{"v":1'), *x[1:]], 0, "version 1"),
        (lambda x: [forged(x[0], b"session-1", b"session-2"), *x[1:]], 0, "session"),
    ],
)
def test_the_first_break_is_named(
    log: Log, change: Callable[[list[bytes]], list[bytes]], broken: int, why: str
) -> None:
    rewrite(log, change)
    result = verify(log.directory)
    assert not result.ok
    assert result.broken == broken
    assert why in result.problem
    assert result.frames in (broken, 4, 5)


@pytest.mark.parametrize(
    ("head", "why"),
    [
        (None, "frame 4: head is missing"),
        (b"", "head does not hold"),
        (b"4 " + b"0" * 64 + b"\n", "frame 4: head names another hash"),
        (b"9 " + b"0" * 64 + b"\n", "frame 5 is missing: head names frame 9"),
        (b"1 " + b"0" * 64 + b"\n", "frame 2: head names frame 1 as the last, but the log goes on"),
    ],
)
def test_head_is_checked_last(log: Log, head: bytes | None, why: str) -> None:
    path = Path(log.directory, "head")
    if head is None:
        path.unlink()
    else:
        path.write_bytes(head)
    result = verify(log.directory)
    assert why in result.problem
    assert result.frames == 5


def test_what_another_writer_spells_otherwise_is_no_break(tmp_path: Path) -> None:
    directory = tmp_path / "sessions" / "s"
    directory.mkdir(parents=True)
    line = encode("s", 0, 1, "h", "x", "k", genesis("s"), {"n": 1e16, "t": "a\x7f"})
    line = line.replace(b"1e+16", b"1e16").replace(b"\x7f", b"\\u007f")
    line = line[:-66] + true_hash(line).encode() + b'"}'
    (directory / "events.ndjson").write_bytes(line + b"\n")
    (directory / "head").write_text(f"0 {true_hash(line)}\n")
    assert verify(str(directory)).ok


def test_a_log_that_grows_while_it_is_checked_is_clean_and_not_kept_from_growing(log: Log) -> None:
    for _ in range(400):
        log.append("prompt", {"text": "x" * 20_000}, source="s")
    stop = threading.Event()
    counts: list[int] = []

    def grow() -> None:
        while not stop.is_set():
            log.append("prompt", {"text": "y"}, source="s")
            counts.append(1)

    thread = threading.Thread(target=grow)
    thread.start()
    try:
        for _ in range(5):
            result = verify(log.directory)
            assert result.ok, result.problem
            assert result.frames >= 405
    finally:
        stop.set()
        thread.join()
    assert len(counts) > 5


def test_no_log_is_an_error_not_a_clean_log(tmp_path: Path) -> None:
    with pytest.raises(AuditError, match="no audit log"):
        verify(str(tmp_path / "nothing"))
    (tmp_path / "empty").mkdir()
    assert not verify(str(tmp_path / "empty")).ok


def run(state: str, monkeypatch: pytest.MonkeyPatch, *words: str) -> int:
    from nd7tui.cli import main

    monkeypatch.setattr(command, "places", lambda: here(state))
    return main(["verify", *words])


def here(state: str) -> Places:
    return replace(places_of(os.path.join(os.path.dirname(state), "home")), state=state)


@pytest.fixture
def state(tmp_path: Path) -> str:
    state = str(tmp_path / "nd7")
    for name in ("5b1d-one", "5b1d-two", "77aa-x"):
        Log(log_directory(state, name)).append("prompt", {"text": "x"}, source="s")
    return state


def test_the_command(state: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(state, monkeypatch, "77aa-x") == 0
    told = capsys.readouterr().out
    assert "the chain holds, 1 frame" in told
    assert "does not prove" in told
    assert run(state, monkeypatch, "77", "--json") == 0
    assert json.loads(capsys.readouterr().out)["ok"] is True


def test_a_live_session_is_named_by_its_pid_or_name(
    state: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    where = here(state)
    os.makedirs(where.home)
    record = Record(
        project=f"{where.home}/app", home=where.home, state=state, pid=os.getpid(), name="app",
        agent_sessions=("77aa-x", "gone"), owner_start=start_time(os.getpid()) or "",
    )  # fmt: skip
    sessions.create(where, record, build(record))
    for words in (str(os.getpid()), "app"):
        assert run(state, monkeypatch, words) == 0
        assert "77aa-x: the chain holds" in capsys.readouterr().out
    sessions.update(where, os.getpid(), lambda old: replace(old, agent_sessions=("77aa-x", "5b1d-one")))
    assert run(state, monkeypatch, "app") == 1
    assert "2 logs are of app\n     one of: 5b1d-one, 77aa-x" in capsys.readouterr().err


def test_the_command_names_the_break(
    state: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    path = Path(log_directory(state, "77aa-x"), "events.ndjson")
    path.write_bytes(path.read_bytes().replace(b'"text":"x"', b'"text":"y"'))
    assert run(state, monkeypatch, "77aa-x") == 1
    assert "frame 0: its hash" in capsys.readouterr().err
    assert run(state, monkeypatch, "77aa-x", "--json") == 1
    assert json.loads(capsys.readouterr().out)["broken"] == 0


@pytest.mark.parametrize(
    ("word", "told"),
    [
        ("5b1d", "2 sessions begin"),
        ("5b1d-onf", "5b1d-one"),
        ("zzz", "no audit log"),
        ("..", "not one"),
        ("a/b", "not one"),
    ],
)
def test_the_command_with_another_id(
    state: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], word: str, told: str
) -> None:
    assert run(state, monkeypatch, word) == 1
    assert told in capsys.readouterr().err


def test_the_help_has_examples() -> None:
    assert "examples:" in (command.__doc__ or "")
