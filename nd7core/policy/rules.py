"""A policy as Linux can enforce it: plain data between the compiler and the kernel code."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class LinuxRules:
    """What `nd7core.policy.compile_linux` makes of a policy and `nd7exec.linux` enforces.

    Every path is absolute and canonical, `os.fsdecode`d (surrogateescape keeps odd bytes).
    Reading and executing is allowed everywhere but under `hidden`; writing is allowed nowhere
    but under `writable` and on `writable_files`, and there not under `protected`.

    Attributes:
        hidden: subtrees that may be neither read, executed, nor written, whatever else says so.
        writable: subtrees that may be written.
        writable_files: single files and devices that may be written but not replaced.
        protected: subtrees or files inside a writable subtree that stay unwritable.  The folders
            between the writable root and something protected or hidden may be written into and must
            not be renamed or removed: that would put another file in the protected one's place.
        connect_tcp: the TCP ports that may be connected to, on any host.
        dns: whether UDP and TCP to port 53 are let out.
        private: writable directories that a session with mounts of its own gets empty and for itself
            alone; the profile knows nothing of them.
    """

    hidden: tuple[str, ...] = ()
    writable: tuple[str, ...] = ()
    writable_files: tuple[str, ...] = ()
    protected: tuple[str, ...] = ()
    connect_tcp: tuple[int, ...] = ()
    dns: bool = False
    private: tuple[str, ...] = ()
