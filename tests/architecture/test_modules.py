"""Every module of the package is small, opens with what it is for, and is named after it."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
MODULES = {path.relative_to(ROOT).as_posix(): path.read_text() for path in sorted((ROOT / "metastore").rglob("*.py"))}
SHELVES = {"base", "common", "core", "helper", "helpers", "manager", "misc", "shared", "util", "utils"}
"""Names that say nothing, and so collect everything."""


@pytest.fixture(scope="module")
def trees() -> dict[str, ast.Module]:
    """The syntax tree of every module."""
    return {module: ast.parse(text) for module, text in MODULES.items()}


def test_the_package_was_found() -> None:
    """The tests below say something only if there is something to look at."""
    assert "metastore/errors.py" in MODULES


def test_a_module_has_at_most_400_lines() -> None:
    """What is longer holds two ideas, and wants to be two modules."""
    assert {module: lines for module, text in MODULES.items() if (lines := text.count("\n")) > 400} == {}


def test_a_module_opens_with_a_docstring(trees: dict[str, ast.Module]) -> None:
    """It gives the module's place in the flow and what it promises."""
    assert [module for module, tree in trees.items() if not ast.get_docstring(tree)] == []


def test_a_module_is_named_after_its_idea() -> None:
    """No part of a path is a shelf."""
    parts = {module: {part.strip("_") for part in Path(module).with_suffix("").parts} for module in MODULES}
    assert {module: found for module, own in parts.items() if (found := own & SHELVES)} == {}


def test_a_text_below_a_name_has_a_name_above_it(trees: dict[str, ast.Module]) -> None:
    """A text that describes a constant goes, and moves, with it."""
    assert [f"{module}:{line}" for module, tree in trees.items() for line in texts_of_nothing(tree)] == []


def test_a_text_of_nothing_is_found() -> None:
    """Below a function, and below another text; not below a name, nor in a body that is dots."""
    assert list(texts_of_nothing(ast.parse('"""Module."""\nA = 1\n"""Of A."""\ndef f(): ...\n"""Of f."""\n'))) == [5]
    assert list(texts_of_nothing(ast.parse('A = 1\n"""Of A."""\n"""More."""\n'))) == [3]


def texts_of_nothing(tree: ast.Module) -> Iterator[int]:
    """Lines of constants alone that stand behind something else than an assignment."""
    for node in ast.walk(tree):
        body = getattr(node, "body", None)
        for above, text in pairwise(body if isinstance(body, list) else ()):
            is_text = (
                isinstance(text, ast.Expr) and isinstance(text.value, ast.Constant) and text.value.value is not ...
            )
            if is_text and not isinstance(above, (ast.Assign, ast.AnnAssign)):
                yield text.lineno
