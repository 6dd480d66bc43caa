"""The detail of one row: what was run, what came back, why nd7 thinks so, and what each key would do about it."""

from __future__ import annotations

from nd7core.text import SafeText, safe
from nd7tui import look
from nd7tui.line import Line, both, fit, indented, wrap
from nd7tui.model import Row, SessionRow
from nd7tui.outlook import Outlook, why_not, why_not_restart
from nd7tui.theme import Role

# Lines of output shown round the marked one before the whole is asked for with Enter.
AROUND = 3
LABEL = 11
GRANT = "screen.press('grant')"


def headline(row: Row, session: SessionRow | None, width: int, *, tight: bool = False) -> Line:
    """Who refused what, on one line, with the time at the right; and the state where it has no line of its own."""
    glyph, word, role = look.SOURCE[row.source]
    line = Line("strong").put(glyph, role).gap().put(word, role).gap()
    line.put(safe(_verb(row)), "strong")
    right = Line("dim")
    if tight and row.source != "none":
        state, named, state_role = look.STATE[row.state]
        right.put(state, state_role).gap().put(named, state_role).gap(2)
        if row.count > 1:
            right.put(safe(f"×{row.count}  "))
    if width >= 60:
        right.put(look.clock(row.ts)).gap(2)
    if session is not None and width >= 74:
        right.put(fit(safe(session.name), 20), "dim")
    return both(line, right, width)


def _verb(row: Row) -> str:
    verdict = row.verdict
    if verdict.source == "none":
        owner = look.OWNER.get(verdict.owner, "unknown")
        return f"no denial of nd7's; whose it is: {owner}"
    if verdict.source == "nd7-exec":
        return "refused to run the command"
    word = {"read": "reading", "write": "writing", "execute": "running a program", "network": "a connection"}.get(
        verdict.operation, "something"
    )
    return f"reports that {word} was denied" if verdict.source == "model" else f"refused {word}"


def _label(text: str) -> Line:
    return Line().put(safe(text), "dim", cells=LABEL)


def _command(row: Row, width: int, whole: bool) -> list[Line]:
    lines = safe(row.command, 16_000, keep_newlines=True).split("\n")
    shown: list[SafeText] = []
    for text in lines if whole else lines[:3]:
        shown += wrap(SafeText(text), width, 100 if whole else 3)
    if not whole and len(lines) > 3:
        shown.append(safe(f"… {len(lines) - 3} more lines"))
    return indented(shown, 0, "code")


def mark(output: str, wanted: str) -> int | None:
    """The number of the output's line that the verdict rests on, or None."""
    wanted = wanted.strip()
    if not wanted:
        return None
    lines = output.split("\n")
    for at, line in enumerate(lines):
        if line.strip() == wanted:
            return at
    return next((at for at, line in enumerate(lines) if wanted in line), None)


def _output(row: Row, width: int, whole: bool) -> list[Line]:
    if not row.output.strip():
        return [Line("dim").put(safe("nothing"))]
    lines = row.output.rstrip("\n").split("\n")
    at = mark(row.output, row.verdict.line)
    first, last = 0, len(lines)
    if not whole:
        middle = at if at is not None else len(lines) - 1
        first, last = max(0, middle - AROUND), min(len(lines), middle + AROUND + 1)
    found: list[Line] = []
    before, after = row.cut[0], row.cut[1]
    if first or before:
        found.append(_left_out(first, before, "above"))
    for number in range(first, last):
        marked = number == at
        for part, text in enumerate(wrap(safe(lines[number], 4_000), width - 2, 40 if whole else 3)):
            line = Line("mark" if marked else "code")
            found.append(line.put(safe("▸ " if marked and not part else "  ")).put(text))
    if last < len(lines) or after:
        found.append(_left_out(len(lines) - last, after, "below"))
    return found


def _left_out(lines: int, characters: int, where: str) -> Line:
    parts = [look.plural(lines, "line")] if lines else []
    if characters:
        parts.append(f"{characters:,} characters that only the log has")
    return Line("faint").put(safe(f"  … {' and '.join(parts)} {where}"))


def _why(row: Row, home: str, outlook: Outlook | None, width: int) -> list[Line]:
    verdict = row.verdict
    reason = look.short_text(verdict.reason, home) or look.SOURCE_MEANS[verdict.source]
    found = indented(wrap(safe(reason, 600), width), 0, "text")
    if verdict.source != "none":
        text = look.evidence(verdict.evidence, verdict.source, confirmed=bool(row.tied_to))
        found += indented(wrap(safe(text), width), 0, "dim")
    if verdict.contradiction:
        found += indented(wrap(safe("but " + look.short_text(verdict.contradiction, home), 600), width), 0, "warn")
    if outlook is not None and outlook.ordinary:
        text = f"the file's own permissions {outlook.ordinary}"
        found += indented(wrap(safe(text, 600), width), 0, "dim" if outlook.ordinary == "would let it" else "warn")
    if outlook is not None and outlook.refused_by:
        number = f"policy.sb line {outlook.line}: " if outlook.line else "policy.sb: "
        found += indented(wrap(safe(number + outlook.refused_by.strip(), 600), width), 0, "dim")
    return found


