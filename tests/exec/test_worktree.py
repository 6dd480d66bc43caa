"""`nd7 run --worktree`: git makes it inside the sandbox, whatever the repository would run; errors leave nothing."""

from __future__ import annotations

import os
import signal
import sys
import time
from dataclasses import replace
from pathlib import Path

import pytest
from world import CHECKOUT, Done, World

from nd7core.errors import Nd7Error
from nd7core.paths import places_of
from nd7core.record import Record
from nd7exec import worktree
from nd7tui.restart import words_of

HOLDER = "/home/dev/project-worktrees"
GIT = ("git", "-c", "user.name=dev", "-c", "user.email=dev@example.org", "-c", "init.defaultBranch=main")


def git(world: World, *words: str, cwd: str = "") -> str:
    done = world.run([*GIT, *words], cwd=cwd)
    assert done.code == 0, done.err
    return done.out.strip()


def repository(world: World) -> None:
    git(world, "init", "-q")
    world.write("file", "one\n")
    git(world, "add", "file")
    git(world, "commit", "-q", "-m", "first")


def start(
    world: World,
    name: str,
    *program: str,
    cwd: str = "",
    more: tuple[str, ...] = (),
    env: dict[str, str | None] | None = None,
) -> Done:
    words = ["nd7", "run", *more, "--worktree", name, *(program or ("true",))]
    return world.run(words, cwd=cwd, env=env)


def nothing_left(world: World) -> None:
    """No process, no session, no worktree, no branch."""
    world.wait(lambda: not world.processes(), what=world.processes)
    assert not [name for name in world.listdir("/home/dev/.nd7/sessions") if name.isdigit()]
    assert not world.exists(HOLDER)
    assert world.listdir(".git/worktrees") == []


def test_a_session_works_and_commits_there_and_the_main_checkout_stays_as_it_was(world: World):
    repository(world)
    before = git(world, "rev-parse", "HEAD")
    script = "pwd; cat file; echo two > file; git -c user.name=a -c user.email=a@b commit -qam second; echo x > {}/file"
    done = start(world, "fix", "sh", "-c", script.format(world.project))
    assert done.out == f"{HOLDER}/fix\none\n", done.err
    assert "Read-only file system" in done.err or "Permission denied" in done.err
    assert world.read("file") == "one\n" and git(world, "status", "--porcelain") == ""
    assert git(world, "rev-parse", "HEAD") == before
    assert git(world, "log", "--format=%s", "fix") == "second\nfirst"
    # It holds work, so it stays; how it is removed is said, and true.
    said = done.err.splitlines()[-1]
    assert said.startswith(f"nd7: the worktree {HOLDER}/fix is still there; `git -C ")
    assert world.run(["sh", "-c", said.split("`")[1]]).code == 0
    assert world.listdir(HOLDER) == [] and git(world, "branch", "--format=%(refname:short)") == "fix\nmain"


def test_the_same_name_goes_on_where_it_was_and_below_the_project_too(world: World):
    repository(world)
    world.mkdir("deep/er")
    start(world, "fix", "sh", "-c", "echo draft > draft")
    done = start(world, "fix", "cat", "draft", cwd="deep/er")
    assert (done.code, done.out) == (0, "draft\n"), done.err
    # A branch that is there already is checked out, not begun anew.
    git(world, "worktree", "remove", "--force", f"{HOLDER}/fix")
    git(world, "commit", "-q", "--allow-empty", "-m", "later")
    done = start(world, "fix", "git", "log", "--format=%s")
    assert done.out == "first\n", done.err


def test_a_detached_head_and_variables_that_lead_git_elsewhere(world: World):
    repository(world)
    git(world, "checkout", "-q", "--detach")
    git(world, "init", "-q", "/home/dev/other")
    led = {"GIT_DIR": "/home/dev/other/.git", "GIT_INDEX_FILE": "/home/dev/other/index"}
    done = start(world, "fix", "sh", "-c", "git rev-parse --abbrev-ref HEAD; cat file; env", env=led)
    assert done.out.startswith("fix\none\n") and "GIT_DIR" not in done.out, done.err


