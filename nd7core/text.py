"""The one choke point between what a session wrote and a person's terminal.

A command's output, a path, a prompt, an agent's words: all of it is hostile.  Textual and rich pass
ESC, C1 controls, bidirectional overrides and NUL on to the terminal from every widget, markup on or
off (measured on 14 display paths), so nothing downstream can be relied on to clean it.  Everything
that is shown goes through `safe`, which makes such characters visible instead of dropping them: a
path with an escape in it must look like one.
"""

from __future__ import annotations

import os
import re
import unicodedata
from typing import NewType

SafeText = NewType("SafeText", str)
"""Text that `safe` returned: printable characters only (and newlines where asked for)."""

MAX_MARKS = 2
"""Combining marks let through in a row.  Vietnamese and Thai need two; more only climb over other lines."""

# Characters that str.isprintable() accepts and that still show nothing or change a neighbour: Hangul
# fillers, the grapheme joiner, Khmer and Mongolian invisible vowels and selectors, the blank Braille
# cell, the musical null notehead, both blocks of variation selectors.
_INVISIBLE = (
    "\u034f\u115f\u1160\u17b4\u17b5\u180b-\u180d\u180f\u2800\u3164\ufe00-\ufe0f\uffa0\U0001d159\U000e0100-\U000e01ef"
)
_SUSPECT = re.compile(f"[{_INVISIBLE}]")
_PICTURES = {code: chr(0x2400 + code) for code in range(0x20)} | {0x7F: "␡"}


def _visible(char: str) -> str:
    """How a character that must not reach a terminal is shown."""
    code = ord(char)
    picture = _PICTURES.get(code)
    if picture is not None:
        return picture
    if 0xDC80 <= code <= 0xDCFF:
        # What os.fsdecode makes of a byte that is no UTF-8: show the byte.
        return f"\\x{code - 0xDC00:02x}"
    if code <= 0xFF:
        return f"\\x{code:02x}"
    return f"\\u{code:04x}" if code <= 0xFFFF else f"\\U{code:08x}"


def _is_mark(char: str) -> bool:
    return char > "\u02ff" and unicodedata.category(char) in ("Mn", "Me")


def _pieces(text: str, keep_newlines: bool) -> list[str]:
    """One printable piece for each character of `text`."""
    pieces: list[str] = []
    marks = MAX_MARKS  # a mark at the very start would sit on whatever nd7 itself drew before it
    for char in text:
        if char == "\n" and keep_newlines:
            pieces.append(char)
            marks = MAX_MARKS
        elif char == "\t" and keep_newlines:
            # In running text a tab is only space; in a name (one line) it is something to see.
            pieces.append("    ")
            marks = MAX_MARKS
        elif not char.isprintable() or _SUSPECT.match(char):
            pieces.append(_visible(char))
            marks = 0
        elif _is_mark(char):
            marks += 1
            pieces.append(char if marks <= MAX_MARKS else _visible(char))
        else:
            pieces.append(char)
            marks = 0
    return pieces


def _needs_no_work(text: str, keep_newlines: bool) -> bool:
    """The fast path: printable ASCII, which is nearly everything that is ever shown."""
    if text.isascii():
        return text.isprintable() or (keep_newlines and text.replace("\n", "").isprintable())
    return False


def safe(value: str | bytes, limit: int = 2000, *, keep_newlines: bool = False) -> SafeText:
    """Text from a session, made fit to be shown.

    Args:
        value: anything.  Bytes are read as UTF-8, what is none is shown as `\\xNN`.
        limit: the most characters to return, the note of a cut included.  The cut comes before
            anything slow, so a line of 10 MB costs what one of `limit` characters costs.
        keep_newlines: let `\\n` through, for a view of several lines.

    Returns:
        At most `limit` characters, each printable (`str.isprintable`) or a kept newline; no
        controls, escapes, bidirectional, zero-width, private, unassigned or invisible characters.
        Idempotent.  It is text, not markup: callers must not hand it to a markup parser.
    """
    limit = max(0, limit)
    total = len(value)
    if isinstance(value, bytes):
        # Four bytes are the most a character takes, so this many hold at least `limit` characters.
        head = value[: 4 * limit + 4]
        text = head.decode("utf-8", "surrogateescape")
        rest = total - len(head)
    else:
        text = value
        rest = 0
    beyond = max(0, len(text) - limit) + rest
    text = text[:limit]
    if not beyond and _needs_no_work(text, keep_newlines):
        return SafeText(text)
    pieces = list(text) if _needs_no_work(text, keep_newlines) else _pieces(text, keep_newlines)
    width = sum(map(len, pieces))
    if not beyond and width <= limit:
        return SafeText("".join(pieces))
    # Too long: take pieces from the end until the note fits, which names what is not shown.
    while True:
        note = f"… (+{beyond} more)"
        if len(note) > limit:
            note = "…"[:limit]
        if width + len(note) <= limit or not pieces:
            return SafeText("".join(pieces) + note)
        width -= len(pieces.pop())
        beyond += 1


def safe_path(path: str | bytes, limit: int = 1024) -> SafeText:
    """A path on one line.  A long one loses its middle, not its end: the file name is what tells.

    Whoever looks at a grant must see which file it is, so nothing is dropped silently.
    """
    raw = path if isinstance(path, bytes) else path.encode("utf-8", "surrogatepass")
    try:
        text = os.fsdecode(path) if isinstance(path, bytes) else path
    except UnicodeDecodeError:
        text = raw.decode("utf-8", "backslashreplace")
    if len(text) <= limit:
        shown = safe(text, len(text) * 10 + 1)
        if len(shown) <= limit:
            return shown
        text = shown
    if limit < 8:
        return safe(text, limit)
    tail = (limit - 1) * 2 // 3
    front = safe(text[: limit * 2], limit * 20)[: limit - 1 - tail]
    back = safe(text[-limit * 2 :], limit * 20)[-tail:]
    return safe(front + "…" + back, limit)


def wrapped(text: SafeText, width: int, first: str = "", rest: str = "") -> list[SafeText]:
    """A sentence in lines of at most `width` characters, broken at blanks only.

    A word that is longer, a path say, stays whole on a line of its own: the terminal breaks it, and it can be copied.

    Args:
        first, rest: what the first line and each further one begin with.
    """
    lines: list[SafeText] = []
    line = first
    empty = True
    for word in text.split(" "):
        if not empty and len(line) + 1 + len(word) > width:
            lines.append(SafeText(line))
            line, empty = rest, True
        line += word if empty else f" {word}"
        empty = False
    return [*lines, SafeText(line)]
