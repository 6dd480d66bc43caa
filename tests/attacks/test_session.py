"""The same attacks inside a session of the real `nd7 run`: by the agent itself, and by a command of it."""

from __future__ import annotations

import contextlib
import json
import os
import shlex
import sys
from collections.abc import Iterator
from pathlib import Path

import confined
import pytest
from confined import FULL
from inside import CASES
from kit import REFUSALS
from world import World

from nd7exec.linux import syscalls

HERE = Path(__file__).resolve().parent
PATHS = [str(HERE), str(HERE.parent / "support"), str(HERE.parent.parent)]
INSIDE = f"import sys; sys.path[:0] = {PATHS!r}; import inside; inside.main('targets.json')"
STRANGER = f"""
import sys; sys.path[:0] = {PATHS!r}
import confined
confined.stranger(confined.Targets("/home/dev", "/home/dev/project", "/tmp"), 1)
"""


@pytest.fixture
def attacked(world: World) -> Iterator[World]:
    """A world with the same home as a cell's, a stranger in it, and what is known of them in a file."""
    prepare(world)
    yield world
    # What the stranger shared by name is the machine's, not the world's.
    name = world.read("/tmp/shm-name")
    if name.startswith("nd7-") and "/" not in name:
        Path("/dev/shm", name).unlink(missing_ok=True)
    with contextlib.suppress(OSError):
        syscalls.call("mq_unlink", b"nd7-stranger")


def prepare(world: World) -> None:
    for name, text in {**confined.SECRETS, **confined.FILES}.items():
        if not name.startswith(".nd7/"):  # nd7's own, which it makes itself
            world.write(f"{world.home}/{name}", text)
    for name in (".ssh", ".aws", ".local/state/nd7", ".local/state/nd7/sessions"):
        world.path(f"{world.home}/{name}").chmod(0o700)
    os.link(world.path(f"{world.home}/.ssh/id_ed25519"), world.path("linked-before"))
    world.path("symlinked-before").symlink_to("../.ssh/id_ed25519")
    outside = world.start([sys.executable, "-c", STRANGER])
    assert outside.stdout
    about = json.loads(os.read(outside.stdout.fileno(), 4096))
    targets = {
        "home": world.home, "project": world.project, "tmp": "/tmp", "stranger": outside.pid, "shm_id": about["shm"],
        "other_terminal": about["tty"], "other_terminals": about["ttys"], "memory": about["memory"],
    }  # fmt: skip
    world.write("targets.json", json.dumps(targets))


def judge(text: str) -> list[str]:
    """What did not come out as it must."""
    wrong = []
    for name, (how, number, said) in json.loads(text).items():
        case, reason = CASES[name], CASES[name].open_when(FULL)
        if how == "died":
            fine = case.dies
        elif how == "raised":
            fine = reason is None and number in REFUSALS | set(case.errors)
        else:
            fine = how == "returned" and reason is not None
        if not fine:
            wrong.append(f"{name}: {how} {number} {said} (expected {'to be open' if reason else 'a refusal'})")
    return wrong


def test_by_the_agent_itself(attacked: World) -> None:
    done = attacked.run(["nd7", "run", sys.executable, "-I", "-S", "-c", INSIDE], timeout=120)
    assert done.out, done.err
    assert judge(done.out) == []


def test_by_a_command(attacked: World) -> None:
    command = f"exec {shlex.quote(sys.executable)} -I -S -c {shlex.quote(INSIDE)}"
    agent = 'exec ~/.local/state/nd7/bin/nd7-exec -c "$1"'
    done = attacked.run(["nd7", "run", "sh", "-c", agent, "agent", command], timeout=120)
    assert done.out, done.err
    assert judge(done.out) == []
