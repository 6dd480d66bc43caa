"""A session that uses up what there is: nd7 lives, stays small, and ends cleanly."""

from __future__ import annotations

import json
import os
import subprocess
import time
from pathlib import Path

from world import World

BIN = "/home/dev/.local/state/nd7/bin"
X = f"{BIN}/nd7-exec"
STATE = "/home/dev/.local/state/nd7/sessions"
SESSIONS = "/home/dev/.nd7/sessions"
ID = "0a1b2c3d-0000-4000-8000-000000000007"


def memory(world: World, supervisor: int) -> dict[str, int]:
    """The resident memory in kB of the session's own processes."""
    found = {}
    for pid, line in world.processes().items():
        if pid == supervisor or line in ("nd7 scribe", "nd7 warden", "nd7 zygote"):
            try:
                status = Path(f"/proc/{pid}/status").read_text()
            except FileNotFoundError:
                continue  # it has ended since
            # A command's child bears the zygote's name until it becomes the shell; the zygote itself is the larger.
            resident = int(status.partition("VmRSS:")[2].partition("kB")[0] or 0)
            found[line[:10]] = max(found.get(line[:10], 0), resident)
    return found


def test_many_commands_one_after_another_leave_nothing_behind(world: World):
    script = f"{X} -c true; echo begun; for i in $(seq 300); do {X} -c true; done; echo done; read x; exit 3"
    running = world.start(["nd7", "run", "bash", "-c", script], stdin=subprocess.PIPE)
    assert running.stdin is not None and running.stdout is not None
    assert running.stdout.readline() == b"begun\n"
    time.sleep(1)
    before = memory(world, running.pid)
    assert running.stdout.readline() == b"done\n"
    time.sleep(0.5)
    after = memory(world, running.pid)
    assert len(after) == 4 and all(after[name] < before[name] + 3000 for name in after), (before, after)
    descriptors = len(os.listdir(f"/proc/{running.pid}/fd"))
    assert descriptors < 40
    running.stdin.write(b"\n")
    running.stdin.close()
    assert running.wait(20) == 3


def test_a_process_bomb(world: World):
    """Within a limit on the user's processes, or it would be the machine's end and not the test's."""
    bomb = "ulimit -u 250; bomb() { bomb | bomb & }; bomb 2>/dev/null; sleep 2"
    script = f"{X} -c '{bomb}'; sleep 2; {X} -c 'echo still here'; exit 5"
    done = world.run(["nd7", "run", "bash", "-c", script], timeout=60)
    assert done.code == 5
    world.wait(lambda: not world.processes(), what=world.processes)
    assert world.listdir(SESSIONS) == [".lock"]


def test_a_gigabyte_of_output_and_an_input_that_nobody_reads(world: World):
    done = world.run(["sh", "-c", f"nd7 run sh -c \"{X} -c 'head -c 1000000000 /dev/zero'\" | wc -c"])
    assert int(done.out) == 1_000_000_000
    done = world.run(["nd7", "run", "bash", "-c", f"set -o pipefail; yes | {X} -c 'sleep 0.5; echo fine'; echo $?"])
    assert done.out.split()[0] == "fine"


def test_a_log_that_cannot_grow_is_said_and_ends_nothing(world: World):
    """A limit on the size of files stands for a full disk: the write fails in the same place."""
    body = {"session_id": ID, "transcript_path": "/x", "cwd": "/x", "hook_event_name": "UserPromptSubmit"}
    world.write("p", json.dumps({**body, "prompt": "x" * 60_000}))
    script = f"for i in 1 2 3 4; do {BIN}/nd7-record < p; echo $?; done; {X} -c 'echo a command'; exit 6"
    done = world.run(["sh", "-c", f"ulimit -f 300; exec nd7 run sh -c '{script.replace(chr(39), chr(34))}'"])
    assert done.code == 6
    assert done.out == "0\n0\n0\n0\na command\n"
    assert "nd7 record: " in done.err
    lines = world.read(f"{STATE}/{ID}/events.ndjson").splitlines()
    assert 1 <= sum('"kind":"prompt"' in line for line in lines) <= 2
    assert world.listdir(SESSIONS) == [".lock"]


def test_a_thousand_connections_that_say_nothing(world: World):
    world.write(
        "hold.py",
        """
import _socket, resource, subprocess, sys
resource.setrlimit(resource.RLIMIT_NOFILE, (4096, resource.getrlimit(resource.RLIMIT_NOFILE)[1]))
held = [_socket.socket(_socket.AF_UNIX, _socket.SOCK_STREAM, kind) for kind in [0x6E64, 0x6E65] * 500]
print(subprocess.run([sys.argv[1], "-c", "echo through"], stdout=subprocess.PIPE).stdout)
""",
    )
    done = world.run(["nd7", "run", "/usr/bin/python3", "-I", "hold.py", X])
    assert done.out == "b'through\\n'\n", done.err
    world.wait(lambda: not world.processes(), what=world.processes)
