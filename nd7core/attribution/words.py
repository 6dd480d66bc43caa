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
from nd7core.attribution.finding import names
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


def _targets(sentence: str) -> list[str]:
    """Paths that a sentence names, as said."""
    found: list[str] = []
    for _, _, text in paths.quoted(sentence):
        if paths.looks_like_path(text) and len(text) < 512:
            found.append(paths.tidy(text))
    plain = sentence
    for text in found:
        plain = plain.replace(text, " ")
    for match in phrases.PATH.finditer(plain):
        before = plain[max(0, match.start() - 8) : match.start()]
        if "://" in before or before.endswith(":/"):
            continue
        text = paths.tidy(match[1]).rstrip("*_")
        if len(text) > 1 or text == "~":
            found.append(text)
    if not found:
        for match in phrases.RELATIVE.finditer(sentence):
            text = paths.tidy(match[1] or match[2])
            if "/" in text or text.startswith("."):
                found.append(text)
    return list(dict.fromkeys(found))[:6]


def _address(sentence: str) -> tuple[str, int]:
    match = phrases.PORT_HOST.search(sentence)
    if match:
        for number in "123":
            if match[f"port{number}"]:
                return match[f"host{number}"].strip("[]"), int(match[f"port{number}"])
    host, port = network.pair(sentence, loose=False)
    if port:
        return host, port
    port_match = phrases.PORT.search(sentence)
    name = phrases.HOSTNAME.search(sentence)
    number_text = next((group for group in port_match.groups() if group), "") if port_match else ""
    return (name[1] if name else ""), (int(number_text) if number_text else 0)


_COULD_NOT = re.compile(
    r"\b(?:couldn.t|could not|cannot|can.t|unable to|(?:is|was|am|are|were)(?:n.t| not) able to|"
    r"not able to)\b.{0,40}?\b(?:writ\w*|creat\w*|open|read|access|reach|connect\w*|save|modify|delete|remove|lock|"
    r"bind|listen|update|list)\b",
    re.IGNORECASE,
)
_OTHERWISE = re.compile(
    r"no such|doesn.t exist|does not exist|not exist|not found|missing|conflict|invalid|syntax|timed? ?out|already|"
    r"typo|wrong|empty|corrupt|compil|circular|undefined|null|because (?:it|they|there)|locked by|in use|too large|"
    r"no space|disk",
    re.IGNORECASE,
)


def _could_not(sentence: str) -> re.Match[str] | None:
    """An inability that names what a sandbox closes, without a word of why."""
    match = _COULD_NOT.search(sentence)
    if match is None or _OTHERWISE.search(sentence):
        return None
    targets = _targets(sentence)
    if any(target.endswith(".lock") or target.startswith(("/", "~")) for target in targets):
        return match
    return match if _address(sentence)[1] and phrases.NET.search(sentence) else None


_NOT_LET = re.compile(
    r"\b(?:refus\w+ to|(?:would|did|does|do|will)(?:n.t| not)|won.t|never) let (?:me|us)\b|"
    r"\b(?:cannot|can.t|can ?not|could not|couldn.t) be (?:written|created|changed|modified|edited|saved|opened|read|"
    r"deleted|removed|reached|updated)\b.{0,80}?\b(?:from here|here|in this session|from this session|in here)\b|"
    r"\b(?:is|was|are|were)(?:n.t| not) (?:permitted|allowed|possible|writable|open) (?:here|from here|in here)\b",
    re.IGNORECASE,
)


def _not_let(sentence: str) -> re.Match[str] | None:
    """The same said of whoever forbids or of this place, where it names a path and gives no other cause."""
    match = _NOT_LET.search(sentence)
    return match if match and not _OTHERWISE.search(sentence, match.start()) and _targets(sentence) else None


def _foreign_unable(sentence: str) -> re.Match[str] | None:
    """The same in another language, where it names a place that is absolute."""
    match = phrases.FOREIGN_UNABLE.search(sentence)
    if match is None or phrases.FOREIGN_OTHERWISE.search(sentence):
        return None
    return match if any(target.startswith(("/", "~")) for target in _targets(sentence)) else None


_READ_ONLY = re.compile(r"read-?only", re.IGNORECASE)
_PATHS = re.compile(r"(?:~|\.{0,2})/[^\s`'\"]+")


