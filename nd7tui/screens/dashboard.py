"""The first screen: sessions, the stream of refusals, and the detail of the selected one."""

from __future__ import annotations

from functools import partial

from textual import events, on
from textual.app import ComposeResult
from textual.containers import Container, Vertical
from textual.timer import Timer

from nd7core.text import SafeText, safe
from nd7tui import keys, look
from nd7tui.detail import detail, nothing
from nd7tui.filters import Filter
from nd7tui.line import Line
from nd7tui.messages import Opened, OutlookReady, Paused, Peeked, Picked, StoreChanged
from nd7tui.model import Row, SessionRow
from nd7tui.screens.doors import Doors
from nd7tui.screens.reasons import reason
from nd7tui.widgets.bar import Bar
from nd7tui.widgets.card import CHORD, Card, pane_title, peek_lines, session_card, status_line, switches
from nd7tui.widgets.filterbar import FilterBar
from nd7tui.widgets.lists import ALL, SessionList, Stream
from nd7tui.widgets.rowlist import RowList
from nd7tui.widgets.textpane import TextPane

# Below this nothing can be aligned; the screen says so instead of breaking.
LEAST_WIDTH, LEAST_HEIGHT = 56, 14
WIDE = 104
# How long the cursor must rest on a row before its outlook (record, profile, file system) is worked out.
REST = 0.04


