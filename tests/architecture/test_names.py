"""Names say what a thing is or does, so that nobody must open it to know."""

from __future__ import annotations

import ast
from pathlib import Path

ROOT = Path(__file__).parents[2] / "metastore"
MUTE_FUNCTIONS = {"_named", "_read", "_plain", "_told", "_do", "_helper", "_handle", "_process"}
MUTE_MODULES = {"work", "elsewhere", "parts", "places", "remainder", "utils", "helpers", "common", "misc", "manager"}


def test_no_function_is_called_by_a_participle_alone() -> None:
    """A reader of such a name has to ask what is read."""
    found = {
        f"{path.relative_to(ROOT)}: {node.name}"
        for path in ROOT.rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.FunctionDef) and node.name in MUTE_FUNCTIONS
    }
    assert found == set()


def test_no_module_is_called_by_what_anything_could_be() -> None:
    """A module's name says of what it is."""
    assert {str(path.relative_to(ROOT)) for path in ROOT.rglob("*.py") if path.stem in MUTE_MODULES} == set()
