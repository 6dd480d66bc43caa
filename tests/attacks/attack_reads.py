"""Ways to what may not be read."""

from __future__ import annotations

import array
import contextlib
import ctypes
import errno
import fcntl
import mmap
import os
import socket
import struct
import subprocess
from pathlib import Path
from typing import Any

from confined import Targets
from kit import always, attack, call, refused, without_mounts

NAMES = "Landlock cannot hide names and attributes, only contents; a mask can"
KEY = ".ssh/id_ed25519"


def read(path: str) -> str:
    return Path(path).read_text(encoding="utf-8")


@attack("read")
def ssh_key(t: Targets) -> Any:
    return read(t.path(KEY))


@attack("read")
def aws_credentials(t: Targets) -> Any:
    return read(t.path(".aws/credentials"))


@attack("read")
def own_record(t: Targets) -> Any:
    return read(t.path(".nd7/kept/record.json"))


@attack("read")
def key_by_dotdot(t: Targets) -> Any:
    return read("../.ssh/id_ed25519")


@attack("read")
def key_by_existing_symlink(t: Targets) -> Any:
    return read("symlinked-before")


@attack("read")
def key_by_new_symlink(t: Targets) -> Any:
    with contextlib.suppress(FileExistsError):
        os.symlink(t.path(KEY), "key-link")
    return read("key-link")


@attack("read")
def key_by_symlinked_directory(t: Targets) -> Any:
    with contextlib.suppress(FileExistsError):
        os.symlink(t.path(".ssh"), "directory-link")
    return read("directory-link/id_ed25519")


@attack("read")
def key_by_proc_self_root(t: Targets) -> Any:
    return read("/proc/self/root" + t.path(KEY))


@attack("read")
def key_by_proc_self_cwd(t: Targets) -> Any:
    return read("/proc/self/cwd/../" + KEY)


@attack("read")
def key_by_directory_descriptor(t: Targets) -> Any:
    home = os.open(t.home, os.O_PATH)
    return os.read(os.open(KEY, os.O_RDONLY, dir_fd=home), 99)


@attack("read")
def key_by_reopened_path_descriptor(t: Targets) -> Any:
    return read(f"/proc/self/fd/{os.open(t.path(KEY), os.O_PATH)}")


@attack("read")
def key_by_openat2(t: Targets) -> Any:
    home = os.open(t.home, os.O_PATH)
    return call("openat2", home, KEY, struct.pack("QQQ", 0, 0, 8), 24)


@attack("read")
def key_by_supervisors_root(t: Targets) -> Any:
    return read(f"/proc/{t.supervisor}/root{t.path(KEY)}")


@attack("read")
def key_by_strangers_cwd(t: Targets) -> Any:
    return os.listdir(f"/proc/{t.stranger}/cwd/")


@attack("read")
def key_by_zygotes_root(t: Targets) -> Any:
    return read(f"/proc/{t.zygote}/root{t.path(KEY)}")


@attack("read")
def key_by_init_root(t: Targets) -> Any:
    return read(f"/proc/1/root{t.path(KEY)}")


@attack("read")
def key_by_hard_link(t: Targets) -> Any:
    os.link(t.path(KEY), "stolen")
    return read("stolen")


@attack("read")
def key_by_hard_link_of_a_descriptor(t: Targets) -> Any:
    fd = os.open(t.path(KEY), os.O_PATH)
    call("linkat", fd, b"", -100, "stolen-by-fd", 0x1000)
    return read("stolen-by-fd")


@attack("read", opens=always("a hard link is the file itself, and it lies in the project"))
def key_by_hard_link_made_before(t: Targets) -> Any:
    return read("linked-before")


@attack("read")
def key_by_moving_the_directory(t: Targets) -> Any:
    os.rename(t.path(".ssh"), "moved-ssh")
    return read("moved-ssh/id_ed25519")


@attack("read")
def key_by_exchanging_directories(t: Targets) -> Any:
    with contextlib.suppress(FileExistsError):
        os.mkdir("exchange")
    call("renameat2", -100, t.path(".ssh"), -100, "exchange", 2)
    return read("exchange/id_ed25519")


