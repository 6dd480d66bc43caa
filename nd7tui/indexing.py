"""Keeps the index of past denials up to date, in a process of its own.

In a thread it would hold the interpreter while the screen wants to draw: three thousand logs take minutes.
Run as `python -m nd7tui.indexing STATE HOME`; prints `DONE TOTAL` lines; ends when it is done, when what it prints
is read by nobody any more, or when it is killed: what was indexed is kept.
"""

from __future__ import annotations

import os
import sys
import time


def main(state: str, home: str) -> int:
    """Bring the index up to date."""
    from nd7core.errors import Nd7Error
    from nd7core.history_index import Indexer

    with_patience = getattr(os, "nice", None)
    if with_patience is not None:
        with_patience(10)
    told = 0.0
    try:
        for progress in Indexer(state, home=home, platform=sys.platform).work():
            if progress.finished or time.monotonic() - told > 0.2:
                told = time.monotonic()
                sys.stdout.write(f"{progress.done} {progress.total}\n")
                sys.stdout.flush()
    except Nd7Error as error:
        sys.stderr.write(error.message)
        return 1
    except BrokenPipeError:
        os._exit(0)  # the dashboard has gone; leaving by the usual way would flush once more
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], sys.argv[2]))
