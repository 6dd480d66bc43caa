"""nd7 itself: what it keeps is private, nothing of a project is run by it, and no session can change its code."""

from __future__ import annotations

import json
import os
import shlex
import shutil
import stat
import subprocess
import sys
from pathlib import Path

import pytest
from hardship import HOME, HOOK, SESSIONS, STATE, X, frames, nothing_left, payload, record
from world import CHECKOUT, World

PACKAGES = ("nd7core", "nd7exec", "nd7tui")


def everything_below(world: World, root: str) -> dict[str, os.stat_result]:
    found = {root: os.lstat(world.path(root))}
    for directory, names, files in os.walk(world.path(root)):
        for name in (*names, *files):
            inside = root + os.path.join(directory, name).removeprefix(str(world.path(root)))
            found[inside] = os.lstat(os.path.join(directory, name))
    return found


def test_directories_are_0700_and_files_0600_whatever_the_umask(world: World) -> None:
    world.write("start", payload("SessionStart", source="startup"))
    script = f"umask 000; exec nd7 run sh -c '{HOOK} < start; {X} -c true; touch ready; read x; true'"
    running = world.start(["sh", "-c", script], stdin=subprocess.PIPE)
    world.wait(lambda: world.exists("ready"))
    assert world.run(["sh", "-c", "umask 000; nd7 allow ~/new; nd7 denials; nd7 verify s-1; nd7 export"]).code == 0
    found = everything_below(world, f"{HOME}/.nd7") | everything_below(world, f"{HOME}/.local/state/nd7")
    assert running.stdin is not None
    running.stdin.close()
    assert running.wait(20) == 0
    found |= everything_below(world, f"{HOME}/.nd7") | everything_below(world, f"{HOME}/.local/state/nd7")
    assert len(found) > 12 and f"{SESSIONS}/{running.pid}/policy.sb" in found and f"{STATE}/sessions/s-1/head" in found
    for path, status in found.items():
        programs = ("nd7-exec", "nd7-shell", "nd7-record")
        runs = stat.S_ISDIR(status.st_mode) or os.path.basename(path) in programs
        assert stat.S_IMODE(status.st_mode) == (0o700 if runs else 0o600), (path, oct(status.st_mode))
        assert status.st_uid == world.uid, path
    cache = everything_below(world, f"{HOME}/.cache/nd7") if world.exists(f"{HOME}/.cache/nd7") else {}
    assert not [path for path, status in cache.items() if status.st_mode & 0o077], cache


@pytest.mark.parametrize("link", [f"{HOME}/.nd7", SESSIONS, STATE, f"{STATE}/sessions", f"{STATE}/bin"])
def test_a_link_where_a_directory_of_nd7s_should_be(world: World, link: str) -> None:
    """Whatever it does, nothing is kept where others could change it, and nothing of theirs is changed."""
    world.mkdir("/tmp/theirs", 0o777)
    world.write("/tmp/theirs/mine", "untouched")
    world.mkdir(os.path.dirname(link), 0o700)
    world.path(link).symlink_to("/tmp/theirs")
    world.path("/tmp/theirs").chmod(0o777)
    world.write("start", payload("SessionStart", source="startup"))
    done = world.run(["nd7", "run", "sh", "-c", f"echo ran > ran; {HOOK} < start; true"])
    assert "Traceback" not in done.err
    assert world.listdir("/tmp/theirs") == ["mine"], done
    assert world.read("/tmp/theirs/mine") == "untouched"
    if done.code == 126:
        assert not world.exists("ran") and len(done.err.splitlines()) <= 2, done
    nothing_left(world)


@pytest.mark.parametrize("name", ["events.ndjson", "head", "lock", ""])
def test_a_link_in_the_logs_place_is_not_followed(world: World, name: str) -> None:
    world.write(f"{HOME}/victim/file", "untouched")
    world.mkdir(f"{STATE}/sessions", 0o700)
    for path in (STATE, f"{STATE}/sessions", f"{HOME}/.local/state"):
        world.path(path).chmod(0o700)
    if name:
        world.mkdir(f"{STATE}/sessions/s-1", 0o700)
    target = f"{HOME}/victim/file" if name else f"{HOME}/victim"
    world.path(f"{STATE}/sessions/s-1/{name}".rstrip("/")).symlink_to(target)
    world.write("start", payload("SessionStart", source="startup"))
    done = world.run(["nd7", "run", "sh", "-c", f"{HOOK} < start"])
    assert "nd7 record: " in done.err and "Traceback" not in done.err, done
    assert world.read(f"{HOME}/victim/file") == "untouched" and world.listdir(f"{HOME}/victim") == ["file"]
    assert [frame for frame in frames(world) if frame["kind"] == "gap"]


