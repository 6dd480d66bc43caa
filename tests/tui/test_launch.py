"""The form that starts a session: what it asks for, what it completes, and what it runs."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from textual.widgets import Input
from tui_screen import Still, picture, said

from nd7tui.deeds import Done
from nd7tui.screens.launch import Launch, Start, complete, launch
from nd7tui.starting import nd7


@pytest.mark.parametrize(
    ("start", "words"),
    [
        (Start("claude", "/p"), ["run", "--detach", "--project", "/p", "claude"]),
        (
            Start("claude --model 'a b'", "/p", "do it; $(x)", "n"),
            ["run", "--detach", "--project", "/p", "--name", "n", "claude", "--model", "a b", "do it; $(x)"],
        ),
        (Start("claude", "/p", "-x"), ["run", "--detach", "--project", "/p", "claude", "--", "-x"]),
        (Start("claude 'open", "/p"), ["run", "--detach", "--project", "/p", "claude 'open"]),
    ],
)
def test_what_is_run(start: Start, words: list[str]) -> None:
    assert start.words() == words


def test_a_prompt_is_one_word_of_the_command_line() -> None:
    assert Start("claude", "/p", "a 'b' $(c)").command().endswith("""claude 'a '"'"'b'"'"' $(c)'""")


def test_completion(tmp_path: Path) -> None:
    for name in ("alpha", "alpine", "beta", ".hidden"):
        (tmp_path / name).mkdir()
    (tmp_path / "alright").write_text("a file")
    home = str(tmp_path)
    assert complete(f"{home}/al", home) == f"{home}/alpha/"
    assert complete("~/b", home) == "~/beta/"
    assert complete(f"{home}/.h", home) == f"{home}/.hidden/"
    assert complete(f"{home}/beta", home) is None
    assert complete(f"{home}/none/x", home) is None
    (tmp_path / "evil\x1b[2J").mkdir()
    assert complete(f"{home}/evil", home) is None  # nothing is offered that cannot be shown


def test_a_start_that_fails_says_why(monkeypatch: pytest.MonkeyPatch) -> None:
    """Not by a real `nd7 run`, which would look at the home of whoever runs the tests."""
    failing = "import sys; sys.stderr.write('nd7: no program claude\\n     install it\\n'); sys.exit(127)"
    monkeypatch.setattr("nd7tui.starting.nd7", lambda *words: [sys.executable, "-c", failing])
    done = launch(Start("claude", "/p"))
    assert isinstance(done, Done) and not done.ok and done.said == "no program claude; install it"
    assert done.deed.command == "nd7 run --detach --project /p claude" and not done.deed.ok
    assert nd7("x")[1] == "-P"  # never with the folder that one is in on the module path


async def test_the_form() -> None:
    app = Still()
    async with app.run_test(size=(100, 30)) as pilot:
        await pilot.press("n")
        await pilot.pause()
        screen = app.screen
        assert isinstance(screen, Launch)
        screen.query_one("#project", Input).value = "relative"
        await pilot.press("enter")
        assert "whole path" in said(app)
        screen.query_one("#agent", Input).value = "claude 'x"
        await pilot.press("enter")
        assert "a quote" in said(app)
        screen.query_one("#agent", Input).value = ""
        await pilot.press("enter")
        assert "name a program" in said(app) and isinstance(app.screen, Launch)
        assert "The same from a shell" in picture(app)
        await pilot.press("escape")
        await pilot.pause()
        assert not isinstance(app.screen, Launch)
