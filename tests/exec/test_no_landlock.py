"""On a kernel without Landlock nothing is started.  Such a kernel is told by the version that the kernel gives."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from world import World

WITHOUT = """
import sys
from nd7exec.linux import landlock
landlock.kernel_abi = lambda: 0
from nd7tui.cli import main
sys.exit(main(["run", "sh", "-c", "echo ran > ran"]))
"""


def test_without_landlock_nothing_runs(world: World) -> None:
    done = world.run([sys.executable, "-P", "-c", WITHOUT])
    assert done.code != 0 and "Landlock" in done.err, (done.code, done.err)
    assert not world.exists("ran")
    assert world.listdir(world.home + "/.nd7/sessions") == [] and world.processes() == {}
