"""The supervisor's writer: whose log, what is kept when something is wrong, and what transcripts add."""

from __future__ import annotations

import json
import multiprocessing
import os
import shutil
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from nd7core.audit.frame import Frame
from nd7core.audit.log import AuditError, Log, log_directory
from nd7core.audit.recorder import Recorder
from nd7core.audit.tail import Tail
from nd7core.audit.verify import verify
from nd7core.events import Note, ToolEvent
from nd7core.hooks import MAX_PAYLOAD, HookError
from nd7core.pairing import Pairing

FIXTURES = Path(__file__).parent.parent / "fixtures" / "transcripts"
NO_HOOKS: list[str] = []


class Rig:
    """A state directory, an agent's configuration, and recorders on them."""

    def __init__(self, root: Path) -> None:
        self.state = str(root / "state")
        self.config = root / "home" / ".claude"
        self.project = self.config / "projects" / "-home-dev-app"
        self.project.mkdir(parents=True)
        self.output = root / "tmp"
        self.output.mkdir()
        self.made: list[Recorder] = []

    def recorder(self, pid: int = 77, allowed: tuple[str, ...] = (), **more: Any) -> Recorder:
        made = Recorder(
            self.state,
            nd7_session=pid,
            allowed_ids=set(allowed),
            revision=lambda: 3,
            host="box",
            agent_config=str(self.config),
            output_roots=[str(self.output)],
            **more,
        )
        self.made.append(made)
        return made

    def frames(self, session_id: str) -> list[Frame]:
        data = Path(log_directory(self.state, session_id), "events.ndjson").read_bytes()
        assert verify(log_directory(self.state, session_id)).ok
        return [item for item in Tail(session_id).feed(data) if isinstance(item, Frame)]

    def kinds(self, session_id: str) -> list[str]:
        return [frame.kind for frame in self.frames(session_id)]

    def logs(self) -> set[str]:
        return set(os.listdir(os.path.join(self.state, "sessions")))

    def own(self) -> str:
        (own,) = [name for name in self.logs() if name.startswith("nd7-")]
        return own

    def transcript(self, session_id: str) -> Path:
        return self.project / f"{session_id}.jsonl"


@pytest.fixture
def rig(tmp_path: Path) -> Iterator[Rig]:
    made = Rig(tmp_path.resolve())
    yield made
    for recorder in made.made:
        recorder.close()


def payload(session_id: str, event: str = "UserPromptSubmit", **more: Any) -> bytes:
    more = more or {"prompt": "do it"}
    return json.dumps({"session_id": session_id, "hook_event_name": event, "cwd": "/p"} | more).encode()


def test_a_payload_becomes_a_frame_with_our_keys_behind(rig: Rig) -> None:
    frame = rig.recorder().record(payload("s1"), 1234, hook_ppid=9)
    assert (frame.seq, frame.ts, frame.source, frame.kind, frame.host) == (
        0,
        1234,
        "intent:claude-code",
        "prompt",
        "box",
    )
    assert list(rig.frames("s1")[0].body.items()) == [
        ("cwd", "/p"),
        ("hook_event_name", "UserPromptSubmit"),
        ("hook_ppid", 9),
        ("text", "do it"),
        ("nd7_session", 77),
        ("policy_revision", 3),
    ]


def test_notes_from_before_the_first_hook_stand_before_it(rig: Rig) -> None:
    recorder = rig.recorder()
    assert recorder.note("canary", {"seen": True}, "nd7:canary", ts=5) is None
    recorder.record(payload("s1"), 9)
    recorder.note("grant", {"path": "/x"}, "nd7:grants")
    assert [(frame.source, frame.kind) for frame in rig.frames("s1")] == [
        ("nd7:canary", "canary"),
        ("intent:claude-code", "prompt"),
        ("nd7:grants", "grant"),
    ]
    assert recorder.session_ids == ["s1"]


def test_notes_of_a_session_without_hooks_go_to_a_log_of_nd7s_own(rig: Rig) -> None:
    recorder = rig.recorder()
    recorder.note("canary", {}, "nd7:canary")
    recorder.close()
    assert rig.kinds(rig.own()) == ["canary"]
    shell = rig.recorder(78, agent=False)
    assert shell.note("canary", {}, "nd7:canary") is not None
    assert shell.session_ids[0].startswith("nd7-78-")


def test_notes_that_wait_too_long_are_not_kept_in_memory(rig: Rig) -> None:
    recorder = rig.recorder()
    for number in range(400):
        recorder.note("gap", {"text": str(number)})
    assert recorder.gaps == 400
    assert [frame.body["text"] for frame in rig.frames(rig.own())] == [str(number) for number in range(400)]


