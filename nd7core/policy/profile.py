"""From a session's record to its profile.

The text is made first and then parsed: what `decide` answers about a policy that was built is what
the kernel is told from the file, there is no second way.  One path a line, so that a dashboard can
point at the line that refuses.  The denies that must hold whatever is granted stand last and name
every member of their class, because a rule for a single operation is consulted before its class.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Iterable

from nd7core.paths import within
from nd7core.policy.model import FILE_READ, FILE_WRITE, Policy
from nd7core.policy.sbpl import parse, quote
from nd7core.record import Record

READ_ALL = ("file-read*", *FILE_READ)
WRITE_ALL = ("file-write*", *FILE_WRITE, "file-link", "file-ioctl")
WRITE_ONLY = ("file-write*", "file-link", "file-ioctl")
IN_PLACE = tuple(f"file-write-{part}" for part in ("data", "mode", "owner", "flags", "xattr", "acl", "setugid"))
"""Everything but `create` and `unlink`: a file that may be written and not replaced."""

CREDENTIALS = (".ssh", ".aws", ".nd7")
"""Below the home directory; neither readable nor writable, whatever is granted."""

LINUX_DEVICES = tuple(f"/dev/{name}" for name in ("null", "zero", "full", "random", "urandom", "tty", "ptmx"))
LINUX_DEVICE_TREES = ("/dev/pts", "/dev/shm")
MAC_DEVICES = ("/dev/null", "/dev/zero", "/dev/random", "/dev/urandom", "/dev/tty", "/dev/dtracehelper", "/dev/ptmx")
MAC_LOOKUPS = (
    "com.apple.SecurityServer",  # sign-in; it opens the whole login keychain
    "com.apple.dnssd.service",
    "com.apple.SystemConfiguration.configd",
)
DNS_SOCKET = "/private/var/run/mDNSResponder"


def credentials(home: str) -> tuple[str, ...]:
    """The directories of a home that no confined process may read."""
    return tuple(os.path.join(home, name) for name in CREDENTIALS)


def hidden(record: Record) -> tuple[str, ...]:
    """What no process of a session may read."""
    return (*credentials(record.home), *record.hidden)


def always_unwritable(record: Record) -> tuple[str, ...]:
    """What no confined process may ever write: credentials, nd7's own places, the agent's settings."""
    own = (record.state,) if record.state else ()
    return (*hidden(record), *own, *record.protected)


class _Text:
    """The profile's lines as they come to be."""

    def __init__(self) -> None:
        self.lines: list[str] = []

    def say(self, comment: str) -> None:
        self.lines.append(f";; {comment}" if comment else "")

    def section(self, title: str) -> None:
        self.lines += ["", f";; ---- {title}"]

    def rule(self, verb: str, operations: Iterable[str], *filters: str) -> None:
        self.lines.append(f"({verb} {' '.join((*operations, *filters))})")

    def paths(self, verb: str, operations: Iterable[str], kind: str, paths: Iterable[str]) -> None:
        words = tuple(operations)
        for path in dict.fromkeys(paths):
            self.rule(verb, words, f"({kind} {quote(path)})")

    def bytes(self) -> bytes:
        return os.fsencode("\n".join(self.lines)) + b"\n"


