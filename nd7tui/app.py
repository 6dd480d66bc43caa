"""The dashboard's wiring: threads on one side, screens on the other, the store between.  No drawing happens here."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING

from textual import on
from textual.app import SystemCommand
from textual.filter import LineFilter
from textual.screen import Screen
from textual.worker import Worker, WorkerState

from nd7core.errors import Nd7Error
from nd7core.paths import Places
from nd7core.text import SafeText, safe
from nd7tui import keys, theme
from nd7tui.crash import Mortal
from nd7tui.line import LastFilter
from nd7tui.messages import Arrived, Finished, OutlookReady, StoreChanged
from nd7tui.model import Batch, Row, SessionRow
from nd7tui.outside import Outside
from nd7tui.screens.curtain import Curtain
from nd7tui.screens.page import Page
from nd7tui.store import Store
from nd7tui.themes import Themed

if TYPE_CHECKING:
    from nd7tui.deeds import Done, Wish
    from nd7tui.ingest import Ingest
    from nd7tui.notices import Notices, Wanted
    from nd7tui.outlook import Outlook

SAID_SECONDS = 8.0
OUTLOOKS_KEPT = 500


class Dashboard(Outside, Themed, Mortal):
    """`nd7 tui`.

    Args:
        places: where sessions and logs are.
        environ: where keys.toml is looked for, and how to notify; the process's own by default.
        read_only: nothing outside the dashboard is changed.
        now: the clock, in nanoseconds since the epoch.
        follow: read sessions and logs; off where a test fills the store itself.
        wanted: how to tell a person who looks elsewhere; not at all where None.
    """

    TITLE = "nd7"
    CSS = theme.CSS
    LEFT = "every session lives on"  # what becomes of the sessions when one leaves

    def __init__(
        self,
        places: Places,
        *,
        environ: Mapping[str, str] = os.environ,
        read_only: bool = False,
        theme_name: str = theme.DARK.name,
        now: Callable[[], int] = time.time_ns,
        follow: bool = True,
        wanted: Wanted | None = None,
    ) -> None:
        super().__init__()
        self.places = places
        self.environ = environ
        self.read_only = read_only
        self.now = now
        self.store = Store()
        self.said: tuple[SafeText, theme.Role] | None = None
        self.caps = keys.caps({})
        self.off: dict[str, str] = {}  # keys that do nothing in this dashboard, with the reason that is said
        self.started = ""  # key of the session that was just started here, until it is there to be selected
        self.leaks: list[str] = []
        self._said_until = 0.0
        self._follow = follow
        self._last_filter = LastFilter(self._leaked)
        self._outlooks: dict[tuple[str, str, int], Outlook] = {}
        self._wanted = wanted
        self._notices: Notices | None = None
        self._ingest: Ingest | None = None
        self._thread: threading.Thread | None = None
        self.dress(theme_name)

    # -- start and end --------------------------------------------------------------------------------------------

    def get_default_screen(self) -> Screen[None]:
        return Curtain()

    def on_mount(self) -> None:
        self.set_interval(1.0, self._second)

    def begin(self) -> None:
        """Read the keys' file, sessions and logs.  The first screen calls this once it has been painted.

        Not sooner: what the ingest thread needs takes 100 ms to load, in which the thread that writes to the
        terminal would wait for its turn.
        """
        try:
            keymap = keys.read_keymap(keys.keymap_path(self.places, dict(self.environ)))
        except Nd7Error as error:
            self.say(error.message + (f"; {error.hint}" if error.hint else ""), "bad")
        else:
            self.use_keymap(keymap)
        self.more_themes()
        if self._follow:
            self._thread = threading.Thread(target=self._read, name="nd7-ingest", daemon=True)
            self._thread.start()

    def use_keymap(self, keymap: dict[str, str]) -> None:
        """Take the person's own keys, for what is pressed and for what is printed."""
        self.set_keymap(keymap)
        self.caps = keys.caps(keymap)
        self._redraw()

    def _read(self) -> None:
        """The ingest thread: its imports, too, happen here and not before the first paint."""
        from nd7tui.ingest import Ingest

        self._ingest = Ingest(self.places, self._tell, clears=not self.read_only)
        self._ingest.run()

    def _tell(self) -> None:
        self.post_message(Arrived())

    def on_unmount(self) -> None:
        if self._ingest is not None:
            self._ingest.stop()
        if self._thread is not None:
            self._thread.join(2.0)

    # -- what arrives ---------------------------------------------------------------------------------------------

    def on_arrived(self, message: Arrived) -> None:
        if self._ingest is not None:
            self.arrived(self._ingest.take())

    def arrived(self, batch: Batch) -> None:
        """Take a batch into the store, mark what is new, and tell the screen."""
        store = self.store
        old = store.caught_up
        fresh = store.take(batch, self.now())
        if old:  # what was there at the start is no news
            if self._notices is None:
                from nd7tui.notices import Notices, Wanted

                self._notices = Notices(self._wanted or Wanted(), self.bell, self.environ)
            for notice in self._notices.look(store.sessions.values(), fresh, store.session_of, self.now()):
                store.unseen.add(notice.session.key)
        self.changed(len(fresh))

    def changed(self, fresh: int = 0) -> None:
        """Tell the screen that is up that the store has changed."""
        if self.screen_stack:  # while the dashboard ends, a worker's last message finds none
            self.screen.post_message(StoreChanged(fresh))

    def _second(self) -> None:
        self.store.now = self.now()
        if self.said is not None and time.monotonic() > self._said_until:
            self.quiet()
        elif self.screen_stack and isinstance(self.screen, Page) and self.screen.is_mounted:  # none while it ends
            self.screen.tick()

    # -- what is said at the bottom -------------------------------------------------------------------------------

    def say(self, text: str, role: theme.Role = "text") -> None:
        """Say something at the bottom, for a few seconds or until the next key."""
        self.said = (safe(text, 4_000), role)
        # What went wrong stays until a key is pressed: nobody may have looked.
        self._said_until = time.monotonic() + (SAID_SECONDS if role != "bad" else 3600.0)
        self._redraw()

    def quiet(self) -> None:
        """Take back what was said."""
        if self.said is not None:
            self.said = None
            self._redraw()

    def _redraw(self) -> None:
        if isinstance(self.screen, Page) and self.screen.is_mounted:
            self.screen.redraw_bars()

    def get_line_filters(self) -> Sequence[LineFilter]:
        return [self._last_filter, *super().get_line_filters()]

    def _leaked(self, text: str) -> None:
        if len(self.leaks) < 100:
            self.leaks.append(text)

    def action_help_quit(self) -> None:
        """Ctrl+C: Textual would raise a toast."""
        self.say(f"{self.caps['quit']} leaves; {self.LEFT}", "warn")

    def get_system_commands(self, screen: Screen[object]) -> Iterable[SystemCommand]:
        """Ctrl+P: every key of the screen, by its sentence."""
        if isinstance(screen, Page):
            for key in keys.of(screen.NAME):
                reason = screen.why(key.id)
                about = f"{key.does}; not now: {reason}" if reason else key.does
                yield SystemCommand(f"{key.word}  ({self.caps[key.id]})", about, partial(screen.action_press, key.id))
        yield from self.theme_commands()

    # -- what the keys would do -----------------------------------------------------------------------------------

    def _outlook_key(self, row: Row) -> tuple[str, str, int]:
        session = self.store.session_of(row)
        return (row.id, row.state, session.revision if session and session.live else -1)

    def outlook_of(self, row: Row) -> Outlook | None:
        """What the keys would do for a row, if it has been worked out under the profile in force."""
        return self._outlooks.get(self._outlook_key(row))

    def work_out(self, row: Row) -> None:
        """Work it out in a worker; `OutlookReady` tells the screen."""
        about = self._outlook_key(row)
        if about in self._outlooks:
            return
        work = partial(self._work_out, row, self.store.session_of(row), about)
        self.run_worker(work, thread=True, group="outlook", exclusive=True, exit_on_error=False)

    def _work_out(self, row: Row, session: SessionRow | None, about: tuple[str, str, int]) -> None:
        from nd7tui.foresee import look

        self.post_message(OutlookReady(row.id, look(self.places, row, session), about))

    def on_outlook_ready(self, message: OutlookReady) -> None:
        row = self.store.row(message.row_id)
        if row is not None:
            if len(self._outlooks) >= OUTLOOKS_KEPT:
                self._outlooks.clear()
            self._outlooks[message.about] = message.outlook
            if message.about != self._outlook_key(row):
                self.work_out(row)  # its session has ended or got another profile meanwhile: what was foreseen is void
            self.changed()

    # -- deeds ----------------------------------------------------------------------------------------------------

    def grant(self, row: Row) -> None:
        """Grant what the row's detail says, to its session, at once."""
        from nd7tui.deeds import Wish

        if row.nd7_session is not None:
            self.wish(Wish(row.nd7_session, row.verdict.grant, origin=row.id))

    def wish(self, wish: Wish) -> None:
        """Make a grant in a worker; `Finished` tells how it went."""
        from nd7tui.deeds import grant

        self.do(partial(grant, self.places, wish))

    def undo(self, session: str = "") -> None:
        """Take back the last grant, which the bottom line names; `session` is the key of the selected one."""
        last = self.store.last_grant(session)
        if last is not None:
            self.take_back(last.pid, last.path)

    def forget(self, path: str, project: str) -> None:
        """Take back, in a worker, what later sessions of a project would start with."""
        from nd7tui.deeds import forget

        self.do(partial(forget, self.places, path, project))

    def take_back(self, pid: int, path: str) -> None:
        """Take a grant back in a worker."""
        from nd7tui.deeds import take_back

        self.do(partial(take_back, self.places, pid, path))

    def do(self, deed: Callable[[], Done]) -> None:
        """Run a deed in a worker, one at a time."""
        self.run_worker(partial(self._do, deed), thread=True, group="deeds", exit_on_error=False)

    def _do(self, deed: Callable[[], Done]) -> None:
        self.post_message(Finished(deed()))

    @on(Finished)
    def _finished(self, message: Finished) -> None:
        done = message.done
        if done.asks and done.wish is not None:
            from nd7tui.deeds import ask

            self.push_screen(ask(self, done.wish, done.asks))
            return
        self.store.did(done.deed)
        if done.ok and done.kind == "grant" and done.wish is not None:
            self.store.made.add((done.wish.pid, done.wish.path))
        self.say(("" if done.ok else "not done: ") + done.said, "good" if done.ok else "bad")
        self.changed()

    def on_worker_state_changed(self, event: Worker.StateChanged) -> None:
        if event.state is WorkerState.ERROR:
            error = event.worker.error
            self.say(error.message if isinstance(error, Nd7Error) else f"nd7 failed at it: {error!r}", "bad")