def test_a_detached_session_says_where_its_worktree_is_and_keeps_it_to_itself(world: World):
    repository(world)
    done = start(world, "night", "sleep", "60", more=("--detach",))
    pid = int(done.out)
    assert f"the worktree {HOLDER}/night stays when the session ends" in done.err
    record = world.read(f"/home/dev/.nd7/sessions/{pid}/record.json")
    assert '"name": "project/night"' in record and f'"project": "{HOLDER}/night"' in record
    again = start(world, "night")
    assert again.code == 126 and f"session {pid} works in {HOLDER}/night" in again.err and "another NAME" in again.err


HOSTILE = """
[core]
    hooksPath = {hooks}
    fsmonitor = {evil} fsmonitor
    sshCommand = {evil} ssh
    pager = {evil} pager
    editor = {evil} editor
    askPass = {evil} askpass
[filter "f"]
    smudge = "{evil} smudge; cat"
    clean = "{evil} clean; cat"
    required = true
[alias]
    worktree = !{evil} alias
    branch = !{evil} alias
[include]
    path = {project}/included
"""
EVIL = """#!/bin/sh
exec </dev/null
echo "$1" >> /home/dev/project/.git/ran
cat /home/dev/.ssh/key >> /home/dev/project/.git/stolen
for place in /home/dev/marker /home/dev/project/marker /home/dev/.bashrc /home/dev/.local/state/nd7/marker; do
    echo "$1" >> $place
done
python3 -c 'import socket; socket.socket(socket.AF_UNIX).connect("/home/dev/agent.sock")' &&
    echo socket >> /home/dev/project/.git/stolen
setsid sleep 1000 >/dev/null 2>&1 &
"""


def test_what_the_repository_would_run_is_run_inside_or_not_at_all(world: World):
    """Hooks and filters do run, as git's own user would want, and reach nothing that a session does not."""
    repository(world)
    world.write("/home/dev/.ssh/key", "secret")
    world.write("evil", EVIL, 0o755)
    world.write("included", f'[filter "g"]\n    smudge = "{world.project}/evil included; cat"\n')
    for hook in ("post-checkout", "reference-transaction", "post-index-change", "pre-commit"):
        world.write(f"hooks/{hook}", f"#!/bin/sh\n{world.project}/evil {hook}\n", 0o755)
    world.write(".gitattributes", "file filter=f\nother filter=g\n")
    world.write("other", "x")
    git(world, "add", ".gitattributes", "other")
    git(world, "commit", "-q", "-m", "attributes")
    hostile = HOSTILE.format(evil=f"{world.project}/evil", hooks=f"{world.project}/hooks", project=world.project)
    world.write(".git/config", world.read(".git/config") + hostile)
    script = "import socket, time; s = socket.socket(socket.AF_UNIX); s.bind('/home/dev/agent.sock'); s.listen(); "
    listener = world.start(["python3", "-c", script + "time.sleep(99)"])
    world.wait(lambda: world.exists("/home/dev/agent.sock"))
    done = start(world, "fix", "cat", "file")
    assert done.out == "one\n", done.err
    ran = set(world.read(".git/ran").split())
    assert {"post-checkout", "reference-transaction", "smudge", "included"} <= ran, ran  # else this would show nothing
    assert not ran & {"alias", "ssh", "pager", "editor", "askpass"}
    assert world.read(".git/stolen") == ""
    for place in ("/home/dev/marker", "marker", "/home/dev/.bashrc", "/home/dev/.local/state/nd7/marker"):
        assert not world.exists(place), place
    listener.kill()
    world.wait(lambda: not world.processes(), what=world.processes)  # no `sleep` has outlived it


def test_a_git_that_lies_in_the_project_is_not_the_one_that_runs(world: World):
    repository(world)
    world.write("bin/git", '#!/bin/sh\ntouch /tmp/planted\nexec /usr/bin/git "$@"\n', 0o755)
    planted = f"{world.project}/bin:.:bin:{world.environ()['PATH']}"
    assert start(world, "fix", env={"PATH": planted}).code == 0
    assert world.exists(f"{HOLDER}/fix/file") and not world.exists("/tmp/planted")


