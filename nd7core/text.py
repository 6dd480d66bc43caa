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


MASKED = "[masked]"

# Patterns stay text until `mask` first needs one: most programs that import this module never do, and compiling
# them takes longer than the rest of `nd7 allow`.
_TOKENS = (
    # (a cheap substring that must be there, the shape).  Each shape is linear: one bounded prefix, one class.
    ("sk-", r"\bsk-[A-Za-z0-9_-]{16,}"),
    ("gh", r"\bgh[pousr]_[A-Za-z0-9]{16,}"),
    ("github_pat_", r"\bgithub_pat_[A-Za-z0-9_]{16,}"),
    ("glpat-", r"\bglpat-[A-Za-z0-9_-]{12,}"),
    ("xox", r"\bxox[abeprs]-[A-Za-z0-9-]{8,}"),
    ("AKIA", r"\bAKIA[0-9A-Z]{16}\b"),
    ("ASIA", r"\bASIA[0-9A-Z]{16}\b"),
    ("AIza", r"\bAIza[A-Za-z0-9_-]{30,}"),
    ("ya29.", r"\bya29\.[A-Za-z0-9_-]{16,}"),
    ("npm_", r"\bnpm_[A-Za-z0-9]{24,}"),
    ("pypi-", r"\bpypi-[A-Za-z0-9_-]{24,}"),
    ("hf_", r"\bhf_[A-Za-z0-9]{20,}"),
    ("k_live_", r"\b[rs]k_live_[A-Za-z0-9]{10,}"),
    ("k_test_", r"\b[rs]k_test_[A-Za-z0-9]{10,}"),
    ("SG.", r"\bSG\.[A-Za-z0-9_-]{16,}\.[A-Za-z0-9_-]{16,}"),
    ("dop_v1_", r"\bdop_v1_[a-f0-9]{32,}"),
    ("eyJ", r"\beyJ[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]{8,}(?:\.[A-Za-z0-9_-]*)?"),
    ("AGE-SECRET-KEY-", r"\bAGE-SECRET-KEY-1[A-Z0-9]{20,}"),
)
_PREFIXED = (
    # (substring of the lower-cased text, shape whose group 1 stays)
    ("bearer", r"(?i)(\bbearer\s{1,4})[A-Za-z0-9._~+/=-]{8,}"),
    ("basic", r"(?i)(\bbasic\s{1,4})[A-Za-z0-9+/=_-]{8,}"),
    ("://", r"(://[^\s/@:'\"]{0,256}:)[^\s/@'\"]{1,256}(?=@)"),
)
_HEADER_NAMES = r"(?:proxy-)?authorization|(?:set-)?cookie|x-api-key|x-auth-token|x-amz-security-token|private-token"
_HEADER_PROBES = ("authorization", "cookie", "x-api-key", "x-auth-token", "x-amz-security-token", "private-token")
_HEADER = (
    rf"(?i)((?P<open>[\"'])?\b(?:{_HEADER_NAMES})(?P<close>[\"'])?[ \t]{{0,8}}[:=][ \t]{{0,8}}(?P<value>[\"'])?)"
    r"(?(value)(?:(?!(?P=value))[^\r\n])+|(?(close)[^\r\n]+|(?(open)(?:(?!(?P=open))[^\r\n])+|[^\r\n]+)))"
)
_NAME_PROBES = ("secret", "token", "passw", "passphrase", "pwd", "api", "key", "credential")
_NAMED = (
    r"(?i)((?:secret|token|passwd|passw(?:or)?d|passphrase|pwd|api[_-]?key|access[_-]?key|private[_-]?key|signing[_-]?key"
    r"|encryption[_-]?key|credentials?)[A-Za-z0-9_-]{0,32}[\"']?[ \t]{0,8}(?:=|:)[ \t]{0,8})"
    r"(?:\"(?P<dq>[^\"\r\n]{6,4096})\"|'(?P<sq>[^'\r\n]{6,4096})'|(?P<bare>[^\s\"',;&)\]}]{6,4096}))"
)
_NO_SECRET = re.compile(r"(?i)(?:[0-9.]+|true|false|null|none|undefined|\$\{?[A-Za-z_].*|%[A-Za-z_]+%|<[^>]*>)\Z")
_PEM = (
    r"(?s)(-----BEGIN [A-Z0-9 ]{0,40}PRIVATE KEY(?: BLOCK)?-----).*?"
    r"(?:(-----END [A-Z0-9 ]{0,40}PRIVATE KEY(?: BLOCK)?-----)|\Z)"
)


def _mask_named(match: re.Match[str]) -> str:
    for group, quote in (("dq", '"'), ("sq", "'"), ("bare", "")):
        value = match[group]
        if value is not None:
            return match[0] if _NO_SECRET.match(value) else f"{match[1]}{quote}{MASKED}{quote}"
    return match[0]


def mask(text: str) -> str:
    """The text with what looks like a secret replaced by `[masked]`, for the screen and for exports.

    Knows API keys of the common shapes, `Authorization` and `Cookie` lines, private keys in PEM,
    passwords in URLs, and `name=value` with a name that says secret.  A heuristic: it hides what is
    shown by default, it does not make a log safe to publish.  Linear in the length of the text.
    """
    lowered = text.lower()
    if "private key" in lowered:
        text = re.sub(_PEM, lambda m: f"{m[1]}{MASKED}{m[2] or ''}", text)
    if any(probe in lowered for probe in _HEADER_PROBES):
        text = re.sub(_HEADER, lambda m: m[1] + MASKED, text)
    for probe, shape in _TOKENS:
        if probe in text:
            text = re.sub(shape, MASKED, text)
    for probe, shape in _PREFIXED:
        if probe in lowered:
            text = re.sub(shape, lambda m: m[1] + MASKED, text)
    if any(probe in lowered for probe in _NAME_PROBES):
        text = re.sub(_NAMED, _mask_named, text)
    return text
