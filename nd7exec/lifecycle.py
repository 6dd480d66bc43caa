"""Before a session: may it be, and with what.  Every refusal names the reason and the next step."""

from __future__ import annotations

import contextlib
import os
import shutil
import stat
import sys
import time
from collections.abc import Mapping
from dataclasses import dataclass, replace

from nd7core import credentials, grants, process
from nd7core.errors import Nd7Error
from nd7core.paths import Places, canonical, within
from nd7core.record import Record
from nd7core.text import safe
from nd7exec import agents, launcher, ourselves, place, shell
from nd7exec.linux import confinement


@dataclass(frozen=True, slots=True)
class Wish:
    """What the person asked for on the command line.

    Attributes:
        worktree: the name of a git worktree to work in, or "": in the project itself.
        repository: the directory of the worktree's git, writable beside the project, once there is one.
        notes: what the person should know of it, one sentence each.
    """

    program: tuple[str, ...]
    project: str = ""
    name: str = ""
    detach: bool = False
    kernel_records: bool = False
    worktree: str = ""
    repository: str = ""
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Session:
    """Everything that is decided before anything is forked.

    Attributes:
        allowed_ids: sessions of the agent's that may be continued in their logs, for the person named them.
        older, choosing: see `agents.Launch`.
        agent_config: the agent's configuration directory, with its transcripts; None without an adapter.
        output_roots: where the outputs of its background commands lie.
        hook_command: the hook's command as the agent was given it.
        notes: what the person should know before it starts, one sentence each.
        private: directories that the session gets empty and for itself.
        kernel_records: switch the kernel's audit on for as long as the session runs.
    """

    record: Record
    program: str
    argv: tuple[str, ...]
    environ: dict[str, str]
    shell: str
    allowed_ids: frozenset[str]
    support: confinement.Support
    older: frozenset[str] = frozenset()
    choosing: bool = False
    agent_config: str | None = None
    output_roots: tuple[str, ...] = ()
    hook_command: str = ""
    notes: tuple[str, ...] = ()
    private: tuple[str, ...] = ()
    kernel_records: bool = False


def find_program(name: str, environ: Mapping[str, str], cwd: str) -> str:
    """The absolute path of PROGRAM, as a shell would find it.  Raises Nd7Error with a shell's exit status."""
    if not name:
        raise Nd7Error("PROGRAM is empty", hint="nd7 run claude", exit_code=127)
    if "/" in name:
        path = os.path.join(cwd, name)
        if not os.path.exists(path):
            raise Nd7Error(f"{name}: no such file", hint="check the path of PROGRAM", exit_code=127)
        if os.path.isdir(path):
            raise Nd7Error(f"{name}: a directory", hint="PROGRAM is a file: nd7 run claude", exit_code=126)
        if not os.access(path, os.X_OK):
            raise Nd7Error(f"{name}: not executable", hint=f"chmod +x {name}, or name its interpreter", exit_code=126)
        return os.path.normpath(path)
    found = shutil.which(name, path=environ.get("PATH", os.defpath))
    if found:
        return os.path.join(cwd, found)
    for directory in environ.get("PATH", os.defpath).split(os.pathsep):
        if os.path.isfile(os.path.join(directory, name)):
            raise Nd7Error(f"{directory}/{name}: not executable", hint="check its mode", exit_code=126)
    raise Nd7Error(f"{name}: not found on PATH", hint="install it, or name it by its path", exit_code=127)


def others_write(path: str) -> str:
    """Why somebody else could write a directory, or ""; a path that does not exist is nobody's."""
    try:
        found = os.stat(path)
    except OSError:
        return ""
    if found.st_uid not in (os.getuid(), 0):
        return f"it belongs to user id {found.st_uid}"
    if found.st_mode & stat.S_IWOTH and not found.st_mode & stat.S_ISVTX:
        return "everyone may write it"
    if found.st_mode & stat.S_IWGRP and not _own_group(found.st_gid):
        return f"group id {found.st_gid} may write it"
    return ""


def _own_group(gid: int) -> bool:
    # Debian and Fedora give each person a group of their own and a umask of 002: that group is nobody else.
    import grp
    import pwd

    try:
        return gid == pwd.getpwuid(os.getuid()).pw_gid and not grp.getgrgid(gid).gr_mem
    except KeyError:
        return False


