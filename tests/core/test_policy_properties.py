"""Properties of the policy: the kernel is told exactly what the profile says; no record opens what must stay shut."""

from __future__ import annotations

import os
import time
from dataclasses import replace

import pytest
from hypothesis import assume, event, example, given, settings
from hypothesis import strategies as st

from nd7core.paths import within
from nd7core.policy import (
    LinuxRules,
    Policy,
    PolicyError,
    Unenforceable,
    always_unwritable,
    build,
    compile_linux,
    credentials,
    decide,
    decide_network,
    parse,
    render,
)
from nd7core.policy.evaluate import path_matches
from nd7core.policy.model import CLASS_OF, CLASSES, FILE_READ, FILE_WRITE, OPERATIONS
from nd7core.policy.profile import IN_PLACE, READ_ALL, WRITE_ALL
from nd7core.policy.sbpl import quote
from nd7core.record import Grant, Record

# Names that are prefixes of each other: /a/b is not above /a/bc.
NAMES = st.sampled_from(["a", "b", "bc", "b c", "b.", "ab", "é", "\udcff", 'q"\\'])
PATHS = st.lists(NAMES, max_size=5).map(lambda parts: "/" + "/".join(parts))
BASE = "(version 1)\n(deny default)\n(allow process-exec process-fork signal file-read*)\n"


def rule(verb: str, operations: tuple[str, ...], kind: str, path: str) -> str:
    return f"({verb} {' '.join(operations)} ({kind} {quote(path)}))"


STRUCTURED = st.one_of(
    st.builds(lambda p: rule("allow", ("file-write*",), "subpath", p), PATHS),
    st.builds(lambda p: rule("allow", ("file-write*", "file-link", "file-ioctl"), "subpath", p), PATHS),
    st.builds(lambda p: rule("deny", WRITE_ALL, "subpath", p), PATHS),
    st.builds(lambda p: rule("deny", (*READ_ALL, *WRITE_ALL, "process-exec"), "subpath", p), PATHS),
    st.builds(lambda p: rule("deny", ("file-read*", "file-write*"), "subpath", p), PATHS),
    st.builds(lambda p: rule("allow", IN_PLACE, "literal", p), PATHS),
    st.builds(lambda p: rule("deny", ("file-write-unlink",), "literal", p), PATHS),
)
ANY_RULE = st.builds(
    rule,
    st.sampled_from(["allow", "deny"]),
    st.lists(st.sampled_from(sorted(OPERATIONS)), min_size=1, max_size=4, unique=True).map(tuple),
    st.sampled_from(["literal", "subpath"]),
    PATHS,
)


def policy_of(rules: list[str], base: str = BASE) -> Policy:
    return parse(os.fsencode(base + "\n".join(rules) + "\n"))


def readable(rules: LinuxRules, path: str) -> bool:
    return not any(within(path, root) for root in rules.hidden)


def writable(rules: LinuxRules, path: str) -> bool:
    inside = any(within(path, root) for root in rules.writable)
    return inside and readable(rules, path) and not any(within(path, root) for root in rules.protected)


def pinned(rules: LinuxRules, path: str) -> bool:
    return any(root != path and within(root, path) for root in (*rules.protected, *rules.hidden))


def assert_same(policy: Policy, rules: LinuxRules, path: str) -> None:
    """What the rules mean for one path is what the policy says, operation by operation."""
    assert decide(policy, "read", path).allowed == readable(rules, path)
    for member in FILE_READ:
        assert decide(policy, member, path).allowed == readable(rules, path)
    assert decide(policy, "execute", path).allowed == readable(rules, path)
    full = writable(rules, path)
    in_place = path in rules.writable_files and readable(rules, path)
    for member in FILE_WRITE:
        allowed = decide(policy, member, path).allowed
        if member == "file-write-unlink" and full and pinned(rules, path):
            continue  # folders around what is protected may be pinned, and the kernel's side pins them
        assert allowed == (full or (in_place and member in IN_PLACE)), member


