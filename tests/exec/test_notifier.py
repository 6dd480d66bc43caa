"""The notifier, asked by real confined processes: what it does for them, and what it tells."""

from __future__ import annotations

import array
import contextlib
import ctypes
import errno
import os
import resource
import select
import signal
import socket
import struct
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from typing import Any

import confined
import pytest
from confined import BARE, FULL, Cell, Config, Outcome, Targets

from nd7exec.linux import bpf, messages, seccomp, syscalls
from nd7exec.linux.asked import _Limit
from nd7exec.linux.confinement import ConfinementError, enter_session
from nd7exec.linux.membership import Membership, status_field, thread_group

UID = confined.UNPRIVILEGED if os.getuid() == 0 else os.getuid()
OLD = Config("no-namespaces-abi5", namespaces=False, abi=5)
HOST = "127.0.0.1"


# What runs inside


def rendezvous(t: Targets) -> Any:
    fd = syscalls.call("socket", 1, 1 | socket.SOCK_CLOEXEC, seccomp.EXEC_PROTOCOL)
    with socket.socket(fileno=fd) as sock:
        return [sock.recv(99).decode(), os.getpid(), os.get_inheritable(fd)]


def rendezvous_in_a_thread(t: Targets) -> Any:
    said: list[Any] = []
    thread = threading.Thread(target=lambda: said.extend(rendezvous(t)))
    thread.start()
    thread.join()
    return said


def connect_blocking(t: Targets) -> Any:
    sock = socket.socket()
    sock.connect((HOST, 443))
    return [sock.getpeername()[1], sock.send(b"hello"), sock.getblocking()]


def connect_refused(t: Targets) -> Any:
    sock = socket.socket(socket.AF_INET6)
    sock.connect(("::1", 9))
    return sock


def connect_nonblocking(t: Targets) -> Any:
    sock = socket.socket()
    sock.setblocking(False)
    sock.connect_ex((HOST, 443))
    select.select([], [sock], [], 5)
    return [sock.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR), sock.send(b"x")]


def connect_to_silence(t: Targets) -> Any:
    """Fill a listener's backlog, so that a further connection waits; then have a signal come."""
    kept = []
    for _ in range(200):
        sock = socket.socket()
        sock.setblocking(False)
        sock.connect_ex((HOST, 443))
        kept.append(sock)

    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    signal.signal(signal.SIGALRM, interrupt)
    signal.setitimer(signal.ITIMER_REAL, 0.3)
    began = time.monotonic()
    try:
        socket.socket().connect((HOST, 443))
    except KeyboardInterrupt:
        return ["interrupted", time.monotonic() - began < 3]
    return ["connected", time.monotonic() - began]


def killed_while_connecting(t: Targets) -> Any:
    kept = []
    for _ in range(200):
        sock = socket.socket()
        sock.setblocking(False)
        sock.connect_ex((HOST, 443))
        kept.append(sock)
    child = os.fork()
    if child == 0:
        socket.socket().connect((HOST, 443))
        os._exit(0)
    time.sleep(0.3)
    os.kill(child, signal.SIGKILL)
    return os.WTERMSIG(os.waitpid(child, 0)[1])


def ask_name_server(t: Targets) -> Any:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
        sent = [sock.sendto(b"question", (HOST, 53)), sock.sendmsg([b"ques", b"tion"], [], 0, (HOST, 53))]
        sock.connect((HOST, 53))
        return [*sent, sock.send(b"third"), sock.getpeername()[1]]


def send_many(t: Targets) -> Any:
    """sendmmsg with two messages: how many went, and how long each was."""
    address = ctypes.create_string_buffer(
        struct.pack("=H", 2) + struct.pack("!H", 53) + bytes((127, 0, 0, 1)) + bytes(8)
    )
    data = [ctypes.create_string_buffer(b"one", 3), ctypes.create_string_buffer(b"three", 5)]
    vectors = [ctypes.create_string_buffer(struct.pack("QQ", ctypes.addressof(d), len(d)), 16) for d in data]
    headers = b"".join(
        struct.pack("QI4xQQQQi4xI4x", ctypes.addressof(address), 16, ctypes.addressof(v), 1, 0, 0, 0, 0)
        for v in vectors
    )
    buffer = ctypes.create_string_buffer(headers, len(headers))
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
        count = syscalls.call("sendmmsg", sock.fileno(), buffer, 2, 0)
    return [count, *struct.unpack_from("I", buffer, 56), *struct.unpack_from("I", buffer, 64 + 56)]


