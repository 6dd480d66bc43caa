"""Messages between a session's processes: whole, in order, with their descriptors, and never waiting."""

from __future__ import annotations

import os

import pytest

from nd7exec import wire


def links() -> tuple[wire.Link, wire.Link]:
    ours, theirs = wire.pair()
    return wire.Link(ours), wire.Link(theirs)


def test_messages_arrive_whole_and_in_order():
    left, right = links()
    left.send(b"A", b"one")
    left.send(b"B")
    first, second = right.receive(), right.receive()
    assert (first, second) == ((b"A", b"one", []), (b"B", b"", []))
    assert right.receive() is None
    assert not right.closed


def test_a_descriptor_arrives_close_on_exec_and_the_senders_stays_its_own(tmp_path):
    left, right = links()
    with (tmp_path / "f").open("w+") as file:
        left.send(b"F", b"", [file.fileno()])
        message = right.receive()
        assert message is not None
        (fd,) = message.fds
        assert os.path.sameopenfile(fd, file.fileno())
        assert not os.get_inheritable(fd)
        os.close(fd)
        file.write("still open")


def test_what_does_not_fit_waits_and_keeps_its_order():
    left, right = links()
    body = bytes(60_000)
    for number in range(40):
        left.send(b"N", number.to_bytes(2, "big") + body)
    assert left.pending
    seen = []
    while len(seen) < 40:
        if message := right.receive():
            seen.append(int.from_bytes(message.body[:2], "big"))
        left.flush()
    assert seen == list(range(40))
    assert not left.pending


def test_the_end_of_the_other_side_is_told_once_and_sending_to_it_is_no_error(tmp_path):
    left, right = links()
    right.send(b"Z", b"last word")
    right.close()
    message = left.receive()
    assert message is not None and message.body == b"last word"
    assert left.receive() is None and left.closed
    left.send(b"A", b"to nobody", [0])
    assert not left.pending


def test_what_cannot_be_a_message_is_our_own_error():
    left, _ = links()
    with pytest.raises(ValueError):
        left.send(b"A", bytes(wire.LIMIT + 1))
    with pytest.raises(ValueError):
        left.send(b"AB")


def test_write_all_says_whether_the_reader_is_there():
    reader, writer = os.pipe()
    assert wire.write_all(writer, b"text")
    assert os.read(reader, 10) == b"text"
    os.close(reader)
    assert not wire.write_all(writer, b"text")
    os.close(writer)
