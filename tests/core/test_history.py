"""The index of past denials: what it holds, how it follows the logs, and what a search finds."""

from __future__ import annotations

import os
import shutil
import sqlite3
import stat
import time
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nd7core.audit.frame import Frame
from nd7core.audit.log import Log, log_directory
from nd7core.history import History, HistoryError, connect, index_path
from nd7core.history_index import Indexer
from nd7core.history_log import read_log
from nd7core.history_query import Query, QueryError, fits, parse
from nd7core.history_sql import statement

HOME = "/home/dev"
HOUR = 3_600_000_000_000
START = 1_700_000_000_000_000_000


def call(log: Log, number: int, command: str, output: str, ts: int, *, project: str = "/home/dev/app") -> None:
    told = {"tool_use_id": f"t{number}", "tool_name": "Bash", "tool_input": {"command": command}}
    common = {"cwd": project, "hook_event_name": "PreToolUse", "nd7_session": 7, "policy_revision": 1}
    log.append("tool_call", common | told, source="intent:claude-code", ts=ts)
    failed = {"tool_response": f"Exit code 1\n{output}", "ok": False}
    log.append("tool_result", common | told | failed, source="intent:claude-code", ts=ts + 1000)


def refused(path: str) -> tuple[str, str]:
    return f"touch {path}", f"touch: cannot touch '{path}': Permission denied"


def make(state: Path, name: str, paths: list[str], at: int = START, *, project: str = "/home/dev/app") -> Log:
    log = Log(log_directory(str(state), name))
    for number, path in enumerate(paths):
        call(log, number, *refused(path), at + number * 1_000_000_000, project=project)
    return log


def index(state: Path, **more: Any) -> None:
    for progress in Indexer(str(state), home=HOME, **more).work():
        last = progress
    assert last.finished


def find(state: Path, text: str = "", **more: Any) -> list[str]:
    history = History(str(state))
    page = history.search(parse(text, START + 100 * HOUR), budget=5, **more)
    history.close()
    assert page.complete
    return [entry.target for entry in page.rows]


@pytest.fixture
def state(tmp_path: Path) -> Path:
    make(tmp_path, "one", ["/home/dev/data/a.txt", "/home/dev/data/b.txt"], START)
    make(tmp_path, "two", ["/home/dev/data/a.txt", "/home/dev/other/ü.txt"], START + HOUR, project="/home/dev/web")
    log = make(tmp_path, "three", ["/home/dev/data/100%_x"], START + 2 * HOUR)
    call(log, 9, "make", "make: *** no rule to make target", START + 3 * HOUR)
    index(tmp_path)
    return tmp_path


def test_no_index_is_an_empty_one(tmp_path: Path) -> None:
    assert find(tmp_path) == []
    assert History(str(tmp_path)).sessions() == []
    index(tmp_path)
    assert find(tmp_path) == []


def test_the_newest_come_first_and_other_failures_only_when_asked_for(state: Path) -> None:
    assert find(state) == [
        "/home/dev/data/100%_x",
        "/home/dev/other/ü.txt",
        "/home/dev/data/a.txt",
        "/home/dev/data/b.txt",
        "/home/dev/data/a.txt",
    ]
    history = History(str(state))
    (other,) = history.search(parse("source:other", 0)).rows
    assert (other.command, other.source, other.session_id) == ("make", "none", "three")
    history.close()


@pytest.mark.parametrize(
    ("text", "count"),
    [
        ("a.txt", 2),
        ("A.TXT", 2),
        ("data a.tx", 2),
        ('"touch /home/dev/data"', 4),
        ("ü", 1),
        ("ü.txt", 1),
        ("100%", 1),
        ("0%_x", 1),
        ("%%%", 0),
        ("_", 1),
        ("b", 1 + 1),
        ("x", 5),
        ("web", 2),
        ("project:web", 2),
        ("project:web a.txt", 1),
        ("session:tw", 2),
        ("session:w", 0),
        ("path:touch", 0),
        ("path:other", 1),
        ("source:kernel", 5),
        ("source:k,m", 5),
        ("source:model", 0),
        ("tool:Bash", 5),
        ("tool:Write", 0),
        ("op:write", 5),
        ("op:read", 0),
        ("state:open", 5),
        ("age:98h", 1),
        ("age:99h", 3),
        ('"quo"te', 0),
        ("'; DROP TABLE entry; --", 0),
        ("NEAR(a b)", 0),
        ("nothing-of-the-kind", 0),
    ],
)
def test_what_a_query_finds_in_the_index_and_in_the_logs(state: Path, text: str, count: int) -> None:
    query = parse(text, START + 100 * HOUR)
    history = History(str(state))
    indexed = sorted((entry.session_id, entry.target) for entry in history.search(query, budget=5).rows)
    history.close()
    logs = [read_log(log_directory(str(state), name), home=HOME) for name in ("one", "two", "three")]
    read = [(row.session_id, row.verdict.target) for log in logs for row in log.rows if fits(query, row, log.project)]
    assert indexed == sorted(read)
    assert len(indexed) == count if text != "b" else indexed