def test_settings_that_are_checked_out_are_there_and_closed_before_the_agent_begins(world: World):
    repository(world)
    world.write(".claude/settings.json", "{}\n")
    git(world, "add", "-f", ".claude/settings.json")
    git(world, "commit", "-q", "-m", "settings")
    world.write("/home/dev/bin/claude", "#!/bin/sh\ncat .claude/settings.json; echo x > .claude/settings.json\n", 0o755)
    done = world.run(["nd7", "run", "--worktree", "fix", "/home/dev/bin/claude"])
    assert "{}\n" in done.out, done.err
    assert world.read(f"{HOLDER}/fix/.claude/settings.json") == "{}\n"


FAILING_HOOK = (
    "mkdir hooks; git config core.hooksPath $PWD/hooks; "
    "printf '#!/bin/sh\\necho no good; exit 3' > hooks/post-checkout; chmod +x hooks/post-checkout"
)
FAILING_FILTER = (
    "printf 'file filter=f\\n' > .gitattributes; git add .gitattributes; git commit -qm a; "
    "git config filter.f.smudge false; git config filter.f.required true"
)


@pytest.mark.parametrize(
    ("made", "message", "step"),
    [
        ("rm -rf .git", "is in no git repository", "leave --worktree out"),
        ("rm -rf .git; git init -q", "has no commit yet", "commit something"),
        ("git clone -q --bare . ../bare; rm -rf * .git; mv ../bare/* .", "is a bare repository", "clone it"),
        ("git worktree add -q ../w; rm -rf file .git; mv ../w/.git .", "is a worktree itself", "leave --worktree out"),
        ("mkdir -p ../a/.git; mv .git ../a/; ln -s ../a/.git .git", "is a link", "leave --worktree out"),
        ("mv .git ../m; echo 'gitdir: ../x/.git/modules/m' > .git", "is a submodule", "clone that repository"),
        ("mv .git .bare; echo 'gitdir: ./.bare' > .git", "names another directory", "leave --worktree out"),
        ("rm .git/HEAD", "is no git repository", "git init"),
        ("ln -s /home/dev ../project-worktrees", "is in the way", "another NAME"),
        ("mkdir ../project-worktrees; ln -s /home/dev ../project-worktrees/fix", "is in the way", "another NAME"),
        ("mkdir -p ../project-worktrees/fix/x", "is no worktree of", "another NAME"),
        ("mkdir ../project-worktrees; chmod 777 ../project-worktrees", "written by others", "chmod go-w"),
        ("touch ../project-worktrees", "is in the way", "another NAME"),
        ("git checkout -q -b fix", "already checked out", "another NAME"),
        ("git checkout -q -b fix/deeper", "fix", "another NAME"),
        (FAILING_HOOK, "no good", "another NAME"),
        (FAILING_FILTER, "file", "another NAME"),
        ("mkdir ../project-worktrees; chmod -w ../project-worktrees", "cannot be made: Permission denied", "may write"),
    ],
)  # fmt: skip
def test_why_there_can_be_none_and_what_to_do(world: World, made: str, message: str, step: str):
    repository(world)
    world.write("/home/dev/.gitconfig", "[user]\n name = d\n email = d@e\n")
    world.mkdir("/home/dev/.local/state")
    assert world.run(["nd7", "run", "true"]).code == 0  # what nd7 makes once is there
    prepared = world.run(["sh", "-c", made])
    assert prepared.code == 0, prepared.err
    before, branches = world.listdir("/home/dev"), world.run(["git", "branch"]).out
    done = start(world, "fix", "touch", "ran")
    assert done.code == 126 and message in done.err and step in done.err, done
    assert len(done.err.splitlines()) == 2 and "Traceback" not in done.err
    assert world.listdir("/home/dev") == before and world.run(["git", "branch"]).out == branches
    assert not world.exists(".git/worktrees/fix")
    world.wait(lambda: not world.processes(), what=world.processes)


