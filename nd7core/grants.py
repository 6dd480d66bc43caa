"""Giving a session more, and taking it back.

A grant is a canonical path whose subtree becomes writable for the session's Bash commands, from the
next one on.  The agent's own tools run under the floor and get it only by a restart.
"""

from __future__ import annotations

import errno
import os
import shlex
import stat
import sys
import time
from collections.abc import Iterable
from dataclasses import dataclass, field, replace

from nd7core import sessions, standing
from nd7core.errors import Nd7Error
from nd7core.paths import Places, canonical, within
from nd7core.policy import always_unwritable, build, credentials, decide
from nd7core.record import Grant, Record, Scope
from nd7core.refusal import Refusal, check
from nd7core.survey import dangers
from nd7core.text import safe_path

__all__ = [
    "Change",
    "GrantError",
    "Refusal",
    "allow",
    "check",
    "command_line",
    "dangers",
    "deny",
    "expire",
    "expired",
    "forget",
    "lasting",
    "resume_command",
    "spend",
    "starting",
]

# Without an ending, and yet no folder: an empty one in its place would break the person's shell or tools.
_FILES = frozenset({"Makefile", "Dockerfile", "LICENSE", "README", "authorized_keys", "crontab", ".env"})
_DOT_FILES = ("rc", "profile", "_history", "_login", "_logout", "_aliases", "gitconfig", "gitignore", "gitattributes")

_MADE_WITHIN = 2_000_000_000  # nanoseconds between a grant's time and the making of what it needed

WHEN = "The next Bash command has it; Write, Edit and Read need a restart"
WHEN_BACK = "The next Bash command is without it; what runs already keeps it until it ends"


class GrantError(Nd7Error):
    """A path that is not granted, or not taken back, and why."""


@dataclass(frozen=True, slots=True)
class Change:
    """What `allow` or `deny` did.

    Attributes:
        record: the session's record as it stands now.
        path: canonical; what was granted or taken back.
        already: nothing had to be changed.
        command: the same as a command line, for the log of what nd7 did.
        note: what the person should know beside it, or "".
        created: "file" or "directory" where the path had to be made for the grant to take hold.
        dangers: what of it runs later outside the sandbox.
        floor: of what was taken back: the session had started with it.
    """

    record: Record
    path: str
    already: bool = False
    command: str = ""
    note: str = ""
    created: str = ""
    dangers: tuple[str, ...] = field(default=())
    floor: bool = False

    @property
    def when(self) -> str:
        """When it takes effect, with the command that restarts the agent."""
        if self.record.program and not self.record.agent:
            return self._for_a_program()
        if self.command.startswith("nd7 deny"):
            return WHEN_BACK + "."
        return f"{WHEN}: {resume_command(self.record)}"

    def _for_a_program(self) -> str:
        """When it takes effect for what no adapter knows: whatever that starts itself keeps the floor."""
        name = safe_path(os.path.basename(self.record.program[0]), 60)
        keeps = f"{name} is no agent that nd7 knows: it keeps the rules it started with"
        if self.command.startswith("nd7 deny"):
            return f"{keeps}, {'this among them, until it ends' if self.floor else 'and this was not among them'}."
        if any(grant.path == self.path and grant.scope == "project" for grant in self.record.grants):
            return f"{keeps}; the next start has it: {resume_command(self.record)}"
        line = command_line("allow", self.record.pid, self.path, Grant(self.path, "project"))
        return f"{keeps}. For its next start: {line}"


def resume_command(record: Record) -> str:
    """The command line that brings the agent back under a floor with the grants, fit to be shown."""
    words = ["nd7", "run"]
    words += [str(safe_path(record.program[0], 200))] if record.program else ["claude"]
    if record.conversation and (record.agent or not record.program):
        words += ["--resume", record.conversation]
    elif not record.program or record.agent == "claude":
        words += ["--resume"]
    return shlex.join(words)


