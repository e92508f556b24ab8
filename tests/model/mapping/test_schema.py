"""The unit's declaration as Iceberg and Arrow schemas: ids that never change, and columns that only come at the end."""

from __future__ import annotations

import io
from dataclasses import dataclass
from typing import ClassVar

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyiceberg.io.pyarrow import pyarrow_to_schema, schema_to_pyarrow
from pyiceberg.schema import Schema, assign_fresh_schema_ids
from pyiceberg.transforms import IdentityTransform
from pyiceberg.types import LongType, NestedField, StringType

from metastore.model.fields import ColumnType, Unit, column_names, stored_as
from metastore.model.mapping.arrow import arrow_schema, plain_arrow_schema
from metastore.model.mapping.schema import added_fields, evolve_schema, iceberg_schema, partition_spec
from metastore.model.table_unit import TableMetadataUnit

FULL = iceberg_schema(TableMetadataUnit)


@dataclass(frozen=True)
class Grown(Unit):
    """A unit to which two releases added columns, nested ones among them."""

    partition_columns: ClassVar[tuple[str, ...]] = ("key",)
    location_columns: ClassVar[tuple[str, ...]] = ("key",)

    key: str | None = stored_as("key", ColumnType.STRING)
    notes: object = stored_as("notes", ColumnType.STRING_LIST)
    size: int | None = stored_as("size", ColumnType.LONG)
    weights: object = stored_as("weights", ColumnType.FLOAT_MAP)
    number: int | None = stored_as("number", ColumnType.INT)


class TestNewTable:
    def test_the_ids_of_the_tables_component(self) -> None:
        """Files that stand name columns by these: they are written down here, and never change."""
        assert [(f.field_id, f.name) for f in FULL.fields] == [
            (1, "storagePlugin"),
            (2, "workspace"),
            (3, "tableName"),
            (4, "owner"),
            (5, "tableType"),
            (6, "metadataType"),
            (7, "metadataKey"),
            (8, "location"),
            (9, "interestingColumns"),
            (10, "schema"),
            (11, "columnsStatistics"),
            (12, "metadataStatistics"),
            (13, "lastModifiedTime"),
            (14, "partitionKeys"),
            (15, "additionalMetadata"),
            (16, "metadataIdentifier"),
            (17, "column"),
            (18, "locations"),
            (19, "partitionValues"),
            (20, "path"),
            (21, "rowGroupIndex"),
            (22, "hostAffinity"),
        ]
        nested = {name: number for number in range(23, 33) if (name := FULL.find_column_name(number))}
        assert nested == {
            "interestingColumns.element": 23,
            "columnsStatistics.key": 24,
            "columnsStatistics.value": 25,
            "metadataStatistics.element": 26,
            "partitionKeys.key": 27,
            "partitionKeys.value": 28,
            "locations.element": 29,
            "partitionValues.element": 30,
            "hostAffinity.key": 31,
            "hostAffinity.value": 32,
        }

    @pytest.mark.parametrize("unit_type", [TableMetadataUnit, Grown])
    def test_ids_are_those_that_iceberg_gives(self, unit_type: type[Unit]) -> None:
        """A catalog that numbers a new table's columns itself gives them the same ids."""
        schema = iceberg_schema(unit_type)
        assert assign_fresh_schema_ids(schema) == schema
        assert not any(field.required for field in schema.fields)

    def test_the_partition_spec(self) -> None:
        """Identity of the four keys, in Drill's order, ids from 1000."""
        fields = partition_spec(TableMetadataUnit).fields
        assert [(f.source_id, f.field_id, f.name) for f in fields] == [
            (1, 1000, "storagePlugin"),
            (2, 1001, "workspace"),
            (3, 1002, "tableName"),
            (7, 1003, "metadataKey"),
        ]
        assert all(isinstance(f.transform, IdentityTransform) for f in fields)


class TestEvolution:
    @given(st.sets(st.sampled_from([f.name for f in FULL.fields]), min_size=1), st.integers(0, 50))
    def test_missing_columns_come_at_the_end_with_the_next_ids(self, missing: set[str], gap: int) -> None:
        """Whichever are missing, and however many ids were used before: what stands is left as it is."""
        old = Schema(*(f for f in FULL.fields if f.name not in missing), schema_id=3)
        last = FULL.highest_field_id + gap
        new = evolve_schema(old, last, TableMetadataUnit)
        in_order = [name for name in column_names(TableMetadataUnit) if name in missing]
        assert [c.name for c in added_fields(old, TableMetadataUnit)] == in_order
        assert new.fields[: len(old.fields)] == old.fields
        assert [f.name for f in new.fields[len(old.fields) :]] == in_order
        assert sorted(new.field_ids - old.field_ids) == list(
            range(last + 1, last + 1 + len(FULL.field_ids) - len(old.field_ids))
        )
        assert {f.name: str(f.field_type) for f in new.fields} == {f.name: str(f.field_type) for f in FULL.fields}
        assert new.schema_id == 4
        assert added_fields(new, TableMetadataUnit) == ()

    def test_columns_of_others_stay(self) -> None:
        """A column that the unit does not know keeps its place and id; new ones take none of its."""
        old = Schema(NestedField(1, "key", StringType()), NestedField(9, "theirs", LongType()))
        new = evolve_schema(old, 9, Grown)
        assert [(f.field_id, f.name) for f in new.fields] == [
            (1, "key"),
            (9, "theirs"),
            (10, "notes"),
            (12, "size"),
            (13, "weights"),
            (16, "number"),
        ]
        assert [new.find_field(name).field_id for name in ("notes.element", "weights.key", "weights.value")] == [
            11,
            14,
            15,
        ]


class TestArrow:
    def test_files_carry_the_ids(self) -> None:
        """PyIceberg finds the whole schema again in a Parquet file's own, nested ids included."""
        schema = arrow_schema(TableMetadataUnit, FULL)
        buffer = io.BytesIO()
        pq.write_table(schema.empty_table(), buffer)
        assert pyarrow_to_schema(pq.read_schema(buffer)).fields == FULL.fields

    def test_files_carry_the_ids_of_the_table_at_hand(self) -> None:
        """Not those of a new table; columns of others are not written."""
        table = evolve_schema(
            Schema(NestedField(5, "theirs", LongType()), NestedField(7, "key", StringType())), 20, Grown
        )
        written = pyarrow_to_schema(arrow_schema(Grown, table))
        assert written.fields == tuple(table.find_field(name) for name in column_names(Grown))

    @pytest.mark.parametrize("unit_type", [TableMetadataUnit, Grown])
    def test_callers_see_the_same_types_without_ids(self, unit_type: type[Unit]) -> None:
        """The types that PyIceberg gives the columns, with Arrow's common kinds of text and list."""
        plain = plain_arrow_schema(unit_type)
        assert plain.names == list(column_names(unit_type))
        assert plain.equals(arrow_schema(unit_type, iceberg_schema(unit_type)))
        assert all(field.metadata is None for field in plain)
        theirs = schema_to_pyarrow(iceberg_schema(unit_type), include_field_ids=False)
        assert plain.empty_table().cast(theirs).schema == theirs
        kinds = {pa.string(), pa.int64(), pa.int32(), pa.list_(pa.field("element", pa.string()))}
        assert {t for t in plain.types if not pa.types.is_map(t)} == kinds
