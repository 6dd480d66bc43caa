"""A real confined session without an agent, in which a test runs one small program after another.

A `Cell` is one configuration (with or without namespaces, a Landlock version, a uid). It has a process of its own
that plays the supervisor, in a network namespace with listeners on loopback that a session must not reach, a
stranger of the same user with things worth stealing, and a zygote in the session. `cell.run(f)` forks a child of the
zygote, confines it and calls `f(targets)` in it; forking instead of executing keeps a thousand attacks within seconds.
"""

from __future__ import annotations

import array
import contextlib
import ctypes
import fcntl
import importlib
import json
import mmap
import os
import select
import shutil
import signal
import socket
import struct
import sys
import tempfile
import time
import traceback
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NoReturn

from nd7core.policy.rules import LinuxRules
from nd7exec.linux import confinement, syscalls

TCP_PORTS = (443, 3000, 53)
UDP_PORTS = (53, 443, 9999)
CLONE_NEWNET = 0x40000000
UNPRIVILEGED = 20990


@dataclass(frozen=True)
class Config:
    """How a cell is confined."""

    name: str
    namespaces: bool = True
    abi: int | None = None

    @property
    def version(self) -> int:
        """The Landlock version in force."""
        return min(self.abi or 99, confinement.supported().abi)


FULL = Config("full")
BARE = Config("no-namespaces", namespaces=False)
OLD = [Config(f"no-namespaces-abi{abi}", namespaces=False, abi=abi) for abi in range(1, 7)]
OLD_FULL = [Config(f"namespaces-abi{abi}", abi=abi) for abi in (1, 3)]
ALL = [FULL, BARE, *OLD_FULL, *OLD]


@dataclass(frozen=True)
class Outcome:
    """How a program ended: `returned` (and what), or `raised` with the errno, or `died` of a signal."""

    how: str
    value: Any = None
    errno: int = 0
    text: str = ""
    arrived: tuple[str, ...] = ()


@dataclass
class Targets:
    """What is there to be attacked; every path is a real one."""

    home: str
    project: str
    tmp: str
    supervisor: int = 0
    zygote: int = 0
    stranger: int = 0
    other_terminal: str = ""
    other_terminals: int = 0
    shm_id: int = -1
    memory: int = 0
    ports: dict[str, int] = field(default_factory=dict)
    root: bool = False

    def path(self, name: str) -> str:
        return os.path.join(self.home, name)


SECRETS = {".ssh/id_ed25519": "ssh-secret", ".aws/credentials": "aws-secret", ".nd7/kept/record.json": "{}"}
FILES = {
    "notes.txt": "notes",
    ".bashrc": "# shell",
    ".claude/settings.json": "{}",
    ".claude/projects/state": "x",
    "outside/file": "x",
    "project/readme": "x",
    "project/.claude/settings.json": "{}",
    ".local/state/nd7/sessions/a/events.ndjson": "",
    ".local/state/nd7/sessions/a/lock": "",
}


def build_home(top: str) -> Targets:
    """A home with secrets, a project and things outside it."""
    home = os.path.join(top, "home")
    for name, text in {**SECRETS, **FILES}.items():
        path = Path(home, name)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    for name in (".ssh", ".aws", ".nd7"):
        Path(home, name).chmod(0o700)
    tmp = os.path.join(top, "tmp")
    os.mkdir(tmp)
    # What somebody with a shell could have made before the session: the reason of one named hole.
    os.link(os.path.join(home, ".ssh/id_ed25519"), os.path.join(home, "project/linked-before"))
    os.symlink("../.ssh/id_ed25519", os.path.join(home, "project/symlinked-before"))
    return Targets(home, os.path.join(home, "project"), tmp)


def rules_for(targets: Targets) -> LinuxRules:
    """The rules of an ordinary session in that home, with the devices as a profile names them."""
    return LinuxRules(
        hidden=tuple(targets.path(name) for name in (".ssh", ".aws", ".nd7")),
        writable=("/dev/pts", "/dev/shm", targets.project, targets.tmp, targets.path(".claude/projects")),
        writable_files=tuple(f"/dev/{name}" for name in ("full", "null", "ptmx", "random", "tty", "urandom", "zero")),
        connect_tcp=(443,),
        dns=True,
    )


