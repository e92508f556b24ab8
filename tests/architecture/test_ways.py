"""The page of ways through the code is true: modules stand, and each is reached from one before it."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "design" / "028-five-ways-through-the-code.md").read_text(encoding="utf-8")
WAYS = {
    section.partition("\n")[0]: re.findall(r"^\d+\. `(metastore/[\w/]+\.py)`", section, re.MULTILINE)
    for section in re.split(r"^## ", PAGE, flags=re.MULTILINE)[1:]
}


def mentioned(module: str) -> set[str]:
    """The modules that one imports, here or in its functions, or names in a text, as the list of procedures does."""
    found = set()
    for node in ast.walk(ast.parse((ROOT / module).read_text(encoding="utf-8"))):
        if isinstance(node, ast.ImportFrom) and node.module:
            found |= {node.module, *(f"{node.module}.{alias.name}" for alias in node.names)}
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            found.add(node.value)
    return found


def test_there_are_five() -> None:
    """Each of seven to ten modules."""
    assert [len(modules) for modules in WAYS.values()] == [10, 7, 7, 9, 8]


@pytest.mark.parametrize("way", WAYS)
def test_a_way_leads_from_module_to_module(way: str) -> None:
    """Each after the first is imported by one before it."""
    modules = WAYS[way]
    for place, module in enumerate(modules[1:], 1):
        name = module.removesuffix(".py").replace("/", ".")
        assert any(name in mentioned(before) for before in modules[:place]), module