def command_line(verb: str, pid: int, path: str, grant: Grant | None = None, *, force: bool = False) -> str:
    """`nd7 allow --session 77 ...`, fit to be shown; the same again when typed, for any printable path."""
    words = ["nd7", verb, "--session", str(pid)]
    if grant is not None and grant.scope in ("once", "project"):
        words.append(f"--{grant.scope}")
    if grant is not None and grant.expires is not None:
        words += ["--until", time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(grant.expires // 10**9))]
    if force:
        words.append("--force")
    return shlex.join([*words, str(safe_path(path))])


def _refuse(record: Record, path: str, force: bool) -> None:
    refusal = check(record, path)
    if refusal is not None and not (refusal.force_helps and force):
        hint = "--force grants it all the same" if refusal.force_helps else ""
        raise GrantError(refusal.reason, hint=hint)


def _make(path: str, kind: str) -> str:
    """Make a missing path, empty; returns what was made, or "" where it is there.

    On Linux a rule holds on to what exists: for a name that is not there yet the kernel can only open
    the whole folder around it, and that is not what was granted.
    """
    try:
        if kind == "file":
            os.close(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o666))
        else:
            os.mkdir(path)
    except FileExistsError:
        return ""
    except OSError as error:
        raise GrantError(
            f"{safe_path(path)} does not exist and cannot be made: {error.strerror}",
            hint="on Linux only what exists can be granted; grant the folder around it",
        ) from None
    return kind


def _keep_places(record: Record, path: str) -> list[str]:
    """See that what must stay shut below a granted path exists; returns what had to be made.

    On Linux a name that is not there cannot be kept from being made in a writable folder, so nd7-exec
    would refuse every command.  An empty folder of credentials is harmless; a settings file is not ours to make.
    """
    made = []
    for kept in always_unwritable(record):
        if not within(kept, path) or os.path.lexists(kept):
            continue
        ours = (record.state, *credentials(record.home), *map(os.path.realpath, record.config))
        if kept not in ours:
            raise GrantError(
                f"{safe_path(kept)} must stay unwritable, does not exist, and lies in {safe_path(path)}",
                hint="on Linux only what exists can be kept so: make it first, or grant a smaller folder",
            )
        try:
            os.makedirs(kept, 0o700, exist_ok=True)
        except OSError as error:
            raise GrantError(f"cannot make {safe_path(kept)}, which must stay shut: {error.strerror}") from None
        made.append(kept)
    return made


def _kind_of_name(path: str, typed: str) -> str:
    """Whether a missing path is meant as a file: a name with an ending, as in `notes.txt`, or a well-known one."""
    name = os.path.basename(path)
    stem, ending = os.path.splitext(name)
    file = (stem and len(ending) > 1) or name in _FILES or (name.startswith(".") and name.endswith(_DOT_FILES))
    return "file" if file and not typed.endswith("/") else "directory"


def allow(
    places: Places,
    pid: int,
    path: str,
    *,
    force: bool = False,
    scope: Scope = "session",
    expires: int | None = None,
    origin: str = "",
    now: int | None = None,
    make: str | None = None,
    exactly: bool = False,
) -> Change:
    """Make a path's subtree writable for a session's next Bash commands.

    Args:
        path: as typed; made canonical here.  What does not exist is granted where its folder does, and
            on Linux made, empty (see `Change.created`).
        force: grant what would open nearly everything.  What is protected stays so.
        scope, expires, origin: of the grant; `expires` in nanoseconds since the epoch.
        make: "file" or "directory" for a missing path; by its name where None.
        exactly: refuse where the path leads elsewhere by now: what a person was shown, and said yes to, may lie where a
            session can put a link in its place.

    Raises:
        GrantError: refused, with the reason.
        SessionError: no such session.
    """
    target = canonical(path)
    if exactly and target != path:
        raise GrantError(f"{safe_path(path)} has become a link to {safe_path(target)}, so nothing was granted")
    now = time.time_ns() if now is None else now
    if expires is not None and expires <= now:
        raise GrantError("the grant would have ended before it began")
    try:
        status = os.stat(target)
    except OSError as error:
        if error.errno == errno.ELOOP:
            raise GrantError(f"{safe_path(target)}: {error.strerror}") from None
        status = None
        if not os.path.isdir(os.path.dirname(target)):
            record = sessions.load(places, pid).record
            refusal = check(record, target) if record is not None else None
            if refusal is not None and not refusal.force_helps:
                raise GrantError(refusal.reason) from None  # a folder for it would change nothing
            raise GrantError(
                f"{safe_path(target)}: its folder does not exist",
                hint="a path that does not exist can be granted where its folder does",
            ) from None
    if expires is not None and scope == "session":
        scope = "until"
    grant = Grant(target, scope, expires, origin, now)
    already = False
    created = ""
    placed: list[str] = []

    def change(record: Record) -> Record:
        nonlocal already, created, placed
        others = tuple(one for one in record.grants if one.path != target)
        lasting = tuple(one for one in others if one.scope in ("session", "project") and one.in_force(now))
        same = any(
            one.path == target and (one.scope, one.expires) == (scope, expires) and one.in_force(now)
            for one in record.grants
        )
        # Writable for the whole session already, by the rules or by a grant that holds it?
        already = same or decide(build(replace(record, grants=lasting), now=now), "write", target).allowed
        if not already or scope == "project":
            _refuse(record, target, force)
        if scope == "project":
            standing.keep(places, record.project, grant, target)
        if already:
            return record
        if sys.platform != "darwin":
            placed = _keep_places(record, target)
        if status is None and sys.platform != "darwin":
            created = _make(target, make or _kind_of_name(target, path))
        return replace(record, grants=(*others, grant))

    changed = sessions.update(places, pid, change, now=now)
    notes = []
    if status is not None and not stat.S_ISDIR(status.st_mode):
        notes.append("It is a file: a program that replaces it instead of writing into it needs its folder.")
    elif created:
        notes.append(f"It did not exist: an empty {created} was made, because Linux can only open what is there.")
    if placed:
        notes.append(f"Made empty, so that it can be kept shut: {', '.join(map(safe_path, placed))}.")
    return Change(
        changed,
        target,
        already,
        command_line("allow", pid, target, grant, force=force),
        " ".join(notes),
        created,
        tuple(dangers(target, home=changed.home)),
    )


def deny(places: Places, pid: int, path: str) -> Change:
    """Take a grant back.

    Args:
        path: as typed.  What was granted and has since become a link or vanished is found by its name, too.

    Raises:
        GrantError: the path is not granted; names what is, closest first.
    """
    target = canonical(path)
    spelled = os.path.normpath(os.path.join(os.getcwd(), path)) if not os.path.isabs(path) else os.path.normpath(path)
    taken = target
    had_floor = False
    created = 0

    def change(record: Record) -> Record:
        nonlocal taken, had_floor, created
        granted = [grant.path for grant in record.grants]
        taken = target if target in granted else spelled
        kept = standing.keep(places, record.project, None, taken)
        if taken not in granted:
            if kept:
                return record
            raise _not_granted(target, granted)
        had_floor = any(grant.floor for grant in record.grants if grant.path == taken)
        created = next(grant.created for grant in record.grants if grant.path == taken)
        return replace(record, grants=tuple(grant for grant in record.grants if grant.path != taken))

    record = sessions.update(places, pid, change)
    holder = next((grant.path for grant in record.granted(time.time_ns()) if within(taken, grant.path)), None)
    note = f"It stays writable through the grant of {safe_path(holder)}." if holder else ""
    if had_floor and (record.agent or not record.program):
        note = f"The agent's own tools started with it and keep it until they restart. {note}".strip()
    note = f"{note} {_leftover(taken, created)}".strip()
    return Change(record, taken, False, command_line("deny", pid, taken), note, floor=had_floor)


def _leftover(path: str, created: int) -> str:
    """What to say of an empty thing that came to be with its grant, which made it, or ""."""
    try:
        status = os.lstat(path)
        folder = stat.S_ISDIR(status.st_mode)
        if abs(status.st_mtime_ns - created) > _MADE_WITHIN or (os.listdir(path) if folder else status.st_size):
            return ""
    except OSError:
        return ""
    kind, tool = ("directory", "rmdir") if folder else ("file", "rm")
    return f"The empty {kind} that was made for it is still there: {shlex.join([tool, str(safe_path(path))])}"


def lasting(places: Places, path: str, cwd: str) -> list[str]:
    """The projects around `cwd` whose later sessions start with a path.  Raises PrivateError like `starting`."""
    named = {canonical(path), os.path.normpath(os.path.join(cwd or "/", path))}
    try:
        kept = standing.every(places)
    except PermissionError:
        return []
    return [
        project
        for project, given in kept.items()
        if cwd and within(cwd, project) and any(grant.path in named for grant in given)
    ]


def forget(places: Places, path: str, cwd: str) -> list[str]:
    """Take a path out of what later sessions start with; returns the projects it was kept for.

    Where it is kept for the project that holds `cwd`, only that one loses it.
    """
    named = {canonical(path), os.path.normpath(os.path.join(cwd or "/", path))}
    try:
        with sessions.writing(places):
            kept = standing.every(places)
            having = [project for project, given in kept.items() if any(grant.path in named for grant in given)]
            chosen = [project for project in having if cwd and within(cwd, project)] or having
            return [project for project in chosen if sum(standing.keep(places, project, None, name) for name in named)]
    except (FileNotFoundError, PermissionError):
        # Nothing yet, or inside a session, where the caller's next step says so.
        return []


def _not_granted(target: str, granted: list[str]) -> GrantError:
    import difflib  # only this sentence needs it

    message = f"{safe_path(target)} is not granted"
    if not granted:
        return GrantError(message, hint="nothing is")
    holder = next((path for path in granted if within(target, path)), None)
    if holder is not None:
        return GrantError(message, hint=f"{safe_path(holder)} is, which holds it: nd7 deny {safe_path(holder)}")
    inside = [path for path in granted if within(path, target)]
    close = inside or difflib.get_close_matches(target, granted, 3, 0.5) or granted
    more = f" and {len(close) - 5} more" if len(close) > 5 else ""
    return GrantError(message, hint="granted: " + ", ".join(map(safe_path, close[:5])) + more)


def expired(record: Record, now: int) -> tuple[Grant, ...]:
    """The grants whose time is over at `now` (nanoseconds since the epoch) and that still stand in the record."""
    return tuple(grant for grant in record.grants if not grant.in_force(now))


def expire(places: Places, pid: int, now: int | None = None) -> Record:
    """Take out what has ended.  policy.sb holds an ended grant until somebody calls this."""
    moment = time.time_ns() if now is None else now
    return sessions.update(places, pid, lambda record: replace(record, grants=record.granted(moment)), now=moment)


def starting(places: Places, record: Record, resumed: Iterable[str] = (), now: int | None = None) -> tuple[Grant, ...]:
    """The grants that a new session starts with, floor included: those of its project, and those that the agent's
    sessions which it resumes had when they ended.

    Args:
        record: the new session's, without grants.
        resumed: the agent's session ids that are resumed.

    Raises:
        PrivateError: `~/.nd7/grants.json` is damaged.
    """
    moment = time.time_ns() if now is None else now
    found = {grant.path: grant for grant in standing.project_grants(places, record.project)}
    for name in resumed:
        found |= {grant.path: grant for grant in standing.ended_with(places, record.project, name)}
    kept = []
    for grant in found.values():
        # The file may be old: what was a folder then may be a link to ~/.ssh now.
        refusal = check(record, grant.path)
        same = os.path.realpath(grant.path) == grant.path
        if same and grant.in_force(moment) and (refusal is None or refusal.force_helps):
            kept.append(replace(grant, floor=True, uses=0))
    return tuple(kept)


def spend(record: Record, now: int) -> Record:
    """The record after one more command: every grant in force was used once more, those for one command are over."""
    kept = (
        replace(grant, uses=grant.uses + 1) for grant in record.grants if grant.in_force(now) and grant.scope != "once"
    )
    return replace(record, grants=tuple(kept))
