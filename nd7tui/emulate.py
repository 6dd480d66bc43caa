"""What a terminal's screen holds after some bytes: characters only, no colours.

Enough of a VT100 for a glance at a session's screen without attaching: moving, erasing, scrolling, inserting.  What
it does not know it passes over.  Nothing of what it is fed comes out but single characters in a grid of known size,
and those go through `nd7core.text.safe` like everything else that a session wrote.
"""

from __future__ import annotations

import re
import unicodedata

MOST = 256 * 1024
LARGEST = (200, 400)  # rows, columns: a session may claim any size
# Blank lines made before the rest is passed over.  One for each byte of output is as many as newlines can ask for; a
# hostile session can have 200 made by five bytes, over and over, and half a minute of the dashboard's time with them.
MOST_BLANKS = MOST

_TOKEN = re.compile(
    r"\x1b\[([0-?]*)[ -/]*([@-~])"  # CSI
    r"|\x1b[\]PX^_].*?(?:\x07|\x1b\\|\x9c|\Z)"  # OSC, DCS, SOS, PM, APC: strings, none of which is text
    r"|\x1b([ -/]*[0-~])"  # other escapes
    r"|([\x00-\x1a\x1c-\x1f\x7f-\x9f])"
    r"|([^\x00-\x1f\x7f-\x9f]+)"
    r"|\x1b",
    re.DOTALL,
)


class Screen:
    """A grid of characters with a cursor.

    Args:
        rows, columns: its size; bounded by `LARGEST`.
    """

    def __init__(self, rows: int, columns: int) -> None:
        self.rows = max(1, min(rows, LARGEST[0]))
        self.columns = max(1, min(columns, LARGEST[1]))
        self._blanks = 0
        self._reset()

    def _reset(self) -> None:
        self._grid = [self._blank() for _ in range(self.rows)]
        self._y = self._x = 0
        self._saved = (0, 0)
        self._top, self._bottom = 0, self.rows - 1
        self._wrap = False

    def feed(self, data: bytes) -> None:
        """Take what was written.  Never raises."""
        self._blanks = 0
        for match in _TOKEN.finditer(data[-MOST:].decode("utf-8", "replace")):
            if self._blanks > MOST_BLANKS:
                break
            text = match[5]
            if text:
                self._print(text)
            elif match[4]:
                self._control(match[4])
            elif match[2]:
                self._csi(match[1], match[2])
            elif match[3]:
                self._escape(match[3])

    def lines(self) -> list[str]:
        """The lines, blanks at their ends left out, and empty lines at the end."""
        found = ["".join(row).rstrip() for row in self._grid]
        while found and not found[-1]:
            found.pop()
        return found

    def _blank(self) -> list[str]:
        self._blanks += 1
        return [" "] * self.columns

    def _print(self, text: str) -> None:
        for char in text:
            if unicodedata.combining(char):
                continue
            wide = unicodedata.east_asian_width(char) in ("W", "F") and self.columns > 1
            if self._wrap or (wide and self._x == self.columns - 1):
                self._x, self._wrap = 0, False
                self._line_feed()
            row = self._grid[self._y]
            row[self._x] = char
            if wide:
                row[self._x + 1] = ""
            ahead = self._x + (2 if wide else 1)
            self._wrap = ahead >= self.columns
            self._x = min(ahead, self.columns - 1)

    def _line_feed(self) -> None:
        if self._y == self._bottom:
            self._scroll(1)
        else:
            self._y = min(self._y + 1, self.rows - 1)

    def _scroll(self, lines: int) -> None:
        """Up by so many lines inside the scrolling region; down where it is negative."""
        top, end = self._top, self._bottom + 1
        for _ in range(min(abs(lines), end - top)):
            if lines > 0:
                del self._grid[top]
                self._grid.insert(end - 1, self._blank())
            else:
                del self._grid[end - 1]
                self._grid.insert(top, self._blank())

    def _control(self, char: str) -> None:
        self._wrap = False
        if char in "\n\x0b\x0c":
            self._line_feed()
        elif char == "\r":
            self._x = 0
        elif char == "\b":
            self._x = max(0, self._x - 1)
        elif char == "\t":
            self._x = min(self.columns - 1, self._x // 8 * 8 + 8)

    def _escape(self, what: str) -> None:
        if what == "7":
            self._saved = (self._y, self._x)
        elif what == "8":
            self._go(*self._saved)
        elif what == "M":
            if self._y == self._top:
                self._scroll(-1)
            else:
                self._go(self._y - 1, self._x)
        elif what in ("D", "E"):
            self._line_feed()
            self._x = 0 if what == "E" else self._x
        elif what == "c":
            self._reset()

    def _go(self, y: int, x: int) -> None:
        self._y, self._x = max(0, min(y, self.rows - 1)), max(0, min(x, self.columns - 1))
        self._wrap = False

    def _csi(self, parameters: str, final: str) -> None:
        if parameters[:1] in ("<", "=", ">"):
            return
        if parameters[:1] == "?":
            if final == "h" and parameters[1:] in ("1049", "1047", "47"):
                self._grid = [self._blank() for _ in range(self.rows)]
            return
        numbers = [int(part) if part.isdigit() and len(part) < 6 else 0 for part in parameters.split(";")]
        first = numbers[0]
        count = max(first, 1)
        move = {"A": (-1, 0), "B": (1, 0), "C": (0, 1), "D": (0, -1), "e": (1, 0), "a": (0, 1)}.get(final)
        if move is not None:
            self._go(self._y + move[0] * count, self._x + move[1] * count)
        elif final in "EF":
            self._go(self._y + (count if final == "E" else -count), 0)
        elif final in "G`":
            self._go(self._y, count - 1)
        elif final == "d":
            self._go(count - 1, self._x)
        elif final in "Hf":
            self._go(count - 1, max(numbers[1] if len(numbers) > 1 else 1, 1) - 1)
        elif final == "s":
            self._saved = (self._y, self._x)
        elif final == "u":
            self._go(*self._saved)
        elif final == "r":
            bottom = numbers[1] if len(numbers) > 1 and numbers[1] else self.rows
            self._top, self._bottom = min(count, self.rows) - 1, min(bottom, self.rows) - 1
            if self._top >= self._bottom:
                self._top, self._bottom = 0, self.rows - 1
            self._go(0, 0)
        else:
            self._edit(final, first, count)

    def _edit(self, final: str, first: int, count: int) -> None:
        row, x, width = self._grid[self._y], self._x, self.columns
        if final == "J":
            lines = range(self._y + 1, self.rows) if first == 0 else range(self._y) if first == 1 else range(self.rows)
            for y in lines:
                self._grid[y] = self._blank()
            if first < 2:
                self._edit("K", first, count)
        elif final == "K":
            start, end = (x, width) if first == 0 else (0, x + 1) if first == 1 else (0, width)
            row[start:end] = [" "] * (end - start)
        elif final == "X":
            end = min(width, x + count)
            row[x:end] = [" "] * (end - x)
        elif final == "P":
            del row[x : x + count]
            row += [" "] * (width - len(row))
        elif final == "@":
            row[x:x] = [" "] * min(count, width)
            del row[width:]
        elif final in "LM" and self._top <= self._y <= self._bottom:
            top, self._top = self._top, self._y
            self._scroll(count if final == "M" else -count)
            self._top = top
        elif final in "ST":
            self._scroll(count if final == "S" else -count)


def show(data: bytes, rows: int, columns: int) -> list[str]:
    """The lines of a screen of this size after these bytes."""
    screen = Screen(rows, columns)
    screen.feed(data)
    return screen.lines()
