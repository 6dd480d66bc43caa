"""Makes the pictures in this directory from a real demo session: the real supervisor, kernel, log and dashboard.

    python screenshots/make.py           writes NAME-COLUMNSxROWS.svg and .png
    python screenshots/make.py --check   makes them in memory and says which of the files here are out of date

Needs cairosvg and the font DejaVu Sans Mono for the PNGs, and Linux with Landlock; takes half a minute.
"""

from __future__ import annotations

import argparse
import asyncio
import difflib
import html
import os
import re
import subprocess
import sys
import threading
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent))
SIZES = ((120, 36), (80, 24))
FONT = "DejaVu Sans Mono"
SECONDS = 30.0


# A session with a terminal, as `nd7 run --detach` starts one, on the demo's stage; the demo's own has none.
SHELL = """import os, sys
sys.path.insert(0, sys.argv[1])
from nd7exec.lifecycle import Wish, prepare
from nd7exec.supervisor import Supervisor
from nd7tui.demo.stage import Stage
stage = Stage(sys.argv[2])
words = ("sh", "-xc", "cat README.md; touch ~/notes/x; exec sleep 600")
session = prepare(Wish(words, stage.project, "shell"), stage.places, stage.environ(os.environ))
sys.exit(Supervisor(session, stage.places, frozenset(), lambda line: None, pty=True).run())
"""


async def until(true: object, what: str) -> None:
    """Wait until `true()` is; raises TimeoutError with `what` it waited for."""
    assert callable(true)
    for _ in range(int(SECONDS / 0.05)):
        if true():
            return
        await asyncio.sleep(0.05)
    raise TimeoutError(what)


async def pictures(size: tuple[int, int]) -> dict[str, str]:
    """Play a demo session and drive the dashboard over it; SVG by name."""
    from nd7tui.app import Dashboard
    from nd7tui.demo import stage
    from nd7tui.demo.drive import Driver
    from nd7tui.model import Batch
    from nd7tui.screens.ask import Ask
    from nd7tui.screens.dashboard import Main
    from nd7tui.widgets.textpane import TextPane

    class Still(Dashboard):
        """Says nothing of the kernel's audit: whether that is on is the machine's, and may change from run to run."""

        def arrived(self, batch: Batch) -> None:
            for session in batch.sessions or ():
                session.enforced.pop("kernel records", None)
            super().arrived(batch)

    set_up = stage.make()
    os.chdir(set_up.project)  # which the form for a new session proposes
    tries: list[str] = []
    shells: list[subprocess.Popen[bytes]] = []
    driver = Driver(set_up, told=lambda: tries.append("again") if driver.played else None)
    thread = threading.Thread(target=driver.run, daemon=True)
    thread.start()
    taken: dict[str, str] = {}
    try:
        await until(lambda: driver.played or not thread.is_alive(), "the agent to have played")
        if not driver.played:
            raise SystemExit("the session ended: " + "\n".join(driver.lines))
        app = Still(set_up.places, environ={})
        async with app.run_test(size=size) as pilot:

            async def take(name: str) -> None:
                await pilot.pause(0.4)  # what a row's keys would do is worked out in a thread
                app.quiet()
                await pilot.pause(0.1)
                taken[f"{name}-{size[0]}x{size[1]}"] = own(app.export_screenshot(title="nd7 tui"))

            def first_state() -> str:
                return app.store.row_at(0).state if app.store.view else ""

            await until(lambda: len(app.store.view) >= 7, "every refusal to be in the stream")
            await pilot.press("home")
            await take("dashboard")
            await pilot.press("slash", *"source:k op:write")
            await take("filter")
            await pilot.press("escape", "home")
            await pilot.press("enter")
            await take("moment")
            await pilot.press("escape", "G", "down")
            await take("wider")
            await pilot.press("enter")
            await until(lambda: isinstance(app.screen, Ask), "what is dangerous to be asked about")
            await take("ask")
            await pilot.press("escape", "g")
            await until(lambda: first_state() == "proved" and tries == ["again"], "the granted write to pass")
            await until(lambda: all(s.activity == "idle" for s in app.store.sessions.values()), "the agent to rest")
            await take("granted")
            await until(lambda: (grant := app.store.last_grant()) and grant.uses, "the use of the grant to be counted")
            await pilot.press("a")
            await take("grants")
            await pilot.press("escape", "p")
            await pilot.pause()
            # Its bar tells how long the profile is: where nd7 and its Python lie stands in it, which is the machine's.
            for pane in app.screen.query(TextPane):
                pane.styles.scrollbar_size_vertical = 0
            await take("profile")
            await pilot.press("escape", "i")
            await take("session")
            await pilot.press("escape", "l")
            await take("log")
            await pilot.press("escape", "question_mark")
            await take("help")
            await pilot.press("escape", "h")
            await until(lambda: "releases.txt" in app.export_screenshot(), "the past denials")
            await pilot.pause(1.0)
            await take("history")
            # Not the first one: the prompt and the first self-test, which stand above it, come in either order.
            await pilot.press("down", "end", "up", "enter")
            await until(lambda: getattr(app.screen, "frames", None), "the moment of the second refusal")
            await take("past")
            await pilot.press("escape", "v")
            await until(lambda: getattr(app.screen, "targets", None), "the past denials by target")
            await take("targets")
            await pilot.press("escape", "escape", "home")
            await until(lambda: isinstance(app.screen, Main), "the first screen")
            await pilot.press("n", "tab", "tab", *"login", "tab", *"mend", "space", *"the", "space", *"login")
            await take("launch")
            await pilot.press("escape")
            await until(lambda: isinstance(app.screen, Main), "the first screen again")
            app.theme = "nd7-light"
            app.changed()
            await take("light")
            app.theme = "nd7-dark"
            shells.append(subprocess.Popen([sys.executable, "-I", "-c", SHELL, str(HERE.parent), set_up.top]))
            await until(lambda: len(app.store.sessions) > 1, "the session with a terminal")
            await pilot.press("shift+tab", "end")
            await until(lambda: "touch:" in app.export_screenshot(), "its screen")
            await until(lambda: all(s.canary == "lit" for s in app.store.sessions.values()), "its self-test")
            await take("screen")
    finally:
        for shell in shells:
            shell.terminate()
            shell.wait(SECONDS)
        os.chdir(HERE)
        driver.end()
        thread.join(5.0)
    return taken


