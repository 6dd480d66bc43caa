"""Sessions that live on without a terminal, and terminals that come and go."""

from __future__ import annotations

import json
import os
import signal
import sys
import time

from world import World

SESSIONS = "/home/dev/.nd7/sessions"


def detached(world: World, *argv: str) -> int:
    done = world.run(["nd7", "run", "--detach", "--name", "night", *argv])
    assert done.code == 0, done.err
    assert "detaches" not in done.err and "Ctrl+\\ then d" in done.err and "nd7: session" in done.err
    return int(done.out)


def test_it_goes_on_and_its_screen_comes_back(world: World):
    pid = detached(world, "bash", "--norc", "-i")
    screen = world.terminal(["nd7", "attach"], size=(100, 30))
    screen.wait_for("bash")
    screen.keys("echo $((41+1)); stty size", "Enter")
    screen.wait_for("30 100")
    screen.keys("C-\\", "d")
    shown = screen.wait_for("EXITED 0")
    assert f"nd7 attach {pid}" in shown
    again = world.terminal(["nd7", "attach", "night"], size=(90, 20))
    assert "42" in again.wait_for("30 100")
    again.keys("exit 6", "Enter")
    again.wait_for("EXITED 6")
    world.wait(lambda: not os.path.exists(f"/proc/{pid}"))
    assert world.listdir(SESSIONS) == [".lock"]


def test_a_full_screen_program_redraws_and_its_modes_come_back_and_are_left(world: World):
    world.write("f", "".join(f"line {n}\n" for n in range(500)))
    detached(world, "vim", "-u", "NONE", "-c", "set mouse=a", "f")
    screen = world.terminal(["sh", "-c", "echo before; nd7 attach; echo after"], size=(100, 30))
    screen.wait_for("line 28")
    assert screen.tmux("display", "-p", "#{alternate_on}#{mouse_any_flag}").strip() == "11"
    screen.keys("C-\\", "d")
    shown = screen.wait_for("after")
    assert "before" in shown and "line 28" not in shown
    assert screen.tmux("display", "-p", "#{alternate_on}#{mouse_any_flag}").strip() == "00"
    smaller = world.terminal(["nd7", "attach"], size=(60, 12))
    smaller.wait_for("line 10")
    smaller.keys(":q!", "Enter")
    smaller.wait_for("EXITED 0")


def test_two_at_once_see_the_same_and_the_size_is_the_last_typists(world: World):
    detached(world, "bash", "--norc", "-i")
    one = world.terminal(["nd7", "attach"], size=(100, 30))
    two = world.terminal(["nd7", "attach"], size=(80, 24))
    one.wait_for("bash")
    two.wait_for("bash")
    one.keys("stty size; echo $((1+1))one", "Enter")
    one.wait_for("30 100")
    two.wait_for("2one")
    two.keys("stty size", "Enter")
    one.wait_for("24 80")
    one.close()
    two.keys("echo $((2+2))two", "Enter")
    two.wait_for("4two")


def test_killing_whoever_is_attached_leaves_the_session(world: World):
    pid = detached(world, "bash", "--norc", "-i")
    screen = world.terminal(["nd7", "attach"])
    screen.wait_for("bash")
    (client,) = (p for p, line in world.processes().items() if line.endswith("nd7tui.cli attach"))
    os.kill(client, signal.SIGKILL)
    screen.wait_for("EXITED 137")
    again = world.terminal(["nd7", "attach", str(pid)])
    again.wait_for("bash")
    again.close()
    time.sleep(0.5)
    assert world.alive(pid)
    os.kill(pid, signal.SIGTERM)
    world.wait(lambda: not any("bash --norc" in line for line in world.processes().values()), what=world.processes)
    world.wait(lambda: world.listdir(SESSIONS) == [".lock"])


def test_a_session_in_a_terminal_of_its_own_can_be_looked_at_from_another(world: World):
    first = world.terminal(["nd7", "run", "bash", "--norc", "-i"], size=(100, 30))
    first.wait_for("bash")
    second = world.terminal(["nd7", "attach"], size=(80, 24))
    second.wait_for("bash")
    second.keys("stty size", "Enter")
    first.wait_for("24 80")
    second.keys("C-\\", "d")
    second.wait_for("EXITED 0")
    first.keys("clear; stty size", "Enter")
    first.wait_for("30 100")


def test_a_detached_program_that_ends_at_once_is_said_to(world: World) -> None:
    done = world.run(["nd7", "run", "--detach", "bash", "-c", "exit 3"])
    assert done.code == 3 and "bash ended at once with exit status 3" in done.err
    assert "nd7 attach" not in done.err


def test_what_goes_wrong_is_a_sentence(world: World):
    done = world.run(["nd7", "attach"])
    assert done.code == 1 and "no session is running" in done.err
    running = world.start(["nd7", "run", "sleep", "60"])
    world.wait(lambda: "sleep 60" in world.processes().values())
    done = world.run(["nd7", "attach"])
    assert done.code == 2 and "needs a terminal" in done.err
    screen = world.terminal(["nd7", "attach"])
    screen.wait_for("no terminal to attach to")
    running.terminate()
    done = world.run(["nd7", "run", "--detach", "no-such-program"])
    assert done.code == 127 and "not found" in done.err and done.out == ""


