"""Which commands ran that no hook told of, and which call of the agent's a command is."""

from __future__ import annotations

import re
from collections import deque

GRACE_SECONDS = 6.0  # a hook may take 4 s, and the frame of a parallel call be a little behind
QUOTING = re.compile(rb"[\s'\"\\]+")


def bare(text: bytes) -> bytes:
    """A command without quotes, backslashes and white space: the same however a shell has quoted it."""
    return QUOTING.sub(b"", text)


class Gaps:
    """Finds commands that ran without a PreToolUse frame: a hook that failed, or a command that a person typed."""

    def __init__(self, grace: float = GRACE_SECONDS) -> None:
        self.grace = grace
        self._calls: deque[bytes] = deque(maxlen=4096)
        self._ran: deque[tuple[float, bytes]] = deque()
        """When its grace began, and the command as the shell got it."""

    def called(self, command: str) -> None:
        """A hook told of this command."""
        self._calls.append(bare(command.encode("utf-8", "surrogatepass"))[:16384])

    def ran(self, now: float, text: bytes) -> None:
        """The broker ran this for the agent; `text` may be cut short."""
        self._ran.append((now, text))

    def missing(self, now: float) -> list[bytes]:
        """The commands whose grace is over and that no hook told of."""
        lost = []
        while self._ran and self._ran[0][0] + self.grace <= now:
            given = self._ran.popleft()[1]
            text = bare(given)
            for index, call in enumerate(self._calls):
                # What the agent passes is longer than the command: it sources a snapshot, and evals the command.
                if call in text or (len(text) > 8192 and call[:4096] in text):
                    del self._calls[index]
                    break
            else:
                lost.append(given)
        return lost
