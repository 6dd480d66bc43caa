"""What a large home costs: a command and a session's start, in a home of 10,000 entries against an empty one.

    python tests/bench/home.py [ROUNDS] [ENTRIES]

Both homes are measured in one run, in turn; the ratios are of the medians.  No figure here passes or fails.
"""

from __future__ import annotations

import os
import statistics
import sys
from contextlib import ExitStack
from typing import TYPE_CHECKING

import commands

if TYPE_CHECKING:
    from world import World


def fill(world: World, entries: int) -> None:
    """Folders and files, half of each, straight in the home."""
    for number in range(entries):
        if number % 2:
            world.path(f"{world.home}/file-{number}").write_bytes(b"x")
        else:
            world.path(f"{world.home}/folder-{number}").mkdir()


def main() -> int:
    from world import new_world

    rounds = int(sys.argv[1]) if len(sys.argv) > 1 else 30
    entries = int(sys.argv[2]) if len(sys.argv) > 2 else 10_000
    taken: dict[tuple[str, str], list[float]] = {}
    with ExitStack() as stack:
        worlds = {"empty": stack.enter_context(new_world()), "large": stack.enter_context(new_world())}
        fill(worlds["large"], entries)
        inside = {name: commands.Driver(world, ["nd7", "run"]) for name, world in worlds.items()}
        outside = {name: commands.Driver(world) for name, world in worlds.items()}
        for number in range(rounds + 2):
            for name, world in worlds.items():
                command = inside[name].time([f"{world.home}/.local/state/nd7/bin/nd7-exec", "-c", "true"])
                start = outside[name].time(["nd7", "run", "true"])
                if number >= 2:  # the first two fill caches
                    taken.setdefault(("nd7-exec -c true", name), []).append(command)
                    taken.setdefault(("nd7 run true", name), []).append(start)
        for driver in (*inside.values(), *outside.values()):
            driver.close()
    for what in ("nd7-exec -c true", "nd7 run true"):
        empty, large = (statistics.median(taken[what, name]) for name in ("empty", "large"))
        print(f"{what:<18} empty {empty:7.1f} ms   {entries} entries {large:7.1f} ms   ratio {large / empty:.2f}")
    return 0


if __name__ == "__main__":
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
    sys.exit(main())
