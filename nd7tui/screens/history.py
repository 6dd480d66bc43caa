"""Past denials: every session ever recorded, searched as you type."""

from __future__ import annotations

import subprocess
import sys
import time
from functools import partial
from typing import TYPE_CHECKING

from textual import events, on
from textual.app import ComposeResult
from textual.message import Message
from textual.widgets import Input

from nd7core.denial import CONFIRMED
from nd7core.errors import Nd7Error
from nd7core.mask import mask
from nd7core.text import safe
from nd7tui import keys, look
from nd7tui.detail import nothing
from nd7tui.export import FORMATS, export
from nd7tui.line import Line, fit, indented, wrap
from nd7tui.messages import Opened, Picked
from nd7tui.screens.page import Page
from nd7tui.theme import Role
from nd7tui.widgets.bar import Bar
from nd7tui.widgets.rowlist import RowList
from nd7tui.widgets.textpane import TextPane

if TYPE_CHECKING:
    from nd7core.history import Entry, SeenTarget
    from nd7core.history import Page as Found

PAGE = 200
NEAR = 40  # rows before the end at which the next page is asked for
HINT = 'word  "two words"  source:k  state:open  op:write  path:/etc  session:5b1d  project:api  tool:Bash  age:7d'


class Answer(Message):
    """What a search has found.

    Attributes:
        number: of the question; an answer to an older one is passed over.
        took: seconds.
        complete: whether the search came to its end or its limit within its time.
    """

    def __init__(
        self,
        number: int,
        found: Found | None,
        targets: list[SeenTarget],
        more: bool,
        took: float,
        problem: str = "",
        complete: bool = True,
    ) -> None:
        super().__init__()
        self.number = number
        self.found = found
        self.targets = targets
        self.more = more
        self.took = took
        self.problem = problem
        self.complete = complete


class Indexed(Message):
    """How far the index is; `problem` where it cannot be made."""

    def __init__(self, done: int, total: int, problem: str = "") -> None:
        super().__init__()
        self.done = done
        self.total = total
        self.problem = problem


