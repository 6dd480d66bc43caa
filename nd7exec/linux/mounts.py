"""What is mounted how inside a session: masks, read-only and writable places.

`reconcile` compares the mounts there are with the rules there are and does what is missing, so the
same code makes a session's mounts at its start and changes them for a grant later.  It runs in the
outer user namespace, with the capabilities that it has there.
"""

from __future__ import annotations

import errno
import os
import re
import stat
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Final

from nd7core.policy.rules import LinuxRules
from nd7exec.linux import namespaces, syscalls
from nd7exec.linux.errors import ConfinementError

MASK: Final = "nd7-mask"
PRIVATE: Final = "nd7-private"
_OCTAL = re.compile(rb"\\([0-7]{3})")
# Never made writable, whatever is granted: nd7's own /dev, and the kernel's interfaces.
_FIXED: Final = ("/dev", "/proc", "/sys")


@dataclass(frozen=True, slots=True)
class Mount:
    """One line of /proc/self/mountinfo (proc_pid_mountinfo(5)).

    Attributes:
        id, parent: the kernel's numbers; a mount on top of another at the same point has it as parent.
        device: major:minor of the file system.
        root: which directory of that file system is mounted.
        point: where.
        read_only: whether this mount is (its file system may be as well).
        source: what stands before the super options; a mask's is `MASK`.
    """

    id: int
    parent: int
    device: str
    root: str
    point: str
    read_only: bool
    source: str


def parse(data: bytes) -> list[Mount]:
    """The mounts of a mountinfo file; a line of another shape is passed over.

    Examples:
        >>> parse(b"36 35 98:0 /a /mnt/x\\\\040y ro,nodev master:1 - ext4 /dev/sda rw\\n")[0].point
        '/mnt/x y'
    """
    found = []
    for line in data.splitlines():
        fields = line.split(b" ")
        try:
            behind = fields.index(b"-", 6)
            found.append(
                Mount(
                    id=int(fields[0]),
                    parent=int(fields[1]),
                    device=fields[2].decode(),
                    root=_path(fields[3]),
                    point=_path(fields[4]),
                    read_only=b"ro" in fields[5].split(b","),
                    source=_path(fields[behind + 2]),
                )
            )
        except (ValueError, IndexError):
            continue
    return found


def _path(field: bytes) -> str:
    return os.fsdecode(_OCTAL.sub(lambda match: bytes([int(match[1], 8) & 0xFF]), field))


def current() -> list[Mount]:
    """This process's mounts.  Raises OSError."""
    return parse(syscalls.read_file("/proc/self/mountinfo"))


def visible(mounts: Iterable[Mount]) -> dict[str, Mount]:
    """The topmost mount at each point."""
    table = list(mounts)
    points = {mount.id: mount.point for mount in table}
    covered = {mount.parent for mount in table if points.get(mount.parent) == mount.point}
    return {mount.point: mount for mount in table if mount.id not in covered}


def inside(path: str, root: str) -> bool:
    """Whether a canonical path is `root` or lies below it.

    Examples:
        >>> inside("/a/b", "/a"), inside("/ab", "/a"), inside("/a", "/a"), inside("/a", "/")
        (True, False, True, True)
    """
    return path == root or root == "/" or path.startswith(root + "/")


def inside_any(path: str, roots: Iterable[str]) -> bool:
    """Whether a canonical path lies in one of the subtrees."""
    return any(inside(path, root) for root in roots)


def between(root: str, path: str) -> list[str]:
    """The directories strictly between a root and a path below it, outermost first.

    Examples:
        >>> between("/a", "/a/b/c/d")
        ['/a/b', '/a/b/c']
        >>> between("/", "/b/c")
        ['/b']
    """
    found = []
    path = os.path.dirname(path)
    while path != root and path != "/":
        found.append(path)
        path = os.path.dirname(path)
    return found[::-1]


