"""What the rules of a session say, whatever is granted."""

from __future__ import annotations

from dataclasses import replace

import pytest

from nd7core.policy import (
    LinuxRules,
    PolicyError,
    Unenforceable,
    build,
    compile_linux,
    decide,
    decide_network,
    parse,
    render,
)
from nd7core.policy.model import CLASSES, FILE_READ, FILE_WRITE
from nd7core.record import Grant, Record

HOME = "/home/ada"
RECORD = Record(
    project="/home/ada/work/app",
    home=HOME,
    state="/home/ada/.local/state/nd7",
    tmp="/tmp/nd7-77",
    exit="/usr/bin/nd7-exec",
    pid=77,
    owner_start="boot:1",
    writable=("/home/ada/.claude/projects",),
    writable_files=("/home/ada/.claude.json",),
    protected=("/home/ada/.claude/settings.json",),
)
SECRETS = ("/home/ada/.ssh", "/home/ada/.aws", "/home/ada/.nd7")
PLATFORMS = ("linux", "darwin")


def granted(*paths: str) -> Record:
    return replace(RECORD, grants=tuple(Grant(path) for path in paths))


@pytest.mark.parametrize("platform", PLATFORMS)
def test_the_floor_lets_the_project_be_written_and_no_neighbour_of_it(platform: str) -> None:
    policy = build(RECORD, grants=False, platform=platform)
    for path in ("/home/ada/work/app", "/home/ada/work/app/src/x.py", "/tmp/nd7-77/a", "/home/ada/.claude/projects/p"):
        assert decide(policy, "write", path).allowed, path
    for path in ("/home/ada/work/app2", "/home/ada/work", "/home/ada", "/", "/etc/passwd", "/home/ada/.claude"):
        decision = decide(policy, "write", path)
        assert not decision.allowed, path
        assert decision.text == "(deny default)"
    assert decide(policy, "file-write-data", "/dev/null").allowed
    assert decide(policy, "file-write-data", "/home/ada/.claude.json").allowed
    assert decide(policy, "read", "/etc/passwd").allowed
    assert decide(policy, "execute", "/bin/sh").allowed


def test_a_file_of_the_agent_is_written_in_place_on_linux_and_replaced_on_macos() -> None:
    path = "/home/ada/.claude.json"
    assert not decide(build(RECORD, platform="linux"), "file-write-unlink", path).allowed
    assert decide(build(RECORD, platform="darwin"), "file-write-unlink", path).allowed


@pytest.mark.parametrize("platform", PLATFORMS)
@pytest.mark.parametrize(
    "grant", ["/", "/home", HOME, *SECRETS, RECORD.state, "/home/ada/.claude", RECORD.protected[0]]
)
def test_no_grant_opens_what_must_stay_shut(grant: str, platform: str) -> None:
    policy = build(granted(grant), platform=platform)
    for root in (*SECRETS, RECORD.state, *RECORD.protected):
        for path in (root, root + "/x", root + "/x/y"):
            for operation in (*FILE_WRITE, "file-link", "write"):
                decision = decide(policy, operation, path)
                assert not decision.allowed, (operation, path)
                assert decision.text.startswith("(deny ")
                assert root in decision.text
    for root in SECRETS:
        for operation in (*FILE_READ, "read", "execute", "process-exec"):
            assert not decide(policy, operation, root + "/id").allowed


@pytest.mark.parametrize("platform", PLATFORMS)
def test_the_last_denies_name_every_member_of_the_class(platform: str) -> None:
    """A rule for a single operation is consulted first: `(allow file-write-create ...)` must find a deny of its own."""
    policy = build(RECORD, platform=platform)
    for path in (*SECRETS, RECORD.state, *RECORD.protected):
        named = [rule for rule in policy.rules if not rule.allow and any(f.value == path for f in rule.filters)]
        assert set(named[-1].operations) >= {"file-write*", "file-link", "file-ioctl", *FILE_WRITE}
    last_allow = max(number for number, rule in enumerate(policy.rules) if rule.allow)
    assert all(not rule.allow for rule in policy.rules[last_allow + 1 :])


