"""Ways to processes outside the session, and to the one inside it that must be left alone."""

from __future__ import annotations

import contextlib
import ctypes
import errno
import fcntl
import mmap
import os
import resource
import signal
import struct
import subprocess
import time
from pathlib import Path
from typing import Any

from confined import Targets
from kit import attack, call, refused, without_mounts


@attack("signal")
def kill_the_supervisor(t: Targets) -> Any:
    return os.kill(t.supervisor, signal.SIGCONT)


@attack("signal")
def kill_the_stranger(t: Targets) -> Any:
    return os.kill(t.stranger, signal.SIGCONT)


@attack("signal")
def probe_the_stranger(t: Targets) -> Any:
    return os.kill(t.stranger, 0)


@attack("signal")
def kill_by_thread(t: Targets) -> Any:
    return call("tkill", t.stranger, signal.SIGCONT)


@attack("signal")
def kill_by_thread_group(t: Targets) -> Any:
    return call("tgkill", t.stranger, t.stranger, signal.SIGCONT)


@attack("signal")
def queue_a_signal(t: Targets) -> Any:
    information = struct.pack("iii", signal.SIGCONT, 0, -1) + bytes(116)
    return call("rt_sigqueueinfo", t.stranger, signal.SIGCONT, information)


@attack("signal")
def queue_a_signal_to_a_thread(t: Targets) -> Any:
    information = struct.pack("iii", signal.SIGCONT, 0, -1) + bytes(116)
    return call("rt_tgsigqueueinfo", t.stranger, t.stranger, signal.SIGCONT, information)


@attack("signal")
def signal_by_pidfd(t: Targets) -> Any:
    return signal.pidfd_send_signal(os.pidfd_open(t.stranger), signal.SIGCONT)


@attack("signal")
def kill_the_strangers_group(t: Targets) -> Any:
    return os.killpg(os.getpgid(t.stranger), signal.SIGCONT)


@attack("signal")
def kill_everybody(t: Targets) -> Any:
    return os.kill(-1, signal.SIGCONT)


@attack("signal")
def signal_by_descriptor_owner(t: Targets) -> Any:
    return fcntl.fcntl(os.pipe()[0], fcntl.F_SETOWN, t.stranger) or _delivered(t)


def _delivered(t: Targets) -> Any:
    """Setting an owner is harmless where Landlock checks the signal itself; it must not be delivered."""
    lines = Path(f"/proc/{t.stranger}/status").read_text(encoding="utf-8").splitlines()
    pending = [line for line in lines if line.startswith(("SigPnd", "ShdPnd"))]
    if all(int(line.split()[1], 16) == 0 for line in pending):
        raise refused()
    return pending


@attack("signal")
def signal_by_extended_owner(t: Targets) -> Any:
    return fcntl.fcntl(os.pipe()[0], 15, struct.pack("ii", 1, t.stranger))


@attack("signal")
def signal_by_owner_ioctl(t: Targets) -> Any:
    import socket

    return fcntl.ioctl(socket.socketpair()[0].detach(), 0x8901, struct.pack("i", t.stranger))


@attack("zygote")
def kill_the_zygote(t: Targets) -> Any:
    return os.kill(t.zygote, signal.SIGKILL)


@attack("zygote")
def stop_the_zygote(t: Targets) -> Any:
    return os.kill(t.zygote, signal.SIGSTOP)


@attack("zygote")
def kill_the_zygotes_group(t: Targets) -> Any:
    return os.killpg(os.getpgid(t.zygote), signal.SIGKILL)


@attack("zygote")
def kill_the_zygote_by_thread_group(t: Targets) -> Any:
    return call("tgkill", t.zygote, t.zygote, signal.SIGKILL)


@attack("zygote")
def kill_the_zygote_by_thread(t: Targets) -> Any:
    return call("tkill", t.zygote, signal.SIGKILL)


@attack("zygote")
def kill_the_zygote_by_pidfd(t: Targets) -> Any:
    return signal.pidfd_send_signal(os.pidfd_open(t.zygote), signal.SIGKILL)


@attack("zygote")
def kill_the_zygote_by_queue(t: Targets) -> Any:
    information = struct.pack("iii", signal.SIGKILL, 0, -1) + bytes(116)
    return call("rt_sigqueueinfo", t.zygote, signal.SIGKILL, information)