def _key(cap: str, text: str, width: int, role: Role = "text", do: str = "") -> list[Line]:
    found = []
    for at, part in enumerate(wrap(safe(text, 900), width - 3)):
        line = Line(role)
        line.put(safe(cap if not at else " "), "key", cells=3, do=do)
        found.append(line.put(part, do=do))
    return found


def _mend(
    row: Row,
    session: SessionRow | None,
    outlook: Outlook | None,
    caps: dict[str, str],
    width: int,
    *,
    tight: bool,
    read_only: bool,
    undo: str,
    hidden: str,
) -> list[Line]:
    verdict = row.verdict
    home = session.home if session else ""
    g, wider, again, copy = caps["grant"], caps["wider"], caps["restart"], caps["copy"]
    again = " " if read_only else again
    found: list[Line] = []
    reason = outlook.why_not if outlook is not None else why_not(row, session)
    path = look.short_path(verdict.grant, home)
    who = look.short_name(session.name) if session else "the session"
    if row.state == "granted" and not reason:
        found += _key("◧", f"granted: {path}; the next Bash command has it", width, "good")
    elif row.state == "proved":
        proved = look.PROVED_BY.get(row.proof, look.STATE_MEANS["proved"])
        found += _key("■", f"granted, and {proved}", width, "good" if row.proof != "nd7" else "accent")
    elif read_only and not reason:
        found += _key(g, "nothing: this dashboard was started with --read-only", width, "dim")
    elif reason and verdict.remedy == "cannot-grant" and verdict.source == "kernel":
        found += _key(g, "nothing: no grant opens this, see why below", width, "dim")
    elif reason:
        found += _key(g, f"nothing: {look.short_text(reason, home)}", width, "dim")
    elif outlook is not None and outlook.already and row.state == "repeated":
        found += _key("↻", f"granted, and refused all the same: {_still(outlook)}", width, "warn")
    elif _covered(row, session, outlook):
        found += _key(g, f"nothing new: {path} is granted already", width, "dim")
    elif outlook is not None and outlook.dangers:
        opens = f", {outlook.opens}" if outlook.opens else ""
        found += _key(g, f"asks first, then grants {path} to {who}{opens}: {outlook.dangers[0]}", width, "warn", GRANT)
    else:
        text = f"grant {path} to {who}'s next Bash commands"
        text += f", {outlook.opens}" if outlook is not None and outlook.opens else ""
        if verdict.remedy == "restart-wider":
            text += f", which does not reach {row.tool}"
        found += _key(g, text, width, "strong", "screen.press('grant')")
    if undo and not read_only and row.state in ("granted", "proved", "repeated"):
        taken = f"take the grant of {look.short_path(undo, home)} back"
        found += _key(caps["undo"], taken, width, "dim", "screen.press('undo')")
    if not reason and not read_only and row.state in ("open", "repeated") and not tight:
        found += _key(wider, "choose wider or narrower, and for how long", width, "dim", "screen.press('wider')")
    if verdict.remedy == "restart-wider" and verdict.source != "nd7-exec":
        wider = f" with {path} granted" if verdict.grant else ""
        text = f"restart {who} wider{wider}: {row.tool or 'the agent'} runs inside the agent, which no grant reaches"
        found += _key(again, text, width, "strong", "screen.press('restart')")
    if verdict.source == "nd7-exec":
        found += _restart(again, session, width)
    elif verdict.remedy == "cannot-grant" and verdict.source != "none":
        found += _key(
            " ", "tell the agent to do without it, or do this step yourself outside the session", width, "dim"
        )
    if verdict.target and not tight:
        what = f"copy  {outlook.command}" if outlook is not None and outlook.command else f"copy  {verdict.target}"
        found += _key(copy, what, width, "dim", "screen.press('copy')")
    if hidden:
        found += _key(caps["reveal"], hidden, width, "dim", "screen.press('reveal')")
    return found


def _covered(row: Row, session: SessionRow | None, outlook: Outlook | None) -> bool:
    """Whether a grant covers what would be granted: as worked out, or by the session's grants until it has been."""
    if outlook is not None:
        return outlook.already
    wanted = row.verdict.grant
    held = (grant.path.rstrip("/") for grant in (session.grants if session is not None else ()))
    return bool(wanted) and any(wanted == path or wanted.startswith(path + "/") for path in held)


def _still(outlook: Outlook) -> str:
    """Why a grant that is in force has not helped, as far as nd7 can tell."""
    if outlook.ordinary and outlook.ordinary != "would let it":
        return f"the file's own permissions {outlook.ordinary}, and no grant changes those"
    if outlook.refused_by:
        return f"the profile refuses it in spite of the grant, by {outlook.refused_by.strip()}"
    return "not by the profile as it is now; another try will tell"


