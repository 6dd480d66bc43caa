"""Reads a Bash command far enough to know what ran where: programs, arguments, redirections, folders.

Nothing is executed and nothing is looked up.  It is no shell: what it cannot know (a variable set elsewhere, the
output of a substitution) stays in the word as it was typed, so that no path is ever invented from it.  Every
pattern is possessive or has one way to match, so a hostile command costs time in proportion to its length.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from posixpath import basename, isabs, join, normpath

from nd7core.attribution.finding import names

LIMIT = 32_768
"""Characters of a command that are read; what follows is data in a here-document in every case seen."""
_LONGEST = 1024  # of a folder: one that goes down without end makes each path in it as long
_DEPTH = 3

_TOKEN = re.compile(
    r"(?P<space>[ \t\r]+|\\\n)|(?P<comment>\#[^\n]*+)|(?P<redirect>&>>?|<<<|<<-?|<>|>>|>\||>&|<&|>|<)|"
    r"(?P<control>&&|\|\||;;|\|&|[;&|()\n])|(?P<ansi>\$'(?:[^'\\]++|\\.)*+'?)|(?P<single>'[^']*+'?)"
    r'|(?P<double>"(?:[^"\\]++|\\.)*+"?)'
    r"|(?P<command>\$\((?!\())|(?P<tick>`[^`]*+`?)|(?P<escape>\\.?)|(?P<plain>[^\s'\"\\`;&|()<>$#]++|[$#])",
    re.DOTALL,
)
_VARIABLE = re.compile(r"\$(?:\{([A-Za-z_]\w*)(?::?[-=][^{}]*)?\}|([A-Za-z_]\w*))")
_ASSIGNMENT = re.compile(r"([A-Za-z_]\w*)\+?=(.*)", re.DOTALL)
_ANSI = re.compile(r"\\(n|t|'|\"|\\|x[0-9a-fA-F]{1,2}|[0-7]{1,3})")
_DOUBLE_ESCAPE = re.compile(r'\\([\\"$`])')
_PARENTHESIS = re.compile(r"'[^']*+'|\\.|[()]", re.DOTALL)

_KEYWORDS = names("if then elif else fi do done while until for in case esac { } ! time function select [[ ]]")
WRAPPERS = {
    # name -> options of it that take a value of their own
    "sudo": "-u -g -p -C -h -r -t -U",
    "doas": "-u -C",
    "env": "-u -C -S",
    "nohup": "",
    "time": "-f -o",
    "nice": "-n",
    "ionice": "-c -n -p",
    "stdbuf": "-i -o -e",
    "setsid": "",
    "command": "",
    "exec": "-a",
    "builtin": "",
    "xargs": "-I -n -P -L -d -a -E -s",
    "caffeinate": "-t -w",
    "chronic": "",
    "unbuffer": "",
    "strace": "-e -o -p -s",
    "catchsegv": "",
}
_SHELLS = names("sh bash zsh dash ash ksh mksh fish busybox")
_FOLDER_OPTIONS = {
    # program -> options that make it work in another folder
    "git": ("-C", "--work-tree"),
    "tar": ("-C", "--directory"),
    "make": ("-C", "--directory"),
    "gmake": ("-C", "--directory"),
    "ninja": ("-C",),
    "go": ("-C",),
    "cargo": ("-C",),
    "npm": ("--prefix", "-C"),
    "pnpm": ("--dir", "-C"),
    "yarn": ("--cwd",),
    "bun": ("--cwd",),
    "hg": ("-R", "--cwd"),
    "terraform": ("-chdir",),
    "env": ("-C", "--chdir"),
    "uv": ("--directory",),
    "patch": ("-d", "--directory"),
    "bsdtar": ("-C",),
    "cpio": ("-D", "--directory"),
    "meson": ("-C",),
    "poetry": ("-C", "--directory"),
    "composer": ("-d", "--working-dir"),
    "gradle": ("-p", "--project-dir"),
}


@dataclass(frozen=True, slots=True)
class Simple:
    """One simple command.

    Attributes:
        name: the program's base name, "" for a bare redirection or assignment.
        words: its arguments, quotes removed, what could be known expanded.
        redirects: `(operator, target)`; the descriptor's number is dropped.
        cwd: the folder it runs in, "" where nothing is known.
        body: a here-document's text or what follows `<<<`.
        path: the program as typed.
    """

    name: str
    words: tuple[str, ...] = ()
    redirects: tuple[tuple[str, str], ...] = ()
    cwd: str = ""
    body: str = ""
    path: str = ""


def place(path: str, cwd: str, home: str) -> str:
    """`path` made absolute and without `.` and `..`, as far as that is known; never looked up.

    `~` is the given home, never anybody's variable.  A relative path without a known folder stays relative.
    """
    if path[:1] == "~" and (len(path) == 1 or path[1] == "/"):
        path = home + path[1:] if home else path
    if not isabs(path) and cwd and path[:1] not in ("~", "$"):
        path = join(cwd, path)
    return normpath(path) if path else path


@dataclass(slots=True)
class _Word:
    text: str = ""
    quoted: bool = False
    started: bool = False

    def add(self, text: str, *, quoted: bool = False) -> None:
        self.text += text
        self.started = True
        self.quoted = self.quoted or quoted


@dataclass(slots=True)
class _Reader:
    home: str
    cwd: str
    depth: int
    known: dict[str, str]
    found: list[Simple] = field(default_factory=list)
    folders: list[str] = field(default_factory=list)
    words: list[str] = field(default_factory=list)
    redirects: list[tuple[str, str]] = field(default_factory=list)
    pending: str = ""
    heredocs: list[tuple[str, int]] = field(default_factory=list)
    word: _Word = field(default_factory=_Word)

    def expand(self, text: str) -> str:
        if "$" not in text:
            return text

        def value(match: re.Match[str]) -> str:
            name = match[1] or match[2]
            return self.known.get(name, match[0])

        return _VARIABLE.sub(value, text)

    def end_word(self) -> None:
        word, self.word = self.word, _Word()
        if not word.started:
            return
        text = word.text
        if text[:1] == "~" and not word.quoted and self.home and (len(text) == 1 or text[1] == "/"):
            text = self.home + text[1:]
        if self.pending:
            operator, self.pending = self.pending, ""
            if operator in ("<<", "<<-"):
                self.heredocs.append((text, len(self.found)))
            else:
                self.redirects.append((operator, text))
            return
        if not self.words and not word.quoted and text in _KEYWORDS:
            return
        self.words.append(text)

    def end_command(self) -> None:
        self.end_word()
        words, redirects = self.words, tuple(self.redirects)
        self.words, self.redirects, self.pending = [], [], ""
        while words and (match := _ASSIGNMENT.fullmatch(words[0])):
            if len(self.known) < 200:
                self.known[match[1]] = match[2]
            words = words[1:]
        if not words or words[1:2] == ["in"]:  # nothing but assignments, or the head of a `for` or a `case`
            if redirects:
                self.found.append(Simple("", (), redirects, self.cwd))
            return
        words, cwd = _unwrap(words, self.cwd, self.home)
        if not words:
            return
        name, rest = basename(words[0]), tuple(words[1:])
        if name in ("cd", "pushd"):
            target = next((w for w in rest if w[:1] != "-" or w == "-"), self.home)
            if target and target != "-" and "$" not in target:
                folder = place(target, self.cwd, self.home)
                if len(folder) < _LONGEST:
                    self.cwd = self.known["PWD"] = folder
            self.found.append(Simple(name, rest, redirects, cwd, "", words[0]))
            return
        cwd = _folder(name, rest, cwd, self.home)
        if name in _SHELLS and self.depth > 0 and (inner := _script(rest)):
            self.found.extend(_read(inner, cwd, self.home, self.depth - 1, dict(self.known)))
            if redirects:
                self.found.append(Simple("", (), redirects, cwd))
            return
        if name == "eval" and self.depth > 0:
            self.found.extend(_read(" ".join(rest), cwd, self.home, self.depth - 1, dict(self.known)))
            return
        self.found.append(Simple(name, rest, redirects, cwd, "", words[0]))


def _unwrap(words: list[str], cwd: str, home: str) -> tuple[list[str], str]:
    """The command that `env X=1 timeout 5 nice ...` runs in the end."""
    for _ in range(6):
        name = basename(words[0]) if words else ""
        if name == "timeout":
            rest = list(words[1:])
            while rest and rest[0][:1] == "-":
                rest = rest[2:] if rest[0] in ("-s", "-k", "--signal", "--kill-after") else rest[1:]
            words = rest[1:]
            continue
        if name not in WRAPPERS or (name in ("sudo", "strace") and len(words) < 2):
            return words, cwd
        if name == "env":
            cwd = _folder(name, tuple(words[1:]), cwd, home)
        takes = WRAPPERS[name].split()
        rest = words[1:]
        while rest and (rest[0][:1] == "-" or (name in ("env", "sudo") and _ASSIGNMENT.fullmatch(rest[0]))):
            rest = rest[2:] if rest[0] in takes else rest[1:]
        if not rest:
            return words, cwd
        words = rest
    return words, cwd


def _folder(name: str, words: tuple[str, ...], cwd: str, home: str) -> str:
    """Where a program works that was told a folder by an option of its own."""
    options = _FOLDER_OPTIONS.get(name)
    if not options:
        return cwd
    for index, word in enumerate(words[:12]):
        for option in options:
            if word == option and index + 1 < len(words):
                cwd = place(words[index + 1], cwd, home)
            elif word.startswith(option + "="):
                cwd = place(word[len(option) + 1 :], cwd, home)
            elif len(option) == 2 and word.startswith(option) and len(word) > 2:
                cwd = place(word[2:], cwd, home)
    return cwd


def _script(words: tuple[str, ...]) -> str:
    """The text behind a shell's `-c`, or ""."""
    for index, word in enumerate(words[:6]):
        if word[:1] == "-" and word[:2] != "--" and word.endswith("c") and index + 1 < len(words):
            return words[index + 1]
        if word[:1] not in "-+":
            return ""
    return ""


