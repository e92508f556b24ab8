"""Who may import whom. The table below is the architecture; docs/design/001-layers-and-seams.md gives its reasons.

The syntax trees are walked, so an import inside a function, under TYPE_CHECKING or by ``import_module("…")`` counts
like any other: that is where cycles hide.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

PACKAGE = Path(__file__).parents[2] / "metastore"

LAYERS = (
    {"redaction"},
    {"errors"},
    {"ground"},
    {"config", "model"},
    {"engines", "model.mapping"},
    {"model.bounds", "model.sketches"},
    {"lake.stores"},
    {"lake.formats"},
    {"lake.iceberg"},
    {"lake.writes", "lake.inspection"},
    {"predicates"},
    {"components.storage"},
    {"components.expiration", "components.operations"},
    {"components"},
    {"components.information_schema", "components.integrity", "metastore", "sources"},
    {"analyze", "duck", "sources.hive"},
    {"scan.pruning"},
    {"scan"},
    {"procedures", "sql.views"},
    {"sql"},
    {"session"},
    {"opening"},
    {"overview", "spark"},
    {"daemon"},
    {"console"},
    {"serve"},
    {"cli"},
    {"__main__"},
)
"""Modules and packages of ``metastore``, lowest first: each may import from lower layers only, never from its own.

