"""What the lines around a bare error say: boxes, causes, error objects, npm's report, stack traces."""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import islice
from typing import Literal

from nd7core.attribution import paths
from nd7core.attribution.cutting import KEY_PATH, START, cut
from nd7core.attribution.gate import Gate

_KEY_CALL = re.compile(r"""["']?\bsyscall["']?\s*[: ]\s*["']?([a-z_]+)""")
_NPM = re.compile(
    r"^npm (?:ERR!|error|warn|WARN)\s?(?:(?P<key>code|syscall|path|dest|errno|address|port)\s(?P<value>.*))?"
)


def around(lines: Sequence[str], index: int, reach: int = 4) -> tuple[str, ...]:
    """The path from lines next to an error that names none: boxes, causes, objects, `npm error path`.

    Lines above come first, nearest first: a cause is printed below what it caused.
    """
    block = _block(lines, index)
    if block:
        return block
    for distance in range(1, reach + 1):
        at = index - distance
        if at < 0:
            break
        line = lines[at]
        if not line.strip():
            continue
        found = lonely(line)
        if found:
            return found
    below = (line for line in lines[index + 1 : index + 15] if not _FRAME.search(line))
    for line in islice(below, 2):
        found = lonely(line)
        if found:
            return found
    return ()


def _block(lines: Sequence[str], index: int) -> tuple[str, ...]:
    """`path` of an error object that is printed over several lines, npm's among them."""
    for at in range(max(0, index - 6), min(len(lines), index + 9)):
        line = lines[at]
        npm = _NPM.match(line)
        if npm and npm["key"] == "dest":
            return (npm["value"].strip(),)
        if "destination" in line and (keyed := _DESTINATION.match(line)):
            return (keyed[1].strip(),)
    for at in range(max(0, index - 6), min(len(lines), index + 9)):
        line = lines[at]
        npm = _NPM.match(line)
        if npm:
            if npm["key"] == "path":
                return (npm["value"].strip(),)
            continue
        keyed = KEY_PATH.search(line) if ("path" in line or "dest" in line) else None
        if keyed and len(line) < 1000:
            return (keyed[1].strip(),)
    return ()


_DESTINATION = re.compile(r"\s*(?:destination|target|output)(?: (?:path|file))?: ((?:~|\.{1,2})?/\S.*)$", re.IGNORECASE)
_FRAME = re.compile(
    r"^\s*(?:at |File \"|\d+: +(?:0x|<|\w+(?:::\w+)+)|from |#\d+ |in <|-->|--> |\^)|^\s+at\s|"
    r"\bnode_modules/.*:\d+:\d+|\.(?:rs|go|py|js|rb|java):\d+|\.\w{1,5}\(\d+(?:, \d+)?\)(?: \w+)?$"
)
_IN_BRACKETS = re.compile(r"\((\.{0,2}/?[\w.-]+(?:/[\w.-]+)+)\)")
_KEYED = re.compile(r"^\s*(?:additional info|details?|path|file|target|location|object): (?=(?:~|\.{1,2})?/)", re.I)
_LISTED = re.compile(r"[-*•] ")
_MOVED = re.compile(r"^\W*(?:to|->|=>|as|into)\W*$")
_COULD_NOT = re.compile(
    r"\b(?:fail\w*|unable|couldn.t|could not|cannot|can.t|not|error\w*|creat\w*|writ\w*|open\w*|lock\w*|remov\w*"
    r"|sav\w*|making)\b",
    re.I,
)


_OPEN = re.compile(r"[\"'`][~/][^\"'`]*$")
_REST = re.compile(r"\s*([^\s\"'`][^\"'`]*[\"'`])")
_RUBY_CALL = re.compile(r" @ \w+$")


def joined(lines: Sequence[str], index: int) -> str:
    """A line with the rest of a quoted path that a box broke over two."""
    line = lines[index]
    if index + 1 < len(lines) and len(line) < 400 and _OPEN.search(line) and (rest := _REST.match(lines[index + 1])):
        return line + rest[1]
    if index + 1 < len(lines) and _RUBY_CALL.search(line) and lines[index + 1].startswith("- "):
        return f"{line} {lines[index + 1]}"  # Bundler breaks its messages at eighty columns
    return line


