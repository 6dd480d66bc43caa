"""The real Claude Code in a world, on a scripted model: headless or on its own screen.

result = world.claude({"turns": [bash("touch a"), {"text": "done"}]})     # nd7 run claude -p ...
assert result.code == 0, result.err
result.results["call 0"].text                                             # what the model was told
screen = agent.interactive(world, scenario)                               # nd7 run claude in tmux
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from terminal import Terminal
from world import CLAUDE

if TYPE_CHECKING:
    from world import World

VERSION = "2.1.197"
KEY = "dummy-key-for-the-scripted-model-00000000"  # no credential: any text does


def bash(command: str, call: str = "", **more: Any) -> dict[str, Any]:
    """A turn that runs one Bash command."""
    return tool("Bash", call, command=command, description=call or "run it", **more)


def tool(name: str, call: str = "", /, **inputs: Any) -> dict[str, Any]:
    """A turn with one tool call; `call` is its tool_use_id without the prefix, or empty for one by position."""
    use: dict[str, Any] = {"name": name, "input": inputs}
    if call:
        use["id"] = f"toolu_{call}"
    return {"tools": [use]}


def said(text: str) -> dict[str, Any]:
    """A closing turn."""
    return {"text": text}


@dataclass(frozen=True)
class ToolResult:
    """What the model was told of one call."""

    text: str
    error: bool


@dataclass(frozen=True)
class Run:
    """How a headless run ended: `results` by call (the tool_use_id without `toolu_`), `events` the stream-json."""

    code: int
    err: str
    events: list[dict[str, Any]] = field(repr=False)
    results: dict[str, ToolResult]

    @property
    def session_id(self) -> str:
        return next(str(event["session_id"]) for event in self.events if "session_id" in event)

    @property
    def closing(self) -> dict[str, Any]:
        """The last event, `type` result."""
        return self.events[-1]


def environ(world: World, extra: Mapping[str, str | None] | None = None) -> dict[str, str | None]:
    """What the agent needs in its environment to talk to the scripted model and to nobody else."""
    return {
        "ANTHROPIC_BASE_URL": f"http://127.0.0.1:{world.port}",
        "ANTHROPIC_API_KEY": KEY,
        "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
        "CLAUDE_CODE_DISABLE_OFFICIAL_MARKETPLACE_AUTOINSTALL": "1",
        "DISABLE_AUTOUPDATER": "1",
        "DISABLE_TELEMETRY": "1",
        "DISABLE_ERROR_REPORTING": "1",
        **(extra or {}),
    }


def seed(world: World, *, trusted: Sequence[str] = (), **more: Any) -> None:
    """A `~/.claude.json` with which the screen starts without questions: onboarded, key approved, project trusted."""
    project = {"hasTrustDialogAccepted": True, "hasCompletedProjectOnboarding": True, "projectOnboardingSeenCount": 4}
    configuration = {
        "hasCompletedOnboarding": True,
        "lastOnboardingVersion": VERSION,
        "theme": "dark",
        "hasSeenTasksHint": True,
        "bypassPermissionsModeAccepted": True,
        "customApiKeyResponses": {"approved": [KEY[-20:]], "rejected": []},
        "projects": dict.fromkeys((world.project, *trusted), project),
        **more,
    }
    world.write(f"{world.home}/.claude.json", json.dumps(configuration), 0o600)


def require() -> None:
    """Fail where the agent is missing: a test that passes without it would say nothing."""
    assert CLAUDE.exists(), f"no Claude Code at {CLAUDE}: tests/run fetches it"
    assert CLAUDE.stat().st_size > 1_000_000, f"{CLAUDE} is a stub: run install.cjs in its package, as tests/run does"


def headless(
    world: World,
    scenario: dict[str, Any],
    *,
    args: Sequence[str] = (),
    wrap: Sequence[str] = ("nd7", "run"),
    prompt: str = "do it",
    cwd: str | None = None,
    env: Mapping[str, str | None] | None = None,
    timeout: float = 120,
) -> Run:
    """Run `claude -p` on a scenario to its end, under `wrap`."""
    require()
    if not world.exists(f"{world.home}/.claude.json"):
        seed(world)
    world.play(scenario)
    argv = [*wrap, "claude", "-p", prompt, "--output-format", "stream-json", "--verbose", *args]
    done = world.run(argv, cwd=cwd, env=environ(world, env), timeout=timeout)
    events = []
    for line in done.out.splitlines():
        try:
            events.append(json.loads(line))
        except ValueError:
            events.append({"type": "not-json", "text": line})
    return Run(done.code, done.err, events, results_of(events))


def results_of(events: Sequence[dict[str, Any]]) -> dict[str, ToolResult]:
    """The tool results in stream-json events."""
    found = {}
    for event in events:
        if event.get("type") != "user" or not isinstance(event["message"]["content"], list):
            continue
        for block in event["message"]["content"]:
            if block.get("type") == "tool_result":
                content = block["content"]
                if isinstance(content, list):
                    content = "\n".join(part.get("text", "") for part in content)
                call = block["tool_use_id"].removeprefix("toolu_")
                found[call] = ToolResult(content, bool(block.get("is_error")))
    return found


def interactive(
    world: World,
    scenario: dict[str, Any],
    *,
    args: Sequence[str] = (),
    wrap: Sequence[str] = ("nd7", "run"),
    size: tuple[int, int] = (120, 50),
    env: Mapping[str, str | None] | None = None,
) -> Terminal:
    """Start claude's own screen on a scenario and wait for its prompt."""
    require()
    if not world.exists(f"{world.home}/.claude.json"):
        seed(world)
    world.play(scenario)
    screen = world.terminal([*wrap, "claude", *args], size=size, env=environ(world, env))
    screen.wait_for("❯", timeout=60)
    return screen


def say(screen: Terminal, text: str) -> None:
    """Type a prompt, wait until it stands in the box, and send it.

    An Enter that comes together with text is part of a paste, so it is pressed alone, and again where it was lost.
    """

    def boxed(shown: str) -> bool:
        # The last one is where the cursor is: the box, or a question's answer that is offered.
        lines = [line for line in shown.splitlines() if line.strip().startswith("❯") or line.startswith("!")]
        return bool(lines) and lines[-1].strip().replace("\xa0", " ").endswith(text[-20:])

    screen.keys(text)
    screen.wait_for(boxed)
    for _ in range(40):
        screen.keys("Enter")
        if not boxed(screen.screen()):
            return
    raise AssertionError(f"{text!r} was not taken:\n{screen.screen()}")


def leave(screen: Terminal) -> None:
    """End claude from its own screen: two Ctrl-C in a row, the first of which may only stop what it does."""
    for _ in range(20):
        if "EXITED" in screen.screen():
            return
        screen.keys("C-c", pause=0.4)
    screen.wait_for("EXITED")


def logs(world: World, session_id: str) -> list[dict[str, Any]]:
    """The frames of a session's audit log."""
    path = f"{world.home}/.local/state/nd7/sessions/{session_id}/events.ndjson"
    return [json.loads(line) for line in world.read(path).splitlines()]


def transcripts(world: World) -> list[str]:
    """The agent's own transcripts, as paths in the world."""
    top = f"{world.home}/.claude/projects"
    return [
        os.path.join(top, folder, name)
        for folder in world.listdir(top)
        for name in world.listdir(f"{top}/{folder}")
        if name.endswith(".jsonl")
    ]
