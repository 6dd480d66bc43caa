"""Drives the demo's session from outside: starts it, answers its agent, and ends it.

The agent says where it is in lines of its own (see `agent`); what the driver does at a word is what a person
or an accident would do: take the policy file away, put it back, say "try again" after a grant.
"""

from __future__ import annotations

import contextlib
import os
import selectors
import signal
import subprocess
import sys
import time
from collections import deque
from collections.abc import Callable
from pathlib import Path

from nd7core import sessions
from nd7core.errors import Nd7Error
from nd7core.paths import within
from nd7tui.demo import agent
from nd7tui.demo.stage import Stage

LOOK_SECONDS = 0.15
AGAIN_SECONDS = 0.8  # from a grant to the next try: nobody is faster, and by then the log tells of the grant
END_SECONDS = 12.0  # the supervisor gives an agent 5 s to end, and itself 8
KEPT_LINES = 200

# Under `-I` no directory is on the path that somebody else may have put there; this one is where we come from.
START = """import sys
sys.path.insert(0, {root!r})
from nd7tui.demo.session import main
sys.exit(main(sys.argv[1], keep=sys.argv[2:] == ["keep"]))
"""


class Driver:
    """One running demo session.

    Args:
        pace: seconds between two steps, so that a person can follow.
        keep: leave the stage there until `end`; without it the session itself takes it away.
        line: called with each line that the agent or nd7 writes.
        told: called when the agent has told of a step and waits; the log holds the step by then.
        waiting: called once the script is over and only grants are waited for; after that `told` is, at each retry.
    """

    def __init__(
        self,
        stage: Stage,
        *,
        pace: float = 0.0,
        keep: bool = False,
        line: Callable[[str], object] = lambda line: None,
        told: Callable[[], object] = lambda: None,
        waiting: Callable[[], object] = lambda: None,
    ) -> None:
        self.stage = stage
        self.pace = pace
        self.line, self.told, self.waiting = line, told, waiting
        self.lines: deque[str] = deque(maxlen=KEPT_LINES)
        self.stopping = False
        self.played = False
        self.again: deque[int] = deque()
        self.grants: frozenset[str] = frozenset()
        self.targets = [
            (os.path.join(stage.home, step.target), number)
            for number, step in enumerate(agent.script(stage.home))
            if step.target
        ]
        root = str(Path(__file__).resolve().parent.parent.parent)
        self.process = subprocess.Popen(
            [sys.executable, "-I", "-c", START.format(root=root), stage.top, *["keep"] * keep],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            start_new_session=True,  # Ctrl+C on the dashboard's terminal is the dashboard's
        )
        assert self.process.stdin and self.process.stdout
        self._to_agent, self._from_agent = self.process.stdin, self.process.stdout
        self._buffer = b""
        self._ended = False
        self._due = 0.0
        self._idle = False  # the agent waits, and has not been answered

    @property
    def pid(self) -> int:
        """The session's: the pid of its supervisor."""
        return self.process.pid

    @property
    def policy(self) -> str:
        return os.path.join(sessions.path_of(self.stage.places, self.pid), "policy.sb")

    def run(self) -> None:
        """Answer the agent until the session has ended.  May be a thread's whole work."""
        os.set_blocking(self._from_agent.fileno(), False)
        with selectors.DefaultSelector() as ready:
            ready.register(self._from_agent, selectors.EVENT_READ)
            while not self._ended:
                if ready.select(LOOK_SECONDS):
                    self._read()
                self._look()

    def stop(self) -> None:
        """Ask the session to end: the agent's input does."""
        self.stopping = True
        with contextlib.suppress(OSError, ValueError):
            self._to_agent.close()

    def end(self) -> None:
        """End the session and everything in it; back when nothing is left."""
        self.stop()
        for number in (0, signal.SIGTERM, signal.SIGKILL):
            if number:
                self.process.send_signal(number)
            try:
                self.process.wait(END_SECONDS)
                break
            except subprocess.TimeoutExpired:
                continue
        self.stage.remove()

    # What the agent says

    def _read(self) -> None:
        try:
            data = os.read(self._from_agent.fileno(), 1 << 16)
        except BlockingIOError:
            return
        if not data:
            self._ended = True
            return
        *lines, self._buffer = (self._buffer + data).split(b"\n")
        for raw in lines:
            text = raw.decode("utf-8", "replace")
            if text.startswith("@"):
                self._word(text[1:])
            else:
                self.lines.append(text)
                self.line(text)

    def _word(self, word: str) -> None:
        if word == "waiting":
            if self.played:
                self.told()
            else:
                self.played = True
                self.waiting()
            self._idle = True
            return
        if word == "cue policy-away":
            self._pause()
            with contextlib.suppress(OSError):
                os.rename(self.policy, f"{self.policy}.away")
        elif word == "cue policy-back":
            self._put_back()
        else:
            self.told()
            self._pause()
            self._look()
        self._answer("go" if "cue" in word else self._next() or "go")

    def _put_back(self) -> None:
        # A grant in between has written the file anew, and then the newer one stands: link(2) replaces nothing.
        with contextlib.suppress(OSError):
            os.link(f"{self.policy}.away", self.policy)
        with contextlib.suppress(OSError):
            os.unlink(f"{self.policy}.away")

    def _pause(self) -> None:
        end = time.monotonic() + self.pace
        while not self.stopping and (left := end - time.monotonic()) > 0:
            time.sleep(min(left, LOOK_SECONDS))

    def _answer(self, text: str) -> None:
        with contextlib.suppress(OSError, ValueError):  # the session has ended, or is being ended
            self._to_agent.write(text.encode() + b"\n")
            self._to_agent.flush()

    # What the person does

    def _look(self) -> None:
        """Has a grant come or gone?  Then the agent is told to try again what it needed it for."""
        try:
            record = sessions.load(self.stage.places, self.pid).record
        except (Nd7Error, OSError):
            return
        if record is None:
            return
        now = frozenset(grant.path for grant in record.grants)
        for path in now ^ self.grants:
            # A grant of a file or a folder above what was refused helps; of one below it does not.
            self.again += [number for target, number in self.targets if within(target, path)]
            self._due = time.monotonic() + AGAIN_SECONDS
        self.grants = now
        if self._idle and (answer := self._next()):
            self._idle = False
            self._answer(answer)

    def _next(self) -> str:
        """What the agent is to try again now, or ""."""
        return f"again {self.again.popleft()}" if self.again and time.monotonic() >= self._due else ""
