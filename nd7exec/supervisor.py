"""`nd7 run`: the unconfined process that a session belongs to.

One process, one thread, one event loop.  It relays the terminal, answers the session's filter, decides about
commands, and ends what it began; anything that could take long is another process's work (`scribe`), and it never
waits for a process under the filter, because that process may be waiting for it.

    supervisor ─ warden ─ zygote ─┬─ agent   [floor]
        └─ scribe                 └─ commands [policy.sb]
"""

from __future__ import annotations

import contextlib
import os
import resource
import signal
import socket
import time
from collections.abc import Callable
from dataclasses import replace

from nd7core import sessions
from nd7core.errors import Nd7Error
from nd7core.paths import Places
from nd7core.policy import build, compile_linux
from nd7core.policy.rules import LinuxRules
from nd7exec import claims, prctl, processes, staff
from nd7exec.broker import Broker, PolicyFile, Refusal
from nd7exec.claims import Untrue
from nd7exec.client import EXEC, RECORD
from nd7exec.console import Console, noted
from nd7exec.health import BLIND
from nd7exec.lifecycle import Session, headline
from nd7exec.linux import audit, confinement
from nd7exec.logbook import Logbook
from nd7exec.loop import Loop, Timer
from nd7exec.observed import Command, Observed
from nd7exec.proofs import Proofs
from nd7exec.staff import END_SECONDS, Colleague
from nd7exec.wire import Message

MAY_BE_IGNORED = (signal.SIGHUP, signal.SIGINT, signal.SIGQUIT, signal.SIGTERM, signal.SIGUSR1, signal.SIGUSR2)
GRACE_SECONDS = 5.0  # between a signal that asks the agent to end and the one that does
TEND_SECONDS = 2.0
MOST_UNSAID = 20
FORWARDED = (signal.SIGTERM, signal.SIGHUP, signal.SIGINT, signal.SIGQUIT)
HANDLED = (*FORWARDED, signal.SIGWINCH, signal.SIGCHLD, signal.SIGCONT, signal.SIGTSTP, signal.SIGUSR1, signal.SIGUSR2)