def _restart(cap: str, session: SessionRow | None, width: int) -> list[Line]:
    """What to do where nd7-exec itself could not run a command: about the session, for no path is the matter."""
    who = look.short_name(session.name) if session is not None else "the session"
    if session is not None and not why_not_restart(session):
        text = f"restart {who}, which writes its profile and its rules anew; its conversation goes on"
        found = _key(cap, text, width, "strong", "screen.press('restart')")
    else:
        text = f"if {who}'s next command fails so, too: end it, and start it again with nd7 run"
        found = _key(" ", text, width, "strong")
    return found + _key(" ", "nd7 doctor says what is wrong on this machine", width, "dim")


def _hidden(row: Row, caps: dict[str, str], revealed: bool) -> str:
    """What is to be said of the secrets in a row, or ""."""
    if not row.hidden:
        return ""
    them = look.plural(row.hidden, "secret")
    cap = caps["reveal"]
    return (
        f"{them} shown; {cap} hides them" if revealed else f"{them} hidden; {cap} shows them until the selection moves"
    )


def detail(
    row: Row,
    session: SessionRow | None,
    outlook: Outlook | None,
    caps: dict[str, str],
    width: int,
    *,
    whole: bool = False,
    tight: bool = False,
    read_only: bool = False,
    undo: str = "",
    revealed: bool = False,
) -> list[Line]:
    """The lines of the detail pane.

    Args:
        outlook: what the keys would do, once that has been worked out.
        caps: how each key is printed.
        whole: all of the command and the output, for the full screen.
        undo: the path of the newest grant, which `u` takes back, where it is the one that covers the row.
        tight: without blank lines, where few rows are to be had.
        revealed: with the secrets that are masked else.
    """
    hidden = _hidden(row, caps, revealed)
    if revealed and row.bare is not None:
        row = row.bare
    inner = max(width - LABEL - 1, 10)
    home = session.home if session else ""
    found = [headline(row, session, width, tight=tight)]
    verdict = row.verdict
    if verdict.target:
        shown = look.short_path(verdict.target, home)
        line = Line("path").put(fit(safe(shown), width, "middle"))
        found.append(line)
        # The host of a port that stands there already is no other target.
        others = [one for one in verdict.targets if one != verdict.target and not verdict.target.startswith(one + ":")]
        if others:
            named = "and " + ", ".join(look.short_path(target, home) for target in others)
            found += indented(wrap(safe(named), width, 3), 0, "dim")
    if verdict.source != "none" and not tight:
        glyph, word, role = look.STATE[row.state]
        state = Line("dim").put(glyph, role).gap().put(word, role)
        state.gap(2)
        means = look.PROVED_BY.get(row.proof, "") if row.state == "proved" else ""
        means = means or look.STATE_MEANS[row.state]
        if row.state == "open" and _covered(row, session, outlook):
            means = f"granted to Bash commands; {row.tool or 'the agent'} has it after a restart"
        if row.count > 1:
            since = f", first at {look.clock(row.first_ts)}" if row.first_ts else ""
            means += f"; {row.count} times in this session{since}"
        at = state.cells
        first, *more = wrap(safe(means), width - at)
        found += [state.put(first), *indented(more, at, "dim")]
    where = look.short_path(row.cwd, home)
    by = row.tool + (f" in {where}" if where else "") + (" by a subagent" if row.agent_id else "")
    sections: list[tuple[str, list[Line]]] = [
        (
            "to do",
            _mend(row, session, outlook, caps, inner, tight=tight, read_only=read_only, undo=undo, hidden=hidden),
        ),
        ("was run", [*indented(wrap(safe(by), inner, 2), 0, "dim"), *_command(row, inner, whole)]),
        ("came back", _came_back(row, inner, whole)),
        ("why", _why(row, home, outlook, inner)),
    ]
    if not row.tool:
        sections[1:3] = [("was said", _command(row, inner, whole))]
    for name, lines in sections:
        if not lines:
            continue
        if not tight:
            found.append(Line())
        for at, line in enumerate(lines):
            head = _label(name) if not at else Line().gap(LABEL)
            found.append(head.join(line))
    return found


def _came_back(row: Row, width: int, whole: bool) -> list[Line]:
    found = _output(row, width, whole)
    if row.exit_code is not None:
        found.insert(0, Line("dim").put(safe(f"exit {row.exit_code}")))
    if row.note:
        found += indented(wrap(safe(row.note, 400), width), 0, "dim")
    return found


def nothing(width: int, text: str, then: str = "") -> list[Line]:
    """An empty pane: why it is empty, and the next step."""
    lines = indented(wrap(safe(text), width - 4), 2, "dim")
    return [Line(), *lines, *(indented(wrap(safe(then), width - 4), 2, "faint") if then else [])]