@settings(max_examples=250, deadline=None)
@given(st.lists(STRUCTURED, max_size=7), st.lists(PATHS, min_size=1, max_size=25))
@example([rule("allow", ("file-write*",), "subpath", "/a/b")], ["/a/bc", "/a/b", "/a/b/c", "/a", "/"])
def test_linux_is_told_exactly_what_the_policy_says(rules: list[str], paths: list[str]) -> None:
    policy = policy_of(rules)
    try:
        linux = compile_linux(policy)
    except Unenforceable as error:
        event("refused")
        assert 0 < error.line <= len(rules) + 3
        return
    event("compiled")
    named = [path for part in (linux.hidden, linux.writable, linux.writable_files, linux.protected) for path in part]
    for path in (*paths, *named, *(path.rstrip("/") + "/x" for path in (*paths, *named))):
        assert_same(policy, linux, path)


@settings(max_examples=200, deadline=None)
@given(st.lists(ANY_RULE, max_size=4), st.lists(PATHS, min_size=1, max_size=15))
def test_any_rules_are_enforced_exactly_or_refused(rules: list[str], paths: list[str]) -> None:
    policy = policy_of(rules)
    try:
        linux = compile_linux(policy)
    except Unenforceable:
        return
    for path in paths:
        assert_same(policy, linux, path)


RECORDS = st.builds(
    Record,
    project=PATHS,
    home=PATHS,
    state=PATHS,
    tmp=PATHS | st.just(""),
    pid=st.just(7),
    owner_start=st.just("x"),
    grants=st.lists(st.builds(Grant, PATHS), max_size=3).map(tuple),
    writable=st.lists(PATHS, max_size=2).map(tuple),
    writable_files=st.lists(PATHS, max_size=2).map(tuple),
    protected=st.lists(PATHS, max_size=2).map(tuple),
)


@settings(max_examples=250, deadline=None)
@given(RECORDS, PATHS, st.booleans())
def test_every_record_makes_a_policy_that_linux_enforces(record: Record, path: str, grants: bool) -> None:
    policy = build(record, grants=grants, platform="linux")
    assert_same(policy, compile_linux(policy), path)
    assert parse(render(policy)) == policy


@settings(max_examples=200, deadline=None)
@given(RECORDS, PATHS, st.sampled_from(["linux", "darwin"]))
def test_whatever_is_in_the_record_the_protected_stays_shut(record: Record, below: str, platform: str) -> None:
    policy = build(record, platform=platform)
    floor = build(record, grants=False, platform=platform)
    for one in (policy, floor):
        for root in always_unwritable(record):
            path = (root.rstrip("/") + below).rstrip("/") or "/"
            for operation in (*FILE_WRITE, "file-link"):
                assert not decide(one, operation, path).allowed
        for root in credentials(record.home):
            for operation in (*FILE_READ, "process-exec"):
                assert not decide(one, operation, (root + below).rstrip("/")).allowed
    # The floor allows nothing that the policy refuses: a grant only ever adds.  But for removing: a folder around
    # something protected is pinned as soon as a grant makes the folder above it writable.
    for operation in ("read", "execute", *IN_PLACE, "file-write-create"):
        assert decide(policy, operation, below).allowed >= decide(floor, operation, below).allowed


@settings(max_examples=200, deadline=None)
@given(st.lists(ANY_RULE, max_size=8), PATHS, st.sampled_from(sorted(OPERATIONS - set(CLASSES))))
def test_the_index_decides_as_the_two_rules_read(rules: list[str], path: str, operation: str) -> None:
    """`decide` looks up tables; here are formats.md's two rules of evaluation word for word."""
    policy = policy_of(rules)

    def last(name: str) -> bool | None:
        verdict: bool | None = None
        for one in policy.rules:
            if name in one.operations and (not one.filters or any(path_matches(f, path) for f in one.filters)):
                verdict = one.allow
        return verdict

    def single(name: str) -> bool:
        found = last(name)
        if found is None and name in CLASS_OF:
            found = last(CLASS_OF[name])
        return policy.default_allow if found is None else found

    expected = single(operation)
    if operation == "process-exec":
        expected = expected and single("file-read-data")
    assert decide(policy, operation, path).allowed == expected
    for name, members in CLASSES.items():
        assert decide(policy, name, path).allowed == all(map(single, members))


@settings(max_examples=200, deadline=None)
@given(st.lists(ANY_RULE, max_size=6), PATHS, st.sampled_from(["read", "write", "execute"]))
def test_a_decision_names_the_line_it_rests_on(rules: list[str], path: str, operation: str) -> None:
    policy = policy_of(rules)
    decision = decide(policy, operation, path)
    assert decision.line is not None
    assert decision.text == policy.text_of(decision.line)
    assert decision.text.startswith("(allow" if decision.allowed else "(deny")


