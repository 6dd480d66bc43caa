"""What must hold of the engine for any text at all."""

from __future__ import annotations

import random
import time
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scoring import load

from nd7core.attribution import Failure, explain, explain_words, of_context
from nd7core.attribution.context import from_object
from nd7core.attribution.engine import bounded
from nd7core.attribution.gate import Gate
from nd7core.attribution.paths import proposal, quoted, resolve, unquote_shell
from nd7core.attribution.shell import read

ANY = st.text(st.characters(codec=None), max_size=400)  # halves of surrogates too
PIECES = st.sampled_from(
    [
        "Permission denied",
        "Operation not permitted",
        "EACCES: permission denied, open '",
        "touch: cannot touch '",
        "/home/ada/x",
        "~/.ssh/id",
        "connect EACCES 127.0.0.1:80",
        "[Errno 13] ",
        "'",
        '"',
        "'\\''",
        "$'\\303'",
        ": ",
        "\n",
        " -> ",
        "(",
        ")",
        "@ rb_sysopen - ",
        "npm error path ",
        "nd7-exec: ",
        "\udc80",
        "\ud800",
        "\0",
        "İ",
        "sandbox blocked ",
        "port 22 to github.com",
        "``",
        "$(",
        "<<E\n",
    ]
)
HOSTILE = st.lists(st.one_of(PIECES, st.text(st.characters(codec=None), max_size=12)), max_size=30).map("".join)
TOOLS = st.sampled_from(["Bash", "Write", "Edit", "Read", "assistant", "WebFetch", "Task", "", "mcp__x"])
BASE = Failure(project="/home/ada/p", home="/home/ada", exit_code=1)


@settings(max_examples=400, deadline=None)
@given(HOSTILE, HOSTILE, TOOLS, st.sampled_from(["linux", "darwin"]), st.sampled_from([None, 0, 1, 126]))
def test_no_text_makes_it_raise(output: str, command: str, tool: str, platform: str, code: int | None) -> None:
    failure = Failure(
        "darwin" if platform == "darwin" else "linux", tool, command, code, output, "", "/home/ada/p", "/home/ada"
    )
    verdict = explain(failure)
    assert verdict.source in ("kernel", "nd7-exec", "model", "none")
    explain_words(failure)


@settings(max_examples=200, deadline=None)
@given(st.binary(max_size=400))
def test_no_bytes_make_it_raise(data: bytes) -> None:
    for text in (data.decode("utf-8", "surrogateescape"), data.decode("latin-1")):
        explain(replace(BASE, output=text, command=text))
        quoted(text)
        unquote_shell(text)
        read(text, "/p", "/h")


@settings(max_examples=200, deadline=None)
@given(HOSTILE)
def test_never_matched_where_the_policy_allows(output: str) -> None:
    verdict = explain(replace(BASE, output=output))
    if verdict.source == "kernel" and verdict.evidence == "matched" and verdict.operation in ("read", "write"):
        rules = of_context("linux", "/home/ada/p", "/home/ada", (), None, ())
        path = resolve(verdict.target, "/home/ada/p", "/home/ada", "linux")
        assert rules.refuses(verdict.operation, path)


@settings(max_examples=100, deadline=None)
@given(st.text(max_size=40), st.sampled_from(["/home/ada/out/x", "/srv/x y", "/home/ada/.cache/tool/ab/cd"]))
def test_a_proposal_is_never_the_home_or_a_root(name: str, folder: str) -> None:
    path = f"{folder}/{name.replace('/', '') or 'a'}"
    given = proposal(path, "/home/ada")
    assert given not in ("/", "/home", "/home/ada", "/srv", "")


KNOWN = [case for name in ("denials.jsonl", "real_runs.jsonl") for case in load(name) if case["tool"] == "Bash"]
UNRELATED = [
    "Compiling thing v0.1.0",
    "   Checking dependencies... done",
    "added 12 packages in 3s",
    "warning: unused variable: `x`",
    "[2/9] Building C object",
    "total 48",
    "Everything up-to-date",
    "==> Installing",
    "Downloading https://example.org/a.tar.gz (12 kB)",
    "remote: Counting objects: 100% (12/12), done.",
    "remote: Total 12 (delta 3), reused 9 (delta 1), pack-reused 0",
]


