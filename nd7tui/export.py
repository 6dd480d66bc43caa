"""`e` in the past denials: the same as `nd7 export`, into a file of the folder that the dashboard was started in."""

from __future__ import annotations

import os
import shlex
import subprocess
import time

from nd7tui.deeds import Done
from nd7tui.model import Deed
from nd7tui.starting import nd7

SECONDS = 120.0


def export(query: str, now: int) -> Done:
    """Write what a query finds as Markdown.  In a worker; never raises."""
    words = [word for word in [query.strip()] if word]
    path = os.path.abspath(time.strftime("nd7-denials-%Y%m%d-%H%M%S.md", time.localtime(now / 1e9)))
    line = shlex.join(["nd7", "export", "--format", "md", *words]) + " > " + shlex.quote(path)
    try:
        # Never over a file that is there, and readable by nobody else: it holds commands and paths.
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    except OSError as error:
        return Done("other", False, f"{path}: {error.strerror}", Deed(now, "export", line, str(error), False))
    try:
        command = nd7("export", "--format", "md", "--", *words)
        ended = subprocess.run(
            command, stdin=subprocess.DEVNULL, stdout=descriptor, stderr=subprocess.PIPE, timeout=SECONDS
        )
        problem = ended.stderr.decode("utf-8", "replace").strip().splitlines()
        failed = ended.returncode not in (0, 1)
        said = problem[-1] if problem else "written, what looks like a secret masked: read it before you publish it"
    except (OSError, subprocess.TimeoutExpired) as error:
        failed, said = True, str(error)
    finally:
        os.close(descriptor)
    return Done("other", not failed, f"{path}: {said}", Deed(now, "export", line, said, not failed))
