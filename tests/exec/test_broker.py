"""nd7-exec inside a session: the command runs under the policy of its moment, and everything carries over."""

from __future__ import annotations

import json
import os
import select
import signal
import subprocess
import time

import pytest
from world import Done, World

X = "/home/dev/.local/state/nd7/bin/nd7-exec"
SESSIONS = "/home/dev/.nd7/sessions"


def inside(world: World, script: str, **more) -> Done:
    """Run a script as the agent of a session; its commands are `$X -c ...`."""
    world.write("script", f"X={X}\n{script}\n")
    return world.run(["nd7", "run", "bash", "script"], **more)


@pytest.fixture
def session(world: World):
    """A session whose agent runs what it is told, a line at a time."""
    process = world.start(["nd7", "run", "bash"], stdin=subprocess.PIPE, stderr=subprocess.DEVNULL)
    world.wait(lambda: os.path.basename(str(process.pid)) in world.listdir(SESSIONS))

    class Session:
        pid = process.pid
        directory = f"{SESSIONS}/{process.pid}"

        def ask(self, line: str) -> str:
            assert process.stdin is not None and process.stdout is not None
            process.stdin.write(f"X={X}\n{line}\necho =done=\n".encode())
            process.stdin.flush()
            text = b""
            end = time.monotonic() + 30
            while not text.endswith(b"=done=\n"):
                ready, _, _ = select.select([process.stdout], [], [], max(0.0, end - time.monotonic()))
                piece = os.read(process.stdout.fileno(), 65536) if ready else b""
                assert piece, (line, text, world.processes())
                text += piece
            return text.removesuffix(b"=done=\n").decode()

    made = Session()
    made.ask("true")
    yield made
    process.kill()
    process.wait()


def test_status_and_signals_carry_over(world: World):
    done = inside(
        world,
        "$X -c 'exit 7'; echo $?; $X -c 'kill -9 $$'; echo $?; $X -c 'kill -SEGV $$'; echo $?; $X -c nosuch; echo $?",
    )
    assert done.out.split() == ["7", "137", "139", "127"]


def test_a_deleted_directory_the_umask_the_environment_and_the_streams(world: World):
    done = inside(
        world,
        """mkdir d; cd d; rmdir ../d; $X -c 'readlink /proc/self/cwd'; cd ..
        umask 027; $X -c umask; A='b  c' $X -c 'echo "$A"'; echo in | $X -c cat; $X -c 'echo err >&2' 2>&1
        $X -c 'cat' <&-; echo $?; $X -c 'echo x' >&-; $X -c 'ls /proc/self/fd | wc -l'; $X -c 'echo $0'""",
    )
    assert done.out.splitlines() == [
        "/home/dev/project/d (deleted)", "0027", "b  c", "in", "err", "1", "4", "/bin/bash"
    ]  # fmt: skip


def test_signals_to_the_client_reach_the_command_and_its_kill_ends_all_of_it(world: World):
    done = inside(
        world,
        """$X -c 'trap "echo got; exit 9" TERM; echo up; sleep 50 & wait' > log & p=$!
        until grep -q up log; do sleep 0.05; done; kill $p; wait $p; echo $?; cat log
        $X -c 'echo up > log2; sleep 51.17 & setsid sleep 52.17 & sleep 53.17' & p=$!
        until grep -q up log2; do sleep 0.05; done; sleep 0.2; kill -9 $p; wait $p; echo $?
        sleep 0.5; pgrep -f '^sleep 5[0-9].17'; echo left $?""",
    )
    assert done.out.split() == ["9", "up", "got", "137", "left", "1"]


def test_ignored_signals_stay_ignored(world: World):
    names = "HUP INT QUIT USR1 USR2 ALRM TERM CHLD XCPU"
    kills = "for name in $NAMES; do kill -$name $$; done; echo alive"
    done = inside(world, f"export NAMES='{names}'; trap '' $NAMES; $X -c '{kills}'")
    assert done.out == "alive\n"


