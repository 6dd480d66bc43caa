"""nd7's own code and the Python that runs it, which no session may change: it would run unconfined the next time.

Where they lie in what a session may write from its start, there is no session.  Where a grant may come to hold them (a
forced one of the home directory, with nd7 in `~/.local`), they are protected in the session's record like the agent's
settings, so that the grant opens everything but them.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Mapping, Sequence

import nd7exec
from nd7core.errors import Nd7Error
from nd7core.paths import links_on, within

PACKAGES = ("nd7core", "nd7exec", "nd7tui")
INSTALL = "install nd7 outside of it (`pipx install .`, `uv tool install .`), or move TMPDIR or the project"
SEARCH = "unset PYTHONPATH, or start nd7 by its own command, which does not look for modules where you are"


def code() -> dict[str, str]:
    """What of ours must not be changed: absolute path as Python names it -> what it is."""
    found: dict[str, str] = {}

    def add(path: str | None, what: str) -> None:
        if path:
            found.setdefault(os.path.abspath(path), what)

    parent = os.path.dirname(os.path.dirname(os.path.abspath(nd7exec.__file__)))
    for name in PACKAGES:
        add(os.path.join(parent, name), "nd7's own code")
    add(sys.executable, "the Python that runs nd7")
    if sys.prefix != sys.base_prefix:
        add(sys.prefix, "nd7's virtual environment")
    if sys.base_prefix not in ("/usr", "/usr/local"):  # there, what matters of it is on the search path
        add(sys.base_prefix, "nd7's Python installation")
    return found


def search_path() -> list[str]:
    """Where nd7's Python looks for modules, and for their compiled form."""
    found = [os.path.abspath(path) for path in sys.path]  # "" is the working directory
    if sys.pycache_prefix:
        found.append(os.path.abspath(sys.pycache_prefix))
    site = sys.modules.get("site")
    if getattr(site, "ENABLE_USER_SITE", None) and (own := getattr(site, "USER_SITE", None)):
        found.append(own)  # read at the next start if it comes to exist, `usercustomize` in it first
    return list(dict.fromkeys(found))


def check(writable: Iterable[str]) -> None:
    """Refuse where the session could change what confines the next one.

    Args:
        writable: canonical roots of what it may write from its start.

    Raises:
        Nd7Error: which part of ours lies where, and what to do.
    """
    roots = list(writable)
    for path, what in code().items():
        for root in roots:
            # By its name, too: a link that lies in the project can be turned elsewhere.
            if within(path, root) or within(os.path.realpath(path), root):
                _refuse(what, path, root, INSTALL)
            if what == "nd7's own code" and within(root, os.path.realpath(path)):
                _refuse("the project or another writable place", root, path, INSTALL)
    for path in search_path():
        for root in roots:
            if within(path, root) or within(os.path.realpath(path), root):
                _refuse("a place that nd7's Python takes modules from", path, root, SEARCH)


def _refuse(what: str, path: str, root: str, hint: str) -> None:
    raise Nd7Error(
        f"{what} ({path}) lies in {root}, which the session may write: it could change what confines it",
        hint=hint,
        exit_code=126,
    )


def settings(environ: Mapping[str, str], home: str) -> tuple[str, ...]:
    """Where nd7's own settings are looked for: which key grants stands there, so no session may write them.

    The usual place beside the one that XDG_CONFIG_HOME names: the next dashboard may be started without that.
    """
    named = environ.get("XDG_CONFIG_HOME", "")
    tops = [os.path.join(home, ".config"), *([named] if os.path.isabs(named) else [])]
    return tuple(dict.fromkeys(os.path.normpath(os.path.join(top, "nd7")) for top in tops))


def keep_settings(names: Iterable[str], writable: Sequence[str]) -> None:
    """See that settings in a writable place can be kept: on Linux, what is not there cannot be kept from being made.

    Args:
        names: as `settings` gives them.
        writable: canonical roots of what the session may write, its grants included.

    Raises:
        Nd7Error: they cannot be kept.
    """
    for name in names:
        real = os.path.realpath(name)
        for root in writable:
            if within(root, real):
                raise Nd7Error(f"{root} lies in {real}, nd7's own settings, which no session may write", exit_code=126)
            for link in links_on(name):
                if within(link, root):
                    raise Nd7Error(
                        f"{link} is a link to nd7's own settings, which the session could turn: it may write {root}",
                        hint="put what it leads to in its place, or work in another folder",
                        exit_code=126,
                    )
            if within(real, root):
                try:
                    os.makedirs(real, 0o700, exist_ok=True)
                except OSError as error:
                    raise Nd7Error(
                        f"{real}, nd7's own settings, cannot be made, and must be there to be kept: {error.strerror}",
                        exit_code=126,
                    ) from None


def protected(writable: Sequence[str]) -> tuple[str, ...]:
    """What stays unwritable whatever is granted, canonical and each once, outermost only.

    A directory of ours that holds a writable root cannot be protected as a whole (a project inside an editable
    checkout of nd7); its packages are protected by themselves.
    """
    every = {os.path.realpath(path) for path in (*code(), *search_path())}
    kept = {path for path in every if path != "/" and not any(within(root, path) for root in writable)}
    return tuple(sorted(path for path in kept if not any(path != other and within(path, other) for other in kept)))