class Main(Doors):
    """Sessions, stream and detail."""

    NAME = "dashboard"
    TITLE_WORD = "all sessions"
    BINDINGS = [*keys.bindings("dashboard")]
    LINE = (
        "grant",
        "wider",
        "undo",
        "filter",
        "copy",
        "open",
        "launch",
        "session",
        "grants",
        "history",
        "pause",
        "help",
        "quit",
    )

    DEFAULT_CSS = """
    Main #body { layout: vertical; height: 1fr; }
    Main #left { height: auto; }
    Main #sessions { height: auto; max-height: 4; min-height: 1; }
    Main #card { display: none; }
    Main #right { height: 1fr; }
    Main #stream { height: 2fr; min-height: 3; }
    Main #detail { height: 3fr; min-height: 4; }
    Main.-short #sessions { max-height: 2; }
    Main.-wide #body { layout: horizontal; }
    Main.-wide #left { width: 42; height: 1fr; padding: 0 1 0 0; }
    Main.-wide #sessions { height: 1fr; min-height: 3; max-height: 100%; }
    Main.-wide #card { display: block; max-height: 75%; }
    Main.-wide #right { width: 1fr; }
    Main #small { display: none; height: 1fr; }
    Main.-small #body, Main.-small #filterbar { display: none; }
    Main.-small #small { display: block; }
    """

    def __init__(self) -> None:
        super().__init__()
        self._resting: Timer | None = None
        self._ages: list[SafeText] = []
        self.peeked: Peeked | None = None
        self.revealed = ""  # id of the row whose secrets are shown
        self.stream: RowList
        self.session_list: RowList
        self.detail: TextPane
        self.card: Card
        self.filter_bar: FilterBar

    def compose(self) -> ComposeResult:
        # Kept, not looked up: a timer may still come while the screen is being taken down.
        store = self.dash.store
        self._fit(*self.app.size)  # now, so that the first layout is the right one
        self.session_list = RowList(SessionList(store, self.dash.now), id="sessions")
        self.stream = RowList(Stream(store), id="stream", follow=True)
        self.detail = TextPane(self._detail, id="detail")
        self.card = Card(self._card, self._more, id="card")
        self.filter_bar = FilterBar(self._filter, self._filter_closed)
        yield Bar(self.top_line, id="top")
        with Container(id="body"):
            with Vertical(id="left"):
                yield Bar(self._sessions_title, id="sessions-title")
                yield self.session_list
                yield self.card
            with Vertical(id="right"):
                yield Bar(self._stream_title, id="stream-title")
                yield self.stream
                yield Bar(self._detail_title, id="detail-title")
                yield self.detail
        yield TextPane(self._small, id="small")
        yield self.filter_bar
        yield Bar(self.bottom_line, id="bottom")

    def on_mount(self) -> None:
        self.stream.focus()
        self.call_after_refresh(self.dash.begin)

    @property
    def row(self) -> Row | None:
        """The selected row."""
        key = self.stream.key
        return self.dash.store.row(key) if key else None

    @property
    def session(self) -> SessionRow | None:
        """The session that a key means: the one whose rows alone are shown, else the selected row's."""
        store = self.dash.store
        if store.only:
            return store.sessions.get(store.only)
        row = self.row
        return store.session_of(row) if row else None

    # -- drawing --------------------------------------------------------------------------------------------------

    def on_resize(self, event: events.Resize) -> None:
        self._fit(*event.size)
        self.redraw_bars()

    def _fit(self, width: int, height: int) -> None:
        self.set_class(width < LEAST_WIDTH or height < LEAST_HEIGHT, "-small")
        self.set_class(width >= WIDE and height >= 24, "-wide")
        self.set_class(height < 20, "-short")

    def _small(self, width: int) -> list[Line]:
        size = self.app.size
        least = f"{LEAST_WIDTH} columns and {LEAST_HEIGHT} rows"
        text = f"nd7 needs {least} to be readable; this is {size.width} × {size.height}."
        return nothing(width, text, "Widen or zoom out. At any width: nd7 sessions, nd7 denials.  q leaves.")

    def crumbs(self) -> list[str]:
        store = self.dash.store
        found = ["nd7", str(store.title())]
        if store.filter.text:
            found.append(f"/{store.filter.text}")
        return found

    def at_right(self) -> Line:
        return status_line(self.dash.store, read_only=self.dash.read_only)

    def _title(self, text: str, width: int, right: Line, pane: str, note: str = "") -> list[Line]:
        return [pane_title(text, width, right, focused=self.focused is not None and self.focused.id == pane, note=note)]

    def _sessions_title(self, width: int) -> list[Line]:
        return self._title("sessions", width, Line(), "sessions")

    def _stream_title(self, width: int) -> list[Line]:
        store = self.dash.store
        counts = store.counts()
        paused = ""
        if store.paused:
            paused = f"‖ paused, {store.new:,} new" if store.new else "‖ paused"
        right = switches(counts, store.hidden, words=True)
        if right.cells + len(paused) + 18 > width:
            right = switches(counts, store.hidden, words=False)
        return self._title("denials", width, right, "stream", paused)

    def _detail_title(self, width: int) -> list[Line]:
        right = Line("dim")
        if self.peeking is not None:
            if not self.dash.read_only and (self.peeked is None or not self.peeked.problem):
                right.put(safe("Enter attaches; "), "dim").put(safe(CHORD), "key").put(safe(" comes back"), "dim")
            return self._title("its screen now", width, right, "detail")
        row = self.row
        if row is not None and row.revision is not None:
            right.put(safe(f"profile revision {row.revision}"), "faint")
        return self._title("detail", width, right, "detail")

    @property
    def peeking(self) -> SessionRow | None:
        """The session whose screen the pane below shows: the selected one, while the sessions have the focus."""
        if self.focused is not self.session_list:
            return None
        session = self.dash.store.sessions.get(self.session_list.key)
        return session if session is not None and session.live and session.directory else None

    def _look(self) -> None:
        session = self.peeking
        if session is not None:
            self.dash.peek(session)

    def on_peeked(self, message: Peeked) -> None:
        title = self.peeked is None or bool(self.peeked.problem) != bool(message.problem)
        self.peeked = message
        if title:
            self.redraw_bars()
        self.detail.redraw()
        self.detail.action_bottom()  # where an agent's prompt is

    def _detail(self, width: int) -> list[Line]:
        if self.peeking is not None:
            return peek_lines(self.peeking, self.peeked, width)
        row = self.row
        if row is None:
            return []
        dash = self.dash
        session = dash.store.session_of(row)
        outlook = dash.outlook_of(row)
        tight = self.detail.size.height < 18
        undo = dash.store.undo_of(row)
        tell = partial(detail, row, session, outlook, dash.caps, width - 2, tight=tight, read_only=dash.read_only)
        text = tell(undo=undo, revealed=row.id == self.revealed)
        return [Line().gap().join(line) for line in text]

    def _card(self, width: int) -> list[Line]:
        return session_card(self.session, width, self.dash.now())

    def _more(self, lines: int) -> Line:
        line = Line("dim").gap().put(safe(f"… {look.plural(lines, 'more line')}: "), "dim")
        return line.put(safe(self.dash.caps["session"]), "key", do="screen.press('session')")

    @on(events.DescendantFocus)
    def _focus_moved(self) -> None:
        self.redraw_bars()
        self.detail.redraw(top=True)
        self._look()

    # -- what happens ---------------------------------------------------------------------------------------------

    def on_store_changed(self, message: StoreChanged) -> None:
        self.session_list.reload()
        self.stream.reload()
        if self.dash.started in self.dash.store.sessions:
            self.session_list.select(self.dash.started)
            self.dash.started = ""
        self.detail.redraw()
        self.redraw_bars()
        row = self.row
        if row is not None and self.dash.outlook_of(row) is None and self._resting is None:
            # A grant or its end: what was foreseen under the profile before it is void.
            self._resting = self.set_timer(REST, self._rested)

    def tick(self) -> None:
        self._look()
        now = self.dash.now()
        ages = [look.age(s.changed or s.started, now) for s in self.dash.store.sessions.values()]
        if ages != self._ages:  # painting what has not changed is most of what idling would cost
            self._ages = ages
            self.session_list.refresh()
            self.card.redraw()

    def on_screen_resume(self) -> None:
        if self.is_mounted and self.dash.store.version:
            self.on_store_changed(StoreChanged())

    @on(Picked)
    def _picked(self, message: Picked) -> None:
        store = self.dash.store
        if message.list_id == "sessions":
            only = "" if message.key in (ALL, "") else message.key
            if only != store.only:
                store.only = only
                store.refilter()
                self.stream.reload()
            self._look()
        self._seen()
        self.revealed = self.revealed if self.stream.key == self.revealed else ""
        self.detail.redraw(top=True)
        self.redraw_bars()
        if self._resting is not None:
            self._resting.stop()
        self._resting = self.set_timer(REST, self._rested)

    def _seen(self) -> None:
        """What is selected has been looked at."""
        row = self.row
        keys_ = {self.session_list.key} | ({self.dash.store.key_of(row)} if row is not None else set())
        if keys_ & self.dash.store.unseen:
            self.dash.store.unseen -= keys_
            self.session_list.refresh()

    def _rested(self) -> None:
        self._resting = None
        row = self.row
        if row is not None:
            self.dash.work_out(row)

    def on_outlook_ready(self, message: OutlookReady) -> None:
        if self.row is not None and self.row.id == message.row_id:
            self.detail.redraw()

    @on(Paused)
    def _paused(self, message: Paused) -> None:
        store = self.dash.store
        store.paused = not message.following
        store.new = 0
        self.redraw_bars()

    @on(Opened)
    async def _opened(self, message: Opened) -> None:
        await self.action_press("open")

    # -- keys -----------------------------------------------------------------------------------------------------

    def why_not(self, key: str) -> str:
        return super().why_not(key) or reason(self, key)

    def do_grant(self) -> None:
        """`g`: exactly what the detail says."""
        if self.row is not None:
            self.dash.grant(self.row)

    def to_copy(self) -> str:
        """The command line that would do it, or the target."""
        row = self.row
        return self.of_row(row, revealed=row.id == self.revealed) if row is not None else ""

    def do_reveal(self) -> None:
        """`X`: the secrets of the selected row, until the selection moves."""
        self.revealed = "" if self.revealed else self.stream.key
        self.detail.redraw()

    async def do_open(self) -> None:
        """Enter: the whole of a row, or a session's screen."""
        if self.focused is self.session_list:
            session = self.dash.store.sessions.get(self.session_list.key)
            if session is not None and session.pid is not None:
                await self.dash.attach(session)
            return
        from nd7tui.screens.moment import Moment

        if self.row is not None:
            self.app.push_screen(Moment(self.row.id))

    def bottom_line(self, width: int) -> list[Line]:
        """The last line; while the filter is typed, every key but two is a letter of it."""
        if not self.filter_bar.is_open or self.dash.said is not None:
            return super().bottom_line(width)
        line = Line("dim").gap().put(safe("Enter"), "key").put(safe(" keep the filter  "))
        return [line.put(safe("Esc"), "key").put(safe(" as it was before"))]

    def do_filter(self) -> None:
        """`/`."""
        self.filter_bar.open(self.dash.store.filter)
        self.redraw_bars()

    def _filter(self, found: Filter) -> str:
        store = self.dash.store
        store.filter = found
        store.refilter()
        self.stream.reload()
        self.redraw_bars()
        return f"{len(store.view):,} of {len(store.rows):,}"

    def _filter_closed(self) -> None:
        self.stream.focus()
        self.redraw_bars()

    def _switch(self, number: int) -> None:
        store = self.dash.store
        store.hidden ^= {look.SOURCES[number - 1]}
        store.refilter()
        self.stream.reload()
        self.redraw_bars()
        source = look.SOURCES[number - 1]
        self.dash.say(f"{look.SOURCE[source][1]}: {'hidden' if source in store.hidden else 'shown'}", "dim")

    async def action_press(self, key: str) -> None:
        """The four switches are one thing."""
        if key.startswith("source_"):
            self.dash.quiet()
            self._switch(int(key[-1]))
        else:
            await super().action_press(key)

    def do_pause(self) -> None:
        """Space."""
        self.stream.follow(not self.stream.following)

    def do_waiting(self) -> None:
        """`w`: the next session that waits."""
        keys_ = [s.key for s in self.dash.store.ordered() if s.activity == "waiting"]
        current = self.session_list.key
        after = keys_[keys_.index(current) + 1 :] if current in keys_ else keys_
        self.session_list.select((after or keys_)[0])
        self.session_list.focus()

    def do_restart(self) -> None:
        """`r`."""
        if self.session is not None:
            self.dash.restart(self.session, self.row)

    def do_back(self) -> None:
        """Esc: the filter, then the session, then the pane."""
        store = self.dash.store
        if store.filter.text:
            self._filter(Filter())
        elif store.only:
            self.session_list.select(ALL)
            self.stream.focus()
        else:
            self.stream.focus()

    def do_quit(self) -> None:
        """Leave; every session lives on."""
        self.app.exit()