def become(uid: int) -> None:
    """Be another user, for good, and still a process that its own user may look at."""
    if uid != os.getuid():
        os.setgroups([])
        os.setresgid(uid, uid, uid)
        os.setresuid(uid, uid, uid)
    syscalls.prctl(syscalls.PR_SET_DUMPABLE, 1)


def own_machine(top: str, uid: int) -> None:
    """A network with nothing but loopback, whose low ports anyone may bind; a name server and a user of its own."""
    if os.geteuid() == 0:
        syscalls.unshare(CLONE_NEWNET | syscalls.CLONE_NEWNS | syscalls.CLONE_NEWIPC)
    else:
        own, gid = os.geteuid(), os.getegid()
        syscalls.unshare(syscalls.CLONE_NEWUSER | CLONE_NEWNET | syscalls.CLONE_NEWNS | syscalls.CLONE_NEWIPC)
        Path("/proc/self/setgroups").write_text("deny")
        Path("/proc/self/uid_map").write_text(f"{own} {own} 1\n")
        Path("/proc/self/gid_map").write_text(f"{gid} {gid} 1\n")
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as any_socket:
        request = struct.pack("16sH14x", b"lo", 0x1 | 0x40)
        fcntl.ioctl(any_socket, 0x8914, request)  # SIOCSIFFLAGS: up, running
    syscalls.mount(b"none", b"/", None, syscalls.MS_REC | syscalls.MS_PRIVATE)
    # What the stranger shares, by name or by number, goes with the cell.
    syscalls.mount(b"none", b"/dev/shm", b"tmpfs", 0, b"mode=1777")
    Path(top, "resolv.conf").write_text("nameserver 127.0.0.1\noptions timeout:2 attempts:1\n")
    Path(top, "passwd").write_text(f"root:x:0:0::/root:/bin/sh\ndev:x:{uid}:{uid}::{top}/home:/bin/bash\n")
    for name in ("resolv.conf", "passwd"):
        real = os.path.realpath(f"/etc/{name}")
        if os.path.exists(real):
            syscalls.mount(os.fsencode(f"{top}/{name}"), os.fsencode(real), None, syscalls.MS_BIND)


def listeners() -> dict[str, socket.socket]:
    """Everything on loopback that could be reached, for IPv4 and IPv6."""
    found = {}
    for family, host in ((socket.AF_INET, "127.0.0.1"), (socket.AF_INET6, "::1")):
        suffix = "" if family == socket.AF_INET else "v6"
        for port in TCP_PORTS:
            sock = socket.socket(family, socket.SOCK_STREAM)
            sock.setsockopt(socket.IPPROTO_TCP, 23, 16)  # TCP_FASTOPEN
            sock.bind((host, port))
            sock.listen(64)
            found[f"tcp{port}{suffix}"] = sock
        for port in UDP_PORTS:
            sock = socket.socket(family, socket.SOCK_DGRAM)
            sock.bind((host, port))
            found[f"udp{port}{suffix}"] = sock
    for sock in found.values():
        sock.setblocking(False)
    return found


LIBC = ctypes.CDLL(None, use_errno=True)


