"""From what a program printed to a path, and from a path to the thing that a grant must name.

Pure: no path is looked up here.  Whether something exists is asked through `nd7core.attribution.look`.
"""

from __future__ import annotations

import re
from posixpath import basename, dirname

from nd7core.attribution.finding import names
from nd7core.attribution.shell import place

# Opening mark -> closing mark, of every convention seen: GNU in C and UTF-8 locales, German, French, Japanese, ...
_QUOTES = {
    "'": "'",
    '"': '"',
    "`": "'`",
    "‘": "’",
    "“": "”",
    "„": "“”",
    "‚": "‘’",
    "«": "»",
    "»": "«",
    "‹": "›",
    "「": "」",
    "『": "』",
    "”": "”",
    "’": "’",
}
_QUOTED = re.compile(
    # GNU's shell quoting comes first: 'it'\''s' and 'a'$'\n''b' are one word.
    r"(?<![\w)])(?P<shell>'(?:[^'\n]*+'(?:\\''|\$'(?:[^'\\\n]++|\\.)*+''))++[^'\n]*+')"
    r"|(?:(?<![\w)])|(?<=\b[bur]))'(?P<single>[^'\n]*+)'"
    r'|"(?P<double>(?:[^"\\\n]++|\\.)*+)"'
    r"|`(?P<tick>[^`'\n]*+)[`']|[‘‚](?P<curly>[^’‘\n]*+)[’‘]|[“„](?P<curly2>[^”“\n]*+)[”“]|"
    r"«(?P<guillemet>[^»\n]*+)»|»(?P<guillemet2>[^«\n]*+)«|「(?P<corner>[^」\n]*+)」|『(?P<corner2>[^』\n]*+)』|"
    r"”(?P<swedish>[^”\n]*+)”|’(?P<finnish>[^’\n]*+)’"
)
_SHELL_PART = re.compile(r"'([^'\n]*+)'|\\(.)|\$'((?:[^'\\]++|\\.)*+)'")
_ESCAPES = {"n": "\n", "t": "\t", "r": "\r", "b": "\b", "f": "\f", "v": "\v", "a": "\a"}
_ANSI_ESCAPE = re.compile(r"\\([0-7]{3}|.)")

# Names that programs make beside the file they mean.  The first group is the file's own name.
_BESIDE = (
    re.compile(r"(.+)\.tmp\.\d+\.[0-9a-fA-F]+"),  # Claude Code's Write and Edit, npm's write-file-atomic
    re.compile(r"(.+)\.\d{5,}"),  # write-file-atomic of older npm
    re.compile(r"\.(.+)\.(?=\w*[A-Z0-9])\w{6}"),  # rsync
    re.compile(r"(.*[A-Za-z])\d{9,10}"),  # Go's CreateTemp with the file's own name
    re.compile(r"(.+)\.o[A-Za-z0-9]{6,7}"),  # patch
    re.compile(r"\.!\d+!(.+)"),  # sed of BSD
    re.compile(r"(.+\.[A-Za-z]\w*)\.(?=\w*[A-Z])\w{6,8}"),  # mkstemp beside the file
    re.compile(r"(.+)(?:\.lock|\.lck|\.swp|\.part|\.tmp|\.temp|\.new|\.bak|\.orig|\.rej|\.isorted|~)"),
)
PLAIN_SUFFIXES = (".lock", ".lck", ".swp", ".part", ".tmp", ".temp", ".new", ".bak", ".orig", ".rej", "~")
"""Endings that leave the name readable: shown as they were printed."""
# Names with nothing of the file in them: the folder is meant.
_ANONYMOUS = re.compile(
    r"sed(?=\w*[A-Z0-9])\w{6}|tmp[._-]?[A-Za-z0-9_]{6,10}(?:\.\w+)?|\.?tmp-?[\w-]{6,}|\.goutputstream-\w{6}|"
    r"\.fuse_hidden\w+|pip-[\w-]+|\.nfs\w+|[\w.-]*X{4,}|[0-9a-f]{16,}(?:[.-]\w+)?|\.~tmp~|st(?=\w*[A-Z0-9])\w{6}|"
    r"cc(?=\w*[A-Z0-9])\w{6}\.\w+|_tmp_\d+_\w{16,}|index\.lock|HEAD\.lock|config\.lock|packed-refs\.lock|"
    r"shallow\.lock"
)
_HASHED = re.compile(
    r"[0-9a-f]{2}|[0-9a-f]{16,}(?:[.-][\w-]+)?|sha\d{1,3}|v\d{1,2}|content-v\d|index-v\d|tmp|_tmp|http(?:-v\d)?"
)

