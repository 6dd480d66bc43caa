"""`nd7 export`: JSON, CSV and Markdown of the same denials, masked and harmless."""

from __future__ import annotations

import csv
import io
import json
import os
from pathlib import Path

import pytest

from nd7core import paths, process
from nd7core.audit.log import Log, log_directory
from nd7core.paths import places_of
from nd7tui.cli import main
from nd7tui.commands import export as module
from nd7tui.commands.export import code

SECRET = "ghp_" + "a1B2c3D4e5F6g7H8i9J0" * 2


@pytest.fixture
def state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    where = places_of(str(tmp_path / "home"), state_home=str(tmp_path))
    monkeypatch.setattr(module, "places", lambda: where)
    state = tmp_path / "nd7"
    for name, path in (("5b1d-a", "/srv/x y"), ("77aa-b", "/srv/`=1|<b>")):
        log = Log(log_directory(str(state), name))
        command = f"=TOKEN={SECRET} touch '{path}' \x1b[2J"
        call = {"tool_use_id": "t", "tool_name": "Bash", "tool_input": {"command": command}}
        output = f"Exit code 1\ntouch: cannot touch '{path}': Permission denied"
        log.append("tool_call", {"cwd": "/home/dev/app", **call}, source="s")
        log.append("tool_result", {"cwd": "/home/dev/app", **call, "tool_response": output, "ok": False}, source="s")
    return state


def run(capsys: pytest.CaptureFixture[str], *words: str) -> tuple[int, str, str]:
    code = main(["export", *words])
    told = capsys.readouterr()
    return code, told.out, told.err


def test_json(state: Path, capsys: pytest.CaptureFixture[str]) -> None:
    status, out, _ = run(capsys)
    assert status == 0
    found = json.loads(out)
    assert {row["session"] for row in found} == {"5b1d-a", "77aa-b"}
    assert {row["source"] for row in found} == {"kernel"}
    assert out.isascii()


def test_csv_has_no_formulas_and_the_same_rows(state: Path, capsys: pytest.CaptureFixture[str]) -> None:
    _, out, _ = run(capsys, "--format", "csv")
    header, *rows = csv.reader(io.StringIO(out, newline=""))
    assert len(rows) == 2
    assert header[:2] == ["time", "session"]
    assert all(row[header.index("command")].startswith("'=") for row in rows)


def test_markdown(state: Path, capsys: pytest.CaptureFixture[str]) -> None:
    _, out, _ = run(capsys, "--format", "md", "--session", "77")
    assert out.count("\n## ") == 1
    assert "kernel refused write" in out
    assert "77aa-b" in out


@pytest.mark.parametrize("form", ["json", "csv", "md"])
def test_no_secret_and_no_escape_gets_out(state: Path, capsys: pytest.CaptureFixture[str], form: str) -> None:
    _, out, _ = run(capsys, "--format", form)
    assert SECRET not in out
    assert "\x1b" not in out


@pytest.mark.parametrize("form", ["json", "csv", "md"])
def test_a_flag_leaves_the_secrets_but_no_escape(state: Path, capsys: pytest.CaptureFixture[str], form: str) -> None:
    _, out, _ = run(capsys, "--format", form, "--show-secrets")
    assert SECRET in out
    assert "\x1b" not in out


@pytest.mark.parametrize(("query", "count"), [("source:model", 0), ("x", 1), ("session:77", 1), ("project:app", 2)])
def test_queries(state: Path, capsys: pytest.CaptureFixture[str], query: str, count: int) -> None:
    assert len(json.loads(run(capsys, query)[1])) == count


@pytest.mark.parametrize("words", ["nosuch", "md"])
def test_nothing_that_matches_is_said(state: Path, capsys: pytest.CaptureFixture[str], words: str) -> None:
    status, out, err = run(capsys, words)
    assert (status, json.loads(out)) == (0, [])
    assert f"nothing matches {words}" in err
    assert ("--format md" in err) == (words == "md")


