"""Runs a program on a machine that refuses user namespaces, as Ubuntu's AppArmor rule and many containers do.

usage: python no_namespaces.py PROGRAM [ARGS...]

A seccomp filter answers EPERM to unshare(CLONE_NEWUSER), for the program and all its children.
"""

from __future__ import annotations

import ctypes
import errno
import os
import sys

from nd7exec.linux import bpf, syscalls


def main() -> None:
    code = [
        *bpf.load(bpf.NR),
        *bpf.equal(
            syscalls.number("unshare"),
            [
                *bpf.argument(0),
                *bpf.test(bpf.JSET, syscalls.CLONE_NEWUSER, bpf.ret(bpf.refuse(errno.EPERM))),
                *bpf.ret(bpf.ALLOW),
            ],
        ),
        *bpf.ret(bpf.ALLOW),
    ]
    data = bpf.encode(code)
    buffer = ctypes.create_string_buffer(data, len(data))
    syscalls.prctl(syscalls.PR_SET_NO_NEW_PRIVS, 1)
    # struct sock_fprog; no listener, which nd7 needs for itself.
    program = len(code).to_bytes(8, "little") + ctypes.addressof(buffer).to_bytes(8, "little")
    syscalls.call("seccomp", 1, 0, program)
    os.execvp(sys.argv[1], sys.argv[1:])


if __name__ == "__main__":
    main()
