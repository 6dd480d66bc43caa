"""The fields of every `--json`, as data: what `nd7 COMMAND --help` and the man page print, and tests hold them to.

A field that stands here stays and keeps its meaning; new ones may come.
"""

from __future__ import annotations

import textwrap
from dataclasses import dataclass

RULES = (
    "Fields are only ever added. Times are nanoseconds since the epoch; paths are absolute, and a byte in them that is "
    "no UTF-8 is \\udcNN; what is not known is null. What looks like a secret is [masked] without --show-secrets."
)


@dataclass(frozen=True, slots=True)
class Field:
    """One field.

    Attributes:
        name: with a dot for a field of an object inside, with `[]` for one of each object of a list.
        kind: of the value, as JSON calls it; `time` and `path` as above.
        means: what it tells, in a line.
        sometimes: it is left out where it has nothing to tell.
    """

    name: str
    kind: str
    means: str
    sometimes: bool = False


@dataclass(frozen=True, slots=True)
class Shape:
    """What one command writes: `form` says in how many objects."""

    form: str
    fields: tuple[Field, ...]


_CHANGE = (
    Field("session", "number", "pid of the nd7 run that was changed"),
    Field("path", "path", "what was granted or taken back, links followed"),
    Field("changed", "boolean", "false where it was so already"),
    Field("revision", "number", "of the session's profile, as it is now"),
    Field("grants", "list of paths", "all that is granted to the session now"),
    Field("created", "string", "file or directory, where an empty one had to be made; else null"),
    Field("note", "string", "what to know beside it, or empty"),
    Field("dangers", "list of strings", "what of it runs later outside the sandbox"),
    Field("command", "string", "the command line that does the same"),
    Field("when", "string", "when it takes effect, as a sentence"),
    Field("permitted", "boolean", "of allow: false where your own permissions refuse it, so that no grant helps"),
)
_VERDICT = (
    Field("source", "string", "who refused: kernel, nd7-exec, model (only the agent says so), or none"),
    Field("evidence", "string", "how sure that is: recorded, matched, likely or reported"),
    Field("operation", "string", "read, write, exec, network, signal, ipc or other"),
    Field("target", "string", "the path or host:port that was refused"),
    Field("targets", "list of strings", "all of them, where there are several"),
    Field("remedy", "string", "grant, restart-wider, cannot-grant or not-nd7"),
    Field("grant", "path", "what nd7 allow would take"),
    Field("reason", "string", "why, as a sentence"),
    Field("owner", "string", "of source none: permissions, agent, person, remote, program, sandbox or nd7", True),
    Field("line", "string", "the line of the output that this rests on", True),
    Field("contradiction", "string", "what speaks against it", True),
)
_DENIAL = (
    Field("id", "string", "stays the same from call to call"),
    Field("session", "string", "the agent's own session id"),
    Field("nd7_session", "number", "pid of the nd7 run that it belonged to"),
    Field("ts", "time", "of the first time"),
    Field("last_ts", "time", "of the latest time"),
    Field("tool", "string", "the agent's tool; empty for words of the agent's"),
    Field("command", "string", "what was run, or said"),
    Field("state", "string", "open, granted, proved, repeated or obsolete"),
    Field("revision", "number", "of the profile with the grant that covers it"),
    Field("count", "number", "how often it came"),
    *_VERDICT,
    Field("tie", "string", "of words: confirmed, unconfirmed or contradicted by an earlier call", True),
    Field("tied_to", "string", "id of that call's denial", True),
    Field("project", "path", "of the session"),
)
_DECISION = (
    ("allowed", "boolean", "whether"),
    ("line", "number", "which line says so"),
    ("text", "string", "that line"),
)

