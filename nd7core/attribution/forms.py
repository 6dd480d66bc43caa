"""The shapes in which programs say that the system refused them something.

A line with an error on it (see `markers`) is taken apart by what stands in quotes, between colons, before and behind
the error's words.  What is learned is the shape of a family of programs, never one program's vocabulary: coreutils,
shells, Go, Python, Node, Ruby, Java, Rust, PHP, Perl and .NET differ in order and quoting and in little else.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from nd7core.attribution import markers, nearby, network, paths
from nd7core.attribution.cutting import KEY_PATH, START, cut
from nd7core.attribution.finding import Finding, Told, names

_PROGRAM = re.compile(
    r"\s*(?:(?:/[\w.+-]+)*/)?(?P<name>-?[A-Za-z_][\w.+-]{0,40})(?:\s\(\w+\))?(?:\[\d+\])?:(?:(?P<line>\d+):|\s|$)"
)
_SHELL_LINE = re.compile(r"\s*(?P<name>[^\s:]{1,200})(?::[\w.-]+)?: ?(?:eval: )?(?:[^\W\d]{2,12} )?(?P<line>\d+):")
_WRITE = re.compile(
    r"\b(?:creat\w*|writ\w*|mkdir\w*|mkstemp\w*|mktemp|mkfifo|mknod|remov\w*|rm|rmdir|unlink\w*|delet\w*|renam\w*"
    r"|mov(?:e|ing)|"
    r"touch\w*|sav(?:e|ing)|append\w*|chmod|chown|chang\w*|truncat\w*|modif\w*|updat\w*|output|install\w*|replac\w*|"
    r"lock\w*|symlink\w*|hard link|copyfile|utimes?|setting times|set times|temporary|temp file|make|put_contents|"
    r"extract\w*|uploads?|store|mode 'w\w*'|mode 'a\w*'|rb_file_s_\w+|dir_s_mkdir|dir_s_rmdir|apply2files"
    r"|createNewFile|"
    r"FileOutputStream|FileWriter|withBinaryFile)\b",
    re.IGNORECASE,
)
_READ = re.compile(
    r"\b(?:reading|read|list\w*|scandir|opendir|stat|lstat|statx|getcwd|chdir|cd|load\w*|can't read|cannot read|"
    r"open directory|(?:cannot|unable to|can't) access|readlink|realpath|source|parse|include|require|dir_initialize"
    r"|dir_chdir|FileInputStream|"
    r"FileReader|iterdir|listdir|inaccessible|error reading|input)\b",
    re.IGNORECASE,
)
_EXECUTE = re.compile(
    r"\b(?:exec\w*|fork/exec|spawn\w*|cannot run|can't run|execv\w*|posix_spawn|cannot execute)\b", re.IGNORECASE
)
READERS = names(
    "cat head tail less more bat grep egrep fgrep rg ag ack find fd bfs ugrep ls dir tree stat du wc file strings "
    "diff cmp comm "
    "sort uniq cut nl tac od xxd hexdump md5sum sha1sum sha256sum shasum b2sum cksum zcat zgrep jq awk gawk mawk "
    "source . cd "
    "readlink realpath test base64 column paste join exa eza lsd getfacl lsattr"
)
_WRITERS = names("touch mkdir rm rmdir mv cp tee dd install truncate chmod chown ln mktemp split unzip unlink mkfifo")

_BEFORE_TAIL = " \t:(,;–—-│|×*[{\"'`"
_AFTER_HEAD = " \t:,;@)]│|-"
_RUBY = re.compile(r"^\s*@ (?P<function>\w+)(?: - (?P<rest>.*?))?(?: \(Errno::\w+\))?\s*$")
_GO = re.compile(
    r"(?:^|[\s:(\"])(?P<call>open|openat|create|mkdir|stat|lstat|rename|unlink|unlinkat|remove|link|symlink|chmod"
    r"|chtimes|chown|readlink|"
    r"fork/exec|exec|fstatat|readdirent|truncate|write|read|copy_file_range|chdir|getwd|lock|flock|mkdirat|symlinkat"
    r"|fdopendir|opendir) "
    r"(?P<path>(?:~|\.{1,2})?/[^:'\"]*?|[^\s:'\"]+)(?P<second> [~./]\S*)?: ?$"
)
_NODE = re.compile(r"^,? (?P<call>[a-z]+)(?: |$)")
_CALL = re.compile(r"(?P<function>[\w:>.]+)\((?P<path>(?:~|\.{1,2})?/[^()\n]*?)(?:, ?[^()]*)?\)(?=: |\s)")
_IGNORED_QUOTES = re.compile(r"^(?:[A-Z_]{3,}|[\w.]*(?:Error|Exception)|<[^>]*>|\d+|[a-z]+\(\)|[\w-]+=\S*)$")
_NO_PROGRAMS = names("error fatal warning warn panic abort note caused info debug err e")
_CALLS = names(
    "connect listen bind open socket exec fork mkdir write read send sendto accept stat access create fopen opendir "
    "execve ptrace kill "
    "setsockopt mount failed denied reason"
)
_PLAIN_NAME = re.compile(r"[\w@%+=.,~ -]*[\w@%+=~-](?:/[\w@%+=.,~ -]+)*/?")
_URL = re.compile(r"\b[a-z][a-z0-9+]{1,15}://\S*")


def program_of(line: str) -> str:
    """The program that a line says it is from, "" where it does not."""
    match = _PROGRAM.match(line)
    if not match:
        return ""
    return match["name"].lstrip("-")


def shell_script(line: str) -> str:
    """The script or shell in `NAME: line 3:`, `NAME: 3:` or `zsh:3:`; "" for another line."""
    match = _SHELL_LINE.match(line)
    return match["name"] if match else ""


def operation_of(text: str, program: str) -> Told:
    """read, write or execute as the sentence says it, "" where it says none or more than one."""
    if "for reading" in text:
        return "read"
    if "for writing" in text or "for output" in text or "for append" in text or "for update" in text:
        return "write"
    if _EXECUTE.search(text):
        return "execute"
    write, read = _WRITE.search(text), _READ.search(text)
    if write and not read:
        return "write"
    if read and not write:
        return "read"
    if program in _WRITERS:
        return "write"
    return "write" if write and program not in READERS else ""


def _quoted(line: str, mark: markers.Mark) -> tuple[list[str], list[str]]:
    """Paths and plain names in quotes on a line, apart from quotes around the error itself."""
    clear: list[str] = []
    names: list[str] = []
    for start, end, text in paths.quoted(line):
        if start < mark.end and end > mark.start:
            continue
        if paths.looks_like_path(text):
            clear.append(text)
        elif text and len(text) < 256 and not _IGNORED_QUOTES.match(text) and _PLAIN_NAME.fullmatch(text):
            names.append(text)
    return clear, names


def _before(text: str, program: str) -> list[str]:
    """The path between the last colons before the error: `prog: line 1: /a b: `, `mkdir /a: `, `x: /a (`."""
    text = text.rstrip(_BEFORE_TAIL)
    call = _CALL.search(text + ": ")
    if call:
        return [call["path"]]
    segments = text.split(": ")
    for number in range(len(segments) - 1, -1, -1):
        segment = segments[number].strip()
        if not segment:
            continue
        start = START.search(segment)
        if start:
            found = cut(segment[start.start() :])
            if " " in found and start.start() > 0 and not segment[: start.start()].strip():
                found = found.strip()
            second = START.search(found, 1)
            if second and found[second.start() - 1 : second.start()] == " ":
                return [found[: second.start()].strip(), found[second.start() :].strip()]
            return [found] if len(found) > 1 or found == "/" else []
    if len(segments) >= 2 and program:
        return _relative([segment.strip() for segment in segments], program)
    return []


def _relative(segments: list[str], program: str) -> list[str]:
    """A relative name between colons: BSD's `cp: name: ...`, git's `file .git/config:`, tar's `name: Cannot open`."""
    last = segments[-1].rsplit(" ", 1)[-1]
    if segments[0] == segments[-1]:
        return []
    if "/" in last and _name_like(last):
        return [last]
    if program[:1].isupper() or program in _NO_PROGRAMS:
        return []
    if _name_like(last) and last not in _CALLS and (" " not in segments[-1] or "." in last):
        return [last]
    middle = segments[-2] if len(segments) > 2 else ""
    return [middle] if middle and " " not in middle and _name_like(middle) and middle != program else []


