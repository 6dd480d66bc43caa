"""What a terminal must be sent to show a session's screen again: the modes that are on, and the output's tail.

No emulator: nd7 relays bytes and remembers two things about them.  The modes (alternate screen, mouse, bracketed
paste, cursor shape, keyboard protocol) may have been set hours ago; the tail starts at the last time the screen was
cleared, if that is not too far back.  A program that redraws on a change of size is asked for that as well (by
the supervisor, which shrinks the pty by a line and grows it again).
"""

from __future__ import annotations

import re

MOST = 512 * 1024
# A sequence may be cut anywhere by a read; this much of the end is looked at again with the next one.
LONGEST = 64
LONGEST_MODE, MOST_MODES = 5, 256
SEQUENCE = re.compile(
    rb"\x1b\[\?([0-9;]{1,60})([hl])"  # DEC private modes
    rb"|\x1b\[([<>=])([0-9;]{0,20})u"  # kitty keyboard protocol: push, pop, set
    rb"|\x1b\[>4;?([0-9]?)m"  # xterm modifyOtherKeys
    rb"|\x1b([=>])"  # keypad
    rb"|\x1b(c)"  # full reset
    rb"|\x1b\[(!)p"  # soft reset
)
CLEARED = re.compile(rb"\x1b\[[23]?J|\x1b\[\?1049[hl]|\x1bc")
ALTERNATE = (b"1049", b"1047", b"47")
# What is on after a reset: wrapping, and the cursor.
DEFAULT_ON = frozenset((b"7", b"25"))


class Replay:
    """Feed it all output; ask it for the bytes that bring a fresh terminal to the same screen."""

    def __init__(self, most: int = MOST) -> None:
        self._most = most
        self._tail = bytearray()
        self._cut = False
        self._held = b""
        self._modes: dict[bytes, bool] = {}
        self._keyboard: list[bytes] = []
        self._other_keys = b""
        self._keypad = False

    def feed(self, data: bytes) -> None:
        """Take what the session wrote, in pieces of any size."""
        text = self._held + data
        end = 0
        for found in SEQUENCE.finditer(text):
            end = found.end()
            self._take(found)
        # From the last ESC on, a sequence may be unfinished.
        start = max(text.rfind(b"\x1b", max(end, len(text) - LONGEST)), 0)
        self._held = text[start:] if text.find(b"\x1b", start) >= end and start >= end else b""
        self._tail += data
        if len(self._tail) > 2 * self._most:
            del self._tail[: -self._most]
            self._cut = True

    def _take(self, found: re.Match[bytes]) -> None:
        modes, on, kitty, flags, other, keypad, reset, soft = found.groups()
        if modes:
            for mode in modes.split(b";"):
                # What is output here is hostile: no number that no terminal knows, and never more than there are.
                if len(mode) <= LONGEST_MODE and (mode in self._modes or len(self._modes) < MOST_MODES):
                    self._modes[mode] = on == b"h"
        elif kitty == b">":
            self._keyboard.append(flags)
            del self._keyboard[:-16]
        elif kitty == b"<":
            del self._keyboard[-int(flags or b"1") or len(self._keyboard) :]
        elif keypad:
            self._keypad = keypad == b"="
        elif reset or soft:
            self._modes.clear()
            self._keyboard.clear()
            self._other_keys, self._keypad = b"", False
        elif other is not None:
            self._other_keys = other if other != b"0" else b""

    @property
    def alternate(self) -> bool:
        """Whether the alternate screen is shown: a full-screen program, which redraws when its size changes."""
        return any(self._modes.get(mode, False) for mode in ALTERNATE)

    def tail(self) -> bytes:
        """The output since the screen was last cleared, or the last of it, from the start of a line."""
        return self._since()[0]

    @property
    def whole(self) -> bool:
        """Whether the tail begins where the screen was empty; else only the program itself can draw all of it again."""
        return self._since()[1]

    def _since(self) -> tuple[bytes, bool]:
        tail = bytes(self._tail[-self._most :])
        starts = [found.start() for found in CLEARED.finditer(tail)]
        if starts:
            return tail[starts[-1] :], True
        if self._cut or len(self._tail) > self._most:
            return tail[tail.find(b"\n") + 1 :], False
        return tail, True

    def enter(self) -> bytes:
        """What a fresh terminal is sent: cleared, the tail, then the modes as they are now."""
        alternate = b"\x1b[?1049h" if self.alternate else b""
        modes = b"".join(
            b"\x1b[?%b%b" % (mode, b"h" if on else b"l")
            for mode, on in self._modes.items()
            if on != (mode in DEFAULT_ON) and mode not in ALTERNATE and mode != b"2026"
        )
        keyboard = b"".join(b"\x1b[>%bu" % flags for flags in self._keyboard)
        other = b"\x1b[>4;%bm" % self._other_keys if self._other_keys else b""
        keypad = b"\x1b=" if self._keypad else b""
        return alternate + b"\x1b[H\x1b[2J" + self.tail() + modes + keyboard + other + keypad

    def leave(self) -> bytes:
        """What a terminal is sent that leaves the session's screen: every mode as after a reset, and no more."""
        modes = b"".join(
            b"\x1b[?%b%b" % (mode, b"h" if mode in DEFAULT_ON else b"l")
            for mode, on in self._modes.items()
            if on != (mode in DEFAULT_ON) and mode not in ALTERNATE
        )
        keyboard = b"\x1b[<%du" % len(self._keyboard) if self._keyboard else b""
        other = b"\x1b[>4;0m" if self._other_keys else b""
        keypad = b"\x1b>" if self._keypad else b""
        alternate = b"\x1b[?1049l" if self.alternate else b""
        return b"\x1b[0m" + keyboard + other + keypad + modes + alternate
