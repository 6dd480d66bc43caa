"""What the dashboard costs, in one run: first paint, append to pixels, keys under load, a million rows, search, idling.

    python tests/bench/dashboard.py [ROUNDS]

Everything runs on a real pseudo-terminal over real logs in throw-away homes: 3,000 recorded sessions of a million
events, and at the end twenty sessions of `nd7 run`, which idle.  It takes about six minutes, two of them for making
the logs and their index.  The first paint is a ratio to a Textual app with one Static, taken in turn with it; the other
figures are this machine's.  Beside each stands what was asked, and the last line names what was missed.
"""

from __future__ import annotations

import os
import re
import shutil
import statistics
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent / "support"), str(HERE.parent / "rig"), str(HERE.parent.parent)]
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)

import past
from tui_pty import ROOT, Sleeper, Story, Tty, dashboard

from nd7core.history_index import Indexer
from nd7core.paths import Places, places_of

SIZE = (120, 40)
SESSIONS, EVENTS = 3_000, 1_000_000
LIVE = 20
# As a person looks for something: by path, command, project, source, time, and what narrows it further.
QUERIES = (
    "uv sync", "/home/dev/.npm/_cacache", "wheel", "cargo install --root", "billing-server", "source:kernel trace",
    "age:90d parser", "project:ledger shard", "/etc/app/conf.d/vault", "sed -i", "op:write header.bin", "9f3a",
    "path:/srv/data token", "source:model", "age:7d", "CACHE", "git clone report", "tool:Bash state:open graph",
)  # fmt: skip
KEY_SECONDS = 0.12  # a quick typist
STATIC = """
from textual.app import App
from textual.widgets import Static
class One(App):
    def compose(self):
        yield Static("FIRST-PAINT")
One().run()
"""
MANY = """
import sys, time
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
            status = open("/proc/self/status").read()  # getrusage has that of the process it was forked from as well
            memory = int(status.partition("VmHWM:")[2].split()[0]) / 1024
            self.exit(message=f"MANY {self.mounted:.3f} {rate:.1f} {memory:.0f} END")
Many(places_of(sys.argv[2]), environ={}, follow=False).run()
"""


SEARCH = """
import sys, time
sys.path.insert(0, sys.argv[1])
from textual import events
from nd7core.paths import places_of
from nd7core.text import safe
from nd7tui.app import Dashboard
from nd7tui.screens import history
class Timed(history.History):
    told = ""
    def on_answer(self, message):
        super().on_answer(message)
        if message.number == self.number:
            took = (time.monotonic() - self.app.pressed) * 1e3
            self.told = f"  <{self.box.value}|{took:.1f}|{'whole' if self.complete else 'cut'}>"
    def at_right(self):
        return super().at_right().put(safe(self.told))
history.History = Timed
class Searched(Dashboard):
    pressed = 0.0
    async def on_event(self, event):
        if isinstance(event, events.Key):
            self.pressed = event.time
        await super().on_event(event)
Searched(places_of(sys.argv[2]), environ={}, follow=False).run()
"""


class Figures:
    """What was measured, printed with what was asked."""

    def __init__(self) -> None:
        self.missed: list[str] = []
        self.count = 0

    def say(self, name: str, shown: str, asked: str = "") -> None:
        """A figure for which nothing was asked."""
        print(f"  {name:<38}{shown:<44}{asked}".rstrip(), flush=True)

    def tell(self, name: str, value: float, asked: float, unit: str, more: str = "", *, least: bool = False) -> None:
        """A figure that is asked to be at most, or at least, so much."""
        self.count += 1
        missed = value < asked if least else value > asked
        if missed:
            self.missed.append(name)
        shown = f"{value:8.2f} {unit}" if value < 10 else f"{value:8.1f} {unit}"
        asked_ = f"asked: {'at least' if least else 'at most'} {asked:g} {unit}{'   MISSED' if missed else ''}"
        self.say(name, f"{shown}  {more}", asked_)

    def end(self) -> None:
        """The last line."""
        verdict = f"missed: {', '.join(self.missed)}" if self.missed else f"all {self.count} figures are as asked"
        print(verdict, flush=True)


def spread(values: list[float]) -> str:
    """The range, in milliseconds."""
    return f"({min(values) * 1e3:.1f} to {max(values) * 1e3:.1f})"


