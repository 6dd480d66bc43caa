"""Hiding what looks like a secret, for the screen and for exports; the log keeps everything for its owner.

A heuristic: it hides what is shown by default, it does not make a text safe to publish.  It errs on the side of hiding,
but not where that would hide a reason: hashes of commits, uuids, paths and `Permission denied` stay.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from functools import cache
from itertools import pairwise
from typing import Any, NamedTuple

from nd7core import secret_shapes as shapes
from nd7core.secret_shapes import MASKED

MARGIN = 32_768
"""Characters read beyond each end of what is shown: a key is whole in them, whatever the cut does to it."""
KEY_MOST = 65_536
"""Characters between the first and the last line of a private key; more is no key."""
LONG_BODY = 40
"""Characters of base64 in a line that no word or path has."""
_SHORT = {"passwd": 3, "password": 3, "passwrd": 3, "pwd": 3}

_SMALL = {capital: capital + 32 for capital in range(ord("A"), ord("Z") + 1)}
_BODY = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/="
_NAME = "abcdefghijklmnopqrstuvwxyz0123456789-"
_WORD = re.compile(r"[A-Za-z_]+")

Span = tuple[int, int]


class Masked(NamedTuple):
    """A text with its secrets masked, and how many they were."""

    text: str
    hidden: int


def mask(text: str, limit: int | None = None) -> str:
    """The text with each secret replaced by `[masked]`.

    Knows private keys (PEM, OpenSSH, PGP, PuTTY, age), whole or with an end cut off; tokens of the well-known issuers;
    headers that carry credentials; passwords in URLs and on command lines; .netrc, docker and kubectl settings; and
    `name=value` with a name that says secret.

    Args:
        text: anything; linear in its length.
        limit: only so many characters of `text` are wanted; a secret that the limit would part is masked whole.
    """
    return window(text, 0, len(text) if limit is None else limit).text


def fields(value: Any) -> Any:
    """A value of JSON with each of its texts masked; names of fields stay."""
    if isinstance(value, str):
        return mask(value)
    if isinstance(value, list):
        return [fields(item) for item in value]
    if isinstance(value, dict):
        return {name: fields(item) for name, item in value.items()}
    return value


def window(text: str, start: int, end: int) -> Masked:
    """`text[start:end]`, masked with what stands round it: a key is known by a line that is not shown.

    No more than `MARGIN` beyond each end is read, so a screenful of a large output costs what a screenful costs.
    """
    start, end = max(0, start), min(len(text), end)
    first, last = max(0, start - MARGIN), min(len(text), end + MARGIN)
    spans = secrets(text[first:last] if last - first < len(text) else text, cut_before=first > 0)
    return _render(text, start, end, [(a + first, b + first) for a, b in spans])


def part(text: str) -> str:
    """Like `mask`, for a text whose beginning somebody else has cut off: what goes on like a key's body is one."""
    return _render(text, 0, len(text), secrets(text, cut_before=True)).text


def screen(lines: list[str]) -> list[str]:
    """Lines of a terminal's screen, masked; as many as there were, so that nothing moves.

    A program's long line stands on several lines of the screen: those that fill it are read as one with the next.
    """
    width = max(map(len, lines), default=0)
    spans: list[Span] = []
    for wrapped in (False, True):
        text, places = _joined(lines, width - 3 if wrapped and width > 20 else 0)
        spans += [(places[a], places[b - 1] + 1) for a, b in secrets(text, cut_before=True)]
    found, at = [], 0
    merged = _merged(spans)
    for line in lines:
        end = at + len(line)
        inside = [(max(a, at), min(b, end)) for a, b in merged if a < end and b > at]
        found.append(_render(line, 0, len(line), [(a - at, b - at) for a, b in inside]).text)
        at = end + 1
    return found