class History(Page):
    """The search, its list, and what is known of the selected row."""

    NAME = "history"
    TITLE_WORD = "past denials"
    BINDINGS = [*keys.bindings("history")]
    LINE = ("open", "filter", "group", "copy", "export", "back", "help")

    DEFAULT_CSS = """
    History Input { height: 1; border: none; padding: 0 1; background: $panel; }
    History Input:focus { border: none; }
    History #hint { height: auto; }
    History #past { height: 2fr; }
    History #entry { height: 1fr; min-height: 7; }
    """

    def __init__(self) -> None:
        super().__init__()
        self.entries: list[Entry] = []
        self.targets: list[SeenTarget] = []
        self.by_target = False
        self.form = "md"  # of the file that `e` writes
        self.number = 0
        self.next: int | None = None
        self.asked: int | None = None
        self.complete = True
        self.took = 0.0
        self.wrong = ""
        self.progress: Indexed | None = None
        self._indexer: subprocess.Popen[bytes] | None = None
        self.list: RowList
        self.box: Input
        self.entry: TextPane

    def compose(self) -> ComposeResult:
        self.box = Input(placeholder="search every session ever recorded", id="search")
        self.box.cursor_blink = False
        self.list = RowList(self, id="past")
        self.entry = TextPane(self._about, id="entry")
        yield Bar(self.top_line, id="top")
        yield self.box
        yield Bar(self._syntax, id="hint")
        yield self.list
        yield self.entry
        yield Bar(self.bottom_line, id="bottom")

    def on_mount(self) -> None:
        self.box.focus()
        self._search()
        if self.dash.read_only:
            self.progress = Indexed(0, 0, "--read-only: the index is not brought up to date")
        else:
            self.run_worker(self._index, thread=True, group="index", exit_on_error=False)

    def on_unmount(self) -> None:
        if self._indexer is not None:
            self._indexer.terminate()

    def __bool__(self) -> bool:
        # A screen is true whatever its list holds: Textual tests screens for truth.
        return True

    # -- in workers -----------------------------------------------------------------------------------------------

    def _index(self) -> None:
        places = self.dash.places
        command = [sys.executable, "-P", "-m", "nd7tui.indexing", places.state, places.home]
        try:
            with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as child:
                self._indexer = child
                for line in child.stdout or ():
                    done, _, total = line.decode("ascii", "replace").strip().partition(" ")
                    if done.isdigit() and total.isdigit():
                        self.post_message(Indexed(int(done), int(total)))
                problem = (child.stderr.read() if child.stderr else b"").decode("utf-8", "replace").strip()
                self._indexer = None
        except OSError as error:
            problem = str(error)
        if problem:
            self.post_message(Indexed(0, 0, problem.splitlines()[-1]))

    def _ask(self, number: int, text: str, before: int | None, by_target: bool) -> None:
        from nd7core.history import History as Index
        from nd7core.history_query import QueryError, parse

        index = Index(self.dash.places.state)
        start = time.perf_counter()
        found, targets, problem = None, [], ""
        try:
            query = parse(text, self.dash.now())
            if by_target:
                targets = index.targets(query, limit=1000)
            else:
                found = index.search(query, limit=PAGE, before=before)
        except (QueryError, Nd7Error) as error:
            problem = str(error)
        finally:
            index.close()
        took = time.perf_counter() - start
        self.post_message(Answer(number, found, targets, before is not None, took, problem, index.complete))

    # -- what happens ---------------------------------------------------------------------------------------------

    def _search(self, before: int | None = None) -> None:
        if before is None:
            self.number += 1
        self.asked = before
        question = partial(self._ask, self.number, self.box.value, before, self.by_target)
        self.run_worker(question, thread=True, group="history", exclusive=True, exit_on_error=False)

    @on(Input.Changed)
    def _typed(self) -> None:
        self._search()

    @on(Input.Submitted)
    def _submitted(self) -> None:
        self.list.focus()

    def on_key(self, event: events.Key) -> None:
        if self.focused is self.box and event.key in ("down", "escape"):
            event.stop()
            event.prevent_default()
            self.list.focus()
            return
        super().on_key(event)

    def on_answer(self, message: Answer) -> None:
        if message.number != self.number:
            return
        self.wrong, self.took = message.problem, message.took
        if not message.problem:
            self.targets, self.complete = message.targets, message.complete
            if message.found is not None:
                rows = list(message.found.rows)
                self.entries = self.entries + rows if message.more else rows
                self.next = message.found.next
            self.list.reload()
            if not message.more:
                self.list.move(0)
        self._refresh()

    def on_indexed(self, message: Indexed) -> None:
        finished = self.progress is None or message.done == message.total
        self.progress = message
        if finished and not self.entries:
            self._search()
        self.redraw_bars()

    @on(Picked)
    def _picked(self, message: Picked) -> None:
        near = self.list.cursor >= len(self.entries) - NEAR
        if not self.by_target and near and self.next is not None and self.asked != self.next:
            self._search(self.next)
        self._refresh()

    @on(Opened)
    async def _opened(self, message: Opened) -> None:
        await self.action_press("open")

    def _refresh(self) -> None:
        self.entry.redraw(top=True)
        self.redraw_bars()

    # -- the list's source ----------------------------------------------------------------------------------------

    def __len__(self) -> int:
        return len(self.targets) if self.by_target else len(self.entries)

    def key(self, place: int) -> str:
        """See `Source`."""
        return f"{place} {self.targets[place].target}" if self.by_target else str(self.entries[place].id)

    def place(self, key: str) -> int | None:
        """See `Source`."""
        if self.by_target:
            place = int(key.partition(" ")[0]) if key[:1].isdigit() else len(self.targets)
            return place if place < len(self.targets) else None
        return next((at for at, entry in enumerate(self.entries) if str(entry.id) == key), None)

    def line(self, place: int, width: int) -> Line:
        """See `Source`."""
        return self._target_line(place, width) if self.by_target else self._entry_line(place, width)

    def _entry_line(self, place: int, width: int) -> Line:
        entry = self.entries[place]
        glyph, word, role = look.SOURCE[entry.source]
        line = Line("text").put(look.day(entry.last_ts), "dim").gap(2)
        if width >= 90:
            name = entry.project.rstrip("/").rpartition("/")[2] or entry.session_id
            line.put(safe(name, 60), "dim", cells=16).gap()
        line.put(glyph, role).gap().put(word, role, cells=9)
        if width >= 76:
            line.put(look.operation(entry.operation), "dim", cells=8)
        right = Line().gap()
        if entry.state in look.STATE:
            state, named, state_role = look.STATE[entry.state]
            right.put(state, state_role).gap().put(named, state_role, cells=9)
        right.put(safe(f"×{entry.count}" if entry.count > 1 else ""), "dim", cells=5)
        room = max(width - line.cells - right.cells, 6)
        shown = look.short_path(entry.target, self.dash.places.home) or " ".join(mask(entry.command).split())
        return line.put(fit(safe(shown), room, "middle"), "path" if entry.target else "dim", cells=room).join(right)

    def _target_line(self, place: int, width: int) -> Line:
        seen = self.targets[place]
        glyph, word, role = look.SOURCE[seen.source]
        line = Line("text").put(safe(look.plural(seen.sessions, "session")), "text", cells=14)
        line.put(safe(f"×{seen.count:,}"), "dim", cells=8).put(look.day(seen.last), "dim").gap(2)
        line.put(glyph, role).gap().put(word, role, cells=9)
        shown = safe(look.short_path(seen.target, self.dash.places.home))
        return line.put(fit(shown, max(width - line.cells - 1, 6), "middle"), "path")

    def empty(self, width: int) -> list[Line]:
        """See `Source`."""
        progress = self.progress
        if self.wrong:
            return nothing(width, self.wrong)
        if progress is not None and progress.problem:
            return nothing(width, progress.problem, "nd7 denials reads the logs themselves.")
        if progress is None or progress.done < progress.total:
            return nothing(width, "The index of past sessions is being made; what is found appears here.")
        if self.box.value.strip():
            return nothing(
                width, f"No session recorded here was refused: {self.box.value}", "source:other looks further."
            )
        return nothing(
            width,
            "No session has left a log with a denial in it.",
            "nd7 run claude records them; nd7 demo leaves none behind.",
        )

    # -- the lines round it ---------------------------------------------------------------------------------------

    def at_right(self) -> Line:
        line = Line("dim")
        progress = self.progress
        if progress is not None and progress.done < progress.total:
            line.put(safe(f"indexing {progress.done:,} of {progress.total:,} logs   "), "warn")
        count = len(self)
        more = "+" if not self.by_target and self.next is not None else ""
        return line.put(safe(f"{count:,}{more} found in {self.took * 1000:.0f} ms"), "dim")

    def _syntax(self, width: int) -> list[Line]:
        if self.wrong:
            return [Line().gap().put(fit(safe(self.wrong), width - 2), "warn")]
        few = [] if self.complete else [Line().gap().put(safe("the latest of many; more words find the rest"), "warn")]
        return few + indented(wrap(safe(HINT), width - 2), 1, "faint")

    @property
    def selected(self) -> Entry | None:
        """The row under the cursor, in the list by time."""
        at = self.list.cursor
        return self.entries[at] if not self.by_target and at < len(self.entries) else None

    def _about(self, width: int) -> list[Line]:
        found = [Line("rule").put(safe("─" * width), "rule")]
        entry = self.selected
        if entry is None:
            if self.by_target and self.targets:
                found.append(Line("dim").gap().put(safe("Enter shows each time that it was refused"), "dim"))
            return found
        inner = width - 13

        def fact(name: str, text: str, role: Role = "text", lines: int = 3) -> None:
            for at, part in enumerate(wrap(safe(text, 2000), inner, lines) if text.strip() else ()):
                found.append(Line().gap().put(safe(name if not at else ""), "dim", cells=11).put(part, role))

        fact("command", mask(entry.command))
        fact("came back", mask(entry.line), "mark")
        fact("why", mask(entry.reason))
        if entry.source != "none":
            confirmed = entry.source == "model" and entry.reason.startswith(CONFIRMED)
            fact("evidence", look.evidence(entry.evidence, entry.source, confirmed=confirmed), "dim")
        where = look.short_path(entry.project, self.dash.places.home)
        fact("session", f"{entry.session_id}  {where}", "dim", 1)
        fact("to do", self._mend(entry), "dim", 2)
        return found

    def _mend(self, entry: Entry) -> str:
        if entry.source == "nd7-exec":
            return "The session was the matter, not a path; nd7 doctor checks this machine."
        if entry.remedy == "grant" and entry.grant:
            return f"A session that meets it again: nd7 allow {look.short_path(entry.grant, self.dash.places.home)}"
        return {"restart-wider": "Only a restart wider helps.", "cannot-grant": "It cannot be granted."}.get(
            entry.remedy, ""
        )

    # -- keys -----------------------------------------------------------------------------------------------------

    def why_not(self, key: str) -> str:
        if reason := super().why_not(key):
            return reason
        if key in ("open", "copy", "export") and not len(self):
            return "there is nothing to write" if key == "export" else "nothing is found"
        return ""

    def do_filter(self) -> None:
        """`/`."""
        self.box.focus()

    def do_group(self) -> None:
        """`v`: by time, or by what was refused."""
        self.by_target = not self.by_target
        self._search()

    def do_open(self) -> None:
        """Enter: the moment, or the rows of a target."""
        if self.by_target:
            seen = self.targets[self.list.cursor]
            self.by_target = False
            self.box.value = (
                f'path:"{seen.target}"' if '"' not in seen.target else f"path:{seen.target.split(chr(34))[0]}"
            )
            return
        from nd7tui.screens.past import Past

        if self.selected is not None:
            self.app.push_screen(Past(self.selected))

    def to_copy(self) -> str:
        """The target, or the command."""
        if self.by_target:
            return self.targets[self.list.cursor].target
        return (self.selected.target or mask(self.selected.command)) if self.selected is not None else ""

    def do_export(self) -> None:
        """`e`: a file of what is searched for, secrets masked."""
        self.dash.say(f"writing {FORMATS[self.form]} …", "dim")
        self.dash.do(partial(export, self.box.value, self.dash.now(), self.form))

    def do_format(self) -> None:
        """`E`: the next format."""
        forms = list(FORMATS)
        self.form = forms[(forms.index(self.form) + 1) % len(forms)]
        self.dash.say(f"{self.dash.caps['export']} writes {FORMATS[self.form]} now", "dim")

    def do_back(self) -> None:
        """Esc: the search first, then the screen."""
        if self.box.value:
            self.box.value = ""
        else:
            self.dismiss()
