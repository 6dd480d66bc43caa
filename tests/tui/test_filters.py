"""The filter's syntax."""

from __future__ import annotations

import pytest
import tui_rows
from hypothesis import given
from hypothesis import strategies as st

from nd7tui.filters import FilterError, parse

ROWS = tui_rows.rows()
NAMES = {"3f0c": "api-server", "77aa": "webshop"}


def ids(text: str) -> list[str]:
    found = parse(text)
    return [row.id for row in ROWS if found(row, NAMES[row.session_id], tui_rows.NOW)]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", [row.id for row in ROWS]),
        ("uv", ["3f0c/1"]),
        ("CACHE", ["3f0c/1", "3f0c/2"]),
        ("cache -uv", ["3f0c/2"]),
        ('"Permission denied" source:k -cache', ["77aa/1", "3f0c/4"]),
        ("source:other", ["3f0c/3"]),
        ("source:nd7-exec,model", ["3f0c/5", "3f0c/6"]),
        ("-source:k state:open", ["3f0c/3", "3f0c/5", "3f0c/6"]),
        ("state:proved", ["3f0c/2"]),
        ("op:connect", ["77aa/1"]),
        ("op:network", ["77aa/1"]),
        ("path:/etc", ["3f0c/6"]),
        ("session:web", ["77aa/1"]),
        ("session:5150", ["77aa/1"]),
        ("tool:write", ["3f0c/4"]),
        ("exit:126", ["3f0c/5"]),
        ("age:6m", ["3f0c/6"]),
        ("127.0.0.1:3000", ["77aa/1"]),
        ("http://127", ["77aa/1"]),
        ("nonsense", []),
        ("source:", [row.id for row in ROWS]),
        ("-", [row.id for row in ROWS]),
    ],
)
def test_what_it_finds(text: str, expected: list[str]) -> None:
    assert ids(text) == expected


@pytest.mark.parametrize("text", ["source:q", "state:closed", "op:fly", "exit:x", "age:soon", "age:10"])
def test_what_cannot_be_meant_is_said(text: str) -> None:
    with pytest.raises(FilterError) as caught:
        parse(text)
    assert len(str(caught.value)) < 120


@given(st.text(max_size=80))
def test_any_text_is_a_filter_or_a_sentence(text: str) -> None:
    try:
        found = parse(text)
    except FilterError:
        return
    for row in ROWS:
        assert found(row, "name", tui_rows.NOW) in (True, False)
