"""Checks the updates of a commit before it is published, as Iceberg for Java would check the metadata that they make.

PyIceberg applies updates whose result no other reader accepts, such as a partition spec with one field id twice. (It
does refuse a schema with one name twice.) Every commit passes here, whatever the catalog. Only what the updates add is
looked at: a commit that adds a snapshot costs a few comparisons of numbers, however large the table is.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Container, Iterable, Iterator, Sequence

from pyiceberg.partitioning import PartitionField, PartitionSpec
from pyiceberg.schema import Schema, index_by_name
from pyiceberg.table.metadata import TableMetadata
from pyiceberg.table.refs import MAIN_BRANCH, SnapshotRefType
from pyiceberg.table.sorting import UNSORTED_SORT_ORDER_ID, SortField, SortOrder
from pyiceberg.table.update import (
    AddPartitionSpecUpdate,
    AddSchemaUpdate,
    AddSnapshotUpdate,
    AddSortOrderUpdate,
    SetSnapshotRefUpdate,
    TableUpdate,
    UpgradeFormatVersionUpdate,
)
from pyiceberg.transforms import UnknownTransform, VoidTransform

from metastore.errors import InvalidRequestError
from metastore.lake.iceberg.columns.schemas import parts_of
from metastore.lake.iceberg.rows.row_lineage import VERSION_OF_LINEAGE


def require_valid(table: str, base: TableMetadata | None, updates: Sequence[TableUpdate]) -> None:
    """Raise InvalidRequestError for the first fault that ``updates`` would bring into the metadata of ``table``.

    ``base`` is the metadata that they are for, None for a new table.
    """
    fault = next(_faults(base, updates), None)
    if fault is not None:
        raise InvalidRequestError(
            f"the commit to {table} is refused, because other engines could not read the table after it: {fault}. "
            "Nothing was changed"
        )


def require_known_transforms(table: str, metadata: TableMetadata, spec_ids: Iterable[int]) -> None:
    """Raise InvalidRequestError if a spec of ``spec_ids`` has a transform that PyIceberg does not know.

    Partition values of files of that spec can be neither made nor written again.
    """
    for spec_id in sorted(set(spec_ids)):
        for field in metadata.specs()[spec_id].fields:
            if isinstance(field.transform, UnknownTransform):
                raise InvalidRequestError(
                    f"{table} cannot be changed here: field {field.name} of partition spec {spec_id} has the transform "
                    f"{field.transform._transform}, which is not known. Nothing was changed; use an engine that knows "  # noqa: SLF001 - no other way
                    "the transform"
                )


def _faults(base: TableMetadata | None, updates: Sequence[TableUpdate]) -> Iterator[str]:
    """What a strict reader would refuse, in the order of ``updates``; each is checked against what came before it."""
    schemas = {schema.schema_id: schema for schema in base.schemas} if base else {}
    newest = schemas.get(base.current_schema_id) if base else None
    specs = {spec.spec_id for spec in base.partition_specs} if base else set()
    orders = {order.order_id for order in base.sort_orders} if base else set()
    snapshots: set[int] = set()
    upgrades = (each.format_version for each in updates if isinstance(each, UpgradeFormatVersionUpdate))
    version = max(upgrades, default=base.format_version if base else 1)
    for update in updates:
        match update:
            case AddSchemaUpdate(schema_=newest):
                yield from _added_again("schema", newest.schema_id, schemas)
                yield from _faults_of_schema(newest, version)
                schemas[newest.schema_id] = newest
            case AddPartitionSpecUpdate(spec=spec):
                yield from _added_again("partition spec", spec.spec_id, specs)
                yield from _faults_of_spec(spec, newest)
                specs.add(spec.spec_id)
            case AddSortOrderUpdate(sort_order=order):
                yield from _added_again("sort order", order.order_id, orders)
                yield from _faults_of_order(order, newest)
                orders.add(order.order_id)
            case AddSnapshotUpdate(snapshot=snapshot):
                if snapshot.schema_id is not None and snapshot.schema_id not in schemas:
                    yield f"snapshot {snapshot.snapshot_id} has the schema {snapshot.schema_id}, which does not exist"
                snapshots.add(snapshot.snapshot_id)
            case SetSnapshotRefUpdate():
                yield from _faults_of_ref(update, base, snapshots)


def _added_again(what: str, number: int, known: Container[int]) -> Iterator[str]:
    if number in known:
        yield f"there already is a {what} {number}"


def _faults_of_schema(schema: Schema, version: int) -> Iterator[str]:
    fields = [*parts_of(schema.fields)]
    yield from _twice(f"schema {schema.schema_id}", "field id", (field.field_id for field in fields))
    try:
        schema.check_format_version_compatibility(version)
    except ValueError as error:
        yield f"schema {schema.schema_id}: {error}"
    if version < VERSION_OF_LINEAGE and any(field.initial_default is not None for field in fields):
        yield f"schema {schema.schema_id} has a default of old rows, which format version {version} does not have"


def _faults_of_spec(spec: PartitionSpec, schema: Schema | None) -> Iterator[str]:
    what = f"partition spec {spec.spec_id}"
    yield from _twice(what, "field id", (field.field_id for field in spec.fields))
    yield from _twice(what, "name", (field.name for field in spec.fields))
    columns = index_by_name(schema) if schema is not None and spec.fields else {}
    for field in spec.fields:
        if columns.get(field.name, field.source_id) != field.source_id:
            yield f"{what} has a field {field.name}, which is the name of a column that it is not made from"
    yield from _find_lost_columns(what, spec.fields, schema)


def _faults_of_order(order: SortOrder, schema: Schema | None) -> Iterator[str]:
    if bool(order.fields) == (order.order_id == UNSORTED_SORT_ORDER_ID):
        yield f"sort order {order.order_id} has {len(order.fields)} fields, and 0 is the id of the empty order"
    yield from _find_lost_columns(f"sort order {order.order_id}", order.fields, schema)


def _faults_of_ref(update: SetSnapshotRefUpdate, base: TableMetadata | None, added: Collection[int]) -> Iterator[str]:
    if update.ref_name == MAIN_BRANCH and update.type != SnapshotRefType.BRANCH:
        yield f"{MAIN_BRANCH} would be a tag"
    is_known = update.snapshot_id in added or (base is not None and base.snapshot_by_id(update.snapshot_id) is not None)
    if not is_known:
        yield f"{update.type} {update.ref_name} points to snapshot {update.snapshot_id}, which does not exist"


def _twice(what: str, kind: str, values: Iterable[object]) -> Iterator[str]:
    return (f"{what} has the {kind} {value} {times} times" for value, times in Counter(values).items() if times > 1)


def _find_lost_columns(what: str, fields: Iterable[PartitionField | SortField], schema: Schema | None) -> Iterator[str]:
    known = schema.field_ids if schema is not None else ()
    for field in fields:
        if field.source_id not in known and not isinstance(field.transform, VoidTransform):
            yield f"{what} is by the column with id {field.source_id}, which does not exist"
