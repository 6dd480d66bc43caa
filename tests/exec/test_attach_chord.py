"""Ctrl+\\ then d, in every way that a terminal sends it, and nothing else."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nd7exec.attach import Chord
from nd7exec.hold import Frames, frame

PREFIXES = [b"\x1c", b"\x1b[92;5u", b"\x1b[92;5:1u", b"\x1b[27;5;92~"]
DETACHES = [b"d", b"D", b"\x1b[100u", b"\x1b[100;1u", b"\x1b[100;1:1u"]


@pytest.mark.parametrize("prefix", PREFIXES)
@pytest.mark.parametrize("key", DETACHES)
def test_detaches(prefix: bytes, key: bytes):
    assert Chord().feed(b"ab" + prefix + key) == (b"ab", True)
    chord = Chord()
    assert chord.feed(b"ab" + prefix) == (b"ab", False)
    assert chord.feed(key) == (b"", True)


def test_a_key_released_in_between_does_not_matter():
    chord = Chord()
    assert chord.feed(b"\x1b[92;5u\x1b[92;5:3u") == (b"", False)
    assert chord.feed(b"\x1b[57442;1:3u\x1b[100u") == (b"", True)


def test_twice_is_once_for_the_session_and_another_key_passes_both():
    chord = Chord()
    assert chord.feed(b"\x1c\x1c") == (b"\x1c", False)
    assert chord.feed(b"d") == (b"d", False)
    assert chord.feed(b"\x1cx") == (b"\x1cx", False)
    assert chord.feed(b"d") == (b"d", False)


@given(st.binary(max_size=200))
def test_without_the_prefix_every_byte_passes(data: bytes):
    data = data.replace(b"\x1c", b"").replace(b"92;5", b"").replace(b"5;92", b"")
    assert Chord().feed(data) == (data, False)


@given(st.lists(st.tuples(st.sampled_from([b"O", b"I", b"X"]), st.binary(max_size=50))), st.integers(1, 9))
def test_messages_survive_any_cut(messages: list[tuple[bytes, bytes]], step: int):
    stream = b"".join(frame(kind, body) for kind, body in messages)
    frames = Frames()
    found = [message for at in range(0, len(stream), step) for message in frames.feed(stream[at : at + step])]
    assert found == messages


def test_a_message_that_is_too_long_is_refused():
    with pytest.raises(ValueError):
        Frames().feed(b"O\xff\xff\xff\x7f")
