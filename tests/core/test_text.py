"""Nothing from a session reaches a terminal as anything but printable characters."""

from __future__ import annotations

import time
import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nd7core.text import SafeText, safe, safe_path, wrapped

ANY_TEXT = st.text(st.characters(codec=None), max_size=300)
HOSTILE = st.lists(
    st.sampled_from(
        [
            *("\x1b", "\x9b", "\x00", "\u202e", "\u200b", "\ufeff", "\U000e0041", "\ue000", "\ud800", "\udc80"),
            *("\u3164", "\ufe0f", "\U000e0100", "\u0301", "\u2028", "\t", "\n", "\r", "\x7f", "\u2066"),
            *("a", "é", "漢", "[red]", "]0;x"),
        ]
    ),
    max_size=60,
).map("".join)


@given(ANY_TEXT | HOSTILE, st.integers(-5, 400), st.booleans())
def test_the_result_is_printable_bounded_and_stable(text: str, limit: int, newlines: bool) -> None:
    shown = safe(text, limit, keep_newlines=newlines)
    assert len(shown) <= max(0, limit)
    assert (shown.replace("\n", "") if newlines else shown).isprintable()
    assert safe(shown, limit, keep_newlines=newlines) == shown
    assert not set(shown) & set("\x1b\x9b\x00\u202e\u200b\u3164\ufe0f\U000e0100\U000e0041")
    run = 2
    for char in shown:
        run = run + 1 if unicodedata.category(char) in ("Mn", "Me") else 0
        assert run <= 2


@given(st.binary(max_size=300), st.integers(0, 400))
def test_bytes_are_shown_whatever_they_are(data: bytes, limit: int) -> None:
    shown = safe(data, limit)
    assert shown.isprintable()
    assert len(shown) <= limit


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("plain", "plain"),
        ("Grüße, 漢字, ok ✓", "Grüße, 漢字, ok ✓"),
        ("\x1b[2J", "␛[2J"),
        ("a\tb\nc", "a␉b␊c"),
        ("\x9b31m", "\\x9b31m"),
        ("a\u202eb", "a\\u202eb"),
        ("\udc80\udcff", "\\x80\\xff"),
        ("\ud800", "\\ud800"),
        ("\U000e0041", "\\U000e0041"),
        ("\u0301x", "\\u0301x"),
        ("e\u0301\u0301\u0301", "e\u0301\u0301\\u0301"),
        ("[bold]x[/]", "[bold]x[/]"),
    ],
)
def test_what_becomes_of_it(text: str, shown: str) -> None:
    assert safe(text) == shown


def test_a_cut_says_how_much_is_missing() -> None:
    shown = safe("x" * 50, 20)
    kept = shown.index("…")
    assert shown == "x" * kept + f"… (+{50 - kept} more)"
    assert safe("x" * 50, 1) == "…"
    assert safe("x" * 50, 0) == ""


def test_several_lines_are_kept_where_asked_for() -> None:
    assert safe("a\n\tb\r\n", keep_newlines=True) == "a\n    b␍\n"


def test_a_line_of_ten_megabytes_costs_what_a_short_one_costs() -> None:
    text = "\x1b" * 10_000_000
    started = time.perf_counter()
    for _ in range(100):
        safe(text, 200)
    # A look at every character would take a minute.
    assert time.perf_counter() - started < 5


@given(ANY_TEXT | HOSTILE, st.integers(0, 200))
def test_a_path_is_one_printable_line(text: str, limit: int) -> None:
    shown = safe_path(text, limit)
    assert shown.isprintable()
    assert len(shown) <= limit


def test_a_long_path_keeps_its_end() -> None:
    path = "/" + "d/" * 200 + "the-file.txt"
    assert safe_path(path, 60).endswith("the-file.txt")
    assert safe_path(path, 60).startswith("/d/d")
    assert safe_path("/a/\x1b[31m/b") == "/a/␛[31m/b"
    assert safe_path(b"/a/\xff") == "/a/\\xff"


@given(st.lists(st.text("abc/", min_size=1, max_size=30), max_size=30), st.integers(10, 60))
def test_a_sentence_breaks_at_blanks_only(words: list[str], width: int) -> None:
    lines = wrapped(SafeText(" ".join(words)), width, "nd7: ", "     ")
    assert [word for line in lines for word in line[5:].split()] == words
    assert lines[0].startswith("nd7: ") and all(line.startswith("     ") for line in lines[1:])
    assert all(len(line) <= width or " " not in line[5:] for line in lines)


def test_what_fits_stays_on_one_line() -> None:
    assert wrapped(SafeText("a b  c"), 80, "x: ") == ["x: a b  c"]
    assert wrapped(SafeText("aaaa bbbb"), 6) == ["aaaa", "bbbb"]