def _joined(lines: list[str], full: int) -> tuple[str, list[int]]:
    """The lines as one text, and where each of its characters stands in `"\\n".join(lines)`; full ones run on."""
    text: list[str] = []
    places: list[int] = []
    at = 0
    runs_on = False
    for line in lines:
        skip = len(line) - len(line.lstrip(" │|")) if runs_on else 0
        text.append(line[skip:])
        places.extend(range(at + skip, at + len(line)))
        at += len(line)
        runs_on = bool(full) and len(line.rstrip()) >= full
        if not runs_on:
            text.append("\n")
            places.append(at)
        at += 1
    return "".join(text), places


def _render(text: str, start: int, end: int, spans: list[Span]) -> Masked:
    pieces, at, hidden = [], start, 0
    for a, b in spans:
        a, b = max(a, start), min(b, end)
        if a >= b:
            continue
        pieces += [text[at:a], MASKED]
        at = b
        hidden += 1
    return Masked("".join([*pieces, text[at:end]]), hidden)


def secrets(text: str, *, cut_before: bool = False) -> list[Span]:
    """Where the secrets are: pairs of start and end, in order, none touching another.

    Args:
        cut_before: something stood before this text, which may have said what its first lines are.
    """
    lowered = text.lower()
    if len(lowered) != len(text):  # a letter that has no small one of its own, as the Turkish capital I with its dot
        lowered = text.translate(_SMALL)
    spans = [*_keys(text, cut_before)]
    if any(word in lowered for word in shapes.HEADERS):
        spans += _headers(text, lowered)
    if any(word in lowered for word in shapes.NAMES):
        spans += _named(text, lowered)
    for begins, shape in shapes.TOKENS:
        if begins not in text:  # nearly always, and a generator costs ten times as much
            continue
        spans += [match.span() for match in _found(text, text, (begins,), shape) if match.lastgroup != "not"]
    for begins, shape in shapes.PLACED:
        if begins not in lowered:
            continue
        spans += _placed(begins, _found(text, lowered, (begins,), shape))
    for probe, shape in shapes.AROUND:
        if probe in lowered:
            spans += _placed(probe, _pattern(shape).finditer(text))
    return [(a, b) for a, b in _merged(spans) if text[a:b] != MASKED]


def _places(text: str, words: tuple[str, ...]) -> list[int]:
    """Where any of some words stands, in order."""
    found: list[int] = []
    for word in words:
        at = text.find(word)
        while at >= 0:
            found.append(at)
            at = text.find(word, at + 1)
    return sorted(found) if len(words) > 1 else found


def _found(text: str, where: str, words: tuple[str, ...], shape: str) -> Iterator[re.Match[str]]:
    """The matches of a pattern that begin where one of the words stands in `where`; none begins within another."""
    done = 0
    for at in _places(where, words):
        if at >= done and (match := _pattern(shape).match(text, at)):
            done = match.end()
            yield match


def _placed(probe: str, matches: Iterable[re.Match[str]]) -> Iterator[Span]:
    for match in matches:
        group = match.lastindex or 0
        if _plausible(probe, match[group], match[0]):
            yield match.span(group)


@cache
def _pattern(shape: str) -> re.Pattern[str]:
    # Compiled when first needed: most programs that import this never need one, and `nd7 allow` would wait for it.
    return re.compile(shape)


def _merged(spans: list[Span]) -> list[Span]:
    found: list[Span] = []
    for a, b in sorted(spans):
        if found and a <= found[-1][1]:
            found[-1] = (found[-1][0], max(b, found[-1][1]))
        elif a < b:
            found.append((a, b))
    return found


def _mixed(value: str) -> bool:
    """Whether it is written as no word is: digits among letters, or capitals behind small letters."""
    return bool(re.search(r"[a-z][A-Z]|[A-Za-z][0-9]|[0-9][A-Za-z]|=", value))


