"""A git worktree for a session: found or made, without anything of the project's running outside the sandbox.

`git` runs what a project names: hooks, filters, monitors, the programs of its configuration.  So nd7 reads a few of
git's files itself, makes an empty directory, and has git fill it in an errand that is confined like a session; what a
session then finds as its own settings was checked out before it began.

It lies beside the project, as `<project>-worktrees/<name>`: not below, where the project's own sessions write.
"""

from __future__ import annotations

import contextlib
import os
import re
import shlex
import shutil
import stat
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from nd7core import credentials, sessions
from nd7core.errors import Nd7Error
from nd7core.paths import Places, within
from nd7core.record import WORKTREES, Record
from nd7core.text import safe
from nd7exec import errand, lifecycle, ourselves, place
from nd7exec.linux import syscalls

SECONDS = 600.0
MOST_READ = 16 << 20
MOST_LISTED = 10_000
_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._-]{0,99}")
# What git's own `rev-parse --local-env-vars` names: these would lead it to another repository.
LOCAL = frozenset(
    f"GIT_{name}"
    for name in (
        "ALTERNATE_OBJECT_DIRECTORIES", "CONFIG", "CONFIG_PARAMETERS", "CONFIG_COUNT", "OBJECT_DIRECTORY", "DIR",
        "WORK_TREE", "IMPLICIT_WORK_TREE", "GRAFT_FILE", "INDEX_FILE", "NO_REPLACE_OBJECTS", "REPLACE_REF_BASE",
        "PREFIX", "SHALLOW_FILE", "COMMON_DIR",
    )
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Worktree:
    """Where a session is to work.

    Attributes:
        path: its directory, canonical, and the branch's name at its end.
        main: the repository's main checkout.
        repository: `main/.git`, which git writes from every worktree: objects, branches, configuration, hooks.
        there: it was there before.
        new_branch: git makes the branch with it.
    """

    path: str
    main: str
    repository: str
    there: bool
    new_branch: bool

    @property
    def name(self) -> str:
        """The worktree's, and its branch's."""
        return os.path.basename(self.path)

    @property
    def removal(self) -> str:
        """What takes it away, to be typed."""
        return shlex.join(["git", "-C", self.main, "worktree", "remove", self.path])


def without_local(environ: Mapping[str, str]) -> dict[str, str]:
    """An environment in which git finds its repository by where it is."""
    return {name: value for name, value in environ.items() if name not in LOCAL}


def find(name: str, project: str, places: Places) -> Worktree:
    """Which worktree is meant.  Reads, and changes nothing.

    Args:
        name: as typed.
        project: the canonical directory that it was typed for, the main checkout or one below.

    Raises:
        Nd7Error: there can be none, why, and the next step.
    """
    if not _NAME.fullmatch(name) or ".." in name or name.endswith((".", ".lock")):
        raise _no(
            f"{safe(name, 60)!r} names no worktree",
            "letters, digits, `.`, `_` and `-`: it becomes a directory and a branch",
            2,
        )
    main = _main(project)
    lifecycle.check_project(main, places)
    repository = os.path.join(main, ".git")
    _check_owner(repository)
    if _unborn(repository):
        raise _no(f"{main} has no commit yet, so there is nothing to check out", "commit something there first")
    holder = main + WORKTREES
    path = os.path.join(holder, name)
    for at in (holder, path):
        if os.path.islink(at) or (os.path.lexists(at) and not os.path.isdir(at)):
            raise _no(f"{at} is in the way: it is no directory", "move it away, or give another NAME")
        if why := lifecycle.others_write(at):
            raise _no(f"{at} can be written by others ({why})", f"chmod go-w {at}, and see that it is yours")
    for session in sessions.live(places):
        if session.alive and session.record and session.record.project == path:
            raise _no(
                f"session {session.pid} works in {path}", f"`nd7 attach {session.pid}` shows it; or give another NAME"
            )
    own = _listed(path, repository)
    there = bool(own) and os.path.lexists(os.path.join(path, ".git"))
    if own and not there:
        raise _no(
            f"{path} was thrown away, and git still lists it",
            f"`git -C {shlex.quote(main)} worktree prune` clears that; or give another NAME",
        )
    if there and not os.path.lexists(os.path.join(own, "index")):  # which git writes last
        removal = Worktree(path, main, repository, True, False).removal.replace(" remove ", " remove -f -f ")
        raise _no(f"{path} was left half made", f"`{removal}` takes it away; or give another NAME")
    if not there and os.path.lexists(path) and os.listdir(path):
        raise _no(f"{path} is there already and is no worktree of {main}", "give another NAME, or move it away")
    return Worktree(path, main, repository, there, not there and not _has_branch(repository, name))


def make(tree: Worktree, places: Places, environ: Mapping[str, str]) -> None:
    """Have git make it, unless it is there.

    Raises:
        Nd7Error: git could not, with what it said, and nothing of it is left.
    """
    if tree.there:
        return
    git = _git(environ, (tree.main, os.path.dirname(tree.path)))
    record = _record(tree, places, environ)
    made = []
    try:
        for path in (os.path.dirname(tree.path), tree.path):
            try:
                os.mkdir(path)
                made.append(path)
            except FileExistsError:
                continue
            except OSError as error:
                raise _no(
                    f"{path} cannot be made: {error.strerror}",
                    f"see that you may write {os.path.dirname(path)}, or leave --worktree out",
                ) from None
        _no_link(tree)
        words = ["worktree", "add", "--quiet", tree.path]
        status, said = _run(git, words, environ, record)
        if status:
            what = "it took too long" if status == 124 else _last_lines(said) or f"it ended with status {status}"
            raise _no(
                f"git could not make the worktree: {what}",
                f"mend that in {tree.main}, or give another NAME; nothing of it was kept",
            )
    except BaseException:
        with contextlib.suppress(OSError):
            _clean(tree, git, environ, record, made)
        raise


def undo(tree: Worktree, places: Places, environ: Mapping[str, str]) -> None:
    """Take away a worktree that `make` has just made, and in which nobody has worked.  What cannot be is left."""
    if not tree.there:
        with contextlib.suppress(OSError, Nd7Error):
            git = _git(environ, (tree.main, os.path.dirname(tree.path)))
            _clean(tree, git, environ, _record(tree, places, environ), [os.path.dirname(tree.path), tree.path])


def _clean(tree: Worktree, git: str, environ: Mapping[str, str], record: Record, made: Sequence[str]) -> None:
    """Take away what was made.  By descriptors: a session that works in the folder above may turn names into links."""
    holder = os.path.dirname(tree.path)
    if tree.path in made and os.path.isdir(tree.path):
        _run(git, ["worktree", "remove", "-f", "-f", tree.path], environ, record)  # twice: one half made is locked
        with _opened(holder) as above:
            shutil.rmtree(tree.name, ignore_errors=True, dir_fd=above)  # git leaves what it did not make
            if tree.new_branch and _has_branch(tree.repository, tree.name):
                os.mkdir(tree.name, dir_fd=above)  # the floor names it, and git is to run under no other
                _run(git, ["branch", "--quiet", "-D", tree.name], environ, record)
    for path in made[::-1]:
        with contextlib.suppress(OSError), _opened(os.path.dirname(path)) as above:
            os.rmdir(os.path.basename(path), dir_fd=above)  # the folder of all worktrees, where this was the only one


@contextlib.contextmanager
def _opened(path: str) -> Iterator[int]:
    """A directory, opened without following any link on the way.  Raises OSError: ELOOP where there is one."""
    root = os.open("/", os.O_PATH | os.O_CLOEXEC)
    try:
        found = syscalls.open_below(root, path, flags=os.O_RDONLY | os.O_DIRECTORY)
    finally:
        os.close(root)
    try:
        yield found
    finally:
        os.close(found)


def _run(git: str, words: Sequence[str], environ: Mapping[str, str], record: Record) -> tuple[int, str]:
    """git, confined, on the record's repository."""
    argv = ["git", "-C", os.path.dirname(record.writable[0]), *words]
    # Never a question: nobody would see it.  The program that asks is the person's own, and would run in here as well.
    more = {"GIT_TERMINAL_PROMPT": "0", "GIT_ASKPASS": "/bin/false", "SSH_ASKPASS": "/bin/false"}
    return errand.run(git, argv, {**without_local(environ), **more}, record, SECONDS)


def _record(tree: Worktree, places: Places, environ: Mapping[str, str]) -> Record:
    """The floor of git: the new directory, the repository's own, the temp directory; not the main checkout."""
    tmp = lifecycle.temporary(environ, places)
    roots = [tree.path, tree.repository, tmp]
    ourselves.check(roots)
    settings = ourselves.settings(environ, places.home)
    ourselves.keep_settings(settings, roots)
    return Record(
        project=tree.path,
        home=places.home,
        state=places.state,
        tmp=tmp,
        writable=(tree.repository,),
        protected=(*ourselves.protected(roots), *map(os.path.realpath, settings)),
        hidden=credentials.elsewhere(places.home),
    )


def _git(environ: Mapping[str, str], closed: Sequence[str]) -> str:
    """git's absolute path, from folders of PATH that no project and nobody's working directory is in."""
    for folder in environ.get("PATH", os.defpath).split(os.pathsep):
        if folder.startswith("/") and not any(within(os.path.realpath(folder), path) for path in closed):
            found = os.path.join(folder, "git")
            if os.path.isfile(found) and os.access(found, os.X_OK):
                return found
    raise _no("git is not on your PATH, and it makes the worktree", "install git, or leave --worktree out", 127)


def _main(project: str) -> str:
    """The main checkout that holds a directory.  Raises Nd7Error where there is none."""
    at = project
    while True:
        git = os.path.join(at, ".git")
        try:
            kind = os.lstat(git).st_mode
        except OSError:
            if all(os.path.lexists(os.path.join(at, part)) for part in ("HEAD", "objects", "refs")):
                raise _no(f"{at} is a bare repository", "clone it, and name the clone with --project DIR") from None
            if at == "/":
                raise _no(f"{project} is in no git repository", "leave --worktree out, or `git init` there") from None
            at = os.path.dirname(at)
            continue
        if stat.S_ISDIR(kind):
            return at
        if stat.S_ISLNK(kind):
            raise _no(f"{git} is a link, and nd7 opens no directory that one leads to", "leave --worktree out")
        raise _linked(at, git)


def _linked(at: str, git: str) -> Nd7Error:
    """The error for a checkout whose repository is elsewhere.

    What it says of where that is, it says to the person only: a session may have written it.
    """
    place_of = _read(git).removeprefix("gitdir:").strip()
    if "/modules/" in place_of:
        return _no(f"{at} is a submodule", "clone that repository by itself, or leave --worktree out")
    if "/worktrees/" not in place_of:
        return _no(f"{git} names another directory, and nd7 opens none that a project names", "leave --worktree out")
    top, found, _ = place_of.partition("/.git/worktrees/")
    named = f": --project {safe(top, 200)}" if found and top.startswith("/") else ""
    return _no(f"{at} is a worktree itself", f"name its main checkout{named}, or leave --worktree out")


def _check_owner(repository: str) -> None:
    """As git does: a repository of somebody else's is nobody's to be led into."""
    if os.stat(repository).st_uid != os.getuid():
        raise _no(f"{repository} belongs to user id {os.stat(repository).st_uid}", "take a clone of your own")
    if not os.path.isfile(os.path.join(repository, "HEAD")):
        raise _no(f"{repository} is no git repository", "leave --worktree out, or `git init` there")


def _no_link(tree: Worktree) -> None:
    """Whoever may write beside the project may have put a link there meanwhile."""
    for path in (os.path.dirname(tree.path), tree.path):
        if place.resolve(path) != (path, []):
            raise _no(f"{path} has become a link", "see who else writes there")


def _listed(path: str, repository: str) -> str:
    """Where a repository keeps what is a worktree's own, or "" where it lists none at a path."""
    listed = os.path.join(repository, "worktrees")
    try:
        with os.scandir(listed) as entries:
            names = [entry.name for entry in entries][:MOST_LISTED]
    except OSError:
        return ""
    for name in names:
        own = os.path.join(listed, name)
        # git writes either kind of path, as its worktree.useRelativePaths says.
        if os.path.normpath(os.path.join(own, _read(os.path.join(own, "gitdir")).strip())) == f"{path}/.git":
            return own
    return ""


def _unborn(repository: str) -> bool:
    """Whether HEAD names a branch without a commit.  With another store of references than files, git says it."""
    head = _read(os.path.join(repository, "HEAD")).strip()
    if not head.startswith("ref: ") or os.path.lexists(os.path.join(repository, "reftable")):
        return False
    return not _has_reference(repository, head.removeprefix("ref: "))


def _has_branch(repository: str, name: str) -> bool:
    # One that cannot be looked for counts as there: it is not ours to take away.
    return os.path.lexists(os.path.join(repository, "reftable")) or _has_reference(repository, f"refs/heads/{name}")


def _has_reference(repository: str, name: str) -> bool:
    if os.path.isfile(os.path.join(repository, name)):
        return True
    packed = _read(os.path.join(repository, "packed-refs"), MOST_READ)
    return any(line.endswith(" " + name) for line in packed.splitlines())


def _read(path: str, most: int = 65536) -> str:
    """The text of a small regular file, or "": what a session wrote may be a pipe, a link or endless."""
    try:
        fd = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:
        return ""
    with os.fdopen(fd, "rb") as file:
        if not stat.S_ISREG(os.fstat(fd).st_mode):
            return ""
        return os.fsdecode(file.read(most))


def _last_lines(said: str) -> str:
    """What git said last, on one line; it writes its word at the end, behind what hooks wrote."""
    lines = [" ".join(line.split()) for line in said.splitlines() if line.strip()]
    return safe("; ".join(lines[-3:]), 400)


def _no(message: str, hint: str, exit_code: int = 126) -> Nd7Error:
    return Nd7Error(message, hint=hint, exit_code=exit_code)
