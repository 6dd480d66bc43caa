"""`nd7 explain`: one failure on stdin, or one object a line; errors in place, the rest answered."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
HOME, PROJECT = "/home/ada", "/home/ada/kiln"


def explain(*words: str, stdin: str | bytes = "") -> tuple[int, str, str]:
    data = stdin.encode() if isinstance(stdin, str) else stdin
    done = subprocess.run(
        [sys.executable, "-m", "nd7tui.cli", "explain", *words], input=data, capture_output=True, cwd=ROOT, check=False
    )
    return done.returncode, done.stdout.decode(), done.stderr.decode()


def line(**changes: Any) -> dict[str, Any]:
    return {
        "platform": "linux",
        "tool": "Bash",
        "command": "touch /home/ada/x",
        "exit_code": 1,
        "output": "touch: cannot touch '/home/ada/notes/x': Permission denied",
        "context": {"project": PROJECT},
        **changes,
    }


WHERE = ("--project", PROJECT, "--home", HOME, "--platform", "linux")


def test_a_failure_on_stdin_is_told_to_a_person() -> None:
    code, said, _ = explain(*WHERE, "--exit", "1", stdin="touch: cannot touch '/home/ada/notes/x': Permission denied\n")
    assert code == 0
    assert "kernel: refused by the kernel" in said and "nd7 allow /home/ada/notes" in said


def test_hostile_text_reaches_the_screen_made_visible() -> None:
    code, said, _ = explain(*WHERE, stdin="touch: cannot touch '/home/ada/\x1b]52;c;x\x07': Permission denied\n")
    assert code == 0 and "\x1b" not in said and "\x07" not in said


def test_json_has_the_documented_fields() -> None:
    code, said, _ = explain(
        *WHERE, "--json", "--command", "make", "--exit", "2", stdin="make: /home/ada/o: Permission denied"
    )
    answer = json.loads(said)
    assert code == 0 and answer["source"] == "kernel" and answer["remedy"] == "grant"
    assert {"source", "evidence", "operation", "target", "targets", "remedy", "grant", "reason"} <= set(answer)


def test_a_grant_is_taken_into_account() -> None:
    code, said, _ = explain(*WHERE, "--json", "--grant", "/home/ada/notes", stdin=line()["output"])
    assert code == 0 and json.loads(said)["source"] == "none"


def test_lines_are_answered_in_order_with_errors_in_their_place() -> None:
    given = [
        json.dumps(line(id="a")),
        "[1]",
        "{",
        "",
        json.dumps({"id": 7, "tool": "Bash"}),
        json.dumps(line(exit_code="1")),
        json.dumps(line(output=None)),
        json.dumps(line(context={"project": PROJECT, "grants": "x"})),
        json.dumps(
            line(tool="assistant", command=None, exit_code=None, output="Writing to ~/x was refused by the sandbox.")
        ),
        json.dumps(line(output="\ud800\udc00\u0000'")),
        "[" * 100_000,
    ]
    code, said, _ = explain("--jsonl", stdin="\n".join(given) + "\n")
    answers = [json.loads(text) for text in said.splitlines()]
    assert code == 1 and len(answers) == len(given)
    assert [("error" in answer) for answer in answers] == [False, *[True] * 7, False, False, True]
    assert answers[0]["id"] == "a" and answers[4]["id"] == 7
    assert "no platform" in answers[4]["error"] or "no context" in answers[4]["error"]
    assert (answers[8]["source"], answers[8]["target"]) == ("model", "~/x")


def test_without_bad_lines_it_ends_well_and_bytes_that_are_no_utf8_do_no_harm() -> None:
    data = json.dumps(line()).encode().replace(b"notes", b"n\xff\xfetes") + b"\n"
    code, said, _ = explain("--jsonl", stdin=data)
    assert code == 0 and json.loads(said)["source"] == "kernel"


def test_nothing_in_nothing_out() -> None:
    assert explain("--jsonl", stdin="") == (0, "", "")
