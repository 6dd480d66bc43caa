"""What nd7 says in a shell: in whole words, with the next step, and what a grant cannot mend before it is relied on."""

from __future__ import annotations

import json
import os
import pty
import subprocess
import textwrap
from pathlib import Path

import pytest
from world import World

from nd7tui.commands import tui
from nd7tui.keys import TABLE, read_keymap


def test_the_lines_of_run_break_between_words(world: World) -> None:
    """At 80 columns the first line told what is in force and was broken by the terminal in the midst of a word."""
    screen = world.terminal(["nd7", "run", "sh", "-c", "sleep 1; echo over"], size=(80, 24))
    screen.wait_for("over")
    text = screen.screen(history=100)
    lines = text[text.index("nd7: session") :].splitlines()
    said = [line for line in lines[:8] if line.startswith(("nd7: ", "     "))]
    assert len(said) > 1 and all(len(line) <= 80 for line in said)
    one_line = world.run(["nd7", "run", "sh", "-c", "true"])
    whole = next(line for line in one_line.err.splitlines() if line.startswith("nd7: session"))
    words = set(whole.split())
    strange = [word for line in said[:2] for word in line.split() if word not in words and not word.isdigit()]
    assert strange == []


def test_a_grant_that_the_persons_own_permissions_make_useless_says_so(world: World) -> None:
    session = world.start(["nd7", "run", "sleep", "60"])
    pid = world.wait(lambda: [name for name in world.listdir(world.home + "/.nd7/sessions") if name.isdigit()])[0]
    told = "Your own permissions refuse writing there: the grant will not help."
    assert told in world.run(["nd7", "allow", "/etc/passwd", "--session", pid]).out
    world.run(["mkdir", "-p", world.home + "/own"])
    mine = world.run(["nd7", "allow", world.home + "/own", "--session", pid])
    assert mine.code == 0 and "will not help" not in mine.out
    assert json.loads(world.run(["nd7", "allow", "/etc/hostname", "--json"]).out)["permitted"] is False
    assert json.loads(world.run(["nd7", "allow", world.home + "/own", "--json"]).out)["permitted"] is True
    session.terminate()
    session.wait()


@pytest.mark.parametrize(
    ("words", "what", "then"),
    [
        (["allow"], "PATH is missing", "as in: nd7 allow ~/.cache/pip; `nd7 allow --help` tells more"),
        (["alow", "x"], "no command 'alow'", "did you mean `nd7 allow`? `nd7 --help` lists the commands"),
        (["frobnicate"], "no command 'frobnicate'", "`nd7 --help` lists the commands"),
        (
            ["allow", "x", "--sesion", "3"],
            "no option --sesion",
            "did you mean --session? `nd7 allow --help` tells more",
        ),
        (["allow", "x", "\x1b[31my"], "not to be understood here: ␛[31my", "`nd7 allow --help` tells more"),
        (["completions", "tcsh"], "invalid choice: 'tcsh'", "as in: nd7 completions"),
        (["run"], "PROGRAM is missing", "nd7 run claude"),
    ],
)
def test_what_is_typed_wrong_is_told_with_the_next_step(world: World, words: list[str], what: str, then: str) -> None:
    done = world.run(["nd7", *words])
    first, second = done.err.splitlines()
    assert (done.code, done.out) == (2, "")
    assert first.startswith("nd7: ") and what in first
    assert then in second


@pytest.mark.parametrize("words", [["allow", "x", "--session"], ["denials", "--session"], ["attach"], ["verify"]])
def test_a_session_that_is_not_there(world: World, words: list[str]) -> None:
    session = world.start(["nd7", "run", "--name", "webshop", "sleep", "60"])
    world.wait(lambda: [name for name in world.listdir(world.home + "/.nd7/sessions") if name.isdigit()])
    done = world.run(["nd7", *words, "webshp"])
    assert done.code in (1, 2)
    assert "webshp" in done.err and "webshop" in done.err, done
    session.terminate()
    session.wait()


def test_what_ordinary_permissions_refuse_as_well_is_not_told_to_be_granted(world: World) -> None:
    world.write("failure", "sh: 1: cannot create /etc/passwd: Permission denied\n")
    told = world.run(["sh", "-c", "nd7 explain --command 'echo >> /etc/passwd' --exit 2 < failure"])
    assert told.code == 0 and "ordinary permissions" in told.out and "nd7 allow" not in told.out, told
    world.write("/home/dev/notes", "mine")
    world.write("failure", "sh: 1: cannot create /home/dev/notes: Permission denied\n")
    told = world.run(["sh", "-c", "nd7 explain --command 'echo >> ~/notes' --exit 2 < failure"])
    assert told.code == 0 and "nd7 allow /home/dev/notes" in told.out, told


def test_the_dashboard_does_not_start_where_nothing_of_it_could_be_seen(world: World) -> None:
    """It is drawn on stderr: with that thrown away the terminal stayed blank, and took every key."""
    ours, theirs = pty.openpty()
    done = world.start(["nd7", "tui"], stdin=theirs, stdout=theirs, stderr=subprocess.DEVNULL, env={"TERM": "xterm"})
    os.close(theirs)
    assert done.wait(30) == 1
    said = os.read(ours, 4096)
    os.close(ours)
    assert b"draws on stderr" in said and b"\x1b" not in said


def test_the_example_of_keys_is_one(tmp_path: Path) -> None:
    told = str(tui.__doc__)
    example = told.partition("to be another:\n")[2].partition("Their names:")[0]
    file = tmp_path / "keys.toml"
    file.write_text(textwrap.dedent(example))
    assert read_keymap(str(file)) == {"grant": "f5", "down": "down,j,ctrl+n"}
    names = told.partition("Their names: ")[2].partition(".\n")[0]
    assert names.replace("\n", " ").split(", ") == [key.id for key in TABLE]


@pytest.mark.parametrize("path", ["/usr/bin:/bin", "/nowhere"])
def test_the_manual_on_a_terminal_is_to_be_read(world: World, path: str) -> None:
    """Raw, its first screen is macros; where there is no `man`, or one that fails, it is told plainly."""
    assert world.run(["nd7", "man"]).out.startswith(".TH ND7")
    nd7 = world.run(["which", "nd7"]).out.strip()
    screen = world.terminal(["env", f"PATH={path}", "MANPAGER=cat", nd7, "man"], size=(100, 40))
    screen.wait_for("XDG_CONFIG_HOME/nd7/keys.toml")
    text = screen.screen(history=3000)
    assert "NAME" in text and "nd7 - run a coding agent" in text
    assert ".TH" not in text and "\\fB" not in text and "\\-" not in text