class Supervisor:
    """One session, from its directory's making to its removal.

    Args:
        session: what `lifecycle.prepare` decided.
        fds: which of 0, 1, 2 are terminals and are replaced by the session's own.
        say: writes one line to the person.
        pty: the session is detached and has a terminal of its own.

    Attributes:
        started: called once the agent runs.
        again: the agent's session that is to be resumed in a session of the same pid, once this one has ended, or "".
    """

    def __init__(
        self, session: Session, places: Places, fds: frozenset[int], say: Callable[[str], None], *, pty: bool = False
    ) -> None:
        self.session = session
        self.places = places
        self.loop = Loop()
        self.pid = os.getpid()
        self.started: Callable[[], None] = lambda: None
        self.again = ""
        self.console = Console(
            self.loop,
            fds,
            detached=pty,
            hung_up=lambda: self.stop(signal.SIGHUP),
            about=self.about,
            restart=self.restart,
        )
        self.notifier: confinement.Notifier | None = None
        self.broker: Broker | None = None
        self.proofs: Proofs | None = None
        self.observed: Observed | None = None
        self.audit_switch = -1
        self.to_warden: Colleague | None = None
        self.to_zygote: Colleague | None = None
        self.log = Logbook(self.loop, session, places, HANDLED, self.say, self.granted_now)
        self.agent = self.agent_start = self.zygote = self.warden = 0
        self.status: int | None = None
        self.asked_by = 0
        self.problem = ""
        self.ending = self.ended = False
        self.directory = ""
        self.deadline: Timer | None = None
        self.floor = LinuxRules()
        self._say, self._unsaid = say, list[str]()
        self._wakeup, self._wakeup_end = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)

    def say(self, line: str) -> None:
        """Tell the person: at once, or after the end where the session has the screen."""
        if self.agent and self.console.shown:
            self._unsaid.append(line)
            del self._unsaid[:-MOST_UNSAID]
        else:
            self._say(line)

    # Start

    def run(self) -> int:
        """The whole session.  Returns PROGRAM's exit status, 128+n for signal n.  Raises Nd7Error before it began."""
        policy = build(self.session.record)
        self.directory = sessions.create(self.places, self.session.record, policy)
        limit = staff.raise_limit()
        try:
            if self.session.kernel_records:
                self.audit_switch = audit.switch_on()
            self.start(limit)
            while not self.ended:
                self.loop.turn()
        except OSError as error:
            raise Nd7Error(f"the session was ended: {error.strerror or error}", exit_code=126) from error
        finally:
            self.finish()
            resource.setrlimit(resource.RLIMIT_NOFILE, limit)
        if self.problem:
            raise Nd7Error(self.problem, exit_code=126)
        return self.exit_status()

    def exit_status(self) -> int:
        """PROGRAM's, as a shell would tell it."""
        if self.status is None:
            return 128 + self.asked_by
        if os.WIFSIGNALED(self.status):
            return 128 + os.WTERMSIG(self.status)
        return os.WEXITSTATUS(self.status)

    def start(self, limit: tuple[int, int]) -> None:
        """Fork what there is, take over what the zygote made, and start the agent.

        Args:
            limit: RLIMIT_NOFILE as the person had it.
        """
        self.floor = replace(compile_linux(build(self.session.record, grants=False)), private=self.session.private)
        prctl.set_subreaper()
        signal.set_wakeup_fd(self._wakeup_end, warn_on_full_buffer=False)
        # What nohup or a script's `&` has had ignored stays so, for this process and for the agent.
        ignored = frozenset(number for number in MAY_BE_IGNORED if signal.getsignal(number) == signal.SIG_IGN)
        for number in HANDLED:
            if number not in ignored:
                signal.signal(number, noted)
        for number in (signal.SIGTTOU, signal.SIGPIPE):
            signal.signal(number, signal.SIG_IGN)
        self.log.start(self.directory)
        plan = staff.planned(self.session, self.floor, self.console.replaced, limit, ignored)
        household = staff.Household(plan, self.sweep, HANDLED)
        self.warden, self.zygote = household.warden, household.zygote
        self.to_warden = Colleague(self.loop, household.to_warden, self.from_warden, self.warden_gone)
        self.to_zygote = Colleague(self.loop, household.to_zygote, self.from_zygote, self.zygote_died)
        self.enter(confinement.take(self.zygote, household.offered, household.take_back))
        os.close(household.offered)
        os.close(household.take_back)
        self.to_warden.watch()
        self.to_zygote.watch()
        self.loop.watch(self._wakeup, self.on_signals)

    def enter(self, held: confinement.Session) -> None:
        """The zygote has confined itself: serve its filter, give it its rulesets, and let the agent start."""
        assert self.to_zygote is not None
        self.notifier = confinement.Notifier(
            held.listener_fd,
            self.rendezvous,
            self.refused,
            rules=self.floor,
            membership=held.membership(),
            terminal=held.terminal,
        )
        self.loop.watch(self.notifier.fileno(), self.notifier.handle)
        if held.master_fd is not None:
            self.console.open(held.master_fd, self.directory)
        policy = PolicyFile(os.path.join(self.directory, "policy.sb"))
        self.broker = Broker(policy, self.to_zygote.link, held, self.session.shell, self.policy_changed)
        self.broker.send(b"F", self.floor)
        try:
            self.broker.refresh()
        except Refusal as refusal:
            raise Nd7Error(str(refusal), exit_code=126) from None
        self.proofs = Proofs(
            self.loop, self.session, self.broker, self.ask_zygote, self.log.note, self.log.update, self.say
        )
        self.observed = Observed(self.loop, self.zygote, self.log.observe, calls=self.session.kernel_records)
        if not self.observed.listen():
            held.enforced["kernel records"] = self.observed.what
        self.log.update({"enforced": held.enforced})
        self.say(headline(self.session.record, held))
        for note in self.session.notes:
            self.say(note)
        self.to_zygote.tell(b"A")

    # What the others say

    def from_warden(self, message: Message) -> None:
        if message.kind == b"D":
            pid, status = map(int, message.body.split())
            if pid == self.agent:
                self.agent_ended(status)
            elif pid == self.zygote:
                self.zygote_died()
        elif message.kind == b"E":
            self.all_gone()

    def warden_gone(self) -> None:
        if not self.ended and self.status is None:
            self.problem = "the session's warden was killed, so the session was ended"
        self.all_gone()

    def from_zygote(self, message: Message) -> None:
        try:
            self.heard(message)
        except ValueError as error:
            why = f"the process that starts commands is not to be trusted: {error}"
            self.problem = self.problem or f"{why}; the session was ended"
            self.log.note("nd7:supervisor", "gap", {"text": why})
            if self.broker:
                self.broker.gone = why
            self.end()

    def heard(self, message: Message) -> None:
        """What the zygote says.  Raises ValueError where it cannot be so."""
        if message.kind == b"A":
            if self.broker is None or self.broker.agents:
                raise Untrue("it told of another agent")
            found = claims.child(message.body, self.zygote)
            self.agent_started(int(message.body) if found else 0, found.start if found else 0)
        elif message.kind == b"a":
            self.agent_ended(claims.status(message.body))
        elif message.kind == b"s":
            # Not at the end: there it is the warden that stops everything, before it kills it.
            if not self.ending and not self.console.suspend():
                self.signal_agent(signal.SIGCONT)
        elif message.kind == b"b" and self.observed:
            pid, started, by_agent, probe, text = message.body.split(b" ", 4)
            command = Command(claims.number(started), by_agent == b"1", text, probe == b"1")
            self.observed.started(claims.number(pid), command)
        elif message.kind == b"c" and self.observed:
            ended = self.observed.ended(claims.number(message.body))
            # nd7's own probe uses up no grant for one command, and no hook tells of it.
            if ended and not ended.canary:
                self.log.command(ended.started, ended.by_agent, ended.text)
        elif message.kind == b"P" and self.proofs and self.observed:
            if claims.child(message.body, self.zygote):
                self.observed.canaries.add(int(message.body))
                self.proofs.canary.started(int(message.body))
        elif message.kind == b"N":
            self.problem = message.body.decode("utf-8", "replace")

    def granted_now(self, grants: list[tuple[str, int]]) -> None:
        """Grants were given or taken back: try them at once, for the person wants to see them take hold."""
        if self.proofs:
            self.proofs.granted_now(grants)
            self.refresh()
            self.proofs.run()

    def ask_zygote(self, body: bytes, output: int, go: int) -> None:
        """Start a canary."""
        if self.to_zygote:
            self.to_zygote.tell(b"P", body, (output, go))

    # The session's life

    def agent_started(self, pid: int, start: int) -> None:
        """The agent runs, or has ended already (0): what it was is told then."""
        self.agent, self.agent_start = pid, start
        if pid and self.broker and self.observed:
            self.broker.agents.add(pid)
            self.observed.agents.add(pid)
        self.started()
        self.loop.later(TEND_SECONDS, self.tend)
        if self.proofs:
            self.proofs.run()

    def agent_ended(self, status: int) -> None:
        self.agent = 0
        if self.status is None and not self.ending:  # else it was ended by us, and the reason for that counts
            self.status = status
            self.end()

    def zygote_died(self) -> None:
        """Somebody has killed it: nothing starts any more, and what it had started goes."""
        if self.broker is None or not self.agent:
            if self.status is None:
                self.problem = self.problem or "the session could not be started"
            self.end()
        elif not self.broker.gone and not self.ending:  # an ending session's zygote was killed by us: no gap, no alarm
            self.broker.gone = "the session's command starter was killed: start the session again"
            why = "the process that starts commands was killed"
            self.log.note("nd7:supervisor", "gap", {"text": why})
            self.log.update({"canary": {"state": BLIND, "checks": {}, "wrong": [why], "ts": time.time_ns()}})
            if self.to_warden:
                self.to_warden.tell(b"K", str(self.agent).encode())

    def policy_changed(self, rules: LinuxRules) -> None:
        """The policy of the next command is another than the last one's."""
        if self.notifier:
            self.notifier.rules = rules
        if self.proofs:
            self.proofs.run()

    def refresh(self) -> None:
        """See that the zygote has the ruleset of the policy as it stands."""
        if self.broker and self.to_zygote and not self.broker.gone and not self.ending:
            with contextlib.suppress(Refusal):  # the next command is told why
                self.broker.refresh()
            self.to_zygote.watch()

    def tend(self) -> None:
        """See that what is in force fits what is there: a ~/.ssh that was made since the start is to be hidden."""
        self.refresh()
        self.log.tend()
        if not self.ending:
            self.loop.later(TEND_SECONDS, self.tend)

    def rendezvous(self, kind: int, caller: int, fd: int) -> None:
        """A process of the session has called socket(AF_UNIX, SOCK_STREAM, kind)."""
        connection = socket.socket(fileno=fd)
        if kind == EXEC and self.broker and self.to_zygote:
            self.broker.command(caller, connection)
            self.to_zygote.watch()
            return
        with connection:
            if kind == RECORD:
                self.log.payload(connection)

    def refused(self, refusal: confinement.Refusal) -> None:
        """The filter has refused something: an attempt, which the log keeps."""
        if self.proofs and self.observed and self.to_zygote and not self.proofs.own(refusal):
            self.to_zygote.read()  # it may have told of this command, and its word still wait here
            self.observed.attempt(refusal)

    def about(self) -> dict[str, object]:
        """What whoever attaches is told of the session."""
        record = self.session.record
        about: dict[str, object] = {"pid": record.pid, "name": record.name, "agent": record.agent}
        return {**about, "project": record.project, "terminal": self.console.shown}

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

    # Signals

    def on_signals(self) -> None:
        for number in os.read(self._wakeup, 4096):
            if number == signal.SIGCHLD:
                self.reap()
            elif number == signal.SIGWINCH:
                self.console.resize()
            elif number == signal.SIGCONT:
                self.console.resumed()
                self.signal_agent(signal.SIGCONT)
            elif number == signal.SIGTSTP:
                self.signal_agent(signal.SIGSTOP)
            elif number in (signal.SIGUSR1, signal.SIGUSR2):
                self.signal_agent(number)
            elif number in FORWARDED:
                self.stop(number)

    def reap(self) -> None:
        """Collect what has ended of ours; what it was is told by the links."""
        processes.reap_ended()

    def signal_agent(self, number: int) -> None:
        """Signal the agent's process group; it is our descendant's child and not reaped while `agent` is set."""
        if self.agent:
            claims.signal_group(self.agent, self.agent_start, number)

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

    # The end

    def end(self) -> None:
        """End everything in the session; `all_gone` comes when it is done."""
        if not self.ending:
            self.ending = self.log.over = True
            if self.proofs:
                self.proofs.stopped = True
            if self.to_warden:
                self.to_warden.tell(b"E")
            self.loop.later(END_SECONDS, self.all_gone)

    def all_gone(self) -> None:
        self.ended = True

    def sweep(self) -> None:
        """Remove the session's directory, put back audit; also what the warden does when this process was killed."""
        if self.session.kernel_records:
            audit.let_go()
        with contextlib.suppress(Nd7Error, OSError):
            sessions.remove(self.places, self.pid)

    def finish(self) -> None:
        """Whatever happened: nothing of the session runs, its directory is gone, the terminal is as it was."""
        self.ending = self.ended = True
        try:
            if self.to_warden:
                # What the scribe has still to write into the record is remembered with it: not swept before that.
                self.to_warden.tell(b"Q")
                self.to_warden.close()
            processes.kill_all_below(self.pid, self.reap, spare={self.log.pid, self.warden})
            # A warden that was killed says its end before its children are ours: only now is nothing left with it.
            staff.wait_for(self.warden)
            processes.kill_all_below(self.pid, self.reap, spare={self.log.pid})
            self.console.drain(lambda: bool(self.asked_by))
        finally:
            self.console.close(None if self.again else self.exit_status())
        for line in self._unsaid:
            self._say(line)
        if self.observed:
            self.observed.close()
        if self.audit_switch >= 0:
            os.close(self.audit_switch)
            self.audit_switch = -1
        self.log.close()
        self.sweep()
        # Should the session begin again in this process, nothing of the old one may stay: descriptors hold mounts.
        if self.notifier:
            self.loop.forget(self.notifier.fileno())
            self.notifier.close()
        if self.broker:
            self.broker.held.close()
        if self.to_zygote:
            self.to_zygote.close()
        self.loop.close()
        signal.set_wakeup_fd(-1)
        os.close(self._wakeup)
        os.close(self._wakeup_end)
