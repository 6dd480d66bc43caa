"""The policy as attribution asks it: would this session have refused that?

Either the policy that was in force is given, or the rules of a session without grants are made from what is known of
it: project and temporary folders writable, credentials unreadable, DNS and port 443.
"""

from __future__ import annotations

import fnmatch
import posixpath
import re
from functools import lru_cache
from posixpath import basename

from nd7core.attribution.paths import canonical, inside
from nd7core.policy import Policy, always_unwritable, build, credentials, decide, decide_network
from nd7core.record import Grant, Record

_HOME = re.compile(r"(/home/[^/]+|/Users/[^/]+|/root|/var/root)(?=/|$)")
_MAC_TEMP = ("/private/var/folders",)
"""$TMPDIR of every login there; `/tmp` is not it, and a session may well not write to it."""
_KEPT = 4096


def home_of(project: str) -> str:
    """The home that a project most likely lies in, "" where its path does not tell."""
    match = _HOME.match(project)
    return match[1] if match and match[1] != "/Users/Shared" else ""


_NAMED = re.compile(r"(?<![\w./-])(/home/[\w.-]+|/Users/(?!Shared)[\w.-]+)(?=/)")


def home_named(*texts: str) -> str:
    """The home that a command or an output names, for a project that lies in none; "" for none."""
    for text in texts:
        match = _NAMED.search(text[:20_000])
        if match:
            return match[1]
    return ""


class Rules:
    """One policy with its answers kept: a history asks for the same few hundred paths."""

    def __init__(self, policy: Policy, never: tuple[str, ...], platform: str, patterns: tuple[str, ...] = ()) -> None:
        self.policy = policy
        self.never_paths = never
        self.platform = platform
        self.patterns = patterns
        self._kept: dict[tuple[str, str], bool] = {}

    def refuses(self, operation: str, path: str) -> bool:
        """Whether the policy refuses to read, write or execute a path, absolute and canonical."""
        key = operation, path
        known = self._kept.get(key)
        if known is None:
            name = {"read": "file-read-data", "execute": "process-exec"}.get(operation, "file-write-data")
            known = not decide(self.policy, name, path).allowed or (operation == "write" and self._patterned(path))
            if len(self._kept) >= _KEPT:
                self._kept.clear()
            self._kept[key] = known
        return known

    def never(self, path: str) -> bool:
        """Whether no grant can open a path: credentials, nd7's own, what the record protects."""
        return any(inside(path, folder) for folder in self.never_paths) or self._patterned(path)

    def hidden(self, path: str) -> bool:
        """Whether a path may not even be read."""
        return self.refuses("read", path)

    def connects(self, host: str, port: int) -> bool:
        """Whether a TCP connection is let out."""
        if not 0 < port < 65536:
            return False
        return decide_network(self.policy, "tcp", host, port, platform=self.platform).allowed

    def binds(self, host: str, port: int) -> bool:
        """Whether a port may be listened on."""
        return decide_network(self.policy, "tcp", host, port, operation="network-bind", platform=self.platform).allowed

    def _patterned(self, path: str) -> bool:
        return any(
            fnmatch.fnmatchcase(path, pattern)
            or fnmatch.fnmatchcase(basename(path), pattern.removeprefix("**/"))
            or f"/{pattern}/" in path + "/"
            for pattern in self.patterns
        )


def of_record(record: Record, platform: str) -> Rules:
    """The rules in force for a session's next command, its grants included."""
    return Rules(build(record, platform=platform), tuple(always_unwritable(record)), platform)


def _absolute(path: str, home: str) -> str:
    """A path without `~`, `..` and needless slashes, as a profile names it; "" for what no file can be called."""
    if home and (path == "~" or path.startswith("~/")):
        path = home + path[1:]
    try:
        path.encode("utf-8", "surrogateescape")
    except UnicodeEncodeError:
        return ""
    return "/" + posixpath.normpath(path).lstrip("/") if path.startswith("/") and "\0" not in path else ""


@lru_cache(maxsize=256)
def of_context(
    platform: str,
    project: str,
    home: str,
    grants: tuple[str, ...],
    temp: tuple[str, ...] | None,
    protected: tuple[str, ...],
) -> Rules:
    """The rules of a session of which only this is known.

    Args:
        home: "" takes it from the project's path.
        temp: the temporary folders; None for the system's own.
        protected: paths, or patterns of file names, that stay unwritable.

    Paths come from a log or a stranger's file: one that is not absolute opens and closes nothing.
    """
    home = _absolute(home or home_of(project), "") or "/nonexistent"
    folders = temp if temp is not None else _MAC_TEMP if platform == "darwin" else ("/tmp",)
    first, *more = [path for folder in folders if (path := _absolute(folder, home))] or [""]
    record = Record(
        project=canonical(_absolute(project, home), platform) or "/nonexistent",
        home=home,
        state=posixpath.join(home, ".local/state/nd7"),
        tmp=first,
        grants=tuple(Grant(canonical(path, platform)) for given in grants if (path := _absolute(given, home))),
        writable=tuple(more),
        protected=tuple(path for given in protected if given[:1] == "/" and (path := _absolute(given, home))),
    )
    patterns = tuple(path for path in protected if not path.startswith("/"))
    return Rules(build(record, platform=platform), tuple(always_unwritable(record)), platform, patterns)


def of_policy(policy: Policy, home: str, protected: tuple[str, ...], platform: str) -> Rules:
    """The rules of a policy that was in force, with what is never granted beside it."""
    return Rules(policy, (*credentials(home), f"{home}/.local/state/nd7", *protected) if home else protected, platform)
