"""Trees of processes: who descends from whom, and ending exactly those."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time

from nd7exec import processes
from nd7exec.processes import Stat


def stat(parent: int, session: int = 1, start: int = 0) -> Stat:
    return Stat(parent, session, session, start, "S")


def test_descendants_of_one_and_of_none():
    table = {1: stat(0), 10: stat(1), 11: stat(10), 12: stat(11), 20: stat(1)}
    assert processes.below(10, table) == {11, 12}
    assert processes.below(12, table) == set()
    assert processes.below(99, table) == set()


def test_a_command_is_its_session_and_whatever_descends_from_that():
    table = {5: stat(1, 1), 30: stat(5, 30), 31: stat(30, 31), 32: stat(5, 30), 33: stat(32, 33), 40: stat(5, 40)}
    assert processes.of_command(30, table) == {30, 31, 32, 33}


def test_a_name_with_brackets_and_spaces_does_not_shift_the_fields(tmp_path):
    script = tmp_path / "a) R 1 1 (b"
    script.write_text("#!/bin/sh\nsleep 60; true\n")
    script.chmod(0o755)
    with subprocess.Popen([script]) as child:
        try:
            deadline = time.monotonic() + 10
            while (found := processes.stat_of(child.pid)) and found.state == "R" and time.monotonic() < deadline:
                time.sleep(0.01)
            assert found is not None
            assert found.parent == os.getpid()
            assert found.group == os.getpgrp()
        finally:
            for pid in processes.below(child.pid, processes.table()):
                os.kill(pid, signal.SIGKILL)
            child.kill()


def test_which_child_of_the_zygote_a_process_comes_from():
    with subprocess.Popen(["sh", "-c", "sh -c 'echo $$; sleep 60; true'; true"], stdout=subprocess.PIPE) as child:
        assert child.stdout is not None
        grandchild = int(child.stdout.readline())
        try:
            assert processes.reached_through(grandchild, os.getpid()) == child.pid
            assert processes.reached_through(child.pid, os.getpid()) == child.pid
            assert processes.reached_through(os.getpid(), os.getpid()) is None
            assert processes.reached_through(os.getppid(), child.pid) is None
            assert processes.reached_through(2**22 - 3, os.getpid()) is None
        finally:
            for pid in processes.below(child.pid, processes.table()):
                os.kill(pid, signal.SIGKILL)
            child.kill()


def test_everything_below_is_ended_the_daemon_and_the_stubborn_too_and_nothing_else():
    code = """
import os, subprocess, sys
from nd7exec import prctl, processes
prctl.set_subreaper()
subprocess.Popen(["sh", "-c", "trap '' TERM HUP; (setsid sh -c 'sleep 61 & sleep 62' &) ; sleep 63"])
spared = subprocess.Popen(["sh", "-c", "sleep 64; true"])
import time; time.sleep(0.5)
assert processes.kill_all_below(os.getpid(), processes.reap_ended, spare={spared.pid})
left = processes.below(os.getpid(), processes.table())
assert spared.pid in left and len(left) == 2, left
assert processes.kill_all_below(os.getpid(), processes.reap_ended)
assert not processes.below(os.getpid(), processes.table())
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
