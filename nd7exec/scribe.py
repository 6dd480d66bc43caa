"""The scribe: the one process that writes a session's audit log.

A payload may be 20 MB of JSON, and parsing that holds Python's lock for as long as it takes; so it is neither
the supervisor's work nor a thread's.  The supervisor hands the hook's connection over with the time at which it
was made, and goes on relaying the terminal.  The scribe is unconfined, is forked while the supervisor has
one thread, and when it dies is forked again; what it had not answered is told to the hook as an error and
counted as a gap.
"""

from __future__ import annotations

import json
import os
import platform
import re
import select
import signal
import socket
import time
from collections import Counter, deque
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, NoReturn

from nd7core import sessions
from nd7core.audit.frame import Frame
from nd7core.audit.recorder import Recorder
from nd7core.errors import Nd7Error
from nd7core.hooks import HookError
from nd7core.paths import Places
from nd7core.record import Grant, Record
from nd7exec import prctl, wire
from nd7exec.canary import MOST_GRANTS, PAYLOAD
from nd7exec.gaps import Gaps, bare
from nd7exec.health import Health, try_log
from nd7exec.lifecycle import Session
from nd7exec.wire import Link

LARGEST_PAYLOAD = 64 << 20
# Any process of the session may send payloads, as many as it likes at once.  An agent's hooks are a few, and small.
MOST_PAYLOADS = 256
MOST_TOGETHER = 96 << 20
MOST_CALLS = 512  # the agent's latest, to which a refusal is tied
SMALL_PAYLOAD = 1 << 20  # one up to here is read on, however much the others are
PAYLOAD_SECONDS = 10.0
FOLLOW_SECONDS = 0.5
ALLOW = (
    b'{"hookSpecificOutput":{"hookEventName":"PreToolUse","permissionDecision":"allow","permissionDecisionReason":'
    b'"nd7: the command runs under this session\'s sandbox policy"}}'
)
CANARY = re.compile(rb'\{"%b": \d{1,20}\}' % PAYLOAD.encode())


@dataclass(slots=True)
class Payload:
    """A hook's connection, being read."""

    connection: socket.socket
    ts: int
    began: float
    data: bytearray = field(default_factory=bytearray)


