"""The private names of PyIceberg that this package leans on, in one place; a test fails when one changes.

``_InclusiveMetricsEvaluator`` tells from a manifest entry's counts and bounds whether its file can hold a matching row.
PyIceberg has no public form of it, and a second implementation here would be one to keep right.
``_get_parquet_writer_kwargs`` reads the table properties that say how data files are written.
``MetastoreCatalog._write_metadata`` writes metadata.json for every catalog that keeps a pointer to it.
``_pyarrow_to_schema_without_ids`` makes a schema of the columns of a query, whose ids are given afterwards.
``Transaction._updates`` is what a transaction would commit, so that it is committed by our own rules.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import pyarrow as pa
from pyiceberg.catalog import Catalog
from pyiceberg.expressions import BooleanExpression
from pyiceberg.expressions.visitors import _InclusiveMetricsEvaluator
from pyiceberg.io.pyarrow import _get_parquet_writer_kwargs, _pyarrow_to_schema_without_ids
from pyiceberg.manifest import DataFile
from pyiceberg.schema import Schema, assign_fresh_schema_ids
from pyiceberg.table import Transaction
from pyiceberg.table.update import TableRequirement, TableUpdate


def metrics_evaluator(schema: Schema, expression: BooleanExpression) -> Callable[[DataFile], bool]:
    """A test of data files: False only when no row of the file can match ``expression``."""
    return _InclusiveMetricsEvaluator(schema, expression, case_sensitive=True).eval


def parquet_writer_options(properties: Mapping[str, str]) -> dict[str, Any]:
    """Arguments of pyarrow's Parquet writer that a table with ``properties`` asks for: codec, page sizes."""
    return _get_parquet_writer_kwargs(dict(properties))


def writing_metadata_by(write: Callable[..., None], catalog: Catalog) -> Catalog:
    """``catalog``, which from now on writes metadata files by ``write``. One whose server writes them stays as it is.

    ``write`` takes the metadata, a FileIO, a path, and by name ``overwrite``.
    """
    for name, how in (("_write_metadata", write), ("_write_metadata_no_exist_check", partial(write, overwrite=True))):
        if hasattr(catalog, name):
            setattr(catalog, name, how)
    return catalog


def pending(transaction: Transaction) -> tuple[tuple[TableRequirement, ...], tuple[TableUpdate, ...]]:
    """What ``transaction``, which is not committed, has gathered."""
    return transaction._requirements, transaction._updates  # noqa: SLF001


def schema_of_columns(columns: pa.Schema) -> Schema:
    """The schema of a new table with ``columns``. Raises what PyIceberg does for a type that Iceberg does not have."""
    return assign_fresh_schema_ids(_pyarrow_to_schema_without_ids(columns))
