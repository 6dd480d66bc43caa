"""Which shell runs the commands."""

from __future__ import annotations

import os

import pytest

from nd7exec.shell import agent_shell


@pytest.fixture
def shells(tmp_path):
    for name in ("bash", "zsh", "fakebash", "fish"):
        (tmp_path / name).write_text("#!/bin/sh\n")
        (tmp_path / name).chmod(0o755)
    (tmp_path / "deadzsh").write_text("#!/bin/sh\n")
    return tmp_path


def test_the_agents_own_wish_comes_first(shells):
    environ = {"CLAUDE_CODE_SHELL": str(shells / "fakebash"), "SHELL": "/bin/bash", "PATH": "/usr/bin:/bin"}
    assert agent_shell(environ) == str(shells / "fakebash")


@pytest.mark.parametrize("chosen", ["fish", "deadzsh", "missing-bash"])
def test_a_wish_that_will_not_do_is_passed_over(shells, chosen):
    environ = {"CLAUDE_CODE_SHELL": str(shells / chosen), "SHELL": str(shells / "zsh"), "PATH": ""}
    assert agent_shell(environ) == str(shells / "zsh")


def test_then_the_persons_own_then_what_is_on_path(shells):
    assert agent_shell({"SHELL": str(shells / "zsh"), "PATH": "/bin"}) == str(shells / "zsh")
    assert agent_shell({"SHELL": str(shells / "fish"), "PATH": str(shells)}) == str(shells / "zsh")
    assert agent_shell({"SHELL": "/gone/bash", "PATH": str(shells)}) == str(shells / "bash")
    assert os.path.basename(agent_shell({"PATH": "/nowhere"})) in ("zsh", "bash", "sh")
    assert agent_shell({"SHELL": "bash", "PATH": str(shells)}) == str(shells / "bash")
