"""The hook: record one payload of an agent's on stdin in the audit log.

examples:
  nd7 record < payload.json && nd7 verify SESSION-ID    by hand, outside a session: into the log that it names

Agents call it; `nd7 run` sees to that.

The exit status is 0 whatever happens, because a hook that fails may stop the agent; an error is a line on stderr.
"""

from __future__ import annotations

import argparse


def configure(parser: argparse.ArgumentParser) -> None:
    """No arguments: everything is in the payload."""


def run(arguments: argparse.Namespace) -> int:
    from nd7exec import hook

    return hook.main()
