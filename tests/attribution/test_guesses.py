"""What a refused path outside was wanted for, where the output leaves it open: written as their programs print it.

The rules let a session read nearly everything, so "reading" means that ordinary permissions refused it, and
"writing" that nd7 did.  Each look-alike is a reader of a file that its mode closes.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from scoring import Case, load

from nd7core.attribution import Failure, FileLook, Verdict, explain, explain_words

HOME, PROJECT = "/home/ada", "/home/ada/kiln"
NOBODY = 65534
MAC_HOME, MAC_PROJECT = "/Users/ada", "/Users/ada/kiln"


def verdict(command: str, output: str, status: int = 1) -> Verdict:
    return explain(Failure(tool="Bash", command=command, output=output, exit_code=status, project=PROJECT, home=HOME))


def on_a_mac(command: str, output: str) -> Verdict:
    return explain(
        Failure(
            platform="darwin",
            tool="Bash",
            command=command,
            output=output,
            exit_code=1,
            project=MAC_PROJECT,
            home=MAC_HOME,
        )
    )


def said(words: str) -> list[Verdict]:
    return explain_words(Failure(tool="assistant", output=words, project=PROJECT, home=HOME))


W = "/home/ada/work"


def _cases(*kinds: str) -> list[object]:
    return [pytest.param(row, id=row["name"]) for row in load("guesses.jsonl") if row["kind"] in kinds]


@pytest.mark.parametrize("case", _cases("written", "advice"))
def test_what_is_to_be_written(case: Case) -> None:
    """Rewriters, converters, packers, names beside the file that is meant, and the advice of installers."""
    found = verdict(case["command"], case["output"])
    assert (found.source, found.operation, found.remedy) == ("kernel", "write", "grant"), found
    assert case["target"] in (found.target, *found.targets), found


@pytest.mark.parametrize("case", _cases("read"))
def test_what_is_only_to_be_read(case: Case) -> None:
    found = verdict(case["command"], case["output"])
    assert found.source == "none", found


@pytest.mark.parametrize(
    "output",
    [
        "Error: Your user does not have write permissions in /usr/local/lib/luarocks/rocks-5.3",
        f"Error: {W}/x does not exist",
        f"{PROJECT}/vendor does not exist and your user does not have write permissions in {PROJECT}",
    ],
)
def test_the_advice_where_no_grant_helps(output: str) -> None:
    assert verdict("luarocks install x", output).source == "none"


@pytest.mark.parametrize(
    "output",
    [
        "RuntimeError: [enforce fail at x/uv/libuv.h:59] uv_bind: operation not permitted",
        "uv_tcp_bind: operation not permitted",
        "tcp_listen: Operation not permitted",
        "zmq_bind failed: Operation not permitted",
        "fatal: uv_listen: operation not permitted",
        "bind(): Operation not permitted",
        "listen: Operation not permitted",
        "inet_bind: Operation not permitted",
        "uv_tcp_connect: operation not permitted",
    ],
)
def test_a_call_of_the_network_without_an_address(output: str) -> None:
    found = on_a_mac("pytest tests", output)
    assert (found.source, found.operation, found.remedy) == ("kernel", "network", "cannot-grant"), found


@pytest.mark.parametrize(
    ("words", "operation", "target", "remedy"),
    [
        (
            f"The Write tool was refused for {W}/plan.md (EACCES). Here is the text instead:",
            "write",
            f"{W}/plan.md",
            "restart-wider",
        ),
        (f"My Edit tool call on {W}/a.txt was denied with EACCES.", "write", f"{W}/a.txt", "restart-wider"),
        (
            f"The NotebookEdit tool was denied permission to write {W}/n.ipynb.",
            "write",
            f"{W}/n.ipynb",
            "restart-wider",
        ),
        (f"`Write` was blocked by the sandbox for {W}/a.txt.", "write", f"{W}/a.txt", "restart-wider"),
        (
            f"poetry is failing because it can't create {HOME}/.cache/pypoetry. Nothing was installed.",
            "write",
            f"{HOME}/.cache/pypoetry",
            "grant",
        ),
        (f"The build stops because it cannot write {W}/out.o.", "write", f"{W}/out.o", "grant"),
        (
            f"npm install does not finish, because it is unable to create {HOME}/.npm/_logs.",
            "write",
            f"{HOME}/.npm/_logs",
            "grant",
        ),
        ("Running `ps aux` is not permitted in this sandbox, so I can't tell.", "execute", "ps", "cannot-grant"),
        ("Executing `top -b` was denied by the sandbox.", "execute", "top", "cannot-grant"),
        ("Running `lsof -i` is blocked here, so I can't see the port.", "execute", "lsof", "cannot-grant"),
        (f"The tests fail because they couldn't open {W}/a.db for writing.", "write", f"{W}/a.db", "grant"),
        ("I couldn't run `sudo ls`: it is blocked in this session.", "other", "", "cannot-grant"),
        (
            "Database tests cannot execute locally because Docker/Colima socket access is denied.",
            "ipc",
            "docker socket",
            "cannot-grant",
        ),
        (
            "Access to the Docker socket was denied, so the integration tests did not run.",
            "ipc",
            "docker socket",
            "cannot-grant",
        ),
        (
            "The containers can't be started: access to the Podman/Docker daemon socket is blocked here.",
            "ipc",
            "",
            "cannot-grant",
        ),
        ("The Colima socket is not accessible from this sandbox.", "ipc", "colima socket", "cannot-grant"),
    ],
)
def test_what_an_agent_says(words: str, operation: str, target: str, remedy: str) -> None:
    found = said(words)
    assert found, words
    assert (found[0].source, found[0].operation, found[0].remedy) == ("model", operation, remedy), found
    if target:
        assert target in (found[0].target.lower(), *map(str.lower, found[0].targets)) or target in found[0].targets


@pytest.mark.parametrize(
    "words",
    [
        f"The import in {W}/a.py fails because it cannot find its module.",
        "The parser fails because it cannot read the missing file.",
        "I added a check so that the Write tool is refused for paths outside the project.",
        f"The export stopped because it can't find the template in {W}.",
        f"The download fails because it could not find {W}/list.txt.",
        "The handler now denies socket access to guests.",
    ],
)
def test_what_is_no_report(words: str) -> None:
    assert not said(words), words


@pytest.fixture
def ordinary() -> Iterator[Path]:
    """A folder of an ordinary user's, and that user asking: the superuser would find every file open.

    `access` asks for the real user, so that the effective one can stay what it is and comes back without a child.
    """
    with tempfile.TemporaryDirectory(dir="/tmp") as name:
        if os.getuid() != 0:
            yield Path(name)
            return
        os.chmod(name, 0o711)
        os.setreuid(NOBODY, -1)
        try:
            yield Path(name)
        finally:
            os.setreuid(0, -1)


@pytest.mark.parametrize(("mode", "source"), [(0o644, "kernel"), (0o000, "none")])
def test_a_rewriter_where_the_file_can_be_looked_at(mode: int, source: str, ordinary: Path) -> None:
    """The text is the same for both: only the file's own mode tells whose refusal it was."""
    file = ordinary / "work" / "a.py"
    file.parent.mkdir()
    file.write_text("a = 1\n")
    file.chmod(mode)
    if os.geteuid() == 0:
        os.chown(file, NOBODY, -1)
    told = f"error: cannot parse {file}: [Errno 13] Permission denied: '{file}'"
    failure = Failure(
        tool="Bash",
        command=f"black {file}",
        output=told,
        exit_code=123,
        project=str(ordinary / "kiln"),
        home=str(ordinary),
        temp=("/tmp/nd7",),
    )
    assert explain(failure, look=FileLook()).source == source