@pytest.mark.parametrize("text", ["source:moon", "state:x", "op:eat", "age:soon", "age:5y"])
def test_a_query_that_cannot_be_meant_says_so(text: str) -> None:
    with pytest.raises(QueryError):
        parse(text, 0)


@given(st.text(max_size=40))
def test_any_text_is_a_query_or_an_error(text: str) -> None:
    try:
        parse(text, START)
    except QueryError:
        return


@given(st.text(max_size=12))
def test_any_text_can_be_searched_for(tmp_path_factory: pytest.TempPathFactory, text: str) -> None:
    state = tmp_path_factory.getbasetemp() / "searched"
    if not state.exists():
        make(state, "one", ["/home/dev/data/a"])
        index(state)
    history = History(str(state))
    history.search(Query(words=(text.replace("\0", "").encode("utf-8", "replace").decode(),)))
    history.targets(Query(paths=(text.replace("\0", "").encode("utf-8", "replace").decode(),)))
    history.close()


def test_pages_meet_without_gap_or_overlap(tmp_path: Path) -> None:
    for number in range(7):
        make(tmp_path, f"s{number}", [f"/home/dev/data/{number}-{n}" for n in range(20)], START + number * HOUR // 100)
    index(tmp_path)
    history = History(str(tmp_path))
    for text in ("", "data", "source:kernel", "session:s"):
        query, seen, before = parse(text, 0), [], None
        while True:
            page = history.search(query, limit=9, before=before)
            seen += [entry.id for entry in page.rows]
            before = page.next
            if before is None:
                break
        assert len(seen) == 140
        assert seen == sorted(set(seen), reverse=True)
    history.close()


def test_rows_of_one_moment_are_all_kept(tmp_path: Path) -> None:
    for name in ("a", "b", "c"):
        log = Log(log_directory(str(tmp_path), name))
        for number in range(200):
            call(log, number, *refused(f"/home/dev/data/{name}{number}"), 5)
    index(tmp_path)
    assert len(find(tmp_path, limit=1000)) == 600


def test_targets_know_in_how_many_sessions_they_were_seen(state: Path) -> None:
    history = History(str(state))
    first, *rest = history.targets(Query())
    assert (first.target, first.source, first.sessions, first.count) == ("/home/dev/data/a.txt", "kernel", 2, 2)
    assert {target.sessions for target in rest} == {1}
    assert [target.target for target in history.targets(parse("path:other", 0))] == ["/home/dev/other/ü.txt"]
    assert [target.target for target in history.targets(parse("b", 0))] == ["/home/dev/data/b.txt"]
    history.close()


def test_sessions_with_their_counts(state: Path) -> None:
    history = History(str(state))
    latest, *older = history.sessions()
    assert (latest.session_id, latest.kernel, latest.other, latest.frames) == ("three", 1, 1, 4)
    assert (latest.nd7_session, latest.agent, latest.damaged) == (7, "claude-code", 0)
    assert [session.session_id for session in history.sessions(before=latest.last)] == [s.session_id for s in older]
    assert [session.session_id for session in history.sessions(project="web")] == ["two"]
    history.close()


def test_the_moment_around_a_row(state: Path) -> None:
    history = History(str(state))
    entry = history.search(parse("b.txt", 0)).rows[0]
    around = history.moment(entry, before=1, after=5)
    assert [item.seq for item in around if isinstance(item, Frame)] == [2, 3]
    assert entry.seq == 3
    shutil.rmtree(log_directory(str(state), "one"))
    assert history.moment(entry) == []
    history.close()


def test_a_moment_deep_in_a_large_log(tmp_path: Path) -> None:
    log = Log(log_directory(str(tmp_path), "big"))
    for _ in range(30):
        log.append("prompt", {"text": "x" * 200_000}, source="s", ts=START)
    call(log, 1, *refused("/home/dev/data/deep"), START + 5)
    index(tmp_path)
    history = History(str(tmp_path))
    (entry,) = history.search(Query()).rows
    around = history.moment(entry, before=3, after=3)
    assert [item.seq for item in around if isinstance(item, Frame)] == [28, 29, 30, 31]
    history.close()


def test_a_log_that_grew_vanished_or_changed_is_followed(state: Path) -> None:
    log = Log(log_directory(str(state), "one"))
    call(log, 5, *refused("/home/dev/data/new"), START + 50 * HOUR)
    index(state, quiet=3600)
    assert "/home/dev/data/new" not in find(state)
    index(state, quiet=0)
    assert find(state)[0] == "/home/dev/data/new"
    assert len(find(state)) == 6
    shutil.rmtree(log_directory(str(state), "two"))
    index(state)
    assert len(find(state)) == 4
    history = History(str(state))
    assert {target.target: target.sessions for target in history.targets(Query())}["/home/dev/data/a.txt"] == 1
    history.close()


def test_nothing_to_do_is_done_at_once(state: Path) -> None:
    indexer = Indexer(str(state), home=HOME)
    assert [progress.finished for progress in indexer.work()] == [True, True]


def test_an_index_that_is_damaged_or_of_another_version_is_made_again(state: Path) -> None:
    path = Path(index_path(str(state)))
    before = find(state)
    path.write_bytes(b"not a database at all, but long enough to be read as one" * 100)
    with pytest.raises(HistoryError):
        find(state)
    index(state)
    assert find(state) == before
    database = sqlite3.connect(path)
    database.execute("PRAGMA user_version = 99")
    database.close()
    index(state)
    assert find(state) == before


def test_the_index_is_nobody_elses_to_read(state: Path) -> None:
    path = Path(index_path(str(state)))
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700
    assert all(stat.S_IMODE(other.stat().st_mode) == 0o600 for other in path.parent.iterdir())


def test_readers_see_whole_logs_while_the_index_is_made(tmp_path: Path) -> None:
    for number in range(5):
        make(tmp_path, f"s{number}", [f"/home/dev/data/{n}" for n in range(10)], START + number * HOUR)
    work = Indexer(str(tmp_path), home=HOME).work()
    next(work)
    history = History(str(tmp_path))
    assert len(history.search(Query(), limit=1000).rows) % 10 == 0
    for _ in work:
        assert len(history.search(Query(), limit=1000).rows) % 10 == 0
    assert len(history.search(Query(), limit=1000).rows) == 50
    history.close()


def test_hostile_logs_are_indexed_without_a_word(tmp_path: Path) -> None:
    nasty = "/home/dev/data/\x1b]52;c;x\x07\u202e\0'\"%_‹0›"
    log = make(tmp_path, "evil", [nasty])
    call(log, 7, *refused("/home/dev/data/late"), 10**30)
    folder = Path(log_directory(str(tmp_path), "broken"))
    folder.mkdir()
    (folder / "events.ndjson").write_bytes(b"\xff\0{}\n" * 50 + b"[" * 100_000)
    os.mkfifo(Path(log_directory(str(tmp_path), "broken")).parent / "pipe")
    index(tmp_path)
    assert "/home/dev/data/late" in find(tmp_path)
    history = History(str(tmp_path))
    assert {s.session_id: bool(s.damaged) for s in history.sessions()} == {"evil": False, "broken": True}
    history.close()


def test_a_search_gives_up_at_its_budget(state: Path) -> None:
    history = History(str(state))
    history.search(Query())
    before = time.perf_counter()
    page = history.search(Query(words=("q",)), budget=0.0)
    assert time.perf_counter() - before < 1
    assert page.rows == ()
    history.close()


def test_what_few_rows_have_is_found_without_looking_at_all_the_others(tmp_path: Path) -> None:
    """Counted in steps of SQLite's machine and not in time: a look at each of the 500 rows takes ten thousand."""
    for number in range(5):
        make(tmp_path, f"s{number}", [f"/home/dev/out/{number}/{at:03}" for at in range(100)], START + number * HOUR)
    make(tmp_path, "rare", ["/home/dev/needle"])
    index(tmp_path)
    database = connect(index_path(str(tmp_path)), read_only=True)
    steps = [0]

    def count() -> int:
        steps[0] += 100
        return 0

    database.set_progress_handler(count, 100)

    def found(text: str) -> int:
        steps[0] = 0
        return len(database.execute(*statement(parse(text, START), None, None)).fetchall())

    for text in ("needle", "path:needle", "source:kernel needle", "op:write needle state:open tool:Bash"):
        assert found(text) == 1 and steps[0] <= 2500, (text, steps)
    for text in ("tool:Ba", "op:read", "state:proved", "source:model", "needle source:other"):
        assert found(text) == 0 and steps[0] <= 2500, (text, steps)
    assert found("ou") == 501 and steps[0] > 5000  # "touch" as well
    database.close()


def test_targets_are_ranked_and_those_that_few_rows_have_are_found_all_the_same(tmp_path: Path) -> None:
    for number in range(5):
        make(tmp_path, f"s{number}", [f"/home/dev/out/{number}/{at:03}" for at in range(100)], START + number * HOUR)
    make(tmp_path, "rare", ["/home/dev/needle"], START + HOUR * 9)
    make(tmp_path, "again", ["/home/dev/out/4/007"], START + HOUR * 10)
    index(tmp_path)
    history = History(str(tmp_path))
    assert [seen.target for seen in history.targets(parse("needle", 0), budget=5.0)] == ["/home/dev/needle"]
    first, *rest = history.targets(parse("out", 0), limit=1000, budget=5.0)
    assert (first.target, first.sessions, len(rest)) == ("/home/dev/out/4/007", 2, 499) and history.complete
    history.targets(parse("out", 0), limit=1000, budget=0.0)
    assert not history.complete
    history.close()