@attack("zygote")
def kill_the_zygote_with_rubbish_above(t: Targets) -> Any:
    return call("kill", t.zygote | 1 << 32, signal.SIGKILL)


@attack("zygote")
def signal_the_zygote_by_owner(t: Targets) -> Any:
    return fcntl.fcntl(os.pipe()[0], fcntl.F_SETOWN, t.zygote)


@attack("zygote")
def join_the_zygotes_group(t: Targets) -> Any:
    return os.setpgid(0, t.zygote)


@attack("zygote")
def limit_the_zygote(t: Targets) -> Any:
    return resource.prlimit(t.zygote, resource.RLIMIT_CPU, (0, 0))


@attack("zygote")
def slow_the_zygote(t: Targets) -> Any:
    return os.setpriority(os.PRIO_PROCESS, t.zygote, 19)


@attack("zygote")
def trace_the_zygote(t: Targets) -> Any:
    return call("ptrace", 0x4206, t.zygote, 0, 0)


@attack("zygote")
def take_the_zygotes_descriptor(t: Targets) -> Any:
    return call("pidfd_getfd", os.pidfd_open(t.zygote), 3, 0)


@attack("trace")
def attach_to_the_stranger(t: Targets) -> Any:
    return call("ptrace", 16, t.stranger, 0, 0)


@attack("trace")
def seize_the_stranger(t: Targets) -> Any:
    return call("ptrace", 0x4206, t.stranger, 0, 0)


@attack("trace")
def seize_the_supervisor(t: Targets) -> Any:
    return call("ptrace", 0x4206, t.supervisor, 0, 0)


@attack("trace")
def read_the_strangers_memory(t: Targets) -> Any:
    buffer = ctypes.create_string_buffer(64)
    local = struct.pack("QQ", ctypes.addressof(buffer), 22)
    return call("process_vm_readv", t.stranger, local, 1, struct.pack("QQ", t.memory, 22), 1, 0)


@attack("trace")
def write_the_strangers_memory(t: Targets) -> Any:
    buffer = ctypes.create_string_buffer(b"x" * 22)
    local = struct.pack("QQ", ctypes.addressof(buffer), 22)
    return call("process_vm_writev", t.stranger, local, 1, struct.pack("QQ", t.memory, 22), 1, 0)


@attack("trace")
def open_the_strangers_memory(t: Targets) -> Any:
    return os.open(f"/proc/{t.stranger}/mem", os.O_RDONLY)


@attack("trace")
def the_strangers_descriptor(t: Targets) -> Any:
    return call("pidfd_getfd", os.pidfd_open(t.stranger), 0, 0)


@attack("trace")
def compare_with_the_stranger(t: Targets) -> Any:
    return call("kcmp", os.getpid(), t.stranger, 0, 0, 0)


@attack("trace")
def advise_the_strangers_memory(t: Targets) -> Any:
    return call("process_madvise", os.pidfd_open(t.stranger), struct.pack("QQ", t.memory, 4096), 1, 20, 0)


@attack("trace")
def release_the_strangers_memory(t: Targets) -> Any:
    return call("process_mrelease", os.pidfd_open(t.stranger), 0)


@attack("trace")
def robust_list_of_the_stranger(t: Targets) -> Any:
    head, length = ctypes.create_string_buffer(8), ctypes.create_string_buffer(8)
    return call("get_robust_list", t.stranger, head, length)


@attack("limit")
def limit_the_supervisor(t: Targets) -> Any:
    return resource.prlimit(t.supervisor, resource.RLIMIT_NOFILE, (3, 3))


@attack("limit")
def limit_the_stranger(t: Targets) -> Any:
    return resource.prlimit(t.stranger, resource.RLIMIT_NOFILE, (3, 3))


@attack("limit")
def slow_the_supervisor(t: Targets) -> Any:
    return os.setpriority(os.PRIO_PROCESS, t.supervisor, 19)


@attack("limit")
def slow_the_strangers_group(t: Targets) -> Any:
    return os.setpriority(os.PRIO_PGRP, os.getpgid(t.stranger), 19)


