"""Hostile text through every screen into a real terminal: none of it may arrive as it was written.

The session controls its commands, outputs, paths, prompts, its name, its log and even the names in the log's
directory.  Everything is put in; what the dashboard writes to the pty is then taken apart, byte by byte: besides the
sequences that Textual itself needs there may be nothing but characters that show themselves.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import socket
import threading
import unicodedata
from collections.abc import Iterator
from pathlib import Path

import pytest
from tui_pty import Sleeper, Story, Tty, dashboard

from nd7core import sessions
from nd7core.paths import Places
from nd7core.record import Grant
from nd7exec import hold

# Each with a number of its own, so that one that comes through is told from what Textual writes.
EVIL = (
    "A\x1b]52;c;TEVBSzE=\x07B\x1b[13;7JC\x1b[9;31;7mD\x9b17JE\x90dcs\x9cF\x9d0;LEAK2\x07G\x1b]0;LEAK3\x1b\\H\x1bPq#0\x1b\\"
    "I\x1b_Gf=100;LEAK4\x1b\\J\x1bcK\x00L\x07M\x08N\x0bO\x0cP\x0eQ\x7fR\u202eS\u2066T\u200bU\u200dV\u2028W\ufeffX\u00adY"
    "\U000e0041Z\ue000a\udc9bb[bold red]LEAK5[/bold red]c[@click=app.quit]LEAK6[/]d[link=file:///x]LEAK7[/link]e\u0301\u0301"
    "\u0301\u0301f\u115fg\u3164h\ufe0fi\x1b[200~LEAK8\x1b[201~j\x1b]8;;http://LEAK9\x07k"
)
# As a path: no NUL, no slash of its own, no part longer than a file system takes.
_NAME = EVIL.replace("\x00", "\x01").replace("/", "|")
EVIL_PATH = "/".join(_NAME[at : at + 60] for at in range(0, len(_NAME), 60))
EVIL_NAME = _NAME[:60]
CSI = re.compile(rb"\x1b\[([0-?]*)([ -/]*)([@-~])")
# What Textual's driver writes: (final byte, intermediates) of its CSI sequences.
FINALS = {b"m", b"H", b"h", b"l", b"u", b"p", b"J", b"K", b"c", b"t", b"n", b"q", b"A", b"B", b"C", b"D"}
OSC_KNOWN = (b"22;default", b"11;?", b"10;?")


def foreign(data: bytes) -> list[str]:
    """Everything in a terminal's input that neither Textual's driver writes nor is a character that shows itself."""
    found: list[str] = []
    at = 0
    text = bytearray()
    while at < len(data):
        byte = data[at]
        if byte != 0x1B:
            text.append(byte)
            at += 1
            continue
        if match := CSI.match(data, at):
            parameters, final = match[1], match[3]
            if final not in FINALS:
                found.append(f"CSI {match[0]!r}")
            elif final == b"J" and parameters not in (b"", b"2"):
                found.append(f"erase {match[0]!r}")
            elif final == b"m" and parameters == b"9;31;7":
                found.append(f"colour {match[0]!r}")
            at = match.end()
        elif data[at + 1 : at + 2] == b"]":
            end = min((p for p in (data.find(b"\x07", at), data.find(b"\x1b\\", at)) if p >= 0), default=len(data))
            body = data[at + 2 : end]
            if body not in OSC_KNOWN:
                found.append(f"OSC {body[:60]!r}")
            at = end + (1 if data[end : end + 1] == b"\x07" else 2)
        elif data[at + 1 : at + 2] in (b"7", b"8", b"=", b">", b"P"):
            if data[at + 1 : at + 2] == b"P":  # Textual asks with DCS for the terminal's abilities
                end = data.find(b"\x1b\\", at)
                if b"q#0" in data[at:end] or b"dcs" in data[at:end]:
                    found.append("DCS")
                at = end + 2
            else:
                at += 2
        else:
            found.append(f"escape {data[at : at + 8]!r}")
            at += 2
    for char in text.decode("utf-8", "surrogateescape"):
        if char in "\r\n":
            continue
        strange = not char.isprintable() or unicodedata.category(char) in ("Cf", "Co", "Cs", "Cn")
        if strange or char in "\u115f\u3164\ufe0f":
            found.append(f"U+{ord(char):04X}")
    return found


def test_the_test_sees_what_it_is_for() -> None:
    """Were it all let through, each kind would be seen."""
    seen = " ".join(foreign(EVIL.encode("utf-8", "surrogateescape")))
    for kind in (
        "OSC b'52",
        "erase",
        "colour",
        "OSC b'0;LEAK3",
        "DCS",
        "U+202E",
        "U+200B",
        "U+0000",
        "U+0007",
        "U+E000",
    ):
        assert kind in seen, kind
    assert foreign("▲ kernel  ü日 …\r\n".encode() + b"\x1b[1;38;2;1;2;3mx\x1b[0m\x1b[3;4H\x1b[?2026h") == []


@pytest.fixture
def owner() -> Iterator[Sleeper]:
    made = Sleeper()
    yield made
    made.end()


def poisoned(places: Places, owner: Sleeper) -> None:
    """A home in which everything that a session can name, it has named with malice."""
    os.makedirs(places.state, 0o700)
    project = f"{places.home}/src/{EVIL_PATH}"
    evil_path = f"{places.home}/.cache/{EVIL_PATH}/f"
    os.makedirs(os.path.dirname(evil_path).encode("utf-8", "surrogateescape"))
    story = Story(places, "3f0c", project, owner.pid, name=EVIL, enforced={EVIL_NAME: EVIL}, canary={"state": EVIL})
    story.append("session_start", story.body(EVIL, reason=EVIL))
    story.append("prompt", story.body("UserPromptSubmit", text=EVIL))
    story.call(EVIL, EVIL)
    story.call("line one\n" + EVIL, f"{EVIL}\nsh: 1: cannot create {evil_path}: Permission denied\n{EVIL}")
    story.denied_write(evil_path, EVIL)
    story.denied_write(f"{places.home}/.cache/uv/x")
    story.call("", f"EACCES: permission denied, open '{evil_path}'", tool="Write", file_path=evil_path, content=EVIL)
    story.call(f"curl http://{EVIL_PATH}:3000", "curl: (7) Failed to connect to 127.0.0.1 port 3000: Permission denied")
    story.call(EVIL, "nd7-exec: session has no policy.sb\n" + EVIL, 126)
    story.call("make", "x" * 10_000_000 + EVIL + "y" * 10_000 + "\nPermission denied")
    story.append("hook", story.body(EVIL, raw={"hook_event_name": EVIL, "message": EVIL}))
    story.append("hook", story.body("Notification", raw={"hook_event_name": "Notification", "message": EVIL}))
    story.append(EVIL_NAME, {"text": EVIL, "cwd": EVIL}, source="intent:" + EVIL)
    story.say(f"The sandbox denied writing to {evil_path}. {EVIL}")
    story.ask(EVIL)
    sessions.update(places, owner.pid, lambda record: _granted(record, evil_path))
    past = Story(places, "past", f"/srv/{EVIL_PATH}")
    past.append("session_start", past.body("SessionStart", reason=EVIL))
    past.append("prompt", past.body("UserPromptSubmit", text=EVIL))
    past.call("line one\n" + EVIL, f"{EVIL}\nsh: 1: cannot create /srv/{EVIL_PATH}/f: Permission denied\n{EVIL}")
    past.denied_write(f"/srv/cache/{EVIL_PATH}", EVIL)
    past.call(EVIL, "nd7-exec: session has no policy.sb " + EVIL, 126)
    past.say(f"The sandbox denied writing to /etc/{EVIL_PATH}. {EVIL}")
    past.append(EVIL_NAME, {"text": EVIL, "cwd": EVIL}, source="intent:" + EVIL)
    past.append("hook", past.body("Notification", raw={"hook_event_name": EVIL, "message": EVIL}))
    past.end()
    log = next(Path(past.log.directory).glob("*.ndjson"))
    with log.open("ab") as stream:  # and bytes that are no frame, where the moment shows them as damage
        stream.write(b"{" + EVIL.encode("utf-8", "surrogateescape").replace(b"\n", b"") + b"\xff\xfe\n")
    logs = Path(places.state) / "sessions"
    (logs / "torn").mkdir(mode=0o700)
    (logs / "torn" / "events.ndjson").write_bytes(
        b'{"v":0' + EVIL.encode("utf-8", "surrogateescape") + b"\xff\xfe\n\x1b]52;c;eA==\x07\n\x00\x00"
    )
    os.makedirs(os.fsencode(f"{logs}/{EVIL_NAME}"))
    Path(os.fsdecode(os.fsencode(f"{logs}/{EVIL_NAME}/events.ndjson"))).write_bytes(b"\x1b[13;7J\n")
    damaged = Path(places.sessions) / "1"
    damaged.mkdir(mode=0o700)
    (damaged / "record.json").write_bytes(b'{"project": "' + EVIL.encode("utf-8", "surrogateescape") + b'"')


@contextlib.contextmanager
def holder(places: Places, pid: int) -> Iterator[None]:
    """Something that holds the session's screen, and answers each look at it with what is hostile."""
    listening = socket.socket(socket.AF_UNIX)
    hold.bind(listening, f"{places.sessions}/{pid}")
    listening.listen(8)
    about = json.dumps({"size": [24, 80, 0, 0], "name": EVIL, "project": EVIL}).encode()
    answer = hold.frame(b"H", about) + hold.frame(
        b"O", f"{EVIL}\r\n{EVIL}\r\n{HELD}".encode("utf-8", "surrogateescape")
    )

    def serve() -> None:
        with contextlib.suppress(OSError):  # closed: the test is over
            while True:
                asking, _ = listening.accept()
                with asking:
                    asking.recv(4096)
                    asking.sendall(answer)

    thread = threading.Thread(target=serve)
    thread.start()
    try:
        yield
    finally:
        listening.shutdown(socket.SHUT_RDWR)
        thread.join(10)
        listening.close()


