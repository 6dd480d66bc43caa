"""Queries over the index of past denials as SQL: which way each is answered, so that it is answered as one types.

A row's number is its time (milliseconds, times 64 for rows of one millisecond), so that the newest rows
come first out of every index without sorting, and the next page begins where the last one ended.
"""

from __future__ import annotations

import zlib
from collections.abc import Sequence
from typing import Any

from nd7core.history_query import OPERATIONS, SOURCES, STATES, Query

SLOTS = 64
LATEST = 1000
SHORT = 6  # letters of a word of which every trigram is looked for

COLUMNS = (
    "e.id, l.session, e.seq, e.offset, e.ts, e.last_ts, e.source, e.state, e.operation, e.evidence, e.remedy, e.tool,"
    " e.count, e.command, e.target, e.grant_path, e.reason, e.line, e.owner, l.project, l.nd7_session"
)

# What a row is found by besides its words, in marks of three characters, which the full text index finds like any
# three of a word: a search for what few rows have, or none, would else look at every row there is.
_OPENING = {"source": "\u2039", "state": "\u00ab", "operation": "\u27e8", "tool": "\u27e6"}
_KNOWN: dict[str, tuple[str, ...]] = {"source": SOURCES, "state": STATES, "operation": OPERATIONS, "tool": ()}


def _mark(kind: str, value: str) -> str:
    known = _KNOWN[kind]
    # Two tools may have one mark; the row's own column has the last word.
    number = known.index(value) if value in known else len(known) + zlib.crc32(value.encode("utf-8", "replace")) % 6000
    return f"{_OPENING[kind]}{chr(0xE000 + number)}\u203a"


def tag_of(source: str, state: str, operation: str, tool: str) -> str:
    """The marks of a row."""
    given = {"source": source, "state": state, "operation": operation, "tool": tool}
    return "".join(_mark(kind, value) for kind, value in given.items())


def matching(query: Query, sources: Sequence[str]) -> str:
    """What the full text index is asked for; "" where a query names nothing that it knows."""
    grams = [gram for word in (*query.words, *query.paths) for gram in _grams(word)]
    terms = [f'"{gram}"' for gram in dict.fromkeys(grams)]
    for kind, wanted in (("state", query.states), ("operation", query.operations), ("tool", query.tools)):
        if wanted:
            terms.append("(" + " OR ".join(f'"{_mark(kind, value)}"' for value in wanted) + ")")
    if len(sources) == 1:
        terms.append(f'"{_mark("source", sources[0])}"')
    elif terms:
        # The few sources that are not wanted, rather than the many rows of those that are.
        terms[-1] += "".join(f' NOT "{_mark("source", name)}"' for name in SOURCES if name not in sources)
    return " AND ".join(terms)


def statement(query: Query, before: int | None, logs: list[int] | None) -> tuple[str, list[Any]]:
    """The statement that finds what a query asks for, newest first, and its values.

    Args:
        before: only rows with a lower number.
        logs: only rows of these logs.
    """
    tests: list[str] = []
    values: list[Any] = []
    sources = query.sources or SOURCES[:3]
    for word in query.words:
        tests.append("(e.command LIKE ? ESCAPE '\\' OR e.target LIKE ? ESCAPE '\\' OR e.place LIKE ? ESCAPE '\\')")
        values += [like(word)] * 3
    for path in query.paths:
        tests.append("e.target LIKE ? ESCAPE '\\'")
        values.append(like(path))
    if len(sources) < len(SOURCES):
        tests.append(f"e.source IN ({marks(sources)})")
        values += [SOURCES.index(name) for name in sources]
    for column, wanted in (("state", query.states), ("operation", query.operations), ("tool", query.tools)):
        if wanted:
            tests.append(f"e.{column} IN ({marks(wanted)})")
            values += wanted
    if query.since is not None:
        tests.append("e.id >= ?")
        values.append(row_number(query.since))
    bounds = [] if before is None else [before]
    if query.until is not None:
        bounds.append(row_number(query.until))
    for bound in bounds:
        tests.append("e.id < ?")
        values.append(bound)
    if logs is not None:
        tests.append(f"e.log IN ({marks(logs)})")
        values += logs
    where = " AND ".join(tests) or "1"
    tail = f"JOIN log l ON l.id = e.log WHERE {where}"
    match = matching(query, sources)
    if match and (logs is None or len(logs) > 200):
        span = "".join(f" AND h.rowid < {int(bound)}" for bound in bounds)
        if query.since is not None:
            span += f" AND h.rowid >= {row_number(query.since)}"
        sql = f"SELECT {COLUMNS} FROM hit h CROSS JOIN entry e ON e.id = h.rowid {tail}"
        return f"{sql} AND h.hit MATCH ?{span} ORDER BY h.rowid DESC", [*values, match]
    # Said outright, for the planner guesses: the newest rows first, or the few logs' own rows.
    index = "NOT INDEXED" if logs is None or len(logs) > 200 else "INDEXED BY entry_log"
    return f"SELECT {COLUMNS} FROM entry e {index} CROSS {tail} ORDER BY e.id DESC", values