@pytest.mark.parametrize("name", ["record.json", "policy.sb"])
def test_a_link_in_a_live_sessions_directory_is_replaced_and_not_followed(world: World, name: str) -> None:
    running = world.start(["nd7", "run", "sh", "-c", f"read x; {X} -c 'echo ran'"], stdin=subprocess.PIPE)
    world.wait(lambda: "nd7 zygote" in " ".join(world.processes().values()))
    path = f"{SESSIONS}/{running.pid}/{name}"
    world.wait(lambda: world.exists(path) and record(world, running.pid)["canary"])
    world.write(f"{HOME}/victim", world.read(path), 0o600)
    world.path(path).unlink()
    world.path(path).symlink_to(f"{HOME}/victim")
    before = world.read(f"{HOME}/victim")
    done = world.run(["nd7", "allow", "--session", str(running.pid), f"{HOME}/new"])
    assert "Traceback" not in done.err and world.read(f"{HOME}/victim") == before
    out, err = running.communicate(b"\n", 30)
    if name == "policy.sb" and done.code:
        assert b"ran" not in out and b"nd7-exec: read " in err, (out, err)
    nothing_left(world)


HOSTILE = [
    "git",
    "python",
    "python3",
    "sh",
    "bash",
    "zsh",
    "env",
    "tmux",
    "ps",
    "less",
    "vi",
    "claude",
    "node",
    "uname",
]
MODULES = [*PACKAGES, "json", "textual", "rich", "watchfiles", "blake3", "argparse", "difflib", "sqlite3", "encodings"]
MODULES += ["sitecustomize", "usercustomize", "site", "posix", "typing", "dataclasses", "subprocess", "conftest"]


def poison(world: World) -> None:
    """A project in which everything that anybody might run leaves a mark outside, where no session can write."""
    mark = f"{HOME}/marks"
    world.mkdir(mark)
    for name in HOSTILE:
        for place in (name, f"bin/{name}", f".venv/bin/{name}", f"node_modules/.bin/{name}"):
            real = f"/usr/bin/{name}" if name != "claude" else "/bin/true"
            world.write(place, f'#!/bin/sh\n/bin/touch {mark}/program-{name}\nexec {real} "$@"\n', 0o755)
    for name in MODULES:
        world.write(f"{name}.py", f"open('{mark}/module-{name}', 'w').close()\n")
        if name in PACKAGES:
            for module in ("__init__", "cli", "errors", "client", "launch"):
                world.write(f"{name}/{module}.py", f"open('{mark}/package-{name}-{module}', 'w').close()\n")
    touch = f"/bin/touch {mark}"
    world.write(".env", f"PATH=.\nBASH_ENV=./.bashrc\nX=$({touch}/env)\n")
    for name in (".zshrc", ".zshenv", ".bashrc", ".profile", ".envrc", ".bash_profile", ".inputrc"):
        world.write(name, f"{touch}/shell-{name}\n")
    world.write(".python-version", "../../home/dev/project/bin\n")
    keys = "".join(
        f"\t{key} = {touch}/git-{key}\n" for key in ("fsmonitor", "pager", "sshCommand", "editor", "askPass")
    )
    world.write(".git/config", f"[core]\n{keys}[alias]\n\tstatus = !{touch}/alias\n")
    world.write(".git/HEAD", "ref: refs/heads/main\n")
    for hook in ("post-checkout", "pre-commit", "fsmonitor-watchman", "post-index-change"):
        world.write(f".git/hooks/{hook}", f"#!/bin/sh\n{touch}/hook-{hook}\n", 0o755)
    hooks = {"hooks": [{"type": "command", "command": f"{touch}/claude-hook"}]}
    events = ("SessionStart", "PreToolUse", "PostToolUse", "Stop")
    world.write(
        ".claude/settings.json", json.dumps({"hooks": {event: [hooks] for event in events}, "env": {"PATH": "."}})
    )
    world.write(".mcp.json", json.dumps({"mcpServers": {"x": {"command": "/bin/touch", "args": [f"{mark}/mcp"]}}}))
    world.write("pyproject.toml", "[tool.nd7]\nx = 1\n[tool.pytest.ini_options]\naddopts = '-p conftest'\n")
    world.write(".tmux.conf", f"run-shell '{touch}/tmux'\n")
    world.write("pyvenv.cfg", "home = /home/dev/project/bin\n")


