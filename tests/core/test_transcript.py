"""What real transcripts of Claude Code 2.1.197 tell that its hooks do not."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nd7core.transcript import MAX_CALLS, MAX_LINE, Transcript, TranscriptFinding
from nd7core.words import MAX_SAID

FIXTURES = Path(__file__).parent.parent / "fixtures" / "transcripts"
NAMES = sorted(path.stem for path in FIXTURES.glob("*.jsonl") if ".hooks" not in path.name)


def read(name: str, *, since: int = 0) -> list[TranscriptFinding]:
    transcript = Transcript(since=since)
    return transcript.feed((FIXTURES / f"{name}.jsonl").read_bytes()) + transcript.settle()


def outcomes(found: list[TranscriptFinding]) -> dict[str, str]:
    return {finding.call_id: finding.outcome for finding in found if finding.kind == "result"}


def test_esc_of_running_calls_is_told_from_no() -> None:
    assert outcomes(read("esc")) == {"toolu_esc1": "interrupted", "toolu_e1": "interrupted", "toolu_e2": "interrupted"}
    assert outcomes(read("no")) == {"toolu_ask1": "rejected"}


def test_a_command_typed_by_the_person() -> None:
    (typed,) = [finding for finding in read("esc") if finding.kind == "typed"]
    assert typed.input == {"command": "cat /nonexistent"}
    assert typed.text == "cat: /nonexistent: No such file or directory\n"
    assert typed.cwd == "/home/dev/app"


def test_a_background_command_that_fails_is_told_once() -> None:
    (end,) = [finding for finding in read("bg") if finding.kind == "background"]
    assert (end.call_id, end.task_id, end.outcome, end.exit_code) == ("toolu_bg", "b8swaprhn", "failed", 5)
    assert end.text == 'Background command "d" failed with exit code 5'
    assert end.output_file.endswith("/tasks/b8swaprhn.output")
    assert str(end.input["command"]).startswith("echo bgout")


def test_hooks_that_failed_open() -> None:
    failed = [finding for finding in read("hookfail") if finding.kind == "hook-failed"]
    assert [(finding.hook_command, finding.text.partition(":")[0]) for finding in failed] == [
        ("exit 1", "exit 1"),
        ("sleep 10", "timed out after 2000 ms"),
    ]
    assert {(finding.call_id, finding.hook_event) for finding in failed} == {("toolu_h1", "PreToolUse")}


def test_a_call_that_a_hook_refused_is_rejected_and_one_that_failed_has_failed() -> None:
    assert outcomes(read("hookdeny")) == {"toolu_d1": "rejected"}
    assert outcomes(read("nohook")) == {"toolu_n1": "failed"}


def test_a_subagents_transcript_names_its_agent() -> None:
    found = read("sub-agent")
    assert outcomes(found) == {"toolu_in": "failed"}
    assert {finding.agent_id for finding in found} == {"a79e95ff5eb19fc9d"}


def test_lines_from_before_tell_nothing() -> None:
    assert read("esc", since=2**62) == []
    late = max(finding.ts for finding in read("esc") if finding.kind == "typed")
    assert {finding.kind for finding in read("esc", since=late)} == {"typed", "said"}


@pytest.mark.parametrize("name", NAMES)
def test_any_pieces_give_the_same(name: str) -> None:
    data = (FIXTURES / f"{name}.jsonl").read_bytes()
    for step in (1, 7, 64, 1000):
        transcript, found = Transcript(), []
        for start in range(0, len(data), step):
            found += transcript.feed(data[start : start + step])
        assert found + transcript.settle() == read(name)


def test_a_line_that_is_too_long_is_said_and_the_next_one_read() -> None:
    transcript = Transcript()
    found = transcript.feed(b'{"type":"user"' + b" " * (MAX_LINE + 1))
    found += transcript.feed(b"}\n" + (FIXTURES / "nohook.jsonl").read_bytes())
    assert [finding.kind for finding in found] == ["skipped", "call", "result", "said"]


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner, max_size=3),
    max_leaves=10,
)
KEYS = ["message", "content", "attachment", "timestamp", "toolUseResult", "uuid", "agentId", "interruptedMessageId"]


@given(
    st.sampled_from(["user", "assistant", "queue-operation", "attachment", "x"]),
    st.dictionaries(st.sampled_from(KEYS), json_values),
    st.sampled_from(["tool_use", "tool_result", "text", "hook_cancelled", "queued_command"]),
    json_values,
)
def test_no_line_makes_it_raise(kind: str, more: dict[str, object], block: str, value: object) -> None:
    transcript = Transcript()
    inner = {"type": block, "id": value, "name": value, "input": value, "tool_use_id": value, "content": value}
    for line in (
        {"type": kind} | more,
        {"type": kind, "message": {"content": [inner, value], "id": value}, "attachment": inner, "content": value},
        {"type": kind, "message": {"content": "<task-notification><task-id>x</task-id>"}, "operation": "enqueue"},
    ):
        transcript.feed(json.dumps(line).encode() + b"\n" + b'{"tool_use')
        transcript.feed(b"\n")
    transcript.settle()


def spoken(*blocks: object, **more: object) -> bytes:
    """A line with texts of the agent's."""
    content = [{"type": "text", "text": text} for text in blocks]
    line = {"type": "assistant", "uuid": "u1", "message": {"role": "assistant", "content": content}}
    return json.dumps(line | more).encode() + b"\n"


