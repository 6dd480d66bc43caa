"""Pieces of the first screen: the titles of its panes, the sources' switches, and what is known of a session."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Set
from typing import TYPE_CHECKING

from nd7core.mask import screen
from nd7core.text import safe
from nd7tui import look
from nd7tui.line import Line, fit, wrap
from nd7tui.model import SessionRow
from nd7tui.theme import Role
from nd7tui.widgets.bar import Bar, Draw

if TYPE_CHECKING:
    # Not at run time: the package brings the whole engine along, a fifth of the time to the first paint.
    from nd7core.attribution.verdict import Source
    from nd7tui.messages import Peeked
    from nd7tui.store import Store

# How one comes back from a session's screen; `nd7exec.attach` knows the bytes.
CHORD = "Ctrl+\\ then d"
LABEL = 11
# The key under which a supervisor tells what this system lacks.
NOT_IN_FORCE = "not in force"
CANARY: dict[str, tuple[str, Role]] = {
    "lit": ("a test refusal arrived", "good"),
    "dark": ("a test refusal did NOT arrive", "bad"),  # said where the record does not tell more
    "": ("no test refusal yet", "dim"),
}


def pane_title(text: str, width: int, right: Line, *, focused: bool, note: str = "") -> Line:
    """A rule with the pane's name; heavy where the pane has the focus."""
    rule = "━" if focused else "─"
    ink: Role = "accent" if focused else "rule"
    line = Line("rule").put(safe(rule * 2), ink).gap().put(safe(text), "accent" if focused else "dim").gap()
    if note:
        line.put(safe(note), "warn", do="screen.press('pause')").gap()
    rest = width - line.cells - right.cells - (3 if right.cells else 0)
    line.put(safe(rule * max(rest, 0)), ink)
    if right.cells and rest >= 0:
        line.gap().join(right).gap().put(safe(rule), ink)
    return line


def switches(counts: Mapping[Source, int], hidden: Set[Source], *, words: bool) -> Line:
    """1 ▲ kernel 4  2 ◆ nd7-exec 1 ...: each source with its key, its count, and whether it is hidden."""
    line = Line("dim")
    for number, source in enumerate(look.SOURCES, 1):
        glyph, word, role = look.SOURCE[source]
        off = source in hidden
        do = f"screen.press('source_{number}')"
        count = counts.get(source, 0)
        label = f"{glyph} {word} {count:,}" if words else f"{glyph}{count:,}"
        label += (" hidden" if words else " off") if off else ""
        line.put(safe(f"{number} "), "faint", do=do).put(safe(label), "faint" if off else role, do=do)
        line.gap(2 if number < len(look.SOURCES) else 0)
    return line


def status_line(store: Store, *, read_only: bool) -> Line:
    """What stands at the right of the first line: who waits, how many run, what is wrong."""
    live = [session for session in store.sessions.values() if session.live]
    waiting = sum(session.activity == "waiting" for session in live)
    line = Line("dim")
    if read_only:
        line.put(safe("read-only   "), "warn")
    if waiting:
        line.put(safe(f"◉ {waiting} waiting for you   "), "warn", do="screen.press('waiting')")
    line.put(safe(f"{len(live)} live"), "dim")
    if store.faults:
        line.put(safe(f"   ! {look.plural(len(store.faults), 'fault')} in logs"), "bad")
    return line


def session_card(session: SessionRow | None, width: int, now: int) -> list[Line]:
    """What is known of a session, and what is in force in it; a long fact takes several lines, and none is cut."""
    lines = [Line("rule").put(safe("─" * width), "rule")]
    if session is None:
        return lines
    known(lines, session, width, now)
    in_force(lines, session, width)
    return lines


def known(lines: list[Line], session: SessionRow, width: int, now: int, label: int = LABEL) -> None:
    """What is known of a session, one fact after the other, named in a column of `label` cells."""
    add = _adder(lines, width, label)
    glyph, word, role = look.ACTIVITY[session.activity]
    add("session", look.short_name(session.name) + (f"  pid {session.pid}" if session.pid else ""), "strong")
    add("state", f"{glyph} {word}", role)
    add({"waiting": "for", "ended": "how"}.get(session.activity, "last"), session.waits_for, role)
    add("project", look.short_path(session.project, session.home))
    add("agent", session.agent)
    if session.started:
        add("since", f"{look.clock(session.started)}  {look.age(session.started, now)}")
    if session.grants:
        add("grants", str(len(session.grants)))
    if session.live:
        text, role = CANARY[session.canary]
        if session.foreign and not session.canary:
            text = "another nd7 started it, and none of its tests are told here"
        # Where the canary is lit, what that means says more than its name for it.
        add("canary", text if session.canary == "lit" else session.light or text, role)
    if session.gaps:
        add("missing", look.plural(session.gaps, "event") + " not in the log", "bad")
    add("problem", session.problem, "bad")


def in_force(lines: list[Line], session: SessionRow, width: int, label: int = LABEL) -> None:
    """What the kernel and nd7 enforce in a session that runs, as its supervisor found it, and what is not in force."""
    add = _adder(lines, width, label)
    if session.live and not session.enforced:
        yet = "another nd7 started it, and does not tell" if session.foreign else "its supervisor has not told yet"
        add("in force", yet, "dim" if session.foreign else "warn")
    for part, how in session.enforced.items():
        add(part, how, "warn" if part == NOT_IN_FORCE else "dim")


class Card(Bar):
    """As high as what it says; where it has not that much room, its last line says how much more there is.

    Args:
        more: makes that line, for a number of lines.
    """

    DEFAULT_CSS = "Card { height: auto; }"

    def __init__(self, draw: Draw, more: Callable[[int], Line], *, id: str) -> None:
        super().__init__(draw, id=id)
        self._more = more

    def lines(self) -> list[Line]:
        """See `Bar`."""
        found, height = super().lines(), self.size.height
        if len(found) <= height:
            return found
        return [*found[: height - 1], self._more(len(found) - height + 1)]


def peek_lines(session: SessionRow, peeked: Peeked | None, width: int) -> list[Line]:
    """What a session's screen holds now, its last lines where they do not all fit."""
    if peeked is None or peeked.key != session.key:
        return [Line("dim").gap().put(safe("Looking …"))]
    if peeked.problem:
        return [Line("dim").gap().put(fit(safe(peeked.problem), width - 2))]
    return [Line("text").gap().put(fit(safe(line, 1000), width - 2)) for line in screen(peeked.lines)]


def _adder(lines: list[Line], width: int, label: int) -> Callable[..., None]:
    def add(name: str, value: str, role: Role = "text") -> None:
        if not value:
            return
        head = wrap(safe(name, 60), label - 1)
        body = wrap(safe(value), width - label - 2)
        for at in range(max(len(head), len(body))):
            line = Line().gap().put(head[at] if at < len(head) else safe(""), "dim", cells=label)
            lines.append(line.put(body[at], role) if at < len(body) else line)

    return add
