"""The stream's filter: a small syntax, parsed to a predicate over rows.

    word            in the path, the command or the output
    -word           not there
    "two words"     as they stand
    source:kernel   kernel nd7-exec model other; a first letter is enough
    state:open      open granted proved repeated obsolete
    op:write        read write run connect
    path:/etc       in the target alone
    session:api     in the session's name
    tool:Write      the agent's tool
    exit:1          the exit status
    age:10m         not older than so many s, m, h or d

Several must all hold; `a,b` within one means either.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from nd7tui.look import OPERATION, SOURCES, STATE
from nd7tui.model import Row

Test = Callable[[Row, str, int], bool]

HINT = 'word  -word  "two words"  source:k  state:open  op:write  path:/etc  session:api  tool:Bash  exit:1  age:10m'

_TOKEN = re.compile(r'-?(?:[a-z]+:)?(?:"[^"]*"?|[^\s"]+)|\S')
_UNITS = {"s": 1, "m": 60, "h": 3_600, "d": 86_400}
_OPERATIONS = {str(word): name for name, word in OPERATION.items() if name != "other"} | {
    "execute": "execute",
    "network": "network",
    "exec": "execute",
    "ipc": "ipc",
}
_SOURCES = {source: source for source in SOURCES} | {"other": "none"}


class FilterError(ValueError):
    """A filter that cannot be meant.  The message is one short sentence for the line below the input."""


@dataclass(frozen=True, slots=True)
class Filter:
    """A parsed filter.  The empty one lets everything through."""

    text: str = ""
    tests: tuple[Test, ...] = ()

    def __call__(self, row: Row, session_name: str, now: int) -> bool:
        return all(test(row, session_name, now) for test in self.tests)


def _pick(value: str, known: Mapping[str, str], what: str) -> tuple[str, ...]:
    found = []
    for word in value.split(","):
        fits = (
            [known[word]] if word in known else [name for key, name in known.items() if word and key.startswith(word)]
        )
        if not fits:
            raise FilterError(f"no {what} {word[:30]!r}: " + " ".join(dict.fromkeys(known)))
        found += fits
    return tuple(found)


def _contains(value: str) -> Test:
    needles = tuple(part for part in value.casefold().split(",") if part) if "," in value else (value.casefold(),)

    def test(row: Row, session_name: str, now: int) -> bool:
        hay = "\0".join((row.verdict.target, row.command, row.output, *row.verdict.targets)).casefold()
        return any(needle in hay for needle in needles)

    return test


def _age(value: str) -> int:
    match = re.fullmatch(r"<?(\d{1,6})([smhd])", value)
    if not match:
        raise FilterError("age: takes a number and one of s m h d, as in age:10m")
    return int(match[1]) * _UNITS[match[2]] * 1_000_000_000


def _keyed(key: str, value: str) -> Test:
    folded = value.casefold()
    if key == "source":
        sources = _pick(folded, dict(_SOURCES), "source")
        return lambda row, name, now: row.source in sources
    if key == "state":
        states = _pick(folded, {state: state for state in STATE}, "state")
        return lambda row, name, now: row.state in states
    if key == "op":
        operations = _pick(folded, _OPERATIONS, "operation")
        return lambda row, name, now: row.verdict.operation in operations
    if key == "path":
        return lambda row, name, now: any(
            folded in target.casefold() for target in (row.verdict.target, *row.verdict.targets)
        )
    if key == "session":
        return lambda row, name, now: folded in name.casefold() or folded == str(row.nd7_session)
    if key == "tool":
        return lambda row, name, now: folded in row.tool.casefold()
    if key == "exit":
        if not re.fullmatch(r"\d{1,3}", value):
            raise FilterError("exit: takes a number, as in exit:126")
        return lambda row, name, now: row.exit_code == int(value)
    if key == "age":
        span = _age(folded)
        return lambda row, name, now: now - row.ts <= span
    raise FilterError(f"no {key[:20]}: here; there are source state op path session tool exit age")


def _not(test: Test) -> Test:
    return lambda row, name, now: not test(row, name, now)


KEYS = ("source", "state", "op", "path", "session", "tool", "exit", "age")


def parse(text: str) -> Filter:
    """The filter that `text` means.

    A word with a colon that is none of the keys is a word (`localhost:3000`, `https://...`), unless it looks like a
    mistyped key.

    Raises:
        FilterError: for a value that none of the rows could have.
    """
    tests: list[Test] = []
    for token in _TOKEN.findall(text.strip()):
        word = token.removeprefix("-")
        key, colon, value = word.partition(":")
        if not colon or key not in KEYS:
            close = difflib.get_close_matches(key, KEYS, 1, 0.7) if colon and '"' not in key else []
            if close and value and not value.startswith("/") and not value.isdigit():
                raise FilterError(f"no {key[:20]}: here; the nearest is {close[0]}:")
            key, value = "", word
        value = value.strip('"')
        if not value:
            continue  # "source:" or "-" while typing on
        test = _keyed(key, value) if key else _contains(value)
        tests.append(_not(test) if token != word else test)
    return Filter(text.strip(), tuple(tests))
