"""What is tried and noted about a session's policy: the canary, the proof of each grant, refused attempts."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from nd7exec.broker import Broker
from nd7exec.canary import PORT, Canary, Verdict, body
from nd7exec.lifecycle import Session
from nd7exec.linux import confinement
from nd7exec.loop import Loop

Note = Callable[[str, str, dict[str, Any]], object]


class Proofs:
    """Runs the canary at the start and whenever the policy changes, and writes down what it found.

    Args:
        ask: sends the zygote a command line and two descriptors.
        note: writes a frame: source, kind, body.
        update: changes the record.
        say: tells the person.
    """

    def __init__(
        self,
        loop: Loop,
        session: Session,
        broker: Broker,
        ask: Callable[[bytes, int, int], object],
        note: Note,
        update: Callable[[dict[str, Any]], object],
        say: Callable[[str], object],
    ) -> None:
        self.broker, self.note, self.update, self.say = broker, note, update, say
        self.granted: dict[str, tuple[int, bool | None]] = {}
        """What is granted: since when, and whether a command was seen to be able to write there."""
        self.stopped = False
        self.canary = Canary(
            loop, session.record, ask, self._known, lambda: broker.policy.policy, self._done, lambda: list(self.granted)
        )

    def run(self) -> None:
        """Try the policy the whole way; a change while it runs makes it run again."""
        if not self.stopped and not self.broker.gone and not self.broker.link.closed:
            self.canary.run()

    def granted_now(self, grants: list[tuple[str, int]]) -> None:
        """A person has granted something or taken it back."""
        known = self.granted
        self.granted = {path: (created, None) for path, created in grants}
        self.granted |= {path: known[path] for path, created in grants if known.get(path, (0,))[0] == created}

    def own(self, refusal: confinement.Refusal) -> bool:
        """Whether what was refused is the canary's own attempt."""
        return self.canary.running and refusal.target.endswith(f":{PORT}")

    def _known(self, pid: int, alive: bool) -> None:
        (self.broker.agents.add if alive else self.broker.agents.discard)(pid)

    def _done(self, verdict: Verdict) -> None:
        if self.stopped:  # killed with everything else, not blind
            return
        for path, allowed in verdict.grants.items():
            created, known = self.granted.get(path, (0, allowed))
            if known is not allowed:
                self.granted[path] = (created, allowed)
                self.note("nd7:canary", "proof", {"path": path, "operation": "write", "allowed": allowed})
        self.update({"canary": body(verdict)})  # the scribe adds what it knows of hooks and log, and writes the frame
        if verdict.state != "enforcing":
            self.say(f"the canary failed: {'; '.join(verdict.wrong)}")
