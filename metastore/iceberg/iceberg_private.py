"""The private names of PyIceberg that this package leans on, in one place; a test fails when one changes.

``_InclusiveMetricsEvaluator`` tells from a manifest entry's counts and bounds whether its file can hold a matching row.
PyIceberg has no public form of it, and a second implementation here would be one to keep right.
``_get_parquet_writer_kwargs`` reads the table properties that say how data files are written.
``Transaction._updates`` is what a transaction would commit, so that it is committed by our own rules.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from pyiceberg.expressions import BooleanExpression
from pyiceberg.expressions.visitors import _InclusiveMetricsEvaluator
from pyiceberg.io.pyarrow import _get_parquet_writer_kwargs
from pyiceberg.manifest import DataFile
from pyiceberg.schema import Schema
from pyiceberg.table import Transaction
from pyiceberg.table.update import TableRequirement, TableUpdate


def metrics_evaluator(schema: Schema, expression: BooleanExpression) -> Callable[[DataFile], bool]:
    """A test of data files: False only when no row of the file can match ``expression``."""
    return _InclusiveMetricsEvaluator(schema, expression, case_sensitive=True).eval


def parquet_writer_options(properties: Mapping[str, str]) -> dict[str, Any]:
    """Arguments of pyarrow's Parquet writer that a table with ``properties`` asks for: codec, page sizes."""
    return _get_parquet_writer_kwargs(dict(properties))


def pending(transaction: Transaction) -> tuple[tuple[TableRequirement, ...], tuple[TableUpdate, ...]]:
    """What ``transaction``, which is not committed, has gathered."""
    return transaction._requirements, transaction._updates  # noqa: SLF001
