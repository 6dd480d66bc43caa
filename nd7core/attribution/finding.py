"""What one line of output says was refused, before the policy has been asked."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from nd7core.attribution.verdict import Operation

Told = Operation | Literal[""]
"""An operation as a line tells it, "" where it does not."""
Kind = Literal["path", "network", "socket", "signal", "other", "unknown"]


@dataclass(slots=True)
class Finding:
    """One refusal as a program told it.

    Attributes:
        line: the line it rests on, as printed.
        errno: EACCES, EPERM, EROFS, EXDEV; "ANY" for a word that covers the first two; "" where only the sentence
            says that something could not be done.
        kind: what was refused; `socket` is a unix socket, `unknown` a refusal that names nothing.
        paths: as printed, unquoted; two for a rename or link.
        host, port: of a network finding; port 0 is unknown.
        operation: read, write, execute or "" where the line does not tell.
        program: the name that the line starts with, "" if none.
        index: the line's number in what was read.
    """

    line: str
    errno: str
    kind: Kind
    paths: tuple[str, ...] = ()
    host: str = ""
    port: int = 0
    operation: Told = ""
    program: str = ""
    index: int = 0
    direction: str = ""  # "listen" or "connect" of a network finding, where told


def names(text: str) -> frozenset[str]:
    """The words of a text as a set: how the tables of program names are written."""
    return frozenset(text.split())
