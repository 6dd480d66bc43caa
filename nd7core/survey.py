"""What a grant would open: how many files, which of them look like secrets, and what runs later outside the sandbox.

A write grant on a shell's start file is a way out of the sandbox with a delay: what is written there
runs unconfined the next time the person opens a terminal.  The same holds for hooks of other
repositories, autostart entries, editors' and agents' settings.
"""

from __future__ import annotations

import os
import re
from dataclasses import dataclass

from nd7core.paths import places, within

_RUNS_LATER: tuple[tuple[str, tuple[str, ...]], ...] = (
    (
        "a shell start file",
        (
            *(".bashrc", ".bash_profile", ".bash_login", ".bash_logout", ".bash_aliases", ".profile", ".inputrc"),
            *(".zshrc", ".zshenv", ".zprofile", ".zlogin", ".zlogout", ".kshrc", ".cshrc", ".tcshrc", ".login"),
            *(".config/fish", ".config/zsh", ".config/nushell", ".oh-my-zsh", ".config/starship.toml"),
        ),
    ),
    (
        "something started at login",
        (
            *(".config/autostart", ".config/systemd", ".local/share/systemd", ".xinitrc", ".xsession", ".xprofile"),
            *(".xsessionrc", ".pam_environment", ".config/environment.d", "Library/LaunchAgents", ".config/hypr"),
            *(".config/i3", ".config/sway", ".local/share/applications"),
        ),
    ),
    ("programs on the PATH", (".local/bin", "bin", ".cargo/bin", "go/bin", ".bun/bin", ".deno/bin", ".npm-global/bin")),
    ("git's settings or hooks", (".gitconfig", ".config/git", ".git-templates", ".githooks")),
    (
        "an editor's or terminal's settings",
        (
            *(".vimrc", ".vim", ".config/nvim", ".local/share/nvim", ".emacs", ".emacs.d", ".config/emacs", ".nanorc"),
            *(".vscode", ".vscode-server", ".config/Code", ".cursor", ".tmux.conf", ".config/tmux", ".screenrc"),
            *(".config/kitty", ".config/alacritty", ".config/wezterm", ".wezterm.lua", ".idea"),
        ),
    ),
    (
        "an agent's settings",
        (
            *(".claude", ".claude.json", ".codex", ".gemini", ".config/opencode", ".aider.conf.yml", ".continue"),
            *(".config/github-copilot", ".cline", ".amp", ".config/goose"),
        ),
    ),
    (
        "a tool's settings that can name programs to run",
        (
            *(".npmrc", ".yarnrc", ".yarnrc.yml", ".cargo/config.toml", ".cargo/config", ".config/pip", ".pip"),
            *(".pypirc", ".condarc", ".gemrc", ".m2/settings.xml", ".gradle/init.gradle", ".gradle/init.d"),
            *(".config/direnv", ".docker", ".kube", ".gnupg", ".ssh", ".gdbinit", ".lldbinit", ".psqlrc", ".sqliterc"),
            *(".irbrc", ".pryrc", ".pythonrc", ".pythonrc.py", ".ipython", ".jupyter", ".Rprofile", ".octaverc"),
        ),
    ),
)
_SYSTEM: tuple[tuple[str, tuple[str, ...]], ...] = (
    ("the system's programs or libraries", ("/bin", "/sbin", "/lib", "/lib64", "/usr", "/opt", "/boot", "/System")),
    (
        "jobs and services of the system",
        ("/etc", "/var/spool/cron", "/var/spool/at", "/Library/LaunchDaemons", "/Library/LaunchAgents", "/private/etc"),
    ),
)
_PYTHON_SITE = re.compile(r"/(?:site|dist)-packages(?:/|\Z)")
_PROJECT_FILES = (
    ("runs when somebody enters the folder", (".envrc", ".mise.toml", ".tool-versions")),
    ("an agent's settings", (".claude", ".mcp.json", ".cursor", ".codex", "CLAUDE.md", "AGENTS.md")),
    ("an editor's tasks", (".vscode", ".idea")),
)
_SECRET_NAME = re.compile(
    r"(?i)(?:\A\.env(?:\..*)?\Z|\A\.netrc\Z|\A\.pgpass\Z|\A\.git-credentials\Z|\Aid_(?:rsa|dsa|ecdsa|ed25519)\Z"
    r"|\.(?:pem|key|p12|pfx|jks|keystore|kdbx|asc|gpg|age)\Z|secret|password|passwd|credential|token|apikey|api_key)"
)


