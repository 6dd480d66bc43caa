"""A session that is ended from outside leaves a log without false alarms."""

from __future__ import annotations

import json
import os
import signal
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from world import World


def test_a_session_that_is_told_to_end_reports_no_gap(world: World) -> None:
    # bash in a terminal ignores SIGTERM, so that the grace runs out and the session's own kill takes everything.
    started = world.run(["nd7", "run", "--detach", "--name", "quiet", "bash"])
    assert started.code == 0, started.err
    pid = int(started.out)
    world.wait(lambda: "nd7 zygote" in " ".join(world.processes().values()))
    os.kill(pid, signal.SIGTERM)
    world.wait(lambda: not world.alive(pid), what=world.processes)
    logs = f"{world.home}/.local/state/nd7/sessions"
    frames = [
        json.loads(line)
        for name in world.listdir(logs)
        for line in world.read(f"{logs}/{name}/events.ndjson").splitlines()
    ]
    assert [frame for frame in frames if frame["kind"] == "gap"] == []
    assert [frame for frame in frames if frame["kind"] == "canary" and frame["body"].get("state") == "blind"] == []
