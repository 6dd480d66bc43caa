"""The session's terminal: everything passes, and the outer one is as it was at every end."""

from __future__ import annotations

import os
import re
import signal
import time

from world import World


def settings(screen) -> str:
    """What stty says after the program in the window has ended."""
    screen.keys("stty -a | md5sum", "Enter")
    found = screen.wait_for(lambda text: re.findall(r"^([0-9a-f]{32})  -", text, re.MULTILINE))
    return re.findall(r"^([0-9a-f]{32})  -", found, re.MULTILINE)[-1]


def shell(world: World):
    screen = world.terminal(["bash", "--norc", "-i"], env={"PS1": "$ "})
    screen.wait_for("$")
    return screen


def nd7(world: World) -> int:
    """The supervisor's pid."""
    (pid,) = (int(name) for name in world.listdir("/home/dev/.nd7/sessions") if name.isdigit())
    return pid


def test_a_shell_with_job_control_inside_the_sessions_own_terminal(world: World):
    screen = world.terminal(["nd7", "run", "bash", "--norc", "-i"])
    screen.wait_for("bash-")
    screen.keys("tty; [ -t 0 ] && [ -t 1 ] && [ -t 2 ] && echo all; stty size", "Enter")
    shown = screen.wait_for("36 120")
    assert "/dev/pts/0" in shown and "all" in shown and "no job control" not in shown
    screen.keys("sleep 100", "Enter", "C-z")
    screen.wait_for("Stopped")
    screen.keys("fg", "Enter", "C-c", "echo status $?", "Enter")
    screen.wait_for("status 130")
    screen.keys("exit 5", "Enter")
    screen.wait_for("EXITED 5")


def test_the_size_follows(world: World):
    screen = world.terminal(
        ["nd7", "run", "bash", "-c", "trap 'stty size' WINCH; echo up; while :; do sleep 0.1; done"]
    )
    screen.wait_for("up")
    screen.resize(90, 20)
    screen.wait_for("20 90")
    screen.resize(132, 43)
    screen.wait_for("43 132")


def test_a_program_that_takes_the_whole_screen(world: World):
    world.write("f", "".join(f"line {n}\n" for n in range(500)))
    screen = world.terminal(["nd7", "run", "less", "f"])
    screen.wait_for("line 34")
    screen.keys("G")
    screen.wait_for("line 499")
    screen.keys("q")
    screen.wait_for("EXITED 0")


def test_the_program_stops_and_so_does_nd7_and_goes_on_again(world: World):
    screen = shell(world)
    before = settings(screen)
    world.write("f", "".join(f"line {n}\n" for n in range(500)))
    screen.keys("clear", "Enter", "nd7 run vim -u NONE f", "Enter")
    screen.wait_for("line 20")
    screen.keys("C-z")
    screen.wait_for("Stopped")
    assert settings(screen) == before
    screen.keys("clear; fg", "Enter")
    screen.wait_for("line 20")
    screen.keys(":q!", "Enter", "echo status $?", "Enter")
    screen.wait_for("status 0")
    assert settings(screen) == before


def test_the_terminal_is_as_it_was_however_it_ends(world: World):
    screen = shell(world)
    before = settings(screen)
    for number in (signal.SIGTERM, signal.SIGINT, 0):
        screen.keys(
            "clear; nd7 run sh -c 'stty raw -echo; trap \"exit 4\" TERM INT; echo up; sleep 100 & wait'", "Enter"
        )
        screen.wait_for("up")
        if number:
            os.kill(nd7(world), number)
        else:
            (agent,) = (pid for pid, line in world.processes().items() if line == "sleep 100")
            os.kill(agent, signal.SIGKILL)
        world.wait(lambda: not [n for n in world.listdir("/home/dev/.nd7/sessions") if n.isdigit()])
        time.sleep(0.3)
        screen.keys("", "Enter")
        assert settings(screen) == before, number


def test_closing_the_window_ends_the_session(world: World):
    screen = world.terminal(["nd7", "run", "bash", "--norc", "-i"])
    world.wait(lambda: any(line.startswith("bash --norc") for line in world.processes().values()))
    screen.close()
    world.wait(lambda: not world.processes(), what=world.processes)
    world.wait(lambda: world.listdir("/home/dev/.nd7/sessions") == [".lock"])


def test_what_is_no_terminal_is_handed_over_as_it_is(world: World):
    screen = shell(world)
    program = "'[ -t 0 ] && echo t0; [ -t 1 ] && echo t1; [ -t 2 ] && echo t2 >&2; cat'"
    screen.keys(f"echo piped | nd7 run sh -c {program} > out; echo status $?", "Enter")
    screen.wait_for("status 0")
    assert world.read("out") == "piped\n"
    assert "t2" in screen.screen()
    screen.keys(f"clear; nd7 run sh -c {program} < out 2> err; echo status $?", "Enter")
    shown = screen.wait_for("status 0")
    assert "t1" in shown and "piped" in shown and "t2" not in world.read("err")


