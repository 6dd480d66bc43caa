"""The shell that commands run in is the one that the agent itself would have taken, whatever the person's is."""

from __future__ import annotations

import agent
import pytest
from agent import bash, said

pytestmark = pytest.mark.e2e

ASK = "echo ${BASH_VERSION:+bash} ${ZSH_VERSION:+zsh} $(readlink /proc/$$/exe)"
WRAPPER = '#!/bin/sh\nexport WRAPPED=yes\nexec /bin/bash "$@"\n'

CASES = {
    "bash": {"SHELL": "/bin/bash"},
    "zsh": {"SHELL": "/usr/bin/zsh"},
    "another shell": {"SHELL": "/bin/sh"},
    "none": {"SHELL": None},
    "one that is gone": {"SHELL": "/opt/gone/bash"},
    "the agent's own wish": {"SHELL": "/usr/bin/zsh", "CLAUDE_CODE_SHELL": "/home/dev/mybash"},
    "a wish that will not do": {"SHELL": "/bin/bash", "CLAUDE_CODE_SHELL": "/bin/sh"},
}


@pytest.mark.parametrize("case", CASES)
def test_the_same_with_and_without_nd7(world, case):
    world.write("/home/dev/mybash", WRAPPER, 0o755)
    found = []
    for wrap in ((), ("nd7", "run")):
        scenario = {"turns": [bash(f"{ASK}; echo $WRAPPED", "ask"), said("done")]}
        args = ["--dangerously-skip-permissions"]
        run = agent.headless(world, scenario, args=args, wrap=wrap, env=CASES[case])
        assert run.code == 0, run.err
        found.append(run.results["ask"].text)
    assert found[0] == found[1] and found[0].split()
