"""The keys: one table that the bindings, the key line, the help, the palette and keys.toml are all made from."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from textual.binding import Binding

from nd7core.errors import Nd7Error
from nd7core.paths import Places


@dataclass(frozen=True, slots=True)
class Key:
    """One thing that a key does.

    Attributes:
        id: its name in keys.toml, and of the method `do_<id>` that does it.
        keys: the keys, separated by commas, as Textual names them.
        cap: how the key is printed.
        word: one word for the key line.
        does: a sentence for the help.
        where: the screens that have it; empty for all.
        group: heading in the help.
        changes: whether it changes something outside the dashboard (and is off under --read-only).
    """

    id: str
    keys: str
    cap: str
    word: str
    does: str
    where: tuple[str, ...] = ()
    group: str = "Around"
    changes: bool = False


_KEY = re.compile(r"[a-z0-9_+]{1,40}|[!-+\--~]")
STREAM = ("dashboard",)
TABLE: tuple[Key, ...] = (
    Key("grant", "g", "g", "grant", "grant what the detail says, to this session's next commands, at once",
        ("dashboard", "moment"), "Mend", True),
    Key("wider", "G", "G", "wider", "choose how wide and for how long, with what each would open",
        ("dashboard", "moment"), "Mend", True),
    Key("undo", "u", "u", "undo", "take back the last grant", ("dashboard", "moment", "grants"), "Mend", True),
    Key("take_back", "x,delete", "x", "take back", "take back the selected grant", ("grants",), "Mend", True),
    Key("restart", "r", "r", "restart", "restart the session under a floor that has its grants, with its conversation",
        ("dashboard", "moment"), "Mend", True),
    Key("copy", "y", "y", "copy", "copy the command line that would do it, or the target",
        ("dashboard", "moment", "grants", "deeds", "history", "past"), "Mend"),
    Key("print", "Y", "Y", "print", "leave, and print what y copies: where a terminal or tmux lets nothing be copied",
        ("dashboard", "moment", "grants", "deeds", "history", "past"), "Mend"),
    Key("open", "enter", "Enter", "open", "a denial: the whole of it; a session: put this terminal on its screen",
        ("dashboard", "history", "grants"), "Look"),
    Key("choose", "enter", "Enter", "grant", "grant the selected width, for so long", ("wider",), "Mend", True),
    Key("shorter", "left", "←", "shorter", "for less long", ("wider",), "Mend"),
    Key("longer", "right", "→", "longer", "for longer", ("wider",), "Mend"),
    Key("start", "ctrl+s", "Enter", "start", "start the session; in the prompt Ctrl+S does", ("launch",), "Go", True),
    Key("reveal", "X", "X", "secrets", "show the secrets hidden in the selected row, until the selection moves",
        ("dashboard", "moment"), "Look"),
    Key("filter", "slash", "/", "filter", "filter the list; the syntax is shown while you type",
        ("dashboard", "history"), "Look"),
    Key("source_1", "1", "1", "kernel", "show or hide what the kernel refused", STREAM, "Look"),
    Key("source_2", "2", "2", "nd7-exec", "show or hide what nd7-exec refused to run", STREAM, "Look"),
    Key("source_3", "3", "3", "model", "show or hide what only the agent reports", STREAM, "Look"),
    Key("source_4", "4", "4", "other", "show or hide failures that are no denials", STREAM, "Look"),
    Key("pause", "space", "Space", "pause", "stop following new rows, or follow again", STREAM, "Look"),
    Key("waiting", "w", "w", "waiting", "go to the next session that waits for you", STREAM, "Look"),
    Key("launch", "n", "n", "new", "start a session that lives on without the dashboard", STREAM, "Go", True),
    Key("grants", "a", "a", "grants", "all grants: where from, how old, how often used", ("dashboard", "session"),
        "Go"),
    Key("profile", "p", "p", "profile", "the selected session's profile, with its changes since the start",
        ("dashboard", "session"), "Go"),
    Key("session", "i", "i", "session", "all that is known of the session, and exactly what is in force in it",
        ("dashboard", "moment"), "Go"),
    Key("history", "h", "h", "history", "past denials of every session ever recorded", STREAM, "Go"),
    Key("group", "v", "v", "by target", "by what was refused, with the number of sessions, or by time", ("history",),
        "Look"),
    Key("deeds", "l", "l", "log", "what nd7 itself did, each with its command line", (), "Go"),
    Key("export", "e", "e", "export", "write what is listed to a file, secrets masked", ("history",), "Go"),
    Key("format", "E", "E", "format", "what e writes: Markdown, JSON or CSV", ("history",), "Go"),
    Key("up", "up,k", "↑ k", "up", "up", (), "Move"),
    Key("down", "down,j", "↓ j", "down", "down", (), "Move"),
    Key("page_up", "pageup,ctrl+b", "PgUp", "page up", "a screenful up", (), "Move"),
    Key("page_down", "pagedown,ctrl+f", "PgDn", "page down", "a screenful down", (), "Move"),
    Key("top", "home", "Home", "top", "the first row", (), "Move"),
    Key("bottom", "end", "End", "newest", "the last row, and follow", (), "Move"),
    Key("next_pane", "tab", "Tab", "pane", "the next pane", (), "Move"),
    Key("back_pane", "shift+tab", "⇧Tab", "pane back", "the pane before", (), "Move"),
    Key("theme", "t", "t", "theme", "the next theme: dark, light, the terminal's own colours, and yours", (),
        "Around"),
    Key("help", "question_mark,f1", "?", "help", "the keys of this screen, and whether each does something now",
        (), "Around"),
    Key("back", "escape", "Esc", "back", "back out of one thing: a filter, a session, a screen", (), "Around"),
    Key("quit", "q", "q", "leave", "leave; every session lives on", (), "Around"),
)  # fmt: skip
BY_ID = {key.id: key for key in TABLE}


def of(screen: str) -> list[Key]:
    """The keys that a screen has."""
    return [key for key in TABLE if not key.where or screen in key.where]


def bindings(screen: str) -> list[Binding]:
    """Textual's bindings for a screen.  The id is what keys.toml renames."""
    return [
        Binding(
            key.keys, f"press('{key.id}')", key.word, show=False, id=key.id, priority=key.keys in ("tab", "shift+tab")
        )
        for key in of(screen)
    ]


