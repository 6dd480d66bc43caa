"""The supervisor's way to the audit log: everything goes to the scribe, and nothing waits for it."""

from __future__ import annotations

import contextlib
import json
import os
import socket
import time
from collections.abc import Callable, Collection
from dataclasses import replace
from typing import Any

from nd7core import sessions
from nd7core.errors import Nd7Error
from nd7core.paths import Places
from nd7exec import staff, wire
from nd7exec.health import stopped
from nd7exec.lifecycle import Session
from nd7exec.loop import Loop
from nd7exec.staff import Colleague
from nd7exec.wire import Message

AGAIN_SECONDS = 1.0
HUNG_SECONDS = 12.0  # a payload of the largest kind takes some, and another writer's lock ten


class Logbook:
    """The scribe, as the supervisor sees it: started, told, started again when it died.

    Args:
        handled: the signals that the supervisor has handlers for.
        say: tells the person.
        granted: told of the grants in force whenever they change: a list of path and time.

    Attributes:
        pid: the scribe's, 0 while there is none.
        over: set at the session's end; a scribe that ends then is not replaced.
    """

    def __init__(
        self,
        loop: Loop,
        session: Session,
        places: Places,
        handled: Collection[int],
        say: Callable[[str], object],
        granted: Callable[[list[tuple[str, int]]], object],
    ) -> None:
        self.loop, self.session, self.places, self.handled = loop, session, places, handled
        self.say, self.granted = say, granted
        self.pid = 0
        self.over = False
        self._failures = 0
        self._directory = ""
        self._scribe: Colleague | None = None
        self._asked = 0.0
        self._hung = False

    def start(self, directory: str) -> None:
        """Fork the scribe.  Raises OSError where nothing can be forked just now."""
        self._directory = directory
        self.pid = 0
        self.pid, link = staff.fork_scribe(self.session, self.places, directory, self.handled)
        self._scribe = Colleague(self.loop, link, self._told, self._gone)
        self._scribe.watch()
        self._asked, self._hung = 0.0, False

    def _gone(self) -> None:
        self.loop.later(self._failures and AGAIN_SECONDS, self._again)
        self._failures += 1

    def _again(self) -> None:
        """After its death: where nothing can be forked just now (the user's limit, memory), a second later again."""
        if self.over:
            return
        try:
            self.start(self._directory)
        except OSError as error:
            if self._failures == 1:
                self._stopped(f"the audit log's writer died and cannot be started: {error.strerror}; trying on")
            self._failures += 1
            self.loop.later(AGAIN_SECONDS, self._again)
            return
        self.note("nd7:hooks", "gap", {"text": "the audit log's writer died and was started again"})

    def _stopped(self, why: str) -> None:
        """Say it, and put the session's light out, which is the scribe's to do otherwise."""
        self.say(why)
        with contextlib.suppress(Nd7Error, OSError):
            pid = self.session.record.pid
            sessions.update(self.places, pid, lambda record: replace(record, canary=stopped(record.canary, why)))

    def tend(self) -> None:
        """See whether the scribe still answers: its disk may hang, and it with it."""
        now = time.monotonic()
        if not self._asked:
            self._asked = now
            self._tell(b"?", b"")
        elif now > self._asked + HUNG_SECONDS and not self._hung and not self.over:
            self._hung = True
            try:
                pid = os.fork()  # it may hold the lock that the record is changed under
            except OSError:
                return
            if pid == 0:
                staff.as_child(self.handled, ())
                try:
                    self._stopped("the audit log's writer does not answer")
                finally:
                    os._exit(0)

    def _told(self, message: Message) -> None:
        if message.kind == b"?":
            self._asked, self._hung = 0.0, False
        elif message.kind == b"!":
            self.say(message.body.decode("utf-8", "replace"))
        elif message.kind == b"g":
            self.granted(json.loads(message.body))

    def _tell(self, kind: bytes, body: bytes) -> None:
        if self._scribe:
            self._scribe.tell(kind, body)

    def note(self, source: str, kind: str, body: dict[str, Any]) -> None:
        """A frame of nd7's own in the session's log; one that does not fit a message is left out."""
        text = json.dumps(body, ensure_ascii=True).encode()
        if len(text) < wire.LIMIT - 256:
            self._tell(b"n", f"{source} {kind} ".encode() + text)

    def observe(self, source: str, kind: str, body: dict[str, Any], text: bytes) -> None:
        """A frame about a refusal, with the command that met it, whose call the scribe knows."""
        data = json.dumps(body, ensure_ascii=True).encode()
        if len(data) < wire.LIMIT // 4:
            self._tell(b"k", f"{source} {kind} {len(data)} ".encode() + data + text)

    def update(self, fields: dict[str, Any]) -> None:
        """Change the session's record, by way of the scribe: its lock may be another's for a while."""
        self._tell(b"u", json.dumps(fields).encode())

    def command(self, started: int, by_agent: bool, text: bytes) -> None:
        """A command has ended: grants for one are used up, and a hook should have told of it."""
        self._tell(b"c", f"{started} {int(by_agent)} ".encode() + text)

    def payload(self, connection: socket.socket) -> None:
        """A hook has called: the scribe reads it, records it as of now, and answers."""
        if self._scribe:
            # Should there be no descriptor left, the connection just ends: the hook says so.
            with contextlib.suppress(OSError):
                self._scribe.tell(b"P", str(time.time_ns()).encode(), (connection.fileno(),))

    def close(self) -> None:
        """Have everything written, and wait for it."""
        self.over = True
        if self._scribe and self.pid:
            self._scribe.tell(b"E")
            staff.wait_for(self.pid)
            self._scribe.close()