def stranger(targets: Targets, ready: int) -> NoReturn:
    """A process of the same user that is no part of the session and owns what could be stolen."""
    abstract = socket.socket(socket.AF_UNIX)
    abstract.bind("\0nd7-stranger")
    abstract.listen()
    named = socket.socket(socket.AF_UNIX)
    named.bind(os.path.join(targets.tmp, "named.sock"))
    named.listen()
    datagrams = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
    datagrams.bind(os.path.join(targets.tmp, "datagram.sock"))
    master, slave = os.openpty()
    shm = LIBC.shmget(0, 4096, 0o1600)
    LIBC.shmat(shm, None, 0)
    LIBC.shmctl(shm, 0, None)  # IPC_RMID: it lasts as long as this process
    with contextlib.suppress(OSError):
        syscalls.call("mq_unlink", b"nd7-stranger")
    with contextlib.suppress(PermissionError):  # an earlier run's, as another user, outlives it: as good to be refused
        syscalls.call("mq_open", b"nd7-stranger", os.O_CREAT | os.O_RDWR, 0o600, 0)
    secret = mmap.mmap(-1, 4096)
    secret.write(b"stranger-memory-secret")
    address = ctypes.addressof(ctypes.c_char.from_buffer(secret))
    Path(targets.tmp, "shm-name").write_text(f"nd7-{os.getpid()}")
    with contextlib.suppress(OSError):
        Path(f"/dev/shm/nd7-{os.getpid()}").write_text("shm-secret")
    os.write(
        ready,
        json.dumps({"tty": os.ttyname(slave), "ttys": os.fstat(slave).st_dev, "shm": shm, "memory": address}).encode(),
    )
    os.close(ready)
    with contextlib.suppress(KeyboardInterrupt):
        while True:
            signal.pause()
    os._exit(master & 0)


@dataclass
class Plan:
    """What a cell's supervisor is told."""

    config: Config
    uid: int
    top: str
    targets: Targets
    rules: LinuxRules
    prepare: Callable[[Targets], None] | None = None
    serve: Callable[[dict[str, socket.socket], str], NoReturn] | None = None


class Cell:
    """One confined session.  `close` ends it."""

    def __init__(
        self,
        config: Config,
        uid: int,
        *,
        rules: Callable[[Targets], LinuxRules] = rules_for,
        prepare: Callable[[Targets], None] | None = None,
        serve: Callable[[dict[str, socket.socket], str], NoReturn] | None = None,
        modules: Sequence[str] = (),
    ) -> None:
        """Start it.

        Args:
            config, uid: how it is confined, and whom it runs as.
            rules: made from the home that was built.
            prepare: called in the supervisor's process, in its mount namespace, before anybody is confined.
            serve: called in a process of its own with the listeners and the cell's directory.
            modules: what `run` will be asked for; if given, a new interpreter has imported nothing else, so that
                forking it for each program is ten times cheaper than forking this one.
        """
        self.top = tempfile.mkdtemp(prefix="nd7-cell-")
        os.chmod(self.top, 0o755)
        targets = build_home(self.top)
        targets.root = uid == 0
        if uid != os.getuid():
            for directory, names, files in os.walk(self.top):
                for name in (*names, *files):
                    os.chown(os.path.join(directory, name), uid, uid, follow_symlinks=False)
            os.chown(self.top, uid, uid)
        self.config, self.uid, self.rules = config, uid, rules(targets)
        plan = Plan(config, uid, self.top, targets, self.rules, prepare, serve)
        ours, theirs = socket.socketpair()
        self.pid = os.fork()
        if self.pid == 0:
            ours.close()
            code = 1
            try:
                if modules:
                    start_anew(plan, theirs, modules)
                become_supervisor(plan, theirs)
                code = 0
            except BaseException:
                traceback.print_exc()
            finally:
                os._exit(code)
        theirs.close()
        self.channel = ours
        self.channel.settimeout(60)
        self.stream = self.channel.makefile("rb")
        said = self._read()
        self.missing: list[str] = said["missing"]
        self.enforced: dict[str, str] = said["enforced"]
        self.targets = Targets(**said["targets"])

    def _read(self) -> dict[str, Any]:
        line = self.stream.readline()
        if not line:
            raise RuntimeError(f"the cell {self.config.name} died")
        answer: dict[str, Any] = json.loads(line)
        if "failed" in answer:
            raise RuntimeError(answer["failed"])
        return answer

    def ask(self, **question: Any) -> dict[str, Any]:
        self.channel.sendall(json.dumps(question).encode() + b"\n")
        return self._read()

    def run(self, module: str, function: str, *, argument: Any = None, timeout: float = 20) -> Outcome:
        """Run `module.function(targets)` (or with an argument behind) confined, and say how it ended."""
        answer = self.ask(module=module, function=function, argument=argument, timeout=timeout)
        return Outcome(**{**answer, "arrived": tuple(answer.get("arrived", ()))})

    def execute(self, argv: list[str], *, timeout: float = 25, env: dict[str, str] | None = None) -> Outcome:
        """Execute a program confined; `value` is its exit status, `text` what it wrote."""
        answer = self.ask(argv=argv, timeout=timeout, env=env or {})
        return Outcome(**{**answer, "arrived": tuple(answer.get("arrived", ()))})

    def widen(self, rules: LinuxRules) -> list[str]:
        """New rules for what runs next."""
        answer = self.ask(rules={name: getattr(rules, name) for name in LinuxRules.__slots__})
        return list(answer["notes"])

    def size(self) -> tuple[int, int]:
        """How many descriptors the supervisor has, and how many bytes it holds in memory."""
        answer = self.ask(size=True)
        return answer["descriptors"], answer["bytes"]

    def close(self) -> None:
        self.channel.close()
        self.stream.close()
        os.waitpid(self.pid, 0)
        shutil.rmtree(self.top, ignore_errors=True)


