"""`nd7 demo --plain`: the session in lines, with what nd7 says of each call below it.  For pipes and CI."""

from __future__ import annotations

import os
import sys

from nd7core import grants, sessions
from nd7core.attribution import FileLook
from nd7core.attribution.verdict import Verdict
from nd7core.audit.frame import Frame
from nd7core.audit.tail import FileFollower
from nd7core.denials import Denial, Denials
from nd7core.errors import Nd7Error
from nd7core.events import AgentWords, ToolEvent
from nd7core.pairing import Pairing
from nd7core.record import Record
from nd7core.text import safe
from nd7tui import look
from nd7tui.demo import recorded
from nd7tui.demo.drive import Driver
from nd7tui.demo.stage import Stage

NAMES = {"kernel": "kernel", "nd7-exec": "nd7-exec", "model": "model report", "none": "no denial of nd7's"}


class Teller:
    """Follows the log on a stage and says each row once, and again when it has come again."""

    def __init__(self, stage: Stage, home: str, look: FileLook | None = None) -> None:
        self.stage = stage
        self.denials = Denials(home=home, look=look)
        self.pairing = Pairing()
        self.home = home
        self.rows: list[Denial] = []
        self._follower: FileFollower | None = None
        self._said: dict[str, int] = {}

    def frames(self) -> list[Frame]:
        """The frames that have come since the last time."""
        if self._follower is None:
            directory = self.stage.log()
            if not directory:
                return []
            self._follower = FileFollower(os.path.join(directory, "events.ndjson"))
        return [item for item in self._follower.poll() if isinstance(item, Frame)]

    def look(self, record: Record | None) -> list[Denial]:
        """Take the new frames and say what is fresh in them; `record` is the live session's."""
        changed: dict[str, Denial] = {}
        for frame in self.frames():
            for event in self.pairing.feed(frame):
                changed.update((row.id, row) for row in self.denials.feed(event, record))
        return self.say(list(changed.values()))

    def say(self, changed: list[Denial]) -> list[Denial]:
        """Print those of the rows that are new or have come again, and return them."""
        rows = [row for row in changed if row.count > self._said.get(row.id, 0)]
        self._said.update((row.id, row.count) for row in rows)
        self.rows += rows
        for row in rows:
            for line in told(row.verdict, self.home):
                print(f"  {line}")
        sys.stdout.flush()
        return rows


def short(text: str, home: str) -> str:
    """A text with the home in it as `~`, fit for a terminal."""
    return safe(text.replace(home, "~"), 400)


def told(verdict: Verdict, home: str) -> list[str]:
    """What nd7 says of a failure."""
    mark = look.SOURCE[verdict.source][0]
    lines = [f"{mark} {NAMES[verdict.source]} ({verdict.evidence}): {short(verdict.reason, home)}"]
    if verdict.target:
        lines.append(f"    {verdict.operation} {short(verdict.target, home)}")
    if verdict.contradiction:
        lines.append(f"    against it: {short(verdict.contradiction, home)}")
    if verdict.remedy == "grant":
        lines.append(f"    nd7 allow {short(verdict.grant, home)}")
    elif verdict.remedy == "restart-wider":
        lines.append(f"    nd7 allow {short(verdict.grant or verdict.target, home)}, and restart the session")
    elif verdict.remedy == "cannot-grant":
        lines.append("    no grant helps")
    return lines


def play(stage: Stage) -> int:
    """Play the session, grant what the first refusal asks for, and see it pass.  Exit status 0 if it did."""
    places = stage.places
    teller = Teller(stage, stage.home, FileLook())
    passed: list[bool] = []

    def line(text: str) -> None:
        print(short(text, stage.home), flush=True)

    def told_step() -> None:
        rows = teller.look(sessions.load(places, driver.pid).record)
        if driver.played:
            passed.append(not any(row.denied for row in rows))
            driver.stop()

    def waiting() -> None:
        if passed:
            return
        row = next((row for row in teller.rows if row.denied and row.verdict.remedy == "grant"), None)
        if row is None:
            print("\nnothing was refused that a grant would mend", flush=True)
            driver.stop()
            return
        print(f"\n▶ you, in the dashboard: g (nd7 allow {short(row.verdict.grant, stage.home)})", flush=True)
        try:
            grants.allow(places, driver.pid, row.verdict.grant, origin=row.id)
        except Nd7Error as error:
            print(f"  not granted: {error.message}", flush=True)
            driver.stop()

    driver = Driver(stage, line=line, told=told_step, waiting=waiting)
    try:
        driver.run()
    finally:
        driver.end()
    if not teller.rows:
        return driver.process.returncode or 1
    print("\nGranted, tried again, and " + ("it passes." if passed and passed[-1] else "it is refused still."))
    return 0 if passed and passed[-1] else 1


def show_recorded(stage: Stage) -> int:
    """Print the recorded session, call by call.  Exit status 0."""
    recorded.play(stage)
    home = recorded.HOME
    teller = Teller(stage, home)
    for frame in teller.frames():
        for event in teller.pairing.feed(frame):
            if isinstance(event, AgentWords):
                print(f"\n{short(event.text, home)}")
            elif isinstance(event, ToolEvent) and event.state != "running":
                what = event.command or str(event.input.get("file_path", ""))
                print(f"\n● {event.tool}  {short(what, home)}")
                for line in event.output.splitlines()[:6]:
                    print(f"  {short(line, home)}")
            teller.say(teller.denials.feed(event))
    return 0
