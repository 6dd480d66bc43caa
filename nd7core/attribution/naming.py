"""What a line with an error names: the paths in it, as printed.

Quotes of any kind come first, then what stands between colons, before the error's words and behind them.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from nd7core.attribution import markers, network, paths
from nd7core.attribution.cutting import KEY_PATH, START, cut
from nd7core.attribution.finding import names

# Java's only word for what cannot be opened, behind whatever it was given: `FileNotFoundException: key (`.
_JAVA = re.compile(r"\bFileNotFoundException: (?P<path>[^\s:(][^:\n]*?) \($")
_RUBY = re.compile(r"^\s*@ (?P<function>\w+)(?: - (?P<rest>.*?))?(?: \(Errno::\w+\))?\s*$")
_GO_CALLS = (
    "open|openat|create|mkdir|mkdirat|stat|lstat|fstatat|rename|unlink|unlinkat|remove|link|symlink|symlinkat|chmod|"
    "chtimes|chown|readlink|readdirent|truncate|write|read|copy_file_range|chdir|getwd|lock|flock|opendir|fdopendir|"
    "fork/exec|exec"
)
_GO = re.compile(
    rf"(?:^|[\s:(\"])(?P<call>{_GO_CALLS}) (?P<path>(?:~|\.{{1,2}})?/[^:'\"]*?|[^\s:'\"]+)(?P<second> [~./]\S*)?: ?$"
)
_MOVES = names("rename link symlink")
_CALL = re.compile(r"(?<![\w:>.])(?P<function>[\w:>.]+)\((?P<path>(?:~|\.{1,2})?/[^()\n]*?)(?:, ?[^()]*)?\)(?=: |\s)")
# OpenSSL's queue of errors, and others that show the call itself.
_CALLING = re.compile(r"\bcalling \w+\((?P<path>(?:~|\.{1,2})?/[^,()]*)(?:, ?[rwab+]+)?\)")
# PHP's warning, whose argument may be a relative path or an address.
_STREAM = re.compile(r"\b\w+\((?P<path>[^()\s]+)\): [Ff]ailed to open (?:stream|dir)")
_SOURCE = re.compile(r"^\S{1,300}:\d+:in [`'][^`'\n]{1,200}': ")
# PHP's and Perl's place in the source, behind everything.
_TAIL = re.compile(r" (?:in|at) \S{1,300} (?:on )?line \d+\.?.*$")
_SOURCE_LINE = re.compile(r"[^\s:]*\.\w{1,4}:\d+")
_BEFORE_TAIL = " \t:(,;–—-│|×*[{\"'`"
_AFTER_HEAD = " \t:,;@)]│|-"
_URL = re.compile(r"\b[a-z][a-z0-9+]{1,15}://\S*")
_IGNORED_QUOTES = re.compile(r"^(?:[A-Z_]{3,}|[\w.]*(?:Error|Exception)|<[^>]*>|\d+|[a-z]+\(\)|[\w-]+=\S*)$")
_PLAIN_NAME = re.compile(r"[\w@%+=.,~ -]*[\w@%+=~-](?:/[\w@%+=.,~ -]+)*/?")
_NO_PROGRAMS = names("error fatal warning warn panic abort note caused info debug err e")
# Words between an error's colons that are a call or a thing, and no file.
_NOUNS = names(
    "connect listen bind open socket exec fork mkdir write read send sendto accept stat access create fopen "
    "opendir execve ptrace kill setsockopt mount failed denied reason file stream directory database connection "
    "openpty forkpty pipe temporary the server stdin stdout stderr output input pseudo-terminal getcwd errno error "
    "save saving"
)
_ADDRESS = re.compile(r"\d{1,3}(?:\.\d{1,3}){3}|localhost|[\w-]+(?:\.[\w-]+)*:\d{2,5}")
_SOURCE_OF = re.compile(r"[a-z0-9_][\w+-]*\.(?!(?:com|org|net|io|dev|test|local|lan|app)$)[A-Za-z]\w{0,3}")
_FILE_SAID = re.compile(r"\b(?:file|directory|folder) [\w@%+=,~-]+\.\w+$")
_CAMEL = re.compile(r"[a-z]+(?:[A-Z][a-z]+)+")
_FILE_NAME = re.compile(r"[\w@%+=~-]*(?:[./][\w@%+=~-]+)+/?")
_CLOSE_BEHIND = re.compile(r"^(?::? ?[bu]?|, \w+ )$")
_CLOSE_BEFORE = re.compile(r"^(?: for \w+)?[ :(,-]*$")
_BINARY = re.compile(r"/(?:s?bin|libexec)/[^/]*$|\s")
_MOVED = re.compile(r"->|=>|\bto\b")


# `cannot create autom4te.cache in /a`: the name first, its folder behind it.
_NAME_IN = re.compile(
    r"\b(?:creat\w*|mak\w*|writ\w*|open\w*|remov\w*|delet\w*|sav\w*) (?:the )?(?:file |directory |folder )?"
    r"(?:[\"'`“‘](?P<quoted>[\w.@%+-]+)[\"'’”]|(?P<name>[\w@%+-]*\.[\w.@%+-]+)) (?:in|inside|under) "
    r"(?:the )?(?:directory |folder )?[\"'`“‘]?(?P<folder>(?:~|\.{1,2})?/[^\s:,;\"'’”]+)"
)


def _spans(line: str, mark: markers.Mark) -> Iterator[tuple[int, int, str]]:
    """What is quoted on a line; where quotes stand around the error itself, what is quoted inside them."""
    for start, end, text in paths.quoted(line):
        if start >= mark.end or end <= mark.start or (start >= mark.start and end <= mark.end):
            yield start, end, text
            continue
        for low, high in ((start + 1, mark.start), (mark.end, end - 1)):
            for inner, outer, inside in paths.quoted(line[low:high]):
                yield low + inner, low + outer, inside


def _quoted(line: str, mark: markers.Mark) -> tuple[list[str], list[str], str, str]:
    """Paths and plain names in quotes, without quotes around the error; then the names right before and behind it."""
    clear: list[str] = []
    plain: list[str] = []
    before = behind = ""
    for start, end, text in _spans(line, mark):
        if paths.looks_like_path(text):
            clear.append(text)
        elif text and len(text) < 256 and not _IGNORED_QUOTES.match(text) and _PLAIN_NAME.fullmatch(text):
            if _ADDRESS.fullmatch(text):
                continue
            plain.append(text)
            if start >= mark.end and not behind and _CLOSE_BEHIND.match(line[mark.end : start]):
                behind = text
            elif end <= mark.start and _CLOSE_BEFORE.match(line[end : mark.start]):
                before = text
    return clear, plain, before, behind


# A sentence that ends with a name below a folder: `edit on a/b.txt`; `and/or` is none.
_SENTENCE_ABOUT = re.compile(r"\S (?!and/or$)\S*[\w.-]{2,}/[\w.-]+$")


def _between(text: str, program: str) -> list[str]:
    """The path between the last colons before the error: `prog: line 1: /a b: `, `mkdir /a: `, `x: /a (`."""
    text = text.rstrip(_BEFORE_TAIL)
    call = _CALL.search(text + ": ") if "(" in text else None
    if call:
        return [call["path"]]
    segments = [segment.strip() for segment in text.split(": ")]
    own = bool(program) and len(segments) > 1 and segments[0].endswith(program)
    for number in range(len(segments) - 1, -1, -1):
        segment = segments[number]
        if not segment or (number == 0 and own):
            continue
        start = START.search(segment)
        if start:
            return _cut_out(segment[start.start() :], between=start.start() == 0 and number == len(segments) - 1)
        if (number or _SENTENCE_ABOUT.search(segment)) and (name := _relative(segment, program)):
            return [name]
    if len(segments) > 1 and segments[1] in ("error", "warning", "fatal error") and _FILE_NAME.fullmatch(segments[0]):
        return [segments[0]]  # a compiler's word on a file
    # `/a/b-lock: openFd: ...`: what stands first is no program
    return [segments[0]] if own and paths.looks_like_path(segments[0]) and not _BINARY.search(segments[0]) else []


def _cut_out(text: str, *, between: bool) -> list[str]:
    """One unquoted path, or two of them with a blank between."""
    found = cut(text, between=between)
    second = START.search(found, 1)
    if second and found[second.start() - 1] == " ":
        return [found[: second.start()].strip(), found[second.start() :].strip()]
    return [found] if len(found) > 1 or found == "/" else []


def _relative(segment: str, program: str) -> str:
    """A relative name between colons: BSD's `cp: name: ...`, git's `file .git/config:`, tar's `name: Cannot open`."""
    last = segment.rsplit(" ", 1)[-1]
    if not program and " " in segment and not network.WORDS.search(segment):
        files = [word for word in segment.split(" ") if _SOURCE_OF.fullmatch(word)]
        if len(files) == 1:
            return files[0]  # `cannot create main.o`, in any language and order
    if not _name_like(last):
        return ""
    if _FILE_SAID.search(segment):
        return last
    if "/" in last:
        return last
    if _CAMEL.fullmatch(last):
        return ""  # Haskell's `/a: createDirectory: ...`
    if not program or program[:1].isupper() or program in _NO_PROGRAMS or last.lower() in _NOUNS:
        return ""
    return last if " " not in segment or "." in last.strip(".") else ""


