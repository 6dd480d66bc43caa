"""The canary: nd7 tries in each session what the policy refuses and what it allows, the whole way.

A small program is started like the agent, under the floor; it calls nd7-exec, and the command that this runs tries
each thing and prints what happened.  What comes back is compared with what the policy says.  "No denials" means
something only while this is green: it shows that a denial would have been one, and would have come back.
"""

from __future__ import annotations

import json
import os
import shlex
import time
from collections.abc import Callable
from dataclasses import dataclass, field

from nd7core.policy import Policy, decide, decide_network
from nd7core.record import Record
from nd7exec import launcher
from nd7exec.loop import Loop, Timer

SECONDS = 20.0
LONGEST = 60_000  # of the command line, which is one message to the zygote
MOST_GRANTS = 50  # tried by one probe, the latest ones
PAYLOAD = "nd7_canary"
_KNOWN = ("yes", "no")
PORT = 1  # nobody listens on tcpmux, and nobody else asks for it: an attempt there is the canary's own
# Runs inside, with nothing but the standard library; prints one line of JSON.  "yes" is: the kernel let it through.
# A refused connection (ECONNREFUSED) was let through, too: only EACCES and EPERM are the kernel's "no".
PROGRAM = """
import errno, json, os, socket, sys
out = {}
def attempt(name, action):
    try:
        action()
        out[name] = "yes"
    except OSError as e:
        refused = e.errno in (errno.EACCES, errno.EPERM, errno.EROFS)
        out[name] = "no" if refused else "yes" if e.errno == errno.ECONNREFUSED else errno.errorcode.get(e.errno, "?")
def write(path):
    fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_NOFOLLOW, 0o600)
    os.close(fd)
    os.unlink(path)
def granted(path):
    if os.path.isdir(path):
        write(os.path.join(path, os.path.basename(outside)))
    else:
        os.close(os.open(path, os.O_WRONLY | os.O_NOFOLLOW | os.O_NONBLOCK))
def hook(path, said):
    take, give = os.pipe()
    read, write = os.pipe()
    dup = os.POSIX_SPAWN_DUP2
    try:
        os.posix_spawn(path, [path], os.environ, file_actions=[(dup, take, 0), (dup, write, 1), (dup, write, 2)])
    except OSError as e:
        return os.path.basename(path) + ": " + os.strerror(e.errno)
    os.close(take)
    os.close(write)
    try:
        os.write(give, said.encode())
    except OSError:
        pass  # it has ended without reading; what it says tells
    os.close(give)
    text = b""
    while part := os.read(read, 4096):
        text += part
    return text.decode("utf-8", "replace").strip()[:300]
inside, outside, hidden, port, recorder, said, *grants = sys.argv[1:]
attempt("write inside", lambda: write(inside))
attempt("write outside", lambda: write(outside))
attempt("read hidden", lambda: os.close(os.open(hidden, os.O_RDONLY)))
attempt("connect", lambda: socket.create_connection(("127.0.0.1", int(port)), 2).close())
attempt("unix socket", lambda: socket.socket(socket.AF_UNIX))
for path in grants:
    attempt("grant " + path, lambda: granted(path))
out["hook"] = hook(recorder, said)
print(json.dumps(out))
"""


@dataclass(frozen=True, slots=True)
class Verdict:
    """What the canary found: `state` is "enforcing" or "blind"; `wrong` names each check that came out otherwise.

    `hook` is what is wrong with the way of a hook's payload, or "".
    `grants` are the paths that were granted, each with whether a command may write there now: the proof that a
    person's key had its effect.  A path at which neither could be seen (it has gone) is left out.
    """

    state: str
    wrong: tuple[str, ...]
    found: dict[str, str]
    grants: dict[str, bool] = field(default_factory=dict)
    hook: str = ""


def paths(record: Record, policy: Policy) -> tuple[str, str, str]:
    """The file to write inside, the one to write outside, the one that is there and must not be read.

    Outside is the home directory, or the state directory where that has been granted: a refusal must be among what is
    tried.  Read is a file, not its directory: without mounts of the session's own, names can be listed and contents
    still not read.
    """
    name = f".nd7-canary-{record.pid}"
    hidden = os.path.join(record.nd7, "sessions", str(record.pid), "record.json")
    outside = os.path.join(record.home, name)
    if decide(policy, "file-write-create", outside).allowed:
        outside = os.path.join(record.state, name)
    return os.path.join(record.tmp, name), outside, hidden


def payload(pid: int) -> str:
    """What the canary has the hook deliver, and the scribe answers with itself: no event, so nothing is recorded."""
    return json.dumps({PAYLOAD: pid})


