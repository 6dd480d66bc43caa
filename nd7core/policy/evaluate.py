"""What a policy says about an operation, by SBPL's two rules of evaluation.

Within one operation the last matching rule wins.  A rule that names a single operation is consulted
before one that names its class, whatever their order in the text: only where no rule of
`file-write-create` matches is `file-write*` asked, and only then the default.

Rules are indexed once per operation.  Nearly every filter is a literal or a subpath, so a decision is a
few dictionary look-ups up the path instead of a walk over all rules: a session may have hundreds of
grants, and the attribution engine asks for every candidate of every failure in the history.
"""

from __future__ import annotations

import posixpath
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field

from nd7core.policy.model import CLASS_OF, CLASSES, NETWORK, OPERATIONS, Filter, Policy
from nd7core.policy.regex import compiled

ALIASES = {"read": "file-read*", "write": "file-write*", "execute": "process-exec"}
LOOPBACK = frozenset({"localhost", "::1", "0.0.0.0", "::", "ip6-localhost"})
DNS_SOCKET = "/mDNSResponder"
"""The last component of the resolver's socket on macOS; on Linux the rule that allows it means DNS to port 53."""


@dataclass(frozen=True, slots=True)
class Decision:
    """What the policy says.

    Attributes:
        allowed: whether the operation may happen.
        line: of the profile, the one that decides; the default's where no rule matches; None where
            the text has none.
        text: that line, stripped; from a file that the person may have edited, so show it through `safe`.
        by_default: no rule matched.
    """

    allowed: bool
    line: int | None
    text: str
    by_default: bool = False


@dataclass(slots=True)
class Table:
    """The clauses of one operation.  A clause is a rule and one of its filters, numbered in text order."""

    allows: list[bool] = field(default_factory=list)
    lines: list[int] = field(default_factory=list)
    literal: dict[str, int] = field(default_factory=dict)
    subpath: dict[str, int] = field(default_factory=dict)
    others: list[tuple[int, Filter]] = field(default_factory=list)
    always: int = -1

    def add(self, allow: bool, line: int, what: Filter | None) -> None:
        """Append one clause."""
        number = len(self.allows)
        self.allows.append(allow)
        self.lines.append(line)
        if what is None:
            self.always = number
        elif what.kind == "literal":
            self.literal[what.value] = number
        elif what.kind == "subpath":
            self.subpath[what.value] = number
        else:
            self.others.append((number, what))

    def last(self, path: str) -> int:
        """The number of the last clause that matches the canonical path, or -1."""
        found = max(self.always, self.literal.get(path, -1))
        if self.subpath:
            get = self.subpath.get
            at = len(path)
            while at > 0:
                found = max(found, get(path[:at], -1))
                at = path.rfind("/", 0, at)
            found = max(found, get("/", -1))
        for number, what in reversed(self.others):
            if number < found:
                break
            if path_matches(what, path):
                return number
        return found


def path_matches(what: Filter, path: str) -> bool:
    """Whether a filter of paths matches a canonical path.  Address and name filters match no path."""
    if what.kind == "literal":
        return path == what.value
    if what.kind == "subpath":
        return what.value == "/" or path == what.value or path.startswith(what.value + "/")
    if what.kind == "regex":
        return compiled(what.value).search(path) is not None
    if what.kind == "all":
        return all(path_matches(part, path) for part in what.parts)
    if what.kind == "any":
        return any(path_matches(part, path) for part in what.parts)
    return False


def clauses(policy: Policy, operation: str) -> Iterator[tuple[bool, int, Filter | None]]:
    """The clauses that name exactly this operation, in text order: allow, line, filter."""
    for rule in policy.rules:
        if operation in rule.operations:
            if not rule.filters:
                yield rule.allow, rule.line, None
            for what in rule.filters:
                yield rule.allow, what.line or rule.line, what


def table(policy: Policy, operation: str) -> Table:
    """The index of one operation, made when first asked for."""
    found = policy.tables.get(operation)
    if found is None:
        found = Table()
        for allow, line, what in clauses(policy, operation):
            found.add(allow, line, what)
        # Rules mostly name the members of a class together: one index for all that are alike, asked once.
        found = next((other for other in policy.tables.values() if other == found), found)
        policy.tables[operation] = found
    return found


def _clean(path: str) -> str:
    """A path in the spelling the rules are in, without looking at the file system."""
    if "//" in path or "/." in path or path.endswith("/"):
        path = posixpath.normpath(path)
        # POSIX lets exactly two leading slashes mean something else; no system here does.
        return path[1:] if path.startswith("//") else path
    return path


