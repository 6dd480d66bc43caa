"""`nd7 demo`, played for real: the supervisor, the kernel, the log, the dashboard in a terminal; nothing is left."""

from __future__ import annotations

import contextlib
import os
import re
import signal
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from world import World

EXPECTED = [
    ("Note the release", "kernel", "write ~/notes/releases.txt", "nd7 allow ~/notes"),
    ("Cache a download", "kernel", "write ~/.cache/builder", "nd7 allow ~/.cache/builder"),
    ("Look for a deploy key", "kernel", "read ~/.ssh/id_ed25519", "no grant helps"),
    ("Ask the dev server", "kernel", "network localhost:3000", "no grant helps"),
    ("Read a file that is not there", "no denial of nd7's", "", ""),
    ("Write a file beside the project", "kernel", "write ~/notes/todo.md", "restart the session"),
    ("Go on while the policy file is away", "nd7-exec", "", "session has no policy.sb"),
]


# The same demo on a machine whose user namespaces are switched off.
WITHOUT_NAMESPACES = """
import sys
from nd7tui.demo import drive
from nd7tui.cli import main
drive.START = drive.START.replace("from nd7tui.demo", WHY + "from nd7tui.demo")
sys.exit(main(["demo", "--plain"]))
""".replace("WHY", repr("from nd7exec.linux import namespaces\nnamespaces.usable = lambda: 'switched off'\n"))


HERE: dict[str, str | None] = {"TMPDIR": "/tmp"}  # the world's own, which nobody else has


def nothing_is_left(world: World) -> None:
    """No process, no file of the demo, nothing of nd7's in the person's own home."""
    world.wait(lambda: not running(world), 30, lambda: running(world))
    assert [name for name in world.listdir("/tmp") if name.startswith("nd7-demo")] == []
    assert world.listdir(world.home) == ["project"]


def running(world: World) -> dict[int, str]:
    """What runs of the demo: not the test's own tmux."""
    return {pid: line for pid, line in world.processes().items() if "nd7" in line and "tmux" not in line}


def part(text: str, title: str) -> str:
    """What the demo printed of one step."""
    return text.partition(f"● {title}\n")[2].partition("\n●")[0]


def test_plain_says_of_each_call_where_it_was_refused(world: World) -> None:
    done = world.run(["nd7", "demo", "--plain"], timeout=90, env=HERE)
    assert done.code == 0, done.out + done.err
    assert "Landlock" in done.out.splitlines()[0]
    assert "▲" not in part(done.out, "Build in the project")
    for title, source, target, remedy in EXPECTED:
        told = part(done.out, title)
        assert re.search(f"[▲◆·] {source} ", told), f"{title}: {told}"
        assert target in told, title
        assert remedy in told, title
    assert "▲" not in part(done.out, "Go on once it is back").partition("The build is done")[0]
    assert "○ model report (reported)" in done.out
    after = done.out.partition("▶ you")[2]
    assert "▲" not in after
    assert "Granted, tried again, and it passes." in after
    assert "/home/dev" not in done.out
    nothing_is_left(world)


def test_it_plays_without_namespaces_too(world: World) -> None:
    done = world.run([sys.executable, "-P", "-c", WITHOUT_NAMESPACES], timeout=90, env=HERE)
    assert done.code == 0, done.out + done.err
    assert "no user namespace (switched off)" in done.out.splitlines()[0]
    assert "canary" not in done.out
    for title, source, target, _ in EXPECTED:
        told = part(done.out, title)
        assert re.search(f"[▲◆·] {source} ", told), f"{title}: {told}"
        assert target in told, title
    assert "Granted, tried again, and it passes." in done.out
    nothing_is_left(world)


def test_plain_ends_with_its_reader(world: World) -> None:
    done = world.run(["sh", "-c", "nd7 demo --plain | head -3"], timeout=60, env=HERE)
    assert "Traceback" not in done.err
    assert len(done.out.splitlines()) == 3
    nothing_is_left(world)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP, signal.SIGINT])
def test_a_signal_ends_it_whole(world: World, number: signal.Signals) -> None:
    playing = world.start(["nd7", "demo", "--plain"], env=HERE)
    world.wait(lambda: world.listdir("/tmp/nd7-demo/home/.nd7/sessions"))
    time.sleep(0.3)
    playing.send_signal(number)
    out, err = playing.communicate(timeout=30)
    assert playing.returncode != 0
    assert b"Traceback" not in err + out
    nothing_is_left(world)


def test_it_ends_with_a_dashboard_that_was_killed(world: World) -> None:
    playing = world.start(["nd7", "demo", "--plain"], env=HERE)
    world.wait(lambda: world.listdir("/tmp/nd7-demo/home/.nd7/sessions"))
    playing.kill()
    playing.wait()
    nothing_is_left(world)


