"""The private names of PyIceberg that this package uses, in one place; a test fails when one changes.

``_InclusiveMetricsEvaluator`` decides by a manifest entry's counts and bounds whether its file can hold a matching row.
PyIceberg has no public equivalent, and a copy here would have to be maintained. ``_get_parquet_writer_kwargs`` reads
the table properties for writing data files. ``MetastoreCatalog._write_metadata`` writes metadata.json for every catalog
that stores a pointer to it. ``_pyarrow_to_schema_without_ids`` creates a schema for the columns of a query, which get
their ids afterwards. ``Transaction._updates`` are the updates that a transaction would commit; this package commits
them by its own rules. ``_apply_table_update`` applies one update; here it learns the upgrade to format version 3.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, cast

import pyarrow as pa
from pydantic import Field
from pyiceberg.catalog import Catalog
from pyiceberg.expressions import BooleanExpression
from pyiceberg.expressions.visitors import _InclusiveMetricsEvaluator
from pyiceberg.io.pyarrow import _get_parquet_writer_kwargs, _pyarrow_to_schema_without_ids
from pyiceberg.manifest import DataFile
from pyiceberg.schema import Schema, assign_fresh_schema_ids
from pyiceberg.table import Transaction
from pyiceberg.table.metadata import TableMetadata, TableMetadataV3
from pyiceberg.table.update import (
    TableRequirement,
    TableUpdate,
    UpgradeFormatVersionUpdate,
    _apply_table_update,
    _TableMetadataUpdateContext,
)
from pyiceberg.typedef import TableVersion


def metrics_evaluator(schema: Schema, expression: BooleanExpression) -> Callable[[DataFile], bool]:
    """Return a test of data files: False only if no row of the file can match ``expression``."""
    return _InclusiveMetricsEvaluator(schema, expression, case_sensitive=True).eval


def parquet_writer_options(properties: Mapping[str, str]) -> dict[str, Any]:
    """Return arguments of pyarrow's Parquet writer for a table with ``properties``: codec, page sizes."""
    return _get_parquet_writer_kwargs(dict(properties))


def writing_metadata_by(write: Callable[..., None], catalog: Catalog) -> Catalog:
    """Make ``catalog`` write metadata files by ``write``; unchanged if its server writes them. Returns it.

    ``write`` takes the metadata, a FileIO, a path, and by name ``overwrite``.
    """
    for name, how in (("_write_metadata", write), ("_write_metadata_no_exist_check", partial(write, overwrite=True))):
        if hasattr(catalog, name):
            setattr(catalog, name, how)
    return catalog


class UpgradeToVersion3(UpgradeFormatVersionUpdate):
    """The update to format version 3: PyIceberg refuses its own, although it has all that the update needs."""

    format_version: int = Field(alias="format-version", default=3)


@_apply_table_update.register(UpgradeToVersion3)
def _upgraded(
    update: UpgradeToVersion3, base_metadata: TableMetadata, context: _TableMetadataUpdateContext
) -> TableMetadata:
    context.add_update(update)
    return TableMetadataV3.model_construct(**{**dict(base_metadata), "format_version": 3, "next_row_id": 0})


def upgrade(transaction: Transaction, version: TableVersion) -> None:
    """Raise the format version of the table. ValueError for one that is lower than the table's."""
    if version == 3 and transaction.table_metadata.format_version < version:
        transaction._apply((UpgradeToVersion3(),))  # noqa: SLF001
    else:
        transaction.upgrade_table_version(version)


def pending(transaction: Transaction) -> tuple[tuple[TableRequirement, ...], tuple[TableUpdate, ...]]:
    """Return the requirements and updates of an uncommitted transaction."""
    updates = tuple(
        UpgradeToVersion3() if isinstance(each, UpgradeFormatVersionUpdate) and each.format_version == 3 else each
        for each in transaction._updates  # noqa: SLF001
    )
    return transaction._requirements, updates  # noqa: SLF001


def schema_of_columns(columns: pa.Schema, format_version: int) -> Schema:
    """Return the schema of a new table with ``columns``. Raises PyIceberg's errors for types that it cannot have."""
    return assign_fresh_schema_ids(
        _pyarrow_to_schema_without_ids(columns, format_version=cast("TableVersion", format_version))
    )