def _granted(record, path: str):
    from dataclasses import replace

    return replace(record, grants=(Grant(path, origin=EVIL, created=1),))


def assert_clean(tty: Tty, where: str) -> None:
    # What was read may end in the middle of a sequence of the dashboard's own, on a busy machine.
    data = re.sub(rb"\x1b(\[[0-9;?]*)?\Z", b"", bytes(tty.bytes))
    found = foreign(data)
    around = ""
    if found and found[0].startswith("U+"):
        at = data.find(chr(int(found[0][2:], 16)).encode("utf-8", "surrogateescape"))
        around = repr(data[max(0, at - 400) : at + 60])
    assert not found, f"{where}: {sorted(set(found))[:10]} {around}"
    assert b"\x1b[9;31;7m" not in tty.bytes


# By what keys each screen is reached from the first one and looked through, and by what it is left.
WHOLE = ("enter", "end", "escape")
TYPED = EVIL.replace("\x1b", "").replace("\r", "").replace("\t", "")
SHORT = "\u202e\u200b\x9b31mx"
PASTED = f"\x1b[200~{SHORT}\x1b[201~"  # what no key types comes this way
HOLDING, HELD = "its screen, seen from here", "HELD7\u202e"
SCREENS: dict[str, tuple[tuple[str, ...], tuple[str, ...]]] = {
    "the detail, whole": (("home", "enter", "down", "end"), ("escape",)),
    "every row, whole": (("home", *("down", *WHOLE) * 6), ()),
    "a session alone": (("tab", "tab", "tab", "down", "down", "up", "shift+tab"), ("escape",)),
    HOLDING: (("w",), ("escape", "escape")),
    "what is in force": (("home", "down", "i", "end", "home"), ("escape",)),
    "how wide": (("home", "down", "G", "down", "down", "right", "right"), ("escape",)),
    "grants": (("a", "down", "y"), ("escape",)),
    "the profile": (("p", "down", "end"), ("escape",)),
    "help of one session": (("tab", "tab", "down", "?", "end"), ("escape", "escape")),
    "a new session": (("n", *("tab",) * 4, PASTED, TYPED, "tab", PASTED, TYPED, "home"), ("escape",)),
    "the palette": (("ctrl+p", "g"), ("escape",)),
    "the filter": (("/", "Perm", "enter", "/", SHORT), ("escape", "escape")),
    "a grant taken back": (("home", "u"), ()),
    "what nd7 did": (("l", "down", "y"), ("escape",)),
    "a grant": (("home", "down", "down", "g"), ("escape",)),
    "what is said": (("home", "down", "y"), ()),
    "past denials": (("h", "down", "down", "down", "y"), ("escape", "escape")),
    "past denials, typed for": (("h", SHORT), ("down", "escape", "escape")),
    "past denials by target": (("h", "down", "v", "down", "down", "y"), ("escape", "escape")),
    "a moment": (("h", "down", "enter", "home", "down", "end", "y"), ("escape", "escape", "escape")),
    "every moment": (("h", "down", "down", *WHOLE, "down", *WHOLE, "down", *WHOLE), ("escape", "escape")),
    "light": (("t",), ()),
    "the terminal's own colours": (("t", "down", "up"), ()),
}
# Where nothing that a session wrote has a place.
QUIET = ("the palette", "light")
# How what was hostile looks once it is on the screen: a picture of a control, or its number.
SHOWN = re.compile("␛|␀|\\\\u202e|\\\\x9b|\\\\u200b".encode())


