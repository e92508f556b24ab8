"""Fixtures are typed: a test that takes one says what it gets, so that mypy sees what the test does with it.

The syntax trees of the tests are walked. ``Any`` is refused as the whole type of a parameter that is a fixture, and of
what a fixture returns; what ``parametrize`` and ``given`` hand in may be anything.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

TESTS = Path(__file__).parents[1]


def untyped(tree: ast.Module) -> Iterator[str]:
    """A sentence for each fixture in ``tree`` that is taken or returned as ``Any``."""
    for node, outside in _functions(tree, frozenset()):
        if not (_is_fixture(node) or node.name.startswith("test")):
            continue
        if _is_fixture(node) and _is_any(node.returns):
            yield f"{node.lineno}: the fixture {node.name} returns Any"
        handed = outside | _handed_in(node)
        for argument in (*node.args.args, *node.args.kwonlyargs):
            if _is_any(argument.annotation) and argument.arg not in handed:
                yield f"{argument.lineno}: {node.name} takes {argument.arg} as Any"


def _functions(tree: ast.AST, outside: frozenset[str]) -> Iterator[tuple[ast.FunctionDef, frozenset[str]]]:
    """Functions, each with the names that decorators of its class hand in."""
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.FunctionDef):
            yield node, outside
        elif isinstance(node, ast.ClassDef):
            yield from _functions(node, outside | _handed_in(node))


def _is_fixture(node: ast.FunctionDef) -> bool:
    return any(ast.unparse(each).startswith("pytest.fixture") for each in node.decorator_list)


def _is_any(annotation: ast.expr | None) -> bool:
    return isinstance(annotation, ast.Name) and annotation.id == "Any"


def _handed_in(node: ast.FunctionDef | ast.ClassDef) -> frozenset[str]:
    """The parameters that decorators give values to."""
    names: set[str] = set()
    for call in node.decorator_list:
        match call:
            case ast.Call(func=ast.Attribute(attr="parametrize"), args=[ast.Constant(value=str(text)), *_]):
                names |= {name.strip() for name in text.split(",")}
            case ast.Call(
                func=ast.Attribute(attr="parametrize"), args=[ast.Tuple(elts=named) | ast.List(elts=named), *_]
            ):
                names |= {str(each.value) for each in named if isinstance(each, ast.Constant)}
            case ast.Call(func=ast.Name(id="given"), args=args, keywords=keywords):
                names |= {keyword.arg for keyword in keywords if keyword.arg is not None}
                if args:  # by position: the last parameters
                    own = node.args.args if isinstance(node, ast.FunctionDef) else []
                    names |= {argument.arg for argument in own[-len(args) :]}
    return frozenset(names)


def test_no_fixture_is_taken_as_anything() -> None:
    """Every test and every fixture names the type of what it asks for."""
    found = [
        f"{path.relative_to(TESTS)}:{each}"
        for path in sorted(TESTS.rglob("*.py"))
        for each in untyped(ast.parse(path.read_text(encoding="utf-8")))
    ]
    assert found == []


def test_what_is_handed_in_may_be_anything() -> None:
    """By parametrize, on a test or its class, and by given; a fixture beside it may not."""
    source = """
@pytest.mark.parametrize(("a", "b"), [])
@given(c=st.text())
def test_one(a: Any, b: Any, c: Any, lake: Any) -> None: ...
@given(st.text())
def test_two(lake: Any, value: Any) -> None: ...
@pytest.mark.parametrize("kind", [])
class TestThree:
    def test_four(self, kind: Any, lake: list[Any]) -> None: ...
@pytest.fixture(scope="module")
def site() -> Any: ...
"""
    assert list(untyped(ast.parse(source))) == [
        "4: test_one takes lake as Any",
        "6: test_two takes lake as Any",
        "11: the fixture site returns Any",
    ]
