"""Whether a text speaks of a refusal at all, and which error a line names.

First substrings, then patterns: most results of a session speak of none, and a history of a million of them has to
be read in a minute.
"""

from __future__ import annotations

import re
from typing import NamedTuple

from nd7core.attribution.gate import words
from nd7core.attribution.messages import MESSAGES

_FOREIGN = tuple(sorted({text for messages in MESSAGES.values() for text in messages}, key=len, reverse=True))
_FOREIGN_LOWER = tuple(text.lower() for text in _FOREIGN)
_FOREIGN_ASCII = tuple(text for text in _FOREIGN_LOWER if text.isascii())
_FOREIGN_ERRNO = {text.lower(): name for name, messages in MESSAGES.items() for text in messages}
_FOREIGN_PATTERN = re.compile("|".join(map(re.escape, _FOREIGN)), re.IGNORECASE)


def foreign(lowered: str) -> bool:
    """Whether the C library says a refusal in another language there."""
    return any(map(lowered.__contains__, _FOREIGN_ASCII if lowered.isascii() else _FOREIGN_LOWER))


_CORE = words(
    "denied permitted read-only readonly cross-device eacces eperm erofs exdev errno os_error errcode 13) (1) "
    "deny( permissiondenied permissionerror unauthorizedaccess"
)


def interesting(lowered: str) -> bool:
    """Whether a line, in lower case, can name an error."""
    return any(map(lowered.__contains__, _CORE)) or foreign(lowered)


class Mark(NamedTuple):
    """An error named on a line.

    `errno` is EACCES, EPERM, EROFS, EXDEV, or "ANY" where a runtime has one word for the first two.
    `start` and `end` span the whole of it, with the number in brackets before or behind.
    """

    errno: str
    start: int
    end: int


# Words of the C library, with the ones that other runtimes make of them, and what they mean.
_PHRASES = (
    ("permission denied", "EACCES"),
    ("operation not permitted", "EPERM"),
    ("read-only file system", "EROFS"),
    ("readonly file system", "EROFS"),
    ("read-only filesystem", "EROFS"),
    ("cross-device link", "EXDEV"),
    ("access denied", "ANY"),
    ("access is denied", "ANY"),
    ("access was denied", "ANY"),
    (" is denied", "ANY"),
    ("not permitted", "ANY"),
)
_COMMON = ("denied", "permitted", "read-only", "readonly", "cross-device")  # one of these is in each
_FRONT = re.compile(
    r"(?:\b(?:EACCES|EPERM|EROFS|EXDEV)\b[:,]? ?(?:\(-?\d+\):? ?)?)?"
    r"(?:\[Errno -?\d+\] ?|(?<![\w.:/-])(?:\(-?\d+\)|-?\d+)(?:: | ))?(?:invalid |improper )?$",
    re.IGNORECASE,
)
_BACK = re.compile(
    r"(?: not permitted)?(?: ?\((?:os error |errno:? ?=? ?|error )?-?\d+\)| \(E(?:ACCES|PERM|ROFS|XDEV)\))?",
    re.IGNORECASE,
)
_CODE_WORDS = words(
    "eacces eperm erofs exdev errno os_error errcode 13) (1) permissiondenied permissionerror accessdenied "
    "unauthorizedaccess"
)
_CODE = re.compile(
    r"\b((?i:EACCES|EPERM|EROFS|EXDEV))\b|\[Errno -?(1|13|18|30)\]|\bos error (1|13|18|30)\b|\berrno[ =:]{1,3}-?(1|"
    r"13|18|30)\b|\bErrcode: (1|13|18|30)\b|\(-?(13)\)(?=$|[ .,;\"'])|[Ss]ocket\b.{0,300}\((1|13)\)$|"
    r"\b((?<!ErrorKind::)PermissionDenied|(?<!\d: )PermissionError(?!: (?!.*(?:\d|/|[Pp]ermi)))|"
    r"AccessDeniedException|AccessDenied|UnauthorizedAccessException)\b"
)
_SAYS_NUMBER = re.compile(
    r"\bE(ACCES|PERM|ROFS|XDEV)\b|(?:Errno |os error |errno[ =:]{1,3}-?|code: |Errcode: |PermissionError\("
    r"|OSError\()(1|13|18|30)\b"
)
# What macOS's kernel logs: `Sandbox: node(77) deny(1) file-write-create /a`.
_SEATBELT = re.compile(r"\bdeny\(\d+\) (?=(?:file|process|network|mach|signal|sysctl|ipc)[\w*-]* )")
_DIGIT = re.compile(r"[0-9]")
_NUMBER_BEHIND = re.compile(r" ?\(\d+\)")
_NUMBERS = {"1": "EPERM", "13": "EACCES", "18": "EXDEV", "30": "EROFS"}
_NAMES = {"ACCES": "EACCES", "PERM": "EPERM", "ROFS": "EROFS", "XDEV": "EXDEV"}


def _phrase(line: str, lowered: str) -> Mark | None:
    """The first of the words on a line, with a number before or behind them."""
    at, length, errno = len(lowered), 0, ""
    if not any(map(lowered.__contains__, _COMMON)):
        return None
    for said, meaning in _PHRASES:
        found = lowered.find(said)
        if 0 <= found < at:
            at, length, errno = found, len(said), meaning
    if not errno:
        return None
    if len(lowered) != len(line):
        # A letter that has no lower case of its own length: count again on the line itself.
        again = re.search(re.escape(lowered[at : at + length]), line, re.IGNORECASE)
        if again is None:
            return None
        at = again.start()
    # Most often nothing of the error stands before its words, and looking for it backwards is dear.
    near = line[max(0, at - 24) : at]
    front = _FRONT.search(line, max(0, at - 40), at) if "E" in near or "[" in near or _DIGIT.search(near, 12) else None
    back = _BACK.match(line, at + length)
    if errno == "ANY" and (number := _SAYS_NUMBER.search(line)):
        errno = _NAMES[number[1]] if number[1] else _NUMBERS[number[2]]
    return Mark(errno, front.start() if front else at, back.end() if back else at + length)


def find(line: str) -> Mark | None:
    """The error that a line names, or None.  The words win over a code, a code over a class of exception."""
    lowered = line.lower()
    mark = _phrase(line, lowered)
    if mark is not None:
        return mark
    if "deny(" in lowered and (log := _SEATBELT.search(line)):
        return Mark("EPERM", log.start(), log.end())
    code = _CODE.search(line) if any(map(lowered.__contains__, _CODE_WORDS)) else None
    if code:
        name, *rest = code.groups()
        number = next((value for value in rest[:6] if value), None)
        if name:
            return Mark(name.upper(), code.start(), code.end())
        if number:
            return Mark(_NUMBERS[number], code.start(), code.end())
        return Mark("ANY", code.start(), code.end())
    if foreign(lowered):
        match = _FOREIGN_PATTERN.search(line)
        if match:
            end = match.end()
            number_behind = _NUMBER_BEHIND.match(line, end)
            return Mark(_FOREIGN_ERRNO[match[0].lower()], match.start(), number_behind.end() if number_behind else end)
    return None
