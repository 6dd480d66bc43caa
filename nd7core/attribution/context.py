"""From a JSON object, as `nd7 explain --jsonl` reads it, to a failure."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from nd7core.attribution.failure import Failure, Platform, platform_named
from nd7core.errors import Nd7Error

_PATTERN = re.compile(r"(?:\*\*/|~/|/)?\.?[\w*-]+(?:[./][\w*.-]+)+|(?:\*\*/)?\.[A-Za-z][\w-]*")
_PROTECTED = re.compile(r"protect|unwritable|not writable|read-only|never", re.IGNORECASE)


class ContextError(Nd7Error):
    """An object that is no failure, and what is wrong with it."""


def _text(data: Mapping[str, Any], key: str, *, needed: bool = False) -> str:
    value = data.get(key)
    if value is None and not needed:
        return ""
    if not isinstance(value, str):
        raise ContextError(f"{key} is not a string" if key in data else f"no {key}")
    return value


def _platform(data: Mapping[str, Any]) -> Platform:
    """Whose kernel; of one whose errors nothing here knows, nothing can be said."""
    name = _text(data, "platform", needed=True)
    found = platform_named(name)
    if found == "linux" and not name.lower().startswith(("linux", "gnu/linux")):
        raise ContextError("platform is neither linux nor macos")
    return found


def _paths(value: object, key: str) -> tuple[str, ...]:
    if not isinstance(value, list) or not all(isinstance(item, str) for item in value):
        raise ContextError(f"{key} is not a list of strings")
    return tuple(value)


def _temp(value: object) -> tuple[str, ...] | None:
    """Temporary folders as a list; a sentence that only $TMPDIR is one means that no known folder is."""
    if isinstance(value, list):
        return _paths(value, "context.temp")
    if isinstance(value, str) and "only" in value:
        return ()
    return None


def _protected(context: Mapping[str, Any]) -> tuple[str, ...]:
    """What stays unwritable: the list `protected`, and the paths in a sentence `rules` that protects some."""
    given = _paths(context["protected"], "context.protected") if "protected" in context else ()
    rules = context.get("rules")
    if isinstance(rules, str) and len(rules) < 2000 and _PROTECTED.search(rules):
        given += tuple(_PATTERN.findall(rules))
    return given


def from_object(data: object) -> Failure:
    """A failure from `{platform, tool, command, exit_code, output, context: {project, home?, grants?}}`.

    Beside these, `context` may hold `cwd`, `temp` (a list of writable temporary folders) and `protected` (paths or
    name patterns that stay unwritable).

    Raises:
        ContextError: for anything that is no such object, naming the key.
    """
    if not isinstance(data, dict):
        raise ContextError("not an object")
    context = data.get("context")
    if not isinstance(context, dict):
        raise ContextError("context is not an object" if "context" in data else "no context")
    code = data.get("exit_code")
    if code is not None and (isinstance(code, bool) or not isinstance(code, int)):
        raise ContextError("exit_code is not a whole number or null")
    return Failure(
        platform=_platform(data),
        tool=_text(data, "tool", needed=True),
        command=_text(data, "command"),
        exit_code=code,
        output=_text(data, "output", needed=True),
        cwd=_text(context, "cwd"),
        project=_text(context, "project", needed=True),
        home=_text(context, "home"),
        grants=_paths(context["grants"], "context.grants") if context.get("grants") is not None else (),
        temp=_temp(context.get("temp")),
        protected=_protected(context),
    )
