"""From one failure to one verdict: who refused, what, on what grounds, and what mends it.

The order of evidence: what nd7-exec itself said; what the agent's own rules said; then each line that speaks of a
refusal, taken apart by its form and held against the policy.  The policy is the strongest witness: ordinary
permission errors are byte for byte what Landlock's look like, and only the rules tell them apart.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import replace

from nd7core.attribution import markers, others, sentences, special, words
from nd7core.attribution.content import Content, tabled
from nd7core.attribution.failure import ASSISTANT, BASH_TOOLS, Failure
from nd7core.attribution.forms import read_line
from nd7core.attribution.judge import Judge
from nd7core.attribution.judged import Judged
from nd7core.attribution.look import Look
from nd7core.attribution.own import own_refusal
from nd7core.attribution.rules import home_named, home_of, of_context
from nd7core.attribution.shell import read
from nd7core.attribution.silent import silent, worth
from nd7core.attribution.tested import of_a_test
from nd7core.attribution.verdict import Verdict

HEAD = 96 * 1024
TAIL = 96 * 1024
"""Characters of an output that are read: what matters stands where a program stopped, or where it started."""
MAX_LINES = 4000
MAX_FINDINGS = 64
_LONG_LINE = 4000

_EXIT = re.compile(r"(?:Error: )?Exit code (\d{1,3})(?:\n|$)")
NOTHING = Verdict(
    "none",
    "likely",
    reason="Nothing in the output speaks of a refusal; the program failed for its own reasons.",
    owner="program",
)
_QUIET_TOOLS = frozenset(
    {"Agent", "Task", "TodoWrite", "Skill", "WebSearch", "TaskCreate", "TaskUpdate", "TaskList", "SendMessage"}
)


def bounded(output: str) -> str:
    """Head and tail of an output that is too long to be read whole, cut at line ends."""
    if len(output) <= HEAD + TAIL:
        return output
    head = output[:HEAD]
    tail = output[-TAIL:]
    cut = head.rfind("\n")
    if cut > HEAD // 2:
        head = head[:cut]
    start = tail.find("\n")
    if 0 <= start < TAIL // 2:
        tail = tail[start + 1 :]
    return head + "\n" + tail


def explain(failure: Failure, *, look: Look | None = None) -> Verdict:
    """Where a failure came from.  Never raises, whatever the text holds.

    Args:
        failure: the call.
        look: asks ordinary permissions from outside; None where the files are not this machine's.
    """
    if failure.tool == ASSISTANT:
        found = words.explain_words(failure)
        return found[0] if found else words.NO_REPORT
    output = bounded(failure.output)
    told = _EXIT.match(output)
    if told is not None:
        # The agent's own first line of a failure, where nobody took it off.
        code = failure.exit_code if failure.exit_code is not None else int(told[1])
        output = output[told.end() :]
        failure = replace(failure, exit_code=code, output=output)
    bash = failure.tool in BASH_TOOLS
    if bash and "nd7-exec" in output and (own := own_refusal(output, failure)):
        return own
    other = others.agents_own(output)
    if other is not None:
        return Verdict("none", "likely", reason=other.reason, owner=other.owner, line=_first(output))
    if failure.tool in _QUIET_TOOLS:
        return NOTHING
    return _judge(failure, output, output.lower(), look)


def _first(text: str) -> str:
    return next((line.strip() for line in text[:8000].split("\n") if line.strip()), "")[:_LONG_LINE]


def _judge(failure: Failure, output: str, lowered: str, look: Look | None) -> Verdict:
    core = markers.interesting(lowered)
    forms = any(map(lowered.__contains__, special.WORDS))
    weak_words = sentences.possible(lowered)
    quiet = failure.tool in BASH_TOOLS and worth(failure, output)
    if not core and not forms and not weak_words and not quiet:
        return _nothing(failure)
    lines = [line[:_LONG_LINE] for line in output.replace("\r", "\n").split("\n")]
    if len(lines) > MAX_LINES:
        lines = lines[: MAX_LINES // 2] + lines[-MAX_LINES // 2 :]
    marked = list(_marked(lines, core=core, forms=forms)) if core or forms else []
    weak = sentences.candidates(lines) if weak_words and not marked else []
    if not marked and not weak and not quiet:
        return _nothing(failure)
    home = failure.home or home_of(failure.project) or home_named(failure.command, output)
    rules = failure.rules or of_context(
        failure.platform, failure.project, home, failure.grants, failure.temp, failure.protected
    )
    commands = read(failure.command, failure.cwd or failure.project, home) if failure.tool in BASH_TOOLS else ()
    content = Content(failure, commands)
    judge = Judge(failure, rules, home, commands, look)
    judged = _of_marks(lines, marked, content, judge)
    if marked and weak_words and not any(item.kernel for item in judged):
        weak = sentences.candidates(lines)
    if weak:
        judged += [judge.finding(finding) for finding in sentences.without_error(lines, weak, judge, content)]
    if not judged and quiet and (last := silent(failure, output, judge)):
        judged.append(judge.finding(last))
    return _combine(judged, failure)


def _marked(lines: Sequence[str], *, core: bool, forms: bool) -> Iterator[tuple[int, markers.Mark | None, bool]]:
    """The lines that name an error, with it, and those that are worth asking `special` about.

    Args:
        core, forms: whether any line at all holds an error's words, or words of a special form.
    """
    many = len(lines) > 8
    for index, line in enumerate(lines):
        if not line:
            continue
        lowered = line.lower()
        mark = markers.find(line) if core and (not many or markers.interesting(lowered)) else None
        form = forms and any(map(lowered.__contains__, special.WORDS))
        if mark is not None or form:
            yield index, mark, form


def _of_marks(
    lines: list[str], marked: Sequence[tuple[int, markers.Mark | None, bool]], content: Content, judge: Judge
) -> list[Judged]:
    judged: list[Judged] = []
    for index, mark, worth_asking in marked:
        if len(judged) >= MAX_FINDINGS:
            break
        line = lines[index]
        form = judge.special(lines, index, worth_asking)
        if form is not None:
            if not content.merely_shown(line, None):
                judged.append(form)
            continue
        if mark is None:
            continue
        other = content.somebody_elses(line)
        if other is not None:
            judged.append(judge.others(line, other))
            continue
        if of_a_test(lines, index):
            continue
        finding = read_line(lines, index, mark)
        if content.merely_shown(line, finding) or (not finding.paths and tabled(lines, index)):
            continue
        other = content.of_finding(finding)
        if other is not None:
            judged.append(judge.others(line, other))
            continue
        if finding.errno == "EXDEV" and _handled(lines, index, marked[-1][0]):
            continue
        bare = finding.kind == "unknown" or (finding.kind == "network" and not finding.port)
        judge.otherwise = others.elsewhere_in(lines) if bare and finding.program != "ping" else None
        item = judge.finding(finding)
        if item.kind == "unknown" and any(
            old.kind != "unknown" and (old.errno == finding.errno or finding.errno == "ANY") for old in judged
        ):
            continue  # the same failure told again: an error object's fields, a cause, a closing line
        judged.append(item)
    return judged


def _handled(lines: Sequence[str], index: int, last: int) -> bool:
    """Whether a move over a border went on as a copy, which then failed for what a later line names."""
    return last > index + 1 and any(
        line.startswith("During handling of the above exception") for line in lines[index + 1 : index + 4]
    )


_RUNTIMES_OWN = frozenset({"EACCES", "EPERM", "EROFS"})


def _recited(judged: list[Judged], failure: Failure) -> bool:
    """Whether a success printed what several errors are called, and nothing of any file: no call fails in two ways."""
    named = {item.errno for item in judged if item.kind == "unknown"}
    return failure.exit_code == 0 and len(named & _RUNTIMES_OWN) > 1 and all(item.kind == "unknown" for item in judged)


def _nothing(failure: Failure) -> Verdict:
    if failure.exit_code == 0:
        return Verdict(
            "none", "likely", reason="The command succeeded, and what it printed is no refusal.", owner="program"
        )
    return NOTHING


def _combine(judged: list[Judged], failure: Failure) -> Verdict:
    """One verdict of everything that was found: the kernel's first, what a grant mends before what it does not."""
    if _recited(judged, failure):
        return _nothing(failure)
    kernel = [item for item in judged if item.kernel]
    # What names something tells more of the same failure than what names nothing, whichever came first.
    kernel = [item for item in kernel if item.kind != "unknown"] or kernel
    if kernel:
        leading = next(
            (item for item in kernel if item.remedy in ("grant", "restart-wider") and item.target),
            next((item for item in kernel if item.target and item.operation == kernel[0].operation), kernel[0]),
        )
        if leading.remedy == "grant" and kernel[0].kind in ("network", "socket") and not kernel[0].target:
            # A socket was refused first, without a name: the folder's grant alone would not let it through.
            leading = kernel[0].beside(leading)
        targets = tuple(
            dict.fromkeys(target for item in (leading, *kernel) for target in (item.target, *item.also) if target)
        )
        return Verdict(
            "kernel",
            leading.evidence,
            leading.operation,
            leading.target,
            targets,
            leading.remedy,
            leading.grant,
            leading.reason,
            "",
            leading.line,
            leading.contradiction,
        )
    if judged:
        best = next((item for item in judged if item.owner not in ("", "program")), judged[0])
        target = (best.target,) if best.target else ()
        return Verdict(
            "none",
            best.evidence,
            best.operation,
            best.target,
            target,
            "not-nd7",
            "",
            best.reason,
            best.owner,
            best.line,
            best.contradiction,
        )
    return _nothing(failure)
