"""The parts of the engine: the shell reading, paths and what to grant, the look from outside, the policy asked."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from nd7core.attribution import Failure, FileLook, Seen, explain, of_context, of_record
from nd7core.attribution.others import ssh_words
from nd7core.attribution.paths import is_shared, meant, proposal, quoted
from nd7core.attribution.shell import Simple, read
from nd7core.record import Grant, Record

HOME, PROJECT = "/home/ada", "/home/ada/kiln"


def simples(command: str) -> list[tuple[str, str]]:
    return [(simple.name, simple.cwd) for simple in read(command, PROJECT, HOME) if simple.name]


@pytest.mark.parametrize(
    ("command", "found"),
    [
        ("cd ../lib && touch a", [("cd", PROJECT), ("touch", "/home/ada/lib")]),
        ("(cd /srv; ls); pwd", [("cd", PROJECT), ("ls", "/srv"), ("pwd", PROJECT)]),
        ("git -C ../lib commit -m 'a; b'", [("git", "/home/ada/lib")]),
        ("make --directory=/srv/x all", [("make", "/srv/x")]),
        ("bash -lc 'cd ~/x && tar xf a'", [("cd", PROJECT), ("tar", "/home/ada/x")]),
        ("A=1 sudo -u bob env B=2 timeout 5 nice rm x", [("rm", PROJECT)]),
        ("cat <<'E' > a\ntouch /srv/x\nE\nls", [("cat", PROJECT), ("ls", PROJECT)]),
        ("echo $(cat a) `id`", [("cat", PROJECT), ("id", PROJECT), ("echo", PROJECT)]),
        ("for f in a b; do rm $f; done", [("rm", PROJECT)]),
        ("ls # rm x", [("ls", PROJECT)]),
        ("a|b&&c;d&", [("a", PROJECT), ("b", PROJECT), ("c", PROJECT), ("d", PROJECT)]),
    ],
)
def test_what_ran_where(command: str, found: list[tuple[str, str]]) -> None:
    assert simples(command) == found


def test_words_and_redirections() -> None:
    (simple,) = read("D=/srv/d; cat \"$D/a b\" ~/c $E > '/x y' 2>&1 < in", PROJECT, HOME)
    assert simple.words == ("/srv/d/a b", "/home/ada/c", "$E")
    assert simple.redirects == ((">", "/x y"), (">&", "1"), ("<", "in"))


def test_the_remote_command_of_ssh() -> None:
    assert ssh_words(Simple("ssh", ("-p", "22", "-S", "/tmp/c", "host", "-v", "x"))) == ["host", "-v", "x"]


@pytest.mark.parametrize(
    ("path", "grant"),
    [
        ("/home/ada/notes/x.txt", "/home/ada/notes"),
        ("/home/ada/x.txt", "/home/ada/x.txt"),
        ("/home/ada/notes/x.md.tmp.812.9f0a11", "/home/ada/notes"),
        ("/home/ada/notes/sedQ1w2E3", "/home/ada/notes"),
        ("/home/ada/.cache/uv/sdists-v9/ab/cd", "/home/ada/.cache/uv"),
        ("/home/ada/.npm/_cacache/index-v5/9f/aa", "/home/ada/.npm/_cacache"),
        ("/home/ada/.cargo/registry/cache/x", "/home/ada/.cargo/registry"),
        ("/home/ada/.config/gh/hosts.yml", "/home/ada/.config/gh"),
        ("/home/ada/Library/Caches/go-build/aa/bb", "/home/ada/Library/Caches/go-build"),
        ("/home/ada/lib/.git/refs/heads/x.lock", "/home/ada/lib/.git"),
        ("/home/ada/.bashrc", "/home/ada/.bashrc"),
        ("/srv/x", "/srv/x"),
    ],
)
def test_what_a_grant_must_name(path: str, grant: str) -> None:
    assert proposal(path, HOME) == grant


def test_temporary_names_are_told_from_names() -> None:
    assert meant("/a/students") == ("/a/students", False)
    assert meant("/a/x.tar.backup") == ("/a/x.tar.backup", False)
    assert meant("/a/.f.Ab12Cd") == ("/a/f", True)
    assert meant("/a/tmp.XXXXXX") == ("/a", True)


def test_quotes_of_every_kind() -> None:
    assert [text for _, _, text in quoted("‘/a’ „/b“ «/c» 「/d」 `/e' \"/f g\" '/h'\\''i'")] == [
        "/a",
        "/b",
        "/c",
        "/d",
        "/e",
        "/f g",
        "/h'i",
    ]
    assert quoted("'/gr'$'\\303\\266''sse'")[0][2] == "/grösse"
    assert quoted("couldn't and don't") == []


def test_shared_folders_are_never_proposed_whole() -> None:
    for folder in ("/", HOME, "/home", "/usr", f"{HOME}/.config", f"{HOME}/.cache", f"{HOME}/.local/share"):
        assert is_shared(folder, HOME)
    assert not is_shared(f"{HOME}/notes", HOME)


def refused(path: str) -> Failure:
    output = f"touch: cannot touch '{path}': Permission denied"
    return Failure(output=output, exit_code=1, project=PROJECT, home=HOME)


class Told:
    """A look that answers what it is told."""

    def __init__(self, seen: Seen | None) -> None:
        self.seen = seen

    def at(self, path: str, operation: str) -> Seen | None:
        return self.seen

    def real(self, path: str) -> str | None:
        return path.replace(f"{PROJECT}/link", "/home/ada/.config").replace(f"{PROJECT}/keys", "/home/ada/.ssh")


def test_what_a_link_in_the_project_leads_to_is_what_was_refused() -> None:
    for name in ("link/evil", f"{PROJECT}/link/evil"):
        through = explain(refused(name), look=Told(Seen(False, False, True)))
        assert (through.source, through.target, through.remedy) == ("kernel", "/home/ada/.config/evil", "grant")
        assert through.grant == "/home/ada/.config/evil"
    output = "cat: keys/id: Permission denied"
    failure = Failure(command="cat keys/id", output=output, exit_code=1, project=PROJECT, home=HOME)
    read = explain(failure, look=Told(Seen(True, False, True)))
    assert (read.source, read.target, read.remedy) == ("kernel", "/home/ada/.ssh/id", "cannot-grant")
    assert explain(refused("inside/x"), look=Told(Seen(False, False, False, "mode 0555"))).owner == "permissions"


def test_the_look_tells_ordinary_permissions_from_the_policy() -> None:
    failure = refused("/home/ada/notes/x")
    open_there = explain(failure, look=Told(Seen(False, False, True)))
    assert (open_there.source, open_there.evidence) == ("kernel", "matched")
    closed = explain(failure, look=Told(Seen(True, False, False, "mode 0444, owned by root")))
    assert (closed.source, closed.owner) == ("none", "permissions") and "mode 0444" in closed.reason
    parent_closed = explain(failure, look=Told(Seen(False, False, False, "its folder: mode 0555")))
    assert parent_closed.evidence == "likely" and parent_closed.contradiction
    existing = explain(failure, look=Told(Seen(True, False, True)))
    assert existing.grant == "/home/ada/notes/x"


def test_the_real_files_are_looked_at(tmp_path: Path) -> None:
    look = FileLook()
    (tmp_path / "f").write_text("x")
    (tmp_path / "f").chmod(0o400)
    seen = look.at(str(tmp_path / "f"), "read")
    assert seen is not None and seen.exists and seen.allowed
    if os.geteuid() != 0:
        closed = look.at(str(tmp_path / "f"), "write")
        assert closed is not None and closed.allowed is False and "0400" in closed.why
    absent = look.at(str(tmp_path / "new"), "write")
    assert absent is not None and not absent.exists and absent.allowed
    assert look.at("relative", "write") is None and look.at("/a\0b", "read") is None


def test_the_rules_of_a_context_and_of_a_record() -> None:
    rules = of_context("linux", PROJECT, "", ("/srv/given",), None, ("settings.json",))
    assert not rules.refuses("write", f"{PROJECT}/x") and not rules.refuses("write", "/tmp/x")
    assert rules.refuses("write", "/srv/x") and not rules.refuses("write", "/srv/given/x")
    assert rules.hidden(f"{HOME}/.ssh/id") and rules.never(f"{HOME}/.aws") and not rules.hidden("/etc/passwd")
    assert rules.refuses("write", f"{PROJECT}/settings.json") and rules.never(f"{PROJECT}/settings.json")
    assert rules.connects("example.org", 443) and not rules.connects("example.org", 80)
    assert not rules.connects("x", 0) and not rules.connects("x", 70_000)
    record = Record(PROJECT, HOME, f"{HOME}/.local/state/nd7", "/tmp", grants=(Grant("/srv/given"),))
    assert not of_record(record, "linux").refuses("write", "/srv/given/x")


@pytest.mark.parametrize("tool", ["Read", "Grep", "Glob"])
def test_a_tool_that_only_reads_is_not_refused_by_what_closes_writing(tool: str) -> None:
    """The same words would be a refused write of Write's; what Read may read the policy tells."""
    for path, source, remedy in (
        ("/home/ada/data/x", "none", "not-nd7"),
        ("/home/ada/.ssh/x", "kernel", "cannot-grant"),
    ):
        output = f"EACCES: permission denied, open '{path}'"
        verdict = explain(Failure(tool=tool, command=path, output=output, project=PROJECT, home=HOME))
        assert (verdict.source, verdict.remedy, verdict.operation) == (source, remedy, "read"), path
    wrote = explain(Failure(tool="Write", output="EACCES: permission denied, open '/home/ada/data/x'", project=PROJECT))
    assert (wrote.source, wrote.operation) == ("kernel", "write")


