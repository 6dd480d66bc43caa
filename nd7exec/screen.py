"""The outer terminal as a viewer of the session's screen."""

from __future__ import annotations

from nd7exec.loop import Loop
from nd7exec.relay import Relay
from nd7exec.terminal import OuterTerminal


class LocalScreen:
    """Shows the session in the terminal that `nd7 run` was started in."""

    def __init__(self, loop: Loop, outer: OuterTerminal, relay: Relay) -> None:
        self.loop = loop
        self.outer = outer
        self.relay = relay
        self._pending = bytearray()

    @property
    def backlog(self) -> int:
        return len(self._pending)

    def show(self, data: bytes) -> None:
        self._pending += data
        self._write()

    def _write(self) -> None:
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
