"""Ways to undo a mount, or to a namespace in which one could."""

from __future__ import annotations

import ctypes
import errno
import os
import struct
from typing import Any

from confined import Targets
from kit import attack, call, refused


@attack("mount")
def unmount_the_mask(t: Targets) -> Any:
    return call("umount2", t.path(".ssh"), 2)


@attack("mount")
def remount_writable(t: Targets) -> Any:
    return call("mount", b"none", b"/", None, 32 | 4096, None)


@attack("mount")
def bind_the_hidden(t: Targets) -> Any:
    return call("mount", t.path(".ssh"), t.tmp, None, 4096, None)


@attack("mount")
def mount_a_tmpfs(t: Targets) -> Any:
    return call("mount", b"none", t.tmp, b"tmpfs", 0, None)


@attack("mount")
def mount_an_overlay(t: Targets) -> Any:
    options = f"lowerdir={t.home},upperdir={t.tmp},workdir={t.tmp}".encode()
    return call("mount", b"none", t.project, b"overlay", 0, options)


@attack("mount")
def clone_a_tree(t: Targets) -> Any:
    return call("open_tree", -100, b"/", 1)


@attack("mount")
def new_mount_api(t: Targets) -> Any:
    return call("fsopen", b"tmpfs", 0)


@attack("mount")
def pick_a_superblock(t: Targets) -> Any:
    return call("fspick", -100, b"/", 0)


@attack("mount")
def move_a_mount(t: Targets) -> Any:
    return call("move_mount", -100, t.path(".ssh"), -100, t.tmp, 0)


@attack("mount")
def clear_read_only(t: Targets) -> Any:
    return call("mount_setattr", -100, b"/", 0, struct.pack("QQQQ", 0, 1, 0, 0), 32)


@attack("mount")
def attributes_while_opening_a_tree(t: Targets) -> Any:
    return call("open_tree_attr", -100, b"/", 1, struct.pack("QQQQ", 0, 1, 0, 0), 32)


@attack("mount")
def pivot(t: Targets) -> Any:
    return call("pivot_root", t.project, t.project)


@attack("mount")
def change_root(t: Targets) -> Any:
    return call("chroot", t.project)


def _unshare(flag: int) -> Any:
    return call("unshare", flag)


@attack("mount")
def new_user_namespace(t: Targets) -> Any:
    return _unshare(0x10000000)


@attack("mount")
def new_user_and_mount_namespace(t: Targets) -> Any:
    return _unshare(0x10000000 | 0x20000)


@attack("mount")
def new_mount_namespace(t: Targets) -> Any:
    return _unshare(0x20000)


@attack("mount")
def new_network_namespace(t: Targets) -> Any:
    return _unshare(0x40000000)


@attack("mount")
def new_pid_namespace(t: Targets) -> Any:
    return _unshare(0x20000000)


@attack("mount")
def new_ipc_namespace(t: Targets) -> Any:
    return _unshare(0x08000000)


@attack("mount")
def new_time_namespace(t: Targets) -> Any:
    return _unshare(0x80)


@attack("mount")
def new_cgroup_namespace(t: Targets) -> Any:
    return _unshare(0x02000000)


@attack("mount")
def clone_a_user_namespace(t: Targets) -> Any:
    pid = call("clone", 0x10000000 | 17, 0, 0, 0, 0)
    if pid == 0:
        os._exit(0)
    os.waitpid(pid, 0)
    return pid


def _clone3(flags: int) -> Any:
    arguments = struct.pack("11Q", flags, 0, 0, 0, 17, 0, 0, 0, 0, 0, 0)
    pid = call("clone3", arguments, 88)
    if pid == 0:
        os._exit(0)
    os.waitpid(pid, 0)
    return pid


@attack("mount")
def clone3_a_user_namespace(t: Targets) -> Any:
    return _clone3(0x10000000)


@attack("mount")
def clone3_a_mount_namespace(t: Targets) -> Any:
    return _clone3(0x20000)


@attack("mount")
def clone3_a_user_and_mount_namespace(t: Targets) -> Any:
    return _clone3(0x10020000)


@attack("mount")
def capabilities_back_by_capset(t: Targets) -> Any:
    return call("capset", struct.pack("<II", 0x20080522, 0), b"\xff" * 24)


@attack("mount")
def capabilities_back_by_execve(t: Targets) -> Any:
    import subprocess

    done = subprocess.run(["/bin/grep", "CapEff", "/proc/self/status"], check=True, capture_output=True)
    if int(done.stdout.split()[1], 16) == 0:
        raise refused()
    return done.stdout.decode()


@attack("mount")
def write_an_id_map(t: Targets) -> Any:
    return os.write(os.open("/proc/self/uid_map", os.O_WRONLY), b"0 0 1")


@attack("mount")
def raise_the_limit_of_namespaces(t: Targets) -> Any:
    return os.write(os.open("/proc/sys/user/max_user_namespaces", os.O_WRONLY), b"1000")


@attack("mount", errors=(errno.EINVAL,))
def become_another_user(t: Targets) -> Any:
    return call("setuid", 4242)


@attack("mount")
def change_the_host_name(t: Targets) -> Any:
    return call("sethostname", b"x", 1)


@attack("mount")
def quota_control(t: Targets) -> Any:
    return call("quotactl", 0x80000100, b"/dev/vda", 0, ctypes.create_string_buffer(64))