@pytest.mark.parametrize("size", [(120, 36), (80, 24)])
def test_nothing_of_a_session_reaches_the_terminal_raw(here: Places, owner: Sleeper, size: tuple[int, int]) -> None:
    poisoned(here, owner)
    with holder(here, owner.pid):
        look_at_everything(here, size)


def look_at_everything(here: Places, size: tuple[int, int]) -> None:
    tty = dashboard(here, size=size)
    try:
        tty.wait_for("nd7-exec", 60)
        tty.read(1.0)
        assert_clean(tty, "the first screen")
        tty.press("4", "home")
        for _ in range(12):  # each row with its detail
            tty.press("down")
        assert_clean(tty, "the rows")
        for screen, (there, back) in SCREENS.items():
            tty.bytes.clear()
            tty.press(there[0])
            if there[0] == "h":
                tty.wait_for("found in", 60)  # what is typed before would go to the screen below
            tty.press(*there[1:])
            # That nothing came through proves something only where something was there to be shown.
            if screen not in QUIET:
                tty.wait_for(HELD[:-1] if screen == HOLDING else SHOWN.search, 60)
            tty.press(*back)
            tty.read(0.3)
            # Copying writes OSC 52 itself, in base64: the one that is meant.
            tty.bytes = bytearray(re.sub(rb"\x1b\]52;c;[A-Za-z0-9+/=]*\x07", b"", bytes(tty.bytes)))
            assert_clean(tty, screen)
        assert tty.child.poll() is None, "the dashboard is gone"
        tty.press("escape", "escape", "escape", "escape", "q")
        for _ in range(200):
            if tty.child.poll() is not None:
                break
            tty.read(0.1)
    finally:
        status = tty.close()
    assert status == 0
    assert_clean(tty, "the way out")
