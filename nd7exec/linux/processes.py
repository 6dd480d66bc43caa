"""Calls on other processes: limits, priorities and, where Landlock has no scopes, signals."""

from __future__ import annotations

import errno
import os
import signal

from nd7exec.linux import syscalls
from nd7exec.linux.asked import GO_ON, Call, Desk, Reply, fail, signed
from nd7exec.linux.membership import Membership, thread_group


class Processes:
    """The decisions about processes.  Their arguments are numbers, so going on is safe."""

    def __init__(self, desk: Desk, membership: Membership) -> None:
        self._desk, self._membership = desk, membership

    def first(self, call: Call) -> Reply:
        """prlimit(2) and sched_set*(2), whose first argument is a process."""
        return self._process(call, call.args[0])

    def second(self, call: Call) -> Reply:
        """setpriority(2) and ioprio_set(2), whose second is."""
        return self._process(call, call.args[1])

    def _process(self, call: Call, pid: int) -> Reply:
        pid = signed(pid)
        if self._membership.contains(pid) and self._desk.valid(call):
            return GO_ON
        return self._desk.refuse(call, "process", str(pid), errno.EPERM)

    def kill(self, call: Call) -> Reply:
        """kill(2), only asked about where Landlock has no signal scope."""
        pid, number = signed(call.args[0]), signed(call.args[1])
        if pid > 0:
            return self._signal(call, pid, number)
        if pid < -1 and self._membership.group_inside(-pid) and self._desk.valid(call):
            return GO_ON
        return self._desk.refuse(call, "signal", str(pid), errno.EPERM)

    def _signal(self, call: Call, pid: int, number: int) -> Reply:
        """Send it ourselves, through a descriptor, so that the pid cannot become another process meanwhile."""
        try:
            pidfd = os.pidfd_open(thread_group(pid) or pid)
        except OSError as error:
            return fail(errno.ESRCH if error.errno in (errno.ESRCH, errno.EINVAL) else errno.EPERM)
        try:
            if not self._membership.contains(pid) or not self._desk.valid(call):
                return self._desk.refuse(call, "signal", str(pid), errno.EPERM)
            signal.pidfd_send_signal(pidfd, number)
        finally:
            os.close(pidfd)
        return Reply()

    def tgkill(self, call: Call) -> Reply:
        """tgkill(2), rt_tgsigqueueinfo(2)."""
        group = signed(call.args[0])
        if self._desk.valid(call) and (group == thread_group(call.pid) or self._membership.contains(group)):
            return GO_ON
        return self._desk.refuse(call, "signal", str(group), errno.EPERM)

    def tkill(self, call: Call) -> Reply:
        """tkill(2), rt_sigqueueinfo(2)."""
        pid = signed(call.args[0])
        if self._membership.contains(pid) and self._desk.valid(call):
            return GO_ON
        return self._desk.refuse(call, "signal", str(pid), errno.EPERM)

    def pidfd_send_signal(self, call: Call) -> Reply:
        """pidfd_send_signal(2): whose the descriptor is, is looked up on a duplicate, which is then used."""
        pidfd = self._desk.pidfd(call)
        try:
            target = syscalls.pidfd_getfd(pidfd, call.args[0] & 0xFFFFFFFF)
        finally:
            os.close(pidfd)
        try:
            fields = syscalls.read_file(f"/proc/self/fdinfo/{target}").split()
            pid = int(fields[fields.index(b"Pid:") + 1])
            if not self._membership.contains(pid) or not self._desk.valid(call):
                return self._desk.refuse(call, "signal", str(pid), errno.EPERM)
            signal.pidfd_send_signal(target, signed(call.args[1]))
        finally:
            os.close(target)
        return Reply()
