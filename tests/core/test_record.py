"""record.json: what another nd7 wrote must survive, what is damaged must not be taken for a policy."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nd7core.record import Grant, Record, RecordError, from_json, to_json

WHOLE = Record(
    project="/p",
    home="/h",
    state="/h/s",
    tmp="/tmp/x",
    exit="/bin/nd7-exec",
    grants=(Grant("/a", "until", 5, "denial 1", 2, 3), Grant("/b\udcff")),
    ssh_agent="/run/agent",
    pid=4,
    name="n",
    program=("claude", "-p", "x\n"),
    agent="claude",
    started=9,
    owner_start="boot:1",
    agent_sessions=("s1",),
    revision=3,
    writable=("/w",),
    writable_files=("/f",),
    protected=("/q",),
    enforced={"files": "landlock"},
    gaps=1,
    canary={"state": "enforcing"},
    hidden=("/k",),
    extra={"future": {"x": [1]}},
)


def test_a_record_comes_back_as_it_was() -> None:
    assert from_json(to_json(WHOLE)) == WHOLE
    data = json.loads(to_json(WHOLE))
    assert data["grants"] == ["/a", "/b\udcff"]
    assert list(data)[:7] == ["project", "home", "state", "tmp", "exit", "grants", "ssh_agent"]


def test_only_what_an_agent_calls_a_session_is_ever_put_on_its_command_line() -> None:
    real = "0a1b2c3d-0000-4000-8000-0123456789ab"
    hostile = ("--dangerously-skip-permissions", "nd7-77-1795960102", "-p", "x", f"{real}\n", real.upper())
    assert replace(WHOLE, agent_sessions=(real, *hostile)).conversation == real
    assert replace(WHOLE, agent_sessions=hostile).conversation == ""


def test_a_record_of_the_macos_nd7_is_enough() -> None:
    record = from_json(
        b'{"project":"/p","home":"/h","state":"/s","tmp":"/t","exit":"/e","grants":["/g"],"ssh_agent":null,"more":1}'
    )
    assert record.grants == (Grant("/g"),)
    assert not record.ours
    assert json.loads(to_json(record))["more"] == 1


def test_the_plain_list_decides_what_is_granted() -> None:
    data = json.loads(to_json(WHOLE))
    data["grants"] = ["/b\udcff", "/new"]
    assert from_json(json.dumps(data).encode()).grants == (Grant("/b\udcff"), Grant("/new"))


@pytest.mark.parametrize(
    "change",
    [
        {"project": 1},
        {"project": "relative"},
        {"project": "/a\0b"},
        {"project": "/\ud800"},
        {"home": None},
        {"grants": "/a"},
        {"grants": [1]},
        {"grants": ["rel"]},
        {"protected": {"a": 1}},
        {"protected": ["x"]},
        {"pid": "4"},
        {"revision": True},
        {"program": [1]},
        {"canary": []},
        {"enforced": {"a": 1}},
        {"ssh_agent": 5},
        {"grant_details": [{"path": "/a", "expires": "soon"}]},
    ],
)
def test_a_known_key_of_another_kind_is_an_error_that_names_it(change: dict[str, Any]) -> None:
    data = json.loads(to_json(WHOLE)) | change
    with pytest.raises(RecordError, match=r"record\.json"):
        from_json(json.dumps(data).encode())


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"[]",
        b"null",
        b"{",
        b"\xff\xfe",
        b"[" * 200_000,
        b'{"project":' + b"9" * 10_000 + b"}",
        b"{}",
        b" " * 5_000_000,
    ],
)
def test_what_is_no_record_is_an_error(data: bytes) -> None:
    with pytest.raises(RecordError):
        from_json(data)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
)


@given(st.dictionaries(st.sampled_from([*json.loads(to_json(WHOLE)), "x"]), JSON))
def test_no_json_makes_it_fail_otherwise(changes: dict[str, Any]) -> None:
    data = json.loads(to_json(WHOLE)) | changes
    try:
        record = from_json(json.dumps(data).encode())
    except RecordError:
        return
    assert from_json(to_json(record)) == record