def _reports(sentence: str) -> int:
    """Where the refusal stands in a sentence, or -1 where it reports none."""
    if phrases.QUOTE_LINE.match(sentence) or phrases.QUESTION.search(sentence):
        return -1
    strong = phrases.STRONG.search(sentence) or _could_not(sentence) or _not_let(sentence)
    foreign = None if sentence.isascii() and strong else (phrases.FOREIGN.search(sentence) or _foreign_unable(sentence))
    match = strong or foreign
    if match is None:
        return -1
    if foreign is not None and strong is None and phrases.FOREIGN_FALSE.search(sentence):
        return -1
    if (
        phrases.RESOLVED.search(sentence)
        or phrases.NEGATED.search(sentence)
        or phrases.PERSON.search(sentence)
        or phrases.MYSELF.search(sentence)
    ):
        return -1
    if phrases.REMOTE.search(sentence) and not re.search(
        r"\bsandbox|\bnd7\b|\bthis session\b|\bkernel\b", sentence, re.IGNORECASE
    ):
        return -1
    plain = _PATHS.sub(" ", sentence)
    if phrases.WORK_DONE.search(plain) or phrases.THEIRS.search(plain):
        return -1
    if phrases.PUSH.search(plain) and not phrases.OURS.search(plain) and not _targets(sentence):
        return -1
    if (
        strong
        and phrases.BARE.search(strong[0])
        and not _targets(sentence)
        and not phrases.FIRST_PERSON.search(sentence)
    ):
        return -1
    condition = phrases.CONDITION.search(sentence)
    if condition and condition.start() < match.end() and not phrases.FIRST_PERSON.search(sentence[: match.end()]):
        return -1
    if phrases.ADVICE.match(sentence):
        return -1
    if (
        phrases.PROGRAM.search(sentence)
        and (phrases.PROGRAM_ACTS.search(sentence) or not (_targets(sentence) or _address(sentence)[1]))
        and not phrases.FIRST_PERSON.search(sentence)
        and not re.search(r"\bsandbox\b|\b(?:this|the) session\b", sentence, re.IGNORECASE)
    ):
        return -1
    return match.start()


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
    if lowered.isascii() and not _might(lowered):
        return []
    home = failure.home or home_of(failure.project)
    rules = failure.rules
    sentences = [part.strip() for part in _SENTENCE.split(_without_code(text)) if part and part.strip()]
    found: list[Verdict] = []
    for index, sentence in enumerate(sentences[:400]):
        sentence = sentence[:2000]
        if _reports(sentence) < 0:
            continue
        if index + 1 < len(sentences) and _LATER.search(sentences[index + 1][:300]):
            continue
        if rules is None:
            rules = of_context(failure.platform, failure.project, home, failure.grants, failure.temp, failure.protected)
        near = [sentence, *sentences[index + 1 : index + 2], *sentences[max(0, index - 1) : index]]
        verdict = _verdict(sentence, near, failure, rules, home)
        if not any(old.target == verdict.target for old in found):
            found.append(verdict)
        if len(found) >= MAX_REPORTS:
            break
    named = [verdict for verdict in found if verdict.target]
    return named or found


_MIGHT = names(
    "could can't cannot pud puedo pode posso potuto konnt kann kon pas consegu mog uda unable able can’t "
    "den refus block permi allow prohib forb reject prevent reach access read-only "
    "eacces eperm erofs sandbox protected closed writable policy stop restrict verweig nicht bloqu bloc neg "
    "geweig geblok toegest odmow zablok nekad nekt evatty estet engel redded izin "
    "ditolak diblokir consent rifiut interdit autoris rechaz recus limits let "
)


def _might(lowered: str) -> bool:
    return any(word in lowered for word in _MIGHT)


def _without_code(text: str) -> str:
    """The message without its fenced blocks: what is quoted there is no sentence of the agent's."""
    if "```" not in text:
        return text
    return "\n".join(text.split("```")[::2])


def _verdict(sentence: str, near: list[str], failure: Failure, rules: Rules, home: str) -> Verdict:
    line = sentence[:500]
    socket = phrases.SOCKET.search(sentence)
    said = _targets(sentence)
    if not said and not (phrases.NET.search(sentence) and _address(sentence)[1]):
        said = next((targets for other in near[1:] if (targets := _targets(other))), [])
    if socket and (socket["name"] or said):
        target = socket["name"].lower() if socket["name"] else said[0]
        return _made("ipc", target, (target,), "cannot-grant", "", line, "")
    if not said and (phrases.NET.search(sentence) or _address(sentence)[1]):
        host, port = _address(sentence)
        if not port:
            host_near, port = next((address for other in near[1:] if (address := _address(other))[1]), ("", 0))
            host = host or host_near
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
    operation = _operation(sentence)
    nested = special.of_line(sentence) if not said else None
    if nested:
        return _made(nested.operation, "", (), "cannot-grant", "", line, "")
    if not said:
        return _made(operation, "", (), "grant" if operation == "write" else "cannot-grant", "", line, "")
    return _about_path(said, operation, failure, rules, home, line)


def _operation(sentence: str) -> Operation:
    sentence = _READ_ONLY.sub(" ", sentence)
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
    return "write"


def _about_path(said: list[str], operation: Operation, failure: Failure, rules: Rules, home: str, line: str) -> Verdict:
    resolved = [
        (text, paths.canonical(place(text, failure.cwd or failure.project, home), failure.platform)) for text in said
    ]
    chosen = next(
        ((text, path) for text, path in resolved if path.startswith("/") and rules.refuses("write", path)), resolved[0]
    )
    text, path = chosen
    known = path.startswith("/")
    targets = tuple(
        dict.fromkeys(
            (text, *(other for other, full in resolved if full.startswith("/") and rules.refuses("write", full)))
        )
    )
    if known and rules.hidden(path):
        return _made("read" if operation != "write" else operation, text, targets, "cannot-grant", "", line, "")
    if known and rules.never(path):
        return _made(operation, text, targets, "cannot-grant", "", line, "")
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
    remedy: Remedy = "grant"
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
