"""Values that bloom filters are probed for, from a question. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from pyiceberg.expressions import BooleanExpression, EqualTo, In

from metastore.lake.formats.parquet.bloom_filters import Probes
from metastore.predicates.columns import Columns
from metastore.predicates.predicate import Predicate, Question, parse, required_tests

_TYPES: Final[Mapping[str, type]] = {"INT": int, "BIGINT": int, "VARCHAR": str}
_MOST_VALUES: Final = 1_000
"""Most values of an IN that are looked up; their hashes are computed in Python."""


def probes_of(question: Question | None, columns: Columns) -> Probes:
    """Return, by column, values of which every row that passes ``question`` has one; integers and texts only."""
    if question is None:
        return {}
    predicate = parse(question, columns)
    found: dict[str, tuple[int | str, ...]] = {}
    for node in required_tests(predicate.condition):
        if (probe := _probe(node, predicate)) is not None:
            found.setdefault(*probe)
    return found


def _probe(node: BooleanExpression, predicate: Predicate) -> tuple[str, tuple[int | str, ...]] | None:
    if not isinstance(node, EqualTo | In):
        return None
    column = predicate.columns[node.term.name]  # type: ignore[attr-defined] # the term is a name before it is bound
    literals = [node.literal] if isinstance(node, EqualTo) else list(node.literals)
    values = tuple(literal.value for literal in literals)
    kind = _TYPES.get(column.type.name)
    is_file_column = len(column.path) == 1 and "." not in column.path[0] and column.usable and not column.from_directory
    if not is_file_column or len(values) > _MOST_VALUES or any(type(value) is not kind for value in values):
        return None
    return column.path[0], values