def test_the_dashboard_says_why_a_session_cannot_be_attached_to(world: World):
    world.start(["nd7", "run", "sleep", "60"])
    screen = world.terminal(["nd7", "tui"], size=(100, 30))
    screen.wait_for("1 live")
    screen.keys("BTab", "Down", "Enter")
    screen.wait_for("it was started with its input and output in a file")


def test_peeking_changes_nothing(world: World):
    pid = detached(world, "bash", "--norc", "-i")
    code = (
        "from nd7exec.attach import peek; import json; s = peek(%r);"
        "print(json.dumps([s.rows, s.columns, s.data.decode(), s.about['name']]))"
    )
    world.wait(lambda: "bash" in str(world.processes()))
    time.sleep(0.5)
    done = world.run([sys.executable, "-P", "-c", code % f"{SESSIONS}/{pid}"])
    assert done.code == 0, done.err
    rows, columns, data, name = json.loads(done.out)
    assert (rows, columns, name) == (24, 80, "night") and "bash" in data


def test_nothing_confined_reaches_the_holder(world: World):
    pid = detached(world, "bash", "--norc", "-i")
    code = f"import socket; s = socket.socket(socket.AF_UNIX); s.connect('{SESSIONS}/{pid}/attach.sock')"
    done = world.run(["nd7", "run", "/usr/bin/python3", "-Ic", code])
    assert done.code == 1 and "PermissionError" in done.err


AGENT = """#!/bin/bash
# An agent that can be resumed: says what it was started with, tells its session by a hook, and ends when it is told.
trap 'echo bye; exit 0' TERM
id=0a1b2c3d-0000-4000-8000-000000000009
source=startup; [[ $* == *--resume* ]] && source=resume
printf '{"session_id":"%s","transcript_path":"/x","cwd":"/x","hook_event_name":"SessionStart","source":"%s"}' \\
    $id $source | ~/.local/state/nd7/bin/nd7-record
for word; do [[ $word == --resume ]] && echo resumed; done
echo x 2>/dev/null > ~/extra/by-agent && echo wide || echo narrow
while read -r line; do eval "$line"; done
"""


def test_a_restart_in_place_keeps_pid_and_terminal_and_has_the_grants_in_its_floor(world: World):
    world.mkdir("/home/dev/extra")
    world.write("/home/dev/bin/claude", AGENT, 0o755)
    world.mkdir("/home/dev/bin")
    environ = {"PATH": f"/home/dev/bin:{world.files}/bin:/usr/bin:/bin"}
    done = world.run(["nd7", "run", "--detach", "claude", "a prompt"], env=environ)
    assert done.code == 0, done.err
    pid = int(done.out)
    screen = world.terminal(["nd7", "attach"], size=(100, 30))
    screen.wait_for("narrow")
    world.wait(lambda: '"0a1b2c3d' in world.read(f"{SESSIONS}/{pid}/record.json"))
    assert world.run(["nd7", "allow", "/home/dev/extra"]).code == 0
    restart = f"from nd7exec.attach import restart; restart('{SESSIONS}/{pid}')"
    done = world.run([sys.executable, "-P", "-c", restart])
    assert done.code == 0, done.err
    shown = screen.wait_for("wide")
    assert "resumed" in shown
    screen.keys("stty size", "Enter")
    screen.wait_for("30 100")
    assert [name for name in world.listdir(SESSIONS) if name.isdigit()] == [str(pid)]
    screen.keys("exit 3", "Enter")
    screen.wait_for("EXITED 3")


def test_the_dashboards_restart_brings_a_session_back_in_its_own_terminal(world: World):
    world.mkdir("/home/dev/extra")
    world.write("/home/dev/bin/claude", AGENT, 0o755)
    environ = {"PATH": f"/home/dev/bin:{world.files}/bin:/usr/bin:/bin"}
    screen = world.terminal(["nd7", "run", "claude", "a prompt"], env=environ)
    screen.wait_for("narrow")
    (pid,) = (int(name) for name in world.listdir(SESSIONS) if name.isdigit())
    world.wait(lambda: '"0a1b2c3d' in world.read(f"{SESSIONS}/{pid}/record.json"))
    code = (
        "from nd7tui.restart import Again, restart; from nd7core.paths import places;"
        f"print(restart(places(), Again({pid}, '/home/dev/extra')).said)"
    )
    done = world.run([sys.executable, "-P", "-c", code])
    assert "back in its own terminal" in done.out, done.err
    assert "resumed" in screen.wait_for("wide")
    assert [name for name in world.listdir(SESSIONS) if name.isdigit()] == [str(pid)]
    screen.keys("exit 3", "Enter")
    screen.wait_for("EXITED 3")


def test_what_cannot_be_resumed_is_not_ended(world: World):
    pid = detached(world, "bash", "--norc", "-i")
    world.wait(lambda: any(line.startswith("bash --norc") for line in world.processes().values()))
    restart = f"from nd7exec.attach import restart; restart('{SESSIONS}/{pid}')"
    done = world.run([sys.executable, "-P", "-c", restart])
    assert "only an agent that can resume" in done.err
    time.sleep(0.5)
    assert world.alive(pid)
