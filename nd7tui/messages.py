"""What the dashboard's parts tell each other.  Threads post these; nothing else of theirs reaches a widget."""

from __future__ import annotations

from typing import TYPE_CHECKING

from textual.message import Message

if TYPE_CHECKING:
    from nd7tui.deeds import Done
    from nd7tui.outlook import Outlook


class Arrived(Message):
    """The ingest thread has something.  What it is stands in the ingest's batch: one message is under way at most."""


class StoreChanged(Message):
    """The store has changed; posted by the app to the screen that is up.

    Attributes:
        fresh: how many rows are new.
    """

    def __init__(self, fresh: int = 0) -> None:
        super().__init__()
        self.fresh = fresh


class Finished(Message):
    """A deed (a grant, one taken back, ...) is done or has failed."""

    def __init__(self, done: Done) -> None:
        super().__init__()
        self.done = done


class OutlookReady(Message):
    """What the keys would do for a row has been worked out.

    Attributes:
        row_id: of the row that was asked about; an answer about a row that is no longer selected is only kept.
        about: the row's id and state, and the revision of the profile, that it was worked out for.
    """

    def __init__(self, row_id: str, outlook: Outlook, about: tuple[str, str, int]) -> None:
        super().__init__()
        self.row_id = row_id
        self.outlook = outlook
        self.about = about


class Peeked(Message):
    """What a session's screen holds now.

    Attributes:
        key: the session's.
        lines: of its screen; hostile, like everything that it writes.
        problem: why there is none, or "".
    """

    def __init__(self, key: str, lines: list[str], problem: str = "") -> None:
        super().__init__()
        self.key = key
        self.lines = lines
        self.problem = problem


class Picked(Message):
    """The cursor of a list stands on another row.

    Attributes:
        list_id: the list's widget id.
        key: the row's key, or "" where the list is empty.
    """

    def __init__(self, list_id: str, key: str) -> None:
        super().__init__()
        self.list_id = list_id
        self.key = key


class Opened(Message):
    """Enter, or a second click, on a row of a list."""

    def __init__(self, list_id: str, key: str) -> None:
        super().__init__()
        self.list_id = list_id
        self.key = key


class Paused(Message):
    """A list has left or rejoined the newest row, because of where its cursor went."""

    def __init__(self, list_id: str, following: bool) -> None:
        super().__init__()
        self.list_id = list_id
        self.following = following
