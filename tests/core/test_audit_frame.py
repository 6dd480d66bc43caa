"""The frame format, against bytes that were written by hand from the format's description."""

from __future__ import annotations

import json

import pytest
from blake3 import blake3
from hypothesis import given
from hypothesis import strategies as st

from nd7core.audit.frame import Damage, Frame, decode, encode, genesis, stated_hash, true_hash

SESSION = "5b1d-e_x.1"
# Everything of the frame before its hash, typed by hand: key order, no white space, UTF-8, escapes.
BY_HAND = (
    b'{"v":0,"session_id":"5b1d-e_x.1","seq":0,"ts":1700000000000000001,"host":"box","source":"intent:claude-code",'
    b'"kind":"prompt","prev":"' + blake3(b"5b1d-e_x.1").hexdigest().encode() + b'","body":{"cwd":"/h\xc3\xb6me",'
    b'"text":"a\\"b\\\\c\\n\\t\\u0000\\u001b/\xf0\x9f\x98\x80\x7f","empty":{},"list":[1,2.5,true,null]}'
)


def body() -> dict[str, object]:
    return {"cwd": "/höme", "text": 'a"b\\c\n\t\0\x1b/😀\x7f', "empty": {}, "list": [1, 2.5, True, None]}


def made() -> bytes:
    return encode(SESSION, 0, 1700000000000000001, "box", "intent:claude-code", "prompt", genesis(SESSION), body())


def test_the_bytes_are_those_of_the_format() -> None:
    line = made()
    assert line.rpartition(b',"hash"')[0] == BY_HAND
    assert line == BY_HAND + b',"hash":"' + blake3(BY_HAND + b"}").hexdigest().encode() + b'"}'


def test_the_hash_is_over_the_object_closed_after_body() -> None:
    line = made()
    cut = line[: line.rindex(b',"hash"')]
    assert stated_hash(line) == true_hash(line) == blake3(cut + b"}").hexdigest()
    assert json.loads(cut + b"}") == {k: v for k, v in json.loads(line).items() if k != "hash"}


def test_genesis_is_the_hash_of_the_ids_bytes() -> None:
    assert genesis("abc") == blake3(b"abc").hexdigest()


def test_reads_back_what_was_written() -> None:
    frame = decode(made() + b"\n", check=True)
    assert isinstance(frame, Frame)
    assert (frame.v, frame.session_id, frame.seq, frame.ts) == (0, SESSION, 0, 1700000000000000001)
    assert (frame.host, frame.source, frame.kind, frame.prev) == (
        "box",
        "intent:claude-code",
        "prompt",
        genesis(SESSION),
    )
    assert frame.body == body()


def test_half_a_surrogate_becomes_one_replacement_character_and_costs_nothing_else() -> None:
    line = encode(SESSION, 1, 2, "h", "s", "k", "p", {"a": "x\ud800y", "\udfff": "😀"})
    assert '{"a":"x\ufffdy","\ufffd":"😀"}'.encode() in line
    assert isinstance(decode(line, check=True), Frame)


@pytest.mark.parametrize("value", [float("nan"), float("inf"), b"bytes", {1, 2}])
def test_what_json_cannot_hold_is_refused(value: object) -> None:
    with pytest.raises(ValueError):
        encode(SESSION, 1, 2, "h", "s", "k", "p", {"a": value})


@pytest.mark.parametrize("change", [(b'"box"', b'"bux"'), (b"2.5", b"2.6"), (b'"seq":0', b'"seq":1')])
def test_a_changed_byte_is_damage_when_checked(change: tuple[bytes, bytes]) -> None:
    line = made().replace(*change)
    damage = decode(line, check=True)
    assert isinstance(damage, Damage)
    assert damage.kind == "hash"
    assert isinstance(decode(line), Frame)


@pytest.mark.parametrize(
    "line",
    [
        b"",
        b"{",
        b"[]",
        b"null",
        b"{}",
        b'{"v":0}',
        b'{"v":"0","session_id":"a","seq":0,"ts":0,"host":"","source":"","kind":"k","prev":"","body":{},"hash":""}',
        b'{"v":0,"session_id":"a","seq":true,"ts":0,"host":"","source":"","kind":"k","prev":"","body":{},"hash":""}',
        b'{"v":0,"session_id":"a","seq":0,"ts":0,"host":"","source":"","kind":"k","prev":"","body":[],"hash":""}',
        b"\xff\xfe{}",
        "{}".encode("utf-16"),
        b"[" * 100_000,
        b"\0" * 500,
        b"9" * 5000,
    ],
)
def test_a_line_that_is_no_frame_is_damage_and_raises_nothing(line: bytes) -> None:
    assert isinstance(decode(line), Damage)


@given(st.binary(max_size=300))
def test_decode_never_raises(data: bytes) -> None:
    decode(data, check=True)


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=12,
)


@given(st.dictionaries(st.text(), json_values, max_size=5))
def test_any_body_survives_the_round_trip_with_a_hash_that_fits(body: dict[str, object]) -> None:
    line = encode(SESSION, 3, 4, "h", "s", "k", "p", body)
    assert b"\n" not in line
    frame = decode(line, check=True)
    assert isinstance(frame, Frame)
    assert frame.body == body