def test_stop_and_go(world: World):
    done = inside(
        world,
        """$X -c 'for i in $(seq 100); do echo $i > n; sleep 0.05; done' & p=$!
        until [ -s n ]; do sleep 0.05; done; kill -TSTP $p; sleep 0.3; a=$(cat n); sleep 0.5; b=$(cat n)
        kill -CONT $p; sleep 0.5; c=$(cat n); [ $a = $b ] && [ $c != $b ] && echo good; kill $p; wait $p; echo $?""",
    )
    assert done.out.split() == ["good", "143"]


def test_background_jobs_live_on_and_a_later_command_can_end_them(world: World):
    done = inside(
        world,
        """$X -c 'sleep 300.17 & echo started'; $X -c 'pgrep -fx "sleep 300.17" | wc -l'
        $X -c 'pkill -fx "sleep 300.17"; sleep 0.3; pgrep -fx "sleep 300.17" | wc -l'""",
    )
    assert done.out.split() == ["started", "1", "0"]


def test_a_hundred_at_once(world: World):
    done = inside(world, 'for i in $(seq 100); do $X -c "echo $i >> all; exit $((i % 7))" & done; wait; sort -n all')
    assert done.out.split() == [str(n) for n in range(1, 101)]


def test_the_longest_argument_and_a_huge_environment(world: World):
    done = inside(
        world,
        """big=$(head -c 120000 /dev/zero | tr '\\0' a); for i in $(seq 15); do export V$i=$big; done
        $X -c 'env | wc -c; echo ${#V9}'; unset ${!V*}; $X -c "echo $big | wc -c" """,
    )
    size, length, echoed = map(int, done.out.split())
    assert size > 1_800_000 and (length, echoed) == (120_000, 120_001)


def test_odd_bytes_pass(world: World):
    done = inside(world, "A=$'\\xff\\xfe' $X -c $'printf \"%s\" \"$A\\xfd\"'")
    assert done.out == "\udcff\udcfe\udcfd"
    done = inside(
        world, "env =nameless a.b=1 $X -c 'env | grep -e nameless -e a.b'; AI_AGENT=_harness env =x $X -c 'echo a'"
    )
    assert (done.code, done.out) == (0, "a.b=1\na\n"), done


def test_a_nested_nd7_exec_just_runs_the_shell_and_gets_nothing_more(world: World, session):
    world.mkdir("/home/dev/extra")
    assert session.ask("$X -c \"$X -c 'echo nested; echo x > ~/extra/f' 2>&1; echo $?\"").split("\n")[0] == "nested"
    # The outer command began before the grant; what it starts by nd7-exec after it stays as narrow as it is.
    session.ask("rm -f go; $X -c \"until [ -e go ]; do sleep 0.05; done; $X -c 'echo x > ~/extra/g'\" 2>/dev/null & ")
    assert world.run(["nd7", "allow", "/home/dev/extra"]).code == 0
    session.ask("touch go; wait; sleep 0.5")
    assert not world.exists("/home/dev/extra/g")
    assert session.ask("$X -c 'echo x > ~/extra/h'; ls ~/extra") == "h\n"


def test_a_grant_reaches_the_next_command_and_not_the_agent_and_is_taken_back(world: World, session):
    world.mkdir("/home/dev/extra")
    assert session.ask("$X -c 'echo 1 > ~/extra/a' 2>/dev/null; echo $?") == "1\n"
    for _ in range(3):
        assert world.run(["nd7", "allow", "/home/dev/extra"]).code == 0
        assert session.ask("$X -c 'echo 1 > ~/extra/a'; echo $?; echo 2 > ~/extra/b 2>/dev/null; echo $?") == "0\n1\n"
        assert world.run(["nd7", "deny", "/home/dev/extra"]).code == 0
        assert session.ask("$X -c 'echo 1 > ~/extra/a' 2>/dev/null; echo $?") == "1\n"


def test_the_policy_is_read_at_each_command(world: World, session):
    """Rewritten many times, each time followed at once by a command: none may run under the one before."""
    world.mkdir("/home/dev/extra")
    policy = world.path(f"{session.directory}/policy.sb")
    narrow = policy.read_bytes()
    assert world.run(["nd7", "allow", "/home/dev/extra"]).code == 0
    wide = policy.read_bytes()
    for turn in range(40):
        new = policy.with_name("new")
        new.write_bytes(wide if turn % 2 else narrow)
        os.chown(new, world.uid, world.gid) if world.root else None
        new.rename(policy)
        assert session.ask("$X -c 'echo 1 > ~/extra/a' 2>/dev/null; echo $?") == ("0\n" if turn % 2 else "1\n"), turn