def _name_like(word: str) -> bool:
    return (
        bool(re.fullmatch(r"[\w@%+=.,~/-]+", word))
        and not word.isdigit()
        and not _ADDRESS.fullmatch(word)
        and not re.fullmatch(r"[\d.]+|[A-Z]+\d+", word)
    )


def _behind(text: str) -> list[str]:
    """The path behind an error: zsh's `permission denied: /a`, Ruby's `@ rb_sysopen - /a`, node's `, open '/a'`."""
    ruby = _RUBY.match(text)
    if ruby:
        rest = ruby["rest"] or ""
        return [part.strip() for part in rest.strip("()").split(", ")] if rest.startswith("(") else [rest] * bool(rest)
    stripped = text.lstrip(_AFTER_HEAD)
    if paths.looks_like_path(stripped) and not _SOURCE_LINE.match(stripped):
        return [cut(stripped)]
    if text.startswith(": ") and stripped and " " not in stripped.strip() and _name_like(paths.tidy(stripped)):
        return [paths.tidy(stripped)]
    start = START.search(text)
    if start and not _URL.search(text[: start.start() + 2]) and not _SOURCE_LINE.match(text, start.start()):
        return [cut(text[start.start() :])]
    return []


def _go(before: str) -> list[str]:
    """Go's `mkdir /a: `, and what else puts a system call's name before the path."""
    if not before.rstrip(" ").endswith(":"):
        return []
    match = _GO.search(before)
    if not match or (match["path"].lower() in _NOUNS and not match["second"]):
        return []
    path, second = cut(match["path"], between=True), (match["second"] or "").strip()
    if not second:
        return [path] if _name_like(path) or "/" in path else []
    return [path, second] if match["call"] in _MOVES else [second]


