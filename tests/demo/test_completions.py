"""The completions and the man page name everything that the parsers know, and real shells take them."""

from __future__ import annotations

import subprocess

import pytest
from world import World

from nd7tui import manual
from nd7tui.completions import SHELLS, bash, fish, zsh
from nd7tui.usage import Command, command, commands

EVERY = commands()


@pytest.mark.parametrize("found", EVERY, ids=lambda found: found.name)
def test_every_argument_says_what_it_does(found: Command) -> None:
    for argument in (*found.options, *found.positionals):
        assert argument.help, f"nd7 {found.name} {argument.names or argument.value} has no help"
    assert found.description
    assert found.summary[0].islower()
    assert not found.summary.endswith(".")


@pytest.mark.parametrize("shell", SHELLS)
def test_a_shell_is_told_of_every_command_and_option(shell: str) -> None:
    text = SHELLS[shell]()
    for found in EVERY:
        assert found.name in text
        for argument in found.options:
            for name in argument.names:
                wanted = {"fish": f"-l {name[2:]}" if name.startswith("--") else f"-s {name[1:]}"}.get(shell, name)
                assert wanted in text, f"nd7 {found.name} {name}"


def test_the_man_page_holds_every_command_and_option() -> None:
    page = manual.page()
    for found in EVERY:
        assert f".SS {manual.roff(found.usage)}" in page
        for argument in (*found.options, *found.positionals):
            assert manual.roff(argument.help) in page
            for name in argument.names:
                assert manual.roff(name) in page


def test_roff_takes_text_literally() -> None:
    assert manual.roff(".TH\n'x\na\\b --c") == "\\&.TH\n\\&'x\na\\eb \\-\\-c"


def complete(line: str) -> list[str]:
    """What bash offers behind `line`."""
    words = line.split(" ")
    script = (
        f"{bash()}\nCOMP_WORDS=({' '.join(word or repr('') for word in words)}); COMP_CWORD={len(words) - 1}\n"
        '_nd7; printf "%s\\n" "${COMPREPLY[@]}"'
    )
    done = subprocess.run(["bash", "--norc", "-c", script], capture_output=True, text=True, check=True)
    assert done.stderr == ""
    return done.stdout.split()


def test_bash_completes() -> None:
    assert complete("nd7 dem") == ["demo"]
    assert {"run", "tui", "allow"} <= set(complete("nd7 "))
    assert complete("nd7 demo --pl") == ["--plain"]
    assert complete("nd7 tui --theme l") == ["light"]
    assert complete("nd7 completions z") == ["zsh"]
    assert "bash" in complete("nd7 run bas")


def test_zsh_takes_it() -> None:
    done = subprocess.run(["zsh", "-f", "-n"], input=zsh(), capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")


def test_fish_lines_are_whole() -> None:
    for line in fish().splitlines()[1:]:
        assert line.startswith("complete -c nd7 ")
        assert line.replace("\\'", "").count("'") % 2 == 0


def test_the_usage_of_a_command_is_that_of_its_help() -> None:
    assert command("demo").usage.startswith("nd7 demo [-h] [--plain] [--recorded]")


def test_what_is_granted_is_offered_to_be_taken_back(world: World) -> None:
    """By the real nd7, and never run: a granted path may hold what a shell would expand."""
    odd = f"{world.home}/a b$(touch PWNED)"
    world.mkdir(odd)
    session = world.start(["nd7", "run", "sleep", "60"])
    world.wait(lambda: [name for name in world.listdir(world.home + "/.nd7/sessions") if name.isdigit()])
    assert world.run(["nd7", "allow", odd]).code == 0
    for typed, found in ((f"{world.home}/a", [odd]), ("~/", [odd]), ("", [odd]), ("/srv", [])):
        world.write(
            "ask",
            f"{bash()}\nCOMP_WORDS=(nd7 deny '{typed}'); COMP_CWORD=2\n_nd7; printf '%s\\n' \"${{COMPREPLY[@]}}\"",
        )
        done = world.run(["bash", "--norc", "ask"])
        assert [line for line in done.out.splitlines() if line] == found, done
    assert not world.exists("PWNED")
    session.terminate()
    session.wait()
