"""Writes `<state>/bin/nd7-exec`, `nd7-shell` and `nd7-record`: the client, compiled, where no session can write.

The file starts `python -IS`, which reads no environment, no site-packages and no user's directory, and holds the client
as marshalled code: parsing 250 lines of source took a third of the client's own time.  Code of another Python's
version cannot be loaded, so beside it lies the source, used when the interpreter has been upgraded since.
"""

from __future__ import annotations

import marshal
import os
import sys
from dataclasses import dataclass
from pathlib import Path

from nd7exec import client

LONGEST_SHEBANG = 120  # BINPRM_BUF_SIZE is 256 since Linux 5.1, 128 before, and macOS cuts at 512


@dataclass(frozen=True, slots=True)
class Launchers:
    """Absolute paths of the programs.

    Attributes:
        execute: `nd7-exec -c COMMAND`.
        prefix: the same with COMMAND as the only argument, for agents that put one program's name before a command.
        record: the hook.
    """

    execute: str
    prefix: str
    record: str


def interpreter() -> str:
    """The Python to run the client with: the base one, which a virtual environment only points to.

    A link inside a project's `.venv` could be turned elsewhere by the session; the file it names cannot.
    """
    return os.path.realpath(getattr(sys, "_base_executable", "") or sys.executable)


def write(state: str) -> Launchers:
    """Write the launchers and the source below `state`, each only if it differs.  Raises OSError."""
    directory = os.path.join(state, "bin")
    os.makedirs(os.path.dirname(state), exist_ok=True)
    for path in (state, directory):  # one by one: makedirs gives its mode to the last only
        os.makedirs(path, mode=0o700, exist_ok=True)
    os.chmod(directory, 0o700)
    found = Launchers(*(os.path.join(directory, name) for name in ("nd7-exec", "nd7-shell", "nd7-record")))
    source = Path(client.__file__).read_bytes()
    copy = os.path.join(directory, "client.py")
    _put(copy, source, 0o600)
    code = marshal.dumps(compile(source, "nd7-exec", "exec", dont_inherit=True, optimize=2))
    for path, call in (
        (found.execute, f"g['launched'](sys.argv[1:], {found.record!a})"),
        (found.prefix, f"g['launched'](['-c', *sys.argv[1:]], {found.record!a})"),
        (found.record, "g['record']()"),
    ):
        _put(path, _text(code, copy, call, path).encode("ascii"), 0o700)
    return found


def _text(code: bytes, copy: str, call: str, path: str) -> str:
    python = interpreter()
    # A path with a space, or a long one, is cut by the kernel's #! line; sh takes any.
    plain = len(python) < LONGEST_SHEBANG and not any(c.isspace() for c in python)
    first = f"#!{python} -IS" if plain and python.isascii() else _by_shell(python)
    return (
        f"{first}\nimport sys\ng = {{'__name__': 'nd7_client'}}\n"
        f"if sys.hexversion == {sys.hexversion}:\n"
        f"    import marshal\n    exec(marshal.loads({code!r}), g)\n"
        f"else:\n    exec(compile(open({copy!a}, 'rb').read(), 'nd7-exec', 'exec'), g)\n"
        f"{call}\n"
    )


def _by_shell(python: str) -> str:
    # Both languages read this: for sh ''' is an empty and a quoted string, for Python a string that is thrown away.
    quoted = "".join(c if c.isascii() and c.isprintable() and c != "'" else "" for c in python)
    if quoted != python:
        raise OSError(f"the interpreter's path holds characters that no #! line can carry: {python!a}")
    return f"#!/bin/sh\n'''exec' '{python}' -IS \"$0\" \"$@\"\n' '''"


def _put(path: str, data: bytes, mode: int) -> None:
    try:
        with os.fdopen(os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC), "rb") as file:
            if file.read() == data and os.fstat(file.fileno()).st_mode & 0o777 == mode:
                return
    except OSError:
        pass
    temporary = f"{path}.{os.getpid()}"
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
    with os.fdopen(os.open(temporary, flags, 0o600), "wb", buffering=0) as file:
        try:
            view = memoryview(data)
            while view:
                view = view[file.write(view) or 0 :]
            os.fchmod(file.fileno(), mode)
            os.fsync(file.fileno())
            os.rename(temporary, path)
        except OSError:
            os.unlink(temporary)  # a full disk would keep it, and its name is needed again
            raise
