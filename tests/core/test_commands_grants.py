"""`nd7 allow`, `deny`, `grants` and `why` as a person calls them."""

from __future__ import annotations

import datetime
import json
import os
import re
import subprocess
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from nd7core import paths, process, sessions
from nd7core.paths import Places, places_of
from nd7core.policy import build, render
from nd7core.record import Record
from nd7tui import cli
from nd7tui.commands.allow import ending, until_when
from nd7tui.commands.grants import left

Call = Callable[..., tuple[int, str, str]]


@pytest.fixture
def places(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Places:
    root = Path(os.path.realpath(tmp_path))
    for name in ("ada/.ssh", "ada/work/app", "ada/.cache/pip", "ada/[bold]\x1b[31m"):
        (root / name).mkdir(parents=True)
    found = places_of(str(root / "ada"))
    monkeypatch.setattr(paths, "places", lambda: found)
    monkeypatch.chdir(root / "ada/work/app")
    return found


@pytest.fixture
def session(places: Places) -> Iterator[int]:
    child = subprocess.Popen(["sleep", "600"])
    start(places, child.pid, f"{places.home}/work/app")
    yield child.pid
    child.kill()
    child.wait()


def start(places: Places, pid: int, project: str) -> None:
    record = Record(
        project=project,
        home=places.home,
        state=places.state,
        pid=pid,
        owner_start=process.start_time(pid) or "",
        program=("claude",),
        agent="claude",
        agent_sessions=("0a1b2c3d-0000-4000-8000-0123456789ab",),
        name="app",
    )
    sessions.create(places, record, build(record))


@pytest.fixture
def nd7(capsys: pytest.CaptureFixture[str]) -> Call:
    def call(*words: str) -> tuple[int, str, str]:
        code = cli.main(list(words))
        out = capsys.readouterr()
        return code, out.out, out.err

    return call


def test_allow_says_what_changed_and_when(places: Places, session: int, nd7: Call) -> None:
    code, out, err = nd7("allow", "~/.cache/pip")
    assert (code, err) == (0, "")
    assert f"granted {places.home}/.cache/pip to session {session} (app), policy revision 1" in out
    again = "nd7 run claude --resume 0a1b2c3d-0000-4000-8000-0123456789ab"
    assert f"The next Bash command has it; Write, Edit and Read need a restart: {again}" in out
    assert f"nd7 deny --session {session} {places.home}/.cache/pip" in out
    code, out, _ = nd7("allow", f"{places.home}/.cache/pip/wheels")
    assert code == 0
    assert "writable already" in out
    code, out, _ = nd7("deny", "../../.cache/pip")
    assert code == 0
    assert "took" in out
    assert "without it" in out


def test_allow_refuses_with_the_reason(places: Places, session: int, nd7: Call) -> None:
    for words, code, text in [
        (("~/.ssh/config",), 1, "credentials"),
        (("~/.ssh/keys/new", "--force"), 1, "credentials"),  # whether or not there is a folder for it
        (("~/.nd7/x", "--force"), 1, "nd7's own"),
        (("~",), 1, "--force"),
        (("/",), 1, "--force"),
        (("nowhere/at/all",), 1, "folder does not exist"),
        (("",), 1, "empty"),
        (("x", "--for", "1y"), 2, "90s, 30m"),
        (("x", "--until", "yesterday"), 2, "no time"),
        (("x", "--session", "77777777"), 1, "no session"),
    ]:
        got, out, err = nd7("allow", *words)
        assert (got, out) == ((2 if "77777777" in words else code), ""), words
        assert text in err
        assert err.startswith("nd7: ")
        assert "Traceback" not in err


def test_a_program_that_is_no_agent_is_told_what_a_grant_does_for_it(places: Places, session: int, nd7: Call) -> None:
    """No adapter knows it, so its commands never pass nd7-exec: "the next Bash command" would be untrue."""
    sessions.update(places, session, lambda record: replace(record, program=("/bin/bash",), agent=""))
    pip = f"{places.home}/.cache/pip"
    code, out, _ = nd7("allow", "~/.cache/pip")
    assert code == 0
    keeps = "bash is no agent that nd7 knows: it keeps the rules it started with."
    assert f"{keeps} For its next start: nd7 allow --session {session} --project {pip}\n" in out
    code, out, _ = nd7("allow", "~/.cache/pip", "--project")
    assert code == 0
    assert "; the next start has it: nd7 run /bin/bash" in out


def test_why_names_no_folder_to_grant_for_credentials(places: Places, session: int, nd7: Call) -> None:
    code, out, _ = nd7("why", "~/.ssh/keys/new", "--write")
    assert code == 0
    assert "cannot be granted" in out and "holds credentials" in out
    assert "nearest folder" not in out


def test_several_sessions_are_listed(places: Places, session: int, nd7: Call) -> None:
    start(places, os.getpid(), "/srv/elsewhere")
    code, _, err = nd7("allow", "~/.cache/pip")
    assert code == 0, err  # this directory is the first one's project
    os.chdir(places.home)
    code, _, err = nd7("allow", "~/.cache/pip")
    assert code == 2
    assert "several sessions are running" in err
    assert str(session) in err
    assert "/srv/elsewhere" in err
    code, out, _ = nd7("allow", "~/.cache/pip", "--session", str(os.getpid()))
    assert code == 0
    assert f"session {os.getpid()}" in out


def test_the_hint_fits_the_command(places: Places, session: int, nd7: Call) -> None:
    start(places, os.getpid(), "/srv/elsewhere")  # of the same name
    for words, how in (
        (("attach", "app"), "say which with nd7 attach PID:"),
        (("why", "x", "--session", "app"), "--se"),
    ):
        code, _, err = nd7(*words)
        assert code == 2 and "several sessions are called app" in err and how in err
        assert ("--session" in err) == (words[0] == "why")


def test_without_a_session_it_says_so(places: Places, nd7: Call) -> None:
    for words in (("allow", "x"), ("deny", "x"), ("why", "x")):
        code, out, err = nd7(*words)
        assert (code, out) == (1, "")
        assert "no session is running" in err
        assert "start one in a project: nd7 run claude" in err
    assert nd7("grants") == (0, "nothing is granted\n", "")
    assert nd7("grants", "--json") == (0, "[]\n", "")


def test_from_inside_a_session_the_sentence_is_a_clear_one(
    places: Places, nd7: Call, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Inside, `~/.nd7` is an empty folder (masked) or cannot be opened (Landlock)."""
    monkeypatch.setattr(process, "looks_confined", lambda: True)
    assert "no session is running" in nd7("allow", "x")[2]  # another sandbox, on a machine without sessions
    os.mkdir(places.nd7)
    for words in (("allow", "x"), ("deny", "x"), ("grants",), ("why", "x"), ("allow", "x", "--session", "5")):
        code, out, err = nd7(*words)
        assert (code, out) == (1, "")
        assert "cannot be read from inside a confined session" in err


def test_names_from_a_session_reach_the_terminal_only_as_text(places: Places, session: int, nd7: Call) -> None:
    code, out, _ = nd7("allow", f"{places.home}/[bold]\x1b[31m")
    assert code == 0
    assert "\x1b" not in out
    assert "[bold]␛[31m" in out
    for words in (("grants",), ("why", f"{places.home}/[bold]\x1b[31m"), ("deny", f"{places.home}/[bold]\x1b[31m")):
        code, out, err = nd7(*words)
        assert code == 0, err
        assert "\x1b" not in out
    code, _, err = nd7("allow", "a\x1b]0;x\x07/\x9b")
    assert code == 1
    assert not set("\x1b\x07\x9b") & set(err)


def test_json_is_the_same_for_a_program(places: Places, session: int, nd7: Call) -> None:
    _, out, _ = nd7("allow", "~/.cache/pip", "--project", "--json")
    data = json.loads(out)
    assert data["session"] == session
    assert data["path"] == f"{places.home}/.cache/pip"
    assert data["changed"] is True
    assert data["command"].startswith("nd7 allow --session")
    assert "--project" in data["command"]
    _, out, _ = nd7("grants", "--json")
    (row,) = json.loads(out)
    assert (row["session"], row["path"], row["scope"], row["origin"], row["uses"], row["in_force"]) == (
        *(session, f"{places.home}/.cache/pip", "project", "command line", 0, True),
    )
    sessions.remove(places, session)
    _, out, _ = nd7("grants", "--json")
    assert [(row["session"], row["project"]) for row in json.loads(out)] == [(None, f"{places.home}/work/app")]
    code, out, _ = nd7("deny", "~/.cache/pip")
    assert code == 0
    assert "later sessions of" in out
    assert nd7("grants", "--json")[1] == "[]\n"
    assert nd7("deny", "~/.cache/pip")[0] == 1


def test_grants_tells_how_long_and_from_where_unused_first(places: Places, session: int, nd7: Call) -> None:
    nd7("allow", "~/.cache/pip", "--for", "2h")
    nd7("allow", "~/new", "--once")
    sessions.update(places, session, lambda r: replace(r, grants=(replace(r.grants[0], uses=3), *r.grants[1:])))
    code, out, _ = nd7("grants")
    assert code == 0
    first, second = out.splitlines()[1:]
    assert "one command" in first
    assert "/new" in first
    assert "2h more" in second
    assert " 3  " in second
    assert "(command line)" in second


def test_what_a_project_starts_with_is_taken_back_in_its_folder_whoever_runs(
    places: Places, session: int, nd7: Call
) -> None:
    pip = f"{places.home}/.cache/pip"
    for flag in ([], ["--project"]):
        sessions.remove(places, session)
        start(places, session, f"{places.home}/work/app")
        assert nd7("allow", pip, "--project")[0] == 0
        sessions.remove(places, session)
        start(places, session, "/srv/elsewhere")  # the only one that runs is another project's
        _, out, _ = nd7("grants")
        assert f"{pip}  for {places.home}/work/app" in out
        code, out, err = nd7("deny", pip, *flag)
        assert (code, err) == (0, "")
        assert f"later sessions of {places.home}/work/app start without {pip}" in out
        assert nd7("grants")[1] == "nothing is granted\n"
        code, out, err = nd7("deny", pip, *flag)
        assert (code, out) == (1, "") and ("is not granted" in err or "for its later sessions" in err)


def test_what_taking_back_means_for_a_program_and_what_it_leaves(places: Places, session: int, nd7: Call) -> None:
    sessions.update(places, session, lambda record: replace(record, program=("/bin/bash",), agent=""))
    assert nd7("allow", "~/.cache/new")[0] == 0
    _, out, _ = nd7("deny", "~/.cache/new")
    assert "next Bash command" not in out and "it keeps the rules it started with, and this was not among them" in out
    assert f"The empty directory that was made for it is still there: rmdir {places.home}/.cache/new" in out
    os.utime(f"{places.home}/.cache/pip", (1, 1))
    nd7("allow", "~/.cache/pip")
    sessions.update(places, session, lambda r: replace(r, grants=(replace(r.grants[0], floor=True),)))
    _, out, _ = nd7("deny", "~/.cache/pip")
    assert "this among them, until it ends" in out and "still there" not in out and "own tools" not in out


def test_an_end_is_told_when_it_is_given(places: Places, session: int, nd7: Call) -> None:
    _, out, _ = nd7("allow", "~/.cache/pip", "--for", "2h")
    assert re.search(r"It ends (today|tomorrow), \d{4}-\d\d-\d\d \d\d:\d\d:\d\d \S+: in 2h\.", out), out
    now = int(datetime.datetime(2026, 11, 29, 17, 24).timestamp()) * 10**9
    end = ending(None, "16:00", now)
    assert end is not None
    told = until_when(end, now)
    assert told.startswith("It ends tomorrow, 2026-11-30 16:00:00") and told.endswith("in 22h 36m.")
    assert "beyond" in until_when(2**80, now)


@pytest.mark.parametrize(("word", "meant"), [("github.com", "github.com:443"), ("443", "HOST:443"), ("x", "")])
def test_why_of_a_host_without_its_port(places: Places, session: int, nd7: Call, word: str, meant: str) -> None:
    code, _, err = nd7("why", word)
    assert (code, err) == (0, f"nd7: if you mean an address: nd7 why {meant}\n" if meant else "")


def answers(out: str) -> dict[str, dict[str, Any]]:
    return {answer["operation"]: answer for answer in json.loads(out)["answers"]}


def test_why_names_the_line_that_refuses(places: Places, session: int, nd7: Call) -> None:
    code, out, _ = nd7("why", "~/.ssh/id_ed25519", "--json")
    assert code == 0
    lines = (Path(sessions.path_of(places, session)) / "policy.sb").read_text().splitlines()
    for answer in answers(out).values():
        assert answer["policy"]["allowed"] is False
        assert answer["policy"]["text"] == lines[answer["policy"]["line"] - 1]
        assert ".ssh" in answer["policy"]["text"]
        assert answer["grant"] is None
        assert "cannot be granted" in answer["advice"]
    code, out, _ = nd7("why", "~/.ssh/id_ed25519", "--read")
    assert "line " in out
    assert "file-read-data" not in out  # the members are left out for the person


def test_why_says_whether_a_grant_would_help(places: Places, session: int, nd7: Call) -> None:
    _, out, _ = nd7("why", "~/.cache/pip/x", "--write", "--json")
    answer = answers(out)["write"]
    assert answer["policy"] == {"allowed": False, "line": 4, "text": "(deny default)"}
    assert answer["permissions"]["allowed"] is True
    assert answer["grant"] == f"{places.home}/.cache/pip/x"
    nd7("allow", "~/.cache/pip")
    _, out, _ = nd7("why", "~/.cache/pip/x", "--write", "--json")
    answer = answers(out)["write"]
    assert (answer["policy"]["allowed"], answer["floor"]["allowed"]) == (True, False)
    assert "by a restart" in answer["advice"]
    _, out, _ = nd7("why", "x", "--json")
    assert all(answer["policy"]["allowed"] for answer in answers(out).values())
    assert "nothing of nd7's" in answers(out)["read"]["advice"]
    _, out, _ = nd7("why", "~", "--write")
    assert "--force" in out


@pytest.mark.parametrize(
    ("words", "allowed", "subject"),
    [
        ("example.com:443", True, "example.com:443"),
        ("localhost:3000", False, "localhost:3000"),
        ("[::1]:5432", False, "[::1]:5432"),
        ("udp://9.9.9.9:53", True, "9.9.9.9:53"),
        ("https://example.com/x?y", True, "example.com:443"),
        ("http://u:p@example.com:8080/", False, "example.com:8080"),
        ("postgres://localhost/db", False, "localhost:5432"),
    ],
)
def test_why_of_an_address(places: Places, session: int, nd7: Call, words: str, allowed: bool, subject: str) -> None:
    code, out, _ = nd7("why", words, "--json")
    assert code == 0
    answer = answers(out)["connect"]
    assert (answer["subject"], answer["policy"]["allowed"]) == (subject, allowed)
    assert answer["policy"]["line"]
    assert ("cannot be granted" in answer["advice"]) is not allowed


def test_why_complains_about_what_it_cannot_answer(places: Places, session: int, nd7: Call) -> None:
    for words, text in [(("x.com:99999",), "no port"), (("x.com:1", "--read"), "neither read"), (("",), "empty")]:
        code, out, err = nd7("why", *words)
        assert (out, code) == ("", 1 if words == ("",) else 2)
        assert text in err
    policy = Path(sessions.path_of(places, session)) / "policy.sb"
    for content, text in [(b"(version 1", "line 1"), (b"\xff", "policy.sb")]:
        policy.write_bytes(content)
        code, _, err = nd7("why", "x")
        assert code == 1
        assert text in err
    policy.unlink()
    assert "session has no policy.sb" in nd7("why", "x")[2]


def test_what_stands_in_the_file_is_what_is_told(places: Places, session: int, nd7: Call) -> None:
    policy = Path(sessions.path_of(places, session)) / "policy.sb"
    record = sessions.load(places, session).record
    assert record is not None
    policy.write_bytes(render(build(record)) + b'(allow file-write* (subpath "/opt/by-hand"))\n')
    _, out, _ = nd7("why", "/opt/by-hand/x", "--write", "--json")
    assert answers(out)["write"]["policy"]["allowed"]


def test_when_a_grant_ends() -> None:
    now = 1_800_000_000 * 10**9
    assert ending(None, None, now) is None
    assert ending("90s", None, now) == now + 90 * 10**9
    assert ending("1d", None, now) == now + 86400 * 10**9
    assert ending(None, "2027-01-15T08:00:01Z", now) == now + 10**9
    clock = ending(None, "00:00", now)
    assert clock is not None
    assert now < clock <= now + 86400 * 10**9


def test_what_is_left_is_not_cut_short() -> None:
    second = 10**9
    assert [left(n * second) for n in (0, 1, 59, 60, 61, 7199, 7200, 86400 + 1)] == [
        *("0s", "1s", "59s", "1m", "2m", "2h", "2h", "1d 1m")
    ]
    assert left(8 * 3600 * second - 61 * second) == "7h 59m"
    assert left(-5) == "0s"
