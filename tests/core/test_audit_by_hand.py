"""`nd7 record` outside a session: forty at once, and bad input that is said and never fails the caller."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from nd7core.audit import by_hand
from nd7core.audit.log import AuditError, log_directory
from nd7core.audit.verify import verify
from nd7core.hooks import HookError

ROOT = Path(__file__).parent.parent.parent
CALL = {"tool_use_id": "t", "tool_name": "Bash", "tool_input": {"command": "x"}}


def payload(**more: object) -> bytes:
    return json.dumps({"session_id": "s1", "hook_event_name": "UserPromptSubmit", "prompt": "p"} | more).encode()


def test_any_number_of_payloads_and_none_of_the_supervisors_keys(tmp_path: Path) -> None:
    for number in range(3):
        by_hand.record(str(tmp_path), payload(prompt=str(number)), number, hook_ppid=5)
    directory = log_directory(str(tmp_path), "s1")
    assert verify(directory).frames == 3
    body = json.loads(Path(directory, "events.ndjson").read_bytes().splitlines()[2])["body"]
    assert body == {"hook_event_name": "UserPromptSubmit", "hook_ppid": 5, "text": "2"}


@pytest.mark.parametrize("bad", [b"", b"[]", b"{", b'{"session_id":"../x","hook_event_name":"Stop"}'])
def test_bad_input_writes_nothing(tmp_path: Path, bad: bytes) -> None:
    with pytest.raises((HookError, AuditError)):
        by_hand.record(str(tmp_path), bad, 1)
    assert list(tmp_path.iterdir()) == []


def test_a_payload_that_is_too_large_leaves_a_gap_in_its_sessions_log(tmp_path: Path) -> None:
    by_hand.record(str(tmp_path), payload(), 1)
    with pytest.raises(HookError, match="more than"):
        by_hand.record(str(tmp_path), payload(prompt="x" * 24_000_000), 2)
    with pytest.raises(HookError, match="more than"):
        by_hand.record(str(tmp_path), payload(session_id="unknown", prompt="x" * 24_000_000), 2)
    directory = log_directory(str(tmp_path), "s1")
    assert verify(directory).frames == 2
    gap = json.loads(Path(directory, "events.ndjson").read_bytes().splitlines()[1])
    assert (gap["kind"], gap["body"]["hook_event_name"], gap["body"]["reason"]) == (
        "gap",
        "UserPromptSubmit",
        "payload",
    )
    assert os.listdir(tmp_path / "sessions") == ["s1"]


def start(state_home: Path) -> subprocess.Popen[bytes]:
    environ = os.environ | {"XDG_STATE_HOME": str(state_home)}
    command = [sys.executable, "-m", "nd7tui.cli", "record"]
    return subprocess.Popen(
        command, cwd=ROOT, env=environ, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )


def test_forty_hooks_at_once_through_the_command(tmp_path: Path) -> None:
    running = [start(tmp_path) for _ in range(40)]
    for number, process in enumerate(running):
        assert process.stdin is not None
        process.stdin.write(payload(prompt=str(number)))
        process.stdin.close()
    for process in running:
        assert process.wait(60) == 0
        assert process.stderr is not None and process.stdout is not None
        assert process.stderr.read() == b""
        process.stderr.close()
        process.stdout.close()
    directory = log_directory(str(tmp_path / "nd7"), "s1")
    assert verify(directory).ok
    told = [json.loads(line)["body"]["text"] for line in Path(directory, "events.ndjson").read_bytes().splitlines()]
    assert sorted(map(int, told)) == list(range(40))


def test_an_error_is_a_line_on_stderr_and_exit_0(tmp_path: Path) -> None:
    process = start(tmp_path)
    out, err = process.communicate(b"not JSON")
    assert process.returncode == 0
    assert out == b""
    assert err.startswith(b"nd7 record: a hook payload that is no JSON")
    assert b"Traceback" not in err


def test_what_had_to_be_replaced_is_said_and_the_rest_recorded(tmp_path: Path) -> None:
    out, err = start(tmp_path).communicate(
        rb'{"session_id":"s1","hook_event_name":"UserPromptSubmit","prompt":"a\ud800"}'
    )
    assert (out, err) == (b"", b"nd7 record: 1 half surrogate pair became U+FFFD\n")
    assert verify(log_directory(str(tmp_path / "nd7"), "s1")).frames == 1
