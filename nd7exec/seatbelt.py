"""macOS: put this process under a seatbelt profile.  Written from public documentation; never run on a Mac by us.

`sandbox_init_with_parameters` is what `sandbox-exec -p` calls.  It confines the calling process and all its children,
for good: a second call in a confined process fails with EPERM.  So the order is that of Linux, a fresh child for
each command, which takes `policy.sb` as it stands and then becomes the shell.

What is here is the call and the answer to "am I confined already"; `nd7 run` itself is Linux only so far, and says so.
"""

from __future__ import annotations

import ctypes
import ctypes.util
import os
from typing import Any

from nd7core.errors import Nd7Error

LIBRARY = "/usr/lib/libsandbox.1.dylib"


class SeatbeltError(Nd7Error):
    """The profile was refused, or there is no seatbelt; nothing may be run."""

    def __init__(self, message: str) -> None:
        super().__init__(message, exit_code=126)


def library() -> Any:
    """libsandbox, by ctypes.  Raises SeatbeltError where there is none."""
    try:
        return ctypes.CDLL(LIBRARY, use_errno=True)
    except OSError as error:
        raise SeatbeltError(f"no seatbelt on this system: {error}") from None


def apply(profile: bytes, sandbox: Any | None = None) -> None:
    """Confine this process by a profile in SBPL, for good.

    Args:
        profile: the text of `policy.sb`.
        sandbox: the library; tests pass a stand-in.

    Raises:
        SeatbeltError: with the library's own words, which name the line.
    """
    if b"\0" in profile:
        raise SeatbeltError("the profile holds a NUL")  # the library would read the part before it
    found = library() if sandbox is None else sandbox
    message = ctypes.c_char_p()
    # int sandbox_init_with_parameters(const char *profile, uint64_t flags, const char *const params[], char **error)
    parameters = (ctypes.c_char_p * 1)(None)
    failed = found.sandbox_init_with_parameters(
        ctypes.c_char_p(profile), ctypes.c_uint64(0), parameters, ctypes.byref(message)
    )
    if failed:
        said = message.value.decode("utf-8", "replace").strip() if message.value else os.strerror(ctypes.get_errno())
        if message.value:
            found.sandbox_free_error(message)
        raise SeatbeltError(f"apply session policy: {said}")


def confined(sandbox: Any | None = None) -> bool:
    """Whether this process is under a profile already: sandbox_check(pid, NULL, 0) is not 0 under any."""
    found = library() if sandbox is None else sandbox
    return bool(found.sandbox_check(ctypes.c_int(os.getpid()), None, ctypes.c_int(0)))