@contextlib.contextmanager
def cell(config: Config, uid: int, **more: Any) -> Iterator[Cell]:
    """A cell for a block of code."""
    made = Cell(config, uid, **more)
    try:
        yield made
    finally:
        made.close()


# In the supervisor


def start_anew(plan: Plan, channel: socket.socket, modules: Sequence[str]) -> NoReturn:
    """Be a new interpreter, with nothing imported but what is needed."""
    told = {
        "config": [plan.config.name, plan.config.namespaces, plan.config.abi],
        "uid": plan.uid,
        "top": plan.top,
        "targets": vars(plan.targets),
        "rules": {name: getattr(plan.rules, name) for name in LinuxRules.__slots__},
        "modules": list(modules),
        "channel": channel.fileno(),
    }
    os.set_inheritable(channel.fileno(), True)
    code = f"import sys; sys.path[:0] = {sys.path!r}; import confined; confined.main(sys.argv[1])"
    os.execv(sys.executable, [sys.executable, "-I", "-S", "-c", code, json.dumps(told)])


def main(described: str) -> None:
    """The new interpreter's side of `start_anew`."""
    told = json.loads(described)
    for name in told["modules"]:
        importlib.import_module(name)
    plan = Plan(
        Config(*told["config"]), told["uid"], told["top"], Targets(**told["targets"]), rules_from(told["rules"])
    )
    become_supervisor(plan, socket.socket(fileno=told["channel"]))


def rules_from(told: dict[str, Any]) -> LinuxRules:
    """Rules that came as JSON, which has lists for tuples."""
    return LinuxRules(**{name: tuple(value) if isinstance(value, list) else value for name, value in told.items()})


def become_supervisor(made: Plan, channel: socket.socket) -> None:
    """The process that plays `nd7 run`: never returns but by the end of the test."""
    targets = made.targets
    syscalls.prctl(1, signal.SIGKILL)
    own_machine(made.top, made.uid)
    if os.geteuid() == 0:
        Path("/proc/sys/net/ipv4/ip_unprivileged_port_start").write_text("0")
    heard = listeners()
    if made.prepare:
        made.prepare(targets)
    become(made.uid)
    syscalls.prctl(1, signal.SIGKILL)  # a change of uid takes it back
    os.environ.clear()
    os.environ.update(HOME=targets.home, PATH="/usr/local/bin:/usr/bin:/bin", LANG="C.UTF-8", SECRET="in-environment")
    reader, writer = os.pipe()
    outsider = os.fork()
    if outsider == 0:
        syscalls.prctl(1, signal.SIGKILL)
        os.close(reader)
        for sock in heard.values():
            sock.close()
        stranger(targets, writer)
    os.close(writer)
    about = json.loads(os.read(reader, 4096))
    targets.supervisor, targets.stranger = os.getpid(), outsider
    targets.other_terminal, targets.other_terminals = about["tty"], about["ttys"]
    targets.shm_id, targets.memory = about["shm"], about["memory"]
    if made.serve:
        if os.fork() == 0:
            syscalls.prctl(1, signal.SIGKILL)
            made.serve(heard, made.top)
        for sock in heard.values():
            sock.close()
        heard = {}
    to_supervisor, to_zygote = os.pipe(), os.pipe()
    orders, control = socket.socketpair()
    zygote = os.fork()
    if zygote == 0:
        syscalls.prctl(1, signal.SIGKILL)
        orders.close()
        channel.close()
        for sock in heard.values():
            sock.close()
        serve_orders(made, control, to_supervisor[1], to_zygote[0])
        os._exit(0)
    os.close(to_supervisor[1])
    control.close()
    targets.zygote = zygote
    try:
        session = confinement.take(zygote, to_supervisor[0], to_zygote[1])
    except confinement.ConfinementError as error:
        channel.sendall(json.dumps({"failed": error.message}).encode() + b"\n")
        raise
    Supervisor(made, channel, orders, session, heard).serve()


