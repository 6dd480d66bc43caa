"""`record.json`: a session's policy as data, and what nd7 knows of the session beside it.

The first seven keys are those of the existing macOS nd7; ours stand behind them.  A record of a
newer nd7, or of the other one, must survive being rewritten by this one, so keys that are not known
here are kept as they came.
"""

from __future__ import annotations

import json
import os
import re
from dataclasses import dataclass, field, replace
from typing import Any, Literal, cast

from nd7core.errors import Nd7Error

Scope = Literal["session", "once", "until", "project"]
# What Claude Code calls a session.  A log may have any name that a payload gave it: nd7's own, or a hostile
# "--dangerously-skip-permissions", which on a command line would be an option.
_CONVERSATION = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")
SCOPES: tuple[Scope, ...] = ("session", "once", "until", "project")

WORKTREES = "-worktrees"
"""Behind a main checkout's path: the folder of the git worktrees that sessions work in."""

MAX_BYTES = 4 * 1024 * 1024
"""More than any record can need; a file beyond it is damage, not a session."""


class RecordError(Nd7Error):
    """A record.json that cannot be used, and why."""


@dataclass(frozen=True, slots=True)
class Grant:
    """A path whose subtree is writable for Bash commands.

    Attributes:
        path: canonical.
        scope: `once` ends with the next command, `until` at `expires`, `project` is also given to
            the project's later sessions.
        expires: nanoseconds since the epoch, or None.
        origin: the denial it came from, "command line", or "" where nobody said.
        created: nanoseconds since the epoch; 0 where nobody said.
        uses: commands that have run since with the grant in force.
        floor: the session started with it, so the agent's own tools have it as well.
    """

    path: str
    scope: Scope = "session"
    expires: int | None = None
    origin: str = ""
    created: int = 0
    uses: int = 0
    floor: bool = False

    def in_force(self, now: int) -> bool:
        """Whether the grant counts at `now` (nanoseconds since the epoch)."""
        return self.expires is None or now < self.expires


@dataclass(frozen=True, slots=True)
class Record:
    """One session.  Every path is absolute and canonical.

    Attributes:
        project: writable; the canonical cwd of `nd7 run`.
        home, state, tmp, exit: the home directory, nd7's state directory, the session's temporary
            directory (writable), and the nd7-exec program.
        grants: in the order they were given.
        ssh_agent: the socket that may be connected to (macOS only), or None.
        pid, owner_start: of `nd7 run`; the start time tells a reused pid from the session.
        started: nanoseconds since the epoch.
        agent: the adapter's name ("claude"), or "".
        agent_sessions: the agent's own session ids, which name its audit logs.
        chosen: the older conversation that the agent went on with when it was asked to choose one (`--continue`), or
            "": its log is not this session's.
        revision: of the policy; grows by one with every change.
        writable: subtrees that the agent needs, beside the project and tmp.
        writable_files: files that may be written but not replaced.
        protected: stay unwritable whatever else says so (the agent's settings).
        hidden: neither readable nor writable, beside `~/.ssh`, `~/.aws` and `~/.nd7`: what those link to.
        config: where nd7's settings are looked for, by name; what that leads to is among `protected`.
        enforced: what the kernel enforces, by part ("files": "landlock 7 + namespace").
        gaps: events that the hooks did not deliver.
        canary: the last self-test's outcome.
        extra: keys of record.json that this version does not know.
    """

    project: str
    home: str
    state: str = ""
    tmp: str = ""
    exit: str = ""
    grants: tuple[Grant, ...] = ()
    ssh_agent: str | None = None
    pid: int = 0
    name: str = ""
    program: tuple[str, ...] = ()
    agent: str = ""
    started: int = 0
    owner_start: str = ""
    agent_sessions: tuple[str, ...] = ()
    chosen: str = ""
    revision: int = 0
    writable: tuple[str, ...] = ()
    writable_files: tuple[str, ...] = ()
    protected: tuple[str, ...] = ()
    enforced: dict[str, str] = field(default_factory=dict, hash=False)
    gaps: int = 0
    canary: dict[str, Any] = field(default_factory=dict, hash=False)
    extra: dict[str, Any] = field(default_factory=dict, hash=False)
    hidden: tuple[str, ...] = ()
    config: tuple[str, ...] = ()

    @property
    def nd7(self) -> str:
        """`~/.nd7` of this session's owner."""
        return os.path.join(self.home, ".nd7")

    @property
    def ours(self) -> bool:
        """Whether a nd7 like this one made it.  The existing macOS nd7 records no owner's start time."""
        return bool(self.owner_start)

    @property
    def conversation(self) -> str:
        """The agent's latest session id that it can be resumed by, or "": it has not told of one."""
        names = (self.chosen, *self.agent_sessions)
        return next((name for name in reversed(names) if _CONVERSATION.fullmatch(name)), "")

    @property
    def worktree(self) -> tuple[str, str]:
        """Main checkout and name, where the project is a worktree of `nd7 run --worktree`; else two times ""."""
        holder, _, name = self.project.rpartition("/")
        main = holder.removesuffix(WORKTREES)
        ours = main != holder and os.path.join(main, ".git") in self.writable
        return (main, name) if ours else ("", "")

    def called(self, wanted: str) -> bool:
        """Whether a person means this session by `wanted`: its name, or one of its conversations."""
        return bool(wanted) and wanted in (self.name, self.chosen, *self.agent_sessions)

    def granted(self, now: int) -> tuple[Grant, ...]:
        """The grants that count at `now`, nanoseconds since the epoch."""
        return tuple(grant for grant in self.grants if grant.in_force(now))


