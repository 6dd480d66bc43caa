"""The real Claude Code in a session: its commands, its own rules, its state and its settings."""

from __future__ import annotations

import json

import agent
import pytest
from agent import bash, said, tool

pytestmark = pytest.mark.e2e

BYPASS = ("--dangerously-skip-permissions",)
HOOK = "#!/usr/bin/python3 -IS\nimport json, sys\n"


def kinds(world, run):
    return [frame["kind"] for frame in agent.logs(world, run.session_id)]


def test_no_prompt_for_bash_and_a_deny_rule_of_the_persons_still_denies(world):
    world.write(f"{world.home}/.claude/settings.json", json.dumps({"permissions": {"deny": ["Bash(rm:*)"]}}))
    scenario = {"turns": [bash("touch kept", "touch"), bash("rm kept", "rm"), said("done")]}
    run = agent.headless(world, scenario)
    assert not run.results["touch"].error
    assert run.results["rm"].error
    assert "denied" in run.results["rm"].text
    assert world.exists("kept")
    assert [denied["tool_use_id"] for denied in run.closing["permission_denials"]] == ["toolu_rm"]
    assert json.loads(world.read(f"{world.home}/.claude/settings.json")) == {"permissions": {"deny": ["Bash(rm:*)"]}}


def test_an_ask_rule_of_the_persons_still_asks(world):
    world.write(f"{world.home}/.claude/settings.json", json.dumps({"permissions": {"ask": ["Bash(touch:*)"]}}))
    run = agent.headless(world, {"turns": [bash("touch asked", "touch"), said("done")]})
    assert run.results["touch"].error  # nobody can be asked without a screen, so it is refused
    assert not world.exists("asked")
    screen = agent.interactive(world, {"turns": [bash("touch asked", "touch"), said("all done")]})
    agent.say(screen, "go")
    screen.wait_for("Do you want to proceed?")
    assert not world.exists("asked")
    screen.keys("Enter")
    screen.wait_for("all done")
    assert world.exists("asked")


def test_the_persons_own_hook_still_denies_and_still_sees_the_command(world):
    hook = HOOK + (
        "call = json.load(sys.stdin)\n"
        "open('/tmp/seen', 'a').write(call['tool_input']['command'] + '\\n')\n"
        "if 'forbidden' in call['tool_input']['command']:\n"
        "    sys.stderr.write('not this one'); sys.exit(2)\n"
    )
    world.write(f"{world.home}/hook", hook, 0o755)
    entry = {"matcher": "Bash", "hooks": [{"type": "command", "command": f"{world.home}/hook"}]}
    world.write(f"{world.home}/.claude/settings.json", json.dumps({"hooks": {"PreToolUse": [entry]}}))
    scenario = {"turns": [bash("echo fine", "fine"), bash("touch forbidden", "denied"), said("done")]}
    run = agent.headless(world, scenario)
    assert run.results["fine"].text == "fine"
    assert "not this one" in run.results["denied"].text
    assert not world.exists("forbidden")
    assert world.read(f"{world.tmp}/seen") == "echo fine\ntouch forbidden\n"


def test_settings_and_paragraph_given_on_the_command_line_work_beside_ours(world):
    own = {"permissions": {"deny": ["Bash(rm:*)"]}}
    world.write("mine.json", json.dumps(own))
    scenario = {"turns": [bash("rm x", "rm"), bash("echo y > ~/no", "write"), said("done")]}
    run = agent.headless(world, scenario, args=["--settings", "mine.json", "--append-system-prompt", "SPEAK SOFTLY"])
    assert "has been denied" in run.results["rm"].text
    assert run.results["write"].error
    system = json.dumps(world.model.requests[0]["system"])
    assert "SPEAK SOFTLY" in system
    assert "nd7 allow <path>" in system
    assert {"tool_call", "tool_result", "turn_end"} <= set(kinds(world, run))


