"""nd7-exec's own refusals: a line of its own, exit 126, and nothing that ran."""

from __future__ import annotations

from nd7core.attribution.failure import Failure
from nd7core.attribution.verdict import Verdict

_PREFIX = "nd7-exec: "
_USAGE = "usage: nd7-exec"


def own_refusal(output: str, failure: Failure) -> Verdict | None:
    """The verdict for a genuine refusal of nd7-exec, None for its words in a log, a source file or an echo.

    Genuine is what nd7-exec alone can bring about: the shell never started, so the exit status is 126 (2 for its
    usage), and nothing of the command's own stands in the output.
    """
    if failure.exit_code not in (126, 2, None):
        return None
    if _PREFIX.rstrip() in failure.command or "nd7-exec --" in failure.command:
        return None  # its words come out of the command itself, or answer it
    lines = [line.strip() for line in output.split("\n") if line.strip()]
    ours = [line for line in lines if line.startswith((_PREFIX, _USAGE))]
    if not ours:
        return None
    usage = ours[0].startswith(_USAGE) or ours[0].startswith(_PREFIX + "usage")
    if failure.exit_code == 2 and not usage:
        return None
    # A wrapper may print around it: a shell's start file before, the agent's notes behind.
    if len(ours) < len(lines) and (failure.exit_code != 126 or lines.index(ours[0]) > 3):
        return None
    said = ours[0][len(_PREFIX) :] if ours[0].startswith(_PREFIX) else ours[0]
    return Verdict(
        "nd7-exec",
        "recorded" if failure.recorded else "matched" if failure.exit_code == 126 else "likely",
        "execute",
        remedy="cannot-grant",
        reason=f"nd7-exec ran nothing: {said[:200]}. {_advice(said)}",
        line=ours[0],
    )


def _advice(said: str) -> str:
    if "ancestry" in said:
        return "Start the agent with `nd7 run`."
    if said.startswith("exec "):
        return "The session's shell cannot be started; `nd7 doctor` checks it."
    if "policy" in said or said.startswith("read "):
        return "The session's policy cannot be used; restart the session, or mend the file it names."
    return "The session, not a path, is the matter; restart it with `nd7 run`."
