"""A whole session where no user namespace can be had: Landlock and seccomp alone, and it says so."""

from __future__ import annotations

import json

from world import World

X = "/home/dev/.local/state/nd7/bin/nd7-exec"
# A namespace in which none can be made below it, as Ubuntu's AppArmor rule or a container would have it.
LIMIT = (
    "echo 0 > /proc/sys/user/max_user_namespaces && "
    'exec setpriv --inh-caps=-all --ambient-caps=-all --bounding-set=-all "$@"'
)
NONE = ["unshare", "--user", "--map-current-user", "--keep-caps", "sh", "-c", LIMIT, "sh"]


def test_the_same_rules_and_what_is_lacking_is_said(world: World):
    world.write("/home/dev/.ssh/id", "secret")
    script = f"{X} -c 'echo a > inside; echo x > ~/outside; cat ~/.ssh/id'; echo y > ~/z; echo end"
    done = world.run([*NONE, "nd7", "run", "bash", "-c", script])
    assert (done.code, done.out) == (0, "end\n")
    assert "not in force: no user namespace" in done.err.splitlines()[0]
    assert done.err.count("Permission denied") == 3 and "secret" not in done.err
    assert world.read("inside") == "a\n"
    assert not world.exists("/home/dev/outside") and not world.exists("/home/dev/z")


def test_a_terminal_with_job_control_a_grant_and_a_green_canary(world: World):
    world.mkdir("/home/dev/extra")
    screen = world.terminal([*NONE, "nd7", "run", "bash", "--norc", "-i"])
    screen.wait_for("bash-")
    screen.keys("sleep 100", "Enter", "C-z")
    screen.wait_for("Stopped")
    screen.keys("kill %1; tty", "Enter")
    screen.wait_for("/dev/pts/")
    (pid,) = (name for name in world.listdir("/home/dev/.nd7/sessions") if name.isdigit())
    record = f"/home/dev/.nd7/sessions/{pid}/record.json"
    world.wait(lambda: json.loads(world.read(record))["canary"].get("state") == "enforcing")
    assert world.run(["nd7", "allow", "/home/dev/extra"]).code == 0
    screen.keys(f"clear; {X} -c 'echo wide > ~/extra/f; cat ~/extra/f'", "Enter")
    screen.wait_for(lambda text: text.startswith("wide\n"))
    screen.keys("exit 4", "Enter")
    screen.wait_for("EXITED 4")