def test_permissions_that_allow_it_now_are_not_said_to_have_refused(tmp_path: Path) -> None:
    file = tmp_path / "x"
    file.write_text("")
    failure = Failure(
        command=f"cat {file}", exit_code=1, output=f"cat: {file}: Permission denied", project=str(tmp_path), home=HOME
    )
    assert "Ordinary permissions refused it." in explain(failure).reason
    assert "it has now" in explain(failure, look=FileLook()).reason


def test_what_the_agent_supposes_to_be_the_cause_is_no_target() -> None:
    said = "The sandbox denied ~/notes/x because somebody disabled it in /etc/selinux/config."
    verdict = explain(Failure(tool="assistant", output=said, project=PROJECT, home=HOME))
    assert (verdict.source, verdict.targets) == ("model", ("~/notes/x",)) and "selinux" not in verdict.reason
    said = "I could not run ~/bin/tool because the sandbox denied writing to ~/.cache/tool."
    verdict = explain(Failure(tool="assistant", output=said, project=PROJECT, home=HOME))
    assert "~/.cache/tool" in verdict.targets


def test_silent_programs_are_likely_at_most() -> None:
    base = Failure(exit_code=7, project=PROJECT, home=HOME)
    silent = explain(Failure(command="curl -s http://127.0.0.1:3000/", exit_code=7, project=PROJECT, home=HOME))
    assert (silent.source, silent.evidence, silent.target) == ("kernel", "likely", "127.0.0.1:3000")
    assert explain(base).source == "none"
    allowed = explain(Failure(command="curl -s https://example.org/", exit_code=7, project=PROJECT, home=HOME))
    assert allowed.source == "none"


