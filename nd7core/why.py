"""What stands between a session and a path or an address, and whether a grant would help.

Three things can refuse: the policy for Bash commands, the floor that the agent's own tools run under, and the
ordinary permissions that hold without nd7.  Only the first is mended by a grant, so each is asked on its own.
"""

from __future__ import annotations

import os
import re
import sys
from dataclasses import dataclass
from typing import Literal

from nd7core import grants
from nd7core.attribution.look import FileLook, Look
from nd7core.errors import Nd7Error
from nd7core.paths import Places, canonical
from nd7core.policy import Decision, Policy, PolicyError, build, decide, decide_network, parse
from nd7core.policy.sbpl import MAX_BYTES
from nd7core.private import open_directory, read_file
from nd7core.record import Record
from nd7core.text import safe_path

Operation = Literal["read", "write", "execute", "connect"]
_ADDRESS = re.compile(r"(?:(tcp|udp)://)?(\[[0-9A-Fa-f:.%]+\]|[^\s/:\[\]]{1,255}):([0-9]{1,5})\Z")
_URL = re.compile(
    r"(https?|ssh|git|ftp|wss?|rediss?|postgres(?:ql)?|mysql)://(?:[^/@\s]*@)?(\[[^\]\s]*\]|[^/:\s]+)(?::(\d{1,5}))?"
)
_PORTS = {
    "https": 443,
    "wss": 443,
    "http": 80,
    "ws": 80,
    "ssh": 22,
    "git": 9418,
    "ftp": 21,
    "redis": 6379,
    "rediss": 6379,
    "postgres": 5432,
    "postgresql": 5432,
    "mysql": 3306,
}


@dataclass(frozen=True, slots=True)
class Address:
    """Where something connects to."""

    protocol: str
    host: str
    port: int

    def __str__(self) -> str:
        return f"{self.host}:{self.port}"


@dataclass(frozen=True, slots=True)
class Answer:
    """About one operation on one thing.

    Attributes:
        subject: the canonical path, or `host:port`.
        operation: read, write, execute or connect.
        policy: what policy.sb says, for the next Bash command.
        floor: what the floor says, for the agent's own Write, Edit and Read.
        permitted: whether ordinary permissions allow it; None where that cannot be told from here.
        permissions: why not, or "".
        grant: the path that `nd7 allow` would take, "" where no grant helps.
        advice: one sentence: what to do, or why nothing helps.
    """

    subject: str
    operation: Operation
    policy: Decision
    floor: Decision
    permitted: bool | None
    permissions: str
    grant: str
    advice: str


def address(words: str) -> Address | None:
    """`HOST:PORT`, `udp://HOST:PORT` or a URL as an address; None for what is a path."""
    url = _URL.match(words)
    if url:
        port = int(url[3] or _PORTS[url[1]])
        return Address("tcp", url[2], port) if port <= 65535 else None
    match = _ADDRESS.match(words)
    if match is None or words.startswith((".", "~")):
        return None
    if int(match[3]) > 65535:
        raise Nd7Error(f"{match[3]} is no port", hint="ports go from 0 to 65535", exit_code=2)
    return Address(match[1] or "tcp", match[2], int(match[3]))


def in_force(directory: str) -> Policy:
    """The policy in a session's policy.sb.

    Raises:
        Nd7Error: it is missing, not only its owner's, or not understood; then no command runs either.
    """
    path = os.path.join(directory, "policy.sb")
    hint = "until that is mended nd7-exec runs no command in this session"
    try:
        fd = open_directory(directory)
        try:
            return parse(read_file(fd, "policy.sb", MAX_BYTES))
        finally:
            os.close(fd)
    except FileNotFoundError:
        raise Nd7Error("session has no policy.sb", hint=hint) from None
    except PolicyError as error:
        raise Nd7Error(f"{safe_path(path)}: {error.message}", hint=hint) from None


def about_path(
    record: Record, policy: Policy, path: str, operation: Operation, *, look: Look | None = None, now: int | None = None
) -> Answer:
    """What refuses an operation on a canonical path, if anything does."""
    seen = (look or FileLook()).at(path, operation)
    missing = seen is not None and not seen.exists and operation != "write"
    permitted = seen.allowed if seen is not None and not missing else None
    reason = seen.why if seen is not None else ""
    by_policy = decide(policy, operation, path)
    floor = decide(build(record, grants=False, now=now), operation, path)
    grant, advice = "", ""
    if by_policy.allowed:
        if missing:
            advice = "nothing of nd7's is in the way; there is just nothing there"
        elif permitted is False:
            advice = "the policy allows it; ordinary permissions are in the way, and no grant changes those"
        elif not floor.allowed:
            advice = "Bash commands have it by a grant; Write, Edit and Read get it by a restart: " + (
                grants.resume_command(record)
            )
        else:
            advice = "nothing of nd7's is in the way"
    elif operation != "write":
        advice = "cannot be granted: a grant opens writing, and what cannot be read stays so for every session"
    else:
        target = path if seen is None or seen.exists or os.path.isdir(os.path.dirname(path)) else ""
        refusal = grants.check(record, path)
        if refusal is not None and not refusal.force_helps:
            advice = f"cannot be granted: {refusal.reason}"
        elif not target:
            advice = "its folder does not exist; grant the nearest folder that does"
        elif permitted is False:
            advice = "a grant would not be enough: ordinary permissions refuse it, too"
        else:
            grant = target
            line = grants.command_line("allow", record.pid, target, force=refusal is not None)
            advice = f"a grant helps Bash commands: {line}" + (f" ({refusal.reason})" if refusal is not None else "")
    return Answer(path, operation, by_policy, floor, permitted, reason, grant, advice)


def about_address(record: Record, policy: Policy, where: Address, *, platform: str = sys.platform) -> Answer:
    """What refuses a connection, if anything does.  There are no grants for the network."""
    by_policy = decide_network(policy, where.protocol, where.host, where.port, platform=platform)
    floor_policy = build(record, grants=False, platform=platform)
    floor = decide_network(floor_policy, where.protocol, where.host, where.port, platform=platform)
    if by_policy.allowed:
        advice = "nothing of nd7's is in the way; whether the other side answers is another matter"
    else:
        advice = "cannot be granted: only TCP port 443 and DNS go out of a session, this machine's own ports included"
    return Answer(str(where), "connect", by_policy, floor, None, "", "", advice)


def resolve(places: Places, words: str, cwd: str | None = None) -> str:
    """A path as a person types it, `~` included, made canonical.  `~` is the password database's home."""
    if words == "~" or words.startswith("~/"):
        words = places.home + words[1:]
    return canonical(words, cwd=cwd)
