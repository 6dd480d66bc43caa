"""What a grant's scope does: one for one command ends with it, and each counts the commands that had it."""

from __future__ import annotations

import json
from typing import Any

from world import World

SESSIONS = "/home/dev/.nd7/sessions"
AGENT = """
while ! test -e go; do sleep 0.1; done
exec_() { AI_AGENT=x_agent /home/dev/.local/state/nd7/bin/nd7-exec -c "$1"; }
exec_ 'touch /home/dev/data/1'
sleep 1
exec_ 'touch /home/dev/data/2'
sleep 1.5
while ! test -e stop; do sleep 0.1; done
"""


def grants(world: World, pid: str) -> dict[str, dict[str, Any]]:
    record = json.loads(world.read(f"{SESSIONS}/{pid}/record.json"))
    return {grant["path"]: grant for grant in record["grant_details"]}


def test_a_grant_for_one_command_outlives_the_canary_and_ends_with_the_command(world: World) -> None:
    for name in ("data", "other"):
        world.mkdir(f"/home/dev/{name}")
    session = world.start(["nd7", "run", "sh", "-c", AGENT])
    (pid,) = world.wait(lambda: [name for name in world.listdir(SESSIONS) if name.isdigit()])
    record = f"{SESSIONS}/{pid}/record.json"
    world.wait(lambda: json.loads(world.read(record))["canary"].get("state") == "enforcing")
    for words in (["--once", "/home/dev/data"], ["/home/dev/other"]):
        done = world.run(["nd7", "allow", "--session", pid, *words])
        assert done.code == 0, done.err
    world.run(["sleep", "3"])  # nd7's own probes of both grants have run
    assert {path: grant["uses"] for path, grant in grants(world, pid).items()} == {
        "/home/dev/data": 0,
        "/home/dev/other": 0,
    }
    world.write("go", "")
    world.wait(lambda: grants(world, pid).get("/home/dev/other", {}).get("uses") == 2)
    assert list(grants(world, pid)) == ["/home/dev/other"]
    assert world.listdir("/home/dev/data") == ["1"]
    world.write("stop", "")
    _, error = session.communicate(timeout=30)
    assert b"/home/dev/data/2" in error