def caps(keymap: dict[str, str]) -> dict[str, str]:
    """How each key is printed, with the person's own keys."""
    return {key.id: keymap[key.id].split(",")[0] if key.id in keymap else key.cap for key in TABLE}


def config_path(places: Places, environ: Mapping[str, str], name: str) -> str:
    """A file or folder of nd7's configuration: in $XDG_CONFIG_HOME/nd7, or ~/.config/nd7."""
    config = environ.get("XDG_CONFIG_HOME", "")
    return f"{config if config.startswith('/') else places.home + '/.config'}/nd7/{name}"


def keymap_path(places: Places, environ: Mapping[str, str]) -> str:
    """Where keys.toml is looked for."""
    return config_path(places, environ, "keys.toml")


def read_keymap(path: str) -> dict[str, str]:
    """The person's own keys: a TOML table of `name = "key"` or `name = ["key", "key"]`.

    Raises:
        Nd7Error: naming the line or the name that is wrong, and the names that there are.
    """
    import tomllib

    try:
        table = tomllib.loads(Path(path).read_text("utf-8"))
    except FileNotFoundError:
        return {}
    except (OSError, tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise Nd7Error(f"read {os.fspath(path)}: {error}", hint='it is TOML: grant = "f5"') from error
    table = table.get("keys", table)
    found: dict[str, str] = {}
    for name, value in table.items():
        if name not in BY_ID:
            raise Nd7Error(f"{path}: there is no key {name!r}", hint="there are " + ", ".join(BY_ID), exit_code=2)
        words = [value] if isinstance(value, str) else value
        if not isinstance(words, list) or not words or not all(isinstance(word, str) and word for word in words):
            raise Nd7Error(f"{path}: {name} takes a key or a list of keys", hint='as in grant = "f5"', exit_code=2)
        for word in words:
            if _KEY.fullmatch(word) is None:
                raise Nd7Error(f"{path}: {name}: {word!r} is no key", hint="as in a, G, f2, ctrl+g, slash", exit_code=2)
        found[name] = ",".join(words)
    seen: dict[str, str] = {}
    for key in TABLE:
        for word in found.get(key.id, key.keys).split(","):
            other = seen.setdefault(word, key.id)
            if other != key.id and (key.id in found or other in found) and _meet(BY_ID[other], key):
                raise Nd7Error(f"{path}: {word!r} is both {other} and {key.id}", exit_code=2)
    return found


def _meet(one: Key, other: Key) -> bool:
    return not one.where or not other.where or bool(set(one.where) & set(other.where))
