"""A session's rules as a Landlock ruleset, built outside by the supervisor.

Rules pin inodes.  Where the session has mounts of its own, reading is allowed on `/` as a whole and
masks hide what is hidden, so a file that appears later, or is rewritten by rename, stays readable to
processes that run already.  Without them Landlock must hide by leaving out: every sibling on the way
to a hidden place gets a rule of its own, and the ruleset must be built anew when those directories
change (`stale`).
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from typing import Final

from nd7core.policy.rules import LinuxRules
from nd7exec.linux import landlock, mounts, namespaces, syscalls
from nd7exec.linux.errors import ConfinementError

Signature = tuple[tuple[int, int, int], ...]
File = tuple[int, int]  # device and inode

# Landlock keeps a ruleset's rules in a tree without a limit of its own; this one keeps a grant of a
# directory with a million entries from taking a minute for each command.
_MOST_RULES: Final = 200_000


class Ruleset:
    """One ruleset for an agent (the floor) or for commands, with no scopes.

    Attributes:
        fd: for `restrict` in the forked child; close-on-exec.
        skipped: writable places that were left out because they do not exist.
    """

    def __init__(
        self,
        rules: LinuxRules,
        namespaced: bool,
        abi: int,
        *,
        root_fd: int | None = None,
        terminal: str = "",
    ) -> None:
        """Build it.

        Args:
            rules: canonical paths, as the session sees them.
            namespaced: whether the session has mounts of its own (`Session.namespaced`).
            abi: the Landlock version to use (`Session.abi`).
            root_fd: the session's `/` (`Session.root_fd`), without which a private /dev has no name here.
            terminal: without namespaces, the one terminal that may be opened.

        Raises:
            ConfinementError: a rule cannot be enforced on this system as it stands.
            OSError: the kernel refused.
        """
        # With mounts of its own the session has masks on all of them.
        self._rules = rules if namespaced else mounts.with_aliases(rules)
        self._namespaced, self._terminal = namespaced, terminal
        self._listed: set[str] = set()
        self.skipped: list[str] = []
        own_root = root_fd is None
        self._root = os.open("/", os.O_PATH | os.O_CLOEXEC) if root_fd is None else root_fd
        # Before the rules, so that a change while they are made counts as one.
        self._kernel = landlock.RulesetFd(abi)
        self.fd = self._kernel.fd
        try:
            self._allow("/", landlock.READ if namespaced else landlock.READ_DIR)
            if not namespaced:
                self._read_around()
            self._write()
            self._devices()
            for port in {*rules.connect_tcp, *((53,) if rules.dns else ())}:
                self._kernel.allow_port(port, landlock.CONNECT_TCP)
        except BaseException:
            self._kernel.close()
            raise
        finally:
            if own_root:
                os.close(self._root)
            self._root = -1
        self.built = self.signature()

    def signature(self) -> Signature:
        """What the ruleset depends on: which file each path is and, where siblings are listed, their directory's age.

        Cheap: one lstat a path.  It is taken outside, on the machine's own view.
        """
        rules = self._rules
        paths = (*rules.hidden, *rules.protected, *rules.writable, *rules.writable_files)
        return (*(_identity(path) for path in paths), *(_identity(path, age=True) for path in sorted(self._listed)))

    def stale(self) -> bool:
        """Whether a path has become another file, or a listed directory has changed, since it was built."""
        return self.signature() != self.built

    def close(self) -> None:
        """Close the descriptor; domains made of it stay."""
        self._kernel.close()
        self.fd = -1

    def _allow(self, path: str, access: int) -> bool:
        """A rule on a path; False where there is none (or a symlink has taken its place)."""
        if self._kernel.count >= _MOST_RULES:
            raise ConfinementError(
                f"more than {_MOST_RULES} rules would be needed",
                hint="a grant this wide needs namespaces (nd7 doctor says why there are none)",
            )
        try:
            fd = syscalls.open_below(self._root, path)
        except (FileNotFoundError, NotADirectoryError, PermissionError):
            return False
        except OSError as error:
            if error.errno == 40:  # ELOOP
                return False
            raise
        try:
            self._kernel.allow_fd(fd, access)
        finally:
            os.close(fd)
        return True

    def _around(self, root: str, refused: Iterable[str], access: int) -> None:
        """Allow `access` below a root but for the refused subtrees, by a rule on every sibling on the way to them.

        A rule holds for a directory by whatever path it is reached, so directories are told by what they are: one that
        holds something refused gets no rule where it is mounted a second time, either.
        """
        closed = set(refused)
        way = {parent for path in closed for parent in (*mounts.between("/", path), "/")}
        self._beside(root, closed, {_file(path) for path in closed} - {None}, {_file(path) for path in way}, access)

    def _beside(
        self,
        path: str,
        closed: set[str],
        refused: set[File | None],
        way: set[File | None],
        access: int,
        file: bool = False,
    ) -> None:
        found = None if file else _file(path)
        if path in closed or (found and found in refused):
            return
        if found not in way or found is None:
            self._allow(path, access)
            return
        for child, is_file in self._children(path):
            self._beside(child, closed, refused, way, access, is_file)

    def _children(self, directory: str) -> list[tuple[str, bool]]:
        """What is in a directory, and whether that is none itself; links are left out."""
        self._listed.add(directory)
        try:
            with os.scandir(directory) as entries:
                # A symlink is followed by the kernel to a path that has a rule of its own, or none.
                return [(e.path, not e.is_dir(follow_symlinks=False)) for e in entries if not e.is_symlink()]
        except OSError:
            return []

    def _read_around(self) -> None:
        # /dev is never read as a whole: root owns the disk, and other terminals are in /dev/pts.
        self._around("/", (*self._rules.hidden, "/dev"), landlock.READ)

    def _write(self) -> None:
        rules = self._rules
        refused = (*rules.hidden, *rules.protected)
        access = landlock.WRITE | landlock.READ
        for path in rules.writable:
            if mounts.inside_any(path, refused) or self._of_others(path):
                continue
            if self._namespaced:
                if not self._allow(path, access):
                    self.skipped.append(path)
                continue
            for place in refused:
                if mounts.inside(place, path) and not os.path.lexists(place):
                    raise ConfinementError(
                        f"cannot keep {place} unwritable: it does not exist, and lies in {path}, which is writable",
                        hint="create it, or do not make that writable",
                    )
            if not os.path.lexists(path):
                self.skipped.append(path)
                continue
            self._around(path, refused, access)
        for path in rules.writable_files:
            if not mounts.inside_any(path, refused) and not self._of_others(path):
                device = landlock.DEVICE if mounts.inside(path, "/dev") else 0
                if not self._allow(path, landlock.WRITE_ONE | landlock.READ_FILE | device):
                    self.skipped.append(path)

    def _of_others(self, path: str) -> bool:
        """Whether a place holds other sessions' terminals, which only a devpts of one's own keeps apart."""
        return not self._namespaced and path != self._terminal and mounts.inside(path, "/dev/pts")

    def _devices(self) -> None:
        for name in namespaces.DEVICES:
            self._allow(f"/dev/{name}", landlock.DEVICE)
        self._allow("/dev/shm", landlock.WRITE | landlock.READ)
        if self._namespaced:
            self._allow("/dev/pts", landlock.DEVICE | landlock.READ_DIR)
        elif self._terminal:
            self._allow(self._terminal, landlock.DEVICE)


def _file(path: str) -> File | None:
    try:
        status = os.lstat(path)
    except OSError:
        return None
    return (status.st_dev, status.st_ino)


def _identity(path: str, *, age: bool = False) -> tuple[int, int, int]:
    try:
        status = os.lstat(path)
    except OSError:
        return (0, 0, 0)
    return (status.st_dev, status.st_ino, status.st_mtime_ns if age else 0)
