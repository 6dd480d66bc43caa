"""Whether one sentence of an agent's reports a refusal of this session that still stands.

Two kinds of evidence: a refusal in so many words, about something of this session (a place, an address, the session
itself, the agent as the one refused); or the mere failure of something, where the policy refuses exactly what the
sentence names and it gives no other cause.  Conditions, negations, a later success, another's refusal and the
description of software take either back.
"""

from __future__ import annotations

import re
from collections.abc import Callable

from nd7core.attribution import markers, network, paths, phrases, special

Outside = Callable[[str], bool]
"""Whether the policy refuses a place as a sentence names it: a path, or `host:port`."""


_URL = re.compile(r"\b\w+://[^\s`'\"]+")
_ERROR_BEHIND = re.compile(r"\s+\([^()]*(?:denied|permitted|read-only|E[A-Z]{3,})[^()]*\)$", re.IGNORECASE)


# What Japanese, Korean and Chinese write right behind a name, without a blank.
_PARTICLE = re.compile(r"(?<=[A-Za-z0-9_~-])[\u3040-\u30ff\u4e00-\u9fff\uac00-\ud7af]+$")


def places(sentence: str) -> list[str]:
    """Paths that a sentence names, as said."""
    found: list[str] = []
    sentence = sentence.replace("unix://", " ")
    for _, _, text in paths.quoted(sentence):
        if paths.looks_like_path(text) and len(text) < 512:
            found.append(paths.tidy(_ERROR_BEHIND.sub("", text)))
    plain = sentence
    for text in found:
        plain = plain.replace(text, " ")
    for match in phrases.PATH.finditer(plain):
        before = plain[max(0, match.start() - 8) : match.start()]
        if "://" in before or before.endswith(":/"):
            continue
        text = _PARTICLE.sub("", paths.tidy(match[1]).rstrip("*_"))
        if len(text) > 1 or text == "~":
            found.append(text)
    if not found:
        for match in phrases.RELATIVE.finditer(_URL.sub(" ", sentence)):
            text = paths.tidy(match[1] or match[2])
            if "/" in text or text.startswith("."):
                found.append(text)
    return list(dict.fromkeys(found))[:6]


_LOCAL = re.compile(r"\b(localhost|127\.0\.0\.1)\b")


def address(sentence: str) -> tuple[str, int]:
    """Host and port that a sentence names, "" and 0 for what it does not."""
    match = phrases.PORT_HOST.search(sentence)
    if match:
        for number in "123":
            if match[f"port{number}"]:
                return match[f"host{number}"].strip("[]"), int(match[f"port{number}"])
    host, port = network.pair(sentence, loose=False)
    if port:
        return host, port
    port_match = phrases.PORT.search(sentence)
    name = phrases.HOSTNAME.search(sentence) or _LOCAL.search(sentence)
    number_text = next((group for group in port_match.groups() if group), "") if port_match else ""
    return (name[1] if name else ""), (int(number_text) if number_text else 0)


