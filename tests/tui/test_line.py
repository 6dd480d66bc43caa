"""A line: what is safe, what fits, what a click does."""

from __future__ import annotations

import unicodedata

from hypothesis import given
from hypothesis import strategies as st
from rich.cells import cell_len
from rich.segment import Segment
from rich.style import Style
from textual.color import Color

from nd7core.text import SafeText, safe
from nd7tui.line import LastFilter, Line, both, fit, width_of, wrap
from nd7tui.theme import DARK, LIGHT

# What must never reach a terminal from a session: see facts about Textual's own widgets.
HOSTILE = (
    "\x1b]52;c;ZXZpbA==\x07\x1b[2J\x1b[31m\x9b2J\x90\x9d\x00\x07\x08\x0b\x0c\x0e\x7f\r\n\t"
    "\u202e\u2066\u200b\u200d\u2028\ufeff\u00ad\U000e0041\ue000\udc9b[bold red]x[/][@click=app.quit]y[/]"
)

printable_or_not = st.text(st.characters(), max_size=60)


def shown(line: Line, width: int = 80) -> str:
    return line.strip(width, DARK).text


def test_what_is_put_in_unescaped_all_the_same_is_escaped() -> None:
    text = shown(Line().put(SafeText(HOSTILE)), 400)
    assert text.isprintable()
    assert "[bold red]x[/]" in text  # markup stays what it is: characters


@given(printable_or_not, st.integers(1, 40))
def test_a_line_is_printable_and_exactly_as_wide_as_asked(text: str, width: int) -> None:
    strip = Line().put(safe(text)).strip(width, LIGHT)
    assert strip.text.isprintable()
    assert cell_len(strip.text) == width


@given(printable_or_not, st.integers(0, 30), st.sampled_from(["head", "tail", "middle"]))
def test_what_is_fitted_fits(text: str, width: int, keep: str) -> None:
    cut = fit(safe(text), width, keep)
    assert width_of(cut) <= width


def test_a_path_keeps_both_its_ends() -> None:
    cut = fit(safe("/home/ada/.cache/some/very/long/way/CACHEDIR.TAG"), 24, "middle")
    assert cut.startswith("/home/a") and cut.endswith("CACHEDIR.TAG") and "…" in cut


@given(st.text(st.characters(exclude_categories=["Cs"]), max_size=200), st.integers(6, 40))
def test_wrapping_loses_nothing_but_blanks(text: str, width: int) -> None:
    clean = safe(text, 4000)
    lines = wrap(clean, width)
    assert all(cell_len(line) <= width for line in lines)
    assert "".join(lines).replace(" ", "") == clean.replace(" ", "")


def test_a_line_of_ten_megabytes_is_cut_before_anything_measures_it() -> None:
    import time

    start = time.perf_counter()
    assert len(wrap(safe("ü" * 10_000_000, 4000), 80, 3)) == 3
    assert shown(Line().put(safe("x" * 10_000_000)), 20) == "x" * 19 + "…"
    assert time.perf_counter() - start < 1.0


def test_cells_pads_and_cuts_wide_characters() -> None:
    line = Line().put(safe("日本語"), cells=5).put(safe("|"))
    assert shown(line, 6).rstrip() in ("日本…|", "日本 |")
    assert cell_len(shown(line, 6)) == 6


def test_a_click_finds_its_piece() -> None:
    line = Line().put(safe("ab"), do="one").gap(2).put(safe("cd"), do="two")
    assert [line.do_at(x) for x in range(7)] == ["one", "one", "", "", "two", "two", ""]


def test_left_gives_way_to_right() -> None:
    line = both(Line().put(safe("a" * 30)), Line().put(safe("right")), 20)
    assert shown(line, 20) == "a" * 13 + "… right"


def test_no_role_looks_like_the_ground_and_each_palette_of_ours_has_contrast() -> None:
    def luminance(color: str) -> float:
        parts = [int(color[i : i + 2], 16) / 255 for i in (1, 3, 5)]
        linear = [p / 12.92 if p <= 0.04045 else ((p + 0.055) / 1.055) ** 2.4 for p in parts]
        return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]

    def contrast(one: str, other: str) -> float:
        high, low = sorted((luminance(one), luminance(other)), reverse=True)
        return (high + 0.05) / (low + 0.05)

    for palette in (DARK, LIGHT):
        assert contrast(palette.text, palette.ground) >= 12
        for color in (palette.dim, palette.accent, palette.red, palette.amber, palette.violet, palette.green):
            assert contrast(color, palette.ground) >= 4.5, (palette.name, color)
            assert contrast(color, palette.chosen) >= 3, (palette.name, color)
        assert contrast(palette.faint, palette.ground) >= 3


def test_the_last_filter_escapes_what_no_line_of_ours_made() -> None:
    leaks: list[str] = []
    found = LastFilter(leaks.append).apply([Segment(HOSTILE, Style()), Segment("fine")], Color(0, 0, 0))
    assert all(segment.text.isprintable() for segment in found)
    assert not any(unicodedata.category(char) in ("Cc", "Cf", "Co", "Cs") for segment in found for char in segment.text)
    assert len(leaks) == 1
