"""What the hardening tests measure and cause: memory and descriptors of nd7's own processes, a small disk, frames."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

from world import World

HOME = "/home/dev"
STATE = f"{HOME}/.local/state/nd7"
SESSIONS = f"{HOME}/.nd7/sessions"
X = f"{STATE}/bin/nd7-exec"
HOOK = f"{STATE}/bin/nd7-record"

MOUNT = """
import ctypes, os, sys
libc = ctypes.CDLL(None, use_errno=True)
holder, path, size, uid, gid = sys.argv[1:]
kinds = [("mnt", 0x20000)] if os.getuid() == 0 else [("user", 0x10000000), ("mnt", 0x20000)]
for fd, flag in [(os.open(f"/proc/{holder}/ns/{kind}", os.O_RDONLY), flag) for kind, flag in kinds]:
    if libc.setns(fd, flag):
        raise OSError(ctypes.get_errno(), "setns")
data = f"size={size},mode=0700,uid={uid},gid={gid}".encode()
if libc.mount(b"tmpfs", path.encode(), b"tmpfs", 0, data):
    raise OSError(ctypes.get_errno(), "mount")
"""


def small_disk(world: World, path: str, size: int) -> None:
    """Mount a file system of `size` bytes in the world, on a directory that is made for it."""
    world.mkdir(path, 0o700)
    arguments = [str(world.holder.pid), path, str(size), str(world.uid), str(world.gid)]
    subprocess.run([sys.executable, "-ISc", MOUNT, *arguments], check=True)


def own_processes(world: World, supervisor: int) -> dict[str, int]:
    """The pids of a session's own processes: supervisor, scribe, warden, zygote."""
    found = {"supervisor": supervisor}
    for pid, line in sorted(world.processes().items()):
        name = line.removeprefix("nd7 ").split(" ")[0]
        if line.startswith("nd7 ") and name in ("scribe", "warden", "zygote"):
            found.setdefault(name, pid)  # a child of the zygote has its name, too, until its exec
    return found


def memory(pid: int) -> int:
    """Memory of its own, in kB: anonymous pages, as the kernel counts them (proc_pid_status(5))."""
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("RssAnon:"):
            return int(line.split()[1])
    return 0


def descriptors(pid: int) -> int:
    return len(os.listdir(f"/proc/{pid}/fd"))


def measure(processes: dict[str, int]) -> dict[str, tuple[int, int]]:
    """Memory in kB and open descriptors of each."""
    return {name: (memory(pid), descriptors(pid)) for name, pid in processes.items()}


def frames(world: World, session_id: str = "") -> list[dict[str, Any]]:
    """All frames of one log of the world, or of every log."""
    found = []
    for name in [session_id] if session_id else world.listdir(f"{STATE}/sessions"):
        events = f"{STATE}/sessions/{name}/events.ndjson"
        if world.path(events).is_file():
            found += [json.loads(line) for line in world.read(events).splitlines()]
    return found


def record(world: World, pid: int) -> dict[str, Any]:
    """A live session's record.json."""
    loaded = json.loads(world.read(f"{SESSIONS}/{pid}/record.json"))
    assert isinstance(loaded, dict)
    return loaded


def payload(event: str, session_id: str = "s-1", **more: Any) -> str:
    """A hook's payload, as the agent would send it."""
    common = {"session_id": session_id, "transcript_path": f"{HOME}/.claude/projects/p/{session_id}.jsonl"}
    return json.dumps({**common, "cwd": World.project, "hook_event_name": event, **more})


def nothing_left(world: World) -> None:
    """No process and no session directory outlives a session."""
    world.wait(lambda: not world.processes(), what=world.processes)
    world.wait(lambda: not [n for n in world.listdir(SESSIONS) if n.isdigit()], what=lambda: world.listdir(SESSIONS))
