"""What the dashboard costs, in one run: first paint, append to pixels, keys under load, a million rows, search, idling.

    python tests/bench/dashboard.py [ROUNDS]

Everything runs on a real pseudo-terminal over real logs in a throw-away home.  The first paint is a ratio to a
Textual app with one Static, taken in turn with it; the other figures are this machine's.
"""

from __future__ import annotations

import os
import shutil
import statistics
import sys
import tempfile
import threading
import time
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parent / "support"), str(HERE.parent.parent)]
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)

from tui_pty import ROOT, Sleeper, Story, Tty, dashboard

from nd7core.paths import Places, places_of

SIZE = (120, 40)
STATIC = """
from textual.app import App
from textual.widgets import Static
class One(App):
    def compose(self):
        yield Static("FIRST-PAINT")
One().run()
"""
MANY = """
import resource, sys, time
sys.path.insert(0, sys.argv[1])
from nd7core.paths import places_of
from nd7core.text import safe
from nd7tui import keys
from nd7tui.app import Dashboard
from nd7tui.line import Line
from nd7tui.screens.page import Page
from nd7tui.widgets.rowlist import RowList
class Rows:
    def __len__(self): return 1_000_000
    def key(self, place): return str(place)
    def place(self, key): return int(key)
    def line(self, place, width):
        line = Line().put(safe("12:30:11"), "dim").gap().put(safe("api-server"), "dim", cells=14).gap()
        line.put(safe("▲"), "kernel").gap().put(safe("kernel"), "kernel", cells=9).put(safe("write"), "dim", cells=8)
        return line.put(safe(f"~/.cache/uv/wheels/{place}/CACHEDIR.TAG"), "path", cells=60).put(safe("□ open"), "warn")
    def empty(self, width): return []
class Big(Page):
    NAME = "big"
    BINDINGS = [*keys.bindings("big")]
    def compose(self):
        self.list = RowList(Rows(), id="many")
        yield self.list
class Many(Dashboard):
    frames = -1
    def get_default_screen(self):
        self.start = time.perf_counter()
        return Big()
    def _display(self, screen, renderable):
        super()._display(screen, renderable)
        if self.frames < 0 and screen.query("#many"):
            self.mounted = time.perf_counter() - self.start
            self.began, self.frames = time.perf_counter(), 0
        if self.frames >= 0:
            self.frames += 1
            self.call_later(self.step)
    def step(self):
        if self.frames < 200:
            self.screen.list.action_page_down()
            self.screen.list.refresh()
        elif self.frames == 200:
            rate = self.frames / (time.perf_counter() - self.began)
            memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
            self.exit(message=f"MANY {self.mounted:.3f} {rate:.1f} {memory:.0f} END")
Many(places_of(sys.argv[2]), environ={}, follow=False).run()
"""


def median(values: list[float]) -> str:
    """The median and the range, in milliseconds."""
    ordered = sorted(values)
    return f"{statistics.median(ordered) * 1e3:7.1f} ms   ({ordered[0] * 1e3:.1f} to {ordered[-1] * 1e3:.1f})"


def until(tty: Tty, wanted: bytes, seconds: float = 60.0) -> float:
    """Seconds from now until a text has been written that was not there before."""
    start, at = time.perf_counter(), len(tty.bytes)
    while wanted not in tty.bytes[at:]:
        tty.read(0.5, 0.0)
        if time.perf_counter() - start > seconds:
            raise SystemExit(f"{wanted!r} was never painted")
    return time.perf_counter() - start


def recorded(places: Places, count: int) -> None:
    """So many past sessions: one written by the log itself, the others the same bytes under other names."""
    first = Story(places, "bench-0", "/srv/app")
    first.start()
    for number in range(20):
        first.denied_write(f"/srv/cache/{number}/x")
    first.end()
    logs = Path(places.state) / "sessions"
    for number in range(1, count):
        shutil.copytree(logs / "bench-0", logs / f"bench-{number}")
        old = time.time() - 86_400 * 2
        os.utime(logs / f"bench-{number}" / "events.ndjson", (old, old))


def first_paint(places: Places, rounds: int) -> None:
    """Spawn to the first text, in turn with the app that has one Static."""
    one: list[float] = []
    ours: list[float] = []
    whole: list[float] = []
    for _ in range(rounds):
        for argv, wanted, times in (
            ([sys.executable, "-c", STATIC], b"FIRST-PAINT", one),
            (None, b"all sessions", ours),
        ):
            start = time.perf_counter()
            tty = Tty(argv, SIZE) if argv else dashboard(places, size=SIZE)
            until(tty, wanted)
            times.append(time.perf_counter() - start)
            if argv is None:
                tty.wait_for("denials")
                whole.append(time.perf_counter() - start)
            tty.close()
    print(f"  one Static              {median(one)}")
    print(f"  nd7 tui                 {median(ours)}")
    print(f"  with all its panes      {median(whole)}")
    print(f"  ratio of the medians    {statistics.median(ours) / statistics.median(one):7.2f}    to reach: 1.15")


