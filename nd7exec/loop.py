"""The supervisor's event loop: descriptors and timers, one thread, nothing that waits anywhere else."""

from __future__ import annotations

import heapq
import itertools
import selectors
import time
from collections.abc import Callable
from dataclasses import dataclass, field

Callback = Callable[[], object]


@dataclass(order=True, slots=True)
class Timer:
    """A callback at a time of the monotonic clock; `cancel()` makes it do nothing."""

    when: float
    order: int
    callback: Callback | None = field(compare=False)

    def cancel(self) -> None:
        self.callback = None


class Loop:
    """Level-triggered.  A callback may watch, forget or close anything, itself too."""

    def __init__(self) -> None:
        self._selector = selectors.DefaultSelector()
        self._timers: list[Timer] = []
        self._counter = itertools.count()

    def watch(self, fd: int, read: Callback | None, write: Callback | None = None) -> None:
        """Call `read` while `fd` is readable and `write` while it is writable.  Neither: forget it."""
        events = (selectors.EVENT_READ if read else 0) | (selectors.EVENT_WRITE if write else 0)
        if not events:
            self.forget(fd)
        elif fd in self._selector.get_map():
            self._selector.modify(fd, events, (read, write))
        else:
            self._selector.register(fd, events, (read, write))

    def forget(self, fd: int) -> None:
        """Stop watching; must come before the descriptor is closed.  One that is not watched is no error."""
        if fd in self._selector.get_map():
            self._selector.unregister(fd)

    def later(self, seconds: float, callback: Callback) -> Timer:
        """Call back once, after `seconds`."""
        timer = Timer(time.monotonic() + seconds, next(self._counter), callback)
        heapq.heappush(self._timers, timer)
        return timer

    def turn(self) -> None:
        """Wait for something, and handle all of it."""
        while self._timers and self._timers[0].callback is None:
            heapq.heappop(self._timers)
        wait = max(0.0, self._timers[0].when - time.monotonic()) if self._timers else None
        for key, events in self._selector.select(wait):
            for event, at in ((selectors.EVENT_READ, 0), (selectors.EVENT_WRITE, 1)):
                # Looked up again: an earlier callback of this turn may have closed it, and the number be another's.
                now = self._selector.get_map().get(key.fd)
                if events & event and now is not None and now.data is key.data and key.data[at]:
                    key.data[at]()
        due = time.monotonic()
        while self._timers and self._timers[0].when <= due:
            callback = heapq.heappop(self._timers).callback
            if callback:
                callback()

    def close(self) -> None:
        self._selector.close()
