"""A filter as a test of rows in memory, or of files that Arrow reads.

Place in the flow: a read splits its filter; what the partition keys do not answer is tested on rows, and for most reads
that is the metadata type of a handful. To run an expression takes Arrow half a millisecond however few the rows are, so
columns of strings that must have one of some values are compared by kernels. Both ways choose the same rows.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import pyarrow as pa
import pyarrow.acero  # Table.filter would import it when it is first called: see metastore.forks
import pyarrow.compute as pc
from pyiceberg.expressions import AlwaysTrue, BooleanExpression, BoundEqualTo, BoundIn, BoundReference
from pyiceberg.types import StringType

from metastore.mapping.filters import compiled, conjuncts

_Term = tuple[str, "pa.Array[pa.StringScalar]"]
"""A column of strings, and the values it may have."""


@dataclass(frozen=True)
class RowTest:
    """What rows are tested for: an expression that is ``bound`` to the schema they have."""

    bound: BooleanExpression

    @property
    def expression(self) -> pc.Expression | None:
        """The same for Arrow; None where every row passes."""
        return None if isinstance(self.bound, AlwaysTrue) else self._compiled

    def passing(self, rows: pa.Table) -> pa.Table:
        """The rows that pass; a row of which that is unknown does not."""
        if not rows.num_rows or isinstance(self.bound, AlwaysTrue):
            return rows
        if self._terms_over_strings is None:
            return rows.filter(self._compiled)
        for name, values in self._terms_over_strings:
            passes = pc.is_in(rows[name], value_set=values)
            if not pc.all(passes).as_py():
                rows = rows.filter(passes)
        return rows

    @cached_property
    def _compiled(self) -> pc.Expression:
        return compiled(self.bound)

    @cached_property
    def _terms_over_strings(self) -> Sequence[_Term] | None:
        """The terms, if all of them name the values that a column of strings may have."""
        terms = [_plain_term(term) for term in conjuncts(self.bound)]
        known = [term for term in terms if term is not None]
        return known if len(known) == len(terms) else None


def _plain_term(term: BooleanExpression) -> _Term | None:
    match term:
        case BoundEqualTo(term=BoundReference(field=field), literal=literal):
            literals = {literal}
        case BoundIn(term=BoundReference(field=field), literals=literals):
            pass
        case _:
            return None
    if not isinstance(field.field_type, StringType):
        return None
    return field.name, pa.array([literal.value for literal in literals], pa.string())
