"""Grants that later sessions start with: `~/.nd7/grants.json`.

One object: `projects` holds for each canonical project the grants given "for this project", `ended` for
each agent session id what its last session had when it ended, so that `--resume` comes back with it.
Only nd7 outside the sandbox writes it; a confined process can neither read nor write `~/.nd7`.
"""

from __future__ import annotations

import json
import os
from typing import Any, cast

from nd7core.paths import Places
from nd7core.private import PrivateError, open_directory, read_file, write_file
from nd7core.record import Grant, Record, RecordError, grant_from, grant_to

_NAME = "grants.json"
_LIMIT = 4 * 1024 * 1024
_MOST_ENDED = 300
"""Ended sessions remembered; an older one is resumed without its grants."""
_MOST_OF_ONE = 16
"""Of one `nd7 run`, its latest: a session may name as many as it likes, and those of others would be forgotten."""


def _open(places: Places) -> int:
    try:
        return open_directory(places.nd7)
    except PermissionError:
        raise PrivateError("~/.nd7 cannot be read") from None


def _load(directory: int) -> dict[str, Any]:
    try:
        data = json.loads(read_file(directory, _NAME, _LIMIT))
    except FileNotFoundError:
        return {"projects": {}, "ended": {}}
    except (ValueError, RecursionError):
        raise PrivateError("~/.nd7/grants.json is damaged", hint="mend or remove it") from None
    for key in ("projects", "ended"):
        if not isinstance(data, dict) or not isinstance(data.setdefault(key, {}), dict):
            raise PrivateError("~/.nd7/grants.json is damaged", hint="mend or remove it")
    return cast(dict[str, Any], data)


def _save(directory: int, data: dict[str, Any]) -> None:
    write_file(directory, _NAME, json.dumps(data, ensure_ascii=True, indent=1).encode("ascii") + b"\n")


def _grants(items: object) -> list[Grant]:
    found: list[Grant] = []
    for item in items if isinstance(items, list) else []:
        try:
            found.append(grant_from(item))
        except RecordError:
            # One entry that cannot be read grants nothing; the others stand.
            continue
    return found


def project_grants(places: Places, project: str) -> tuple[Grant, ...]:
    """What a session of this project starts with.

    Raises:
        PrivateError: the file is damaged or not only its owner's.
    """
    try:
        directory = _open(places)
    except FileNotFoundError:
        return ()
    try:
        return tuple(_grants(_load(directory)["projects"].get(project)))
    finally:
        os.close(directory)


def every(places: Places) -> dict[str, tuple[Grant, ...]]:
    """What each project's sessions start with, by project.  Raises PrivateError like `project_grants`."""
    try:
        directory = _open(places)
    except FileNotFoundError:
        return {}
    try:
        return {project: tuple(_grants(items)) for project, items in _load(directory)["projects"].items()}
    finally:
        os.close(directory)


def keep(places: Places, project: str, grant: Grant | None, path: str) -> bool:
    """Put a grant into the file, or with None take the path out; returns whether anything changed.

    The caller holds the sessions' lock (`sessions.update`), which is the one lock of all writers.
    """
    directory = _open(places)
    try:
        data = _load(directory)
        old = _grants(data["projects"].get(project))
        new = [one for one in old if one.path != path]
        if grant is not None:
            new.append(grant)
        if new == old:
            return False
        data["projects"][project] = [grant_to(one) for one in new]
        if not new:
            del data["projects"][project]
        _save(directory, data)
        return True
    finally:
        os.close(directory)


def remember(places: Places, record: Record, now: int) -> None:
    """Note what a session had when it ended, under its agent's session ids.  The caller holds the sessions' lock."""
    kept = [grant_to(grant) for grant in record.granted(now) if grant.scope != "once"]
    if not record.agent_sessions:
        return
    # The conversation that the agent chose keeps what it had where this session was granted nothing.
    own = record.agent_sessions[-_MOST_OF_ONE:]
    names = dict.fromkeys((*([record.chosen] if record.chosen and kept else []), *own))
    directory = _open(places)
    try:
        data = _load(directory)
        ended: dict[str, Any] = data["ended"]
        changed = False
        for name in names:
            before = ended.get(name)
            if isinstance(before, dict) and before.get("project") != record.project:
                continue  # a payload may name any session: what another project's had is not this one's to change
            changed = ended.pop(name, None) is not None or changed
            if kept:
                # Put at the end: the oldest stand first and go first.
                ended[name] = {"project": record.project, "grants": kept}
                changed = True
        for name in list(ended)[: max(0, len(ended) - _MOST_ENDED)]:
            del ended[name]
        if changed:
            _save(directory, data)
    finally:
        os.close(directory)


def ended_with(places: Places, project: str, agent_session: str) -> tuple[Grant, ...]:
    """What the agent's session had when it ended, if it was in this project.  Raises like `project_grants`."""
    try:
        directory = _open(places)
    except FileNotFoundError:
        return ()
    try:
        item = _load(directory)["ended"].get(agent_session)
        if not isinstance(item, dict) or item.get("project") != project:
            return ()
        return tuple(_grants(item.get("grants")))
    finally:
        os.close(directory)