def test_the_exact_texts(world: World, session):
    policy = f"{session.directory}/policy.sb"
    good = world.path(policy).read_bytes()
    ask = "$X -c 'touch ran' 2>&1; echo $?"

    def put(data: bytes | None, mode: int = 0o600) -> None:
        world.path(policy).unlink(missing_ok=True)
        if data is not None:
            world.write(policy, data, mode)

    put(None)
    assert session.ask(ask) == "nd7-exec: session has no policy.sb\n126\n"
    if world.uid != 0:
        put(good, 0o000)
        assert session.ask(ask) == f"nd7-exec: read {policy}: Permission denied\n126\n"
    put(None)
    world.mkdir(policy)
    assert session.ask(ask) == f"nd7-exec: read {policy}: Is a directory\n126\n"
    world.path(policy).rmdir()
    for bad in (b"", b"(version 1", b'(version 1)(deny default)(allow file-write* (regex #"x"))', b"\xff\x00"):
        put(bad)
        answer = session.ask(ask)
        assert answer.startswith("nd7-exec: apply session policy: ") and answer.endswith("\n126\n"), (bad, answer)
    assert not world.exists("ran")
    put(good)
    assert session.ask(ask) == "0\n"


def test_a_shell_that_is_gone(world: World):
    world.write("/home/dev/bin/bash", '#!/bin/sh\nexec /bin/bash "$@"\n', 0o755)
    world.mkdir("/home/dev/bin")
    script = f"{X} -c 'echo one'; mv b/bash b/gone; {X} -c 'echo two'; echo $?"
    world.write("b/bash", '#!/bin/sh\nexec /bin/bash "$@"\n', 0o755)
    done = world.run(["nd7", "run", "sh", "-c", script], env={"SHELL": "/home/dev/project/b/bash"})
    assert done.out.split() == ["one", "126"]
    assert done.err.splitlines()[-1] == "nd7-exec: exec /home/dev/project/b/bash: No such file or directory"


def test_the_shell_is_not_the_confined_sides_to_choose(world: World):
    done = inside(world, "export SHELL=/bin/false CLAUDE_CODE_SHELL=/bin/false; $X -c 'echo $0'")
    assert done.out == "/bin/bash\n"


def test_a_harness_stays_in_the_floor(world: World, session):
    world.mkdir("/home/dev/extra")
    assert world.run(["nd7", "allow", "/home/dev/extra"]).code == 0
    ask = "AI_AGENT=x_harness $X -c 'echo $0; echo 1 > ~/extra/a' 2>/dev/null; echo $?"
    assert session.ask(ask) == "/bin/sh\n2\n"
    assert session.ask("AI_AGENT=x_agent $X -c 'echo 1 > ~/extra/a'; echo $?") == "0\n"


def starter(world: World, session_pid: int) -> int:
    """The zygote's pid: the process that the agent is a child of."""
    # A child that it has just forked has its name until the exec.
    return min(pid for pid, line in world.processes().items() if line.startswith("nd7 zygote"))


def test_a_zygote_that_was_killed_means_126_and_nothing_less_confined(world: World, session):
    assert session.ask("$X -c 'echo fine'") == "fine\n"
    os.kill(starter(world, session.pid), signal.SIGKILL)
    world.wait(lambda: not any("nd7 zygote" in line for line in world.processes().values()))
    answer = session.ask("sleep 0.3; $X -c 'touch ran' 2>&1; echo $?")
    assert answer == "nd7-exec: the session's command starter was killed: start the session again\n126\n"
    assert not world.exists("ran")
    assert session.ask("touch ~/x 2>/dev/null; echo $?") == "1\n"


def test_the_session_cannot_reach_what_keeps_it(world: World, session):
    for pid in (starter(world, session.pid), session.pid, os.getpid()):
        assert session.ask(f"$X -c 'kill -9 {pid}' 2>/dev/null; echo $?") == "1\n"
    assert session.ask("$X -c 'echo fine'") == "fine\n"


