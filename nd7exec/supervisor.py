"""`nd7 run`: the unconfined process that a session belongs to.

One process, one thread, one event loop.  It relays the terminal, answers the session's filter, decides about
commands, and ends what it began; anything that could take long is another process's work (`scribe`), and it never
waits for a process under the filter, because that process may be waiting for it.

    supervisor ─ warden ─ zygote ─┬─ agent   [floor]
        └─ scribe                 └─ commands [policy.sb]
"""

from __future__ import annotations

import contextlib
import errno
import json
import os
import resource
import select
import signal
import socket
import sys
import termios
import time
from collections.abc import Callable
from dataclasses import replace
from types import FrameType

from nd7core import sessions
from nd7core.errors import Nd7Error
from nd7core.paths import Places
from nd7core.policy import build, compile_linux
from nd7core.policy.rules import LinuxRules
from nd7core.record import Record
from nd7core.text import safe
from nd7exec import prctl, processes, scribe, warden, wire, zygote
from nd7exec.broker import Broker, PolicyFile, Refusal
from nd7exec.canary import PORT, Canary, Verdict, body
from nd7exec.client import EXEC, RECORD
from nd7exec.hold import Host
from nd7exec.lifecycle import Session
from nd7exec.linux import confinement
from nd7exec.loop import Loop, Timer
from nd7exec.relay import Relay
from nd7exec.screen import LocalScreen
from nd7exec.terminal import DEFAULT_SIZE, OuterTerminal, set_size
from nd7exec.wire import Link

MAY_BE_IGNORED = (signal.SIGHUP, signal.SIGINT, signal.SIGQUIT, signal.SIGTERM, signal.SIGUSR1, signal.SIGUSR2)
GRACE_SECONDS = 5.0  # between a signal that asks the agent to end and the one that does
END_SECONDS = 8.0
MOST_FILES = 1 << 16  # a thousand commands at once must not run out of descriptors
FORWARDED = (signal.SIGTERM, signal.SIGHUP, signal.SIGINT, signal.SIGQUIT)
HANDLED = (*FORWARDED, signal.SIGWINCH, signal.SIGCHLD, signal.SIGCONT, signal.SIGTSTP, signal.SIGUSR1, signal.SIGUSR2)


