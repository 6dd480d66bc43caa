"""From a hook's payload to the kind and body of a frame.

Pure: bytes in, a frame's content out.  What the format's table names becomes the frame's own keys;
everything else that a payload holds is kept behind them in `nd7_more`, so that nothing a hook
delivered is lost.  A payload of a known event in another shape than the table's is kept whole, as
kind `hook`.
"""

from __future__ import annotations

import json
import re
from typing import Any, NamedTuple, NoReturn

from nd7core.audit.frame import MAX_DEPTH
from nd7core.errors import Nd7Error

SOURCE = "intent:claude-code"

# Claude Code cuts what it tells a hook at 30,000 characters an output; a Write's content and images are whole.
# 24 MB is far above anything seen, so that one of 20 MB is still recorded, and small enough for a hook's time.
MAX_PAYLOAD = 24_000_000
# Each takes some 60 bytes as Python's object: 8 million empty objects, 24 MB of them, would take 700 MB and 15 s.
MAX_PARTS = 500_000

_COMMON = ("cwd", "transcript_path", "hook_event_name", "permission_mode", "prompt_id", "agent_id", "agent_type")
_PATH_KEYS = ("file_path", "path", "notebook_path", "filePath", "notebookPath")
_SURROGATE_ESCAPE = re.compile(rb"\\u[dD][89a-fA-F]")
_SURROGATE = re.compile("[\ud800-\udfff]")
_PEEK = re.compile(rb'"(session_id|hook_event_name|tool_use_id|tool_name)"\s*:\s*"([A-Za-z0-9._-]{1,255})"')
_MISSING = object()


class HookError(Nd7Error):
    """A payload that is no hook payload.  `facts` is what could be read of it, for the gap's frame."""

    def __init__(self, message: str, facts: dict[str, str] | None = None) -> None:
        super().__init__(message)
        self.facts = facts or {}


class HookFrame(NamedTuple):
    """What a payload becomes: the agent's session id, and the frame's kind and body."""

    session_id: str
    kind: str
    body: dict[str, Any]


def frame_of(payload: bytes, *, hook_ppid: int | None = None) -> HookFrame:
    """Read a payload.

    Args:
        payload: the hook's stdin, whole.
        hook_ppid: the parent of the hook's process, recorded where given.

    Raises HookError for a payload over `MAX_PAYLOAD` bytes, one that is no JSON (NaN and numbers
    beyond a double's range included), no object, or names no session or event.  NUL and bytes that
    are not UTF-8 are kept as far as JSON can (U+FFFD for the latter and for half a surrogate pair, with a `nd7_note`).
    """
    if len(payload) > MAX_PAYLOAD:
        raise HookError(f"a hook payload of {len(payload)} bytes is more than {MAX_PAYLOAD}", peek(payload))
    if parts(payload, MAX_PARTS) > MAX_PARTS:
        raise HookError(f"a hook payload of more than {MAX_PARTS} parts", peek(payload))
    text, value, notes = _parse(payload)
    session_id, event = value.get("session_id"), value.get("hook_event_name")
    if type(session_id) is not str or type(event) is not str:
        missing = "session_id" if type(session_id) is not str else "hook_event_name"
        raise HookError(f"a hook payload without a {missing}", peek(payload))
    body: dict[str, Any] = {}
    for key in _COMMON:
        item = value.get(key)
        if type(item) is str:
            body[key] = item
    if hook_ppid is not None:
        body["hook_ppid"] = hook_ppid
    kind, own, renamed = _own(event, value)
    if nested_deeper(value, MAX_DEPTH):
        kind, own = "hook", {"raw": text}
        notes.append(f"nested deeper than {MAX_DEPTH}, kept as text")
    elif own is None:
        kind, own = "hook", {"raw": value}
    body |= own
    if kind != "hook":
        more = {
            key: item
            for key, item in value.items()
            if key != "session_id" and key != renamed and body.get(key, _MISSING) is not item
        }
        if more:
            body["nd7_more"] = more
    if notes:
        body["nd7_note"] = "; ".join(notes)
    return HookFrame(session_id, kind, body)


def peek(payload: bytes) -> dict[str, str]:
    """What can be told of a payload without parsing it, for the record of its loss; first mention wins.  Hostile."""
    found: dict[str, str] = {}
    for key, value in _PEEK.findall(payload[:65536]) + _PEEK.findall(payload[-4096:]):
        found.setdefault(key.decode(), value.decode())
    return found


def _parse(payload: bytes) -> tuple[str, dict[str, Any], list[str]]:
    notes: list[str] = []
    try:
        text = payload.decode()
    except UnicodeDecodeError:
        text = payload.decode("utf-8", "replace")
        notes.append("bytes that are not UTF-8 became U+FFFD")
    try:
        value = json.loads(text, parse_constant=_no_constant, parse_float=_finite)
        if type(value) is not dict:
            raise HookError("a hook payload that is no JSON object", peek(payload))
        if _SURROGATE_ESCAPE.search(payload):
            value, count = _without_surrogates(value)
            if count:
                notes.append(f"{count} half surrogate pair{'s' if count > 1 else ''} became U+FFFD")
    except RecursionError:
        raise HookError("a hook payload that is nested too deep", peek(payload)) from None
    except ValueError as error:
        raise HookError(f"a hook payload that is no JSON: {error}", peek(payload)) from None
    return text, value, notes


