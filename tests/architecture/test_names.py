"""Names say what a thing is or does, so that nobody must open it to know."""

from __future__ import annotations

import ast
import re
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2] / "metastore"
MUTE_FUNCTIONS = {"_named", "_read", "_plain", "_told", "_do", "_helper", "_handle", "_process"}
MUTE_MODULES = {"work", "elsewhere", "parts", "places", "remainder", "utils", "helpers", "common", "misc", "manager"}
IRREGULAR = re.compile(
    "begun|bound|broken|brought|built|caught|chosen|done|drawn|driven|fallen|forgotten|found|frozen|given|gone|grown|"
    "held|hidden|kept|known|laid|lost|made|meant|paid|proven|said|seen|sent|shown|sold|spent|stood|taken|thrown|told|"
    "torn|understood|worn|written"
)
REGULAR = re.compile(r"(?!(embed|exceed|feed|indeed|need|proceed|red|seed|shed|speed)$)[a-z]+ed")
EXCEPTIONS = {
    "lake/stores/whole_files.py: closed": "Python's interface of files has it",
    "model/bounds/bound_arrays.py: known": "computes what is a field of the other bounds",
    "scan/pruning/result.py: skipped": "stands beside the fields `total` and `kept`, which users print",
}


def is_participle(name: str) -> bool:
    """Whether ``name``, of a function or a class, is one participle and no other word."""
    word = name.strip("_")
    return any(pattern.fullmatch(word[:1].lower() + word[1:]) for pattern in (IRREGULAR, REGULAR))


def definitions() -> Iterator[tuple[str, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef]]:
    """Yields every function, method, property and class of the package, with its module."""
    for path in sorted(ROOT.rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
                yield str(path.relative_to(ROOT)), node


@pytest.mark.parametrize("name", ["_asked", "found", "Excluded", "_Found", "unlisted"])
def test_a_participle_alone_is_recognized(name: str) -> None:
    """In functions, properties, classes and modules alike."""
    assert is_participle(name)


@pytest.mark.parametrize("name", ["need", "list_layers", "trusted_files", "ExcludedFiles", "is_dropped", "feed"])
def test_a_participle_with_its_noun_is_none(name: str) -> None:
    """Nor is a noun or verb that ends as a participle does."""
    assert not is_participle(name)


def test_nothing_is_called_by_a_participle_alone() -> None:
    """A reader of such a name has to ask what is read, known or listed, and by whom."""
    mute = {
        f"{module}: {node.name}"
        for module, node in definitions()
        if is_participle(node.name) or (not isinstance(node, ast.ClassDef) and node.name in MUTE_FUNCTIONS)
    }
    assert mute == EXCEPTIONS.keys()


def test_no_module_is_called_by_what_anything_could_be() -> None:
    """A module's name says of what it is."""
    stems = {str(path.relative_to(ROOT)): path.stem for path in ROOT.rglob("*.py")}
    assert [path for path, stem in stems.items() if stem in MUTE_MODULES or is_participle(stem)] == []


def test_a_public_class_has_its_name_alone() -> None:
    """Whoever reads or searches for a class meets one."""
    places = defaultdict(list)
    for path in sorted(ROOT.rglob("*.py")):
        for node in ast.parse(path.read_text(encoding="utf-8")).body:
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                places[node.name].append(str(path.relative_to(ROOT)))
    assert {name: modules for name, modules in places.items() if len(modules) > 1} == {}
