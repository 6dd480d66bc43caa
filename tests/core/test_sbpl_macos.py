"""A profile as the existing macOS nd7 writes them: the whole subset is read and decided here, and refused on Linux."""

from __future__ import annotations

import pytest

from nd7core.policy import Unenforceable, compile_linux, decide, decide_network, parse
from nd7core.policy.regex import compiled

PROFILE = rb"""(version 1)
; written by nd7
(deny default)
(import "system.sb")
(allow process-exec process-fork)
(allow process-exec (with no-sandbox) (literal "/usr/local/bin/nd7-exec"))
(allow sysctl-read)
(allow signal)
(allow file-read*)
(allow file-ioctl)
(allow file-write*
  (subpath "/Users/ada/work/app")
  (subpath "/private/tmp/nd7-501")
  (literal "/Users/ada/.claude.json")
  (regex #"^/Users/ada/\.claude\.json\.(tmp\.[0-9]+|backup.*|lock)$")
  (regex #"^/private/tmp/claude-[0-9]+(/|$)"))
(allow file-read* file-write* (literal "/dev/ptmx") (regex #"^/dev/ttys[[:digit:]]+$"))
(allow file-write-create (require-all (subpath "/Users/ada/.claude") (require-any
  (regex #"\.jsonl$") (literal "/Users/ada/.claude/history"))))
(allow file-link (subpath "/Users/ada/work/app"))
(allow mach-lookup (global-name "com.apple.SecurityServer") (global-name "com.apple.dnssd.service"))
(allow network-outbound (literal "/private/var/run/mDNSResponder"))
(allow network-outbound (remote tcp "*:443"))
(allow network-outbound (remote tcp "localhost:3000"))
(allow network-bind network-inbound (local ip "localhost:*"))
(deny file-read* (subpath "/Users/ada/.ssh") (subpath "/Users/ada/.aws"))
(deny file-write* file-write-create file-write-data file-write-unlink file-write-mode file-write-owner
      file-write-flags file-write-xattr file-write-acl file-write-setugid file-link
  (subpath "/Users/ada/.nd7")
  (literal "/Users/ada/.claude/settings.json"))
"""


@pytest.mark.parametrize(
    ("operation", "path", "allowed", "line"),
    [
        ("write", "/Users/ada/work/app/x", True, 12),
        ("write", "/Users/ada/work/apple", False, 3),
        ("write", "/private/tmp/nd7-501", True, 13),
        ("write", "/Users/ada/.claude.json", True, 14),
        ("write", "/Users/ada/.claude.json.tmp.77", True, 15),
        ("write", "/Users/ada/.claude.json.tmp.x", False, 3),
        ("write", "/Users/ada/xclaude.json.lock", False, 3),
        ("write", "/private/tmp/claude-501/cwd", True, 16),
        ("write", "/private/tmp/claude-501x", False, 3),
        ("write", "/dev/ttys012", True, 17),
        ("write", "/dev/ttys012\n", False, 3),
        ("file-write-create", "/Users/ada/.claude/projects/a.jsonl", True, 18),
        ("file-write-create", "/Users/ada/.claude/history", True, 18),
        ("file-write-create", "/Users/ada/.claude/other", False, 3),
        ("file-write-data", "/Users/ada/.claude/history", False, 3),
        ("file-write-create", "/Users/ada/.nd7/x", False, 29),
        ("write", "/Users/ada/.claude/settings.json", False, 30),
        ("read", "/Users/ada/.ssh/id", False, 26),
        ("read", "/Users/ada/.sshx", True, 9),
        ("file-link", "/Users/ada/work/app/l", True, 20),
        ("file-ioctl", "/dev/ttys001", True, 10),
    ],
)
def test_what_it_decides_and_on_which_line(operation: str, path: str, allowed: bool, line: int) -> None:
    decision = decide(parse(PROFILE), operation, path)
    assert (decision.allowed, decision.line) == (allowed, line)


@pytest.mark.parametrize(
    ("operation", "host", "port", "allowed"),
    [
        ("network-outbound", "example.com", 443, True),
        ("network-outbound", "127.0.0.1", 443, True),
        ("network-outbound", "localhost", 3000, True),
        ("network-outbound", "127.8.9.1", 3000, True),
        ("network-outbound", "example.com", 3000, False),
        ("network-bind", "::1", 8080, True),
        ("network-inbound", "0.0.0.0.example", 8080, False),
    ],
)
def test_what_it_says_of_addresses(operation: str, host: str, port: int, allowed: bool) -> None:
    policy = parse(PROFILE)
    assert decide_network(policy, "tcp", host, port, operation=operation, platform="darwin").allowed is allowed


def test_linux_refuses_it_by_name_and_line() -> None:
    with pytest.raises(Unenforceable, match=r"line 6: \(with no-sandbox\)"):
        compile_linux(parse(PROFILE))


@pytest.mark.parametrize(
    ("pattern", "yes", "no"),
    [
        (r"^/a$", ["/a"], ["/a\n", "/ab", "x/a"]),
        (r"/a.c", ["/abc", "x/a\nc"], ["/ac"]),
        (r"^/[^/]+/x{2,3}$", ["/q/xx", "/q/xxx"], ["/q/x", "/q/xxxx", "/q/r/xx"]),
        (r"^/[]a]$", ["/]", "/a"], ["/b"]),
        (r"^/[[:alpha:]_]+$", ["/ab_"], ["/a1"]),
        (r"^/(a|b)?\.(c)$", ["/.c", "/a.c"], ["/abc"]),
        (r"^/a{x$", ["/a{x"], ["/ax"]),
        (r"^/[a&&bc||d~~e-]+$", ["/&-|~"], ["/z"]),
    ],
)
def test_expressions_mean_what_the_kernel_means(pattern: str, yes: list[str], no: list[str]) -> None:
    assert all(compiled(pattern).search(path) for path in yes)
    assert not any(compiled(pattern).search(path) for path in no)


@pytest.mark.parametrize(
    "pattern", [r"\d", r"(?i)a", r"\1", "a**", "a+?", "*a", "(", ")", "[a", r"\Z", "[[:nope:]]", "x" * 3000]
)
def test_expressions_that_could_mean_something_else_are_refused(pattern: str) -> None:
    with pytest.raises(ValueError, match=r".+"):
        compiled(pattern)
