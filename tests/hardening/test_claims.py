"""A zygote that has been taken over: what it makes up reaches nothing outside of its session."""

from __future__ import annotations

import os
import subprocess
import sys
import time

import pytest
from hardship import SESSIONS, nothing_left
from world import World

from nd7exec import claims, processes
from nd7exec.claims import Untrue

# `nd7 run` with a zygote that says something else than what is so.
LIAR = """
import os, sys
from nd7exec import zygote
true = zygote.Zygote.tell
def tell(self, kind, body=b""):
    if kind == {kind!r}:
        body = {body!r} or body
        if {twice}:
            true(self, kind, body)
    true(self, kind, body)
zygote.Zygote.tell = tell
from nd7tui.cli import main
sys.exit(main())
"""


def lying(world: World, kind: bytes, body: bytes, *words: str, twice: bool = False) -> subprocess.Popen[bytes]:
    code = LIAR.format(kind=kind, body=body, twice=twice)
    return world.start([sys.executable, "-P", "-c", code, "run", *words])


@pytest.fixture
def outsider(world: World) -> subprocess.Popen[bytes]:
    """A process of the same user outside of every session, in a group of its own."""
    running = world.start(["sleep", "300"], start_new_session=True)
    world.wait(lambda: "sleep 300" in world.processes().values())
    return running


def test_no_process_outside_becomes_the_agent_and_none_is_signalled(
    world: World, outsider: subprocess.Popen[bytes]
) -> None:
    running = lying(world, b"A", b"%d" % outsider.pid, "sh", "-c", "sleep 5; touch ran")
    _, err = running.communicate(timeout=30)
    assert running.returncode == 126, err
    assert f"named process {outsider.pid}, which is not its own" in err.decode() and b"Traceback" not in err
    assert not world.exists("ran") and world.alive(outsider.pid)
    assert not world.exists(f"{SESSIONS}/{running.pid}")
    outsider.kill()
    outsider.wait()
    nothing_left(world)


@pytest.mark.parametrize(
    ("kind", "body", "twice"),
    [
        (b"A", b"", True),
        (b"A", b"1", False),
        (b"A", b"-1", False),
        (b"A", b"x" * 50, False),
        (b"A", b"9" * 30, False),
        (b"P", b"1", False),
        (b"a", b"99999999", False),
        (b"b", b"rubbish", False),
    ],
)
def test_what_cannot_be_so_ends_the_session(world: World, kind: bytes, body: bytes, twice: bool) -> None:
    command = "~/.local/state/nd7/bin/nd7-exec -c true; sleep 8" if kind == b"b" else "sleep 8"
    running = lying(world, kind, body, "sh", "-c", "exit 3" if kind == b"a" else command, twice=twice)
    began = time.monotonic()
    _, err = running.communicate(timeout=30)
    assert running.returncode == 126 and b"not to be trusted" in err and b"Traceback" not in err, err
    assert time.monotonic() - began < 8
    nothing_left(world)


def test_a_group_is_signalled_only_while_its_leader_is_the_one_that_was_named() -> None:
    child = subprocess.Popen(["sleep", "300"], start_new_session=True)
    try:
        stat = claims.child(b"%d" % child.pid, os.getpid())
        assert stat is not None
        claims.signal_group(child.pid, stat.start + 1, 9)
        time.sleep(0.2)
        assert child.poll() is None
        claims.signal_group(child.pid, stat.start, 15)
        assert child.wait(10) == -15
        assert claims.child(b"%d" % child.pid, os.getpid()) is None
        claims.signal_group(child.pid, stat.start, 9)
    finally:
        child.kill()
        child.wait()


def test_a_child_of_another_is_none_of_a_zygotes_that_lives() -> None:
    assert processes.stat_of(1) is not None
    with pytest.raises(Untrue, match="process 1, which is not its own"):
        claims.child(b"1", os.getpid())
    ended = subprocess.Popen(["true"])
    ended.wait()
    assert claims.child(b"1", ended.pid) is None
