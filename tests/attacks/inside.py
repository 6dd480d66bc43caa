"""Runs inside a real session: every attack in a child of its own, the outcomes as one JSON object on stdout.

Started as `python -c "<set sys.path>; import inside; inside.main(TARGETS)"`.
"""

from __future__ import annotations

import json
import os
import signal
import sys
from pathlib import Path
from typing import Any

import attack_mounts
import attack_network
import attack_processes
import attack_reads
import attack_terminals
import attack_writes
from confined import Targets
from kit import CASES, Case

MODULES = (attack_mounts, attack_network, attack_processes, attack_reads, attack_terminals, attack_writes)


def parent(pid: int) -> int:
    return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])


def outcome(case: Case, targets: Targets) -> list[Any]:
    """[how, errno, text] of one attack."""
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        signal.alarm(20)
        try:
            said: list[Any] = ["returned", 0, repr(case.run(targets))[:200]]
        except OSError as error:
            said = ["raised", error.errno or 0, str(error)[:200]]
        except BaseException as error:
            said = ["broken", 0, repr(error)[:200]]
        os.write(writer, json.dumps(said).encode())
        os._exit(0)
    os.close(writer)
    with os.fdopen(reader, "rb") as answers:
        data = answers.read()
    status = os.waitpid(child, 0)[1]
    return json.loads(data) if data else ["died", os.WTERMSIG(status), ""]


def main(described: str) -> None:
    """Attack everything that a file of targets names."""
    targets = Targets(**json.loads(Path(described).read_text()))
    targets.zygote = os.getppid()
    targets.supervisor = parent(targets.zygote)
    os.chdir(targets.project)
    json.dump({name: outcome(case, targets) for name, case in CASES.items()}, sys.stdout)