@attack("read")
def key_by_handle(t: Targets) -> Any:
    handle = ctypes.create_string_buffer(struct.pack("Ii", 128, 0) + bytes(128))
    mount_id = ctypes.create_string_buffer(4)
    call("name_to_handle_at", -100, t.path(KEY), handle, mount_id, 0)
    return call("open_by_handle_at", os.open(t.home, os.O_RDONLY), handle, os.O_RDONLY)


@attack("read")
def key_by_execution(t: Targets) -> Any:
    return subprocess.run(["/bin/cat", t.path(KEY)], check=False, capture_output=True).returncode == 0 or _fail()


def _fail() -> None:
    raise refused(errno.EACCES)


@attack("read")
def execute_hidden_file(t: Targets) -> Any:
    return subprocess.run([t.path(KEY)], check=False).returncode


@attack("read")
def enter_hidden_directory(t: Targets) -> Any:
    os.chdir(t.path(".ssh"))
    return read("id_ed25519")


@attack("read", opens=without_mounts(NAMES))
def list_hidden_directory(t: Targets) -> Any:
    return os.listdir(t.path(".ssh"))


@attack("read", opens=without_mounts(NAMES))
def stat_hidden_file(t: Targets) -> Any:
    return os.stat(t.path(KEY)).st_size


@attack("read", opens=without_mounts(NAMES))
def hidden_file_exists(t: Targets) -> Any:
    return os.path.exists(t.path(KEY)) or _fail()


@attack("read", opens=without_mounts("watching needs no right that Landlock knows, and tells names"))
def watch_inside_hidden_directory(t: Targets) -> Any:
    fd = call("inotify_init1", 0)
    return call("inotify_add_watch", fd, t.path(KEY), 0xFFF)


@attack(
    "read",
    opens=always("inotify needs no right; under a mask it is the empty mask that is watched"),
)
def watch_hidden_directory(t: Targets) -> Any:
    fd = call("inotify_init1", 0)
    try:
        return call("inotify_add_watch", fd, t.path(".ssh"), 0xFFF)
    except PermissionError:
        # The mask's mode refuses it as well; what is left is a watch on the home directory.
        return call("inotify_add_watch", fd, t.home, 0xFFF)


@attack("read")
def watch_everything_with_fanotify(t: Targets) -> Any:
    return call("fanotify_init", 0x200, 0)


@attack("read")
def map_hidden_file(t: Targets) -> Any:
    fd = os.open(t.path(KEY), os.O_RDONLY)
    return mmap.mmap(fd, 4, prot=mmap.PROT_READ)[:4]


@attack("read")
def disk_itself(t: Targets) -> Any:
    for name in ("/dev/vda", "/dev/sda", "/dev/nvme0n1", "/dev/zram0", "/dev/loop0"):
        with contextlib.suppress(FileNotFoundError):
            return os.open(name, os.O_RDONLY)
    raise refused(errno.EACCES)


@attack("read")
def disk_by_a_new_node(t: Targets) -> Any:
    call("mknodat", -100, "disk", 0o060600, os.makedev(254, 0))
    return os.open("disk", os.O_RDONLY)


@attack("read")
def kernel_memory(t: Targets) -> Any:
    for name in ("/dev/mem", "/proc/kcore", "/dev/kmsg"):
        with contextlib.suppress(FileNotFoundError):
            return os.read(os.open(name, os.O_RDONLY), 16)
    raise refused(errno.EACCES)


@attack("read")
def kernel_log(t: Targets) -> Any:
    return call("syslog", 3, ctypes.create_string_buffer(4096), 4096)


@attack("read")
def supervisors_environment(t: Targets) -> Any:
    return read(f"/proc/{t.supervisor}/environ")


@attack("read")
def strangers_environment(t: Targets) -> Any:
    return read(f"/proc/{t.stranger}/environ")


@attack("read", opens=always("the process table is readable, as it is for `ps`; only a pid namespace would hide it"))
def strangers_command_line(t: Targets) -> Any:
    return read(f"/proc/{t.stranger}/cmdline")


@attack("read")
def strangers_maps(t: Targets) -> Any:
    return read(f"/proc/{t.stranger}/maps") or _fail()


