"""What a session may use up: processes, output, disk, descriptors, memory. The supervisor lives, and ends it."""

from __future__ import annotations

import errno
import os
import pty
import select
import signal
import subprocess
import time
import tty

import pytest
from hardship import HOME, HOOK, STATE, X, frames, measure, nothing_left, own_processes, payload, record, small_disk
from world import World

MEGABYTE = 1024  # kB, as `measure` counts
COMMANDS = int(os.environ.get("ND7_TEST_COMMANDS", "1000"))
OUTPUT = int(os.environ.get("ND7_TEST_OUTPUT", str(4 << 30)))
SCREEN = int(os.environ.get("ND7_TEST_SCREEN", str(64 << 20)))


class Session:
    """A session whose agent is a shell that runs what it is told, a line at a time."""

    def __init__(self, world: World, *before: str) -> None:
        self.world = world
        self.process = world.start([*before, "nd7", "run", "bash"], stdin=subprocess.PIPE, stderr=subprocess.DEVNULL)
        self.ask("true")

    @property
    def pid(self) -> int:
        return self.process.pid

    def send(self, line: str) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(f"X={X} H={HOOK}\n{line}\n".encode())
        self.process.stdin.flush()

    def ask(self, line: str, seconds: float = 60) -> str:
        """Run a line and return what it wrote."""
        assert self.process.stdout is not None
        self.send(f"{line}\necho =done=")
        text, end = b"", time.monotonic() + seconds
        while not text.endswith(b"=done=\n"):
            ready, _, _ = select.select([self.process.stdout], [], [], max(0.0, end - time.monotonic()))
            piece = os.read(self.process.stdout.fileno(), 1 << 16) if ready else b""
            assert piece, (line, text[-2000:], self.world.processes())
            text += piece
        return text.removesuffix(b"=done=\n").decode("utf-8", "surrogateescape")

    def measure(self) -> dict[str, tuple[int, int]]:
        return measure(own_processes(self.world, self.pid))

    def end(self) -> None:
        assert self.process.stdin is not None
        self.process.stdin.close()
        assert self.process.wait(30) == 0
        nothing_left(self.world)


def flat(before: dict[str, tuple[int, int]], after: dict[str, tuple[int, int]], megabytes: int) -> None:
    """Each process is the same one's figure, with at most so much more memory and no more descriptors."""
    assert before.keys() == after.keys() == {"supervisor", "scribe", "warden", "zygote"}, (before, after)
    for name, (kilobytes, fds) in before.items():
        assert after[name][0] - kilobytes < megabytes * MEGABYTE, (name, before, after)
        assert after[name][1] <= fds + 2, (name, before, after)  # a canary's probe may be under way


BOMB = "f(){ f|f& }; f; sleep 1; f"


@pytest.mark.parametrize("by", ["the agent", "a command"])
def test_a_fork_bomb(world: World, by: str) -> None:
    """The limit on processes is the user's own; here 250. What is full is full, and still it all ends."""
    world.write("bomb", BOMB)
    script = "bash bomb" if by == "the agent" else f"{X} -c 'bash bomb'"
    limited = ["prlimit", "--nproc=250:250"]
    running = world.start([*limited, "nd7", "run", "bash", "-c", f"{script}; sleep 99"], stderr=subprocess.DEVNULL)
    world.wait(lambda: len(world.processes()) > 200, what=lambda: len(world.processes()))
    before = own_processes(world, running.pid)
    time.sleep(1.5)
    assert own_processes(world, running.pid) == before and len(before) == 4
    began = time.monotonic()
    running.terminate()
    assert running.wait(20) == 143
    nothing_left(world)
    assert time.monotonic() - began < 15


HOLD = """
import os, signal, time
held = []
while True:
    try:
        pid = os.fork()
    except OSError:
        break
    if pid == 0:
        time.sleep(60)
        os._exit(0)
    held.append(pid)
os.kill(held[0], signal.SIGKILL)
os.waitpid(held.pop(0), 0)
open("full", "w").close()
while not os.path.exists("enough"):
    time.sleep(0.05)
for pid in held:
    os.kill(pid, signal.SIGKILL)
    os.waitpid(pid, 0)
"""