@attack("limit")
def slow_everything_of_the_user(t: Targets) -> Any:
    return os.setpriority(os.PRIO_USER, os.getuid(), 19)


@attack("limit")
def pin_the_supervisor(t: Targets) -> Any:
    return os.sched_setaffinity(t.supervisor, {0})


@attack("limit")
def schedule_the_supervisor(t: Targets) -> Any:
    return os.sched_setscheduler(t.supervisor, os.SCHED_IDLE, os.sched_param(0))


@attack("limit")
def schedule_the_supervisor_by_attributes(t: Targets) -> Any:
    return call("sched_setattr", t.supervisor, struct.pack("IIQiIQQQ", 48, 5, 0, 0, 0, 0, 0, 0), 0)


@attack("limit")
def starve_the_supervisors_disk(t: Targets) -> Any:
    return call("ioprio_set", 1, t.supervisor, 3 << 13)


@attack("limit")
def starve_everybodys_disk(t: Targets) -> Any:
    return call("ioprio_set", 3, os.getuid(), 3 << 13)


@attack("limit")
def move_the_supervisors_pages(t: Targets) -> Any:
    return call("migrate_pages", t.supervisor, 64, struct.pack("Q", 1), struct.pack("Q", 1))


@attack("limit")
def query_the_supervisors_pages(t: Targets) -> Any:
    pages = struct.pack("Q", t.memory)
    return call("move_pages", t.supervisor, 1, pages, 0, ctypes.create_string_buffer(4), 0)


@attack("kernel")
def uring(t: Targets) -> Any:
    return call("io_uring_setup", 4, ctypes.create_string_buffer(120))


@attack("kernel")
def bpf_map(t: Targets) -> Any:
    return call("bpf", 0, struct.pack("IIIII", 2, 4, 4, 1, 0) + bytes(100), 120)


@attack("kernel")
def performance_events(t: Targets) -> Any:
    return call("perf_event_open", struct.pack("IIQ", 1, 112, 0) + bytes(96), 0, -1, -1, 0)


@attack("kernel")
def user_fault(t: Targets) -> Any:
    return call("userfaultfd", 1)


@attack("kernel")
def key_added(t: Targets) -> Any:
    return call("add_key", b"user", b"nd7", b"x", 1, -4)


@attack("kernel")
def key_requested(t: Targets) -> Any:
    return call("request_key", b"user", b"nd7", 0, -4)


@attack("kernel")
def session_keyring(t: Targets) -> Any:
    return call("keyctl", 0, -3, 1)


@attack("kernel")
def module_loaded(t: Targets) -> Any:
    return call("finit_module", 0, b"", 0)


@attack("kernel")
def kernel_replaced(t: Targets) -> Any:
    return call("kexec_load", 0, 0, 0, 0)


@attack("kernel")
def machine_rebooted(t: Targets) -> Any:
    return call("reboot", 0xFEE1DEAD, 672274793, 0, 0)


@attack("kernel")
def clock_set(t: Targets) -> Any:
    return call("settimeofday", struct.pack("qq", 0, 0), 0)


@attack("kernel")
def security_label(t: Targets) -> Any:
    return call("lsm_set_self_attr", 100, bytes(64), 64, 0)


@attack("kernel")
def unknown_call(t: Targets) -> Any:
    from nd7exec.linux import syscalls

    return syscalls.raw(syscalls.LAST_KNOWN + 1, 0, 0, 0, 0)


def _second_filter(action: int, flags: int = 0) -> Any:
    """A filter of the attacker's own, which answers socket(2) with an action and allows the rest."""
    from nd7exec.linux import syscalls

    code = ctypes.create_string_buffer(
        struct.pack("HBBI", 0x20, 0, 0, 0)
        + struct.pack("HBBI", 0x15, 0, 1, syscalls.number("socket"))
        + struct.pack("HBBI", 6, 0, 0, action)
        + struct.pack("HBBI", 6, 0, 0, 0x7FFF0000)
    )
    program = ctypes.create_string_buffer(struct.pack("H6xQ", 4, ctypes.addressof(code)))
    return call("seccomp", 1, flags, ctypes.addressof(program))


