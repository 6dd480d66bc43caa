"""What Linux makes of a policy: `LinuxRules`, exactly what the profile says or an error naming the line.

Filters of paths are literals and subtrees, so a policy divides the file system into finitely many
regions on which each decision is constant: every path it names, and the rest below each of them.  The
compiler asks `decide` once for each region and checks that the answers have the shape that the
kernel can be told.  Nothing is approximated; a profile that has another shape is refused, and with it
the command that would have run.

Means nothing on Linux and is passed over: `mach-lookup`, `sysctl-read`, `(import "system.sb")`.
`file-link` and `file-ioctl` that no rule names follow `file-write*`, because to Landlock a link is one more
new name and a device that may be written answers ioctls.  A wider `file-ioctl` opens nothing more here.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Literal

from nd7core.policy.evaluate import DNS_SOCKET, Decision, decide, decide_network
from nd7core.policy.model import CLASSES, FILE_READ, FILE_WRITE, Filter, Policy, Unenforceable
from nd7core.policy.rules import LinuxRules

FILE_OPERATIONS = (*CLASSES, *FILE_READ, *FILE_WRITE, "file-link", "file-ioctl", "process-exec")
_REPLACING = ("file-write-create", "file-write-unlink")
_IN_PLACE = tuple(member for member in FILE_WRITE if member not in _REPLACING)

Writing = Literal["none", "full", "in-place"]
Context = Literal["outside", "writable", "protected"]


@dataclass(frozen=True, slots=True)
class _Point:
    """The policy's answers for one path."""

    readable: bool
    read_line: int
    writing: Writing
    line: int
    pinned: bool = False
    """Writable, but not to be removed or renamed."""


@dataclass(slots=True)
class _Out:
    hidden: list[str] = field(default_factory=list)
    writable: list[str] = field(default_factory=list)
    files: list[str] = field(default_factory=list)
    protected: list[str] = field(default_factory=list)


def _leaves(what: Filter) -> Iterator[Filter]:
    if what.kind in ("all", "any"):
        for part in what.parts:
            yield from _leaves(part)
    else:
        yield what


def _named_paths(policy: Policy) -> set[str]:
    """Every path that a rule about files names.  A regular expression has no finite regions."""
    paths = {"/"}
    for rule in policy.rules:
        if not any(operation in FILE_OPERATIONS for operation in rule.operations):
            continue
        for what in (leaf for top in rule.filters for leaf in _leaves(top)):
            if what.kind == "regex":
                raise Unenforceable("Linux cannot enforce a regular expression", what.line)
            if what.kind in ("literal", "subpath"):
                paths.add(what.value)
    return paths


def _fresh(paths: set[str]) -> str:
    """A file name that no named path has, to ask about the rest below a path."""
    used = {part for path in paths for part in path.split("/")}
    name = "nd7"
    while name in used:
        name += "_"
    return name


def _line(decision: Decision) -> int:
    return decision.line or 0


def _point(policy: Policy, path: str) -> _Point:
    """The answers for one path, or Unenforceable where the members of a class disagree."""
    reads = [decide(policy, member, path) for member in FILE_READ]
    readable = reads[0].allowed
    if any(read.allowed != readable for read in reads):
        refused = next(read for read in reads if not read.allowed)
        raise Unenforceable("Linux cannot allow one way of reading a file and refuse another", _line(refused))
    if readable:
        execute = decide(policy, "process-exec", path)
        if not execute.allowed:
            raise Unenforceable(
                "on Linux what can be read can be executed, and process-exec is refused", _line(execute)
            )
    writes = {member: decide(policy, member, path) for member in FILE_WRITE}
    denied = [member for member, write in writes.items() if not write.allowed]
    pinned = denied == ["file-write-unlink"]
    writing = "full" if pinned else _writing(writes, path)
    line = _line(writes["file-write-data"])
    if writing != "none":
        _check_companions(policy, path, writing)
        if not readable:
            raise Unenforceable("Linux cannot let what is not readable be written", line)
    else:
        link = decide(policy, "file-link", path)
        if link.allowed and not link.by_default:
            raise Unenforceable("Linux cannot allow links where writing is refused", _line(link))
    if pinned:
        line = _line(writes["file-write-unlink"])
    return _Point(readable, _line(reads[0]), writing, line, pinned)


def _writing(writes: dict[str, Decision], path: str) -> Writing:
    allowed = {member for member, decision in writes.items() if decision.allowed}
    if not allowed:
        return "none"
    if len(allowed) == len(FILE_WRITE):
        return "full"
    in_place = allowed == set(_IN_PLACE)
    # Who may change a device's mode, and replace it, is up to the permissions of /dev.
    if in_place or (path.startswith("/dev/") and "file-write-data" in allowed and not allowed & set(_REPLACING)):
        return "in-place"
    refused = next(decision for decision in writes.values() if not decision.allowed)
    granted = next(decision for decision in writes.values() if decision.allowed)
    raise Unenforceable(
        "Linux can allow all of file-write*, none, or all but create and unlink of one file",
        _line(granted) if refused.by_default else _line(refused),
    )


def _check_companions(policy: Policy, path: str, writing: Writing) -> None:
    for operation in ("file-ioctl", "file-link") if writing == "full" else ("file-ioctl",):
        decision = decide(policy, operation, path)
        if not decision.allowed and not decision.by_default:
            raise Unenforceable(f"Linux cannot refuse {operation} where writing is allowed", _line(decision))


def _parent(path: str, named: set[str]) -> str:
    """The nearest named path above."""
    at = path
    while at != "/":
        at = at[: at.rfind("/")] or "/"
        if at in named:
            return at
    return "/"