def expected(record: Record, policy: Policy) -> dict[str, str]:
    """What the policy says of each check."""
    inside, outside, hidden = paths(record, policy)
    said = {
        "write inside": decide(policy, "file-write-create", inside).allowed,
        "write outside": decide(policy, "file-write-create", outside).allowed,
        "read hidden": decide(policy, "file-read-data", hidden).allowed,
        "connect": decide_network(policy, "tcp", "127.0.0.1", PORT).allowed,
        "unix socket": False,
    }
    return {name: "yes" if allowed else "no" for name, allowed in said.items()}


def judge(output: bytes, wanted: dict[str, str]) -> Verdict:
    """Compare what came back with what should have."""
    try:
        found = json.loads(output)
    except ValueError:
        found = None
    if not isinstance(found, dict):
        text = output.decode("utf-8", "replace").strip() or "nothing came back"
        return Verdict("blind", (f"the canary did not run: {text[:200]}",), {})
    seen = {name: str(found.get(name, "missing")) for name in wanted}
    wrong = tuple(f"{name}: {seen[name]}, not {wanted[name]}" for name in wanted if seen[name] != wanted[name])
    if wanted.get("write outside") == "yes":
        wrong = (*wrong, "the policy refuses no write of those that were tried, of nd7's own log neither")
    told = str(found.get("hook", "missing"))
    hook = "" if told.startswith("{") and PAYLOAD in told else f"a hook's payload did not arrive: {told or 'no answer'}"
    tried = {name[6:]: value == "yes" for name, value in found.items() if name.startswith("grant ") and value in _KNOWN}
    return Verdict("blind" if wrong else "enforcing", wrong, seen, tried, hook)


class Canary:
    """Runs probes, one at a time, from the supervisor's loop.

    Args:
        ask: sends the zygote a command line and two descriptors: where its output goes, what to wait for.
        known: told of the probe's pid before it does anything, so that its nd7-exec counts as the agent's.
        policy: the policy in force and its revision's record.
        done: gets each verdict.
        grants: the paths that are granted now, which each probe tries, too.
    """

    def __init__(
        self,
        loop: Loop,
        record: Record,
        ask: Callable[[bytes, int, int], object],
        known: Callable[[int, bool], object],
        policy: Callable[[], Policy | None],
        done: Callable[[Verdict], object],
        grants: Callable[[], list[str]] = list,
    ) -> None:
        self.loop, self.record = loop, record
        self.ask, self.known, self.policy, self.done, self.grants = ask, known, policy, done, grants
        self._output = bytearray()
        self._reader = -1
        self._go = -1
        self._pid = 0
        self._late: Timer | None = None
        self._again = False

    @property
    def running(self) -> bool:
        return self._reader >= 0

    def run(self) -> None:
        """Start a probe, or another after the one that runs."""
        if self._reader >= 0:
            self._again = True
            return
        policy = self.policy()
        if policy is None:
            return
        recorder = os.path.join(os.path.dirname(self.record.exit), "nd7-record")
        python = [launcher.interpreter(), "-IS", "-c", PROGRAM, *paths(self.record, policy), str(PORT)]
        python += [recorder, payload(self.record.pid)]
        grants = self.grants()[-MOST_GRANTS:]
        while len(asked := json.dumps([self.record.exit, "-c", shlex.join([*python, *grants])]).encode()) > LONGEST:
            if not grants:
                return  # paths of some ten thousand characters: what cannot be asked is not known
            grants = grants[1:]
        self._reader, writer = os.pipe()
        wait, self._go = os.pipe()
        os.set_blocking(self._reader, False)
        self._output.clear()
        self.ask(asked, writer, wait)
        os.close(writer)
        os.close(wait)
        self.loop.watch(self._reader, self._read)
        self._late = self.loop.later(SECONDS, self._finish)

    def started(self, pid: int) -> None:
        """The zygote has forked the probe."""
        if self._go >= 0:
            self._pid = pid
            self.known(pid, True)
            os.close(self._go)
            self._go = -1

    def _read(self) -> None:
        try:
            data = os.read(self._reader, 4096)
        except (BlockingIOError, InterruptedError):
            return
        self._output += data[: max(0, 65536 - len(self._output))]
        if not data:
            self._finish()

    def _finish(self) -> None:
        if self._reader < 0:
            return
        if self._late:
            self._late.cancel()
        self.loop.forget(self._reader)
        os.close(self._reader)
        if self._go >= 0:
            os.close(self._go)
        self._reader = self._go = -1
        if self._pid:
            self.known(self._pid, False)
            self._pid = 0
        policy = self.policy()
        if self._again:
            self._again = False
            self.run()
        elif policy is not None:
            self.done(judge(bytes(self._output), expected(self.record, policy)))


def body(verdict: Verdict) -> dict[str, object]:
    """What the scribe makes the canary's frame and the record's `canary` of."""
    return {
        "state": verdict.state,
        "checks": verdict.found,
        "wrong": list(verdict.wrong),
        "hook": verdict.hook,
        "ts": time.time_ns(),
    }
