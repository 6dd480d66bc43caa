"""What Claude Code is started with: known under any name, the person's own settings kept, its own unwritable."""

from __future__ import annotations

import json
import os
from dataclasses import replace
from pathlib import Path

import pytest

from nd7core.errors import Nd7Error
from nd7core.policy import build, compile_linux, decide
from nd7core.record import Record
from nd7exec.agents import Launch, adapter_for, claude_arguments
from nd7exec.agents.claude import Claude, project_folder

ID = "0b9f2c61-7d39-4f2a-9a39-5d8f3f0f9a11"


@pytest.fixture
def launch(tmp_path: Path) -> Launch:
    home, project, temporary = tmp_path / "home", tmp_path / "home/app", tmp_path / "tmp"
    project.mkdir(parents=True)
    temporary.mkdir()
    (home / ".claude").mkdir()
    (home / ".claude.json").write_text("{}")
    return Launch(
        program="/usr/bin/claude",
        argv=("claude", "-p", "hello"),
        environ={"HOME": str(home), "PATH": "/bin"},
        project=str(project),
        home=str(home),
        tmp=str(temporary),
        exit="/state/bin/nd7-exec",
        prefix="/state/bin/nd7-shell",
        record="/state/bin/nd7-record",
        shell="/bin/bash",
    )


def record_of(launch: Launch) -> Record:
    return Record(
        project=launch.project,
        home=launch.home,
        tmp=launch.tmp,
        state=launch.home + "/.local/state/nd7",
        writable=launch.writable,
        writable_files=launch.writable_files,
        protected=launch.protected,
    )


def settings_of(arguments: tuple[str, ...]) -> dict:
    return json.loads(arguments[arguments.index("--settings") + 1])


@pytest.mark.parametrize(
    "target",
    [
        "lib/node_modules/@anthropic-ai/claude-code/bin/claude.exe",
        "lib/node_modules/@anthropic-ai/claude-code/cli-wrapper.cjs",
        "lib/node_modules/@anthropic-ai/claude-code-linux-x64/claude",
        ".local/share/claude/versions/2.1.197",
    ],
)
def test_it_is_known_by_where_a_link_of_another_name_leads(tmp_path, target):
    real = tmp_path / target
    real.parent.mkdir(parents=True)
    real.write_bytes(b"\x7fELF")
    link = tmp_path / "cl"
    link.symlink_to(real)
    assert adapter_for(str(link), "cl")


def test_it_is_known_by_the_name_of_a_version_managers_shim(tmp_path):
    manager = tmp_path / "mise"
    manager.write_bytes(b"\x7fELF")
    shim = tmp_path / "claude"
    shim.symlink_to(manager)
    assert adapter_for(str(shim), "claude")
    assert not adapter_for(str(manager), "mise")


@pytest.mark.parametrize(
    ("text", "known"),
    [
        ('#!/bin/sh\nexec claude --model opus "$@"\n', True),
        ('#!/bin/bash\nFOO=1 /opt/bin/claude "$@"\n', True),
        ('#!/bin/sh\nexec "$HOME/.local/bin/claude" "$@"\n', True),
        ('#!/bin/sh\n# exec claude "$@"\nexec vim "$@"\n', False),
        ("#!/bin/sh\nclaude --version\n", False),
        ('claude "$@"\n', False),
    ],
)
def test_a_wrapper_that_hands_its_arguments_on_is_known(tmp_path, text, known):
    script = tmp_path / "work"
    script.write_text(text)
    assert bool(adapter_for(str(script), "work")) is known


def test_other_programs_are_not_known(tmp_path):
    assert adapter_for("/bin/sh", "sh") is None
    assert adapter_for(str(tmp_path / "gone"), "gone") is None
    fifo = tmp_path / "fifo"
    os.mkfifo(fifo)
    assert adapter_for(str(fifo), "fifo") is None


def test_ours_stands_in_front_of_the_persons_own_arguments(launch):
    made = Claude().prepare(launch)
    assert made.argv[0] == "claude"
    assert made.argv[1::2][:2] == ("--settings", "--append-system-prompt")
    assert made.argv[5:] == ("-p", "hello")
    settings = settings_of(made.argv)
    assert settings["sandbox"] == {"enabled": False}
    hook = {"type": "command", "command": launch.record, "args": [], "timeout": 5}
    assert settings["hooks"]["PreToolUse"] == [{"matcher": "*", "hooks": [hook]}]
    assert {"PostToolBatch", "StopFailure", "SubagentStop", "CwdChanged"} <= set(settings["hooks"])
    assert "WorktreeCreate" not in settings["hooks"]
    assert made.environ["CLAUDE_CODE_SHELL_PREFIX"] == launch.prefix


