"""The new version of a table that CREATE OR REPLACE describes: other columns, partitions and order, and no rows.

Place in the flow: :mod:`metastore.sql.tables.create` commits the updates, with the rows of a query if there is one. The
table keeps its identity, snapshots, branches and tags, so every earlier version can be read. A column that keeps its
name keeps its id, as in Iceberg for Java.
"""

from __future__ import annotations

from collections.abc import Mapping
from itertools import count

from pyiceberg.partitioning import PartitionField, PartitionSpec
from pyiceberg.schema import Schema, assign_fresh_schema_ids
from pyiceberg.table import Table
from pyiceberg.table.metadata import TableMetadata
from pyiceberg.table.refs import MAIN_BRANCH
from pyiceberg.table.sorting import SortOrder
from pyiceberg.table.update import (
    AddPartitionSpecUpdate,
    AddSchemaUpdate,
    AddSortOrderUpdate,
    RemoveSnapshotRefUpdate,
    SetCurrentSchemaUpdate,
    SetDefaultSortOrderUpdate,
    SetDefaultSpecUpdate,
    SetLocationUpdate,
    SetPropertiesUpdate,
    TableUpdate,
    UpgradeFormatVersionUpdate,
    update_table_metadata,
)

from metastore.lake.iceberg.catalogs.iceberg_private import UpgradeToVersion3
from metastore.lake.iceberg.rows.row_lineage import VERSION_OF_LINEAGE


def with_ids_of(base: TableMetadata, schema: Schema) -> Schema:
    """Returns ``schema`` with the ids that columns of the same names have in ``base``, and new ids for others."""
    numbered, present = assign_fresh_schema_ids(schema), base.schema()
    new = count(base.last_column_id + 1)
    names = [numbered.find_column_name(number) or "" for number in sorted(numbered.field_ids)]
    known = {name: present.find_field(name).field_id for name in names if name in present.column_names}
    ids = iter([known[name] if name in known else next(new) for name in names])
    made = assign_fresh_schema_ids(schema, lambda: next(ids))
    return made.model_copy(update={"schema_id": max(each.schema_id for each in base.schemas) + 1})


def replacing(
    base: TableMetadata,
    version: int,
    schema: Schema,
    spec: PartitionSpec,
    order: SortOrder,
    location: str | None,
    properties: Mapping[str, str],
) -> tuple[TableUpdate, ...]:
    """Returns the updates that make ``base`` a table with ``schema``, whose ids are of :func:`with_ids_of`."""
    made: list[TableUpdate] = []
    if version > base.format_version:
        made.append(
            UpgradeToVersion3() if version == VERSION_OF_LINEAGE else UpgradeFormatVersionUpdate(format_version=version)
        )
    made += [AddSchemaUpdate(schema_=schema), SetCurrentSchemaUpdate(schema_id=schema.schema_id)]
    spec = _spec(base, spec)
    if spec.spec_id not in base.specs():
        made.append(AddPartitionSpecUpdate(spec=spec))
    made.append(SetDefaultSpecUpdate(spec_id=spec.spec_id))
    known = [each.order_id for each in base.sort_orders if each.fields == order.fields]
    if not known:
        order = SortOrder(*order.fields, order_id=max((each.order_id for each in base.sort_orders), default=0) + 1)
        made.append(AddSortOrderUpdate(sort_order=order))
    made.append(SetDefaultSortOrderUpdate(sort_order_id=known[0] if known else order.order_id))
    if location is not None and location != base.location:
        made.append(SetLocationUpdate(location=location))
    if properties:
        made.append(SetPropertiesUpdate(updates=dict(properties)))
    if MAIN_BRANCH in base.refs:
        made.append(RemoveSnapshotRefUpdate(ref_name=MAIN_BRANCH))
    return tuple(made)


def replaced_table(table: Table, updates: tuple[TableUpdate, ...]) -> Table:
    """Returns ``table`` as it is after ``updates``; nothing is committed."""
    metadata = update_table_metadata(table.metadata, updates)
    return Table(table.name(), metadata, table.metadata_location, table.io, table.catalog)


def _spec(base: TableMetadata, spec: PartitionSpec) -> PartitionSpec:
    """Returns ``spec`` with the ids of the same fields in ``base``, and new ids for others."""
    known = {
        (field.source_id, str(field.transform), field.name): field.field_id
        for each in base.partition_specs
        for field in each.fields
    }
    new = count((base.last_partition_id or 999) + 1)
    fields = []
    for field in spec.fields:
        key = (field.source_id, str(field.transform), field.name)
        number = known[key] if key in known else next(new)
        fields.append(PartitionField(field.source_id, number, field.transform, field.name))
    for each in base.partition_specs:
        if list(each.fields) == fields:
            return each
    return PartitionSpec(*fields, spec_id=max(each.spec_id for each in base.partition_specs) + 1)
