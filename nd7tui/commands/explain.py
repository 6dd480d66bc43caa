"""Say where a failure on stdin came from: the kernel's policy, nd7-exec, the agent's words, or none of nd7's.

examples:
  make 2>&1 | nd7 explain --command make --exit 2      why did that fail?
  nd7 explain --tool Write --json < error.txt          as one JSON object
  nd7 explain --jsonl < failures.jsonl                 one object a line in, one a line out

Without --jsonl the failure is held against the rules of a session in --project (the current directory), and the
ordinary permissions of the files it names are looked up here.  With --jsonl each line is
{"platform", "tool", "command", "exit_code", "output", "context": {"project", "home"?, "grants"?}} and nothing is
looked up: the files may be another machine's.  A line that is no such object gets an error line in its place.
"""

from __future__ import annotations

import argparse
import io
import json
import math
import os
import sys
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, BinaryIO

from nd7core.errors import Nd7Error

if TYPE_CHECKING:
    from nd7core.attribution import Look, Verdict

MAX_LINE = 64 << 20
"""Bytes of one line of --jsonl; a longer one is an error, and is passed over without being kept."""


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--command", default="", metavar="TEXT", help="what was run; it tells what paths mean")
    parser.add_argument("--exit", type=int, metavar="N", help="its exit status")
    parser.add_argument("--tool", default="Bash", metavar="NAME", help="Bash, Write, Edit, Read, ... or assistant")
    parser.add_argument("--platform", choices=("linux", "macos"), help="whose kernel (this one's)")
    parser.add_argument("--project", metavar="DIR", help="the session's project (the current directory)")
    parser.add_argument("--home", metavar="DIR", help="the home directory (yours)")
    parser.add_argument("--grant", action="append", default=[], metavar="PATH", help="something granted; repeatable")
    parser.add_argument("--show-secrets", action="store_true", help="what looks like a secret is masked else")
    form = parser.add_mutually_exclusive_group()
    form.add_argument("--json", action="store_true", help="one JSON object on stdout")
    form.add_argument("--jsonl", action="store_true", help="one JSON object a line, in and out")


def run(arguments: argparse.Namespace) -> int:
    if arguments.jsonl:
        with open(sys.stdin.fileno(), "rb", closefd=False) as stream:
            return _lines(stream, secrets=arguments.show_secrets)
    from nd7core.attribution import explain
    from nd7core.denial import as_fields

    failure, look = _failure(arguments), _look(arguments)
    if not failure.output.strip() and not arguments.json:
        raise Nd7Error(
            "nothing was read from stdin",
            hint="pipe what the command printed: make 2>&1 | nd7 explain --command make --exit 2",
            exit_code=2,
        )
    verdict = explain(failure, look=look)
    verdict = verdict if arguments.show_secrets else unsecret(verdict)
    if arguments.json:
        print(json.dumps(as_fields(verdict)))
    else:
        sys.stdout.write(shown(verdict, failure.project, beside(verdict, look)))
    return 0


def beside(verdict: Verdict, look: Look | None) -> str:
    """Why a grant would not be enough: ordinary permissions refuse the same; "" where none is known to."""
    if look is None or verdict.source == "none" or verdict.remedy != "grant" or not verdict.target.startswith("/"):
        return ""
    seen = look.at(verdict.target, verdict.operation)
    return seen.why if seen is not None and seen.allowed is False else ""


def unsecret(verdict: Verdict) -> Verdict:
    """A verdict whose sentences are masked; its paths stay, because a grant names one."""
    from dataclasses import replace

    from nd7core.mask import mask

    return replace(
        verdict,
        line=mask(verdict.line),
        reason=mask(verdict.reason),
        contradiction=mask(verdict.contradiction),
    )


def _failure(arguments: argparse.Namespace) -> Any:
    from nd7core.attribution import Failure, platform_named
    from nd7core.paths import canonical, places

    try:
        home = canonical(arguments.home) if arguments.home else places().home
        project = canonical(arguments.project or os.getcwd())
    except OSError as error:
        raise Nd7Error(f"cannot tell the project: {error.strerror}", hint="name it with --project DIR") from None
    if sys.stdin.isatty():
        sys.stderr.write("nd7: reading what the command printed from the terminal; end with Ctrl-D\n")
    output = _ends(sys.stdin.buffer).decode("utf-8", "surrogateescape")
    return Failure(
        platform=platform_named(arguments.platform or sys.platform),
        tool=arguments.tool,
        command=arguments.command,
        exit_code=arguments.exit,
        output=output,
        cwd=project,
        project=project,
        home=home,
        grants=tuple(canonical(path) for path in arguments.grant),
    )


def _look(arguments: argparse.Namespace) -> Any:
    """The real files, unless another system's or another person's failure is asked about."""
    from nd7core.attribution import FileLook, platform_named

    mine = arguments.platform is None or platform_named(arguments.platform) == platform_named(sys.platform)
    return FileLook() if mine and arguments.home is None else None


