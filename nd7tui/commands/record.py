"""The hook: record one payload of an agent's on stdin in the audit log.

Agents call it; `nd7 run` sees to that.  By hand, outside a session, it appends to the log that the payload names:

  nd7 record < payload.json && nd7 verify SESSION-ID

The exit status is 0 whatever happens, because a hook that fails may stop the agent; an error is a line on stderr.
"""

from __future__ import annotations

import argparse


def configure(parser: argparse.ArgumentParser) -> None:
    """No arguments: everything is in the payload."""


def run(arguments: argparse.Namespace) -> int:
    from nd7exec import hook

    return hook.main()