_PATHS = ("project", "home", "state", "tmp", "exit")
_PATH_LISTS = ("writable", "writable_files", "protected", "hidden", "config")
_DETAILS = "grant_details"


def grant_to(grant: Grant) -> dict[str, Any]:
    """A grant as JSON."""
    return {
        "path": grant.path,
        "scope": grant.scope,
        "expires": grant.expires,
        "origin": grant.origin,
        "created": grant.created,
        "uses": grant.uses,
        "floor": grant.floor,
    }


def grant_from(data: object) -> Grant:
    """A grant from JSON.  Raises RecordError for what is none."""
    if not isinstance(data, dict):
        raise _fail("a grant", "an object")
    detail = cast(dict[str, Any], data)
    return _grant(_path(detail.get("path"), "a grant's path"), detail)


def to_json(record: Record) -> bytes:
    """The bytes of record.json: ASCII, one key a line, unknown keys behind ours.

    Paths that are no UTF-8 keep their bytes (surrogateescape, written as `\\udcNN`).
    """
    data: dict[str, Any] = {name: getattr(record, name) for name in _PATHS}
    data["grants"] = [grant.path for grant in record.grants]
    data["ssh_agent"] = record.ssh_agent
    for name in ("pid", "name", "agent", "started", "owner_start", "chosen", "revision", "gaps", "enforced", "canary"):
        data[name] = getattr(record, name)
    for name in ("program", "agent_sessions", *_PATH_LISTS):
        data[name] = list(getattr(record, name))
    data[_DETAILS] = [grant_to(grant) for grant in record.grants]
    for key, value in record.extra.items():
        data.setdefault(key, value)
    return json.dumps(data, ensure_ascii=True, indent=1).encode("ascii") + b"\n"


def _fail(key: str, want: str) -> RecordError:
    return RecordError(f"record.json: {key} is not {want}")


def _text(data: dict[str, Any], key: str, default: str = "") -> str:
    value = data.get(key, default)
    if not isinstance(value, str):
        raise _fail(key, "a string")
    return value


def _number(data: dict[str, Any], key: str) -> int:
    value = data.get(key, 0)
    if not isinstance(value, int) or isinstance(value, bool):
        raise _fail(key, "a whole number")
    return value


def _path(value: object, key: str) -> str:
    if not isinstance(value, str) or not value.startswith("/") or "\0" in value:
        raise _fail(key, "an absolute path")
    try:
        os.fsencode(value)
    except UnicodeEncodeError:
        raise _fail(key, "a path that a file can have") from None
    return value if value == "/" else value.rstrip("/") or "/"


def _optional_path(data: dict[str, Any], key: str) -> str:
    """A path that a record may lack; "" where it does."""
    return _path(data[key], key) if data.get(key) else ""


def _items(data: dict[str, Any], key: str) -> list[Any]:
    value = data.get(key, [])
    if not isinstance(value, list):
        raise _fail(key, "a list")
    return value


