"""How Claude Code words what came of a tool call (2.1.197, measured): the one place that knows its phrases.

Everything read here is hostile text; nothing in here decides more than how a call is shown.
"""

from __future__ import annotations

import re
from typing import NamedTuple

_EXIT = re.compile(r"Exit code (\d{1,3})(?:\n|\Z)")
_TASK = re.compile(r"Command running in background with ID: ([A-Za-z0-9_-]{1,64})")
_ERROR = re.compile(r"<tool_use_error>(.*?)(?:</tool_use_error>|\Z)", re.DOTALL)
_FILE_ERROR = re.compile(r"E[A-Z]{2,15}: |File does not exist\.")

_REJECTED_PERSON = (
    "The user doesn't want to proceed with this tool use",
    "The user doesn't want to take this action right now",
    "User rejected tool use",
)
# Beginnings only, and a bound on what stands between: the text may be megabytes.
_REJECTED_RULE = re.compile(
    r"Permission to use .{0,10000} has been denied"
    r"|This command requires approval"
    r"|This Bash command contains multiple operations\. The following parts? requires? approval"
    r"|Claude requested permissions to .{0,10000}, but you haven't granted it yet"
    r"|PreToolUse:\w{1,100} hook (?:error|stopped)"
    r"|PreToolUse hook for \w{1,100} returned"
    r"|.{0,10000} was blocked\. For security, Claude Code may only",
    re.DOTALL,
)
INTERRUPTED = "[Request interrupted by user"


def flat(response: object) -> str:
    """The text of a tool's answer: a string, a list of blocks, or the object of a Bash, Agent or web call.

    A file's content (Read, Write, Edit) is none: it is no output of anything that ran.
    """
    if type(response) is str:
        return response
    if type(response) is list:
        return "\n".join(text for block in response if type(block) is dict and type(text := block.get("text")) is str)
    if type(response) is dict:
        for key in ("stdout", "result", "error", "content", "output"):
            value = response.get(key)
            if type(value) is str and not (key == "content" and "filePath" in response):
                return value
            if type(value) is list:
                return flat(value)
    return ""


class Failure(NamedTuple):
    """A failed call's text taken apart: the exit code where it told one, the output, a remark."""

    exit_code: int | None
    output: str
    note: str


def read_failure(tool: str, text: str) -> Failure:
    """Take "Exit code N" and the error tags off a failure's text."""
    code, note = None, ""
    found = _EXIT.match(text) if tool == "Bash" else None
    if found is not None:
        code, text = int(found[1]), text[found.end() :]
        if code == 143 and text.startswith("Command timed out after"):
            note = "timed out"
    wrapped = _ERROR.match(text)
    return Failure(code, text if wrapped is None else wrapped[1], note)


def says_failed(tool: str, text: str) -> bool:
    """Whether a text that the model was given tells of a failure by its form."""
    if text.startswith("<tool_use_error>"):
        return True
    return (_EXIT.match(text) if tool == "Bash" else _FILE_ERROR.match(text)) is not None


def says_person_refused(text: str) -> bool:
    """The answer to Esc and to "No" alike."""
    return text.startswith(_REJECTED_PERSON)


def says_agent_refused(text: str) -> bool:
    """The agent's own rules, its hooks, or a missing approval."""
    return _REJECTED_RULE.match(text) is not None


def background_id(text: str) -> str:
    """The task's id, where the answer says that the command runs on in the background; else ""."""
    found = _TASK.match(text)
    return "" if found is None else found[1]


class TaskEnd(NamedTuple):
    """The end of a background command, as `<task-notification>` tells it."""

    task_id: str
    call_id: str
    status: str
    exit_code: int | None
    output_file: str
    summary: str


_NOTIFICATION = "<task-notification>"
_TAGS = {
    name: re.compile(f"<{name}>(.{{0,4096}}?)</{name}>", re.DOTALL)
    for name in ("task-id", "tool-use-id", "status", "output-file", "summary")
}
_SUMMARY_CODE = re.compile(r"exit code (\d{1,3})\)?\s*\Z")


def task_end(text: str) -> TaskEnd | None:
    """Read a task notification; None for any other text."""
    if not text.startswith(_NOTIFICATION):
        return None
    text = text[:16384]
    values = {name: found[1].strip() if (found := tag.search(text)) else "" for name, tag in _TAGS.items()}
    if not values["task-id"]:
        return None
    code = _SUMMARY_CODE.search(values["summary"])
    return TaskEnd(
        values["task-id"],
        values["tool-use-id"],
        values["status"],
        int(code[1]) if code else None,
        values["output-file"],
        values["summary"],
    )
