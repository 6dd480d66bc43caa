"""Reading a profile: SBPL text to a `Policy`, the subset of formats.md and nothing beyond it.

SBPL is Scheme; what stands in policy.sb is what is enforced, so a form that is not understood is an
error with its line and never passed over.  Bytes are read with `os.fsdecode`, so that a path of any
bytes comes out as it went in.
"""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from typing import NoReturn

from nd7core.policy.model import OPERATIONS, Filter, Policy, PolicyError, Rule
from nd7core.policy.regex import compiled

MAX_BYTES = 4 * 1024 * 1024
MAX_DEPTH = 32
_TOKEN = re.compile(
    r"""
    (?P<space>[ \t\r\n\f]+) | (?P<comment>;[^\n]*) | (?P<open>\() | (?P<close>\))
  | (?P<regex>\#"(?:[^"\\]|\\.)*") | (?P<string>"(?:[^"\\]|\\.)*") | (?P<symbol>[^\s()";\#]+)
    """,
    re.VERBOSE | re.DOTALL,
)
_ESCAPE = re.compile(r"\\(?:x([0-9A-Fa-f]{2})|(.))", re.DOTALL)
_ESCAPES = {"n": "\n", "t": "\t", "r": "\r"}
_PORT = re.compile(r"(\*|localhost):(\*|[0-9]{1,5})\Z")


@dataclass(frozen=True, slots=True)
class _Atom:
    kind: str  # "symbol", "string" or "regex"
    value: str
    line: int


@dataclass(slots=True)
class _List:
    items: list[_Atom | _List]
    line: int


def quote(path: str) -> str:
    """A path as a SBPL string.  Control characters are escaped so that one rule stays one line."""
    out = path.replace("\\", "\\\\").replace('"', '\\"')
    return '"' + re.sub(r"[\x00-\x1f\x7f]", lambda m: f"\\x{ord(m[0]):02x}", out) + '"'


def _unquote(raw: str, line: int) -> str:
    def one(match: re.Match[str]) -> str:
        if match[1]:
            code = int(match[1], 16)
            # A byte, as os.fsdecode would show it: above 7f it may be half of a character.
            return chr(code) if code < 0x80 else chr(0xDC00 + code)
        return _ESCAPES.get(match[2], match[2])

    text = _ESCAPE.sub(one, raw)
    if "\0" in text:
        raise PolicyError("a string with a NUL in it", line)
    # Escaped bytes may add up to a character: through bytes and back gives the one spelling.
    return os.fsdecode(os.fsencode(text))


def _read(text: str) -> list[_Atom | _List]:
    """Tokens to nested lists."""
    top: list[_Atom | _List] = []
    stack: list[_List] = []
    line, at = 1, 0
    while at < len(text):
        match = _TOKEN.match(text, at)
        if match is None:
            what = "a string without its end" if text[at] in '"#' else f"unreadable at {text[at : at + 10]!a}"
            raise PolicyError(what, line)
        kind, token = str(match.lastgroup), match[0]
        here = stack[-1].items if stack else top
        if kind == "open":
            if len(stack) >= MAX_DEPTH:
                raise PolicyError(f"parentheses nested deeper than {MAX_DEPTH}", line)
            new = _List([], line)
            here.append(new)
            stack.append(new)
        elif kind == "close":
            if not stack:
                raise PolicyError("a ) without its (", line)
            stack.pop()
        elif kind == "string":
            here.append(_Atom(kind, _unquote(token[1:-1], line), line))
        elif kind == "regex":
            here.append(_Atom(kind, token[2:-1], line))
        elif kind == "symbol":
            here.append(_Atom(kind, token, line))
        line += token.count("\n")
        at = match.end()
    if stack:
        raise PolicyError("a ( without its )", stack[-1].line)
    return top


def _unknown(form: _Atom | _List) -> NoReturn:
    if isinstance(form, _List):
        head = form.items[0] if form.items else None
        shown = f"({head.value[:60]!a} ...)" if isinstance(head, _Atom) else "(...)"
    else:
        shown = f"{form.value[:60]!a}"
    raise PolicyError(f"nd7 does not know the form {shown}", form.line)


def _head(form: _Atom | _List) -> str:
    """The symbol a list begins with, or ""."""
    if isinstance(form, _List) and form.items:
        first = form.items[0]
        if isinstance(first, _Atom) and first.kind == "symbol":
            return first.value
    return ""


def _path_filter(kind: str, atom: _Atom | _List) -> Filter:
    if not isinstance(atom, _Atom) or atom.kind != "string":
        raise PolicyError(f"{kind} wants a string", atom.line)
    path = atom.value if atom.value == "/" else atom.value.removesuffix("/")
    parts = path.split("/")
    if not path.startswith("/") or (path != "/" and any(part in ("", ".", "..") for part in parts[1:])):
        raise PolicyError(f"{kind} wants an absolute, canonical path", atom.line)
    return Filter("literal" if kind == "literal" else "subpath", path, line=atom.line)


