"""What `--json` writes is what the help and the man page say it writes: every field, and no other."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hardship import HOOK
from world import World

from nd7tui import manual
from nd7tui.cli import COMMANDS
from nd7tui.json_fields import SHAPES, described
from nd7tui.usage import command


def keys_of(value: dict[str, Any], shape: list[str]) -> set[str]:
    """The names of an object's fields, those inside with the names of what they are inside of, as `shape` goes down."""
    found: set[str] = set()
    for name, inner in value.items():
        found.add(name)
        if isinstance(inner, list) and any(known.startswith(f"{name}[].") for known in shape):
            assert inner, name
            found |= {f"{name}[].{key}" for item in inner for key in keys_of(item, inside(f"{name}[].", shape))}
        elif isinstance(inner, dict) and any(known.startswith(f"{name}.") for known in shape):
            found |= {f"{name}.{key}" for key in keys_of(inner, inside(f"{name}.", shape))}
            found.discard(name)
    return found


def inside(prefix: str, shape: list[str]) -> list[str]:
    return [known.removeprefix(prefix) for known in shape if known.startswith(prefix)]


def check(name: str, objects: list[dict[str, Any]], without: tuple[str, ...] = ()) -> None:
    """Each object has the fields that stand in the table, but for those that may be left out."""
    fields = SHAPES[name].fields
    shape = [field.name for field in fields]
    needed = {field.name for field in fields if not field.sometimes} - set(without)
    assert objects
    for found in objects:
        keys = keys_of(found, shape)
        assert keys - set(shape) == set(), f"nd7 {name}: undocumented"
        assert needed - keys == set(), f"nd7 {name}: documented, but not there"


def test_every_command_that_has_json_is_in_the_table() -> None:
    having = {name for name in COMMANDS if any("--json" in option.names for option in command(name).options)}
    assert set(SHAPES) == having | {"export"}


def test_help_and_man_page_name_every_field(capsys: pytest.CaptureFixture[str]) -> None:
    from nd7tui.cli import main

    page = manual.page()
    for name, shape in SHAPES.items():
        with pytest.raises(SystemExit):
            main([name, "--help"])
        told = capsys.readouterr().out
        for field in shape.fields:
            assert f"  {field.name} " in told and described(field) in told, (name, field)
            assert manual.roff(field.name) in page and manual.roff(described(field)) in page, (name, field)


def test_what_is_written_is_what_is_documented(world: World) -> None:
    """One session in a world, and every command with `--json` about it."""

    def told(*words: str, code: int = 0) -> Any:
        done = world.run(["nd7", *words])
        assert done.code == code, done
        return json.loads(done.out)

    call = {"session_id": "s-1", "cwd": world.project, "tool_name": "Bash", "tool_use_id": "t1"}
    call |= {"tool_input": {"command": "touch /srv/x"}, "hook_event_name": "PreToolUse"}
    error = {"hook_event_name": "PostToolUseFailure", "error": "touch: cannot touch '/srv/x': Permission denied"}
    world.write("before", json.dumps(call))
    world.write("after", json.dumps(call | error))
    script = f"for p in before after; do {HOOK} < $p; done; while [ ! -e over ]; do sleep 0.1; done"
    session = world.start(["nd7", "run", "bash", "-c", script])
    pid = world.wait(lambda: [name for name in world.listdir(world.home + "/.nd7/sessions") if name.isdigit()])[0]
    world.wait(lambda: "touch" in world.run(["nd7", "denials", "--all", "--json"]).out)
    world.run(["mkdir", world.home + "/own"])

    check("allow", [told("allow", world.home + "/own", "--project", "--json")])
    check("grants", told("grants", "--json"))
    check("sessions", told("sessions", "--json"))
    check("why", [told("why", "/srv", "--json"), told("why", "localhost:22", "--json")])
    check("doctor", [told("doctor", "--json")])
    check("verify", [told("verify", "s-1", "--json")])
    check("export", told("export"))
    lines = world.run(["nd7", "denials", "--all", "--json"]).out.splitlines()
    check("denials", [json.loads(line) for line in lines])
    explained = world.run(["bash", "-c", "echo 'touch: cannot touch /srv/x: Permission denied' | nd7 explain --json"])
    check("explain", [json.loads(explained.out)])
    check("deny", [told("deny", world.home + "/own", "--json")])

    told("allow", world.home + "/own", "--project", "--json")
    world.write("over", "")
    assert session.wait() == 0
    later = told("deny", world.home + "/own", "--json")
    assert set(later) == {"session", "path", "changed", "projects"}
    assert pid.isdigit()


def test_attaching(world: World) -> None:
    session = world.run(["nd7", "run", "--detach", "sh", "-c", "echo ready; read line; exit 3"])
    pid = session.out.strip()
    screen = world.terminal(["bash", "-c", f"nd7 attach {pid} --json > told; cat told; sleep 60"], size=(100, 24))
    screen.wait_for("ready")
    screen.keys("Enter", pause=0.5)
    world.wait(lambda: world.path("told").exists() and world.read("told").endswith("}\n"), what=screen.screen)
    found = json.loads(world.read("told"))
    check("attach", [found])
    assert found == {"session": int(pid), "detached": False, "status": 3}