@attack("kernel")
def second_listener(t: Targets) -> Any:
    """A listener of its own would answer the session's questions itself."""
    return _second_filter(0x7FC00000, 8)


@attack("kernel")
def second_filter_that_allows(t: Targets) -> Any:
    """The stricter of two filters wins."""
    _second_filter(0x7FFF0000)
    return call("socket", 1, 1, 0)


@attack("kernel")
def second_filter_that_traces(t: Targets) -> Any:
    _second_filter(0x7FF00000)
    return call("socket", 1, 1, 0)


@attack("kernel")
def second_filter_that_notifies_nobody(t: Targets) -> Any:
    _second_filter(0x7FC00000)
    return call("socket", 1, 1, 0)


def _machine_code(code: bytes) -> Any:
    page = mmap.mmap(-1, 4096, prot=mmap.PROT_READ | mmap.PROT_WRITE | mmap.PROT_EXEC)
    page.write(code)
    address = ctypes.addressof(ctypes.c_char.from_buffer(page))
    result = ctypes.CFUNCTYPE(ctypes.c_long)(address)()
    if result < 0:
        raise refused(-result)
    return result


@attack("kernel", dies=True)
def thirty_two_bit_call(t: Targets) -> Any:
    """int 0x80 with the number of the 32-bit getpid, which a filter of 64-bit numbers takes for another."""
    if os.uname().machine != "x86_64":
        raise refused(errno.ENOSYS)
    return _machine_code(bytes.fromhex("b814000000cd804898c3"))


@attack("kernel")
def x32_call(t: Targets) -> Any:
    """The x32 number of socket(AF_UNIX, SOCK_STREAM, 0)."""
    from nd7exec.linux import syscalls

    return syscalls.raw(0x40000000 | 41, 1, 1, 0)


@attack(
    "ipc",
    opens=without_mounts("shared memory files of other programs are in the machine's /dev/shm"),
    errors=(errno.ENOENT,),
)
def strangers_shared_memory_file(t: Targets) -> Any:
    return os.open("/dev/shm/" + Path(t.tmp, "shm-name").read_text(encoding="utf-8"), os.O_RDWR)


@attack("ipc", errors=(errno.EINVAL,))
def strangers_shared_memory(t: Targets) -> Any:
    return call("shmat", t.shm_id, 0, 0o10000)


@attack("ipc", errors=(errno.EINVAL,))
def strangers_shared_memory_removed(t: Targets) -> Any:
    return call("shmctl", t.shm_id, 0, 0)


@attack("ipc", errors=(errno.ENOENT,))
def strangers_message_queue(t: Targets) -> Any:
    return call("mq_open", b"nd7-stranger", os.O_RDWR, 0, 0)


@attack("privilege")
def set_uid_program(t: Targets) -> Any:
    """What a set-user-id program has gained while it asks for a password."""
    for program in ("/usr/bin/su", "/bin/su", "/usr/bin/sudo", "/usr/bin/passwd"):
        if not os.path.exists(program):
            continue
        with subprocess.Popen(
            [program], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE
        ) as asking:
            time.sleep(0.05)
            status = Path(f"/proc/{asking.pid}/status").read_text(encoding="utf-8")
            asking.kill()
        fields = dict(line.split(":\t", 1) for line in status.splitlines() if ":\t" in line)
        if int(fields["CapEff"], 16) or (os.getuid() and "0" in fields["Uid"].split()):
            return status
        raise refused()
    raise refused()


@attack("privilege", errors=(errno.EINVAL,))
def no_new_privs_off(t: Targets) -> Any:
    return call("prctl", 38, 0, 0, 0, 0)


@attack("privilege")
def securebits_off(t: Targets) -> Any:
    return call("prctl", 28, 0, 0, 0, 0)


@attack("privilege")
def port_below_1024_as_root(t: Targets) -> Any:
    import socket

    return socket.socket().bind(("127.0.0.1", 81))


@attack("privilege")
def negative_nice(t: Targets) -> Any:
    with contextlib.suppress(OSError):
        os.setpriority(os.PRIO_PROCESS, 0, 5)
    return os.setpriority(os.PRIO_PROCESS, 0, -5)


@attack("privilege")
def real_time_priority(t: Targets) -> Any:
    return os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(50))
