"""Refusals told without any error's name: "is not writable", "could not open database", curl's exit 7.

Much weaker than an error: believed only where the policy refuses exactly what the sentence names, and no other
cause is given beside it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from nd7core.attribution import forms, markers, nearby, network, others, paths
from nd7core.attribution.content import Content
from nd7core.attribution.cutting import KEY_PATH, START, cut
from nd7core.attribution.finding import Finding, Told
from nd7core.attribution.gate import Gate, words
from nd7core.attribution.guess import destination, guessed, inline_code
from nd7core.attribution.judge import Judge

_SENTENCE = re.compile(
    r"\b(?:is not|isn.t|not|un) ?(?:a )?writ(?:e)?able\b|\bno writ(?:e)?able\b|\bmust be writ(?:e)?able\b|"
    r"\bno write (?:access|permission)|\b(?:don.t|do not|does not|doesn.t) have write permission|"
    r"\binsufficient permission for|\bgrant write permission|\bhave permission to (?:save|write|create|open|remove)|"
    r"\b(?:writ|creat|sav|copy|open|mkdir|renam)\w* (?:failed|was not successful)|creation was not successful|"
    r": Bad file descriptor$|\b(?:fail\w*|unable|cannot|could ?n[o']t|couldn’t|can.t|could not|"
    r"error)\b.{0,80}?\b(?:creat\w*|writ\w*|open\w*|mak(?:e|ing)|sav\w*|lock\w*|remov\w*|delet\w*|updat\w*|"
    r"access\w*|renam\w*|stor\w*|copy\w*|mov(?:e|ing)|extract\w*)\b",
    re.IGNORECASE,
)
_NOT_WRITABLE = re.compile(r"\b(?:don.t|do not|does not|doesn.t) have write permission", re.IGNORECASE)
_NO_PATH = re.compile(
    r"readonly database|unable to open database|Failure writing output|Cannot write|disk I/O error|E212:"
    r"|could not be opened for writing",
    re.IGNORECASE,
)
_OTHER_CAUSE = Gate(
    re.compile(
        r"no such file|not found|does not exist|doesn.t exist|file exists|not a directory|is a directory|"
        r"already exists|no space|invalid|timed out|connection refused|text file busy|not empty|resource busy|"
        r"too many|too long|corrupt|malformed|no route|reset by peer|syntax|unknown|ENOENT|EEXIST|ENOTDIR|EISDIR|"
        r"ENOSPC|ECONN|EBUSY|ENOTEMPTY|ETIMEDOUT|EADDRINUSE|in use|is locked|being held",
        re.IGNORECASE,
    ),
    "no_such not_found exist directory space invalid timed refused busy empty too_ corrupt malformed route reset "
    "syntax unknown enoent enotdir eisdir enospc econn etimedout eaddr in_use locked held",
)
# Said beside the failure, and no cause of it: what is not there yet was to be made.
_YET = re.compile(
    r"\b(?:does not|doesn.t) exist,? (?:and|but) "
    r"(?=(?:[\w']{1,12} ){0,4}?(?:can\w*|could\w*|may not|lacks?|(?:do|does|is|are)"
    r"(?: not|n.t) (?:have|allowed|able|permitted))\b)|for an unknown reason",
    re.IGNORECASE,
)
_CURL = re.compile(r"Failed to connect to (?P<host>\S+) port (?P<port>\d{1,5})\b")
_URL = re.compile(
    r"\b(?:could not|couldn.t|cannot|can.t|unable to|failed to) connect to\b.{0,60}?[/@\s\"'](?P<host>[\w.-]+):"
    r"(?P<port>\d{2,5})\b",
    re.IGNORECASE,
)
# The same without the address, which the command gave: `Couldn't connect to server`.
_NO_CONNECTION = re.compile(
    r"\b(?:could ?n[o'’]t|cannot|can.t|unable to|failed to) (?:connect|(?:open|establish) (?:the |a )?connection|"
    r"open url|access startfile|reach|fetch)\b|\bconnection failed\b|\bfetch failed\b|"
    r"\bport \d{1,5} cannot be opened|:\d{2,5} cannot be opened|\bserver socket failed\b|"
    r"\bunable to open listening socket\b| - no response$",
    re.IGNORECASE,
)
_LISTENS = re.compile(r"\b(?:server|listening) socket\b", re.IGNORECASE)
_UNANSWERED = re.compile(
    r"resolve|resolution|getaddrinfo|ENOTFOUND|EAI_|certificate|handshake|ECONN|socket [\"'/]|\((?:2|111|113)\)",
    re.IGNORECASE,
)
_PORT = re.compile(r"permission to (?:access|bind(?: to)?|use|listen on|open) (?:that|this|the) port", re.IGNORECASE)
# With `recursive` Node and Elixir say so where the folder could not be made on a file system that is read-only.
_RECURSIVE = re.compile(r"ENOENT: no such file or directory, mkdir\b|\(with -p\) .{1,400}: no such file or directory")
_REFUSED = re.compile(r"connection refused|ECONNREFUSED|timed out|no route to host", re.IGNORECASE)
_RELATIVE = re.compile(r"\.?[\w-]+(?:/[\w.-]+)+")
_READ = re.compile(r"\b(?:read|load|open file|open)\b", re.IGNORECASE)


_LOGS = re.compile(r"^npm \S+ Log files were not written")
_POSSIBLE = words(
    "writ unable could_not couldn couldn’t can't can’t cannot fail error readonly_database disk_i/o e212 "
    "connect_to permission_for permission_to that_port this_port the_port enoent:_no with_-p not_success bad_file "
    "no_response"
)


_DOES = words(
    "writ creat sav stor cop mov mak open renam initial mkdir lock remov delet updat access extract permission "
    "connect database i/o e212 with_-p not_success bad_file fetch url reach socket no_response"
)


def possible(lowered: str) -> bool:
    """Whether an output, in lower case, holds a word that such a sentence has."""
    return any(map(lowered.__contains__, _POSSIBLE))


def candidates(lines: Sequence[str]) -> list[int]:
    """The lines that may tell a refusal without an error's name; at most a few dozen, for each is weak."""
    found: list[int] = []
    for index, line in enumerate(lines):
        if not line or len(line) > 2000:
            continue
        lowered = line.lower()
        # Most lines that speak of a failure speak of no file: ten patterns are dear for them.
        if not any(map(lowered.__contains__, _POSSIBLE)) or not any(map(lowered.__contains__, _DOES)):
            continue
        if any(form.search(line) for form in FORMS):
            found.append(index)
            if len(found) >= 64:
                break
    return found


