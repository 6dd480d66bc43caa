"""Which path a refusal that names none was most likely about: what the command names and the policy refuses."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from nd7core.attribution import paths
from nd7core.attribution.finding import names
from nd7core.attribution.rules import Rules
from nd7core.attribution.shell import Simple, place

_LITERAL = re.compile(r"(?:[\"']|\bqq?[(\[{])((?:~|\.\.|/)/?[^\"'\s:,;()]{2,200})[\"')\]}]")
_READ_LIMIT = 20_000


def guessed(commands: Iterable[Simple], rules: Rules, home: str, platform: str) -> str:
    """A path that the command names and the policy refuses to write, or to read at all; "" for none."""
    for simple in commands:
        for named in _named(simple):
            path = place(named, simple.cwd, home)
            full = paths.canonical(path, platform)
            if full.startswith("/") and not paths.system_owned(full, home, platform) and rules.refuses("write", full):
                return path
    return ""


_OUTPUT_OPTION = re.compile(
    r"-o|-O|-d|-t|--?(?:out\w*|output[\w-]*|dest\w*|target[\w-]*|prefix|[\w-]*cache[\w-]*|save[\w-]*|[\w-]*dir|"
    r"report[\w-]*|basetemp|log[\w-]*)"
)
_MAKERS = names("mkdir touch tee rm rmdir truncate mktemp mkfifo install unlink chmod chown")
_LAST_IS_MADE = names("cp mv ln install rsync scp ditto convert magick ffmpeg zip tar dd")
_TALKERS = names("cd echo printf exit true false : set export sleep tail head")
_CODE = names("python python3 node perl ruby php lua deno bun tclsh")
# A call that opens, makes, changes or removes a file, whatever the language calls it.
_FILE_CALL = re.compile(
    r"(?:open|read|writ|mkdir|stat|unlink|remov|renam|cop(?:y|ie)|listdir|scandir|load|sav|touch|chmod|put_contents|"
    r"get_contents|truncat|File)\w*",
    re.IGNORECASE,
)
_QUOTED_NAME = re.compile(r"[\"']([\w.@%+/~-]*[\w]{2}[\w.@%+/-]*)[\"']")


def destination(commands: Iterable[Simple], rules: Rules, home: str, platform: str) -> str:
    """A path that the command says is to be written and the policy refuses to write; "" for none.

    Narrower than `guessed`: what is only read, or looked at, is no destination.
    """
    for simple in commands:
        for named in _written(simple):
            full = paths.canonical(place(named, simple.cwd, home), platform)
            if full.startswith("/") and not paths.system_owned(full, home, platform) and rules.refuses("write", full):
                return full
    return ""


def _written(simple: Simple) -> Iterator[str]:
    yield from (target for operator, target in simple.redirects if operator != "<" and target[:1] in "/~.")
    words = simple.words
    for at, word in enumerate(words):
        name, equals, value = word.partition("=")
        if equals and _OUTPUT_OPTION.fullmatch(name) and paths.looks_like_path(value):
            yield value
        elif at and _OUTPUT_OPTION.fullmatch(words[at - 1]) and paths.looks_like_path(word):
            yield word
    bare = [word for word in words if word[:1] != "-" and paths.looks_like_path(word)]
    if simple.name in _MAKERS:
        yield from bare
    elif simple.name in _LAST_IS_MADE and words and bare and bare[-1] == words[-1]:
        yield bare[-1]
    yield from (match[1] for text in inline_code(simple) for match in _LITERAL.finditer(text))


def inline_code(simple: Simple) -> Iterator[str]:
    """The text of a program that the command itself holds: `python3 -c '...'`, or a here-document."""
    if simple.name in _CODE:
        yield from (word[:_READ_LIMIT] for word in simple.words if "(" in word or "'" in word or '"' in word)
        if simple.body:
            yield simple.body[:_READ_LIMIT]


def only_inside(commands: Iterable[Simple], programs: frozenset[str]) -> bool:
    """Whether a command works on nothing but files that it names; `guessed` has found none of them outside.

    Args:
        programs: those that touch nothing but their arguments; of a build, or a script, nobody knows what it writes.
    """
    named = False
    for simple in commands:
        if simple.name in _TALKERS:
            continue
        if simple.name in programs:
            named |= any(word[:1] != "-" and "$" not in word for word in simple.words)
            continue
        code = " ".join(inline_code(simple))
        if not code or "environ" in code or not (_FILE_CALL.search(code) and _QUOTED_NAME.search(code)):
            return False
        named = True
    return named


def _named(simple: Simple) -> Iterator[str]:
    """Every path in a command: where it redirects to, its arguments, and literals in code that it is given."""
    for operator, target in simple.redirects:
        if operator != "<" and target[:1] in "/~.":
            yield target
    for word in simple.words:
        value = word.partition("=")[2] if "=" in word and (word[:1] == "-" or word[:1].islower()) else word
        if paths.looks_like_path(value):
            yield value
        elif "'" in word or '"' in word or "q(" in word:
            yield from (match[1] for match in _LITERAL.finditer(word[:_READ_LIMIT]))
    yield from (match[1] for match in _LITERAL.finditer(simple.body[:_READ_LIMIT]))
