"""Ways to change what may not be changed."""

from __future__ import annotations

import contextlib
import ctypes
import errno
import fcntl
import mmap
import os
import struct
from pathlib import Path
from typing import Any

from confined import Targets
from kit import always, attack, below, call, refused

TRUNCATE = "Landlock before version 3 does not cover truncation; a read-only mount does"


@attack("write")
def create_outside(t: Targets) -> Any:
    return os.open(t.path("new"), os.O_CREAT | os.O_WRONLY)


@attack("write")
def overwrite_outside(t: Targets) -> Any:
    return os.open(t.path("notes.txt"), os.O_WRONLY)


@attack("write")
def append_outside(t: Targets) -> Any:
    return os.open(t.path(".bashrc"), os.O_WRONLY | os.O_APPEND)


@attack("write")
def read_write_outside(t: Targets) -> Any:
    return os.open(t.path("notes.txt"), os.O_RDWR)


@attack("write", opens=below(3, TRUNCATE))
def truncate_by_path(t: Targets) -> Any:
    return call("truncate", t.path("outside/file"), 1)


@attack("write", opens=below(3, TRUNCATE))
def truncate_while_opening(t: Targets) -> Any:
    return os.open(t.path("outside/file"), os.O_RDONLY | os.O_TRUNC)


@attack("write", errors=(errno.EINVAL,))
def truncate_a_descriptor(t: Targets) -> Any:
    return os.ftruncate(os.open(t.path("notes.txt"), os.O_RDONLY), 0)


@attack("write")
def delete_outside(t: Targets) -> Any:
    return os.unlink(t.path("notes.txt"))


@attack("write")
def delete_directory_outside(t: Targets) -> Any:
    return os.rmdir(t.path("outside"))


@attack("write")
def make_directory_outside(t: Targets) -> Any:
    return os.mkdir(t.path("new-directory"))


@attack("write")
def symlink_outside(t: Targets) -> Any:
    return os.symlink("/etc/passwd", t.path("new-link"))


@attack("write")
def link_outside(t: Targets) -> Any:
    return os.link("readme", t.path("new-hard-link"))


@attack("write")
def fifo_outside(t: Targets) -> Any:
    return os.mkfifo(t.path("new-fifo"))


@attack("write")
def whiteout_in_the_project(t: Targets) -> Any:
    return call("mknodat", -100, "whiteout", 0o020644, 0)


@attack("write")
def device_in_the_project(t: Targets) -> Any:
    return call("mknodat", -100, "null", 0o020666, os.makedev(1, 3))


@attack("write")
def move_out_of_the_project(t: Targets) -> Any:
    return os.rename("readme", t.path("readme"))


@attack("write")
def move_into_the_project(t: Targets) -> Any:
    return os.rename(t.path("notes.txt"), "notes.txt")


@attack("write")
def replace_outside(t: Targets) -> Any:
    return os.replace("readme", t.path("notes.txt"))


@attack("write")
def exchange_with_outside(t: Targets) -> Any:
    return call("renameat2", -100, "readme", -100, t.path("notes.txt"), 2)


@attack("write")
def rename_the_project(t: Targets) -> Any:
    return os.rename(t.project, t.project + "-moved")


@attack("write")
def unnamed_file_outside(t: Targets) -> Any:
    return os.open(t.home, os.O_TMPFILE | os.O_WRONLY)


@attack("write")
def unnamed_file_linked_outside(t: Targets) -> Any:
    fd = os.open(t.project, os.O_TMPFILE | os.O_WRONLY)
    return call("linkat", -100, f"/proc/self/fd/{fd}", -100, t.path("from-unnamed"), 0x400)


@attack("write")
def create_through_dangling_symlink(t: Targets) -> Any:
    with contextlib.suppress(FileExistsError):
        os.symlink(t.path("by-symlink"), "dangling")
    return os.open("dangling", os.O_CREAT | os.O_WRONLY)


@attack("write")
def write_through_symlink(t: Targets) -> Any:
    with contextlib.suppress(FileExistsError):
        os.symlink(t.path("notes.txt"), "to-notes")
    return os.open("to-notes", os.O_WRONLY)


@attack("write")
def write_a_reopened_descriptor(t: Targets) -> Any:
    fd = os.open(t.path("notes.txt"), os.O_RDONLY)
    return os.open(f"/proc/self/fd/{fd}", os.O_WRONLY)


@attack("write")
def write_through_a_hard_link(t: Targets) -> Any:
    os.link(t.path("notes.txt"), "notes-link")
    return os.open("notes-link", os.O_WRONLY)