def test_a_command_that_cannot_be_forked_is_refused_and_the_next_one_runs(world: World) -> None:
    """One process fewer than the user may have: enough for the agent to start nd7-exec, and for no command."""
    world.write("hold.py", HOLD)
    session = Session(world, "prlimit", "--nproc=60:60")
    world.wait(lambda: record(world, session.pid)["canary"] and len(world.processes()) == 5, what=world.processes)
    session.ask("python3 hold.py & until [ -e full ]; do read -t 0.1; done < <(:)")
    before = own_processes(world, session.pid)
    said = session.ask("$X -c 'echo ran' 2>&1; echo $?")
    assert said == "nd7-exec: exec /bin/bash: Resource temporarily unavailable\n126\n"
    session.ask("> enough; wait")
    assert session.ask("$X -c 'echo again'") == "again\n"
    assert own_processes(world, session.pid) == before
    session.end()


def test_the_log_goes_on_when_its_writer_could_not_be_forked_again_at_once(world: World) -> None:
    """The writer is killed (as the kernel does when memory is out) while no process can be started."""
    session = Session(world)
    limit = ["prlimit", "--pid", str(session.pid)]
    assert world.run([*limit, "--nproc=1:"]).code == 0
    os.kill(own_processes(world, session.pid)["scribe"], signal.SIGKILL)
    time.sleep(1.0)
    assert session.process.poll() is None and "scribe" not in own_processes(world, session.pid)
    said = session.ask(f"printf %s '{payload('SessionStart', source='startup')}' | $H 2>&1; echo $?")
    assert said.startswith("nd7 record: ") and said.endswith("\n0\n")
    assert world.run([*limit, "--nproc=4096:"]).code == 0
    world.wait(lambda: own_processes(world, session.pid).get("scribe"), what=world.processes)
    session.ask(f"printf %s '{payload('SessionStart', source='startup')}' | $H")
    assert [frame for frame in frames(world, "s-1") if frame["kind"] == "session_start"]
    world.wait(lambda: record(world, session.pid)["gaps"], what=lambda: record(world, session.pid))
    session.end()


def test_gigabytes_through_a_command(world: World) -> None:
    """A command's output goes where the agent's would, and not through nd7: its memory cannot grow by it."""
    session = Session(world)
    before = session.measure()
    said = session.ask(f"$X -c 'head -c {OUTPUT} /dev/zero' | wc -c; $X -c 'head -c {OUTPUT // 8} /dev/zero >&2'", 600)
    assert said.split() == [str(OUTPUT)]
    after = session.measure()
    print(f"\n{OUTPUT >> 20} MB through a command's pipe: kB and descriptors before {before}, after {after}")
    flat(before, after, 2)
    session.end()


def test_a_screen_full_of_output_and_a_viewer_that_stops_looking(world: World) -> None:
    master, slave = pty.openpty()
    script = f"{X} -c 'head -c {SCREEN} /dev/zero'; sleep 1"
    running = world.start(["nd7", "run", "bash", "-c", script], stdin=slave, stdout=slave, stderr=slave)
    os.close(slave)
    got, most, peak, stopped = 0, 0, {}, 0.0
    while True:
        try:
            piece = os.read(master, 1 << 18)
        except OSError:  # EIO: its other end is closed
            break
        got += len(piece)
        if got >= most + SCREEN // 8 and got < SCREEN:
            most = got
            if not stopped and got > SCREEN // 2:
                stopped = time.monotonic()
                time.sleep(2.0)  # what the session writes meanwhile waits there, not here
            now = measure(own_processes(world, running.pid))
            peak = peak or now
            flat(peak, now, 3)
    os.close(master)
    assert running.wait(20) == 0 and got > SCREEN
    print(f"\n{got >> 20} MB through the session's terminal: kB and descriptors at an eighth {peak}, at the end {now}")
    nothing_left(world)


def test_a_terminal_that_stops_looking_while_somebody_is_attached(world: World) -> None:
    """The session goes on for who looks; what the other has missed is shown anew, and not kept for it."""
    master, slave = pty.openpty()
    script = f"echo ready; read x; head -c {SCREEN // 2} /dev/zero | tr '\\0' 'a'; echo; echo THE-END; read y"
    running = world.start(["nd7", "run", "bash", "-c", script], stdin=slave, stdout=slave, stderr=slave)
    os.close(slave)
    world.wait(lambda: own_processes(world, running.pid).get("zygote") and world.exists(f"{HOME}/.nd7/sessions"))
    time.sleep(1.0)
    theirs, attached = pty.openpty()
    tty.setraw(attached)
    viewer = world.start(["nd7", "attach", str(running.pid)], stdin=attached, stdout=attached, stderr=attached)
    os.close(attached)
    seen = b""
    while b"ready" not in seen:
        seen += os.read(theirs, 1 << 16)
    before = measure(own_processes(world, running.pid))
    os.write(theirs, b"\r")
    tail, got = b"", 0
    while b"THE-END" not in tail:
        piece = os.read(theirs, 1 << 18)
        got += len(piece)
        tail = tail[-64:] + piece
    after = measure(own_processes(world, running.pid))
    print(f"\n{got >> 20} MB to who is attached, none to the terminal that stopped: before {before}, after {after}")
    assert after["supervisor"][0] - before["supervisor"][0] < 8 * MEGABYTE, (before, after)
    again = b""
    while b"THE-END" not in again[-200_000:]:
        again += os.read(master, 1 << 18)
    assert len(again) < 8 << 20
    os.write(theirs, b"\r")
    assert running.wait(20) == 0
    viewer.wait(20)
    os.close(master)
    os.close(theirs)
    nothing_left(world)


