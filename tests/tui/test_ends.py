"""However the dashboard ends, the terminal is as it was, and sessions live on."""

from __future__ import annotations

import base64
import os
import re
import signal
import subprocess
import termios
import time
from collections.abc import Iterator

import pytest
from tui_pty import Sleeper, Story, dashboard

from nd7core.paths import Places

COPIED = re.compile(rb"\x1b\]52;c;([A-Za-z0-9+/=]+)\x07")
LEFT = (b"\x1b[?1049l", b"\x1b[?25h", b"\x1b[?1000l", b"\x1b[?2004l")


@pytest.fixture
def owner() -> Iterator[Sleeper]:
    made = Sleeper()
    yield made
    made.end()


@pytest.mark.parametrize(("how", "status"), [("q", 0), (signal.SIGTERM, 143), (signal.SIGHUP, 129)])
def test_the_terminal_is_given_back(here: Places, owner: Sleeper, how: str | signal.Signals, status: int) -> None:
    os.makedirs(here.state, 0o700)
    Story(here, "3f0c", "/srv/api", owner.pid, name="api").start()
    tty = dashboard(here)
    before = termios.tcgetattr(tty.master)[3]  # it is still being started
    tty.wait_for("api")
    at = len(tty.bytes)
    if isinstance(how, str):
        tty.press(how)
    else:
        os.kill(tty.child.pid, how)
    tty.read(20.0, 1.0)
    assert tty.child.wait(10) == status
    written = bytes(tty.bytes[at:])
    for sequence in LEFT:
        assert sequence in written, sequence
    assert b"Traceback" not in written
    after = termios.tcgetattr(tty.master)[3]
    for flag in (termios.ECHO, termios.ICANON, termios.ISIG):
        assert after & flag == before & flag
    tty.close()
    assert owner.child.poll() is None


@pytest.mark.parametrize("told", [False, True], ids=["without a word", "with a SIGHUP"])
def test_it_ends_with_its_terminal(here: Places, owner: Sleeper, told: bool) -> None:
    """The terminal closes while there is more to paint than anybody takes: it ends, and does not spin for ever."""
    os.makedirs(here.state, 0o700)
    story = Story(here, "3f0c", "/srv/api", owner.pid, name="api")
    story.start()
    tty = dashboard(here)
    tty.wait_for("api")
    os.close(tty.master)
    try:
        for number in range(60):  # each one paints: more often than Textual's queue holds
            if tty.child.poll() is not None:
                break
            if told and number == 40:
                os.kill(tty.child.pid, signal.SIGHUP)
            story.denied_write(f"/etc/{number}")
            time.sleep(0.05)
        assert tty.child.wait(10) in (129, 120)  # 120 is Python's own: what still stands in stdout has nowhere to go
    finally:
        tty.child.kill()
    assert owner.child.poll() is None


def test_a_dashboard_that_is_killed_takes_no_session_with_it(here: Places, owner: Sleeper) -> None:
    os.makedirs(here.state, 0o700)
    Story(here, "3f0c", "/srv/api", owner.pid, name="api").start()
    tty = dashboard(here)
    tty.wait_for("api")
    tty.child.kill()
    tty.child.wait(10)
    tty.close()
    assert owner.child.poll() is None and os.path.exists(f"{here.sessions}/{owner.pid}/record.json")


def test_y_copies_through_the_terminal_and_capital_y_leaves_and_prints(here: Places, owner: Sleeper) -> None:
    os.makedirs(here.state, 0o700)
    story = Story(here, "3f0c", "/srv/api", owner.pid, name="api")
    story.start()
    story.denied_write("/srv/cache/uv\x1b]52;c;eA==\x07/x")
    tty = dashboard(here)
    tty.wait_for("kernel")
    tty.read(3.0, 0.5)
    tty.press("y")
    tty.wait_for(COPIED.search)
    copied = COPIED.search(tty.bytes)
    assert copied is not None
    # Pasted into a shell it names the very path, and holds nothing that a terminal would obey.
    command = base64.b64decode(copied[1]).decode()
    assert command.isprintable() and command.startswith(f"nd7 allow --session {owner.pid} ")
    echoed = subprocess.run(
        ["bash", "-c", f"printf %s {command.rpartition(' ')[2]}"], capture_output=True, text=True, check=True
    )
    assert echoed.stdout == "/srv/cache/uv\x1b]52;c;eA==\x07"
    at = len(tty.bytes)
    tty.press("Y")
    tty.read(20.0, 1.0)
    assert tty.child.wait(20) == 0
    tty.close()
    left, _, printed = bytes(tty.bytes[at:]).rpartition(b"\x1b[?1049l")
    assert left and command.encode() in printed and b"\x07" not in printed


def test_without_a_terminal_it_says_what_works(here: Places) -> None:
    import sys

    done = subprocess.run(
        [sys.executable, "-P", "-m", "nd7tui.cli", "tui"], stdin=subprocess.DEVNULL, capture_output=True, text=True
    )
    assert done.returncode == 1 and "needs a terminal" in done.stderr and "nd7 sessions" in done.stderr
