"""Pairing, driven with every hook payload that was recorded from the real client."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nd7core.audit.frame import Frame
from nd7core.events import AgentWords, Note, SessionEvent, ToolEvent
from nd7core.hooks import frame_of
from nd7core.pairing import Pairing

FIXTURE = Path(__file__).parent.parent / "fixtures" / "hook_payloads.jsonl"
ROWS: list[dict[str, Any]] = [json.loads(line) for line in FIXTURE.read_text().splitlines()]

# The fixture lists each case's events by name; a session sends them in this order.
ORDER = [
    *("SessionStart", "UserPromptSubmit", "SubagentStart", "PreToolUse", "PermissionRequest", "Notification"),
    *("PostToolUse", "PostToolUseFailure", "PostToolBatch", "MessageDisplay", "SubagentStop", "Stop", "StopFailure"),
    "SessionEnd",
]


def in_time(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return sorted(rows, key=lambda row: ORDER.index(row["event"]) if row["event"] in ORDER else 5)


def frames(rows: list[dict[str, Any]]) -> list[Frame]:
    made = []
    for number, row in enumerate(rows):
        read = frame_of(json.dumps(row["payload"]).encode())
        made.append(Frame(0, read.session_id, number, 1000 + number, "h", "s", read.kind, "", read.body, ""))
    return made


def run(made: list[Frame], *, finish: bool = True) -> tuple[dict[str, ToolEvent], list[SessionEvent]]:
    pairing, calls, others = Pairing(), {}, []
    for event in [e for frame in made for e in pairing.feed(frame)] + (pairing.finish() if finish else []):
        if isinstance(event, ToolEvent):
            calls[event.call_id] = event
        else:
            others.append(event)
    return calls, others


def case(*names: str) -> list[dict[str, Any]]:
    rows = [row for row in ROWS if row["case"] in names]
    assert rows, names
    return rows


# case -> (call id, state, exit code, who told, beginning of the output)
STATES: dict[str, tuple[str, str, int | None, str, str]] = {
    "agent": ("agent", "succeeded", None, "hook", "The subagent could not write to ro/y: Permission denied."),
    "bash_after_cd": ("bash_after_cd", "succeeded", 0, "hook", "/home/dev/app\nSHLVL=1"),
    "bash_badinput": ("bash_badinput", "failed", None, "batch", "InputValidationError: Bash failed due to"),
    "bash_bg_fail": ("bash_bg_fail", "background", None, "hook", ""),
    "bash_big_fail": ("bash_big_fail", "failed", 3, "hook", "1\n2\n3\n"),
    "bash_big_ok": ("bash_big_ok", "succeeded", 0, "hook", "1\n2\n3\n"),
    "bash_bytes": ("bash_bytes", "succeeded", 0, "hook", "\x1b[31mred\x1b[0m bad:\ufffd\ufffd nul:\x00 end"),
    "bash_bytes_fail": ("bash_bytes_fail", "failed", 4, "hook", "\x1b[31mred\x1b[0m bad:\ufffd\ufffd nul:\x00 end"),
    "bash_cd_out": ("bash_cd_out", "succeeded", 0, "hook", "/usr"),
    "bash_diff": ("bash_diff", "succeeded", None, "hook", ""),
    "bash_eacces_real": ("bash_eacces_real", "failed", 1, "hook", "/bin/bash: line 1: /home/dev/data/x: Permission"),
    "bash_eperm": ("bash_eperm", "failed", 1, "hook", "touch: cannot touch /etc/x: Operation not permitted"),
    "bash_exit1": ("bash_exit1", "failed", 1, "hook", "out\noops"),
    "bash_exit126": ("bash_exit126", "failed", 126, "hook", "nd7-exec: refused: touch /etc/x"),
    "bash_exit127": ("bash_exit127", "failed", 127, "hook", "/bin/bash: line 1: no-such-command-xyz"),
    "bash_exit1_false": ("bash_exit1_false", "failed", 1, "hook", ""),
    "bash_exit1_silent": ("bash_exit1_silent", "failed", 2, "hook", ""),
    "bash_find_denied": ("bash_find_denied", "succeeded", None, "hook", "bfs: error: /home/dev/data/priv: Permission"),
    "bash_grep_nomatch": ("bash_grep_nomatch", "succeeded", None, "hook", ""),
    "bash_kill9": ("bash_kill9", "failed", 1, "hook", "a"),
    "bash_masked_exit0": ("bash_masked_exit0", "succeeded", 0, "hook", "cat: /home/dev/data/secret: Permission denied"),
    "bash_mid_40k_ok": ("bash_mid_40k_ok", "succeeded", 0, "hook", "1\n2\n3\n"),
    "bash_ok": ("bash_ok", "succeeded", 0, "hook", "hi"),
    "bash_ok_stderr": ("bash_ok_stderr", "succeeded", 0, "hook", "out\nerr"),
    "bash_pipe_masks": ("bash_pipe_masks", "succeeded", 0, "hook", "cat: /home/dev/data/secret: Permission denied"),
    "bash_sigsys": ("bash_sigsys", "failed", 159, "hook", "/bin/bash: line 1: 24237 Bad system call"),
    "bash_syntax": ("bash_syntax", "failed", 2, "hook", "/bin/bash: eval: line 1: syntax error near"),
    "bash_test_false": ("bash_test_false", "succeeded", None, "hook", ""),
    "bash_timeout": ("bash_timeout", "background", None, "hook", ""),
    "bash_wait": ("bash_wait", "succeeded", 0, "hook", "waited"),
    "bgdone.bg": ("bg", "background", None, "hook", ""),
    "bgdone.w": ("w", "succeeded", 0, "hook", ""),
    "bgend.bg": ("bg", "background", None, "hook", ""),
    "edit_missing": ("edit_missing", "failed", None, "batch", "File does not exist. Note: your current"),
    "edit_nomatch": ("edit_nomatch", "failed", None, "batch", "String to replace not found in file."),
    "edit_ok": ("edit_ok", "succeeded", None, "hook", ""),
    "edit_unread": ("edit_unread", "failed", None, "batch", "File has not been read yet."),
    "edit_unwritable": ("edit_unwritable", "failed", None, "hook", "EACCES: permission denied, open '/home/dev/data/"),
    "glob_tool": ("glob_tool", "failed", None, "batch", "Error: No such tool available: Glob."),
    "grep_tool": ("grep_tool", "failed", None, "batch", "Error: No such tool available: Grep."),
    "par_b": ("par_b", "failed", 2, "hook", "B"),
    "par_c": ("par_c", "failed", None, "hook", "File does not exist."),
    "read_dir": ("read_dir", "failed", None, "hook", "EISDIR: illegal operation on a directory"),
    "read_forbidden": ("read_forbidden", "failed", None, "hook", "EACCES: permission denied, open"),
    "read_missing": ("read_missing", "failed", None, "hook", "File does not exist."),
    "read_ok": ("read_ok", "succeeded", None, "hook", ""),
    "read_rofile": ("read_rofile", "succeeded", None, "hook", ""),
    "resume.s2": ("s2", "succeeded", 0, "hook", "two"),
    "rewrite_ask.rw": ("rw", "rejected", None, "batch", "nd7: wrapped"),
    "rewrite_badinput.rw": ("rw", "rejected", None, "batch", "PreToolUse hook for Bash returned updatedInput"),
    "rewrite_deny.rw": ("rw", "rejected", None, "batch", "nd7: not allowed by policy"),
    "rewrite_exit2.rw": ("rw", "rejected", None, "batch", "PreToolUse:Bash hook error: ["),
    "rewrite_full.rw": ("rw", "succeeded", 0, "hook", "[wrapped]\nran"),
    "rewrite_nodecision.rw": ("rw", "rejected", None, "batch", "This command requires approval"),
    "rewrite_only.rw": ("rw", "succeeded", 0, "hook", "[wrapped]\nran"),
    "rule_deny_nohook.rw": ("rw", "rejected", None, "batch", "Permission to use Bash with command touch"),
    "rule_deny_orig.rw": ("rw", "succeeded", 0, "hook", "[wrapped]\nran"),
    "rule_deny_wrapped.rw": ("rw", "rejected", None, "batch", "Permission to use Bash with command /usr/local"),
    "sub_bash_fail": ("sub_bash_fail", "failed", 1, "hook", "insub\n/bin/bash: line 1: /home/dev/data/y: Permission"),
    "sub_rewrite.ag": ("ag", "succeeded", None, "hook", "sub end"),
    "sub_rewrite.in": ("in", "failed", 7, "hook", "[wrapped]\ninsub"),
    "taskoutput": ("taskoutput", "failed", None, "batch", "No task found with ID: bs5mifd0j"),
    "timeout_nobg.left": ("left", "succeeded", 0, "hook", "32101 sleep 47"),
    "timeout_nobg.to": ("to", "failed", 143, "hook", "Command timed out after 1s\nbefore"),
    "timeout_nobg.to2": ("to2", "failed", 143, "hook", "Command timed out after 1s\nb"),
    "ui_esc.e1": ("e1", "no-result", None, "", ""),
    "ui_esc.e2": ("e2", "no-result", None, "", ""),
    "ui_esc.esc1": ("esc1", "no-result", None, "", ""),
    "ui_hook_ask.r1": ("r1", "no-result", None, "", ""),
    "ui_hook_full.r1": ("r1", "failed", 3, "hook", "[wrapped]\nran\nerr"),
    "ui_prompt.ask1": ("ask1", "succeeded", 0, "hook", "ran"),
    "ui_prompt.ask2": ("ask2", "no-result", None, "", ""),
    "ui_prompt.w": ("w", "no-result", None, "", ""),
    "webfetch_local": ("webfetch_local", "failed", None, "hook", "Unable to verify if domain 127.0.0.1"),
    "webfetch_net": ("webfetch_net", "failed", None, "hook", "Unable to verify if domain example.com"),
    "write_outside_ok": ("write_outside_ok", "succeeded", None, "hook", ""),
    "write_unwritable": (
        "write_unwritable",
        "failed",
        None,
        "hook",
        "EACCES: permission denied, open '/home/dev/data/",
    ),
}
PARALLEL = {"par_a": "succeeded", "par_b": "failed", "par_c": "failed"}
# Cases that hold no call: prompts, words, starts and ends.
CALLS = {row["case"] for row in ROWS if "tool_use_id" in row["payload"] or "tool_calls" in row["payload"]}


def test_the_table_names_every_recorded_case_with_a_call() -> None:
    assert set(STATES) | {"par_a"} == CALLS


@pytest.mark.parametrize("order", ["in time", "as listed", "reversed"])
@pytest.mark.parametrize("name", STATES)
def test_each_recorded_case_ends_in_its_state(name: str, order: str) -> None:
    rows = case(name)
    rows = in_time(rows) if order == "in time" else rows[::-1] if order == "reversed" else rows
    calls, _ = run(frames(rows))
    call_id, state, exit_code, origin, output = STATES[name]
    assert set(calls) == {f"toolu_{call_id}"}
    call = calls[f"toolu_{call_id}"]
    assert (call.state, call.exit_code, call.origin) == (state, exit_code, origin)
    assert call.output.startswith(output)
    assert bool(call.output) == bool(output)


def test_calls_that_run_at_once_each_get_their_own_result() -> None:
    calls, _ = run(frames(in_time(case("par_a", "par_b", "par_c"))))
    assert {call_id.removeprefix("toolu_"): call.state for call_id, call in calls.items()} == PARALLEL
    assert all(call.origin == "hook" for call in calls.values())


@pytest.mark.parametrize(
    "name", ["rewrite_full.rw", "rewrite_only.rw", "rule_deny_orig.rw", "sub_rewrite.in", "ui_hook_full.r1"]
)
@pytest.mark.parametrize("without", ["", "PreToolUse"])
def test_the_original_input_wins_over_the_rewritten_one(name: str, without: str) -> None:
    rows = [row for row in in_time(case(name)) if row["event"] != without]
    assert any("nd7-run" in json.dumps(row["payload"].get("tool_input")) for row in rows)
    (call,) = run(frames(rows))[0].values()
    assert "nd7-run" not in call.command
    assert call.command


def test_a_whole_recorded_session_tells_nothing_twice_and_closes_everything() -> None:
    session = next(row["payload"]["session_id"] for row in ROWS if row["case"] == "bash_ok")
    rows = [row for row in ROWS if row["payload"]["session_id"] == session]
    pairing, ended = Pairing(), []
    for frame in frames(
        sorted(rows, key=lambda row: (row["case"], ORDER.index(row["event"]) if row["event"] in ORDER else 5))
    ):
        ended += [e for e in pairing.feed(frame) if isinstance(e, ToolEvent) and e.state != "running"]
    hooks = [e.call_id for e in ended if e.origin == "hook"]
    assert len(hooks) == len(set(hooks)) > 40
    assert not pairing.running or all(e.state == "no-result" for e in pairing.finish())


def test_two_hooks_on_one_event_tell_it_once() -> None:
    rows = in_time(case("bash_exit1"))
    pairing = Pairing()
    events = [event for frame in frames([row for row in rows for _ in range(2)]) for event in pairing.feed(frame)]
    assert [event.state for event in events if isinstance(event, ToolEvent)] == ["running", "failed"]


def test_an_id_used_for_another_call_does_not_overwrite_the_first() -> None:
    first, second = case("bash_exit126"), json.loads(json.dumps(case("bash_ok")))
    for row in second:
        row["payload"]["tool_use_id"] = "toolu_bash_exit126"
    second = [row for row in in_time(second) if row["event"] != "PostToolBatch"]
    calls, _ = run(frames(in_time(first) + second))
    assert calls["toolu_bash_exit126"].exit_code == 126
    assert calls["toolu_bash_exit126#2"].output == "hi"


def tool_frame(seq: int, kind: str, source: str = "intent:claude-code", **body: Any) -> Frame:
    return Frame(0, "s", seq, 1000 + seq, "h", source, kind, "", body, "")


BASH = {"tool_use_id": "t", "tool_name": "Bash", "tool_input": {"command": "make"}}
RUNNING = tool_frame(0, "tool_call", cwd="/p", policy_revision=7, nd7_session=4, **BASH)


def test_what_the_supervisor_adds_reaches_the_event() -> None:
    (event,) = Pairing().feed(RUNNING)
    assert isinstance(event, ToolEvent)
    assert (event.revision, event.nd7_session, event.cwd, event.command) == (7, 4, "/p", "make")
    assert (event.state, event.ended, event.started) == ("running", None, 1000)


@pytest.mark.parametrize(
    "frame",
    [
        tool_frame(1, "prompt", text="next"),
        tool_frame(1, "turn_end", last_assistant_message="x"),
        tool_frame(1, "session_end", reason="other"),
    ],
)
def test_a_call_without_an_end_is_closed_by_what_follows(frame: Frame) -> None:
    calls, _ = run([RUNNING, frame], finish=False)
    assert (calls["t"].state, calls["t"].ended) == ("no-result", 1001)


def test_a_late_result_replaces_no_result() -> None:
    late = tool_frame(2, "tool_result", **BASH, tool_response="Exit code 2\nno", ok=False)
    calls, _ = run([RUNNING, tool_frame(1, "prompt", text="next"), late])
    assert (calls["t"].state, calls["t"].exit_code, calls["t"].output) == ("failed", 2, "no")


@pytest.mark.parametrize("outcome", ["rejected", "interrupted"])
def test_esc_and_no_come_from_the_transcript(outcome: str) -> None:
    told = tool_frame(1, "tool_result", "nd7:transcript", **BASH, tool_response="The user", ok=False, outcome=outcome)
    calls, _ = run([RUNNING, told])
    assert (calls["t"].state, calls["t"].origin) == (outcome, "transcript")


def test_the_transcript_never_corrects_a_hook() -> None:
    hook = tool_frame(1, "tool_result", **BASH, tool_response={"stdout": "ok"}, ok=True)
    told = tool_frame(2, "tool_result", "nd7:transcript", **BASH, tool_response="x", ok=False, outcome="failed")
    calls, _ = run([RUNNING, hook, told])
    assert (calls["t"].state, calls["t"].origin) == ("succeeded", "hook")


def test_a_background_command_that_fails_minutes_later() -> None:
    started = tool_frame(1, "tool_result", **BASH, tool_response={"stdout": "", "backgroundTaskId": "b1"}, ok=True)
    end = tool_frame(
        2,
        "tool_result",
        "nd7:transcript",
        tool_response="touch: Permission denied",
        ok=False,
        outcome="background",
        exit_code=5,
        task_id="b1",
        text='Background command "d" failed with exit code 5',
    )
    calls, _ = run([RUNNING, started, tool_frame(2, "turn_end")], finish=False)
    assert calls["t"].state == "background"
    calls, _ = run([RUNNING, started, end, end])
    assert (calls["t"].state, calls["t"].exit_code, calls["t"].output) == ("failed", 5, "touch: Permission denied")
    assert "Background command" in calls["t"].note


def test_esc_of_an_agent_call_ends_its_subagents_calls() -> None:
    inner = tool_frame(1, "tool_call", agent_id="a1", tool_use_id="i", tool_name="Bash", tool_input={"command": "x"})
    outer = {"tool_use_id": "o", "tool_name": "Agent", "tool_input": {}}
    esc = tool_frame(2, "tool_result", "nd7:transcript", **outer, tool_response="", ok=False, outcome="interrupted")
    calls, _ = run([tool_frame(0, "tool_call", **outer), inner, esc], finish=False)
    assert (calls["o"].state, calls["i"].state) == ("interrupted", "no-result")


def test_a_lost_hook_does_not_turn_a_call_that_ran_into_a_rejected_one() -> None:
    batch = {"tool_calls": [BASH | {"tool_response": "built"}]}
    lost = tool_frame(1, "gap", "nd7:recorder", tool_use_id="t", hook_event_name="PostToolUse", text="too big")
    told = tool_frame(2, "hook", hook_event_name="PostToolBatch", raw=batch)
    calls, others = run([RUNNING, lost, told])
    assert (calls["t"].state, calls["t"].output) == ("succeeded", "built")
    assert [note.kind for note in others if isinstance(note, Note)] == ["gap"]


def test_words_are_told_once_in_either_order() -> None:
    for order in (1, -1):
        rows = [row for row in ROWS if row["case"] == "bgdone" and row["event"] in ("MessageDisplay", "Stop")]
        _, others = run(frames(rows[::order]))
        assert [words.text for words in others if isinstance(words, AgentWords)] == ["turn1 end"]


def test_streamed_words_are_put_together() -> None:
    parts = [
        tool_frame(n, "hook", hook_event_name="MessageDisplay", raw={"message_id": "m", "delta": d, "final": n == 2})
        for n, d in enumerate(["I could ", "not ", "write."])
    ]
    _, others = run(parts)
    assert [words.text for words in others if isinstance(words, AgentWords)] == ["I could not write."]


def test_who_is_waited_for() -> None:
    pairing = Pairing()
    for frame in frames(in_time(case("ui_hook_ask"))):
        pairing.feed(frame)
        if frame.body.get("hook_event_name") == "PermissionRequest":
            assert pairing.waiting == "permission for Bash"
    assert pairing.waiting == ""


def test_every_recorded_payload_in_any_order_is_taken() -> None:
    for seed in range(20):
        rows = ROWS[:]
        random.Random(seed).shuffle(rows)
        run(frames(rows))


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(
                [
                    "tool_use_id",
                    "tool_name",
                    "tool_input",
                    "tool_response",
                    "raw",
                    "tool_calls",
                    "stdout",
                    "task_id",
                    "outcome",
                    "hook_event_name",
                    "final",
                    "delta",
                    "message_id",
                    "text",
                    "ok",
                    "nd7_more",
                    "content",
                    "agent_id",
                ]
            ),
            inner,
            max_size=6,
        )
    ),
    max_leaves=20,
)
KINDS = ["tool_call", "tool_result", "hook", "gap", "prompt", "turn_end", "words", "session_start", "session_end", "x"]
EVENTS = ["PostToolBatch", "MessageDisplay", "SubagentStop", "StopFailure", "PermissionRequest", "Notification", "X"]


@given(
    st.lists(
        st.tuples(
            st.sampled_from(KINDS), st.sampled_from(["nd7:transcript", "s"]), st.sampled_from(EVENTS), json_values
        )
    )
)
def test_no_body_makes_it_raise(told: list[tuple[str, str, str, Any]]) -> None:
    pairing = Pairing()
    for seq, (kind, source, event, body) in enumerate(told):
        body = body if isinstance(body, dict) else {"raw": body}
        pairing.feed(Frame(0, "s", seq, seq, "", source, kind, "", body | {"hook_event_name": event}, ""))
        pairing.feed(Frame(0, "s", seq, seq, "", source, kind, "", body, ""))
    pairing.finish()