class Supervisor:
    """Serves the notifier and hands the zygote its orders."""

    def __init__(
        self,
        made: Plan,
        channel: socket.socket,
        orders: socket.socket,
        session: confinement.Session,
        heard: dict[str, socket.socket],
    ) -> None:
        self.made, self.channel, self.orders, self.session, self.heard = made, channel, orders, session, heard
        self.refused: list[confinement.Refusal] = []
        self.notifier = confinement.Notifier(
            session.listener_fd,
            self.rendezvous,
            self.refused.append,
            rules=made.rules,
            membership=session.membership(),
        )
        self.ruleset = self.build(made.rules)
        self.poll = select.poll()
        for fd in (channel.fileno(), self.notifier.fileno()):
            self.poll.register(fd, select.POLLIN)

    def build(self, rules: LinuxRules) -> confinement.Ruleset:
        held = self.session
        return confinement.Ruleset(rules, held.namespaced, held.abi, root_fd=held.root_fd, terminal=held.terminal)

    @staticmethod
    def rendezvous(kind: int, pid: int, fd: int) -> None:
        os.write(fd, f"{kind:x} {pid}".encode())
        os.close(fd)

    def say(self, **answer: Any) -> None:
        self.channel.sendall(json.dumps(answer).encode() + b"\n")

    def serve(self) -> None:
        targets = {name: getattr(self.made.targets, name) for name in self.made.targets.__dataclass_fields__}
        self.say(missing=self.session.missing, enforced=self.session.enforced, targets=targets)
        stream = self.channel.makefile("rb")
        while True:
            for fd, _ in self.poll.poll():
                if fd == self.notifier.fileno():
                    self.notifier.handle()
                    continue
                line = stream.readline()
                if not line:
                    return
                self.order(json.loads(line))

    def order(self, question: dict[str, Any]) -> None:
        if "size" in question:
            pages = int(Path("/proc/self/statm").read_text().split()[1])
            self.say(descriptors=len(os.listdir("/proc/self/fd")), bytes=pages * mmap.PAGESIZE)
            return
        if "rules" in question:
            rules = rules_from(question["rules"])
            try:
                notes = confinement.widen(self.session, rules)
                fresh = self.build(rules)
            except confinement.ConfinementError as error:
                self.say(failed=error.message)
                return
            self.ruleset.close()
            self.ruleset = fresh
            self.notifier.rules = rules
            self.say(notes=notes)
            return
        if self.ruleset.stale():
            self.ruleset.close()
            self.ruleset = self.build(self.notifier.rules)
        for sock in self.heard.values():
            drain(sock)
        del self.refused[:]
        reader, writer = os.pipe()
        fds = array.array("i", [self.ruleset.fd, writer])
        body = json.dumps(question).encode()
        self.orders.sendmsg([body], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, fds)])
        os.close(writer)
        said = self.collect(reader, time.monotonic() + question["timeout"] + 5)
        answer = json.loads(said) if said else {"how": "silent"}
        answer["arrived"] = [name for name, sock in self.heard.items() if drain(sock)]
        answer["arrived"] += [f"refused:{refusal.kind}" for refusal in self.refused]
        self.say(**answer)

    def collect(self, reader: int, until: float) -> bytes:
        """The child's answer, while the notifier is served: it would wait for us otherwise."""
        data = b""
        self.poll.unregister(self.channel.fileno())
        self.poll.register(reader, select.POLLIN)
        try:
            while time.monotonic() < until:
                for fd, _ in self.poll.poll(200):
                    if fd == reader:
                        piece = os.read(reader, 65536)
                        if not piece:
                            return data
                        data += piece
                    else:
                        self.notifier.handle()
            return data
        finally:
            self.poll.unregister(reader)
            self.poll.register(self.channel.fileno(), select.POLLIN)
            os.close(reader)