@attack("write")
def write_by_shared_mapping(t: Targets) -> Any:
    fd = os.open(t.path("notes.txt"), os.O_RDONLY)
    return mmap.mmap(fd, 4, flags=mmap.MAP_SHARED, prot=mmap.PROT_WRITE)


@attack("write")
def write_by_own_memory_file(t: Targets) -> Any:
    fd = os.open(t.path("notes.txt"), os.O_RDONLY)
    mapped = mmap.mmap(fd, 4, flags=mmap.MAP_PRIVATE, prot=mmap.PROT_READ | mmap.PROT_WRITE)
    address = ctypes.addressof(ctypes.c_char.from_buffer(mapped))
    memory = os.open("/proc/self/mem", os.O_RDONLY)
    os.pread(memory, 4, address)
    mapped[:4] = b"evil"  # copy on write: the file must not change
    if os.pread(fd, 4, 0) != b"evil":
        raise refused()
    return "changed"


@attack("write")
def copy_range_outside(t: Targets) -> Any:
    source = os.open("readme", os.O_RDONLY)
    return os.copy_file_range(source, os.open(t.path("notes.txt"), os.O_WRONLY), 1)


@attack("write")
def zygotes_memory_written(t: Targets) -> Any:
    return os.open(f"/proc/{t.zygote}/mem", os.O_RDWR)


@attack("write")
def mode_outside(t: Targets) -> Any:
    return os.chmod(t.path("notes.txt"), 0o600)


@attack("write")
def mode_of_the_hidden_directory(t: Targets) -> Any:
    return os.chmod(t.path(".ssh"), 0o700)


@attack("write")
def mode_by_descriptor(t: Targets) -> Any:
    return os.fchmod(os.open(t.path("notes.txt"), os.O_RDONLY), 0o600)


@attack("write")
def mode_by_fchmodat2(t: Targets) -> Any:
    try:
        return call("fchmodat2", -100, t.path("notes.txt"), 0o600, 0x100)
    except OSError as error:
        if error.errno in (errno.ENOSYS, errno.EOPNOTSUPP):
            return os.chmod(t.path("notes.txt"), 0o600)
        raise


@attack("write")
def times_outside(t: Targets) -> Any:
    return os.utime(t.path("notes.txt"), (1, 1))


@attack("write")
def times_of_a_symlink(t: Targets) -> Any:
    return os.utime(t.path("outside"), (1, 1), follow_symlinks=False)


@attack("write")
def owner_outside(t: Targets) -> Any:
    return os.chown(t.path("notes.txt"), os.getuid(), os.getgid())


@attack("write")
def attribute_outside(t: Targets) -> Any:
    return os.setxattr(t.path("notes.txt"), "user.evil", b"1")


@attack("write")
def attribute_removed_outside(t: Targets) -> Any:
    with contextlib.suppress(OSError):
        os.setxattr(t.path("notes.txt"), "user.gone", b"1")
    return os.removexattr(t.path("notes.txt"), "user.gone")


@attack("write")
def flags_outside(t: Targets) -> Any:
    fd = os.open(t.path("notes.txt"), os.O_RDONLY)
    flags = fcntl.ioctl(fd, 0x80086601, bytes(8))
    return fcntl.ioctl(fd, 0x40086602, flags)


@attack("write")
def extended_flags_outside(t: Targets) -> Any:
    fd = os.open(t.path("notes.txt"), os.O_RDONLY)
    attributes = fcntl.ioctl(fd, 0x801C581F, bytes(28))
    return fcntl.ioctl(fd, 0x401C5820, attributes)


@attack("write", opens=always("a lock needs a file that may be read; nd7 never waits for one without an end"))
def lock_outside(t: Targets) -> Any:
    return fcntl.flock(os.open(t.path(".local/state/nd7/sessions/a/lock"), os.O_RDONLY), fcntl.LOCK_EX | fcntl.LOCK_NB)


@attack("write", opens=always("a lease on a readable file delays who opens it for writing, 45 s at most"))
def lease_outside(t: Targets) -> Any:
    return fcntl.fcntl(os.open(t.path("notes.txt"), os.O_RDONLY), 1024, fcntl.F_RDLCK)


@attack("write")
def audit_log(t: Targets) -> Any:
    return os.open(t.path(".local/state/nd7/sessions/a/events.ndjson"), os.O_WRONLY | os.O_APPEND)


@attack("write")
def own_policy(t: Targets) -> Any:
    return os.open(t.path(".nd7/kept/record.json"), os.O_WRONLY)


