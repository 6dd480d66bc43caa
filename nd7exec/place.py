"""Which directory a session's project is, and whether somebody else has led the person to it.

All of the project becomes writable, so a link that a session (or a repository) put in the way of a folder must not
choose it: `cd app; nd7 run claude`, with `app` turned to `~/.config` by the session in the folder above.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Mapping

from nd7core import sessions
from nd7core.errors import Nd7Error
from nd7core.paths import Places, within

_MOST_LINKS = 40  # as many as the kernel follows


def project_of(named: str, cwd: str, environ: Mapping[str, str], places: Places) -> str:
    """The canonical path of a session's project.

    Args:
        named: as typed behind --project, or "": the working directory.
        cwd: the working directory, canonical.
        environ: its PWD is the name that the shell has for the working directory.

    Raises:
        Nd7Error: a link leads there that a session can have made.
    """
    # Not where a program starts others elsewhere and leaves PWD as it was.
    logical = environ.get("PWD", "")
    base = logical if logical.startswith("/") and resolve(logical)[0] == cwd else cwd
    found, links = resolve(os.path.join(base, named))
    for link in links:
        if why := _others(link, found, places):
            raise Nd7Error(
                f"the project would be {found}, where the link {link} leads, and {why}",
                hint=f"if you mean it, name it: --project {found}",
                exit_code=126,
            )
    return found


def resolve(path: str) -> tuple[str, list[str]]:
    """An absolute path's canonical form, and every link on the way, from one and the same walk.

    Two walks could find two things: whoever can write there may turn a link meanwhile.  What is missing is kept as
    it stands.
    """
    at, links, left = "/", list[str](), path.split("/")[::-1]
    while left:
        part = left.pop()
        if part in ("", "."):
            continue
        if part == "..":
            at = os.path.dirname(at)
            continue
        here = os.path.join(at, part)
        try:
            target = os.readlink(here)
        except OSError:  # no link, or nothing there
            at = here
            continue
        links.append(here)
        if len(links) > _MOST_LINKS:
            raise Nd7Error(f"{path}: too many links", exit_code=126)
        left += target.split("/")[::-1]
        if target.startswith("/"):
            at = "/"
    return at, links


def _others(link: str, target: str, places: Places) -> str:
    """Who but the person may have made a link, or ""."""
    holder = os.path.dirname(link)
    for session in sessions.live(places):
        record = session.record
        if record and session.alive:
            roots = (record.project, record.tmp, *record.writable, *(grant.path for grant in record.grants))
            if root := next((root for root in roots if within(holder, root)), ""):
                return f"session {session.pid} may write {root}"
    try:
        if os.stat(holder).st_mode & stat.S_IWOTH:
            return f"everyone may write {holder}"
    except OSError:
        return ""
    while holder not in ("/", places.home):
        if os.path.lexists(os.path.join(holder, ".git")):
            return "" if within(target, holder) else f"it came with the repository {holder}, and leads out of it"
        holder = os.path.dirname(holder)
    return ""
