"""Signals to the supervisor while it answers: none is lost, and no answer is broken off half way."""

from __future__ import annotations

import signal
import subprocess
import time

from hardship import X, nothing_left
from world import World

ASK = """
import socket, sys
wrong = 0
for _ in range(4000):
    try:
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM, 0x6e64) as made:
            wrong += made.fileno() < 3
    except OSError as error:
        print(error)
        wrong += 1
print("wrong", wrong)
"""


def test_a_storm_of_signals_breaks_no_answer(world: World) -> None:
    """SIGWINCH is handled, and ends nothing; each of thousands of calls gets the descriptor that was made for it."""
    world.write("ask.py", ASK)
    running = world.start(["nd7", "run", "bash", "-c", f"python3 ask.py; {X} -c 'echo alive'"], stderr=subprocess.PIPE)
    world.wait(lambda: any("ask.py" in line for line in world.processes().values()), what=world.processes)
    sent, end = 0, time.monotonic() + 60
    while running.poll() is None and time.monotonic() < end:
        running.send_signal(signal.SIGWINCH)
        sent += 1
        time.sleep(0.0005)
    out, err = running.communicate(timeout=30)
    assert out == b"wrong 0\nalive\n", (out, err, sent)
    assert running.returncode == 0 and sent > 100
    nothing_left(world)
