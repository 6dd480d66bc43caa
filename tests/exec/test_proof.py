"""After a grant, nd7 tries it in the session: the log says whether a command may write there now."""

from __future__ import annotations

import json
import os

from world import World

STATE = "/home/dev/.local/state/nd7"
SESSIONS = "/home/dev/.nd7/sessions"


def frames(world: World, kind: str) -> list[dict[str, object]]:
    """Every frame of a kind in the world's logs."""
    found = []
    for name in world.listdir(f"{STATE}/sessions") if world.exists(f"{STATE}/sessions") else []:
        path = f"{STATE}/sessions/{name}/events.ndjson"
        if world.exists(path):
            found += [json.loads(line) for line in world.read(path).splitlines()]
    return [frame for frame in found if frame["kind"] == kind]


def test_a_grant_is_tried_at_once_and_told_in_the_log(world: World) -> None:
    world.mkdir("/home/dev/data")
    world.write("/home/dev/list.txt", "old\n")
    session = world.start(["nd7", "run", "sh", "-c", "sleep 60"])
    (pid,) = world.wait(lambda: [name for name in world.listdir(SESSIONS) if name.isdigit()])
    for path in ("/home/dev/data", "/home/dev/list.txt"):
        done = world.run(["nd7", "allow", "--session", pid, path])
        assert done.code == 0, done.err
    # No agent's hook has come, so the frames wait for the end: the record tells that the probe has run.
    record = f"{SESSIONS}/{pid}/record.json"
    world.wait(lambda: json.loads(world.read(record))["canary"].get("checks"))
    world.run(["sleep", "3"])
    assert os.listdir(world.path("/home/dev/data")) == []  # what it tried with has gone
    assert world.read("/home/dev/list.txt") == "old\n"
    session.terminate()
    session.wait(20)
    proofs = {frame["body"]["path"]: frame for frame in frames(world, "proof")}
    assert set(proofs) == {"/home/dev/data", "/home/dev/list.txt"}
    for frame in proofs.values():
        assert frame["source"] == "nd7:canary"
        assert frame["body"]["allowed"] is True and frame["body"]["operation"] == "write"
