"""The canary: each leg of the way of a denial is broken for real, and the session's light and log say which."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from agent import bash, said
from hardship import HOME, HOOK, SESSIONS, STATE, X, frames, nothing_left, payload, record, small_disk
from world import World


def light(world: World, pid: int) -> str:
    """The record's word, "" before there is one."""
    path = f"{SESSIONS}/{pid}/record.json"
    found = record(world, pid)["canary"] if world.exists(path) else {}
    return str(found.get("state", ""))


def reach(world: World, pid: int, state: str, seconds: float = 25) -> dict[str, Any]:
    """Wait for a state, and give the record's whole canary."""
    seen: list[str] = []
    world.wait(lambda: seen.append(light(world, pid)) or seen[-1] == state, seconds, lambda: (seen[-1], state))
    found = record(world, pid)["canary"]
    assert isinstance(found, dict)
    return found


def start(world: World, words: list[str] | None = None) -> subprocess.Popen[bytes]:
    """A session whose agent is a shell that reads its commands."""
    return world.start([*(words or ["nd7"]), "run", "bash"], stdin=subprocess.PIPE)


def tell(running: subprocess.Popen[bytes], line: str) -> None:
    assert running.stdin is not None
    running.stdin.write(f"{line}\n".encode())
    running.stdin.flush()


def end(world: World, running: subprocess.Popen[bytes]) -> str:
    """End it; gives what it said on stderr."""
    _, err = running.communicate(timeout=30)
    nothing_left(world)
    return err.decode()


def canaries(world: World) -> list[str]:
    found = [frame for frame in frames(world) if frame["kind"] == "canary"]
    assert {frame["source"] for frame in found} <= {"nd7:canary"}
    return [frame["body"]["state"] for frame in found]


def test_enforcing_at_the_start_and_again_when_the_policy_changes(world: World) -> None:
    running = start(world)
    found = reach(world, running.pid, "enforcing")
    assert found["wrong"] == [] and found["checks"] == {
        "write inside": "yes", "write outside": "no", "read hidden": "no", "connect": "no", "unix socket": "no",
    }  # fmt: skip
    assert canaries(world) == ["enforcing"]
    first = found["ts"]
    assert world.run(["nd7", "allow", f"{HOME}/new"]).code == 0
    world.wait(lambda: record(world, running.pid)["canary"]["ts"] > first)
    assert light(world, running.pid) == "enforcing" and canaries(world)[1:] in (["enforcing"], ["enforcing"] * 2)
    assert world.run(["nd7", "allow", "--force", HOME]).code == 0
    second = record(world, running.pid)["canary"]["ts"]
    world.wait(lambda: record(world, running.pid)["canary"]["ts"] > second)
    # The home directory is granted now: what must be refused is tried elsewhere.
    assert reach(world, running.pid, "enforcing")["checks"]["write outside"] == "no"
    end(world, running)


def test_nothing_of_it_is_left_and_none_of_it_counts(world: World) -> None:
    running = start(world)
    reach(world, running.pid, "enforcing")
    assert not [name for name in (*world.listdir(HOME), *world.listdir("/tmp")) if "canary" in name]
    assert {frame["kind"] for frame in frames(world)} == {"session", "canary"}  # no attempt, no hook, no gap
    assert not [name for name in world.listdir(f"{STATE}/sessions") if name.startswith(".")]
    end(world, running)


UNCONFINED = """
import sys
from nd7exec.linux import confinement, namespaces
namespaces.usable = lambda: "switched off for a test"
confinement.restrict = lambda *arguments, **more: None
from nd7tui.cli import main
sys.exit(main())
"""


def test_a_kernel_that_refuses_no_file_is_blindness(world: World) -> None:
    """Commands run without their Landlock layer, as on a kernel with a hole: the policy says no, the kernel yes."""
    running = start(world, [sys.executable, "-P", "-c", UNCONFINED])
    found = reach(world, running.pid, "blind")
    assert "write outside: yes, not no" in found["wrong"] and "read hidden: yes, not no" in found["wrong"]
    assert canaries(world) == ["blind"]
    assert "blind" in world.run(["nd7", "sessions"]).out
    assert "the canary failed" in end(world, running)


EVERYTHING = """(version 1)
(deny default)
(allow process-exec process-fork signal file-read* file-write*)
(allow network-outbound (remote tcp "*:443"))
"""


