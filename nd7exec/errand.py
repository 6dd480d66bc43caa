"""One program run to its end before there is a session, confined as one is: what `nd7 run` must have done in a project.

A project's git runs what stands in the project: hooks, filters, a file system monitor.  All of it runs in here, behind
the same namespaces, filter and ruleset that a session is behind, and is gone when the program has ended.

    nd7 run ─ errand (serves the filter) ─ warden ─ zygote ─ program [floor]
"""

from __future__ import annotations

import os
import resource
import signal
from collections.abc import Mapping, Sequence
from types import FrameType
from typing import NoReturn

from nd7core.errors import Nd7Error
from nd7core.policy import build, compile_linux
from nd7core.policy.rules import LinuxRules
from nd7core.record import Record
from nd7exec import prctl, staff
from nd7exec.commands import Plan
from nd7exec.linux import confinement
from nd7exec.loop import Loop
from nd7exec.staff import Colleague
from nd7exec.wire import Message, write_all

MOST_OUTPUT = 64 * 1024
FAILED = 126
ENDING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)  # also where nd7 was started with one of them ignored


class _Asked(BaseException):
    """A signal asks the errand to end."""


def _asked(_number: int, _frame: FrameType | None) -> NoReturn:
    raise _Asked


def run(
    program: str, argv: Sequence[str], environ: Mapping[str, str], record: Record, seconds: float
) -> tuple[int, str]:
    """Run a program under a record's floor, in its project, with no input.

    Args:
        program: absolute path.
        argv: with the name first.
        record: what it may write and read, as for a session; nothing is written of it anywhere.
        seconds: when to end it.

    Returns:
        Its exit status (128+n for signal n, 126 where it could not be confined, 124 where its time was up), and the end
        of what it wrote on stdout and stderr.

    Raises:
        OSError: nothing can be forked just now.
    """
    reader, writer = os.pipe2(os.O_CLOEXEC)
    parent = os.getpid()
    pid = os.fork()
    if pid == 0:
        _be_it(program, argv, environ, record, seconds, writer, parent)
    os.close(writer)
    said = b""
    with os.fdopen(reader, "rb", buffering=0) as pieces:
        try:
            while piece := pieces.read(MOST_OUTPUT):
                said = (said + piece)[-MOST_OUTPUT:]
        except BaseException:
            os.kill(pid, signal.SIGTERM)
            while pieces.read(MOST_OUTPUT):  # until nothing of it runs: whoever cleans up behind it must be alone
                continue
            raise
        finally:
            status = os.waitpid(pid, 0)[1]
    return os.waitstatus_to_exitcode(status) if os.WIFEXITED(status) else FAILED, said.decode("utf-8", "replace")


def _be_it(
    program: str,
    argv: Sequence[str],
    environ: Mapping[str, str],
    record: Record,
    seconds: float,
    output: int,
    parent: int,
) -> NoReturn:
    """The forked process: it confines the program, serves its filter, and exits with its status."""
    status = FAILED
    try:
        for number in ENDING:
            signal.signal(number, _asked)
        null = os.open(os.devnull, os.O_RDWR)
        prctl.set_parent_death_signal(signal.SIGTERM, parent)
        os.dup2(null, 0)
        os.dup2(output, 1)
        os.dup2(output, 2)
        staff.as_child((), ())
        prctl.set_subreaper()
        rules = compile_linux(build(record, grants=False))

        def plan(offer: int, taken: int) -> Plan:
            return Plan(
                program=program,
                argv=argv,
                environ=environ,
                cwd=record.project,
                floor=rules,
                shell="/bin/sh",
                offer=offer,
                taken=taken,
                umask=staff.umask(),
                open_files=resource.getrlimit(resource.RLIMIT_NOFILE),
            )

        status = _Errand(staff.Household(plan, lambda: None, ENDING), seconds).serve(rules)
    except Nd7Error as error:
        write_all(2, f"{error.message}\n".encode("utf-8", "backslashreplace"))
    except OSError as error:
        write_all(2, f"{error.strerror or error}\n".encode("utf-8", "backslashreplace"))
    except _Asked:
        status = 128 + signal.SIGTERM
    finally:
        os._exit(status)
    raise AssertionError("not reached")


class _Errand:
    """The loop of the process between the program and nd7."""

    def __init__(self, household: staff.Household, seconds: float) -> None:
        self.household = household
        self.seconds = seconds
        self.loop = Loop()
        self.status = FAILED
        self.ended = False

    def serve(self, rules: LinuxRules) -> int:
        """Let the program run, and end all that it started.  Returns its status."""
        household, loop = self.household, self.loop
        held = confinement.take(household.zygote, household.offered, household.take_back)
        notifier = confinement.Notifier(
            held.listener_fd,
            lambda kind, caller, fd: os.close(fd),  # no nd7-exec and no hook has anybody to talk to
            lambda refusal: None,
            rules=rules,
            membership=held.membership(),
            terminal=held.terminal,
        )
        loop.watch(notifier.fileno(), notifier.handle)
        self.to_warden = Colleague(loop, household.to_warden, self._from_warden, self._over)
        self.to_zygote = Colleague(loop, household.to_zygote, self._from_zygote, self._end)
        ruleset = confinement.Ruleset(rules, held.namespaced, held.abi, root_fd=held.root_fd, terminal=held.terminal)
        self.to_zygote.tell(b"F", fds=[ruleset.fd])
        ruleset.close()
        self.to_zygote.tell(b"A")
        self.to_warden.watch()
        loop.later(self.seconds, self._late)
        while not self.ended:
            loop.turn()
        return self.status

    def _from_zygote(self, message: Message) -> None:
        if message.kind == b"a":
            code = os.waitstatus_to_exitcode(int(message.body))
            self.status = code if code >= 0 else 128 - code
            self._end()
        elif message.kind == b"N":
            write_all(2, message.body + b"\n")

    def _from_warden(self, message: Message) -> None:
        if message.kind == b"E":
            self._over()

    def _late(self) -> None:
        self.status = 124
        self._end()

    def _end(self) -> None:
        self.to_warden.tell(b"E")
        self.loop.later(staff.END_SECONDS, self._over)

    def _over(self) -> None:
        self.ended = True