def test_the_directory_of_one_command_is_that_of_the_next(world):
    scenario = {"turns": [bash("mkdir sub && cd sub", "cd"), bash("pwd; touch here", "pwd"), said("done")]}
    run = agent.headless(world, scenario)
    assert run.results["pwd"].text == f"{world.project}/sub"
    assert world.exists("sub/here")


def test_a_subagents_commands_are_confined_recorded_and_see_grants(world):
    def grant():
        done = world.run(["nd7", "allow", f"{world.home}/granted"])
        assert done.code == 0, done.err

    world.mkdir(f"{world.home}/granted")
    task = tool("Agent", "agent", description="d", prompt="PART-A", subagent_type="general-purpose")
    turns = [
        bash("touch mine; echo x > ~/out", "inner"),
        # Only what runs by way of nd7-exec has a grant: the agent itself stays in the floor.
        {**bash("echo x > ~/granted/f", "after"), "until": grant},
        said("denied"),
    ]
    scenario = {"turns": [task, said("ok")], "agents": [{"match": "PART-A", "turns": turns}]}
    run = agent.headless(world, scenario, args=BYPASS)
    assert run.results["inner"].error
    assert not run.results["after"].error
    assert world.read(f"{world.home}/granted/f") == "x\n"
    assert world.exists("mine")
    assert not world.exists(f"{world.home}/out")
    frames = agent.logs(world, run.session_id)
    (result,) = [f for f in frames if f["kind"] == "tool_result" and f["body"]["tool_use_id"] == "toolu_inner"]
    assert result["body"]["agent_id"]
    rows = [json.loads(line) for line in world.run(["nd7", "denials", "--json"]).out.splitlines()]
    assert [row["target"] for row in rows if row["source"] == "kernel"] == [f"{world.home}/out"]


def test_a_session_is_resumed_and_its_log_goes_on(world):
    run = agent.headless(world, {"turns": [bash("echo one", "one"), said("done")]})
    again = agent.headless(world, {"turns": [bash("echo two", "two"), said("done")]}, args=["--resume", run.session_id])
    assert again.session_id == run.session_id
    assert again.results["two"].text == "two"
    starts = [f["body"]["reason"] for f in agent.logs(world, run.session_id) if f["kind"] == "session_start"]
    assert starts == ["startup", "resume"]
    assert world.run(["nd7", "verify", run.session_id]).code == 0
    history = json.dumps(world.model.requests[-1]["messages"])
    assert "echo one" in history


def test_a_conversation_that_the_agent_chooses_is_recorded_beside_its_log_and_nothing_is_lost(world):
    run = agent.headless(world, {"turns": [bash("echo one", "one"), said("done")]})
    before = agent.logs(world, run.session_id)
    turns = [bash("echo two; echo x > ~/no", "two"), said("done")]
    last = agent.headless(world, {"turns": turns}, args=["--continue"])
    assert last.session_id == run.session_id and "echo one" in json.dumps(world.model.requests[-1]["messages"])
    assert agent.logs(world, run.session_id) == before
    (own,) = [name for name in world.listdir(f"{world.home}/.local/state/nd7/sessions") if name.startswith("nd7-")]
    frames = agent.logs(world, own)
    kinds = [frame["kind"] for frame in frames if not frame["source"].startswith("nd7:")]
    assert kinds[0] == "session_start" and kinds[-1] == "session_end"
    assert {"prompt", "tool_call", "tool_result", "turn_end"} <= set(kinds)
    assert all(f["body"]["agent_session"] == run.session_id for f in frames if f["source"] == "intent:claude-code")
    (first, *notes) = [frame for frame in frames if frame["source"] == "nd7:recorder"]
    assert first is frames[0] and first["kind"] == "session"
    assert [note["kind"] for note in notes] == ["conversation"]  # it was asked for: nothing is missing
    assert world.run(["nd7", "verify", own]).code == 0
    for of in ([], ["--session", "project"]):
        rows = [json.loads(line) for line in world.run(["nd7", "denials", "--json", *of]).out.splitlines()]
        assert [(row["session"], row["target"]) for row in rows if row["tool"]] == [(own, f"{world.home}/no")]
        assert {(row["name"], row["project"]) for row in rows} == {("project", world.project)}


