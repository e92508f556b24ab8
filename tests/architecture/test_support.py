"""The index of what tests share names each module, with the first sentence of its docstring."""

from __future__ import annotations

import ast
from pathlib import Path

SUPPORT = Path(__file__).parents[1] / "support"


def rows() -> list[str]:
    """The rows that the index should have, by name."""
    modules = [path for path in SUPPORT.rglob("*.py") if path.name != "__init__.py"]
    found = []
    for path in sorted(modules, key=lambda path: path.relative_to(SUPPORT).as_posix()):
        first = (ast.get_docstring(ast.parse(path.read_text())) or "").partition("\n\n")[0]
        found.append(f"| `{path.relative_to(SUPPORT).with_suffix('').as_posix()}` | {' '.join(first.split())} |")
    return found


def test_the_index_is_complete() -> None:
    """Each module once, in alphabetical order, with what its docstring says."""
    text = (SUPPORT / "README.md").read_text()
    assert [line for line in text.splitlines() if line.startswith("| `")] == rows()
