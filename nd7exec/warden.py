"""The warden: a small unconfined process between the supervisor and the session, so that nothing outlives either.

It is the subreaper of everything in the session: a daemon that has left its command, its group and its terminal still
becomes the warden's child (or the zygote's, and the warden's after that).  It ends them all when the
supervisor says so, and also when the supervisor has gone without a word, by SIGKILL or a crash, and
then removes the session's directory too.  The session's own processes cannot signal it: it lies outside their
Landlock scope.

Three nets: the supervisor is a subreaper as well, for a warden that was killed; and the zygote is one, for both, and
ends what is below it before itself.  Commands die with the zygote.
"""

from __future__ import annotations

import os
import select
import signal
from collections.abc import Callable
from typing import NoReturn

from nd7exec import prctl, processes, zygote
from nd7exec.commands import Plan
from nd7exec.wire import Link

IGNORED = (signal.SIGHUP, signal.SIGINT, signal.SIGQUIT, signal.SIGTERM, signal.SIGTSTP, signal.SIGTTOU, signal.SIGPIPE)


class Warden:
    """The loop.  To the supervisor: `Z` pid, `D` pid status, `E` all gone.  From it: `K` pid to spare, `E`, `Q`.

    Attributes:
        sweeps: the supervisor did not say (`Q`) that it removes the session's directory itself: it was killed.
    """

    def __init__(self, link: Link) -> None:
        self.link = link
        self.sweeps = True

    def reap(self) -> None:
        for pid, status in processes.reap_ended():
            self.link.send(b"D", f"{pid} {status}".encode())

    def serve(self, wakeup: int) -> None:
        poll = select.poll()
        poll.register(self.link, select.POLLIN)
        poll.register(wakeup, select.POLLIN)
        while True:
            poll.register(self.link, select.POLLIN | (select.POLLOUT if self.link.pending else 0))
            for fd, _ in poll.poll():
                if fd == wakeup:
                    os.read(wakeup, 4096)
            self.link.flush()
            self.reap()
            while message := self.link.receive():
                if message.kind == b"K":
                    processes.kill_all_below(os.getpid(), self.reap, spare={int(message.body)})
                elif message.kind == b"E":
                    processes.kill_all_below(os.getpid(), self.reap)
                    self.link.send(b"E")
                elif message.kind == b"Q":
                    self.sweeps = False
            if self.link.closed:
                return


def main(link: Link, plan: Plan, to_zygote: Link, sweep: Callable[[], None]) -> NoReturn:
    """The forked process's whole life: fork the zygote, watch, end everything, and `sweep` the session's directory."""
    try:
        os.setsid()
        prctl.set_subreaper()
        pid = os.fork()
        if pid == 0:
            link.socket.close()
            zygote.main(to_zygote, plan)
        prctl.set_title("nd7 warden")
        to_zygote.socket.close()
        null = os.open(os.devnull, os.O_RDWR)
        for fd in (0, 1, 2):  # a pipe that stayed open here would keep its reader waiting
            os.dup2(null, fd)
        for number in IGNORED:
            signal.signal(number, signal.SIG_IGN)
        wakeup, write = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
        signal.set_wakeup_fd(write, warn_on_full_buffer=False)
        signal.signal(signal.SIGCHLD, lambda *_: None)
        link.send(b"Z", str(pid).encode())
        own = Warden(link)
        own.serve(wakeup)
        processes.kill_all_below(os.getpid(), processes.reap_ended)
        if own.sweeps:
            sweep()
    finally:
        os._exit(0)
    raise AssertionError("not reached")
