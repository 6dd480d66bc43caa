"""What a person types to find a past denial, parsed.

    word              in the path, the command or the project
    "two words"       as they stand
    source:kernel     kernel nd7-exec model other; a first letter is enough
    state:open        open granted proved repeated obsolete
    op:write          read write execute network
    path:/etc         in the target alone
    session:5b1d      the session id begins so
    project:api       in the project's path
    tool:Write        the agent's tool
    age:7d            not older than so many s, m, h, d or w

All must hold.  Another key is an error, but before a port or a path (`localhost:3000`, `https://...`): that is a word.
  Failures that are none of nd7's are found only where `source:other` asks for them.
"""

from __future__ import annotations

import difflib
import posixpath
import re
from dataclasses import dataclass

from nd7core.denials import Denial

SOURCES = ("kernel", "nd7-exec", "model", "none")
STATES = ("open", "granted", "proved", "repeated", "obsolete")
OPERATIONS = ("read", "write", "execute", "network", "signal", "ipc", "other")

_TOKEN = re.compile(r'(?:([a-z]+):)?(?:"([^"]*)"?|([^\s"]+))')
_UNITS = {"s": 1, "m": 60, "h": 3_600, "d": 86_400, "w": 604_800}
_AGE = re.compile(r"(\d{1,6})([smhdw])")
KEYS = ("source", "state", "op", "path", "session", "project", "tool", "age")
_NAMES = {"op": "operations", "operation": "operations", "source": "sources", "state": "states", "tool": "tools"}


class QueryError(ValueError):
    """A query that cannot be meant; the message is one short sentence for the line below the input."""


@dataclass(frozen=True, slots=True)
class Query:
    """What a row must have.  The empty one finds every denial.

    Attributes:
        words: each must be in the path, the command or the project's name; any case.
        paths: each must be in the target.
        since: nanoseconds since the epoch, or None.
    """

    words: tuple[str, ...] = ()
    paths: tuple[str, ...] = ()
    sources: tuple[str, ...] = ()
    states: tuple[str, ...] = ()
    operations: tuple[str, ...] = ()
    tools: tuple[str, ...] = ()
    session: str = ""
    project: str = ""
    since: int | None = None
    until: int | None = None


def fits(query: Query, row: Denial, project: str) -> bool:
    """Whether a row of a log has what a query asks for: the same answer as the index gives."""
    verdict = row.verdict
    target, hay = verdict.target.lower(), f"{row.command}\0{verdict.target}\0{posixpath.basename(project)}".lower()
    return (
        all(word.lower() in hay for word in query.words)
        and all(path.lower() in target for path in query.paths)
        and verdict.source in (query.sources or SOURCES[:3])
        and (not query.states or row.state in query.states)
        and (not query.operations or verdict.operation in query.operations)
        and (not query.tools or row.tool in query.tools)
        and row.session_id.lower().startswith(query.session.lower())
        and query.project.lower() in project.lower()
        and (query.since is None or row.last_ts >= query.since)
        and (query.until is None or row.last_ts < query.until)
    )


def parse(text: str, now: int) -> Query:
    """Read what was typed.  Raises QueryError for a key's value that cannot be.

    Args:
        now: nanoseconds since the epoch; ages count from it.
    """
    text = text[:1000].replace("\0", " ").encode("utf-8", "replace").decode()
    words: list[str] = []
    paths: list[str] = []
    picked: dict[str, tuple[str, ...]] = {}
    single = {"session": "", "project": ""}
    since: int | None = None
    for key, quoted, plain in _TOKEN.findall(text):
        value = quoted or plain
        if not value:
            continue
        if key in single:
            single[key] = value
        elif key == "path":
            paths.append(value)
        elif key == "age":
            since = now - _age(value)
        elif key == "tool":
            picked["tools"] = tuple(value.split(","))
        elif key in _NAMES:
            picked[_NAMES[key]] = _pick(key, value)
        else:
            if key and not quoted and not value.startswith("/") and not value.isdigit():
                raise QueryError(_unknown(key, value))
            words.append(f"{key}:{value}" if key else value)
    return Query(
        tuple(words),
        tuple(paths),
        picked.get("sources", ()),
        picked.get("states", ()),
        picked.get("operations", ()),
        picked.get("tools", ()),
        single["session"],
        single["project"],
        since,
    )


def _unknown(key: str, value: str) -> str:
    close = difflib.get_close_matches(key, KEYS, 1, 0.5)
    near = f"the nearest is {close[0]}:" if close else "there are " + " ".join(f"{name}:" for name in KEYS)
    return f'no {key[:20]}: to search by; {near} ("{key[:20]}:{value[:20]}" in quotes are words)'


def _pick(key: str, value: str) -> tuple[str, ...]:
    known = {"source": SOURCES, "state": STATES}.get(key, OPERATIONS)
    names = {"other" if name == "none" else name: name for name in known}
    found: list[str] = []
    for word in filter(None, value.split(",")):
        fits = [name for shown, name in names.items() if shown.startswith(word)]
        if not fits:
            raise QueryError(f"no {key} {word[:30]!r}: " + " ".join(names))
        found += fits
    return tuple(found)


def _age(value: str) -> int:
    found = _AGE.fullmatch(value)
    if found is None:
        raise QueryError(f"no age {value[:30]!r}: a number and s, m, h, d or w, as in 7d")
    return int(found[1]) * _UNITS[found[2]] * 1_000_000_000
