"""What the real agent says between two calls: recorded, tied to the calls before it, and told once."""

from __future__ import annotations

import json

import agent
import pytest
from agent import bash, said, tool

pytestmark = pytest.mark.e2e

FIRST = "I could not write {home}/one/f: permission denied by the sandbox. I'll carry on without it."
LAST = "Writing {home}/two/f was refused by the sandbox as well, so I stopped."


def turns(world):
    """A refused write, words about it together with the next call, which is refused too, and words at the end."""
    for name in ("one", "two"):
        world.mkdir(f"{world.home}/{name}")
    return [
        bash("echo x > ~/one/f", "one"),
        {**bash("echo x > ~/two/f", "two"), "text": FIRST.format(home=world.home)},
        said(LAST.format(home=world.home)),
    ]


def denials(world, *arguments):
    done = world.run(["nd7", "denials", "--json", *arguments])
    assert done.code == 0, done.err
    return [json.loads(line) for line in done.out.splitlines()]


def words(world, session_id):
    return [frame for frame in agent.logs(world, session_id) if frame["kind"] == "words"]


def check(world, session_id):
    """Both reports, each once, of the right target, tied to the right call, at the time of saying."""
    rows = denials(world)
    calls = {row["target"]: row for row in rows if row["source"] == "kernel"}
    reports = {row["target"]: row for row in rows if row["source"] == "model"}
    one, two = f"{world.home}/one/f", f"{world.home}/two/f"
    assert set(calls) == set(reports) == {one, two}
    assert sum(row["source"] == "model" for row in rows) == 2
    for target, report in reports.items():
        assert (report["count"], report["tie"], report["tied_to"]) == (1, "confirmed", calls[target]["id"])
    # Said before the second call, although the log has it behind that call's frames.
    assert calls[one]["last_ts"] < reports[one]["ts"] < calls[two]["ts"] < reports[two]["ts"]
    (frame,) = words(world, session_id)
    assert frame["source"] == "nd7:transcript"
    assert frame["body"]["text"] == FIRST.format(home=world.home)
    verified = world.run(["nd7", "verify", session_id])
    assert verified.code == 0, verified.err


def test_words_in_the_middle_of_a_headless_turn_and_nothing_again_when_it_is_resumed_or_forked(world):
    options = {"args": ["--dangerously-skip-permissions"]}
    run = agent.headless(world, {"turns": turns(world)}, **options)
    assert run.code == 0, run.err
    check(world, run.session_id)
    again = agent.headless(
        world,
        {"turns": [{**bash("true", "third"), "text": "I look again."}, said("Nothing new.")]},
        args=[*options["args"], "--resume", run.session_id],
    )
    assert again.session_id == run.session_id
    assert [frame["body"]["text"] for frame in words(world, run.session_id)][1:] == ["I look again."]
    assert sum(row["source"] == "model" for row in denials(world)) == 2
    fork = agent.headless(
        world,
        {"turns": [{**bash("true", "fourth"), "text": "I look elsewhere."}, said("Nothing there.")]},
        args=[*options["args"], "--resume", run.session_id, "--fork-session"],
    )
    assert [frame["body"]["text"] for frame in words(world, fork.session_id)] == ["I look elsewhere."]
    rows = [row for row in denials(world) if row["source"] == "model"]
    assert [(row["count"], row["session"]) for row in rows] == [(1, run.session_id)] * 2
    for session_id in (run.session_id, fork.session_id):
        assert world.run(["nd7", "verify", session_id]).code == 0


def test_words_in_the_middle_of_a_turn_on_the_screen_are_rows_of_the_dashboard(world):
    dashboard = world.terminal(["nd7", "tui"], size=(120, 36))
    dashboard.wait_for("No sessions")
    # What sums a conversation up says again what was said in it.
    summary = said(f"Earlier in this session: {FIRST.format(home=world.home)}")
    screen = agent.interactive(world, {"turns": [*turns(world), said("Nothing new."), summary]})
    agent.say(screen, "please")
    screen.wait_for("as well, so I stopped", timeout=60)
    # While the session lives, and with the person's next prompt not yet written.
    dashboard.wait_for(lambda text: text.count("○ model    ~/") == 2)
    assert "idle" in dashboard.screen()
    agent.say(screen, "again")
    screen.wait_for("Nothing new.")
    agent.say(screen, "/branch")
    screen.wait_for("Branched conversation", timeout=60)
    agent.say(screen, "/compact")
    screen.wait_for("Compacted", timeout=60)
    agent.leave(screen)
    screen.wait_for("EXITED 0")
    session_ids = world.listdir(f"{world.home}/.local/state/nd7/sessions")
    assert len(session_ids) == 2
    # The branch begins with a copy of what was said before it.
    (session_id,) = [session_id for session_id in session_ids if words(world, session_id)]
    check(world, session_id)
    dashboard.keys("q")
    dashboard.wait_for("EXITED 0")


def test_what_a_subagent_says_on_its_way_is_its_own(world):
    world.mkdir(f"{world.home}/one")
    scenario = {
        "turns": [
            tool("Agent", "ag", description="sub", prompt="AGENT-ONE please", subagent_type="general-purpose"),
            said("The agent is back."),
        ],
        "agents": [
            {
                "match": "AGENT-ONE",
                "turns": [
                    bash("echo x > ~/one/f", "in"),
                    {**bash("true", "next"), "text": FIRST.format(home=world.home)},
                    said("That is all."),
                ],
            }
        ],
    }
    run = agent.headless(world, scenario, args=["--dangerously-skip-permissions"])
    (frame,) = words(world, run.session_id)
    inner = [f for f in agent.logs(world, run.session_id) if f["body"].get("tool_use_id") == "toolu_in"]
    assert frame["body"]["agent_id"] == inner[0]["body"]["agent_id"]
    (report,) = [row for row in denials(world) if row["source"] == "model"]
    assert (report["target"], report["tie"], report["count"]) == (f"{world.home}/one/f", "confirmed", 1)


def test_words_before_a_call_that_is_interrupted_are_kept(world):
    world.mkdir(f"{world.home}/one")
    scenario = {
        "turns": [
            bash("echo x > ~/one/f", "one"),
            {**bash("echo $$ > pid; sleep 300", "long"), "text": FIRST.format(home=world.home)},
        ]
    }
    screen = agent.interactive(world, scenario)
    agent.say(screen, "go")
    world.wait(lambda: world.exists("pid") and world.read("pid").strip())
    screen.keys("Escape")
    screen.wait_for("Interrupted")
    (report,) = world.wait(lambda: [row for row in denials(world) if row["source"] == "model"])
    assert (report["target"], report["count"]) == (f"{world.home}/one/f", 1)
    agent.leave(screen)
    assert sum(row["source"] == "model" for row in denials(world)) == 1
