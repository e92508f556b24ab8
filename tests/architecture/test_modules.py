"""Every module of the package is small, opens with what it is for, and is named after it."""

from __future__ import annotations

import ast
from itertools import pairwise
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
MODULES = sorted(path.relative_to(ROOT).as_posix() for path in (ROOT / "metastore").rglob("*.py"))
SHELVES = {"base", "common", "core", "helper", "helpers", "manager", "misc", "shared", "util", "utils"}
"""Names that say nothing, and so collect everything."""


def test_the_package_was_found() -> None:
    """The tests below say something only if there is something to look at."""
    assert "metastore/errors.py" in MODULES


@pytest.mark.parametrize("module", MODULES)
def test_a_module_has_at_most_400_lines(module: str) -> None:
    """What is longer holds two ideas, and wants to be two modules."""
    lines = (ROOT / module).read_text().count("\n")
    assert lines <= 400


@pytest.mark.parametrize("module", MODULES)
def test_a_module_opens_with_a_docstring(module: str) -> None:
    """It gives the module's place in the flow and what it promises."""
    assert ast.get_docstring(ast.parse((ROOT / module).read_text()))


@pytest.mark.parametrize("module", MODULES)
def test_a_module_is_named_after_its_idea(module: str) -> None:
    """No part of a path is a shelf."""
    assert SHELVES.isdisjoint(part.strip("_") for part in Path(module).with_suffix("").parts)


@pytest.mark.parametrize("module", MODULES)
def test_a_text_below_a_name_has_a_name_above_it(module: str) -> None:
    """A text that describes a constant goes, and moves, with it."""
    for node in ast.walk(ast.parse((ROOT / module).read_text())):
        body = getattr(node, "body", None)
        if not isinstance(body, list):
            continue
        for above, text in pairwise(body):
            if isinstance(text, ast.Expr) and isinstance(text.value, ast.Constant):
                assert isinstance(above, (ast.Assign, ast.AnnAssign)) or text.value.value is ..., f"line {text.lineno}"