def _texts(data: dict[str, Any], key: str) -> tuple[str, ...]:
    values = _items(data, key)
    if not all(isinstance(value, str) for value in values):
        raise _fail(key, "a list of strings")
    return tuple(values)


def _table(data: dict[str, Any], key: str) -> dict[str, Any]:
    value = data.get(key, {})
    if not isinstance(value, dict):
        raise _fail(key, "an object")
    return value


def _grant(path: str, detail: dict[str, Any]) -> Grant:
    scope = detail.get("scope", "session")
    expires = detail.get("expires")
    if expires is not None and (not isinstance(expires, int) or isinstance(expires, bool)):
        # Without its end an ending grant would last for ever.
        raise _fail("a grant's expires", "a whole number or null")
    return Grant(
        path,
        # A scope of a newer nd7: the grant itself stands in `grants`, so it counts; how long is not ours to say.
        cast(Scope, scope) if scope in SCOPES else "session",
        expires,
        _text(detail, "origin"),
        _number(detail, "created"),
        _number(detail, "uses"),
        detail.get("floor") is True,
    )


def _grants(data: dict[str, Any]) -> tuple[Grant, ...]:
    details: dict[str, dict[str, Any]] = {}
    for detail in _items(data, _DETAILS):
        if isinstance(detail, dict) and isinstance(detail.get("path"), str):
            details[detail["path"]] = detail
    # The plain list decides what is granted: a nd7 that knows no details may have taken a path out.
    paths = dict.fromkeys(_path(value, "a grant") for value in _items(data, "grants"))
    return tuple(_grant(path, details.get(path, {})) for path in paths)


def from_json(data: bytes) -> Record:
    """A record from the bytes of record.json.

    Keys of ours that are absent take their defaults, unknown ones are kept.  A known key of another
    type is an error and not a default: a `protected` that cannot be read must not come to protect nothing.

    Raises:
        RecordError: naming the key.
    """
    if len(data) > MAX_BYTES:
        raise RecordError(f"record.json is larger than {MAX_BYTES} bytes")
    try:
        parsed = json.loads(data)
    except (ValueError, RecursionError) as error:
        raise RecordError(f"record.json is no JSON ({type(error).__name__})") from None
    if not isinstance(parsed, dict):
        raise RecordError("record.json holds no object")
    loaded = cast(dict[str, Any], parsed)
    agent_socket = loaded.get("ssh_agent")
    enforced = _table(loaded, "enforced")
    if not all(isinstance(value, str) for value in enforced.values()):
        raise _fail("enforced", "an object of strings")
    record = Record(
        project=_path(loaded.get("project"), "project"),
        home=_path(loaded.get("home"), "home"),
        state=_optional_path(loaded, "state"),
        tmp=_optional_path(loaded, "tmp"),
        exit=_optional_path(loaded, "exit"),
        grants=_grants(loaded),
        ssh_agent=None if agent_socket is None else _path(agent_socket, "ssh_agent"),
        pid=_number(loaded, "pid"),
        name=_text(loaded, "name"),
        program=_texts(loaded, "program"),
        agent=_text(loaded, "agent"),
        started=_number(loaded, "started"),
        owner_start=_text(loaded, "owner_start"),
        agent_sessions=_texts(loaded, "agent_sessions"),
        chosen=_text(loaded, "chosen"),
        revision=_number(loaded, "revision"),
        writable=tuple(_path(value, "writable") for value in _items(loaded, "writable")),
        writable_files=tuple(_path(value, "writable_files") for value in _items(loaded, "writable_files")),
        protected=tuple(_path(value, "protected") for value in _items(loaded, "protected")),
        hidden=tuple(_path(value, "hidden") for value in _items(loaded, "hidden")),
        config=tuple(_path(value, "config") for value in _items(loaded, "config")),
        enforced=cast(dict[str, str], enforced),
        gaps=_number(loaded, "gaps"),
        canary=_table(loaded, "canary"),
    )
    known = {*_PATHS, *_PATH_LISTS, _DETAILS, "grants", "ssh_agent", "pid", "name", "program", "agent", "started"}
    known |= {"owner_start", "agent_sessions", "chosen", "revision", "enforced", "gaps", "canary"}
    extra = {key: value for key, value in loaded.items() if key not in known}
    return replace(record, extra=extra) if extra else record