def check_places(places: Places) -> None:
    """Refuse to keep a session where somebody else could change it.  Raises Nd7Error."""
    own = (places.nd7, places.sessions, *(os.path.join(places.state, name) for name in ("sessions", "bin")))
    for path in own:
        # A home or a state directory may be a link of the person's; below them nothing that nd7 made is one.
        if os.path.islink(path):
            raise Nd7Error(
                f"{path} is a link, and nd7 follows none to where it keeps what confines a session",
                hint="remove it, or put the directory that it leads to in its place",
                exit_code=126,
            )
    for path in (places.nd7, *(os.path.join(places.home, name) for name in (".ssh", ".aws"))):
        if within(places.state, canonical(path)):
            raise Nd7Error(
                f"nd7's state directory would be {places.state}, in {path}, which no session can read",
                hint="nd7-exec lies there: set XDG_STATE_HOME to another directory, or unset it",
                exit_code=126,
            )
    for path in (*_way_to(places.state, places.home), places.home, *own):
        if why := others_write(path):
            raise Nd7Error(
                f"{path} can be written by others ({why}), so they could change a session's policy",
                hint=f"chmod go-w {path}, and see that it is yours",
                exit_code=126,
            )
    if not os.access(places.home, os.W_OK | os.X_OK):
        raise Nd7Error(f"{places.home}, your home directory, is not writable for you", exit_code=126)


def _way_to(state: str, home: str) -> list[str]:
    """The state directory and what holds it, outermost first: whoever may write one of these may put another there.

    Up to the home directory; for one that lies elsewhere, up to what holds the directory that it was put into.
    """
    found = [state]
    while found[-1] not in ("/", home) and (within(state, home) or len(found) < 3):
        found.append(os.path.dirname(found[-1]))
    return found[::-1]


def check_project(project: str, places: Places) -> None:
    """Refuse a project whose writing would open what the sandbox is for.  Raises Nd7Error."""
    if not os.path.isdir(project):
        raise Nd7Error(f"{project} is not a directory", hint="--project DIR takes one that exists", exit_code=126)
    step = "start it in the project's own directory, or name that with --project DIR"
    if held := _holds_home(project, places):
        what = "your home directory" if held == places.home else "a directory that holds your home"
        raise Nd7Error(f"the project would be {project}, {what}: all of it would be writable", hint=step, exit_code=126)
    closed = [places.nd7, places.state, *(os.path.join(places.home, name) for name in (".ssh", ".aws"))]
    for path in closed:
        if within(project, canonical(path)):
            raise Nd7Error(f"the project would lie in {path}, which no session may write", hint=step, exit_code=126)


def _holds_home(path: str, places: Places) -> str:
    """The home directory, or the one that holds it, that a directory is; "" for another one.

    By what it is, not by its name alone: a home that is mounted a second time is the home.
    """
    above = places.home
    while True:
        with contextlib.suppress(OSError):  # not there
            if os.path.samefile(path, above):
                return above
        if above == "/":
            return "/" if path == "/" else ""
        above = os.path.dirname(above)


def temporary(environ: Mapping[str, str], places: Places) -> str:
    """The session's temp directory: TMPDIR if it is one that may be writable, else /tmp."""
    wanted = environ.get("TMPDIR", "")
    if os.path.isabs(wanted) and os.path.isdir(wanted):
        found = canonical(wanted)
        closed = [places.nd7, places.state, *(os.path.join(places.home, name) for name in (".ssh", ".aws"))]
        usable = not any(within(found, canonical(path)) for path in closed)
        if not _holds_home(found, places) and usable:
            return found
    return canonical("/tmp")


def check_machine(wish: Wish, places: Places) -> confinement.Support:
    """Refuse where nothing can be confined, or kept.  Raises Nd7Error."""
    if sys.platform != "linux":
        raise Nd7Error(
            "nd7 run confines on Linux only so far",
            hint="`nd7 tui` shows the sessions and logs of the existing nd7 on this system",
            exit_code=126,
        )
    support = confinement.supported()
    if support.abi < 1:
        raise Nd7Error(
            "this kernel has no Landlock, so nothing would confine the session",
            hint="`nd7 doctor` says more; Linux 5.13 has it, where `lsm=` on its command line does not leave it out",
            exit_code=126,
        )
    if wish.kernel_records and os.geteuid():
        raise Nd7Error(
            "--kernel-records switches the kernel's audit on, which only root may",
            hint="without it everything is enforced just the same; refusals are then told from what programs print",
            exit_code=126,
        )
    check_places(places)
    return support


def working_directory() -> str:
    """Where we are.  Raises Nd7Error where that is gone."""
    try:
        return os.getcwd()
    except OSError:
        raise Nd7Error("the working directory is gone", hint="cd to one that exists", exit_code=126) from None


