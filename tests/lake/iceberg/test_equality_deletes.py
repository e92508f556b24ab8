"""Equality deletes take away what the specification says, in SELECT, scans and statistics, and nothing else."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.expressions import AlwaysTrue, BooleanExpression, EqualTo, GreaterThan
from pyiceberg.manifest import DataFile, DataFileContent, FileFormat
from pyiceberg.partitioning import PartitionField, PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.table import Table
from pyiceberg.transforms import IdentityTransform
from pyiceberg.typedef import Record
from pyiceberg.types import DoubleType, IntegerType, LongType, NestedField, StringType, StructType
from support.delete_files import delete_equal, delete_positions, delete_where_equal, with_ids

from metastore.errors import FormatError, StorageError
from metastore.lake.iceberg.rows.row_scan import RowScan
from metastore.lake.iceberg.rows.scan_tasks import scan_tasks

NAN = float("nan")
SCHEMA = Schema(
    NestedField(1, "id", IntegerType(), required=False),
    NestedField(2, "k", StringType(), required=False),
    NestedField(3, "x", DoubleType(), required=False),
    NestedField(4, "s", StructType(NestedField(5, "n", LongType(), required=False)), required=False),
)


class Lake:
    """A catalog whose table is ``a.t``."""

    def __init__(self, folder: Path) -> None:
        self.catalog = SqlCatalog("lake", uri=f"sqlite:///{folder}/lake.db", warehouse=f"file://{folder}/lake")
        self.catalog.create_namespace("a")

    def create(self, spec: PartitionSpec | None = None) -> Table:
        """The empty table."""
        return self.catalog.create_table("a.t", SCHEMA, partition_spec=spec or PartitionSpec())

    @property
    def table(self) -> Table:
        """The table as it is now."""
        return self.catalog.load_table("a.t")

    def append(self, *ids: int | None, **columns: list[Any]) -> None:
        """One file of rows with these ids; other columns are made of them unless given."""
        made: dict[str, list[Any]] = {
            "id": list(ids),
            "k": [None if own is None else f"k{own % 3}" for own in ids],
            "x": [None if own is None else own / 2 for own in ids],
            "s": [None if own is None else {"n": own * 10} for own in ids],
        }
        wanted = made | columns
        schema = self.table.schema().as_arrow()
        self.table.append(pa.table({name: pa.array(wanted[name], schema.field(name).type) for name in schema.names}))

    def ids(self, where: BooleanExpression | None = None, *names: str) -> list[Any]:
        """The ids that are left, sorted; or the columns ``names``."""
        table = self.table
        schema = table.schema().select(*(names or ("id",)))
        scan = RowScan(table.metadata, table.io, schema, where or AlwaysTrue())
        rows = [
            row
            for batch in scan.to_record_batches(scan_tasks(table.metadata, table.io, where))
            for row in batch.to_pylist()
        ]
        return sorted((tuple(row.values()) if names else row["id"] for row in rows), key=repr)


@pytest.fixture
def lake(tmp_path: Path) -> Iterator[Lake]:
    """An empty lake."""
    made = Lake(tmp_path)
    yield made
    made.catalog.close()


def column(name: str, values: list[Any], type_: pa.DataType, field_id: int) -> pa.Table:
    """Keys of one column."""
    return with_ids(pa.table({name: pa.array(values, type_)}), field_id)


def by_id(*ids: int | None) -> pa.Table:
    """Keys of the column ``id``."""
    return column("id", list(ids), pa.int32(), 1)


def test_they_apply_to_older_files_alone(lake: Lake) -> None:
    """Not to rows that were inserted again."""
    lake.create()
    lake.append(1, 2, 3)
    delete_equal(lake.table, by_id(2, 3, 9), [1])
    lake.append(3, 4)
    assert lake.ids() == [1, 3, 4]
    delete_equal(lake.table, by_id(3), [1])
    assert lake.ids() == [1, 4]


@pytest.mark.parametrize("where", [EqualTo("k", "k1"), GreaterThan("id", 2)])
def test_a_condition_on_other_columns_keeps_them(lake: Lake, where: BooleanExpression) -> None:
    """Columns of keys need not be asked for, and bounds of columns that are no key choose no delete file."""
    lake.create()
    lake.append(1, 2, 4, 5)
    rows = with_ids(pa.table({"id": pa.array([4], pa.int32()), "k": ["z"]}), 1, 2)
    delete_equal(lake.table, rows, [1], bounds={2: (b"z", b"z")})
    assert lake.ids(where, "k") == ([("k1",)] if isinstance(where, EqualTo) else [("k2",)])


@pytest.mark.parametrize(
    ("key", "field_id", "left"),
    [
        (column("id", [None, 2], pa.int32(), 1), 1, [1, 3]),
        (column("x", [NAN, 0.5], pa.float64(), 3), 3, [2, None]),
        (column("k", [None], pa.string(), 2), 2, [1, 2, 3]),
    ],
)
def test_null_equals_null_and_nan_equals_nan(lake: Lake, key: pa.Table, field_id: int, left: list[int | None]) -> None:
    """Of every type, and nothing else equals them."""
    lake.create()
    lake.append(1, 2, 3, None, x=[0.5, 1.0, NAN, None])
    delete_equal(lake.table, key, [field_id])
    assert lake.ids() == left


def test_all_columns_of_a_key_must_be_equal(lake: Lake) -> None:
    """In whatever order the file has them and its entry names them."""
    lake.create()
    lake.append(1, 2, 3, k=["a", "b", None])
    keys = with_ids(pa.table({"k": ["a", "a", None], "id": pa.array([1, 2, 3], pa.int32())}), 2, 1)
    delete_equal(lake.table, keys, [2, 1])
    assert lake.ids() == [2]


def test_a_key_within_a_struct(lake: Lake) -> None:
    """A null struct has a null there."""
    lake.create()
    lake.append(1, 2, None)
    rows = pa.table({"s": pa.array([{"n": 20}, {"n": None}])})
    inner = pa.field("n", pa.int64(), metadata={"PARQUET:field_id": "5"})
    schema = pa.schema([pa.field("s", pa.struct([inner]), metadata={"PARQUET:field_id": "4"})])
    delete_equal(lake.table, rows.cast(schema), [5])
    assert lake.ids() == [1]


def test_columns_that_were_widened_renamed_dropped_and_added(lake: Lake) -> None:
    """Ids tell columns; a dropped one still counts, and one that a file lacks is null there."""
    lake.create()
    lake.append(1, 2, 3, 4)
    delete_equal(lake.table, by_id(1), [1])
    delete_equal(lake.table, column("x", [1.0], pa.float64(), 3), [3])
    with lake.table.update_schema() as update:
        update.update_column("id", LongType()).rename_column("id", "number").delete_column("x")
        update.add_column("late", StringType())
    assert lake.ids(None, "number") == [(3,), (4,)]
    late = lake.table.schema().find_field("late").field_id
    delete_equal(lake.table, column("number", [3], pa.int64(), 1), [1])
    assert lake.ids(None, "number") == [(4,)]
    delete_equal(lake.table, column("late", [None], pa.string(), late), [late])
    assert lake.ids(None, "number") == []


BY_K = PartitionSpec(PartitionField(2, 1000, IdentityTransform(), "k"))


def test_they_stay_in_their_partition(lake: Lake) -> None:
    """Of a spec that divides; those of one that does not apply everywhere."""
    lake.create(BY_K)
    lake.append(1, 2, k=["a", "b"])
    delete_equal(lake.table, by_id(1, 2), [1], Record("a"))
    assert lake.ids() == [2]
    with lake.table.update_spec() as update:
        update.remove_field("k")
    delete_equal(lake.table, by_id(2), [1])
    assert lake.ids() == []


def test_a_spec_of_dropped_fields_divides_nothing(lake: Lake) -> None:
    """Tables of version 1 keep them as void ones; after the upgrade, deletes of that spec apply everywhere."""
    lake.catalog.create_table("a.t", SCHEMA, partition_spec=BY_K, properties={"format-version": "1"})
    lake.append(1, 2, k=["a", "b"])
    with lake.table.update_spec() as update:
        update.remove_field("k")
    with lake.table.transaction() as change:
        change.upgrade_table_version(2)
    delete_equal(lake.table, by_id(1), [1], Record(None))
    assert lake.ids() == [2]


def add_file(lake: Lake, partition: Record, rows: pa.Table) -> None:
    """Add a file of ``rows``, whose columns have the table's names and no ids."""
    table = lake.table
    with table.transaction() as change:
        change.set_properties({"schema.name-mapping.default": table.schema().name_mapping.model_dump_json()})
    path = Path(f"{table.location().removeprefix('file://')}/added.parquet")
    pq.write_table(rows, path)
    file = DataFile.from_args(
        content=DataFileContent.DATA,
        file_path=f"file://{path}",
        file_format=FileFormat.PARQUET,
        partition=partition,
        record_count=rows.num_rows,
        file_size_in_bytes=path.stat().st_size,
    )
    file.spec_id = table.spec().spec_id
    with lake.table.transaction() as change, change.update_snapshot().fast_append() as append:
        append.append_data_file(file)


