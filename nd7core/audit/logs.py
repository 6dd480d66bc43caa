"""The logs that one `nd7 run` writes: whose they are, and held as long as it runs.

A hook's payload is the session's own word, and a process of the session can send one that names any conversation.  So
a conversation from before the session is gone on with in its own log only where the person named it on the command
line; what comes of another is recorded in the session's own log, and its log stays as it was left.  So it is with one
that another project's transcripts tell of, whether there is a log of it or not yet.
"""

from __future__ import annotations

import fcntl
import os
import re
import stat
from collections.abc import Callable, Collection
from itertools import islice
from typing import NamedTuple

from nd7core.audit.log import EVENTS, AuditError, Log, check_session_id, log_directory, make_directory

_MOST_FOLDERS = 20_000
_OWN_ID = re.compile(r"nd7-\d+-\d+")


def own_id(nd7_session: int, started: int) -> str:
    """The id of the log that a session has for itself.

    Args:
        nd7_session: the pid of `nd7 run`.
        started: nanoseconds since the epoch.

    Examples:
        >>> own_id(77, 1_700_000_000_000_000_000)
        'nd7-77-1700000000'
    """
    return f"nd7-{nd7_session}-{started // 1_000_000_000}"


def of_another_project(projects: str, own: Collection[str], session_id: str) -> bool:
    """Whether a transcript of that conversation lies in a folder that the session does not write.

    Args:
        projects: the agent's folder with one folder of transcripts a project, or "".
        own: what the session writes, canonical.
    """
    try:
        with os.scandir(projects) as entries:
            for entry in islice(entries, _MOST_FOLDERS):
                found = os.path.join(entry.path, f"{session_id}.jsonl")
                if os.path.lexists(found) and os.path.realpath(entry.path) not in own:
                    return True
    except OSError:
        return False
    return False


class Place(NamedTuple):
    """Where the frames of a conversation go.

    Attributes:
        log: the log.
        claimed: the conversation's id where the log is not its own: the session says that it goes on with an older
            one, for which nobody asked by its id.  "" otherwise.
    """

    log: Log
    claimed: str = ""


class Logs:
    """Opens logs, each under a lock that the kernel drops with the process.

    Args:
        state_dir: nd7's state directory.
        own: the id of the session's own log.
        asked: conversations that the person named, or that this session has begun already.
        older: conversations that were there before the session.
        elsewhere: whether a conversation is one of another project.
        host: the machine's name in the frames.
    """

    def __init__(
        self,
        state_dir: str,
        own: str,
        *,
        asked: Collection[str],
        older: Collection[str],
        elsewhere: Callable[[str], bool],
        host: str | None,
    ) -> None:
        self.own = own
        self._state, self._host = state_dir, host
        self._asked, self._older, self._elsewhere = frozenset(asked), frozenset(older), elsewhere
        self._held: list[int] = []
        self._opened: dict[str, Log] = {}

    def claimed(self, session_id: str) -> bool:
        """Whether a conversation is one from before the session that nobody asked for by its id.

        Raises AuditError: no id, or one of nd7's own.
        """
        check_session_id(session_id)
        if _OWN_ID.fullmatch(session_id):
            raise AuditError(f"session id {session_id} is one of nd7's own")
        if session_id in self._asked or session_id in self._opened:
            return False
        # Agents take an id in capitals for the same.
        if any(name in self._older or self._elsewhere(name) for name in {session_id, session_id.lower()}):
            return True
        try:
            # What is no file there is no log either: opening it says what is wrong.
            return stat.S_ISREG(os.lstat(os.path.join(log_directory(self._state, session_id), EVENTS)).st_mode)
        except OSError:
            return False

    def open(self, session_id: str) -> Log:
        """The log of that id, held from now on.  Raises AuditError."""
        known = self._opened.get(session_id)
        if known is None:
            directory = log_directory(self._state, session_id)
            self._hold(directory)
            known = self._opened[session_id] = Log(directory, host=self._host)
        return known

    @property
    def ids(self) -> list[str]:
        """The ids of all logs that are written, in the order they began."""
        return list(self._opened)

    def _hold(self, directory: str) -> None:
        try:
            make_directory(directory)
            descriptor = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
        except OSError as error:
            raise AuditError(f"audit log {directory}: {error.strerror}") from error
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            os.close(descriptor)
            raise AuditError(f"the log {os.path.basename(directory)} is held by another live session") from None
        self._held.append(descriptor)

    def close(self) -> None:
        """Let all go."""
        for descriptor in self._held:
            os.close(descriptor)
        self._held.clear()
