"""Grants that a project's later sessions start with: `~/.nd7/grants.json`.

One object, `{"projects": {"<canonical project>": [grant, ...]}}`.  Only the person's own commands write
it; a confined process can neither read nor write `~/.nd7`.
"""

from __future__ import annotations

import json
import os
from typing import Any

from nd7core.paths import Places
from nd7core.private import PrivateError, open_directory, read_file, write_file
from nd7core.record import Grant, RecordError, grant_from, grant_to

_NAME = "grants.json"
_LIMIT = 4 * 1024 * 1024


def _load(directory: int) -> dict[str, Any]:
    try:
        data = json.loads(read_file(directory, _NAME, _LIMIT))
    except FileNotFoundError:
        return {"projects": {}}
    except (ValueError, RecursionError):
        raise PrivateError("~/.nd7/grants.json is damaged", hint="mend or remove it") from None
    if not isinstance(data, dict) or not isinstance(data.get("projects", {}), dict):
        raise PrivateError("~/.nd7/grants.json is damaged", hint="mend or remove it")
    data.setdefault("projects", {})
    return data


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
        directory = open_directory(places.nd7)
    except FileNotFoundError:
        return ()
    try:
        return tuple(_grants(_load(directory)["projects"].get(project)))
    finally:
        os.close(directory)


def every(places: Places) -> dict[str, tuple[Grant, ...]]:
    """What each project's sessions start with, by project.  Raises PrivateError like `project_grants`."""
    try:
        directory = open_directory(places.nd7)
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
    directory = open_directory(places.nd7)
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
        write_file(directory, _NAME, json.dumps(data, ensure_ascii=True, indent=1).encode("ascii") + b"\n")
        return True
    finally:
        os.close(directory)