class Supervisor:
    """One session, from its directory's making to its removal.

    Args:
        session: what `lifecycle.prepare` decided.
        fds: which of 0, 1, 2 are terminals and are replaced by the session's own.
        say: writes one line to the person.
        started: called once the agent runs.
    """

    def __init__(
        self, session: Session, places: Places, fds: frozenset[int], say: Callable[[str], None], *, pty: bool = False
    ) -> None:
        self.session = session
        self.places = places
        self.say = say
        self.loop = Loop()
        self.pid = os.getpid()
        self.outer = OuterTerminal(fds) if fds else None
        self.terminal = frozenset((0, 1, 2)) if pty else fds
        self.relay: Relay | None = None
        self.local: LocalScreen | None = None
        self.notifier: confinement.Notifier | None = None
        self.broker: Broker | None = None
        self.host: Host | None = None
        self.canary: Canary | None = None
        self.granted: dict[str, tuple[int, bool | None]] = {}
        """What is granted: since when, and whether a command was seen to be able to write there."""
        self.started: Callable[[], None] = lambda: None
        self.wakeup, self.wakeup_end = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
        self.agent = 0
        self.zygote = 0
        self.scribe = 0
        self.scribe_failures = 0
        self.status: int | None = None
        self.asked_by = 0
        self.again = ""
        """The agent's session that is to be resumed in a session of the same pid, once this one has ended."""
        self.problem = ""
        self.ending = False
        self.ended = False
        self.directory = ""
        self.deadline: Timer | None = None
        self.floor = LinuxRules()
        self.warden = 0
        (warden_ours, self.warden_end), (zygote_ours, self.zygote_end) = wire.pair(), wire.pair()
        self.to_warden, self.to_zygote = Link(warden_ours), Link(zygote_ours)

    # Start

    def run(self) -> int:
        """The whole session.  Returns PROGRAM's exit status, 128+n for signal n.  Raises Nd7Error before it began."""
        policy = build(self.session.record)
        self.directory = sessions.create(self.places, self.session.record, policy)
        try:
            self.start()
            while not self.ended:
                self.loop.turn()
        except OSError as error:
            raise Nd7Error(f"the session was ended: {error.strerror or error}", exit_code=126) from error
        finally:
            self.finish()
        if self.problem:
            raise Nd7Error(self.problem, exit_code=126)
        return self.exit_status()

    def exit_status(self) -> int:
        if self.status is None:
            return 128 + self.asked_by
        if os.WIFSIGNALED(self.status):
            return 128 + os.WTERMSIG(self.status)
        return os.WEXITSTATUS(self.status)

    def start(self) -> None:
        floor = compile_linux(build(self.session.record, grants=False))
        self.floor = replace(floor, private=self.session.private)
        prctl.set_subreaper()
        signal.set_wakeup_fd(self.wakeup_end, warn_on_full_buffer=False)
        # What nohup or a script's `&` has had ignored stays so, for this process and for the agent.
        ignored = frozenset(number for number in MAY_BE_IGNORED if signal.getsignal(number) == signal.SIG_IGN)
        for number in HANDLED:
            if number not in ignored:
                signal.signal(number, _noted)
        for number in (signal.SIGTTOU, signal.SIGPIPE):
            signal.signal(number, signal.SIG_IGN)
        self.open_files = resource.getrlimit(resource.RLIMIT_NOFILE)
        most = self.open_files[1] if self.open_files[1] != resource.RLIM_INFINITY else MOST_FILES
        resource.setrlimit(resource.RLIMIT_NOFILE, (min(most, MOST_FILES), self.open_files[1]))
        self.start_scribe()
        self.offered, offer = os.pipe()
        taken, self.take_back = os.pipe()
        plan = zygote.Plan(
            program=self.session.program,
            argv=self.session.argv,
            environ=self.session.environ,
            cwd=self.session.record.project,
            floor=self.floor,
            shell=self.session.shell,
            offer=offer,
            taken=taken,
            terminal=self.terminal,
            umask=_umask(),
            open_files=self.open_files,
            ignored=ignored,
        )
        for stream in (sys.stdout, sys.stderr):
            if stream is not None:  # what is in the buffer would be written by each fork
                stream.flush()
        self.warden = os.fork()
        if self.warden == 0:
            _as_child(self.warden_end.fileno(), self.zygote_end.fileno(), offer, taken)
            warden.main(Link(self.warden_end), plan, Link(self.zygote_end), self.sweep)
        self.warden_end.close()
        self.zygote_end.close()
        os.close(offer)
        os.close(taken)
        self.zygote = self.first_word()
        self.enter()
        self.watch(self.to_warden, self.from_warden)
        self.watch(self.to_zygote, self.from_zygote)
        self.loop.watch(self.wakeup, self.on_signals)

    def first_word(self) -> int:
        """The zygote's pid, which the warden says first.  Blocks: nothing of ours is under the filter yet."""
        while not self.to_warden.closed:
            select.select([self.to_warden], [], [], END_SECONDS)
            message = self.to_warden.receive()
            if message:
                return int(message.body)
        raise Nd7Error("the session's warden could not be started", exit_code=126)

    def start_scribe(self) -> None:
        """Fork the log's writer.  Possible at any time, because this process has one thread."""
        self.scribe = 0
        ours, theirs = wire.pair()
        with theirs:
            try:
                self.scribe = os.fork()
            except OSError:
                ours.close()
                raise
            if self.scribe == 0:
                _as_child(theirs.fileno())
                scribe.main(Link(theirs), self.places, self.session, self.directory)
        self.to_scribe = Link(ours)
        self.watch(self.to_scribe, self.from_scribe)

    def start_scribe_again(self) -> None:
        """After its death: where nothing can be forked just now (the user's limit, memory), a second later again."""
        if self.ended or self.status is not None:
            return
        try:
            self.start_scribe()
        except OSError as error:
            if self.scribe_failures == 1:
                self.say(f"the audit log's writer died and cannot be started: {error.strerror}; trying on")
            self.scribe_failures += 1
            self.loop.later(1.0, self.start_scribe_again)
            return
        self.note("nd7:hooks", "gap", {"text": "the audit log's writer died and was started again"})

    def watch(self, link: Link, read: Callable[[], object]) -> None:
        """Watch a link; for writing too while it has something queued."""

        def flushed() -> None:
            link.flush()
            self.loop.watch(link.fileno(), read, flushed if link.pending else None)

        self.loop.watch(link.fileno(), read, flushed if link.pending else None)

    def tell(self, link: Link, kind: bytes, body: bytes = b"", fds: tuple[int, ...] = ()) -> None:
        link.send(kind, body, fds)
        self.rearm(link)

    def rearm(self, link: Link) -> None:
        reads = {id(self.to_warden): self.from_warden, id(self.to_zygote): self.from_zygote}
        if link.pending:
            self.watch(link, reads.get(id(link), self.from_scribe))

    # What the others say

    def from_warden(self) -> None:
        while message := self.to_warden.receive():
            if message.kind == b"D":
                pid, status = map(int, message.body.split())
                if pid == self.agent:
                    self.agent_ended(status)
                elif pid == self.zygote:
                    self.zygote_died()
            elif message.kind == b"E":
                self.all_gone()
        if self.to_warden.closed:
            self.loop.forget(self.to_warden.fileno())
            if not self.ended and self.status is None:
                self.problem = "the session's warden was killed, so the session was ended"
            self.all_gone()

    def from_zygote(self) -> None:
        while message := self.to_zygote.receive():
            if message.kind == b"A":
                self.agent_started(int(message.body))
            elif message.kind == b"a":
                self.agent_ended(int(message.body))
            elif message.kind == b"s":
                self.suspend()
            elif message.kind == b"c":
                self.tell(self.to_scribe, b"c", message.body)
            elif message.kind == b"P" and self.canary:
                self.canary.started(int(message.body))
            elif message.kind == b"N":
                self.problem = message.body.decode("utf-8", "replace")
        if self.to_zygote.closed:
            self.loop.forget(self.to_zygote.fileno())
            self.zygote_died()

    def from_scribe(self) -> None:
        while message := self.to_scribe.receive():
            if message.kind == b"!":
                self.say(message.body.decode("utf-8", "replace"))
            elif message.kind == b"g":
                self.granted_now(json.loads(message.body))
        if self.to_scribe.closed:
            self.loop.forget(self.to_scribe.fileno())
            self.loop.later(self.scribe_failures and 1.0, self.start_scribe_again)
            self.scribe_failures += 1

    def note(self, source: str, kind: str, body: dict[str, object]) -> None:
        """A frame of nd7's own in the session's log."""
        text = json.dumps(body, ensure_ascii=True).encode()
        if len(text) < wire.LIMIT - 256:
            self.tell(self.to_scribe, b"n", f"{source} {kind} ".encode() + text)

    # The session's life

    def enter(self) -> None:
        """The zygote has confined itself: take what it made for us, and let the agent start."""
        held = self.held = confinement.take(self.zygote, self.offered, self.take_back)
        self.notifier = confinement.Notifier(
            held.listener_fd, self.rendezvous, self.refused, rules=self.floor, membership=held.membership()
        )
        self.loop.watch(self.notifier.fileno(), self.notifier.handle)
        if held.master_fd is not None:
            self.open_terminal(held.master_fd)
        policy = PolicyFile(os.path.join(self.directory, "policy.sb"))
        self.broker = Broker(policy, self.to_zygote, held, self.session.shell, self.policy_changed)
        self.broker.send(b"F", self.floor)
        try:
            self.broker.refresh()
        except Refusal as refusal:
            raise Nd7Error(str(refusal), exit_code=126) from None
        self.tell(self.to_scribe, b"u", json.dumps({"enforced": held.enforced}).encode())
        self.say(headline(self.session.record, held))
        for note in self.session.notes:
            self.say(note)
        self.tell(self.to_zygote, b"A")

    def open_terminal(self, master: int) -> None:
        """Make the session's terminal like the outer one, and join the two."""
        self.relay = Relay(self.loop, master, self.resume_input)
        if self.outer:
            with contextlib.suppress(termios.error):
                termios.tcsetattr(master, termios.TCSANOW, self.outer.saved)
            set_size(master, self.outer.size())
            self.local = LocalScreen(self.loop, self.outer, self.relay)
            self.relay.viewers.append(self.local)
            self.outer.raw()
            self.resume_input()
        else:
            set_size(master, (*DEFAULT_SIZE, 0, 0))
        self.host = Host(self.loop, self.relay, self.directory, self.about, self.resize, self.restart)

    def about(self) -> dict[str, object]:
        """What whoever attaches is told of the session."""
        record = self.session.record
        return {"pid": record.pid, "name": record.name, "agent": record.agent, "project": record.project}

    def resume_input(self) -> None:
        """Read keys, unless the session has not taken the last ones yet."""
        if self.outer and self.outer.input is not None:
            full = self.relay is not None and self.relay.full
            ready = self.outer.in_foreground() and not full
            self.loop.watch(self.outer.input, self.keys if ready else None)

    def keys(self) -> None:
        if not self.outer or self.outer.input is None:
            return
        data = self.outer.read()
        if data == b"":
            self.loop.forget(self.outer.input)
            self.stop(signal.SIGHUP)
        elif data and self.relay:
            if self.host and self.host.active:
                self.host.active = None
                self.resize()
            self.relay.type(data)
            self.resume_input()

    def agent_started(self, pid: int) -> None:
        self.agent = pid
        if self.broker:
            self.broker.agents.add(pid)
            policy = self.broker.policy
            self.canary = Canary(
                self.loop,
                self.session.record,
                self.ask_zygote,
                self.canary_known,
                lambda: policy.policy,
                self.canary_done,
                lambda: list(self.granted),
            )
        self.started()
        self.run_canary()

    def agent_ended(self, status: int) -> None:
        self.agent = 0
        if self.status is None and not self.ending:  # else it was ended by us, and the reason for that counts
            self.status = status
            self.end()

    def zygote_died(self) -> None:
        """Somebody in the session has killed it: nothing starts any more, and what it had started goes."""
        if self.broker is None or not self.agent:
            if self.status is None:
                self.problem = self.problem or "the session could not be started"
            self.end()
        elif not self.broker.gone:
            self.broker.gone = "the session's command starter was killed: start the session again"
            self.note("nd7:supervisor", "gap", {"text": "the process that starts commands was killed from inside"})
            self.tell(self.to_warden, b"K", str(self.agent).encode())

    def policy_changed(self, rules: LinuxRules) -> None:
        """The policy of the next command is another than the last one's."""
        if self.notifier:
            self.notifier.rules = rules
        self.run_canary()

    def granted_now(self, grants: list[tuple[str, int]]) -> None:
        """A person has granted something or taken it back: try it at once, not only when the next command comes."""
        known = self.granted
        self.granted = {path: (created, None) for path, created in grants}
        self.granted |= {path: known[path] for path, created in grants if known.get(path, (0,))[0] == created}
        if self.broker and not self.broker.gone and not self.ending:
            with contextlib.suppress(Refusal):  # the next command is told why
                self.broker.refresh()
            self.run_canary()

    def run_canary(self) -> None:
        """Try the policy the whole way, a moment later: several changes at once are one."""
        if self.canary and not self.ending and not self.to_zygote.closed:
            self.canary.run()

    def ask_zygote(self, body: bytes, output: int, go: int) -> None:
        self.tell(self.to_zygote, b"P", body, (output, go))

    def canary_known(self, pid: int, alive: bool) -> None:
        if self.broker:
            (self.broker.agents.add if alive else self.broker.agents.discard)(pid)

    def canary_done(self, verdict: Verdict) -> None:
        if self.ending:  # killed with everything else, not blind
            return
        found = body(verdict)
        self.note("nd7:canary", "canary", found)
        for path, allowed in verdict.grants.items():
            created, known = self.granted.get(path, (0, allowed))
            if known is not allowed:
                self.granted[path] = (created, allowed)
                self.note("nd7:canary", "proof", {"path": path, "operation": "write", "allowed": allowed})
        self.tell(self.to_scribe, b"u", json.dumps({"canary": found}).encode())
        if verdict.state != "enforcing":
            self.say(f"the canary failed: {'; '.join(verdict.wrong)}")

    def rendezvous(self, kind: int, caller: int, fd: int) -> None:
        """A process of the session has called socket(AF_UNIX, SOCK_STREAM, kind)."""
        connection = socket.socket(fileno=fd)
        if kind == EXEC and self.broker:
            self.broker.command(caller, connection)
            self.rearm(self.to_zygote)
            return
        with connection:
            if kind == RECORD and not self.to_scribe.closed:
                # Should there be no descriptor left, the connection just ends: the hook says so.
                with contextlib.suppress(OSError):
                    self.tell(self.to_scribe, b"P", str(time.time_ns()).encode(), (connection.fileno(),))

    def refused(self, refusal: confinement.Refusal) -> None:
        """The filter has refused something: an attempt, which the log keeps."""
        if self.canary and self.canary.running and refusal.target.endswith(f":{PORT}"):
            return
        text = {"call": refusal.call, "kind": refusal.kind, "target": refusal.target, "pid": refusal.pid}
        more = {"errno": errno.errorcode.get(refusal.error, str(refusal.error)), "more": refusal.more}
        self.note("effect:nd7-broker", "attempt", {**text, **more})

    # Signals

    def on_signals(self) -> None:
        for number in os.read(self.wakeup, 4096):
            if number == signal.SIGCHLD:
                self.reap()
            elif number == signal.SIGWINCH:
                self.resize()
            elif number == signal.SIGCONT:
                self.resumed()
            elif number == signal.SIGTSTP:
                self.signal_agent(signal.SIGSTOP)
            elif number in (signal.SIGUSR1, signal.SIGUSR2):
                self.signal_agent(number)
            elif number in FORWARDED:
                self.stop(number)

    def reap(self) -> None:
        for pid, _ in processes.reap_ended():
            if pid == self.warden and not self.ended:
                self.loop.later(0, self.from_warden)

    def resize(self) -> None:
        if self.relay and self.relay.open and self.outer and not (self.host and self.host.active):
            set_size(self.relay.master, self.outer.size())

    def signal_agent(self, number: int) -> None:
        """Signal the agent's process group; it is our descendant's child and not reaped while `agent` is set."""
        if self.agent:
            with contextlib.suppress(OSError):
                os.killpg(self.agent, number)

    def stop(self, number: int) -> None:
        """Pass on a signal that asks to end; what does not end by itself is ended.  SIGINT and SIGQUIT only ask."""
        if number in (signal.SIGTERM, signal.SIGHUP):
            self.asked_by = self.asked_by or number
            if self.deadline is None:
                self.deadline = self.loop.later(GRACE_SECONDS, self.end)
        if self.agent:
            self.signal_agent(number)
            self.signal_agent(signal.SIGCONT)
        elif number in (signal.SIGTERM, signal.SIGHUP, signal.SIGINT):
            self.asked_by = self.asked_by or number
            self.end()

    def restart(self) -> str:
        """End the agent so that it comes back, resumed, under a floor that has the grants.  Why not, or "".

        Called from outside the sandbox only: by whoever may attach.
        """
        try:
            record = sessions.load(self.places, self.pid).record
        except Nd7Error as error:
            return error.message
        if record is None or not record.conversation or record.agent != "claude":
            return "only an agent that can resume its own session can be restarted, once it has begun one"
        if self.ending or not self.agent:
            return "the session is ending"
        self.again = record.conversation
        self.stop(signal.SIGTERM)
        return ""

    def suspend(self) -> None:
        """The agent has stopped: so do we, and the person's shell has its terminal again."""
        if self.outer and self.outer.in_foreground():
            self.outer.restore()
            os.kill(self.pid, signal.SIGSTOP)

    def resumed(self) -> None:
        if self.outer:
            self.outer.raw()
            self.resume_input()
            self.resize()
        self.signal_agent(signal.SIGCONT)

    # The end

    def end(self) -> None:
        """End everything in the session; `all_gone` comes when it is done."""
        if not self.ending:
            self.ending = True
            self.tell(self.to_warden, b"E")
            self.loop.later(END_SECONDS, self.all_gone)

    def all_gone(self) -> None:
        self.ended = True

    def sweep(self) -> None:
        """Remove the session's directory; also what the warden does when this process has been killed."""
        with contextlib.suppress(Nd7Error, OSError):
            sessions.remove(self.places, self.pid)

    def finish(self) -> None:
        """Whatever happened: nothing of the session runs, its directory is gone, the terminal is as it was."""
        try:
            self.to_warden.close()
            processes.kill_all_below(self.pid, self.reap, spare={self.scribe, self.warden})
            # A warden that was killed says its end before its children are ours: only now is nothing left with it.
            self.wait_for(self.warden)
            processes.kill_all_below(self.pid, self.reap, spare={self.scribe})
            if self.relay:
                self.drain()
            if self.host:
                self.host.end(None if self.again else self.exit_status())
        finally:
            if self.outer:
                self.outer.restore()
        if self.scribe:
            self.to_scribe.send(b"E")
            self.wait_for(self.scribe)
        self.sweep()
        self.loop.close()
        signal.set_wakeup_fd(-1)
        os.close(self.wakeup)
        os.close(self.wakeup_end)

    def drain(self) -> None:
        """Show what the session wrote last: its terminal is closed by now, so there is an end to it."""
        if self.relay is None:
            return
        end = time.monotonic() + 1.0
        while self.relay.open and time.monotonic() < end:
            if not self.relay.read():
                time.sleep(0.005)
        while self.local and self.local.backlog and not self.asked_by:
            self.loop.turn()

    def wait_for(self, pid: int) -> None:
        """Wait until a child of ours is gone, for END_SECONDS at most; then it is killed."""
        end = time.monotonic() + END_SECONDS
        while pid:
            try:
                if os.waitpid(pid, os.WNOHANG)[0]:
                    return
            except OSError as error:
                if error.errno != errno.ECHILD:
                    raise
                return
            if time.monotonic() > end:
                os.kill(pid, signal.SIGKILL)
            time.sleep(0.005)


