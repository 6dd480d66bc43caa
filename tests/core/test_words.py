"""Each saying once, whoever tells of it, in whatever order."""

from __future__ import annotations

import re
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from nd7core.audit.frame import Frame
from nd7core.denials import Denials
from nd7core.events import AgentWords
from nd7core.pairing import Pairing
from nd7core.words import MAX_SAID, Words

DENIED = "I could not write ~/.x: permission denied."


def prompt(ts: int) -> tuple[str, dict[str, Any], int]:
    return "prompt", {"hook_event_name": "UserPromptSubmit", "text": "go"}, ts


def stop(text: str, ts: int) -> tuple[str, dict[str, Any], int]:
    return "turn_end", {"hook_event_name": "Stop", "last_assistant_message": text}, ts


def sub(event: str, ts: int, **more: Any) -> tuple[str, dict[str, Any], int]:
    return "hook", {"hook_event_name": event, "raw": {"agent_id": "a1", "agent_type": "general-purpose", **more}}, ts


def shown(text: str, ts: int, number: int = 0) -> tuple[str, dict[str, Any], int]:
    raw = {"message_id": f"m{number}", "delta": text, "final": True}
    return "hook", {"hook_event_name": "MessageDisplay", "raw": raw}, ts


def said(text: object, ts: int, agent_id: object = None) -> tuple[str, dict[str, Any], int]:
    return "words", {"text": text} | ({} if agent_id is None else {"agent_id": agent_id}), ts


def told(*frames: tuple[str, dict[str, Any], int], source: str = "nd7:transcript") -> list[tuple[str, int]]:
    """The words that come of frames, with the time at which each was said."""
    pairing, found = Pairing(), []
    for seq, (kind, body, ts) in enumerate(frames):
        origin = source if kind == "words" else "intent:claude-code"
        for event in pairing.feed(Frame(0, "s", seq, ts, "h", origin, kind, "", body, "")):
            if isinstance(event, AgentWords):
                found.append((event.text, event.ts))
    return found


def test_words_in_the_middle_of_a_turn_are_told_with_the_time_at_which_they_were_said() -> None:
    assert told(prompt(1), stop("done", 9), said(DENIED, 3)) == [("done", 9), (DENIED, 3)]


def test_the_last_words_of_a_turn_are_one_saying_in_either_order() -> None:
    assert told(prompt(1), said("\n\nend B ", 5), stop("end B", 6)) == [("\n\nend B ", 5)]
    assert told(prompt(1), stop("end B", 6), said("end B", 5)) == [("end B", 6)]


def test_a_transcript_that_is_read_after_the_next_prompt_is_of_the_turn_before() -> None:
    assert told(prompt(1), stop(DENIED, 6), prompt(7), said(DENIED, 5)) == [(DENIED, 6)]


def test_the_same_words_in_a_later_turn_are_said_again() -> None:
    first = (prompt(1), said(DENIED, 2), stop(DENIED, 3))
    assert len(told(*first, prompt(4), said(DENIED, 5), stop(DENIED, 6))) == 2
    assert len(told(*first, prompt(4), stop(DENIED, 6), said(DENIED, 5), said(DENIED, 2))) == 2
    assert len(told(*first, said(DENIED, 2), stop(DENIED, 3))) == 1


def test_a_displayed_message_holds_all_blocks_of_it() -> None:
    blocks = said("first.", 2), said("second.", 3)
    assert told(prompt(1), *blocks, shown("first.second.", 4)) == [("first.", 2), ("second.", 3)]
    assert told(prompt(1), shown("first.second.", 4), *blocks) == [("first.second.", 4)]
    assert told(prompt(1), shown("first.second.", 4), stop("second.", 5), *blocks) == [("first.second.", 4)]
    assert told(prompt(1), stop("second.", 5), shown("first.second.", 4)) == [("second.", 5), ("first.", 4)]


def test_subagents_have_words_of_their_own() -> None:
    frames = (
        sub("SubagentStart", 1),
        said(DENIED, 2, "a1"),
        said(DENIED, 2),
        prompt(3),
        said("sub end", 4, "a1"),
        sub("SubagentStop", 5, last_assistant_message="sub end"),
        stop(DENIED, 6),
    )
    assert told(*frames) == [(DENIED, 2), (DENIED, 2), ("sub end", 4), (DENIED, 6)]


def test_a_subagent_that_goes_on_and_says_the_same_says_it_again() -> None:
    once = (sub("SubagentStart", 1), sub("SubagentStop", 2, last_assistant_message=DENIED))
    again = (sub("SubagentStart", 3), said(DENIED, 4, "a1"), sub("SubagentStop", 5, last_assistant_message=DENIED))
    assert told(*once, *again) == [(DENIED, 2), (DENIED, 4)]


