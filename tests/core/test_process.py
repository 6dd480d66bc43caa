"""A pid and a start time together name a process; a pid alone names nobody."""

from __future__ import annotations

import os
import subprocess
import sys

from nd7core import process


def test_a_process_keeps_its_start_time_and_another_has_its_own() -> None:
    own = process.start_time(os.getpid())
    assert own is not None
    assert own == process.start_time(os.getpid())
    assert process.is_same(os.getpid(), own)
    assert not process.is_same(os.getpid(), own + "0")
    assert not process.is_same(os.getpid(), "")


def test_what_has_ended_has_no_start_time_even_as_a_zombie() -> None:
    child = subprocess.Popen([sys.executable, "-IS", "-c", "input()"], stdin=subprocess.PIPE)
    started = process.start_time(child.pid)
    assert started is not None
    assert process.parent(child.pid) == os.getpid()
    assert process.parents(child.pid)[0] == os.getpid()
    assert child.stdin is not None
    child.stdin.close()
    os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)  # ended, and not yet waited for
    assert process.start_time(child.pid) is None
    assert not process.is_same(child.pid, started)
    child.wait()
    assert process.start_time(child.pid) is None
    assert process.parents(child.pid) == []


def test_a_name_with_brackets_and_spaces_is_read_past(tmp_path: object) -> None:
    script = "import sys; open('/proc/self/comm', 'w').write(') Z 1 (x'); print('.', flush=True); input()"
    child = subprocess.Popen([sys.executable, "-IS", "-c", script], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert child.stdout is not None
    child.stdout.readline()
    try:
        assert process.start_time(child.pid) is not None
        assert process.parent(child.pid) == os.getpid()
    finally:
        child.kill()
        child.wait()
        child.stdout.close()
        if child.stdin:
            child.stdin.close()


def test_pids_that_are_none() -> None:
    for pid in (0, -1, 2**31, 2**40):
        assert process.start_time(pid) is None
        assert process.parent(pid) is None
    assert process.parents(1) == []
