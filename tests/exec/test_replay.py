"""The bytes that bring a fresh terminal to a session's screen, fed in pieces of any size."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from nd7exec.replay import Replay


def fed(*pieces: bytes, most: int = 512 * 1024) -> Replay:
    replay = Replay(most)
    for piece in pieces:
        replay.feed(piece)
    return replay


def test_modes_that_were_set_long_ago_are_set_again():
    replay = fed(b"\x1b[?1049h\x1b[?1000;1006h\x1b[?2004h\x1b[?25l\x1b[>1u\x1b[>4;2m\x1b=", b"x" * 5000, most=100)
    screen = replay.enter()
    for mode in (b"\x1b[?1049h", b"\x1b[?1000h", b"\x1b[?1006h", b"\x1b[?2004h", b"\x1b[?25l", b"\x1b[>1u"):
        assert mode in screen
    assert screen.endswith(b"\x1b[>4;2m\x1b=")
    assert replay.alternate


def test_what_was_switched_off_again_is_not_there():
    replay = fed(b"\x1b[?1049h\x1b[?2004h\x1b[>1u", b"\x1b[<u\x1b[?2004l\x1b[?1049l")
    assert not replay.alternate
    assert replay.leave() == b"\x1b[0m"


def test_leaving_undoes_what_is_on_and_ends_in_the_ordinary_screen():
    leave = fed(b"\x1b[?1049h\x1b[?1003h\x1b[?25l\x1b[>7u\x1b[>1u").leave()
    assert leave == b"\x1b[0m\x1b[<2u\x1b[?1003l\x1b[?25h\x1b[?1049l"


def test_the_tail_starts_where_the_screen_was_cleared_last():
    assert fed(b"old\x1b[2Jnew").tail() == b"\x1b[2Jnew"
    assert fed(b"old\x1b[", b"2Jnew").tail() == b"\x1b[2Jnew"
    assert fed(b"one\ntwo\nthree", most=8).tail() == b"three"


def test_it_knows_whether_the_tail_is_the_whole_screen():
    assert fed(b"one\ntwo\n").whole
    assert not fed(b"one\ntwo\nthree", most=8).whole
    assert fed(b"x" * 50 + b"\x1b[2Jnew", most=20).whole


def test_a_reset_forgets_everything():
    replay = fed(b"\x1b[?1049h\x1b[?1000h\x1b[>1u\x1bc")
    assert replay.leave() == b"\x1b[0m"


def test_memory_stays_flat():
    replay = fed(most=1000)
    for _ in range(1000):
        replay.feed(b"y" * 500 + b"\n")
    assert len(replay.enter()) < 1100


def test_a_session_cannot_fill_the_memory_with_modes():
    replay = fed(b"".join(b"\x1b[?%dh" % number for number in range(5000)), b"\x1b[?%sh" % (b"9" * 50))
    assert len(replay.leave()) < 4000
    replay.feed(b"\x1b[?5l")
    assert b"\x1b[?5l" not in replay.leave()


MODES = st.sampled_from(
    [b"\x1b[?1049h", b"\x1b[?1049l", b"\x1b[?1000;1006h", b"\x1b[?25l", b"\x1b[>5u", b"\x1b[<u", b"a\x1b"]
)


@given(st.lists(MODES, max_size=12), st.lists(st.integers(1, 7), max_size=60))
def test_it_does_not_matter_how_the_output_is_cut(parts: list[bytes], cuts: list[int]):
    whole = b"".join(parts)
    pieces, rest = [], whole
    for cut in cuts:
        pieces.append(rest[:cut])
        rest = rest[cut:]
    cut_up, at_once = fed(*pieces, rest), fed(whole)
    assert cut_up.leave() == at_once.leave()
    assert cut_up.enter() == at_once.enter()