def lonely(line: str) -> tuple[str, ...]:
    """A path on a line of its own or in a sentence about a failure; never one of a stack trace."""
    if len(line) > 2000 or (_FRAME.search(line) and ": error: " not in line) or "://" in line:
        return ()
    bare = _LISTED.sub("", line.strip()).strip("'\"`│| ")
    if paths.looks_like_path(bare) and " " not in bare:
        return (paths.tidy(bare),)
    if keyed := _KEYED.match(line):
        return (cut(line[keyed.end() :]),)
    if not _COULD_NOT.search(line):
        return ()
    named = [item for item in paths.quoted(line) if paths.looks_like_path(item[2])]
    if len(named) > 1 and _MOVED.match(line[named[0][1] : named[1][0]]):
        return (named[0][2], named[1][2])
    if named:
        return (named[0][2],)
    start = START.search(line)
    if start:
        found = cut(line[start.start() :])
        return (found,) if len(found) > 1 else ()
    relative = _IN_BRACKETS.search(line)
    return (relative[1],) if relative else ()


def syscall(lines: Sequence[str], index: int) -> str:
    """The system call that an error object or npm's report names near a line, or ""."""
    for at in range(max(0, index - 4), min(len(lines), index + 6)):
        if "syscall" not in lines[at]:
            continue
        npm = _NPM.match(lines[at])
        if npm and npm["key"] == "syscall":
            return npm["value"].strip()
        keyed = _KEY_CALL.search(lines[at])
        if keyed:
            return keyed[1]
    return ""


_CAUSE_NETWORK = re.compile(
    r"^\W*(?:[\w-]+: )?(?:(?:failed |unable |could not |cannot )?(?:to )?(?:bind|listen|connect)(?:ing|ion|"
    r"ed)?\b.{0,60}|port(?: number)?: \d{1,5}|host ?name: \S+)$",
    re.IGNORECASE,
)
_ITEM = re.compile(r"^\s+\S|^\s*(?:[-*•│└├↳]|\d+:|caused by)", re.IGNORECASE)


def about_network(lines: Sequence[str], index: int) -> bool:
    """Whether an error that names nothing is the last of a list of causes, or of fields, about a connection."""
    if not index or not _ITEM.match(lines[index]):
        return False
    above = next((line for line in reversed(lines[max(0, index - 3) : index]) if line.strip()), "")
    return len(above) < 200 and bool(_CAUSE_NETWORK.match(above))


_TRACE_NETWORK = Gate(
    re.compile(
        r"socket|\.connect\(|create_connection|urlopen|server_bind|\.bind\(|\.listen\(|http\.client|requests/|"
        r"aiohttp|asyncio/|urllib|\bNet\.(?:connect|bind)|java\.net|sun\.nio\.ch|TcpStream|TcpListener|"
        r"net\.(?:Listen|Dial)|IO::Socket|HTTP::|Net::HTTP|mysql|psycopg|redis|Sockets\.|"
        r"\b(?:net|tcp|dgram)\.\w{1,5}[(:]\d|^\s*at (?:async )?(?:\w+\.)*(?:listen|serve|bind|connect)\w* \(",
        re.IGNORECASE,
    ),
    "socket connect urlopen bind http requests/ aiohttp asyncio/ urllib java.net sun.nio tcp net. io:: mysql psycopg "
    "redis listen serve dgram",
)
_TRACE_UNIX = re.compile(
    r"AF_UNIX|PF_UNIX|unix_(?:connection|server)|UNIX(?:Socket|Server)|UnixDomainSocket|IO::Socket::UNIX"
)
_TRACE_SHARED = re.compile(
    r"node_modules/lmdb/|SemLock|shm_open|shared_memory|_posixshmem|sem_open|Semaphore\(|/dev/shm"
)
_TRACE_SYSTEM = re.compile(r"sysconf\(|sysctl|getloadavg|setpriority|sched_set|setrlimit")
_TRACE_SIGNAL = re.compile(r"os\.kill|send_signal|killpg|\.terminate\(\)|process\.kill")


def uses_unix(lines: Sequence[str], index: int) -> bool:
    """Whether the lines of a stack trace around an error make or use a unix socket."""
    return any(_TRACE_UNIX.search(line[:1000]) for line in lines[max(0, index - 14) : index + 5])


def trace_says(lines: Sequence[str], index: int) -> Literal["network", "shared", "signal", "other", ""]:
    """What the lines of a stack trace around a bare error were about; `other` asks the kernel about itself."""
    for at in range(index, max(-1, index - 14), -1):
        line = lines[at][:1000]
        if _TRACE_SHARED.search(line):
            return "shared"
        if _TRACE_SIGNAL.search(line):
            return "signal"
        if _TRACE_SYSTEM.search(line):
            return "other"
        if _TRACE_NETWORK.search(line):
            return "network"
    for at in range(index + 1, min(len(lines), index + 5)):
        line = lines[at][:1000]
        if _TRACE_SHARED.search(line):
            return "shared"
        if _TRACE_NETWORK.search(line):
            return "network"
    return ""