# Folders below the home that many programs share.  Granting one opens all of them, so the next part is named.
_SHARED = frozenset(
    {
        ".cache",
        ".config",
        ".local",
        ".local/share",
        ".local/state",
        ".local/lib",
        "Library",
        "Library/Caches",
        "Library/Application Support",
        "Library/Preferences",
        "Library/Logs",
        "Documents",
        "Desktop",
        "Downloads",
    }
)


def unquote_shell(text: str) -> str:
    """GNU's shell quoting undone: `'it'\\''s'` to `it's`, `'a'$'\\303\\266'` to the name that these bytes are."""
    parts: list[bytes] = []
    for match in _SHELL_PART.finditer(text):
        single, escaped, ansi = match.groups()
        if ansi is None:
            parts.append(_bytes(single if single is not None else escaped))
            continue
        parts.append(_ansi_bytes(ansi))
    return b"".join(parts).decode("utf-8", "surrogateescape")


def _ansi_bytes(text: str) -> bytes:
    """The bytes of what stands between `$'` and `'`."""
    whole = b""
    position = 0
    for match in _ANSI_ESCAPE.finditer(text):
        code = match[1]
        value = bytes([int(code, 8) & 0xFF]) if len(code) == 3 else _bytes(_ESCAPES.get(code, code))
        whole += _bytes(text[position : match.start()]) + value
        position = match.end()
    return whole + _bytes(text[position:])


def _bytes(text: str) -> bytes:
    """UTF-8; bytes that were none stay, and no half of a surrogate makes it fail."""
    try:
        return text.encode("utf-8", "surrogateescape")
    except UnicodeEncodeError:
        return text.encode("utf-8", "surrogatepass")


def quoted(line: str) -> list[tuple[int, int, str]]:
    """What stands in quotes of any kind on a line, unquoted, as `(start, end, text)` in order."""
    found: list[tuple[int, int, str]] = []
    for match in _QUOTED.finditer(line):
        kind = match.lastgroup or ""
        text = match[kind].strip("\u00a0\u202f ") if kind.startswith("guillemet") else match[kind]
        if kind == "shell":
            text = unquote_shell(text)
        elif kind == "double" and "\\" in text:
            text = text.replace('\\"', '"').replace("\\\\", "\\")
        if len(text) > 2 and text[0] == text[-1] and text[0] in "'\"":
            text = text[1:-1]  # one kind of quotes around another, as some translations have it
        found.append((match.start(), match.end(), text))
    return found


# Java writes an address without a name as `/127.0.0.1:80`.
_PATHLIKE = re.compile(r"(?:~|\.{1,2})?/(?!\d{1,3}(?:\.\d{1,3}){3}(?::\d+)?$)|~$|\$[A-Za-z_]\w*/")


def looks_like_path(text: str) -> bool:
    """Whether a word starts as only a path does."""
    return bool(_PATHLIKE.match(text)) and "://" not in text[:12] and not text.startswith("//")


def tidy(path: str) -> str:
    """A printed path without what the sentence put around it."""
    path = path.strip(" \t\r").rstrip("\\")
    if path[-2:] in ("\"'", "'\"", "'`", "`'"):
        path = path[:-2]  # the ends of one quote around another
    while path and path[-1] in ",;:!?":
        path = path[:-1]
    if len(path) > 2 and path[-1] == "." and path[-2] not in "./":
        path = path[:-1]
    while len(path) > 1 and path[-1] in "\"'" and path[-1] not in path[:-1]:
        path = path[:-1]  # what closes a string of the line around it
    for opening, closing in (("(", ")"), ("[", "]"), ("{", "}"), ("<", ">")):
        if path.endswith(closing) and opening not in path:
            path = path[:-1]
        if path.startswith(opening) and closing not in path:
            path = path[1:]
    return path


def canonical(path: str, platform: str) -> str:
    """Two spellings of one folder made one: on macOS `/tmp`, `/var` and `/etc` live below `/private`."""
    if platform == "darwin":
        for name in ("/tmp", "/var", "/etc"):
            if path == name or path.startswith(name + "/"):
                return "/private" + path
    return path


def meant(path: str) -> tuple[str, bool]:
    """The file that a temporary name stands for, and whether it is the folder that must be writable.

    `x.py.tmp.123.9f0a` is for `x.py`; `sedAb12Cd` says nothing but its folder.
    """
    name, folder = basename(path), dirname(path)
    if _ANONYMOUS.fullmatch(name):
        return folder, True
    for pattern in _BESIDE:
        if match := pattern.fullmatch(name):
            return f"{folder.rstrip('/')}/{match[1]}" if folder else match[1], True
    return path, False