def pass_descriptors(t: Targets) -> Any:
    ours, theirs = socket.socketpair()
    pipes = [os.pipe() for _ in range(3)]
    ours.sendmsg([b"here"], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", [pipe[0] for pipe in pipes]))])
    data, control, _, _ = theirs.recvmsg(16, socket.CMSG_SPACE(12))
    for number, pipe in enumerate(pipes):
        os.write(pipe[1], str(number).encode())
    return [data.decode(), *(os.read(fd, 9).decode() for fd in array.array("i", control[0][2]))]


def send_more_than_fits(t: Targets) -> Any:
    """A blocking sendmsg waits until somebody reads, and nothing is lost or doubled."""
    ours, theirs = socket.socketpair()
    data = bytes(range(256)) * 12000
    got = bytearray()

    def reader() -> None:
        time.sleep(0.2)
        while len(got) < len(data):
            got.extend(theirs.recv(65536))

    thread = threading.Thread(target=reader)
    thread.start()
    sent = 0
    while sent < len(data):
        sent += ours.sendmsg([data[sent : sent + 1000], data[sent + 1000 :]])
    thread.join()
    return [sent == len(data), bytes(got) == data]


def send_without_waiting(t: Targets) -> Any:
    ours, _ = socket.socketpair()
    ours.setblocking(False)
    with contextlib.suppress(BlockingIOError):
        while True:
            ours.sendmsg([b"x" * 65536])
    return ours.sendmsg([b"x"], [], socket.MSG_DONTWAIT)


def broken_pipe(t: Targets) -> Any:
    ours, theirs = socket.socketpair()
    theirs.close()
    return ours.sendmsg([b"x"])


def bad_memory(t: Targets) -> Any:
    return syscalls.call("sendmsg", socket.socket().detach(), 0x1000, 0)


def bad_address(t: Targets) -> Any:
    return syscalls.call("connect", socket.socket().detach(), 0x1000, 16)


def short_address(t: Targets) -> Any:
    return syscalls.call("connect", socket.socket().detach(), b"\2", 1)


def huge_address(t: Targets) -> Any:
    return syscalls.call("connect", socket.socket().detach(), b"\2\0" * 500, 1000)


def huge_vector(t: Targets) -> Any:
    header = struct.pack("QI4xQQQQi4x", 0, 0, 0x1000, 1 << 40, 0, 0, 0)
    return syscalls.call("sendmsg", socket.socketpair()[0].detach(), header, 0)


def huge_datagram(t: Targets) -> Any:
    return socket.socket(socket.AF_INET, socket.SOCK_DGRAM).sendto(b"x" * 70000, (HOST, 53))


def no_socket(t: Targets) -> Any:
    return syscalls.call("connect", os.pipe()[0], b"\2\0" * 8, 16)


def no_descriptor(t: Targets) -> Any:
    return syscalls.call("bind", 999, b"\2\0" * 8, 16)


def interfaces(t: Targets) -> Any:
    return [name for _, name in socket.if_nameindex()]


def own_limits(t: Targets) -> Any:
    child = os.fork()
    if child == 0:
        time.sleep(9)
        os._exit(0)
    try:
        resource.prlimit(child, resource.RLIMIT_NOFILE, (50, 50))
        os.setpriority(os.PRIO_PROCESS, child, 3)
        os.sched_setaffinity(child, os.sched_getaffinity(0))
        return [resource.prlimit(child, resource.RLIMIT_NOFILE)[0], os.getpriority(os.PRIO_PROCESS, child)]
    finally:
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)


def thread_affinity(t: Targets) -> Any:
    said: list[Any] = []

    def work() -> None:
        os.sched_setaffinity(threading.get_native_id(), os.sched_getaffinity(0))
        said.append("done")

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    return said


def start_background(t: Targets) -> Any:
    child = os.fork()
    if child == 0:
        os.setsid()
        null = os.open(os.devnull, os.O_RDWR)
        for fd in range(64):
            with contextlib.suppress(OSError):
                os.dup2(null, fd)
        time.sleep(60)
        os._exit(0)
    return child


def kill_process(t: Targets, pid: int) -> Any:
    os.kill(pid, signal.SIGKILL)
    return "killed"


def kill_by_pidfd(t: Targets, pid: int) -> Any:
    signal.pidfd_send_signal(os.pidfd_open(pid), signal.SIGKILL)
    return "killed"


def kill_own_group(t: Targets) -> Any:
    signal.signal(signal.SIGUSR1, lambda *_: None)
    os.kill(0, signal.SIGUSR1)
    os.killpg(os.getpgrp(), signal.SIGUSR1)
    os.kill(os.getpid(), signal.SIGUSR1)
    signal.raise_signal(signal.SIGUSR1)
    signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGUSR1)
    return "alive"