def _when(ns: int) -> str:
    return time.strftime("%Y-%m-%d %H:%M:%S UTC", time.gmtime(min(max(ns, 0), 2**62) // 10**9))


def _plain(text: str) -> str:
    """A record's text fit for a comment: one line, ASCII, short."""
    shown = text.encode("ascii", "backslashreplace").decode()
    return "".join(char if char.isprintable() else "?" for char in shown)[:120]


def _writing(out: _Text, record: Record, mac: bool) -> None:
    out.section("writing")
    out.say("the project")
    out.paths("allow", WRITE_ONLY, "subpath", [record.project])
    out.say("temporary files")
    out.paths("allow", WRITE_ONLY, "subpath", [record.tmp] if record.tmp else [])
    if record.writable or record.writable_files:
        out.say("what the agent needs to work")
        out.paths("allow", WRITE_ONLY, "subpath", record.writable)
        # On Linux a file that is allowed alone can be written and not replaced: replacing is its folder's right.
        out.paths("allow", WRITE_ONLY if mac else (*IN_PLACE,), "literal", record.writable_files)
    out.say("devices and terminals")
    if mac:
        out.paths("allow", ("file-write*",), "literal", MAC_DEVICES)
        out.rule("allow", ("file-write*",), '(regex #"^/dev/ttys[0-9]+$")')
        out.say("without this, raw mode fails silently")
        out.rule("allow", ("file-ioctl",))
    else:
        out.paths("allow", ("file-write-data", "file-ioctl"), "literal", LINUX_DEVICES)
        out.paths("allow", WRITE_ONLY, "subpath", LINUX_DEVICE_TREES)


def _pins(record: Record, given: Iterable[str]) -> list[str]:
    """The folders between a writable subtree and something unwritable in it.

    Whoever may rename `~/.local` may put another `state/nd7` in the old place, whatever is said of the
    path itself.  A writable subtree's own root needs no pin: renaming it is its parent's right.
    """
    roots = [path for path in (record.project, record.tmp, *record.writable, *given) if path]
    found: dict[str, None] = {}
    for path in always_unwritable(record):
        parent = os.path.dirname(path)
        while parent != "/" and any(parent != root and within(parent, root) for root in roots):
            found[parent] = None
            parent = os.path.dirname(parent)
    return list(found)


def _network(out: _Text, record: Record, mac: bool) -> None:
    out.section("network: HTTPS and names, nothing else, this machine's own ports included")
    out.rule("allow", ("network-outbound",), '(remote tcp "*:443")')
    out.rule("allow", ("network-outbound",), f"(literal {quote(DNS_SOCKET)})")
    if not mac:
        out.say("on Linux the line above means: DNS to port 53")
        return
    out.paths("allow", ("mach-lookup",), "global-name", MAC_LOOKUPS)
    if record.pid:
        out.say("nd7's own broker, which starts each command")
        socket = os.path.join(record.nd7, "sessions", str(record.pid), "broker.sock")
        out.paths("allow", ("network-outbound",), "literal", [socket])
    if record.ssh_agent:
        out.paths("allow", ("network-outbound",), "literal", [record.ssh_agent])


def build(record: Record, *, grants: bool = True, now: int | None = None, platform: str = sys.platform) -> Policy:
    """The policy of a session.

    Args:
        record: the session.
        grants: False gives the floor, under which the agent itself runs: of the grants it has those
            that the session started with.
        now: nanoseconds since the epoch; a grant that ended before does not count.
        platform: `darwin` gives a profile for seatbelt, anything else one for Linux.
    """
    mac = platform == "darwin"
    now = time.time_ns() if now is None else now
    out = _Text()
    what = f"revision {record.revision}" if grants else "the floor"
    out.say(f"nd7 session policy, {what}. What stands in this file is what the next command runs under.")
    out.say("The last rule that matches wins; a rule for one operation is asked before one for its class (name*).")
    out.lines += ["(version 1)", "(deny default)"]
    if mac:
        out.lines.append('(import "system.sb")')

    out.section("programs")
    out.rule("allow", ("process-exec", "process-fork", "signal", "sysctl-read"))

    out.section("reading: everything, but for what is named last")
    out.rule("allow", ("file-read*",))

    _writing(out, record, mac)

    given = [grant for grant in record.granted(now) if grants or grant.floor]
    if given:
        out.section("granted")
        for grant in given:
            until = f", until {_when(grant.expires)}" if grant.expires is not None else ""
            since = f", {_when(grant.created)}" if grant.created else ""
            out.say(f"{_plain(grant.scope)}{until}{since}: {_plain(grant.origin) or 'origin not recorded'}")
            out.paths("allow", WRITE_ONLY, "subpath", [grant.path])

    _network(out, record, mac)

    out.section("never, whatever is granted: these stand last and name every operation of their class")
    pins = _pins(record, [grant.path for grant in given])
    if pins:
        out.say("folders around what follows: renamed, they would take it along")
        out.paths("deny", ("file-write-unlink",), "literal", pins)
    if record.protected:
        out.say("settings that decide what the next session starts with")
        out.paths("deny", WRITE_ALL, "subpath", record.protected)
    if record.state:
        out.say("nd7's audit log")
        out.paths("deny", WRITE_ALL, "subpath", [record.state])
    out.say("credentials, and nd7's own directory")
    out.paths("deny", (*READ_ALL, *WRITE_ALL, "process-exec"), "subpath", hidden(record))
    return parse(out.bytes())