def test_a_summary_of_the_conversation_is_nothing_that_the_agent_says() -> None:
    compact = sub("SubagentStop", 5, agent_type="", last_assistant_message=f"Earlier: {DENIED}")
    assert told(prompt(1), stop(DENIED, 2), compact) == [(DENIED, 2)]


def test_words_of_another_writer_are_no_saying() -> None:
    assert told(said(DENIED, 2), source="intent:claude-code") == []


def test_a_long_text_is_compared_by_what_a_transcript_keeps_of_it() -> None:
    text = DENIED + "x" * 100_000
    assert told(said(text[:MAX_SAID], 2), stop(text + "\n", 3)) == [(text[:MAX_SAID], 2)]
    assert told(stop(text + "\n", 3), said(text[:MAX_SAID], 2)) == [(text + "\n", 3)]


def test_what_is_remembered_is_bounded() -> None:
    words = Words()
    for number in range(5000):
        assert words.new(f"a{number}", f"{number} " + "x" * 10_000, number, "transcript")
        words.turn(f"a{number}", number)
    assert sum(len(saying.text) for saying in words._recent) == words._size <= 1 << 18
    assert (len(words._told), len(words._turns)) == (2000, 1000)
    for number in range(5000):
        words.turn("a", number)
        assert words.new("a", "the same", number, "hook")
    assert max(map(len, words._told.values())) <= 8


def test_wrong_types_are_no_words() -> None:
    for text in (None, 7, ["x"], {"text": "x"}, True, "", " \n\t"):
        assert told(said(text, 1), stop(text, 2), sub("SubagentStop", 3, last_assistant_message=text)) == []
    assert told(said("x", 1, 7), said("\ud800\0", 2)) == [("x", 1), ("\ud800\0", 2)]


@st.composite
def turns(draw: st.DrawFn) -> tuple[int, list[tuple[str, dict[str, Any], int]]]:
    """A session of some turns, told by three; how many blocks it has, and its frames in an order that may happen."""
    clock = block = 0
    told_by: list[list[tuple[str, dict[str, Any], int]]] = [[], [], []]
    for _ in range(draw(st.integers(1, 3))):
        clock += 1
        told_by[0].append(prompt(clock))
        last = ""
        for message in range(draw(st.integers(1, 3))):
            blocks = []
            for _ in range(draw(st.integers(1, 3))):
                clock, block = clock + 1, block + 1
                blocks.append(
                    draw(st.sampled_from(["", "\n\n"])) + f"<{block}> denied" + draw(st.sampled_from(["", " "]))
                )
                told_by[1].append(said(blocks[-1].strip(), clock))
            clock += 1
            if draw(st.booleans()):
                told_by[2].append(shown("".join(blocks), clock, message))
            last = blocks[-1]
        clock += 1
        told_by[0].append(stop(last.strip(), clock))
    frames = []
    while any(told_by):
        teller = draw(st.sampled_from([one for one in told_by if one]))
        frames.append(teller.pop(0))
    return block, frames


@given(turns())
def test_every_block_is_told_once_in_any_order_of_telling(session: tuple[int, list[Any]]) -> None:
    blocks, frames = session
    found = re.findall(r"<\d+>", " ".join(text for text, _ in told(*frames)))
    assert sorted(found) == sorted(f"<{number}>" for number in range(1, blocks + 1))


def refused(call: str, path: str, ts: int) -> list[tuple[str, dict[str, Any], int]]:
    """A Bash call whose write was refused, begun at `ts`."""
    use = {"tool_use_id": call, "tool_name": "Bash", "tool_input": {"command": f"touch {path}"}, "cwd": "/home/dev/app"}
    error = f"Exit code 1\ntouch: cannot touch '{path}': Permission denied"
    return [("tool_call", use, ts), ("tool_result", {**use, "ok": False, "tool_response": error}, ts + 1)]


def test_a_report_is_tied_to_the_calls_before_it_and_not_to_those_after() -> None:
    pairing, denials = Pairing(), Denials(home="/home/dev")
    report = said("I could not write /home/dev/out/a: permission denied.", 15)
    early = said("Writing to /home/dev/out/b was refused by the sandbox.", 16)
    frames = [prompt(1), *refused("t1", "/home/dev/out/a", 10), *refused("t2", "/home/dev/out/b", 20), report, early]
    for seq, (kind, body, ts) in enumerate([*frames, stop(report[1]["text"], 30)]):
        source = "nd7:transcript" if kind == "words" else "intent:claude-code"
        for event in pairing.feed(Frame(0, "s", seq, ts, "h", source, kind, "", body, "")):
            denials.feed(event)
    rows = [row for row in denials.rows("s") if row.verdict.source == "model"]
    assert [(row.verdict.target, row.ts, row.tie, row.count) for row in rows] == [
        ("/home/dev/out/a", 15, "confirmed", 1),
        ("/home/dev/out/b", 16, "unconfirmed", 1),
    ]
    assert denials.get(rows[0].tied_to) is not None
