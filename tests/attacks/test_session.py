"""The same attacks inside a session of the real `nd7 run`: by the agent itself, and by a command of it."""

from __future__ import annotations

import contextlib
import json
import os
import shlex
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import cast

import confined
import pytest
from confined import BARE, FULL, Config
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
        world.write(f"{world.home}/{name}", text)
    for name in (".ssh", ".aws", ".nd7", ".local/state/nd7", ".local/state/nd7/sessions"):
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


def judge(config: Config, text: str) -> list[str]:
    """What did not come out as it must."""
    wrong = []
    for name, (how, number, said) in json.loads(text).items():
        case, reason = CASES[name], CASES[name].open_when(config)
        if how == "died":
            fine = case.dies
        elif how == "raised":
            fine = reason is None and number in REFUSALS | set(case.errors)
        else:
            fine = how == "returned" and reason is not None
        if not fine:
            wrong.append(f"{name}: {how} {number} {said} (expected {'to be open' if reason else 'a refusal'})")
    return wrong


def nd7_run(config: Config) -> list[str]:
    """The command, on a machine with namespaces or on one without."""
    refusing = [sys.executable, "-P", str(HERE.parent / "support/no_namespaces.py")]
    return [*([] if config.namespaces else refusing), "nd7", "run"]


@pytest.fixture(params=[FULL, BARE], ids=lambda config: config.name)
def config(request: pytest.FixtureRequest) -> Config:
    return cast(Config, request.param)


def test_by_the_agent_itself(attacked: World, config: Config) -> None:
    done = attacked.run([*nd7_run(config), sys.executable, "-I", "-S", "-c", INSIDE], timeout=120)
    assert done.out, done.err
    assert judge(config, done.out) == []
    assert ("no user namespace" in done.err) == (not config.namespaces)


def test_by_a_command(attacked: World, config: Config) -> None:
    command = f"exec {shlex.quote(sys.executable)} -I -S -c {shlex.quote(INSIDE)}"
    agent = 'exec ~/.local/state/nd7/bin/nd7-exec -c "$1"'
    done = attacked.run([*nd7_run(config), "sh", "-c", agent, "agent", command], timeout=120)
    assert done.out, done.err
    assert judge(config, done.out) == []


def test_the_sessions_own_terminal_works(world: World, config: Config) -> None:
    program = "tty; echo to-tty > /dev/tty; echo again > $(tty); stty size; test -t 0 && test -t 1 && echo a terminal"
    nd7 = shlex.join([*nd7_run(config), "sh", "-c", program])
    done = world.run(["script", "-qec", nd7, "/dev/null"])
    assert done.code == 0, done.out
    for line in ("/dev/pts/", "to-tty", "again", "a terminal"):
        assert line in done.out
