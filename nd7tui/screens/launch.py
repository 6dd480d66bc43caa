"""`n`: start a session that lives on without the dashboard.

The form stays until the session runs: what goes wrong stands in it, beside what was typed.
"""

from __future__ import annotations

import asyncio
import os
import re
import shlex
import time
from functools import partial
from typing import TYPE_CHECKING, cast

from textual import on
from textual.app import ComposeResult
from textual.containers import VerticalScroll
from textual.message import Message
from textual.widgets import Input, TextArea

from nd7core.paths import within
from nd7core.record import WORKTREES
from nd7core.text import safe, safe_path
from nd7tui import keys
from nd7tui.line import Line, fit, indented, wrap
from nd7tui.messages import StoreChanged
from nd7tui.model import Deed
from nd7tui.screens.page import Page
from nd7tui.starting import SECONDS, WORKTREE_SECONDS, Start, at_home, expand, recent
from nd7tui.theme import Role
from nd7tui.widgets.bar import Bar
from nd7tui.widgets.fields import Folders, Prompt

if TYPE_CHECKING:
    from nd7tui.deeds import Done

FIELDS = ("agent", "project", "worktree", "prompt", "name")
ABOUT = {
    "agent": "the program to run, with its arguments: claude, or any other",
    "project": "the folder that it may write; Tab completes, ↑ ↓ recent ones",
    "worktree": "a name: in a git worktree of its own, on that branch; may stay empty",
    "prompt": "what to ask it first; Enter begins a line; may stay empty",
    "name": "what the dashboard calls it; the project's name when empty",
}
SHORT = {  # below NARROW columns
    "agent": "program and arguments",
    "project": "Tab completes, ↑↓ recent",
    "worktree": "its name, or empty",
    "prompt": "or empty",
    "name": "or empty",
}
NARROW = 80


class Tried(Message):
    """The session was started, or could not be."""

    def __init__(self, done: Done) -> None:
        super().__init__()
        self.done = done


class Field(Input):
    """One line of the form."""

    @property
    def form(self) -> Launch:
        """The screen that it stands on."""
        return cast("Launch", self.screen)

    def why_no_move(self, forward: bool) -> str:
        """Why an arrow changes nothing, or ""."""
        return self.form.why_no_step(-1 if forward else 1) if self.id == "project" else ""

    def action_up(self) -> None:
        """An older project, or the field above."""
        self.form.step(1)

    def action_down(self) -> None:
        """A newer project, or the field below."""
        self.form.step(-1)

    def action_page_up(self) -> None:
        """The first field."""
        self.form.action_field(FIELDS[0])

    def action_page_down(self) -> None:
        """The last field."""
        self.form.action_field(FIELDS[-1])

    action_top, action_bottom = action_page_up, action_page_down


