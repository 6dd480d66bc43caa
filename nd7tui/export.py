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
# What `nd7 export --format` takes, and how it is called.
FORMATS = {"md": "Markdown", "json": "JSON", "csv": "CSV"}


def export(query: str, now: int, form: str = "md") -> Done:
    """Write what a query finds, in one of `FORMATS`.  In a worker; never raises."""
    words = ["export", "--format", form]
    if query.strip():
        words += ["--", query.strip()]
    path = os.path.abspath(time.strftime(f"nd7-denials-%Y%m%d-%H%M%S.{form}", time.localtime(now / 1e9)))
    line = shlex.join(["nd7", *words]) + " > " + shlex.quote(path)
    try:
        # Never over a file that is there, and readable by nobody else: it holds commands and paths.
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    except OSError as error:
        return Done("other", False, f"{path}: {error.strerror}", Deed(now, "export", line, str(error), False))
    try:
        ended = subprocess.run(
            nd7(*words), stdin=subprocess.DEVNULL, stdout=descriptor, stderr=subprocess.PIPE, timeout=SECONDS
        )
        problem = ended.stderr.decode("utf-8", "replace").strip().splitlines()
        failed = ended.returncode not in (0, 1)
        said = problem[-1] if problem else "written, what looks like a secret masked: read it before you publish it"
    except (OSError, subprocess.TimeoutExpired) as error:
        failed, said = True, str(error)
    finally:
        os.close(descriptor)
    return Done("other", not failed, f"{path}: {said}", Deed(now, "export", line, said, not failed))
