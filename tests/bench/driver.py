"""Times commands from inside: reads one JSON command line a line, runs it, answers with nanoseconds and its status.

It is started plainly, or as the PROGRAM of `nd7 run`, so that what the two answer can be held against each other.
Two words are its own: ["allow", PATH] grants in this process, as the dashboard's key does, and ["quit"].
"""

import json
import os
import sys
import time


def run(argv: list[str], data: bytes) -> int:
    """One command from spawn to reaped; `data` is on its standard input."""
    read, write = os.pipe()
    os.write(write, data)
    os.close(write)
    null = os.open(os.devnull, os.O_WRONLY)
    moves = [(os.POSIX_SPAWN_DUP2, read, 0), (os.POSIX_SPAWN_DUP2, null, 1), (os.POSIX_SPAWN_DUP2, null, 2)]
    pid = os.posix_spawnp(argv[0], argv, os.environ, file_actions=moves)
    _, status = os.waitpid(pid, 0)
    os.close(read)
    os.close(null)
    return os.waitstatus_to_exitcode(status)


def allow(path: str) -> int:
    """The grant, by the function that the dashboard's key calls."""
    from nd7core import grants, sessions
    from nd7core.paths import places

    where = places()
    (session,) = sessions.live(where)
    grants.allow(where, session.pid, path)
    return 0


def main() -> None:
    for line in sys.stdin.buffer:
        argv, data = json.loads(line)
        if argv == ["quit"]:
            return
        began = time.perf_counter_ns()
        status = allow(argv[1]) if argv[0] == "allow" else run(argv, data.encode())
        taken = time.perf_counter_ns() - began
        sys.stdout.write(json.dumps([taken, status]) + "\n")
        sys.stdout.flush()


main()
