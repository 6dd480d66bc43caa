"""The filter, run in the interpreter for both machines; its effect on a real process is in tests/attacks."""

from __future__ import annotations

import errno
from collections.abc import Callable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nd7exec.linux import bpf, seccomp, syscalls
from nd7exec.linux.bpf import ALLOW, KILL, NOTIFY, refuse

EPERM, ENOSYS = refuse(errno.EPERM), refuse(errno.ENOSYS)
UNSUPPORTED, NO_FAMILY = refuse(errno.EPROTONOSUPPORT), refuse(errno.EAFNOSUPPORT)
ZYGOTE = 4321
Answer = Callable[..., int]


@pytest.fixture(params=syscalls.MACHINES)
def machine(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def answers(machine: str, **flags: bool) -> Answer:
    code = seccomp.program(seccomp.Surroundings(machine, zygote=ZYGOTE, **flags))

    def answer(name: str | int, *arguments: int, arch: int | None = None) -> int:
        number = syscalls.NUMBERS[machine][name] if isinstance(name, str) else name
        return bpf.interpret(code, machine, number, arguments, arch=arch)

    return answer


@pytest.fixture
def full(machine: str) -> Answer:
    return answers(machine)


@pytest.fixture
def bare(machine: str) -> Answer:
    return answers(machine, mounts=False, ipc=False, namespaces_closed=False, scopes=False)


def test_the_two_tables_agree_with_the_kernels_headers_where_those_are_installed() -> None:
    headers = {
        "x86_64": "/usr/include/x86_64-linux-gnu/asm/unistd_64.h",
        "aarch64": "/usr/include/asm-generic/unistd.h",
    }
    for machine, path in headers.items():
        try:
            text = syscalls.read_file(path).decode()
        except OSError:
            continue
        known = {}
        for line in text.splitlines():
            words = line.split()
            if len(words) == 3 and words[0] == "#define" and words[1].startswith("__NR") and words[2].isdigit():
                known[words[1].removeprefix("__NR3264_").removeprefix("__NR_")] = int(words[2])
        ours = syscalls.NUMBERS[machine]
        assert {name: number for name, number in ours.items() if known.get(name, number) != number} == {}
        assert len(known.keys() & ours.keys()) > 90


def test_another_architecture_is_killed(full: Answer) -> None:
    assert full("ptrace", arch=0x40000003) == KILL
    assert full("ptrace", arch=0) == KILL


def test_calls_that_came_later_and_those_of_x32_do_not_exist(full: Answer) -> None:
    for number in (syscalls.LAST_KNOWN + 1, 0x40000000, 0x40000029, 0xFFFFFFFF, 512, 547):
        assert full(number) == ENOSYS
    assert full(0) == ALLOW


@pytest.mark.parametrize("name", seccomp.REFUSED)
def test_what_is_refused_for_everyone(name: str, machine: str) -> None:
    if name in syscalls.NUMBERS[machine]:
        for flag in (True, False):
            assert answers(machine, mounts=flag, scopes=flag)(name) == EPERM


def test_unix_sockets_are_the_rendezvous_and_nothing_else(full: Answer) -> None:
    for protocol in (0x6E64, 0x6E65):
        assert full("socket", 1, 1, protocol) == NOTIFY
        assert full("socket", 1, 1 | 0o2000000 | 0o4000, protocol) == NOTIFY
        assert full("socket", 1, 2, protocol) == full("socket", 1, 5, protocol) == EPERM
    for protocol in (0, 1, 0x6E63, 0x6E66):
        assert full("socket", 1, 1, protocol) == EPERM
    assert full("socket", 1 | 1 << 32, 1, 0) == EPERM


def test_pairs(full: Answer) -> None:
    assert full("socketpair", 1, 1 | 0o2000000, 0) == full("socketpair", 1, 5, 0) == ALLOW
    assert full("socketpair", 1, 2, 0) == full("socketpair", 2, 1, 0) == EPERM


def test_internet_sockets(full: Answer) -> None:
    for family in (2, 10):
        assert full("socket", family, 1, 0) == full("socket", family, 1 | 0o4000, 6) == ALLOW
        assert full("socket", family, 2, 0) == full("socket", family, 2, 17) == ALLOW
        for protocol in (262, 256, 132, 33):
            assert full("socket", family, 1, protocol) == UNSUPPORTED
        for kind, protocol in ((2, 1), (2, 58), (2, 136), (3, 255), (5, 132), (6, 33), (10, 0)):
            assert full("socket", family, kind, protocol) == EPERM


def test_other_families(full: Answer) -> None:
    assert full("socket", 16, 3, 0) == ALLOW
    for protocol in (2, 4, 9, 11, 12, 15, 16):
        assert full("socket", 16, 3, protocol) == EPERM
    for family in (0, 15, 17, 29, 30, 31, 38, 40, 41, 42, 43, 44, 45, 99):
        assert full("socket", family, 1, 0) == NO_FAMILY


def test_sends(full: Answer) -> None:
    fast = 0x20000000
    assert full("sendto", 3, 1, 1, 0, 0, 0) == ALLOW
    assert full("sendto", 3, 1, 1, 0, 5, 16) == full("sendto", 3, 1, 1, 0, 1 << 32, 16) == NOTIFY
    assert full("sendto", 3, 1, 1, fast, 0, 0) == full("sendto", 3, 1, 1, fast, 5, 16) == EPERM
    assert full("sendmsg", 3, 1, 0) == full("sendmmsg", 3, 1, 1, 0) == NOTIFY
    assert full("sendmsg", 3, 1, fast | 64) == full("sendmmsg", 3, 1, 1, fast) == EPERM
    assert full("connect", 3, 1, 16) == full("bind", 3, 1, 16) == full("listen", 3, 1) == NOTIFY


def test_namespaces(full: Answer, bare: Answer) -> None:
    for flag in (0x20000, 0x2000000, 0x4000000, 0x8000000, 0x10000000, 0x20000000, 0x40000000):
        assert full("clone", flag | 17) == full("unshare", flag) == EPERM
    assert full("unshare", 0x80) == EPERM
    thread = 0x3D0F00
    assert full("clone", thread) == full("clone", 17) == full("clone", 0x4000 | 0x100 | 17) == ALLOW
    assert full("unshare", 0x400) == ALLOW
    assert full("clone3", 1, 88) == ALLOW
    assert bare("clone3", 1, 88) == ENOSYS


@pytest.mark.parametrize("request_", [0x5412, 0x541C, 0x5423, 0x541D, 0x5437, 0x8901, 0x8902])
def test_terminal_and_owner_ioctls(full: Answer, request_: int) -> None:
    assert full("ioctl", 0, request_, 1) == full("ioctl", 0, request_ | 1 << 32, 1) == EPERM


def test_other_ioctls(full: Answer, bare: Answer) -> None:
    for request in (0x5401, 0x5402, 0x5413, 0x5414, 0x540E, 0x5441, 0x5421, 0x80045430, 0x5450):
        assert full("ioctl", 0, request) == bare("ioctl", 0, request) == ALLOW
    assert full("ioctl", 3, 0x40086602) == ALLOW
    assert bare("ioctl", 3, 0x40086602) == bare("ioctl", 3, 0x401C5820) == EPERM


def test_other_processes(full: Answer) -> None:
    assert full("prlimit64", 0, 7, 1, 1) == ALLOW
    assert full("prlimit64", 99, 7, 0, 1) == ALLOW
    assert full("prlimit64", 99, 7, 1, 0) == full("prlimit64", 99, 7, 1 << 32, 0) == NOTIFY
    for name in ("sched_setaffinity", "sched_setscheduler", "sched_setparam", "sched_setattr"):
        assert full(name, 0, 8, 1) == ALLOW
        assert full(name, 99, 8, 1) == NOTIFY
    assert full("setpriority", 0, 0, 5) == full("setpriority", 1, 0, 5) == ALLOW
    assert full("setpriority", 0, 99, 5) == NOTIFY
    assert full("setpriority", 1, 99, 5) == full("setpriority", 2, 0, 5) == EPERM
    assert full("ioprio_set", 1, 0, 5) == ALLOW
    assert full("ioprio_set", 1, 99, 5) == NOTIFY
    assert full("ioprio_set", 2, 99, 5) == full("ioprio_set", 3, 0, 5) == EPERM
    assert full("move_pages", 0) == ALLOW
    assert full("move_pages", 99) == full("migrate_pages", 99) == EPERM


def test_signals(full: Answer, bare: Answer) -> None:
    assert full("kill", 99, 15) == full("kill", 0, 15) == full("kill", -99 & (1 << 64) - 1, 15) == ALLOW
    assert bare("kill", 99, 15) == bare("tgkill", 99, 99, 15) == bare("tkill", 99, 15) == NOTIFY
    assert bare("kill", 0, 15) == ALLOW
    for answer in (full, bare):
        assert answer("kill", ZYGOTE, 9) == answer("kill", -ZYGOTE & (1 << 64) - 1, 9) == EPERM
        assert answer("kill", -1 & (1 << 64) - 1, 9) == answer("kill", ZYGOTE | 1 << 32, 9) == EPERM
        for name in ("tkill", "tgkill", "rt_sigqueueinfo", "rt_tgsigqueueinfo"):
            assert answer(name, ZYGOTE, 9) == EPERM
        assert answer("pidfd_send_signal", 3, 9, 0, 0) == NOTIFY
        assert answer("setpgid", 0, ZYGOTE) == EPERM
        assert answer("setpgid", 0, 0) == answer("setpgid", 5, 5) == ALLOW
        assert answer("fcntl", 3, 8, ZYGOTE) == answer("fcntl", 3, 15, 1) == EPERM
        assert answer("fcntl", 3, 8, 0) == answer("fcntl", 3, 1, 0) == ALLOW
    assert full("fcntl", 3, 8, 99) == ALLOW
    assert bare("fcntl", 3, 8, 99) == EPERM


def test_shared_memory_only_where_it_is_the_sessions_own(full: Answer, bare: Answer) -> None:
    for name in ("shmget", "shmat", "semop", "msgrcv", "mq_open"):
        assert full(name, 1) == ALLOW
        assert bare(name, 1) == EPERM


def test_chattr_by_path_only_where_mounts_refuse_it(full: Answer, bare: Answer) -> None:
    assert full("file_setattr") == ALLOW
    assert bare("file_setattr") == EPERM


SHARED = sorted(syscalls.NUMBERS["x86_64"].keys() & syscalls.NUMBERS["aarch64"].keys())
words = st.one_of(
    st.integers(0, 300), st.sampled_from([ZYGOTE, 0x6E64, 0x6E65, 0x20000000, 0x5412, 0x10000011, 262]),
    st.integers(0, (1 << 64) - 1),
)  # fmt: skip


@settings(deadline=None)
@given(name=st.sampled_from(SHARED), arguments=st.lists(words, min_size=6, max_size=6), bits=st.integers(0, 15))
def test_both_machines_decide_alike(name: str, arguments: list[int], bits: int) -> None:
    flags = {key: bool(bits >> at & 1) for at, key in enumerate(("mounts", "ipc", "namespaces_closed", "scopes"))}
    assert answers("x86_64", **flags)(name, *arguments) == answers("aarch64", **flags)(name, *arguments)


@settings(deadline=None)
@given(number=st.integers(0, syscalls.LAST_KNOWN), arguments=st.lists(words, min_size=6, max_size=6))
def test_the_high_words_of_numbers_change_nothing(number: int, arguments: list[int]) -> None:
    """Only sendto's address and prlimit's new limit are pointers, of which the whole counts."""
    if number in (syscalls.NUMBERS["x86_64"]["sendto"], syscalls.NUMBERS["x86_64"]["prlimit64"]):
        return
    answer = answers("x86_64")
    assert answer(number, *arguments) == answer(number, *(word & 0xFFFFFFFF for word in arguments))


def test_the_program_fits_and_every_path_through_it_ends(machine: str) -> None:
    code = seccomp.program(seccomp.Surroundings(machine, zygote=ZYGOTE))
    assert len(code) < 4096
    for at, instruction in enumerate(code):
        if instruction.code in (bpf.JEQ, bpf.JGT, bpf.JSET):
            assert at + 1 + max(instruction.jump_true, instruction.jump_false) < len(code)
    assert code[-1].code == bpf.RET


def test_the_filter_of_a_datagram_socket() -> None:
    assert bpf.only_from_port(53) == bpf.only_from_port(53)
    assert len(bpf.only_from_port(53)) == 16


@pytest.mark.parametrize("flags", [{}, {"mounts": False, "ipc": False, "namespaces_closed": False, "scopes": False}])
def test_the_filter_that_is_recorded_refuses_the_same_and_decides_nothing_else(
    machine: str, flags: dict[str, bool]
) -> None:
    around = seccomp.Surroundings(machine, zygote=ZYGOTE, **flags)
    whole, recorded = seccomp.program(around), seccomp.refusals(around)
    refused = 0
    for number in (*range(600), 0x40000000):
        for arguments in ((), (1, 1, 0x6E64), (1, 2), (2, 1, 262), (16, 3, 9), (ZYGOTE, 0x5412), (2**32 - 1,), (0, 8)):
            answer = bpf.interpret(whole, machine, number, arguments)
            of_it = bpf.interpret(recorded, machine, number, arguments)
            passed = answer in (bpf.ALLOW, bpf.NOTIFY, bpf.refuse(errno.ENOSYS))
            assert of_it == (bpf.ALLOW if passed else answer), (number, arguments)
            refused += not passed
    assert refused > 300
    # A 32-bit call ends its process in either.
    assert bpf.interpret(recorded, machine, 1, (), arch=0x40000003) == bpf.KILL
