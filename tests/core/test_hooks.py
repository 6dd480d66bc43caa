"""From payloads to frames: the format's table, the real payloads, and bad input."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nd7core.audit.frame import encode
from nd7core.hooks import MAX_PAYLOAD, HookError, frame_of, nested_deeper, parts

FIXTURE = Path(__file__).parent.parent / "fixtures" / "hook_payloads.jsonl"
ROWS: list[dict[str, Any]] = [json.loads(line) for line in FIXTURE.read_text().splitlines()]

COMMON = {"session_id": "s-1", "transcript_path": "/t.jsonl", "cwd": "/p"}
CALL = {"tool_use_id": "toolu_1", "tool_name": "Bash", "tool_input": {"command": "make", "timeout": 5}}


def body_of(**payload: Any) -> tuple[str, dict[str, Any]]:
    made = frame_of(json.dumps(COMMON | payload).encode())
    assert made.session_id == "s-1"
    return made.kind, made.body


START = [("cwd", "/p"), ("transcript_path", "/t.jsonl")]


@pytest.mark.parametrize(
    ("payload", "kind", "own"),
    [
        ({"hook_event_name": "SessionStart", "source": "startup"}, "session_start", [("reason", "startup")]),
        ({"hook_event_name": "UserPromptSubmit", "prompt": "do"}, "prompt", [("text", "do")]),
        (
            {"hook_event_name": "PreToolUse"} | CALL,
            "tool_call",
            [*CALL.items(), ("argv", ["make"])],
        ),
        (
            {"hook_event_name": "PreToolUse"} | CALL | {"tool_name": "Read", "tool_input": {"file_path": "/a"}},
            "tool_call",
            [("tool_use_id", "toolu_1"), ("tool_name", "Read"), ("tool_input", {"file_path": "/a"}), ("paths", ["/a"])],
        ),
        (
            {"hook_event_name": "PostToolUse"} | CALL | {"tool_response": {"stdout": "x"}, "duration_ms": 7},
            "tool_result",
            [*CALL.items(), ("tool_response", {"stdout": "x"}), ("ok", True), ("duration_ms", 7)],
        ),
        (
            {"hook_event_name": "PostToolUseFailure"} | CALL | {"error": "Exit code 1"},
            "tool_result",
            [*CALL.items(), ("tool_response", "Exit code 1"), ("ok", False)],
        ),
        (
            {"hook_event_name": "Stop", "stop_hook_active": False, "last_assistant_message": "bye"},
            "turn_end",
            [("stop_hook_active", False), ("last_assistant_message", "bye")],
        ),
        ({"hook_event_name": "SessionEnd", "reason": "other"}, "session_end", [("reason", "other")]),
    ],
)
def test_the_keys_of_each_kind_in_the_formats_order(
    payload: dict[str, Any], kind: str, own: list[tuple[str, Any]]
) -> None:
    made, body = body_of(**payload)
    assert made == kind
    assert list(body.items()) == [*START, ("hook_event_name", payload["hook_event_name"]), *own]


def test_the_common_keys_in_their_order_and_only_where_present() -> None:
    _, body = body_of(
        hook_event_name="PreToolUse",
        agent_type="general",
        agent_id="a1",
        prompt_id="p1",
        permission_mode="plan",
        **CALL,
    )
    assert list(body)[:7] == [
        "cwd",
        "transcript_path",
        "hook_event_name",
        "permission_mode",
        "prompt_id",
        "agent_id",
        "agent_type",
    ]
    payload = json.dumps({"session_id": "s", "hook_event_name": "SessionEnd", "reason": "x"}).encode()
    assert frame_of(payload, hook_ppid=44).body == {"hook_event_name": "SessionEnd", "hook_ppid": 44, "reason": "x"}


@pytest.mark.parametrize("event", ["PostToolBatch", "CwdChanged", "SomethingNew"])
def test_every_other_event_is_kept_whole(event: str) -> None:
    payload = COMMON | {"hook_event_name": event, "a": [1, {"b": None}]}
    kind, body = body_of(**payload)
    assert (kind, body["raw"]) == ("hook", payload)


@pytest.mark.parametrize("row", ROWS, ids=lambda row: f"{row['case']}-{row['event']}")
def test_nothing_of_a_recorded_payload_is_lost(row: dict[str, Any]) -> None:
    payload = row["payload"]
    made = frame_of(json.dumps(payload).encode())
    assert made.session_id == payload["session_id"]
    if made.kind == "hook":
        assert made.body["raw"] == payload
        return
    kept = made.body | made.body.get("nd7_more", {})
    names = {"source": "reason", "prompt": "text"}
    if payload["hook_event_name"] == "PostToolUseFailure":
        names["error"] = "tool_response"
    for key, value in payload.items():
        if key != "session_id":
            assert kept[names.get(key, key)] == value
    encode(made.session_id, 0, 0, "h", "s", made.kind, "p", made.body)


@pytest.mark.parametrize(
    "payload",
    [
        {"hook_event_name": "PreToolUse", "tool_name": "Bash"},
        {"hook_event_name": "PreToolUse"} | CALL | {"tool_input": "text"},
        {"hook_event_name": "PostToolUse"} | CALL,
        {"hook_event_name": "PostToolUseFailure"} | CALL | {"error": 5},
        {"hook_event_name": "Stop", "stop_hook_active": "no"},
        {"hook_event_name": "SessionStart"},
    ],
)
def test_a_known_event_of_another_shape_is_kept_whole(payload: dict[str, Any]) -> None:
    kind, body = body_of(**payload)
    assert (kind, body["raw"]) == ("hook", COMMON | payload)


def test_a_common_key_of_another_type_is_not_lost() -> None:
    _, body = body_of(hook_event_name="SessionEnd", reason="x", agent_id=5, permission_mode=None)
    assert body["nd7_more"] == {"agent_id": 5, "permission_mode": None}


@pytest.mark.parametrize(
    ("payload", "why"),
    [
        (b"", "no JSON"),
        (b"hello", "no JSON"),
        (b'{"session_id":"s"', "no JSON"),
        (b"[]", "no JSON object"),
        (b'"x"', "no JSON object"),
        (b"{}", "without a session_id"),
        (b'{"session_id":5,"hook_event_name":"Stop"}', "without a session_id"),
        (b'{"session_id":"s"}', "without a hook_event_name"),
        (b'{"session_id":"s","hook_event_name":"Stop","a":NaN}', "no JSON"),
        (b'{"session_id":"s","hook_event_name":"Stop","a":1e999}', "no JSON"),
        (b'{"session_id":"s","hook_event_name":"Stop","a":\0}', "no JSON"),
        (b"[" * 400_000, "nested too deep"),
        (b"[" * 1_000_000, "500000 parts"),
        (b'{"session_id":"s","a":' + b"9" * 10_000 + b"}", "no JSON"),
        ("{}".encode("utf-16"), "no JSON"),
        (b'{"session_id":"s","hook_event_name":"' + b"x" * MAX_PAYLOAD + b'"}', "more than"),
    ],
)
def test_what_is_no_payload_is_an_error_that_says_so(payload: bytes, why: str) -> None:
    with pytest.raises(HookError, match=why):
        frame_of(payload)


def test_a_payload_that_is_too_large_still_tells_whose_it_was() -> None:
    payload = json.dumps(COMMON | {"hook_event_name": "PostToolUse", "x": "y" * MAX_PAYLOAD} | CALL).encode()
    with pytest.raises(HookError) as error:
        frame_of(payload)
    assert error.value.facts == {
        "session_id": "s-1",
        "hook_event_name": "PostToolUse",
        "tool_use_id": "toolu_1",
        "tool_name": "Bash",
    }


def test_a_payload_of_nearly_the_limit_is_taken_whole() -> None:
    text = "y" * (MAX_PAYLOAD - 300)
    _, body = body_of(hook_event_name="UserPromptSubmit", prompt=text)
    assert body["text"] == text


def test_nul_is_kept() -> None:
    _, body = body_of(hook_event_name="UserPromptSubmit", prompt="a\0b")
    assert body["text"] == "a\0b"
    assert b'"a\\u0000b"' in encode("s", 0, 0, "h", "s", "prompt", "p", body)


def test_half_a_surrogate_costs_itself_and_nothing_else() -> None:
    payload = rb'{"session_id":"s","hook_event_name":"UserPromptSubmit","prompt":"a\ud800b\ud83d\ude00","\udfff":[1]}'
    made = frame_of(payload)
    assert made.body["text"] == "a\ufffdb😀"
    assert made.body["nd7_more"] == {"\ufffd": [1]}
    assert made.body["nd7_note"] == "2 half surrogate pairs became U+FFFD"
    whole = frame_of(rb'{"session_id":"s","hook_event_name":"UserPromptSubmit","prompt":"\ud83d\ude00 \\ud800"}')
    assert whole.body == {"hook_event_name": "UserPromptSubmit", "text": "😀 \\ud800"}


def test_bytes_that_are_not_utf8_cost_themselves_only() -> None:
    made = frame_of(b'{"session_id":"s","hook_event_name":"UserPromptSubmit","prompt":"a\xffb"}')
    assert made.body["text"] == "a\ufffdb"
    assert "not UTF-8" in made.body["nd7_note"]


def test_a_deep_value_is_kept_as_text_that_other_readers_can_take() -> None:
    deep = "[" * 150 + "]" * 150
    payload = f'{{"session_id":"s","hook_event_name":"UserPromptSubmit","prompt":"x","deep":{deep}}}'.encode()
    made = frame_of(payload)
    assert (made.kind, made.body["raw"]) == ("hook", payload.decode())
    assert nested_deeper(json.loads(deep), 100)
    assert not nested_deeper(json.loads("[" * 100 + "]" * 100), 100)


@given(st.binary(max_size=200))
def test_no_bytes_raise_anything_else(data: bytes) -> None:
    try:
        frame_of(data)
    except HookError:
        return


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(st.characters(), max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=10,
)
NAMES = ["cwd", "prompt", "source", "reason", "error", "ok", "tool_use_id", "tool_name", "tool_input", "tool_response"]
EVENTS = ["PreToolUse", "PostToolUse", "PostToolUseFailure", "Stop", "UserPromptSubmit", "SessionStart", "SessionEnd"]


@given(st.sampled_from(EVENTS), st.dictionaries(st.sampled_from(NAMES), json_values))
def test_any_payload_becomes_a_frame_that_can_be_written(event: str, more: dict[str, Any]) -> None:
    payload = json.dumps({"session_id": "s", "hook_event_name": event} | more).encode()
    try:
        made = frame_of(payload)
    except HookError as error:
        assert b"NaN" in payload or b"Infinity" in payload, error.message
        return
    encode(made.session_id, 0, 0, "h", "s", made.kind, "p", made.body)


def _counted(value: object) -> int:
    if isinstance(value, dict | list):
        inside = value.values() if isinstance(value, dict) else value
        return 1 + max(0, len(value) - 1) + sum(map(_counted, inside))
    return 0


@pytest.mark.parametrize("seed", range(20))
def test_parts_are_counted_outside_of_strings(seed: int) -> None:
    chance = random.Random(seed)

    def some(depth: int) -> object:
        if depth > 4 or not (kind := chance.randrange(4)):
            return "".join(chance.choice('ab\\"[{,') for _ in range(chance.randrange(8)))
        if kind == 1:
            return [some(depth + 1) for _ in range(chance.randrange(4))]
        return {f'{n}"\\,[': some(depth + 1) for n in range(chance.randrange(4))} if kind == 2 else 7

    for _ in range(100):
        value = some(0)
        wanted = _counted(value)
        text = json.dumps(value).encode()
        assert parts(text, wanted) == wanted or text.count(b",") + text.count(b"[") + text.count(b"{") <= wanted
        assert parts(text, 0) > 0 or not wanted


def test_a_long_string_is_one_part_and_a_million_values_are_too_many() -> None:
    text = json.dumps({"a": '[{,\\"' * 1_000_000}).encode()
    assert parts(text, 500_000) == 1
    assert parts(b"[" + b"{}," * 1_000_000 + b"0]", 500_000) > 500_000
    with pytest.raises(HookError, match="500000 parts"):
        frame_of(b'{"session_id":"s","hook_event_name":"Stop","x":[' + b"{}," * 1_000_000 + b"0]}")