SHAPES: dict[str, Shape] = {
    "allow": Shape("one object", _CHANGE),
    "deny": Shape(
        "one object",
        (
            *_CHANGE,
            Field("projects", "list of paths", "whose later sessions start without it; where no session runs", True),
        ),
    ),
    "grants": Shape(
        "one list of objects",
        (
            Field("session", "number", "pid of the nd7 run that has it; null: later sessions of the project will"),
            Field("project", "path", "of the session"),
            Field("path", "path", "what is granted, with all below it"),
            Field("scope", "string", "once, session, until or project"),
            Field("expires", "time", "when it ends"),
            Field("in_force", "boolean", "whether it has not ended"),
            Field("created", "time", "when it was given"),
            Field("uses", "number", "commands that ran with it in force"),
            Field("origin", "string", "what it was given for: id of a denial, or where it was typed"),
        ),
    ),
    "sessions": Shape(
        "one list of objects",
        (
            Field("pid", "number", "of nd7 run; null once it is over"),
            Field("name", "string", "what the dashboard calls it"),
            Field("project", "path", "what it may write"),
            Field("agent", "string", "claude, or the program's name"),
            Field(
                "state",
                "string",
                "starting, working, idle, waiting, ended, orphaned, broken; inside one: unknown",
            ),
            Field("waits_for", "string", "what it waits for; how it ended, once it has"),
            Field("started", "time", "when it began"),
            Field("changed", "time", "when it was last heard of"),
            Field("agent_sessions", "list of strings", "the agent's own session ids, which name the logs"),
            Field("denials", "object", "how many, by source: kernel, nd7-exec, model"),
            Field("other_failures", "number", "failures that were nobody's refusal"),
            Field("grants", "list of paths", "what is granted"),
            Field("revision", "number", "of its profile"),
            Field("enforced", "object", "what is in force, part by part, in words"),
            Field("gaps", "number", "events known to be missing from its log"),
            Field("canary", "string", "lit, dark, or empty: whether a test refusal was seen to arrive"),
            Field("light", "string", "enforcing, or blind, log stopped or hooks dead with the reason"),
            Field("problem", "string", "what is wrong with its directory or log, or empty"),
        ),
    ),
    "denials": Shape(
        "one object a line",
        (
            *_DENIAL,
            Field("name", "string", "of the session"),
            Field("proposal", "path", "one grant for this and others of the session that are still open", True),
        ),
    ),
    "explain": Shape(
        "one object; with --jsonl one for each line of the input",
        (
            *_VERDICT,
            Field("id", "string or number", "of --jsonl: the input's own, where it has one", True),
            Field("error", "string", "of --jsonl, alone: what is wrong with that line of the input", True),
        ),
    ),
    "why": Shape(
        "one object",
        (
            Field("session", "number", "pid of the nd7 run that was asked about"),
            Field("revision", "number", "of its profile"),
            Field("answers", "list of objects", "one for each operation"),
            Field("answers[].subject", "string", "the path or host:port"),
            Field("answers[].operation", "string", "write, read, execute or connect"),
            *(Field(f"answers[].policy.{name}", kind, f"of Bash commands: {means}") for name, kind, means in _DECISION),
            *(
                Field(f"answers[].floor.{name}", kind, f"of the agent's tools: {means}")
                for name, kind, means in _DECISION
            ),
            Field("answers[].permissions.allowed", "boolean", "whether the file's own permissions let you"),
            Field("answers[].permissions.reason", "string", "why not"),
            Field("answers[].grant", "path", "what nd7 allow would take"),
            Field("answers[].advice", "string", "what to do, as a sentence"),
        ),
    ),
    "attach": Shape(
        "one object, once this terminal is back",
        (
            Field("session", "number", "pid of the nd7 run"),
            Field("detached", "boolean", "true where the session goes on"),
            Field("status", "number", "the session's exit status, where it has ended"),
        ),
    ),
    "verify": Shape(
        "one object",
        (
            Field("session_id", "string", "the agent's own, which names the log"),
            Field("ok", "boolean", "whether the chain holds"),
            Field("frames", "number", "how many are good, from the first on"),
            Field("problem", "string", "what is wrong at the first break, or empty"),
            Field("broken", "number", "of the frame at the break"),
            Field("first", "time", "of the first good frame"),
            Field("last", "time", "of the last good frame"),
            Field("head", "string", "hash of the last good frame"),
            Field("size", "number", "bytes of the log"),
            Field("proves", "string", "what a chain that holds proves, and what not"),
        ),
    ),
    "export": Shape("one list of objects (--format json)", _DENIAL),
    "doctor": Shape(
        "one object",
        (
            Field("version", "string", "of nd7"),
            Field("ok", "boolean", "false where something is missing without which no session runs or is recorded"),
            Field("checks", "list of objects", "each thing that was looked at"),
            Field("checks[].name", "string", "what"),
            Field("checks[].state", "string", "ok, degraded or missing"),
            Field("checks[].found", "string", "what there is"),
            Field("checks[].means", "string", "what that means for a session, or empty"),
            Field("checks[].mend", "string", "the command or step that mends it, or empty"),
        ),
    ),
}


def epilog(command: str) -> str:
    """What `nd7 COMMAND --help` says of the fields; "" where the command writes no JSON."""
    shape = SHAPES.get(command)
    if shape is None:
        return ""
    width = max(len(field.name) for field in shape.fields)
    rows = [f"  {field.name:<{width}}  {described(field)}" for field in shape.fields]
    rules = textwrap.fill(RULES, 100)
    return "\n".join([f"JSON, {shape.form}:", *rows, "", rules])


def described(field: Field) -> str:
    """What a field tells, in a line."""
    return f"{field.kind}{', may be left out' if field.sometimes else ''}: {field.means}"
