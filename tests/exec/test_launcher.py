"""The launchers that commands and hooks start, and what they say where there is no session."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from nd7exec import launcher

NONE = b"nd7-exec: no nd7 session in this process's ancestry\n"


@pytest.fixture
def launchers(tmp_path):
    return launcher.write(str(tmp_path / "state"))


def test_private_complete_and_written_once(launchers, tmp_path):
    directory = tmp_path / "state/bin"
    assert directory.stat().st_mode & 0o777 == 0o700
    assert sorted(os.listdir(directory)) == ["client.py", "nd7-exec", "nd7-record", "nd7-shell"]
    before = (directory / "nd7-exec").stat().st_ino
    launcher.write(str(tmp_path / "state"))
    assert (directory / "nd7-exec").stat().st_ino == before
    (directory / "nd7-exec").write_text("#!/bin/sh\nexec sh\n")
    launcher.write(str(tmp_path / "state"))
    assert "marshal" in (directory / "nd7-exec").read_text()


def test_a_link_in_the_launchers_place_is_replaced_and_not_followed(launchers, tmp_path):
    (tmp_path / "other").write_text("keep")
    os.unlink(launchers.execute)
    os.symlink(tmp_path / "other", launchers.execute)
    launcher.write(str(tmp_path / "state"))
    assert (tmp_path / "other").read_text() == "keep"
    assert not os.path.islink(launchers.execute)


def test_outside_a_session_nothing_runs(launchers, tmp_path):
    for environ in ({}, {"AI_AGENT": "claude-code_2-1-197_harness"}, {"AI_AGENT": "claude-code_2-1-197_agent"}):
        done = subprocess.run(
            [launchers.execute, "-c", f"touch {tmp_path}/ran"], capture_output=True, env={**os.environ, **environ}
        )
        assert (done.returncode, done.stderr, done.stdout) == (126, NONE, b"")
    assert not (tmp_path / "ran").exists()


@pytest.mark.parametrize("arguments", [[], ["-c"], ["-c", "a", "b"], ["-x", "a"], ["a"], ["--help"], ["-ca"]])
def test_anything_but_minus_c_and_a_command_is_usage(launchers, arguments):
    done = subprocess.run([launchers.execute, *arguments], capture_output=True)
    assert (done.returncode, done.stdout) == (2, b"")
    assert done.stderr.startswith(b"usage: nd7-exec -c")


def test_the_hook_says_why_and_ends_well(launchers):
    done = subprocess.run([launchers.record], input=b"{}", capture_output=True)
    assert (done.returncode, done.stdout) == (0, b"")
    assert done.stderr == b"nd7 record: not in an nd7 session\n"


def test_another_python_uses_the_source(launchers, tmp_path):
    path = Path(launchers.execute)
    path.write_text(path.read_text().replace(str(sys.hexversion), "1"))
    done = subprocess.run([launchers.execute, "-c", "true"], capture_output=True)
    assert (done.returncode, done.stderr) == (126, NONE)


def test_a_path_that_no_shebang_can_carry_goes_through_sh(tmp_path, monkeypatch):
    odd = tmp_path / "a python"
    odd.symlink_to(launcher.interpreter())
    monkeypatch.setattr(launcher, "interpreter", lambda: str(odd))
    found = launcher.write(str(tmp_path / "state"))
    done = subprocess.run([found.execute, "-c", "true"], capture_output=True)
    assert (done.returncode, done.stderr) == (126, NONE)


def test_only_builtin_modules_are_imported_on_the_way_of_a_command(launchers):
    code = (
        "import sys; sys.argv=['nd7-exec', '-x']; before=set(sys.modules)\n"
        "import posix; posix._exit=lambda n: print(sorted(set(sys.modules)-before))\n"
        f"exec(open({launchers.execute!r}).read())"
    )
    done = subprocess.run([launcher.interpreter(), "-IS", "-c", code], capture_output=True, text=True)
    loaded = set(json.loads(done.stdout.splitlines()[0].replace("'", '"')))
    assert loaded <= {"_socket", "_signal", "errno", "marshal", "posix", "time"}, loaded
