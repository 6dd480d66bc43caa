"""What the screen knows.  Only the thread that draws touches it; it reads no file and makes no widget.

Rows come in the order in which they happened.  The list in view is a list of indices into them, made anew when the
filter changes and appended to when rows arrive, so that a burst of events costs what the burst costs.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import TYPE_CHECKING

from nd7core.text import SafeText, safe
from nd7tui.filters import Filter
from nd7tui.model import Batch, Deed, GrantRow, Row, SessionRow

if TYPE_CHECKING:
    # Not at run time: the package brings the whole engine along, a fifth of the time to the first paint.
    from nd7core.attribution.verdict import Source

# Rows held for the stream.  Older ones are in the past denials; a day's work is far below this.
KEPT = 50_000
DROP_AT_ONCE = 5_000
DEEDS_KEPT = 1_000


class Store:
    """Sessions, rows, the filter over them, what nd7 did, and what to say at the bottom.

    Attributes:
        version: grows with every change of what is in view; widgets compare it.
        hidden: sources that are switched off with 1-4.
        only: key of the session whose rows alone are shown, or "".
        unseen: keys of sessions with something new that has not been looked at.
        new: how many rows in view have come since following was paused, or None while it follows.
    """

    def __init__(self) -> None:
        self.rows: list[Row] = []
        self.sessions: dict[str, SessionRow] = {}
        self.kept: tuple[GrantRow, ...] = ()  # what later sessions start with
        self.deeds: list[Deed] = []
        self.made: set[tuple[int, str]] = set()  # pid and path of what was granted from this dashboard
        self.faults: list[str] = []
        self.view: list[int] = []
        self.hidden: set[Source] = {"none"}
        self.only = ""
        self.filter = Filter()
        self.paused = False
        self.new = 0
        self.unseen: set[str] = set()
        self.dropped = 0
        self.caught_up = False
        self.version = 0
        self.now = 0
        self._keys: dict[str, str] = {}
        self._index: dict[str, int] = {}
        self._place: dict[str, int] = {}

    # -- what comes in -------------------------------------------------------------------------------------------

    def take(self, batch: Batch, now: int) -> list[Row]:
        """Take over what the ingest thread found.  Returns the rows that are new (not merely changed)."""
        self.now = now
        if batch.sessions is not None:
            self._take_sessions(batch.sessions)
        if batch.kept is not None:
            self.kept = batch.kept
        self.faults = (self.faults + batch.faults)[-200:]
        fresh = self._merge(batch.rows)
        if batch.caught_up and not self.caught_up:
            # The logs that were there have been read one after the other; from here on rows come as they happen.
            self.caught_up = True
            self.rows.sort(key=lambda row: row.ts)
            self._index = {row.id: index for index, row in enumerate(self.rows)}
            self.refilter()
        if len(self.rows) > KEPT:
            self._drop(len(self.rows) - KEPT + DROP_AT_ONCE)
        self.version += 1
        return fresh

    def _take_sessions(self, sessions: tuple[SessionRow, ...]) -> None:
        keys = self._keys
        self.sessions = {session.key: session for session in sessions}
        self._keys = {session_id: session.key for session in sessions for session_id in session.session_ids}
        if self.only and self.only not in self.sessions:
            log = next((session_id for session_id, key in keys.items() if key == self.only), "")
            self.only = self._keys.get(log, "")
            self.refilter()
        elif self.only and keys != self._keys:
            self.refilter()

    def _merge(self, rows: Iterable[Row]) -> list[Row]:
        fresh: list[Row] = []
        again = False
        moved: dict[str, Row] = {}
        for row in rows:
            at = self._index.get(row.id)
            if at is None:
                self._append(row)
                fresh.append(row)
                continue
            old = self.rows[at]
            again = again or self.shows(old) != self.shows(row)
            self.rows[at] = row
            if row.count > old.count and row.id not in moved:
                moved[row.id] = row
                self.new += self.paused and self.shows(row)
        if moved:
            # What happened again is news: it goes to the end, where the eye is.
            last = [self.rows[self._index[row_id]] for row_id in moved]
            self.rows = [row for row in self.rows if row.id not in moved] + last
            self._index = {row.id: index for index, row in enumerate(self.rows)}
        if again or moved:
            self.refilter()
        return fresh

    def _append(self, row: Row) -> None:
        self._index[row.id] = len(self.rows)
        self.rows.append(row)
        if self.shows(row):
            self._place[row.id] = len(self.view)
            self.view.append(len(self.rows) - 1)
            self.new += self.paused

    def _drop(self, count: int) -> None:
        self.dropped += count
        self.rows = self.rows[count:]
        self._index = {row.id: index for index, row in enumerate(self.rows)}
        self.refilter()

    # -- what is in view -----------------------------------------------------------------------------------------

    def shows(self, row: Row) -> bool:
        """Whether the row passes the switches and the filter."""
        if row.source in self.hidden or (self.only and self.key_of(row) != self.only):
            return False
        return self.filter(row, self.session_name(self.key_of(row)), self.now)

    def refilter(self) -> None:
        """Make the list in view anew."""
        self.view = [index for index, row in enumerate(self.rows) if self.shows(row)]
        self._place = {self.rows[index].id: place for place, index in enumerate(self.view)}
        self.version += 1

    def row_at(self, place: int) -> Row:
        """The row at a place in view."""
        return self.rows[self.view[place]]

    def place_of(self, row_id: str) -> int | None:
        """Where a row is in view, or None."""
        return self._place.get(row_id)

    def row(self, row_id: str) -> Row | None:
        """A row by its id, in view or not."""
        at = self._index.get(row_id)
        return None if at is None else self.rows[at]

    def totals(self) -> Counter[Source]:
        """How many rows each source has in all sessions, whatever is filtered."""
        total: Counter[Source] = Counter()
        for session in self.sessions.values():
            total.update(session.counts)
        return total

    def counts(self) -> Counter[Source]:
        """How many rows each source has, under everything but the switches."""
        total: Counter[Source] = Counter()
        if not self.filter.tests:
            for session in self.sessions.values():
                if not self.only or session.key == self.only:
                    total.update(session.counts)
            return total
        for row in self.rows:
            if (not self.only or self.key_of(row) == self.only) and self.filter(
                row, self.session_name(self.key_of(row)), self.now
            ):
                total[row.source] += 1
        return total

    # -- sessions ------------------------------------------------------------------------------------------------

    def key_of(self, row: Row) -> str:
        """The key of a row's session: found by the log, for a session that ends gets another key."""
        return self._keys.get(row.session_id, f"log:{row.session_id}")

    def session_of(self, row: Row) -> SessionRow | None:
        """The session of a row."""
        return self.sessions.get(self.key_of(row))

    def session_name(self, key: str) -> str:
        """The name of a session, unescaped."""
        session = self.sessions.get(key)
        return session.name if session else key.partition(":")[2][:8]

    def ordered(self) -> list[SessionRow]:
        """Sessions as the pane lists them: those that run, in the order in which they started, then ended ones.

        Not by what they are doing: a list that reshuffles whenever an agent starts a command cannot be aimed at.
        Which of them waits is told by its mark, the count above, and the key that goes to the next one.
        """
        return sorted(
            self.sessions.values(),
            key=lambda s: (not s.live, s.started if s.live else -s.changed, s.key),
        )

    def grants(self) -> list[GrantRow]:
        """Every grant of every live session, unused ones first, then the newest; and what later sessions start with,
        where no session of that project runs that has it."""
        live = list(self.sessions.values())
        found = [grant for session in live for grant in session.grants]
        held = {(session.project, grant.path) for session in live for grant in session.grants}
        found += [grant for grant in self.kept if (grant.project, grant.path) not in held]
        return sorted(found, key=lambda grant: (grant.uses > 0, -grant.created, grant.path))

    def last_grant(self, session: str = "") -> GrantRow | None:
        """The grant that `u` takes back: the newest made here, else of the selected session, else of all.

        Read from the records, so also after a restart.  One made in a shell, for another session, comes last: nobody
        who looks at this screen has just made it.

        Args:
            session: key of the selected one, or "".
        """

        def rank(grant: GrantRow) -> tuple[bool, bool, int, str]:
            here = (grant.pid, grant.path) in self.made
            return here, not here and f"pid:{grant.pid}" == session, grant.created, grant.path

        found = [grant for one in self.sessions.values() if one.live for grant in one.grants]
        return max(found, key=rank, default=None)

    def undo_of(self, row: Row) -> str:
        """The path of the newest grant, where it is the one that mends a row, or ""."""
        last, wanted = self.last_grant(self.key_of(row)), row.verdict.grant or row.verdict.target
        if last is None or last.pid != row.nd7_session or not wanted:
            return ""
        return last.path if wanted == last.path or wanted.startswith(last.path.rstrip("/") + "/") else ""

    # -- what nd7 did --------------------------------------------------------------------------------------------

    def did(self, deed: Deed) -> None:
        """Note what nd7 did."""
        self.deeds = [*self.deeds, deed][-DEEDS_KEPT:]

    def title(self) -> SafeText:
        """What the stream shows, for the breadcrumbs."""
        return safe(self.session_name(self.only), 40) if self.only else SafeText("all sessions")