def _closing(text: str, start: int) -> int:
    """The index behind the parenthesis that closes the one opened before `start`."""
    level = 1
    for match in _PARENTHESIS.finditer(text, start):
        if match[0] == "(":
            level += 1
        elif match[0] == ")":
            level -= 1
            if not level:
                return match.end()
    return len(text)


def _ansi(text: str) -> str:
    def value(match: re.Match[str]) -> str:
        code = match[1]
        if code[0] == "x":
            return chr(int(code[1:], 16))
        if code[0].isdigit():
            return chr(int(code, 8) & 0x7F)
        return {"n": "\n", "t": "\t"}.get(code, code)

    return _ANSI.sub(value, text)


def _skip_heredocs(text: str, position: int, reader: _Reader) -> int:
    """Past the bodies of the here-documents opened on the line that ended at `position`."""
    for delimiter, index in reader.heredocs:
        end = position
        body_end = len(text)
        while end < len(text):
            stop = text.find("\n", end)
            stop = len(text) if stop < 0 else stop
            if text[end:stop].strip("\t ") == delimiter:
                body_end = end
                end = min(stop + 1, len(text))
                break
            end = stop + 1
        if index < len(reader.found):
            old = reader.found[index]
            body = text[position:body_end]
            reader.found[index] = Simple(old.name, old.words, old.redirects, old.cwd, body, old.path)
        position = min(end, len(text))
    reader.heredocs.clear()
    return position


