"""The private names of PyIceberg that this package uses, in one place; a test fails when one changes.

``_InclusiveMetricsEvaluationVisitor`` decides by a manifest entry's counts and bounds whether its file can hold a
matching row. PyIceberg has no public equivalent, and a copy here would have to be maintained.
``_get_parquet_writer_kwargs`` reads the table properties for writing data files. ``MetastoreCatalog._write_metadata``
writes metadata.json for every catalog that stores a pointer to it. ``_pyarrow_to_schema_without_ids`` creates a
schema for the columns of a query, which get their ids afterwards. ``Transaction._updates`` are the updates that a
transaction would commit; this package commits them by its own rules. ``_apply_table_update`` applies one update; here
it learns the upgrade to format version 3. ``UpdateSpec._partition_field`` chooses the id and the name of a new
partition field.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, cast

import pyarrow as pa
from pydantic import Field
from pyiceberg.catalog import Catalog
from pyiceberg.conversions import from_bytes
from pyiceberg.expressions import BooleanExpression, BoundTerm
from pyiceberg.expressions.literals import Literal
from pyiceberg.expressions.visitors import _InclusiveMetricsEvaluationVisitor, bind, rewrite_not, visit
from pyiceberg.io.pyarrow import _get_parquet_writer_kwargs, _pyarrow_to_schema_without_ids
from pyiceberg.manifest import DataFile
from pyiceberg.partitioning import PartitionField, _PartitionNameGenerator, _visit_partition_field
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
from pyiceberg.table.update.spec import UpdateSpec
from pyiceberg.transforms import Transform
from pyiceberg.typedef import TableVersion
from pyiceberg.types import DoubleType, FloatType, NestedField

from metastore.lake.formats.variant_arrays import VariantArrowType, is_labelled
from metastore.lake.iceberg.columns.type_spellings import VariantType


def metrics_evaluator(schema: Schema, expression: BooleanExpression) -> Callable[[DataFile], bool]:
    """Return a test of data files: False only if no row of the file can match ``expression``.

    A null matches no comparison, but it matches NOT IN and a NOT of a prefix.
    """
    bound = bind(schema, rewrite_not(expression), case_sensitive=True)

    def may_match(file: DataFile) -> bool:
        return file.record_count != 0 and (file.record_count < 0 or visit(bound, _OfFile(file)))

    return may_match


class _OfFile(_InclusiveMetricsEvaluationVisitor):
    """PyIceberg's decisions; besides, equal bounds decide ``!=``, NOT IN and a NOT of a prefix, left open there."""

    def visit_not_equal(self, term: BoundTerm, literal: Literal[Any]) -> bool:
        return not self._contains_nulls_only(term.ref().field.field_id) and self._only_value(term) != literal.value

    def visit_not_in(self, term: BoundTerm, literals: set[Any]) -> bool:
        value = self._only_value(term)
        is_zero = isinstance(value, float) and not value  # of both signs, which Arrow tells apart in a list
        return is_zero or self._may_contain_null(term.ref().field.field_id) or value not in literals

    def _may_contain_null(self, field_id: int) -> bool:
        return self.null_counts.get(field_id) != 0

    def _only_value(self, term: BoundTerm) -> Any:
        """The value of all rows of the file that are not null; None if there may be others. NaN is another value."""
        field = term.ref().field
        bounds = [of.get(field.field_id) for of in (self.lower_bounds, self.upper_bounds)]
        if None in bounds or (isinstance(field.field_type, FloatType | DoubleType) and self._may_contain_nan(field)):
            return None
        low, high = (from_bytes(field.field_type, bound) for bound in bounds)  # type: ignore[arg-type] # no None
        return low if low == high else None

    def _may_contain_nan(self, field: NestedField) -> bool:
        return self.nan_counts.get(field.field_id) != 0


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
def _apply_upgrade(
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


class PartitionUpdate(UpdateSpec):
    """PyIceberg's change of a partition spec, which takes up the id of an earlier field again.

    PyIceberg also takes up an id that the spec still has: a table of format version 1 keeps a dropped field as void.
    In version 3 it takes up none, so two fields of one name have different ids.
    """

    def _partition_field(self, transform_key: tuple[int, Transform[Any, Any]], name: str | None) -> PartitionField:
        metadata = self._transaction.table_metadata
        source_id, transform = transform_key
        taken = {field.field_id for field in metadata.spec().fields}
        specs = metadata.partition_specs if metadata.format_version > 1 else []
        for field in (field for spec in specs for field in spec.fields):
            is_alike = (field.source_id, field.transform) == transform_key and name in (None, field.name)
            if is_alike and field.field_id not in taken:
                return field
        new = PartitionField(source_id, self._new_field_id(), transform, name or "unnamed")
        if name is None:
            generated = _visit_partition_field(metadata.schema(), new, _PartitionNameGenerator())
            return new.model_copy(update={"name": generated})
        return new


def pending(transaction: Transaction) -> tuple[tuple[TableRequirement, ...], tuple[TableUpdate, ...]]:
    """Return the requirements and updates of an uncommitted transaction."""
    updates = tuple(
        UpgradeToVersion3() if isinstance(each, UpgradeFormatVersionUpdate) and each.format_version == 3 else each
        for each in transaction._updates  # noqa: SLF001
    )
    return transaction._requirements, updates  # noqa: SLF001


def schema_of_columns(columns: pa.Schema, format_version: int) -> Schema:
    """Return the schema of a new table with ``columns``.

    Raises PyIceberg's errors for types that it cannot have, and TypeError for a variant inside of another column.
    """
    variants = {field.name for field in columns if isinstance(field.type, VariantArrowType)}
    if nested := [field.name for field in columns if is_labelled(field)]:
        raise TypeError(f"column {', '.join(nested)} has a variant inside; select it as a column of its own")
    plain = pa.schema([field.with_type(pa.binary()) if field.name in variants else field for field in columns])
    found = _pyarrow_to_schema_without_ids(plain, format_version=cast("TableVersion", format_version))
    own = [
        field.model_copy(update={"field_type": VariantType()}) if field.name in variants else field
        for field in found.fields
    ]
    return assign_fresh_schema_ids(Schema(*own))