def prepare(wish: Wish, places: Places, environ: Mapping[str, str]) -> Session:
    """Decide everything.  Writes nothing but the launchers below the state directory.  Raises Nd7Error or OSError."""
    support = check_machine(wish, places)
    cwd = working_directory()
    project = place.project_of(wish.project, cwd, environ, places)
    check_project(project, places)
    program = find_program(wish.program[0], environ, cwd)
    launchers = launcher.write(places.state)
    chosen = shell.agent_shell(environ)
    tmp = temporary(environ, places)
    launch = agents.Launch(
        program=program,
        argv=wish.program,
        environ={name: value for name, value in environ.items() if name},  # no exec takes one without a name
        project=project,
        home=places.home,
        tmp=tmp,
        exit=launchers.execute,
        prefix=launchers.prefix,
        record=launchers.record,
        shell=chosen,
        writable=(wish.repository,) if wish.repository else (),
        notes=wish.notes,
    )
    adapter = agents.adapter_for(program, wish.program[0])
    if adapter:
        launch = adapter.prepare(launch)
    if not support.userns:
        launch = without_mounts(launch)
    roots = [project, tmp, *launch.writable]
    ourselves.check(roots)
    pid = os.getpid()
    settings = ourselves.settings(environ, places.home)
    kept = (*launch.protected, *ourselves.protected(roots), *map(os.path.realpath, settings))
    record = Record(
        project=project,
        home=places.home,
        state=places.state,
        tmp=tmp,
        exit=launchers.execute,
        pid=pid,
        name=wish.name or os.path.basename(project),
        program=tuple(wish.program),
        agent=adapter.name if adapter else "",
        started=time.time_ns(),
        owner_start=process.start_time(pid) or "",
        revision=1,
        writable=tuple(launch.writable),
        writable_files=tuple(launch.writable_files),
        protected=tuple(dict.fromkeys(kept)),
        config=settings,
        hidden=credentials.elsewhere(places.home),
    )
    # What the project's sessions start with, and what a resumed one had when it ended: in the floor, too.
    record = replace(record, grants=grants.starting(places, record, sorted(launch.allowed_ids)))
    ourselves.keep_settings(settings, [*roots, *(grant.path for grant in record.grants)])
    return Session(
        record=record,
        program=launch.program,
        argv=tuple(launch.argv),
        environ=dict(launch.environ),
        shell=chosen,
        allowed_ids=frozenset(launch.allowed_ids),
        support=support,
        older=launch.older,
        choosing=launch.choosing,
        agent_config=launch.agent_config,
        output_roots=tuple(launch.output_roots),
        hook_command=launch.hook_command,
        notes=launch.notes,
        private=launch.private,
        kernel_records=wish.kernel_records,
    )


def without_mounts(launch: agents.Launch) -> agents.Launch:
    """The launch on a machine without namespaces, with what Landlock alone cannot enforce taken out and told.

    It cannot protect one name in a directory but by refusing every new file beside it, and a project in which
    nothing can be made is no project: the project's own settings stay writable.  What a session would get for
    itself alone is the person's other sessions' too, which run what lies there: of that it gets only what the
    agent cannot do without.
    """
    loose = [path for path in launch.protected if path != launch.project and within(path, launch.project)]
    shared = [path for path in launch.private if path not in launch.spare]
    names = [*(os.path.relpath(path, launch.project) for path in loose), *shared]
    note = f"without namespaces the session can change {', '.join(names)}: look at that before you trust it"
    return replace(
        launch,
        writable=tuple(path for path in launch.writable if path not in launch.spare),
        protected=tuple(path for path in launch.protected if path not in loose),
        notes=(*launch.notes, *([note] if names else [])),
    )


def headline(record: Record, held: confinement.Session) -> str:
    """The line that says which session this is and what is in force."""
    where = record.project
    if where == record.home or where.startswith(record.home + "/"):
        where = "~" + where[len(record.home) :]
    what = record.agent or os.path.basename(record.program[0])
    mounts = "mounts masked and read-only, " if held.namespaced else ""
    force = f"files and TCP by Landlock {held.abi}, {mounts}UDP and sockets by seccomp"
    missing = f"; not in force: {'; '.join(held.missing)}" if held.missing else ""
    carried = f"; granted from before, for its own tools, too: {', '.join(g.path for g in record.grants)}"
    return safe(f"session {record.pid} ({what} in {where}): {force}{missing}{carried if record.grants else ''}")
