"""What a session writes so that reading it costs much: links through links, nearly secrets, transcripts of nothing.

Each took 13 to 20 seconds of processor time before it was bounded, for one call's result or one screen.
"""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

import pytest

from nd7core.audit.links import followed
from nd7core.mask import mask
from nd7core.transcript import MAX_LINE, Transcript

SECONDS = 4.0


def failed(cwd: Path, names: list[str]) -> dict[str, Any]:
    text = "\n".join(f"cat: {name}: Permission denied" for name in names)
    return {"ok": False, "cwd": str(cwd), "tool_input": {"command": "cat *"}, "tool_response": text}


@pytest.mark.parametrize("behind", ["x/" * 2000, ""])
def test_links_that_lead_through_links(tmp_path: Path, behind: str) -> None:
    for number in range(80):
        (tmp_path / f"l{number}").symlink_to(f"l{number + 1}/{behind}")
    (tmp_path / "l80").symlink_to("l0")
    body = failed(tmp_path, [f"l0/{number}" for number in range(1000)])
    began = time.process_time()
    assert followed(body, [str(tmp_path)]) == {}
    assert time.process_time() - began < SECONDS


def test_an_honest_link_is_told_beside_a_hundred_thousand_others(tmp_path: Path) -> None:
    (tmp_path / "out").symlink_to("/elsewhere")
    for number in range(100_000):
        (tmp_path / f"n{number}").symlink_to(f"n{number + 1}")
    began = time.process_time()
    assert followed(failed(tmp_path, ["out/f"]), [str(tmp_path)]) == {f"{tmp_path}/out/f": "/elsewhere/f"}
    assert time.process_time() - began < SECONDS


def test_nothing_is_told_of_what_is_hidden(tmp_path: Path) -> None:
    """A `~/.ssh` that leads to a folder of dotfiles in the project: the session may read the log, not that folder."""
    hidden = tmp_path / "dotfiles/ssh"
    hidden.mkdir(parents=True)
    (hidden / "id_work").symlink_to("/media/stick/key-of-acme")
    (tmp_path / "way").symlink_to("dotfiles/ssh/id_work")
    body = failed(tmp_path, ["dotfiles/ssh/id_work", "way"])
    assert str(followed(body, [str(tmp_path)])).count("acme") == 2
    told = followed(body, [str(tmp_path)], [str(hidden)])
    assert told == {f"{tmp_path}/way": f"{hidden}/id_work"}


@pytest.mark.parametrize("part", ["eyJcredentialxai-", "a-eyJ", "eyJ.eyJ-", "-----BEGIN ", "sk-aaaa-", "mysql -"])
def test_runs_that_are_nearly_secrets(part: str) -> None:
    text = part * (300_000 // len(part))
    began = time.process_time()
    mask(text)
    assert time.process_time() - began < SECONDS


def test_a_token_behind_a_run_that_is_none() -> None:
    token = "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxIn0.abcdefghijkl"
    assert mask(f"eyJ{'a' * 500} {token}") == f"eyJ{'a' * 500} [masked]"
    assert mask(f"x-{token}") == "x-[masked]"


@pytest.mark.parametrize("line", [b"", b"{}", b'{"a":1}'])
def test_a_transcript_of_short_lines(line: bytes) -> None:
    """Twenty megabytes took half a minute: hooks would wait, and the end of the session."""
    transcript, piece = Transcript(), (line + b"\n") * ((1 << 20) // (len(line) + 1))
    began = time.process_time()
    for _ in range(20):
        assert transcript.feed(piece) == []
    assert time.process_time() - began < SECONDS


def test_lines_are_whole_however_they_come() -> None:
    def said(text: str) -> bytes:
        block = {"type": "text", "text": text}
        return json.dumps({"type": "assistant", "message": {"role": "assistant", "content": [block]}}).encode() + b"\n"

    data = b"\n\n" + said("one") + b"x" * (MAX_LINE + 1) + b"\n" + said("two") + b"\n" + said("three")
    for size in (1 << 20, 3 << 20, len(data)):
        transcript, found = Transcript(), []
        for at in range(0, len(data), size):
            found += transcript.feed(data[at : at + size])
        assert [one.kind for one in found] == ["said", "skipped", "said", "said"]
        assert [one.text for one in found if one.kind == "said"] == ["one", "two", "three"]