def _default(policy: Policy) -> Decision:
    return Decision(policy.default_allow, policy.default_line, policy.text_of(policy.default_line), by_default=True)


def _single(policy: Policy, operation: str, path: str) -> Decision:
    for name in (operation, CLASS_OF.get(operation)):
        if name is not None:
            index = table(policy, name)
            number = index.last(path)
            if number >= 0:
                line = index.lines[number]
                return Decision(index.allows[number], line, policy.text_of(line))
    return _default(policy)


def decide(policy: Policy, operation: str, path: str) -> Decision:
    """What the policy says about an operation on a canonical path.

    Args:
        operation: one of the subset, or `read`, `write`, `execute`.  A class (`file-write*`, `read`,
            `write`) is allowed when each of its members is; the first refused member decides.
            `execute` needs `file-read-data` too: nothing runs what it cannot read.
        path: canonical; a relative one is refused by the default.

    Raises:
        ValueError: for an operation that is not of the subset.
    """
    operation = ALIASES.get(operation, operation)
    path = _clean(path)
    if not path.startswith("/"):
        return _default(policy)
    members = CLASSES.get(operation)
    if members is None:
        if operation not in policy.tables:
            _check(operation)
        decision = _single(policy, operation, path)
        if operation == "process-exec" and decision.allowed:
            reading = _single(policy, "file-read-data", path)
            return decision if reading.allowed else reading
        return decision
    of_class = table(policy, operation)
    by_class = of_class.last(path)
    deciding = of_class, by_class
    for index in _groups(policy, operation, members):
        number = index.last(path) if index.allows else -1
        deciding = (index, number) if number >= 0 else (of_class, by_class)
        if not _allows(policy, *deciding):
            break
    index, number = deciding
    if number < 0:
        return _default(policy)
    line = index.lines[number]
    return Decision(index.allows[number], line, policy.text_of(line))


def _allows(policy: Policy, index: Table, number: int) -> bool:
    return index.allows[number] if number >= 0 else policy.default_allow


def _groups(policy: Policy, operation: str, members: tuple[str, ...]) -> tuple[Table, ...]:
    """The distinct indexes of a class's members, in the members' order."""
    found = policy.groups.get(operation)
    if found is None:
        distinct: list[Table] = []
        for member in members:
            index = table(policy, member)
            if not any(index is other for other in distinct):
                distinct.append(index)
        found = policy.groups[operation] = tuple(distinct)
    return found


def _check(operation: str) -> None:
    if operation not in OPERATIONS:
        raise ValueError(f"not an operation of the subset: {operation!a}")


def is_loopback(host: str) -> bool:
    """Whether a host as a person or a program writes it is this machine."""
    host = host.strip("[]").lower().rstrip(".")
    return host in LOOPBACK or host.startswith("127.") or host.endswith(".localhost")


def _address_matches(what: Filter, side: str, protocol: str, loopback: bool, port: int) -> bool:
    if what.kind == "all":
        return all(_address_matches(part, side, protocol, loopback, port) for part in what.parts)
    if what.kind == "any":
        return any(_address_matches(part, side, protocol, loopback, port) for part in what.parts)
    if what.kind != side or what.protocol not in ("ip", protocol):
        return False
    host, _, wanted = what.value.partition(":")
    return (host == "*" or loopback) and wanted in ("*", str(port))


def _means_dns(what: Filter) -> bool:
    return what.kind == "literal" and what.value.endswith(DNS_SOCKET)


def decide_network(
    policy: Policy,
    protocol: str,
    host: str,
    port: int,
    *,
    operation: str = "network-outbound",
    platform: str = sys.platform,
) -> Decision:
    """What the policy says about an address.

    Args:
        protocol: `tcp` or `udp`.
        host: a name or an address; only whether it is this machine matters.
        port: 0 to 65535.
        operation: `network-outbound`, or `network-inbound` and `network-bind` with the local address.
        platform: on Linux the rule for the resolver's socket means DNS to port 53.
    """
    if operation not in NETWORK:
        raise ValueError(f"not an operation on the network: {operation!a}")
    side = "remote" if operation == "network-outbound" else "local"
    loopback = is_loopback(host)
    dns = platform != "darwin" and operation == "network-outbound" and port == 53
    found: tuple[bool, int] | None = None
    for allow, line, what in clauses(policy, operation):
        if what is None or _address_matches(what, side, protocol.lower(), loopback, port) or (dns and _means_dns(what)):
            found = (allow, line)
    if found is None:
        return _default(policy)
    return Decision(found[0], found[1], policy.text_of(found[1]))
