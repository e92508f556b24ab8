"""Values that every row passing a question holds, which footers and bloom filters of files are probed for. Pure.

Tests under OR and NOT require nothing. Only whole numbers and texts are probed for: every engine compares them alike.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

from pyiceberg.expressions import EqualTo, In

from metastore.lake.formats.parquet.bloom_filters import Probes
from metastore.lake.formats.parquet.element_bounds import ElementProbe
from metastore.model.elements import KEY, VALUE, is_element
from metastore.model.mapping.filters import conjuncts
from metastore.predicates.columns import Columns, PredicateColumn
from metastore.predicates.predicate import Question, parse

_TYPES: Final[Mapping[str, type]] = {"INT": int, "BIGINT": int, "VARCHAR": str}
_MOST_VALUES: Final = 1_000
"""Most values of an IN that are looked up; their hashes are computed in Python."""


def probes_of(question: Question | None, columns: Columns) -> Probes:
    """Return, by column, values of which every row that passes ``question`` has one."""
    found: dict[str, tuple[int | str, ...]] = {}
    for column, values in _required_values(question, columns):
        is_of_files = column.usable and not column.from_directory
        if len(column.path) == 1 and is_of_files and len(values) <= _MOST_VALUES:
            found.setdefault(column.path[0], values)
    return found


def required_elements(question: Question | None, columns: Columns) -> tuple[ElementProbe, ...]:
    """Return the elements, keys and values of lists and maps that each row passing ``question`` holds.

    It matters for files without statistics of elements: those that an older version analyzed, and those that came
    since.
    """
    return tuple(
        ElementProbe(column.path[0], int(column.path[1] == VALUE), 2 if column.path[1] in (KEY, VALUE) else 1, value)
        for column, (value, *others) in _required_values(question, columns)
        if not others and len(column.path) == 2 and is_element(column.path)
    )


def _required_values(
    question: Question | None, columns: Columns
) -> Iterator[tuple[PredicateColumn, tuple[int | str, ...]]]:
    """Yield each column of which every row that passes ``question`` has one of some values, and these values."""
    if question is None:
        return
    predicate = parse(question, columns)
    for node in conjuncts(predicate.condition):
        if not isinstance(node, EqualTo | In):
            continue
        column = predicate.columns[node.term.name]  # type: ignore[attr-defined] # the term is a name before it is bound
        literals = [node.literal] if isinstance(node, EqualTo) else list(node.literals)
        values: tuple[Any, ...] = tuple(literal.value for literal in literals)
        kind = _TYPES.get(column.type.name)
        if "." not in column.path[0] and all(type(value) is kind for value in values):
            yield column, values