def _touches(path: str, target: str) -> bool:
    """Whether writing below `path` reaches `target`, or `path` lies inside it."""
    return within(target, path) or within(path, target)


def dangers(path: str, *, home: str | None = None) -> list[str]:
    """What a grant of `path` would let a command change that later runs outside the sandbox.

    Args:
        path: canonical.
        home: the person's home; looked up where it is None.

    Returns:
        One phrase for each kind with an example of where ("a shell start file: ~/.bashrc"), the
        likeliest first; empty where nothing is known.  Only names that exist, or that the path itself
        is, are told.
    """
    home = places().home if home is None else home
    found: list[str] = []
    for what, names in _RUNS_LATER:
        hits = [name for name in names if _touches(path, f"{home}/{name}")]
        present = [name for name in hits if within(path, f"{home}/{name}") or os.path.lexists(f"{home}/{name}")]
        if present:
            more = f" and {len(present) - 1} more" if len(present) > 1 else ""
            found.append(f"{what}: ~/{present[0]}{more}")
    for what, roots in _SYSTEM:
        hit = next((root for root in roots if _touches(path, root)), None)
        if hit is not None and path != "/":
            found.append(f"{what}: {hit}")
    if path == "/":
        found.append("every program of the system: /")
    git = _git_of(path)
    if git:
        found.append(f"hooks of another repository: {_short(git, home)}/hooks")
    for what, names in _PROJECT_FILES:
        for name in names:
            if os.path.lexists(os.path.join(path, name)) and path != home:
                found.append(f"{what}: {_short(path, home)}/{name}")
                break
    if _PYTHON_SITE.search(path + "/"):
        found.append(f"Python packages that others import: {_short(path, home)}")
    return found


def _git_of(path: str) -> str:
    """The git directory that a grant of `path` would open, or ""."""
    parts = path.split("/")
    if ".git" in parts:
        return "/".join(parts[: parts.index(".git") + 1])
    inside = os.path.join(path, ".git")
    return inside if os.path.lexists(inside) else ""


def _short(path: str, home: str) -> str:
    return "~" + path[len(home) :] if home != "/" and within(path, home) else path


@dataclass(frozen=True, slots=True)
class Survey:
    """What lies below a path.

    Attributes:
        files, folders: how many, up to the limit.
        complete: False where the limit was met first.
        secrets: paths below whose names look like secrets, the first few.
        runs_later: as `dangers`.
        exists: whether the path is there now.
    """

    files: int
    folders: int
    complete: bool
    secrets: tuple[str, ...]
    runs_later: tuple[str, ...]
    exists: bool


def survey(path: str, *, home: str, limit: int = 20_000, secrets: int = 20) -> Survey:
    """Count what a grant of a canonical path would open.  Follows no links, opens no file, stops at `limit` entries."""
    files = folders = 0
    found: list[str] = []
    waiting = [path]
    while waiting and files + folders < limit:
        folder = waiting.pop()
        try:
            with os.scandir(folder) as entries:
                for entry in entries:
                    if files + folders >= limit:
                        waiting.append(folder)
                        break
                    if entry.is_dir(follow_symlinks=False):
                        folders += 1
                        waiting.append(entry.path)
                    else:
                        files += 1
                        if len(found) < secrets and _SECRET_NAME.search(entry.name):
                            found.append(entry.path)
        except NotADirectoryError:
            files += 1
            if _SECRET_NAME.search(os.path.basename(folder)):
                found.append(folder)
        except OSError:
            # Not readable or gone: it is counted as the folder it is, and nothing is known of what is in it.
            continue
    return Survey(
        files, folders, not waiting, tuple(sorted(found)), tuple(dangers(path, home=home)), os.path.lexists(path)
    )