@pytest.mark.parametrize("way", ["the picker", "/resume"])
def test_a_conversation_picked_from_the_list_loses_no_frame(world, way):
    def said_of(name):
        return [frame for frame in agent.logs(world, name) if frame["source"] == "intent:claude-code"]

    sessions = f"{world.home}/.local/state/nd7/sessions"
    screen = agent.interactive(world, {"turns": [bash("echo one", "one"), said("first done")]})
    agent.say(screen, "first conversation")
    screen.wait_for("first done")
    agent.leave(screen)
    (older,) = world.listdir(sessions)
    before = agent.logs(world, older)
    inside = [said("inside done")] if way == "/resume" else []
    world.play({"turns": [*inside, bash("echo two", "two"), said("second done")]})
    words = [] if inside else ["--resume"]
    screen = world.terminal(["nd7", "run", "claude", *words], size=(120, 50), env=agent.environ(world))
    if inside:
        screen.wait_for("❯", timeout=60)
        agent.say(screen, "start")
        screen.wait_for("inside done")
        screen.keys("/resume", "Enter")
    screen.wait_for("Resume session", timeout=60)
    screen.wait_for("❯ first conversation")
    screen.keys("Enter")
    screen.wait_for("first done", timeout=60)
    agent.say(screen, "go on")
    screen.wait_for("second done")
    agent.leave(screen)
    assert agent.logs(world, older) == before
    (own,) = [name for name in world.listdir(sessions) if name.startswith("nd7-")]
    frames = said_of(own)
    assert [frame["kind"] for frame in frames] == [frame["kind"] for frame in said_of(older)]
    assert {frame["body"]["agent_session"] for frame in frames} == {older}
    (mark,) = [frame for frame in agent.logs(world, own) if frame["body"].get("reason") == "conversation"]
    # What was picked at the start was asked for; what is picked later could be anybody's word, and is marked as that.
    assert mark["kind"] == ("gap" if inside else "conversation")
    assert all(world.run(["nd7", "verify", name]).code == 0 for name in world.listdir(sessions))


def test_its_transcript_is_written_and_its_settings_are_not(world):
    agent.seed(world)
    before = world.read(f"{world.home}/.claude.json")
    world.write(f"{world.home}/.claude/settings.json", "{}")
    tries = (
        "~/.claude/settings.json",
        "~/.claude/settings.local.json",
        "~/.claude/CLAUDE.md",
        "~/.claude/hooks/x",
        "~/.claude/skills/x",
        "~/.claude/plugins/x",
        "~/.claude.json",
        ".claude/settings.json",
        ".claude/settings.local.json",
    )
    commands = [bash(f"mkdir -p $(dirname {path}); echo x > {path}", f"t{n}") for n, path in enumerate(tries)]
    replaced = bash("mv .claude moved; mkdir .claude; echo x > .claude/settings.json", "moved")
    run = agent.headless(world, {"turns": [*commands, replaced, said("done")]}, args=BYPASS)
    for number, path in enumerate(tries):
        assert run.results[f"t{number}"].error, path
    assert run.results["moved"].error
    assert world.read(f"{world.home}/.claude.json") == before
    assert world.read(f"{world.home}/.claude/settings.json") == "{}"
    assert world.listdir(".claude") == []
    assert any(run.session_id in path for path in agent.transcripts(world))


