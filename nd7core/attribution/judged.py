"""A finding with its verdict, before the verdicts of one output become one."""

from __future__ import annotations

from dataclasses import dataclass, replace

from nd7core.attribution.finding import Finding, Told
from nd7core.attribution.verdict import Evidence, Operation, Remedy


@dataclass(slots=True)
class Judged:
    """A finding with its verdict."""

    kernel: bool
    kind: str
    evidence: Evidence
    operation: Operation
    target: str
    also: tuple[str, ...]
    remedy: Remedy
    grant: str
    reason: str
    owner: str
    line: str
    contradiction: str = ""
    errno: str = ""

    def beside(self, other: Judged) -> Judged:
        """This refusal with what another names: a socket refused without a name and its folder."""
        return replace(self, target=other.target, also=other.also)


def none(
    finding: Finding, owner: str, reason: str, target: str = "", contradiction: str = "", operation: Operation = "other"
) -> Judged:
    return Judged(
        False,
        finding.kind,
        "likely",
        operation,
        target,
        (),
        "not-nd7",
        "",
        reason,
        owner,
        finding.line.strip(),
        contradiction,
    )


def replace_kind(finding: Finding, operation: Told) -> Finding:
    """The finding as one about a path."""
    return Finding(finding.line, finding.errno, "path", finding.paths, "", 0, operation, finding.program, finding.index)


def replace_paths(finding: Finding, path: str) -> Finding:
    """The finding with a path that it did not name."""
    return Finding(
        finding.line, finding.errno, "path", (path,), "", 0, finding.operation or "", finding.program, finding.index
    )


def replace_evidence(judged: Judged) -> Judged:
    """A guess is never more than likely."""
    return replace(judged, evidence="likely")


def replace_network(finding: Finding, direction: str) -> Finding:
    """The finding as one about a connection or a listener that it did not name."""
    return Finding(
        finding.line, finding.errno, "network", (), "", 0, "network", finding.program, finding.index, direction
    )