def _filters(form: _Atom | _List) -> list[Filter]:
    """The filters of one form; `(literal A B)` is two."""
    head = _head(form)
    if not isinstance(form, _List):
        _unknown(form)
    rest = form.items[1:]
    if head in ("literal", "subpath", "regex", "global-name", "require-all", "require-any") and not rest:
        raise PolicyError(f"{head} without anything in it", form.line)
    if head in ("literal", "subpath"):
        return [_path_filter(head, item) for item in rest]
    if head == "regex":
        out = []
        for item in rest:
            if not isinstance(item, _Atom) or item.kind not in ("regex", "string"):
                raise PolicyError('regex wants #"..."', item.line)
            try:
                compiled(item.value)
            except ValueError as error:
                raise PolicyError(f"a regular expression nd7 cannot be sure of: {error}", item.line) from None
            out.append(Filter("regex", item.value, line=item.line))
        return out
    if head == "global-name":
        for item in rest:
            if not isinstance(item, _Atom) or item.kind != "string":
                raise PolicyError("global-name wants a string", item.line)
        return [Filter("name", item.value, line=item.line) for item in rest if isinstance(item, _Atom)]
    if head in ("require-all", "require-any"):
        parts = tuple(part for item in rest for part in _together(item))
        return [Filter("all" if head == "require-all" else "any", parts=parts, line=form.line)]
    if head in ("remote", "local"):
        return [_address(head, form)]
    _unknown(form)


def _together(form: _Atom | _List) -> list[Filter]:
    """The filters of one form as one filter: `(literal A B)` inside `require-all` is A or B."""
    found = _filters(form)
    return found if len(found) == 1 else [Filter("any", parts=tuple(found), line=form.line)]


def _address(head: str, form: _List) -> Filter:
    values = [item.value for item in form.items[1:] if isinstance(item, _Atom)]
    if len(values) != 2 or len(form.items) != 3 or values[0] not in ("tcp", "udp", "ip"):
        raise PolicyError(f'{head} wants a protocol and "host:port"', form.line)
    match = _PORT.match(values[1])
    if match is None or (match[2] != "*" and int(match[2]) > 65535):
        raise PolicyError(f"{head} knows the hosts * and localhost, and a port or *", form.line)
    port = match[2] if match[2] == "*" else str(int(match[2]))
    return Filter("remote" if head == "remote" else "local", f"{match[1]}:{port}", values[0], line=form.line)


def _rule(form: _List) -> Rule:
    operations: list[str] = []
    filters: list[Filter] = []
    no_sandbox = False
    for item in form.items[1:]:
        if isinstance(item, _Atom):
            if item.kind != "symbol" or item.value not in OPERATIONS:
                raise PolicyError(f"nd7 does not know the operation {item.value[:60]!a}", item.line)
            if filters or no_sandbox:
                raise PolicyError("an operation behind a filter", item.line)
            operations.append(item.value)
        elif _head(item) == "with":
            words = [word.value for word in item.items[1:] if isinstance(word, _Atom)]
            if words != ["no-sandbox"]:
                raise PolicyError("the only modifier nd7 knows is (with no-sandbox)", item.line)
            no_sandbox = True
        else:
            filters.extend(_filters(item))
    if not operations:
        raise PolicyError("a rule without an operation", form.line)
    return Rule(_head(form) == "allow", tuple(operations), tuple(filters), no_sandbox, form.line)


def parse(data: bytes) -> Policy:
    """A policy from the bytes of a profile.

    Raises:
        PolicyError: for anything that is not of the subset, with the line.
    """
    if len(data) > MAX_BYTES:
        raise PolicyError(f"the profile is larger than {MAX_BYTES} bytes")
    if b"\0" in data:
        raise PolicyError("the profile holds a NUL", data.count(b"\n", 0, data.index(b"\0")) + 1)
    rules: list[Rule] = []
    imports: list[str] = []
    default_allow, default_line, version = False, None, False
    for form in _read(os.fsdecode(data)):
        head = _head(form)
        if not isinstance(form, _List) or head not in ("version", "import", "allow", "deny"):
            _unknown(form)
        values = [item.value for item in form.items[1:] if isinstance(item, _Atom)]
        if head == "version":
            if values != ["1"] or len(form.items) != 2:
                raise PolicyError("nd7 knows (version 1)", form.line)
            version = True
        elif not version:
            raise PolicyError("the profile does not begin with (version 1)", form.line)
        elif head == "import":
            if len(values) != 1 or len(form.items) != 2 or values[0] != "system.sb":
                raise PolicyError('nd7 knows (import "system.sb")', form.line)
            imports.append(values[0])
        elif values[:1] == ["default"] and len(form.items) == 2:
            default_allow, default_line = head == "allow", form.line
        else:
            rules.append(_rule(form))
    if not version:
        raise PolicyError("the profile is empty")
    return Policy(tuple(rules), default_allow, default_line, tuple(imports), data)


def render(policy: Policy) -> bytes:
    """The bytes of policy.sb.  For a policy that was built or parsed these are its own text, so the
    lines that `decide` names are the lines of the file."""
    return policy.source