@pytest.mark.parametrize(("word", "near"), [("sourc:kernel", "source:"), ("zzz:kernel", "there are source: state:")])
def test_a_key_that_is_none_is_an_error(state: Path, capsys: pytest.CaptureFixture[str], word: str, near: str) -> None:
    status, out, err = run(capsys, word)
    assert (status, out) == (2, "")
    assert near in err
    for fine in ("localhost:3000", "https://example.com/x", '"zzz:kernel"'):
        assert run(capsys, fine)[0] == 0


def test_the_beginning_of_an_id_names_a_session_everywhere(
    state: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    where = places_of(str(state.parent / "home"), state_home=str(state.parent))
    monkeypatch.setattr(paths, "places", lambda: where)
    assert main(["denials", "--session", "77", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["session"] == "77aa-b"
    Log(log_directory(str(state), "77ab-c")).append("note", {}, source="s")
    assert main(["denials", "--session", "77a"]) == 1
    assert "2 sessions begin with '77a'" in capsys.readouterr().err
    main(["sessions"])
    shown = capsys.readouterr().out
    assert "77aa-b" in shown and "5b1d-a" in shown


@pytest.mark.parametrize("words", [["sessions"], ["sessions", "--json"]])
def test_inside_a_session_none_is_told_to_have_ended(
    state: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], words: list[str]
) -> None:
    """Inside, `~/.nd7` is an empty folder: the very session that asks would be told to be over."""
    where = places_of(str(state.parent / "home"), state_home=str(state.parent))
    os.makedirs(where.nd7)
    monkeypatch.setattr(paths, "places", lambda: where)
    assert main(words) == 0
    assert "ended" in capsys.readouterr().out
    monkeypatch.setattr(process, "looks_confined", lambda: True)
    assert main(words) == 0
    told = capsys.readouterr()
    assert "ended" not in told.out and "unknown" in told.out
    assert "cannot be told from inside a session" in told.err


def test_a_query_that_cannot_be_meant(state: Path, capsys: pytest.CaptureFixture[str]) -> None:
    status, _, err = run(capsys, "source:moon")
    assert status == 2
    assert "no source 'moon'" in err


def test_a_damaged_log_is_exported_as_far_as_it_goes(state: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = Path(log_directory(str(state), "5b1d-a"), "events.ndjson")
    path.write_bytes(path.read_bytes() + b"rubbish\n")
    status, out, err = run(capsys)
    assert status == 1
    assert len(json.loads(out)) == 2
    assert "5b1d-a: 1 damaged" in err


def test_nothing_recorded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    where = places_of(os.fspath(tmp_path / "home"), state_home=os.fspath(tmp_path / "none"))
    monkeypatch.setattr(module, "places", lambda: where)
    assert json.loads(run(capsys)[1]) == []
    assert "None." in run(capsys, "--format", "md")[1]


def test_a_code_span_cannot_be_left() -> None:
    assert code("a") == "`a`"
    assert code("a`b``c") == "``` a`b``c ```"
    assert "\n" not in code("a\nb")


CUT = [(words, "cut") for words in ("denials", "denials --json", "export")]
CHANGED = [(words, "changed") for words in ("denials", "denials --json", "sessions", "sessions --json", "export")]


@pytest.mark.parametrize(
    ("words", "harm"), [*CHANGED, ("denials", "cut"), ("denials --json", "cut"), ("export", "cut")]
)
def test_a_damaged_log_is_never_none(
    state: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], words: str, harm: str
) -> None:
    """That there was no refusal is a promise: a log that was changed, or cut at its end, must not come out as none."""
    where = places_of(str(state.parent / "home"), state_home=str(state.parent))
    monkeypatch.setattr(paths, "places", lambda: where)
    for name in ("5b1d-a", "77aa-b"):
        path = Path(log_directory(str(state), name), "events.ndjson")
        whole = path.read_bytes()
        changed = whole.replace(b"Permission denied", b"Permissive bliss!") if harm == "changed" else b""
        path.write_bytes(changed or whole[: whole.index(b"\n") + 1])
    status = main(words.split())
    told = capsys.readouterr()
    assert status == 1
    assert "no refusal" not in told.out
    for name in ("5b1d-a", "77aa-b"):
        assert name in told.err
        if words != "export":
            assert f"the log {name} is damaged" in told.err
            assert f"`nd7 verify {name}`" in told.err
            assert "frame 1" in told.err
