"""Where nd7 keeps its things, and what "the same path" means.

This is the only module that looks up the home directory and XDG_STATE_HOME.  Everything else takes
them as arguments, so that no test and no confined process can point nd7 somewhere by accident.
"""

from __future__ import annotations

import os
import pwd
from collections.abc import Mapping
from dataclasses import dataclass, replace

from nd7core.errors import Nd7Error


class PathError(Nd7Error):
    """A path that cannot be one: empty, with a NUL, or with characters that no file name can hold."""


@dataclass(frozen=True, slots=True)
class Places:
    """The directories of one person's nd7.

    Attributes:
        home: from the password database, never from $HOME: the environment belongs to the caller,
            and the caller may be what is being confined.
        nd7: `~/.nd7`, which no confined process may read or write.
        sessions: `~/.nd7/sessions`, one directory a live session, named by the pid of `nd7 run`.
        state: `$XDG_STATE_HOME/nd7`, the audit logs; unwritable for every confined process.
    """

    home: str
    nd7: str
    sessions: str
    state: str


def places_of(home: str, *, state_home: str = "") -> Places:
    """The places below a given home.  `state_home` is honoured only where it is absolute (XDG base directories)."""
    nd7 = os.path.join(home, ".nd7")
    base = state_home if os.path.isabs(state_home) else os.path.join(home, ".local", "state")
    return Places(home, nd7, os.path.join(nd7, "sessions"), os.path.join(base, "nd7"))


def places(environ: Mapping[str, str] = os.environ) -> Places:
    """The places of the person who runs this.

    Raises:
        PathError: when the password database does not know this user id or its home is no absolute path.
    """
    try:
        home = pwd.getpwuid(os.getuid()).pw_dir
    except KeyError:
        raise PathError(
            f"user id {os.getuid()} is not in the password database",
            hint="nd7 takes the home directory from there and never from $HOME",
        ) from None
    if not os.path.isabs(home):
        raise PathError("the home directory in the password database is not an absolute path")
    found = places_of(os.path.realpath(home), state_home=environ.get("XDG_STATE_HOME", ""))
    # Canonical: the policy guards the state directory by this name.
    return replace(found, state=os.path.realpath(found.state))


def canonical(path: str, *, cwd: str | None = None) -> str:
    """The one spelling of a path that comparisons may use: absolute, every symlink resolved.

    What does not exist yet keeps the name as typed behind its real parent, so that a path can be
    granted before it is made.

    Raises:
        PathError: for a path that no file can have (empty, NUL, half a surrogate pair).
    """
    if not path:
        raise PathError("the path is empty")
    try:
        if "\0" in path:
            raise PathError("the path holds a NUL")
        os.fsencode(path)
        full = path if cwd is None else os.path.join(cwd, path)
        return os.path.realpath(full)
    except UnicodeEncodeError:
        raise PathError("the path holds characters that no file name can have") from None
    except OSError as error:
        # A working directory that is gone: a relative path means nothing there.
        raise PathError(f"the path cannot be resolved: {error.strerror}") from None


def links_on(path: str) -> list[str]:
    """Where the links lie that an absolute path leads through, its own name included; each place canonical."""
    found, at = [], "/"
    for part in filter(None, path.split("/")):
        at = os.path.join(os.path.realpath(at), part)
        if os.path.islink(at):
            found.append(at)
    return found


def within(path: str, root: str) -> bool:
    """Whether canonical `path` is `root` or lies below it.  `/a/bc` does not lie below `/a/b`."""
    return path == root or root == "/" or path.startswith(root + "/")
