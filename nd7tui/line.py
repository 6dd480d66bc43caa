"""The only way in which text becomes something on the screen.

Everything that a session wrote is hostile, and Textual hands ESC, OSC 52, C1 and bidirectional controls on to the
terminal in every widget (measured with 8.2.8; `markup=False` changes nothing).  So no module of the dashboard but
this one makes a rich or Textual text object: they put `SafeText` into a `Line`, and a `Line` becomes a `Strip`.
`tests/tui/test_one_way.py` fails for any other constructor.  Two further nets lie below: `Line` escapes again
what is not printable, and `LastFilter` does so for each line of every widget, Textual's own ones included.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import lru_cache
from typing import Any, Literal

from rich.cells import cell_len, chop_cells, set_cell_size
from rich.segment import Segment, Segments
from rich.style import Style
from textual.color import Color
from textual.filter import LineFilter
from textual.scrollbar import ScrollBarRender
from textual.strip import Strip

from nd7core.text import SafeText, safe
from nd7tui.theme import Palette, Role

Keep = Literal["head", "tail", "middle"]

ELLIPSIS = SafeText("…")


@lru_cache(maxsize=4096)
def _again(text: str) -> SafeText:
    return safe(text, 12 * len(text) + 16)


def _checked(text: str) -> SafeText:
    """`text` as `safe` would have it; nothing to do for printable ASCII, which nearly all of it is."""
    return SafeText(text) if text.isascii() and text.isprintable() else _again(text)


def width_of(text: SafeText) -> int:
    """Terminal cells that `text` takes."""
    return len(text) if text.isascii() else cell_len(text)


def _head(text: str, width: int) -> str:
    if len(text) <= width and text.isascii():
        return text
    return set_cell_size(text[: width + 1], width).rstrip(" ") if cell_len(text[: width + 1]) > width else text[:width]


def _tail(text: str, width: int) -> str:
    cut = text[-width:] if width else ""
    while cell_len(cut) > width:
        cut = cut[1:]
    return cut


def fit(text: SafeText, width: int, keep: Keep = "head") -> SafeText:
    """`text` in at most `width` cells, with an ellipsis where something was left out.

    `middle` is for paths: where it begins and what it is called both stay.
    """
    if width <= 0:
        return SafeText("")
    # A cell holds at least one character but for zero-width marks: far more than that need not be measured.
    if len(text) <= width * 4 and width_of(text) <= width:
        return text
    if width == 1:
        return ELLIPSIS
    if keep == "tail":
        return SafeText("…" + _tail(text[-width * 4 :], width - 1))
    if keep == "middle" and width >= 7:
        front = (width - 1) // 3
        return SafeText(_head(text[: width * 4], front) + "…" + _tail(text[-width * 4 :], width - 1 - front))
    return SafeText(_head(text[: width * 4], width - 1) + "…")


def wrap(text: SafeText, width: int, limit: int = 200) -> list[SafeText]:
    """`text` in lines of at most `width` cells, broken at spaces where there are some; at most `limit` lines."""
    width = max(width, 4)
    lines: list[SafeText] = []
    rest: str = text[: width * limit]
    while rest and len(lines) < limit:
        if len(rest) <= width and cell_len(rest) <= width:
            lines.append(SafeText(rest))
            break
        piece = chop_cells(rest[: width + 1], width)[0]
        at = piece.rfind(" ")
        if at > width // 3 and rest[len(piece) : len(piece) + 1] != " ":
            piece = piece[:at]
        lines.append(SafeText(piece.rstrip(" ") or piece))
        rest = rest[len(piece) :].lstrip(" ")
    return lines or [SafeText("")]


def wrap_to(text: SafeText, width: int, most: int, more: SafeText) -> list[SafeText]:
    """As `wrap`, in at most `most` lines; `more` ends the last one where there would be more of them."""
    lines = wrap(text, width)
    if len(lines) > most:
        cut = lines[most - 1][: max(width - len(more), 0)].rstrip(" ,;")
        lines = [*lines[: most - 1], SafeText(cut + more)]
    return lines


class Line:
    """One line of the screen: pieces of safe text, each with a role of the palette and not with a colour."""

    __slots__ = ("_links", "_parts", "base")

    def __init__(self, base: Role = "text") -> None:
        self.base = base
        self._parts: list[tuple[SafeText, Role, str]] = []

    def put(
        self, text: SafeText, role: Role | None = None, *, cells: int = 0, keep: Keep = "head", do: str = ""
    ) -> Line:
        """Append `text`.

        Args:
            text: through `safe` only.
            role: how it looks; the line's own role where None.
            cells: pad or cut to exactly so many cells; 0 takes the text as it is.
            keep: what stays when it is cut.
            do: name of the action that a click on it runs, or "".
        """
        text = _checked(text)
        if cells > 0:
            text = fit(text, cells, keep)
            text = SafeText(text + " " * (cells - width_of(text)))
        self._parts.append((text, role or self.base, do))
        return self

    def gap(self, cells: int = 1) -> Line:
        """Append blanks."""
        return self.put(SafeText(" " * cells)) if cells > 0 else self

    def to(self, column: int) -> Line:
        """Append blanks up to `column`."""
        return self.gap(column - self.cells)

    def join(self, other: Line) -> Line:
        """Append another line's pieces."""
        self._parts.extend(other._parts)
        return self

    @property
    def cells(self) -> int:
        """The width in terminal cells."""
        return sum(width_of(text) for text, _, _ in self._parts)

    @property
    def text(self) -> SafeText:
        """The characters alone."""
        return SafeText("".join(text for text, _, _ in self._parts))

    def do_at(self, column: int) -> str:
        """The action under a click at `column`, or ""."""
        for text, _, do in self._parts:
            column -= width_of(text)
            if column < 0:
                return do
        return ""

    def strip(
        self, width: int, palette: Palette, *, selected: bool = False, focused: bool = True, raised: bool = False
    ) -> Strip:
        """The line as Textual draws it, exactly `width` cells."""
        ground = palette.under(selected=selected, focused=focused, raised=raised)
        segments = []
        used = 0
        for text, role, _ in self._parts:
            cells = width_of(text)
            if used + cells > width:
                text = fit(text, width - used)
                cells = width_of(text)
            if cells or text:
                segments.append(Segment(text, palette.style(role) + ground))
                used += cells
            if used >= width:
                break
        if used < width:
            segments.append(Segment(" " * (width - used), ground))
        return Strip(segments, width)


