"""Say what the policy in force says about a path or an address, which line says it, and whether a grant would help.

examples:
  nd7 why ~/.cache/pip --write       may Bash write there?  which line of policy.sb decides?
  nd7 why ~/.ssh/id_ed25519 --read   why not, and what would help
  nd7 why localhost:3000             an address: HOST:PORT, udp://HOST:PORT or a URL
  nd7 why src --json                 the same for a program

The policy is the one that the session's next command runs under; the floor is what the agent's own Write,
Edit and Read run under; permissions are the ordinary ones of the file, which hold without nd7, too.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import sys
from typing import Any

from nd7core.errors import Nd7Error
from nd7core.text import safe, safe_path


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("subject", metavar="PATH|HOST:PORT", help="what to ask about; a path may not exist yet")
    what = parser.add_mutually_exclusive_group()
    what.add_argument("--write", action="store_const", const="write", dest="operation", help="only about writing")
    what.add_argument("--read", action="store_const", const="read", dest="operation", help="only about reading")
    what.add_argument(
        "--execute", action="store_const", const="execute", dest="operation", help="only about running it"
    )
    parser.add_argument("--session", metavar="S", help="a session's pid, name or agent session id")
    parser.add_argument("--json", action="store_true", help="one JSON object on stdout")


def run(arguments: argparse.Namespace) -> int:
    from nd7core import sessions, why
    from nd7core.paths import places
    from nd7tui.commands.allow import current_directory

    where = places()
    address = why.address(arguments.subject)
    cwd = current_directory()
    session = sessions.choose(where, arguments.session, cwd=cwd)
    if session.record is None:
        raise Nd7Error(session.problem or f"session {session.pid} cannot be read")
    policy = why.in_force(session.directory)
    if address is not None:
        if arguments.operation:
            raise Nd7Error("an address is neither read nor written", hint="leave --read and --write away", exit_code=2)
        answers = [why.about_address(session.record, policy, address)]
    else:
        path = why.resolve(where, arguments.subject, cwd or None)
        operations: list[why.Operation] = [arguments.operation] if arguments.operation else ["write", "read"]
        answers = [why.about_path(session.record, policy, path, operation) for operation in operations]
    if arguments.json:
        rows = [_row(answer) for answer in answers]
        print(json.dumps({"session": session.pid, "revision": session.record.revision, "answers": rows}))
        return 0
    for answer in answers:
        sys.stdout.write(_words(answer, f"{session.directory}/policy.sb"))
    if address is None and (meant := host_meant(arguments.subject)):
        sys.stderr.write(f"nd7: if you mean an address: nd7 why {meant}\n")
    return 0


def host_meant(subject: str) -> str:
    """The address that a word may mean which is answered as a path: a host alone, a port alone; "" for another."""
    if os.path.lexists(subject):
        return ""
    if subject.isascii() and subject.isdigit() and 0 < len(subject) <= 5 and int(subject) <= 65535:
        return f"HOST:{subject}"
    host = re.fullmatch(r"localhost|([a-z0-9-]{1,63}\.){1,8}[a-z]{2,24}|[0-9]{1,3}(\.[0-9]{1,3}){3}", subject, re.I)
    return f"{subject}:443" if host else ""


def _decision(decision: Any) -> dict[str, Any]:
    return {"allowed": decision.allowed, "line": decision.line, "text": decision.text}


def _row(answer: Any) -> dict[str, Any]:
    return {
        "subject": answer.subject,
        "operation": answer.operation,
        "policy": _decision(answer.policy),
        "floor": _decision(answer.floor),
        "permissions": {"allowed": answer.permitted, "reason": answer.permissions},
        "grant": answer.grant or None,
        "advice": answer.advice,
    }


def _words(answer: Any, policy_file: str) -> str:
    def verdict(allowed: bool) -> str:
        return "allowed" if allowed else "refused"

    shown = safe_path(answer.subject)
    rows = [f"{answer.operation} {shown}"]
    at = f", line {answer.policy.line} of {safe_path(policy_file)}:" if answer.policy.line else ""
    rows.append(f"  policy       {verdict(answer.policy.allowed)}{at}")
    if answer.policy.text:
        rows.append(f"               {shorten(answer.policy.text)}")
    if answer.floor.allowed != answer.policy.allowed:
        rows.append(f"  floor        {verdict(answer.floor.allowed)} for the agent's own tools")
    if answer.permitted is not None:
        reason = f": {safe(answer.permissions)}" if answer.permissions and not answer.permitted else ""
        rows.append(f"  permissions  {verdict(answer.permitted)}{reason}")
    elif answer.operation != "connect":
        rows.append("  permissions  cannot be told from here")
    rows.append(f"  {safe(answer.advice)}")
    return "\n".join(rows) + "\n"


def shorten(line: str) -> str:
    """A profile's line with the members of a class left out: the class and the path are what tells."""
    head, bracket, rest = line.partition(" (")
    words = head.split(" ")
    classes = {word[:-1] for word in words if word.endswith("*")}
    kept = [word for word in words if word.endswith("*") or not any(word.startswith(name) for name in classes)]
    return safe(" ".join(kept) + bracket + rest, 300)
