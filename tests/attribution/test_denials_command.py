"""`nd7 denials`: every log under the state directory, damaged ones too."""

from __future__ import annotations

import argparse
import json
import os
from pathlib import Path
from typing import Any

import pytest

from nd7core.audit.log import Log, log_directory
from nd7core.errors import Nd7Error
from nd7core.paths import Places
from nd7tui.commands import denials as command

HOME = "/home/ada"  # of the sessions on record; the state directory is a temporary one
PROJECT = f"{HOME}/kiln"


def write(state: Path, session: str, *frames: tuple[str, dict[str, Any]]) -> Path:
    directory = log_directory(str(state), session)
    log = Log(directory)
    for kind, body in frames:
        log.append(kind, body, source="intent:claude-code")
    return Path(directory)


def call(identifier: str, text: str, output: str, code: int = 1) -> tuple[tuple[str, dict[str, Any]], ...]:
    common = {"cwd": PROJECT, "transcript_path": "", "hook_event_name": "PreToolUse"}
    told = {"tool_use_id": identifier, "tool_name": "Bash", "tool_input": {"command": text}}
    end = {**common, "hook_event_name": "PostToolUseFailure"}
    return (
        ("tool_call", {**common, **told}),
        ("tool_result", {**end, **told, "tool_response": f"Exit code {code}\n{output}", "ok": False}),
    )


@pytest.fixture
def where(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Places:
    home = tmp_path / "home"
    (home / ".nd7" / "sessions").mkdir(parents=True, mode=0o700)
    (home / ".nd7").chmod(0o700)
    state = home / ".local" / "state" / "nd7"
    made = Places(HOME, str(home / ".nd7"), str(home / ".nd7" / "sessions"), str(state))
    monkeypatch.setattr("nd7core.paths.places", lambda environ=os.environ: made)
    return made


def run(
    capsys: pytest.CaptureFixture[str], *, session: str | None = None, status: int = 0, **flags: bool
) -> tuple[str, str]:
    flags = {"all": False, "json": True, "show_secrets": False, **flags}
    assert command.run(argparse.Namespace(session=session, **flags)) == status
    said = capsys.readouterr()
    return said.out, said.err


OUT = "/home/ada/notes/x"
REFUSED = f"touch: cannot touch '{OUT}': Permission denied"


def test_each_denial_of_every_session(where: Places, capsys: pytest.CaptureFixture[str]) -> None:
    state = Path(where.state)
    write(
        state, "one", *call("a", f"touch {OUT}", REFUSED), *call("b", f"touch {OUT}", REFUSED), *call("c", "false", "")
    )
    write(state, "two", *call("d", "cat ~/.ssh/id", "cat: /home/ada/.ssh/id: Permission denied"))
    out, _ = run(capsys)
    rows = [json.loads(text) for text in out.splitlines()]
    assert sorted((row["session"], row["target"], row["count"]) for row in rows) == [
        ("one", OUT, 2),
        ("two", "/home/ada/.ssh/id", 1),
    ]
    out, _ = run(capsys, session="two")
    assert [json.loads(text)["session"] for text in out.splitlines()] == ["two"]
    out, _ = run(capsys, session="one", all=True)
    assert len(out.splitlines()) == 2


def test_what_one_grant_would_let_through_together_is_told(where: Places, capsys: pytest.CaptureFixture[str]) -> None:
    folders = ("/home/ada/data/a", "/home/ada/data/b", "/home/ada/lone")
    frames = [
        frame
        for folder in folders
        for frame in call(folder, f"touch {folder}/x", f"touch: cannot touch '{folder}/x': Permission denied")
    ]
    write(Path(where.state), "one", *frames)
    rows = [json.loads(text) for text in run(capsys)[0].splitlines()]
    assert [row.get("proposal") for row in rows] == ["/home/ada/data", "/home/ada/data", None]
    said = run(capsys, json=False)[0].splitlines()
    assert len(said) == 4 and said[-1] == "one grant for 2 of them: nd7 allow /home/ada/data"


@pytest.mark.parametrize("folder", ["kiln", "//home/ada/kiln", "/a/../b", "", "/\udc80", "/", "/x\n", "~"])
def test_no_folder_in_a_log_ends_the_reading(where: Places, capsys: pytest.CaptureFixture[str], folder: str) -> None:
    """A session's hooks tell where it works: it could have hidden every session's denials by a path that is none."""
    frames = [(kind, {**body, "cwd": folder}) for kind, body in call("a", f"touch {OUT}", REFUSED)]
    write(Path(where.state), "odd", *frames, ("grant", {"path": "/x/../y", "action": "grant"}))
    write(Path(where.state), "one", *call("b", f"touch {OUT}", REFUSED))
    rows = [json.loads(text) for text in run(capsys, all=True)[0].splitlines()]
    assert [row["target"] for row in rows] == [OUT, OUT]


def test_damage_is_told_and_the_rest_is_read(where: Places, capsys: pytest.CaptureFixture[str]) -> None:
    directory = write(Path(where.state), "one", *call("a", f"touch {OUT}", REFUSED))
    log = directory / "events.ndjson"
    log.write_bytes(b"not a frame\n" + log.read_bytes() + b"\xff\xfe torn")
    out, err = run(capsys, status=1)
    assert json.loads(out)["target"] == OUT
    assert "damaged" in err


def test_for_a_person_and_with_nothing(where: Places, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(capsys, json=False)[0] == "no refusal is on record\n"
    write(Path(where.state), "one", *call("a", f"touch {OUT}\x1b[2J", REFUSED))
    out, _ = run(capsys, json=False)
    assert "kernel" in out and OUT in out and "\x1b" not in out


def test_an_unknown_session_is_an_error_and_a_link_is_not_followed(where: Places, tmp_path: Path) -> None:
    with pytest.raises(Nd7Error):
        command.run(argparse.Namespace(session="none", all=False, json=True, show_secrets=False))
    sessions = Path(where.state) / "sessions"
    sessions.mkdir(parents=True)
    (sessions / "link").symlink_to(tmp_path)
    assert list(command.chosen(where, None)) == []