class Scribe:
    """The loop.  From the supervisor: `P` ts + connection, `c` command, `n` a note, `u` the record, `E` end."""

    def __init__(self, link: Link, places: Places, session: Session, directory: str) -> None:
        self.link = link
        self.places = places
        self.session = session.record.pid
        self.directory = directory
        self.payloads: dict[int, Payload] = {}
        self.gaps = Gaps()
        self.counted = 0
        self.granted: dict[str, Grant] = {}
        self.uses: Counter[str] = Counter()
        self.known: tuple[list[str], str] = ([], "")
        self.ending = False
        self.refused = ""
        self.health = Health()
        self.doubtful = self.complained = False
        self.shown: dict[str, Any] = {}
        self.calls: deque[tuple[str, bytes]] = deque(maxlen=MOST_CALLS)
        self.poll = select.poll()
        self._record: tuple[object, Record | None] = (None, None)
        now = self.record_now()
        self.health.take_up(now.canary if now else {})
        begun = now.agent_sessions if now else ()
        self.recorder = Recorder(
            places.state,
            nd7_session=self.session,
            # A scribe that follows one that died goes on with the logs that this session has already begun.
            allowed_ids=session.allowed_ids | frozenset(begun),
            older=session.older,
            choosing=session.choosing and not begun,
            chosen=now.chosen if now else "",
            started=session.record.started,
            about=about(session.record),
            revision=self.revision,
            host=platform.node(),
            agent_config=session.agent_config,
            own_folders=session.record.writable,
            output_roots=session.output_roots,
            link_roots=(session.record.project, session.record.tmp),
            hidden=session.record.hidden,
            hook_command=session.hook_command,
            agent=bool(session.record.agent),
        )

    def revision(self) -> int:
        """Of the policy that is in force."""
        record = self.record_now()
        return record.revision if record else 0

    def record_now(self) -> Record | None:
        """record.json, read again when it is another file; the last good one if it cannot be read."""
        try:
            stat = os.stat(os.path.join(self.directory, sessions.RECORD))
            key = (stat.st_ino, stat.st_mtime_ns)
            if key != self._record[0]:
                found = sessions.load(self.places, self.session).record
                self._record = (key, found or self._record[1])
        except (OSError, Nd7Error):
            return self._record[1]
        return self._record[1]

    def told(self) -> None:
        while message := self.link.receive():
            if message.kind == b"P" and message.fds:
                connection = socket.socket(fileno=message.fds.pop(0))
                connection.setblocking(False)
                payload = Payload(connection, int(message.body), time.monotonic())
                self.payloads[connection.fileno()] = payload
                self.poll.register(connection, select.POLLIN)
                if len(self.payloads) > MOST_PAYLOADS:
                    self.refuse(payload, f"more than {MOST_PAYLOADS} hooks' payloads at once")
            elif message.kind == b"c":
                started, by_agent, text = message.body.split(b" ", 2)
                if by_agent == b"1":
                    self.gaps.ran(time.monotonic(), text)
                self.used(int(started))
            elif message.kind == b"n":
                source, kind, text = message.body.split(b" ", 2)
                self.note(source.decode(), kind.decode(), text)
            elif message.kind == b"k":
                self.refusal(message.body)
            elif message.kind == b"u":
                told = json.loads(message.body)
                if "canary" in told:
                    self.proved(told.pop("canary"))
                self.update(partial(replace, **told))
            elif message.kind == b"?":
                self.link.send(b"?")
            elif message.kind == b"E":
                self.ending = True
            for fd in message.fds:
                os.close(fd)

    def read(self, payload: Payload) -> None:
        """A piece of a payload; at its end it is recorded and answered."""
        try:
            part = payload.connection.recv(1 << 20)
        except (BlockingIOError, InterruptedError):
            return
        except OSError:
            part = b""
        payload.data += part
        size = len(payload.data)
        if size > LARGEST_PAYLOAD:
            self.refuse(payload, f"a hook's payload is larger than {LARGEST_PAYLOAD >> 20} MB")
        elif size > SMALL_PAYLOAD and sum(len(other.data) for other in self.payloads.values()) > MOST_TOGETHER:
            self.refuse(payload, f"the hooks' payloads are larger than {MOST_TOGETHER >> 20} MB together")
        elif not part:
            self.answer(payload, self.record(bytes(payload.data), payload.ts))

    def record(self, data: bytes, ts: int) -> bytes:
        """Record one payload, and the answer for the hook."""
        if CANARY.fullmatch(data):
            return b"O" + data
        self.tell_grants()
        try:
            frame = self.recorder.record(data, ts)
        except (Nd7Error, OSError) as error:
            # The recorder has marked the gap itself.
            self.doubtful = not isinstance(error, HookError)
            reason = error.message if isinstance(error, Nd7Error) else error.strerror or str(error)
            return b"E" + reason.encode("utf-8", "backslashreplace")
        self.health.log = self.health.hooks = ""
        return b"O" + self.take(frame)

    def take(self, frame: Frame) -> bytes:
        """What a recorded frame means for the session, and the text that the hook prints."""
        if frame.kind != "tool_call" or frame.body.get("tool_name") != "Bash":
            return b""
        given = frame.body.get("tool_input")
        command = given.get("command") if isinstance(given, dict) else None
        if isinstance(command, str):
            self.gaps.called(command)
            given_bare = bare(command.encode("utf-8", "surrogatepass"))[:16384]
            self.calls.append((str(frame.body.get("tool_use_id", "")), given_bare))
        return ALLOW

    def refusal(self, message: bytes) -> None:
        """Something that a command was refused, told by the kernel or the broker: with the call that it belongs to."""
        source, kind, size, rest = message.split(b" ", 3)
        body, text = json.loads(rest[: int(size)]), rest[int(size) :]
        if text:
            given = bare(text)
            # The longest that the shell's text holds: a short one may be part of another's.
            calls = [(len(call), number, name) for number, (name, call) in enumerate(self.calls) if call in given]
            body["tool_use_id" if calls else "command"] = (
                max(calls)[2] if calls else text[:500].decode("utf-8", "replace")
            )
        self.note(source.decode(), kind.decode(), json.dumps(body).encode())

    def answer(self, payload: Payload, data: bytes) -> None:
        fd = payload.connection.fileno()
        self.poll.unregister(fd)
        del self.payloads[fd]
        with payload.connection:
            try:
                payload.connection.send(data, socket.MSG_NOSIGNAL)
            except OSError:
                return  # the hook has been killed; its frame is in the log

    def note(self, source: str, kind: str, text: bytes) -> None:
        """A frame of nd7's own."""
        try:
            if self.recorder.note(kind, json.loads(text), source):
                self.health.log, self.complained = "", False
        except (Nd7Error, OSError) as error:
            reason = error.message if isinstance(error, Nd7Error) else error.strerror or str(error)
            if not self.complained:
                self.complained = True
                self.link.send(b"!", f"the audit log cannot be written: {reason}".encode("utf-8", "backslashreplace"))
            self.health.log = f"the audit log cannot be written: {reason}"

    def proved(self, found: dict[str, object]) -> None:
        """The canary's verdict on the policy; with the log tried, it is a frame and the record's."""
        self.health.hooks = str(found.pop("hook", ""))
        self.health.verdict = found
        self.shown = {}
        self.tell_health()

    def tell_health(self) -> None:
        """Write down, when it has changed, whether a denial would be seen.  Tries the log while that is in doubt."""
        if not self.health.verdict:
            return
        if self.doubtful or self.health.log or not self.shown:
            self.doubtful = False
            why = try_log(os.path.join(self.places.state, "sessions"))
            self.health.log = why and f"the audit log cannot be written: {why}"
            if not why:
                self.note("nd7:canary", "canary", json.dumps(self.health.body()).encode())
        elif self.shown["state"] != self.health.state:
            self.note("nd7:canary", "canary", json.dumps(self.health.body()).encode())
        body, record = self.health.body(), self.record_now()
        other = record is not None and record.canary != body  # the supervisor's word, while this process was stuck
        if (body != self.shown or other) and self.update(lambda record: replace(record, canary=body)):
            if self.shown and body["state"] != self.shown["state"]:
                self.link.send(b"!", f"{body['state']}: {'; '.join(body['wrong'])}"[:2000].encode("utf-8", "replace"))
            self.shown = body

    def refuse(self, payload: Payload, why: str) -> None:
        """A payload that is not recorded: its sender is told, and the log, where many in a row are one gap."""
        self.answer(payload, b"E" + why.encode())
        if why != self.refused:
            self.refused = why
            self.lost(why)

    def lost(self, why: str) -> None:
        """Something is missing in the log: say so in it; `tick` counts it in the record."""
        self.note("nd7:hooks", "gap", json.dumps({"text": why}).encode())

    def update(self, change: Callable[[Record], Record]) -> bool:
        """Change the record; False where that cannot be: the session is being removed, or the disk is full."""
        try:
            sessions.update(self.places, self.session, change)
        except (Nd7Error, OSError):
            return False
        return True

    def used(self, started: int) -> None:
        """A command that began at `started` has ended: it used what was in force; what was for one command goes."""
        record = self.record_now()
        had = [grant for grant in record.grants if grant.created < started] if record else []
        self.uses.update(grant.path for grant in had if grant.scope != "once")
        spent = {grant.path for grant in had if grant.scope == "once"}
        if spent:
            self.update(lambda r: replace(r, grants=tuple(g for g in r.grants if g.path not in spent)))

    def tell_uses(self) -> None:
        """Count in the record, at each tick and not at each command, how often each grant was in force for one."""
        if self.uses:
            more, self.uses = self.uses, Counter()
            self.update(lambda r: replace(r, grants=tuple(replace(g, uses=g.uses + more[g.path]) for g in r.grants)))

    def expire(self) -> None:
        """What was granted until a time goes when it has come: the policy's file does not know the hour."""
        record, now = self.record_now(), time.time_ns()
        if record and any(not grant.in_force(now) for grant in record.grants):
            self.update(lambda r: replace(r, grants=r.granted(now)))

    def tick(self) -> None:
        self.refused = ""
        self.expire()
        self.tell_uses()
        self.follow()
        for text in self.gaps.missing(time.monotonic()):
            shown = text[-200:].decode("utf-8", "replace")
            self.health.hooks = f"a command ran of which no hook told: {shown}"
            self.lost(self.health.hooks)
        for payload in list(self.payloads.values()):
            if payload.began + PAYLOAD_SECONDS < time.monotonic():
                self.refuse(payload, "a hook's payload never ended")
        self.tell_grants()
        self.tell_record()
        self.tell_health()

    def follow(self) -> None:
        """Take from the transcripts what no hook tells; commands that the person typed with `!` are told of there."""
        try:
            for frame in self.recorder.follow_transcripts():
                given = frame.body.get("tool_input")
                if frame.body.get("outcome") == "typed" and isinstance(given, dict):
                    self.gaps.called(str(given.get("command", "")))
                elif frame.kind == "gap" and frame.body.get("reason") in ("hook", "call"):
                    self.health.hooks = str(frame.body.get("text", ""))
        except (Nd7Error, OSError) as error:
            reason = error.message if isinstance(error, Nd7Error) else error.strerror or str(error)
            self.link.send(b"!", f"a transcript cannot be followed: {reason}".encode("utf-8", "backslashreplace"))

    def tell_grants(self) -> None:
        """What was granted and taken back, for the log: the record goes with the session."""
        record = self.record_now()
        if record is None:
            return
        now = {grant.path: grant for grant in record.grants}
        # Taken back and given again between two looks is another grant, although the path is the same.
        before = {path: grant.created for path, grant in self.granted.items()}
        told = [(path, grant, "grant") for path, grant in now.items() if before.get(path) != grant.created]
        told += [(path, grant, "take-back") for path, grant in self.granted.items() if path not in now]
        if told:
            latest = json.dumps([[path, grant.created] for path, grant in now.items()][-MOST_GRANTS:]).encode()
            self.link.send(b"g", latest if len(latest) < wire.LIMIT - 256 else b"[]")
        self.granted = now
        for path, grant, action in told:
            body = {"action": action, "path": path, "scope": grant.scope, "origin": grant.origin}
            self.note("nd7:grants", "grant", json.dumps({**body, "revision": record.revision}).encode())

    def tell_record(self) -> None:
        """What the log now holds, for the record: its gaps, and the agent's own session ids."""
        more, ids, chosen = self.recorder.gaps - self.counted, self.recorder.session_ids, self.recorder.chosen
        if not more and (ids, chosen) == self.known:
            return
        self.counted, self.known = self.recorder.gaps, (ids, chosen)

        def change(record: Record) -> Record:
            sessions_of = tuple(dict.fromkeys((*record.agent_sessions, *ids)))
            return replace(record, gaps=record.gaps + more, agent_sessions=sessions_of, chosen=chosen)

        self.update(change)

    def serve(self) -> None:
        self.poll.register(self.link, select.POLLIN)
        follow = time.monotonic() + FOLLOW_SECONDS
        while not (self.ending or self.link.closed) or self.payloads:
            for fd, _ in self.poll.poll(max(0.0, follow - time.monotonic()) * 1000):
                if fd == self.link.fileno():
                    self.told()
                elif found := self.payloads.get(fd):
                    self.read(found)
            if self.link.closed and self.link.fileno() >= 0:
                self.poll.unregister(self.link)
                self.link.close()
            self.link.flush()
            if time.monotonic() >= follow:
                self.tick()
                follow = time.monotonic() + FOLLOW_SECONDS
        self.gaps.grace = 0.0
        self.tick()
        self.recorder.close()


def about(record: Record) -> dict[str, Any]:
    """What the first frame of the session's own log tells of the session."""

    def text(value: str) -> str:
        # Bytes of a path or an argument that are no UTF-8 have no place in a frame.
        return value.encode("utf-8", "surrogateescape").decode("utf-8", "replace")[:4096]

    program = [text(word) for word in record.program[:64]]
    return {"name": text(record.name), "project": text(record.project), "program": program, "agent": record.agent}


def main(link: Link, places: Places, session: Session, directory: str) -> NoReturn:
    """The forked process's whole life."""
    try:
        os.setsid()
        prctl.set_title("nd7 scribe")
        for number in (signal.SIGHUP, signal.SIGINT, signal.SIGQUIT, signal.SIGTERM, signal.SIGPIPE):
            signal.signal(number, signal.SIG_IGN)
        Scribe(link, places, session, directory).serve()
    except (OSError, ValueError, Nd7Error) as error:
        link.send(b"!", f"the audit log's writer failed: {error}".encode("utf-8", "backslashreplace"))
    finally:
        os._exit(0)
    raise AssertionError("not reached")
