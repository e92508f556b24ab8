"""``$path`` and the other columns of a row's file, in queries on Iceberg tables of catalogs. Pure.

Place in the flow: the table gets these columns in addition to its own. A condition is split in two: one on the table's
columns, for manifests and readers, and one on a file, by its path only. Every matching row satisfies both.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from typing import Any, Final

import pyarrow as pa
from pyiceberg.expressions import AlwaysTrue, And, BooleanExpression, Or, UnboundPredicate
from pyiceberg.expressions.visitors import expression_evaluator
from pyiceberg.schema import Schema
from pyiceberg.typedef import Record
from pyiceberg.types import NestedField, StringType

from metastore.scan.pruning.file_columns import MODIFIED, PARTITION, PSEUDO_COLUMNS, FileColumns
from metastore.sources.iceberg import plain_path

_OF_CATALOGS: Final = tuple(name for name in PSEUDO_COLUMNS if name not in (MODIFIED, PARTITION))
"""Manifests have no modification times of files. The directories of a table that a catalog keeps have no meaning."""

_FIRST_ID: Final = 1 << 30


def columns_of_files(unlisted: Collection[str], own: Iterable[str]) -> tuple[str, ...]:
    """Returns the columns among ``unlisted`` that a query means.

    One of the table's ``own`` columns hides its namesake.
    """
    hidden = {name.lower() for name in own}
    return tuple(name for name in _OF_CATALOGS if name in unlisted and name not in hidden)


def with_columns(schema: Schema, names: Sequence[str]) -> Schema:
    """Returns ``schema`` with the columns ``names`` of files at its end."""
    more = [NestedField(_FIRST_ID + place, name, StringType()) for place, name in enumerate(names)]
    return Schema(*schema.fields, *more) if more else schema


def of_table(expression: BooleanExpression, names: Collection[str]) -> BooleanExpression:
    """Returns the part of ``expression`` on the table's own columns, whatever the columns ``names`` of files hold."""
    return _only(expression, lambda name: name not in names)


def may_have_rows(expression: BooleanExpression, names: Sequence[str]) -> Callable[[str], bool]:
    """Whether a file at a path may have rows of ``expression``, judged by the columns ``names`` of files."""
    asked = _only(expression, lambda name: name in names)
    if isinstance(asked, AlwaysTrue):
        return lambda _: True
    holds = expression_evaluator(with_columns(Schema(), names), asked, case_sensitive=True)
    return lambda path: holds(Record(*values_of(path, names)))


def values_of(path: str, names: Sequence[str]) -> list[Any]:
    """Returns the values of the columns ``names`` in the rows of the file at ``path``."""
    columns = FileColumns(names)
    return [columns.value(name, plain_path(path)) for name in names]


def beside(batch: pa.RecordBatch, path: str, names: Sequence[str]) -> pa.RecordBatch:
    """Returns the rows ``batch`` of the file at ``path`` with the columns ``names`` at their end."""
    fields = [pa.field(name, pa.string()) for name in names]
    more = [pa.repeat(pa.scalar(value, pa.string()), batch.num_rows) for value in values_of(path, names)]
    return pa.RecordBatch.from_arrays([*batch.columns, *more], schema=pa.schema([*batch.schema, *fields]))


def _only(expression: BooleanExpression, is_kept: Callable[[str], bool]) -> BooleanExpression:
    """Returns ``expression`` with every test of another column replaced by true; it has no NOT above a test."""
    if isinstance(expression, And):
        return And(_only(expression.left, is_kept), _only(expression.right, is_kept))
    if isinstance(expression, Or):
        return Or(_only(expression.left, is_kept), _only(expression.right, is_kept))
    if isinstance(expression, UnboundPredicate) and not is_kept(expression.term.name):  # type: ignore[attr-defined]
        return AlwaysTrue()
    return expression