def ms(values: list[float]) -> float:
    """The median, in milliseconds."""
    return statistics.median(values) * 1e3


def percentile(values: list[float], share: float) -> float:
    """The value below which that share of them is."""
    return sorted(values)[min(len(values) - 1, int(share * len(values)))]


def processor(pid: int) -> float:
    """Seconds of processor time that all threads of a process have had, to the nanosecond."""
    tasks = Path(f"/proc/{pid}/task").iterdir()
    return sum(int((task / "schedstat").read_text().split()[0]) for task in tasks) / 1e9


def until(tty: Tty, wanted: bytes, seconds: float = 60.0) -> float:
    """Seconds from now until a text has been written that was not there before."""
    start, at = time.perf_counter(), len(tty.bytes)
    while wanted not in tty.bytes[at:]:
        tty.read(0.5, 0.0)
        if time.perf_counter() - start > seconds:
            raise SystemExit(f"{wanted!r} was never painted")
    return time.perf_counter() - start


def recorded(places: Places, figures: Figures) -> None:
    """A year of sessions, and the index of them."""
    start = time.perf_counter()
    events = past.write(places.state, SESSIONS, EVENTS, time.time_ns())
    made = time.perf_counter() - start
    for _ in Indexer(places.state, home=places.home).work():
        continue
    took = time.perf_counter() - start - made
    size = (Path(places.state) / "index" / "history.sqlite").stat().st_size / 1e6
    figures.say(f"{SESSIONS:,} sessions of {events:,} events", f"written in {made:.0f} s, indexed in {took:.0f} s")
    figures.say("their index", f"{size:.0f} MB")


def first_paint(places: Places, figures: Figures, rounds: int) -> None:
    """Spawn to the first text, in turn with the app that has one Static; also in processor time, which others' work
    on the machine disturbs less."""
    one: list[tuple[float, float]] = []
    ours: list[tuple[float, float]] = []
    whole: list[float] = []
    for _ in range(rounds):
        for argv, wanted, times in (
            ([sys.executable, "-c", STATIC], b"FIRST-PAINT", one),
            (None, b"all sessions", ours),
        ):
            start = time.perf_counter()
            tty = Tty(argv, SIZE) if argv else dashboard(places, size=SIZE)
            until(tty, wanted)
            times.append((time.perf_counter() - start, processor(tty.child.pid)))
            if argv is None:
                tty.wait_for("denials")
                whole.append(time.perf_counter() - start)
            tty.close()
    wall, used = ([taken[which] for taken in one] for which in (0, 1))
    our_wall, our_used = ([taken[which] for taken in ours] for which in (0, 1))
    figures.say("one Static", f"{ms(wall):8.1f} ms  {spread(wall)}")
    figures.say("nd7 tui", f"{ms(our_wall):8.1f} ms  {spread(our_wall)}")
    figures.say("with all its panes", f"{ms(whole):8.1f} ms  {spread(whole)}")
    figures.tell("first paint, to one Static's", ms(our_wall) / ms(wall), 1.15, "times")
    figures.say("the same in processor time", f"{ms(our_used) / ms(used):8.2f} times")


def pixels(places: Places, figures: Figures, owner: Sleeper, rounds: int) -> None:
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
    figures.tell("append to pixels, 100 events/s, median", ms(taken), 40, "ms", spread(taken))
    flood(places, figures, tty)
    tty.close()


def flood(places: Places, figures: Figures, tty: Tty, rate: int = 10_000, count: int = 30_000) -> None:
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
    figures.tell(f"a key at {len(lines) / spent[0]:,.0f} events/s, median", ms(taken), 50, "ms", spread(taken))


def many(places: Places, figures: Figures) -> None:
    """A million rows in the list."""
    tty = Tty([sys.executable, "-c", MANY, str(ROOT), places.home], SIZE)
    tty.wait_for(" END", 120)
    text = bytes(tty.bytes).rpartition(b"MANY ")[2].partition(b" END")[0].decode()
    mounted, rate, memory = text.split()
    tty.close()
    figures.tell("a million rows: mounted", float(mounted) * 1e3, 200, "ms")
    figures.tell("paging in them", float(rate), 30, "frames/s", least=True)
    figures.tell("memory", float(memory), 150, "MiB")