def drain(sock: socket.socket) -> int:
    """Take what has arrived at a listener and say how much it was."""
    count = 0
    with contextlib.suppress(OSError):
        while True:
            if sock.type == socket.SOCK_STREAM:
                sock.accept()[0].close()
            else:
                sock.recv(65536)
            count += 1
    return count


# In the zygote


def serve_orders(made: Plan, control: socket.socket, offer_fd: int, taken_fd: int) -> None:
    """Enter the session and fork one confined child for each order."""
    try:
        entered = confinement.enter_session(
            made.rules, True, use_namespaces=made.config.namespaces, abi=made.config.abi
        )
    except confinement.ConfinementError as error:
        confinement.offer_error(error, offer_fd)
        return
    confinement.offer(entered, offer_fd, taken_fd)
    os.close(offer_fd)
    made.targets.zygote = os.getpid()
    while True:
        body, ancillary, _, _ = control.recvmsg(65536, socket.CMSG_SPACE(8))
        if not body:
            return
        ruleset, writer = array.array("i", ancillary[0][2])
        question = json.loads(body)
        child = os.fork()
        if child == 0:
            os.setsid()
            control.close()
            answer = confined(made, question, ruleset, entered.abi, writer)
            os.write(writer, json.dumps(answer).encode())
            os._exit(0)
        os.close(ruleset)
        status = wait(child, question["timeout"])
        if status:
            with contextlib.suppress(OSError):
                os.write(writer, json.dumps({"how": "died", "value": status}).encode())
        os.close(writer)


def wait(child: int, seconds: float) -> int:
    """The signal that a child died of, 0 if it exited; 1000 if it had to be killed because its time was up."""
    until = time.monotonic() + seconds
    while True:
        pid, status = os.waitpid(child, os.WNOHANG)
        if pid:
            return os.WTERMSIG(status) if os.WIFSIGNALED(status) else 0
        if time.monotonic() > until:
            os.kill(child, signal.SIGKILL)
            os.waitpid(child, 0)
            return 1000
        time.sleep(0.0005)


def confined(made: Plan, question: dict[str, Any], ruleset: int, abi: int, writer: int) -> dict[str, Any]:
    """In the child: take the rules, do what is asked, say how it ended."""
    targets = made.targets
    try:
        os.chdir(targets.project)
        confinement.restrict(ruleset, abi)
        os.close(ruleset)
        if "argv" in question:
            return execute(question)
        module = importlib.import_module(question["module"])
        function = getattr(module, question["function"])
        argument = question.get("argument")
        value = function(targets) if argument is None else function(targets, argument)
        return {"how": "returned", "value": value if isinstance(value, str | int | bool | list | None) else repr(value)}
    except OSError as error:
        return {"how": "raised", "errno": error.errno or 0, "text": str(error)}
    except BaseException:
        return {"how": "broken", "text": traceback.format_exc()}


def execute(question: dict[str, Any]) -> dict[str, Any]:
    """Run a program to its end and return what it wrote."""
    import subprocess

    try:
        done = subprocess.run(
            question["argv"],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            timeout=question["timeout"],
            env={**os.environ, **question["env"]},
            check=False,
        )
    except subprocess.TimeoutExpired as error:
        return {"how": "returned", "value": -1000, "text": (error.stdout or b"").decode(errors="replace")[-8000:]}
    return {"how": "returned", "value": done.returncode, "text": done.stdout.decode(errors="replace")[-8000:]}


sys.modules.setdefault("confined", sys.modules[__name__])