def _read(text: str, cwd: str, home: str, depth: int, known: dict[str, str]) -> list[Simple]:
    reader = _Reader(home, cwd, depth, known)
    position, length = 0, len(text)
    while position < length:
        match = _TOKEN.match(text, position)
        if match is None:
            position += 1
            continue
        kind, token = match.lastgroup, match[0]
        position = match.end()
        word = reader.word
        if kind == "plain":
            if token == "$":
                variable = _VARIABLE.match(text, match.start())
                if variable:
                    word.add(reader.expand(variable[0]))
                    position = variable.end()
                    continue
                if text.startswith("((", position):
                    position = _closing(text, position + 1)
                    token = text[match.start() : position]
                elif text.startswith("{", position):
                    end = text.find("}", position)
                    position = length if end < 0 else end + 1
                    token = text[match.start() : position]
            word.add(token)
        elif kind == "space":
            reader.end_word()
        elif kind == "single":
            word.add(token[1:-1] if token[-1] == "'" and len(token) > 1 else token[1:], quoted=True)
        elif kind == "double":
            inside = token[1:-1] if token[-1] == '"' and len(token) > 1 else token[1:]
            word.add(_DOUBLE_ESCAPE.sub(r"\1", reader.expand(inside)), quoted=True)
            if depth > 0 and "$(" in inside:
                start = inside.index("$(") + 2
                inner = inside[start : _closing(inside, start) - 1]
                reader.found.extend(_read(inner, reader.cwd, home, depth - 1, dict(reader.known)))
        elif kind == "ansi":
            word.add(_ansi(token[2:-1]), quoted=True)
        elif kind == "escape":
            word.add(token[1:], quoted=True)
        elif kind == "redirect":
            if word.started and word.text.isdigit() and not word.quoted:
                reader.word = _Word()
            reader.end_word()
            reader.pending = token
        elif kind == "control":
            reader.end_command()
            if token == "(":
                reader.folders.append(reader.cwd)
            elif token == ")" and reader.folders:
                reader.cwd = reader.folders.pop()
            elif token == "\n" and reader.heredocs:
                position = _skip_heredocs(text, position, reader)
        elif kind == "command":
            end = _closing(text, position)
            inner = text[position : end - 1]
            word.add(text[match.start() : end])
            if depth > 0:
                reader.found.extend(_read(inner, reader.cwd, home, depth - 1, dict(reader.known)))
            position = end
        elif kind == "tick":
            word.add(token)
            if depth > 0:
                reader.found.extend(_read(token.strip("`"), reader.cwd, home, depth - 1, dict(reader.known)))
        elif kind == "comment" and word.started:
            # `a#b` is a word; only a `#` at a word's start is a comment.
            word.add("#")
            position = match.start() + 1
    reader.end_command()
    return reader.found


@lru_cache(maxsize=512)
def _cached(command: str, cwd: str, home: str, known: tuple[tuple[str, str], ...]) -> tuple[Simple, ...]:
    return tuple(_read(command, cwd, home, _DEPTH, dict(known)))


def read(command: str, cwd: str = "", home: str = "", known: Mapping[str, str] | None = None) -> tuple[Simple, ...]:
    """The simple commands of `command`, in order, those inside substitutions before the command they feed.

    Args:
        cwd: where the command starts.
        home: what `~` and `$HOME` mean.
        known: further variables whose value is sure.
    """
    variables = {"HOME": home, "PWD": cwd} if home else {"PWD": cwd} if cwd else {}
    if known:
        variables.update(known)
    return _cached(command[:LIMIT], cwd, home, tuple(variables.items()))