def aliases(path: str, mounts: Iterable[Mount]) -> set[str]:
    """Every other path that shows the same directory, through a second mount of its file system.

    A bind mount, or a home that is mounted twice, would be a way round a mask.
    """
    table = [mount for mount in mounts if mount.source != MASK and mount.point != path]
    holders = [mount for mount in table if inside(path, mount.point)]
    if not holders:
        return set()
    holder = max(holders, key=lambda mount: (len(mount.point), mount.id))
    below = _join(holder.root, path[len(holder.point.rstrip("/")) :])
    found = set()
    for mount in table:
        if mount.device != holder.device:
            continue
        if inside(below, mount.root):
            found.add(_join(mount.point, below[len(mount.root.rstrip("/")) :]))
        elif inside(mount.root, below):
            found.add(mount.point)
    return found - {path}


def with_aliases(rules: LinuxRules) -> LinuxRules:
    """The rules with every other path that this process sees to what is hidden, or protected in a writable place.

    A home that is mounted twice, as in many containers, shows a hidden directory twice; a bind mount of the state
    directory in the project would be writable.  Raises OSError.
    """
    table = current()

    def others(path: str) -> list[str]:
        return sorted(found for found in aliases(path, table) if not inside(found, path))

    hidden = [other for path in rules.hidden for other in others(path)]
    protected = [other for path in rules.protected for other in others(path) if inside_any(other, rules.writable)]
    return replace(
        rules,
        hidden=tuple(dict.fromkeys((*rules.hidden, *hidden))),
        protected=tuple(dict.fromkeys((*rules.protected, *filter(os.path.lexists, protected)))),
    )


def _join(root: str, rest: str) -> str:
    return (root.rstrip("/") + "/" + rest.strip("/")).rstrip("/") or "/"