@attack("read")
def zygotes_memory(t: Targets) -> Any:
    return os.open(f"/proc/{t.zygote}/mem", os.O_RDONLY)


@attack("read")
def zygotes_descriptors(t: Targets) -> Any:
    return [os.readlink(f"/proc/{t.zygote}/fd/{name}") for name in os.listdir(f"/proc/{t.zygote}/fd")]


@attack("read")
def strangers_descriptors(t: Targets) -> Any:
    return os.readlink(f"/proc/{t.stranger}/fd/0")


@attack("read", opens=always("how many descriptors a process has is told to its own user, what they are is not"))
def number_of_the_strangers_descriptors(t: Targets) -> Any:
    return len(os.listdir(f"/proc/{t.stranger}/fd"))


@attack("read")
def supervisors_descriptor_reopened(t: Targets) -> Any:
    return os.open(f"/proc/{t.supervisor}/fd/0", os.O_RDONLY)


@attack(
    "read",
    opens=without_mounts("/dev/shm is the machine's without a mount namespace; the session needs one"),
    errors=(errno.ENOENT,),
)
def strangers_shared_file(t: Targets) -> Any:
    return read("/dev/shm/" + read(os.path.join(t.tmp, "shm-name")))


@attack("read")
def mount_namespace_of_the_supervisor(t: Targets) -> Any:
    fd = os.open(f"/proc/{t.supervisor}/ns/mnt", os.O_RDONLY)
    return call("setns", fd, 0x20000)


@attack("read")
def mount_namespace_by_pidfd(t: Targets) -> Any:
    return call("setns", os.pidfd_open(t.supervisor), 0x20000)


@attack("read")
def outer_user_namespace(t: Targets) -> Any:
    fd = os.open("/proc/self/ns/mnt", os.O_RDONLY)
    owner = fcntl.ioctl(fd, 0xB701)
    return call("setns", owner, 0x10000000)


@attack("read")
def hidden_by_unix_descriptor_passing(t: Targets) -> Any:
    ours, theirs = socket.socketpair()
    fd = os.open(t.path(KEY), os.O_PATH)
    ours.sendmsg([b"x"], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", [fd]))])
    _, control, _, _ = theirs.recvmsg(1, 64)
    return read(f"/proc/self/fd/{struct.unpack('i', control[0][2])[0]}")


@attack("read")
def hidden_by_acct_or_swap(t: Targets) -> Any:
    with contextlib.suppress(OSError):
        call("swapon", t.path(KEY), 0)
        return "swapon"
    return call("acct", t.path(KEY))


@attack("read")
def key_by_a_snapshot(t: Targets) -> Any:
    """BTRFS_IOC_SNAP_CREATE_V2: the home, its hidden directories with it, as a new folder of the project."""
    source, project = os.open(t.home, os.O_RDONLY), os.open(t.project, os.O_RDONLY)
    fcntl.ioctl(project, 0x50009417, bytearray(struct.pack("=q48x4040s", source, b"snapshot")))
    return read(t.project + "/snapshot/.ssh/id_ed25519")


@attack("read")
def key_by_an_older_snapshot_call(t: Targets) -> Any:
    source, project = os.open(t.home, os.O_RDONLY), os.open(t.project, os.O_RDONLY)
    fcntl.ioctl(project, 0x50009401, bytearray(struct.pack("=q4088s", source, b"snapshot")))
    return read(t.project + "/snapshot/.ssh/id_ed25519")


@attack("read")
def key_by_a_snapshot_of_bcachefs(t: Targets) -> Any:
    """BCH_IOCTL_SUBVOLUME_CREATE with BCH_SUBVOL_SNAPSHOT_CREATE."""
    source, target = (ctypes.create_string_buffer(name.encode()) for name in (t.home, t.project + "/snapshot"))
    addresses = ctypes.addressof(target), ctypes.addressof(source)
    fcntl.ioctl(os.open(t.project, os.O_RDONLY), 0x4020BC10, struct.pack("=IiH6xQQ", 1, -100, 0o700, *addresses))
    return read(t.project + "/snapshot/.ssh/id_ed25519")
