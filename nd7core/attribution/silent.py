"""Programs that say no word of a refusal: the command, the exit status and the policy are all there is.

Only where the policy refuses for certain what the program had to do, and never more than likely.
"""

from __future__ import annotations

import re

from nd7core.attribution import network
from nd7core.attribution.failure import Failure
from nd7core.attribution.finding import Finding, names
from nd7core.attribution.guess import destination
from nd7core.attribution.judge import Judge

# Unreadable credentials look like none at all: SDKs swallow the error.
_NO_CREDENTIALS = re.compile(
    r"Unable to locate credentials|NoCredentialsError|NoCredentialProviders|"
    r"Could not load credentials from any providers|config profile \([^)\n]{0,200}\) could not be found|"
    r"ProfileNotFound|failed to (?:refresh cached|get shared config) \w+|could not find profile|"
    r"Partial credentials found|You must specify a region",
    re.IGNORECASE,
)
# Of a push to another folder of this machine, whose git says so as a server would.
_PUSHED_TO = re.compile(r"^To (?P<path>(?:/|~|\.{1,2}/)\S+)$", re.MULTILINE)
_CACHE_OF = {"mypy": ".mypy_cache"}
_INTERNAL = re.compile(r"INTERNAL ERROR")
_IPC = re.compile(
    r"IPC connect call failed|can.t connect to the (?:gpg-)?agent|can.t connect to the (?:dirmngr|keyboxd)|"
    r"(?:failed to|can.t|cannot|could not) (?:create|open) (?:a )?unix socket",
    re.I,
)
# The error was thrown away, and what the command says instead of it is there: `cp a /b 2>/dev/null || echo failed`.
_FALLBACK = re.compile(
    r"(?:2|&)>\s?/dev/null[^|\n]{0,40}\|\|\s*(?:[{(]\s*)?(?:echo|printf)\s+(?:-\w+ )?[\"']?(?P<said>[^\"'|"
    r";&}\\\n]{3,200})"
)
_GIT_WRITES = names(
    "stash add commit reset checkout switch merge rebase cherry-pick revert am apply rm mv tag branch gc"
)
# What curl and wget exit with where no connection came about; `-s` and `-q` leave nothing else.
_NO_CONNECTION = {"curl": 7, "wget": 4}


def worth(failure: Failure, output: str) -> bool:
    """Whether one of these programs may have run; cheap, for it is asked of every failure."""
    command = failure.command
    if "/dev/null" in command and "||" in command:
        return True
    if failure.exit_code in (0, None):
        return False
    if not output:
        return "git" in command or "curl" in command or "wget" in command
    return (
        "redential" in output
        or "specify a region" in output
        or "unpacker error" in output
        or "rofile" in output
        or "INTERNAL ERROR" in output
        or "agent" in output
        or "nix socket" in output
        or "NIX socket" in output
    )


def silent(failure: Failure, output: str, judge: Judge) -> Finding | None:
    """What a failure without a word was most likely about, None for nothing the policy refuses for certain."""
    line = output.strip().split("\n", 1)[0][:500]
    if _NO_CREDENTIALS.search(output):
        path = f"{judge.home}/.aws/" + ("config" if "rofile" in output and "redential" not in output else "credentials")
        if judge.home and judge.rules.hidden(path):
            return Finding(line, "", "path", (path,), operation="read")
    if _IPC.search(output):
        named = network.SOCKET_URL.search(output)
        return Finding(line, "EPERM", "socket", (named[1],) if named else (), direction="connect")
    for fallback in _FALLBACK.finditer(failure.command[:20_000]):
        meant = destination(judge.commands, judge.rules, judge.home, judge.platform)
        if meant and fallback["said"].strip() in output:
            return Finding(line, "", "path", (meant,), operation="write")
    if failure.exit_code in (0, None):
        return None
    if (pushed := _PUSHED_TO.search(output)) and "unpacker error" in output:
        path = judge.resolve(pushed["path"], "git")
        if judge.rules.refuses("write", path):
            return Finding(line, "", "path", (path,), operation="write")
    for simple in judge.commands:
        name = simple.name
        folder = simple.cwd or judge.cwd
        if name in _CACHE_OF and _INTERNAL.search(output):
            cache = f"{folder}/{_CACHE_OF[name]}" if judge.rules.refuses("write", folder) else ""
            cache = destination((simple,), judge.rules, judge.home, judge.platform) or cache
            if cache:
                return Finding(line, "", "path", (cache,), operation="write")
        if output.strip():
            continue
        if name == "git" and _GIT_WRITES & set(simple.words[:6]) and folder and judge.rules.refuses("write", folder):
            return Finding(f"{name} ended without a word", "", "path", (f"{folder}/.git",), operation="write")
        if _NO_CONNECTION.get(name) == failure.exit_code:
            host, port = network.from_command((simple,), name)
            if port and not judge.rules.connects(host, port):
                return Finding(f"{name} ended without a word", "", "network", host=host, port=port, direction="connect")
    return None