def test_a_policy_that_refuses_nothing_is_blindness(world: World) -> None:
    running = start(world)
    reach(world, running.pid, "enforcing")
    policy = world.path(f"{SESSIONS}/{running.pid}/policy.sb")
    policy.write_text(EVERYTHING)
    tell(running, f"{X} -c true")
    found = reach(world, running.pid, "blind")
    assert any("refuses no write" in why for why in found["wrong"]), found
    end(world, running)


def replaced(world: World, running: subprocess.Popen[bytes]) -> None:
    world.path(HOOK).write_text("#!/bin/sh\necho not it\n")


def failing(world: World, running: subprocess.Popen[bytes]) -> None:
    world.path(HOOK).write_text("#!/bin/sh\nexit 1\n")


def gone(world: World, running: subprocess.Popen[bytes]) -> None:
    world.path(HOOK).unlink()


def stopped(world: World, running: subprocess.Popen[bytes]) -> None:
    world.path(HOOK).chmod(0o600)


@pytest.mark.parametrize("how", [replaced, failing, gone, stopped])
def test_a_hook_that_does_not_deliver_is_dead(
    world: World, how: Callable[[World, subprocess.Popen[bytes]], None]
) -> None:
    running = start(world)
    reach(world, running.pid, "enforcing")
    how(world, running)
    assert world.run(["nd7", "allow", f"{HOME}/new"]).code == 0  # the policy changes, so it is tried again
    found = reach(world, running.pid, "hooks dead")
    assert found["checks"]["write outside"] == "no" and "did not arrive" in found["wrong"][0], found
    assert canaries(world)[-1] == "hooks dead"
    assert "hooks dead" in world.run(["nd7", "sessions"]).out
    end(world, running)


def test_an_agent_whose_hooks_tell_nothing(world: World) -> None:
    """The hook works, but the agent does not call it: a command of the agent's comes of which no hook told."""
    running = start(world)
    reach(world, running.pid, "enforcing")
    tell(running, f"AI_AGENT=x_agent {X} -c 'echo unseen'")
    found = reach(world, running.pid, "hooks dead")
    assert "no hook told" in found["wrong"][0] and "unseen" in found["wrong"][0]
    world.write("call", payload("PreToolUse", tool_name="Bash", tool_use_id="t", tool_input={"command": "echo seen"}))
    world.write("start", payload("SessionStart", source="startup"))
    tell(running, f"{HOOK} < start; {HOOK} < call; AI_AGENT=x_agent {X} -c 'echo seen'")
    reach(world, running.pid, "enforcing")
    assert canaries(world) == ["enforcing", "hooks dead", "enforcing"]
    end(world, running)


def test_a_full_disk_under_the_log_stops_it_and_room_lets_it_go_on(world: World) -> None:
    world.mkdir(STATE)
    small_disk(world, STATE, 1 << 20)
    running = start(world)
    reach(world, running.pid, "enforcing")
    filler = world.path(f"{STATE}/filler")
    with filler.open("wb", buffering=0) as file:
        try:
            while True:
                file.write(bytes(1024))
        except OSError:
            pass
    world.write("start", payload("SessionStart", source="startup"))
    tell(running, f"{HOOK} < start")
    found = reach(world, running.pid, "log stopped")
    assert "No space left on device" in found["wrong"][0]
    assert "log stopped" in world.run(["nd7", "sessions"]).out
    filler.unlink()
    reach(world, running.pid, "enforcing")
    assert canaries(world)[-1] == "enforcing"
    assert "cannot be written" in end(world, running)


def test_a_log_directory_that_cannot_be_written(world: World) -> None:
    world.mkdir(f"{STATE}/sessions", 0o700)
    for path in (f"{HOME}/.local", f"{HOME}/.local/state", STATE):
        world.path(path).chmod(0o700)
    world.path(f"{STATE}/sessions").chmod(0o500)
    running = start(world)
    found = reach(world, running.pid, "log stopped")
    assert "Permission denied" in found["wrong"][0] and found["checks"]["write outside"] == "no"
    world.path(f"{STATE}/sessions").chmod(0o700)
    reach(world, running.pid, "enforcing")
    assert canaries(world)[-1] == "enforcing"
    end(world, running)


