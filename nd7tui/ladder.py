"""How wide a grant could be: from the file itself up to a tool's whole cache.

This looks at the file system, so it runs in a worker.  What a rung would open is counted by `nd7core.survey`.
"""

from __future__ import annotations

import os
import stat
from dataclasses import dataclass

from nd7core import grants
from nd7core.paths import within
from nd7core.record import Record

# Folders that hold one tool's cache as a whole, below the home directory.
CACHES = (
    ".cache/*", ".npm", ".cargo/*", ".rustup", ".gradle", ".m2", ".nuget", "go/pkg", ".pub-cache", ".bun", ".deno",
    ".yarn", ".pnpm-store", ".local/share/pnpm", ".local/share/uv", ".local/share/virtualenv", ".terraform.d", ".gem",
    ".composer", ".ivy2", ".sbt", ".conda", ".pyenv", ".rbenv", ".nvm", ".volta", ".local/share/mise", ".cabal",
    ".stack",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Rung:
    """One width of a grant.

    Attributes:
        path: what would become writable, with everything below it.
        what: "file", "folder", "tool cache", "other worktree", "not there yet".
        refused: why it cannot be granted, or "".
        needs_force: it can be granted, but only after a yes.
        dangers: what in it would run later outside the sandbox.
    """

    path: str
    what: str
    refused: str = ""
    needs_force: str = ""
    dangers: tuple[str, ...] = ()


def rungs(record: Record, path: str, target: str = "") -> list[Rung]:
    """The ladder for a path, narrowest first: itself, its folders, the tool's cache, up to below the home directory.

    Args:
        path: what `g` would grant.
        target: what was refused; where it lies below `path`, the ladder starts there.
    """
    found: list[Rung] = []
    home = record.home
    cache = cache_of(path, home)
    others = worktrees(record.project)
    here = target if target.startswith("/") and within(target, path) else path
    while True:
        what = "other worktree" if here in others else "tool cache" if here == cache and here != target else ""
        found.append(_rung(record, here, what))
        parent = os.path.dirname(here)
        if parent == here or parent in ("/", home, os.path.dirname(home)) or len(found) >= 12:
            break
        here = parent
    return found


def worktrees(project: str) -> set[str]:
    """The other worktrees of the repository that a project is one of: canonical paths, read from git's own files.

    Empty where the project is no repository.  A session can write its project's `.git`, so this is a name for a rung
    and nothing more: what is granted is the path that stands there, and what is dangerous in it is asked about.
    """
    git = os.path.join(project, ".git")
    found: set[str] = set()
    try:
        if os.path.isfile(git):
            text = _read(git).removeprefix("gitdir:").strip()
            git = os.path.dirname(os.path.dirname(os.path.join(project, text)))  # <main>/.git/worktrees/<name>
            found.add(os.path.dirname(os.path.realpath(git)))
        with os.scandir(os.path.join(git, "worktrees")) as entries:
            for entry in list(entries)[:100]:
                text = _read(os.path.join(entry.path, "gitdir")).strip()
                if text.startswith("/"):
                    found.add(os.path.realpath(os.path.dirname(text)))
    except (OSError, ValueError):
        return found - {project}
    return found - {project}


def _read(path: str) -> str:
    descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    try:
        return os.read(descriptor, 4096).decode("utf-8", "surrogateescape")
    finally:
        os.close(descriptor)


def cache_of(path: str, home: str) -> str:
    """The folder of the one tool whose cache a path lies in, or ""."""
    for pattern in CACHES:
        fixed, _, _ = pattern.partition("/*") if pattern.endswith("/*") else (pattern, "", "")
        base = os.path.join(home, fixed)
        if not within(path, base):
            continue
        if not pattern.endswith("/*"):
            return base
        below = path[len(base) + 1 :].partition("/")[0]
        if below:
            return os.path.join(base, below)
    return ""


def _rung(record: Record, path: str, what: str) -> Rung:
    try:
        kind = what or ("folder" if stat.S_ISDIR(os.stat(path).st_mode) else "file")
    except OSError:
        kind = "not there yet"
    refusal = grants.check(record, path)
    refused = refusal.reason if refusal is not None and not refusal.force_helps else ""
    force = refusal.reason if refusal is not None and refusal.force_helps else ""
    return Rung(path, kind, refused, force, tuple(grants.dangers(path, home=record.home)))
