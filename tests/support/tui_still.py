"""Every screen of the dashboard, standing still: the same on every machine and at every run."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import Any

import tui_rows
from textual.pilot import Pilot
from tui_screen import Still

from nd7core.audit.frame import Frame
from nd7core.history import Entry, SeenTarget
from nd7core.history import Page as Found
from nd7core.survey import Survey
from nd7tui.ladder import Rung
from nd7tui.messages import StoreChanged
from nd7tui.model import Batch, Deed
from nd7tui.screens.ask import Ask
from nd7tui.screens.history import Answer, History, Indexed
from nd7tui.screens.launch import Launch
from nd7tui.screens.past import MomentRead, Past
from nd7tui.screens.profile import Profile, ProfileRead
from nd7tui.screens.wider import Climbed, Wider

HOME, SECOND = tui_rows.HOME, tui_rows.SECOND
# As a supervisor tells it on Linux 6.10 and later with namespaces.
ENFORCED = {
    "landlock": "version 7",
    "namespaces": "user, mount, ipc; everything outside is mounted read-only, hidden places are masked",
    "privileges": "no capabilities, no_new_privs",
    "signals": "Landlock scope",
    "network": "nd7's notifier on copied memory, Landlock",
    "seccomp": "61 kinds of system calls closed, unix sockets closed",
}
Steps = Callable[[Still, "Pilot[None]"], Awaitable[None]]


class StillWider(Wider):
    """The ladder without a file system below it."""

    def _climb(self) -> None:
        self.surveys = {
            f"{HOME}/.cache/uv": Survey(1204, 96, True, (f"{HOME}/.cache/uv/token.json",), (), True),
            f"{HOME}/.cache": Survey(20_000, 0, False, (), (), True),
        }
        found = [
            Rung(f"{HOME}/.cache/uv/CACHEDIR.TAG", "not there yet"),
            Rung(f"{HOME}/.cache/uv", "tool cache"),
            Rung(f"{HOME}/.cache", "folder", dangers=("programs on the PATH: ~/.cache/bin",)),
        ]
        self.post_message(Climbed(found))

    def _count(self, path: str) -> None:
        """Counted already."""


class StillLaunch(Launch):
    """The form, in a folder that is the same everywhere."""

    def _default(self, name: str) -> str:
        return f"{HOME}/src/api-server" if name == "project" else super()._default(name)


class StillProfile(Profile):
    """A profile of a few lines, one of them granted since the start."""

    def _read(self) -> None:
        rules = [
            (" ", 1, "(version 1)"),
            (" ", 2, "(deny default)"),
            (" ", 3, "(allow file-read*)"),
            (" ", 4, f'(deny file-read* (subpath "{HOME}/.ssh") (subpath "{HOME}/.aws") (subpath "{HOME}/.nd7"))'),
            (" ", 5, f'(allow file-write* (subpath "{HOME}/src/api-server") (subpath "/tmp/nd7-4242"))'),
            ("+", 6, f'(allow file-write* (subpath "{HOME}/.cache/pip"))'),
            (" ", 7, '(allow network-outbound (remote tcp "*:443") (remote udp "*:53"))'),
        ]
        self.post_message(ProfileRead(rules, "", 2))


def entry(number: int, source: str, operation: str, target: str, **more: Any) -> Entry:
    """One past denial."""
    ts = tui_rows.START - number * 86_400 * SECOND
    made = Entry(
        id=number, session_id="3f0c5b1d", seq=4, offset=0, ts=ts, last_ts=ts, source=source, state="open",
        operation=operation, evidence="matched", remedy="grant", tool="Bash", count=1, command=f"touch {target}",
        target=target, grant=target, reason="The session's rules let nothing be written there.",
        line=f"touch: cannot touch '{target}': Permission denied", owner="", project=f"{HOME}/src/api-server",
        nd7_session=None,
    )  # fmt: skip
    return replace(made, **more)


ENTRIES = (
    entry(9, "kernel", "write", f"{HOME}/.cache/uv/CACHEDIR.TAG", command="uv sync --frozen", count=3),
    entry(8, "kernel", "network", "127.0.0.1:3000", remedy="cannot-grant", grant="", state="obsolete"),
    entry(7, "nd7-exec", "execute", "", command="make release", remedy="cannot-grant", grant="", evidence="recorded"),
    entry(6, "model", "write", "/etc/hosts", remedy="cannot-grant", grant="", evidence="reported", state="proved"),
)
SEEN = (
    SeenTarget(f"{HOME}/.cache/uv/CACHEDIR.TAG", "kernel", 6, 17, tui_rows.START),
    SeenTarget("127.0.0.1:3000", "kernel", 2, 2, tui_rows.START - 86_400 * SECOND),
    SeenTarget("/etc/hosts", "model", 1, 1, tui_rows.START - 2 * 86_400 * SECOND),
)


class StillHistory(History):
    """A search that finds the same, whatever is looked for."""

    def _index(self) -> None:
        self.post_message(Indexed(3, 3))

    def _ask(self, number: int, text: str, before: int | None, by_target: bool) -> None:
        found = None if by_target else Found(ENTRIES, None, True)
        self.post_message(Answer(number, found, list(SEEN) if by_target else [], False, 0.004))


class StillPast(Past):
    """A moment of four frames."""

    def _read(self) -> None:
        given = {"tool_name": "Bash", "tool_input": {"command": "uv sync --frozen"}}
        output = "Using CPython 3.12.4\n" + self.entry.line + "\n"
        told = [
            ("prompt", {"text": "bring the lock file up to date"}),
            ("tool_call", given),
            ("tool_result", {**given, "ok": False, "tool_response": output}),
            ("turn_end", {"last_assistant_message": "I could not write to the cache."}),
        ]
        frames = [
            Frame(1, "3f0c5b1d", at + 2, self.entry.ts + at * SECOND, "host", "intent:claude-code", kind, "", body, "")
            for at, (kind, body) in enumerate(told)
        ]
        self.post_message(MomentRead(list(frames)))


def keys(*pressed: str) -> Steps:
    """A screen that is reached by keys."""

    async def steps(app: Still, pilot: Pilot[None]) -> None:
        await pilot.press(*pressed)

    return steps


async def wider(app: Still, pilot: Pilot[None]) -> None:
    await app.push_screen(StillWider(tui_rows.rows()[0]))
    await pilot.pause(0.2)


async def ask(app: Still, pilot: Pilot[None]) -> None:
    await app.push_screen(
        Ask(
            "This grant opens a way out of the sandbox:",
            "~/.bashrc",
            ("a shell start file: ~/.bashrc",),
            "nd7 allow --session 4242 --force /home/ada/.bashrc",
            "grant it all the same",
            lambda: None,
        )
    )


async def launch(app: Still, pilot: Pilot[None]) -> None:
    await app.push_screen(StillLaunch())


async def profile(app: Still, pilot: Pilot[None]) -> None:
    await app.push_screen(StillProfile(app.store.sessions["pid:4242"]))
    await pilot.pause(0.2)


async def history(app: Still, pilot: Pilot[None]) -> None:
    await app.push_screen(StillHistory())
    await pilot.pause(0.2)
    await pilot.press("down")


async def by_target(app: Still, pilot: Pilot[None]) -> None:
    await history(app, pilot)
    await pilot.press("v")
    await pilot.pause(0.2)


async def past(app: Still, pilot: Pilot[None]) -> None:
    await app.push_screen(StillPast(ENTRIES[0]))
    await pilot.pause(0.2)


async def deeds(app: Still, pilot: Pilot[None]) -> None:
    app.store.did(Deed(tui_rows.NOW, "grant", "nd7 allow --session 4242 /home/ada/.cache/uv", "granted"))
    await pilot.press("l")


async def empty(app: Still, pilot: Pilot[None]) -> None:
    app.store.take(Batch(sessions=()), tui_rows.NOW)
    app.store.rows.clear()
    app.store.refilter()
    app.changed()


async def said(app: Still, pilot: Pilot[None]) -> None:
    note = "It is a file: a program that replaces it instead of writing into it needs its folder."
    app.say(f"~/notes/releases.txt: granted; the next Bash command has it. {note}", "good")


async def command_palette(app: Still, pilot: Pilot[None]) -> None:
    await pilot.press("ctrl+p")
    await pilot.pause(0.5)


SCREENS: dict[str, Steps] = {
    "dashboard": keys("home"),
    "dashboard-port": keys("home", "down", "down"),
    "dashboard-exec": keys("end", "up"),
    "dashboard-words": keys("end"),
    "dashboard-others": keys("4"),
    "dashboard-said": said,
    "one-session": keys("shift+tab", "down", "down"),
    "filter": keys("slash", *"state:open op:write"),
    "detail": keys("home", "enter"),
    "session": keys("home", "i"),
    "help": keys("question_mark"),
    "grants": keys("a"),
    "profile": profile,
    "deeds": deeds,
    "wider": wider,
    "ask": ask,
    "launch": launch,
    "history": history,
    "history-targets": by_target,
    "moment": past,
    "palette": command_palette,
    "empty": empty,
}


def batch() -> Batch:
    """Rows and sessions, one of them with all that a supervisor tells."""
    first, *others = tui_rows.sessions()
    return replace(tui_rows.batch(), sessions=(replace(first, enforced=ENFORCED), *others))


async def show(app: Still, pilot: Pilot[None], name: str) -> None:
    """Fill the dashboard and go to a screen."""
    app.store.take(batch(), tui_rows.NOW)
    app.screen.post_message(StoreChanged())
    await pilot.pause()
    await SCREENS[name](app, pilot)
    await pilot.pause(0.1)
