"""What a test's report quotes: the sides of a comparison, the test's own source, errors that the test made up.

None of it happened to this session.  A test that fails because its own call was refused ends in the error itself,
which is neither behind a sign of a difference nor in the source that the report shows.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

_REACH = 14  # lines above that say a difference follows
_LONGEST_EXCERPT = 80  # lines of source that pytest shows of one function

# pytest puts a sign behind its E; of others the sign must stand below a heading that says what is compared.
# Behind `where 1 =` stands what a command or a call came to, and its refusal is a real one.
_PYTEST_DIFF = re.compile(r"E\s{3,}[-+?](?! +(?:where|and) +-?\d+ = )(?:\s|$)")
_PYTEST_SAYS = re.compile(r"E\s{3,}(?:Left contains|Right contains|At index \d+ diff:|Differing items|Extra items)")
_SIGN = re.compile(r"\s*[-+](?![-+]|\w{0,3}sh: )\s*\S")  # of a login shell the minus is part of its name
_HEADING = re.compile(
    r"\s*(?:AssertionError\b|Assertion(?:Failed)?Error\b|[-+]{1,3} {1,3}(?:Expected|Received|Actual|expected|actual)\b|"
    r"@@ .{0,30}@@$|Diff:|Diff < left / right >)"
)
# The source around a failure with the numbers of its lines: Babel's frame in jest, vitest and others.
_FRAME = re.compile(r"\s*>? *\d{1,6} *\| ")
_SOURCE = re.compile(r"\s*Failure/Error: ")
# What throws is written out, with its number: a stand-in of the test, and no call of the system's.
_THROWS = re.compile(r">?\s*raise (?:effect|result|\w*Error\((?:\d{1,2}|errno\.E[A-Z]+), *[\"'].*)$")


def of_a_test(lines: Sequence[str], index: int) -> bool:
    """Whether a line that names an error is quoted by the report of a test, and refused nobody anything."""
    line = lines[index]
    if _PYTEST_DIFF.match(line) or _PYTEST_SAYS.match(line) or _FRAME.match(line) or _SOURCE.match(line):
        return True
    if _SIGN.match(line) and any(map(_HEADING.match, lines[max(0, index - _REACH) : index])):
        return True
    return _in_excerpt(lines, index) or _made_up(lines, index)


def _in_excerpt(lines: Sequence[str], index: int) -> bool:
    """Whether a line is of the function that pytest shows above the `E` of its failure."""
    if not lines[index].startswith(("    ", ">  ")):
        return False
    for line in lines[index + 1 : index + _LONGEST_EXCERPT]:
        if line.startswith("E  "):
            return True
        if line.strip() and not line.startswith(("    ", ">  ")):
            return False
    return False


def _made_up(lines: Sequence[str], index: int) -> bool:
    """Whether an error was thrown by a stand-in, or its words are written out in the source that is shown with it."""
    if index and _THROWS.match(lines[index - 1]):
        return True
    words = lines[index].strip()
    words = words.removeprefix("Error: ")
    if len(words) < 12 or " " not in words:
        return False
    return any(words in line and _FRAME.match(line) for line in lines[max(0, index - 30) : index + 30])