def both(left: Line, right: Line, width: int) -> Line:
    """`left` at the left, `right` at the right edge; the left one is cut where both do not fit."""
    space = width - right.cells - 1
    if space < 8:
        return left
    line = Line(left.base)
    for text, role, do in left._parts:
        room = space - line.cells
        if room <= 0:
            break
        line.put(fit(text, room), role, do=do)
    return line.to(width - right.cells).join(right)


def words(*pieces: tuple[str, Role]) -> Line:
    """A line of (text, role) pairs, each made safe here."""
    line = Line()
    for text, role in pieces:
        line.put(safe(text), role)
    return line


def indented(lines: Iterable[SafeText], by: int, role: Role) -> list[Line]:
    """Lines of text, each moved right by `by` cells."""
    return [Line(role).gap(by).put(text) for text in lines]


@lru_cache(maxsize=64)
def blank(width: int, palette: Palette) -> Strip:
    """An empty line; the same object again and again, for a new Strip is not cheap."""
    return Line().strip(width, palette)


def last_words(lines: Iterable[SafeText]) -> Segments:
    """Lines for the terminal after the dashboard has gone."""
    return Segments([Segment(_checked(line) + "\n") for line in lines])


class LastFilter(LineFilter):
    """Escapes what is not fit to be shown in any line of any widget: what is typed or pasted, Textual's own palette.

    Nothing of ours should ever reach it, which is why `alarm` is told when something does.
    """

    def __init__(self, alarm: Callable[[str], None] | None = None) -> None:
        super().__init__()
        self._alarm = alarm

    def apply(self, segments: list[Segment], background: Color) -> list[Segment]:
        """See `LineFilter`."""
        result = segments
        for at, segment in enumerate(segments):
            text = segment.text
            clean = _checked(text)
            if clean != text:
                if result is segments:
                    result = list(segments)
                result[at] = Segment(set_cell_size(clean, cell_len(text)), segment.style)
                if self._alarm is not None:
                    self._alarm(clean)
        return result


class NoColour(LineFilter):
    """Takes every colour out of every line, Textual's own widgets included, and leaves what is said without one."""

    def apply(self, segments: list[Segment], background: Color) -> list[Segment]:
        """See `LineFilter`."""
        return [one._replace(style=_colourless(one.style)) if one.style is not None else one for one in segments]


@lru_cache(maxsize=1024)
def _colourless(style: Style) -> Style:
    # What a click means is kept in the style as well.
    return style.without_color + Style.from_meta(style.meta) if style.meta else style.without_color


class OwnColours(LineFilter):
    """Leaves the terminal's sixteen colours alone and takes out the others, which Textual's own widgets may have."""

    def apply(self, segments: list[Segment], background: Color) -> list[Segment]:
        """See `LineFilter`."""
        return [one._replace(style=_sixteen(one.style)) if one.style is not None else one for one in segments]


@lru_cache(maxsize=1024)
def _sixteen(style: Style) -> Style:
    mixed = any(color is not None and color.triplet is not None for color in (style.color, style.bgcolor))
    return _colourless(style) if mixed else style


class Thumb(ScrollBarRender):
    """A scroll bar drawn with a glyph: Textual's is two colours and no character, which NO_COLOR leaves blank."""

    @classmethod
    def render_bar(cls, *arguments: Any, **named: Any) -> Segments:
        """See `ScrollBarRender`."""
        drawn = super().render_bar(*arguments, **named)
        thickness = named.get("thickness", 1)
        ink = Style(color=named.get("bar_color"), bgcolor=named.get("back_color"))
        segments = []
        for segment in drawn.segments:
            meta = segment.style.meta if segment.style is not None else {}
            held = meta.get("@mouse.down") == "grab"
            glyph = segment.text if segment.control or "\n" in segment.text else ("▐" if held else " ").rjust(thickness)
            segments.append(Segment(glyph, ink + Style.from_meta(meta) if meta else ink))
        return Segments(segments, new_lines=drawn.new_lines)
