"""Seatbelt's calls, against a stand-in for libsandbox: the real one was not at hand."""

from __future__ import annotations

import ctypes
import os
import sys
from typing import Any

import pytest

from nd7exec import seatbelt


class Sandbox:
    """A libsandbox that keeps what it is given, and refuses a profile without a version."""

    def __init__(self) -> None:
        self.profile = b""
        self.freed = False
        self.pid = 0

    def sandbox_init_with_parameters(self, profile: Any, flags: Any, parameters: Any, error: Any) -> int:
        assert flags.value == 0 and parameters[0] is None
        self.profile = profile.value
        if not self.profile.startswith(b"(version 1)"):
            error._obj.value = b"line 1: unsupported version\n"
            return -1
        return 0

    def sandbox_free_error(self, error: ctypes.c_char_p) -> None:
        self.freed = True

    def sandbox_check(self, pid: Any, operation: Any, kind: Any) -> int:
        self.pid = pid.value
        return 1 if self.profile else 0


def test_a_profile_is_handed_over_whole():
    sandbox = Sandbox()
    assert not seatbelt.confined(sandbox)
    seatbelt.apply(b"(version 1)\n(deny default)\n", sandbox)
    assert sandbox.profile == b"(version 1)\n(deny default)\n"
    assert seatbelt.confined(sandbox) and sandbox.pid == os.getpid()


def test_a_refusal_has_the_librarys_words_and_nothing_is_leaked():
    sandbox = Sandbox()
    with pytest.raises(seatbelt.SeatbeltError, match="apply session policy: line 1: unsupported version"):
        seatbelt.apply(b"(deny default)", sandbox)
    assert sandbox.freed


def test_a_nul_cannot_hide_the_rest():
    with pytest.raises(seatbelt.SeatbeltError, match="NUL"):
        seatbelt.apply(b"(version 1)\0(deny default)", Sandbox())


def test_no_seatbelt_is_a_sentence():
    if sys.platform != "darwin":
        with pytest.raises(seatbelt.SeatbeltError, match="no seatbelt on this system"):
            seatbelt.apply(b"(version 1)")
