"""The worlds that other tests run in: what is inside, and that nothing of the runner's is."""

from __future__ import annotations

import os
import pwd
import signal
import socket
import sys

from world import kept_trees


def test_the_home_is_another_and_the_user_is_nobody_else(world):
    code = "import os, pwd; p = pwd.getpwuid(os.getuid()); print(p.pw_dir, os.path.expanduser('~dev'), os.getcwd())"
    done = world.run([sys.executable, "-ISc", code])
    assert done.out.split() == [world.home, world.home, world.project]
    assert done.code == 0
    assert world.uid != 0
    assert world.run(["id", "-u"]).out.strip() == str(world.uid)
    assert "CapEff:\t0000000000000000" in world.run(["cat", "/proc/self/status"]).out


def test_the_runners_own_home_cannot_be_seen(world):
    home_of = {entry.pw_uid: entry.pw_dir for entry in pwd.getpwall()}
    own = home_of.get(os.getuid(), "/home/none")
    assert world.run(["find", own, "-maxdepth", "1", "-name", ".*rc"]).out == ""
    kept = {path.split("/")[2] for path in kept_trees() if path.startswith("/home/")}
    assert set(world.listdir("/home")) == {".world", "dev"} | kept


def test_only_loopback_and_the_scripted_model(world):
    script = world.play({"turns": [{"text": "hello"}]})
    code = (
        "import urllib.request as u; "
        'print(u.urlopen(\'http://127.0.0.1:443/v1/messages\', b\'{"tools": [{"name": "x"}]}\').read().decode())'
    )
    assert "hello" in world.run([sys.executable, "-ISc", code]).out
    assert len(script.requests) == 1
    assert world.run(["cat", "/proc/net/dev"]).out.count(":") == 1
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        probe.listen()
        code = f"import socket; socket.create_connection(('127.0.0.1', {probe.getsockname()[1]}))"
        assert "refused" in world.run([sys.executable, "-ISc", code]).err


def test_files_input_environment_and_status(world):
    world.write("sub/a", "text\n")
    assert world.run(["cat", "a"], cwd="sub").out == "text\n"
    assert world.run(["cat"], input="in\udcff").out == "in\udcff"
    assert world.run(["sh", "-c", "echo $A >&2; exit 3"], env={"A": "b"}).err == "b\n"
    assert world.run(["sh", "-c", "touch new; exit 3"]).code == 3
    assert world.exists("new")
    assert world.run(["sh", "-c", "kill -9 $$"]).code == -signal.SIGKILL
    assert world.run(["touch", "/etc/x"]).code == 1
    assert world.run(["nd7", "--version"]).code == 0


def test_what_is_left_running_is_seen(world):
    world.run(["sh", "-c", "setsid sleep 60 > /dev/null 2>&1 &"])
    world.wait(lambda: list(world.processes().values()) == ["sleep 60"], what=world.processes)
    world.kill()
    assert world.processes() == {}


def test_a_terminal(world):
    screen = world.terminal(["cat"], size=(80, 24))
    screen.keys("hello", "Enter")
    screen.wait_for(lambda text: text.count("hello") == 2)
    screen.keys("C-d")
    screen.wait_for("EXITED 0")