@pytest.mark.parametrize("name", ["", "../x", "a/b", "-x", ".git", "a..b", "x.lock", "x.", "a b", "\x1b[2J", "x" * 101])
def test_what_is_no_name(world: World, name: str):
    repository(world)
    done = start(world, name)
    assert done.code == 2 and len(done.err.splitlines()) == 2 and "\x1b" not in done.err
    nothing_left(world)


def test_a_name_without_a_program(world: World):
    done = world.run(["nd7", "run", "--worktree", "claude"])
    assert done.code == 2 and "nd7 run --worktree NAME claude" in done.err


@pytest.mark.parametrize("more", [(), ("--detach",)])
def test_a_session_that_cannot_begin_leaves_no_worktree(world: World, more: tuple[str, ...]):
    repository(world)
    assert start(world, "fix", "no-such-program", more=more).code == 127
    nothing_left(world)
    git(world, "rm", "-q", "--cached", "file")
    world.path(".claude").symlink_to("/tmp")
    git(world, "add", ".claude")
    git(world, "commit", "-q", "-m", "link")
    world.write("/home/dev/bin/claude", "#!/bin/sh\n", 0o755)
    done = start(world, "fix", "/home/dev/bin/claude", more=more)
    assert done.code == 126 and ".claude is a symbolic link" in done.err
    nothing_left(world)
    assert git(world, "branch", "--format=%(refname:short)") == "main"


def test_without_git(world: World):
    repository(world)
    done = world.run(["env", f"PATH={world.files}/bin", "nd7", "run", "--worktree", "fix", "/bin/true"])
    assert done.code == 127 and "git is not on your PATH" in done.err and "leave --worktree out" in done.err
    nothing_left(world)


def slow_filter(world: World, command: str) -> None:
    """A filter in the way of the checkout."""
    world.write(".gitattributes", "file filter=f\n")
    git(world, "add", ".gitattributes")
    git(world, "commit", "-q", "-m", "attributes")
    git(world, "config", "filter.f.smudge", command)


@pytest.mark.parametrize("where", ["hook", "filter"])
def test_an_end_in_the_middle_leaves_nothing(world: World, where: str):
    repository(world)
    begun = f"touch {world.project}/.git/begun; exec sleep 600"
    if where == "hook":
        world.write(".git/hooks/post-checkout", f"#!/bin/sh\n{begun}\n", 0o755)
    else:
        slow_filter(world, begun)
    running = world.start(["nd7", "run", "--worktree", "fix", "true"])
    world.wait(lambda: world.exists(".git/begun"))
    running.send_signal(signal.SIGINT)
    assert running.wait(20) == 130
    nothing_left(world)
    assert git(world, "branch", "--format=%(refname:short)") == "main"


def test_a_killed_nd7_takes_its_git_along(world: World):
    repository(world)
    world.write(".git/hooks/post-checkout", "#!/bin/sh\ntouch .begun; setsid sleep 600\n", 0o755)
    running = world.start(["sh", "-c", "trap '' INT TERM HUP; exec nd7 run --worktree fix true"])
    world.wait(lambda: world.exists(f"{HOLDER}/fix/.begun"))
    every = world.processes()
    (first,) = (pid for pid, line in every.items() if "nd7tui.cli" in line and "nd7tui.cli" not in above(every, pid))
    os.kill(first, signal.SIGKILL)
    world.wait(lambda: not world.processes(), what=world.processes)
    running.wait(20)
    # What it left half made is no worktree that a second try would trip over: git knows it, and so it is gone on with.
    assert start(world, "fix", "cat", "file").out == "one\n"