COMMANDS = [
    *("run true", "run claude", "run sh -c true", "run --detach --name later true", "run --help", "--help", "nonsense"),
    *("sessions", "sessions --json", "denials", "grants", "allow ~/new", "deny ~/new", "why ~/x", "why --json a.b:443"),
    *("verify s-1", "export", "export --format md", "explain", "record", "doctor", "doctor --json", "man"),
    *("completions bash", "deny --help", "attach", "demo --help"),
]


def test_nothing_of_a_hostile_project_is_run(world: World) -> None:
    poison(world)
    world.write("/home/dev/start", payload("SessionStart", source="startup"))
    live = world.start(["nd7", "run", "--name", "live", "sleep", "300"])
    world.wait(lambda: "sleep 300" in world.processes().values(), what=world.processes)
    path = f".:{world.project}:{world.project}/bin:{world.files}/bin:/usr/bin:/bin"
    shells = {"SHELL": f"{world.project}/bin/bash", "PAGER": "less", "EDITOR": "vi", "PATH": path}
    for command in COMMANDS:
        script = f"exec {world.files}/bin/nd7 {command} < /home/dev/start"
        done = world.run(["/bin/sh", "-c", script], env=shells)
        assert "Traceback" not in done.err, (command, done.err)
        assert world.listdir(f"{HOME}/marks") == [], command
    assert frames(world, "s-1")
    variables = [f"{name}={value}" for name, value in shells.items()]
    screen = world.terminal(["/usr/bin/env", *variables, f"{world.files}/bin/nd7", "tui"])
    screen.wait_for("live")
    for key in ("?", "Escape", "a", "Escape", "H", "Escape", "p", "Escape", "c", "y"):
        screen.keys(key)
        assert world.listdir(f"{HOME}/marks") == [], key
    screen.keys("q")
    screen.wait_for("EXITED")
    assert world.listdir(f"{HOME}/marks") == []
    live.terminate()
    assert live.wait(20) == 143
    assert world.listdir(f"{HOME}/marks") == []


def test_nd7s_python_does_not_take_modules_from_where_the_session_writes(world: World) -> None:
    for where in (world.project, ".", "sub", "/tmp/modules"):
        world.mkdir(where)
        done = world.run(["nd7", "run", "touch", "ran"], env={"PYTHONPATH": where})
        assert done.code == 126 and "takes modules from" in done.err and "unset PYTHONPATH" in done.err, done
    done = world.run(["nd7", "run", "touch", "ran"], env={"PYTHONPYCACHEPREFIX": "/tmp/cache"})
    assert done.code == 126 and "/tmp/cache" in done.err, done
    done = world.run([sys.executable, "-m", "nd7tui.cli", "run", "touch", "ran"])
    assert done.code == 126 and world.project in done.err, done
    assert not world.exists("ran") and not pids(world)
    world.mkdir(f"{HOME}/lib")
    assert world.run(["nd7", "run", "touch", "ran"], env={"PYTHONPATH": f"{HOME}/lib"}).code == 0


def pids(world: World) -> list[str]:
    return [name for name in world.listdir(SESSIONS) if name.isdigit()]


def copy(world: World, where: str) -> list[str]:
    """nd7's packages, copied to a place of the world's user, and the command line that runs them from there."""
    for package in PACKAGES:
        shutil.copytree(CHECKOUT / package, world.path(f"{where}/{package}"), ignore=shutil.ignore_patterns("*.pyc"))
    world.mkdir(where)
    if world.root:
        for path in [world.path(where), *world.path(where).rglob("*")]:
            os.chown(path, world.uid, world.gid)
    start = f"import sys; sys.path.insert(0, {where!r}); from nd7tui.cli import main; sys.exit(main())"
    return [sys.executable, "-P", "-c", start]


