"""Write denials as JSON, CSV or Markdown, with what looks like a secret masked.

Reads every recorded session, or those that are asked for.  A query has the words of the dashboard's search:
word, "two words", source:kernel, state:open, op:write, path:/etc, session:5b1d, project:api, tool:Write, age:7d.
Masking is a heuristic: read what you are about to publish.

examples:
  nd7 export > denials.json                      every denial ever recorded
  nd7 export --format md --session 5b1d          one session, for a bug report
  nd7 export --format csv source:kernel age:7d   the last week's, for a spreadsheet
"""

from __future__ import annotations

import argparse
import csv
import json
import os
import platform
import sys
import time
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

from nd7core import __version__
from nd7core.denials import denial_fields
from nd7core.errors import Nd7Error
from nd7core.history import log_stamps
from nd7core.history_log import LogReading, read_log
from nd7core.history_query import Query, QueryError, fits, parse
from nd7core.mask import fields as masked
from nd7core.paths import places
from nd7core.text import safe

COLUMNS = (
    *("time", "session", "project", "source", "evidence", "operation", "target", "tool", "command", "count"),
    *("state", "remedy", "grant", "reason", "line"),
)


def configure(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    parser.add_argument("query", nargs="*", metavar="QUERY", help="what the denials must have")
    parser.add_argument("--show-secrets", action="store_true", help="leave what looks like a secret as it is")
    parser.add_argument("--format", choices=("json", "csv", "md"), default="json", help="default: json")
    parser.add_argument(
        "--session",
        metavar="S",
        help="one session's: its agent session id or the id's beginning, a live one's pid or name",
    )


def run(arguments: argparse.Namespace) -> int:
    """Write to stdout.  1 where a log was damaged or could not be read; what could be read is written."""
    place = places()
    try:
        query = parse(" ".join(arguments.query), time.time_ns())
    except QueryError as error:
        raise Nd7Error(str(error), exit_code=2) from None
    # A log that was last written before the time that is asked for holds nothing of it.
    logs = sorted(log_stamps(place.state), key=lambda log: log[2])
    names = [name for name, _, changed in logs if query.since is None or changed >= query.since]
    if arguments.session is not None:
        from nd7tui.commands.verify import find

        names = [find(place, arguments.session)]
    problems: list[str] = []
    readings = read(place.state, names, place.home, problems)
    secrets = arguments.show_secrets
    found = Counted(rows(readings, query, secrets=secrets))
    if arguments.format == "md":
        write_markdown(found, secrets=secrets)
    else:
        {"json": write_json, "csv": write_csv}[arguments.format](found)
    if not found.count and not problems:
        words = " ".join(arguments.query)
        sys.stderr.write(f"nd7 export: nothing matches {safe(words, 200)}\n" if words else "nd7 export: no denial\n")
        for form in {"json", "csv", "md"}.intersection(arguments.query):
            sys.stderr.write(f"     if {form} is to be the form: nd7 export --format {form}\n")
    for problem in problems:
        sys.stderr.write(f"nd7 export: {problem}\n")
    return 1 if problems else 0


class Counted(Iterator[dict[str, Any]]):
    """What it is given, one after the other, counted."""

    def __init__(self, given: Iterator[dict[str, Any]]) -> None:
        self._given = given
        self.count = 0

    def __next__(self) -> dict[str, Any]:
        found = next(self._given)
        self.count += 1
        return found


def read(state: str, names: list[str], home: str, problems: list[str]) -> Iterator[LogReading]:
    """The logs one after the other; what is wrong with one is added to `problems`."""
    for name in names:
        reading = read_log(os.path.join(state, "sessions", name), home=home, platform=sys.platform)
        if reading.error or reading.damaged:
            problems.append(f"{safe(name)}: {safe(reading.error or f'{reading.damaged} damaged places in its log')}")
        yield reading


def rows(readings: Iterator[LogReading], query: Query, *, secrets: bool = False) -> Iterator[dict[str, Any]]:
    """The fields of each denial that fits, masked but where the person wants the secrets."""
    for reading in readings:
        for row in reading.rows:
            if fits(query, row, reading.project):
                told = {"project": reading.project, **denial_fields(row)}
                yield told if secrets else masked(told)


def write_json(found: Iterator[dict[str, Any]]) -> None:
    """One array, an object a denial; ASCII, so that nothing in it can act on a terminal."""
    separator = "[\n"
    for fields in found:
        sys.stdout.write(separator + json.dumps(fields))
        separator = ",\n"
    sys.stdout.write("[]\n" if separator == "[\n" else "\n]\n")


def write_csv(found: Iterator[dict[str, Any]]) -> None:
    """RFC 4180, with a header.  A cell that a spreadsheet would run as a formula gets an apostrophe in front."""
    writer = csv.writer(sys.stdout, lineterminator="\r\n")
    writer.writerow(COLUMNS)
    for fields in found:
        cells = [safe(str(value), 32_000) for value in cells_of(fields)]
        writer.writerow([f"'{cell}" if cell.startswith(("=", "+", "-", "@")) else cell for cell in cells])


def write_markdown(found: Iterator[dict[str, Any]], *, secrets: bool = False) -> None:
    """A report: what machine, then each denial with its command and line as code."""
    sys.stdout.write(
        f"# Denials\n\nnd7 {__version__}, {platform.system()} {platform.release()}, Python "
        f"{platform.python_version()}. {'Secrets NOT masked: for nobody else' if secrets else 'Secrets masked'}.\n"
    )
    count = 0
    for fields in found:
        count += 1
        cells = dict(zip(COLUMNS, cells_of(fields), strict=True))
        title = f"{fields['source']} refused {fields['operation']}" if fields["source"] != "none" else "not nd7's"
        sys.stdout.write(f"\n## {count}. {title}\n\n")
        for name in ("target", "tool", "command", "line", "project", "session"):
            if cells[name]:
                sys.stdout.write(f"- {name}: {code(str(cells[name]))}\n")
        sys.stdout.write(
            f"- {cells['time']}, {cells['count']} time{'' if fields['count'] == 1 else 's'}, {fields['state']}, "
            f"evidence {fields['evidence']}, remedy {fields['remedy']}\n- {plain(str(cells['reason']))}\n"
        )
    if not count:
        sys.stdout.write("\nNone.\n")


def cells_of(fields: dict[str, Any]) -> list[Any]:
    """The values of `COLUMNS`."""
    when = datetime.fromtimestamp(fields["last_ts"] / 1e9, UTC).isoformat(timespec="seconds")
    values = {**fields, "time": when}
    return ["" if values.get(name) is None else values[name] for name in COLUMNS]


def code(text: str) -> str:
    """A Markdown code span on one line that its content cannot leave."""
    shown = safe(text, 2000)
    run = 0
    longest = 0
    for character in shown:
        run = run + 1 if character == "`" else 0
        longest = max(longest, run)
    fence = "`" * (longest + 1)
    return f"{fence} {shown} {fence}" if longest else f"`{shown}`"


def plain(text: str) -> str:
    """Text in a Markdown paragraph, its marks escaped."""
    return "".join(f"\\{character}" if character in "\\`*_[]<>#|!" else character for character in safe(text, 2000))