def ranked(words: Sequence[str], sources: Sequence[str], limit: int) -> tuple[str, list[Any]]:
    """The statement that finds refused targets with all of these words in them, the most widespread first."""
    tests, values = _target_tests("target", words, sources)
    sql = f"SELECT target, source, sessions, count, last FROM target INDEXED BY target_rank WHERE {tests}"
    return f"{sql} ORDER BY sessions DESC, last DESC LIMIT ?", [*values, limit]


def hits(words: Sequence[str], sources: Sequence[str], match: str) -> tuple[str, list[Any]]:
    """The statement that finds the same by way of the latest `LATEST` rows that the full text index has for `match`."""
    tests, values = _target_tests("e.target", words, sources)
    sql = (
        "SELECT t.target, t.source, t.sessions, t.count, t.last FROM hit h CROSS JOIN entry e ON e.id = h.rowid"
        f" CROSS JOIN target t ON t.target = e.target AND t.source = e.source WHERE h.hit MATCH ? AND {tests}"
    )
    return f"{sql} ORDER BY h.rowid DESC LIMIT {LATEST}", [match, *values]


def _target_tests(column: str, words: Sequence[str], sources: Sequence[str]) -> tuple[str, list[Any]]:
    source = column.removesuffix("target") + "source"
    tests = [f"{column} != ''", f"{source} IN ({marks(sources)})", *[f"{column} LIKE ? ESCAPE '\\'"] * len(words)]
    return " AND ".join(tests), [*(SOURCES.index(name) for name in sources), *map(like, words)]


def _grams(word: str) -> list[str]:
    """Trigrams that together cover a word, for the full text index; none for a shorter one.

    Of a longer word every third and the last: all of them would find little less (LIKE has the last word) and cost
    three times as much.  Of a short one all: two that are frequent each, as in "state", leave too many rows to LIKE.
    """
    step = 1 if len(word) <= SHORT else 3
    starts = [*range(0, len(word) - 2, step), len(word) - 3] if len(word) > 2 else []
    return [gram for start in starts[:20] if '"' not in (gram := word[start : start + 3])]


def marks(values: Sequence[object]) -> str:
    """Question marks for so many values."""
    return ",".join("?" * len(values))


def like(word: str) -> str:
    """A pattern for LIKE that finds the word anywhere; its escape is the backslash."""
    escaped = word.replace("\\", "\\\\").replace("%", "\\%").replace("_", "\\_")
    return f"%{escaped}%"


def row_number(ts: int) -> int:
    """The least number of a row of this time (nanoseconds since the epoch)."""
    return within(ts) // 1_000_000 * SLOTS


def within(number: int) -> int:
    """A number of a log, which may be any, held to what the index can store."""
    return min(max(number, 0), (1 << 62) - 1)
