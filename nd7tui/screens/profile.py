"""A session's profile as it is in force for the next command, with what has changed since it started marked."""

from __future__ import annotations

import difflib
import os
from dataclasses import replace

from textual.app import ComposeResult
from textual.message import Message

from nd7core.text import safe
from nd7tui import keys, look
from nd7tui.detail import nothing
from nd7tui.line import Line, indented, wrap
from nd7tui.messages import StoreChanged
from nd7tui.model import SessionRow
from nd7tui.screens.page import Page
from nd7tui.theme import Role
from nd7tui.widgets.bar import Bar
from nd7tui.widgets.textpane import TextPane

LIMIT = 4 << 20


class ProfileRead(Message):
    """The profile has been read."""

    def __init__(self, lines: list[tuple[str, int, str]], problem: str, revision: int) -> None:
        super().__init__()
        self.lines = lines
        self.problem = problem
        self.revision = revision


def changes(now: str, start: str) -> list[tuple[str, int, str]]:
    """The lines of the profile: (mark, number in the profile or 0, text); mark is "+", "-" or " "."""
    found: list[tuple[str, int, str]] = []
    old, new = start.splitlines(), now.splitlines()
    for tag, first, last, begin, end in difflib.SequenceMatcher(None, old, new, autojunk=False).get_opcodes():
        if tag in ("delete", "replace"):
            found += [("-", 0, text) for text in old[first:last]]
        mark = " " if tag == "equal" else "+"
        found += [(mark, begin + at + 1, text) for at, text in enumerate(new[begin:end])]
    return found


class Profile(Page):
    """policy.sb of one session."""

    NAME = "profile"
    TITLE_WORD = "profile"
    BINDINGS = [*keys.bindings("profile")]
    LINE = ("back", "help")

    def __init__(self, session: SessionRow) -> None:
        super().__init__()
        self.session_key = session.key
        self.read: ProfileRead | None = None
        self._asked = -1

    def compose(self) -> ComposeResult:
        yield Bar(self.top_line, id="top")
        yield TextPane(self._text, id="text")
        yield Bar(self.bottom_line, id="bottom")

    def on_mount(self) -> None:
        self.query_one(TextPane).focus()
        self._ask()

    @property
    def session(self) -> SessionRow | None:
        """The session as it is now."""
        return self.dash.store.sessions.get(self.session_key)

    def crumbs(self) -> list[str]:
        return ["nd7", self.dash.store.session_name(self.session_key), "profile"]

    def at_right(self) -> Line:
        session = self.session
        return Line("dim").put(safe(f"revision {session.revision}" if session else "the session has ended"))

    def on_store_changed(self, message: StoreChanged) -> None:
        self.redraw_bars()
        self._ask()

    def _ask(self) -> None:
        session = self.session
        if session is not None and session.revision != self._asked:
            self._asked = session.revision
            self.run_worker(self._read, thread=True, group="profile", exclusive=True, exit_on_error=False)

    def _read(self) -> None:
        """In a worker."""
        from nd7core.errors import Nd7Error
        from nd7core.policy import build, render
        from nd7core.private import open_directory, read_file
        from nd7core.sessions import POLICY, load

        session = self.session
        if session is None or session.pid is None:
            return
        lines: list[tuple[str, int, str]] = []
        problem = ""
        try:
            directory = open_directory(session.directory)
            try:
                text = read_file(directory, POLICY, LIMIT).decode("utf-8", "surrogateescape")
            finally:
                os.close(directory)
            record = load(self.dash.places, session.pid).record
            begun = tuple(grant for grant in record.grants if grant.floor) if record else ()
            start = render(build(replace(record, grants=begun))).decode("utf-8", "surrogateescape") if record else text
            lines = changes(text, start)
        except (Nd7Error, OSError) as error:
            problem = error.message if isinstance(error, Nd7Error) else f"policy.sb: {error.strerror}"
        self.post_message(ProfileRead(lines, problem, session.revision))

    def on_profile_read(self, message: ProfileRead) -> None:
        self.read = message
        self.query_one(TextPane).redraw()

    def _text(self, width: int) -> list[Line]:
        read = self.read
        if read is None:
            return nothing(width, "Reading policy.sb …")
        if read.problem:
            return nothing(width, read.problem, "No command runs without a profile: nd7-exec refuses.")
        added = sum(mark == "+" for mark, _, _ in read.lines)
        what = look.plural(added, "line") + " more than at the start" if added else "as it was at the start"
        found = [
            Line(),
            *indented(wrap(safe(f"In force for the next Bash command; {what}."), width - 4), 2, "dim"),
            Line(),
        ]
        for mark, number, text in read.lines:
            role: Role = "good" if mark == "+" else "bad" if mark == "-" else "code"
            # Wrapped, not cut: what a rule allows stands at its end.
            for place, part in enumerate(wrap(safe(text), max(width - 9, 8)) or [safe("")]):
                line = Line(role)
                line.put(safe(f"{number if number and not place else '':>5} "), "faint")
                found.append(line.put(safe(mark), cells=2).put(part))
        return found
