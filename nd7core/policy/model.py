"""A policy in memory: what a profile's text says, form by form, with the line each stands on."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal

from nd7core.errors import Nd7Error

if TYPE_CHECKING:
    from nd7core.policy.evaluate import Table

FILE_READ = ("file-read-data", "file-read-metadata", "file-read-xattr")
FILE_WRITE = (
    "file-write-create",
    "file-write-data",
    "file-write-unlink",
    "file-write-mode",
    "file-write-owner",
    "file-write-flags",
    "file-write-xattr",
    "file-write-acl",
    "file-write-setugid",
)
CLASSES: dict[str, tuple[str, ...]] = {"file-read*": FILE_READ, "file-write*": FILE_WRITE}
"""An operation that stands for others, and its members."""
CLASS_OF = {member: name for name, members in CLASSES.items() for member in members}
NETWORK = ("network-outbound", "network-inbound", "network-bind")
OPERATIONS = frozenset(
    (
        *(*FILE_READ, *FILE_WRITE, *CLASSES, *NETWORK),
        *("file-link", "file-ioctl", "process-exec", "process-fork", "signal", "sysctl-read", "mach-lookup"),
    )
)
"""Every operation of the subset (formats.md)."""


class PolicyError(Nd7Error):
    """A profile that is not of the subset nd7 knows.  `line` counts from 1; 0 is the whole file."""

    def __init__(self, message: str, line: int = 0) -> None:
        super().__init__(f"line {line}: {message}" if line else message, exit_code=126)
        self.line = line


class Unenforceable(PolicyError):
    """A profile that says what this system's kernel cannot be told exactly."""


FilterKind = Literal["literal", "subpath", "regex", "all", "any", "remote", "local", "name"]


@dataclass(frozen=True, slots=True)
class Filter:
    """What a rule applies to.

    Attributes:
        kind: the form.
        value: the path, the regular expression, the name, or `host:port`.
        protocol: of `remote` and `local`: tcp, udp or ip.
        parts: of `all` and `any`.
        line: where it stands.
    """

    kind: FilterKind
    value: str = ""
    protocol: str = ""
    parts: tuple[Filter, ...] = ()
    line: int = field(default=0, compare=False)


@dataclass(frozen=True, slots=True)
class Rule:
    """`(allow|deny OPERATION... FILTER...)`; no filter matches everything, several match any."""

    allow: bool
    operations: tuple[str, ...]
    filters: tuple[Filter, ...] = ()
    no_sandbox: bool = False
    line: int = field(default=0, compare=False)


@dataclass(frozen=True, slots=True)
class Policy:
    """What a profile says.

    Attributes:
        rules: in the order of the text.
        default_allow: `(allow default)`; without a default form everything is refused.
        default_line: of the default form, or None where there is none.
        imports: the names of `(import ...)`.
        source: the text itself, bytes as they stand (or will stand) in policy.sb.
    """

    rules: tuple[Rule, ...]
    default_allow: bool = False
    default_line: int | None = field(default=None, compare=False)
    imports: tuple[str, ...] = ()
    source: bytes = field(default=b"", compare=False, repr=False)
    tables: dict[str, Table] = field(default_factory=dict, compare=False, repr=False)
    """Indexes by operation, made by `evaluate` when first asked."""
    groups: dict[str, tuple[Table, ...]] = field(default_factory=dict, compare=False, repr=False)
    """For a class, the distinct indexes of its members."""
    lines: list[str] = field(default_factory=list, compare=False, repr=False)
    """The text's lines, stripped; made when first asked for."""

    def text_of(self, line: int | None) -> str:
        """The text of a line of the profile, stripped; "" where there is no such line."""
        if line is None or line < 1:
            return ""
        if not self.lines:
            self.lines.extend(text.decode("utf-8", "surrogateescape").strip() for text in self.source.split(b"\n"))
        return self.lines[line - 1] if line <= len(self.lines) else ""