def test_scripts_that_other_sessions_source_are_out_of_reach(world):
    names = ("shell-snapshots/snapshot-bash-1-a.sh", "session-env/a/x.sh", "teams/theirs/inboxes/lead.json")
    others = [f"{world.home}/.claude/{name}" for name in names]
    for path in others:
        world.write(path, "# theirs\n")
    tries = "; ".join(f"mkdir -p $(dirname {p}); echo evil >> {p}; rm -f {p}" for p in others)
    listed = "ls ~/.claude/shell-snapshots ~/.claude/session-env"
    run = agent.headless(world, {"turns": [bash(tries, "t"), bash(listed, "ls"), said("done")]}, args=BYPASS)
    assert [world.read(path) for path in others] == ["# theirs\n"] * 3
    assert "snapshot-bash" in run.results["ls"].text
    assert run.session_id in run.results["ls"].text
    assert world.listdir(f"{world.home}/.claude/session-env") == ["a"]


def test_it_starts_where_it_has_no_state_yet(world):
    world.write(f"{world.home}/.claude.json", "{}", 0o600)
    run = agent.headless(world, {"turns": [bash("echo ok", "ok"), said("done")]})
    assert run.results["ok"].text == "ok"
    world.path(f"{world.home}/.claude.json").unlink()
    done = world.run(["nd7", "run", "claude", "--version"], env=agent.environ(world))
    assert agent.VERSION in done.out
    assert "never run here" in done.err


@pytest.mark.parametrize("arguments", [["--version"], ["mcp", "list"], ["plugin", "list"], ["--help"]])
def test_its_other_commands_work(world, arguments):
    agent.require()
    agent.seed(world)
    done = world.run(["nd7", "run", "claude", *arguments], env=agent.environ(world))
    assert done.code == 0, done.err
    assert done.out.strip()


def test_a_server_that_speaks_over_stdio_is_started_in_the_floor(world):
    world.write("server.py", "import os\nopen('started', 'w').write('x')\nopen(os.path.expanduser('~/out'), 'w')\n")
    servers = {"mcpServers": {"s": {"command": "/usr/bin/python3", "args": ["-ISB", f"{world.project}/server.py"]}}}
    run = agent.headless(world, {"turns": [said("done")]}, args=["--mcp-config", json.dumps(servers)])
    assert run.code == 0, run.err
    assert world.exists("started")
    assert not world.exists(f"{world.home}/out")


def test_what_a_command_leaves_running_ends_with_the_session(world):
    look = "pgrep -f 'sleep 300'; setsid -f sleep 301; pgrep -f 'sleep 301'"
    scenario = {"turns": [bash("sleep 300 & echo $!", "bg"), bash(look, "alive"), said("done")]}
    run = agent.headless(world, scenario, args=BYPASS)
    assert run.results["bg"].text in run.results["alive"].text
    world.wait(lambda: not world.processes(), what=world.processes)


def test_a_background_command_that_fails_later_is_recorded(world):
    turns = [bash("sleep 1; exit 5", "bg", run_in_background=True), bash("sleep 3", "wait"), said("done")]
    run = agent.headless(world, {"turns": turns}, args=BYPASS)
    found = [f for f in agent.logs(world, run.session_id) if f["source"] == "nd7:transcript"]
    (frame,) = [f for f in found if f["body"].get("tool_use_id") == "toolu_bg"]
    assert frame["kind"] == "tool_result"
    assert frame["body"]["exit_code"] == 5


def test_a_zsh_of_the_persons_runs_the_commands(world):
    run = agent.headless(
        world, {"turns": [bash("echo $ZSH_VERSION", "v"), said("done")]}, env={"SHELL": "/usr/bin/zsh"}
    )
    assert run.results["v"].text[:1].isdigit()
    assert not run.results["v"].error


def test_its_find_and_grep_work(world):
    world.write("a/b.txt", "needle\n")
    run = agent.headless(world, {"turns": [bash("find . -name b.txt; grep -r needle a", "find"), said("done")]})
    assert run.results["find"].text == "./a/b.txt\na/b.txt:needle"