def test_its_own_code_in_the_project(world: World) -> None:
    nd7 = copy(world, f"{world.project}/.venv/lib")
    done = world.run([*nd7, "run", "touch", "ran"])
    assert done.code == 126 and "nd7's own code" in done.err and "it could change what confines it" in done.err, done
    assert "install nd7 outside of it" in done.err and not world.exists("ran")
    done = world.run([*nd7, "run", "touch", "ran"], cwd=".venv/lib/nd7exec")
    assert done.code == 126 and "ran" not in world.listdir(".venv/lib/nd7exec"), done
    assert world.run(["nd7", "run", "touch", "ran"]).code == 0  # another nd7, from outside


def test_a_virtual_environment_in_the_project(world: World) -> None:
    """Its Python is a link that the session could turn elsewhere; what the link leads to is out of reach."""
    base = os.path.realpath(sys.executable)
    world.write(".venv/pyvenv.cfg", f"home = {os.path.dirname(base)}\ninclude-system-site-packages = false\n")
    world.mkdir(".venv/bin")
    world.path(".venv/bin/python").symlink_to(base)
    packages = [str(CHECKOUT), *(path for path in sys.path if path.endswith("site-packages"))]
    start = f"import sys; sys.path += {packages!r}; from nd7tui.cli import main; sys.exit(main())"
    done = world.run([f"{world.project}/.venv/bin/python", "-P", "-c", start, "run", "touch", "ran"])
    assert done.code == 126 and ".venv" in done.err and "install nd7 outside" in done.err, done
    assert not world.exists("ran")


TRIES = """
cd ~; N={where}
for f in $N/nd7exec/client.py $N/nd7exec/new.py $N/new.py; do echo x >> $f && echo CHANGED $f; done
mv $N $N.old && echo MOVED; mv {above} {above}.old && echo MOVED above; mv $N/nd7exec $N/x && echo MOVED package
rm -rf $N/nd7core; ls $N/nd7core/paths.py; ln -s / $N/nd7exec/l && echo LINKED; touch ~/free && echo free
"""


@pytest.mark.parametrize("wide", [HOME, f"{HOME}/apps"])
def test_a_grant_that_would_hold_its_own_code_does_not_open_that(world: World, wide: str) -> None:
    where = f"{HOME}/apps/deep/nd7"
    nd7 = copy(world, where)
    world.write("tries", TRIES.format(where=where, above=os.path.dirname(where)))
    script = f"touch ready; read x; {X} -c 'bash tries' 2>/dev/null"
    running = world.start([*nd7, "run", "bash", "-c", script], stdin=subprocess.PIPE)
    world.wait(lambda: world.exists("ready"))
    plain = world.run([*nd7, "allow", "--session", str(running.pid), wide])
    assert plain.code != 0 and "--force" in plain.err, plain
    inside = world.run([*nd7, "allow", "--force", f"{where}/nd7exec"])
    assert inside.code != 0 and "nd7 itself runs" in inside.err, inside
    assert world.run([*nd7, "allow", "--force", wide]).code == 0
    out, _ = running.communicate(b"\n", 60)
    assert out.decode().split() == [f"{where}/nd7core/paths.py", *(["free"] if wide == HOME else [])]
    text = world.path(f"{where}/nd7exec/client.py").read_bytes()
    assert text == (CHECKOUT / "nd7exec/client.py").read_bytes()


def test_the_users_own_modules_which_python_would_run_at_its_next_start(world: World) -> None:
    """Installed by `pip install --user`, nd7 starts with `usercustomize` from there, even if there is none yet."""
    base = os.path.realpath(getattr(sys, "_base_executable", sys.executable))
    packages = [str(CHECKOUT), *(path for path in sys.path if path.endswith("-packages"))]
    start = f"import sys; sys.path[:0] = {packages!r}; from nd7tui.cli import main; sys.exit(main())"
    nd7 = [base, "-P", "-c", start]
    own = world.run([base, "-c", "import site; print(site.ENABLE_USER_SITE, site.USER_SITE)"]).out.split()
    assert own[0] == "True" and own[1].startswith(HOME)
    tries = f"echo x > {own[1]}/usercustomize.py && echo BAD; mv ~/.local ~/.old && echo MOVED; > ~/free && echo free"
    running = world.start([*nd7, "run", "bash", "-c", f"touch ready; read x; {X} -c '{tries}'"], stdin=subprocess.PIPE)
    world.wait(lambda: world.exists("ready"))
    refused = world.run([*nd7, "allow", "--force", HOME])
    assert refused.code == 1 and own[1] in refused.err and "make it first" in refused.err, refused
    world.mkdir(own[1])
    assert world.run([*nd7, "allow", "--force", HOME]).code == 0
    assert running.communicate(b"\n", 30)[0] == b"free\n"


