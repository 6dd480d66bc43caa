"""What the kernel and the broker refused, in the session's log, tied to the command and to the agent's call.

Audit concerns the whole machine: the tests that read its records run one at a time, switch it on through nd7's own
`--kernel-records` or for themselves, and see that it stands as before in the end.  They need root of the machine; a
runner who is not asserts what nd7 says to such a person instead, and the records' form is tested everywhere.
"""

from __future__ import annotations

import fcntl
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hardship import HOOK, X, frames, nothing_left, payload
from world import Done, World

from nd7core.errors import Nd7Error
from nd7exec.linux import audit, kernel_audit, landlock, syscalls
from nd7exec.linux.kernel_audit import CallRefusal, KernelDenial, Records
from nd7exec.observed import BURST, Ledger, operation

ACCESS, DOMAIN, SYSCALL, END, SECCOMP = 1423, 1424, 1300, 1320, 1326
AT = b"audit(1795960887.426:142): "
RECORDS = [
    (ACCESS, AT + b'domain=17a5a7804 blockers=fs.make_reg path="/home/dev" dev="tmpfs" ino=2'),
    (DOMAIN, AT + b'domain=17a5a7804 status=allocated mode=enforcing pid=10779 uid=0 exe="/usr/bin/p" comm=6E6420'),
    (SYSCALL, AT + b'arch=c000003e success=no exit=-13 ppid=9 pid=10780 comm="touch" exe="/usr/bin/touch" key=(null)'),
    (1327, AT + b"proctitle=746F756368"),
    (ACCESS, b"audit(1795960887.500:143): domain=17a5a7804 blockers=fs.write_file,fs.truncate path=2F746D702F61206222"),
    (ACCESS, b"audit(1795960887.500:144): domain=99 blockers=net.connect_tcp daddr=127.0.0.1 dest=3000"),
    (ACCESS, b'audit(1795960887.500:145): domain=99 blockers=scope.signal opid=1 ocomm="init"'),
    (END, AT),
    (END, b"audit(1795960887.500:143): "),
    (END, b"audit(1795960887.500:144): "),
    (END, b"audit(1795960887.500:145): "),
    (DOMAIN, b"audit(1795960888.000:150): domain=17a5a7804 status=deallocated denials=5"),
]


def test_records_become_denials() -> None:
    records = Records()
    found = [denial for kind, text in RECORDS for denial in records.feed(kind, text)]
    first, second, third, fourth = [denial for denial in found if isinstance(denial, KernelDenial)]
    assert (first.creator, first.pid, first.comm, first.exe, first.error) == (
        10779,
        10780,
        "touch",
        "/usr/bin/touch",
        13,
    )
    assert (first.path, first.within, first.ts) == ("/home/dev", True, 1795960887_426_000_000)
    assert (second.path, second.within, second.creator) == ('/tmp/a b"', False, 10779)
    assert (third.target, third.creator, operation(third.blockers)) == ("127.0.0.1:3000", 0, "network")
    assert (fourth.target, operation(fourth.blockers)) == ("1", "signal")


@pytest.mark.parametrize(
    ("arch", "number", "code", "call", "action"),
    [
        ("c000003e", 165, "0x50000", "mount", "refused"),
        ("c00000b7", 40, "0x50001", "", ""),
        ("c00000b7", 40, "0x50000", "mount", "refused"),
        ("c000003e", 9999, "0x50000", "system call 9999", "refused"),
        ("40000003", 11, "0x80000000", "system call 11 of architecture 40000003", "killed"),
        ("c000003e", 42, "0x7fc00000", "", ""),
        ("c000003e", 42, "0x7ffc0000", "", ""),
    ],
)
def test_a_refused_call_is_told_by_its_name(arch: str, number: int, code: str, call: str, action: str) -> None:
    text = (
        b'audit(1795968239.694:19): auid=4294967295 uid=20 gid=0 ses=4294967295 pid=1383 comm=6D7620 exe="/bin/mount" '
        + f"sig=0 arch={arch} syscall={number} compat=0 ip=0x7f762579ce5a code={code}".encode()
    )
    wanted = CallRefusal(1795968239_694_000_000, 1383, 20, "mv ", "/bin/mount", call, action)
    assert Records().feed(SECCOMP, text) == ([wanted] if call else [])


