"""README says what is there: every command, every module, and nothing that is gone."""

from __future__ import annotations

import re
from pathlib import Path

from nd7tui.cli import COMMANDS

ROOT = Path(__file__).resolve().parent.parent.parent
README = (ROOT / "README.md").read_text("utf-8")
PACKAGES = ("nd7core", "nd7exec", "nd7tui")


def command_table() -> str:
    """What stands between README's two marks."""
    rows = "\n".join(f"| `nd7 {name}` | {line} |" for name, (_, line) in COMMANDS.items())
    return f"| command | |\n| --- | --- |\n{rows}\n"


def modules(package: str) -> set[str]:
    """The modules at a package's top, and its packages with a slash."""
    top = ROOT / package
    found = {path.stem for path in top.glob("*.py") if path.stem != "__init__"}
    return found | {f"{path.parent.name}/" for path in top.glob("*/__init__.py")}


def test_the_command_table_is_that_of_the_code() -> None:
    between = README.partition("-->\n")[2].partition("<!-- /commands -->")[0]
    assert between == command_table()


def test_every_module_is_in_the_map_and_every_one_in_the_map_exists() -> None:
    for package in PACKAGES:
        table = README.partition(f"| {package} |")[2].partition("\n\n")[0]
        named = re.findall(r"`([a-z_]+/?)`", "".join(row.split("|")[1] for row in table.splitlines()[2:]))
        assert len(named) == len(set(named)), f"{package}: named twice"
        assert set(named) - modules(package) == set(), f"{package}: README names what is not there"
        assert modules(package) - set(named) == set(), f"{package}: README's map lacks them"


def test_every_path_in_the_text_exists() -> None:
    paths = re.findall(r"`((?:nd7core|nd7exec|nd7tui|tests|screenshots)/[\w./]+)`", README)
    paths += re.findall(r"\]\(([\w./-]+)\)", README)
    assert len(paths) > 10
    assert [path for path in paths if not (ROOT / path).exists()] == []


def test_it_holds_no_path_of_a_machine_and_no_host() -> None:
    assert re.findall(r"https?://(?!keepachangelog|semver)\S+|/work/\S*|/root/\S*", README) == []