@pytest.mark.parametrize(
    ("command", "output"),
    [
        ("perl export.pl --out /home/ada/exports/a.csv", "cannot write at export.pl line 12."),
        ("node gen.js --output=/home/ada/exports/a.csv", "Unable to save file"),
        ("./tool -o ../exports/a.csv", "copy failed"),
        ("cp a.csv ~/exports/ 2>/dev/null || { echo 'copy failed'; exit 1; }", "copy failed"),
        ("mypy --cache-dir ../exports src", "src/a.py: error: INTERNAL ERROR -- Please try using mypy master"),
        ('perl -e \'mkdir("/home/ada/exports") or die "mkdir failed"\'', "mkdir failed at -e line 1."),
    ],
)
def test_a_program_that_does_not_say_why_is_likely_at_most(command: str, output: str) -> None:
    verdict = explain(Failure(command=command, exit_code=1, output=output, project=PROJECT, home=HOME))
    assert (verdict.source, verdict.evidence, verdict.operation) == ("kernel", "likely", "write")
    assert verdict.grant.startswith("/home/ada/exports")
    inside = command.replace("/home/ada/exports", "/home/ada/kiln/out").replace("~/exports", "out")
    allowed = Failure(command=inside.replace("../exports", "out"), exit_code=1, output=output, project=PROJECT)
    assert explain(allowed).source == "none"


def test_a_refusal_without_a_path_is_of_the_files_that_the_command_names() -> None:
    for command in ("sed -i s/a/b/ data.csv", "python3 -c \"open('data.csv')\"", "cp a.txt b.txt"):
        verdict = explain(Failure(command=command, exit_code=1, output="Permission denied", project=PROJECT, home=HOME))
        assert (verdict.source, verdict.owner, verdict.evidence) == ("none", "permissions", "likely"), command
    for command in ("make deploy", "./run.sh data.csv", "python3 tool.py data.csv"):  # who knows what these write
        verdict = explain(Failure(command=command, exit_code=1, output="Permission denied", project=PROJECT, home=HOME))
        assert (verdict.source, verdict.evidence, verdict.target) == ("kernel", "likely", ""), command


def test_a_port_alone_takes_its_host_from_the_command() -> None:
    output = "psql: error: connection to server on port 5544 failed: Permission denied"
    asked = Failure(command="psql -h localhost -p 5544", exit_code=2, output=output, project=PROJECT)
    assert explain(asked).target == "localhost:5544"
    said = "I can't reach localhost from here. Connections to port 5544 are blocked by the sandbox."
    assert explain(Failure(tool="assistant", output=said, project=PROJECT)).target == "localhost:5544"


def test_nd7_exec_is_believed_for_what_it_alone_can_bring_about() -> None:
    said = "nd7-exec: session has no policy.sb"
    genuine = explain(Failure(command="make", exit_code=126, output=said, project=PROJECT))
    assert (genuine.source, genuine.remedy, genuine.evidence) == ("nd7-exec", "cannot-grant", "matched")
    assert explain(Failure(command="nd7-exec -c ls", exit_code=126, output=said, project=PROJECT)).source == "nd7-exec"
    for command, code in (("cat log", 0), (f"echo '{said}'; exit 126", 126), ("make", 2), ("grep -r nd7-exec .", 1)):
        assert explain(Failure(command=command, exit_code=code, output=said, project=PROJECT)).source == "none"
    unasked = explain(Failure(command="make", output=f"Exit code 126\n{said}", project=PROJECT))
    assert unasked.source == "nd7-exec"


def test_what_the_broker_saw_is_recorded() -> None:
    failure = Failure(
        command="./client",
        exit_code=1,
        output="connect: Permission denied",
        project=PROJECT,
        recorded=("10.0.0.7:5432",),
    )
    verdict = explain(failure)
    assert (verdict.evidence, verdict.target) == ("recorded", "10.0.0.7:5432")