@pytest.mark.parametrize("source", ["resume", "compact", "clear", "startup", ""])
def test_an_older_conversation_that_nobody_asked_for_is_recorded_in_the_sessions_own_log(rig: Rig, source: str) -> None:
    Log(log_directory(rig.state, "theirs")).append("prompt", {"text": "old"}, source="s")
    before = Path(log_directory(rig.state, "theirs"), "events.ndjson").read_bytes()
    recorder = rig.recorder(about={"name": "mine", "project": "/p", "program": ["claude"], "agent": "claude"})
    recorder.record(payload("mine"), 1)
    if source:
        recorder.record(payload("theirs", "SessionStart", source=source), 1)
    for _ in range(2):
        assert recorder.record(payload("theirs"), 1).body["agent_session"] == "theirs"
    recorder.note("grant", {}, "nd7:grants")
    assert Path(log_directory(rig.state, "theirs"), "events.ndjson").read_bytes() == before
    started = ["session_start"] if source else []
    assert rig.kinds(rig.own()) == ["session", "gap", *started, "prompt", "prompt", "grant"]
    gap = rig.frames(rig.own())[1].body
    assert (gap["reason"], gap["agent_session"]) == ("conversation", "theirs") and "nobody asked" in gap["text"]
    assert recorder.gaps == 1
    assert recorder.session_ids == ["mine", rig.own()] and recorder.chosen == ""


def test_a_conversation_from_before_nd7_knew_it_is_an_older_one_too(rig: Rig) -> None:
    recorder = rig.recorder(older=("before",))
    recorder.record(payload("before", "SessionStart", source="startup"), 1)
    assert rig.logs() == {rig.own()}
    named = rig.recorder(78, ("before",), older=("before",))
    named.record(payload("before", "SessionStart", source="resume"), 1)
    assert rig.kinds("before") == ["session_start"] and named.gaps == 0


def test_a_session_that_the_person_named_goes_on_in_its_log(rig: Rig) -> None:
    first = rig.recorder()
    first.record(payload("s1"), 1)
    # Its own: compacted, or come back to by /resume after /clear.
    first.record(payload("s2", "SessionStart", source="clear"), 1)
    first.record(payload("s1", "SessionStart", source="resume"), 1)
    first.record(payload("s1", "SessionStart", source="compact"), 1)
    first.close()
    assert len(rig.frames("s1")) == 3
    rig.recorder(90, ("s1",)).record(payload("s1", "SessionStart", source="resume"), 1)
    assert len(rig.frames("s1")) == 4 and rig.logs() == {"s1", "s2"}


def test_the_conversation_that_the_agent_was_asked_to_choose_is_no_gap_and_a_second_one_is(rig: Rig) -> None:
    for name in ("chosen", "other"):
        Log(log_directory(rig.state, name)).append("prompt", {"text": "old"}, source="s")
    recorder = rig.recorder(choosing=True)
    recorder.record(payload("chosen", "SessionStart", source="resume"), 1)
    recorder.record(payload("chosen"), 1)
    assert (recorder.chosen, recorder.gaps) == ("chosen", 0)
    recorder.record(payload("other", "SessionStart", source="resume"), 1)
    assert (recorder.chosen, recorder.gaps) == ("chosen", 1)
    assert rig.kinds(rig.own()) == ["conversation", "session_start", "prompt", "gap", "session_start"]
    assert rig.kinds("chosen") == rig.kinds("other") == ["prompt"]
    own = rig.own()
    recorder.close()
    # A recorder that follows one that died, in the same second: the same log, and nothing is asked twice.
    again = rig.recorder(chosen="chosen")
    again.record(payload("chosen"), 1)
    assert again.gaps == 0 and rig.own() == own and rig.kinds(own)[-1] == "prompt"


def test_what_the_transcript_tells_of_an_older_conversation_goes_where_its_frames_go(rig: Rig) -> None:
    session_id = session_of("nohook")
    Log(log_directory(rig.state, session_id)).append("prompt", {"text": "old"}, source="s")
    recorder, _ = play(rig, "nohook", hooks=False)
    told = follow(recorder)
    assert told and all(frame.session_id == rig.own() for frame in told)
    assert all(frame.body["agent_session"] == session_id for frame in told)
    assert rig.kinds(session_id) == ["prompt"]


def test_a_session_that_a_live_run_holds_is_not_taken_over(rig: Rig) -> None:
    rig.recorder().record(payload("s1"), 1)
    thief = rig.recorder(78, ("s1",))
    with pytest.raises(AuditError, match="held by another live session"):
        thief.record(payload("s1", "SessionStart", source="resume"), 1)
    assert rig.kinds("s1") == ["prompt"]


