"""Starting `nd7 run --detach` from the dashboard: the session is nobody's child here and lives on without it."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Sequence

SECONDS = 30.0


def nd7(*words: str) -> list[str]:
    """The command line of `nd7 WORDS...`.

    -P: not with the folder that one is in before everything else on the module path, for a session may write there.
    """
    return [sys.executable, "-P", "-m", "nd7tui.cli", *words]


def start(words: Sequence[str]) -> tuple[bool, str]:
    """Run `nd7 WORDS...` to the end of its starting.  Returns whether it worked, and the last line that it said."""
    try:
        ended = subprocess.run(
            nd7(*words), stdin=subprocess.DEVNULL, capture_output=True, timeout=SECONDS, start_new_session=True
        )
    except subprocess.TimeoutExpired:
        return False, f"it did not come up within {SECONDS:.0f} s"
    except (OSError, ValueError) as error:
        return False, str(error)
    lines = ended.stderr.decode("utf-8", "replace").splitlines()
    told = "; ".join(filter(None, (" ".join(line.split()).removeprefix("nd7: ") for line in lines)))
    if ended.returncode:
        return False, told or f"it ended with status {ended.returncode}"
    return True, told or "started"