def without_error(lines: Sequence[str], weak: Sequence[int], judge: Judge, content: Content) -> Iterator[Finding]:
    """The findings that rest on a sentence and the policy, at most a handful."""
    given = 0
    answered = any(_REFUSED.search(line) for line in lines[:200])
    for index in weak:
        if given >= 8:
            return
        finding = _connection(lines, index, judge) if not answered else None
        finding = finding or _sentence(lines, index, judge)
        if (
            finding is not None
            and (_own_words(lines[index], judge) or not content.merely_shown(lines[index], finding))
            and content.of_finding(finding) is None
        ):
            given += 1
            yield finding


# Neither a path nor a cause, only what could not be made: the command and the policy must tell the rest.
_NO_FILE = re.compile(
    r"\b(?:could not|could ?n[o'’]t|cannot|can[’']?t|unable to|failed to|error|failure)\b[^/:]{0,30}?\b(?:writ\w*|"
    r"creat\w*|sav(?:e|ing)|stor(?:e|ing)|copy\w*|mov(?:e|ing)|mak(?:e|ing)|open\w*|renam\w*|"
    r"initiali[sz]\w*)\b[^/:]{0,40}$|\b(?:copy\w*|writ(?:e|ing)|sav(?:e|ing)|creat(?:e|ing)|mkdir|renam(?:e|ing)|"
    r"mov(?:e|ing))\b[^/:]{0,20} failed\b[^/]{0,20}$",
    re.IGNORECASE,
)
_PLACE = re.compile(r" at \S+ line \d+\.?$")


FORMS = (_SENTENCE, _NO_PATH, _NO_FILE, _CURL, _URL, _PORT, _RECURSIVE, _NO_CONNECTION)
"""Every form of a sentence that may tell a refusal."""


def _own_words(line: str, judge: Judge) -> bool:
    """Whether a line stands in the code that the command gave an interpreter, which printed it where it failed."""
    said = _PLACE.sub("", line.strip())
    return len(said) > 3 and any(said in code for simple in judge.commands for code in inline_code(simple))


def _connection(lines: Sequence[str], index: int, judge: Judge) -> Finding | None:
    """curl's line, which is the same for a refused and an unanswered connection, where the policy refuses the port."""
    line = lines[index]
    found = _CURL.search(line) or _URL.search(line)
    program = forms.program_of(line)
    if found is None and _PORT.search(line):
        host, port = network.from_command(judge.commands, listening=True)
        return Finding(line, "", "network", (), host, port, "network", program, index, "listen")
    if found is None:
        return _no_connection(lines, index, judge, program)
    port = int(found["port"])
    if not 0 < port < 65536 or judge.rules.connects(found["host"], port):
        return None
    return Finding(line, "", "network", (), found["host"], port, "network", program, index, "connect")


