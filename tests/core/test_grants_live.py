"""Grants against a real session: the kernel lets the next command do what the grant says, and nothing more."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from world import World

pytestmark = pytest.mark.e2e

# An agent that runs what it finds in a file, through nd7-exec, and one thing of its own (as Write and Edit are).
AGENT = """
import os, subprocess, sys, time
exit = os.path.expanduser("~/.local/state/nd7/bin/nd7-exec")
done = 0
open("ready", "w").close()
while True:
    if os.path.exists(f"ask{done}"):
        words = open(f"ask{done}").read()
        if words.startswith("own "):
            try:
                open(words[4:], "a").write("x")
                code, out = 0, ""
            except OSError as error:
                code, out = 1, str(error)
        else:
            ran = subprocess.run([exit, "-c", words], capture_output=True, text=True)
            code, out = ran.returncode, ran.stdout + ran.stderr
        with open("answer.tmp", "w") as answer:
            answer.write(f"{code}\\n{out}")
        os.rename("answer.tmp", f"answer{done}")
        done += 1
    time.sleep(0.02)
"""


class Agent:
    """A session with an agent that does what the test asks."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.asked = 0
        world.write("agent.py", AGENT)
        self.running = world.start(["nd7", "run", "python3", "agent.py"])
        world.wait(lambda: world.exists("ready"), what="the agent")
        (self.pid,) = [name for name in world.listdir(f"{world.home}/.nd7/sessions") if name.isdigit()]

    def ask(self, command: str) -> tuple[int, str]:
        """Run a command as the agent's Bash tool would; its status and its output."""
        number, self.asked = self.asked, self.asked + 1
        self.world.write("ask.tmp", command)
        self.world.path("ask.tmp").rename(self.world.path(f"ask{number}"))
        self.world.wait(lambda: self.world.exists(f"answer{number}"), what=command)
        code, _, out = self.world.read(f"answer{number}").partition("\n")
        return int(code), out

    def nd7(self, *words: str) -> str:
        done = self.world.run(["nd7", *words])
        assert done.code == 0, done.err
        return done.out


@pytest.fixture
def agent(world: World) -> Agent:
    return Agent(world)


def test_a_grant_reaches_the_next_command_and_goes_with_deny(world: World, agent: Agent) -> None:
    world.mkdir(f"{world.home}/cache")
    path = f"{world.home}/cache/x"
    code, out = agent.ask(f"echo 1 > {path}")
    assert code != 0
    assert "denied" in out.lower() or "read-only" in out.lower()
    answer = json.loads(agent.nd7("why", path, "--write", "--json"))["answers"][0]
    assert (answer["policy"]["allowed"], answer["permissions"]["allowed"]) == (False, True)
    agent.nd7("allow", f"{world.home}/cache")
    assert agent.ask(f"echo 1 > {path} && cat {path}") == (0, "1\n")
    assert agent.ask(f"own {path}")[0] == 1  # the agent's own tools have it only after a restart
    assert agent.ask(f"echo 1 > {world.home}/cache2")[0] != 0
    agent.nd7("deny", f"{world.home}/cache")
    assert agent.ask(f"echo 2 > {path}")[0] != 0


def test_what_does_not_exist_yet_can_be_granted(world: World, agent: Agent) -> None:
    home = world.home
    agent.nd7("allow", f"{home}/new-folder")
    agent.nd7("allow", f"{home}/new.txt")
    assert agent.ask(
        f"mkdir -p {home}/new-folder/a && echo 1 > {home}/new-folder/a/b && cat {home}/new-folder/a/b"
    ) == (*(0, "1\n"),)
    assert agent.ask(f"echo 2 > {home}/new.txt && cat {home}/new.txt") == (0, "2\n")


def test_many_grants_at_once_lose_none(world: World, agent: Agent) -> None:
    folders = [f"{world.home}/d{number}" for number in range(8)]
    for folder in folders:
        world.mkdir(folder)
    running = [world.start(["nd7", "allow", folder]) for folder in folders]
    assert [child.wait(60) for child in running] == [0] * len(folders)
    code, out = agent.ask(" && ".join(f"echo 1 > {folder}/x" for folder in folders))
    assert (code, out) == (0, "")


