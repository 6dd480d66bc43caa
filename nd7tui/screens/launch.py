"""`n`: start a session that lives on without the dashboard."""

from __future__ import annotations

import os
import shlex
import time
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

from textual import on
from textual.app import ComposeResult
from textual.containers import Vertical
from textual.suggester import Suggester
from textual.widgets import Input

from nd7core.text import safe
from nd7tui import keys
from nd7tui.line import Line, indented, wrap
from nd7tui.model import Deed
from nd7tui.screens.page import Page
from nd7tui.widgets.bar import Bar

if TYPE_CHECKING:
    from nd7tui.deeds import Done

FIELDS = ("agent", "project", "prompt", "name")
ABOUT = {
    "agent": "the program to run: claude, or any other",
    "project": "the folder that it may write; Right or End takes what is offered",
    "prompt": "what to ask it first; may stay empty",
    "name": "what the dashboard calls it; the project's name when empty",
}


@dataclass(frozen=True, slots=True)
class Start:
    """What is asked for."""

    agent: str
    project: str
    prompt: str = ""
    name: str = ""

    def words(self) -> list[str]:
        """The arguments of `nd7`.  A prompt that begins with a dash stays a prompt."""
        words = ["run", "--detach", "--project", self.project]
        if self.name:
            words += ["--name", self.name]
        try:
            words += shlex.split(self.agent)
        except ValueError:  # a quote that is still open, while one types
            words.append(self.agent)
        if self.prompt:
            words += ["--", self.prompt] if self.prompt.startswith("-") else [self.prompt]
        return words

    def command(self) -> str:
        """As one would type it."""
        return shlex.join(["nd7", *self.words()])


class Folders(Suggester):
    """Completes a folder's path as it is typed."""

    def __init__(self, home: str) -> None:
        super().__init__(use_cache=False, case_sensitive=True)
        self._home = home

    async def get_suggestion(self, value: str) -> str | None:
        """See Textual's `Suggester`.  Reads one directory, in a thread."""
        import asyncio

        return await asyncio.to_thread(complete, value, self._home)


def complete(value: str, home: str) -> str | None:
    """The first folder, by name, whose path begins with `value`; hidden ones only where the dot is typed."""
    if not value:
        return None
    full = home + value[1:] if value.startswith("~") else value
    folder, _, start = full.rpartition("/")
    try:
        with os.scandir(folder or "/") as entries:
            names = sorted(
                entry.name
                for entry in entries
                if entry.name.startswith(start) and (start or not entry.name.startswith(".")) and entry.is_dir()
            )
    except OSError:
        return None
    if not names or (names[0] == start and len(names) == 1):
        return None
    best = names[1] if names[0] == start else names[0]
    return value[: len(value) - len(start)] + best + "/" if best.isprintable() else None


class Launch(Page):
    """A form of four lines."""

    NAME = "launch"
    TITLE_WORD = "new session"
    BINDINGS = [*keys.bindings("launch")]
    LINE = ("start", "back")

    DEFAULT_CSS = """
    Launch Input { height: 1; border: none; padding: 0 1; margin: 0 2; background: $panel; }
    Launch Input:focus { border: none; background: $boost; }
    Launch #form { height: 1fr; }
    Launch #same { height: 6; }
    """

    def compose(self) -> ComposeResult:
        yield Bar(self.top_line, id="top")
        with Vertical(id="form"):
            for name in FIELDS:
                yield Bar(partial(self._label, name), id=f"{name}-label")
                yield Input(
                    self._default(name),
                    id=name,
                    select_on_focus=False,
                    suggester=Folders(self.dash.places.home) if name == "project" else None,
                )
            yield Bar(self._same, id="same")
        yield Bar(self.bottom_line, id="bottom")

    def _default(self, name: str) -> str:
        if name == "agent":
            return "claude"
        if name == "project":
            return os.getcwd()
        return ""

    def on_mount(self) -> None:
        self.query_one("#project", Input).focus()

    def _label(self, name: str, width: int) -> list[Line]:
        return [Line().gap(2).put(safe(name), "strong", cells=10).put(safe(ABOUT[name]), "dim")]

    @property
    def start(self) -> Start:
        """What stands in the form."""

        def of(name: str) -> str:
            return self.query_one(f"#{name}", Input).value.strip()

        project = of("project")
        if project.startswith("~"):
            project = self.dash.places.home + project[1:]
        return Start(of("agent"), project, of("prompt"), of("name"))

    def _same(self, width: int) -> list[Line]:
        lines = indented(wrap(safe("The same from a shell: " + self.start.command()), width - 4, 4), 2, "dim")
        return [Line(), *lines]

    @on(Input.Changed)
    def _changed(self) -> None:
        self.query_one("#same", Bar).redraw()

    @on(Input.Submitted)
    async def _submitted(self) -> None:
        await self.action_press("start")

    def why_not(self, key: str) -> str:
        if reason := super().why_not(key):
            return reason
        if key == "start":
            if not self.start.agent:
                return "name a program to run"
            try:
                shlex.split(self.start.agent)
            except ValueError:
                return "a quote in the agent's line is open"
            if not self.start.project.startswith("/"):
                return "the project is a folder's whole path"
        return ""

    def do_start(self) -> None:
        """Enter."""
        wanted = self.start
        self.dismiss()
        self.dash.say(f"starting {wanted.agent} …", "dim")
        self.dash.do(partial(launch, wanted))


def launch(wanted: Start) -> Done:
    """Start it, in a worker."""
    from nd7tui.deeds import Done
    from nd7tui.starting import start

    ok, said = start(wanted.words())
    return Done("other", ok, said, Deed(time.time_ns(), "start", wanted.command(), said, ok))
