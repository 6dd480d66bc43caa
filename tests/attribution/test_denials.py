"""Rows, counts, states and ties of the denials of a session."""

from __future__ import annotations

from typing import Any

from nd7core.denials import Denials, denial_fields
from nd7core.events import AgentWords, Note, ToolEvent
from nd7core.record import Grant, Record

HOME = "/home/ada"
PROJECT = f"{HOME}/work/kiln"
OUT = f"{HOME}/notes"


def call(number: int, command: str, output: str, *, code: int | None = 1, tool: str = "Bash", **more: Any) -> ToolEvent:
    state = more.pop("state", "failed" if code else "succeeded")
    given = {"command": command} if tool == "Bash" else {"file_path": command}
    return ToolEvent(
        "s-1",
        f"call-{number}",
        tool,
        given,
        state,
        output,
        code,
        cwd=PROJECT,
        first_seq=number,
        last_seq=number,
        started=number * 1000,
        ended=number * 1000 + 10,
        **more,
    )


def record(*grants: tuple[str, int], revision: int = 1) -> Record:
    given = tuple(Grant(path, created=created) for path, created in grants)
    return Record(PROJECT, HOME, f"{HOME}/.local/state/nd7", "/tmp", grants=given, pid=77, revision=revision)


def refused(number: int, name: str = "a.txt", folder: str = OUT) -> ToolEvent:
    return call(number, f"touch {folder}/{name}", f"touch: cannot touch '{folder}/{name}': Permission denied")


def test_the_same_refusal_again_is_a_count() -> None:
    denials = Denials()
    first = denials.feed(refused(1), record())
    again = denials.feed(refused(2), record())
    assert [row.count for row in first + again] == [1, 2]
    (row,) = denials.rows()
    assert (row.verdict.source, row.state, row.ts, row.last_ts) == ("kernel", "open", 1000, 2010)
    assert row.id == first[0].id and denials.get(row.id) == row


def test_a_newer_state_of_a_call_corrects_the_older_and_counts_once() -> None:
    denials = Denials()
    denials.feed(call(1, "make", "", state="running", code=None), record())
    denials.feed(refused(1), record())
    denials.feed(refused(1), record())
    assert [row.count for row in denials.rows()] == [1]
    denials.feed(call(1, f"touch {OUT}/a.txt", "", code=0), record())
    assert denials.rows() == []


def test_a_denial_in_a_success_is_found_and_an_ordinary_success_is_no_row() -> None:
    denials = Denials()
    denials.feed(call(1, "cat ~/.ssh/id; true", f"cat: {HOME}/.ssh/id: Permission denied", code=0), record())
    denials.feed(call(2, "ls", "a\nb", code=0), record())
    assert [row.verdict.target for row in denials.rows(all_failures=True)] == [f"{HOME}/.ssh/id"]


def test_a_failure_that_is_none_is_there_on_demand_with_its_owner() -> None:
    denials = Denials()
    denials.feed(call(1, "false", ""), record())
    denials.feed(call(2, "rm x", "The user doesn't want to proceed with this tool use.", state="rejected"), record())
    assert denials.rows() == []
    assert [row.verdict.owner for row in denials.rows(all_failures=True)] == ["program", "person"]


def test_grant_proof_repetition_and_taking_back() -> None:
    denials = Denials()
    denials.feed(refused(1), record())
    (row,) = denials.update("s-1", record((OUT, 5000), revision=2))
    assert (row.state, row.revision) == ("granted", 2)
    (row,) = denials.feed(call(6, f"touch {OUT}/a.txt", "", code=0))
    assert row.state == "proved"
    (row,) = denials.feed(refused(7))
    assert (row.state, row.count) == ("repeated", 2)
    (row,) = denials.update("s-1", record(revision=3))
    assert row.state == "open"


def test_a_try_of_nd7s_own_is_no_command_that_passes_and_what_it_made_is_told_as_its_own() -> None:
    denials, made = Denials(), f"{HOME}/.cache/builder"
    denials.feed(call(1, f"mkdir {made}", f"mkdir: cannot create directory '{made}': Permission denied"), record())
    denials.update("s-1", record((made, 5000), revision=2))
    (row,) = denials.feed(Note("s-1", "proof", "", 5, 5500, {"path": made, "allowed": True, "revision": 2}))
    assert (row.state, row.proof) == ("proved", "nd7")
    (failed,) = denials.feed(call(6, f"mkdir {made}", f"mkdir: cannot create directory '{made}': File exists"))
    assert (failed.verdict.source, failed.verdict.owner) == ("none", "nd7") and made in failed.verdict.reason
    assert "nd7 made it, empty, for the grant" in failed.verdict.reason
    assert denials.rows()[0].proof == "nd7"
    (row,) = denials.feed(call(7, f"mkdir {made}", "", code=0))
    assert (row.state, row.proof) == ("proved", "command")
    # What another command finds in its way is nobody's doing that is known here.
    (other,) = denials.feed(call(8, "mkdir /x", "mkdir: cannot create directory '/x': File exists"))
    assert other.verdict.owner == "program"


def test_a_grant_seen_as_a_note_counts_for_a_session_without_a_record() -> None:
    denials = Denials(home=HOME)
    denials.feed(Note("s-1", "session_start", "", 0, 1, {"cwd": PROJECT}))
    denials.feed(refused(1))
    (row,) = denials.feed(Note("s-1", "grant", "", 2, 2000, {"path": OUT, "revision": 4}))
    assert (row.state, row.revision) == ("granted", 4)
    (row,) = denials.feed(Note("s-1", "proof", "", 3, 3000, {"path": OUT, "allowed": True}))
    assert row.state == "proved"