def reconcile(rules: LinuxRules) -> list[str]:
    """Make this mount namespace enforce the rules.

    Returns:
        What could not be done and does no harm (a writable place that does not exist, a file system
        that was read-only before), one sentence each.

    Raises:
        ConfinementError: a hidden or protected place would stay open.
        OSError: a mount failed.
    """
    notes: list[str] = []
    rules = with_aliases(rules)
    root_fd = os.open("/", os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        _mask(root_fd, rules.hidden)
        _own(root_fd, rules.private)
        for path in _places(root_fd, rules, notes):
            if path not in visible(current()):
                _bind(root_fd, path)
        _set_writable(root_fd, rules, notes)
    finally:
        os.close(root_fd)
    return notes


def _kind(root_fd: int, path: str) -> int | None:
    """The file type bits of a path, or None where there is none (or none that anyone here could reach)."""
    try:
        fd = syscalls.open_below(root_fd, path)
    except OSError as error:
        if error.errno in (errno.ENOENT, errno.ENOTDIR, errno.EACCES, errno.ELOOP):
            return None
        raise
    try:
        return stat.S_IFMT(os.fstat(fd).st_mode)
    finally:
        os.close(fd)


def _mask(root_fd: int, hidden: Iterable[str]) -> None:
    table = current()
    paths = set(hidden)
    for path in hidden:
        paths |= aliases(path, table)
    masked = visible(table)
    # Outermost first: a mask inside a mask has no path, and needs none.
    for path in sorted(paths, key=len):
        if path in masked and masked[path].source == MASK:
            continue
        kind = _kind(root_fd, path)
        if kind is None:
            continue
        if kind == stat.S_IFDIR:
            # Mode 000 and read-only: even its owner, who is root without capabilities, may neither
            # search it nor change the mode, so a read is "Permission denied" and not "No such file".
            mask = namespaces.new_mount(
                "tmpfs",
                {"source": MASK, "mode": "0000", "size": "4k", "nr_inodes": "2"},
                syscalls.MOUNT_ATTR_RDONLY
                | syscalls.MOUNT_ATTR_NOSUID
                | syscalls.MOUNT_ATTR_NODEV
                | syscalls.MOUNT_ATTR_NOEXEC,
            )
        else:
            # A device node on a nodev mount cannot be opened by anyone (EACCES).
            mask = syscalls.open_tree(syscalls.AT_FDCWD, b"/dev/null", syscalls.OPEN_TREE_CLONE)
            syscalls.mount_setattr(
                mask,
                b"",
                syscalls.AT_EMPTY_PATH,
                set_=syscalls.MOUNT_ATTR_RDONLY | syscalls.MOUNT_ATTR_NODEV | syscalls.MOUNT_ATTR_NOSUID,
            )
        _attach(root_fd, mask, path)


def _own(root_fd: int, private: Iterable[str]) -> None:
    """Put an empty file system, kept in memory and gone with the session, over each private directory."""
    shown = visible(current())
    for path in private:
        if (path in shown and shown[path].source == PRIVATE) or _kind(root_fd, path) != stat.S_IFDIR:
            continue
        own = namespaces.new_mount(
            "tmpfs",
            {"source": PRIVATE, "mode": "0700", "size": "64m"},
            syscalls.MOUNT_ATTR_NOSUID | syscalls.MOUNT_ATTR_NODEV,
        )
        _attach(root_fd, own, path)


def _attach(root_fd: int, mount_fd: int, path: str) -> None:
    try:
        target = syscalls.open_below(root_fd, path)
        try:
            syscalls.move_mount(mount_fd, target)
        finally:
            os.close(target)
    finally:
        os.close(mount_fd)


def _bind(root_fd: int, path: str) -> None:
    """Make a place a mount of its own: it can then be read-only or not, and cannot be renamed away (EBUSY)."""
    source = syscalls.open_below(root_fd, path)
    try:
        clone = syscalls.open_tree(
            source, b"", syscalls.AT_EMPTY_PATH | syscalls.OPEN_TREE_CLONE | syscalls.AT_RECURSIVE
        )
    finally:
        os.close(source)
    _attach(root_fd, clone, path)


def _places(root_fd: int, rules: LinuxRules, notes: list[str]) -> list[str]:
    """Every path that has to be a mount point, outermost first."""
    places: set[str] = set()
    for path in (*rules.writable, *rules.writable_files):
        if path == "/" or inside_any(path, _FIXED) or inside_any(path, rules.hidden):
            continue
        if _kind(root_fd, path) is None:
            notes.append(f"not writable because it does not exist: {path}")
            continue
        places.add(path)
    for path in (*rules.protected, *rules.hidden):
        roots = [root for root in rules.writable if inside(path, root)]
        if not roots:
            continue
        if _kind(root_fd, path) is None:
            raise ConfinementError(
                f"cannot keep {path} unwritable: it does not exist, and lies in {roots[0]}, which is writable",
                hint="create it, or do not make that writable",
            )
        # Renaming a directory takes the mounts below it along: without these a protected file could be
        # replaced by moving its parent aside and making a new one.
        places.update(between(min(roots, key=len), path))
        if path not in rules.hidden:
            places.add(path)
    return sorted(places, key=len)


def _set_writable(root_fd: int, rules: LinuxRules, notes: list[str]) -> None:
    refused = (*rules.protected, *rules.hidden, *_FIXED)
    for point, mount in sorted(visible(current()).items(), key=lambda item: len(item[0])):
        if inside_any(point, _FIXED) or mount.source == MASK:
            continue
        wanted = (inside_any(point, rules.writable) or point in rules.writable_files) and not inside_any(point, refused)
        if wanted == (not mount.read_only):
            continue
        try:
            fd = syscalls.open_below(root_fd, point)
        except OSError:
            continue  # below a mask or another mount: nobody inside reaches it either
        try:
            if _mount_of(fd) != mount.id:
                continue
            if wanted:
                syscalls.mount_setattr(fd, b"", syscalls.AT_EMPTY_PATH, clear=syscalls.MOUNT_ATTR_RDONLY)
            else:
                syscalls.mount_setattr(fd, b"", syscalls.AT_EMPTY_PATH, set_=syscalls.MOUNT_ATTR_RDONLY)
        except OSError as error:
            if wanted and error.errno == errno.EPERM:
                notes.append(f"not writable because it was mounted read-only before: {point}")
            elif not wanted and error.errno == errno.EBUSY:
                # Something inside still writes there.  New openings find what lies below, which is read-only.
                syscalls.umount(os.fsencode(point), syscalls.MNT_DETACH)
            else:
                raise
        finally:
            os.close(fd)


def _mount_of(fd: int) -> int:
    fields = syscalls.read_file(f"/proc/self/fdinfo/{fd}").split()
    return int(fields[fields.index(b"mnt_id:") + 1])
