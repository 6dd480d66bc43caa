"""There is one way for text to get to the screen, and it is through `nd7tui.line`."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

import nd7tui

ROOT = Path(nd7tui.__file__).parent
# Everything by which Textual or rich would show a string, and everything that takes text past a Line.
FORBIDDEN = {
    "Static", "Label", "Text", "Content", "Markdown", "Log", "RichLog", "DataTable", "OptionList", "Tree", "TextArea",
    "Header", "Footer", "Toast", "Button", "Segment", "Strip", "Panel", "Table", "Syntax", "Pretty", "Tooltip",
    "Segments", "Traceback", "from_markup", "from_text", "from_ansi", "assemble", "notify", "render_str", "print",
}  # fmt: skip
FORBIDDEN_ATTRIBUTES = {"border_title", "border_subtitle", "tooltip", "sub_title", "loading"}
# The modules that are the way, or that never run inside the dashboard.
ALLOWED = {"line.py", "cli.py"}
MODULES = [
    path
    for path in sorted(ROOT.rglob("*.py"))
    if path.name not in ALLOWED and path.relative_to(ROOT).parts[0] not in ("commands", "demo")
]


def test_there_are_modules_to_look_at() -> None:
    assert len(MODULES) > 15


@pytest.mark.parametrize("path", MODULES, ids=lambda path: str(path.relative_to(ROOT)))
def test_no_other_constructor_of_text(path: Path) -> None:
    tree = ast.parse(path.read_text("utf-8"))
    for node in ast.walk(tree):
        if isinstance(node, ast.Call):
            name = node.func.id if isinstance(node.func, ast.Name) else getattr(node.func, "attr", "")
            assert name not in FORBIDDEN, f"{path.name}:{node.lineno}: {name}(...) shows text past nd7tui.line"
            if name == "SafeText":
                # A cast: only of what stands there, or is made of what is safe already.
                assert path.name in ("look.py", "rowlist.py", "lists.py", "store.py", "detail.py"), (
                    f"{path.name}:{node.lineno}: SafeText(...) is a claim that only nd7tui.line may make"
                )
                assert len(node.args) == 1
        elif isinstance(node, (ast.Assign, ast.AnnAssign)):
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            for target in targets:
                if isinstance(target, ast.Attribute):
                    assert target.attr not in FORBIDDEN_ATTRIBUTES, (
                        f"{path.name}:{node.lineno}: {target.attr} shows text"
                    )
        elif isinstance(node, ast.ImportFrom) and node.module:
            assert not node.module.startswith("rich.") or path.name in ("theme.py", "crash.py"), (
                f"{path.name}:{node.lineno}: rich makes text; only nd7tui.line may"
            )


def test_no_module_grows_beyond_reading() -> None:
    sizes = {str(path.relative_to(ROOT)): path.read_text("utf-8").count("\n") for path in ROOT.rglob("*.py")}
    assert sizes["app.py"] <= 300
    assert {name for name, size in sizes.items() if size > 420} == set()
