"""Tests ask for behaviour: what can be given as a parameter or a setting is not patched into a module.

The syntax trees of the tests are walked. A constant, or a private attribute, that is set by ``setattr`` of a patch is
found by its name: a test that needs one changed asks for a parameter, with the constant as its default.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

TESTS = Path(__file__).parents[1]

_MID_CALL = "a fault, a race or an interruption at one moment inside of one call, which no caller can ask for"

ALLOWED: dict[tuple[str, str], str] = {
    ("analyze/tasks/test_footers.py", "_footer"): "waits until others read, too: only the reading thread can",
    ("components/expiration/test_harm.py", "_sweep"): _MID_CALL,
    (
        "sources/hive/test_locks.py",
        "_result",
    ): "an answer is lost after the service acted: the client's one place for answers",
    ("sources/hive/test_locks.py", "_clean"): _MID_CALL,
    (
        "sources/hive/test_migrate.py",
        "_result",
    ): "an answer is lost after the service acted: the client's one place for answers",
    ("sources/hive/test_revert.py", "_clean"): _MID_CALL,
    ("procedures/orphans/test_remove_orphans.py", "_reach"): _MID_CALL,
    ("sql/select/test_duck.py", "_connection"): "DuckDB forgets an interruption now and then: a connection that does",
    ("components/storage/test_commit.py", "_overtaken"): _MID_CALL,
    (
        "components/storage/test_commit.py",
        "_store",
    ): "a store that loses races: catalogs of a disk make their store by themselves",
    ("components/storage/test_group_commit.py", "_lead"): _MID_CALL,
}
"""File and name: why no parameter or public door serves."""

_CONSTANT = re.compile(r"_?[A-Z][A-Z0-9_]+")
_PRIVATE = re.compile(r"_[a-z]\w*")


def patched(tree: ast.AST) -> Iterator[tuple[str, int]]:
    """The names of attributes that ``tree`` patches with another value, and their lines."""
    for node in ast.walk(tree):
        if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Attribute):
            continue
        match (node.func.attr, node.args):
            case ("setattr" | "delattr" | "object", [_, ast.Constant(value=str(name)), *_]):
                yield name, node.lineno
            case ("setattr" | "patch", [ast.Constant(value=str(target)), *_]):
                yield target.rpartition(".")[2], node.lineno


def refused(tests: Path) -> list[str]:
    """What is patched and may not be, a sentence each."""
    found = []
    for path in sorted(tests.rglob("*.py")):
        inside = path.relative_to(tests).as_posix()
        for name, line in patched(ast.parse(path.read_text(encoding="utf-8"))):
            hidden = _CONSTANT.fullmatch(name) or _PRIVATE.fullmatch(name)
            if hidden and (inside, name) not in ALLOWED:
                found.append(f"{inside}:{line} patches {name}; make it a parameter, or a setting")
    return found


def test_no_test_patches_a_constant_or_a_private_attribute() -> None:
    """A parameter or a public door serves, but for what is allowed with a reason."""
    assert refused(TESTS) == []


def test_what_is_allowed_is_still_done() -> None:
    """An exception goes when its test does."""
    done = {
        (path.relative_to(TESTS).as_posix(), name)
        for path in TESTS.rglob("*.py")
        for name, _ in patched(ast.parse(path.read_text(encoding="utf-8")))
    }
    assert set(ALLOWED) <= done


def test_every_way_to_patch_is_seen(tmp_path: Path) -> None:
    """By object and name, by dotted name, and by unittest's patches."""
    (tmp_path / "test_it.py").write_text(
        'monkeypatch.setattr(reader, "_CACHED", 0)\n'
        'patch.setattr("metastore.a.LIMIT", 0)\n'
        'mock.patch.object(a, "_private", 0)\n'
        'mock.patch("metastore.a._private")\n'
        'monkeypatch.setattr(Reader, "read", 0)\n'
        'monkeypatch.setattr(Reader, "__init__", 0)\n',
        encoding="utf-8",
    )
    assert [line.partition(" patches")[0] for line in refused(tmp_path)] == [f"test_it.py:{n}" for n in (1, 2, 3, 4)]