@given(st.binary(max_size=400))
def test_any_bytes_parse_or_fail_with_a_policy_error(data: bytes) -> None:
    for text in (data, b"(version 1)\n" + data):
        try:
            policy = parse(text)
        except PolicyError as error:
            assert 0 <= error.line <= text.count(b"\n") + 1
            continue
        assert render(policy) == text


TOKENS = st.sampled_from(
    [
        *("(", ")", "(allow", "(deny", "default", "file-read*", "file-write*", "file-write-create", "signal"),
        *("(subpath", "(literal", "(regex", "(require-all", "(require-any", "(remote", "(local", "(global-name"),
        *(
            '"/a"',
            '"/a/b"',
            '"*:443"',
            '"localhost:*"',
            "tcp",
            "ip",
            '#"^/a"',
            '#"["',
            "(with no-sandbox)",
            ";x\n",
            "\n",
        ),
        *("(import", '"system.sb"', '"\\x', '"', "\\", "(version 1)", "network-outbound", "mach-lookup"),
    ]
)


@settings(max_examples=500)
@given(st.lists(TOKENS, max_size=25))
def test_near_profiles_parse_or_fail_with_a_policy_error(tokens: list[str]) -> None:
    try:
        policy = parse(("(version 1) " + " ".join(tokens)).encode())
    except PolicyError:
        return
    decide(policy, "write", "/a/b")
    decide_network(policy, "tcp", "localhost", 443)
    try:
        compile_linux(policy)
    except Unenforceable as error:
        assert error.exit_code == 126


PORTS = st.sampled_from([22, 53, 80, 443, 3000])
ADDRESS_RULES = st.builds(
    lambda verb, host, port: f'({verb} network-outbound (remote tcp "{host}:{port}"))',
    st.sampled_from(["allow", "deny"]),
    st.sampled_from(["*", "localhost"]),
    PORTS | st.just("*"),
) | st.sampled_from(
    [f'({verb} network-outbound (literal "/private/var/run/mDNSResponder"))' for verb in ("allow", "deny")]
)


@given(st.lists(ADDRESS_RULES, max_size=5), PORTS, st.sampled_from(["tcp", "udp"]), st.sampled_from(["::1", "x.org"]))
def test_addresses_are_let_out_exactly_or_refused(rules: list[str], port: int, protocol: str, host: str) -> None:
    policy = policy_of(rules)
    try:
        linux = compile_linux(policy)
    except Unenforceable:
        return
    meant = (protocol == "tcp" and port in linux.connect_tcp) or (linux.dns and port == 53)
    assert decide_network(policy, protocol, host, port, platform="linux").allowed == meant


@given(PATHS, PATHS)
def test_odd_spellings_of_a_path_decide_alike(root: str, below: str) -> None:
    assume(root != "/")
    policy = policy_of([rule("allow", ("file-write*",), "subpath", root)])
    path = root + below
    for spelling in (path + "/", path.replace("/", "//"), "/." + path, path + "/x/.."):
        assert decide(policy, "write", spelling).allowed == decide(policy, "write", path).allowed


def test_hundreds_of_grants_cost_little() -> None:
    """A policy is built, parsed and compiled at every grant; a decision is made for every failure in a history."""
    record = Record("/p", "/h", "/s", "/t", pid=1, owner_start="x")
    record = replace(record, grants=tuple(Grant(f"/data/{number}/x") for number in range(500)))
    started = time.process_time()
    policy = build(record, platform="linux")
    rules = compile_linux(policy)
    assert time.process_time() - started < 5
    assert len(rules.writable) > 500
    started = time.process_time()
    for number in range(2000):
        decide(policy, "write", f"/data/{number}/x/y/z/deep/er")
    assert time.process_time() - started < 5


@pytest.mark.parametrize("depth", [1000, 4000])
def test_deep_paths_are_no_trouble(depth: int) -> None:
    policy = policy_of([rule("allow", ("file-write*",), "subpath", "/a")])
    assert decide(policy, "write", "/a" * depth).allowed
    assert not decide(policy, "write", "/b" * depth).allowed