def _files(policy: Policy, out: _Out) -> None:
    named = _named_paths(policy)
    fresh = _fresh(named)
    contexts: dict[str, tuple[Context, bool]] = {}
    pins: dict[str, int] = {}
    for path in sorted(named, key=lambda name: (name != "/", name.count("/"), name)):
        here = _point(policy, path)
        below = _point(policy, f"{'' if path == '/' else path}/{fresh}")
        context, in_hidden = contexts[_parent(path, named)] if path != "/" else ("outside", False)
        if below.pinned:
            raise Unenforceable("Linux cannot refuse file-write-unlink for a subtree alone", below.line)
        if here.pinned:
            pins[path] = here.line
        if here.readable != below.readable:
            hidden = here if not here.readable else below
            raise Unenforceable("Linux can hide a subtree, not its root or its inside alone", hidden.read_line)
        if in_hidden and here.readable:
            raise Unenforceable("Linux cannot make something readable inside what is hidden", here.read_line)
        if not here.readable and not in_hidden:
            out.hidden.append(path)
        context = _place(path, here, below, context, out)
        contexts[path] = (context, not here.readable)
    kept = (*out.hidden, *out.protected)
    for path, line in pins.items():
        if not any(inner.startswith(path + "/") for inner in kept):
            raise Unenforceable("Linux keeps a folder from being removed only around what is protected in it", line)


def _place(path: str, here: _Point, below: _Point, context: Context, out: _Out) -> Context:
    """Put one named path where it belongs; returns the context of what is below it."""
    pair = (here.writing, below.writing)
    if not here.readable:
        return context  # hidden says that it cannot be written either
    if pair == ("none", "none"):
        if context == "writable":
            out.protected.append(path)
            return "protected"
        return context
    if pair == ("full", "full"):
        if context == "protected":
            raise Unenforceable("Linux cannot make something writable inside what is protected", here.line)
        if context == "outside":
            out.writable.append(path)
        return "writable"
    if context == "outside" and below.writing == "none":
        if here.writing == "in-place" or path.startswith("/dev/"):
            out.files.append(path)
            return context
        raise Unenforceable(
            "Linux cannot let a single file be replaced; allow all members of file-write* but create and unlink",
            here.line,
        )
    raise Unenforceable("Linux can make a subtree or one file writable, nothing between", here.line)


def _network(policy: Policy) -> tuple[tuple[int, ...], bool]:
    """The TCP ports that may be connected to, and whether DNS is let out."""
    ports = {53}
    for rule in policy.rules:
        leaves = [leaf for top in rule.filters for leaf in _leaves(top)]
        for operation in ("network-inbound", "network-bind"):
            if rule.allow and operation in rule.operations:
                raise Unenforceable(f"nd7 allows no {operation} on Linux", rule.line)
        if "network-outbound" not in rule.operations:
            continue
        for leaf in leaves:
            is_path = leaf.kind in ("literal", "subpath", "regex")
            if is_path and rule.allow and not (leaf.kind == "literal" and leaf.value.endswith(DNS_SOCKET)):
                raise Unenforceable("Linux cannot let out to one unix socket", leaf.line)
            if leaf.kind == "remote":
                named = leaf.value.partition(":")[2]
                if named != "*":
                    ports.add(int(named))
    fresh = next(port for port in range(1, 65536) if port not in ports)
    connect: list[int] = []
    dns = False
    for port in sorted((*ports, fresh)):
        answers = {
            (protocol, host): decide_network(policy, protocol, host, port, platform="linux")
            for protocol in ("tcp", "udp")
            for host in ("localhost", "192.0.2.1")
        }
        for protocol in ("tcp", "udp"):
            near, far = answers[protocol, "localhost"], answers[protocol, "192.0.2.1"]
            if near.allowed != far.allowed:
                raise Unenforceable("Linux cannot tell this machine's ports from others'", _line(near))
        tcp, udp = answers["tcp", "localhost"], answers["udp", "localhost"]
        if udp.allowed and (port != 53 or not tcp.allowed):
            raise Unenforceable("nd7 lets UDP out only as DNS", _line(udp))
        if tcp.allowed and port == fresh:
            raise Unenforceable("Linux can allow named TCP ports, not all", _line(tcp))
        if udp.allowed:
            dns = True
        elif tcp.allowed:
            connect.append(port)
    return tuple(connect), dns


def compile_linux(policy: Policy) -> LinuxRules:
    """What the kernel is to be told.

    For every canonical path, `decide(policy, "read" | "write" | "execute", path)` allows what the rules
    allow, where for `writable_files` writing means in place (all members but create and unlink).

    Raises:
        Unenforceable: naming the form and its line.
    """
    for rule in policy.rules:
        if rule.no_sandbox and rule.allow:
            raise Unenforceable("(with no-sandbox) would start a program unconfined", rule.line)
    for operation in ("process-fork", "signal"):
        # Any path will do: a filter of paths on these means nothing that Linux could be told.
        for rule in policy.rules:
            if operation in rule.operations and (rule.filters or not rule.allow):
                raise Unenforceable(f"Linux cannot refuse {operation} or allow it in part", rule.line)
        decision = decide(policy, operation, "/")
        if not decision.allowed:
            raise Unenforceable(f"Linux cannot refuse {operation}", _line(decision))
    out = _Out()
    _files(policy, out)
    connect, dns = _network(policy)
    parts = (sorted(part) for part in (out.hidden, out.writable, out.files, out.protected))
    hidden, writable, files, protected = map(tuple, parts)
    return LinuxRules(hidden, writable, files, protected, connect, dns)
