"""What an agent says, each saying once, whoever tells of it.  Sans-IO.

Three tell the same words, and none of them tells all:

    the transcript     each block of text for itself, of subagents too, but nothing where none is kept
    MessageDisplay     the blocks of a message in one, or each for itself without a screen; none of subagents
    Stop, SubagentStop the last block of a turn, trimmed

So words are new unless somebody has told them in the same turn of the same agent.  The time of saying decides which
turn that is, not the order of telling: a transcript is read seconds after the hooks.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from typing import Any, Literal

Teller = Literal["hook", "display", "transcript"]

MAX_SAID = 64 * 1024
"""Characters of one saying that are compared and, from a transcript, kept: attribution reads no more of it either."""
# What is remembered, of all agents together: a hostile session may say things without end.
_KEPT = 2000
_RECENT = 64
_RECENT_CHARACTERS = 1 << 18
_MAX_AGENTS = 1000
_TURNS = 8


@dataclass(slots=True)
class _Saying:
    who: str
    text: str
    ts: int
    teller: Teller
    rest: str  # of a displayed message: the blocks that nobody else has told yet


class Words:
    """The latest sayings of any number of agents.  `who` is whatever tells one from another."""

    def __init__(self) -> None:
        self._told: dict[int, list[int]] = {}  # by a hash of who and text: when it was said
        self._recent: deque[_Saying] = deque()  # for messages that are told in one and by their blocks
        self._size = 0
        self._turns: dict[str, deque[int]] = {}

    def turn(self, who: str, ts: int) -> None:
        """A turn of an agent begins: what was said before is no repetition of what comes."""
        if who not in self._turns and len(self._turns) >= _MAX_AGENTS:
            self._turns.pop(next(iter(self._turns)))
        self._turns.setdefault(who, deque(maxlen=_TURNS)).append(ts)

    def new(self, who: str, text: str, ts: int, teller: Teller) -> str:
        """The part of a text that nobody has told yet; "" where there is none.

        Args:
            ts: when it was said, or told right afterwards; nanoseconds since the epoch.
        """
        words = text.strip()[:MAX_SAID]
        told = self._told.get(hash((who, words)), ())
        if not words or any(self._one_turn(who, before, ts) for before in told):
            return ""
        rest = words
        for said in self._recent:
            if said.who != who or (teller != "display" and said.teller != "display"):
                continue
            if teller == "display":
                if (without := _without(rest, said)) is not rest and self._one_turn(who, said.ts, ts):
                    rest = without
            elif teller == "hook" and said.text.endswith(words) and self._one_turn(who, said.ts, ts):
                return ""
            elif teller == "transcript" and said.rest.startswith(words) and self._one_turn(who, said.ts, ts):
                said.rest = said.rest[len(words) :].lstrip()
                return ""
        if not rest:
            return ""
        self._keep(_Saying(who, words, ts, teller, rest))
        return text if rest is words else rest

    def learn(self, kind: str, body: dict[str, Any], ts: int, session_id: str = "") -> tuple[str, str]:
        """Take what a hook's frame tells: the agent's id ("" for the session's own) and its new words, mostly none."""
        if kind == "prompt":
            self.turn(session_id, ts)
        elif kind == "turn_end":
            text = body.get("last_assistant_message")
            return "", self.new(session_id, text, ts, "hook") if type(text) is str else ""
        raw = body.get("raw")
        if kind != "hook" or type(raw) is not dict or type(agent_id := raw.get("agent_id")) is not str:
            return "", ""
        event, text = body.get("hook_event_name"), raw.get("last_assistant_message")
        if event == "SubagentStart":
            self.turn(session_id + agent_id, ts)
        # One without a type is Claude Code's own: it sums a conversation up, and repeats what was said long ago.
        elif event == "SubagentStop" and type(text) is str and raw.get("agent_type") != "":
            return agent_id, self.new(session_id + agent_id, text, ts, "hook")
        return agent_id, ""

    def _one_turn(self, who: str, one: int, other: int) -> bool:
        first, last = min(one, other), max(one, other)
        return not any(first < began <= last for began in self._turns.get(who, ()))

    def _keep(self, saying: _Saying) -> None:
        key = hash((saying.who, saying.text))
        if key not in self._told and len(self._told) >= _KEPT:
            self._told.pop(next(iter(self._told)))
        self._told[key] = [*self._told.get(key, ())[1 - _TURNS :], saying.ts]
        self._recent.append(saying)
        self._size += len(saying.text)
        while len(self._recent) > _RECENT or self._size > _RECENT_CHARACTERS:
            self._size -= len(self._recent.popleft().text)


def _without(rest: str, said: _Saying) -> str:
    """A displayed message without a block that was told before: its first from a transcript, its last from Stop."""
    if rest.startswith(said.text):
        return rest[len(said.text) :].lstrip()
    if said.teller == "hook" and rest.endswith(said.text):
        return rest[: -len(said.text)].rstrip()
    return rest