def own(svg: str) -> str:
    """A picture that needs nothing from elsewhere: no web fonts, and the same ids at each run."""
    svg = re.sub(r"\s*@font-face \{.*?\}", "", svg, flags=re.DOTALL)
    svg = svg.replace("Fira Code", FONT)
    return re.sub(r"terminal-\d+", "terminal-0", svg)


def text(svg: str) -> list[str]:
    """What can be read in a picture, without numbers: those are times, pids, ages and ids, and differ at each run."""
    rows: dict[str, list[str]] = {}
    for y, words in re.findall(r'<text[^>]* y="([\d.]+)"[^>]*>([^<]*)</text>', svg):
        rows.setdefault(y, []).append(html.unescape(words))
    lines = [re.sub(r"[0-9a-f]{8}-[0-9a-f-]{27}|\b[0-9a-f]{8,16}\b", "", "".join(row)) for row in rows.values()]
    return [re.sub(r"[\d\s─…▁▂▃▄▅▆▇█]+", " ", line).strip() for line in lines]


def make() -> dict[str, str]:
    """Every picture, by file name without ending."""
    taken: dict[str, str] = {}
    for size in SIZES:
        taken |= asyncio.run(pictures(size))
    for name, svg in taken.items():
        for path in {str(HERE.parent), sys.prefix, str(Path.home())} - {"/", "/usr"}:
            if path in svg:
                raise SystemExit(f"{name} holds a path of this machine: {path}")
    return taken


def stale(taken: dict[str, str]) -> list[str]:
    """What the files say and the pictures do not, and the other way round; empty where all are current."""
    known = {path.stem: path.read_text("utf-8") for path in HERE.glob("*.svg")}
    found = []
    for name in sorted(known.keys() | taken.keys()):
        before, now = text(known.get(name, "")), text(taken.get(name, ""))
        if before != now:
            lines = difflib.unified_diff(before, now, lineterm="", n=0)
            found += [f"out of date: {name}", *(line for line in lines if line[:2] not in ("--", "++", "@@"))]
    return found


def write(taken: dict[str, str]) -> None:
    """Write every picture as SVG and PNG; others that lie here go."""
    import cairosvg

    for path in (*HERE.glob("*.svg"), *HERE.glob("*.png")):
        if path.stem not in taken:
            path.unlink()
    for name, svg in taken.items():
        (HERE / f"{name}.svg").write_text(svg, "utf-8")
        cairosvg.svg2png(bytestring=svg.encode(), write_to=str(HERE / f"{name}.png"))


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--check", action="store_true", help="write nothing; exit 1 if a picture is out of date")
    arguments = parser.parse_args()
    os.environ.pop("TMPDIR", None)  # a neutral name in the pictures
    taken = make()
    if arguments.check:
        old = stale(taken)
        print("\n".join(old) or "every picture is current")
        return 1 if old else 0
    write(taken)
    print(f"{len(taken)} pictures")
    return 0


if __name__ == "__main__":
    sys.exit(main())
