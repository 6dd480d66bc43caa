"""What is never granted to a session, and what only where the person insists."""

from __future__ import annotations

import os
import sys
from dataclasses import dataclass

from nd7core.paths import links_on, within
from nd7core.policy import always_unwritable, hidden
from nd7core.record import Record
from nd7core.text import safe_path

_ROOTS = frozenset(
    {"/", "/bin", "/boot", "/dev", "/etc", "/home", "/lib", "/lib32", "/lib64", "/media", "/mnt", "/opt", "/proc"}
    | {"/root", "/run", "/sbin", "/snap", "/srv", "/sys", "/tmp", "/usr", "/var", "/nix", "/var/lib", "/var/run"}
    | {"/usr/bin", "/usr/sbin", "/usr/lib", "/usr/lib64", "/usr/local", "/usr/local/bin", "/usr/local/lib"}
    | {"/usr/share", "/usr/include", "/System", "/Library", "/Applications", "/Users", "/Volumes", "/private"}
    | {"/private/var", "/private/etc", "/private/tmp", "/cores"}
)
_PSEUDO = ("/proc", "/sys", "/dev")


@dataclass(frozen=True, slots=True)
class Refusal:
    """Why a path is not granted as it is.

    Attributes:
        reason: one sentence.
        force_helps: whether `--force` would grant it all the same.
        kind: "credentials", "nd7", "protected", "holds-protected", "root", "code".
    """

    reason: str
    force_helps: bool
    kind: str


def check(record: Record, path: str) -> Refusal | None:
    """Whether a canonical path may be granted to a session; None where nothing speaks against it."""
    shown = safe_path(path)
    for secret in hidden(record):
        if within(path, secret):
            if secret == record.nd7:
                return Refusal(f"{shown} is nd7's own: no session may change its policy", False, "nd7")
            return Refusal(f"{shown} holds credentials: no session may touch {safe_path(secret)}", False, "credentials")
    if record.state and within(path, record.state):
        return Refusal(f"{shown} is nd7's audit log: no session may write it", False, "nd7")
    if record.exit and within(path, record.exit):
        return Refusal(f"{shown} is the program that confines commands", False, "nd7")
    for own in record.config:
        # Which key grants stands there, and the person presses keys.
        if within(path, os.path.realpath(own)):
            return Refusal(f"{shown} is nd7's own settings: no session may change which key grants", False, "nd7")
        for link in links_on(own):
            if within(link, path):
                return Refusal(
                    f"{shown} holds the link {safe_path(link)}, which leads to nd7's own settings and could be turned",
                    False,
                    "nd7",
                )
    for kept in record.protected:
        if within(path, kept) and _is_own_code(record, path):
            return Refusal(f"{shown} is or holds what nd7 itself runs, outside the sandbox", False, "code")
        if within(path, kept):
            return Refusal(f"{shown} decides what the agent's next session starts with", False, "protected")
    for pseudo in _PSEUDO:
        if path != pseudo and within(path, pseudo):
            return Refusal(f"{shown} belongs to the kernel", True, "root")
    if path == record.home or within(record.home, path) or path in _ROOTS:
        return Refusal(f"{shown} would open nearly everything", True, "root")
    if os.path.dirname(path) in ("/home", "/Users"):
        return Refusal(f"{shown} is somebody's whole home", True, "root")
    if _is_own_code(record, path):
        return Refusal(f"{shown} is or holds what nd7 itself runs, outside the sandbox", True, "code")
    inside = [kept for kept in always_unwritable(record) if within(kept, path)]
    if inside:
        return Refusal(
            f"{shown} holds {safe_path(inside[0])}, which would stay unwritable in it", True, "holds-protected"
        )
    return None


def _is_own_code(record: Record, path: str) -> bool:
    """Whether a grant would let a command change nd7's own code or the Python that runs it."""
    packages = os.path.dirname(os.path.dirname(os.path.realpath(__file__)))
    trees = [os.path.join(packages, name) for name in ("nd7core", "nd7exec", "nd7tui")]
    if sys.prefix != sys.base_prefix:
        trees.append(os.path.realpath(sys.prefix))
    files = (os.path.realpath(sys.executable), record.exit)
    return any(within(tree, path) or within(path, tree) for tree in trees) or any(
        within(file, path) for file in files if file
    )
