"""Ways into a terminal: somebody else's, or keys into one's own."""

from __future__ import annotations

import errno
import fcntl
import os
import struct
from typing import Any

from confined import Targets
from kit import attack, refused


def _own_terminal() -> int:
    """The slave of a new pty as the controlling terminal; where none can be made, any file will do."""
    try:
        _, slave = os.openpty()
    except OSError:
        return os.open("/dev/null", os.O_RDWR)
    fcntl.ioctl(slave, 0x540E, 0)
    return slave


@attack("terminal")
def push_a_key(t: Targets) -> Any:
    return fcntl.ioctl(_own_terminal(), 0x5412, b"x")


@attack("terminal")
def push_a_key_with_rubbish_above(t: Targets) -> Any:
    from kit import call

    return call("ioctl", _own_terminal(), 0x1_0000_5412, b"x")


@attack("terminal")
def console_ioctl(t: Targets) -> Any:
    return fcntl.ioctl(_own_terminal(), 0x541C, b"\x02")


@attack("terminal")
def line_discipline(t: Targets) -> Any:
    return fcntl.ioctl(_own_terminal(), 0x5423, struct.pack("i", 0))


@attack("terminal")
def console_output(t: Targets) -> Any:
    return fcntl.ioctl(_own_terminal(), 0x541D)


@attack("terminal")
def hang_up(t: Targets) -> Any:
    return fcntl.ioctl(_own_terminal(), 0x5437)


@attack("terminal")
def hang_up_by_vhangup(t: Targets) -> Any:
    from kit import call

    return call("vhangup")


@attack("terminal", errors=(errno.ENOENT,))
def read_another_terminal(t: Targets) -> Any:
    fd = os.open(t.other_terminal, os.O_RDONLY | os.O_NOCTTY | os.O_NONBLOCK)
    return _is_the_strangers(fd, t)


@attack("terminal", errors=(errno.ENOENT,))
def write_to_another_terminal(t: Targets) -> Any:
    fd = os.open(t.other_terminal, os.O_WRONLY | os.O_NOCTTY)
    return _is_the_strangers(fd, t)


def _is_the_strangers(fd: int, t: Targets) -> Any:
    """A private devpts may have a terminal of the same number, which is the session's own."""
    if os.fstat(fd).st_dev != t.other_terminals:
        raise refused()
    return fd


@attack("terminal")
def terminal_by_the_strangers_descriptors(t: Targets) -> Any:
    return os.open(f"/proc/{t.stranger}/fd/0", os.O_RDWR | os.O_NOCTTY)


@attack("terminal", errors=(errno.ENXIO,))
def controlling_terminal_of_the_supervisor(t: Targets) -> Any:
    return os.open("/dev/tty", os.O_RDWR)


@attack("terminal")
def system_console(t: Targets) -> Any:
    for name in ("/dev/console", "/dev/tty0", "/dev/tty1", "/dev/vcs", "/dev/vcsa1"):
        try:
            return os.open(name, os.O_RDWR | os.O_NOCTTY)
        except FileNotFoundError:
            continue
    raise refused()


@attack("terminal")
def input_devices(t: Targets) -> Any:
    for name in ("/dev/uinput", "/dev/input/event0", "/dev/input/mice"):
        try:
            return os.open(name, os.O_RDWR)
        except FileNotFoundError:
            continue
    raise refused()
