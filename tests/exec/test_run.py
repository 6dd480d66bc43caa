"""`nd7 run`: what it starts, what it ends with, what it refuses, and that nothing outlives it."""

from __future__ import annotations

import os
import signal
import sys
import time

import pytest
from world import CHECKOUT, World

STATE = "/home/dev/.local/state/nd7"
SESSIONS = "/home/dev/.nd7/sessions"
NO_SHELL = (sys.executable, "-P", "-m", "nd7tui.cli")  # nd7 without the `sh` that starts it in a world


def pids(world: World) -> list[str]:
    return [name for name in world.listdir(SESSIONS) if name.isdigit()]


def nothing_left(world: World) -> None:
    world.wait(lambda: not world.processes(), what=world.processes)
    world.wait(lambda: not pids(world), what=lambda: pids(world))


def test_a_confined_program_with_its_input_output_and_status(world: World):
    world.write("/home/dev/.ssh/id_ed25519", "secret")
    script = "cat; echo out; echo err >&2; echo x > in; echo y > ~/outside; cat ~/.ssh/id_ed25519; ls ~/.nd7; exit 7"
    done = world.run(["nd7", "run", "sh", "-c", script], input="typed\n")
    assert (done.code, done.out) == (7, "typed\nout\n")
    assert "err\n" in done.err and "secret" not in done.out
    assert world.read("in") == "x\n" and not world.exists("/home/dev/outside")
    nothing_left(world)


def test_one_line_says_which_session_and_what_is_in_force(world: World):
    done = world.run(["nd7", "run", "--name", "n", "true"])
    (line,) = done.err.splitlines()
    assert line.startswith("nd7: session ") and " (true in ~/project): files and TCP by Landlock" in line


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL, signal.SIGSEGV, signal.SIGINT])
def test_a_program_that_a_signal_ended(world: World, number: int):
    assert world.run(["nd7", "run", "sh", "-c", f"kill -{number} $$"]).code == 128 + number


def test_everything_behind_program_is_programs(world: World):
    done = world.run(["nd7", "run", "--name", "x", "echo", "--name", "y", "--project", "--", "-h", "z"])
    assert done.out == "--name y --project -- -h z\n"
    assert world.run(["nd7", "run", "--", "echo", "a"]).out == "a\n"


def test_asked_wrongly(world: World):
    assert world.run(["nd7", "run"]).code == 2
    assert world.run(["nd7", "run", "--nonsense", "true"]).code == 2
    done = world.run(["nd7", "run", "--help"])
    assert done.code == 0 and "examples:" in done.out and "nd7 run claude" in done.out


def test_a_program_that_is_not_there_or_cannot_be_run(world: World):
    world.write("plain", "text")
    assert world.run(["nd7", "run", "no-such-program"]).code == 127
    assert world.run(["nd7", "run", "./missing"]).code == 127
    assert world.run(["nd7", "run", "./plain"]).code == 126
    world.write("lost", "#!/nowhere/interpreter\n", 0o755)
    done = world.run(["nd7", "run", "./lost"])
    assert done.code in (126, 127) and "lost: No such file" in done.err
    done = world.run(["nd7", "run", "/tmp"])
    assert (done.code, done.err.splitlines()[0]) == (126, "nd7: /tmp: a directory")
    nothing_left(world)


def test_a_script_without_its_first_line_runs_as_it_does_elsewhere(world: World):
    world.write("bare", 'echo "$1"; exit 4\n', 0o755)
    done = world.run(["nd7", "run", "./bare", "a b"])
    assert (done.code, done.out) == (4, "a b\n"), done.err


@pytest.mark.parametrize("value", ["/home/dev/.nd7", "/home/dev/.ssh/deep", "/home/dev/.aws"])
def test_a_state_directory_where_no_session_could_read_it(world: World, value: str):
    done = world.run(["nd7", "run", "true"], env={"XDG_STATE_HOME": value})
    assert done.code == 126 and "which no session can read" in done.err and not pids(world)


def test_a_temporary_directory_that_no_session_may_write_is_not_the_sessions(world: World):
    for path in ("/home/dev/.ssh", f"{STATE}/x"):
        world.mkdir(path)
        done = world.run(["nd7", "run", "sh", "-c", "touch /tmp/a /var/tmp/b"], env={"TMPDIR": path})
        assert done.err.count("cannot touch") == 1, done.err


def test_an_error_is_safe_to_print_and_names_the_whole_path(world: World):
    assert world.run(["nd7", "run", "x\x1b[31m\u202e"]).err.startswith("nd7: x␛[31m\\u202e: not found")
    world.write(STATE, "a file")
    assert world.run(["nd7", "run", "true"]).err == f"nd7: {STATE}: File exists\n"
    world.path(STATE).unlink()
    world.write(SESSIONS, "a file")
    done = world.run(["nd7", "run", "true"])
    assert (done.code, done.err) == (126, f"nd7: {SESSIONS} is not a directory of its own: Not a directory\n")