def _plausible(probe: str, value: str, whole: str) -> bool:
    if value.startswith("[masked") or _pattern(shapes.NO_VALUE).match(value):
        return False
    if probe in ("bearer", "basic"):  # "basic authentication" is no credential
        return _mixed(value) or len(value) >= 32
    if probe == "://":
        # Without a colon it is a token only where it looks like one; `git@`, `user@` are names.
        return f":{value}@" in whole or _mixed(value)
    if probe in ("-u", "--user", "--proxy-user"):  # docker run -u app:app
        name = whole[: -len(value) - 1]
        return not name.endswith(value) and not value.startswith("//")  # redis-cli -u redis://host
    if probe == "--":
        return not _is_path(value)
    return True


def _is_path(value: str) -> bool:
    """A path, and not a base64 text with slashes in it."""
    if not _pattern(shapes.NO_PATH).match(value):
        return False
    # Chance changes between small letters, capitals and digits every second character; people do every fifth.
    changes = len(re.findall(r"(?<=[a-z])[A-Z]|(?<=[A-Za-z])[0-9]|(?<=[0-9])[A-Za-z]", value))
    return len(value) < 30 or changes * 4 < len(value)


def _headers(text: str, lowered: str) -> Iterator[Span]:
    """Values of headers that carry credentials: to the end of the line, or of the quotes that they stand in."""
    sentence, name, sign = _pattern(shapes.SENTENCE), _pattern(shapes.HEADER_NAME), _pattern(shapes.HEADER_SIGN)
    for word in shapes.HEADERS:
        done = 0
        for at in _places(lowered, (word,)):
            if at < done:
                continue
            end = at + len(word)
            start = at - len(lowered[max(0, at - 80) : at]) + len(lowered[max(0, at - 80) : at].rstrip(_NAME))
            match = sign.match(text, end)
            if not match or not name.fullmatch(lowered, start, end):
                continue
            quote = match[2] or (text[start - 1 : start] if not match[1] else "")
            value = _pattern(rf"[^\r\n{quote}]+" if quote in ("'", '"') and quote else r"[^\r\n]+").match(
                text, match.end()
            )
            if value and not sentence.match(text, value.start()) and value[0][0] not in "$<":
                done = value.end()
                yield value.span()


def _named(text: str, lowered: str) -> Iterator[Span]:
    sentence, no_name, no_value = _pattern(shapes.SENTENCE), _pattern(shapes.NO_NAME), _pattern(shapes.NO_VALUE)
    for match in _found(text, lowered, shapes.NAMES, shapes.NAMED):
        group = "dq" if match["dq"] is not None else "sq" if match["sq"] is not None else "bare"
        value = match[group]
        a, b = match.span(group)
        if len(value) < _SHORT.get(match["name"].lower(), 6):
            continue
        if no_name.search(match["tail"]) or no_value.match(value) or _is_path(value):
            continue
        if match["sign"] == ":" and (sentence.match(text, a) or value.startswith(("/", ":"))):
            continue
        if match["sign"] == ":" and group == "bare" and _is_told_of(text, match.start(), match["name"], value):
            continue
        yield a, b


def _is_told_of(text: str, at: int, name: str, value: str) -> bool:
    """Whether it is what an error is about: `open /home/u/.aws/credentials: ...`, `Unexpected token: word`."""
    word = re.split(r"[\s\"'=]", text[max(0, at - 300) : at])[-1]
    if "/" in word and "://" not in word:
        return True
    return name.lower() in ("token", "passwd", "credential", "credentials") and bool(_WORD.fullmatch(value))


# -- private keys ------------------------------------------------------------------------------------------------------


def _keys(text: str, cut_before: bool) -> Iterator[Span]:
    labels = (
        list(_pattern("(?m)" + shapes.LABEL).finditer(text))
        if "BEGIN" in text or "END " in text or "Private-Lines" in text
        else []
    )
    begun: re.Match[str] | None = None
    floor = 0
    for label in labels:
        if label[3]:  # PuTTY says how many lines there are
            yield _after(text, label.end(), len(text))
        elif "PRIVATE KEY" in label[2]:
            if label[1] == "BEGIN":
                if begun is not None:
                    yield _after(text, begun.end(), label.start())
                begun = label
            elif begun is not None and label.start() - begun.end() <= KEY_MOST:
                yield begun.end(), label.start()
                begun = None
            else:
                if begun is not None:
                    yield _after(text, begun.end(), label.start())
                begun = None
                yield _before(text, label.start(), floor)
        floor = label.end()
    if begun is not None:
        yield _after(text, begun.end(), len(text))
    yield from _unlabelled(text, labels, cut_before)