def _ends(stream: BinaryIO, most: int = MAX_LINE) -> bytes:
    """All of a stream, or the beginning and the end of a longer one: what stopped a command stands where it ended.

    Read to its end in any case, so that a command before the pipe is not ended by it.
    """
    head, tail = stream.read(most), b""
    while piece := stream.read(1 << 20):
        tail = (tail + piece)[-(1 << 20) :]
    return head + tail


def _read(stream: io.BufferedReader, most: int = MAX_LINE) -> Iterator[bytes | None]:
    """The lines of a stream as soon as each is whole; None for one that is too long.

    Before it waits for more, what was answered is passed on: whoever asks line by line waits for the answer first.
    """
    pieces: list[bytes] = []
    size = 0
    while True:
        sys.stdout.flush()
        data = stream.read1(1 << 16)
        *ends, rest = data.split(b"\n")
        for end in ends:
            yield None if size + len(end) > most else b"".join((*pieces, end))
            pieces, size = [], 0
        size += len(rest)
        if size > most:
            pieces = []
        elif rest:
            pieces.append(rest)
        if not data:
            break
    if size:
        yield None if size > most else b"".join(pieces)


def _lines(stream: io.BufferedReader, *, secrets: bool = False) -> int:
    from nd7core.attribution import explain
    from nd7core.attribution.context import from_object
    from nd7core.denial import as_fields

    failed = 0
    for number, line in enumerate(_read(stream), start=1):
        answer: dict[str, Any] = {}
        try:
            data = _parsed(line)
            if isinstance(data, dict) and _plain(data.get("id")):
                answer["id"] = data["id"]
            verdict = explain(from_object(data))
            answer |= as_fields(verdict if secrets else unsecret(verdict))
        except Nd7Error as error:
            failed = 1
            answer |= {"error": f"line {number}: {error.message}"}
        sys.stdout.write(json.dumps(answer) + "\n")
    return failed


def _plain(value: object) -> bool:
    """Whether an id can be given back as it came: NaN is no JSON, whoever wrote it."""
    return isinstance(value, str | int) or (isinstance(value, float) and math.isfinite(value))


def _parsed(line: bytes | None) -> object:
    from nd7core.attribution.context import ContextError

    if line is None:
        raise ContextError(f"longer than {MAX_LINE >> 20} MB")
    try:
        return json.loads(line.decode("utf-8", "surrogateescape").removeprefix("\ufeff"))
    except RecursionError:
        raise ContextError("nested too deeply") from None
    except ValueError:
        raise ContextError("not JSON") from None


_WHO = {
    "kernel": "refused by the kernel, under the rules of a session in",
    "nd7-exec": "refused by nd7-exec; nothing was run",
    "model": "a report of the agent's, nothing more",
    "none": "not a denial of nd7's",
}
_OWNERS = {
    "permissions": "ordinary permissions",
    "agent": "the agent's own rules",
    "person": "the person",
    "remote": "another machine or service",
    "program": "the program itself",
    "sandbox": "another sandbox",
    "nd7": "nd7 itself, which made the path for a grant",
}


def shown(verdict: Verdict, project: str, refused: str = "") -> str:
    """A verdict for a person, a line for each thing, everything through `safe`.

    Args:
        project: of the session that is supposed, for nobody has named one that ran.
        refused: why ordinary permissions refuse the same, or "".
    """
    from nd7core.text import safe, safe_path

    supposed = f" {safe_path(project)}" if verdict.source == "kernel" else ""
    rows = [("source", f"{verdict.source}: {_WHO[verdict.source]}{supposed}")]
    if verdict.owner:
        rows.append(("whose", _OWNERS.get(verdict.owner, verdict.owner)))
    rows.append(("evidence", verdict.evidence))
    if verdict.target:
        rows.append(("refused", f"{verdict.operation}  {safe_path(verdict.target)}"))
    if len(verdict.targets) > 1:
        rows += [("also", safe_path(target)) for target in verdict.targets[1:6]]
    rows.append(("why", safe(verdict.reason)))
    if verdict.contradiction:
        rows.append(("but", safe(verdict.contradiction)))
    remedy = {
        "grant": f"nd7 allow {safe_path(verdict.grant)}" if verdict.grant else "grant the path it writes to",
        "restart-wider": "restart the session wider",
        "cannot-grant": "cannot be granted",
        "not-nd7": "not nd7's to mend",
    }[verdict.remedy]
    if refused:
        remedy = f"a grant would not be enough: ordinary permissions refuse it, too: {safe(refused)}"
    rows.append(("remedy", remedy))
    if verdict.line:
        rows.append(("rests on", safe(verdict.line, 300)))
    return "".join(f"{name:>9}  {text}\n" for name, text in rows)
