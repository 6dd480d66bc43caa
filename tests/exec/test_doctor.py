"""`nd7 doctor`: what it finds on this machine, and on one where things are wrong."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest
from world import World

from nd7core.audit.log import Log, log_directory
from nd7core.paths import places_of
from nd7exec import doctor
from nd7exec.doctor import Check, examine
from nd7exec.linux import bpf, handover, landlock, namespaces


@pytest.fixture
def home(tmp_path: Path) -> Path:
    home = tmp_path / "home"
    home.mkdir(mode=0o755)
    return home


def checks(home: Path, **environ: str) -> dict[str, Check]:
    return {check.name: check for check in examine(places_of(str(home)), {"PATH": "/nowhere", **environ})}


def program(home: Path, text: str) -> str:
    place = home / "bin"
    place.mkdir()
    (place / "claude").write_text(f"#!/bin/sh\n{text}\n")
    (place / "claude").chmod(0o755)
    return f"{place}:/usr/bin:/bin"


def test_everything_is_looked_at(home: Path) -> None:
    found = checks(home)
    assert " ".join(found) == (
        "kernel Landlock namespaces seccomp agent sessions permissions nd7 itself logs disk clock"
    )
    for check in found.values():
        assert check.found
        assert check.state == "ok" or (check.means and (check.mend or check.name == "kernel")), check


def test_it_says_what_the_machine_has(home: Path) -> None:
    found = checks(home)
    assert found["Landlock"].found == f"version {landlock.kernel_abi()}"
    assert (found["namespaces"].state == "ok") == (namespaces.usable() == "")
    assert found["seccomp"].state == "ok"


def test_looking_changes_nothing(home: Path) -> None:
    checks(home)
    assert list(home.iterdir()) == []


@pytest.mark.parametrize(("abi", "state"), [(0, "missing"), (1, "degraded"), (5, "degraded"), (6, "ok"), (99, "ok")])
def test_landlock_versions(home: Path, monkeypatch: pytest.MonkeyPatch, abi: int, state: str) -> None:
    monkeypatch.setattr(landlock, "kernel_abi", lambda: abi)
    found = checks(home)["Landlock"]
    assert found.state == state
    assert bool(found.means) == (state != "ok")


def test_without_namespaces_it_lists_what_stays_open_and_what_mends_it(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(namespaces, "usable", lambda: "mount a tmpfs: Permission denied")
    monkeypatch.setattr(doctor, "_read", lambda path: "1" if "apparmor" in path else "")
    found = checks(home)["namespaces"]
    assert found.state == "degraded"
    assert "names in ~/.ssh can be listed" in found.means
    assert "userns," in found.mend and "apparmor_parser -r" in found.mend
    monkeypatch.setattr(doctor, "_read", lambda path: "0")
    assert checks(home)["namespaces"].mend == "sudo sysctl -w kernel.unprivileged_userns_clone=1"


def test_inside_another_sandbox_with_a_listener(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bpf, "listener_free", lambda: False)
    assert checks(home)["seccomp"].state == "missing"


def test_where_children_may_not_be_looked_at(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert handover.may_look() == ""
    monkeypatch.setattr(handover, "may_look", lambda: "pidfd_getfd: Operation not permitted")
    for scope, mend in (("3", "ptrace_scope=1"), ("1", "--cap-add SYS_PTRACE")):
        monkeypatch.setattr(doctor, "_read", lambda path, scope=scope: scope)
        found = checks(home)["tracing"]
        assert found.state == "missing"
        assert mend in found.mend


def test_the_agents_version(home: Path) -> None:
    path = program(home, f"echo '{doctor.MEASURED} (Claude Code)'")
    found = checks(home, PATH=path)["agent"]
    assert (found.state, found.found) == ("ok", f"claude {doctor.MEASURED} ({home}/bin/claude)")


@pytest.mark.parametrize("text", ["echo 9.9.9", "exit 3", "echo nonsense", "printf '\\377\\033[2J'"])
def test_an_agent_of_another_version_or_of_none(home: Path, text: str) -> None:
    assert checks(home, PATH=program(home, text))["agent"].state == "degraded"


def test_an_agent_that_does_not_answer(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(doctor, "_VERSION_SECONDS", 0.2)
    assert checks(home, PATH=program(home, "exec sleep 60"))["agent"].state == "degraded"


def test_a_home_that_others_can_write(home: Path) -> None:
    home.chmod(0o777)
    found = checks(home)["permissions"]
    assert found.state == "missing"
    assert found.mend.startswith("chmod go-w")


def test_a_log_that_others_can_read(home: Path) -> None:
    state = home / ".local/state/nd7"
    state.mkdir(parents=True)
    state.chmod(0o755)
    found = checks(home)["permissions"]
    assert (found.state, found.mend) == ("degraded", f"chmod 700 {state}")


def test_a_clock_that_went_back(home: Path) -> None:
    log = home / ".local/state/nd7/sessions/a"
    log.mkdir(parents=True, mode=0o700)
    os.utime(log, (4e9, 4e9))
    assert checks(home)["clock"].state == "degraded"


def test_an_installation_that_every_session_could_rewrite(home: Path) -> None:
    """In the temp directory: `nd7 run` starts nothing in any project."""
    where = os.path.dirname(os.path.dirname(doctor.__file__))
    found = checks(home, TMPDIR=where)["nd7 itself"]
    assert found.state == "missing" and where in found.found
    assert "`nd7 run` starts no session" in found.means and "install nd7 outside of it" in found.mend


def test_a_full_disk(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    real = os.statvfs(home)

    def full(path: str) -> os.statvfs_result:
        fields = list(real)
        fields[4] = 10
        return os.statvfs_result(fields)

    monkeypatch.setattr(os, "statvfs", full)
    assert checks(home)["disk"].state == "missing"


def test_the_command(world: World) -> None:
    done = world.run(["nd7", "doctor", "--json"])
    told = json.loads(done.out)
    assert done.code == (0 if told["ok"] else 1)
    assert {row["name"]: row["state"] for row in told["checks"]}["Landlock"] in ("ok", "degraded")
    plain = world.run(["nd7", "doctor"])
    assert plain.code == done.code
    assert all(line.startswith(("ok ", "degraded", "missing", " ")) for line in plain.out.splitlines())


def test_a_live_session_is_looked_at(world: World) -> None:
    world.start(["nd7", "run", "sleep", "60"])
    world.wait(lambda: world.listdir(world.home + "/.nd7/sessions"))

    def settled() -> bool:
        rows = json.loads(world.run(["nd7", "doctor", "--json"]).out)["checks"]
        return any(row["name"].startswith("session ") and row["state"] == "ok" for row in rows)

    world.wait(settled)


def test_a_damaged_log_is_found(home: Path) -> None:
    state = places_of(str(home)).state
    for name in ("5b1d-a", "77aa-b"):
        log = Log(log_directory(state, name))
        log.append("note", {"text": "out2"}, source="s")
    assert checks(home)["logs"].found == "the chains of the latest 2 hold"
    events = Path(log_directory(state, "77aa-b"), "events.ndjson")
    events.write_bytes(events.read_bytes().replace(b"out2", b"out3"))
    found = checks(home)["logs"]
    assert found.state == "degraded" and "77aa-b: frame 0" in found.found and "nd7 verify 77aa-b" in found.mend
