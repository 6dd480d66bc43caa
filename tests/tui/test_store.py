"""The store: what arrives, what is in view, what survives."""

from __future__ import annotations

from dataclasses import replace

import pytest
import tui_rows

from nd7tui import store as store_module
from nd7tui.filters import parse
from nd7tui.model import Batch, Deed, GrantRow
from nd7tui.store import Store


def filled() -> Store:
    store = Store()
    store.take(tui_rows.batch(), tui_rows.NOW)
    return store


def seen(store: Store) -> list[str]:
    return [store.row_at(place).id for place in range(len(store.view))]


def test_other_failures_are_there_on_demand() -> None:
    store = filled()
    assert "3f0c/3" not in seen(store)
    assert store.counts()["none"] == 3
    store.hidden.clear()
    store.refilter()
    assert "3f0c/3" in seen(store)


def test_new_rows_are_appended_and_changed_ones_stay_in_place() -> None:
    store = filled()
    before = seen(store)
    row = tui_rows.rows()[0]
    fresh = store.take(Batch([replace(row, state="granted"), replace(row, id="new")]), tui_rows.NOW)
    assert [row.id for row in fresh] == ["new"]
    assert seen(store) == [*before, "new"]
    changed = store.row(row.id)
    assert changed is not None and changed.state == "granted"


def test_logs_that_were_read_one_after_the_other_are_one_stream() -> None:
    store = Store()
    one = tui_rows.rows()[0]
    later, earlier = (replace(one, id=name, ts=ts) for name, ts in (("later", one.ts + 5), ("earlier", one.ts - 5)))
    store.take(Batch([one, later]), tui_rows.NOW)
    store.take(Batch([earlier], caught_up=True), tui_rows.NOW)
    assert seen(store) == ["earlier", one.id, "later"] and store.place_of("later") == 2
    store.take(Batch([replace(one, id="new", ts=one.ts - 9)], caught_up=True), tui_rows.NOW)
    assert seen(store)[-1] == "new"


def test_what_happens_again_goes_to_the_end() -> None:
    store = filled()
    before = seen(store)
    store.paused = True
    store.take(Batch([replace(tui_rows.rows()[0], count=4), replace(tui_rows.rows()[0], count=5)]), tui_rows.NOW)
    assert seen(store) == [*before[1:], before[0]]
    assert store.row_at(len(before) - 1).count == 5 and store.new == 1


def test_a_changed_row_leaves_a_view_that_it_no_longer_fits() -> None:
    store = filled()
    store.filter = parse("state:open")
    store.refilter()
    assert store.place_of("3f0c/1") == 0
    store.take(Batch([replace(tui_rows.rows()[0], state="granted")]), tui_rows.NOW)
    assert store.place_of("3f0c/1") is None


def test_one_session_alone() -> None:
    store = filled()
    store.only = "pid:5150"
    store.refilter()
    assert seen(store) == ["77aa/1"]
    assert dict(store.counts()) == {"kernel": 1}
    store.take(Batch(sessions=()), tui_rows.NOW)  # it has gone
    assert store.only == ""


def test_paused_counts_what_is_new_and_in_view() -> None:
    store = filled()
    store.paused = True
    row = tui_rows.rows()[0]
    quiet = tui_rows.rows()[3]
    store.take(Batch([replace(row, id="n1"), replace(quiet, id="n2")]), tui_rows.NOW)
    assert store.new == 1


def test_the_oldest_rows_go_when_there_are_too_many(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(store_module, "KEPT", 20)
    monkeypatch.setattr(store_module, "DROP_AT_ONCE", 5)
    store = Store()
    row = tui_rows.rows()[0]
    store.take(Batch([replace(row, id=str(n)) for n in range(21)]), 0)
    assert len(store.rows) == 15 and store.dropped == 6
    assert seen(store) == [str(n) for n in range(6, 21)]
    assert store.place_of("6") == 0 and store.row("5") is None


def test_sessions_are_listed_by_start_and_do_not_reshuffle() -> None:
    store = filled()
    order = [session.key for session in store.ordered()]
    assert order == ["pid:4242", "pid:5150", "log:9b1d"]
    api, shop, notes = tui_rows.sessions()
    store.take(Batch(sessions=(replace(api, activity="waiting"), replace(shop, activity="idle"), notes)), 0)
    assert [session.key for session in store.ordered()] == order


def test_the_last_grant_is_read_from_the_records() -> None:
    store = filled()
    last = store.last_grant()
    assert last is not None and last.path.endswith("/.cache/pip")
    # Another session's, made in a shell and newer, comes after the selected one's and after what was granted here.
    one, two, over = tui_rows.sessions()
    theirs = GrantRow(5150, "/shell", created=tui_rows.NOW)
    store.take(Batch(sessions=(one, replace(two, grants=(theirs,)), over)), 0)
    assert store.last_grant() == theirs and store.last_grant(one.key) == last
    store.made.add((last.pid, last.path))
    assert store.last_grant() == last == store.last_grant(two.key)
    store.take(Batch(sessions=()), 0)
    assert store.last_grant() is None


def test_what_later_sessions_start_with_is_there_when_none_of_the_project_runs() -> None:
    store = filled()
    (live,) = store.grants()
    project = tui_rows.sessions()[0].project
    kept = (GrantRow(0, live.path, "project", project=project), GrantRow(0, "/cache", "project", project="/h/old"))
    store.take(Batch(kept=kept), 0)
    assert [(grant.pid, grant.path) for grant in store.grants() if grant != live] == [(0, "/cache")]
    assert store.last_grant() == live  # u takes back what is in force


def test_what_u_would_take_back_is_said_beside_the_row_that_it_mends() -> None:
    store = filled()
    uv, pip = tui_rows.rows()[:2]
    assert store.undo_of(pip) == f"{tui_rows.HOME}/.cache/pip"
    assert store.undo_of(uv) == ""


def test_the_log_of_deeds_is_bounded() -> None:
    store = Store()
    for n in range(store_module.DEEDS_KEPT + 10):
        store.did(Deed(n, "grant", "nd7 allow /x", "done"))
    assert len(store.deeds) == store_module.DEEDS_KEPT and store.deeds[0].ts == 10
