"""The supervisor's side of nd7-exec: whose command is it, and under which rules.

Everything that decides is here, outside the sandbox: the caller's pid comes from the kernel, the policy from
`policy.sb` as it stands when the call arrives.  The connection goes on to the zygote only after the ruleset it is to
be run under, through the same ordered stream, so no command can overtake a change of the policy.
"""

from __future__ import annotations

import os
import socket
from collections.abc import Callable

from nd7core.errors import Nd7Error
from nd7core.policy import Policy, compile_linux, parse
from nd7core.policy.rules import LinuxRules
from nd7exec import processes
from nd7exec.linux import confinement
from nd7exec.wire import Link

LARGEST_POLICY = 4 << 20


class Refusal(Exception):
    """Why a command is not run: the text that nd7-exec prints behind its name."""


class PolicyFile:
    """`policy.sb`, compiled; read again whenever the file is another."""

    def __init__(self, path: str) -> None:
        self.path = path
        self._key: tuple[int, ...] | None = None
        self._rules: LinuxRules | None = None
        self.policy: Policy | None = None

    def rules(self) -> LinuxRules:
        """What the file says now.  Raises Refusal."""
        try:
            fd = os.open(self.path, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
        except FileNotFoundError:
            raise Refusal("session has no policy.sb") from None
        except OSError as error:
            raise Refusal(f"read {self.path}: {error.strerror}") from None
        try:
            stat = os.fstat(fd)
            # A writer replaces the file, so it is another inode; one who edits it in place changes time and size.
            key = (stat.st_dev, stat.st_ino, stat.st_size, stat.st_mtime_ns, stat.st_ctime_ns)
            if key == self._key and self._rules is not None:
                return self._rules
            data = b""
            while part := os.read(fd, LARGEST_POLICY + 1 - len(data)):
                data += part
        except OSError as error:
            raise Refusal(f"read {self.path}: {error.strerror}") from None
        finally:
            os.close(fd)
        if len(data) > LARGEST_POLICY:
            raise Refusal(f"read {self.path}: larger than {LARGEST_POLICY} bytes")
        try:
            self.policy = parse(data)
            self._rules = compile_linux(self.policy)
        except Nd7Error as error:
            self._key = self._rules = None
            raise Refusal(f"apply session policy: {error.message}") from None
        self._key = key
        return self._rules


class Broker:
    """Hands connections to the zygote, each under the policy of its moment.

    Attributes:
        agents: children of the zygote whose commands get the current policy: the agent, the canary.
        gone: why nothing can be started any more, or "".
    """

    def __init__(
        self,
        policy: PolicyFile,
        link: Link,
        held: confinement.Session,
        shell: str,
        changed: Callable[[LinuxRules], object],
    ) -> None:
        self.policy = policy
        self.link = link
        self.held = held
        self.changed = changed
        self.shell = shell
        self.agents: set[int] = set()
        self.gone = ""
        self._rules: LinuxRules | None = None
        self._ruleset: confinement.Ruleset | None = None

    def send(self, kind: bytes, rules: LinuxRules) -> confinement.Ruleset:
        """Give the zygote a ruleset: `F`, the agent's own, or `R`, the commands'.  Raises OSError or Nd7Error."""
        held = self.held
        ruleset = confinement.Ruleset(rules, held.namespaced, held.abi, root_fd=held.root_fd, terminal=held.terminal)
        try:
            self.link.send(kind, fds=[ruleset.fd])
        finally:
            ruleset.close()
        return ruleset

    def refresh(self) -> None:
        """See that the zygote has the ruleset of the policy as it stands.  Raises Refusal."""
        rules = self.policy.rules()
        known = self._rules
        try:
            if known == rules and self._ruleset is not None and not self._ruleset.stale():
                return
            # Before the ruleset is sent: what it allows must be writable for the mounts by then.
            confinement.widen(self.held, rules)
            self._ruleset = self.send(b"R", rules)
        except (OSError, Nd7Error) as error:
            self._rules = None
            reason = error.message if isinstance(error, Nd7Error) else error.strerror or str(error)
            raise Refusal(f"apply session policy: {reason}") from None
        self._rules = rules
        if known is not None and known != rules:
            self.changed(rules)

    def command(self, caller: int, connection: socket.socket) -> None:
        """A client has called.  Its connection is handed on, or answered and closed."""
        with connection:
            try:
                if self.gone or self.link.closed:
                    raise Refusal(self.gone or "the session's supervisor is gone")
                top = processes.reached_through(caller, self.held.zygote_pid)
                if top not in self.agents:
                    # A command's own nd7-exec, or one that cannot be told from it: it keeps what confines it already.
                    self.answer(connection, b"N" + os.fsencode(self.shell))
                    return
                self.refresh()
            except Refusal as refusal:
                self.answer(connection, b"E" + str(refusal).encode("utf-8", "surrogateescape"))
                return
            try:
                self.link.send(b"X", f"{caller} {top}".encode(), [connection.fileno()])
            except OSError as error:
                self.answer(connection, f"Eapply session policy: {error.strerror}".encode())

    def answer(self, connection: socket.socket, data: bytes) -> None:
        """Say something short to a client and be done with it."""
        try:
            connection.send(data, socket.MSG_DONTWAIT | socket.MSG_NOSIGNAL)
        except OSError:
            return  # it has gone
