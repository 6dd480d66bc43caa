"""The form that starts a session: what it asks for, what it completes, and what it runs."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
import tui_rows
from textual.pilot import Pilot
from textual.widgets import Input
from tui_screen import Still, picture, said, until

from nd7tui.app import Dashboard
from nd7tui.deeds import Done
from nd7tui.model import Batch, SessionRow
from nd7tui.screens.help import Help
from nd7tui.screens.launch import FIELDS, Launch, Prompt, Start, launch
from nd7tui.starting import complete, expand, nd7, recent


class Starting(Still):
    """A dashboard that does start what it is asked to."""

    do = Dashboard.do


@pytest.mark.parametrize(
    ("start", "words"),
    [
        (Start("claude", "/p"), ["run", "--detach", "--project", "/p", "claude"]),
        (
            Start("claude --model 'a b'", "/p", "do it; $(x)", "n"),
            ["run", "--detach", "--project", "/p", "--name", "n", "claude", "--model", "a b", "--", "do it; $(x)"],
        ),
        (Start("sh -x", "/p", "do it"), ["run", "--detach", "--project", "/p", "sh", "-x", "do it"]),
        (Start("claude", "/p", "-x"), ["run", "--detach", "--project", "/p", "claude", "--", "-x"]),
        (Start("claude 'open", "/p"), ["run", "--detach", "--project", "/p", "claude 'open"]),
        (
            Start("claude", "/p", " two\n lines \n", worktree="fix"),
            ["run", "--detach", "--project", "/p", "--worktree", "fix", "claude", " two\n lines \n"],
        ),
        (Start("claude", "/p", " \n "), ["run", "--detach", "--project", "/p", "claude"]),
        (
            Start("claude", "/p", "", "-n", "-w"),
            ["run", "--detach", "--project", "/p", "--worktree=-w", "--name=-n", "claude"],
        ),
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
    assert complete("~", home) is None and complete("relative", home) is None and complete("~other/x", home) is None


def test_what_tab_makes_of_a_path(tmp_path: Path) -> None:
    for name in ("alpha/inner", "alpine", "beta", "beta2", ".hidden"):
        (tmp_path / name).mkdir(parents=True)
    home = str(tmp_path)
    assert expand("~/a", home) == ("~/alp", ["alpha", "alpine"])
    assert expand("~/alph", home) == ("~/alpha/", ["inner"])
    assert expand(f"{home}/alpi", home) == (f"{home}/alpine/", [])
    assert expand("~/beta", home) == ("~/beta", ["beta", "beta2"])
    assert expand("~/none", home) == ("~/none", [])
    assert expand("~/b", home) == ("~/beta", ["beta", "beta2"])
    assert expand("~", home)[0] == "~/" and expand("a\0/b", home) == ("a\0/b", [])


def test_recent_projects() -> None:
    rows = [
        SessionRow("pid:1", "api", project="/h/api", started=3),
        SessionRow("log:2", "web", project="/h/web", started=5),
        SessionRow("log:3", "api", project="/h/api", started=9),
        SessionRow("log:4", "api/fix", project="/h/api-worktrees/fix", started=7),
        SessionRow("log:5", "other", project="/h/my-worktrees/other", started=6),
        SessionRow("log:6", "none", started=8),
        # What an agent may have said that it works in, so that a key would open it.
        *(
            SessionRow(f"log:x{at}", "x", project=path, started=99)
            for at, path in enumerate(
                ("/h", "/", "/h/.config", "/h/a/.git", "/h/a/../.ssh", "h/b", "/h/\x1b[2J", "/h/")
            )
        ),
    ]
    assert recent(rows, "/h") == [("/h/api", ""), ("/h/api", "fix"), ("/h/my-worktrees/other", ""), ("/h/web", "")]


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


def box(app: Still, name: str) -> Input:
    return app.screen.query_one(f"#{name}", Input)


async def opened(app: Still, pilot: Pilot[None]) -> Launch:
    app.arrived(tui_rows.batch())
    await pilot.press("n")
    await pilot.pause()
    assert isinstance(app.screen, Launch) and app.screen.focused is box(app, "agent")
    box(app, "project").focus()
    await pilot.pause()
    return app.screen


async def test_tab_completes_as_in_a_shell_and_then_goes_on(tmp_path: Path) -> None:
    for name in ("alpha/inner", "alpine"):
        (tmp_path / name).mkdir(parents=True)
    app = Still()
    async with app.run_test(size=(80, 24)) as pilot:
        form = await opened(app, pilot)
        project = box(app, "project")
        await pilot.press("tab")  # nothing was typed: on to the next
        assert form.focused is box(app, "worktree")
        await pilot.press("shift+tab")
        project.value = f"{tmp_path}/a"
        await pilot.press("tab")
        await until(pilot, lambda: project.value == f"{tmp_path}/alp")
        assert form.focused is project and "alpha/  alpine/" in picture(app)
        await pilot.press("h", "tab")
        await until(pilot, lambda: project.value == f"{tmp_path}/alpha/")
        assert "inner/" in picture(app) and project.cursor_position == len(project.value)
        await pilot.press("tab")
        assert form.focused is box(app, "worktree") and "inner/" not in picture(app)
        await pilot.press("shift+tab")
        project.value = f"{tmp_path}/zzz"
        await pilot.press("tab")
        await until(pilot, lambda: "no folder begins so" in said(app))
        project.value = f"{tmp_path}/alp"
        await pilot.press("tab")
        await until(pilot, lambda: "alpine/" in picture(app))
        await click(app, pilot, "alpine/")
        assert project.value == f"{tmp_path}/alpine/"


async def click(app: Still, pilot: Pilot[None], text: str) -> None:
    """A click on a word of the screen."""
    lines = picture(app).splitlines()
    (at,) = (at for at, line in enumerate(lines) if text in line)
    await pilot.click(offset=(lines[at].index(text) + 1, at))
    await pilot.pause()


async def test_recent_projects_by_the_arrows_and_the_mouse() -> None:
    app = Still()
    async with app.run_test(size=(80, 24)) as pilot:
        app.arrived(tui_rows.batch())
        row = SessionRow("log:w", "api/fix", project="/h/api-worktrees/fix", started=tui_rows.NOW)
        app.arrived(Batch([], (*tui_rows.sessions(), row)))
        await pilot.press("n")
        await pilot.pause()
        project, worktree = box(app, "project"), box(app, "worktree")
        project.focus()
        project.value = typed = "/typed"
        await pilot.press("up")
        assert (project.value, worktree.value) == ("/h/api", "fix")
        await pilot.press("up")
        assert project.value not in ("/h/api", typed) and worktree.value == ""
        await pilot.press("down", "down", "down")
        assert (project.value, worktree.value) == (typed, "") and "this is what was typed" in said(app)
        for _ in range(9):
            await pilot.press("up")
        assert "this is the oldest project" in said(app)
        await pilot.press("pageup")
        assert app.screen.focused is box(app, "agent")
        await pilot.press("pagedown", "down")
        assert app.screen.focused is box(app, "agent")  # round the end
        await click(app, pilot, "/h/api (fix)")
        assert (project.value, worktree.value) == ("/h/api", "fix")
        assert "api-worktrees/fix, beside the project" in picture(app)
        await pilot.press("tab", "down")  # elsewhere they go from field to field
        assert app.screen.focused is app.screen.query_one(Prompt)


def played(monkeypatch: pytest.MonkeyPatch, script: str) -> None:
    """Not a real `nd7 run`, which would look at the home of whoever runs the tests; tests/e2e has that."""
    monkeypatch.setattr("nd7tui.starting.nd7", lambda *words: ["/bin/sh", "-c", script, *words])


async def test_a_failed_start_keeps_the_form_and_what_was_typed(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    gate = tmp_path / "gate"
    played(
        monkeypatch,
        f"while [ ! -e {gate} ]; do sleep 0.05; done; printf 'nd7: no program\\n     install it\\n' >&2; exit 3",
    )
    app = Starting()
    async with app.run_test(size=(80, 24)) as pilot:
        form = await opened(app, pilot)
        box(app, "worktree").value = "fix"
        form.query_one(Prompt).text = "do\nit"
        await pilot.press("enter")
        await pilot.pause()
        assert "starting claude … (git makes its worktree first)" in picture(app)
        await pilot.press("enter")
        assert "it is being started" in said(app)
        gate.touch()
        await until(pilot, lambda: "Not started: no program; install it" in picture(app))
        await until(pilot, lambda: not said(app))  # once is enough
        assert app.screen is form and form.start.prompt == "do\nit" and form.start.worktree == "fix"
        assert all(name in picture(app) for name in FIELDS)
        played(
            monkeypatch,
            "echo 'nd7: session 5; x' >&2; echo 'nd7: bash ended at once with exit status 3; run' >&2; exit 3",
        )
        await pilot.press("enter")
        await until(pilot, lambda: "  bash ended at once with exit status 3  " in picture(app))
        played(monkeypatch, "echo 'nd7: session 5' >&2")
        await pilot.press("enter")
        await until(pilot, lambda: not isinstance(app.screen, Launch))
        assert said(app).endswith(": session 5")
        assert [deed.ok for deed in app.store.deeds] == [False, False, True]


async def test_help_by_a_key_that_is_not_typed_and_esc_leaves() -> None:
    app = Still()
    async with app.run_test(size=(80, 24)) as pilot:
        form = await opened(app, pilot)
        box(app, "project").value = ""
        await pilot.press("question_mark")
        assert box(app, "project").value == "?" and "F1 help" in picture(app)
        await pilot.press("f1")
        await pilot.pause()
        assert isinstance(app.screen, Help)
        told = picture(app)
        assert "in the prompt Ctrl+S does" in told and "F1" in told and "theme, and" not in told
        assert not any(line.startswith(("  t  ", "  l  ", "  q  ")) for line in told.splitlines())
        await pilot.press("escape")
        await pilot.pause()
        assert app.screen is form and box(app, "project").value == "?"
        await click(app, pilot, "F1 help")
        assert isinstance(app.screen, Help)
        await pilot.press("escape", "escape")
        await pilot.pause()
        assert not isinstance(app.screen, Launch)


async def test_a_prompt_of_several_lines_is_kept_as_it_is_and_shown_harmlessly() -> None:
    app = Still()
    async with app.run_test(size=(80, 24)) as pilot:
        form = await opened(app, pilot)
        await click(app, pilot, "prompt    ")
        assert isinstance(form.focused, Prompt) and "Ctrl+S start" in picture(app)
        await pilot.press("a", "enter", "b", "question_mark", "slash")
        assert form.start.prompt == "a\nb?/"
        evil = "-x 'q' \"d\" $(c)\x1b]52;c;x\x07\u202e\n\ttabbed\x9b2J "
        form.focused.text = evil
        await pilot.pause()
        assert form.start.prompt == evil and form.start.words()[-2:] == ["--", evil]
        assert "-x 'q'" in picture(app) and "\x1b" not in picture(app) and not app.leaks


@pytest.mark.parametrize("size", [(80, 24), (40, 24), (120, 40)])
async def test_every_field_is_there_at_any_size(size: tuple[int, int]) -> None:
    app = Still()
    async with app.run_test(size=size) as pilot:
        form = await opened(app, pilot)
        box(app, "worktree").value = "fix"
        stood, box(app, "project").value = box(app, "project").value, "/h/my-project/"
        await pilot.pause()
        shown = picture(app)
        assert "my-project-worktrees/fix" in "".join(shown.split())  # wrapped where the window is narrow
        box(app, "project").value = stood
        assert all(f"\n  {name}" in shown for name in FIELDS) and "The same from a shell" in shown
        labels = [line for line in shown.splitlines() if line.strip().split(" ")[0] in FIELDS]
        assert len(labels) >= len(FIELDS) and not any("…" in line for line in labels)
        assert form.query_one("#form").max_scroll_y == 0 or size[0] == 40
        for name in FIELDS[2:]:
            await pilot.press("tab")
            assert form.focused is not None and form.focused.id == name


async def test_a_small_window_scrolls_to_the_field() -> None:
    app = Still()
    async with app.run_test(size=(40, 10)) as pilot:
        form = await opened(app, pilot)
        await pilot.press("shift+tab", "shift+tab")
        await pilot.pause(0.5)
        assert form.focused is box(app, "name") and "\n  name " in picture(app)


async def test_typing_on_while_tab_looks_is_not_undone(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[str] = []

    def slow(value: str, home: str) -> tuple[str, list[str]]:
        asked.append(value)
        box(app, "project").value = "/typed/on"
        return "/found/", []

    monkeypatch.setattr("nd7tui.screens.launch.expand", slow)
    app = Still()
    async with app.run_test(size=(80, 24)) as pilot:
        await opened(app, pilot)
        box(app, "project").value = "/ty"
        await pilot.press("tab")
        await until(pilot, lambda: asked == ["/ty"])
        await pilot.pause(0.1)
        assert box(app, "project").value == "/typed/on"


async def test_the_default_is_no_home_directory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("os.getcwd", lambda: tui_rows.HOME)
    app = Still()
    async with app.run_test(size=(80, 24)) as pilot:
        app.arrived(tui_rows.batch())
        past = SessionRow("log:w", "x", project="/h/said", started=tui_rows.NOW)
        app.arrived(Batch([], (*tui_rows.sessions(), past)))
        await pilot.press("n")
        await pilot.pause()
        running = [row.project for row in tui_rows.sessions() if row.live]
        assert box(app, "project").value in running and "/h/said" in picture(app)
