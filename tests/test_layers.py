"""The layers hold: by import-linter for what is written, by sys.modules of real processes for what is loaded."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

CHECKOUT = Path(__file__).resolve().parent.parent
PACKAGES = ("nd7core", "nd7exec", "nd7tui")
SCREEN = {"textual", "rich", "watchfiles"}
# Commands that are a screen, or start one.
WITH_SCREEN = {"tui", "demo"}
# What a command or a hook may load beyond what the interpreter has loaded by itself: builtin, so no file is read.
CLIENT = {"_socket", "_signal", "errno", "posix", "sys", "time", "marshal", "nd7exec", "nd7exec.client"}
LONGEST = 450
# Longer, each one thing that reads better whole: a loop with its states.
LONG = {
    "nd7exec/supervisor.py": 460,
}


def loaded(statement: str, *flags: str) -> set[str]:
    """The modules of a fresh interpreter after a statement, without those that it loads by itself."""
    code = f"import sys; before = set(sys.modules); {statement}; import json; print(json.dumps(sorted(sys.modules)))"
    done = subprocess.run(
        [sys.executable, *flags, "-c", code], cwd=CHECKOUT, capture_output=True, text=True, timeout=60, check=True
    )
    bare = subprocess.run(
        [sys.executable, *flags, "-c", "import sys, json; print(json.dumps(sorted(sys.modules)))"],
        cwd=CHECKOUT,
        capture_output=True,
        text=True,
        check=True,
    )
    return set(json.loads(done.stdout.splitlines()[-1])) - set(json.loads(bare.stdout))


def modules(package: str) -> list[str]:
    return [
        ".".join(path.relative_to(CHECKOUT).with_suffix("").parts).removesuffix(".__init__")
        for path in sorted((CHECKOUT / package).rglob("*.py"))
    ]


def test_the_contracts_between_the_packages():
    tool = Path(sys.executable).parent / "lint-imports"
    done = subprocess.run([tool, "--no-cache"], cwd=CHECKOUT, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stdout


def test_nd7core_loads_nothing_from_above():
    names = ", ".join(modules("nd7core"))
    top = {name.split(".")[0] for name in loaded(f"import {names}")}
    assert not top & (SCREEN | {"nd7exec", "nd7tui", "msgspec"})


def test_nd7exec_loads_no_screen():
    names = ", ".join(name for name in modules("nd7exec") if "seatbelt" not in name)
    top = {name.split(".")[0] for name in loaded(f"import {names}")}
    assert not top & (SCREEN | {"nd7tui"})


def commands() -> list[str]:
    from nd7tui.cli import COMMANDS

    return sorted(set(COMMANDS) - WITH_SCREEN)


@pytest.mark.parametrize("command", commands())
def test_a_command_without_a_screen_loads_none(command):
    top = {name.split(".")[0] for name in loaded(f"from nd7tui.cli import command_parser; command_parser({command!r})")}
    assert not top & SCREEN


def test_a_command_or_a_hook_loads_builtin_modules_only():
    path = CHECKOUT / "nd7exec/client.py"
    code = f"exec(compile(open({str(path)!r}, 'rb').read(), 'client', 'exec'), {{'__name__': 'client'}})"
    extra = loaded(code, "-I", "-S") - {"json", "json.decoder", "json.scanner", "json.encoder", "_json"}
    extra -= loaded("import json", "-I", "-S")
    assert extra <= CLIENT


def test_a_module_is_one_room():
    lengths = {
        str(path.relative_to(CHECKOUT)): len(path.read_bytes().splitlines())
        for package in PACKAGES
        for path in (CHECKOUT / package).rglob("*.py")
    }
    assert {path: n for path, n in lengths.items() if n > LONG.get(path, LONGEST)} == {}
