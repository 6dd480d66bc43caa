"""`G`: how wide and for how long, with what each choice would open, before it is chosen."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from textual import on
from textual.app import ComposeResult
from textual.message import Message

from nd7core.text import safe
from nd7tui import keys, look
from nd7tui.detail import nothing
from nd7tui.line import Line, fit, indented, wrap
from nd7tui.messages import Opened, Picked
from nd7tui.model import Row
from nd7tui.screens.page import Page
from nd7tui.theme import Role
from nd7tui.widgets.bar import Bar
from nd7tui.widgets.rowlist import RowList
from nd7tui.widgets.textpane import TextPane

if TYPE_CHECKING:
    from nd7core.record import Scope
    from nd7core.survey import Survey
    from nd7tui.ladder import Rung

MINUTES = 60_000_000_000

# What Left and Right walk through: the words, the grant's scope, and for how many minutes.
TERMS: tuple[tuple[str, Scope, int], ...] = (
    ("the next command alone", "once", 0),
    ("15 minutes", "until", 15),
    ("1 hour", "until", 60),
    ("8 hours", "until", 480),
    ("this session", "session", 0),  # after the times: those end with the session, too
    ("this project, later sessions too", "project", 0),
)
SESSION = 4


class Climbed(Message):
    """The ladder has been made."""

    def __init__(self, ladder: list[Rung]) -> None:
        super().__init__()
        self.ladder = ladder


class Counted(Message):
    """What one rung would open has been counted."""

    def __init__(self, survey: Survey, path: str) -> None:
        super().__init__()
        self.survey = survey
        self.path = path


class Wider(Page):
    """The ladder of widths for one denial."""

    NAME = "wider"
    TITLE_WORD = "how wide"
    BINDINGS = [*keys.bindings("wider")]
    LINE = ("choose", "shorter", "longer", "back", "help")

    DEFAULT_CSS = """
    Wider #about { height: 3; }
    Wider #term { height: 2; }
    Wider #ladder { height: auto; min-height: 3; max-height: 12; }
    Wider #opens { height: 3fr; }
    """

    def __init__(self, row: Row) -> None:
        super().__init__()
        self.row = row
        self.ladder: list[Rung] | None = None
        self.surveys: dict[str, Survey] = {}
        self.term = SESSION

    def compose(self) -> ComposeResult:
        yield Bar(self.top_line, id="top")
        yield Bar(self._about, id="about")
        yield RowList(self, id="ladder")
        yield Bar(self._term, id="term")
        yield TextPane(self._opens, id="opens")
        yield Bar(self.bottom_line, id="bottom")

    def on_mount(self) -> None:
        self.query_one(RowList).focus()
        self.run_worker(self._climb, thread=True, group="ladder", exit_on_error=False)

    def __bool__(self) -> bool:
        # A screen is true whatever its list holds: Textual tests screens for truth.
        return True

    def crumbs(self) -> list[str]:
        return ["nd7", self.dash.store.session_name(self.dash.store.key_of(self.row)), "grant"]

    # -- in the worker --------------------------------------------------------------------------------------------

    def _climb(self) -> None:
        from nd7core import sessions
        from nd7tui.ladder import rungs

        pid = self.row.nd7_session
        record = sessions.load(self.dash.places, pid).record if pid is not None else None
        found = rungs(record, self.row.verdict.grant, self.row.verdict.target) if record is not None else []
        self.post_message(Climbed(found))

    def _count(self, path: str) -> None:
        from nd7core.survey import survey

        self.post_message(Counted(survey(path, home=self.dash.places.home), path))

    # -- what happens ---------------------------------------------------------------------------------------------

    def on_climbed(self, message: Climbed) -> None:
        self.ladder = message.ladder
        rows = self.query_one(RowList)
        rows.reload()
        rows.select(self.row.verdict.grant)
        self._refresh()

    def on_counted(self, message: Counted) -> None:
        self.surveys[message.path] = message.survey
        self.query_one(RowList).refresh()
        self._refresh()

    @on(Picked)
    def _picked(self, message: Picked) -> None:
        if message.key and message.key not in self.surveys:
            self.run_worker(
                partial(self._count, message.key), thread=True, group="count", exclusive=True, exit_on_error=False
            )
        self._refresh()

    @on(Opened)
    async def _opened(self, message: Opened) -> None:
        await self.action_press("choose")

    def _refresh(self) -> None:
        self.query_one(TextPane).redraw(top=True)
        self.redraw_bars()

    # -- the list's source ----------------------------------------------------------------------------------------

    def __len__(self) -> int:
        return len(self.ladder or ())

    def key(self, place: int) -> str:
        """See `Source`."""
        return self.ladder[place].path if self.ladder else ""

    def place(self, key: str) -> int | None:
        """See `Source`."""
        return next((at for at, rung in enumerate(self.ladder or ()) if rung.path == key), None)

    def line(self, place: int, width: int) -> Line:
        """See `Source`."""
        rung = (self.ladder or [])[place]
        quiet = bool(rung.refused)
        line = Line("dim" if quiet else "text").gap().put(safe(rung.what), "dim", cells=14)
        survey = self.surveys.get(rung.path)
        much = ""
        if survey is not None and survey.exists:
            much = look.plural(survey.files, "file") if survey.complete else f"over {survey.files:,} files"
        right = Line().gap().put(safe(much), "dim", cells=18)
        if rung.refused:
            right.put(safe("✕ never"), "dim", cells=10)
        elif rung.dangers or rung.needs_force:
            right.put(safe("! asks"), "warn", cells=10)
        elif survey is not None and survey.secrets:
            right.put(safe("! secrets"), "warn", cells=10)
        else:
            right.put(safe(""), cells=10)
        room = width - line.cells - right.cells
        shown = safe(look.short_path(rung.path, self.dash.places.home))
        return line.put(fit(shown, room, "middle"), "dim" if quiet else "path", cells=room).join(right)

    def empty(self, width: int) -> list[Line]:
        """See `Source`."""
        if self.ladder is None:
            return nothing(width, "Looking at the folders …")
        return nothing(width, "There is no path here that a grant could open.", "Esc goes back.")

    # -- the other lines ------------------------------------------------------------------------------------------

    @property
    def rung(self) -> Rung | None:
        """The selected rung."""
        place = self.place(self.query_one(RowList).key)
        return None if place is None or self.ladder is None else self.ladder[place]

    def _about(self, width: int) -> list[Line]:
        shown = look.short_path(self.row.verdict.target, self.dash.places.home)
        line = Line("dim").gap().put(safe("refused: "), "dim")
        return [Line(), line.put(fit(safe(shown), width - line.cells - 1, "middle"), "path"), Line()]

    def _term(self, width: int) -> list[Line]:
        line = Line("dim").gap().put(safe("for "), "dim").put(safe("◂ "), "key", do="screen.term(-1)")
        line.put(safe(TERMS[self.term][0]), "strong").put(safe(" ▸"), "key", do="screen.term(1)")
        return [Line(), line.put(safe("   ← → change how long"), "faint")]

    def _opens(self, width: int) -> list[Line]:
        rung = self.rung
        found = [Line("rule").put(safe("─" * width), "rule")]
        if rung is None:
            return found
        inner = width - 4
        survey = self.surveys.get(rung.path)

        def say(text: str, role: Role) -> None:
            found.extend(indented(wrap(safe(text, 1000), inner), 2, role))

        if rung.refused:
            say("Cannot be granted: " + rung.refused, "bad")
            return found
        say("Opens: " + rung.path, "text")
        if survey is None:
            say("counting …", "faint")
        elif not survey.exists:
            say("It does not exist yet. The grant makes it, empty: on Linux only what is there can be opened.", "dim")
        else:
            some = "" if survey.complete else "over "
            around = f" in {look.plural(survey.folders, 'folder')}" if survey.folders else ""
            say(f"{some}{look.plural(survey.files, 'file')}{around}", "text")
        if rung.needs_force:
            say("! " + rung.needs_force, "warn")
        for danger in rung.dangers:
            say("! runs later, outside the sandbox: " + danger, "warn")
        if survey is not None and survey.secrets:
            many = len(survey.secrets) > 1
            say("! these names in it look like secrets:" if many else "! this name in it looks like a secret:", "warn")
            for path in survey.secrets[:8]:
                say("    " + look.short_path(path, self.dash.places.home), "dim")
        if not rung.dangers and not rung.needs_force and survey is not None and not survey.secrets:
            say("Nothing in it is known to run later outside the sandbox, and no name looks like a secret.", "dim")
        found.append(Line())
        words = "asks first, then grants it" if rung.dangers or rung.needs_force else "grants it, at once"
        line = Line().gap(2).put(safe("Enter"), "key", do="screen.press('choose')").gap(2)
        found.append(line.put(safe(f"{words}, for {TERMS[self.term][0]}"), "strong"))
        return found

    # -- keys -----------------------------------------------------------------------------------------------------

    def why_not(self, key: str) -> str:
        if reason := super().why_not(key):
            return reason
        if key == "choose":
            rung = self.rung
            return "nothing is selected" if rung is None else rung.refused
        if key == "shorter" and self.term == 0:
            return "there is no shorter time"
        if key == "longer" and self.term == len(TERMS) - 1:
            return "there is no longer time"
        return ""

    def action_term(self, by: int) -> None:
        """Left and Right: for how long."""
        self.term = max(0, min(len(TERMS) - 1, self.term + by))
        self._refresh()

    def do_shorter(self) -> None:
        """`←`."""
        self.action_term(-1)

    def do_longer(self) -> None:
        """`→`."""
        self.action_term(1)

    def do_choose(self) -> None:
        """Enter: grant it."""
        from nd7tui.deeds import Wish

        rung = self.rung
        if rung is None or self.row.nd7_session is None:
            return
        _, scope, minutes = TERMS[self.term]
        expires = self.dash.now() + minutes * MINUTES if minutes else None
        self.dismiss()
        self.dash.wish(Wish(self.row.nd7_session, rung.path, scope, expires, self.row.id))
