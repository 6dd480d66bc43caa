"""The ways from a row or a session to the screens that tell more of it."""

from __future__ import annotations

from nd7tui.model import Row, SessionRow
from nd7tui.screens.page import Page


class Doors(Page):
    """A screen on which a row, or a session, is selected."""

    @property
    def row(self) -> Row | None:
        """The selected row."""
        raise NotImplementedError

    @property
    def session(self) -> SessionRow | None:
        """The session that a key means."""
        raise NotImplementedError

    def of_session(self) -> str:
        return self.session.key if self.session is not None else ""

    def do_wider(self) -> None:
        """`G`: the ladder."""
        from nd7tui.screens.wider import Wider

        if self.row is not None:
            self.app.push_screen(Wider(self.row))

    def do_session(self) -> None:
        """`i`: what is in force."""
        from nd7tui.screens.session import Session

        if self.session is not None:
            self.app.push_screen(Session(self.session))

    def do_profile(self) -> None:
        """`p`: the profile, line by line."""
        from nd7tui.screens.profile import Profile

        if self.session is not None:
            self.app.push_screen(Profile(self.session))

    def do_grants(self) -> None:
        """`a`."""
        from nd7tui.screens.grants import Grants

        self.app.push_screen(Grants())

    def do_history(self) -> None:
        """`h`."""
        from nd7tui.screens.history import History

        self.app.push_screen(History())

    def do_launch(self) -> None:
        """`n`."""
        from nd7tui.screens.launch import Launch

        self.app.push_screen(Launch())