def _no_connection(lines: Sequence[str], index: int, judge: Judge, program: str) -> Finding | None:
    """A failed connection, without a cause, to an address that the line or the command names and the policy refuses."""
    line = lines[index]
    near = " ".join(lines[max(0, index - 3) : index + 4])[:3000]
    if judge.failure.exit_code == 0 or not _NO_CONNECTION.search(line) or _UNANSWERED.search(near):
        return None
    host, port = network.pair(line, loose=True)
    port = port or network.port_on(line)
    if port and _LISTENS.search(line) and not judge.rules.binds(host, port):
        return Finding(line, "", "network", (), host, port, "network", program, index, "listen")
    if not port:
        host, port = network.from_command(judge.commands, program)
    if not port or not host.strip("[]") or judge.rules.connects(host, port) or content_other(line):
        return None
    return Finding(line, "", "network", (), host, port, "network", program, index, "connect")


def _sentence(lines: Sequence[str], index: int, judge: Judge) -> Finding | None:
    line = lines[index]
    recursive = judge.platform == "linux" and bool(_RECURSIVE.search(line))
    forms_of_it = (_SENTENCE, _NO_PATH, _NO_FILE)
    if not recursive and not any(form.search(line) for form in forms_of_it):
        return None
    near = _YET.sub("", " ".join(lines[index : index + 3])[:3000])
    if (_OTHER_CAUSE.search(near) and not recursive) or content_other(line):
        return None
    if _LOGS.search(line) and any("npm" in above and " path " in above for above in lines[max(0, index - 12) : index]):
        return None  # npm could not keep its log of a failure that it has told
    if any(markers.find(below) for below in lines[index : index + 4]):
        return None  # the error itself is told, and has been judged
    program = forms.program_of(line)
    named = _paths(lines, index)
    rest = line
    for path in named:
        rest = rest.replace(path, " ")
    operation: Told = "" if _READ.search(rest) else "write"
    # Where the sentence says that writing is what is not allowed, ordinary permissions are a cause as good.
    plain = bool(_NOT_WRITABLE.search(line))
    refused = tuple(path for path in named if _refused(judge, path, program, system=plain))
    # `/a/b does not exist and ... no write permission in /a`: the folder is only where it would have been made.
    refused = tuple(one for one in refused if not any(other != one and paths.inside(other, one) for other in refused))
    if refused:
        return Finding(line, "", "path", refused, "", 0, operation, program, index)
    relative = all(path[:1] not in "/~." for path in named)
    if relative and judge.failure.exit_code and (named or _NO_FILE.search(_PLACE.sub("", line.rstrip()))):
        meant = destination(judge.commands, judge.rules, judge.home, judge.platform)
        if meant:
            return Finding(line, "", "path", (meant,), "", 0, "write", program, index)
    if (
        not named
        and _NO_PATH.search(line)
        and (guess := guessed(judge.commands, judge.rules, judge.home, judge.platform))
    ):
        return Finding(line, "", "path", (guess,), "", 0, "write", program, index)
    return None


def content_other(line: str) -> bool:
    """Whether a sentence is a remote's or a program's own."""
    return others.of_line(line) is not None


def _refused(judge: Judge, printed: str, program: str, *, system: bool) -> bool:
    path = judge.resolve(printed, program)
    if not path.startswith("/"):
        return False
    if judge.rules.hidden(path):
        return True
    owned = not system and paths.system_owned(path, judge.home, judge.platform)
    return judge.rules.refuses("write", path) and not owned


_FIRST = re.compile(r"\s+((?:~|\.{1,2})?/[^\s/].*)$")
_QUOTED_FILE = re.compile(r"[\w.+-]+\.\w{1,5}")


def _paths(lines: Sequence[str], index: int) -> tuple[str, ...]:
    line = lines[index]
    found = [text for _, _, text in paths.quoted(line) if paths.looks_like_path(text)]
    found = found or list(nearby.lonely(line))
    if not found and line.endswith(": Bad file descriptor") and (start := START.search(line)):
        found = [cut(line[start.start() :])]  # what GNU's tools for object files make of what could not be opened
    if found and len(line) < 1000:
        found += [cut(line[match.start() :]) for match in START.finditer(line) if found[0] not in line[match.start() :]]
    if not found and (
        line.rstrip().endswith((":", ".")) or any("Path:" in below for below in lines[index + 1 : index + 3])
    ):
        for below in lines[index + 1 : index + 3]:
            keyed, first = KEY_PATH.search(below), _FIRST.match(below)
            found = [keyed[1].strip()] if keyed else [cut(first[1])] if first else list(nearby.lonely(below))
            if found:
                break
    if not found:
        # `can't write on file `paper.log'`: in whichever folder the program works
        found = [text for _, _, text in paths.quoted(line) if _QUOTED_FILE.fullmatch(text)]
    if not found:
        # `... repository database .git/objects`
        last = line.rstrip(" .").rsplit(" ", 1)[-1]
        found = [last] if _RELATIVE.fullmatch(last) else []
    return tuple(found[:3])