@pytest.mark.parametrize("seed", range(40))
def test_damaged_records_never_raise(seed: int) -> None:
    import random

    chance = random.Random(seed)
    records = Records()
    for _ in range(200):
        kind, text = chance.choice(RECORDS)
        data = bytearray(text)
        for _ in range(chance.randrange(4)):
            data[chance.randrange(len(data))] = chance.randrange(256)
        records.feed(
            chance.choice([kind, 1423, 1424, 1300, 1320, 1326, 7]), bytes(data[: chance.randrange(len(data) + 1)])
        )


def test_the_same_is_told_once_and_counted_and_a_flood_is_limited() -> None:
    told: list[dict[str, Any]] = []
    ledger = Ledger(lambda body, text: told.append(body))
    denial = KernelDenial(1, "d", 5, blockers=("fs.write_file",), path="/x")
    for _ in range(1000):
        ledger.add(denial, "domain", b"", 1.0)
    assert [body["count"] for body in told] == [1]
    ledger.flush(2.0)
    assert [body["count"] for body in told] == [1, 999]
    ledger.flush(3.0)
    assert len(told) == 2
    for number in range(5000):
        ledger.add(KernelDenial(1, "d", 5, blockers=("fs.write_file",), path=f"/x{number}"), "domain", b"", 4.0)
    assert BURST - 5 < len(told) < BURST + 5
    ledger.add(KernelDenial(1, "d", 5, blockers=("fs.write_file",), path="/y"), "domain", b"", 9.0)
    assert told[-1]["path"] == "/y" and sum(body["count"] + body.get("more", 0) for body in told) == 6001


@pytest.fixture
def machine() -> Iterator[bool]:
    """Whether audit may be switched here, for one test of the machine at a time; it must be left as it was."""
    try:
        audit.status()
        able = landlock.kernel_abi() >= 7  # Linux 6.15 made the first records of Landlock's denials
    except OSError:
        able = False
    if not able:
        yield False
        return
    with Path("/tmp/nd7-tests-audit").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        before = audit.status()
        assert before.enabled == 0, "these tests are for a machine whose audit is off"
        yield True
        assert audit.status() == before


BARE = """
import sys
from nd7exec.linux import namespaces
namespaces.usable = lambda: "switched off for a test"
from nd7tui.cli import main
sys.exit(main())
"""


def as_root(world: World, words: list[str], **more: Any) -> subprocess.Popen[bytes]:
    """nd7 as root, in the world's files but the machine's own network, where alone audit's records are to be had."""
    world.mkdir("/root/project", owner=False)
    enter = ["nsenter", "--target", str(world.holder.pid), "--mount", "/usr/bin/env", "--chdir=/root/project"]
    environ = {**world.environ(), "HOME": "/root", "USER": "root"}
    environ.pop("TMPDIR", None)
    started = subprocess.Popen([*enter, *words], env=environ, stdout=-1, stderr=-1, stdin=subprocess.DEVNULL, **more)
    world.started.append(started)
    return started


def run_as_root(world: World, words: list[str]) -> Done:
    process = as_root(world, words)
    try:
        out, err = process.communicate(timeout=60)
    finally:
        process.kill()
    return Done(process.returncode, out.decode(), err.decode())


def rows_of(done: Done) -> list[dict[str, Any]]:
    assert done.code == 0, done
    return [json.loads(line) for line in done.out.splitlines()]


def root_frames(world: World) -> list[dict[str, Any]]:
    found = []
    sessions = world.path("/root/.local/state/nd7/sessions")
    for events in sorted(sessions.glob("*/events.ndjson")):
        found += [json.loads(line) for line in events.read_text().splitlines()]
    return found


ROOT_X = "/root/.local/state/nd7/bin/nd7-exec"
ROOT_HOOK = "/root/.local/state/nd7/bin/nd7-record"
COMMAND = "echo x > ~/refused; for i in 1 2 3 4 5; do mkdir ~/made; done; true"