def _name_like(word: str) -> bool:
    return (
        bool(re.fullmatch(r"[\w@%+=.,~/-]+", word))
        and not word.isdigit()
        and not re.fullmatch(r"\d+(?:\.\d+)+", word)
        and not word.endswith(":")
    )


def _after(text: str) -> list[str]:
    """The path behind an error: zsh's `permission denied: /a`, Ruby's `@ rb_sysopen - /a`, node's `, open '/a'`."""
    ruby = _RUBY.match(text)
    if ruby:
        rest = ruby["rest"] or ""
        if rest.startswith("("):
            return [part.strip() for part in rest.strip("()").split(", ")]
        return [rest] if rest else []
    stripped = text.lstrip(_AFTER_HEAD)
    if paths.looks_like_path(stripped) or (stripped.startswith("./") and len(stripped) > 2):
        return [cut(stripped)]
    if text.startswith(": ") and stripped and " " not in stripped.strip() and _name_like(paths.tidy(stripped)):
        return [paths.tidy(stripped)]
    start = START.search(text)
    if start and not _URL.search(text[: start.start() + 2]):
        return [cut(text[start.start() :])]
    return []


def _go(before: str) -> list[str]:
    match = _GO.search(before)
    if not match:
        return []
    path = (
        match["path"] + (match["second"] or "") if match["call"] not in ("rename", "link", "symlink") else match["path"]
    )
    return [paths.tidy(path)] + ([match["second"].strip()] if match["second"] and path == match["path"] else [])


