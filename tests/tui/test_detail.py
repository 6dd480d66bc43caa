"""The detail's advice: what each key would do, said once, and never what does not help."""

from __future__ import annotations

from dataclasses import replace

import pytest
import tui_rows

from nd7core.attribution.verdict import Verdict
from nd7core.survey import Survey
from nd7tui import keys
from nd7tui.detail import detail
from nd7tui.model import GrantRow, Row, SessionRow
from nd7tui.outlook import Outlook, opened

SESSION, *_ = tui_rows.sessions()
BY_ID = {row.id: row for row in tui_rows.rows()}


def text(row: Row, session: SessionRow | None = SESSION, width: int = 100, outlook: Outlook | None = None) -> str:
    return " ".join(" ".join(str(line.text) for line in detail(row, session, outlook, keys.caps({}), width)).split())


def test_a_command_that_nd7_exec_could_not_run_is_about_the_session_and_no_path() -> None:
    shown = text(BY_ID["3f0c/5"])
    assert "g nothing: no path was refused: nd7-exec could not run the command at all" in shown
    assert "r restart api-server, which writes its profile and its rules anew" in shown
    assert "nd7 doctor says what is wrong on this machine" in shown
    assert "do without it" not in shown and "cannot be granted" not in shown
    # The reason stands once.
    assert shown.count("session has no policy.sb") == 2  # what came back, and why
    other = text(BY_ID["3f0c/5"], replace(SESSION, agent="bash"))
    assert "end it, and start it again with nd7 run" in other and "r restart" not in other


def test_why_no_grant_helps_is_said_once() -> None:
    shown = text(BY_ID["77aa/1"])
    assert "g nothing: no grant opens this, see why below" in shown
    assert shown.count("Only DNS and TCP port 443 are let out") == 1
    assert "tell the agent to do without it" in shown


def targets(*names: str) -> Row:
    verdict = Verdict("kernel", "matched", "network", names[0], names, "cannot-grant", "", "why", "", "")
    return replace(BY_ID["77aa/1"], verdict=verdict)


def test_a_host_whose_port_stands_there_is_no_second_target() -> None:
    assert "and localhost" not in text(targets("localhost:3000", "localhost"))
    assert "and [::1]:3000" in text(targets("localhost:3000", "localhost", "[::1]:3000"))


@pytest.mark.parametrize(
    ("foreseen", "because"),
    [
        (
            {"ordinary": "would refuse it too: it is root's"},
            "the file's own permissions would refuse it too: it is root's",
        ),
        (
            {"refused_by": "(deny file-write* (subpath X))", "ordinary": "would let it"},
            "by (deny file-write* (subpath X))",
        ),
        ({}, "another try will tell"),
    ],
)
def test_why_a_grant_has_not_helped(foreseen: dict[str, str], because: str) -> None:
    row = replace(BY_ID["3f0c/1"], state="repeated")
    outlook = replace(Outlook(row.verdict.grant, already=True), **foreseen)
    shown = text(row, width=200, outlook=outlook)
    assert "granted, and refused all the same" in shown and because in shown


def test_many_targets_are_wrapped_and_not_cut() -> None:
    names = tuple(f"/srv/data/number-{n}" for n in range(9))
    shown = text(replace(BY_ID["3f0c/1"], verdict=replace(BY_ID["3f0c/1"].verdict, target=names[0], targets=names)))
    assert all(name in shown for name in names)


def test_what_g_opens_is_said_before_it_is_pressed_and_that_a_grant_covers_the_row() -> None:
    row, (session, *_) = replace(tui_rows.rows()[0], state="open"), tui_rows.sessions()
    outlook = Outlook(
        row.verdict.grant, opens=opened(Survey(4, 1, True, ("/n/wifi-password.txt",), (), True), folder=True)
    )
    told = " ".join(" ".join(str(line.text) for line in detail(row, session, outlook, keys.caps({}), 100)).split())
    assert "next Bash commands, 4 files, 1 looks like a secret" in told
    # Its outlook is void from the grant on until it is worked out anew: the session's own grants tell meanwhile.
    given = replace(session, grants=(GrantRow(4242, row.verdict.grant.rpartition("/")[0]),))
    told = " ".join(" ".join(str(line.text) for line in detail(row, given, None, keys.caps({}), 100)).split())
    assert "is granted already" in told and "nothing has been done about it" not in told
