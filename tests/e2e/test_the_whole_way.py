"""The whole way, with the real agent, the real kernel, the real dashboard in a real terminal.

One session: a write in the project, a write outside that is refused, `g` in the dashboard, the same write again, a
Write call outside, a secret, a port, nd7-exec outside a session, and a closing message that reports a denial.  Then
the log verifies, every denial is named with its source and its target, and nothing is left running.
"""

from __future__ import annotations

import json
import threading

import agent
import pytest
from agent import bash, said, tool

pytestmark = pytest.mark.e2e

SECRET = "-----BEGIN OPENSSH PRIVATE KEY-----"
CONNECT = "/usr/bin/python3 -ISc 'import socket; socket.create_connection((\"127.0.0.1\", 3000))'"
CLOSING = "I could not write /home/dev/other/g: permission denied by the sandbox, so I stopped there."


def denials(world, *arguments):
    done = world.run(["nd7", "denials", "--json", *arguments])
    assert done.code == 0, done.err
    return [json.loads(line) for line in done.out.splitlines()]


def session_pids(world):
    return [int(name) for name in world.listdir(f"{world.home}/.nd7/sessions") if name.isdigit()]


def test_the_whole_way(world):
    world.write(f"{world.home}/.ssh/id_ed25519", SECRET, 0o600)
    world.mkdir(f"{world.home}/data")
    world.mkdir(f"{world.home}/other")
    granted, seen = threading.Event(), threading.Event()
    scenario = {
        "turns": [
            bash("echo inside > made; cat made", "inside"),
            bash("echo outside > ~/data/f", "outside"),
            {**bash("echo outside > ~/data/f", "again"), "until": lambda: granted.wait(90)},
            tool("Write", "write", file_path=f"{world.home}/other/g", content="x"),
            bash("cat ~/.ssh/id_ed25519", "secret"),
            bash(CONNECT, "port"),
            {**said(CLOSING), "until": lambda: seen.wait(90)},
        ]
    }
    dashboard = world.terminal(["nd7", "tui"], size=(120, 36))
    dashboard.wait_for("No sessions")
    runs = []
    options = {"args": ["--dangerously-skip-permissions"]}
    session = threading.Thread(target=lambda: runs.append(agent.headless(world, scenario, **options)))
    session.start()
    try:
        dashboard.wait_for(lambda text: "kernel" in text and "~/data/f" in text)
        (pid,) = session_pids(world)
        assert f"{world.home}/data" not in world.read(f"{world.home}/.nd7/sessions/{pid}/policy.sb")
        dashboard.keys("g")
        world.wait(lambda: f'"{world.home}/data"' in world.read(f"{world.home}/.nd7/sessions/{pid}/policy.sb"))
        granted.set()
        dashboard.wait_for("proved")
        dashboard.wait_for("~/other/g")
        dashboard.wait_for("3000")
        dashboard.wait_for(".ssh/id_ed25519")
        rows = denials(world, "--session", str(pid))
        assert len(rows) == 4
    finally:
        granted.set()
        seen.set()
        session.join()
    run = runs[0]
    assert run.code == 0, run.err
    assert "Landlock" in run.err
    assert run.results["inside"].text == "inside"
    assert "Read-only file system" in run.results["outside"].text or "Permission denied" in run.results["outside"].text
    assert not run.results["again"].error
    assert world.read(f"{world.home}/data/f") == "outside\n"
    assert run.results["write"].error
    assert not world.exists(f"{world.home}/other/g")
    assert run.results["secret"].error
    assert SECRET not in run.results["secret"].text
    assert run.results["port"].error
    assert "Permission denied" in run.results["port"].text

    outside = world.run([f"{world.home}/.local/state/nd7/bin/nd7-exec", "-c", "touch never"])
    assert (outside.code, outside.err) == (126, "nd7-exec: no nd7 session in this process's ancestry\n")
    assert not world.exists("never")

    verified = world.run(["nd7", "verify", run.session_id])
    assert verified.code == 0, verified.err
    found = {row["target"]: row for row in denials(world) if row["source"] == "kernel"}
    assert set(found) == {
        f"{world.home}/data/f",
        f"{world.home}/other/g",
        f"{world.home}/.ssh/id_ed25519",
        "127.0.0.1:3000",
    }
    assert found[f"{world.home}/data/f"]["state"] == "proved"
    assert found[f"{world.home}/data/f"]["remedy"] == "grant"
    assert found[f"{world.home}/data/f"]["tool"] == "Bash"
    assert found[f"{world.home}/other/g"]["remedy"] == "restart-wider"
    assert found[f"{world.home}/other/g"]["tool"] == "Write"
    assert found[f"{world.home}/.ssh/id_ed25519"]["operation"] == "read"
    assert found[f"{world.home}/.ssh/id_ed25519"]["remedy"] == "cannot-grant"
    assert found["127.0.0.1:3000"]["operation"] == "network"
    (words,) = [row for row in denials(world) if row["source"] == "model"]
    assert words["target"] == f"{world.home}/other/g"

    dashboard.wait_for("ended")
    dashboard.wait_for("model")
    dashboard.keys("q")
    dashboard.wait_for("EXITED 0")
    dashboard.close()
    world.wait(lambda: not world.processes(), what=world.processes)
    assert session_pids(world) == []