class Launch(Page):
    """A form of five fields."""

    NAME = "launch"
    TITLE_WORD = "new session"
    BINDINGS = [*keys.bindings("launch")]
    LINE = ("start", "next_pane", "help", "back")

    DEFAULT_CSS = """
    Launch #form { height: 1fr; scrollbar-size-vertical: 1; }
    Launch Input, Launch Input:focus { height: 1; border: none; padding: 0 1; margin: 0 2; background: $panel; }
    Launch TextArea, Launch TextArea:focus { height: 3; border: none; padding: 0 1; margin: 0 2; background: $panel; }
    Launch Input:focus, Launch TextArea:focus { background: $boost; }
    Launch #same { height: 6; }
    Launch #status { height: 0; }
    """

    def __init__(self) -> None:
        super().__init__()
        self._recent: list[tuple[str, str]] = []
        self._at = -1  # which of the recent ones stands there; -1: what was typed
        self._typed = ("", "")
        self._tabbed = ""
        self._offers: list[str] = []
        self._status: tuple[str, Role] | None = None
        self._starting = self._started = False

    def compose(self) -> ComposeResult:
        self._recent = recent(self.dash.store.sessions.values(), self.dash.places.home)
        yield Bar(self.top_line, id="top")
        with VerticalScroll(id="form", can_focus=False):
            for name in FIELDS:
                yield Bar(partial(self._label, name), id=f"{name}-label")
                yield self._field(name)
                if name == "project":
                    yield Bar(self._below_project, id="offers")
            yield Bar(self._same, id="same")
        yield Bar(self._said_here, id="status")
        yield Bar(self.bottom_line, id="bottom")

    def _field(self, name: str) -> Field | Prompt:
        field: Field | Prompt
        if name == "prompt":
            field = Prompt(id=name, compact=True, highlight_cursor_line=False)
        else:
            folders = Folders(self.dash.places.home) if name == "project" else None
            field = Field(self._default(name), id=name, select_on_focus=False, suggester=folders)
        field.cursor_blink = False  # as everywhere in the dashboard: it would paint twice a second for nothing
        return field

    def _default(self, name: str) -> str:
        if name == "agent":
            return "claude"
        if name == "project":
            try:
                here = os.getcwd()
            except OSError:
                here = ""
            # No session is started in the home directory or above it, so that is no default either.
            home = self.dash.places.home
            if here and not within(home, here):
                return here
            # Of a session that runs nd7 itself knows the project; of a past one it may be the agent's word.
            running = recent((row for row in self.dash.store.sessions.values() if row.live), home)
            return running[0][0] if running else here
        return ""

    def on_mount(self) -> None:
        self._tabbed = self._of("project")
        self.query_one("#agent", Input).focus()

    def on_screen_resume(self) -> None:
        if self._started:
            self.dismiss()

    # -- what stands in it ----------------------------------------------------------------------------------------

    def _of(self, name: str) -> str:
        return self.query_one(f"#{name}", Input).value.strip()

    @property
    def start(self) -> Start:
        """What stands in the form."""
        project = at_home(self._of("project"), self.dash.places.home)
        prompt = self.query_one(Prompt).text
        return Start(self._of("agent"), project, prompt, self._of("name"), self._of("worktree"))

    def _label(self, name: str, width: int) -> list[Line]:
        about = ABOUT[name] if width >= NARROW else SHORT[name]
        do = f"screen.field('{name}')"
        line = Line().gap(2).put(safe(name), "strong", cells=10, do=do)
        return [line.put(fit(safe(about), width - 12), "dim", do=do)]

    def _below_project(self, width: int) -> list[Line]:
        """What Tab has found, or else the projects of before; a click takes one."""
        home = self.dash.places.home
        line = Line("dim").gap(3)
        if self._offers:
            for at, name in enumerate(self._offers):
                piece = safe(name + "/", 60)
                if line.cells + len(piece) + 4 > width:
                    line.put(safe("…"), "faint")
                    break
                line.put(piece, "path", do=f"screen.offer({at})").gap(2)
            return [line]
        line.put(safe("recent"), "faint").gap(2)
        for at, (project, worktree) in enumerate(self._recent):
            shown = "~" + project[len(home) :] if project.startswith(home + "/") else project
            piece = safe(safe_path(shown, 40) + (f" ({worktree})" if worktree else ""), 80)
            if line.cells + len(piece) + 3 > width:
                break
            line.put(piece, "accent" if at == self._at else "dim", do=f"screen.recent({at})").gap(2)
        return [line] if self._recent else [Line()]

    def _same(self, width: int) -> list[Line]:
        wanted = self.start
        lines = []
        if wanted.worktree:
            base = os.path.basename(wanted.project.rstrip("/"))
            what = (
                f"It may write {base}{WORKTREES}/{wanted.worktree}, beside the project, "
                "and the repository's .git, whose hooks run when you use git there; the project itself it may not."
            )
            lines = indented(wrap(safe(what), width - 4, 3), 2, "text")
        same = wrap(safe("The same from a shell: " + wanted.command()), width - 4, 5 - len(lines))
        return [Line(), *lines, *indented(same, 2, "dim")]

    def _said_here(self, width: int) -> list[Line]:
        """What came of it, whole: the line at the bottom would cut it."""
        if self._status is None:
            return []
        text, role = self._status
        return indented(wrap(safe(text, 800), width - 4, max(self.size.height // 3, 2)), 2, role)

    def _tell(self, text: str, role: Role) -> None:
        self._status = (text, role) if text else None
        bar = self.query_one("#status", Bar)
        bar.styles.height = len(self._said_here(self.size.width))
        bar.redraw()

    def on_resize(self) -> None:
        if self._status is not None:
            self._tell(*self._status)

    @on(Input.Changed)
    @on(TextArea.Changed)
    def _changed(self) -> None:
        self.query_one("#same", Bar).redraw()

    # -- keys -----------------------------------------------------------------------------------------------------

    def cap(self, name: str) -> str:
        """See `Page`: a letter is typed, whatever it does elsewhere."""
        cap = self.dash.caps[name]
        if cap == keys.BY_ID[name].cap:
            cap = {"help": "F1", "up": "↑", "down": "↓"}.get(name, cap)
        return cap if len(cap) > 1 or not cap.isprintable() or cap in "↑↓" else ""

    def _typing(self) -> bool:
        return isinstance(self.focused, Field | Prompt)

    def _hint(self, name: str) -> Line:
        """`?` and Enter are typed into a field: these keys are not."""
        cap, usual, word = self.dash.caps[name], keys.BY_ID[name].cap, keys.BY_ID[name].word
        if name == "help" and cap == usual:
            cap = "F1"
        elif name == "start" and cap == usual and isinstance(self.focused, Prompt):
            cap = "Ctrl+S"
        elif name == "next_pane":
            word = "field"
        do = f"screen.press('{name}')"
        return Line("dim").put(safe(cap), "key", do=do).gap().put(safe(word), "dim", do=do).gap(2)

    def on_descendant_focus(self) -> None:
        self.query_one("#bottom", Bar).redraw()

    def why_not(self, key: str) -> str:
        if reason := super().why_not(key):
            return reason
        if key == "start":
            if self._starting:
                return "it is being started"
            if not self.start.agent:
                return "name a program to run"
            try:
                shlex.split(self.start.agent)
            except ValueError:
                return "a quote in the agent's line is open"
            if not self.start.project.startswith("/"):
                return "the project is a folder's whole path"
        return ""

    def action_field(self, name: str) -> None:
        """A click on a label."""
        self.query_one(f"#{name}").focus()

    def why_no_step(self, by: int) -> str:
        """Why there is no older (1) or newer (-1) project, or ""."""
        if not self._recent:
            return "no session has been started yet, so there are no recent projects"
        if by > 0:
            return "this is the oldest project" if self._at == len(self._recent) - 1 else ""
        return "this is what was typed" if self._at < 0 else ""

    def step(self, by: int) -> None:
        """Up and down: through the projects of before, or the fields."""
        if self.focused is None or self.focused.id != "project":
            (self.focus_previous if by > 0 else self.focus_next)()
            return
        if reason := self.why_no_step(by):
            self.dash.say(reason, "warn")
            return
        self.action_recent(self._at + by)

    def action_recent(self, at: int) -> None:
        """Take one of the projects of before; -1: what was typed."""
        if self._at < 0 <= at:
            self._typed = (self._of("project"), self._of("worktree"))
        self._at = at
        project, worktree = self._recent[at] if at >= 0 else self._typed
        self.query_one("#worktree", Input).value = worktree
        self._take(project, [])
        self.query_one("#project").focus()

    def action_offer(self, at: int) -> None:
        """Take one of the folders that Tab has found."""
        if at < len(self._offers):
            value = self._of("project")
            self._take(value[: value.rfind("/") + 1] + self._offers[at] + "/", [])
            self.query_one("#project").focus()

    def _take(self, project: str, offers: list[str]) -> None:
        box = self.query_one("#project", Input)
        box.value = self._tabbed = project
        box.cursor_position = len(project)
        self._offers = offers
        self.query_one("#offers", Bar).redraw()

    def do_next_pane(self) -> None:
        """Tab: complete what was typed of the project; where nothing was, or it was just completed, the next field."""
        value = self.query_one("#project", Input).value
        if self.focused is not None and self.focused.id == "project" and value != self._tabbed:
            self.run_worker(self._expand(value), group="tab", exclusive=True)
            return
        self._offers = []
        self.query_one("#offers", Bar).redraw()
        self.focus_next()

    async def _expand(self, value: str) -> None:
        found, offers = await asyncio.to_thread(expand, value, self.dash.places.home)
        if self.query_one("#project", Input).value != value:
            return  # typed on meanwhile
        self._take(found, offers)
        if found == value and not offers:
            self.dash.say(f"no folder begins so: {value}", "warn")

    @on(Input.Submitted)
    async def _submitted(self) -> None:
        await self.action_press("start")

    # -- starting -------------------------------------------------------------------------------------------------

    def do_start(self) -> None:
        """Enter."""
        wanted = self.start
        self._starting = True
        made = " (git makes its worktree first)" if wanted.worktree else ""
        self._tell(f"starting {wanted.agent} …{made}", "dim")
        self.dash.do(partial(self._try, wanted))

    def _try(self, wanted: Start) -> Done:
        """In a worker."""
        done = launch(wanted)
        self.post_message(Tried(done))
        return done

    @on(Tried)
    def _tried(self, message: Tried) -> None:
        self._starting = False
        self._started = message.done.ok
        if not message.done.ok:
            told = message.done.said
            ended = told.rpartition("; ")[0].rpartition("; ")[2] if " ended at once " in told else ""
            self._tell(ended or f"Not started: {message.done.said}", "bad")
        else:
            pid = re.search(r"`nd7 attach (\d+)`", message.done.said)
            self.dash.started = f"pid:{pid[1]}" if pid else ""
            if self.is_current:
                self.dismiss()

    def on_store_changed(self, message: StoreChanged) -> None:
        # The dashboard says what failed at the bottom of whatever is up; here it stands in the form already.
        if self._status is not None and self.dash.said is not None and self.dash.said[1] == "bad":
            self.dash.quiet()


def launch(wanted: Start) -> Done:
    """Start it, in a worker."""
    from nd7tui.deeds import Done
    from nd7tui.starting import start

    ok, said = start(wanted.words(), WORKTREE_SECONDS if wanted.worktree else SECONDS)
    if ok:
        base = os.path.basename(wanted.project.rstrip("/"))
        said = f"{wanted.name or (f'{base}/{wanted.worktree}' if wanted.worktree else base)}: {said}"
    return Done("other", ok, said, Deed(time.time_ns(), "start", wanted.command(), said, ok))
