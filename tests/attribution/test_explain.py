"""`nd7 explain`: one failure on stdin, or one object a line; errors in place, the rest answered."""

from __future__ import annotations

import json
import os
import select
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from nd7tui.commands.explain import MAX_LINE

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


def test_it_names_the_session_that_it_supposes_and_says_so_where_nothing_was_read() -> None:
    code, said, _ = explain(*WHERE, "--exit", "1", stdin="touch: cannot touch '/home/ada/notes/x': Permission denied\n")
    assert code == 0 and f"under the rules of a session in {PROJECT}\n" in said
    code, said, wrong = explain(*WHERE, stdin="\n")
    assert (code, said) == (2, "") and "nothing was read from stdin" in wrong and "2>&1 | nd7 explain" in wrong
    assert explain(*WHERE, "--json", stdin="")[0] == 0


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


def test_an_answer_comes_before_the_next_line_is_asked_for() -> None:
    """A program that asks line by line would wait for ever for what stays in a buffer."""
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONUNBUFFERED"}
    with subprocess.Popen(
        [sys.executable, "-m", "nd7tui.cli", "explain", "--jsonl"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        cwd=ROOT,
        env=environment,
    ) as asked:
        assert asked.stdin is not None and asked.stdout is not None
        for number in range(3):
            asked.stdin.write(json.dumps(line(id=number)).encode() + b"\n")
            asked.stdin.flush()
            ready, _, _ = select.select([asked.stdout], [], [], 60)
            assert ready, "the answer waits for the end of the input"
            assert json.loads(asked.stdout.readline())["id"] == number
        asked.stdin.close()
        assert asked.wait() == 0


def test_a_project_or_grant_that_no_file_can_be_called_ends_nothing() -> None:
    """Once the policy refused such a path, and every line behind it stayed without an answer."""
    odd = [
        "p",
        "//p",
        "/a/../p",
        "~/p",
        "/",
        "/p\0",
        "/p\ud800",
        "\udc80",
        "C:\\p",
        "/p/./q",
        "/x\n(allow default)",
        ".",
    ]
    contexts = [
        *({"project": path} for path in odd),
        *({"project": PROJECT, "home": path} for path in odd),
        *({"project": PROJECT, "grants": [path]} for path in odd),
        *({"project": PROJECT, "temp": [path]} for path in odd),
        *({"project": PROJECT, "protected": [path]} for path in odd),
    ]
    code, said, _ = explain("--jsonl", stdin="\n".join(json.dumps(line(context=context)) for context in contexts))
    answers = [json.loads(text) for text in said.splitlines()]
    assert code == 0 and len(answers) == len(contexts)
    assert {answer["source"] for answer in answers} == {"kernel", "none"}


def test_a_path_that_is_written_another_way_is_the_same_path() -> None:
    for grant in ("/home/ada/x/../notes", "//home/ada/notes/", "~/notes"):
        context = {"project": PROJECT, "home": HOME, "grants": [grant]}
        code, said, _ = explain("--jsonl", stdin=json.dumps(line(context=context)))
        assert code == 0 and json.loads(said)["source"] == "none", grant


def test_of_a_system_that_is_not_known_nothing_is_said() -> None:
    names = ["linux", "Linux", "macos", "darwin", "plan9", "", "windows"]
    code, said, _ = explain("--jsonl", stdin="\n".join(json.dumps(line(platform=name)) for name in names))
    assert code == 1
    assert ["error" in json.loads(text) for text in said.splitlines()] == [False] * 4 + [True] * 3


def test_an_id_comes_back_as_it_was_and_every_answer_is_json() -> None:
    given = ["a", 7, 1.5, True, "\ud800"]
    text = "\n".join(json.dumps(line(id=one)) for one in [*given, float("nan"), None, [1]])
    code, said, _ = explain("--jsonl", stdin="\ufeff" + text)
    answers = [json.loads(row, parse_constant=pytest.fail) for row in said.splitlines()]
    assert code == 0 and [answer.get("id") for answer in answers] == [*given, None, None, None]


def test_a_line_that_is_too_long_is_an_error_and_the_rest_is_answered() -> None:
    long = line(output="x" * (MAX_LINE + 1))
    code, said, _ = explain("--jsonl", stdin="\n".join(map(json.dumps, (line(), long, line(id="behind")))))
    first, second, third = map(json.loads, said.splitlines())
    assert code == 1 and first["source"] == "kernel" and "longer than" in second["error"] and third["id"] == "behind"


def test_the_end_of_a_long_output_is_read_whatever_came_before() -> None:
    data = b"compiling thing\n" * (MAX_LINE // 16 + 100_000) + line()["output"].encode()
    code, said, _ = explain(*WHERE, "--json", "--exit", "2", stdin=data)
    assert code == 0 and json.loads(said)["target"] == "/home/ada/notes/x"


def test_nothing_in_nothing_out() -> None:
    assert explain("--jsonl", stdin="") == (0, "", "")