def named_paths(line: str, mark: markers.Mark, program: str, *, files_only: bool = False) -> tuple[str, ...]:
    """Every path that a line with an error names, as printed, without quotes, in order.

    Args:
        program: the one that the line starts with.
        files_only: whether a plain word in quotes is one only if it looks like a file's name.
    """
    source = _SOURCE.match(line)
    begin = source.end() if source and source.end() <= mark.start else 0
    before, after = line[begin : mark.start], _TAIL.sub("", line[mark.end :])
    inside = _NAME_IN.search(before)
    if inside:
        return (f"{inside['folder'].rstrip('/')}/{inside['quoted'] or inside['name']}",)
    clear, plain, right_before, right_behind = _quoted(line, mark)
    if clear:
        inner = _go(before)
        if inner and paths.looks_like_path(inner[0]):
            return (*clear, *inner)  # `creating directory "/a": mkdir /a/b: ...`: the call that failed
        if len(plain) == 1 and _MOVED.search(line):
            # `'name' => '/a'`: the other end of a link or a rename.
            first = line.find(plain[0]) < line.find(clear[0])
            return (plain[0], clear[0]) if first else (clear[0], plain[0])
        return tuple(clear)
    if java := _JAVA.search(before):
        return (java["path"],)
    calling = _CALLING.search(line) or _STREAM.search(before) if "(" in line else None
    if calling:
        return (calling["path"],) if "://" not in calling["path"] else ()
    call = _go(before)
    if call and not _FILE_NAME.fullmatch(call[0]) and not paths.looks_like_path(call[0]):
        # `/a/b.tgz : open impossible: `: the word behind the call is of another language, where a file stands before
        told = _between(before, program) or _between(before.rstrip(" :").rpartition(": ")[0], program)
        call = told if told and (paths.looks_like_path(told[0]) or _FILE_NAME.fullmatch(told[0])) else call
    found = tuple(path for path in call or _behind(after) or _between(before, program) if path)
    if found and paths.looks_like_path(found[0]):
        return found
    keyed = KEY_PATH.search(line)
    if keyed:
        return (keyed[1].strip(),)
    files = [name for name in plain if _FILE_NAME.fullmatch(name)]
    if files:
        return tuple(files[-2:])
    if right_behind:
        return (right_behind,)
    if right_before and not source and not files_only:
        return (right_before,)
    return found