def proposal(path: str, home: str, *, is_folder: bool | None = None) -> str:
    """The narrowest path whose grant lets the refused operation through.

    A file that cannot be made, removed or renamed needs its folder; a hashed name in a cache needs the cache; and
    never is the home itself, a root, or a folder that every program shares proposed.

    Args:
        path: absolute, as resolved.
        home: the person's home, "" if unknown.
        is_folder: what is known of `path` from outside; None where nothing is.
    """
    target, _ = meant(path)
    below = _below(target, home)
    if below is not None:
        parts = below.split("/")
        if (parts and parts[0].startswith(".")) or parts[0] == "Library":
            return f"{home}/" + "/".join(_cache(parts))
    if "/.git/" in target + "/":
        # One command of git writes the index, objects and refs: less than the repository's .git never helps.
        return target[: (target + "/").index("/.git/") + 5]
    if is_folder:
        return target
    folder = dirname(target)
    if folder in ("", "/") or folder == home or _is_root(folder):
        return target
    return folder


def _below(path: str, home: str) -> str | None:
    if home and path.startswith(home.rstrip("/") + "/"):
        return path[len(home.rstrip("/")) + 1 :]
    return None


def _cache(parts: list[str]) -> list[str]:
    """The part of a dotted path below the home that belongs to one program: `.cache/x`, `.npm/_cacache`."""
    keep = 1
    while keep < len(parts) and "/".join(parts[:keep]) in _SHARED:
        keep += 1
    if keep == 1 and len(parts) > 2:
        keep = 2  # .cargo/registry, .m2/repository: not the programs and settings beside it
    while keep > 1 and _HASHED.fullmatch(parts[keep - 1]):
        keep -= 1
    return parts[:keep]


_ROOTS = names(
    "/ /bin /boot /dev /etc /home /lib /media /mnt /opt /private /private/tmp /private/var /proc /root /run /sbin "
    "/srv /sys /tmp /usr /usr/local /var /Users /Applications /Library /System /Volumes /opt/homebrew"
)


def _is_root(folder: str) -> bool:
    return folder in _ROOTS or (folder.count("/") == 2 and folder.startswith(("/home/", "/Users/", "/run/user")))


def is_shared(folder: str, home: str) -> bool:
    """Whether a grant of a folder would open far more than one program's files: the home, a root, `~/.config`."""
    below = _below(folder, home)
    return folder in ("", "/") or folder == home or _is_root(folder) or (below is not None and below in _SHARED)


_ON_LINE = re.compile(r"(?<![\w./~-])/[^\s'\":,;()\[\]{}]+")


def deepest(line: str, folder: str) -> str:
    """The longest path on a line that lies below a folder; "" for none."""
    found = [
        path for match in _ON_LINE.finditer(line[:4000]) if inside(path := tidy(match[0]), folder) and path != folder
    ]
    return max(found, key=len, default="")


_SEALED = names("/System /usr /bin /sbin")
_OWNED_BY_ROOT = names(
    "/etc /usr /bin /sbin /lib /lib32 /lib64 /boot /sys /proc /root /run /var /opt /snap /System /private/etc "
    "/private/var/db /private/var/log /private/var/root /private/var/at"
)
_NOT_ROOTS_OWN = names(
    "/run/user /var/tmp /var/folders /private/var/folders /usr/local/Cellar /usr/local/Homebrew /opt/homebrew"
)
# Their entries are root's to make, and are then given to whoever deploys or unpacks there.
_SHARED_OUT = ("/opt", "/var/www")


def inside(path: str, folder: str) -> bool:
    """Whether `path` is `folder` or below it.  Both absolute, without `..`."""
    return path == folder or path.startswith(folder if folder.endswith("/") else folder + "/")


def system_owned(path: str, home: str, platform: str) -> bool:
    """Whether ordinary permissions refuse an ordinary user there, on every machine seen; a guess where not looked."""
    if home and inside(path, home):
        return False
    if any(inside(path, folder) for folder in _NOT_ROOTS_OWN):
        return False
    if platform == "darwin":
        # A folder of root's answers EACCES there, which no sandbox does; what answers EPERM is sealed by the system.
        return not inside(path, "/usr/local") and any(inside(path, folder) for folder in _SEALED)
    if any(inside(path, folder) and path.count("/") > folder.count("/") + 1 for folder in _SHARED_OUT):
        return False
    if any(inside(path, folder) for folder in _OWNED_BY_ROOT):
        return True
    if home and path.startswith("/home/"):
        return True  # another person's home
    return path.count("/") == 1  # an entry of the root folder itself


def resolve(printed: str, cwd: str, home: str, platform: str) -> str:
    """A printed path made absolute and canonical as far as it can be known without looking."""
    return canonical(place(printed, cwd, home), platform)
