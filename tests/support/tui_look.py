"""A screen as text with its looks below each line: what is written, in which colour of the palette, on which ground.

    nd7  ›  all sessions
    AAA  f  TTT TTTTTTTT
   ▌11:07:10 api-server ▲ kernel
   adddddddd dddddddddd r rrrrrr   @ chosen 0-80

Below each line one letter for each cell: t text, d dim, f faint, a accent, r red, m amber, v violet, g green, a
capital where it is bold, ? for a colour that is none of the palette's.  Behind the @: grounds that are not the theme's
own, and attributes, with the cells that they reach over.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterator
from itertools import groupby

from rich.cells import cell_len
from rich.color import Color
from rich.style import Style

from nd7tui.app import Dashboard
from nd7tui.theme import GROUNDS, INKS, Palette

LETTERS = {
    "text": "t",
    "dim": "d",
    "faint": "f",
    "accent": "a",
    "red": "r",
    "amber": "m",
    "violet": "v",
    "green": "g",
    "": "?",
}
WORDS = {letter: name or "a colour that is none of the palette's" for name, letter in LETTERS.items()}
ATTRIBUTES = ("reverse", "underline", "italic", "strike", "blink")
MOST = 12


def _hex(color: Color | None) -> str:
    if color is None or color.is_default:
        return "default"
    return color.triplet.hex if color.triplet is not None else color.name


def _ink(style: Style, palette: Palette) -> str:
    """The letter of a style."""
    if palette.kind == "rgb":
        named = {getattr(palette, name): name for name in reversed(INKS)}
        letter = LETTERS[named.get(_hex(style.color), "")]
    else:
        letter = LETTERS["dim" if style.dim else "text" if style.color is None else ""]
    return letter.upper() if style.bold else letter


def _around(style: Style, palette: Palette) -> list[str]:
    """What is to be said behind the @."""
    found = [name for name in ATTRIBUTES if getattr(style, name)]
    color = _hex(style.bgcolor)
    if palette.kind == "rgb" and color != palette.ground:
        named = {getattr(palette, name): name for name in reversed(GROUNDS)}
        found.append(named.get(color, f"on {color}"))
    elif palette.kind == "plain" and color != "default":
        found.append(f"on {color}")
    return found


def looks(app: Dashboard) -> str:
    """What the dashboard shows, with how it looks."""
    palette = app.palette
    lines: list[str] = []
    for strip in app.screen._compositor.render_strips():
        inks: list[str] = []
        around: list[tuple[str, ...]] = []
        for segment in strip:
            style = segment.style or Style()
            behind = tuple(_around(style, palette))
            for char in segment.text:
                cells = cell_len(char)
                inks += ["." if char == " " else _ink(style, palette)] * cells
                around += [behind] * cells
        notes = [f"{name} {first}-{last}" for name in _names(around) for first, last in _runs(around, name)]
        below = "".join(inks).replace(".", " ").rstrip()
        lines += [strip.text.rstrip(), (below + "   @ " + ", ".join(notes)) if notes else below]
    return "".join(line.rstrip() + "\n" for line in lines)


def _names(around: list[tuple[str, ...]]) -> list[str]:
    return list(dict.fromkeys(name for names in around for name in names))


def _runs(around: list[tuple[str, ...]], name: str) -> Iterator[tuple[int, int]]:
    at = 0
    for has, group in groupby(around, key=lambda names: name in names):
        length = len(list(group))
        if has:
            yield at, at + length
        at += length


def difference(before: str, now: str, name: str) -> str:
    """What has changed from one picture to another, in words; "" where nothing has."""
    old, new = before.splitlines(), now.splitlines()
    found = _texts(old[::2], new[::2])
    if not found:
        found = [
            words
            for number, (text, was, is_) in enumerate(zip(new[::2], old[1::2], new[1::2], strict=True), 1)
            for words in _line(number, text, was, is_)
        ]
    more = [f"and {len(found) - MOST} more"] if len(found) > MOST else []
    return "\n".join([f"{name} does not look as it did:", *found[:MOST], *more]) if found else ""


def _texts(old: list[str], new: list[str]) -> list[str]:
    found = []
    for tag, i, j, k, m in difflib.SequenceMatcher(None, old, new, autojunk=False).get_opcodes():
        if tag != "equal":
            found += [f"line {i + n + 1} read  {text!r}" for n, text in enumerate(old[i:j])]
            found += [f"line {k + n + 1} reads {text!r}" for n, text in enumerate(new[k:m])]
    return found


def _line(number: int, text: str, was: str, now: str) -> Iterator[str]:
    (old, _, old_notes), (new, _, new_notes) = was.partition("   @ "), now.partition("   @ ")
    width = max(len(old), len(new), len(text))
    old, new = old.ljust(width), new.ljust(width)
    at = 0
    for (one, other), group in groupby(zip(old, new, strict=True)):
        start, at = at, at + len(list(group))
        if one != other:
            where = text[start:at]
            yield f"line {number}, {where!r}: was {_word(one)}, is {_word(other)}"
    if old_notes != new_notes:
        yield f"line {number}: was {old_notes or 'on its usual ground'}, is {new_notes or 'on its usual ground'}"


def _word(letter: str) -> str:
    return ("bold " if letter.isupper() else "") + WORDS.get(letter.lower(), "blank")