def pixels(places: Places, owner: Sleeper, rounds: int) -> None:
    """From an append to its row on the terminal, at about 100 events a second."""
    story = Story(places, "bench-live", "/srv/live", owner.pid, name="live")
    story.start()
    tty = dashboard(places, size=SIZE)
    until(tty, b"live")
    tty.read(3.0)
    taken: list[float] = []
    for number in range(rounds * 10):
        for _ in range(3):
            story.call("true", "", 0)
        path = f"/srv/out/{number:06}"
        tty.read(0.0)
        start = time.perf_counter()
        story.denied_write(path)
        until(tty, f"{number:06}".encode())
        taken.append(time.perf_counter() - start)
        tty.read(0.03)
    print(f"  append to pixels        {median(taken)}    to reach: 40 ms")
    flood(places, tty)
    tty.close()


def flood(places: Places, tty: Tty, rate: int = 10_000, count: int = 30_000) -> None:
    """How long a key takes to be answered while events pour in; the log is written beforehand, at another place."""
    aside = places_of(tempfile.mkdtemp(prefix="nd7-bench-"))
    os.makedirs(aside.state, 0o700)
    story = Story(aside, "bench-flood", "/srv/flood")
    story.start()
    for _ in range(count // 2):
        story.call("true", "ok", 0)
    lines = Path(story.log.directory, "events.ndjson").read_bytes().splitlines(keepends=True)
    shutil.rmtree(aside.home)
    target = Path(places.state) / "sessions" / "bench-flood"
    target.mkdir(0o700)
    stop = threading.Event()
    spent = [0.0]

    def pour() -> None:
        with (target / "events.ndjson").open("ab", buffering=0) as file:
            start = time.perf_counter()
            for at in range(0, len(lines), rate // 100):
                file.write(b"".join(lines[at : at + rate // 100]))
                time.sleep(max(0.0, start + (at + rate // 100) / rate - time.perf_counter()))
            spent[0] = time.perf_counter() - start
        stop.set()

    thread = threading.Thread(target=pour)
    thread.start()
    taken: list[float] = []
    while not stop.is_set():
        tty.read(0.05)
        begun = time.perf_counter()
        os.write(tty.master, b"Z")
        until(tty, b"does nothing here")
        taken.append(time.perf_counter() - begun)
        os.write(tty.master, b"\x1b[A")
        tty.read(0.05)
    thread.join()
    print(f"  a key at {len(lines) / spent[0]:6.0f} events/s {median(taken)}    to reach: 50 ms")


def many(places: Places) -> None:
    """A million rows in the list."""
    tty = Tty([sys.executable, "-c", MANY, str(ROOT), places.home], SIZE)
    tty.wait_for(" END", 120)
    text = bytes(tty.bytes).rpartition(b"MANY ")[2].partition(b" END")[0].decode()
    mounted, rate, memory = text.split()
    tty.close()
    print(f"  a million rows: mounted {float(mounted) * 1e3:7.1f} ms    to reach: 200 ms")
    print(f"  paging                  {rate:>7} frames/s    to reach: 30")
    print(f"  memory                  {memory:>7} MiB    to reach: 150")


def idle(places: Places) -> None:
    """A share of one core, with 20 sessions that run and write nothing."""
    owners = [Sleeper() for _ in range(20)]
    for number, owner in enumerate(owners):
        Story(places, f"idle-{number}", f"/srv/idle{number}", owner.pid, name=f"idle{number}").start()
    tty = dashboard(places, size=SIZE)
    tty.read(6.0)
    clock = os.sysconf("SC_CLK_TCK")

    def used() -> float:
        fields = Path(f"/proc/{tty.child.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / clock

    before, start = used(), time.perf_counter()
    tty.read(20.0)
    share = (used() - before) / (time.perf_counter() - start)
    tty.close()
    for owner in owners:
        owner.end()
    print(f"  idle with 20 sessions   {share * 100:7.2f} % of a core    to reach: 1 %")


def main() -> None:
    rounds = int(sys.argv[1]) if len(sys.argv) > 1 else 10
    home = tempfile.mkdtemp(prefix="nd7-bench-")
    places = places_of(os.path.realpath(home))
    owner = Sleeper()
    try:
        os.makedirs(places.state, 0o700)
        recorded(places, 3000)
        print("with 3,000 recorded sessions on the disk:")
        first_paint(places, rounds)
        pixels(places, owner, rounds)
        many(places)
        idle(places)
    finally:
        owner.end()
        shutil.rmtree(home, ignore_errors=True)


if __name__ == "__main__":
    main()