def test_the_paragraph_says_what_the_agent_must_know():
    for words in (
        "kernel policy",
        "nd7 allow <path>",
        "HTTPS",
        "Claude Code's permission rules",
        "restart",
        "Tell the",
    ):
        assert words in claude_arguments.PARAGRAPH


def test_the_persons_settings_and_paragraph_are_joined_with_ours(launch):
    own = {
        "model": "opus",
        "permissions": {"deny": ["Bash(rm:*)"]},
        "sandbox": {"enabled": True, "excludedCommands": ["git"]},
        "hooks": {"PreToolUse": [{"matcher": "Bash", "hooks": [{"type": "command", "command": "mine"}]}]},
    }
    Path(launch.project, "s.json").write_text(json.dumps(own))
    for arguments in (
        ("--settings", "s.json", "--append-system-prompt", "be brief", "-p", "x"),
        (f"--settings={json.dumps(own)}", "--append-system-prompt=be brief", "-p", "x"),
        ("--settings", "{}", "-p", "x", "--settings", "s.json", "--append-system-prompt", "be brief"),
    ):
        made = claude_arguments.merge(arguments, launch.project, launch.record).arguments
        assert made.count("--settings") == made.count("--append-system-prompt") == 1
        assert made[4:] == ("-p", "x")
        settings = settings_of(made)
        assert settings["model"] == "opus"
        assert settings["permissions"] == own["permissions"]
        assert settings["sandbox"] == {"enabled": False, "excludedCommands": ["git"]}
        assert [entry["hooks"][0]["command"] for entry in settings["hooks"]["PreToolUse"]] == ["mine", launch.record]
        assert made[3] == claude_arguments.PARAGRAPH + "\n\nbe brief"


def test_a_prompt_file_is_joined_too(launch):
    Path(launch.project, "p").write_text("from a file")
    made = claude_arguments.merge(("--append-system-prompt-file", "p"), launch.project, launch.record).arguments
    assert made[3].endswith("\n\nfrom a file")
    assert len(made) == 4


@pytest.mark.parametrize("value", ["gone.json", "{nothing", '{"a": 1', "."])
def test_settings_that_cannot_be_read_are_an_error(launch, value):
    with pytest.raises(Nd7Error, match="--settings"):
        claude_arguments.merge(("--settings", value), launch.project, launch.record)


def test_what_stands_behind_two_dashes_is_the_prompt(launch):
    made = claude_arguments.merge(("-p", "--", "--settings", "x"), launch.project, launch.record).arguments
    assert made[4:] == ("-p", "--", "--settings", "x")


@pytest.mark.parametrize("arguments", [("--resume", ID), ("-r", ID), (f"--resume={ID}",), ("--session-id", ID.upper())])
def test_the_sessions_that_are_asked_for(launch, arguments):
    assert claude_arguments.merge(arguments, launch.project, launch.record).session_ids == {ID}
    assert not claude_arguments.merge(("--resume", "../../x"), launch.project, launch.record).session_ids


@pytest.mark.parametrize(
    ("arguments", "choosing"),
    [
        (("--continue",), True),
        (("-c", "go on"), True),
        (("-pc", "go on"), True),
        (("-r",), True),
        (("--resume", "a title"), True),
        (("--resume", "--verbose"), True),
        (("--from-pr", "3"), True),
        (("--resume", ID), False),
        ((f"-r={ID}",), False),
        (("--session-id", ID, "continue"), False),
        (("-p", "--", "-c"), False),
    ],
)
def test_whether_the_agent_is_to_choose_an_older_session(launch, arguments, choosing):
    assert claude_arguments.merge(arguments, launch.project, launch.record).choosing is choosing


def test_the_sessions_from_before_are_those_with_a_transcript_in_the_projects_folder(launch):
    folder = os.path.join(launch.home, ".claude/projects", project_folder(launch.project))
    os.makedirs(folder)
    for name in (f"{ID}.jsonl", "notes.jsonl", f"{ID[:-1]}9"):
        Path(folder, name).touch()
    assert Claude().prepare(launch).older == {ID}


