"""Run an agent, or any program, in the sandbox.

examples:
  nd7 run claude                        Claude Code, confined to the directory you are in
  nd7 run claude --resume ID            everything behind PROGRAM is PROGRAM's
  nd7 run --project ~/app claude -p "fix the tests"
  nd7 run --detach --name night claude  goes on without this terminal; `nd7 attach` shows it
  nd7 run --worktree fix claude         in a git worktree of its own, ../<project>-worktrees/fix, on the branch fix
  nd7 run bash                          look round inside: what can be written, read, reached

Writable are the project, the temp directory and what the agent itself needs; readable is everything but ~/.ssh,
~/.aws and ~/.nd7; only DNS and TCP port 443 go out.  `nd7 allow PATH` in a second terminal widens what Bash commands
may write, from the next one on.  The exit status is PROGRAM's, 128+N if signal N ended it; 126 when nothing
was run, 127 when there is no PROGRAM.

With --worktree the project's own checkout stays unwritable; the worktree and the repository's .git are writable, for
that is where git keeps commits.  So a hook or a setting that the session leaves in .git runs when you use git in any
checkout of that repository.  git makes the worktree inside the sandbox.  It stays when the session ends, and the same
NAME goes on in it; `git worktree remove` takes it away.

The agent that nd7 knows is Claude Code.  Any other program is confined just the same, but tells nd7 nothing: what it
is refused shows on its own screen alone, and a grant reaches it at its next start, with `nd7 allow --project PATH`.
"""

from __future__ import annotations

import argparse
import os

from nd7core.errors import Nd7Error


def configure(parser: argparse.ArgumentParser) -> None:
    parser.usage = (
        "nd7 run [--project DIR] [--worktree NAME] [--name NAME] [--detach] [--kernel-records] PROGRAM [ARGS...]"
    )
    parser.add_argument("--project", metavar="DIR", default="", help="the writable project (default: where you are)")
    parser.add_argument(
        "--worktree", metavar="NAME", default=None, help="work in a git worktree of this name, made where there is none"
    )
    parser.add_argument("--name", metavar="NAME", default="", help="what the dashboard calls it (default: DIR's name)")
    parser.add_argument("--detach", action="store_true", help="start it without this terminal and come back at once")
    parser.add_argument(
        "--kernel-records",
        action="store_true",
        help="as root: switch the kernel's audit on while it runs, machine-wide, and keep its denials in the log",
    )
    parser.add_argument("program", metavar="PROGRAM [ARGS...]", nargs=argparse.REMAINDER, help="what to run")


def run(arguments: argparse.Namespace) -> int:
    from nd7exec import launch
    from nd7exec.lifecycle import Wish

    words: list[str] = arguments.program
    if words[:1] == ["--"]:
        words = words[1:]
    if not words:
        hint = "nd7 run --worktree NAME claude" if arguments.worktree else "nd7 run claude, or any other program"
        raise Nd7Error("PROGRAM is missing", hint=hint, exit_code=2)
    if arguments.worktree == "":
        raise Nd7Error("--worktree needs a NAME", hint="it becomes a directory and a branch", exit_code=2)
    wish = Wish(
        tuple(words),
        arguments.project,
        arguments.name,
        arguments.detach,
        arguments.kernel_records,
        arguments.worktree or "",
    )
    return launch.run(wish, dict(os.environ))
