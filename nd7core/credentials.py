"""Where `~/.ssh` and `~/.aws` really are.

Policies compare canonical paths.  A `~/.ssh` that is a link to a folder of dotfiles, or a key in it that
is a link, would be read through its real name while the policy guards the link's, so the real ones are
guarded, too.
"""

from __future__ import annotations

import os

from nd7core.paths import within

NAMES = (".ssh", ".aws")
_MOST = 256
"""Links followed; a folder with more of them is no key store."""


def elsewhere(home: str) -> tuple[str, ...]:
    """The canonical places outside of `~/.ssh` and `~/.aws` that these, or links directly in them, lead to.

    A link that leads to the home directory, or to a folder around it, is left out: hiding that would hide everything.
    """
    found: dict[str, None] = {}
    roots = [os.path.join(home, name) for name in NAMES]
    for root in roots:
        real = os.path.realpath(root)
        if real != root:
            found[real] = None
        for target in _links(real):
            found[target] = None
    return tuple(
        path
        for path in found
        if not any(within(path, root) for root in roots) and not within(home, path) and os.path.lexists(path)
    )


def _links(directory: str) -> list[str]:
    targets: list[str] = []
    try:
        with os.scandir(directory) as entries:
            for entry in entries:
                if entry.is_symlink() and len(targets) < _MOST:
                    target = os.path.realpath(entry.path)
                    # A link to a system's file (a known_hosts in /etc) is no secret of this person's.
                    if not target.startswith(("/etc/", "/usr/", "/dev/", "/proc/", "/nix/")) and os.path.exists(target):
                        targets.append(target)
    except OSError:
        return []
    return targets
