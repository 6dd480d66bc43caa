"""What the dashboard does beyond its own screen: hand the terminal to a session, end one and bring it back, copy."""

from __future__ import annotations

import asyncio
from functools import partial
from typing import TYPE_CHECKING, cast

from textual.app import App

from nd7core.text import safe
from nd7tui.line import last_words
from nd7tui.model import Row, SessionRow

if TYPE_CHECKING:
    from nd7tui.app import Dashboard


class Outside(App[None]):
    """The part of the dashboard that deals with other programs, and with the terminal itself."""

    @property
    def _dash(self) -> Dashboard:
        return cast("Dashboard", self)

    async def attach(self, session: SessionRow) -> None:
        """Put this terminal on a session's screen; reading goes on meanwhile."""
        from nd7tui.starting import nd7  # not before the first paint

        await self.outside(nd7("attach", str(session.pid)))

    async def outside(self, command: list[str]) -> None:
        """Run a program in the real terminal and come back."""
        from textual.app import SuspendNotSupported

        said = self._dash.say
        try:
            with self.suspend():
                # What it says would flash by on a screen that is the dashboard's again in the same moment.
                process = await asyncio.create_subprocess_exec(*command, stderr=asyncio.subprocess.PIPE)
                _, written = await process.communicate()
                status = process.returncode
        except SuspendNotSupported:
            said("this terminal cannot be handed over; use nd7 attach in another one", "warn")
            return
        except OSError as error:
            said(f"{command[0]}: {error.strerror or error}", "bad")
            return
        if not status:
            said("back from the session", "dim")
            return
        last = " ".join(written[-2000:].decode("utf-8", "replace").rpartition("nd7: ")[2].split())
        said(last or f"attach ended with status {status}", "warn")

    def copy(self, text: str) -> None:
        """Put text on the clipboard (OSC 52), and say it: a terminal or tmux may swallow it, and tells nobody."""
        # Made safe as well: pasted, an escape could end the bracketed paste and the rest be typed as commands.
        self.copy_to_clipboard(safe(text, 10_000, keep_newlines=True))
        from nd7core.mask import mask  # not before the first paint

        self._dash.say(
            f"copied: {mask(text, 200)}  (nothing arrived? {self._dash.caps['print']} leaves and prints it)", "good"
        )

    def leave_with(self, text: str) -> None:
        """Leave, and print text where the dashboard was."""
        self.exit(None, 0, last_words([safe(text, 10_000)]))

    def peek(self, session: SessionRow) -> None:
        """Look at what a session's screen holds, without attaching; `Peeked` tells the screen."""
        self.run_worker(partial(self._peek, session), thread=True, group="peek", exclusive=True, exit_on_error=False)

    def _peek(self, session: SessionRow) -> None:
        from nd7core.errors import Nd7Error
        from nd7exec.attach import peek
        from nd7tui.emulate import show
        from nd7tui.messages import Peeked

        try:
            screen = peek(session.directory, 1.0)
            told = Peeked(session.key, show(screen.data, screen.rows, screen.columns))
        except (Nd7Error, OSError) as error:
            told = Peeked(session.key, [], error.message if isinstance(error, Nd7Error) else str(error))
        self.screen.post_message(told)

    def restart(self, session: SessionRow, row: Row | None = None) -> None:
        """Restart a session under a floor that has its grants; for a row that needs it, with its grant.

        A session that is at work is asked about: what it does now is broken off.
        """
        from nd7tui.restart import Again
        from nd7tui.screens.ask import Ask

        if session.pid is None:
            return
        again = Again(session.pid)
        if row is not None and row.verdict.remedy == "restart-wider" and row.verdict.grant:
            again = Again(session.pid, row.verdict.grant, row.id)
        then = partial(self._restart, session, again)
        if session.activity != "working":
            then()
            return
        dangers = ("It is at work: what it does now is broken off, and its background commands end.",)
        same = f"kill {session.pid} && nd7 run --detach {session.agent} --resume {session.session_ids[-1]}"
        self.push_screen(
            Ask("This ends the session and brings it back:", session.name, dangers, same, "restart it", then)
        )

    def _restart(self, session: SessionRow, again: object) -> None:
        from nd7tui.restart import Again, restart

        self._dash.say(f"{session.name} ends and comes back …", "dim")
        self._dash.do(partial(restart, self._dash.places, cast(Again, again)))
