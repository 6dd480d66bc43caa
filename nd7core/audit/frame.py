"""One line of the audit log: how a frame is written, hashed and read back.

The bytes are a contract with other writers of the same log: keys in one order, no white space
between tokens, UTF-8, and last a BLAKE3 over everything before it.  Reading is forgiving, because a
reader meets other writers' logs, newer ones and broken ones; `nd7core.audit.verify` is the strict one.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, field
from typing import Any

from blake3 import blake3

VERSION = 0
KEYS = ("v", "session_id", "seq", "ts", "host", "source", "kind", "prev", "body", "hash")

# `,"hash":"` + 64 hex digits + `"}`: always the last bytes of a frame, whatever its body holds.
_TAIL = re.compile(rb',"hash":"([0-9a-f]{64})"\}\Z')
TAIL_BYTES = len(b',"hash":""}') + 64
_SURROGATE = re.compile("[\ud800-\udfff]")

# Nested deeper than this, other readers of the log refuse the whole line (serde_json stops at 128).
MAX_DEPTH = 100

_encode = json.JSONEncoder(
    ensure_ascii=False, allow_nan=False, separators=(",", ":"), check_circular=False
).encode  # built once: json.dumps makes a new encoder for every call with options


@dataclass(slots=True)
class Frame:
    """One frame as read.

    Attributes:
        v: the format's version; larger than `VERSION` for a log of a newer nd7.
        seq: from 0, dense.
        ts: nanoseconds since the epoch.
        body: what happened; its keys depend on `kind`.
        hash: as it stands in the line, whether or not it is right.
        offset, size: where the line stands in its file (bytes, newline included), once a reader knows.
    """

    v: int
    session_id: str
    seq: int
    ts: int
    host: str
    source: str
    kind: str
    prev: str
    body: dict[str, Any]
    hash: str
    offset: int = 0
    size: int = 0


@dataclass(frozen=True, slots=True)
class Damage:
    """Something in a log that is not as its writer left it, or that this nd7 cannot read.

    Attributes:
        reason: one line for a person, naming the frame where one is known.
        kind: "line" (bytes that are no frame), "torn" (an end without its newline), "hash", "gap",
            "link" (a `prev` that does not fit), "version" (a newer format), "file" (truncated,
            replaced, deleted).
        offset, size: the bytes it is about.
        seq: the frame it is about, or None.
        sample: the first bytes of it, at most 200.  Hostile.
    """

    reason: str
    kind: str = "line"
    offset: int = 0
    size: int = 0
    seq: int | None = None
    sample: bytes = field(default=b"", repr=False)


def genesis(session_id: str) -> str:
    """The `prev` of frame 0: BLAKE3 of the session id's bytes, as lower-case hex."""
    return blake3(session_id.encode("utf-8", "surrogateescape")).hexdigest()


def dump(value: object) -> bytes:
    """A value as the log writes it: compact JSON, UTF-8.

    Half a surrogate pair cannot be written in UTF-8 and other readers refuse its escape, so it
    becomes U+FFFD.  Raises ValueError for NaN, infinities and values that are no JSON, and
    RecursionError for a nesting that Python itself cannot walk.
    """
    try:
        text = _encode(value)
    except TypeError as error:
        raise ValueError(str(error)) from None
    try:
        return text.encode()
    except UnicodeEncodeError:
        return _SURROGATE.sub("\ufffd", text).encode()


def encode(
    session_id: str,
    seq: int,
    ts: int,
    host: str,
    source: str,
    kind: str,
    prev: str,
    body: dict[str, Any],
    *,
    v: int = VERSION,
) -> bytes:
    """The line of a frame, hash included, without its newline.

    Raises ValueError for a body that JSON cannot hold.
    """
    head = dump(
        {
            "v": v,
            "session_id": session_id,
            "seq": seq,
            "ts": ts,
            "host": host,
            "source": source,
            "kind": kind,
            "prev": prev,
            "body": body,
        }
    )
    return head[:-1] + b',"hash":"' + blake3(head).hexdigest().encode() + b'"}'


def stated_hash(line: bytes) -> str | None:
    """The hash that a line (without newline) ends with, or None where it does not end as a frame does."""
    found = _TAIL.search(line, len(line) - TAIL_BYTES if len(line) > TAIL_BYTES else 0)
    return found[1].decode() if found else None


def true_hash(line: bytes) -> str:
    """The hash that a line (without newline) ought to end with: over the object closed after `body`."""
    digest = blake3(memoryview(line)[: len(line) - TAIL_BYTES])
    digest.update(b"}")
    return digest.hexdigest()


def decode(line: bytes, *, check: bool = False) -> Frame | Damage:
    """Read one line, with or without its newline.  Never raises.

    A frame of a newer version is read as far as it can be.  With `check`, a frame whose hash is not
    that of its bytes is Damage of kind "hash"; without, the hash is taken as it stands.
    """
    if line.endswith(b"\n"):
        line = line[:-1]
    try:
        value = json.loads(line.decode())  # decoded here: json would take UTF-16 for what it is not
    except UnicodeDecodeError:
        return _damage("a line that is not UTF-8", line)
    except (ValueError, RecursionError):
        return _damage("a line that is no JSON", line)
    frame = from_object(value)
    if frame is None:
        return _damage("a line that is no frame", line)
    if check and (stated_hash(line) != frame.hash or true_hash(line) != frame.hash):
        return Damage(
            f"frame {frame.seq}: its hash is not that of its bytes", "hash", 0, len(line), frame.seq, line[:200]
        )
    return frame


def from_object(value: object) -> Frame | None:
    """A frame from a decoded line, or None where it is none.  Missing text is "", a missing `ts` 0."""
    if type(value) is not dict:
        return None
    try:
        frame = Frame(
            value["v"],
            value["session_id"],
            value["seq"],
            value.get("ts", 0),
            value.get("host", ""),
            value.get("source", ""),
            value["kind"],
            value.get("prev", ""),
            value.get("body", {}),
            value.get("hash", ""),
        )
    except KeyError:
        return None
    if (
        type(frame.v) is int
        and type(frame.seq) is int
        and type(frame.ts) is int
        and type(frame.body) is dict
        and type(frame.kind) is str
        and type(frame.session_id) is str
        and type(frame.source) is str
        and type(frame.prev) is str
        and type(frame.hash) is str
        and type(frame.host) is str
    ):
        return frame
    return None


def _damage(reason: str, line: bytes) -> Damage:
    return Damage(reason, "line", 0, len(line), None, line[:200])