@pytest.mark.parametrize("bad", ["..", "a/b", "", "nd7-77-1", "x" * 300, "\ud800"])
def test_an_id_that_is_none_is_refused_and_the_payload_kept(rig: Rig, bad: str) -> None:
    recorder = rig.recorder()
    with pytest.raises(AuditError):
        recorder.record(payload(bad), 1)
    assert rig.kinds(rig.own()) == ["gap", "prompt"]


def test_a_confined_process_does_not_get_a_log_for_every_name_it_makes_up(rig: Rig) -> None:
    recorder = rig.recorder()
    for number in range(400):
        try:
            recorder.record(payload(f"s{number}"), 1)
        except AuditError as error:
            assert "more than" in error.message
    assert len(rig.logs()) <= 258


@pytest.mark.parametrize("bad", [b"", b"rubbish", b"[]", b"{}", b"\0" * 50, b'{"session_id":"s1","hook_event_name":5}'])
def test_what_is_no_payload_leaves_a_gap_in_the_running_session(rig: Rig, bad: bytes) -> None:
    recorder = rig.recorder()
    recorder.record(payload("s1"), 1)
    with pytest.raises(HookError):
        recorder.record(bad, 2)
    gap = rig.frames("s1")[-1]
    assert (gap.kind, gap.source, gap.body["reason"], gap.body["size"]) == ("gap", "nd7:recorder", "payload", len(bad))
    assert recorder.gaps == 1


def test_a_payload_that_is_too_large_names_its_call_and_the_batch_tells_the_rest(rig: Rig) -> None:
    recorder = rig.recorder()
    call = {"tool_use_id": "t1", "tool_name": "Bash", "tool_input": {"command": "cat big"}}
    recorder.record(payload("s1", "PreToolUse", **call), 1)
    with pytest.raises(HookError, match="more than"):
        recorder.record(payload("s1", "PostToolUse", **call, tool_response={"stdout": "x" * MAX_PAYLOAD}), 2)
    recorder.record(payload("s1", "PostToolBatch", tool_calls=[call | {"tool_response": "xxx"}]), 3)
    pairing = Pairing()
    events = [event for frame in rig.frames("s1") for event in pairing.feed(frame)]
    assert [event.state for event in events if isinstance(event, ToolEvent)] == ["running", "succeeded"]
    assert [event.kind for event in events if isinstance(event, Note)] == ["gap"]


def test_a_damaged_log_is_left_alone_and_the_session_goes_on_elsewhere(rig: Rig) -> None:
    recorder = rig.recorder()
    recorder.record(payload("s1"), 1)
    path = Path(log_directory(rig.state, "s1"), "events.ndjson")
    torn = path.read_bytes()[:-1]
    path.write_bytes(torn)
    with pytest.raises(AuditError, match="torn") as error:
        recorder.record(payload("s1", prompt="two"), 2)
    assert "kept in the log nd7-77-" in error.value.hint
    assert path.read_bytes() == torn
    assert [frame.body.get("text") for frame in rig.frames(rig.own())][1:] == ["two"]


