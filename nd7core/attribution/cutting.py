"""Where an unquoted path starts and ends inside a sentence."""

from __future__ import annotations

import re

from nd7core.attribution import paths

# What ends an unquoted path inside a sentence: a word of the sentence, or a bracket around something else.
_WORD = (
    r"\s+(?:for (?:reading|writing|append|output|update|input|write|read)|failed|because|resides|is not|isn't|is|was|"
    r"could|cannot|can't|due to|with|as|at|in|on|from|after|when|while|and|since|does|doesn't|line \d+|->|=>)(?=[\s:,.]"
    r"|$)|\s+\w+=(?=\S|$)|\.\s+(?=[A-Z][a-z]+\b)"
)
# A bracket that the name goes on behind: `/a/report (1).pdf`, `/a/My Dir [old]/b`.
_OF_NAME = r"(?![(\[][\w ,.-]{1,40}[)\]](?:\.\w|/|[-_]\w| \w+\.\w))"
_END = re.compile(
    _WORD + r"|[\"'](?=[,}\])]|$)|:\s|\s+" + _OF_NAME + r"[(\[{<|│]|[)\]}>](?=\s|$|:)|\s*[;│|]\s|,(?=\s|$)"
)
_KIND = re.compile(r"\s+(?:directory|folder|file|path)[.,]?$")
START = re.compile(
    r"(?<![\w./~:$-])(?:(?:~|\.{1,2})?/(?![/\s]|\d{1,3}(?:\.\d{1,3}){3}\b)|~/|\$[A-Za-z_]\w*/)|(?<=[(=\[{<,@:])(?:~|\.{1,2})?/(?![/\s])"
)
KEY_PATH = re.compile(
    r"""["']?\b(?:path|dest|file(?:name|Path)?|dir(?:ectory)?|location)["']?\s*[:=]\s*["']?((?:~|\.{1,2})?/[^"',}\n]+)""",
    re.I,
)


# What is said of a file and not its name: `b.bin (attempt 2)`.
_REMARK = re.compile(r"(\.\w{1,8}) \([^()]*\)$")
_WORD_ONLY = re.compile(_WORD)


def cut(text: str, *, between: bool = False) -> str:
    """An unquoted path without the rest of the sentence.

    Args:
        between: it stands alone between two colons, so brackets are part of a name: `bash: line 1: /a (b)/c: ...`.
    """
    if between:
        text = _REMARK.sub(r"\1", text)
    match = (_WORD_ONLY if between else _END).search(text)
    return paths.tidy(_KIND.sub("", text[: match.start()] if match else text))
