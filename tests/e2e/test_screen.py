"""Claude Code on its own screen, in a real terminal, under nd7."""

from __future__ import annotations

import agent
import pytest
from agent import bash, said

pytestmark = pytest.mark.e2e


def frames(world):
    (session_id,) = world.listdir(f"{world.home}/.local/state/nd7/sessions")
    return agent.logs(world, session_id)


def test_a_session_on_its_screen(world):
    screen = agent.interactive(world, {"turns": [bash("echo hi > made; echo x > ~/out", "one"), said("that is all")]})
    assert "Landlock" in screen.screen(history=200)
    agent.say(screen, "please")
    screen.wait_for("that is all")
    assert world.read("made") == "hi\n"
    assert not world.exists(f"{world.home}/out")
    assert "system" in screen.screen() or "denied" in screen.screen()
    agent.say(screen, "! echo typed > typed; echo x > ~/out")
    world.wait(lambda: world.exists("typed"))
    assert not world.exists(f"{world.home}/out")
    typed = world.wait(lambda: [f for f in frames(world) if f["body"].get("outcome") == "typed"])
    assert typed[0]["body"]["tool_input"]["command"].strip().startswith("echo typed")
    screen.resize(90, 40)
    world.wait(lambda: max(map(len, screen.screen().splitlines())) <= 90)
    agent.leave(screen)
    screen.wait_for("EXITED 0")
    world.wait(lambda: world.listdir(f"{world.home}/.nd7/sessions") == [".lock"])
    # No hook tells of a typed command, and the transcript does: that is no gap.
    assert [f["body"]["text"] for f in frames(world) if f["kind"] == "gap"] == []


def test_escape_during_a_command_ends_it_and_is_recorded(world):
    screen = agent.interactive(world, {"turns": [bash("echo $$ > pid; sleep 300", "long"), said("ok")]})
    agent.say(screen, "go")
    world.wait(lambda: world.exists("pid") and world.read("pid").strip())
    screen.keys("Escape")
    screen.wait_for("Interrupted")
    world.wait(lambda: "sleep 300" not in "\n".join(world.processes().values()), what=world.processes)
    found = world.wait(lambda: [f for f in frames(world) if f["source"] == "nd7:transcript"])
    assert found[0]["body"]["tool_use_id"] == "toolu_long"


def test_a_closed_terminal_ends_the_session(world):
    screen = agent.interactive(world, {"turns": [bash("sleep 300", "long"), said("ok")]})
    agent.say(screen, "go")
    world.wait(lambda: any(line.endswith("sleep 300") for line in world.processes().values()))
    screen.close()
    world.wait(lambda: not world.processes(), what=world.processes)
    assert world.listdir(f"{world.home}/.nd7/sessions") == [".lock"]
