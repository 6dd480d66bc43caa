"""The recorded session, for a machine that cannot play one: a real demo session's audit log, shown as it came.

`recording/` holds the log as `python -m nd7tui.demo.recorded` wrote it.  It is copied frame by frame, so its chain
holds: `nd7 verify` would say so of the copy.
"""

from __future__ import annotations

import json
import os
import shutil
import sys
import time
from collections.abc import Callable
from pathlib import Path

from nd7core.errors import Nd7Error
from nd7core.paths import Places
from nd7tui.demo.stage import Stage

RECORDING = Path(__file__).resolve().parent / "recording"
EVENTS, HEAD = "events.ndjson", "head"
HOST, HOME = "demo", "/home/demo"


def frames() -> list[bytes]:
    """The recording's lines.  Raises Nd7Error where the installation lacks it."""
    try:
        return (RECORDING / EVENTS).read_bytes().splitlines(keepends=True)
    except OSError as error:
        raise Nd7Error(f"the recorded session is missing: {error.strerror}", hint="install nd7 again") from None


def session_id() -> str:
    """The recorded agent's own session id."""
    return str(json.loads(frames()[0])["session_id"])


def places(stage: Stage) -> Places:
    """The stage's places, with the recorded home as the home: nothing is looked for there."""
    where = stage.places
    return Places(HOME, where.nd7, where.sessions, where.state)


def play(stage: Stage, *, pace: float = 0.0, going: Callable[[], bool] = lambda: True) -> None:
    """Write the recording into the stage's state directory, a pause before each step, while `going()`."""
    directory = os.path.join(stage.places.state, "sessions", session_id())
    os.makedirs(directory, 0o700)
    with Path(directory, EVENTS).open("ab", buffering=0) as log:
        for line in frames():
            if pace and json.loads(line)["kind"] == "tool_call":
                time.sleep(pace)
            if not going():
                return
            log.write(line)
    shutil.copyfile(RECORDING / HEAD, os.path.join(directory, HEAD))


def neutral(lines: list[bytes], home: str) -> list[bytes]:
    """The frames as another machine would have written them: the host's name and the home are all that is changed."""
    from nd7core.audit import frame

    found: list[bytes] = []
    for line in lines:
        old = frame.decode(line)
        if not isinstance(old, frame.Frame):
            raise Nd7Error(f"the log is damaged: {old.reason}")
        before = json.loads(found[-1])["hash"] if found else frame.genesis(old.session_id)
        body = json.loads(json.dumps(old.body).replace(home, HOME))
        new = frame.encode(old.session_id, old.seq, old.ts, HOST, old.source, old.kind, before, body)
        found.append(new + b"\n")
    return found


def make() -> int:
    """Play a session with one grant and keep its log as the recording; returns how many frames it has."""
    from nd7core import grants
    from nd7tui.demo import stage
    from nd7tui.demo.drive import Driver

    set_up = stage.make()

    def grant() -> None:
        grants.allow(set_up.places, driver.pid, os.path.join(set_up.home, "notes"))

    def tried_again() -> None:
        if driver.played:
            driver.stop()

    driver = Driver(set_up, keep=True, told=tried_again, waiting=grant)
    try:
        driver.run()
        driver.process.wait()
        log = Path(set_up.log(), EVENTS).read_bytes()
    finally:
        driver.end()
    lines = neutral(log.splitlines(), set_up.home)
    last = json.loads(lines[-1])
    RECORDING.mkdir(exist_ok=True)
    (RECORDING / EVENTS).write_bytes(b"".join(lines))
    (RECORDING / HEAD).write_text(f"{last['seq']} {last['hash']}\n")
    return len(lines)


if __name__ == "__main__":
    print(f"{make()} frames")
    sys.exit(0)