def test_a_grant_widens_the_policy_and_not_the_floor() -> None:
    record = granted("/opt/cache")
    assert decide(build(record), "write", "/opt/cache/x").allowed
    assert "/opt/cache" in decide(build(record), "write", "/opt/cache/x").text
    assert not decide(build(record), "write", "/opt/cache2").allowed
    assert not decide(build(record, grants=False), "write", "/opt/cache/x").allowed


def test_a_grant_ends_when_its_time_is_over() -> None:
    record = replace(RECORD, grants=(Grant("/opt/a", "until", expires=100), Grant("/opt/b")))
    assert decide(build(record, now=99), "write", "/opt/a/x").allowed
    assert not decide(build(record, now=100), "write", "/opt/a/x").allowed
    assert decide(build(record, now=100), "write", "/opt/b/x").allowed


@pytest.mark.parametrize("platform", PLATFORMS)
def test_only_https_and_names_go_out(platform: str) -> None:
    policy = build(RECORD, platform=platform)
    assert decide_network(policy, "tcp", "example.com", 443, platform=platform).allowed
    for protocol, host, port in [
        ("tcp", "localhost", 3000),
        ("tcp", "127.0.0.1", 80),
        ("udp", "example.com", 443),
        ("tcp", "example.com", 22),
        ("udp", "10.0.0.1", 123),
    ]:
        assert not decide_network(policy, protocol, host, port, platform=platform).allowed
    assert decide_network(policy, "udp", "10.0.0.1", 53, platform="linux").allowed
    assert not decide_network(policy, "udp", "10.0.0.1", 53, platform="darwin").allowed
    for operation in ("network-bind", "network-inbound"):
        assert not decide_network(policy, "tcp", "localhost", 443, operation=operation, platform=platform).allowed


def test_what_linux_makes_of_it() -> None:
    rules = compile_linux(build(granted("/opt/cache"), platform="linux"))
    assert rules == LinuxRules(
        hidden=("/home/ada/.aws", "/home/ada/.nd7", "/home/ada/.ssh"),
        writable=(
            *("/dev/pts", "/dev/shm", "/home/ada/.claude/projects", "/home/ada/work/app"),
            *("/opt/cache", "/tmp/nd7-77"),
        ),
        writable_files=(
            *(f"/dev/{name}" for name in ("full", "null", "ptmx", "random", "tty", "urandom", "zero")),
            "/home/ada/.claude.json",
        ),
        protected=(),
        connect_tcp=(443,),
        dns=True,
    )


def test_a_grant_of_the_home_keeps_the_protected_inside_it() -> None:
    policy = build(granted(HOME), platform="linux")
    rules = compile_linux(policy)
    assert HOME in rules.writable
    assert set(rules.protected) == {RECORD.state, *RECORD.protected}
    assert set(rules.hidden) == set(SECRETS)
    # Renaming ~/.local would take the audit log along and leave its place free.
    for folder in ("/home/ada/.local", "/home/ada/.local/state", "/home/ada/.claude"):
        assert not decide(policy, "file-write-unlink", folder).allowed
        assert decide(policy, "file-write-create", folder + "/x").allowed


def test_the_text_is_the_policy() -> None:
    for platform in PLATFORMS:
        for grants in (True, False):
            policy = build(
                granted("/opt/a b", '/opt/q"\\\n\x07;x', "/opt/\udcff\udc80"), grants=grants, platform=platform
            )
            again = parse(render(policy))
            assert again == policy
            assert render(again) == render(policy)
            assert all(line.count("(subpath") <= 1 for line in render(policy).decode("utf-8", "replace").split("\n"))


