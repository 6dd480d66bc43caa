"""The supervisor's own capabilities, put aside while it acts for a session."""

from __future__ import annotations

import ctypes
import struct
from types import TracebackType
from typing import Final

from nd7exec.linux import syscalls

_VERSION: Final = 0x20080522
_WORDS: Final = struct.Struct("<6I")  # effective, permitted, inheritable, twice: low words, high words


class PutAside:
    """A context in which this thread has no effective capability; what it is permitted comes back behind it.

    A supervisor that is root would otherwise lend a session what the session gave away: a mode of a file of
    another's, a mark on a packet, an address on an interface.  Reading a session's memory and descriptors
    does not need them: the owner of a user namespace has them over it, and a child's equal uid is enough.
    """

    def __init__(self) -> None:
        self._before = _get()
        words = _WORDS.unpack(self._before)
        self._without = _WORDS.pack(0, words[1], words[2], 0, words[4], words[5])
        self._needed = bool(words[0] or words[3])

    def __enter__(self) -> None:
        if self._needed:
            _set(self._without)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._needed:
            _set(self._before)


def _get() -> bytes:
    data = ctypes.create_string_buffer(_WORDS.size)
    syscalls.call("capget", struct.pack("<II", _VERSION, 0), data)
    return data.raw


def _set(data: bytes) -> None:
    syscalls.call("capset", struct.pack("<II", _VERSION, 0), data)
