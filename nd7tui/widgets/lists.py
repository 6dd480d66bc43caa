"""What the dashboard's two lists show: sources over the store, each row made when it is drawn."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from nd7core.text import SafeText, safe
from nd7tui import look
from nd7tui.detail import nothing
from nd7tui.line import Line, fit
from nd7tui.model import SessionRow
from nd7tui.store import Store

if TYPE_CHECKING:
    # Not at run time: the package brings the whole engine along, a fifth of the time to the first paint.
    from nd7core.attribution.verdict import Source

ALL = "all"
COUNTS = 12


class SessionList:
    """Sessions, with a first row for all of them."""

    def __init__(self, store: Store, now: Callable[[], int]) -> None:
        self._store = store
        self._now = now
        self._version = -1
        self._rows: list[SessionRow] = []

    def _all(self) -> list[SessionRow]:
        if self._version != self._store.version:
            self._version = self._store.version
            self._rows = self._store.ordered()
        return self._rows

    def __len__(self) -> int:
        return len(self._all()) + 1 if self._all() else 0

    def key(self, place: int) -> str:
        """See `Source`."""
        return self._all()[place - 1].key if place else ALL

    def place(self, key: str) -> int | None:
        """See `Source`."""
        if key == ALL:
            return 0
        return next((at + 1 for at, row in enumerate(self._all()) if row.key == key), None)

    def line(self, place: int, width: int) -> Line:
        """See `Source`."""
        if not place:
            line = Line("text").put(safe("all sessions"), cells=max(width - COUNTS, 8))
            return line.join(counts_line(self._store.totals()))
        session = self._all()[place - 1]
        return session_line(session, width, self._now(), unseen=session.key in self._store.unseen)

    def empty(self, width: int) -> list[Line]:
        """See `Source`."""
        if not self._store.caught_up:
            return nothing(width, "Looking for sessions …")
        return nothing(width, "No sessions.", "Start one: nd7 run claude, or n here.")


def counts_line(counts: Mapping[Source, int]) -> Line:
    """▲2  ◆1  ○1 in columns of their own; a source without any is left blank."""
    line = Line()
    for source in look.SOURCES[:3]:
        count = counts.get(source, 0)
        glyph, _, role = look.SOURCE[source]
        line.put(safe(f"{glyph}{count if count < 1000 else '999+'}" if count else ""), role, cells=COUNTS // 3)
    return line


def session_line(session: SessionRow, width: int, now: int, *, unseen: bool = False) -> Line:
    """One session: what it does, its name, how long, and what was refused in it.

    "!" marks one that something is wrong with, "•" one with news that nobody has looked at.
    """
    glyph, word, role = look.ACTIVITY[session.activity]
    wide = width >= 64
    line = Line("text" if session.live else "dim").put(glyph, role).gap()
    state = str(word)
    if wide and session.waits_for:
        state += f" {session.waits_for}" if session.activity == "ended" else f": {session.waits_for}"
    since = look.age(session.changed or session.started, now)
    right = Line("dim").gap().put(safe(state), role, cells=30 if wide else 8).gap().put(since, "dim", cells=4)
    wrong = bool(session.problem or session.gaps or session.canary == "dark")
    right.put(safe("!" if wrong else "•" if unseen else ""), "bad" if wrong else "accent", cells=2)
    right.join(counts_line(session.counts))
    name = width - line.cells - right.cells
    if wide:
        project = name // 2
        line.put(safe(session.name), cells=name - project - 1).gap()
        line.put(safe(look.short_path(session.project, session.home)), "dim", cells=project, keep="tail")
    else:
        line.put(safe(session.name), cells=max(name, 4))
    return line.join(right)


def _unheard(mute: list[SessionRow]) -> str:
    """Of which sessions, running or over, nothing tells nd7 what they are refused."""
    names = " and ".join(dict.fromkeys(f"{session.agent} ({session.name})" for session in mute[:3]))
    few = "is no agent that nd7 knows: what it is refused shows on its own screen, not here."
    many = "are no agents that nd7 knows: what they are refused shows on their own screens, not here."
    return f"{names} {few if len(mute) == 1 else many}"


class Stream:
    """Failed results and reports, in the order in which they happened."""

    def __init__(self, store: Store) -> None:
        self._store = store

    def __len__(self) -> int:
        return len(self._store.view)

    def key(self, place: int) -> str:
        """See `Source`."""
        return self._store.row_at(place).id

    def place(self, key: str) -> int | None:
        """See `Source`."""
        return self._store.place_of(key)

    def line(self, place: int, width: int) -> Line:
        """See `Source`.  Columns leave in this order as it gets narrow: count, operation, session, seconds."""
        row = self._store.row_at(place)
        session = self._store.session_of(row)
        glyph, word, role = look.SOURCE[row.source]
        quiet = row.source == "none"
        line = Line("dim" if quiet else "text").put(look.clock(row.ts, seconds=width >= 70), "dim").gap()
        if not self._store.only and width >= 62:
            line.put(safe(session.name if session else ""), "dim", cells=14 if width >= 90 else 10).gap()
        line.put(glyph, role).gap().put(word, role, cells=9)
        if width >= 80:
            line.put(look.OPERATION[row.verdict.operation] if not quiet else SafeText(""), "dim", cells=8)
        state_glyph, state_word, state_role = look.STATE[row.state]
        right = Line()
        if not quiet:
            right.gap().put(state_glyph, state_role).gap().put(state_word, state_role, cells=8)
        else:
            right.gap().put(safe(row.verdict.owner or "unknown"), "dim", cells=10)
        if width >= 76:
            right.put(safe(f"×{row.count}" if row.count > 1 else ""), "dim", cells=5)
        home = session.home if session else ""
        room = max(width - line.cells - right.cells, 6)
        if row.verdict.target:
            shown = safe(look.short_path(row.verdict.target, home))
            line.put(fit(shown, room, "middle"), "dim" if quiet else "path", cells=room)
        else:
            line.put(
                safe(" ".join(row.command.split()) if len(row.command) < 4_000 else row.command), "dim", cells=room
            )
        return line.join(right)

    def empty(self, width: int) -> list[Line]:
        """See `Source`: says what "none" rests on, and never more."""
        store = self._store
        if store.rows and store.filter.text:
            return nothing(width, f"Nothing matches {store.filter.text}", "Esc takes the filter off.")
        if not store.caught_up:
            return nothing(width, "Reading the logs …")
        if not store.sessions:
            return nothing(
                width,
                "Nothing to watch yet: no session runs and none has left a log.",
                "In a project: nd7 run claude.  To see nd7 at work without an agent: nd7 demo.",
            )
        counts = store.counts()
        others = counts["none"] if "none" in store.hidden else 0
        switched = [look.SOURCE[source][1] for source in store.hidden if source != "none" and counts[source]]
        then = f"{look.plural(others, 'failure')} for other reasons; 4 shows them." if others else ""
        if switched:
            return nothing(width, f"Switched off: {', '.join(switched)}.", "1, 2, 3 and 4 show each source again.")
        watched = [s for s in store.sessions.values() if s.live and (not store.only or s.key == store.only)]
        if not watched:
            past = [s for s in store.sessions.values() if s.mute and (not store.only or s.key == store.only)]
            text = (
                f"No refusal was seen. {_unheard(past)}" if past else "Nothing was refused in what the logs here hold."
            )
            return nothing(width, text, then)
        dark = next((session for session in watched if session.canary == "dark"), None)
        if dark is not None:
            why = f"{dark.name}: {dark.light or 'a test refusal did not arrive'}"
            return nothing(width, "A refusal might not be seen.", why)
        if gaps := sum(session.gaps for session in watched):
            return nothing(
                width, f"No refusal was seen, but {look.plural(gaps, 'event')} are missing from the log.", then
            )
        if all(session.canary == "lit" for session in watched):
            if mute := [session for session in watched if session.mute]:
                return nothing(width, f"No refusal was seen. {_unheard(mute)}", then)
            return nothing(
                width, "Nothing was refused so far, and a test refusal in each session was seen to arrive.", then
            )
        return nothing(width, "No refusal was seen so far. No test refusal has proved yet that one would be.", then)