def test_the_kernels_denials_are_tied_to_command_and_call(world: World, machine: bool) -> None:
    if not machine:
        done = world.run(["nd7", "run", "--kernel-records", "touch", "ran"])
        assert done.code == 126 and "which only root may" in done.err and not world.exists("ran")
        return
    start = payload("SessionStart", source="startup")
    call = payload("PreToolUse", tool_name="Bash", tool_use_id="toolu_1", tool_input={"command": COMMAND})
    other = payload("PreToolUse", tool_name="Bash", tool_use_id="toolu_2", tool_input={"command": "true"})
    error = "Exit code 1\n/bin/bash: line 1: /root/refused: Permission denied"
    failed = payload(
        "PostToolUseFailure", tool_name="Bash", tool_use_id="toolu_1", tool_input={"command": COMMAND}, error=error
    )
    for name, text in (("start", start), ("call", call), ("other", other), ("failed", failed), ("command", COMMAND)):
        world.write(f"/root/project/{name}", text, owner=False)
    script = (
        f"H={ROOT_HOOK}; for f in start call other; do $H < $f; done\n"
        f"AI_AGENT=x_agent {ROOT_X} -c \"source /dev/null; eval '$(cat command)'\"\n"
        "echo y > ~/by-agent; sleep 2; $H < failed"
    )
    world.write("/root/project/script", script, owner=False)
    done = run_as_root(world, [sys.executable, "-P", "-c", BARE, "run", "--kernel-records", "bash", "script"])
    assert "Permission denied" in done.err, done
    denials = [frame for frame in root_frames(world) if frame["source"] == "effect:landlock-audit"]
    assert {frame["kind"] for frame in denials} == {"denial"}
    bodies = [frame["body"] for frame in denials]
    made = [body for body in bodies if body["blockers"] == ["fs.make_dir"]]
    assert [body["count"] for body in made] == [1, 4] and made[0]["comm"] == "mkdir", bodies
    assert {body.get("tool_use_id") for body in made} == {"toolu_1"}
    (written,) = [body for body in bodies if body["blockers"] == ["fs.make_reg"] and "tool_use_id" in body]
    assert (written["path"], written["within"], written["operation"]) == ("/root", True, "write")
    assert (written["tool_use_id"], written["tied_by"], written["errno"]) == ("toolu_1", "domain", "EACCES")
    (agents,) = [body for body in bodies if "tool_use_id" not in body]
    assert agents["path"] == "/root" and agents["comm"] == "bash" and "command" not in agents
    # The canary is refused on purpose, and is not the session's.
    assert not [body for body in bodies if body["comm"].startswith("python")], bodies
    (row,) = [row for row in rows_of(run_as_root(world, ["nd7", "denials", "--json"])) if row["tool"] == "Bash"]
    assert (row["source"], row["evidence"], row["target"]) == ("kernel", "recorded", "/root/refused"), row
    assert run_as_root(world, ["nd7", "verify", "s-1"]).code == 0


def test_audit_is_never_switched_on_unasked_and_read_where_it_is(world: World, machine: bool) -> None:
    if not machine:
        assert kernel_audit.why_not() != ""
        return
    words = [sys.executable, "-P", "-c", BARE, "run", "bash", "-c", "echo x > ~/refused; sleep 1"]
    run_as_root(world, words)
    assert audit.status().enabled == 0
    assert not [frame for frame in root_frames(world) if frame["source"] == "effect:landlock-audit"]
    users = audit.switch_on("/tmp/nd7-tests-audit.d")
    try:
        run_as_root(world, words)
    finally:
        os.close(users)
        assert audit.let_go("/tmp/nd7-tests-audit.d")
    bodies = [frame["body"] for frame in root_frames(world) if frame["source"] == "effect:landlock-audit"]
    assert [body["path"] for body in bodies] == ["/root"]


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL])
def test_audit_is_put_back_however_the_sessions_end(world: World, machine: bool, number: int, tmp_path: Path) -> None:
    if not machine and os.geteuid():
        with pytest.raises(Nd7Error):
            audit.switch_on(str(tmp_path / "audit"))
    if not machine:
        return
    words = ["nd7", "run", "--kernel-records", "sleep", "60"]
    first, second = as_root(world, words), as_root(world, words)
    world.wait(lambda: audit.status() == (1, audit.BACKLOG))
    for running in (first, second):
        world.wait(lambda pid=running.pid: world.exists(f"/root/.nd7/sessions/{pid}/policy.sb"))
    first.send_signal(number)
    first.wait(20)
    time.sleep(1.0)
    assert audit.status().enabled == 1, "the other still wants it"
    second.send_signal(number)
    second.wait(20)
    world.wait(lambda: audit.status().enabled == 0, what=audit.status)