_COULD_NOT = re.compile(
    # Whatever could not be done, but for what goes on in a mind and not in a system.
    r"\b(?:couldn.t|could not|cannot|can.t|unable to|(?:is|was|am|are|were)(?:n.t| not) able to|"
    r"not (?:being )?able to|not to|may not|(?:not|n.t) (?:allowed|permitted|authori[sz]ed) to|no (?:way|"
    r"means) to)\b:? (?:also |even |yet |\w+ly |be |do: )*(?!(?:find|see|"
    r"tell|say|reproduce|determine|know|decide|guarantee|recommend|undone|understand|think|remember|confirm|parse|"
    r"resolve|handle|guess|continue|help|do|be|have|need|use|run|make sure|figure|judge|verify|check|imagine|"
    r"explain|promise|rule|spot|recall|support|touch(?: it| that)?[.,])\b)[a-z]{3,}",
    re.IGNORECASE,
)
_FAILED = re.compile(
    r"\b(?:writ\w+|sav(?:e|ing)|cop(?:y|ies|ying)|mov(?:e|ing)|renam\w+|creat\w+|delet\w+|remov\w+|install\w*|"
    r"updat\w+|sync\w*|export\w*|back(?:up|ing)|clon\w+|read(?:ing)?|open(?:ing)?|access\w*|connect\w*|chown|chmod|"
    r"upload\w*|download\w*|requests?|traffic|push\w*|generat\w+|link\w*)\b.{0,120}?\b(?:failed|fails|bounced|"
    r"(?:did|do|does)(?:n.t| not) (?:(?:go|get|come) through|work|succeed|happen)|(?:was|is|were)(?:n.t|"
    r" not) (?:possible|done|created|saved|made|permitted|allowed)|is impossible)\b|\b(?:fail(?:s|ed)|refus(?:es|"
    r"ed)|declin(?:es|ed)) to (?:writ\w+|create|save|open|read|copy|move|lock|connect|bind|listen|install)\b",
    re.IGNORECASE,
)
_OTHERWISE = re.compile(
    r"no such|doesn.t exist|does not exist|not exist|not found|missing|conflict|invalid|syntax|timed? ?out|already|"
    r"typo|wrong|empty|corrupt|compil|circular|undefined|null|"
    r"because (?:it|they|there)"
    r"(?! (?:can.?t|cannot|could not|couldn.t|(?:is|was|are|were) (?:unable|not able) to) (?:writ|creat|sav|open|mak|"
    r"lock|connect|reach|access|bind|listen|read|updat|delet|remov|renam|cop|mov|stor|install|append|load|chang))|"
    r"locked by|in use|too large|"
    r"no space|disk|exceed|larger than|bigger than|unsupported|not support|on purpose|by design|asked",
    re.IGNORECASE,
)
_NOT_LET = re.compile(
    r"\b(?:refus\w+ to|(?:would|did|does|do|will)(?:n.t| not)|won.t|never) let (?:me|us)\b|\b(?:cannot|can.t|"
    r"can ?not|could not|couldn.t) be (?:written|created|changed|modified|edited|saved|opened|read|deleted|removed|"
    r"reached|updated)\b.{0,80}?\b(?:from here|here|in this session|from this session|in here)\b|\b(?:is|was|are|"
    r"were)(?:n.t| not) (?:permitted|allowed|possible|writable|open) (?:here|from here|in here)\b|"
    r"\bmay not [a-z]{3,}\b.{0,60}?\b(?:from here|here|in this session|in here)\b",
    re.IGNORECASE,
)
# What was done instead, and where, is not what could not be done.
_SO = re.compile(
    r"(?:[,;]|\band) (?:so|I (?:saved|put|left|wrote|used|placed|kept)|please|therefore|instead|hence)\b", re.IGNORECASE
)
_CAUSE = re.compile(r"\b(?:because|due to|owing to|caused by)\b", re.IGNORECASE)
_REJECTED = re.compile(r"reject|refus", re.IGNORECASE)
_PATHS = re.compile(r"(?:~|\.{0,2})/[^\s`'\"]+")
_COMMANDS = re.compile(r"`nd7 [^`]*`")  # `nd7 deny` denies nothing by being named
_CODE = re.compile(r"`[^`]*`")
_ABOUT_HERE = re.compile(
    r"\bsandbox\w*|\bnd7\b|\b(?:this|the|my) (?:session|environment)\b|\bkernel\b|\b(?:from|in|works?) here\b|"
    r"\bmacOS\b|"
    r"\bseatbelt\b|\blandlock\b",
    re.IGNORECASE,
)
_OURS = re.compile(r"\bsandbox|\bnd7\b|\bthis session\b|\bkernel\b", re.IGNORECASE)


def instead_of(sentence: str) -> str:
    """A sentence without what was done instead."""
    return _SO.split(sentence, maxsplit=1)[0]


def without_theory(sentence: str) -> str:
    """A sentence without a cause that is no refusal itself: what it names the agent only supposes."""
    cause = _CAUSE.search(sentence)
    if cause is None or phrases.STRONG.search(sentence, cause.end()) or _COULD_NOT.search(sentence, cause.end()):
        return sentence
    return sentence[: cause.start()]


_CLOSED = re.compile(
    r"\b(?:is|are|was|were)(?:n.t| not) (?:\w+ )?(?:writ(?:e)?able|readable|accessible|reachable|open|allowed|"
    r"permitted|"
    r"available)\b|\b(?:write|read)-protected\b|\bout of (?:bounds|reach)\b|\blocked (?:down|for me)\b|"
    r"\bclosed (?:to|for) me\b|"
    r"\b(?:refuse[sd]?|den(?:y|ies|ied)|rejects?|rejected|blocks?|blocked) (?:all |any |my )?(?:writes?|reads?|access|"
    r"changes|edits)\b",
    re.IGNORECASE,
)


def _unable(sentence: str, outside: Outside) -> re.Match[str] | None:
    """An inability or a failure without a word of why, where the policy refuses what the sentence names."""
    match = _COULD_NOT.search(sentence) or _FAILED.search(sentence) or _CLOSED.search(sentence)
    cause = _SO.split(sentence, maxsplit=1)[0]
    if match is None or _OTHERWISE.search(cause):
        return None
    if any(place.endswith(".lock") or (place[:1] in "/~." and outside(place)) for place in places(cause)):
        return match
    host, port = address(sentence)
    return match if port and phrases.NET.search(sentence) and outside(network.shown(host, port)) else None


def _not_let(sentence: str) -> re.Match[str] | None:
    """The same said of whoever forbids or of this place, where it names a path and gives no other cause."""
    match = _NOT_LET.search(sentence)
    return match if match and not _OTHERWISE.search(sentence, match.start()) and places(sentence) else None