def search(places: Places, figures: Figures) -> None:
    """Queries typed letter by letter: from the key to the rows in the list, and to them on the terminal."""
    tty = Tty([sys.executable, "-c", SEARCH, str(ROOT), places.home], SIZE)
    tty.wait_for("denials", 30)
    tty.press("h")
    tty.wait_for("<|", 60)
    tty.read(2.0)  # the indexer looks at every log and finds nothing to do
    ready: list[float] = []
    painted: list[float] = []
    cut = 0
    for query in QUERIES:
        for length in range(1, len(query) + 1):
            tty.read(KEY_SECONDS)
            at, start = len(tty.bytes), time.perf_counter()
            os.write(tty.master, query[length - 1].encode())
            until(tty, f"<{query[:length]}|".encode())
            painted.append(time.perf_counter() - start)
            tty.read(0.01)
            told = re.search(rb"<[^|<]*\|([0-9.]+)\|(whole|cut)>", bytes(tty.bytes[at:]))
            if told is None:
                raise SystemExit("the search did not say how long it took")
            ready.append(float(told[1]) / 1e3)
            cut += told[2] == b"cut"
        os.write(tty.master, b"\x15")
        until(tty, b"<|")
    tty.close()
    name = "search as one types, 95th percentile"
    figures.tell(name, percentile(ready, 0.95) * 1e3, 50, "ms", f"median {ms(ready):.1f}, {len(ready)} keys")
    more = f"median {ms(painted):.1f}"
    figures.say("the same to pixels, 95th percentile", f"{percentile(painted, 0.95) * 1e3:8.1f} ms  {more}")
    figures.say("answers that were the latest of many", f"{cut * 100 / len(ready):8.1f} %")


def idle(figures: Figures) -> None:
    """A share of one core, with sessions of `nd7 run` whose program does nothing."""
    from world import new_world

    with new_world() as world:
        for number in range(LIVE):
            world.mkdir(f"{world.home}/idle{number}")
            world.start(["nd7", "run", "sleep", "86400"], cwd=f"{world.home}/idle{number}")
        sessions = f"{world.home}/.nd7/sessions"
        world.wait(lambda: sum(name.isdigit() for name in world.listdir(sessions)) == LIVE, 120, "the sessions")
        tty = Tty(world.inside(["nd7", "tui"]), SIZE, world.environ({"TEXTUAL_ANIMATIONS": "none"}))
        tty.wait_for("idle7", 60)
        tty.read(5.0)
        first = share(tty, 20.0, lambda: processor(tty.child.pid))
        tty.read(40.0)
        theirs = [pid for pid in world.processes() if pid != tty.child.pid]
        before = sum(processor(pid) for pid in theirs if Path(f"/proc/{pid}").exists())
        start = time.perf_counter()
        later = share(tty, 60.0, lambda: ticks(tty.child.pid))
        after = sum(processor(pid) for pid in theirs if Path(f"/proc/{pid}").exists())
        own = (after - before) / (time.perf_counter() - start)
        tty.close()
    figures.tell(f"idle with {LIVE} sessions", later * 100, 1, "% of a core", "over a minute")
    figures.tell("in their first minute, told in seconds", first * 100, 1, "% of a core")
    figures.say(f"the {LIVE} sessions themselves", f"{own * 100:8.2f} % of a core  {len(theirs)} processes")


def ticks(pid: int) -> float:
    """Seconds of processor time, as the kernel counts them for everybody: hundredths."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def share(tty: Tty, seconds: float, used: Callable[[], float]) -> float:
    """How much of one core was used meanwhile."""
    before, start = used(), time.perf_counter()
    tty.read(seconds)
    return (used() - before) / (time.perf_counter() - start)


def main() -> None:
    rounds = int(sys.argv[1]) if len(sys.argv) > 1 else 10
    home = tempfile.mkdtemp(prefix="nd7-bench-")
    places = places_of(os.path.realpath(home))
    owner = Sleeper()
    figures = Figures()
    start = time.perf_counter()
    try:
        os.makedirs(places.state, 0o700)
        recorded(places, figures)
        first_paint(places, figures, rounds)
        pixels(places, figures, owner, rounds)
        many(places, figures)
        search(places, figures)
        idle(figures)
    finally:
        owner.end()
        shutil.rmtree(home, ignore_errors=True)
    figures.say("this run", f"{time.perf_counter() - start:8.0f} s")
    figures.end()


if __name__ == "__main__":
    main()