def test_the_launchers_are_out_of_reach_and_independent_of_the_project(world: World) -> None:
    script = f"echo x >> {X}; rm {X}; mv ~/.local ~/.old; echo 'exec true' > {HOOK}; PYTHONPATH=. {X} -c 'echo ran'"
    world.write("sitecustomize.py", f"open('{HOME}/marks', 'w')")
    done = world.run(["nd7", "run", "bash", "-c", script], env={"PYTHONSTARTUP": "./sitecustomize.py"})
    assert done.out == "ran\n" and done.err.count("Read-only file system") >= 3, done
    first = world.read(X).splitlines()[0]
    assert shlex.split(first)[0].startswith("#!/") and first.endswith(" -IS")
    assert not shlex.split(first)[0].startswith(f"#!{HOME}")
    assert not Path(str(world.path(f"{HOME}/marks"))).exists()


SETTINGS = """
C={config}; cd $C
echo 'grant = "q"' > nd7/keys.toml && echo KEYS; mkdir -p nd7/themes && echo THEMES; mv nd7 old && echo MOVED
rm -rf nd7; ln -s / nd7/l && echo LINKED; cd /; mv $C $C.old && echo MOVED above; [ -d $C/nd7 ] && echo kept
"""


@pytest.mark.parametrize("before", [[], [sys.executable, f"{CHECKOUT}/tests/support/no_namespaces.py"]])
@pytest.mark.parametrize("how", ["granted", "project", "lasting", "moved"])
def test_which_key_grants_is_never_a_sessions_to_say(world: World, how: str, before: list[str]) -> None:
    """A session that wrote keys.toml could have the person grant with any key that they press."""
    config = f"{HOME}/.config" if how != "moved" else f"{world.project}/settings"
    world.mkdir(config)
    world.write("tries", SETTINGS.format(config=config))
    environ = {"XDG_CONFIG_HOME": config} if how == "moved" else {}
    here = ["--project", config] if how == "project" else []
    script = f"touch {world.tmp}/ready; read x; {X} -c 'bash {world.project}/tries' 2>/dev/null"
    nd7 = [*before, "nd7"]
    if how == "lasting":
        first = world.start(["nd7", "run", "sh", "-c", "read x"], stdin=subprocess.PIPE)
        world.wait(lambda: str(first.pid) in world.run(["nd7", "sessions"]).out)
        assert world.run(["nd7", "allow", "--project", "--force", config]).code == 0
        first.communicate(b"\n", 30)
        world.path(f"{config}/nd7").rmdir()
    running = world.start([*nd7, "run", *here, "bash", "-c", script], stdin=subprocess.PIPE, env=environ)
    world.wait(lambda: world.exists(f"{world.tmp}/ready"))
    for path in (f"{config}/nd7", f"{config}/nd7/keys.toml"):
        refused = world.run(["nd7", "allow", "--force", path])
        assert refused.code == 1 and "nd7's own settings" in refused.err, refused
    why = world.run(["nd7", "why", f"{config}/nd7/keys.toml", "--write"])
    assert "cannot be granted" in why.out and "which key grants" in why.out, why
    if how == "granted":
        assert world.run(["nd7", "allow", "--force", config]).code == 0
    assert running.communicate(b"\n", 60)[0] == b"kept\n"
    assert world.listdir(f"{config}/nd7") == []


def test_settings_behind_a_link_that_a_session_could_turn(world: World) -> None:
    world.mkdir(f"{HOME}/dots/nd7")
    world.mkdir(f"{HOME}/.config")
    world.path(f"{HOME}/.config/nd7").symlink_to(f"{HOME}/dots/nd7")
    refused = world.run(["nd7", "run", "--project", f"{HOME}/.config", "true"])
    assert refused.code == 126 and "could turn" in refused.err, refused
    running = world.start(["nd7", "run", "bash", "-c", "touch ready; read x"], stdin=subprocess.PIPE)
    world.wait(lambda: world.exists("ready"))
    for path in (f"{HOME}/.config", HOME, f"{HOME}/dots/nd7"):
        denied = world.run(["nd7", "allow", "--force", path])
        assert denied.code == 1 and "nd7's own settings" in denied.err, denied
    running.communicate(b"\n", 30)
