"""Finds the elements, keys and values that lists and maps must hold in every row that passes a condition. Pure.

Place in the flow: a scan checks the footers of its files for these before it reads their row groups
(:mod:`metastore.lake.formats.parquet.element_bounds`). It matters for files without statistics of elements: those that
an older version analyzed, and those that came since. Tests under OR and NOT require nothing.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from pyiceberg.expressions import BooleanExpression, EqualTo

from metastore.lake.formats.parquet.element_bounds import ElementProbe
from metastore.model.elements import KEY, VALUE, is_element
from metastore.predicates.columns import Columns
from metastore.predicates.predicate import Predicate, Question, parse, required_tests

_TYPES: Final = {"INT": int, "BIGINT": int, "VARCHAR": str}
"""Types whose values every engine compares in the order of bounds."""


def required_elements(question: Question | None, columns: Columns) -> tuple[ElementProbe, ...]:
    """The elements that each row passing ``question`` holds: whole numbers and texts, in list and map columns."""
    if question is None:
        return ()
    predicate = parse(question, columns)
    return tuple(probe for node in required_tests(predicate.condition) for probe in _probes(node, predicate))


def _probes(node: BooleanExpression, predicate: Predicate) -> Iterator[ElementProbe]:
    if not isinstance(node, EqualTo):
        return
    column = predicate.columns[node.term.name]  # type: ignore[attr-defined] # the term is a name before it is bound
    value: Any = node.literal.value
    is_of_files = len(column.path) == 2 and is_element(column.path) and "." not in column.path[0]
    if is_of_files and isinstance(value, int | str) and type(value) is _TYPES.get(column.type.name):
        part = 1 if column.path[1] == VALUE else 0
        yield ElementProbe(column.path[0], part, 2 if column.path[1] in (KEY, VALUE) else 1, value)
