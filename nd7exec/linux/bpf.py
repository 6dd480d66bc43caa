"""Classic BPF as seccomp and socket filters take it: assembled, encoded, run here for a check, installed.

Sources: `include/uapi/linux/{filter,seccomp,audit}.h`, Documentation/userspace-api/seccomp_filter.rst.
"""

from __future__ import annotations

import ctypes
import errno
import os
import struct
from collections.abc import Sequence
from typing import Final, NamedTuple

from nd7exec.linux import syscalls

ALLOW: Final = 0x7FFF0000
NOTIFY: Final = 0x7FC00000
KILL: Final = 0x80000000

ARCHITECTURE: Final = {"x86_64": 0xC000003E, "aarch64": 0xC00000B7}

LD, JEQ, JGT, JSET, AND, RET = 0x20, 0x15, 0x25, 0x45, 0x54, 0x06
NR, ARCH = 0, 4


class Instruction(NamedTuple):
    """struct sock_filter."""

    code: int
    jump_true: int
    jump_false: int
    k: int


Block = list[Instruction]


def refuse(error: int) -> int:
    """The filter's return value for failing with an errno."""
    return 0x00050000 | error


def ret(value: int) -> Block:
    """End with an action."""
    return [Instruction(RET, 0, 0, value)]


def load(offset: int) -> Block:
    """Load a word of struct seccomp_data."""
    return [Instruction(LD, 0, 0, offset)]


def argument(index: int, *, high: bool = False) -> Block:
    """Load the low (or high) word of an argument; both machines are little endian.

    The kernel takes only the low word of an int, so looking at both would let a value with rubbish
    above it through (CVE-2019-10063's mistake).
    """
    return load(16 + 8 * index + (4 if high else 0))


def masked(mask: int) -> Block:
    """Keep only these bits of what was loaded."""
    return [Instruction(AND, 0, 0, mask)]


def test(code: int, value: int, then: Block) -> Block:
    """Run `then`, which must end in a return, where the accumulator passes; else go on behind it."""
    if len(then) > 255:
        raise ValueError("a block of a seccomp filter is longer than a jump")
    return [Instruction(code, 0, len(then), value), *then]


def equal(value: int, then: Block) -> Block:
    """`test` for what was loaded being `value`."""
    return test(JEQ, value, then)


def any_of(values: Sequence[int], then: Block) -> Block:
    """`equal`, for each of several values."""
    program: Block = []
    for value in values:
        program += equal(value, then)
    return program


def encode(code: Block) -> bytes:
    """The program as the kernel takes it."""
    return b"".join(struct.pack("<HBBI", *instruction) for instruction in code)


def interpret(code: Block, machine: str, nr: int, arguments: Sequence[int], *, arch: int | None = None) -> int:
    """What the kernel would return for a system call: an interpreter of the few instructions used here.

    It is how the arm64 program is checked on an x86-64 machine, and the only use of this function.
    """
    words = (*arguments, *(0,) * (6 - len(arguments)))
    where = ARCHITECTURE[machine] if arch is None else arch
    data = struct.pack("<IIQ6Q", nr & 0xFFFFFFFF, where, 0, *(word & (1 << 64) - 1 for word in words))
    accumulator = at = 0
    while True:
        code_, jump_true, jump_false, k = code[at]
        at += 1
        if code_ == RET:
            return k
        if code_ == LD:
            accumulator = struct.unpack_from("<I", data, k)[0]
        elif code_ == AND:
            accumulator &= k
        else:
            taken = {JEQ: accumulator == k, JGT: accumulator > k, JSET: bool(accumulator & k)}[code_]
            at += jump_true if taken else jump_false


_KEEP: Final[dict[int, ctypes.Array[ctypes.c_char]]] = {}


def only_from_port(port: int) -> bytes:
    """A struct sock_fprog for SO_ATTACH_FILTER: datagrams from one source port, and no others.

    A filter on a datagram socket sees the UDP header first (socket(7)): the source port is its first half-word.
    """
    if port not in _KEEP:
        code = [Instruction(0x28, 0, 0, 0), Instruction(JEQ, 0, 1, port), *ret(0xFFFF), *ret(0)]
        _KEEP[port] = ctypes.create_string_buffer(encode(code), 8 * len(code))
    return struct.pack("=H6xQ", len(_KEEP[port]) // 8, ctypes.addressof(_KEEP[port]))


class _Program(ctypes.Structure):
    """struct sock_fprog."""

    _fields_ = [("length", ctypes.c_ushort), ("filter", ctypes.c_void_p)]


_SET_MODE_FILTER: Final = 1
_GET_NOTIF_SIZES: Final = 3
_NEW_LISTENER: Final = 8
_LOG: Final = 2
# Linux 5.19: a caught signal does not tear a notified call that is already being done for the process.
_WAIT_KILLABLE: Final = 32


def install(code: Block) -> int:
    """Install the filter for the calling thread and return the notifier's descriptor (close-on-exec).

    no_new_privs must be set.  Raises OSError: EBUSY where a supervisor outside already listens.
    """
    data = encode(code)
    buffer = ctypes.create_string_buffer(data, len(data))
    fprog = _Program(len(code), ctypes.addressof(buffer))
    pointer = ctypes.addressof(fprog)
    try:
        return syscalls.call("seccomp", _SET_MODE_FILTER, _NEW_LISTENER | _WAIT_KILLABLE, pointer)
    except OSError as error:
        if error.errno != errno.EINVAL:
            raise
    return syscalls.call("seccomp", _SET_MODE_FILTER, _NEW_LISTENER, pointer)


def install_logged(code: Block) -> None:
    """Install one more filter, of whose refusals the kernel makes audit records (1326).  Raises OSError.

    The kernel writes them into its own log as well, whether or not audit is on: only where that was asked for.
    """
    data = encode(code)
    buffer = ctypes.create_string_buffer(data, len(data))
    fprog = _Program(len(code), ctypes.addressof(buffer))
    syscalls.call("seccomp", _SET_MODE_FILTER, _LOG, ctypes.addressof(fprog))


def notify_supported() -> bool:
    """Whether the kernel has seccomp user notification, as far as can be seen without installing a filter."""
    sizes = ctypes.create_string_buffer(6)
    try:
        syscalls.call("seccomp", _GET_NOTIF_SIZES, 0, sizes)
    except OSError:
        return False
    return True


def listener_free() -> bool:
    """Whether a notifier can be had here, that is, no sandbox outside has one; tried in a forked child."""
    child = os.fork()
    if child == 0:
        try:
            syscalls.prctl(syscalls.PR_SET_NO_NEW_PRIVS, 1)
            install(ret(ALLOW))
            os._exit(0)
        finally:
            os._exit(1)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
