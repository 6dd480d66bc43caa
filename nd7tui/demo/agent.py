"""The demo's agent: it makes the calls that a coding agent makes, and tells of them as Claude Code does.

It runs confined, like any agent: each command goes through nd7-exec, each hook payload goes to the
hook's standard input.  What it prints and what is refused is what the kernel and nd7 really did; only
the choice of the commands is scripted.

    agent.py --exec ND7_EXEC --hook COMMAND [--driven]

Driven, it says on a line of its own where it is (`@told N`, `@cue WORD`, `@waiting`) and goes on when a line comes
on stdin: `go`, or `again N` to try step N once more, as an agent does whose person says "try again".  At the end of
stdin it ends.  Standard library only, and nothing of nd7's: it stands for a program that is not nd7's.
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
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Step:
    """One tool call.

    Attributes:
        say: shown in the agent's terminal before it.
        cue: what the driver outside does before it, or "".
        target: the path that it needs and that a grant could open, relative to the home; or "".
    """

    say: str
    tool: str
    input: dict[str, Any]
    cue: str = ""
    target: str = ""


def bash(say: str, command: str, *, cue: str = "", target: str = "") -> Step:
    """A Bash call."""
    return Step(say, "Bash", {"command": command, "description": say}, cue, target)


def script(home: str) -> list[Step]:
    """The session, in order.  Every refusal in it is a real one."""
    return [
        bash("Build in the project", "mkdir -p build && echo v1 > build/output.txt && ls build"),
        bash(
            "Note the release", "echo 'v1 released' >> ~/notes/releases.txt && tail -1 ~/notes/releases.txt",
            target="notes/releases.txt",
        ),
        bash("Cache a download", "mkdir -p ~/.cache/builder && ls -d ~/.cache/builder", target=".cache/builder"),
        bash("Look for a deploy key", "cat ~/.ssh/id_ed25519"),
        bash("Ask the dev server", "./fetch localhost:3000"),
        bash("Read a file that is not there", "cat build/missing.txt"),
        Step(
            "Write a file beside the project",
            "Write",
            {"file_path": f"{home}/notes/todo.md", "content": "- tell the team\n"},
        ),
        bash("Go on while the policy file is away", "ls build", cue="policy-away"),
        bash("Go on once it is back", "cat build/output.txt", cue="policy-back"),
    ]  # fmt: skip


LAST_WORDS = (
    "The build is done: build/output.txt. Uploading it to the registry was not possible: "
    "the connection to registry.internal:8443 was denied by the sandbox, so I stopped there."
)


class Ended(Exception):
    """Whoever drives the agent has gone."""


class Agent:
    """Runs steps and reports each as hook payloads, in Claude Code's shapes (measured with 2.1.197)."""

    def __init__(self, home: str, nd7_exec: str, hook: list[str], driven: bool) -> None:
        self.steps = script(home)
        self.nd7_exec, self.hook, self.driven = nd7_exec, hook, driven
        self.session_id = str(uuid.uuid4())
        self.calls = 0

    def tell(self, event: str, **fields: Any) -> None:
        """Send one payload to the hook."""
        payload = {
            "session_id": self.session_id,
            "transcript_path": "",
            "cwd": os.getcwd(),
            "permission_mode": "default",
            "hook_event_name": event,
            **fields,
        }
        done = subprocess.run(self.hook, input=json.dumps(payload).encode(), capture_output=True, check=False)
        sys.stdout.write(done.stderr.decode("utf-8", "replace"))

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
        except OSError as error:
            code = {13: "EACCES: permission denied", 30: "EROFS: read-only file system"}
            return 1, f"{code.get(error.errno or 0, error.strerror)}, open '{temporary}'"
        return 0, "written"

    def step(self, step: Step) -> None:
        """One call with its hooks."""
        self.calls += 1
        print(f"\n● {step.say}")
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

    def wait(self, word: str) -> None:
        """Say where this is and wait for the driver, doing again what it asks for.  Raises Ended."""
        while self.driven:
            print(f"@{word}", flush=True)
            answer, _, number = sys.stdin.readline().strip().partition(" ")
            if not answer:
                raise Ended
            if answer != "again":
                return
            self.tell("UserPromptSubmit", prompt="try that again")
            self.step(self.steps[int(number)])
            self.tell("Stop", stop_hook_active=False, last_assistant_message="I have tried it again.")

    def play(self) -> None:
        """The whole session."""
        try:
            self.tell("SessionStart", source="startup")
            self.tell("UserPromptSubmit", prompt="build it and note the release")
            for number, step in enumerate(self.steps):
                if step.cue:
                    self.wait(f"cue {step.cue}")
                self.step(step)
                self.wait(f"told {number}")
            print(f"\n{LAST_WORDS}", flush=True)
            self.tell("Stop", stop_hook_active=False, last_assistant_message=LAST_WORDS)
            self.wait("told")
            while self.driven:
                self.wait("waiting")
        except Ended:
            pass
        self.tell("SessionEnd", reason="other")


def main() -> int:
    """Play; the exit status is 0."""
    parser = argparse.ArgumentParser(prog="demo-agent")
    parser.add_argument("--exec", dest="nd7_exec", required=True)
    parser.add_argument("--hook", required=True)
    parser.add_argument("--driven", action="store_true")
    arguments = parser.parse_args()
    Agent(os.environ["HOME"], arguments.nd7_exec, shlex.split(arguments.hook), arguments.driven).play()
    return 0


if __name__ == "__main__":
    sys.exit(main())
