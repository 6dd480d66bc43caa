"""The rows of one session: added, counted, granted, proved, taken back.  Sans-IO; judging is done elsewhere."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from nd7core.attribution import Verdict
from nd7core.attribution.paths import inside
from nd7core.attribution.shell import place
from nd7core.denial import Denial, State
from nd7core.events import ToolEvent
from nd7core.record import Record

Key = tuple[str, ...]
MAX_CALLS = 100_000
"""Calls that are remembered, so that a newer state of one corrects the older."""
_KEPT_CALLS = 1000  # call ids kept with one row


class SessionRows:
    """One session's rows by what makes two refusals the same, and the grants that its states follow."""

    def __init__(self, session_id: str) -> None:
        self.session_id = session_id
        self.home = ""
        self.rows: dict[Key, Denial] = {}
        self.grants: dict[str, tuple[int, int | None]] = {}  # path -> (since when, revision)
        self._keys: dict[str, Key] = {}  # row id -> key
        self._commands: dict[tuple[str, str], set[Key]] = {}  # (tool, command) -> keys of denials
        self._calls: dict[str, tuple[Key, str, str]] = {}

    # ------------------------------------------------------------------ rows

    def get(self, identifier: str) -> Denial | None:
        """The row of an id."""
        key = self._keys.get(identifier)
        return self.rows.get(key) if key is not None else None

    def _put(self, key: Key, row: Denial) -> Denial:
        self.rows[key] = row
        self._keys[row.id] = key
        if row.denied and row.command:
            self._commands.setdefault((row.tool, row.command), set()).add(key)
        return row

    def seen(self, event: ToolEvent) -> bool:
        """Whether this very state of a call has been told; an older state's part in a row is taken back otherwise."""
        before = self._calls.get(event.call_id)
        if before is None:
            return False
        key, state, output = before
        if state == event.state and output == event.output:
            return True
        row = self.rows.get(key)
        if row is not None and event.call_id in row.calls:
            calls = tuple(call for call in row.calls if call != event.call_id)
            if calls:
                self.rows[key] = replace(row, calls=calls, count=max(1, row.count - 1))
            else:
                del self.rows[key]
        return False

    def remember(self, event: ToolEvent, key: Key) -> None:
        """Note what was made of a call's state."""
        if len(self._calls) >= MAX_CALLS:
            self._calls.pop(next(iter(self._calls)))
        self._calls[event.call_id] = (key, event.state, event.output)

    def add(self, row: Denial) -> Denial:
        """Add a refusal, or count it to the row that it is the same as."""
        old = self.rows.get(row.key)
        if old is None:
            covered = [given for path, given in self.grants.items() if self.mended_by(row, path)]
            if covered and row.denied:
                since, revision = covered[-1]
                # What an agent says is older news than the grant; only a call that was refused shows it came again.
                again = since <= row.ts and row.verdict.source != "model"
                state: State = "repeated" if again else "granted"
                tied = self.get(row.tied_to)
                if tied is not None and tied.state == "proved":
                    state = "proved"
                row = replace(row, state=state, revision=revision)
            return self._put(row.key, row)
        state = old.state
        if state in ("granted", "proved"):
            if row.verdict.source != "model" and self._granted_before(old, row.last_ts):
                state = "repeated"
        elif state == "obsolete":
            state = "open"
        return self._put(
            row.key,
            replace(
                row,
                id=old.id,
                ts=min(old.ts, row.ts),
                last_ts=max(old.last_ts, row.last_ts),
                count=old.count + 1,
                state=state,
                revision=old.revision,
                calls=(*old.calls[1 - _KEPT_CALLS :], *row.calls),
                tie=row.tie or old.tie,
                tied_to=row.tied_to or old.tied_to,
            ),
        )

    def repeated(self, event: ToolEvent, verdict: Verdict) -> Denial | None:
        """The granted row whose refusal came again although the policy now allows it, with that said."""
        if verdict.source != "none" or not verdict.contradiction or not verdict.target:
            return None
        for key, row in self.rows.items():
            if row.state not in ("granted", "proved", "repeated") or row.verdict.target != verdict.target:
                continue
            told = replace(row.verdict, evidence="likely", contradiction=f"{verdict.contradiction} {verdict.reason}")
            return self._put(
                key,
                replace(
                    row,
                    state="repeated",
                    verdict=told,
                    count=row.count + 1,
                    last_ts=max(row.last_ts, event.ended or event.started),
                    event=event,
                    calls=(*row.calls[1 - _KEPT_CALLS :], event.call_id),
                ),
            )
        return None

    def passed(self, event: ToolEvent, command: str) -> list[Denial]:
        """What a success proves: the same call went through that had been refused."""
        changed = []
        for key in self._commands.get((event.tool, command), ()) if command else ():
            row = self.rows.get(key)
            if row is None or row.state == "obsolete" or not isinstance(row.event, ToolEvent):
                continue
            if row.state == "proved" and row.proof == "command":
                continue
            if row.command == command and event.started >= row.last_ts:
                state: State = "obsolete" if row.state == "open" else "proved"
                changed.append(self._put(key, replace(row, state=state, proof="command")))
        return changed

    # ------------------------------------------------------------------ grants

    def take_record(self, record: Record) -> list[Denial]:
        """Compare the record's grants with those known; give the rows whose state follows."""
        self.home = record.home
        now = {grant.path: (grant.created, record.revision) for grant in record.grants}
        changed: list[Denial] = []
        gone = [path for path in self.grants if path not in now]
        for path in gone:
            del self.grants[path]
        for path, (created, revision) in now.items():
            # Taken back and given again between two looks is another grant, although the path is the same.
            if path not in self.grants or self.grants[path][0] != created:
                changed += self.grant(path, created, revision)
        return [*changed, *(self._taken_back() if gone else ())]

    def grant(self, path: str, ts: int, revision: int | None) -> list[Denial]:
        """A path was granted at `ts`."""
        self.grants[path] = (ts, revision)
        changed = []
        for key, row in list(self.rows.items()):
            if row.state not in ("open", "repeated") or not self.mended_by(row, path) or (ts and ts < row.ts):
                continue
            again = bool(ts) and row.last_ts > ts and row.verdict.source != "model"
            state: State = "repeated" if again else "granted"
            changed.append(self._put(key, replace(row, state=state, revision=revision)))
        return changed

    def take_back(self, path: str) -> list[Denial]:
        """A grant was taken back."""
        return self._taken_back() if self.grants.pop(path, None) is not None else []

    def _taken_back(self) -> list[Denial]:
        changed = []
        for key, row in list(self.rows.items()):
            if row.state in ("granted", "proved", "repeated") and not any(
                self.mended_by(row, path) for path in self.grants
            ):
                changed.append(self._put(key, replace(row, state="open", revision=None)))
        return changed

    def proved(self, path: str, *, allowed: bool, revision: int | None) -> list[Denial]:
        """The same operation was tried under the new policy, by nd7 itself."""
        changed = []
        for key, row in list(self.rows.items()):
            if row.state not in ("granted", "repeated") or not self.mended_by(row, path):
                continue
            state: State = "proved" if allowed else "repeated"
            changed.append(self._put(key, replace(row, state=state, revision=revision or row.revision, proof="nd7")))
        return changed

    def made(self, event: ToolEvent, command: str) -> str:
        """The path that a call found in its way because nd7 had made it for a grant, or "".

        Making what exists fails before any rule is asked (mkdir(2)), so what the same command was refused to make was
        not there; it is what was granted, and what is granted and missing, nd7 makes.
        """
        if "File exists" not in event.output and "EEXIST" not in event.output:
            return ""
        for key in self._commands.get((event.tool, command), ()):
            row = self.rows.get(key)
            path = row.verdict.target if row is not None and row.verdict.operation == "write" else ""
            since = self.grants.get(path, (event.started + 1, None))[0]
            if row is not None and row.ts <= since <= event.started and path.rpartition("/")[2] in event.output:
                return path
        return ""

    def mended_by(self, row: Denial, path: str) -> bool:
        """Whether a grant of `path` lets a row's refusal through.  One never reaches Write, Edit and Read."""
        if row.verdict.remedy != "grant":
            return False
        target = row.verdict.grant or row.verdict.target
        if target.startswith("~"):
            target = place(target, "", self.home)
        return target.startswith("/") and inside(target, path)

    def _granted_before(self, row: Denial, ts: int) -> bool:
        return any(self.mended_by(row, path) and since <= ts for path, (since, _) in self.grants.items())

    # ------------------------------------------------------------------ what the agent says

    def bears_out(self, verdict: Verdict, said: Iterable[str], ts: int) -> Denial | None:
        """The latest call begun before `ts` that was refused what a report names, or the like where it names nothing.

        Before by the clock: words in the middle of a turn are often told after the calls that followed them.
        """
        said = tuple(said)
        for row in reversed(self.rows.values()):
            if row.verdict.source not in ("kernel", "nd7-exec") or row.ts > ts:
                continue
            if not verdict.target:
                if verdict.operation in (row.verdict.operation, "other"):
                    return row
                continue
            if any(_same(one, other) for one in said for other in (row.verdict.target, *row.verdict.targets) if other):
                return row
        return None


def _same(one: str, other: str) -> bool:
    if one == other:
        return True
    if one.startswith("/") and other.startswith("/"):
        return inside(one, other) or (inside(other, one) and one.count("/") > 2)
    return bool(one) and one.split(":")[0] == other.split(":")[0] and "/" not in one
