"""Hooks that fail, and payloads that nobody should send: nothing gets out, nothing is lost in silence."""

from __future__ import annotations

import json
import threading
import time

import agent
import pytest
from agent import bash, said

pytestmark = pytest.mark.e2e

ID = "5d1c1f2e-6f0b-4d54-9d7e-0f6a2f0c9a77"


def payload(number=0, session_id=ID, **more):
    return {
        "session_id": session_id,
        "transcript_path": "/nowhere.jsonl",
        "cwd": "/home/dev/project",
        "hook_event_name": "PreToolUse",
        "tool_name": "Bash",
        "tool_input": {"command": f"echo {number}"},
        "tool_use_id": f"toolu_{number}",
        **more,
    }


def record_path(world):
    return f"{world.home}/.local/state/nd7/bin/nd7-record"


def break_hook(world, how):
    path = record_path(world)
    world.path(path).unlink()
    if how:
        world.write(path, f"#!/bin/sh\n{how}\n", 0o700)


@pytest.mark.parametrize(
    "how", ["", "exit 1", "kill -9 $$", "echo noise; exit 0", "exec sleep 60"], ids=lambda how: how or "missing"
)
def test_a_hook_that_fails_lets_nothing_out_and_is_seen(world, how):
    broken, started = threading.Event(), []

    def sabotage():
        break_hook(world, how)
        started.append(time.monotonic())
        broken.set()

    scenario = {
        "turns": [
            bash("echo fine", "fine"),
            {**bash("touch made; echo x > ~/out", "unseen"), "until": sabotage},
            {**said("done"), "until": lambda: started.append(time.monotonic())},
        ]
    }
    run = agent.headless(world, scenario, args=["--dangerously-skip-permissions"])
    assert broken.is_set()
    assert run.results["unseen"].error
    assert world.exists("made")
    assert not world.exists(f"{world.home}/out")
    # PreToolUse, PostToolUseFailure and PostToolBatch, at most 5 s each.
    assert started[1] - started[0] < 17
    frames = agent.logs(world, run.session_id)
    calls = [f["body"]["tool_use_id"] for f in frames if f["kind"] == "tool_call" and "intent" in f["source"]]
    assert calls == ["toolu_fine"]
    assert [f for f in frames if f["kind"] == "gap"], [f["kind"] for f in frames]
    (row,) = json.loads(world.run(["nd7", "sessions", "--json"]).out)
    assert row["gaps"] >= 1
    assert world.run(["nd7", "verify", run.session_id]).code == 0


def test_hooks_that_are_switched_off_are_seen_too(world):
    world.write(f"{world.home}/.claude/settings.json", json.dumps({"disableAllHooks": True}))
    scenario = {"turns": [bash("touch made; echo x > ~/out", "unseen"), said("done")]}
    run = agent.headless(world, scenario, args=["--dangerously-skip-permissions"])
    assert run.results["unseen"].error
    assert world.exists("made")
    assert not world.exists(f"{world.home}/out")
    found = [
        json.loads(line)
        for name in world.listdir(f"{world.home}/.local/state/nd7/sessions")
        for line in world.read(f"{world.home}/.local/state/nd7/sessions/{name}/events.ndjson").splitlines()
    ]
    assert [f for f in found if f["kind"] == "gap"], found


def test_forty_hooks_at_once_are_all_recorded_once(world):
    for number in range(40):
        world.write(f"p{number}", json.dumps(payload(number)))
    each = f"for n in $(seq 0 39); do {record_path(world)} < p$n > o$n 2> e$n & done; wait"
    done = world.run(["nd7", "run", "sh", "-c", each])
    assert done.code == 0, done.err
    assert {world.read(f"e{n}") for n in range(40)} == {""}
    assert {json.loads(world.read(f"o{n}"))["hookSpecificOutput"]["permissionDecision"] for n in range(40)} == {"allow"}
    frames = [f for f in agent.logs(world, ID) if f["kind"] == "tool_call"]
    assert sorted(f["body"]["tool_use_id"] for f in frames) == sorted(f"toolu_{n}" for n in range(40))
    assert world.run(["nd7", "verify", ID]).code == 0


BAD = {
    "no JSON": b"not json",
    "nothing": b"",
    "another shape": b"[1, 2]",
    "no session": b'{"hook_event_name": "Stop"}',
    "a path for a session": json.dumps(payload(session_id="../../x")).encode(),
    "a number for a tool": json.dumps(payload(tool_input=7)).encode(),
    "NUL": b'{"session_id": "' + ID.encode() + b'", "hook_event_name": "Stop", "x": "\0"}',
    "deep": b"[" * 100_000,
}


@pytest.mark.parametrize("inside", [True, False], ids=["in a session", "by hand"])
@pytest.mark.parametrize("name", BAD)
def test_a_bad_payload_is_one_line_on_stderr_and_nothing_in_the_log(world, name, inside):
    world.write("good", json.dumps(payload()))
    world.write("bad", BAD[name])
    if inside:
        hook = record_path(world)
        script = f"{hook} < good > /dev/null; {hook} < bad > out 2> err; echo $? > status; {hook} < good > /dev/null"
        assert world.run(["nd7", "run", "sh", "-c", script]).code == 0
    else:
        script = "nd7 record < good > /dev/null; nd7 record < bad > out 2> err; echo $? > status; nd7 record < good"
        world.run(["sh", "-c", script])
    assert world.read("status").strip() == "0"
    if name != "a number for a tool":
        assert world.read("out") == ""
        assert world.read("err").startswith("nd7 record: ")
        assert world.read("err").count("\n") == 1
    assert "Traceback" not in world.read("err")
    assert world.run(["nd7", "verify", ID]).code == 0
    assert len([f for f in agent.logs(world, ID) if f["body"].get("tool_use_id") == "toolu_0"]) >= 2


@pytest.mark.parametrize("inside", [True, False], ids=["in a session", "by hand"])
def test_half_a_surrogate_and_twenty_megabytes_are_recorded(world, inside):
    world.write("half", json.dumps(payload(1, tool_input={"command": "echo \ud800"})))
    world.write("large", json.dumps(payload(2, tool_input={"command": "echo " + "x" * 20_000_000})))
    hook = record_path(world) if inside else "nd7 record"
    script = f"{hook} < half 2> half.err > half.out; {hook} < large 2> large.err > large.out"
    run = ["nd7", "run", "sh", "-c", script] if inside else ["sh", "-c", script]
    assert world.run(run, timeout=60).code == 0
    # Recorded or refused with a reason: never a traceback, never silence.
    calls = {f["body"].get("tool_use_id") for f in agent.logs(world, ID)}
    for name, call in (("half", "toolu_1"), ("large", "toolu_2")):
        error = world.read(f"{name}.err")
        assert "Traceback" not in error
        assert call in calls or error.startswith("nd7 record: "), (name, error)
    assert "toolu_1" in calls
    assert world.run(["nd7", "verify", ID]).code == 0


def test_a_torn_log_is_refused_with_the_frames_name(world):
    world.write("good", json.dumps(payload()))
    assert world.run(["sh", "-c", "nd7 record < good"]).code == 0
    log = f"{world.home}/.local/state/nd7/sessions/{ID}/events.ndjson"
    with world.path(log).open("ab") as file:
        file.write(b'{"v":0,"session_id":"half')
    before = world.read(log)
    done = world.run(["sh", "-c", "nd7 record < good"])
    assert done.code == 0
    assert "frame 1" in done.err
    assert world.read(log) == before
    verified = world.run(["nd7", "verify", ID])
    assert verified.code == 1
    assert "frame 1" in verified.out + verified.err
