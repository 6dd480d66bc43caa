"""Makes a world of namespaces, hands a listening socket out of it, and keeps it until its starter goes.

Run by `world.py` as a program of its own, because a process must be single-threaded to enter a user
namespace.  Standard library only.  Arguments: the file descriptor of a socket to the starter, then one JSON object:
`uid`, `gid`, `user` (bool: make a user namespace, for a runner who is not root), `passwd` (text of /etc/passwd),
`hide` (directories to put an empty tmpfs over), `keep` (trees inside those that must stay visible).
"""

from __future__ import annotations

import array
import ctypes
import errno
import fcntl
import json
import os
import socket
import struct
import sys
from pathlib import Path

CLONE_NEWNS, CLONE_NEWUSER, CLONE_NEWNET = 0x00020000, 0x10000000, 0x40000000  # linux/sched.h
MS_NOSUID, MS_NODEV, MS_BIND, MS_REC, MS_PRIVATE = 2, 4, 4096, 16384, 1 << 18  # linux/mount.h
SIOCGIFFLAGS, SIOCSIFFLAGS, IFF_UP = 0x8913, 0x8914, 1  # linux/sockios.h, linux/if.h
PR_SET_PDEATHSIG, SIGKILL = 1, 9

libc = ctypes.CDLL(None, use_errno=True)


def check(result: int, what: str) -> None:
    if result != 0:
        number = ctypes.get_errno()
        raise SystemExit(f"world: {what}: {errno.errorcode.get(number, number)} {os.strerror(number)}")


def mount(source: str, target: str, kind: str, flags: int, data: str = "") -> None:
    arguments = [os.fsencode(text) if text else None for text in (source, target, kind)]
    done = libc.mount(*arguments, ctypes.c_ulong(flags), data.encode() or None)
    check(done, f"mount {source} on {target}")


def put(path: str, text: str) -> None:
    Path(path).write_text(text, encoding="utf-8")


def enter(user: bool, uid: int, gid: int) -> None:
    check(libc.unshare(CLONE_NEWNS | CLONE_NEWNET | (CLONE_NEWUSER if user else 0)), "unshare")
    if user:
        put("/proc/self/uid_map", f"{uid} {uid} 1")
        put("/proc/self/setgroups", "deny")
        put("/proc/self/gid_map", f"{gid} {gid} 1")
    mount("none", "/", "", MS_REC | MS_PRIVATE)


def loopback_up() -> None:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        request = fcntl.ioctl(probe, SIOCGIFFLAGS, struct.pack("16sh14x", b"lo", 0))
        flags = struct.unpack("16sh14x", request)[1] | IFF_UP
        fcntl.ioctl(probe, SIOCSIFFLAGS, struct.pack("16sh14x", b"lo", flags))


def hide(directory: str, keep: list[str], mode: str) -> None:
    """Put an empty tmpfs over a directory, with the trees of `keep` that lie in it shown again at their places."""
    inside = [path for path in keep if path.startswith(directory + "/")]
    held = [os.open(path, os.O_PATH) for path in inside]
    mount("tmpfs", directory, "tmpfs", MS_NOSUID | MS_NODEV, f"mode={mode}")
    for path, descriptor in zip(inside, held, strict=True):
        os.makedirs(path, exist_ok=True)
        mount(f"/proc/self/fd/{descriptor}", path, "", MS_BIND | MS_REC)
        os.close(descriptor)


def main() -> None:
    channel = socket.socket(fileno=int(sys.argv[1]))
    plan = json.loads(sys.argv[2])
    libc.prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0)
    uid, gid = plan["uid"], plan["gid"]
    enter(plan["user"], uid, gid)
    loopback_up()
    for directory in plan["hide"]:
        hide(directory, plan["keep"], "1777" if directory in ("/tmp", "/var/tmp") else "0755")
    os.makedirs(plan["home"], 0o700)
    os.makedirs(plan["files"], 0o755)
    os.chown(plan["home"], uid, gid)
    passwd = plan["files"] + "/passwd"
    put(passwd, plan["passwd"])
    os.chmod(passwd, 0o444)
    mount(passwd, "/etc/passwd", "", MS_BIND)
    server = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    server.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    server.bind(("127.0.0.1", plan["port"]))
    server.listen(64)
    descriptors = array.array("i", [server.fileno()])
    channel.sendmsg([b"ready"], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, descriptors.tobytes())])
    server.close()
    channel.recv(1)  # the starter has closed its end, or is gone


if __name__ == "__main__":
    main()