def _foreign(sentence: str, outside: Outside) -> re.Match[str] | None:
    """A refusal in another language: its stems, the C library's own words, or an inability and a place outside."""
    match = phrases.FOREIGN.search(sentence)
    if match is not None:
        return match
    if markers.foreign(sentence.lower()):
        return re.search(r"\S", sentence)
    match = phrases.FOREIGN_UNABLE.search(sentence)
    if match is None or phrases.FOREIGN_OTHERWISE.search(sentence):
        return None
    host, port = address(sentence)
    if port and outside(network.shown(host, port)):
        return match
    return match if any(place[:1] in "/~" and outside(place) for place in places(sentence)) else None


def reports(sentence: str, before: str, outside: Outside) -> bool:
    """Whether a sentence reports a refusal of this session.

    Args:
        sentence: one, at most a few thousand characters.
        before: the sentence before it, "" for none: "it fails with EACCES" is about what that one names.
        outside: asks the policy.
    """
    if phrases.QUOTE_LINE.match(sentence) or phrases.QUESTION.search(sentence) or phrases.ADVICE.match(sentence):
        return False
    sentence = _COMMANDS.sub(lambda match: " " * len(match[0]), sentence)
    strong = phrases.STRONG.search(sentence) or _unable(sentence, outside) or _not_let(sentence)
    foreign = None if sentence.isascii() and strong else _foreign(sentence, outside)
    match = strong or foreign
    if match is None:
        return False
    # What stands before a "but" speaks of something else: what was done, what was fixed.
    turns = [turn.end() for turn in phrases.TURN.finditer(sentence, 0, match.start() + 1)]
    clause = sentence[turns[-1] :] if turns else sentence
    if _taken_back(clause, sentence) or _somebody_elses(clause, sentence):
        return False
    named = bool(places(sentence) or address(sentence)[1] or phrases.SOCKET.search(sentence))
    if strong is None:
        here = named or phrases.FOREIGN_HERE.search(sentence) or places(before)
        return bool(here) and not any(
            pattern.search(clause)
            for pattern in (
                phrases.FOREIGN_FALSE,
                phrases.FOREIGN_THEIRS,
                phrases.FOREIGN_WORK,
                phrases.FOREIGN_PERSON,
            )
        )
    person = phrases.FIRST_PERSON.search(sentence) is not None
    condition = phrases.CONDITION.search(sentence)
    if condition and condition.start() < match.end() and not phrases.FIRST_PERSON.search(sentence[: match.end()]):
        return False
    if not person and phrases.GENERIC.search(sentence) and not any(outside(place) for place in places(sentence)):
        return False
    if not named and not person:
        if _REJECTED.search(strong[0]) and _OTHERWISE.search(sentence, strong.end()):
            return False
        goes_on = _GOES_ON.search(sentence) and places(before)
        if (phrases.BARE.search(strong[0]) and not goes_on) or not (
            _ABOUT_HERE.search(sentence) or _follows(sentence, before)
        ):
            return False
    plain = _CODE.sub(" ", _PATHS.sub(" ", clause))
    program = phrases.PROGRAM.search(plain) and (phrases.PROGRAM_ACTS.search(plain) or not named)
    return not program or person or bool(_ABOUT_HERE.search(sentence))


_GOES_ON = re.compile(
    r"^\W*(?:it|that|this|the (?:\w+ )?(?:write|read|operation|command|call|attempt|connection|step))\b"
    r".{0,40}\b(?:fail|bounc|end|stop|return|g[eo]t|c[ao]me|die)",
    re.IGNORECASE,
)
_FOLLOWS = re.compile(
    r"^\W*(?:it|that|this|both|all|the (?:\w+ )?(?:write|read|operation|command|call|attempt|connection|request|"
    r"access|build|install\w*|copy|step))\b|\bsame\b",
    re.IGNORECASE,
)


def _follows(sentence: str, before: str) -> bool:
    """Whether a sentence that names nothing goes on with what another has named, or with what was tried."""
    return bool(_FOLLOWS.search(sentence)) or bool(special.of_line(sentence)) or bool(before and places(before))


def _taken_back(clause: str, sentence: str) -> bool:
    """Whether it was mended, never came, or came from the person or from the agent's own will."""
    if any(
        pattern.search(clause)
        for pattern in (phrases.RESOLVED, phrases.NEGATED, phrases.PERSON, phrases.MYSELF, phrases.GIVEN)
    ):
        return True
    return bool(phrases.PAST.search(clause)) and not phrases.FIRST_PERSON.search(sentence)


def _somebody_elses(clause: str, sentence: str) -> bool:
    """Whether another machine, service or user refused or was refused, or it is what was written."""
    if phrases.ANOTHER.search(_PATHS.sub(" ", clause)) and not _ABOUT_HERE.search(sentence):
        return True
    # What is asked of the person, or done instead, is not who refused.
    plain = _PATHS.sub(" ", instead_of(clause))
    if phrases.REMOTE.search(plain) and not _OURS.search(sentence):
        return True
    if phrases.WORK_DONE.search(plain) or phrases.THEIRS.search(plain):
        return True
    return bool(phrases.PUSH.search(plain)) and not phrases.OURS.search(plain) and not places(sentence)
