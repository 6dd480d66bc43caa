"""The links that a failed call went through, as the log tells of them."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nd7core.audit.links import followed


@pytest.fixture
def root(tmp_path: Path) -> Path:
    made = tmp_path.resolve() / "app"
    (made / "sub").mkdir(parents=True)
    (made / "out").symlink_to("/elsewhere/shared")
    (made / "sub" / "up").symlink_to("../out/deep")
    (made / "here").symlink_to("sub")
    (made / "loop").symlink_to("loop")
    (made.parent / "outside").symlink_to("/secret")
    return made


def failed(root: Path, error: str, command: str = "make", **more: Any) -> dict[str, Any]:
    return {"cwd": str(root), "tool_input": {"command": command}, "tool_response": error, "ok": False} | more


@pytest.mark.parametrize(
    ("error", "spelled", "real"),
    [
        ("sh: 1: cannot create out/f: Permission denied", "out/f", "/elsewhere/shared/f"),
        ("touch: cannot touch 'sub/up/f': Permission denied", "sub/up/f", "/elsewhere/shared/deep/f"),
        ("open {}/out: EACCES", "out", "/elsewhere/shared"),
        ("open(here/new) failed", "here/new", "{}/sub/new"),
    ],
)
def test_where_a_path_leads(root: Path, error: str, spelled: str, real: str) -> None:
    body = failed(root, error.format(root))
    assert followed(body, [str(root)])[f"{root}/{spelled}"] == real.format(root)


def test_the_commands_own_words_count_and_an_output_of_several_parts(root: Path) -> None:
    body = failed(root, "", "echo x > out/f", tool_response={"stdout": "", "stderr": "Read-only file system"}, ok=True)
    assert followed(body, [str(root)]) == {f"{root}/out/f": "/elsewhere/shared/f"}
    assert followed(body | {"tool_response": {"stdout": "fine"}}, [str(root)]) == {}


def test_nothing_outside_is_looked_at(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    looked: list[str] = []
    true = os.lstat
    monkeypatch.setattr("nd7core.audit.links.os.lstat", lambda path: (looked.append(path), true(path))[1])
    error = f"{root.parent}/outside/f loop/x ../outside/y /etc/passwd out/etc sub/up/z: Permission denied"
    found = followed(failed(root, error), [str(root)])
    assert f"{root.parent}/outside/f" not in found and f"{root}/loop/x" not in found
    assert looked and all(path.startswith(f"{root}/") for path in looked)


def test_it_is_bounded(root: Path) -> None:
    words = " ".join(f"out/{number}" for number in range(5000))
    assert len(followed(failed(root, f"{words} denied"), [str(root)])) == 32


@given(
    body=st.dictionaries(
        st.sampled_from(["cwd", "tool_input", "tool_response", "ok"]),
        st.one_of(st.none(), st.booleans(), st.text(), st.dictionaries(st.text(), st.text()), st.just("/a/\0b denied")),
    )
)
def test_it_never_raises(body: dict[str, Any]) -> None:
    followed(body, ["/"])
