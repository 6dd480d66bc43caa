"""The recorded session that is shipped: a real log, whole, and of nobody's machine."""

from __future__ import annotations

import json
import re
from pathlib import Path

from nd7core.audit.verify import verify
from nd7tui.demo import recorded
from nd7tui.demo.stage import Stage


def test_its_chain_holds(tmp_path: Path) -> None:
    stage = Stage(str(tmp_path))
    recorded.play(stage)
    found = verify(str(Path(stage.places.state, "sessions", recorded.session_id())))
    assert found.ok, found.problem
    assert found.frames == len(recorded.frames()) > 20


def test_it_names_nothing_of_the_machine_that_made_it() -> None:
    text = b"".join(recorded.frames()).decode()
    paths = set(re.findall(r"/[\w.-]+/[\w./-]+", text))
    ours = (f"{recorded.HOME}/", "/bin/", "/usr/bin/", "/dev/", "/notes/", "/.ssh/", "/.cache/")
    assert sorted(path for path in paths if not path.startswith(ours)) == []
    assert {json.loads(line)["host"] for line in recorded.frames()} == {"demo"}
    bodies = [json.loads(line)["body"] for line in recorded.frames()]
    assert {body["cwd"] for body in bodies if "cwd" in body} == {f"{recorded.HOME}/app"}