def test_a_client_that_is_killed_half_way_and_requests_that_are_damaged(world: World, session):
    world.write(
        "fuzz.py",
        """
import os, _socket, sys
for body in (b"", b"x", b"ND71", b"ND71\\xff\\xff\\xff\\xff", b"ND71\\x08\\0\\0\\0" + b"a" * 8, b"X" * 100000,
             b"ND71\\x14\\0\\0\\0" + b"\\xff" * 20):
    s = _socket.socket(_socket.AF_UNIX, _socket.SOCK_STREAM, 0x6E64)
    try:
        os.write(s.fileno(), body)
        s.shutdown(1)
        s.settimeout(10)
        print(s.recv(100))
    except OSError as e:
        print(e)
""",
    )
    answer = session.ask("/usr/bin/python3 -I fuzz.py")
    assert "the request is damaged" in answer and "X" not in answer
    assert session.ask("for i in 1 2 3; do $X -c 'sleep 60' & p=$!; kill -9 $p; done; $X -c 'echo fine'") == "fine\n"


def test_revisions_and_the_record(world: World, session):
    record = json.loads(world.read(f"{session.directory}/record.json"))
    assert (record["pid"], record["project"], record["program"]) == (session.pid, world.project, ["bash"])
    world.wait(lambda: json.loads(world.read(f"{session.directory}/record.json"))["enforced"])
    mode = world.path(session.directory).stat().st_mode & 0o777
    assert mode == 0o700


def test_a_signal_right_after_the_start_is_not_lost(world: World):
    done = inside(
        world,
        """for i in $(seq 30); do $X -c 'exec sleep 30.31' & p=$!; sleep 0.0$((RANDOM % 10))$((RANDOM % 10)); kill $p
        wait $p; echo $?; done | sort | uniq -c; pgrep -fx 'sleep 30.31' | wc -l""",
    )
    assert done.out.split() == ["30", "143", "0"]


ANCESTOR = """
import json, os, subprocess
home, pid = "/home/dev/.nd7", os.getpid()
session = f"{home}/sessions/{pid}"
os.makedirs(session)
for path in (home, home + "/sessions", session):
    os.chmod(path, 0o700)
start = open(f"/proc/{pid}/stat").read().rpartition(")")[2].split()[19]
boot = open("/proc/sys/kernel/random/boot_id").read().strip()
policy = session + "/policy.sb"
def ask(owner):
    with open(session + "/record.json", "w") as file:
        json.dump({"owner_start": owner, "grants": ["/" + "x" * 200_000]}, file)
    subprocess.run(["NAME", "-c", "touch ran"], stderr=subprocess.STDOUT)
ask("another:1")
ask(f"{boot}:{start}")
os.mkdir(policy)
ask(f"{boot}:{start}")
os.rmdir(policy)
open(policy, "w").write("(version 1)")
ask(f"{boot}:{start}")
os.chmod(policy, 0)
ask(f"{boot}:{start}")
print(policy)
""".replace("NAME", X)


def test_below_a_session_and_outside_its_filter_nothing_runs_and_the_reason_is_exact(world: World):
    assert world.run(["nd7", "run", "true"]).code == 0
    world.run(["rm", "-rf", "/home/dev/.nd7"])
    world.write("ancestor.py", ANCESTOR)
    *said, policy = world.run(["/usr/bin/python3", "-Iu", "ancestor.py"]).out.splitlines()
    assert said == [
        "nd7-exec: no nd7 session in this process's ancestry",
        "nd7-exec: session has no policy.sb",
        f"nd7-exec: read {policy}: Is a directory",
        "nd7-exec: apply session policy: this process is outside the session's confinement",
        f"nd7-exec: read {policy}: Permission denied",
    ]
    assert not world.exists("ran")


def test_a_secret_place_that_is_made_while_a_session_runs_is_hidden_from_it(world: World, session):
    assert session.ask("ls ~/.ssh 2>&1 | tail -1; $X -c 'echo ready'").endswith("ready\n")
    world.write("/home/dev/.ssh/id_ed25519", "secret")
    world.path("/home/dev/.ssh").chmod(0o700)
    time.sleep(3)
    answer = session.ask("cat ~/.ssh/id_ed25519 2>&1; $X -c 'cat ~/.ssh/id_ed25519' 2>&1; true")
    assert "secret" not in answer and answer.count("Permission denied") == 2
