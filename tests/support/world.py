"""A world for one test: a home of its own, no network but loopback, and a scripted model where the API would be.

Everything that touches an agent, a session or the kernel runs in one, so that whoever runs the tests never has
their own home, `~/.nd7`, state or agent's settings read or written: the password database of a world names another
home for its user, and the runner's own home is hidden in it.

    def test_something(world):
        done = world.run(["nd7", "run", "sh", "-c", "echo hello > out"])      # in world.project, as world.uid
        assert done.code == 0, done.err
        assert world.read("out") == "hello\n"                                 # relative names are in world.project

        running = world.start(["nd7", "run", "sleep", "60"])                  # a Popen; killed when the test ends
        world.wait(lambda: world.listdir(world.home + "/.nd7/sessions"))      # polls, fails with the text after a time
        running.terminate()

        screen = world.terminal(["nd7", "tui"], size=(120, 36))               # tmux; see terminal.py
        screen.wait_for("no sessions"); screen.keys("q")

        result = world.claude({"turns": [bash("touch a"), {"text": "done"}]}) # the real agent; see agent.py

Paths that a test names are those of the inside of the world; `world.path(p)` is where the test itself finds that file.
A world runs as an unprivileged user: root makes it for a uid that nobody else has, anyone else for their own uid
through a user namespace. `world.processes()` lists whatever still runs in it, `world.alive(pid)` asks for one.
What a test starts is killed, and only that: every process whose network namespace is this world's.
"""

from __future__ import annotations

import array
import contextlib
import itertools
import json
import os
import pwd
import shlex
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

import scripted_model
from terminal import Terminal

HERE = Path(__file__).resolve().parent
CHECKOUT = HERE.parent.parent
CLAUDE = CHECKOUT / ".cache/claude/node_modules/@anthropic-ai/claude-code/bin/claude.exe"
FIRST_UID = 20001
counter = itertools.count()


@dataclass(frozen=True)
class Done:
    """How a command ended: its exit status (negative for a signal) and what it wrote."""

    code: int
    out: str
    err: str


def free_uid() -> int:
    """A uid for the next world: never the same in two workers, so that a kill by uid cannot reach a neighbour."""
    worker = os.environ.get("PYTEST_XDIST_WORKER", "gw0").removeprefix("gw")
    return FIRST_UID + 1000 * int(worker) + next(counter) % 1000


def kept_trees() -> list[str]:
    """Trees that must stay visible: the checkout, the interpreter with its libraries, the agent."""
    trees = [str(CHECKOUT), sys.prefix, sys.base_prefix, os.path.dirname(os.path.realpath(sys.executable))]
    real = [os.path.realpath(tree) for tree in trees]
    if CLAUDE.exists():
        real.append(str(CLAUDE.resolve().parent.parent.parent))
    wanted = sorted({path for path in [*trees, *real] if path not in ("/", "/usr", "/usr/bin", "/usr/local")})
    return [path for path in wanted if not any(path.startswith(other + "/") for other in wanted)]


def closed_above(paths: list[str]) -> set[str]:
    """The outermost directories above some paths that the users of worlds could not pass through."""
    found = set()
    for path in paths:
        above = [parent for parent in reversed(Path(path).parents) if not parent.stat().st_mode & 0o001]
        if above and os.getuid() == 0:
            found.add(str(above[0]))
    return found