def test_odd_names_are_granted_as_they_are() -> None:
    for name in ('/opt/q"\\\n\x07;x', "/opt/\udcff\udc80", "/opt/a) (allow file-write* (subpath", "/opt/é\u202e"):
        policy = build(granted(name), platform="linux")
        assert decide(policy, "write", name + "/x").allowed
        assert name in compile_linux(policy).writable
        assert not decide(policy, "write", "/opt/x").allowed


def test_comments_carry_nothing_out_of_a_record() -> None:
    origin = 'denial 4\n(allow file-write* (subpath "/"))\x1b]0;x\x07\u202e'
    policy = build(replace(RECORD, grants=(Grant("/opt/a", origin=origin),)), platform="linux")
    assert not decide(policy, "write", "/etc/passwd").allowed
    assert b"\x1b" not in render(policy)


@pytest.mark.parametrize(
    ("rules", "line", "words"),
    [
        ('(allow file-write* (regex #"^/x"))', 3, "regular expression"),
        ('(allow file-write* (literal "/x/file"))', 3, "single file"),
        ('(deny file-read* (subpath "/x"))\n(allow file-read* (subpath "/x/y"))', 4, "inside what is hidden"),
        ('(deny file-read-data (subpath "/x"))', 3, "one way of reading"),
        ('(deny file-read* (literal "/x"))', 3, "hide a subtree"),
        ('(deny process-exec (subpath "/x"))', 3, "process-exec"),
        ('(allow file-write-create (subpath "/x"))', 3, "none"),
        ('(allow file-write* (subpath "/x"))\n(deny file-write* (literal "/x"))', 4, "nothing between"),
        ('(allow file-write* (subpath "/x"))\n(deny file-link (subpath "/x"))', 4, "file-link"),
        ('(allow file-write* (subpath "/x"))\n(deny file-write-unlink (literal "/x"))', 4, "folder"),
        (
            '(allow file-write* (subpath "/"))(deny file-write* (subpath "/y"))\n(allow file-write* (subpath "/y/z"))',
            4,
            "inside what is protected",
        ),
        ('(allow network-outbound (literal "/run/docker.sock"))', 3, "unix socket"),
        ("(allow network-outbound)", 3, "UDP"),
        ('(allow network-outbound (remote tcp "*:*"))', 3, "not all"),
        ('(allow network-outbound (remote tcp "localhost:3000"))', 3, "this machine"),
        ('(allow network-bind (local ip "localhost:*"))', 3, "network-bind"),
        ('(allow process-exec (with no-sandbox) (literal "/x"))', 3, "no-sandbox"),
        ("(deny signal)", 3, "signal"),
    ],
)
def test_what_linux_cannot_enforce_is_refused_with_its_line(rules: str, line: int, words: str) -> None:
    base = "(version 1)(deny default)\n(allow process-exec process-fork signal file-read*)\n"
    policy = parse((base + rules + "\n").encode())
    with pytest.raises(Unenforceable) as caught:
        compile_linux(policy)
    assert caught.value.line == line
    assert words in str(caught.value)
    assert caught.value.exit_code == 126


def test_a_plain_profile_by_hand_compiles() -> None:
    """What a person writes in an editor: no link, no ioctl, no members."""
    policy = parse(
        b'(version 1)\n(deny default)\n(import "system.sb")\n(allow process-exec process-fork signal sysctl-read)\n'
        b'(allow file-read*)(allow file-ioctl)\n(allow file-write* (subpath "/srv/p") (literal "/dev/null"))\n'
        b'(allow mach-lookup (global-name "com.apple.x"))\n'
        b'(allow network-outbound (remote tcp "*:443") (remote tcp "*:22"))\n'
        b'(deny file-read* file-write* (subpath "/srv/p/.env"))\n'
    )
    assert compile_linux(policy) == LinuxRules(
        hidden=("/srv/p/.env",), writable=("/srv/p",), writable_files=("/dev/null",), connect_tcp=(22, 443)
    )