def test_one_that_was_left_half_made_is_not_gone_on_with(world: World):
    repository(world)
    slow_filter(world, f"touch {world.project}/.git/begun; sleep 600")
    running = world.start(["nd7", "run", "--worktree", "fix", "true"])
    world.wait(lambda: world.exists(".git/begun"))
    ours = [pid for pid, line in world.processes().items() if "nd7tui.cli" in line]
    for number in (signal.SIGSTOP, signal.SIGKILL):  # at once: one that outlived another would clear away
        for process in ours:
            os.kill(process, number)
    world.wait(lambda: not world.processes(), what=world.processes)
    running.wait(20)
    git(world, "config", "--unset", "filter.f.smudge")
    done = start(world, "fix")
    assert done.code == 126 and "was left half made" in done.err
    assert world.run(["sh", "-c", done.err.split("`")[1]]).code == 0
    assert start(world, "fix", "cat", "file").out == "one\n"


def test_a_worktree_whose_folder_was_thrown_away(world: World):
    repository(world)
    assert start(world, "fix").code == 0
    assert world.run(["rm", "-r", HOLDER]).code == 0
    done = start(world, "fix", "cat", "file")
    assert done.code == 126 and "git still lists it" in done.err and not world.exists(HOLDER), done
    assert world.run(["sh", "-c", done.err.split("`")[1]]).code == 0
    assert start(world, "fix", "cat", "file").out == "one\n"


def above(every: dict[int, str], pid: int) -> str:
    """The command line of a process's parent."""
    return every.get(int(Path(f"/proc/{pid}/stat").read_bytes().rpartition(b")")[2].split()[1]), "")


def test_without_namespaces(world: World):
    """Landlock and seccomp alone: the same way, the same refusals."""
    repository(world)
    world.write(".git/hooks/post-checkout", "#!/bin/sh\necho x > /home/dev/marker; touch .git-ran\n", 0o755)
    script = f"git -c user.name=a -c user.email=a@b commit -q --allow-empty -m second; echo x > {world.project}/file"
    limited = [sys.executable, f"{CHECKOUT}/tests/support/no_namespaces.py"]
    nd7 = ["env", "-u", "PYTHONPATH", "nd7", "run", "--worktree", "fix", "sh", "-c", script]
    done = world.run([*limited, *nd7], env={"PYTHONPATH": str(CHECKOUT)})
    assert "not in force: no user namespace" in done.err.splitlines()[0], done.err
    assert world.exists(f"{HOLDER}/fix/.git-ran") and not world.exists("/home/dev/marker")
    assert git(world, "log", "--format=%s", "fix") == "second\nfirst" and world.read("file") == "one\n"


def test_a_session_comes_back_to_its_worktree():
    """A restart is by the name: by the folder, git could not write the repository any more."""
    record = Record("/h/app-worktrees/fix", "/h", name="app/fix", program=("claude", "-c"), writable=("/h/app/.git",))
    assert record.worktree == ("/h/app", "fix")
    back = ["run", "--detach", "--project", "/h/app", "--worktree", "fix", "--name", "app/fix", "claude"]
    assert words_of(record)[: len(back)] == back
    elsewhere = replace(record, writable=("/h/other/.git",))
    assert elsewhere.worktree == ("", "") and words_of(elsewhere)[2:4] == ["--project", "/h/app-worktrees/fix"]


def test_files_of_git_that_are_no_files(tmp_path: Path):
    """A pipe, a link or a directory in their place is read as nothing, at once."""
    git_directory = tmp_path / "p" / ".git"
    git_directory.mkdir(parents=True)
    os.mkfifo(git_directory / "packed-refs")
    (git_directory / "HEAD").write_text("ref: refs/heads/main\n")
    places = places_of(str(tmp_path / "home"))
    began = time.monotonic()
    with pytest.raises(Nd7Error, match="no commit yet"):
        worktree.find("fix", str(tmp_path / "p"), places)
    (git_directory / "packed-refs").unlink()
    (git_directory / "packed-refs").write_text("# pack-refs with: peeled\n" + "a" * 40 + " refs/heads/main\n")
    found = worktree.find("fix", str(tmp_path / "p"), places)
    assert found == worktree.Worktree(
        f"{tmp_path}/p-worktrees/fix", f"{tmp_path}/p", f"{tmp_path}/p/.git", there=False, new_branch=True
    )
    assert time.monotonic() - began < 5
