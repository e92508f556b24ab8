"""Tests a filter on rows in memory, or passes it to Arrow's file readers.

Place in the flow: a read splits its filter. The part that partition keys do not answer is tested on rows; for most
reads it tests the metadata type of a few rows. Arrow takes half a millisecond to run an expression, even for few rows.
So equality and IN terms on strings are tested by kernels directly. Both ways select the same rows.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.acero  # Table.filter would import it on its first call: see metastore.ground.forks
import pyarrow.compute as pc
from pyiceberg.expressions import AlwaysTrue, BooleanExpression, BoundEqualTo, BoundIn, BoundReference
from pyiceberg.types import StringType

from metastore.model.mapping.filters import columns_tested, conjuncts, to_arrow_filter

_Term = tuple[str, "pa.Array[pa.StringScalar]"]
"""A column of strings, and its allowed values."""


_PLACE: Final = "place of the row"


@dataclass(frozen=True)
class RowTest:
    """A filter for rows, ``bound`` to their schema."""

    bound: BooleanExpression

    @property
    def expression(self) -> pc.Expression | None:
        """The filter as an Arrow expression; None if every row passes."""
        return None if isinstance(self.bound, AlwaysTrue) else self._arrow_filter

    def passing(self, rows: pa.Table) -> pa.Table:
        """Returns the rows that pass; a row with an unknown result does not pass."""
        if not rows.num_rows or isinstance(self.bound, AlwaysTrue):
            return rows
        if self._terms_over_strings is None:
            passes = self._passes(rows)
            return rows if passes is None else rows.filter(passes)
        for name, values in self._terms_over_strings:
            found = pc.is_in(rows[name], value_set=values)
            if not pc.all(found).as_py():
                rows = rows.filter(found)
        return rows

    def _passes(self, rows: pa.Table) -> pa.Array[Any] | None:
        """Which of ``rows`` pass, or None if all do: an expression copies all columns of the rows that pass."""
        names = sorted(self.tested_columns)
        places = pa.array(np.arange(rows.num_rows))
        tested = pa.Table.from_arrays([*(rows[name] for name in names), places], [*names, _PLACE])
        found = tested.filter(self._arrow_filter)[_PLACE]
        if len(found) == rows.num_rows:
            return None
        mask = np.zeros(rows.num_rows, np.bool_)
        mask[found.to_numpy()] = True
        return pa.array(mask)

    @cached_property
    def tested_columns(self) -> frozenset[str]:
        """The names of the columns that the filter tests."""
        return columns_tested(self.bound)

    @cached_property
    def _arrow_filter(self) -> pc.Expression:
        return to_arrow_filter(self.bound)

    @cached_property
    def _terms_over_strings(self) -> Sequence[_Term] | None:
        """The terms, if each of them lists the allowed values of a column of strings, else None."""
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