def test_a_program_that_stops_itself_stops_nobody_else(world: World):
    script = "nd7 run sh -c 'kill -STOP $$; echo went on' & p=$!; sleep 2; echo here; kill -CONT $p; wait $p; echo $?"
    world.write("script", script)
    # In a group of its own that somebody watches over: one that nobody could let go on must not stop at all.
    done = world.run(["setsid", "-w", "bash", "-c", "set -m; bash script"])
    assert done.out.split("\n") == ["here", "went on", "0", ""], done


@pytest.mark.parametrize("command", ["sessions", "grants", "--help", "doctor", "why /etc", "man", "--version"])
def test_streams_that_are_closed_full_or_not_utf8_are_no_traceback(world: World, command: str):
    world.mkdir("/home/dev/\u00fc", 0o700)
    for more in (">&-", "<&-", ">/dev/full", "2>&-", ">&- 2>&-"):
        done = world.run(["sh", "-c", f"nd7 {command} {more}"])
        assert "Traceback" not in done.err and "ignored" not in done.err, (more, done)
        if more == ">/dev/full" and command not in ("grants", "why /etc"):
            assert (done.code, done.err) == (1, "nd7: No space left on device\n"), done
    done = world.run(["nd7", *command.split()], env={"PYTHONIOENCODING": "ascii"})
    assert "Traceback" not in done.err


def test_a_session_starts_no_session(world: World):
    script = f"nd7 run true; echo $?; nd7 run --detach true; echo $?; {STATE}/bin/nd7-exec -c 'nd7 run true'; echo $?"
    done = world.run(["nd7", "run", "sh", "-c", script])
    assert done.out.split() == ["126"] * 3
    assert done.err.count("nd7: this is inside a session already") == 3 and "Errno" not in done.err


@pytest.mark.parametrize(
    ("project", "reason"),
    [
        ("/", "would be writable"),
        ("/home", "holds your home"),
        ("/home/dev", "your home directory"),
        ("/home/dev/.nd7/x", "no session may write"),
        ("/home/dev/.ssh", "no session may write"),
        ("/home/dev/.aws/deep", "no session may write"),
        (STATE, "no session may write"),
        ("/home/dev/link", "your home directory"),
        ("/home/dev/gone", "is not a directory"),
    ],
)
def test_projects_that_would_open_too_much(world: World, project: str, reason: str):
    for path in ("/home/dev/.nd7/x", "/home/dev/.ssh", "/home/dev/.aws/deep", STATE):
        world.mkdir(path, 0o700)
    world.path("/home/dev/link").symlink_to("/home/dev")
    done = world.run(["nd7", "run", "--project", project, "touch", "ran"])
    assert done.code == 126 and reason in done.err, done.err
    assert len(done.err.splitlines()) == 2  # what, and the next step
    assert not world.exists(f"{project}/ran")
    done = world.run(["nd7", "run", "true"], cwd=project) if reason != "is not a directory" else done
    assert done.code == 126


@pytest.mark.parametrize("path", ["/home/dev", "/home/dev/.nd7", "/home/dev/.local", "/home/dev/.local/state", STATE])
def test_a_home_or_state_that_others_can_write(world: World, path: str):
    world.mkdir(path, 0o700)
    world.path(path).chmod(0o777)
    done = world.run(["nd7", "run", "touch", "ran"])
    assert done.code == 126 and "can be written by others" in done.err, done.err
    assert not world.exists("ran")


def test_nd7_itself_inside_what_the_session_may_write(world: World):
    done = world.run(["nd7", "run", "true"], env={"TMPDIR": str(CHECKOUT)})
    assert done.code == 126
    assert "could change what confines it" in done.err


def test_umask_environment_and_directory(world: World):
    world.mkdir("sub")
    done = world.run(["sh", "-c", "umask 027; exec nd7 run sh -c 'umask; echo $A; pwd'"], env={"A": "b c"}, cwd="sub")
    assert done.out == "0027\nb c\n/home/dev/project/sub\n"


def test_a_closed_input_and_output_is_no_trap(world: World):
    assert world.run(["sh", "-c", "nd7 run sh -c 'echo x > f' <&- >&-"]).code == 0
    assert world.read("f") == "x\n"


def test_a_reader_sees_the_end_when_the_program_closes(world: World):
    done = world.run(["sh", "-c", "nd7 run sh -c 'echo a; exec >&-; sleep 1; echo b >&2' | cat; echo end"])
    assert done.out == "a\nend\n"


