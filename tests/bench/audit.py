"""The audit log's own speed: appending, reading, and searching what is past.

    python tests/bench/audit.py [--sessions 3000] [--frames 334]

Prints figures, judges nothing.  The search is the one the dashboard makes at every key: each target and command
of a sample is typed letter by letter, over `sessions` x `frames` frames.
"""

from __future__ import annotations

import argparse
import os
import random
import resource
import statistics
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent.parent))

from nd7core.audit.frame import Frame, encode, genesis, true_hash
from nd7core.audit.log import Log, log_directory
from nd7core.audit.tail import Tail
from nd7core.history import History
from nd7core.history_index import Indexer
from nd7core.history_query import Query, parse
from nd7core.pairing import Pairing

HOME = "/home/dev"
PROGRAMS = ("make", "pytest", "cargo build", "npm install", "touch", "cp a", "rsync -a", "go build", "pip install")
FOLDERS = ("etc", "srv", "home/dev/data", "home/dev/other", "var/lib")


def word(chance: random.Random) -> str:
    return (
        f"{chance.choice('bcdfglmnprst')}{chance.choice('aeiou')}{chance.choice('bcdlmnrst')}{chance.randrange(20_000)}"
    )


def session(number: int, frames: int, chance: random.Random) -> bytes:
    """A log: a third of the frames are calls, three quarters of these refused."""
    session_id = f"{chance.getrandbits(32):08x}-0000-4000-8000-{number:012x}"
    prev, lines = genesis(session_id), []
    ts = 1_750_000_000_000_000_000 + number * 3_600_000_000_000
    project = f"/home/dev/{word(chance)}"
    common = {"cwd": project, "nd7_session": number + 1, "policy_revision": 1}
    call: dict[str, object] = {}
    for seq in range(frames):
        ts += chance.randrange(10**9)
        if seq % 3 == 0:
            command = f"{chance.choice(PROGRAMS)} {word(chance)}/{word(chance)}.py"
            call = {"tool_use_id": f"t{seq}", "tool_name": "Bash", "tool_input": {"command": command}}
            kind, body = "tool_call", common | call
        elif seq % 3 == 1:
            path = f"/{chance.choice(FOLDERS)}/{word(chance)}/{word(chance)}.conf"
            failed = chance.random() < 0.75
            said = f"Exit code 1\ntouch: cannot touch '{path}': Permission denied" if failed else {"stdout": "ok"}
            kind, body = "tool_result", common | call | {"tool_response": said, "ok": not failed}
        else:
            kind, body = "hook", common | {"hook_event_name": "PostToolBatch", "raw": {"tool_calls": []}}
        line = encode(session_id, seq, ts, "h", "intent:claude-code", kind, prev, body)
        prev = true_hash(line)
        lines.append(line + b"\n")
    return b"".join(lines)


def appending(state: str) -> None:
    log = Log(log_directory(state, "append"))
    body = {"text": "x" * 400}
    for size in (1, 20_000):
        times = []
        while log.append("prompt", body, source="s").seq < size:
            continue
        for _ in range(500):
            before = time.perf_counter()
            log.append("prompt", body, source="s")
            times.append(time.perf_counter() - before)
        print(f"append behind {size:>6} frames   {statistics.median(times) * 1e6:8.0f} us")


def reading(data: bytes) -> None:
    frames = data.count(b"\n")
    for name, check in (("hashes taken as they stand", False), ("hashes recomputed", True)):
        best = float("inf")
        for _ in range(5):
            before, pairing = time.perf_counter(), Pairing()
            for item in Tail(check=check).feed(data):
                if isinstance(item, Frame):
                    pairing.feed(item)
            best = min(best, time.perf_counter() - before)
        print(f"decode and pair, {name:<26} {frames / best:10,.0f} frames/s")


def searching(state: str, chance: random.Random) -> None:
    history = History(state)
    rows = history.search(Query(), limit=5000, budget=60).rows
    typed = [entry.target.rpartition("/")[2] for entry in chance.sample(rows, 60)]
    typed += [entry.command for entry in chance.sample(rows, 60)]
    queries = [text[:end] for text in typed for end in range(1, min(len(text), 24) + 1)]
    queries += ["source:model", "source:other make", "zz", "qzx", "age:7d conf", "path:data conf", "state:proved"]
    now = time.time_ns()
    times = []
    for text in queries:
        query = parse(text, now)
        before = time.perf_counter()
        history.search(query)
        times.append((time.perf_counter() - before) * 1000)
    times.sort()
    history.close()
    print(f"search, {len(times)} keys typed: median {statistics.median(times):.1f} ms,", end=" ")
    print(f"p95 {times[int(len(times) * 0.95)]:.1f} ms, worst {times[-1]:.1f} ms")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--sessions", type=int, default=3000)
    parser.add_argument("--frames", type=int, default=334)
    given = parser.parse_args()
    chance = random.Random(4)
    with tempfile.TemporaryDirectory() as folder:
        state = os.path.join(folder, "nd7")
        appending(state)
        for number in range(given.sessions):
            data = session(number, given.frames, chance)
            name = data[: data.index(b'","seq"')].rpartition(b'"')[2].decode()
            directory = log_directory(state, name)
            os.makedirs(directory, 0o700)
            Path(directory, "events.ndjson").write_bytes(data)
        reading(b"".join(session(number, 3000, chance) for number in range(3)))
        before, done = time.perf_counter(), 0
        for progress in Indexer(state, home=HOME).work():
            done = progress.done
        took = time.perf_counter() - before
        frames = given.sessions * given.frames
        print(f"index of {done} sessions, {frames:,} frames: {took:.1f} s, {frames / took:,.0f} frames/s")
        before = time.perf_counter()
        for _ in Indexer(state, home=HOME).work():
            continue
        print(f"index with nothing to do: {(time.perf_counter() - before) * 1000:.0f} ms")
        searching(state, chance)
    print(f"memory at most {resource.getrusage(resource.RUSAGE_SELF).ru_maxrss >> 10} MB")


if __name__ == "__main__":
    main()
