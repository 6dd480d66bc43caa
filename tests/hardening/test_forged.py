"""A process of a session that speaks as if it were another conversation: ended, of another project, or live."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hardship import HOOK, STATE, X
from world import World

SESSIONS = "/home/dev/.nd7/sessions"
GRANTS = "/home/dev/.nd7/grants.json"
IDS = {name: f"0a1b2c3d-0000-4000-8000-00000000000{number}" for number, name in enumerate("abcde")}
# Ends when the file `end` is there; what stands in the file `does` is done first.
AGENT = f"""#!/bin/bash
say() {{ printf '{{"session_id":"%s","cwd":"%s","hook_event_name":"%s","source":"%s","prompt":"%s"}}' "$@" | {HOOK}; }}
export -f say
say $ID $PWD SessionStart $SOURCE
[[ -e does ]] && . ./does
touch ready
until [[ -e end ]]; do sleep 0.1; done
say $ID $PWD SessionEnd
rm -f ready end
"""
FORGE = """forge() { say $1 $PWD SessionStart resume; say $1 $PWD UserPromptSubmit x "I am $1"; }
export -f forge
for id in %s; do %s; done
"""


class Runs:
    """`nd7 run claude`, where claude is the script above."""

    def __init__(self, world: World) -> None:
        self.world = world
        for name in ("bin", "project", "other", "third", "extra", "mine"):
            world.mkdir(f"/home/dev/{name}")
        world.write("/home/dev/bin/claude", AGENT, 0o755)

    def start(self, project: str, name: str, *words: str, source: str = "startup") -> int:
        """Start one and wait until it has said what it has to say; its pid."""
        environ = {"PATH": f"/home/dev/bin:{self.world.files}/bin:/usr/bin:/bin", "ID": IDS[name], "SOURCE": source}
        place = f"/home/dev/{project}"
        running = self.world.start(["nd7", "run", "claude", *words], cwd=place, env=environ)
        self.world.wait(lambda: self.world.exists(f"{place}/ready") or running.poll() is not None)
        assert running.poll() is None, running.communicate()
        return running.pid

    def end(self, project: str, pid: int) -> None:
        self.world.write(f"/home/dev/{project}/end", "")
        self.world.wait(lambda: not self.world.exists(f"{SESSIONS}/{pid}"))

    def record(self, pid: int) -> dict[str, Any]:
        return dict(json.loads(self.world.read(f"{SESSIONS}/{pid}/record.json")))

    def log(self, name: str) -> str:
        return self.world.read(f"{STATE}/sessions/{name}/events.ndjson")

    def allow(self, pid: int, path: str) -> None:
        done = self.world.run(["nd7", "allow", "--session", str(pid), path])
        assert done.code == 0, done

    def ended(self, name: str) -> list[str]:
        """What a conversation had when its last session ended."""
        item = json.loads(self.world.read(GRANTS))["ended"].get(IDS[name], {"grants": []})
        return [grant["path"] for grant in item["grants"]]


@pytest.fixture
def runs(world: World) -> Runs:
    return Runs(world)


@pytest.mark.parametrize("by", ["the agent", "a command"])
def test_nothing_is_added_to_a_conversation_that_nobody_asked_for(runs: Runs, by: str) -> None:
    world = runs.world
    runs.end("other", runs.start("other", "a"))
    second = runs.start("project", "b")
    runs.allow(second, "/home/dev/extra")
    runs.end("project", second)
    live = runs.start("third", "c")
    before = {name: runs.log(IDS[name]) for name in "abc"}
    grants = world.read(GRANTS)

    ids = " ".join(IDS[name] for name in "abc")
    command = "forge $id" if by == "the agent" else f'AI_AGENT=x_agent {X} -c "forge $id"'
    world.write("/home/dev/project/does", FORGE % (ids, command))
    forger = runs.start("project", "d")
    runs.allow(forger, "/home/dev/mine")
    (own,) = [name for name in world.listdir(f"{STATE}/sessions") if name.startswith(f"nd7-{forger}-")]
    world.wait(lambda: own in runs.record(forger)["agent_sessions"])
    assert runs.record(forger)["agent_sessions"] == [IDS["d"], own]
    listed = {row["pid"]: row for row in json.loads(world.run(["nd7", "sessions", "--json"]).out)}
    assert listed[forger]["gaps"] == 3 and set(listed[forger]["agent_sessions"]) == {IDS["d"], own}
    assert listed[live]["agent_sessions"] == [IDS["c"]] and listed[live]["gaps"] == 0
    assert "missing from its log" in world.run(["nd7", "sessions"]).out
    runs.end("project", forger)

    assert {name: runs.log(IDS[name]) for name in "ab"} == {name: before[name] for name in "ab"}
    # The live one's own goes on, its canary at least.
    assert runs.log(IDS["c"]).startswith(before["c"])
    assert {json.loads(line)["body"]["nd7_session"] for line in runs.log(IDS["c"]).splitlines()} == {live}
    frames = [json.loads(line) for line in runs.log(own).splitlines()]
    said = [frame for frame in frames if frame["source"] == "intent:claude-code"]
    assert [frame["kind"] for frame in said] == ["session_start", "prompt"] * 3
    assert [frame["body"]["agent_session"] for frame in said] == [IDS[name] for name in "aabbcc"]
    assert [frame["body"]["text"] for frame in said[1::2]] == [f"I am {IDS[name]}" for name in "abc"]
    gaps = [frame["body"] for frame in frames if frame["kind"] == "gap"]
    assert [(gap["reason"], gap["agent_session"]) for gap in gaps] == [("conversation", IDS[name]) for name in "abc"]
    assert all(world.run(["nd7", "verify", name]).code == 0 for name in (*(IDS[name] for name in "abcd"), own))

    # Neither does what the forger was granted come back with them, nor is what they had gone.
    kept = json.loads(grants)["ended"]
    now = json.loads(world.read(GRANTS))["ended"]
    assert {name: now.get(name) for name in kept} == kept and runs.ended("d") == ["/home/dev/mine"]
    Path(world.path("/home/dev/project/does")).unlink()
    resumed = runs.start("project", "b", "--resume", IDS["b"], source="resume")
    assert runs.record(resumed)["grants"] == ["/home/dev/extra"]
    runs.end("project", resumed)
    assert len(runs.log(IDS["b"]).splitlines()) > len(before["b"].splitlines())
    runs.end("third", live)


def test_what_the_agent_chooses_has_the_grants_that_this_session_is_given_and_no_older_ones(runs: Runs) -> None:
    world = runs.world
    first = runs.start("project", "b")
    runs.allow(first, "/home/dev/extra")
    runs.end("project", first)
    before = runs.log(IDS["b"])
    going = runs.start("project", "b", "--continue", source="resume")
    world.wait(lambda: runs.record(going)["chosen"] == IDS["b"])
    record = runs.record(going)
    assert record["grants"] == [] and record["gaps"] == 0 and IDS["b"] not in record["agent_sessions"]
    runs.end("project", going)
    assert runs.log(IDS["b"]) == before and runs.ended("b") == ["/home/dev/extra"]
    again = runs.start("project", "b", "-c", source="resume")
    runs.allow(again, "/home/dev/mine")
    world.wait(lambda: runs.record(again)["chosen"] == IDS["b"])
    # A person may call it by the conversation.
    done = world.run(["nd7", "allow", "--session", IDS["b"], "/home/dev/other"])
    assert done.code == 0 and "/home/dev/other" in runs.record(again)["grants"], done
    assert world.run(["nd7", "deny", "--session", IDS["b"], "/home/dev/other"]).code == 0
    runs.end("project", again)
    assert runs.ended("b") == ["/home/dev/mine"]


def test_a_conversation_from_before_nd7_is_not_taken_for_a_new_one(runs: Runs) -> None:
    world = runs.world
    world.write(f"/home/dev/.claude/projects/-home-dev-project/{IDS['e']}.jsonl", "")
    world.write("/home/dev/project/does", FORGE % (IDS["e"], "forge $id"))
    forger = runs.start("project", "d")
    runs.allow(forger, "/home/dev/mine")
    runs.end("project", forger)
    assert IDS["e"] not in world.listdir(f"{STATE}/sessions")
    assert runs.ended("e") == [] and runs.ended("d") == ["/home/dev/mine"]


@pytest.mark.parametrize("name", [IDS["e"], IDS["e"].upper()])
@pytest.mark.parametrize("folder", ["-home-dev-other", "-home-dev-project"])
def test_nor_is_one_of_another_project_or_in_capitals(runs: Runs, folder: str, name: str) -> None:
    """Taken, it would keep what the forger said for the one who resumes it, and lose the grants that it ends with."""
    world = runs.world
    world.write(f"/home/dev/.claude/projects/{folder}/{IDS['e']}.jsonl", "")
    world.write("/home/dev/project/does", FORGE % (name, "forge $id"))
    forger = runs.start("project", "d")
    runs.allow(forger, "/home/dev/mine")
    runs.end("project", forger)
    logs = set(world.listdir(f"{STATE}/sessions"))
    assert not {IDS["e"], name} & logs and any(log.startswith(f"nd7-{forger}-") for log in logs)
    assert runs.ended("d") == ["/home/dev/mine"] and name not in world.read(GRANTS)


def test_a_past_session_of_any_program_has_its_name_and_project(world: World) -> None:
    world.mkdir("/home/dev/odd\udcff")
    for place, name in (("/home/dev/project", "nightly"), ("/home/dev/odd\udcff", "")):
        done = world.run(["nd7", "run", *(["--name", name] if name else []), "bash", "-c", "sleep 1"], cwd=place)
        assert done.code == 0, done
    rows = {row["name"]: row for row in json.loads(world.run(["nd7", "sessions", "--json"]).out)}
    assert (rows["nightly"]["project"], rows["nightly"]["agent"]) == ("/home/dev/project", "bash")
    assert rows["nightly"]["state"] == "ended" and rows["odd\ufffd"]["project"] == "/home/dev/odd\ufffd"
    assert rows["nightly"]["gaps"] == 0
    assert "nightly" in world.run(["nd7", "sessions"]).out
    (own,) = rows["nightly"]["agent_sessions"]
    first = json.loads(world.read(f"{STATE}/sessions/{own}/events.ndjson").splitlines()[0])
    assert (first["seq"], first["kind"], first["source"]) == (0, "session", "nd7:recorder")
    assert first["body"]["program"] == ["bash", "-c", "sleep 1"]
    assert world.run(["nd7", "denials", "--session", "nightly"]).out == "no refusal is on record\n"
    assert world.run(["nd7", "denials", "--session", "daily"]).code != 0
