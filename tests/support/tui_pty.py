"""The dashboard on a real pseudo-terminal, with every byte that it writes kept; and a home with real logs in it."""

from __future__ import annotations

import errno
import fcntl
import os
import pty
import select
import signal
import struct
import subprocess
import sys
import termios
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from nd7core import process, sessions
from nd7core.audit.log import Log, log_directory
from nd7core.paths import Places
from nd7core.policy import build
from nd7core.record import Record

ROOT = Path(__file__).resolve().parents[2]
# Keys as an xterm sends them.
KEYS = {
    "up": b"\x1b[A", "down": b"\x1b[B", "home": b"\x1b[H", "end": b"\x1b[F", "right": b"\x1b[C", "left": b"\x1b[D",
    "tab": b"\t", "shift+tab": b"\x1b[Z", "enter": b"\r", "escape": b"\x1b", "ctrl+p": b"\x10", "space": b" ",
}  # fmt: skip

PROGRAM = """
import sys
sys.path.insert(0, sys.argv[1])
from nd7core.paths import places_of
from nd7tui.app import Dashboard
theme = [word.partition("=")[2] for word in sys.argv if word.startswith("--theme=")] or ["nd7-dark"]
app = Dashboard(places_of(sys.argv[2]), environ={}, read_only="--read-only" in sys.argv, theme_name=theme[0])
app.run()
sys.exit(app.return_code or 0)
"""


class Tty:
    """A program on a pseudo-terminal of `size` (columns, rows)."""

    def __init__(self, argv: list[str], size: tuple[int, int] = (120, 36), env: dict[str, str] | None = None) -> None:
        self.bytes = bytearray()
        self.master, slave = pty.openpty()
        fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", size[1], size[0], 0, 0))
        environ = {"TERM": "xterm-256color", "PATH": os.environ["PATH"], "LANG": "C.UTF-8", "COLORTERM": "truecolor"}
        environ |= {"HOME": "/nonexistent", "TEXTUAL_ANIMATIONS": "none", "TZ": "UTC", **(env or {})}
        self.child = subprocess.Popen(
            argv, stdin=slave, stdout=slave, stderr=slave, env=environ, start_new_session=True, close_fds=True
        )
        os.close(slave)

    def __enter__(self) -> Tty:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def read(self, seconds: float, quiet: float | None = None) -> bytes:
        """What it writes within a time; with `quiet`, only until it has written and then paused for so long."""
        start = len(self.bytes)
        end = time.monotonic() + seconds
        while (left := end - time.monotonic()) > 0:
            wait = min(left, quiet) if quiet is not None and len(self.bytes) > start else left
            ready, _, _ = select.select([self.master], [], [], wait)
            if not ready:
                break
            try:
                data = os.read(self.master, 1 << 16)
            except OSError as error:
                if error.errno == errno.EIO:
                    break
                raise
            if not data:
                break
            self.bytes += data
        return bytes(self.bytes[start:])

    def wait_for(self, wanted: str | Callable[[bytes], object], seconds: float = 20.0) -> None:
        """Wait until a text, or what a function looks for, has been written since the start."""
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            if wanted(bytes(self.bytes)) if callable(wanted) else wanted.encode() in self.bytes:
                return
            self.read(0.05)
        raise AssertionError(f"{wanted!r} was not written; last: {bytes(self.bytes[-3000:])!r}")

    def press(self, *keys: str, pause: float = 0.15) -> None:
        """Press keys, by name or as text, and take what is written after each."""
        for key in keys:
            os.write(self.master, KEYS.get(key, key.encode("utf-8", "surrogateescape")))
            # A lone Escape becomes a key only when nothing follows it for a tenth of a second after it was read, which
            # a busy machine does late; two at once are another key.
            self.read(1.5 if key == "escape" else pause, 0.3 if key == "escape" else 0.04)

    def close(self) -> int:
        """End it if it has not ended; its exit status."""
        if self.child.poll() is None:
            self.read(0.05)
            os.killpg(self.child.pid, signal.SIGTERM)
            try:
                self.child.wait(5)
            except subprocess.TimeoutExpired:
                os.killpg(self.child.pid, signal.SIGKILL)
                self.child.wait(5)
        os.close(self.master)
        return self.child.returncode