def named_paths(line: str, mark: markers.Mark, program: str) -> tuple[str, ...]:
    """Every path that a line with an error names, as printed, without quotes, in order."""
    before, after = line[: mark.start], line[mark.end :]
    clear, names = _quoted(line, mark)
    if clear:
        if len(names) == 1 and re.search(r"->|=>|\bto\b", line):
            # `'name' => '/a'`: the other end of a link or a rename.
            first = line.find(names[0]) < line.find(clear[0])
            return (names[0], clear[0]) if first else (clear[0], names[0])
        return tuple(clear)
    found = tuple(path for path in _go(before) or _after(after) or _before(before, program) if path)
    if found and paths.looks_like_path(found[0]):
        return found
    keyed = KEY_PATH.search(line)
    if keyed:
        return (keyed[1].strip(),)
    # Without a slash in front only a name that looks like a file's: code in quotes has words in it too.
    files = [name for name in names if re.fullmatch(r"[\w@%+=~-]*(?:[./][\w@%+=~-]+)+", name)]
    if files:
        return tuple(files[-2:])
    return found or (tuple(names[-1:]) if program in _WRITERS or program in READERS else ())


_NETWORK_CALLS = names("connect listen bind getaddrinfo sendto")
_LOCAL_SERVICE = re.compile(
    r"\b(?:ssh-?agent|gpg-?agent|keyboxd|to (?:the )?agent|(?:message |session |system |user )?bus\b|X server|display"
    r"|wayland|pulse|"
    r"named ?pipe|daemon socket|unix socket|AF_UNIX|stream server)",
    re.IGNORECASE,
)


def read_line(lines: Sequence[str], index: int, mark: markers.Mark) -> Finding:
    """One line with an error on it, taken apart."""
    line = lines[index]
    program = program_of(line)
    found = named_paths(line, mark, program)
    rest = line[: mark.start] + " " + line[mark.end :]
    for path in found:
        rest = rest.replace(path, " ")
    finding = Finding(line, mark.errno, "path" if found else "unknown", found, program=program, index=index)
    call = nearby.syscall(lines, index)
    about_network = (
        bool(network.WORDS.search(rest)) or call in _NETWORK_CALLS or "/dev/tcp/" in line or "/dev/udp/" in line
    )
    if about_network:
        _about_network(finding, lines, index, rest)
        if finding.kind != "unknown":
            return finding
    if not finding.paths:
        says = nearby.trace_says(lines, index)
        if says == "network" and not about_network:
            _about_network(finding, lines, index, rest)
            return finding
        if says == "shared":
            finding.kind, finding.paths = "socket", ()
            return finding
        if says in ("signal", "other"):
            finding.kind = "signal" if says == "signal" else "other"
            return finding
        finding.paths = nearby.around(lines, index)
        finding.kind = "path" if finding.paths else "unknown"
    finding.operation = operation_of(rest + " " + call, program)
    return finding


def _about_network(finding: Finding, lines: Sequence[str], index: int, rest: str) -> None:
    """Make a finding one about a socket: a path is a unix socket's, otherwise host and port."""
    line = lines[index]
    finding.direction = "listen" if network.LISTEN.search(line) else "connect"
    host, port = network.pair(line, loose=True)
    if "/dev/tcp/" in line or "/dev/udp/" in line:
        finding.paths = ()
    if finding.paths and not (port and not paths.looks_like_path(finding.paths[0])):
        if re.search(r"\bunix\b|sock|socket|bind|listen|connect\w*|dial", rest, re.IGNORECASE):
            finding.kind = "socket"
        return
    if not port and _LOCAL_SERVICE.search(rest):
        finding.kind, finding.paths = "socket", ()
        return
    if not port:
        host_near, port = network.around(lines, index)
        host = network.host_on(line) or host or host_near
        port = port or network.port_on(line)
    finding.kind, finding.host, finding.port, finding.paths = "network", host, port, ()
    finding.operation = "network"