def test_a_partition_of_nan_has_its_deletes(lake: Lake) -> None:
    """Though NaN equals nothing in Python."""
    lake.create(PartitionSpec(PartitionField(3, 1000, IdentityTransform(), "x")))
    add_file(lake, Record(NAN), pa.table({"id": pa.array([1, 2], pa.int32()), "x": [NAN, NAN]}))
    delete_equal(lake.table, by_id(1), [1], Record(float("-nan")))
    assert lake.ids() == [2]


def test_a_key_that_files_have_in_their_partition_alone(lake: Lake) -> None:
    """As Hive's files that were added: the value is the partition's."""
    lake.create(BY_K)
    add_file(lake, Record("a"), pa.table({"id": pa.array([1, 2], pa.int32())}))
    assert lake.ids() == [1, 2]
    delete_equal(lake.table, column("k", ["a"], pa.string(), 2), [2], Record("a"))
    assert lake.ids() == []


def test_they_are_applied_beside_position_deletes(lake: Lake) -> None:
    """Row numbers are those of the file, whatever equal rows go; a condition is judged on what is left."""
    lake.create()
    lake.append(1, 2, 3, 4, 5)
    [task] = scan_tasks(lake.table.metadata, lake.table.io)
    delete_equal(lake.table, by_id(1), [1])
    delete_positions(lake.table, {task.file.file_path: [1, 4]})
    assert lake.ids() == [3, 4]
    assert lake.ids(GreaterThan("id", 3)) == [4]


def test_files_in_orc(lake: Lake) -> None:
    """Ids stand in the fields' metadata there, too."""
    lake.create()
    lake.append(1, 2)
    keys = pa.table({"id": pa.array([1], pa.int32())})
    field = keys.schema.field(0).with_metadata({"iceberg.id": "1"})
    delete_equal(lake.table, keys.cast(pa.schema([field])), [1], format_=FileFormat.ORC)
    assert lake.ids() == [2]


def test_what_is_damaged_is_named(lake: Lake) -> None:
    """A delete file that is gone, or that lacks its columns, would bring rows back."""
    lake.create()
    lake.append(1, 2)
    file = delete_equal(lake.table, column("k", ["a"], pa.string(), 2), [1])
    with pytest.raises(FormatError, match=rf"{file.file_path} cannot be read: it deletes rows by the column with id 1"):
        lake.ids()


def test_a_delete_file_that_is_gone_is_named(lake: Lake) -> None:
    """By its own path."""
    lake.create()
    lake.append(1, 2)
    file = delete_where_equal(lake.table)
    with pytest.raises(StorageError, match=f"^cannot read {file.file_path}: "):
        lake.ids()
