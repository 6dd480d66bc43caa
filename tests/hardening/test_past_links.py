"""A refusal behind a link: told the same while the session runs, when it is over, and when the link is gone."""

from __future__ import annotations

import json
from typing import Any

from hardship import HOOK, X, frames, payload
from world import World


def rows(world: World) -> list[dict[str, Any]]:
    return [json.loads(line) for line in world.run(["nd7", "denials", "--json"]).out.splitlines()]


def test_a_past_row_is_judged_by_where_its_link_led(world: World) -> None:
    world.mkdir("/home/dev/shared")
    world.path("/home/dev/project/out").symlink_to("/home/dev/shared")
    command = "echo x > out/file"
    call = {"tool_name": "Bash", "tool_use_id": "toolu_1", "tool_input": {"command": command}}
    error = "Exit code 1\n/bin/bash: line 1: out/file: Permission denied"
    world.write("start", payload("SessionStart", source="startup"))
    world.write("call", payload("PreToolUse", **call))
    world.write("failed", payload("PostToolUseFailure", error=error, **call))
    script = (
        f"for f in start call; do {HOOK} < $f; done; AI_AGENT=x_agent {X} -c '{command}'; {HOOK} < failed; "
        "touch said; until [[ -e end ]]; do sleep 0.1; done"
    )
    running = world.start(["nd7", "run", "bash", "-c", script])
    world.wait(lambda: world.exists("said"))
    (live,) = rows(world)
    assert (live["source"], live["target"]) == ("kernel", "/home/dev/shared/file"), live
    world.write("end", "")
    _, err = running.communicate(timeout=30)
    assert b"ermission denied" in err or b"Read-only" in err
    world.path("/home/dev/project/out").unlink()
    (past,) = rows(world)
    same = ("source", "target", "operation", "grant", "remedy")
    assert {key: past[key] for key in same} == {key: live[key] for key in same}
    (noted,) = [frame for frame in frames(world) if frame["kind"] == "links"]
    assert noted["body"]["links"] == {"/home/dev/project/out/file": "/home/dev/shared/file"}
    assert noted["body"]["tool_use_id"] == "toolu_1" and world.run(["nd7", "verify", "s-1"]).code == 0
