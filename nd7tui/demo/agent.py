"""The demo's agent: it makes the calls that a coding agent makes, and tells of them as Claude Code does.

It runs confined, like any agent: each command goes through nd7-exec, each hook payload goes to the
hook's standard input.  What it prints and what is refused is what the kernel and nd7 really did; only
the choice of the commands is scripted.

    python -I -m nd7tui.demo.agent --exec ND7_EXEC --hook COMMAND [--pace SECONDS] [--hold]

Standard library only, and nothing of nd7's: it stands for a program that is not nd7's.
"""

from __future__ import annotations

import argparse
import json
import os
import shlex
import subprocess
import sys
import time
import uuid
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class Step:
    """One tool call: `say` is shown in the agent's terminal before it."""

    say: str
    tool: str
    input: dict[str, Any]
    # The driver outside watches for this word in the terminal and does its part (see demo/session.py).
    cue: str = ""
    wait: float = 0.0


@dataclass(frozen=True)
class Places:
    """Where the script acts; all given by the driver, all inside the throw-away home."""

    project: str
    home: str
    extra: dict[str, str] = field(default_factory=dict)


def script(places: Places) -> list[Step]:
    """The session, in order.  Every refusal in it is a real one."""
    home = places.home

    def bash(say: str, command: str, **more: Any) -> Step:
        return Step(say, "Bash", {"command": command, "description": say}, **more)

    return [
        bash("Build in the project", "mkdir -p build && echo 'v1' > build/output.txt && ls build"),
        bash("Publish to the shared notes", f"echo 'release v1' >> {home}/notes/releases.txt"),
        bash("Cache a download", f"mkdir -p {home}/.cache/builder && echo x > {home}/.cache/builder/index"),
        bash("Look for a deploy key", f"cat {home}/.ssh/id_ed25519"),
        bash(
            "Ask the dev server",
            f"{shlex.quote(sys.executable)} -I -S -c "
            "\"import socket; socket.create_connection(('127.0.0.1', 3000), 2)\"",
        ),
        bash("A typo that is nobody's policy", "cat build/missing.txt"),
        Step(
            "Write a file beside the project",
            "Write",
            {"file_path": f"{home}/notes/todo.md", "content": "- tell the team\n"},
        ),
        bash("While the policy file is away", "make -n all 2>/dev/null; true", cue="policy-away", wait=1.0),
        bash("The policy file is back", "git --version && echo ok", cue="policy-back", wait=1.0),
    ]


LAST_WORDS = (
    "The build is in build/output.txt. I could not add the release to {home}/notes/releases.txt: "
    "the write was denied by the sandbox, so I stopped there."
)


class Agent:
    """Runs steps and reports each as hook payloads, in Claude Code's shapes (measured with 2.1.197)."""

    def __init__(self, places: Places, nd7_exec: str, hook: list[str], pace: float) -> None:
        self.places, self.nd7_exec, self.hook, self.pace = places, nd7_exec, hook, pace
        self.session_id = str(uuid.uuid4())
        self.calls = 0

    def tell(self, event: str, **fields: Any) -> str:
        """Send one payload to the hook and return what the hook printed."""
        payload = {
            "session_id": self.session_id,
            "transcript_path": "",
            "cwd": os.getcwd(),
            "permission_mode": "default",
            "hook_event_name": event,
            **fields,
        }
        done = subprocess.run(self.hook, input=json.dumps(payload).encode(), capture_output=True, check=False)
        sys.stderr.write(done.stderr.decode("utf-8", "replace"))
        return done.stdout.decode("utf-8", "replace")

    def bash(self, command: str) -> tuple[int, str]:
        """Run a command as Claude Code does: merged output, no terminal, through the wrapper."""
        done = subprocess.run(
            [self.nd7_exec, "-c", command],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            env={**os.environ, "AI_AGENT": "nd7-demo_agent"},
            check=False,
        )
        return done.returncode, done.stdout.decode("utf-8", "replace").rstrip("\n")

    def write(self, file_path: str, content: str) -> tuple[int, str]:
        """Write inside this process, under the floor, through a temporary name beside the target."""
        temporary = f"{file_path}.tmp.{os.getpid()}.{os.urandom(6).hex()}"
        try:
            descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o644)
            with os.fdopen(descriptor, "w", encoding="utf-8") as out:
                out.write(content)
            os.replace(temporary, file_path)
        except PermissionError:
            return 1, f"EACCES: permission denied, open '{temporary}'"
        except OSError as error:
            return 1, f"{error.strerror}: open '{temporary}'"
        return 0, "written"

    def step(self, step: Step) -> None:
        """One call with its hooks."""
        self.calls += 1
        print(f"\n● {step.say}")
        if step.cue:
            print(f"[cue {step.cue}]", flush=True)
            time.sleep(step.wait)
        common = {
            "tool_name": step.tool,
            "tool_input": step.input,
            "tool_use_id": f"toolu_demo_{self.calls:04d}_{self.session_id[:8]}",
        }
        self.tell("PreToolUse", **common)
        began = time.monotonic()
        if step.tool == "Bash":
            print(f"  $ {step.input['command']}", flush=True)
            status, output = self.bash(step.input["command"])
            error = f"Exit code {status}\n{output}" if output else f"Exit code {status}"
        else:
            print(f"  {step.tool} {step.input['file_path']}", flush=True)
            status, output = self.write(step.input["file_path"], step.input["content"])
            error = output
        took = int((time.monotonic() - began) * 1000)
        for line in output.splitlines()[:6]:
            print(f"  {line}")
        if status == 0:
            response = {"stdout": output, "stderr": "", "interrupted": False, "isImage": False}
            self.tell("PostToolUse", **common, tool_response=response, duration_ms=took)
        else:
            self.tell("PostToolUseFailure", **common, error=error, is_interrupt=False, duration_ms=took)
        time.sleep(self.pace)

    def play(self, hold: bool) -> None:
        """The whole session.  With `hold` it stays, retrying the refused write, until it is ended."""
        self.tell("SessionStart", source="startup")
        self.tell("UserPromptSubmit", prompt="build it and note the release")
        for step in script(self.places):
            self.step(step)
        words = LAST_WORDS.format(home=self.places.home)
        print(f"\n{words}", flush=True)
        self.tell("Stop", stop_hook_active=False, last_assistant_message=words)
        again = script(self.places)[1]
        while hold:
            # A person who granted the folder sees the same write pass within a few seconds.
            time.sleep(3)
            status, _ = self.bash(f"test -w {self.places.home}/notes && : >> {self.places.home}/notes/releases.txt")
            if status == 0:
                self.step(again)
                self.tell("Stop", stop_hook_active=False, last_assistant_message="The release is noted now.")
                hold = False
        self.tell("SessionEnd", reason="other")


def main() -> int:
    parser = argparse.ArgumentParser(prog="nd7-demo-agent")
    parser.add_argument("--exec", dest="nd7_exec", required=True)
    parser.add_argument("--hook", required=True)
    parser.add_argument("--home", required=True)
    parser.add_argument("--pace", type=float, default=0.8)
    parser.add_argument("--hold", action="store_true")
    arguments = parser.parse_args()
    places = Places(project=os.getcwd(), home=arguments.home)
    Agent(places, arguments.nd7_exec, shlex.split(arguments.hook), arguments.pace).play(arguments.hold)
    return 0


if __name__ == "__main__":
    sys.exit(main())