def test_the_filters_refusals_are_recorded_where_that_was_asked_for(world: World, machine: bool) -> None:
    if not machine:
        assert kernel_audit.why_not() != ""
        return
    number = {"x86_64": 250, "aarch64": 219}[syscalls.machine()]  # keyctl
    code = (
        f"import ctypes, time; [ctypes.CDLL(None).syscall({number}, 0, 0, 0, 0, 0) for _ in range(3)]; time.sleep(0.5)"
    )
    command = f'/usr/bin/python3 -c "{code}"'
    start = payload("SessionStart", source="startup")
    call = payload("PreToolUse", tool_name="Bash", tool_use_id="toolu_1", tool_input={"command": command})
    for name, text in (("start", start), ("call", call), ("command", command), ("code", code)):
        world.write(f"/root/project/{name}", text, owner=False)
    script = (
        f"H={ROOT_HOOK}; for f in start call; do $H < $f; done\n"
        f"AI_AGENT=x_agent {ROOT_X} -c \"source /dev/null; eval '$(cat command)'\"\n"
        'python3 -c "$(cat code)"; sleep 2'
    )
    world.write("/root/project/script", script, owner=False)

    def refused(*words: str) -> list[dict[str, Any]]:
        for log in world.listdir("/root/.local/state/nd7/sessions"):
            shutil.rmtree(world.path(f"/root/.local/state/nd7/sessions/{log}"))
        done = run_as_root(world, ["nd7", "run", *words, "bash", "script"])
        assert done.code == 0, done
        return [frame for frame in root_frames(world) if frame["source"] == "effect:seccomp-audit"]

    users = audit.switch_on("/tmp/nd7-tests-audit.d")
    try:
        assert refused() == []  # audit is on, and this session's filter still asks for no records
    finally:
        os.close(users)
        assert audit.let_go("/tmp/nd7-tests-audit.d")
    frames_of = [frame for frame in refused("--kernel-records") if frame["kind"] == "denial"]
    keyctl = [frame["body"] for frame in frames_of if frame["body"]["call"] == "keyctl"]
    tied = [body for body in keyctl if body.get("tool_use_id")]
    agents = [body for body in keyctl if not body.get("tool_use_id")]
    for bodies in (tied, agents):
        assert sum(body["count"] for body in bodies) == 3 and bodies[0]["comm"] == "python3", keyctl
        assert {(body["tied_by"], body["action"]) for body in bodies} == {("process", "refused")}
    assert tied[0]["tool_use_id"] == "toolu_1" and tied[0]["text"].endswith("of python3: keyctl")
    assert "command" not in agents[0]
    # What the canary is refused on purpose is not the session's.
    assert not [frame for frame in frames_of if "nd7" in frame["body"]["comm"]], frames_of
    assert run_as_root(world, ["nd7", "verify", "s-1"]).code == 0


def test_what_the_broker_refuses_is_an_attempt_tied_to_the_call(world: World) -> None:
    command = 'python3 -c "import socket; socket.create_connection((\\"127.0.0.1\\", 3000))"'
    start = payload("SessionStart", source="startup")
    call = payload("PreToolUse", tool_name="Bash", tool_use_id="toolu_1", tool_input={"command": command})
    more = {"tool_name": "Bash", "tool_use_id": "toolu_1", "tool_input": {"command": command}}
    failed = payload(
        "PostToolUseFailure", error="Exit code 1\ncurl: (7) Failed to connect to localhost port 3000", **more
    )
    for name, text in (("start", start), ("call", call), ("failed", failed), ("command", command)):
        world.write(name, text)
    script = f'for f in start call; do {HOOK} < $f; done; AI_AGENT=x_agent {X} -c "$(cat command)"; {HOOK} < failed'
    world.write("script", script)
    done = world.run(["nd7", "run", "bash", "script"])
    assert "PermissionError" in done.err, done
    (attempt,) = [frame for frame in frames(world) if frame["source"] == "effect:nd7-broker"]
    assert attempt["kind"] == "attempt"
    body = attempt["body"]
    assert (body["target"], body["tool_use_id"], body["errno"]) == ("127.0.0.1:3000", "toolu_1", "EACCES"), body
    (row,) = rows_of(world.run(["nd7", "denials", "--json"]))
    assert (row["source"], row["evidence"], row["operation"]) == ("kernel", "recorded", "network"), row
    nothing_left(world)
