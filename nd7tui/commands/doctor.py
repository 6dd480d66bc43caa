"""Check this machine: what a session would be confined by, whether hooks reach the log, and what to mend.

examples:
  nd7 doctor           each thing with ok, degraded or missing, what that means, and what mends it
  nd7 doctor --json    the same for a program

The exit status is 1 if something is missing without which no session runs or none is recorded, else 0.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import textwrap

from nd7core import __version__
from nd7core.text import safe


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--json", action="store_true", help="one JSON object on stdout")


def run(arguments: argparse.Namespace) -> int:
    from nd7core.paths import places
    from nd7exec import doctor

    checks = doctor.examine(places(), os.environ)
    worst = 1 if any(check.state == "missing" for check in checks) else 0
    if arguments.json:
        rows = [{name: getattr(check, name) for name in check.__slots__} for check in checks]
        print(json.dumps({"version": __version__, "ok": not worst, "checks": rows}))
        return worst
    width = max(len(check.name) for check in checks)
    for check in checks:
        sys.stdout.write(f"{check.state:<8}  {check.name:<{width}}  {safe(check.found)}\n")
        indent = " " * (width + 12)
        if check.means:
            sys.stdout.write(
                textwrap.fill(safe(check.means), 100, initial_indent=indent, subsequent_indent=indent) + "\n"
            )
        if check.mend and check.state != "ok":
            sys.stdout.write(f"{indent}mend: {safe(check.mend)}\n")
    return worst