def test_even_a_forced_grant_of_the_home_leaves_the_protected_shut(world: World, agent: Agent) -> None:
    home = world.home
    for name in (".ssh", "docs"):  # and no .aws: it is made, so that it can be kept shut
        world.mkdir(f"{home}/{name}")
    world.write(f"{home}/.ssh/id_ed25519", "secret")
    assert f"{home}/.aws" in agent.nd7("allow", home, "--force")
    assert agent.ask(f"echo 1 > {home}/docs/x") == (0, "")
    for attack in (
        *(f"cat {home}/.ssh/id_ed25519", f"echo 1 > {home}/.ssh/x", f"echo 1 > {home}/.nd7/x"),
        *(f"mv {home}/.ssh {home}/ssh", f"mv {home}/.nd7 {home}/nd7", f"rm -rf {home}/.nd7/sessions/*"),
        f"echo 1 > {home}/.local/state/nd7/x",
        f"echo 1 > {home}/.aws/credentials",
        f"mv {home}/.local {home}/local2",
        f"mv {home}/.local/state {home}/docs/state",
        f"cp /bin/true {home}/.local/state/nd7/bin/nd7-exec",
    ):
        code, _ = agent.ask(attack)
        assert code != 0 or "rm -rf" in attack, attack
    assert world.read(f"{home}/.ssh/id_ed25519") == "secret"
    assert agent.pid in world.listdir(f"{home}/.nd7/sessions")
    assert agent.ask("true") == (0, "")


def test_a_grant_from_inside_a_session_fails_with_a_clear_sentence(world: World, agent: Agent) -> None:
    for command in (
        "nd7 allow ../x",
        "nd7 deny ../x",
        "nd7 grants",
        "nd7 why ../x",
        f"nd7 allow ../x --session {agent.pid}",
    ):
        code, out = agent.ask(command)
        assert code == 1, command
        assert "cannot be read from inside a confined session" in out
        assert "Traceback" not in out


def test_a_project_grant_is_in_the_next_sessions_floor(world: World, agent: Agent) -> None:
    world.mkdir(f"{world.home}/cache")
    agent.nd7("allow", f"{world.home}/cache", "--project")
    agent.running.terminate()
    agent.running.wait(30)
    for name in ("ready", *(f"{what}{number}" for what in ("ask", "answer") for number in range(agent.asked))):
        world.path(name).unlink(missing_ok=True)
    again = Agent(world)
    assert again.running.stderr is not None
    assert (
        f"granted from before, for its own tools, too: {world.home}/cache" in again.running.stderr.readline().decode()
    )
    assert again.ask(f"own {world.home}/cache/x") == (0, "")
    assert again.ask(f"echo 1 > {world.home}/cache/y")[0] == 0


def test_a_grant_that_ends_ends(world: World, agent: Agent) -> None:
    world.mkdir(f"{world.home}/cache")
    agent.nd7("allow", f"{world.home}/cache", "--for", "3s")
    assert agent.ask(f"echo 1 > {world.home}/cache/x")[0] == 0
    world.wait(lambda: json.loads(agent.nd7("grants", "--json")) == [], what="the end of the grant")
    assert agent.ask(f"echo 1 > {world.home}/cache/x")[0] != 0


def test_keys_behind_a_link_cannot_be_read_by_their_real_name(world: World) -> None:
    world.mkdir(f"{world.home}/dots/ssh")
    world.write(f"{world.home}/dots/ssh/id", "secret")
    world.path(f"{world.home}/.ssh").symlink_to("dots/ssh")
    world.write(f"{world.home}/elsewhere", "secret")
    world.path(f"{world.home}/dots/ssh/other").symlink_to("../../elsewhere")
    agent = Agent(world)
    for path in (".ssh/id", "dots/ssh/id", "dots/ssh/other", "elsewhere"):
        code, out = agent.ask(f"cat {world.home}/{path}")
        assert "secret" not in out
        assert code != 0 or out == ""  # a masked file reads as empty
    assert agent.ask(f"ls {world.home}/dots") == (0, "ssh\n")
