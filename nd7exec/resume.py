"""The command line that brings an agent's own session back: what `restart wider` starts.

The agent ends and comes back with `--resume`; whatever it was started with stays, but for what chose or began its
session: another session id, and the prompt, which has been asked already.
"""

from __future__ import annotations

from collections.abc import Sequence

# Claude Code 2.1.197's `--help`: options that choose a session, with how many words they may take.
_CHOOSES = {"-r": 1, "--resume": 1, "-c": 0, "--continue": 0, "--session-id": 1, "--fork-session": 0, "--from-pr": 1}
_ONE = [
    "--agent",
    "--agents",
    "--append-system-prompt",
    "--append-system-prompt-file",
    "--debug-file",
    "--effort",
    "--fallback-model",
    "--input-format",
    "--json-schema",
    "--max-budget-usd",
    "--model",
    "-n",
    "--name",
    "--output-format",
    "--permission-mode",
    "--plugin-dir",
    "--plugin-url",
    "--remote-control-session-name-prefix",
    "--setting-sources",
    "--settings",
    "--system-prompt",
    "--system-prompt-file",
]
_MANY = [
    "--add-dir",
    "--allowedTools",
    "--allowed-tools",
    "--betas",
    "--disallowedTools",
    "--disallowed-tools",
    "--file",
    "--mcp-config",
    "--tools",
]


def claude(program: Sequence[str], session_id: str) -> tuple[str, ...]:
    """`program` (its name first, as the person typed it) with `--resume` and without what began the old session.

    Examples:
        >>> claude(["claude", "--model", "opus", "-c", "fix it"], "id")
        ('claude', '--resume', 'id', '--model', 'opus')
        >>> claude(["claude", "--add-dir", "a", "b", "--resume=x", "--", "-p"], "id")
        ('claude', '--resume', 'id', '--add-dir', 'a', 'b')
    """
    kept = [program[0], "--resume", session_id]
    words = list(program[1:])
    while words:
        word = words.pop(0)
        name, equals, _ = word.partition("=")
        if word == "--":
            break
        if not word.startswith("-"):
            continue  # the prompt
        values: list[str] = []
        room = 0 if equals else _CHOOSES.get(name, 1 if name in _ONE else len(words) if name in _MANY else 0)
        while words and len(values) < room and (name in _ONE or not words[0].startswith("-")):
            values.append(words.pop(0))
        if name not in _CHOOSES:
            kept += [word, *values]
    return tuple(kept)
