"""SBPL's regular expressions, read as Python's.

The kernel's are plain: groups, alternatives, classes, `. * + ? {m,n} ^ $`, unanchored.  Python's `re`
knows more, and would read some of it differently without an error; what is not surely the same in
both is refused, so that a profile never means one thing here and another in the kernel.
"""

from __future__ import annotations

import re
from functools import lru_cache

MAX_LENGTH = 2000
_CLASSES = {
    "alpha": "a-zA-Z",
    "digit": "0-9",
    "alnum": "a-zA-Z0-9",
    "upper": "A-Z",
    "lower": "a-z",
    "space": r" \t\n\r\f\v",
    "xdigit": "0-9A-Fa-f",
    "punct": r"!-/:-@\[-`{-~",
}
_COUNT = re.compile(r"\{(\d{1,3})(?:,(\d{0,3}))?\}")


def _bracket(pattern: str, start: int) -> tuple[str, int]:
    """Translate `[...]` at `start`; returns the Python class and the index behind it."""
    at = start + 1
    out = "["
    if pattern[at : at + 1] == "^":
        out += "^"
        at += 1
    first = True
    while at < len(pattern):
        char = pattern[at]
        if char == "]" and not first:
            return out + "]", at + 1
        first = False
        if pattern.startswith("[:", at):
            end = pattern.find(":]", at)
            name = pattern[at + 2 : end] if end > 0 else ""
            if name not in _CLASSES:
                raise ValueError("an unknown character class")
            out += _CLASSES[name]
            at = end + 2
            continue
        if char == "\\" and at + 1 < len(pattern) and not pattern[at + 1].isalnum():
            out += "\\" + pattern[at + 1]
            at += 2
            continue
        # "-" keeps its meaning; everything else that Python's classes treat specially is a plain character.
        out += "\\" + char if char in "\\[]^&~|" else char
        at += 1
    raise ValueError("a [ without its ]")


def translate(pattern: str) -> str:
    """The Python pattern that matches the same paths.

    Raises:
        ValueError: for what is not surely the same in both, saying what.
    """
    if len(pattern) > MAX_LENGTH:
        raise ValueError(f"a regular expression over {MAX_LENGTH} characters")
    out: list[str] = []
    at = 0
    repeatable = False
    while at < len(pattern):
        char = pattern[at]
        if char == "\\":
            following = pattern[at + 1 : at + 2]
            if not following or following.isalnum():
                raise ValueError(f"the escape \\{following}")
            out.append("\\" + following)
            at += 2
            repeatable = True
        elif char == "[":
            piece, at = _bracket(pattern, at)
            out.append(piece)
            repeatable = True
        elif char in "*+?" or (char == "{" and _COUNT.match(pattern, at)):
            if not repeatable:
                raise ValueError(f"a {char} with nothing to repeat, or twice")
            count = _COUNT.match(pattern, at)
            piece = count[0] if count else char
            out.append(piece)
            at += len(piece)
            repeatable = False
        elif char == "(":
            if pattern.startswith("(?", at):
                raise ValueError("a group that begins with ?")
            out.append("(?:")
            at += 1
            repeatable = False
        else:
            out.append({"^": r"\A", "$": r"\Z", ")": ")", "|": "|", ".": "."}.get(char) or re.escape(char))
            at += 1
            repeatable = char not in "^$|"
    return "".join(out)


@lru_cache(maxsize=256)
def compiled(pattern: str) -> re.Pattern[str]:
    """The compiled form.  Raises ValueError like `translate`, also for a pattern that is none."""
    try:
        return re.compile(translate(pattern), re.DOTALL)
    except (re.error, OverflowError, RecursionError) as error:
        raise ValueError(str(error) or type(error).__name__) from None