def headline(record: Record, held: confinement.Session) -> str:
    """The line that says which session this is and what is in force."""
    where = record.project
    if where == record.home or where.startswith(record.home + "/"):
        where = "~" + where[len(record.home) :]
    what = record.agent or os.path.basename(record.program[0])
    mounts = "mounts masked and read-only, " if held.namespaced else ""
    force = f"files and TCP by Landlock {held.abi}, {mounts}UDP and sockets by seccomp"
    missing = f"; not in force: {'; '.join(held.missing)}" if held.missing else ""
    carried = f"; granted from before, for its own tools, too: {', '.join(g.path for g in record.grants)}"
    return safe(f"session {record.pid} ({what} in {where}): {force}{missing}{carried if record.grants else ''}")


def _noted(_number: int, _frame: FrameType | None) -> None:
    """A handler must be there, or the signal would have its default effect; the wakeup pipe carries the number."""


def _umask() -> int:
    value = os.umask(0o077)
    os.umask(value)
    return value


def _as_child(*keep: int) -> None:
    """In a forked process of ours: nothing of the supervisor's stays open but 0, 1, 2 and `keep`."""
    signal.set_wakeup_fd(-1)
    for number in HANDLED:
        signal.signal(number, signal.SIG_DFL)
    kept = {0, 1, 2, *keep}
    for name in os.listdir("/proc/self/fd" if os.path.isdir("/proc/self/fd") else "/dev/fd"):
        if int(name) not in kept:
            with contextlib.suppress(OSError):  # the listing's own descriptor is closed already
                os.close(int(name))
