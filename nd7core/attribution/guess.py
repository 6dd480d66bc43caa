"""Which path a refusal that names none was most likely about: what the command names and the policy refuses."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from nd7core.attribution import paths
from nd7core.attribution.rules import Rules
from nd7core.attribution.shell import Simple, place

_LITERAL = re.compile(r"[\"']((?:~|\.\.|/)/?[^\"'\s:,;()]{2,200})[\"']")
_READ_LIMIT = 20_000


def guessed(commands: Iterable[Simple], rules: Rules, home: str, platform: str) -> str:
    """A path that the command names and the policy refuses to write, or to read at all; "" for none."""
    for simple in commands:
        for named in _named(simple):
            path = place(named, simple.cwd, home)
            full = paths.canonical(path, platform)
            if full.startswith("/") and not paths.system_owned(full, home, platform) and rules.refuses("write", full):
                return path
    return ""


def _named(simple: Simple) -> Iterator[str]:
    """Every path in a command: where it redirects to, its arguments, and literals in code that it is given."""
    for operator, target in simple.redirects:
        if operator != "<" and target[:1] in "/~.":
            yield target
    for word in simple.words:
        value = word.partition("=")[2] if "=" in word and (word[:1] == "-" or word[:1].islower()) else word
        if paths.looks_like_path(value):
            yield value
        elif "'" in word or '"' in word:
            yield from (match[1] for match in _LITERAL.finditer(word[:_READ_LIMIT]))
    yield from (match[1] for match in _LITERAL.finditer(simple.body[:_READ_LIMIT]))