@attack("write")
def new_session_directory(t: Targets) -> Any:
    return os.mkdir(t.path(".nd7/kept/2"))


@attack("write")
def agents_settings(t: Targets) -> Any:
    return os.open(t.path(".claude/settings.json"), os.O_WRONLY)


@attack("write")
def agents_settings_replaced(t: Targets) -> Any:
    Path(t.path(".claude/projects/new")).write_text("{}", encoding="utf-8")
    return os.replace(t.path(".claude/projects/new"), t.path(".claude/settings.json"))


@attack("write")
def agents_settings_by_moving_the_directory(t: Targets) -> Any:
    return os.rename(t.path(".claude"), t.path(".claude-moved"))


@attack("write")
def start_file_of_the_system(t: Targets) -> Any:
    return os.open("/etc/profile", os.O_WRONLY)


@attack("write")
def program_of_the_system(t: Targets) -> Any:
    return os.open("/usr/bin/fold", os.O_WRONLY)  # one that runs now is "Text file busy" to anyone


@attack("write")
def temporary_of_the_system(t: Targets) -> Any:
    return os.open("/var/tmp/nd7-evil", os.O_CREAT | os.O_WRONLY)


@attack("write")
def kernel_setting(t: Targets) -> Any:
    return os.open("/proc/sys/kernel/core_pattern", os.O_WRONLY)


@attack("write")
def kernel_object(t: Targets) -> Any:
    return os.open("/sys/kernel/uevent_seqnum", os.O_WRONLY)


@attack("write")
def kernel_messages(t: Targets) -> Any:
    return os.open("/proc/sys/kernel/printk", os.O_WRONLY)


@attack("write")
def control_group(t: Targets) -> Any:
    for name in ("/sys/fs/cgroup/cgroup.procs", "/sys/fs/cgroup/unified/cgroup.procs", "/sys/fs/cgroup/pids/tasks"):
        with contextlib.suppress(FileNotFoundError):
            return os.open(name, os.O_WRONLY)
    raise refused()


@attack("write")
def supervisors_out_of_memory_score(t: Targets) -> Any:
    return os.write(os.open(f"/proc/{t.supervisor}/oom_score_adj", os.O_WRONLY), b"1000")


@attack("write")
def supervisors_name(t: Targets) -> Any:
    return os.write(os.open(f"/proc/{t.supervisor}/comm", os.O_WRONLY), b"x")


@attack("write")
def uring_open(t: Targets) -> Any:
    return call("io_uring_setup", 4, ctypes.create_string_buffer(120))


@attack("write")
def file_attributes_by_path(t: Targets) -> Any:
    """file_setattr(2), Linux 6.17: chattr without an ioctl."""
    from nd7exec.linux import syscalls

    return syscalls.raw(469, -100, os.fsencode(t.path("notes.txt")), struct.pack("QIIIII4x", 0, 0, 0, 0, 0, 0), 24, 0)


@attack("write")
def subvolume_outside(t: Targets) -> Any:
    """BTRFS_IOC_SUBVOL_CREATE asks no security module."""
    home = os.open(t.home, os.O_RDONLY)
    return fcntl.ioctl(home, 0x5000940E, bytearray(struct.pack("=q4088s", 0, b"subvolume")))


@attack("write")
def subvolume_destroyed_outside(t: Targets) -> Any:
    home = os.open(t.home, os.O_RDONLY)
    return fcntl.ioctl(home, 0x5000940F, bytearray(struct.pack("=q4088s", 0, b"outside")))


@attack("write")
def file_outside_made_immutable(t: Targets) -> Any:
    """FS_IOC_ENABLE_VERITY: nobody can write it again, and it is asked of a descriptor that is open for reading."""
    enable = struct.pack("=III4xQ", 1, 1, 4096, 0).ljust(128, b"\0")
    return fcntl.ioctl(os.open(t.path("notes.txt"), os.O_RDONLY), 0x40806685, enable)


@attack("write")
def encryption_key_taken_away(t: Targets) -> Any:
    """FS_IOC_REMOVE_ENCRYPTION_KEY: an encrypted home is locked by it."""
    return fcntl.ioctl(os.open(t.home, os.O_RDONLY), 0xC0406618, bytearray(struct.pack("=I60x", 2)))


@attack("write")
def encryption_policy_outside(t: Targets) -> Any:
    return fcntl.ioctl(os.open(t.path("outside"), os.O_RDONLY), 0x800C6613, struct.pack("=BBBB8s", 0, 1, 4, 0, b"key"))
