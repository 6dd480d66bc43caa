"""The outer terminal as a viewer of the session's screen."""

from __future__ import annotations

from nd7exec.loop import Loop
from nd7exec.relay import Relay
from nd7exec.terminal import OuterTerminal

MOST_BACKLOG = 2 << 20


class LocalScreen:
    """Shows the session in the terminal that `nd7 run` was started in."""

    def __init__(self, loop: Loop, outer: OuterTerminal, relay: Relay) -> None:
        self.loop = loop
        self.outer = outer
        self.relay = relay
        self._pending = bytearray()
        self._lost = False

    @property
    def backlog(self) -> int:
        return len(self._pending)

    def show(self, data: bytes) -> None:
        if len(self._pending) > MOST_BACKLOG:
            # It has stopped looking (^S, a connection that hangs) while somebody attached looks on.
            self._pending.clear()
            self._lost = True
        if not self._lost:
            self._pending += data
            self._write()
        else:
            self.loop.watch(self.outer.output, None, self._write)

    def _write(self) -> None:
        if self._lost:
            self._lost = False
            self._pending += self.relay.replay.enter()
        sent = 0
        view = memoryview(self._pending)
        while sent < len(view):
            taken = self.outer.write(view[sent:])
            if not taken:
                break
            sent += taken
        view.release()
        del self._pending[:sent]
        if self._pending:
            self.loop.watch(self.outer.output, None, self._write)
        else:
            self.loop.forget(self.outer.output)
            self.relay.arm()