def test_a_log_that_was_changed_is_not_gone_on_with(world: World) -> None:
    running = start(world)
    world.write("start", payload("SessionStart", source="startup"))
    tell(running, f"{HOOK} < start")
    reach(world, running.pid, "enforcing")
    world.wait(lambda: world.exists(f"{STATE}/sessions/s-1/head"))
    world.write(f"{STATE}/sessions/s-1/head", f"7 {'0' * 64}\n", 0o600)
    tell(running, f"{HOOK} < start")
    found = reach(world, running.pid, "log stopped")
    assert "frame" in found["wrong"][0], found
    end(world, running)


def test_a_dead_writer_of_the_log(world: World) -> None:
    running = start(world)
    reach(world, running.pid, "enforcing")
    (scribe,) = (pid for pid, line in world.processes().items() if line.startswith("nd7 scribe"))
    limit = ["prlimit", "--pid", str(running.pid)]
    assert world.run([*limit, "--nproc=1:"]).code == 0
    world.run(["kill", "-9", str(scribe)])
    found = reach(world, running.pid, "log stopped")
    assert "cannot be started" in found["wrong"][0]
    assert world.run([*limit, "--nproc=4096:"]).code == 0
    reach(world, running.pid, "enforcing")
    end(world, running)


def test_a_writer_of_the_log_that_hangs(world: World) -> None:
    running = start(world)
    reach(world, running.pid, "enforcing")
    (scribe,) = (pid for pid, line in world.processes().items() if line.startswith("nd7 scribe"))
    world.run(["kill", "-STOP", str(scribe)])
    found = reach(world, running.pid, "log stopped", 40)
    assert "does not answer" in found["wrong"][0]
    world.run(["kill", "-CONT", str(scribe)])
    reach(world, running.pid, "enforcing")
    end(world, running)


def test_a_dead_command_starter_is_blindness(world: World) -> None:
    running = start(world)
    reach(world, running.pid, "enforcing")
    zygote = min(pid for pid, line in world.processes().items() if line.startswith("nd7 zygote"))
    world.run(["kill", "-9", str(zygote)])
    assert "was killed" in reach(world, running.pid, "blind")["wrong"][0]
    end(world, running)


def test_no_denials_is_said_only_under_a_green_light(world: World) -> None:
    # By its name an agent, of which hooks would tell: of any other program nothing is claimed.
    world.write("claude", '#!/bin/bash\nwhile read -r line; do eval "$line"; done\n', 0o755)
    running = world.start(["nd7", "run", "./claude"], stdin=subprocess.PIPE)
    reach(world, running.pid, "enforcing")
    screen = world.terminal(["nd7", "tui"])
    screen.wait_for("Nothing was refused so far, and a test refusal")
    world.path(HOOK).chmod(0o600)
    world.run(["nd7", "allow", f"{HOME}/new"])
    screen.wait_for("A refusal might not be seen")
    assert "Nothing was refused" not in screen.screen() and "hooks dead" in screen.screen()
    screen.keys("q")
    screen.wait_for("EXITED")
    screen.close()
    (row,) = json.loads(world.run(["nd7", "sessions", "--json"]).out)
    assert row["canary"] == "dark" and row["light"].startswith("hooks dead: ")
    end(world, running)


@pytest.mark.e2e
def test_the_real_agent_with_a_hook_that_breaks_while_it_works(world: World) -> None:
    """Its hooks fail on the agent's side: it goes on, by its own permissions, and its transcript tells of them."""
    turns = [bash("touch waiting; until [ -e go ]; do sleep 0.1; done"), bash("echo unseen"), said("done")]
    with ThreadPoolExecutor(1) as pool:
        future = pool.submit(lambda: world.claude({"turns": turns}))
        try:
            world.wait(lambda: world.exists("waiting") or future.done(), 40)
            (pid,) = (int(name) for name in world.listdir(SESSIONS) if name.isdigit())
            reach(world, pid, "enforcing")
            world.path(HOOK).write_text("#!/bin/sh\nexit 1\n")
        finally:
            world.write("go", "")
        done = future.result(60)
    assert done.code == 0, done.err
    assert canaries(world) == ["enforcing", "hooks dead"]
    (wrong,) = [frame["body"]["wrong"] for frame in frames(world) if frame["kind"] == "canary"][-1]
    assert "hook" in wrong, wrong