def test_forty_hooks_at_once(rig: Rig) -> None:
    recorder = rig.recorder()
    threads = [
        threading.Thread(target=recorder.record, args=(payload("s1", prompt=str(number)), number))
        for number in range(40)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(int(frame.body["text"]) for frame in rig.frames("s1")) == list(range(40))


def hold(state: str, ready: Any, done: Any) -> None:
    recorder = Recorder(state, nd7_session=1, allowed_ids=set(), revision=lambda: 0)
    recorder.record(payload("s1"), 1)
    ready.set()
    done.wait(20)
    os._exit(9)  # as a kill would: nothing is closed


def test_a_run_that_was_killed_holds_nothing_any_more(rig: Rig) -> None:
    context = multiprocessing.get_context("spawn")
    ready, done = context.Event(), context.Event()
    other = context.Process(target=hold, args=(rig.state, ready, done))
    other.start()
    assert ready.wait(20)
    with pytest.raises(AuditError, match="held"):
        rig.recorder(78, ("s1",)).record(payload("s1", "SessionStart", source="resume"), 1)
    done.set()
    other.join()
    rig.recorder(79, ("s1",)).record(payload("s1", "SessionStart", source="resume"), 1)
    assert rig.kinds("s1") == ["prompt", "session_start"]


def test_open_bash_calls_tell_whether_a_command_was_announced(rig: Rig) -> None:
    recorder = rig.recorder()
    call = {"tool_use_id": "t1", "tool_name": "Bash", "tool_input": {"command": "x"}}
    recorder.record(payload("s1", "PreToolUse", **call), 1)
    recorder.record(payload("s1", "PreToolUse", agent_id="a", **(call | {"tool_use_id": "t2"})), 1)
    assert recorder.open_bash_calls == 2
    recorder.record(payload("s1", "PostToolUse", **call, tool_response={}), 1)
    assert recorder.open_bash_calls == 1
    recorder.record(payload("s1", "Stop", stop_hook_active=False), 1)
    assert recorder.open_bash_calls == 1
    recorder.record(payload("s1", "SessionEnd", reason="other"), 1)
    assert recorder.open_bash_calls == 0


# transcripts


def session_of(name: str) -> str:
    first = json.loads((FIXTURES / f"{name}.jsonl").read_text().splitlines()[0])
    return str(first["sessionId"])


def play(rig: Rig, name: str, *, hooks: bool = True, drop: tuple[str, ...] = (), **more: Any) -> tuple[Recorder, str]:
    """A recorded run again: its hooks, then its transcript, as if it happened now."""
    session_id = session_of(name)
    recorder = rig.recorder(**more)
    path = str(rig.transcript(session_id))
    if hooks:
        for line in (FIXTURES / f"{name}.hooks.jsonl").read_text().splitlines():
            told = json.loads(line) | {"transcript_path": path}
            if told["hook_event_name"] not in drop:
                recorder.record(json.dumps(told).encode(), 1)
    else:
        recorder.record(payload(session_id, "SessionStart", source="startup", transcript_path=path), 1)
    shutil.copy(FIXTURES / f"{name}.jsonl", path)
    agents = FIXTURES / f"{name}-agent.jsonl"
    if agents.exists():
        (folder := rig.project / session_id / "subagents").mkdir(parents=True)
        agent_id = json.loads(agents.read_text().splitlines()[0])["agentId"]
        shutil.copy(agents, folder / f"agent-{agent_id}.jsonl")
    return recorder, session_id


@pytest.fixture(autouse=True)
def in_the_past(monkeypatch: pytest.MonkeyPatch) -> None:
    """Recorders begin before the recorded runs did, so that their lines are not an earlier run's."""
    monkeypatch.setattr("nd7core.audit.recorder.time.time_ns", lambda: 1_700_000_000_000_000_000)


def follow(recorder: Recorder) -> list[Frame]:
    frames: list[Frame] = []
    for second in range(0, 12, 2):
        frames += recorder.follow_transcripts(now=float(second))
    return frames


def states(rig: Rig, session_id: str) -> dict[str, str]:
    pairing, found = Pairing(), {}
    for frame in rig.frames(session_id):
        for event in pairing.feed(frame):
            if isinstance(event, ToolEvent):
                found[event.call_id.removeprefix("toolu_")] = event.state
    return found


def test_esc_is_added_from_the_transcript_and_nothing_twice(rig: Rig) -> None:
    recorder, session_id = play(rig, "esc")
    told = follow(recorder)
    assert [(frame.kind, frame.body["outcome"]) for frame in told] == [
        *[("tool_result", "typed")],
        *[("tool_result", "interrupted")] * 3,
    ]
    assert all(frame.source == "nd7:transcript" for frame in told)
    assert follow(recorder) == []
    found = states(rig, session_id)
    typed = [call for call in found if call.startswith("typed-")]
    assert {call: found[call] for call in ("esc1", "e1", "e2")} == dict.fromkeys(("esc1", "e1", "e2"), "interrupted")
    assert len(found) == 4 and len(typed) == 1
    assert recorder.gaps == 0


def test_no_is_added_from_the_transcript(rig: Rig) -> None:
    recorder, session_id = play(rig, "no")
    follow(recorder)
    assert states(rig, session_id) == {"ask1": "rejected"}
    assert recorder.gaps == 0


def test_what_hooks_told_is_not_told_again(rig: Rig) -> None:
    for name in ("hookdeny", "sub"):
        recorder, _ = play(rig, name)
        assert follow(recorder) == []


def test_the_end_of_a_background_command_with_its_output(rig: Rig) -> None:
    recorder, session_id = play(rig, "bg")
    path = rig.transcript(session_id)
    text = path.read_text().replace("/tmp/claude-1000", str(rig.output / "claude-1000"))
    path.write_text(text)
    output = next((rig.output / part) for part in ["claude-1000/-home-dev-app"]) / session_id / "tasks"
    output.mkdir(parents=True)
    (output / "b8swaprhn.output").write_text("x" * 40_000 + "\ntouch: cannot touch /etc/x: Permission denied\n")
    (frame,) = follow(recorder)
    assert frame.body["tool_response"].endswith("Permission denied\n")
    assert len(frame.body["tool_response"]) == 30_000
    assert frame.body["exit_code"] == 5
    assert states(rig, session_id)["bg"] == "failed"


def test_calls_that_no_hook_told_are_a_gap_and_still_shown(rig: Rig) -> None:
    recorder, session_id = play(rig, "nohook", hooks=False)
    told = follow(recorder)
    assert [frame.kind for frame in told] == ["gap", "tool_result", "words"]
    assert told[0].body["tool_use_id"] == "toolu_n1"
    assert states(rig, session_id) == {"n1": "failed"}
    assert recorder.gaps == 1


def test_a_result_hook_that_was_lost_is_a_gap(rig: Rig) -> None:
    recorder, _ = play(rig, "sub", drop=("PostToolUseFailure", "PostToolUse", "PostToolBatch"))
    assert [(frame.kind, frame.body.get("reason")) for frame in follow(recorder) if frame.kind == "gap"] == [
        ("gap", "result")
    ] * 2


def test_hooks_that_failed_open_are_gaps_where_they_are_ours(rig: Rig) -> None:
    recorder, _ = play(rig, "hookfail")
    assert ["PreToolUse" in frame.body["text"] for frame in follow(recorder)] == [True, True]
    recorder.close()
    shutil.rmtree(rig.state)
    recorder, _ = play(rig, "hookfail", hook_command="sleep 10")
    (gap,) = follow(recorder)
    assert "timed out after 2000 ms" in gap.body["text"]
    assert gap.body["hook_event_name"] == "PreToolUse"


def test_a_resumed_sessions_earlier_lines_tell_nothing(rig: Rig) -> None:
    recorder, session_id = play(rig, "nohook", hooks=False)
    recorder.close()
    again = rig.recorder(78)
    path = str(rig.transcript(session_id))
    again.record(payload(session_id, "SessionStart", source="resume", transcript_path=path), 1)
    assert follow(again) == []
    with rig.transcript(session_id).open("a") as file:
        file.write((FIXTURES / "esc.jsonl").read_text())
    assert len(follow(again)) > 0


def test_the_copied_lines_of_a_forked_session_tell_nothing(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("nd7core.audit.recorder.time.time_ns", lambda: 1_900_000_000_000_000_000)
    recorder, _ = play(rig, "nohook", hooks=False)
    assert follow(recorder) == []


def test_a_transcript_is_read_a_bounded_part_at_a_time(rig: Rig) -> None:
    recorder, session_id = play(rig, "nohook", hooks=False)
    path = rig.transcript(session_id)
    path.write_text('{"type":"x"}\n' * 300_000 + path.read_text())
    polls = 0
    while not recorder.follow_transcripts(1 << 18, now=float(polls)):
        polls += 1
        assert polls < 100
    assert polls >= 14


@pytest.mark.parametrize("way", ["link", "folder link", "above", "fifo", "folder", "other root", "second name"])
def test_nothing_but_a_file_of_its_own_below_projects_is_read(rig: Rig, way: str) -> None:
    session_id = session_of("nohook")
    secret = rig.config.parent / "secret.jsonl"
    shutil.copy(FIXTURES / "nohook.jsonl", secret)
    path = str(rig.transcript(session_id))
    if way == "link":
        os.symlink(secret, path)
    elif way == "folder link":
        os.symlink(secret.parent, rig.project / "in")
        path = str(rig.project / "in" / "secret.jsonl")
    elif way == "above":
        path = str(rig.project / ".." / ".." / ".." / "secret.jsonl")
    elif way == "fifo":
        os.mkfifo(path)
    elif way == "folder":
        os.mkdir(path)
    elif way == "second name":
        os.link(secret, path)
    else:
        path = str(secret)
    recorder = rig.recorder()
    recorder.record(payload(session_id, "SessionStart", source="startup", transcript_path=path), 1)
    assert follow(recorder) == []


def test_background_output_elsewhere_is_not_read(rig: Rig) -> None:
    recorder, session_id = play(rig, "bg")
    secret = rig.config.parent / "id_ed25519"
    secret.write_text("key")
    path = rig.transcript(session_id)
    text = path.read_text()
    name = json.loads(text.splitlines()[4])["toolUseResult"]["backgroundTaskId"]
    before = f"/tmp/claude-1000/-home-dev-app/{session_id}/tasks/{name}.output"
    path.write_text(text.replace(before, str(secret)))
    (frame,) = follow(recorder)
    assert frame.body["tool_response"] == ""