BUSY = "sleep 300 & setsid sh -c '(sleep 301 &) &'; nohup sleep 302 >/dev/null 2>&1 & trap '' TERM HUP; sleep 303"


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP, signal.SIGKILL])
def test_nothing_keeps_running_however_it_ends(world: World, number: int):
    script = f"{STATE}/bin/nd7-exec -c 'sleep 304 & sleep 305' & {BUSY}"
    # Whoever runs the tests may have SIGHUP ignored (nohup), and that is handed on.
    running = world.start(["env", "--default-signal=HUP,TERM", "nd7", "run", "sh", "-c", script])
    world.wait(lambda: "sleep 305" in world.processes().values(), what=world.processes)
    world.wait(lambda: "sleep 301" in world.processes().values(), what=world.processes)
    assert pids(world) == [str(running.pid)]
    started = time.monotonic()
    running.send_signal(number)
    code = running.wait(20)
    nothing_left(world)
    assert time.monotonic() - started < 15
    assert code == (-number if number == signal.SIGKILL else 128 + number)


def test_the_program_gets_the_signal_first_and_may_end_by_itself(world: World):
    script = "trap 'echo bye; exit 9' TERM; echo ready; while :; do sleep 0.05; done"
    running = world.start(["nd7", "run", "sh", "-c", script])
    assert running.stdout is not None
    assert running.stdout.readline() == b"ready\n"
    running.terminate()
    assert running.wait(10) == 9
    assert running.stdout.read() == b"bye\n"


def test_what_nohup_and_scripts_ignore_stays_ignored(world: World):
    done = world.run(["sh", "-c", "trap '' HUP INT; exec nd7 run sh -c 'kill -HUP $$; kill -INT $$; echo alive'"])
    assert (done.code, done.out) == (0, "alive\n"), done.err
    running = world.start(
        ["nohup", "nd7", "run", "sh", "-c", "echo up; while [ ! -e go ]; do sleep 0.05; done; echo end"]
    )
    assert running.stdout is not None
    assert running.stdout.readline() == b"up\n"
    running.send_signal(signal.SIGHUP)
    time.sleep(0.3)
    world.write("go", "")
    assert (running.wait(10), running.stdout.read()) == (0, b"end\n")


def test_a_variable_without_a_name_is_no_obstacle(world: World):
    done = world.run(["env", "=x", "ab=c", *NO_SHELL, "run", "env"])
    assert done.code == 0 and "ab=c" in done.out.split() and "=x" not in done.out.split(), done


def test_the_death_of_the_warden_ends_the_session(world: World):
    running = world.start(["nd7", "run", "sh", "-c", BUSY])
    world.wait(lambda: "sleep 301" in world.processes().values(), what=world.processes)
    (warden,) = (pid for pid, line in world.processes().items() if line.startswith("nd7 warden"))
    os.kill(warden, signal.SIGKILL)
    assert running.wait(20) == 126
    nothing_left(world)


def test_the_death_of_the_scribe_is_a_gap_and_no_more(world: World):
    running = world.start(["nd7", "run", "sh", "-c", "read x; exit 3"], stdin=-1)
    world.wait(lambda: any(line.startswith("nd7 scribe") for line in world.processes().values()), what=world.processes)
    (scribe,) = (pid for pid, line in world.processes().items() if line.startswith("nd7 scribe"))
    time.sleep(1.0)
    os.kill(scribe, signal.SIGKILL)
    record = f"{SESSIONS}/{running.pid}/record.json"
    world.wait(lambda: '"gaps": 1' in world.read(record), what=lambda: world.read(record))
    assert running.stdin is not None
    running.stdin.write(b"\n")
    running.stdin.close()
    assert running.wait(20) == 3
    nothing_left(world)


def test_what_a_dead_session_left_is_swept_and_a_live_one_is_not(world: World):
    world.mkdir("/home/dev/.nd7", 0o700)
    world.mkdir(SESSIONS, 0o700)
    world.mkdir(f"{SESSIONS}/999999", 0o700)
    running = world.start(["nd7", "run", "sleep", "60"])
    world.wait(lambda: "sleep 60" in world.processes().values(), what=world.processes)
    assert world.run(["nd7", "run", "true"]).code == 0
    assert pids(world) == [str(running.pid)]
    running.terminate()
    assert running.wait(20) == 143
    nothing_left(world)


def test_ten_sessions_side_by_side(world: World):
    running = [world.start(["nd7", "run", "sh", "-c", f"echo {n}; exit {n}"]) for n in range(10)]
    assert [process.wait(60) for process in running] == list(range(10))
    nothing_left(world)


def test_the_death_of_supervisor_and_warden_at_once_ends_everything(world: World):
    running = world.start(["nd7", "run", "sh", "-c", BUSY])
    world.wait(lambda: "sleep 301" in world.processes().values(), what=world.processes)
    (warden,) = (pid for pid, line in world.processes().items() if line.startswith("nd7 warden"))
    os.kill(running.pid, signal.SIGSTOP)  # or it would see the other's end
    os.kill(warden, signal.SIGKILL)
    os.kill(running.pid, signal.SIGKILL)
    running.wait(20)
    world.wait(lambda: not world.processes(), what=world.processes)
    assert world.run(["nd7", "run", "true"]).code == 0
    assert pids(world) == []