def _line_end(text: str, at: int, end: int) -> int:
    found = text.find("\n", at, end)
    return end if found < 0 else found


def _after(text: str, at: int, end: int) -> Span:
    """What goes on like a key's body behind a first line whose last line is missing."""
    words = _pattern(shapes.BODY_WORDS).match(text, at, end)
    last = words.end() if words else at
    body = _pattern(shapes.BODY_LINE)
    line = _line_end(text, last, end) + 1
    while line < end:
        stop = _line_end(text, line, end)
        if body.fullmatch(text, line, stop):
            last = stop
        elif text[line:stop].strip(" \t\r│|+>"):
            break
        line = stop + 1
    return at, last


def _before(text: str, at: int, floor: int) -> Span:
    """What stood like a key's body before a last line whose first line is missing."""
    start = max(floor, text.rfind("\n", floor, at) + 1)
    inside = text[start:at].rstrip(_BODY + "\\ \t\"',")
    first = start + len(inside) if at - start - len(inside) >= 8 else start
    body = _pattern(shapes.BODY_LINE)
    line = start
    while line > floor:
        stop = line - 1
        line = max(floor, text.rfind("\n", floor, stop) + 1)
        if body.fullmatch(text, line, stop):
            first = line
        elif text[line:stop].strip(" \t\r│|+>"):
            # Its first line may have the beginning of the key behind other words.
            rest = len(text[line:stop].rstrip(_BODY + "\\"))
            first = line + rest if stop - line - rest >= 16 else first
            break
    return first, at


def _unlabelled(text: str, labels: list[re.Match[str]], cut_before: bool) -> Iterator[Span]:
    """Bodies without either line: at the start of what was cut, or two full lines of one length."""
    runs: list[Span] = []
    if cut_before:
        runs += _leading(text)
    lines = _pattern(f"(?m)^{shapes.FULL_LINE}$").finditer(text) if len(text) > 128 else ()
    full = [match for match in lines if _keyish(match["body"])]
    start = None
    for one, other in pairwise([*full, None]):
        assert one is not None
        begins = one.start() if start is None else start
        if other is not None and other.start() == one.end() + 1 and len(other["body"]) == len(one["body"]):
            start = begins
            continue
        if start is not None:
            stop = _line_end(text, one.end(), len(text)) + 1
            rest = _line_end(text, stop, len(text))
            short = _pattern(shapes.BODY_LINE).fullmatch(text, stop, rest) if stop < rest else None
            runs.append((begins, rest if short and short["body"] else one.end()))
        start = None
    at = 0
    for a, b in sorted(runs):
        while at < len(labels) and labels[at].start() < a:
            at += 1
        before, after = labels[at - 1] if at else None, labels[at] if at < len(labels) else None
        public = before is not None and before[1] == "BEGIN" and "PRIVATE" not in before[2]
        public |= after is not None and after[1] == "END" and "PRIVATE" not in after[2] and after.start() - b < 80
        if not public:
            yield a, b


def _keyish(body: str) -> bool:
    return bool(re.search(r"[A-Z]", body) and re.search(r"[a-z]", body) and re.search(r"[0-9]", body))


def _leading(text: str) -> list[Span]:
    line, last, long = 0, 0, False
    body = _pattern(shapes.BODY_LINE)
    while line < len(text):
        stop = _line_end(text, line, len(text))
        match = body.fullmatch(text, line, stop)
        if not match or not match["body"]:
            break
        long = long or (len(match["body"]) >= LONG_BODY and _keyish(match["body"]))
        last = stop
        line = stop + 1
    return [(0, last)] if long else []
