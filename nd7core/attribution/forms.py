"""The shapes in which programs say that the system refused them something.

A line with an error on it (see `markers`) is taken apart by what stands in quotes, between colons, before and behind
the error's words.  What is learned is the shape of a family of programs, never one program's vocabulary: coreutils,
shells, Go, Python, Node, Ruby, Java, Rust, PHP, Perl and .NET differ in order and quoting and in little else.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from nd7core.attribution import markers, nearby, network, paths
from nd7core.attribution.finding import Finding, Told, names
from nd7core.attribution.naming import named_paths

# What BSD's tools ask before they fail stands on the same line, for nobody answers.
_ASKED = r"(?:(?:override|overwrite|remove|replace) [^?\n]{1,200}\? (?:\([^()]*\) )?)?"
_PROGRAM = re.compile(
    rf"\s*{_ASKED}"
    r"(?:(?:/[\w.+-]+)*/)?(?P<name>-?[A-Za-z_][\w.+-]{0,40})(?:\s\(\w+\))?(?:\[\d+\])?:(?:(?P<line>\d+):|\s|$)"
)
_SHELL_LINE = re.compile(r"\s*(?P<name>[^\s:]{1,200})(?::[\w.-]+)?: ?(?:eval: )?(?:[^\W\d]{2,12} )?(?P<line>\d+):")
_WRITE = re.compile(
    r"\b(?:creat\w*|writ\w*|mkdir\w*|mkstemp\w*|mktemp|mkfifo|mknod|remov\w*|rm|rmdir|unlink\w*|delet\w*|renam\w*|"
    r"mov(?:e|ing)|touch\w*|sav(?:e|ing)|append\w*|chmod|chown|chang\w*(?![ _](?:dir|to\b))|truncat\w*|modif\w*|"
    r"updat\w*|output|install\w*|replac\w*|lock\w*|symlink\w*|hard link|copyfile|utimes?|setting times|set times|"
    r"temporary|temp file|make|put_contents|extract\w*|redirect\w*|uploads?|store|mode 'w\w*'|mode 'a\w*'|"
    r"rb_file_s_\w+|dir_s_mkdir|dir_s_rmdir|apply2files|createnewfile|fileoutputstream|filewriter|withbinaryfile)\b",
)
_READ = re.compile(
    r"\b(?:reading|read|list\w*|scandir|opendir|stat|lstat|statx|getcwd|chdir|cd|load(?:ing|ed)?|can't read|"
    r"cannot read|open directory|(?:cannot|unable to|can't) access|readlink|realpath|source|parse|include|require|"
    r"dir_initialize|dir_chdir|fileinputstream|filereader|iterdir|listdir|inaccessible|error reading|input)\b",
)
_READ_ONLY = re.compile(r"read-?only", re.IGNORECASE)
_EXECUTE = re.compile(
    r"\b(?:execve?|execvp|execv|fork/exec|posix_spawn\w*|spawn)\b"
    r"|\b(?:cannot|can.t|could not|failed to|unable to|error) (?:execute|run|exec|start|spawn\w*|starting)"
    r"(?: the| command| program| binary| process){0,2}\s*(?:[:'\"‘`“(]|$)",
)
READERS = names(
    "cat head tail less more bat grep egrep fgrep rg ag ack find fd bfs ugrep ls dir tree stat du wc file strings "
    "diff cmp comm sort uniq cut nl tac od xxd hexdump md5sum sha1sum sha256sum shasum b2sum cksum zcat zgrep jq "
    "awk gawk mawk source . cd readlink realpath test base64 column paste join exa eza lsd getfacl lsattr"
)
_WRITERS = names("touch mkdir rm rmdir mv cp tee dd install truncate chmod chown ln mktemp split unzip unlink mkfifo")


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
    text = text.lower()
    if program == "make":
        text = text.replace("make:", " ", 1)  # its name is a word for making, and says nothing of what it did
    if "for reading" in text:
        return "read"
    if "for writing" in text or "for output" in text or "for append" in text or "for update" in text:
        return "write"
    if ("exec" in text or "spawn" in text or "run" in text or "start" in text) and _EXECUTE.search(text):
        return "execute"
    write, read = _WRITE.search(text), _READ.search(text)
    if write and not read:
        return "write"
    if read and not write:
        return "read"
    if program in _WRITERS:
        return "write"
    return "write" if write and program not in READERS else ""


_NETWORK_CALLS = names("connect listen bind getaddrinfo sendto")
_LOCAL_SERVICE = re.compile(
    r"\b(?:ssh-?agent|gpg-?agent|keyboxd|to (?:the )?agent|(?:message |session |system |user )?bus\b|X server|"
    r"display|wayland|pulse|named ?pipe|daemon socket|unix socket|docker\.errors|AF_UNIX|stream server|IPC\b|"
    r"inter-?process|process communication|task communication)",
    re.IGNORECASE,
)
_UNIX = re.compile(r"\bunix:(?://)?(?P<url>/[^\s:'\"]+)|\b(?:dial|listen) unix (?P<dial>[^\s:'\"]+)")
# OpenSSH's own function, and a call shown with its numbers: 1 is AF_UNIX.
_UNIX_CALL = re.compile(r"\bunix_listener\b|\bsocket\((?:1|AF_UNIX|PF_UNIX|AF_LOCAL), ")
_SOCKET_FILE = re.compile(r"\.(?:sock|socket|ipc|pipe)$|/S\.[\w.-]+$|/(?:var/)?run/[^\s]*sock")
# What stands right before the error: `statsd 127.0.0.1:8125: `.
_ENDPOINT = re.compile(r"(?<![\w./-])(?:\d{1,3}(?:\.\d{1,3}){3}|localhost|\[[0-9a-fA-F:]+\]):\d{2,5}(?:: |:?$)")
# A library's own function, right before the error: `uv_bind: `, `tcp_listen() failed: `.
_CALLED = re.compile(r"(?:^|[\s:(])[A-Za-z]\w*_(?:bind|listen|connect|accept)(?:\(\))?(?: failed)?:(?: |$)")
_SOCKETS_FOLDER = re.compile(r"\bsockets?[ _-]?(?:dir\w*|folder|path|file)\b", re.IGNORECASE)
_SOURCE_NAME = re.compile(r"\S*\.\w{1,4}:\d+(?::in [`'][^']*')?")


def read_line(lines: Sequence[str], index: int, mark: markers.Mark) -> Finding:
    """One line with an error on it, taken apart."""
    line = nearby.joined(lines, index)
    program = program_of(line)
    found = named_paths(line, mark, program)
    rest = _READ_ONLY.sub(" ", line[: mark.start] + " " + line[mark.end :])
    for path in found:
        rest = rest.replace(path, " ")
    if found and "/" not in found[0] and program in network.PROGRAMS:
        found = ()  # one of its functions or its server
    if found and "/" not in found[0] and any("dir_fd" in above for above in lines[max(0, index - 4) : index]):
        found = ()  # relative to a folder that only the program knows
    if found and "url: /" in line:
        found = tuple(path for path in found if f"url: {path}" not in line)  # a request's, on its server
    finding = Finding(line, mark.errno, "path" if found else "unknown", found, program=program, index=index)
    unix = _UNIX.search(line)
    if unix:
        finding.kind, finding.paths = "socket", ((unix["url"] or unix["dial"]),)
        if "operation not permitted" in line.lower():
            finding.errno = "EPERM"  # a client may put its own words around the system's
        finding.direction = "listen" if network.LISTEN.search(line) else "connect"
        return finding
    if not found and _UNIX_CALL.search(line):
        finding.kind = "socket"
        return finding
    if not found and mark.errno in ("EPERM", "ANY") and nearby.uses_unix(lines, index):
        named = network.socket_named(lines[max(0, index - 14) : index])
        finding.kind, finding.paths = "socket", (named,) if named else ()
        return finding
    call = nearby.syscall(lines, index)
    if _speaks_of_network(rest, call, line, lines, index, found):
        _about_network(finding, lines, index, rest)
        if finding.kind != "unknown":
            return finding
    elif found and mark.errno == "EPERM" and (_SOCKET_FILE.search(found[0]) or program in network.PROGRAMS):
        finding.kind = "socket"
        return finding
    if not finding.paths:
        if mark.errno == "EPERM" and _LOCAL_SERVICE.search(rest):
            finding.kind = "socket"
            return finding
        says = nearby.trace_says(lines, index)
        if says == "network" or program in network.PROGRAMS:
            _about_network(finding, lines, index, rest)
            return finding
        if says == "shared":
            finding.kind = "socket"
            return finding
        if says in ("signal", "other"):
            finding.kind = "signal" if says == "signal" else "other"
            return finding
        finding.paths = nearby.around(lines, index) or _told_above(lines, index, mark)
        finding.kind = "path" if finding.paths else "unknown"
        if (
            not finding.paths
            and mark.errno == "ANY"
            and line[mark.end - 1].islower()
            and " " in line[mark.start : mark.end]
        ):
            finding.errno = "SAID"  # a sentence of anybody's, not a runtime's name for the error
    finding.operation = operation_of(rest + " " + call, program)
    return finding


_COULD_NOT_MAKE = re.compile(
    r"(?:cannot|can't|could not|unable to|failed to) (?:create|open|write|make|remove|delete) (?P<path>[^\s:]+)$"
)
_NAME_AT_END = re.compile(r": {1,4}(?P<path>[\w@%+=.-]+(?:/[\w@%+=.-]+)+)$")


def _told_above(lines: Sequence[str], index: int, mark: markers.Mark) -> tuple[str, ...]:
    """The path of the line above: its last quoted one, or the relative one at its end where this is the error alone."""
    line = lines[index]
    if not index or line[mark.end :].strip(" .\t"):
        return ()
    above = lines[index - 1][:2000]
    if program_of(above) and not program_of(line) and not markers.find(above):
        named = [text for _, _, text in paths.quoted(above) if paths.looks_like_path(text)]
        if named:
            return (named[-1],)  # a message that its translation breaks in two
    if line[: mark.start].strip():
        return ()
    if nested := [text for _, _, text in paths.quoted(above.replace("'", " ")) if paths.looks_like_path(text)]:
        return (nested[-1],)  # a line of its settings, shown above the error
    if line[:1] == " " and (name := _COULD_NOT_MAKE.search(above)):
        return (name["path"],)  # unzip's, whose error stands indented below its sentence
    name = _NAME_AT_END.search(above)
    return (name["path"],) if name and operation_of(above, program_of(above)) else ()


def _speaks_of_network(
    rest: str, call: str, line: str, lines: Sequence[str], index: int, found: tuple[str, ...]
) -> bool:
    """Whether a line, without the paths it names, is about a connection or a listener."""
    if not found and (_ENDPOINT.search(rest) or _CALLED.search(rest)):
        return True
    address = "://" in rest and "file://" not in rest
    rest = _SOCKETS_FOLDER.sub(" ", _SOURCE_NAME.sub(" ", rest))
    if call in _NETWORK_CALLS or network.WORDS.search(rest) or network.SPECIAL_FILE.search(line):
        return True
    if found and any(map(paths.looks_like_path, found)):
        return False
    if address:
        return True
    if found:
        return False
    if nearby.about_network(lines, index):
        return True
    # `unable to connect to host:` with the error on the next line
    above = lines[index - 1] if index else ""
    return above.rstrip().endswith(":") and bool(network.WORDS.search(above))


def _about_network(finding: Finding, lines: Sequence[str], index: int, rest: str) -> None:
    """Make a finding one about a socket: a path is a unix socket's, otherwise host and port."""
    line = lines[index]
    finding.direction = "listen" if network.LISTEN.search(line) else "connect"
    host, port = network.pair(line, loose=True)
    if network.SPECIAL_FILE.search(line):
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
