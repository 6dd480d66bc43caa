"""Every attack, in every configuration, as an unprivileged user and (where the tests run as root) as root."""

from __future__ import annotations

import os
from collections.abc import Iterator

import attack_mounts
import attack_network
import attack_processes
import attack_reads
import attack_terminals
import attack_writes
import confined
import pytest
from confined import ALL, BARE, FULL, Cell
from kit import CASES, REFUSALS, Case

MODULES = (attack_mounts, attack_network, attack_processes, attack_reads, attack_terminals, attack_writes)
UIDS = (confined.UNPRIVILEGED, 0) if os.getuid() == 0 else (os.getuid(),)
CELLS = [(config, uid) for config in ALL for uid in UIDS]


@pytest.fixture(scope="module", params=CELLS, ids=lambda pair: f"{pair[0].name}-uid{pair[1]}")
def cell(request: pytest.FixtureRequest) -> Iterator[Cell]:
    with confined.cell(*request.param, modules=[module.__name__ for module in MODULES]) as made:
        yield made


@pytest.mark.parametrize("case", CASES.values(), ids=lambda case: case.name)
def test_attack(cell: Cell, case: Case) -> None:
    outcome = cell.run(case.run.__module__, case.name)
    assert outcome.how in ("raised", "returned", "died"), outcome.text
    reason = case.open_when(cell.config)
    got_through = outcome.how == "returned" or any(name in case.arrives for name in outcome.arrived)
    if outcome.how == "raised":
        assert outcome.errno in REFUSALS | set(case.errors), f"no refusal: {outcome}"
    if outcome.how == "died":
        assert case.dies, f"the attacker died of signal {outcome.value}"
    if reason is None:
        assert not got_through, f"{case.name} got through: {outcome}"
    else:
        assert got_through, f"{case.name} is expected to be open ({reason}), but: {outcome}"


def test_there_are_enough_of_them() -> None:
    assert len(CASES) >= 120
    assert {case.kind for case in CASES.values()} >= {
        "read",
        "write",
        "mount",
        "terminal",
        "tcp",
        "udp",
        "unix",
        "signal",
    }


def test_what_stays_open_in_the_full_configuration_is_this() -> None:
    assert sorted(name for name, case in CASES.items() if case.open_when(FULL)) == [
        "key_by_hard_link_made_before",
        "lease_outside",
        "lock_outside",
        "number_of_the_strangers_descriptors",
        "strangers_command_line",
        "watch_hidden_directory",
    ]


def test_every_open_hole_has_a_reason() -> None:
    assert all(len(case.open_when(BARE) or "a reason of some length") > 15 for case in CASES.values())