def test_a_member_goes_before_its_class_whatever_the_order() -> None:
    for text in (
        b'(version 1)(deny default)(deny file-write* (subpath "/a"))(allow file-write-create (literal "/a/b"))',
        b'(version 1)(deny default)(allow file-write-create (literal "/a/b"))(deny file-write* (subpath "/a"))',
    ):
        policy = parse(text)
        assert decide(policy, "file-write-create", "/a/b").allowed
        assert not decide(policy, "file-write-data", "/a/b").allowed
        assert not decide(policy, "file-write*", "/a/b").allowed


def test_the_last_rule_wins_within_an_operation() -> None:
    policy = parse(
        b'(version 1)\n(allow default)\n(deny file-write* (subpath "/a"))\n(allow file-write* (regex #"^/a/[0-9]+$"))\n'
        b'(deny file-write* (require-all (subpath "/a") (require-any (literal "/a/7") (literal "/a/8"))))\n'
    )
    assert [decide(policy, "write", f"/a/{name}").line for name in ("x", "5", "7", "9x")] == [3, 4, 5, 3]
    assert decide(policy, "write", "/b").by_default


def test_operations_that_are_none_are_an_error_of_the_caller() -> None:
    with pytest.raises(ValueError, match="not an operation"):
        decide(build(RECORD), "file-writ", "/x")
    assert not decide(build(RECORD), "write", "relative/path").allowed
    assert set(CLASSES) == {"file-read*", "file-write*"}


@pytest.mark.parametrize(
    ("text", "line"),
    [
        (b"", 0),
        (b"(version 2)", 1),
        (b"(deny default)", 1),
        (b'(version 1)\n(allow file-write* (subpath "/x"', 2),
        (b"(version 1)\n)", 2),
        (b'(version 1)\n\n(allow file-write* (subpath "x"))', 3),
        (b'(version 1)\n(allow file-write* (subpath "/x/../y"))', 2),
        (b"(version 1)\n(allow file-write* (literal))", 2),
        (b"(version 1)\n(allow file-wriite*)", 2),
        (b'(version 1)\n(allow (subpath "/x"))', 2),
        (b"(version 1)\n(allow file-read* (vnode-type DIRECTORY))", 2),
        (b'(version 1)\n(allow file-read* (regex #"(?i)x"))', 2),
        (b'(version 1)\n(allow file-read* (regex #"\\d"))', 2),
        (b'(version 1)\n(allow network-outbound (remote tcp "example.com:443"))', 2),
        (b'(version 1)\n(allow network-outbound (remote tcp "*:70000"))', 2),
        (b'(version 1)\n(trace "/tmp/x")', 2),
        (b'(version 1)\n(import "bsd.sb")', 2),
        (b"(version 1)\n(allow process-exec (with report))", 2),
        (b"(version 1)\n\x00", 2),
        (b'(version 1)\n(allow file-read* (literal "/a\\x00b"))', 2),
        (b"(version 1)" + b"(" * 100_000, 1),
        (b'(version 1) "unterminated', 1),
        (b"(version 1)\n#|x|#", 2),
    ],
)
def test_a_profile_that_is_not_understood_is_an_error_with_its_line(text: bytes, line: int) -> None:
    with pytest.raises(PolicyError) as caught:
        parse(text)
    assert caught.value.line == line


@pytest.mark.parametrize("platform", PLATFORMS)
def test_what_the_credentials_link_to_is_shut_by_its_real_name(platform: str) -> None:
    record = replace(granted("/data"), hidden=("/data/keys", "/home/ada/dotfiles/ssh/id"))
    policy = build(record, platform=platform)
    for path in ("/data/keys/id", "/home/ada/dotfiles/ssh/id"):
        assert not decide(policy, "read", path).allowed
        assert not decide(policy, "write", path).allowed
    assert decide(policy, "write", "/data/x").allowed
    if platform == "linux":
        assert set(record.hidden) <= set(compile_linux(policy).hidden)
