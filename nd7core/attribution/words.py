"""What the agent says to the person: whether it reports a refusal in this session that still stands.

Models report truly, in passing, wrongly, and about everything else: what they fixed, what the code they wrote
refuses, what a server said, what the person said no to.  A sentence counts when a refusal of the system is its
predicate; a condition, a negation, another's refusal or a later success in it takes it back.  The model's theory of
the cause is never repeated.
"""

from __future__ import annotations

import re

from nd7core.attribution import network, paths, phrases, special
from nd7core.attribution.failure import Failure
from nd7core.attribution.finding import Told
from nd7core.attribution.gate import words
from nd7core.attribution.reports import address, instead_of, places, reports, without_theory
from nd7core.attribution.rules import Rules, home_of, of_context
from nd7core.attribution.shell import place
from nd7core.attribution.verdict import Operation, Remedy, Verdict

NO_REPORT = Verdict(
    "none",
    "reported",
    reason="Nothing in the agent's words reports a refusal of this session that still stands.",
    owner="",
)
LIMIT = 64 * 1024
MAX_REPORTS = 16

_SENTENCE = re.compile(r"(?<=[.!?])[\"')*_]*\s+|[。！？；\n]+|(?<=;)\s+")
_LATER = re.compile(
    r"\b(?:it|that|this|they|the (?:write|command|push|build|tests?)) (?:now )?(?:works?|passes|succeed\w*"
    r"|went through|is fixed|are fixed)\b|\bafter (?:your|the) grant\b|\ball (?:tests )?pass\b.{0,20}\bnow\b",
    re.IGNORECASE,
)


def explain_words(failure: Failure) -> list[Verdict]:
    """The reports in an assistant's message, in order, one for each refusal; empty where there is none.

    Args:
        failure: tool `assistant`, the words in `output`; project, home and grants tell whether the policy bears a
            report out, which is said as a contradiction where it does not.
    """
    text = failure.output[:LIMIT]
    lowered = text.lower()
    if lowered.isascii() and not _might(lowered) and not phrases.FOREIGN.search(text):
        return []
    home = failure.home or home_of(failure.project)
    rules = failure.rules or of_context(
        failure.platform, failure.project, home, failure.grants, failure.temp, failure.protected
    )

    def outside(said: str) -> bool:
        host, colon, port = said.rpartition(":")
        if colon and port.isdigit() and "/" not in said:
            return not rules.connects(host, int(port[:6]))
        path = paths.canonical(place(said, failure.cwd or failure.project, home), failure.platform)
        return path.startswith("/") and (rules.refuses("write", path) or rules.hidden(path))

    sentences = [part.strip() for part in _SENTENCE.split(_without_code(text)) if part and part.strip()]
    found: list[Verdict] = []
    for index, sentence in enumerate(sentences[:400]):
        sentence = sentence[:2000]
        before = sentences[index - 1][:2000] if index else ""
        if not reports(sentence, before, outside):
            continue
        if index + 1 < len(sentences) and _LATER.search(sentences[index + 1][:300]):
            continue
        near = [sentence, *sentences[index + 1 : index + 2], *sentences[max(0, index - 1) : index]]
        verdict = _verdict(sentence, near, failure, rules, home)
        if not any(old.target == verdict.target for old in found):
            found.append(verdict)
        if len(found) >= MAX_REPORTS:
            break
    named = [verdict for verdict in found if verdict.target]
    return named or found


_MIGHT = words(
    "could can't cannot pud puedo pode posso potuto konnt kann kon pas consegu mog uda unable able can’t den refus "
    "block permi allow prohib forb reject prevent reach access read-only eacces eperm erofs sandbox protected "
    "closed writable policy stop restrict verweig nicht bloqu bloc neg geweig geblok toegest odmow zablok nekad "
    "nekt evatty estet engel redded izin ditolak diblokir consent rifiut interdit autoris rechaz recus limits let "
    "niet inte ikke tidak nem_ nu_ fail bounced didn possible n’t n't not have lack without right kept keeps said "
    "says no_ missing outside may_ bounds reach locked privileg lässt "
)


