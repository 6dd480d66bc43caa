"""One past denial at its moment: what came before it in its session's log, and what after."""

from __future__ import annotations

from typing import TYPE_CHECKING

from textual.app import ComposeResult
from textual.message import Message

from nd7core.mask import mask
from nd7core.text import safe
from nd7tui import keys, look
from nd7tui.detail import mark, nothing
from nd7tui.line import Line, fit, indented, wrap
from nd7tui.screens.page import Page
from nd7tui.theme import Role
from nd7tui.widgets.bar import Bar
from nd7tui.widgets.textpane import TextPane

if TYPE_CHECKING:
    from nd7core.audit.frame import Damage, Frame
    from nd7core.history import Entry

AROUND = 25
KIND = {
    "session_start": "began",
    "session_end": "ended",
    "prompt": "was asked",
    "tool_call": "ran",
    "tool_result": "came back",
    "turn_end": "said",
    "words": "said",
    "hook": "told",
    "grant": "granted",
    "proof": "tested",
    "canary": "self-test",
}


class MomentRead(Message):
    """The frames round the row."""

    def __init__(self, frames: list[Frame | Damage]) -> None:
        super().__init__()
        self.frames = frames


class Past(Page):
    """The log round one row."""

    NAME = "past"
    TITLE_WORD = "moment"
    BINDINGS = [*keys.bindings("past")]
    LINE = ("copy", "back", "help")

    def __init__(self, entry: Entry) -> None:
        super().__init__()
        self.entry = entry
        self.frames: list[Frame | Damage] | None = None

    def compose(self) -> ComposeResult:
        yield Bar(self.top_line, id="top")
        yield TextPane(self._text, id="text")
        yield Bar(self.bottom_line, id="bottom")

    def on_mount(self) -> None:
        self.query_one(TextPane).focus()
        self.run_worker(self._read, thread=True, group="moment", exit_on_error=False)

    def crumbs(self) -> list[str]:
        return ["nd7", "past denials", self.entry.session_id[:8], str(look.day(self.entry.ts))]

    def _read(self) -> None:
        """In a worker."""
        from nd7core.history import History

        index = History(self.dash.places.state)
        frames = index.moment(self.entry, before=AROUND, after=AROUND)
        index.close()
        self.post_message(MomentRead(frames))

    def on_moment_read(self, message: MomentRead) -> None:
        self.frames = message.frames
        pane = self.query_one(TextPane)
        pane.redraw()
        here = next((at for at, line in enumerate(pane.lines) if line.text.startswith("▸")), 0)
        pane.scroll_to(y=max(0, here - 4), animate=False, immediate=True, force=True)

    def _text(self, width: int) -> list[Line]:
        if self.frames is None:
            return nothing(width, "Reading the log …")
        if not self.frames:
            return nothing(width, "The log is gone, or cannot be read any more.")
        found: list[Line] = []
        for frame in self.frames:
            found += self._frame(frame, width)
        return found

    def _frame(self, frame: Frame | Damage, width: int) -> list[Line]:
        from nd7core.audit.frame import Damage

        if isinstance(frame, Damage):
            return [Line("bad").gap(2).put(fit(safe(f"! {frame.reason}"), width - 4), "bad")]
        here = frame.seq == self.entry.seq
        line = Line("strong" if here else "text").put(safe("▸ " if here else "  "), "accent")
        line.put(look.clock(frame.ts), "dim").gap(2).put(safe(kind_of(frame), 14), "dim", cells=14)
        what, rest = describe(frame)
        # The frame that the row rests on is shown whole; what stood round it, in a line or two.
        column = line.cells
        text = safe(" ".join(what.split()) if len(what) < 4000 else what, 4000 if here else 600)
        first, *more = wrap(text, max(width - column - 1, 8), 40 if here else 2)
        found = [line.put(first), *indented(more, column, "strong" if here else "text")]
        if rest.strip():
            lines = rest.rstrip("\n").split("\n")
            at = mark(rest, mask(self.entry.line))
            middle = at if at is not None else len(lines) - 1
            for number in range(max(0, middle - 2), min(len(lines), middle + 3)):
                for part in wrap(safe(lines[number], 1000), width - 28, 3):
                    role: Role = "mark" if number == at else "dim"
                    found.append(Line(role).gap(26).put(part))
        return found

    def to_copy(self) -> str:
        """The target, or the command."""
        return self.entry.target or mask(self.entry.command)


def kind_of(frame: Frame) -> str:
    """What a frame tells of, in a word or two; hostile where the kind is none of nd7's."""
    if frame.kind == "grant" and frame.body.get("action") == "take-back":
        return "taken back"
    return KIND.get(frame.kind, frame.kind)


def describe(frame: Frame) -> tuple[str, str]:
    """What a frame says on one line, and what came back; hostile, both, with secrets masked."""
    what, back = _described(frame)
    return mask(what, 100_000), mask(back)


def _described(frame: Frame) -> tuple[str, str]:
    body = frame.body

    def text(key: str) -> str:
        value = body.get(key)
        return value if isinstance(value, str) else ""

    given = body.get("tool_input")
    given = given if isinstance(given, dict) else {}
    about = next((v for k in ("command", "file_path", "url", "pattern") if isinstance(v := given.get(k), str)), "")
    if frame.kind == "tool_call":
        return f"{text('tool_name')}  {about}", ""
    if frame.kind == "tool_result":
        response = body.get("tool_response")
        if isinstance(response, dict):
            response = response.get("stdout")
        back = response if isinstance(response, str) else ""
        ended = "done" if body.get("ok") is True else "failed"
        return f"{text('tool_name')} {ended}", back[:200_000] if body.get("ok") is not True else ""
    if frame.kind == "proof":
        return f"{text('operation')} {text('path')}: {'passes' if body.get('allowed') is True else 'refused'}", ""
    if frame.kind == "canary":
        return text("state"), ""
    raw = body.get("raw")
    if isinstance(raw, dict):
        message = raw.get("message")
        return f"{text('hook_event_name')}  {message if isinstance(message, str) else ''}", ""
    return next(
        (text(key) for key in ("text", "last_assistant_message", "reason", "path", "target") if text(key)), ""
    ), ""