def test_bytes_pass_untouched_and_the_last_of_them_too(world: World):
    world.write("bytes.py", "import os\nos.write(1, bytes(range(256)) * 4000 + b'END')\n")
    code = """
import os, pty, sys
pid, fd = pty.fork()
if pid == 0:
    os.execvp("nd7", ["nd7", "run", "sh", "-c", "stty raw; exec /usr/bin/python3 -I bytes.py"])
data = b""
while True:
    try:
        part = os.read(fd, 65536)
    except OSError:
        break
    if not part:
        break
    data += part
text = data[data.find(bytes(range(256))):]
print(text == bytes(range(256)) * 4000 + b"END", len(text), os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))
"""
    done = world.run(["/usr/bin/python3", "-Ic", code])
    assert done.out == f"True {256 * 4000 + 3} 0\n", done.err


def test_a_reader_that_does_not_read_holds_the_program_and_nothing_else(world: World):
    """Output that nobody takes: the program waits, memory stays flat, and commands are still answered."""
    code = f"""
import os, pty, time
X = "{"/home/dev/.local/state/nd7/bin/nd7-exec"}"
pid, fd = pty.fork()
if pid == 0:
    os.execvp("nd7", ["nd7", "run", "bash", "-c",
        f"(sleep 1; {{X}} -c 'echo through > through'; touch answered) & head -c 50000000 /dev/zero; wait"])
time.sleep(4)
rss = [l for l in open(f"/proc/{{pid}}/status") if l.startswith("VmRSS")][0].split()[1]
print(os.path.exists("answered"), int(rss) < 80000)
total = 0
while True:
    try:
        part = os.read(fd, 65536)
    except OSError:
        break
    total += part.count(0)
print(total, os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))
"""
    done = world.run(["/usr/bin/python3", "-Ic", code])
    assert done.out == "True True\n50000000 0\n", done.err
    assert world.read("through") == "through\n"


def test_much_typed_at_once_arrives(world: World):
    code = """
import os, pty, time, termios, tty
pid, fd = pty.fork()
if pid == 0:
    os.execvp("nd7", ["nd7", "run", "sh", "-c", "stty raw -echo; echo up; sleep 1; head -c 300000 | md5sum"])
data = b""
while b"up" not in data:
    data += os.read(fd, 65536)
import hashlib
typed = bytes(range(256)) * 1200
rest = typed[:300000]
os.set_blocking(fd, False)
out = b""
end = time.time() + 20
while time.time() < end:
    try:
        rest = rest[os.write(fd, rest[:4096]):] if rest else rest
    except BlockingIOError:
        pass
    try:
        part = os.read(fd, 65536)
    except BlockingIOError:
        time.sleep(0.005)
        continue
    except OSError:
        break
    out += part
print(hashlib.md5(typed[:300000]).hexdigest().encode() in out)
"""
    done = world.run(["/usr/bin/python3", "-Ic", code])
    assert done.out == "True\n", done.err


def test_a_stop_where_nobody_could_let_it_go_on_is_none(world: World):
    """The window's only program: without a shell around it, ^Z must not freeze it for ever."""
    world.write("f", "".join(f"line {n}\n" for n in range(500)))
    screen = world.terminal(["true"])
    screen.wait_for("EXITED 0")
    screen.tmux("respawn-window", "-k", "exec nd7 run vim -u NONE f")
    screen.wait_for("line 20")
    screen.keys("C-z", "G")
    screen.wait_for("line 499")


def test_a_script_around_it_stops_and_goes_on_with_it(world: World):
    world.write("script", "#!/bin/sh\nnd7 run vim -u NONE f\necho ended $?\n", 0o755)
    world.write("f", "".join(f"line {n}\n" for n in range(500)))
    screen = shell(world)
    screen.keys("clear; ./script", "Enter")
    screen.wait_for("line 20")
    screen.keys("C-z")
    screen.wait_for("Stopped")
    screen.keys("clear; fg", "Enter")
    screen.wait_for("line 20")
    screen.keys(":q!", "Enter")
    screen.wait_for("ended 0")


def test_started_in_the_background_and_brought_to_the_front(world: World):
    screen = shell(world)
    screen.keys("clear; nd7 run sh -c 'read x; echo got $x' &", "Enter")
    screen.wait_for("nd7: session")
    screen.keys("echo still $((6*7))", "Enter")
    screen.wait_for("still 42")
    screen.keys("fg", "Enter", "word", "Enter")
    screen.wait_for("got word")


def test_an_interrupt_from_the_keyboard_where_the_input_is_no_terminal(world: World):
    screen = shell(world)
    screen.keys("clear; nd7 run sh -c 'echo up; sleep 60' < /dev/null; echo status $?", "Enter")
    screen.wait_for("up")
    screen.keys("C-c")
    screen.wait_for("status 130")