@pytest.mark.parametrize("size", [(80, 24), (120, 36)])
def test_one_key_lets_the_refused_write_through(world: World, size: tuple[int, int]) -> None:
    screen = world.terminal(["nd7", "demo"], size=size, env=HERE)
    screen.wait_for("the agent waits: grant one of its refusals", 60)
    screen.keys("Home")
    screen.wait_for(lambda text: re.search(r"▲ kernel +~/notes/releases.txt +□ open", text))
    screen.keys("g")
    screen.wait_for(lambda text: re.search(r"▲ kernel +~/notes/releases.txt +■ proved", text))
    written = "v0 released\nv1 released\n"
    world.wait(lambda: world.read("/tmp/nd7-demo/home/notes/releases.txt") == written, 20, screen.screen)
    screen.keys("u")
    screen.wait_for(lambda text: re.search(r"▲ kernel +~/notes/releases.txt +(□ open|. repeated)", text))
    time.sleep(2)
    assert world.read("/tmp/nd7-demo/home/notes/releases.txt") == written
    screen.keys("q")
    screen.wait_for("EXITED 0")
    nothing_is_left(world)


def test_leaving_at_once_leaves_nothing(world: World) -> None:
    screen = world.terminal(["nd7", "demo"], env=HERE)
    screen.wait_for("all sessions")
    screen.keys("q")
    screen.wait_for("EXITED 0")
    nothing_is_left(world)


def test_a_dashboard_that_is_asked_to_end_ends(world: World) -> None:
    screen = world.terminal(["nd7", "demo"], env=HERE)
    screen.wait_for("~/notes/releases.txt", 60)
    for pid, line in world.processes().items():
        if "nd7tui.cli demo" in line and "tmux" not in line and "sh -c" not in line:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGTERM)
    screen.wait_for("EXITED 143")
    nothing_is_left(world)


def test_closing_its_terminal_ends_it(world: World) -> None:
    screen = world.terminal(["nd7", "demo"], env=HERE)
    screen.wait_for("~/notes/releases.txt", 60)
    screen.close()
    nothing_is_left(world)


def test_keys_that_would_reach_out_of_the_demo_say_so(world: World) -> None:
    screen = world.terminal(["nd7", "demo"], env=HERE)
    screen.wait_for("the agent waits: grant one of its refusals", 60)
    for keys, said in (
        (["n"], "not in a demo"),
        (["r"], "not in a demo"),
        (["BTab", "Down", "Enter"], "has no screen"),
    ):
        screen.keys(*keys)
        screen.wait_for(said)
    screen.keys("q")
    screen.wait_for("EXITED 0")
    nothing_is_left(world)


def test_the_recorded_session_in_lines(world: World) -> None:
    done = world.run(["nd7", "demo", "--plain", "--recorded"], env=HERE)
    assert done.code == 0, done.err
    for _, source, target, _ in EXPECTED:
        assert source in done.out
        assert target in done.out
    assert "model report" in done.out
    nothing_is_left(world)


def test_the_recorded_session_in_the_dashboard(world: World) -> None:
    screen = world.terminal(["nd7", "demo", "--recorded"], env=HERE)
    screen.wait_for(lambda text: re.search(r"▲ kernel +~/notes/releases.txt +□ open", text), 60)
    screen.wait_for(lambda text: re.search(r"◆ nd7-exec ls build", text), 60)
    screen.wait_for(lambda text: re.search(r"○ model +registry.internal:8443", text), 60)
    screen.wait_for(lambda text: re.search(r"▲ kernel +~/notes/releases.txt +■ proved", text), 60)
    screen.keys("q")
    screen.wait_for("EXITED 0")
    nothing_is_left(world)


def test_it_is_printed_in_any_encoding(world: World) -> None:
    for env in ({"PYTHONIOENCODING": "ascii"}, {"LC_ALL": "C"}, {"LC_ALL": "POSIX", "PYTHONUTF8": "0"}):
        done = world.run(["nd7", "demo", "--plain", "--recorded"], env={**HERE, **env})
        assert (done.code, done.err) == (0, ""), env
        assert "kernel (matched)" in done.out
    done = world.run(["nd7", "demo", "--plain"], env={**HERE, "PYTHONIOENCODING": "latin-1", "LC_ALL": "POSIX"})
    assert done.code == 0, done.err + done.out


def test_a_machine_that_cannot_confine_is_told_so_and_shown_the_recording(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    from nd7exec.linux import confinement
    from nd7tui import cli

    none = confinement.Support(abi=0, errata=0, userns=False, notify=True)
    monkeypatch.setattr(confinement, "supported", lambda: none)
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    assert cli.main(["demo", "--plain"]) == 0
    shown = capsys.readouterr()
    assert "no Landlock" in shown.err
    assert "recorded session" in shown.err
    assert "▲ kernel (matched)" in shown.out
    assert list(tmp_path.iterdir()) == []


def test_without_a_terminal_it_says_what_works(world: World) -> None:
    done = world.run(["nd7", "demo"], env=HERE)
    assert (done.code, done.out) == (2, "")
    assert "--plain" in done.err


def test_a_temp_directory_that_cannot_be_used_is_no_traceback(world: World) -> None:
    done = world.run(["nd7", "demo", "--plain"], env={"TMPDIR": "/proc"})
    assert done.code == 0, done.err  # another one is found
    assert "Traceback" not in done.err
