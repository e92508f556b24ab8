"""Data files as they lie there: without columns that say nothing, and with each kind of unit by itself."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from metastore.components.metastore import Metastore
from metastore.components.storage.parquet_content import ParquetContent
from metastore.model.mapping.arrow import arrow_schema
from metastore.model.mapping.rows import conform, from_arrow, to_arrow
from metastore.model.mapping.schema import iceberg_schema
from metastore.model.table_unit import TableMetadataUnit
from metastore.model.vocabulary import MetadataType

MakeUnit = Callable[..., TableMetadataUnit]


def segment(unit: MakeUnit, files: int) -> list[TableMetadataUnit]:
    """A segment, and its files and their row groups one after the other, as ANALYZE finds them."""
    units = [unit("t", "1994", metadata_type="SEGMENT", metadata_identifier="1994", locations=["a", "b"])]
    for number in range(files):
        path = f"/1994/{number}.parquet"
        units.append(unit("t", "1994", metadata_type="FILE", metadata_identifier=f"1994/{number}", path=path))
        units.append(
            unit("t", "1994", metadata_type="ROW_GROUP", metadata_identifier=f"1994/{number}/0", row_group_index=0)
        )
    return units


def only_file(metastore: Metastore) -> Path:
    """The one data file of the component."""
    location = metastore.tables.metadata.location
    assert location is not None
    [path] = Path(location).rglob("*.parquet")
    return path


def test_a_list_or_map_that_is_null_in_every_row_is_not_in_the_file(metastore: Metastore, unit: MakeUnit) -> None:
    """It reads as null all the same; what a single row says stays, and so do columns that filters compare."""
    units = segment(unit, 2)
    metastore.tables.modify().overwrite(units).execute()
    names = pq.read_schema(only_file(metastore)).names
    assert not {"hostAffinity", "partitionKeys", "interestingColumns"} & set(names)
    assert {"locations", "rowGroupIndex", "metadataKey", "owner"} <= set(names)
    found = metastore.tables.read().metadata_types(MetadataType.ALL).execute()
    assert sorted(found, key=str) == sorted(units, key=str)


@pytest.mark.parametrize(("partitions", "groups"), [(0, [1, 40, 40]), (15, [16, 40, 40]), (16, [1, 16, 40, 40])])
def test_kinds_of_few_units_share_a_row_group(
    metastore: Metastore, unit: MakeUnit, partitions: int, groups: list[int]
) -> None:
    """A segment's own unit and those of its partitions; no more than sixteen, since who reads one decodes all."""
    [top, *details] = segment(unit, 40)
    named = [
        unit("t", "1994", metadata_type="PARTITION", metadata_identifier=f"1994/{n}", partition_values=[str(n)])
        for n in range(partitions)
    ]
    units = [top, *named, *details]
    metastore.tables.modify().overwrite(units).execute()
    with pq.ParquetFile(only_file(metastore)) as file:
        assert [file.metadata.row_group(n).num_rows for n in range(file.num_row_groups)] == groups
    for kind in MetadataType.SEGMENT, MetadataType.PARTITION, MetadataType.FILE:
        found = metastore.tables.read().metadata_types(kind).execute()
        assert sorted(found, key=str) == sorted((one for one in units if one.metadata_type == kind.value), key=str)


def test_each_kind_of_many_units_has_row_groups_of_its_own(unit: MakeUnit) -> None:
    """In whatever order they came; a row group has a bounded number of rows, and says which kind is in it."""
    units = segment(unit, 40)
    schema = arrow_schema(TableMetadataUnit, iceberg_schema(TableMetadataUnit))
    written = ParquetContent(TableMetadataUnit, schema, "snappy", rows_of_a_group=30)
    with pq.ParquetFile(pa.BufferReader(written.of(to_arrow(TableMetadataUnit, units)).content)) as file:
        at = file.schema_arrow.get_field_index("metadataType")
        groups = [file.metadata.row_group(n) for n in range(file.num_row_groups)]
        assert [group.num_rows for group in groups] == [1, 30, 10, 30, 10]
        bounds = [group.column(at).statistics for group in groups]
        found = from_arrow(TableMetadataUnit, conform(TableMetadataUnit, file.read()))
    kinds = ["SEGMENT", "FILE", "FILE", "ROW_GROUP", "ROW_GROUP"]
    assert [(known.min, known.max) for known in bounds if known is not None] == [(kind, kind) for kind in kinds]
    assert sorted(found, key=str) == sorted(units, key=str)


def test_columns_stand_where_readers_of_parquet_do_not_look(metastore: Metastore, unit: MakeUnit) -> None:
    """Between the last row group and the footer; DuckDB and pyarrow read the rows as if nothing were there."""
    units = segment(unit, 40)
    metastore.tables.modify().overwrite(units).execute()
    path = only_file(metastore)
    [group] = metastore.tables.read().metadata_types(MetadataType.ALL).partitions().values()
    [planned] = group.files.planned
    assert planned.columns is not None
    with pq.ParquetFile(path) as file:
        footer = path.stat().st_size - 8 - file.metadata.serialized_size
        last = file.metadata.row_group(file.num_row_groups - 1)
        chunks = [last.column(number) for number in range(last.num_columns)]
        end = max((c.dictionary_page_offset or c.data_page_offset) + c.total_compressed_size for c in chunks)
        identifiers: list[Any] = file.read(["metadataIdentifier"])["metadataIdentifier"].to_pylist()
    assert end <= planned.columns.offset
    assert planned.columns.offset + planned.columns.length == footer
    expected = sorted(str(one.metadata_identifier) for one in units)
    assert sorted(identifiers) == expected
    with duckdb.connect() as database:
        rows = database.execute("select metadataIdentifier from read_parquet(?)", [str(path)]).fetchall()
    assert sorted(name for (name,) in rows) == expected