def _might(lowered: str) -> bool:
    return any(map(lowered.__contains__, _MIGHT))


def _without_code(text: str) -> str:
    """The message without its fenced blocks: what is quoted there is no sentence of the agent's."""
    if "```" not in text:
        return text
    return "\n".join(text.split("```")[::2])


def _verdict(sentence: str, near: list[str], failure: Failure, rules: Rules, home: str) -> Verdict:
    line = sentence[:500]
    socket = phrases.SOCKET.search(sentence)
    # Where what could not be done stands in the sentence before, the place in this one is where it is instead.
    refused = instead_of(sentence)
    said = places(without_theory(refused)) or places(refused)
    if not said and not any(places(other) for other in near[1:]):
        said = places(sentence)
    if not said and not (phrases.NET.search(sentence) and address(sentence)[1]):
        said = next((named for other in near[1:][:: -1 if refused != sentence else 1] if (named := places(other))), [])
    if socket and (socket["name"] or said):
        said = [place for place in said if place not in (socket["name"] or "")]  # `Docker/Colima socket` is no path
        named = [place for place in said if place.endswith(".sock")] or said
        target = socket["name"].lower() if socket["name"] and not named else named[0]
        of = (socket["name"] or "").lower().partition(" ")[0].split("/")
        also = (target, socket["name"].lower(), *(f"{one} socket" for one in of)) if socket["name"] else (target,)
        return _made("ipc", target, tuple(dict.fromkeys(also)), "cannot-grant", "", line, "")
    ran = _RAN.search(sentence) if not said else None
    if ran and ran["refused"] and not address(sentence)[1]:
        return _ran(ran, line)
    if not said and (phrases.NET.search(sentence) or address(sentence)[1] or _about_port(sentence, near[-1])):
        host, port = address(sentence)
        if not port:
            host_near, port = next((pair for other in near[1:] if (pair := address(other))[1]), ("", 0))
            host = host or host_near
        if not host:
            host = next((name for other in near if (name := network.host_on(other))), "")
        allowed = bool(port) and rules.connects(host, port)
        target = network.shown(host, port) if host else (f":{port}" if port else "")
        return _made(
            "network",
            target,
            (target,) if target else (),
            "cannot-grant",
            "",
            line,
            "The policy lets that out." if allowed else "",
        )
    told = _operation(_without(sentence, said))
    nested = special.of_line(sentence) if not said else None
    if nested is None and not said and _SERVICE.search(sentence):
        return _made("ipc", "", (), "cannot-grant", "", line, "")
    if nested is None and not said and _PRIVILEGED.search(sentence):
        return _made("other", "", (), "cannot-grant", "", line, "")
    if nested:
        return _made(nested.operation, "", (), "cannot-grant", "", line, "")
    if not said:
        doing: Operation = told or "write"
        if doing == "execute" and ran:
            return _ran(ran, line)
        return _made(doing, "", (), "grant" if doing == "write" else "cannot-grant", "", line, "")
    return _about_path(said, told, failure, rules, home, line)


def _ran(command: re.Match[str], line: str) -> Verdict:
    """The report on a command that could not be run: its name, and the whole of it."""
    name = command["name"]
    return _made("execute", name, (name, name + command["rest"]), "cannot-grant", "", line, "")


def _about_port(sentence: str, before: str) -> bool:
    """Whether a sentence that names nothing goes on with one about a port: "it fails with permission denied"."""
    return before != sentence and bool(address(before)[1] and phrases.NET.search(before))


