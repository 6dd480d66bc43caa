"""Hooks: recorded by the supervisor, answered in time, and never in the way."""

from __future__ import annotations

import json
import os
import signal
import subprocess

import pytest
from world import World

BIN = "/home/dev/.local/state/nd7/bin"
STATE = "/home/dev/.local/state/nd7/sessions"
SESSIONS = "/home/dev/.nd7/sessions"
ID = "0a1b2c3d-0000-4000-8000-000000000001"
ANSWER = (
    '{"hookSpecificOutput":{"hookEventName":"PreToolUse","permissionDecision":"allow",'
    '"permissionDecisionReason":"nd7: the command runs under this session\'s sandbox policy"}}'
)


def payload(event: str = "PreToolUse", **more: object) -> str:
    body = {"session_id": ID, "transcript_path": "/nowhere", "cwd": "/home/dev/project", "hook_event_name": event}
    if event == "PreToolUse":
        body |= {"tool_name": "Bash", "tool_input": {"command": "echo hello"}, "tool_use_id": "toolu_1"}
    return json.dumps(body | more)


def frames(world: World, session: str = ID, *, canary: bool = False) -> list[dict]:
    """The frames of a log that verifies; the canary's come when they come and are left out."""
    assert world.run(["nd7", "verify", session]).code == 0
    found = [json.loads(line) for line in world.read(f"{STATE}/{session}/events.ndjson").splitlines()]
    return [frame for frame in found if canary or frame["kind"] != "canary"]


def run(world: World, script: str, **more):
    world.write("script", script)
    return world.run(["nd7", "run", "sh", "script"], **more)


def test_a_payload_is_recorded_with_the_session_and_the_answer_is_exact(world: World):
    world.write("p", payload())
    world.write("q", payload("Stop", stop_hook_active=False, last_assistant_message="done"))
    world.write("r", payload(tool_name="Write", tool_input={"file_path": "/x"}))
    done = run(world, f"for f in p q r; do {BIN}/nd7-record < $f; echo; done")
    assert done.out == f"{ANSWER}\n\n\n"
    found = frames(world)
    assert len(found) == 3, found
    call, stop, _ = found
    assert (call["kind"], call["source"], stop["kind"]) == ("tool_call", "intent:claude-code", "turn_end")
    assert call["body"]["nd7_session"] > 0 and call["body"]["policy_revision"] >= 1
    assert os.path.dirname(f"{STATE}/{ID}") == STATE


def test_the_log_is_out_of_the_confined_sides_reach(world: World):
    world.write("p", payload())
    done = run(world, f"{BIN}/nd7-record < p; echo x >> {STATE}/{ID}/events.ndjson; rm -rf {STATE}; echo $?")
    assert done.out.endswith("1\n")
    assert len(frames(world)) == 1


@pytest.mark.parametrize("text", ["", "{", "[]", '"x"', "{}", "\x00", payload()[:-1] + "\x00}"])
def test_bad_payloads_are_an_error_line_exit_0_and_a_gap(world: World, text: str):
    world.write("p", payload("SessionStart", source="startup"))
    world.write("bad", text)
    done = run(world, f"{BIN}/nd7-record < p; {BIN}/nd7-record < bad; echo $?; sleep 0.2")
    assert done.out == "0\n" and "nd7 record: " in done.err
    assert [frame["kind"] for frame in frames(world)] == ["session_start", "gap"]


@pytest.mark.parametrize("name", ["../x", "..", "a/b", "", "x" * 300, "a\nb"])
def test_a_session_id_that_is_none_reaches_no_other_directory(world: World, name: str):
    world.write("bad", payload(session_id=name))
    done = run(world, f"{BIN}/nd7-record < bad; echo $?")
    assert done.out == "0\n" and "nd7 record: " in done.err
    assert [entry.startswith("nd7-") for entry in world.listdir(STATE)] == [True]
    assert world.listdir(os.path.dirname(STATE)) == ["bin", "sessions"]


def test_twenty_megabytes_do_not_hold_anybody_up(world: World):
    world.write("p", payload())
    world.write("big", payload(tool_input={"command": "x" * 19_000_000}))
    script = f"""{BIN}/nd7-record < big > /dev/null & sleep 0.1
    s=$(date +%s%N); {BIN}/nd7-exec -c true; e=$(date +%s%N); wait; echo $(((e - s) / 1000000))"""
    done = run(world, script)
    assert int(done.out) < 2000, done.out
    assert len(frames(world)) == 1


def test_forty_at_once_are_all_there_once(world: World):
    world.write("p", payload())
    done = run(world, f"for i in $(seq 40); do sed s/toolu_1/toolu_$i/ p | {BIN}/nd7-record >/dev/null & done; wait")
    assert done.err.count("\n") == 1
    ids = [frame["body"]["tool_use_id"] for frame in frames(world)]
    assert sorted(ids) == sorted(f"toolu_{n}" for n in range(1, 41))