def test_the_same_call_passing_without_a_grant_makes_it_obsolete() -> None:
    denials = Denials()
    denials.feed(refused(1), record())
    (row,) = denials.feed(call(2, f"touch {OUT}/a.txt", "", code=0), record())
    assert row.state == "obsolete"


def test_an_earlier_denial_is_not_mended_by_a_grant_elsewhere() -> None:
    denials = Denials()
    denials.feed(refused(1), record())
    assert denials.update("s-1", record((f"{HOME}/other", 5000))) == []


def test_the_agents_settings_are_never_proposed_even_when_the_session_is_over() -> None:
    for path in (f"{HOME}/.claude/settings.json", f"{HOME}/.claude.json", f"{PROJECT}/.claude/settings.json"):
        denials = Denials(home=HOME)
        denials.feed(call(1, f"touch {path}", f"touch: cannot touch '{path}': Read-only file system"), None)
        (row,) = denials.rows()
        assert (row.verdict.source, row.verdict.remedy) == ("kernel", "cannot-grant"), row


def test_siblings_become_one_proposal_and_the_home_none() -> None:
    denials = Denials()
    for number, folder in enumerate((f"{HOME}/data/a", f"{HOME}/data/b", f"{HOME}/lone"), start=1):
        denials.feed(refused(number, folder=folder), record())
    assert {proposal.grant: len(proposal.denials) for proposal in denials.proposals("s-1")} == {
        f"{HOME}/data": 2,
        f"{HOME}/lone": 1,
    }


def test_a_proposal_is_not_around_the_project_nor_widened_by_words() -> None:
    denials = Denials()
    for number, folder in enumerate((f"{HOME}/work/a", f"{HOME}/work/b", f"{HOME}/data/a"), start=1):
        denials.feed(refused(number, folder=folder), record())
    denials.feed(AgentWords("s-1", f"The sandbox denied writing to {HOME}/data/b/x.", 9, 9000), record())
    assert [proposal.grant for proposal in denials.proposals("s-1")] == [
        f"{HOME}/work/a",
        f"{HOME}/work/b",
        f"{HOME}/data/a",
    ]
    assert denials.proposals("s-none") == []


def test_the_project_is_known_from_the_prompt_where_no_start_was_recorded() -> None:
    denials = Denials()
    denials.feed(Note("s-1", "prompt", "go", 1, 1, {"cwd": PROJECT}))
    (row,) = denials.feed(AgentWords("s-1", f"The sandbox denied writing to {PROJECT}/a.py.", 2, 2000))
    assert row.tie == "contradicted" and not row.verdict.grant


def test_write_edit_and_read_need_a_restart() -> None:
    denials = Denials()
    temporary = f"EACCES: permission denied, open '{OUT}/plan.md.tmp.4242.9f3e01'"
    (row,) = denials.feed(call(1, f"{OUT}/plan.md", temporary, code=None, tool="Write", state="failed"), record())
    assert (row.verdict.remedy, row.verdict.target, row.verdict.grant) == ("restart-wider", f"{OUT}/plan.md", OUT)


def test_a_report_is_tied_to_what_came_before() -> None:
    denials = Denials()
    (earlier,) = denials.feed(refused(1), record())
    (told,) = denials.feed(AgentWords("s-1", f"I could not write {OUT}/a.txt: permission was denied.", 2, 3000))
    assert (told.tie, told.tied_to, told.verdict.source) == ("confirmed", earlier.id, "model")
    (told,) = denials.feed(AgentWords("s-1", "Writing to /srv/elsewhere/x was refused by the sandbox.", 3, 4000))
    assert (told.tie, told.tied_to) == ("unconfirmed", "")
    (told,) = denials.feed(AgentWords("s-1", f"Writing to {PROJECT}/x was refused by the sandbox.", 4, 5000))
    assert told.tie == "contradicted" and "policy lets" in told.verdict.contradiction
    assert denials.feed(AgentWords("s-1", "All tests pass.", 5, 6000)) == []


def test_what_the_agent_says_later_is_no_refusal_after_the_grant() -> None:
    denials = Denials()
    said = f"I could not write {OUT}/a.txt: permission was denied."
    denials.feed(refused(1), record())
    denials.feed(AgentWords("s-1", said, 2, 3000))
    assert {row.state for row in denials.update("s-1", record((OUT, 5000), revision=2))} == {"granted"}
    (told,) = denials.feed(AgentWords("s-1", said, 6, 7000))
    assert (told.state, told.count) == ("granted", 2)
    denials.feed(call(8, f"touch {OUT}/a.txt", "", code=0))
    (told,) = denials.feed(AgentWords("s-1", f"{said} `{OUT}/b.txt` was refused too.", 9, 9000))[:1]
    assert told.state in ("granted", "proved")
    (row,) = denials.feed(refused(10))
    assert (row.state, row.verdict.source) == ("repeated", "kernel")


def test_a_first_report_after_the_grant_takes_the_state_of_its_call() -> None:
    denials = Denials()
    denials.feed(refused(1), record())
    denials.update("s-1", record((OUT, 5000), revision=2))
    denials.feed(call(6, f"touch {OUT}/a.txt", "", code=0))
    (told,) = denials.feed(AgentWords("s-1", f"I could not write {OUT}/a.txt: permission was denied.", 7, 8000))
    assert (told.state, told.tie) == ("proved", "confirmed")


def test_fields_are_those_of_explain_with_the_row_around_them() -> None:
    denials = Denials()
    (row,) = denials.feed(refused(1), record())
    fields = denial_fields(row)
    assert fields["source"] == "kernel" and fields["remedy"] == "grant" and fields["grant"] == OUT
    assert fields["session"] == "s-1" and fields["state"] == "open" and fields["count"] == 1
