"""What the attribution engine answers.  The fields are those of `nd7 explain` and `nd7 denials`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Source = Literal["kernel", "nd7-exec", "model", "none"]
Evidence = Literal["recorded", "matched", "likely", "reported"]
Operation = Literal["read", "write", "execute", "network", "signal", "ipc", "other"]
Remedy = Literal["grant", "restart-wider", "cannot-grant", "not-nd7"]


@dataclass(frozen=True, slots=True)
class Verdict:
    """Where a failure came from, on what grounds, and what mends it.

    Attributes:
        source: who refused; `none` is "no denial of nd7's".
        evidence: how well founded.  Never `matched` where the policy allows the operation.
        operation: what was refused.
        target: the first of `targets`: a path, `host:port`, or "" where nothing is known.
        targets: everything that was refused, as it was printed, resolved where it could be.
        remedy: what helps.
        grant: the path that `nd7 allow` would take, or "" where no grant helps.
        reason: one sentence for the person, in nd7's words, never the model's theory.
        owner: for source `none` whose it is: "permissions", "agent", "person", "remote", "program",
            "sandbox" (another one), "nd7" (it made what is in the way), or "".
        line: the line of the output that this rests on, or "".
        contradiction: what speaks against it ("the policy allows this path"), or "".
    """

    source: Source
    evidence: Evidence
    operation: Operation = "other"
    target: str = ""
    targets: tuple[str, ...] = ()
    remedy: Remedy = "not-nd7"
    grant: str = ""
    reason: str = ""
    owner: str = ""
    line: str = ""
    contradiction: str = ""