def test_a_stdin_that_never_ends_is_given_up_within_five_seconds(world: World):
    done = run(
        world,
        f"""mkfifo f; (printf '{{'; exec sleep 20) > f & p=$!; s=$(date +%s); {BIN}/nd7-record < f; e=$(date +%s)
        echo $((e - s)); kill $p""",
    )
    seconds = int(done.out.split()[0])
    assert 3 <= seconds <= 5 and "no answer within 4 s" in done.err


def test_a_supervisor_that_is_stopped_does_not_stop_the_agent(world: World):
    world.write("p", payload())
    running = world.start(
        ["nd7", "run", "sh", "-c", f"echo up; read x; {BIN}/nd7-record < p; echo ended $?"], stdin=subprocess.PIPE
    )
    assert running.stdin is not None and running.stdout is not None
    assert running.stdout.readline() == b"up\n"
    world.wait(lambda: '"state": "enforcing"' in world.read(f"{SESSIONS}/{running.pid}/record.json"))
    os.kill(running.pid, signal.SIGSTOP)
    try:
        running.stdin.write(b"\n")
        running.stdin.flush()
        assert running.stdout.readline() == b"ended 0\n"
    finally:
        os.kill(running.pid, signal.SIGCONT)
    running.wait(20)


def test_the_harness_records_in_the_same_process(world: World):
    world.write("p", payload())
    done = run(world, f"AI_AGENT=x_harness exec {BIN}/nd7-exec -c {BIN}/nd7-record < p")
    assert done.out == ANSWER
    world.write("p", payload(session_id=ID[:-1] + "2"))
    done = run(world, f"AI_AGENT=x_harness exec {BIN}/nd7-shell {BIN}/nd7-record < p")
    assert done.out == ANSWER


def test_nd7_record_itself_inside_and_outside(world: World):
    world.write("p", payload())
    assert run(world, "nd7 record < p").out == ANSWER
    other = "0a1b2c3d-0000-4000-8000-000000000002"
    done = world.run(["nd7", "record"], input=payload(session_id=other))
    assert (done.code, done.out, done.err) == (0, "", "")
    assert len(frames(world, other)) == 1
    done = world.run(["nd7", "record"], input="{")
    assert done.code == 0 and done.err.startswith("nd7 record: ")


def test_a_command_of_which_no_hook_told_is_a_gap_and_one_of_which_one_did_is_none(world: World):
    world.write("p", payload(tool_input={"command": "echo 'a  b'; true"}))
    script = f"""{BIN}/nd7-record < p > /dev/null
    export AI_AGENT=claude-code_2-1-197_agent
    {BIN}/nd7-exec -c "source x 2>/dev/null; eval 'echo '\\"'\\"'a  b'\\"'\\"'; true'"
    {BIN}/nd7-exec -c 'echo unannounced'"""
    assert run(world, script).out == "a  b\nunannounced\n"
    gaps = [frame["body"]["text"] for frame in frames(world) if frame["kind"] == "gap"]
    assert len(gaps) == 1 and "echo unannounced" in gaps[0]


def test_the_record_names_the_agents_sessions_and_counts_gaps(world: World):
    world.write("p", payload())
    running = world.start(["nd7", "run", "sh", "-c", f"{BIN}/nd7-record < p; echo | {BIN}/nd7-record; sleep 60"])
    path = f"{SESSIONS}/{running.pid}/record.json"

    def told() -> bool:
        record = json.loads(world.read(path)) if world.exists(path) else {}
        return record.get("agent_sessions") == [ID] and record.get("gaps") == 1

    world.wait(told, what=lambda: world.read(path))
    running.terminate()
    running.wait(20)


def test_what_the_filter_refused_is_an_attempt_in_the_log(world: World):
    world.write("p", payload("SessionStart", source="startup"))
    connect = "import socket; socket.create_connection(('127.0.0.1', 3000), 2)"
    done = run(world, f'{BIN}/nd7-record < p; {BIN}/nd7-exec -c "/usr/bin/python3 -Ic \\"{connect}\\""; sleep 0.5')
    assert "PermissionError" in done.err
    attempts = [frame for frame in frames(world) if frame["kind"] == "attempt"]
    assert [frame["source"] for frame in attempts] == ["effect:nd7-broker"]
    assert attempts[0]["body"]["target"] == "127.0.0.1:3000"


def test_the_canary_is_in_the_log_and_the_record(world: World):
    world.write("p", payload("SessionStart", source="startup"))
    running = world.start(["nd7", "run", "sh", "-c", f"{BIN}/nd7-record < p; sleep 60"])
    path = f"{SESSIONS}/{running.pid}/record.json"
    world.wait(lambda: world.exists(path) and json.loads(world.read(path))["canary"].get("state") == "enforcing")
    assert world.run(["nd7", "allow", "/home/dev/project"], env={}).code in (0, 1)
    world.mkdir("/home/dev/extra")
    before = sum(frame["kind"] == "canary" for frame in frames(world, canary=True))
    assert world.run(["nd7", "allow", "/home/dev/extra"]).code == 0
    world.wait(
        lambda: sum(frame["kind"] == "canary" for frame in frames(world, canary=True)) > before,
        what=lambda: frames(world),
    )
    running.terminate()
    running.wait(20)
    assert not world.exists(f"/home/dev/.nd7-canary-{running.pid}")