def _no_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is no JSON number")


def _finite(text: str) -> float:
    number = float(text)
    if number - number != 0:
        raise ValueError(f"{text[:40]} is beyond a double's range")
    return number


def _without_surrogates(value: dict[str, Any]) -> tuple[dict[str, Any], int]:
    """The same value with every lone surrogate replaced, and how many there were.

    Through the JSON text: there surrogates can only stand inside strings, and no walk can be made
    to overflow by a deep value.
    """
    text = json.dumps(value, ensure_ascii=False)
    clean, count = _SURROGATE.subn("\ufffd", text)
    if not count:
        return value, 0
    made: dict[str, Any] = json.loads(clean)
    return made, count


def parts(payload: bytes, limit: int) -> int:
    """About how many values a JSON text has: its commas and brackets outside of strings; stops counting at `limit`."""
    total = payload.count(b",") + payload.count(b"[") + payload.count(b"{")
    if total <= limit:
        return total
    total = at = 0
    while total <= limit:
        quote = payload.find(b'"', at)
        end = len(payload) if quote < 0 else quote
        total += payload.count(b",", at, end) + payload.count(b"[", at, end) + payload.count(b"{", at, end)
        if quote < 0:
            break
        at = _after_string(payload, quote + 1)
    return total


def _after_string(payload: bytes, at: int) -> int:
    """Where a string that began before `at` is over: behind a quote with an even number of backslashes before it."""
    while (quote := payload.find(b'"', at)) >= 0:
        before = quote
        while before > at and payload[before - 1] == 0x5C:
            before -= 1
        at = quote + 1
        if (quote - before) % 2 == 0:
            return at
    return len(payload)


def nested_deeper(value: object, limit: int) -> bool:
    """Whether arrays and objects stand more than `limit` deep in each other.  Walks level by level, never recurses."""
    level: list[object] = [value]
    for _ in range(limit):
        below: list[object] = []
        for item in level:
            if type(item) is dict:
                below += [inner for inner in item.values() if type(inner) in (dict, list)]
            elif type(item) is list:
                below += [inner for inner in item if type(inner) in (dict, list)]
        if not below:
            return False
        level = below
    return True


def _own(event: str, value: dict[str, Any]) -> tuple[str, dict[str, Any] | None, str]:
    """The kind of an event, its own keys (None where the payload has not that event's shape), and the
    payload's key that stands there under another name."""
    if event == "PreToolUse":
        return "tool_call", _tool_call(value), ""
    if event == "PostToolUse":
        return "tool_result", _tool_result(value, "tool_response", True), ""
    if event == "PostToolUseFailure":
        return "tool_result", _tool_result(value, "error", False), "error"
    if event == "UserPromptSubmit":
        return "prompt", _text(value, "text", "prompt"), "prompt"
    if event == "SessionStart":
        return "session_start", _text(value, "reason", "source"), "source"
    if event == "SessionEnd":
        return "session_end", _text(value, "reason", "reason"), ""
    if event == "Stop":
        return "turn_end", _turn_end(value), ""
    return "hook", None, ""


def _turn_end(value: dict[str, Any]) -> dict[str, Any] | None:
    own: dict[str, Any] = {}
    for key, kind in (("stop_hook_active", bool), ("last_assistant_message", str)):
        item = value.get(key)
        if type(item) is kind:
            own[key] = item
        elif item is not None:
            return None
    return own


def _text(value: dict[str, Any], name: str, key: str) -> dict[str, Any] | None:
    item = value.get(key)
    return {name: item} if type(item) is str else None


def _call(value: dict[str, Any]) -> dict[str, Any] | None:
    call_id, tool, tool_input = value.get("tool_use_id"), value.get("tool_name"), value.get("tool_input")
    if type(call_id) is not str or type(tool) is not str or type(tool_input) is not dict:
        return None
    return {"tool_use_id": call_id, "tool_name": tool, "tool_input": tool_input}


def _tool_call(value: dict[str, Any]) -> dict[str, Any] | None:
    own = _call(value)
    if own is None:
        return None
    tool_input = own["tool_input"]
    command = tool_input.get("command")
    if own["tool_name"] == "Bash" and type(command) is str:
        own["argv"] = [command]
    paths = [item for key in _PATH_KEYS if type(item := tool_input.get(key)) is str]
    if paths:
        own["paths"] = paths
    return own


def _tool_result(value: dict[str, Any], answer: str, ok: bool) -> dict[str, Any] | None:
    own = _call(value)
    if own is None or answer not in value or (not ok and type(value[answer]) is not str):
        return None
    own["tool_response"] = value[answer]
    own["ok"] = ok
    duration = value.get("duration_ms")
    if type(duration) in (int, float):
        own["duration_ms"] = duration
    return own