def test_input_that_nobody_reads(world: World) -> None:
    """A program that never reads its terminal: keys wait outside, memory does not grow, and it still ends."""
    master, slave = pty.openpty()
    tty.setraw(slave)
    running = world.start(["nd7", "run", "sleep", "99"], stdin=slave, stdout=slave, stderr=slave)
    os.close(slave)
    world.wait(lambda: "sleep 99" in world.processes().values(), what=world.processes)
    before = measure(own_processes(world, running.pid))
    os.set_blocking(master, False)
    sent, end = 0, time.monotonic() + 3
    while time.monotonic() < end:
        try:
            sent += os.write(master, b"x" * 4096)
        except BlockingIOError:
            time.sleep(0.02)
    assert sent < 1 << 20, "somebody takes all that"
    flat(before, measure(own_processes(world, running.pid)), 2)
    running.terminate()
    assert running.wait(20) == 143
    os.close(master)
    nothing_left(world)


def test_a_command_that_never_reads_its_input(world: World) -> None:
    session = Session(world)
    before = session.measure()
    said = session.ask("head -c 50000000 /dev/zero | $X -c 'sleep 0.5; exit 3'; echo ${PIPESTATUS[@]}")
    assert said.split() == ["141", "3"]
    assert session.ask("yes | $X -c true; echo ${PIPESTATUS[@]}").split() == ["141", "0"]
    flat(before, session.measure(), 2)
    session.end()


def test_a_thousand_commands_one_after_another(world: World) -> None:
    session = Session(world)
    session.ask("for i in $(seq 50); do $X -c true; done")  # what is made once has been made
    time.sleep(1.0)
    before = session.measure()
    began = time.monotonic()
    assert session.ask(f"for i in $(seq {COMMANDS}); do $X -c 'exit 3'; [ $? = 3 ] || echo bad; done", 1800) == ""
    took = time.monotonic() - began
    time.sleep(1.0)
    after = session.measure()
    print(f"\n{COMMANDS} commands in {took:.0f} s: kB and descriptors before {before}, after {after}")
    flat(before, after, 1)
    session.end()


def test_connections_that_ask_for_nothing(world: World) -> None:
    """Thousands of rendezvous, kept open and silent, as many as one process may have descriptors, in 8 processes."""
    world.write(
        "hoard.py",
        "import socket, sys, time\nkept = []\nkind = int(sys.argv[1])\n"
        "for _ in range(int(sys.argv[2])):\n"
        "    try:\n        kept.append(socket.socket(socket.AF_UNIX, socket.SOCK_STREAM, kind))\n"
        "    except OSError as error:\n        print(error, flush=True)\n        break\n"
        "print(len(kept), flush=True)\ntime.sleep(float(sys.argv[3]))\n",
    )
    session = Session(world)
    before = session.measure()
    for kind in (0x6E64, 0x6E65):
        session.ask(f"for i in 1 2 3 4 5 6 7 8; do python3 hoard.py {kind} 1000 3 >> hoard.log & done; wait")
    assert session.process.poll() is None
    world.wait(lambda: session.measure()["supervisor"][1] <= before["supervisor"][1] + 2, what=session.measure)
    # nd7-exec works again once they have let go: nothing of theirs is held for ever.
    assert session.ask("until $X -c 'echo ran' 2>> late.log; do sleep 0.2; done", 60) == "ran\n"
    world.write("start", payload("SessionStart", source="startup"))
    session.ask("until $H < start 2>&1 | grep -q .; [ $? = 1 ]; do sleep 0.2; done")
    assert [frame for frame in frames(world) if frame["kind"] == "session_start"]
    world.wait(lambda: session.measure()["scribe"][1] <= before["scribe"][1] + 4, what=session.measure)
    flat(before, session.measure(), 12)
    session.end()


