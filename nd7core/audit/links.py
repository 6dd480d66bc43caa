"""Where links lay when a call failed, for the log: a refusal is judged by what a path leads to, not by its spelling.

Looked up while the session runs; who reads the log later may be on another machine, or the link be gone.  Only what
lies below the session's own writable folders is looked at: one name at a time, no link is followed by the kernel, and
nothing outside of them is touched, where a dead network mount could hold the log's writer up.  Nothing hidden is,
either: the log may be read by the session.  The session makes these links, so what is done for one call is bounded.
"""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Iterator, Sequence
from itertools import islice
from posixpath import normpath
from typing import Any

_REFUSED = re.compile(r"denied|permitted|read-only|\bE(?:ACCES|PERM|ROFS)\b", re.IGNORECASE)
_WORD = re.compile(r"[^\s\"'`;|&<>(){}\[\],=]{1,1024}")
_MOST_TEXT = 64_000  # characters looked at, of an output its end
_MOST_WORDS = 400
_MOST_FOUND = 32
_MOST_STEPS = 64  # names on one way, links followed included
_MOST_LOOKED = 4_000  # names looked up for one call
_MOST_NAMES = 256  # names that a link may leave to be walked


def followed(body: dict[str, Any], roots: Sequence[str], hidden: Sequence[str] = ()) -> dict[str, str]:
    """The paths of a failed call that lead through a link, each with where it leads.

    Args:
        body: of a `tool_result` frame.
        roots: canonical folders; links are looked for below them alone.
        hidden: canonical folders that the session may not look into, nor learn anything of.
    """
    answer = body.get("tool_response")
    parts = answer.values() if isinstance(answer, dict) else [answer]
    output = "\n".join(part for part in parts if isinstance(part, str))[-_MOST_TEXT:]
    if body.get("ok") is not False and _REFUSED.search(output) is None:
        return {}
    given = body.get("tool_input")
    told = [value for value in given.values() if isinstance(value, str)] if isinstance(given, dict) else []
    cwd = body.get("cwd")
    found: dict[str, str] = {}
    way = _Way(roots, hidden)
    for path in islice(
        _paths(["\n".join(told)[:_MOST_TEXT], output], cwd if isinstance(cwd, str) else ""), _MOST_WORDS
    ):
        real = way.leads(path)
        if real and real != path:
            found[path] = real
            if len(found) == _MOST_FOUND:
                break
    return found


def _paths(texts: Sequence[str], cwd: str) -> Iterator[str]:
    """What may be a path in texts, absolute and each once."""
    seen: set[str] = set()
    for text in texts:
        for word in _WORD.findall(text):
            path = word.rstrip(":.") or word
            if not path.startswith("/"):
                if not cwd.startswith("/") or path.startswith(("-", "~", "$")):
                    continue
                path = f"{cwd}/{path}"
            path = normpath(path)
            if path not in seen and "\0" not in path:
                seen.add(path)
                yield path


class _Way:
    """Walks paths, one name at a time, until too many have been looked up."""

    def __init__(self, roots: Sequence[str], hidden: Sequence[str]) -> None:
        self._roots, self._hidden = tuple(f"{root}/" for root in roots), tuple(f"{path}/" for path in hidden)
        self._left = _MOST_LOOKED

    def leads(self, path: str) -> str:
        """Where a path below one of the roots leads; "" where that cannot be told."""
        at, rest = "", [name for name in path.split("/") if name]
        for _ in range(_MOST_STEPS):
            if not rest:
                return at or "/"
            following = f"{at}/{rest[0]}"
            if not following.startswith(self._roots):
                if not any(root.startswith(f"{following}/") for root in self._roots):
                    return "/".join([at, *rest])  # outside: as far as it is known
                at = following  # on the way to a root, which is canonical
            else:
                link = None if f"{following}/".startswith(self._hidden) else self._link(following)
                if link is None:
                    return "/".join([at, *rest])  # not there, or not to be looked at
                if link:
                    target = normpath(link if link.startswith("/") else f"{at}/{link}")
                    if target.count("/") + len(rest) > _MOST_NAMES:
                        return ""
                    at, rest = "", [*(name for name in target.split("/") if name), *rest[1:]]
                    continue
                at = following
            rest = rest[1:]
        return ""

    def _link(self, path: str) -> str | None:
        """The target of a link, "" of anything else, None of what is not there."""
        self._left -= 1
        if self._left < 0:
            return None
        try:
            return os.readlink(path) if stat.S_ISLNK(os.lstat(path).st_mode) else ""
        except (OSError, ValueError):
            return None