def refuse_many(t: Targets) -> Any:
    for _ in range(500):
        with contextlib.suppress(OSError):
            socket.create_connection((HOST, 3000))
    return "done"


def ask_a_thousand_times(t: Targets) -> Any:
    """Everything that the supervisor opens something for."""
    ours, theirs = socket.socketpair()
    for _ in range(1000):
        os.close(syscalls.call("socket", 1, 1, seccomp.EXEC_PROTOCOL))
        with contextlib.suppress(OSError):
            socket.create_connection((HOST, 3000))
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
            sock.sendto(b"question", (HOST, 53))
        ours.sendmsg([b"x"], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", [0, 1]))])
        for fd in array.array("i", theirs.recvmsg(1, 64)[1][0][2]):
            os.close(fd)
        with contextlib.suppress(OSError):
            syscalls.call("sendmsg", ours.fileno(), 0x1000, 0)
    return "done"


def flood(t: Targets) -> Any:
    """Processes that ask as fast as they can, and one that wants an answer meanwhile: how long the slowest took."""
    children = []
    for _ in range(20):
        child = os.fork()
        if child == 0:
            ours, theirs = socket.socketpair()
            while True:
                ours.sendmsg([b"x" * 60000])
                theirs.recv(60000)
                with contextlib.suppress(OSError):
                    socket.create_connection((HOST, 3000))
        children.append(child)
    slowest = 0.0
    for _ in range(20):
        began = time.monotonic()
        os.close(syscalls.call("socket", 1, 1, seccomp.EXEC_PROTOCOL))
        slowest = max(slowest, time.monotonic() - began)
    for child in children:
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
    return int(slowest * 1000)


def run(cell: Cell, function: Any, argument: Any = None) -> Outcome:
    outcome = cell.run(__name__, function.__name__, argument=argument)
    assert outcome.how in ("returned", "raised"), outcome.text
    return outcome


@pytest.fixture(scope="module", params=[FULL, BARE, OLD], ids=lambda config: config.name)
def cell(request: pytest.FixtureRequest) -> Iterator[Cell]:
    with confined.cell(request.param, UID) as made:
        yield made


def test_the_rendezvous_gives_a_socket_and_tells_the_callers_pid(cell: Cell) -> None:
    said, pid, inheritable = run(cell, rendezvous).value
    assert said == f"6e64 {pid}"
    assert not inheritable


def test_the_rendezvous_tells_the_process_of_a_thread(cell: Cell) -> None:
    said, pid, _ = run(cell, rendezvous_in_a_thread).value
    assert said == f"6e64 {pid}"


def test_outside_a_session_there_is_no_rendezvous() -> None:
    with pytest.raises(OSError, match="not supported"):
        socket.socket(socket.AF_UNIX, socket.SOCK_STREAM, seccomp.EXEC_PROTOCOL)


def test_connections_are_made_for_the_process(cell: Cell) -> None:
    assert run(cell, connect_blocking).value == [443, 5, True]
    assert run(cell, connect_nonblocking).value == [0, 1]
    assert run(cell, connect_refused).errno == errno.EACCES


def test_a_waiting_connection_can_be_interrupted(cell: Cell) -> None:
    assert run(cell, connect_to_silence).value == ["interrupted", True]


def test_a_process_that_waits_can_be_killed_and_the_next_one_is_answered(cell: Cell) -> None:
    assert run(cell, killed_while_connecting).value == signal.SIGKILL
    assert run(cell, ask_name_server).value == [8, 8, 5, 53]


def test_a_name_server_is_asked_every_way(cell: Cell) -> None:
    outcome = run(cell, ask_name_server)
    assert outcome.value == [8, 8, 5, 53]
    assert "udp53" in outcome.arrived
    assert run(cell, send_many).value == [2, 3, 5]


def test_messages_with_descriptors(cell: Cell) -> None:
    assert run(cell, pass_descriptors).value == ["here", "0", "1", "2"]


def test_more_than_a_socket_holds(cell: Cell) -> None:
    assert run(cell, send_more_than_fits).value == [True, True]
    assert run(cell, send_without_waiting).errno == errno.EAGAIN
    assert run(cell, broken_pipe).errno == errno.EPIPE


@pytest.mark.parametrize(
    ("function", "error"),
    [
        (bad_memory, errno.EFAULT),
        (bad_address, errno.EFAULT),
        (short_address, errno.EINVAL),
        (huge_address, errno.EINVAL),
        (huge_vector, errno.EMSGSIZE),
        (huge_datagram, errno.EMSGSIZE),
        (no_socket, errno.ENOTSOCK),
        (no_descriptor, errno.EBADF),
    ],
)
def test_nonsense_gets_the_kernels_own_errors(cell: Cell, function: Any, error: int) -> None:
    assert run(cell, function).errno == error


def test_interfaces_are_listed(cell: Cell) -> None:
    assert "lo" in run(cell, interfaces).value


def test_limits_of_the_sessions_own_processes(cell: Cell) -> None:
    assert run(cell, own_limits).value == [50, 3]
    assert run(cell, thread_affinity).value == ["done"]


def test_a_later_command_kills_a_job_of_an_earlier_one(cell: Cell) -> None:
    for function in (kill_process, kill_by_pidfd):
        pid = run(cell, start_background).value
        assert run(cell, function, pid).value == "killed"


def test_signals_to_oneself(cell: Cell) -> None:
    assert run(cell, kill_own_group).value == "alive"


def test_refusals_are_told_but_not_without_end(cell: Cell) -> None:
    outcome = run(cell, refuse_many)
    told = [name for name in outcome.arrived if name == "refused:tcp"]
    assert 1 <= len(told) < 120


def test_nothing_is_left_behind_by_many_questions(cell: Cell) -> None:
    run(cell, ask_a_thousand_times)
    descriptors, size = cell.size()
    run(cell, ask_a_thousand_times)
    after = cell.size()
    assert after[0] == descriptors
    assert after[1] - size < 1 << 20


def test_a_flood_of_questions_keeps_nobody_waiting_long(cell: Cell) -> None:
    assert run(cell, flood).value < 3000


def test_the_limit_counts_what_it_leaves_out() -> None:
    limit = _Limit()
    told = [limit.take() for _ in range(200)]
    assert all(yes for yes, _ in told[:50])
    assert not told[-1][0]
    time.sleep(0.25)
    assert limit.take() == (True, sum(not yes for yes, _ in told))


# Without a session


def test_addresses() -> None:
    assert messages.parse_address(struct.pack("=H", 2) + struct.pack("!H", 80) + bytes(12)) == ("0.0.0.0", 80)
    assert messages.parse_address(bytes(2)) == ("", 0)
    with pytest.raises(ValueError, match="too short"):
        messages.parse_address(struct.pack("=H", 2) + b"\0")


def netlink(kind: int, length: int = 16) -> bytes:
    return struct.pack("=IHHII", length, kind, 0, 0, 0)


@pytest.mark.parametrize(
    ("data", "asks"),
    [
        (b"", True),
        (netlink(18), True),
        (netlink(22) + netlink(26), True),
        (netlink(16), False),
        (netlink(17), False),
        (netlink(19), False),
        (netlink(22) + netlink(20), False),
        (netlink(2), False),
        (netlink(22, 15), False),
        (netlink(22, 4), False),
        (b"short", False),
        (netlink(22, 0), False),
    ],
)
def test_only_questions_to_the_routing_tables_go_through(data: bytes, asks: bool) -> None:
    assert messages.netlink_only_asks(data) is asks


def test_membership_by_ancestry() -> None:
    child = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    try:
        membership = Membership(os.getpid(), "")
        assert membership.contains(child.pid)
        assert not membership.contains(os.getpid())
        assert not membership.contains(os.getppid())
        assert not membership.contains(1)
        assert not membership.contains(-1)
        assert not Membership(child.pid, "").contains(child.pid)
        assert not Membership(1, "user:[1]").contains(child.pid)
        assert not membership.group_inside(1 << 22)
    finally:
        child.communicate(b"\n")


def test_status_fields() -> None:
    assert thread_group(os.getpid()) == os.getpid()
    assert status_field(os.getpid(), b"NoSuchField") == ""
    assert status_field(-1, b"Tgid") == ""
    assert thread_group(1 << 22) == 0


def test_another_listener_outside_is_named_as_the_reason() -> None:
    """As in a container whose runtime answers notifications itself."""
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        said = "entered"
        try:
            syscalls.prctl(syscalls.PR_SET_NO_NEW_PRIVS, 1)
            bpf.install(bpf.ret(bpf.ALLOW))
            enter_session(confined.rules_for(Targets("/nowhere", "/nowhere/p", "/nowhere/t")), False)
        except ConfinementError as error:
            said = error.message
        except BaseException as error:
            said = repr(error)
        os.write(writer, said.encode())
        os._exit(0)
    os.close(writer)
    with os.fdopen(reader, "rb") as answers:
        said = answers.read().decode()
    os.waitpid(child, 0)
    assert said == "another sandbox outside already answers seccomp notifications, and the kernel allows one"