def dashboard(
    places: Places, *options: str, size: tuple[int, int] = (120, 36), env: dict[str, str] | None = None
) -> Tty:
    """`nd7 tui` over explicit places."""
    return Tty([sys.executable, "-c", PROGRAM, str(ROOT), places.home, *options], size, env)


class Story:
    """One session as its hooks would have told it, in a real log, with a real session directory where it is live.

    Args:
        pid: of a process that stands for `nd7 run`, or None for a session that is over.
    """

    def __init__(self, places: Places, session_id: str, project: str, pid: int | None = None, **record: Any) -> None:
        self.places = places
        self.session_id = session_id
        self.project = project
        self.pid = pid
        self.log = Log(log_directory(places.state, session_id), host="test")
        self._number = 0
        if pid is not None:
            made = Record(
                project=project,
                home=places.home,
                state=places.state,
                tmp="/tmp/nd7-test",
                pid=pid,
                owner_start=process.start_time(pid) or "",
                started=time.time_ns(),
                program=("claude",),
                agent="claude",
                agent_sessions=(session_id,),
                **record,
            )
            sessions.create(places, made, build(made))

    def body(self, event: str, **more: Any) -> dict[str, Any]:
        """The common keys."""
        common = {"cwd": self.project, "transcript_path": "", "hook_event_name": event, **more}
        return common | ({"nd7_session": self.pid, "policy_revision": 0} if self.pid is not None else {})

    def append(self, kind: str, body: dict[str, Any], source: str = "intent:claude-code") -> None:
        """Any frame."""
        self.log.append(kind, body, source=source)

    def start(self) -> None:
        """SessionStart and a prompt."""
        self.append("session_start", self.body("SessionStart", reason="startup"))
        self.append("prompt", self.body("UserPromptSubmit", text="go"))

    def call(self, command: str, output: str, code: int = 1, tool: str = "Bash", **tool_input: Any) -> None:
        """A call and its result."""
        self._number += 1
        given = {"command": command} if tool == "Bash" else tool_input
        call = {"tool_use_id": f"toolu_{self._number}", "tool_name": tool, "tool_input": given}
        self.append("tool_call", self.body("PreToolUse", **call))
        failed = f"Exit code {code}\n{output}" if tool == "Bash" else output
        response: Any = {"stdout": output, "stderr": "", "interrupted": False} if not code else failed
        event = "PostToolUseFailure" if code else "PostToolUse"
        result = self.body(event, **call, tool_response=response, ok=not code, duration_ms=5)
        self.append("tool_result", result)

    def denied_write(self, path: str, command: str = "") -> None:
        """A write that the kernel refused."""
        self.call(command or f"touch {path}", f"touch: cannot touch '{path}': Permission denied\n")

    def say(self, text: str) -> None:
        """Stop, with the agent's last words."""
        self.append("turn_end", self.body("Stop", stop_hook_active=False, last_assistant_message=text))

    def ask(self, tool: str) -> None:
        """PermissionRequest."""
        raw = {"hook_event_name": "PermissionRequest", "tool_name": tool, "tool_input": {"command": "x"}}
        self.append("hook", self.body("PermissionRequest", raw=raw))

    def end(self) -> None:
        """SessionEnd."""
        self.append("session_end", self.body("SessionEnd", reason="prompt_input_exit"))


class Sleeper:
    """A process that stands for `nd7 run`."""

    def __init__(self) -> None:
        self.child = subprocess.Popen([sys.executable, "-S", "-c", "input()"], stdin=subprocess.PIPE)
        self.pid = self.child.pid

    def end(self) -> None:
        """It dies."""
        if self.child.poll() is None:
            self.child.kill()
        self.child.wait(10)
