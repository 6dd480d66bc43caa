"""A part of the recorded runs once more, in real sessions on this machine's kernel with this machine's programs."""

from __future__ import annotations

import fcntl
import os
import shutil
import time
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

import pytest
from collect import UNPRIVILEGED, Neutral, environment_path, run_all
from confined import BARE, FULL
from programs import Case, cases, tools
from scoring import score

from nd7core.attribution import explain
from nd7core.attribution.context import from_object
from nd7exec.linux import audit, kernel_audit, landlock

EVERYWHERE = {
    "bash",
    "cat",
    "cp",
    "dd",
    "grep",
    "head",
    "ln",
    "ls",
    "mkdir",
    "mv",
    "rm",
    "sort",
    "tail",
    "tee",
    "touch",
    "wc",
}
OFTEN = {"python3", "git", "tar", "sed", "perl", "node", "dash", "awk", "gzip", "curl", "make", "gcc"}
# What .ci/run installs or every developer's machine has; any of them that is missing is left out.
TOOLS = {
    *("git", "node", "python3", "perl", "bash", "tar", "cp", "make", "gcc", "cpp", "as", "ld", "ar", "go", "sqlite3"),
    *("openssl", "gpg", "ssh-keygen", "rsync", "dig", "shuf", "uniq", "iconv", "script", "flock", "split", "csplit"),
    *("join", "dpkg-deb", "prove", "jq"),
}
USER = UNPRIVILEGED if os.geteuid() == 0 else os.getuid()


def _held(found: Sequence[dict[str, object]], title: str, capsys: pytest.CaptureFixture[str]) -> None:
    figures = score(found)
    with capsys.disabled():
        print(figures.table(f"{title}: {len(found)} runs in real sessions"))
    assert figures.share("kernel found as kernel") >= 0.98, figures.failed
    assert figures.share("others not taken for kernel") >= 0.98, figures.failed
    assert figures.share("target, where one is printed") >= 0.95, figures.failed
    assert figures.share("remedy") >= 0.95, figures.failed


def test_refusals_and_look_alikes_of_this_machine(capsys: pytest.CaptureFixture[str]) -> None:
    chosen = [
        (number, case)
        for number, case in enumerate(cases())
        if case.program in EVERYWHERE | OFTEN and number % 4 == 1 and "LC_ALL" not in case.command
    ]
    assert all(shutil.which(name, path=environment_path()) for name in EVERYWHERE)
    found = list(run_all(chosen, (FULL, BARE), USER))
    _held(found, "this machine", capsys)
    assert len(found) >= 100


def test_tools_of_this_machine(capsys: pytest.CaptureFixture[str]) -> None:
    chosen = [
        (number, replace(case, control=case.operation != "network"))
        for number, case in tools()
        if case.program in TOOLS and not case.needs and number % 3 == 0
    ]
    found = list(run_all(chosen, (FULL, BARE), USER))
    _held(found, "tools of this machine", capsys)
    assert len(found) >= 60


@pytest.fixture
def records() -> Iterator[kernel_audit.KernelAudit | None]:
    """The kernel's records with audit on, for one test of the machine at a time; None where they cannot be had."""
    try:
        audit.status()
        able = landlock.kernel_abi() >= 7  # Linux 6.15 made the first records of Landlock's denials
    except OSError:
        able = False
    if not able:
        yield None
        return
    with Path("/tmp/nd7-tests-audit").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        before = audit.status()
        users = audit.switch_on("/tmp/nd7-tests-attribution.d")
        reader = kernel_audit.KernelAudit()
        try:
            yield reader
        finally:
            reader.close()
            os.close(users)
            assert audit.let_go("/tmp/nd7-tests-attribution.d")
            shutil.rmtree("/tmp/nd7-tests-attribution.d")
        assert audit.status() == before


def _witnessed(case: Case) -> bool:
    """Whether the kernel records it: files that Landlock alone refuses, by programs that are everywhere."""
    files = case.operation in ("read", "write") or case.source == "none"
    return files and case.program in EVERYWHERE | {"sed", "tar", "python3", "perl", "git"} and not case.only


def test_the_kernels_own_record_bears_out_the_truth(
    records: kernel_audit.KernelAudit | None, capsys: pytest.CaptureFixture[str]
) -> None:
    """A second witness to what the set-up says, in the configuration where Landlock itself answers.

    With namespaces the read-only mount answers first, and the kernel has nothing to record.
    """
    if records is None:
        assert landlock.kernel_abi() < 7 or kernel_audit.why_not() != ""
        return
    seen: dict[int, set[str]] = {}

    def ran(number: int, neutral: Neutral) -> None:
        time.sleep(0.02)  # the kernel's own thread hands the records on
        found = seen.setdefault(number, set())
        while denials := records.read():
            for denial in denials:
                path = neutral.text(denial.path)
                if path.startswith("/home/mara"):  # what the linker or the shell tries elsewhere is no part of it
                    found.add(f"{path}/" if denial.within else path)

    chosen = [(number, case) for number, case in enumerate(cases()) if _witnessed(case) and number % 2]
    rows = list(run_all(chosen, (BARE,), USER, ran=ran))
    assert records.lost == 0
    borne_out = recorded = kernel = none = unseen = 0
    strange = []
    for row in rows:
        number = int(row["id"].removeprefix(f"{BARE.name}-").partition("-")[0])
        verdict = explain(replace(from_object(row), recorded=tuple(sorted(seen[number]))))
        if row["truth"]["source"] == "kernel":
            kernel += 1
            borne_out += bool(seen[number])
            recorded += verdict.evidence == "recorded"
            strange += [row["id"]] if not seen[number] else []
        else:
            none += 1
            unseen += not seen[number]
            strange += [row["id"]] if seen[number] else []
    with capsys.disabled():
        print(
            f"\nthe kernel's record: of {kernel} refusals it has {borne_out} ({recorded} of them told as recorded), "
            f"of {none} look-alikes it has nothing on {unseen}"
        )
    assert kernel >= 50 and none >= 30
    assert borne_out >= 0.98 * kernel, strange
    assert unseen >= 0.98 * none, strange
    assert recorded >= 0.95 * kernel
