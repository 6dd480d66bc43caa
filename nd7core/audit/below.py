"""Opening files that the confined side can put links, pipes and devices in the way of."""

from __future__ import annotations

import errno
import os
import stat

_DIRECTORY = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_FILE = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC


def parts_below(root: str, path: str) -> list[str] | None:
    """The components of an absolute path below an absolute directory, or None where it is not below it.

    By the text alone: a path with `..`, `.` or doubled slashes is not below anything.
    """
    prefix = root.rstrip("/") + "/"
    if not path.startswith(prefix) or "\0" in path or len(path) > 4096:
        return None
    parts = path[len(prefix) :].split("/")
    return None if any(part in ("", ".", "..") for part in parts) else parts


def open_below(root: str, parts: list[str]) -> int:
    """A descriptor, for reading, of the regular file of ours at `root`/`parts`.

    `root` is walked too, from `/`, so it must be canonical: no component may be a symbolic link.
    Never blocks (O_NONBLOCK).  Raises OSError: ELOOP or ENOTDIR for a link, EINVAL for anything but a regular
    file of this user with one name.
    """
    directory = os.open("/", _DIRECTORY)
    try:
        for part in [*(part for part in root.split("/") if part), *parts[:-1]]:
            inner = os.open(part, _DIRECTORY, dir_fd=directory)
            os.close(directory)
            directory = inner
        file = os.open(parts[-1], _FILE, dir_fd=directory)
    finally:
        os.close(directory)
    status = os.fstat(file)
    if not stat.S_ISREG(status.st_mode) or status.st_uid != os.geteuid() or status.st_nlink > 1:
        # A second name could be one of a file that the confined side may not read.
        os.close(file)
        raise OSError(errno.EINVAL, "not a regular file of its own")
    return file