A package inside of a room stands apart where the room has layers of its own: ``lake.stores`` is below ``lake.formats``.
"""

DOORS = {
    "pyspark": {"spark"},
    "py4j": {"spark"},
    "typer": {"cli"},
    "starlette": {"serve"},
    "uvicorn": {"serve"},
    "jinja2": {"console"},
    "pyiceberg": set().union(*LAYERS[4:]),
    "pyarrow": set().union(*LAYERS[4:]),
}
"""Foreign libraries with few doors, and the pieces that are one. What is not named here may be imported anywhere."""


@dataclass(frozen=True)
class Import:
    """One import in the tree: the piece and the module it stands in, where, and the dotted name it asks for."""

    piece: str
    module: str
    place: str
    name: str


def piece_of(parts: Sequence[str]) -> str:
    """The piece of the table that a module belongs to, by its parts below ``metastore``."""
    inner = ".".join(parts[:2])
    return inner if any(inner in pieces for pieces in LAYERS) else parts[0]


@cache
def imports_of(package: Path) -> list[Import]:
    """Every import in every module below ``package``, which is the package ``metastore``."""
    imports = []
    for path in sorted(package.rglob("*.py")):
        inside = path.relative_to(package)
        parents = ("metastore", *inside.parts[:-1])
        module = ".".join(parents if path.stem == "__init__" else (*parents, path.stem))
        for node in ast.walk(ast.parse(path.read_text())):
            for name in _names(node, parents, package):
                place = f"{inside}:{getattr(node, 'lineno', 0)}"
                imports.append(Import(piece_of(inside.with_suffix("").parts), module, place, name))
    return imports


def _names(node: ast.AST, parents: tuple[str, ...], package: Path) -> Iterator[str]:
    match node:
        case ast.Import(names=names):
            yield from (alias.name for alias in names)
        case ast.ImportFrom(module=module, names=names, level=level):
            start = parents[: len(parents) - level + 1] if level else ()
            source = ".".join((*start, *([module] if module else ())))
            inside = package.joinpath(*source.split(".")[1:])
            if source.partition(".")[0] == "metastore" and inside.is_dir():
                # `from metastore.cli import x` means the module x, or a name of the package
                yield from (f"{source}.{a.name}" if _is_piece(inside, a.name) else source for a in names)
            else:
                yield source
        case ast.Call(func=ast.Name(id=name) | ast.Attribute(attr=name), args=[ast.Constant(value=str(target)), *_]):
            if name in {"import_module", "__import__"}:
                yield target


def _is_piece(package: Path, name: str) -> bool:
    return (package / name).is_dir() or (package / f"{name}.py").is_file()


def violations(package: Path) -> list[str]:
    """What breaks the table, one sentence each."""
    levels = {piece: level for level, pieces in enumerate(LAYERS) for piece in pieces}
    found = []
    for asked in imports_of(package):
        top, _, rest = asked.name.partition(".")
        piece = asked.piece
        if piece != "__init__" and piece not in levels:
            found.append(f"{asked.place}: {piece} stands in no layer")
        elif top in DOORS and piece not in DOORS[top]:
            found.append(f"{asked.place}: {piece} imports {top}, whose door is {', '.join(sorted(DOORS[top]))}")
        elif top == "metastore" and piece != "__init__":
            target = piece_of(rest.split("."))
            if not target:
                found.append(f"{asked.place}: {piece} imports the front door, which stands above everything")
            elif target not in levels:
                found.append(f"{asked.place}: {target} stands in no layer")
            elif target != piece and levels[target] >= levels[piece]:
                found.append(f"{asked.place}: {piece} imports {target}, which is not below it")
    return found


def cycle(package: Path) -> list[str]:
    """Modules that import each other in a ring; the first of them stands at the end again. Empty without any."""
    imports: dict[str, set[str]] = {}
    for each in imports_of(package):
        if each.module != each.name:
            imports.setdefault(each.module, set()).add(each.name)
    try:
        TopologicalSorter(imports).prepare()
    except CycleError as error:
        return list(error.args[1])
    return []


def test_nothing_imports_upwards() -> None:
    """Every import in the package goes down the table."""
    assert violations(PACKAGE) == []


def test_no_modules_import_each_other() -> None:
    """Within a piece too, which the table says nothing about."""
    assert cycle(PACKAGE) == []


BACK = ("from metastore.model.a import x", "from metastore.model import a", "from . import a")


@pytest.mark.parametrize("back", BACK)
def test_a_cycle_within_a_piece_is_found(tmp_path: Path, back: str) -> None:
    """However the way back is written, and over any number of modules."""
    modules = {"a": "from metastore.model import b", "b": "def f():\n    import metastore.model.c", "c": back}
    _tree(tmp_path, {f"model/{name}.py": source for name, source in modules.items()})
    assert set(cycle(tmp_path)) == {"metastore.model.a", "metastore.model.b", "metastore.model.c"}
    assert violations(tmp_path) == []


def test_every_piece_of_the_package_stands_in_the_table() -> None:
    """Also one that imports nothing yet, so that the table stays the whole picture."""
    pieces = {p.stem for p in PACKAGE.glob("*.py")} | {p.parent.name for p in PACKAGE.glob("*/*.py")}
    assert pieces - {"__init__"} <= {piece.partition(".")[0] for piece in set().union(*LAYERS)}


def test_no_piece_stands_in_two_layers() -> None:
    """A second mention would quietly win over the first."""
    assert sum(map(len, LAYERS)) == len(set().union(*LAYERS))


BREACHES = {
    "at the top": ("model/a.py", "from metastore.sources.naming import x", "model imports sources"),
    "as a module": ("model/a.py", "import metastore.sources", "model imports sources"),
    "as an attribute": ("model/a.py", "from metastore import sources", "model imports sources"),
    "inside of a room": (
        "lake/stores/a.py",
        "from metastore.lake.formats import x",
        "lake.stores imports lake.formats",
    ),
    "inside of a room, as an attribute": (
        "lake/stores/a.py",
        "from metastore.lake import formats",
        "lake.stores imports lake.formats",
    ),
    "in a function": ("ground/a.py", "def f():\n    from metastore.sources import x", "ground imports sources"),
    "for types only": (
        "model/mapping/a.py",
        "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    import metastore.components.tables",
        "model.mapping imports components",
    ),
    "by a relative path": ("model/deep/a.py", "from ...sources import x", "model imports sources"),
    "relative, as an attribute": ("errors.py", "from . import sources", "errors imports sources"),
    "by its name": ("model/a.py", "import importlib\nimportlib.import_module('metastore.cli')", "model imports cli"),
    "from its own layer": ("config/a.py", "from metastore.model import x", "config imports model"),
    "of the front door": ("cli/a.py", "from metastore import Metastore", "cli imports the front door"),
    "whole, of the front door": ("cli/a.py", "import metastore", "cli imports the front door"),
    "of Spark": ("procedures/a.py", "def f():\n    import pyspark.sql", "procedures imports pyspark"),
    "of Spark, from the top": ("cli/a.py", "from pyspark.sql import SparkSession", "cli imports pyspark"),
    "of Spark, by the front door": ("__init__.py", "import pyspark", "__init__ imports pyspark"),
    "of Arrow by the vocabulary": ("model/a.py", "import pyarrow as pa", "model imports pyarrow"),
    "from a piece without a layer": ("helpers/a.py", "import os", "helpers stands in no layer"),
    "of a piece without a layer": ("cli/a.py", "from metastore.helpers import x", "helpers stands in no layer"),
}


@pytest.mark.parametrize(("path", "source", "said"), BREACHES.values(), ids=BREACHES.keys())
def test_the_walk_finds_an_import(tmp_path: Path, path: str, source: str, said: str) -> None:
    """One breach of each kind, in a tree that is otherwise right, is found and named."""
    _tree(
        tmp_path,
        {"components/storage/commit.py": "import pyarrow", "lake/formats/x.py": "", "sources/x.py": "", path: source},
    )
    [sentence] = violations(tmp_path)
    assert sentence.startswith(f"{path}:")
    assert said in sentence


def test_the_walk_lets_the_right_ones_pass(tmp_path: Path) -> None:
    """Down the table, within a piece, in words only, and from the front door to anything."""
    right = {
        "__init__.py": "from metastore.cli import main\nfrom metastore import spark",
        "model/a.py": "from metastore import errors\nfrom metastore.model.b import x\nfrom .b import y",
        "model/b.py": '"""import pyspark"""\nfrom metastore.errors import MetastoreError\nimport os.path',
        "spark/session.py": "def f():\n    import pyspark\nfrom metastore.model.java import find_java",
        "errors.py": "",
    }
    _tree(tmp_path, right)
    assert violations(tmp_path) == []


def _tree(root: Path, files: dict[str, str]) -> None:
    for path, source in files.items():
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).write_text(source)
