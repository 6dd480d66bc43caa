"""A glance at a session's screen: what a terminal would show, as far as it matters, and no fault for any bytes."""

from __future__ import annotations

import random
import shutil
import subprocess
import time
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nd7tui.emulate import LARGEST, MOST, Screen, show


@pytest.mark.parametrize(
    ("data", "lines"),
    [
        (b"one\r\ntwo", ["one", "two"]),
        (b"one\x1b[1;1HO", ["One"]),
        (b"abcdef\x1b[3D\x1b[K", ["abc"]),
        (b"abc\x1b[2J\x1b[Hx", ["x"]),
        (b"a\tb", ["a       b"]),
        (b"ab\bc", ["ac"]),
        (b"0123456789abc", ["0123456789", "abc"]),
        (b"0123456789\r\nx", ["0123456789", "x"]),
        (b"1\r\n2\r\n3\r\n4\r\n5", ["2", "3", "4", "5"]),
        (b"1\r\n2\r\n3\r\n4\x1b[2;3r\x1b[3;1H\n", ["1", "3", "", "4"]),
        (b"1\r\n2\x1b[1;1H\x1b[L0", ["0", "1", "2"]),
        (b"1\r\n2\r\n3\x1b[1;1H\x1b[M", ["2", "3"]),
        (b"abcdef\x1b[2G\x1b[2P", ["adef"]),
        (b"abc\x1b[2G\x1b[2@", ["a  bc"]),
        (b"abc\x1b[1G\x1b[2X", ["  c"]),
        (b"\x1b]0;title\x07x\x1bPq#0\x1b\\y\x1b_z\x1b\\", ["xy"]),
        (b"\x1b[31mred\x1b[0m", ["red"]),
        ("日本x".encode(), ["日本x"]),
        (b"abc\x1b7\x1b[3;3H!\x1b8d", ["abcd", "", "  !"]),
        (b"x\x1bc\x1b[?1049h", []),
        (b"\xff\xfeab", ["\ufffd\ufffdab"]),
    ],
)
def test_what_it_shows(data: bytes, lines: list[str]) -> None:
    assert show(data, 4, 10) == lines


@given(st.binary(max_size=400), st.integers(-3, 30), st.integers(-3, 30))
def test_any_bytes_are_a_screen_of_its_size(data: bytes, rows: int, columns: int) -> None:
    screen = Screen(rows, columns)
    screen.feed(data)
    assert len(screen.lines()) <= max(rows, 1)
    assert all(len(line) <= max(columns, 1) and "\x1b" not in line and "\n" not in line for line in screen.lines())


PIECES = (
    *(b"a", b"xyz", b"\r\n", b"\r", b"\n", b"\b", b"\t", b"0123456789abcdefghij"),
    *(b"\x1b[A", b"\x1b[2B", b"\x1b[3C", b"\x1b[D", b"\x1b[H", b"\x1b[3;5H", b"\x1b[5G", b"\x1b[3d", b"\x1bM"),
    *(b"\x1b[J", b"\x1b[1J", b"\x1b[2J", b"\x1b[K", b"\x1b[1K", b"\x1b[2K", b"\x1b[2P", b"\x1b[2@", b"\x1b[2X"),
    *(b"\x1b[L", b"\x1b[M", b"\x1b[S", b"\x1b[T"),
)


def test_a_real_terminal_agrees(tmp_path: Path) -> None:
    """tmux is shown the same sequences; 20 pieces at a time."""
    if shutil.which("tmux") is None:
        pytest.fail("tmux is not installed; README's test command installs it")
    chosen = random.Random(7)
    for number in range(8):
        data = b"".join(chosen.choice(PIECES) for _ in range(20)) + b"\x1b[8;1H"
        path = tmp_path / f"{number}"
        path.write_bytes(data)
        socket = str(tmp_path / f"s{number}")
        run = ["tmux", "-S", socket, "-f", "/dev/null"]
        subprocess.run(
            [*run, "new-session", "-d", "-x", "20", "-y", "8", f"stty -opost; cat {path}; sleep 30"], check=True
        )
        try:
            subprocess.run([*run, "set", "-g", "status", "off"], check=True)
            time.sleep(0.5)
            shown = subprocess.run([*run, "capture-pane", "-p"], check=True, capture_output=True, text=True).stdout
        finally:
            subprocess.run([*run, "kill-server"], check=False)
        real = [line.rstrip() for line in shown.split("\n")]
        while real and not real[-1]:
            real.pop()
        assert show(data, 8, 20) == real, data


def test_a_large_screenful_is_quick_and_a_claimed_size_is_bounded() -> None:
    start = time.perf_counter()
    assert len(show(b"\x1b[31mabc\r\n" * 100_000, 10**9, 10**9)) <= LARGEST[0]
    assert time.perf_counter() - start < 3


@pytest.mark.parametrize("unit", [b"\x1b[?47h", b"\x1b[999S", b"\x1b[999T", b"\x1b[999L", b"\x1b[200;1H\x1b[1J"])
def test_a_screen_that_is_made_to_cost_much_costs_little(unit: bytes) -> None:
    """A look at a hostile session's screen must not take the dashboard's time: it took 33 s."""
    before = time.process_time()
    lines = show(b"first" + unit * (MOST // len(unit)), *LARGEST)
    assert time.process_time() - before < 8
    assert len(lines) <= LARGEST[0]


def test_as_many_lines_as_fit_into_what_is_looked_at_are_all_shown() -> None:
    assert show(b"\n" * (MOST - 4) + b"last", 24, 80)[-1] == "last"