def test_payloads_that_never_end(world: World) -> None:
    """Many at once, each as large as one may be: together they get no more memory than a few may have."""
    world.write(
        "pour.py",
        "import socket, time\ns = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM, 0x6e65)\n"
        "piece = b'[' * (1 << 20)\ns.settimeout(20)\ntry:\n    for _ in range(60):\n        s.sendall(piece)\n"
        "    time.sleep(9)\nexcept OSError:\n    pass\n",
    )
    session = Session(world)
    before = session.measure()
    session.send("for i in $(seq 24); do python3 pour.py & done; wait; echo =poured=")
    highest, end = 0, time.monotonic() + 8
    while time.monotonic() < end:
        highest = max(highest, session.measure().get("scribe", (0, 0))[0])
        time.sleep(0.1)
    print(f"\n24 payloads of 60 MB: at most {highest >> 10} MB in the scribe")
    assert highest < 400 * MEGABYTE, highest
    assert before.keys() == session.measure().keys()
    session.process.terminate()
    assert session.process.wait(30) == 143
    nothing_left(world)


@pytest.mark.parametrize("part", ["{},", "[],", "1.5,", '"aaa",'])
def test_a_payload_of_millions_of_parts(world: World, part: str) -> None:
    """23 MB of small values would be 700 MB of objects, and a quarter of a minute without an answer to any hook."""
    start = payload("PreToolUse", tool_name="Bash", tool_use_id="t", tool_input={"command": "x"})
    world.write("big", start.replace('{"command": "x"}', f"[{part * (23_000_000 // len(part))}0]"))
    world.write("start", payload("SessionStart", source="startup"))
    session = Session(world)
    session.ask("$H < start")
    before = session.measure()
    session.send("$H < big 2> told; $H < start; echo =big=")
    highest, end = 0, time.monotonic() + 6
    while time.monotonic() < end and sum(frame["kind"] == "session_start" for frame in frames(world)) < 2:
        highest = max(highest, session.measure().get("scribe", (0, 0))[0])
        time.sleep(0.02)
    assert highest - before["scribe"][0] < 120 * MEGABYTE, highest
    world.wait(lambda: "parts" in world.read("told"), what=lambda: world.read("told"))
    (gap,) = [frame["body"] for frame in frames(world) if frame["kind"] == "gap"]
    assert "500000 parts" in gap["text"]
    session.process.terminate()
    assert session.process.wait(30) == 143


def fill(world: World, path: str) -> None:
    """Leave no room on the disk that a file is on."""
    with world.path(path).open("wb", buffering=0) as file:
        try:
            while True:
                file.write(bytes(1024))
        except OSError as error:
            assert error.errno == errno.ENOSPC


def test_a_full_disk_under_the_log(world: World) -> None:
    """The hook says so, the agent goes on, the session is marked; once there is room the log goes on, unbroken."""
    world.mkdir(f"{STATE}")
    small_disk(world, STATE, 1 << 20)
    session = Session(world)
    start = payload("SessionStart", source="startup")
    assert session.ask(f"printf %s '{start}' | $H 2>&1; echo $?").split() == ["0"]
    fill(world, f"{STATE}/filler")
    big = payload("PreToolUse", tool_name="Bash", tool_use_id="t1", tool_input={"command": "x" * 8000})
    said = session.ask(f"printf %s '{big}' | $H 2>&1; echo $?")
    assert "nd7 record: " in said and "No space left on device" in said and said.endswith("\n0\n"), said
    assert "permissionDecision" not in said
    world.wait(lambda: record(world, session.pid)["gaps"] >= 1, what=lambda: record(world, session.pid))
    assert session.ask("$X -c 'echo still'") == "still\n"
    world.path(f"{STATE}/filler").unlink()
    assert "permissionDecision" in session.ask(f"printf %s '{big}' | $H 2>&1")
    session.end()
    done = world.run(["nd7", "verify", "s-1"])
    assert done.code == 0, done
    kinds = [frame["kind"] for frame in frames(world, "s-1")]
    assert kinds.count("tool_call") == 1 and kinds[0] == "session_start"


@pytest.mark.parametrize("path", [f"{HOME}/.nd7", STATE])
def test_a_disk_that_is_full_before_the_session_begins(world: World, path: str) -> None:
    small_disk(world, path, 1 << 16)
    fill(world, f"{path}/filler")
    done = world.run(["nd7", "run", "touch", "ran"])
    assert done.code == 126 and "No space left on device" in done.err and len(done.err.splitlines()) < 3, done
    assert not world.exists("ran")
    nothing_left(world)
