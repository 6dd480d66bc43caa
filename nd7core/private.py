"""Files and directories that nobody but their owner may change.

The policy that confines an agent is a file.  Whoever could write it, put a link in its place or own the directory
it lies in would decide what is enforced, so everything is opened without following links, relative
to a directory that was checked, and replaced only as a whole.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import stat
import time
from collections.abc import Iterator

from nd7core.errors import Nd7Error
from nd7core.text import SafeText, safe_path

_TEMPORARY = ".tmp-"


class PrivateError(Nd7Error):
    """A file or directory that is not only its owner's, or cannot be used."""


def _reason(status: os.stat_result) -> str:
    if status.st_uid != os.geteuid():
        return f"belongs to user id {status.st_uid}"
    if status.st_mode & 0o022:
        return f"can be written by others (mode {stat.S_IMODE(status.st_mode):04o})"
    return ""


def _shown(path: str, at: int | None) -> SafeText:
    """A path for an error: whole, where /proc tells of which directory it is a name."""
    if at is not None:
        with contextlib.suppress(OSError):  # another system, or no /proc
            path = os.path.join(os.readlink(f"/proc/self/fd/{at}"), path)
    return safe_path(path)


def open_directory(path: str, *, at: int | None = None, create: bool = False) -> int:
    """Open a directory that only its owner can write; returns a descriptor.

    Args:
        path: absolute, or one name relative to the descriptor `at`.
        create: make it (0700) where it is missing, and close it to others where it is open to be read.

    Raises:
        FileNotFoundError: it is missing and `create` is False.
        PrivateError: a link, no directory, somebody else's, or writable by others.
        PermissionError: it cannot be read, as for every process inside a session.
    """
    if create:
        try:
            os.mkdir(path, 0o700, dir_fd=at)
        except FileExistsError:
            pass
        except FileNotFoundError:
            raise
        except OSError as error:
            raise PrivateError(f"cannot make {_shown(path, at)}: {error.strerror}") from None
    try:
        fd = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=at)
    except (FileNotFoundError, PermissionError):
        raise
    except OSError as error:
        raise PrivateError(f"{_shown(path, at)} is not a directory of its own: {error.strerror}") from None
    status = os.fstat(fd)
    reason = _reason(status)
    if reason:
        os.close(fd)
        raise PrivateError(f"{_shown(path, at)} {reason}", hint="nd7 keeps its policies there and trusts nobody else's")
    if create and status.st_mode & 0o077:
        os.fchmod(fd, 0o700)
    return fd


def read_file(directory: int, name: str, limit: int) -> bytes:
    """The bytes of a regular file of ours.

    Raises:
        FileNotFoundError: it is missing.
        PrivateError: a link, a device or pipe, somebody else's, writable by others, or larger than `limit`.
    """
    try:
        # O_NONBLOCK: a pipe in its place must not make the reader wait for ever.
        fd = os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, dir_fd=directory)
    except FileNotFoundError:
        raise
    except OSError as error:
        raise PrivateError(f"{safe_path(name)}: {error.strerror}") from None
    try:
        status = os.fstat(fd)
        reason = _reason(status) if stat.S_ISREG(status.st_mode) else "is not a regular file"
        if reason:
            raise PrivateError(f"{safe_path(name)} {reason}")
        parts: list[bytes] = []
        size = 0
        while size <= limit:
            part = os.read(fd, min(1 << 20, limit + 1 - size))
            if not part:
                return b"".join(parts)
            parts.append(part)
            size += len(part)
        raise PrivateError(f"{safe_path(name)} is larger than {limit} bytes")
    except OSError as error:
        raise PrivateError(f"{safe_path(name)}: {error.strerror}") from None
    finally:
        os.close(fd)


def write_file(directory: int, name: str, data: bytes) -> None:
    """Replace a file as a whole: a temporary one beside it, 0600, flushed to the disk, renamed.

    A reader sees the old bytes or the new ones; after a crash too.

    Raises:
        PrivateError: with the system's reason; the old file stands then.
    """
    temporary = f"{_TEMPORARY}{os.urandom(8).hex()}"
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
    try:
        fd = os.open(temporary, flags, 0o600, dir_fd=directory)
        try:
            at = 0
            while at < len(data):
                at += os.write(fd, data[at:])
            os.fsync(fd)
            os.close(fd)
            os.replace(temporary, name, src_dir_fd=directory, dst_dir_fd=directory)
        except BaseException:
            os.unlink(temporary, dir_fd=directory)
            raise
        os.fsync(directory)
    except OSError as error:
        raise PrivateError(f"cannot write {safe_path(name)}: {error.strerror}") from None


def sweep_temporaries(directory: int) -> None:
    """Take away what a writer that was killed left behind.  Only under the lock that all writers hold."""
    for name in os.listdir(directory):
        if name.startswith(_TEMPORARY):
            os.unlink(name, dir_fd=directory)


@contextlib.contextmanager
def locked(directory: int, name: str, wait: float) -> Iterator[None]:
    """Hold an exclusive lock on a file in the directory; `wait` is in seconds.

    Raises:
        PrivateError: the file cannot be opened, or another holds it for longer.
    """
    flags = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC
    try:
        fd = os.open(name, flags, 0o600, dir_fd=directory)
    except OSError as error:
        raise PrivateError(f"cannot open the lock {safe_path(name)}: {error.strerror}") from None
    try:
        deadline = time.monotonic() + wait
        while True:
            try:
                fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                if time.monotonic() > deadline:
                    raise PrivateError(f"another nd7 has held the lock {safe_path(name)} for too long") from None
                time.sleep(0.005)
        yield
    finally:
        os.close(fd)