@pytest.mark.parametrize("where", ["before", "behind", "both"])
def test_unrelated_lines_change_no_verdict(where: str) -> None:
    """Lines around a message, as a build prints them; not between lines that belong together."""
    shuffled = random.Random(5)
    for case in KNOWN:
        failure = from_object(case)
        plain = explain(failure)
        if plain.source == "nd7-exec" or not failure.output:
            continue  # here that nothing else is printed is the evidence
        some = shuffled.sample(UNRELATED, 4)
        before = "\n".join(some) + "\n\n\n\n\n\n\n" if where != "behind" else ""
        behind = "\n\n\n" + "\n".join(reversed(some)) if where != "before" else ""
        more = explain(replace(failure, output=before + failure.output + behind))
        assert (more.source, more.target, more.remedy, more.operation) == (
            plain.source,
            plain.target,
            plain.remedy,
            plain.operation,
        ), case["id"]


def test_every_gate_covers_its_pattern() -> None:
    """A gate's words stand in whatever its pattern finds."""
    from nd7core.attribution import content, nearby, network, others, sentences

    gates = [
        (module.__name__, name, gate)
        for module in (content, nearby, network, others, sentences)
        for name, gate in vars(module).items()
        if isinstance(gate, Gate)
    ]
    assert gates
    for case in load("denials.jsonl") + load("real_runs.jsonl"):
        for line in case["output"].split("\n"):
            for module, name, gate in gates:
                assert bool(gate.pattern.search(line)) == bool(gate.search(line)), (module, name, line)


def test_the_words_that_are_looked_for_first_are_in_every_sentence() -> None:
    """A line that one of the patterns finds is never passed over for want of a word."""
    from nd7core.attribution import sentences

    found = 0
    for name in (
        "denials.jsonl",
        "real_runs.jsonl",
        "real_tools.jsonl",
        "written.jsonl",
        "blind.jsonl",
        "blind_second.jsonl",
        "blind_third.jsonl",
    ):
        for case in load(name):
            for line in case["output"].split("\n"):
                if len(line) < 2000 and any(form.search(line) for form in sentences.FORMS):
                    found += 1
                    assert sentences.candidates([line]) == [0], line
    assert found > 1000


TEN_MB = 10_000_000
LONG = {
    "one line": "x" * TEN_MB,
    "quotes": "'" * TEN_MB,
    "slashes": "/" * TEN_MB,
    "colons": ": " * (TEN_MB // 2),
    "words": "permission denied " * (TEN_MB // 18),
    "denials": "touch: cannot touch '/srv/x': Permission denied\n" * (TEN_MB // 47),
    "paths": "/a/b c: " * (TEN_MB // 8),
    "digits": "1" * TEN_MB,
    "newlines": "\n" * TEN_MB,
    "failed": "failed to open " * (TEN_MB // 15),
    "brackets": "([{<" * (TEN_MB // 4),
    "shell quoting": "'a'\\''" * (TEN_MB // 6),
    "addresses": "connect 1.2.3.4:5 " * (TEN_MB // 18),
    "sentences": "The sandbox blocked it. " * (TEN_MB // 24),
    "unicode": "„“«»「」" * (TEN_MB // 6),
}


@pytest.mark.parametrize("name", LONG)
@pytest.mark.parametrize("tool", ["Bash", "assistant", "Write"])
def test_ten_megabytes_take_no_second(name: str, tool: str) -> None:
    failure = replace(BASE, tool=tool, output=LONG[name], command=LONG[name] if tool == "Bash" else "")
    explain(replace(failure, output="warm up: Permission denied", command=""))
    started = time.process_time()
    explain(failure)
    assert time.process_time() - started < 1.0


@pytest.mark.parametrize(
    "part", ["cd x && ", "(cd x;", "cd x; touch x; ", "bash -c '", "$(", "> x ", "cat x; ", "isort a/b/c d/e/f; "]
)
def test_no_command_makes_a_few_lines_take_a_second(part: str) -> None:
    """Each relative path is held against the folders that the command went through, however deep it went."""
    lines = "".join(f"touch: cannot touch 'x{number}': Permission denied\n" for number in range(20))
    lines += "".join(f"error reading ../y{number}: Permission denied\n" for number in range(20))
    failure = replace(BASE, output=lines, command=part * (TEN_MB // len(part)))
    explain(replace(failure, command=""))
    started = time.process_time()
    explain(failure)
    assert time.process_time() - started < 1.0


def test_what_matters_at_either_end_of_a_long_output_is_read() -> None:
    line = "touch: cannot touch '/srv/data/x': Permission denied"
    filling = "compiling...\n" * 400_000
    for text in (line + "\n" + filling, filling + line):
        assert explain(replace(BASE, output=text, command="make")).target == "/srv/data/x"
    assert len(bounded(filling)) < 250_000
