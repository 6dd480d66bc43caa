"""What the agent says, from its transcript into the log: in the middle of a turn too, and nothing twice."""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from nd7core.audit.frame import Frame
from nd7core.audit.log import log_directory
from nd7core.audit.recorder import Recorder
from nd7core.audit.tail import Tail
from nd7core.audit.verify import verify
from nd7core.events import AgentWords
from nd7core.pairing import Pairing
from nd7core.words import MAX_SAID

DENIED = "I could not write ~/.x: permission denied."
ID = "5d1c1f2e-6f0b-4d54-9d7e-0f6a2f0c9a77"
BEGAN = 1_800_000_000_000_000_000
SECOND = 1_000_000_000


class Session:
    """A session of the agent's: its hooks, its transcripts, and the recorder of it.  `clock` is what both say."""

    def __init__(self, root: Path) -> None:
        self.state = str(root / "state")
        self.config = root / "home" / ".claude"
        self.transcript = self.config / "projects" / "-home-dev-app" / f"{ID}.jsonl"
        self.transcript.parent.mkdir(parents=True)
        self.transcript.touch()
        self.clock = BEGAN
        self.lines = 0
        self.poll = 0.0
        self.recorders: list[Recorder] = []
        self.begin()

    def begin(self, **more: Any) -> None:
        """`nd7 run` begins."""
        self.clock += SECOND
        options = {"nd7_session": 77, "allowed_ids": {ID}, "revision": lambda: 1, "host": "box"} | more
        self.recorder = Recorder(self.state, agent_config=str(self.config), **options)
        self.recorders.append(self.recorder)

    def hook(self, event: str, **more: Any) -> None:
        self.clock += SECOND
        payload = {"session_id": ID, "hook_event_name": event, "transcript_path": str(self.transcript), **more}
        self.recorder.record(json.dumps(payload).encode(), self.clock)

    def says(self, text: object, *, file: Path | None = None, **more: Any) -> None:
        """The agent says something, which its transcript has at once."""
        self.clock += SECOND
        self.lines += 1
        when = datetime.fromtimestamp(self.clock / SECOND, UTC).isoformat().replace("+00:00", "Z")
        message = {"role": "assistant", "content": [{"type": "text", "text": text}]}
        line = {"type": "assistant", "uuid": f"u{self.lines}", "timestamp": when, "message": message} | more
        with (file or self.transcript).open("a") as out:
            out.write(json.dumps(line) + "\n")

    def follow(self) -> list[Frame]:
        """The supervisor looks at the transcripts, long enough for what waits for a hook."""
        frames: list[Frame] = []
        for _ in range(3):
            self.poll += 1.5
            frames += self.recorder.follow_transcripts(now=self.poll)
        return frames

    def frames(self) -> list[Frame]:
        directory = log_directory(self.state, ID)
        assert verify(directory).ok
        data = Path(directory, "events.ndjson").read_bytes()
        return [item for item in Tail(ID).feed(data) if isinstance(item, Frame)]

    def recorded(self) -> list[str]:
        return [frame.body["text"] for frame in self.frames() if frame.kind == "words"]

    def told(self) -> list[tuple[str, str]]:
        pairing = Pairing()
        events = [event for frame in self.frames() for event in pairing.feed(frame)]
        return [(event.agent_id, event.text) for event in events if isinstance(event, AgentWords)]


@pytest.fixture
def session(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Session]:
    made: list[Session] = []
    monkeypatch.setattr("nd7core.audit.recorder.time.time_ns", lambda: made[0].clock if made else BEGAN)
    made.append(Session(tmp_path.resolve()))
    yield made[0]
    for recorder in made[0].recorders:
        recorder.close()


def test_words_in_the_middle_of_a_turn_are_written_and_the_last_ones_left_to_the_hook(session: Session) -> None:
    session.hook("SessionStart", source="startup")
    session.hook("UserPromptSubmit", prompt="go")
    session.says(DENIED, cwd="/home/dev/app")
    said_at = session.clock
    session.hook("PreToolUse", tool_name="Bash", tool_input={"command": "true"}, tool_use_id="t1")
    session.says("Done.")
    session.hook("Stop", stop_hook_active=False, last_assistant_message="Done.")
    (frame,) = session.follow()
    assert (frame.kind, frame.source, frame.ts) == ("words", "nd7:transcript", said_at)
    assert frame.body == {"cwd": "/home/dev/app", "text": DENIED, "nd7_session": 77, "policy_revision": 1}
    assert session.told() == [("", "Done."), ("", DENIED)]
    assert session.recorder.gaps == 0


