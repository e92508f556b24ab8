"""A function that does not fit a glance says in a line what the reader cannot see from its name."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2] / "metastore"
GLANCE = 15
"""Lines of a function, its signature included, that need no docstring."""


def functions_without(tree: ast.Module) -> Iterator[str]:
    """Yields the long functions of ``tree`` without a docstring, inner ones too.

    The docstring of a class describes how it is made. A function that a decorator registers, and that is called ``_``,
    is described by its decorator and its argument's type.
    """
    for node in ast.walk(tree):
        of_class = isinstance(node, ast.ClassDef) and ast.get_docstring(node) is not None
        for each in ast.iter_child_nodes(node):
            if not isinstance(each, (ast.FunctionDef, ast.AsyncFunctionDef)) or ast.get_docstring(each):
                continue
            is_described = (of_class and each.name == "__init__") or (each.name == "_" and each.decorator_list)
            if not is_described and (each.end_lineno or 0) - each.lineno + 1 > GLANCE:
                yield each.name


def test_every_long_function_has_a_docstring() -> None:
    """Public or private, and however deep it lies."""
    trees = {path.relative_to(ROOT).as_posix(): ast.parse(path.read_text("utf-8")) for path in ROOT.rglob("*.py")}
    assert len(trees) > 500
    assert sorted(f"{module}: {name}" for module, tree in trees.items() for name in functions_without(tree)) == []


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("def f():\n{long}", ["f"]),
        ("def f():\n    'Says it.'\n{long}", []),
        ("def f():\n    pass", []),
        ("class A:\n    def __init__(self):\n    {long}", ["__init__"]),
        ("class A:\n    'Says it.'\n    def __init__(self):\n    {long}", []),
        ("@screen.register\ndef _(result: A):\n{long}", []),
        ("def _(result: A):\n{long}", ["_"]),
        ("if X:\n    def f():\n    {long}", ["f"]),
    ],
)
def test_a_long_function_is_found(text: str, found: list[str]) -> None:
    """In a class, below a condition; exempt is what has its description elsewhere."""
    assert list(functions_without(ast.parse(text.replace("{long}", "    (" + "\n" * GLANCE + ")")))) == found
