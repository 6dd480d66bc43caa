"""The real agent on a machine that refuses user namespaces: Landlock, seccomp and the notifier alone."""

from __future__ import annotations

import shlex
import sys
from pathlib import Path

import agent
import pytest
from agent import bash, said
from world import World

REFUSING = Path(__file__).resolve().parent.parent / "support/no_namespaces.py"
SNAPSHOT = "/home/dev/.claude/shell-snapshots/snapshot-bash-1-a.sh"


@pytest.fixture
def refusing(world: World) -> World:
    """A world whose `nd7` is started where no user namespace can be had."""
    python = shlex.quote(sys.executable)
    script = f'#!/bin/sh\nexec {python} -P {shlex.quote(str(REFUSING))} {python} -P -m nd7tui.cli "$@"\n'
    world.write(world.files + "/bin/nd7", script, 0o755, owner=False)
    return world


def test_a_session(refusing: World) -> None:
    world = refusing
    world.write(f"{world.home}/.ssh/id_ed25519", "secret")
    world.write(f"{world.home}/notes", "x", 0o600)
    world.write(SNAPSHOT, "# another session's")
    commands = {
        "create": "mkdir d && echo x > d/f && chmod 755 d/f && touch -d @1 new && stat -c %Y new",
        "outside": "touch ~/outside",
        "mode": "chmod 666 ~/notes",
        "key": "cat ~/.ssh/id_ed25519",
        "port": "bash -c 'echo > /dev/tcp/127.0.0.1/3000'",
        # In pieces, or Claude Code's own rules would ask a person first.
        "snapshot": 'python3 -c \'import glob; open(glob.glob("/home/dev/.cl*/shell-*/*-a.sh")[0], "a")\'',
    }
    run = agent.headless(world, {"turns": [*(bash(text, call) for call, text in commands.items()), said("done")]})
    assert run.code == 0, run.err
    assert (run.results["create"].error, run.results["create"].text) == (False, "1")
    for call in ("outside", "mode", "key", "port", "snapshot"):
        assert run.results[call].error
        assert "Permission denied" in run.results[call].text
    assert world.read(SNAPSHOT) == "# another session's"
    assert world.path(f"{world.home}/notes").stat().st_mode & 0o777 == 0o600
    assert "no user namespace" in run.err
    assert "without namespaces the session can change .claude" in run.err