def test_a_hook_that_comes_late_doubles_nothing_that_counts(session: Session) -> None:
    session.hook("SessionStart", source="startup")
    session.hook("UserPromptSubmit", prompt="go")
    session.says(DENIED)
    assert len(session.follow()) == 1
    session.hook("Stop", stop_hook_active=False, last_assistant_message=DENIED)
    session.hook("UserPromptSubmit", prompt="again")
    session.says(DENIED)
    session.hook("Stop", stop_hook_active=False, last_assistant_message=DENIED)
    assert session.follow() == []
    assert session.told() == [("", DENIED)] * 2


def test_a_resumed_session_says_nothing_of_the_old_again(session: Session) -> None:
    session.hook("SessionStart", source="startup")
    session.says(DENIED)
    session.follow()
    session.recorder.close()
    session.says("Said while nobody recorded.")
    session.begin()
    session.hook("SessionStart", source="resume")
    assert session.follow() == []
    session.says("New.")
    session.follow()
    assert session.recorded() == [DENIED, "New."]


def test_a_transcript_that_is_written_anew_says_nothing_twice(session: Session) -> None:
    session.hook("SessionStart", source="startup")
    for text in ("One.", "Two.", "Three."):
        session.hook("UserPromptSubmit", prompt="go")
        session.says(text)
    session.follow()
    lines = session.transcript.read_text().splitlines(keepends=True)
    session.transcript.write_text("".join(lines[1:]))
    session.follow()
    other = session.transcript.with_suffix(".new")
    other.write_text("".join(lines))
    other.replace(session.transcript)
    session.says("Four.")
    session.follow()
    assert session.recorded() == ["One.", "Two.", "Three.", "Four."]


def test_a_subagents_words_are_its_own(session: Session) -> None:
    who = {"agent_id": "a1", "agent_type": "general-purpose"}
    folder = session.transcript.with_suffix("") / "subagents"
    folder.mkdir(parents=True)
    session.hook("SessionStart", source="startup")
    session.hook("SubagentStart", **who)
    session.says(DENIED, file=folder / "agent-a1.jsonl", agentId="a1")
    session.says("That is all.", file=folder / "agent-a1.jsonl", agentId="a1")
    session.hook("SubagentStop", last_assistant_message="That is all.", **who)
    session.says(DENIED)
    assert [frame.body.get("agent_id") for frame in session.follow()] == [None, "a1"]
    assert sorted(session.told()) == [("", DENIED), ("a1", DENIED), ("a1", "That is all.")]


def test_what_waits_is_written_at_the_end(session: Session) -> None:
    session.hook("SessionStart", source="startup")
    for number in range(700):
        session.says(f"{number}")
    session.hook("Stop", stop_hook_active=False, last_assistant_message="699")
    session.recorder.close()
    assert session.recorded() == [f"{number}" for number in range(699)]


def test_hostile_words_break_nothing(session: Session) -> None:
    session.hook("SessionStart", source="startup")
    for text in ("x" * 3_000_000, "NUL \0 and half \ud800 a pair", None, 7, [], {"text": "x"}, "", "\n"):
        session.says(text, agentId=["a"], cwd=None)
    session.says("of a time to come", timestamp="2999-01-01T00:00:00Z")
    session.says("of no time", timestamp="soon")
    session.says("long ago", timestamp="1999-01-01T00:00:00Z")
    with session.transcript.open("ab") as out:
        out.write(b'{"type":"assistant","message":{"content":[{"type":"text","text":"\xff\xfe \x00"}]}}\n')
        out.write(b'{"type":"assistant","message":{"content":[{"type":"text","text":' + b"[" * 100_000 + b"\n")
    for _ in range(3):
        session.follow()
    long, odd, *others = session.recorded()
    assert long == "x" * MAX_SAID
    assert [f.body["nd7_note"] for f in session.frames() if "nd7_note" in f.body] == ["cut at 65536 characters"]
    assert odd == "NUL \0 and half \ufffd a pair"
    assert others == ["of a time to come", "of no time"]
    assert all(frame.ts <= session.clock for frame in session.frames())