class World:
    """One mount and network namespace with a user, a home and a project in it.  Use the `world` fixture."""

    home = "/home/dev"
    project = "/home/dev/project"
    files = "/home/.world"
    port = 443

    def __init__(self) -> None:
        self.root = os.getuid() == 0
        self.uid = free_uid() if self.root else os.getuid()
        self.gid = self.uid if self.root else os.getgid()
        # A session may write its temp directory, so nd7 will not run from there; a checkout in /tmp gets another.
        self.tmp = "/var/tmp" if any(path.startswith("/tmp/") for path in kept_trees()) else "/tmp"
        self.started: list[subprocess.Popen[bytes]] = []
        self.screens: list[Terminal] = []
        self.holder, listening = self._hold()
        self.net = os.readlink(f"/proc/{self.holder.pid}/ns/net")
        self.server, _ = scripted_model.serve({"turns": []}, listening=listening)
        self.model = self.server.RequestHandlerClass.script
        self.mkdir(self.project)
        self._programs()

    def _hold(self) -> tuple[subprocess.Popen[bytes], socket.socket]:
        ours, theirs = socket.socketpair()
        try:
            own_home = pwd.getpwuid(os.getuid()).pw_dir
        except KeyError:
            own_home = ""  # a uid without a line in the password database has no home to protect
        hidden = ["/home", "/tmp", "/var/tmp", *closed_above(kept_trees())]
        if own_home.startswith("/") and not own_home.startswith("/home/"):
            hidden.append(own_home)
        plan = {
            "uid": self.uid,
            "gid": self.gid,
            "user": not self.root,
            "passwd": self._passwd(),
            "hide": sorted({path for path in hidden if os.path.isdir(path) and path != "/"}),
            "keep": kept_trees(),
            "home": self.home,
            "files": self.files,
            "port": self.port,
        }
        with theirs:
            holder = subprocess.Popen(
                [sys.executable, "-IS", str(HERE / "world_holder.py"), str(theirs.fileno()), json.dumps(plan)],
                pass_fds=[theirs.fileno()],
                stdin=subprocess.DEVNULL,
                stderr=subprocess.PIPE,
            )
        self.channel = ours
        space = socket.CMSG_SPACE(array.array("i").itemsize)
        message, ancillary, _, _ = ours.recvmsg(16, space)
        if message != b"ready":
            _, error = holder.communicate()
            raise RuntimeError(f"no world: {error.decode(errors='replace')}")
        descriptors = array.array("i")
        descriptors.frombytes(ancillary[0][2])
        return holder, socket.socket(fileno=descriptors[0])

    def _passwd(self) -> str:
        lines = Path("/etc/passwd").read_text(encoding="utf-8", errors="surrogateescape").splitlines()
        others = [line for line in lines if line.split(":")[2:3] != [str(self.uid)] and not line.startswith("dev:")]
        return "\n".join([*others, f"dev:x:{self.uid}:{self.gid}:dev:{self.home}:/bin/bash", ""])

    def _programs(self) -> None:
        """`nd7` and `claude` on the world's PATH, as an installed nd7 and an agent from npm would be."""
        self.mkdir(self.files + "/bin", owner=False)
        python = shlex.quote(sys.executable)
        self.write(self.files + "/bin/nd7", f'#!/bin/sh\nexec {python} -P -m nd7tui.cli "$@"\n', 0o755, owner=False)
        self.path(self.files + "/bin/claude").symlink_to(CLAUDE)

    # Files

    def path(self, inside: str) -> Path:
        """Where the test finds a file of the world.  A relative name lies in the project."""
        whole = os.path.join(self.project, inside)
        return Path(f"/proc/{self.holder.pid}/root{whole}")

    def mkdir(self, inside: str, mode: int = 0o755, *, owner: bool = True) -> None:
        """Make a directory and its parents, the user's unless `owner` is false."""
        whole = os.path.join(self.project, inside)
        above = os.path.dirname(whole)
        if not self.path(above).exists():
            self.mkdir(above, owner=owner)
        if not self.path(whole).exists():
            self.path(whole).mkdir(mode)
            self._own(whole, owner)

    def write(self, inside: str, text: str | bytes, mode: int = 0o644, *, owner: bool = True) -> None:
        """Write a file, making its directories."""
        self.mkdir(os.path.dirname(os.path.join(self.project, inside)), owner=owner)
        self.path(inside).write_bytes(text if isinstance(text, bytes) else text.encode("utf-8", "surrogateescape"))
        self.path(inside).chmod(mode)
        self._own(inside, owner)

    def _own(self, inside: str, owner: bool) -> None:
        if owner and self.root:
            os.chown(self.path(inside), self.uid, self.gid)

    def read(self, inside: str) -> str:
        return self.path(inside).read_text(encoding="utf-8", errors="surrogateescape")

    def exists(self, inside: str) -> bool:
        return os.path.lexists(self.path(inside))

    def listdir(self, inside: str) -> list[str]:
        """The names in a directory, sorted; none if it is not there."""
        try:
            return sorted(os.listdir(self.path(inside)))
        except FileNotFoundError:
            return []

    # Commands

    def environ(self, extra: Mapping[str, str | None] | None = None) -> dict[str, str]:
        """The environment of a command: nothing of the runner's.  A value of None takes a name away."""
        values: dict[str, str | None] = {
            "HOME": self.home,
            "USER": "dev",
            "LOGNAME": "dev",
            "SHELL": "/bin/bash",
            "PATH": f"{self.files}/bin:/usr/local/bin:/usr/bin:/bin",
            "LANG": "C.UTF-8",
            "TERM": "xterm-256color",
            "TMPDIR": None if self.tmp == "/tmp" else self.tmp,
            **(extra or {}),
        }
        return {name: value for name, value in values.items() if value is not None}

    def inside(self, argv: Sequence[str], cwd: str | None = None) -> list[str]:
        """The command line that runs `argv` in the world.  Each step is an exec: the pid is the program's."""
        enter = ["nsenter", "--target", str(self.holder.pid), "--mount", "--net"]
        if self.root:
            become = ["setpriv", f"--reuid={self.uid}", f"--regid={self.gid}", "--clear-groups"]
            become += ["--inh-caps=-all", "--bounding-set=-all"]
        else:
            enter += ["--user", "--preserve-credentials"]
            become = []
        where = ["/usr/bin/env", "--chdir", os.path.join(self.project, cwd or "")]
        return [shutil.which(enter[0]) or enter[0], *enter[1:], *become, *where, *argv]

    def run(
        self,
        argv: Sequence[str],
        *,
        cwd: str | None = None,
        env: Mapping[str, str | None] | None = None,
        input: str | bytes = b"",
        timeout: float = 60,
    ) -> Done:
        """Run a command to its end.  On a timeout the command is killed and the test fails with what it wrote."""
        data = input if isinstance(input, bytes) else input.encode("utf-8", "surrogateescape")
        process = self.start(argv, cwd=cwd, env=env, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        try:
            out, err = process.communicate(data, timeout)
        except subprocess.TimeoutExpired:
            process.kill()
            self.kill()
            out, err = process.communicate()
            raise AssertionError(f"{argv} did not end in {timeout} s\nout: {out!r}\nerr: {err!r}") from None
        return Done(process.returncode, *(text.decode("utf-8", "surrogateescape") for text in (out, err)))

    def start(
        self,
        argv: Sequence[str],
        *,
        cwd: str | None = None,
        env: Mapping[str, str | None] | None = None,
        stdin: int | IO[bytes] = subprocess.DEVNULL,
        stdout: int | IO[bytes] = subprocess.PIPE,
        stderr: int | IO[bytes] = subprocess.PIPE,
        **more: Any,
    ) -> subprocess.Popen[bytes]:
        """Start a command and go on.  It is killed when the test ends."""
        process = subprocess.Popen(
            self.inside(argv, cwd), env=self.environ(env), stdin=stdin, stdout=stdout, stderr=stderr, **more
        )
        self.started.append(process)
        return process

    def terminal(
        self,
        argv: Sequence[str],
        *,
        size: tuple[int, int] = (120, 36),
        cwd: str | None = None,
        env: Mapping[str, str | None] | None = None,
    ) -> Terminal:
        """Start a command in a terminal (tmux) of the world."""
        screen = Terminal(self, argv, size=size, cwd=cwd, env=env)
        self.screens.append(screen)
        return screen

    def wait(self, true: Callable[[], Any], timeout: float = 20, what: object = "") -> Any:
        """Poll until `true()` is true and return what it gave."""
        end = time.monotonic() + timeout
        while True:
            value = true()
            if value:
                return value
            if time.monotonic() > end:
                raise AssertionError(f"waited {timeout} s in vain: {what() if callable(what) else what}")
            time.sleep(0.05)

    # Processes

    def processes(self) -> dict[int, str]:
        """Every process of the world by pid, with its command line; the world's own holder is left out."""
        found = {}
        for name in os.listdir("/proc"):
            if name.isdigit() and int(name) != self.holder.pid:
                with contextlib.suppress(OSError):
                    if os.readlink(f"/proc/{name}/ns/net") == self.net:
                        line = Path(f"/proc/{name}/cmdline").read_bytes()
                        found[int(name)] = line.replace(b"\0", b" ").decode(errors="replace").strip()
        return found

    def alive(self, pid: int) -> bool:
        return pid in self.processes()

    def kill(self) -> None:
        """Kill whatever runs in the world, again until nothing does."""
        for _ in range(200):
            left = [pid for pid in self.processes() if not zombie(pid)]
            if not left:
                return
            for pid in left:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
            time.sleep(0.01)

    # The scripted model and the agent

    def play(self, scenario: dict[str, Any]) -> scripted_model.Script:
        """Start a scenario; the script's `requests` are what the agent has asked since."""
        self.model = self.server.script(scenario)
        return self.model

    def claude(self, scenario: dict[str, Any], **options: Any) -> Any:
        """Run the real agent headless under nd7 on a scenario: see `agent.headless`."""
        import agent

        return agent.headless(self, scenario, **options)

    def close(self) -> None:
        for screen in self.screens:
            screen.close()
        self.kill()
        for process in self.started:
            process.wait()
            for stream in (process.stdin, process.stdout, process.stderr):
                if stream:
                    stream.close()
        self.server.shutdown()
        self.server.server_close()
        self.channel.close()
        self.holder.wait()
        if self.holder.stderr:
            self.holder.stderr.close()


def zombie(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_bytes().rpartition(b")")[2].split()[0] == b"Z"
    except OSError:
        return True


@contextlib.contextmanager
def new_world() -> Iterator[World]:
    made = World()
    try:
        yield made
    finally:
        made.close()
