"""Recorded sessions for the benchmarks: real frames, hashed and chained, of many projects, commands and refused paths.

The log writer takes 1 ms a frame, for it survives a kill at any moment; here a whole log is encoded by the same
encoder and written at once, which takes 20 microseconds a frame.
"""

from __future__ import annotations

import os
import random
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from nd7core.audit.frame import encode, genesis
from nd7core.audit.log import EVENTS, HEAD

DAY = 86_400_000_000_000
PROJECTS = [
    f"/home/dev/{above}/{first}-{second}"
    for above in ("src", "work")
    for first in ("api", "billing", "search", "mobile", "ledger", "gate", "report", "media", "ingest", "auth")
    for second in ("server", "client", "worker", "docs", "tools", "core", "web", "jobs")
]
PLACES = (
    "/home/dev/.cache/uv/wheels", "/home/dev/.cache/pip/http", "/home/dev/.npm/_cacache", "/home/dev/.cargo/registry",
    "/home/dev/.local/share/pnpm", "/home/dev/go/pkg/mod", "/usr/local/lib", "/opt/tools/share", "/var/lib/app",
    "/etc/app/conf.d", "/srv/data/sets", "/home/dev/other/build", "/home/dev/.gradle/caches", "/run/app", "/mnt/share",
)  # fmt: skip
WORDS = [
    "lock", "index", "wheel", "crate", "bundle", "module", "cache", "table", "report", "schema", "token", "image",
    "layer", "patch", "build", "stage", "trace", "graph", "parser", "render", "socket", "queue", "shard", "label",
    "vault", "proxy", "batch", "chunk", "digest", "header",
]  # fmt: skip
COMMANDS = (
    "touch {}", "uv sync --cache-dir {}", "pip install -t {} requests", "npm install --prefix {}", "mkdir -p {}",
    "cp -r dist/. {}", "cargo install --root {} ripgrep", "go build -o {} ./...", "git clone . {}",
    "tar xf a.tar -C {}", "rsync -a out/ {}", "make install PREFIX={}", "echo done > {}",
    "sed -i s/a/b/ {}", "mv out.bin {}",
)  # fmt: skip
ORDINARY = (
    ("git status", "On branch main\nnothing to commit, working tree clean"),
    ("pytest -q", "................................      [100%]\n32 passed in 1.42s"),
    ("ls -la", "\n".join(f"-rw-r--r-- 1 kim kim {n * 37:>6} Mar  1 10:00 file{n}.py" for n in range(8))),
    ("rg -n parse src", "src/main.py:12:def parse(text: str) -> Query:"),
)


def bodies(chance: random.Random, project: str, frames: int) -> Iterator[tuple[str, dict[str, Any]]]:
    """What one session's hooks tell: every second call is refused, one in ten of a path that others also want."""
    common = {"cwd": project, "transcript_path": "", "nd7_session": chance.randrange(2, 1 << 22)}
    common["policy_revision"] = 0
    yield "session_start", {**common, "hook_event_name": "SessionStart", "reason": "startup"}
    yield "prompt", {**common, "hook_event_name": "UserPromptSubmit", "text": "go"}
    for number in range((frames - 3) // 2):
        if number % 2:
            names = chance.sample(WORDS, 3)
            above = f"{chance.choice(PLACES)}/{names[0]}-{names[1]}"
            path = f"{above}/{chance.randrange(1 << 32):08x}/{names[2]}.bin" if chance.randrange(10) else above
            command = chance.choice(COMMANDS).format(path)
            output = f"{command.split()[0]}: cannot create '{path}': Permission denied"
        else:
            command, output = chance.choice(ORDINARY)
        call = {**common, "tool_use_id": f"toolu_{number}", "tool_name": "Bash", "tool_input": {"command": command}}
        yield "tool_call", {**call, "hook_event_name": "PreToolUse"}
        failed = number % 2 == 1
        answer: Any = f"Exit code 1\n{output}" if failed else {"stdout": output, "stderr": "", "interrupted": False}
        event = "PostToolUseFailure" if failed else "PostToolUse"
        result = {"hook_event_name": event, "tool_response": answer, "ok": not failed, "duration_ms": 5}
        yield "tool_result", {**call, **result}
    if not frames % 2:
        yield "turn_end", {**common, "hook_event_name": "Stop", "last_assistant_message": "All done."}
    yield "session_end", {**common, "hook_event_name": "SessionEnd", "reason": "prompt_input_exit"}


def write(state: str, sessions: int, events: int, now: int) -> int:
    """Record so many sessions of so many events together, over the year before `now`; gives the number of events."""
    chance = random.Random(7)
    written = 0
    for session in range(sessions):
        name = f"bench-{session:05}"
        directory = os.path.join(state, "sessions", name)
        os.makedirs(directory, 0o700)
        ts = now - DAY * 2 - DAY * 363 * (sessions - session) // sessions
        lines, prev = [], genesis(name)
        wanted = events * (session + 1) // sessions - events * session // sessions
        for seq, (kind, body) in enumerate(bodies(chance, PROJECTS[session % len(PROJECTS)], wanted)):
            ts += chance.randrange(500_000_000, 20_000_000_000)
            lines.append(encode(name, seq, ts, "bench", "intent:claude-code", kind, prev, body))
            prev = lines[-1][-66:-2].decode()
        log = Path(directory, EVENTS)
        log.write_bytes(b"\n".join(lines) + b"\n")
        Path(directory, HEAD).write_text(f"{len(lines) - 1} {prev}\n")
        for path in (log, Path(directory, HEAD)):
            path.chmod(0o600)
        os.utime(log, ns=(ts, ts))
        written += len(lines)
    return written
