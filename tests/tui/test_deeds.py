"""What a key did, told on the bottom line."""

from __future__ import annotations

import os
from pathlib import Path

from nd7core import process, sessions
from nd7core.paths import places_of
from nd7core.policy import build
from nd7core.record import Record
from nd7tui.deeds import Wish, forget, grant, take_back
from nd7tui.ingest import Ingest


def test_a_path_in_the_home_is_shown_short_so_that_what_follows_has_room(tmp_path: Path) -> None:
    where = places_of(os.path.realpath(tmp_path))
    (tmp_path / "notes").mkdir()
    for name in ("todo.md", "wifi-password.txt"):
        (tmp_path / "notes" / name).write_text("x")
    record = Record(
        project=f"{where.home}/app",
        home=where.home,
        state=where.state,
        pid=os.getpid(),
        owner_start=process.start_time(os.getpid()) or "",
    )
    sessions.create(where, record, build(record))
    done = grant(where, Wish(os.getpid(), f"{where.home}/notes"))
    assert done.ok and done.said == "~/notes: granted (2 files, 1 looks like a secret); the next Bash command has it"
    assert done.deed.command == f"nd7 allow --session {os.getpid()} {where.home}/notes"  # to be typed: in full
    done = take_back(where, os.getpid(), f"{where.home}/notes")
    assert done.ok and done.said == "~/notes: taken back; the next Bash command is without it"
    grant(where, Wish(os.getpid(), f"{where.home}/notes", "project"))
    sessions.remove(where, os.getpid())
    (kept,) = Ingest(where, lambda: None).once().kept or ()
    assert (kept.pid, kept.path, kept.project) == (0, f"{where.home}/notes", record.project)
    done = forget(where, f"{where.home}/notes", record.project)
    assert done.ok and done.said == "~/notes: taken back; later sessions in ~/app start without it"
    assert not forget(where, f"{where.home}/notes", record.project).ok