def test_every_text_of_the_agents_is_said_with_its_agent_and_its_time() -> None:
    where = {"agentId": "a1", "cwd": "/home/dev/app", "timestamp": "2026-11-29T12:59:17.399Z"}
    (first, second) = Transcript().feed(spoken("\n\nI was denied. ", "Going on.", **where))
    assert (first.kind, first.text, second.text) == ("said", "I was denied.", "Going on.")
    assert (first.agent_id, first.cwd, first.ts) == ("a1", "/home/dev/app", 1_795_957_157_399_000_000)
    assert [finding.text for finding in read("esc") if finding.kind == "said"] == ["after esc", "end2"]
    assert [(f.text, f.agent_id) for f in read("sub-agent") if f.kind == "said"] == [
        ("sub failed", "a79e95ff5eb19fc9d")
    ]


def test_a_file_that_is_read_again_says_nothing_twice() -> None:
    heard: dict[int, None] = {}
    assert len(Transcript(heard=heard).feed(spoken("one", "one"))) == 2
    assert Transcript(heard=heard).feed(spoken("one", "one")) == []
    assert len(Transcript(heard=heard).feed(spoken("one", "two"))) == 1


def test_what_the_client_says_in_the_agents_place_is_not_the_agents() -> None:
    transcript = Transcript()
    assert transcript.feed(spoken("API Error: 403 permission denied", isApiErrorMessage=True)) == []
    synthetic = {"content": [{"type": "text", "text": "No response requested."}], "model": "<synthetic>"}
    assert transcript.feed(spoken(message=synthetic)) == []
    assert transcript.feed(spoken("of the conversation before", forkedFrom={"sessionId": "x"})) == []


def test_hostile_words_are_bounded_and_can_be_written_down() -> None:
    transcript = Transcript()
    (long,) = transcript.feed(spoken("x" * 2_000_000, agentId="a" * 100_000, cwd="/" * 100_000))
    assert (len(long.text), len(long.agent_id), len(long.cwd)) == (MAX_SAID, 128, 4096)
    (odd,) = transcript.feed(spoken("NUL \0, half \ud800 a pair, \x1b[2J"))
    assert odd.text == "NUL \0, half \ufffd a pair, \x1b[2J"
    for text in (None, 7, True, [], {}, "", " \n\t", ["text"]):
        assert transcript.feed(spoken(text)) == []
    for message in (None, 7, "text", [], {"content": "text"}, {"content": {"text": "x"}}, {"content": [["text"]]}):
        assert transcript.feed(spoken(message=message)) == []
    assert [finding.text for finding in transcript.feed(spoken("still read", uuid=7, agentId=7, timestamp=[]))] == [
        "still read"
    ]


def test_what_was_heard_is_remembered_within_bounds() -> None:
    heard: dict[int, None] = {}
    transcript = Transcript(heard=heard)
    for start in range(0, MAX_CALLS + 100, 50):
        transcript.feed(spoken(*(f"text {start + number}" for number in range(50))))
    assert len(heard) == MAX_CALLS