def test_its_state_is_writable_and_its_settings_are_not(launch):
    made = Claude().prepare(launch)
    policy = build(record_of(made), platform="linux")
    home, project = launch.home, launch.project

    def writable(path: str) -> bool:
        return decide(policy, "write", path).allowed

    for path in (
        f"{home}/.claude/projects/{project_folder(project)}/{ID}.jsonl",
        f"{home}/.claude/shell-snapshots/snapshot-bash-1.sh",
        f"{home}/.claude/session-env/{ID}/x.sh",
        f"{project}/file",
    ):
        assert writable(path), path
    for path in (
        f"{home}/.claude.json",
        f"{home}/.claude.json.lock",
        f"{home}/.claude/settings.json",
        f"{home}/.claude/settings.local.json",
        f"{home}/.claude/CLAUDE.md",
        f"{home}/.claude/agents/a.md",
        f"{home}/.claude/skills/a/SKILL.md",
        f"{home}/.claude/plugins/x",
        f"{home}/.claude/projects/-another/memory/MEMORY.md",
        f"{project}/.claude/settings.local.json",
        f"{project}/.claude/hooks/x",
    ):
        assert not writable(path), path
    compile_linux(policy)  # in a form that the kernel can be told


def test_its_settings_stay_unwritable_whatever_is_granted(launch):
    from nd7core.record import Grant

    made = Claude().prepare(launch)
    record = replace(record_of(made), grants=(Grant(launch.home),))
    policy = build(record, platform="linux")
    assert decide(policy, "write", f"{launch.home}/elsewhere").allowed
    for path in (".claude/settings.json", ".claude.json", ".claude/hooks/x", ".claude/.credentials.json"):
        assert not decide(policy, "write", f"{launch.home}/{path}").allowed, path


def test_missing_folders_are_made_for_their_owner_only(launch):
    made = Claude().prepare(launch)
    for path in made.writable:
        assert Path(path).stat().st_mode & 0o777 == 0o700
    assert Path(launch.project, ".claude").is_dir()


def test_another_configuration_directory_and_a_linked_one(launch, tmp_path):
    real = tmp_path / "dotfiles"
    real.mkdir()
    (real / "settings.json").write_text("{}")
    Path(launch.home, ".claude").rmdir()
    Path(launch.home, ".claude").symlink_to(real)
    made = Claude().prepare(launch)
    assert all(path.startswith(str(real)) for path in made.writable)
    assert f"{real}/settings.json" in made.protected
    elsewhere = replace(launch, environ={**launch.environ, "CLAUDE_CONFIG_DIR": str(tmp_path / "conf")})
    made = Claude().prepare(elsewhere)
    assert made.agent_config == str(tmp_path / "conf")
    assert f"{tmp_path}/conf/.claude.json" in made.protected
    inside = replace(launch, environ={**launch.environ, "CLAUDE_CONFIG_DIR": launch.project + "/.claude"})
    compile_linux(build(record_of(Claude().prepare(inside)), platform="linux"))
    with pytest.raises(Nd7Error, match=r"\.ssh"):
        Claude().prepare(replace(launch, environ={**launch.environ, "CLAUDE_CONFIG_DIR": launch.home + "/.ssh/c"}))


def test_a_linked_settings_folder_of_the_project_is_refused(launch, tmp_path):
    Path(launch.project, ".claude").symlink_to(tmp_path)
    with pytest.raises(Nd7Error, match="symbolic link"):
        Claude().prepare(launch)


def test_a_temporary_directory_that_no_session_may_write_is_replaced(launch):
    own = {**launch.environ, "TMPDIR": launch.home + "/t", "CLAUDE_CODE_TMPDIR": launch.tmp + "/sub"}
    made = Claude().prepare(replace(launch, environ=own))
    assert made.environ["TMPDIR"] == launch.tmp
    assert made.environ["CLAUDE_CODE_TMPDIR"] == launch.tmp + "/sub"


def test_notes(launch):
    assert Claude().prepare(launch).notes == ()
    credentials = Path(launch.home, ".claude/.credentials.json")
    credentials.write_text('{"claudeAiOauth": {"expiresAt": 1000}}')
    assert "sign-in ends" in Claude().prepare(launch).notes[0]
    credentials.write_text('{"claudeAiOauth": []}')
    assert Claude().prepare(launch).notes == ()
    Path(launch.home, ".claude.json").unlink()
    assert "never run here" in Claude().prepare(launch).notes[0]


def test_the_folder_of_a_projects_transcripts():
    assert project_folder("/home/dev/my_app.2") == "-home-dev-my-app-2"
    assert project_folder("/p/é/\U0001f600") == "-p-----"
    long = project_folder("/" + "a" * 300)
    assert len(long) > 200
    assert long.startswith("-" + "a" * 199 + "-")