_SERVICE = re.compile(
    r"\b(?:keychain|clipboard|pasteboard|window server|D-?Bus|notification (?:center|daemon))\b", re.I
)
_PRIVILEGED = re.compile(
    r"\b(?:u?mount(?:ing)?|chroot|unshare|sysctl|insmod|modprobe|set-?uid|sudo|su|ptrace|namespaces?|bwrap|"
    r"crontab|attach\w*|lldb|gdb|strace|dtrace|nested sandbox(?:es)?|io_uring)\b"
)
# A command in its quotes, and its name without a folder.
_RAN = re.compile(
    r"\b(?:run(?:ning)?|execut\w*|start(?:ing)?|launch\w*|invok\w*|spawn\w*) (?:the )?(?:command )?"
    r"`(?P<name>[\w.+-]{1,60})(?P<rest>[^`\n]{0,200})`(?P<refused> (?:\w+ )?(?:is|was|gets|got) (?:not )?(?:permitted|"
    r"allowed|blocked|denied|refused)\b)?",
    re.IGNORECASE,
)
# The agent's own tools, which run under the rules that the session started with.
_OWN_TOOL = re.compile(
    r"`(?:Write|Edit|MultiEdit|NotebookEdit)`|\b(?:Write|Edit|MultiEdit|NotebookEdit)[`'\"*]* (?:tool|call)s?\b"
)
_RUNS = re.compile(
    r"/s?bin/|\b(?:execut\w*|run(?:ning)?|launch\w*|start(?:ing)?|spawn\w*|invok\w*) (?:the \w+ )?[`'\"]?[~/.]|"
    r"[^\x00-\x7f]",
    re.IGNORECASE,
)
_READ_ONLY = re.compile(r"read-?only", re.IGNORECASE)


def _without(sentence: str, said: list[str]) -> str:
    """A sentence without the places in it: `bin/run.sh` is not what was done."""
    for text in said:
        sentence = sentence.replace(text, " ")
    return sentence


def _operation(sentence: str) -> Told:
    sentence = _READ_ONLY.sub(" ", sentence)
    if "for writing" in sentence:
        return "write"
    writing, reading, executing = (
        phrases.WRITING.search(sentence),
        phrases.READING.search(sentence),
        phrases.EXECUTING.search(sentence),
    )
    if executing and not writing and not reading:
        return "execute"
    if (
        reading
        and (not writing or reading.start() < writing.start())
        and not re.search(r"\baccess\b", reading[0], re.IGNORECASE)
    ):
        return "read"
    return "write" if writing else ""


def _about_path(said: list[str], told: Told, failure: Failure, rules: Rules, home: str, line: str) -> Verdict:
    resolved = [
        (text, paths.canonical(place(text, failure.cwd or failure.project, home), failure.platform)) for text in said
    ]
    chosen = next(
        ((text, path) for text, path in resolved if path.startswith("/") and rules.refuses("write", path)), resolved[0]
    )
    text, path = chosen
    operation: Operation = told or "write"
    known = path.startswith("/")
    targets = tuple(
        dict.fromkeys(
            (text, *(other for other, full in resolved if full.startswith("/") and rules.refuses("write", full)))
        )
    )
    if known and rules.hidden(path):
        return _made(told or "read", text, targets, "cannot-grant", "", line, "")
    if known and (rules.never(path) or paths.inside(path, "/dev")):
        return _made(operation, text, targets, "cannot-grant", "", line, "")
    if operation == "execute" and not _RUNS.search(line):
        operation = "write"  # what could not run is not what was refused
    if operation == "execute":
        return _made(
            operation,
            text,
            targets,
            "restart-wider",
            "",
            line,
            "The policy lets programs be run from there." if known else "",
        )
    refused = known and rules.refuses("write", path)
    contradiction = "" if refused or not known else f"The policy lets this session write to {text}."
    if operation == "read" and known:
        contradiction = f"The policy lets this session read {text}."
    grant = paths.proposal(path, home) if refused else ""
    remedy: Remedy = "restart-wider" if _OWN_TOOL.search(line) else "grant"
    return _made(operation, text, targets, remedy, grant, line, contradiction)


def _made(
    operation: Operation,
    target: str,
    targets: tuple[str, ...],
    remedy: Remedy,
    grant: str,
    line: str,
    contradiction: str,
) -> Verdict:
    what = {
        "network": "a connection",
        "ipc": "a socket",
        "read": "reading",
        "write": "writing",
        "execute": "running",
    }.get(operation, "something")
    named = f"{what} ({target})" if target else what
    reason = f"The agent reports that {named} was refused; no call of this session has been tied to it."
    return Verdict("model", "reported", operation, target, targets, remedy, grant, reason, "", line, contradiction)
