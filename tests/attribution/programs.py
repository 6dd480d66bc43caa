"""The commands that `collect.py` runs in a real session: the set-up decides what the truth is.

programs.jsonl holds what most machines have; tools.jsonl what developers install beside it (linters, bundlers, web
frameworks, database clients, compilers), each with a number of its own, so that it keeps its name in the record.

Placeholders: `{P}` the project, `{O}` a folder outside it that its owner may write to, `{H}` the home, `{n}` a number
of the case's own.  `{O}` holds file.txt, folder/, repo/ (a git repository), hg/, m{n}.txt and d{n}/ for each number.
A refused command works outside a session; a look-alike fails there the same way, or does not fail at all.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any


@dataclass(frozen=True)
class Case:
    """One command and the truth of its set-up.

    Attributes:
        program: what must be installed for it.
        command: run by bash in the project.
        source, operation, target, fix: as in the corpus; target "" where the program prints none.
        only: `full` for what only the read-only mounts refuse (modes and times), `bare` for what only Landlock does.
        control: whether it is also run outside, to drop a case whose program fails for reasons of its own.
        needs: a command that must succeed outside, or the case is left out: a library is there.
    """

    program: str
    command: str
    source: str = "kernel"
    operation: str = "write"
    target: str = ""
    fix: str = "grant"
    only: str = ""
    control: bool = True
    needs: str = ""


LOCALES = tuple(
    word
    for line in (
        "be_BY bg_BG ca_ES cs_CZ da_DK de_DE el_GR es_ES fi_FI fr_FR hr_HR hu_HU id_ID it_IT ja_JP ko_KR",
        "nb_NO nl_NL pl_PL pt_BR pt_PT ru_RU sk_SK sl_SI sr_RS sv_SE tr_TR uk_UA vi_VN zh_CN zh_TW",
    )
    for word in line.split()
)


def _case(row: dict[str, Any]) -> Case:
    return replace(_of_class(row), needs=row.get("needs", ""))


def _of_class(row: dict[str, Any]) -> Case:
    program, command, target = row["program"], row["command"], row.get("target", "")
    kind = row["class"]
    if kind == "alike":
        return Case(program, command, "none", "other", "", "not-nd7")
    if kind == "network":
        return Case(program, command, operation="network", target=target, fix="cannot-grant", control=False)
    if kind == "ipc":
        return Case(program, command, operation="ipc", target=target, fix="cannot-grant", control=False)
    if kind == "other":
        return Case(program, command, operation=row["operation"], fix="cannot-grant", control=False)
    if kind == "read":
        writing = program in ("touch", "tee", "mkdir") or ">>" in command
        operation = "write" if writing else "exec" if "/bin/tool" in command and program != "sh" else "read"
        return Case(program, command, operation=operation, target=target, fix="cannot-grant")
    return Case(program, command, target=target, only="full" if kind == "metadata" else "")


def _translated(name: str) -> list[Case]:
    words = f"LC_ALL={name}.UTF-8"
    secret = "{H}/.ssh/id_ed25519"
    return [
        Case("touch", f"{words} touch {{O}}/t{{n}}", target="{O}/t{n}"),
        Case("cat", f"{words} cat ~/.ssh/id_ed25519", operation="read", target=secret, fix="cannot-grant"),
        Case("bash", f"{words} bash -c 'echo x > {{O}}/t{{n}}'", target="{O}/t{n}"),
    ]


def cases() -> list[Case]:
    """Every case, in order: those of programs.jsonl, then the same three commands in every language."""
    return [_case(row) for row in _rows("programs.jsonl")] + [case for name in LOCALES for case in _translated(name)]


def tools() -> list[tuple[int, Case]]:
    """The cases of tools.jsonl with their numbers; each is also run outside, for a tool may be broken by itself."""
    return [(row["number"], replace(_case(row), control=True)) for row in _rows("tools.jsonl")]


def _rows(name: str) -> list[dict[str, Any]]:
    with Path(__file__).with_name(name).open(encoding="utf-8") as file:
        return [json.loads(line) for line in file]
