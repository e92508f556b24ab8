"""A scan of data files in any format gives the rows that were written, less deleted ones and those of a condition."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import fastavro
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyarrow import orc
from pyiceberg.catalog import Catalog
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.expressions import (
    AlwaysTrue,
    And,
    BooleanExpression,
    EqualTo,
    GreaterThan,
    GreaterThanOrEqual,
    IsNaN,
    IsNull,
    LessThanOrEqual,
    Not,
    NotEqualTo,
    NotIn,
    Or,
)
from pyiceberg.manifest import DataFile, DataFileContent, FileFormat
from pyiceberg.table import FileScanTask, Table
from pyiceberg.table.metadata import TableMetadata
from pyiceberg.typedef import Record

from metastore.errors import EngineError, FormatError
from metastore.lake.formats.orc.orc_times import require_safe_times
from metastore.lake.iceberg.manifests.data_file import open_data_file
from metastore.lake.iceberg.rows.position_deletes import deleted_positions
from metastore.lake.iceberg.rows.row_scan import RowScan
from metastore.lake.iceberg.rows.scan_tasks import scan_tasks
from metastore.lake.stores.local import LocalFileIO

STRUCT: pa.DataType = pa.struct([("x", pa.int64()), ("y", pa.list_(pa.struct([("z", pa.string())])))])
COLUMNS: list[tuple[str, pa.DataType]] = [
    ("n", pa.int64()),
    ("structs", pa.list_(STRUCT)),
    ("texts", pa.list_(pa.string())),
    ("by", pa.map_(pa.string(), STRUCT)),
    ("one", STRUCT),
]
SCHEMA = pa.schema(COLUMNS)
LEAF = {"x": 1, "y": [{"z": "a"}, {"z": None}, None]}
ROWS: list[dict[str, Any]] = [
    {"n": 0, "structs": None, "texts": None, "by": None, "one": None},
    {"n": 1, "structs": [], "texts": [], "by": [], "one": {"x": None, "y": None}},
    {"n": 2, "structs": [None], "texts": [None], "by": [("k", None)], "one": {"x": 2, "y": []}},
    {"n": 3, "structs": [LEAF, None], "texts": ["a", ""], "by": [("k", LEAF), ("l", None)], "one": LEAF},
    {"n": None, "structs": [{"x": None, "y": None}], "texts": ["b"], "by": [], "one": None},
]
"""Nulls and empties at every place where one can be."""

_INNER = [{"name": "z", "type": ["null", "string"]}]
_STRUCT = {
    "type": "record",
    "name": "s",
    "fields": [
        {"name": "x", "type": ["null", "long"]},
        {
            "name": "y",
            "type": ["null", {"type": "array", "items": ["null", {"type": "record", "name": "i", "fields": _INNER}]}],
        },
    ],
}
AVRO = {
    "type": "record",
    "name": "row",
    "fields": [
        {"name": "n", "type": ["null", "long"]},
        {"name": "structs", "type": ["null", {"type": "array", "items": ["null", _STRUCT]}]},
        {"name": "texts", "type": ["null", {"type": "array", "items": ["null", "string"]}]},
        {"name": "by", "type": ["null", {"type": "map", "values": ["null", "s"]}]},
        {"name": "one", "type": ["null", "s"]},
    ],
}
DELETES = {
    "type": "record",
    "name": "delete",
    "fields": [{"name": "file_path", "type": "string"}, {"name": "pos", "type": "long"}],
}


def write(path: Path, rows: pa.Table, avro: Any, format_: FileFormat) -> None:
    """A file without column ids."""
    if format_ is FileFormat.PARQUET:
        pq.write_table(rows, path, row_group_size=2)
    elif format_ is FileFormat.ORC:
        orc.write_table(rows, path)
    else:
        values = rows.to_pylist(maps_as_pydicts="strict")
        with path.open("wb") as file:
            fastavro.writer(file, avro, values, sync_interval=1)


def task(path: Path, format_: FileFormat, *deletes: DataFile) -> FileScanTask:
    """A data file with the delete files that may name it."""
    return FileScanTask(entry(path, format_, DataFileContent.DATA), set(deletes))


def entry(path: Path, format_: FileFormat, content: DataFileContent) -> DataFile:
    """As a manifest has a file."""
    made = DataFile.from_args(
        content=content,
        file_path=f"file://{path}",
        file_format=format_,
        partition=Record(),
        record_count=5,
        file_size_in_bytes=path.stat().st_size,
    )
    made.spec_id = 0
    return made


@pytest.fixture
def table(tmp_path: Path) -> Iterator[Table]:
    """A table of these columns with a name mapping, without files."""
    catalog: Catalog = SqlCatalog("lake", uri=f"sqlite:///{tmp_path}/lake.db", warehouse=f"file://{tmp_path}/lake")
    catalog.create_namespace("a")
    made = catalog.create_table("a.t", SCHEMA)
    mapping = made.schema().name_mapping.model_dump_json()
    with made.transaction() as change:
        change.set_properties({"schema.name-mapping.default": mapping})
    yield made.refresh()
    catalog.close()


Scan = Callable[..., list[dict[str, Any]]]


@pytest.fixture
def scan(table: Table) -> Scan:
    """Rows of files under a condition."""

    def run(*tasks: FileScanTask, where: BooleanExpression | None = None) -> list[dict[str, Any]]:
        metadata: TableMetadata = table.metadata
        read = RowScan(metadata, table.io, table.schema(), where or AlwaysTrue())
        batches = list(read.to_record_batches(tasks))
        assert all(batch.schema.names == SCHEMA.names for batch in batches)
        return [row for batch in batches for row in batch.cast(SCHEMA).to_pylist()]

    return run


FORMATS = [FileFormat.PARQUET, FileFormat.ORC, FileFormat.AVRO]


@pytest.mark.parametrize("format_", FORMATS)
def test_every_null_stays_where_it_is(tmp_path: Path, scan: Scan, format_: FileFormat) -> None:
    """A null list is not an empty one, whatever it holds."""
    write(tmp_path / "a", pa.Table.from_pylist(ROWS, SCHEMA), AVRO, format_)
    assert scan(task(tmp_path / "a", format_)) == ROWS


@pytest.mark.parametrize("format_", FORMATS)
@pytest.mark.parametrize(
    ("where", "kept"),
    [
        (EqualTo("n", 3), [3]),
        (GreaterThanOrEqual("n", 2), [2, 3]),
        (Or(IsNull("n"), EqualTo("n", 0)), [0, 4]),
        (EqualTo("one.x", 2), [2]),
        (EqualTo("n", 9), []),
    ],
    ids=str,
)
@pytest.mark.parametrize("deletes", [None, *FORMATS])
def test_conditions_and_deletes(
    tmp_path: Path,
    scan: Scan,
    format_: FileFormat,
    where: BooleanExpression,
    kept: list[int],
    deletes: FileFormat | None,
) -> None:
    """The rows that the condition is true for, less those that delete files name, by their places in the file."""
    write(tmp_path / "a", pa.Table.from_pylist(ROWS, SCHEMA), AVRO, format_)
    own = []
    if deletes is not None:
        named = pa.table({"file_path": [f"file://{tmp_path}/{each}" for each in "aba"], "pos": [2, 3, 4]})
        write(tmp_path / "d", named, DELETES, deletes)
        own.append(entry(tmp_path / "d", deletes, DataFileContent.POSITION_DELETES))
        kept = [place for place in kept if place not in (2, 4)]
    assert scan(task(tmp_path / "a", format_, *own), where=where) == [ROWS[place] for place in kept]


def test_times_in_orc_are_read_by_an_arrow_that_refuses_what_it_cannot_hold() -> None:
    """Earlier releases make 1816 of 9999: another time is worse than an error."""
    nested: pa.DataType = pa.list_(pa.struct([("at", pa.timestamp("ns"))]))
    for type_ in (pa.timestamp("ns"), pa.timestamp("ns", "UTC"), nested):
        schema = pa.schema([("n", pa.int64()), ("at", type_)])
        with pytest.raises(EngineError, match=r"column at has times in ORC.* pip install 'pyarrow>=25'"):
            require_safe_times(schema, "24.0.0")
        require_safe_times(schema, "25.0.1")
    require_safe_times(SCHEMA, "20.0.0")


def test_times_that_arrow_cannot_hold_are_an_error(tmp_path: Path) -> None:
    """Of the release that is installed."""
    orc.write_table(pa.table({"at": pa.array([253_402_300_799_000_000], pa.timestamp("us"))}), tmp_path / "a")
    with pa.OSFile(str(tmp_path / "a"), "rb") as source, pytest.raises((pa.ArrowInvalid, EngineError)):
        list(open_data_file(source, FileFormat.ORC, "a").matching(None, ["at"]))


def test_deletion_vectors_are_bounded(tmp_path: Path) -> None:
    """A Puffin file beyond its limit is refused before it is in memory."""
    path = tmp_path / "deletes.puffin"
    with path.open("wb") as file:
        file.truncate(257 << 20)
    with pytest.raises(FormatError, match=r"limits\.puffin must be raised"):
        deleted_positions(LocalFileIO(), str(path), FileFormat.PUFFIN, {"a"})


@pytest.mark.parametrize(
    ("condition", "expected"),
    [
        (IsNaN("x"), [0]),
        (Or(GreaterThan("x", 100), IsNaN("x")), [0]),
        (And(NotEqualTo("x", 1.0), GreaterThan("id", -1)), [0]),
        (NotIn("x", {1.0, 2.0}), [0]),
        (Not(LessThanOrEqual("x", 100)), [0]),
        (IsNaN("s.x"), [0]),
        (And(EqualTo("x", 1.0), EqualTo("id", 1)), [1]),
    ],
)
def test_rows_with_nan_beside_equal_values_are_found(
    tmp_path: Path, condition: BooleanExpression, expected: list[int]
) -> None:
    """The footer's bounds leave NaN out, and both are 1.0: Arrow takes every value for it, and skips the row group."""
    catalog = SqlCatalog("c", uri=f"sqlite:///{tmp_path}/c.db", warehouse=f"file://{tmp_path}")
    catalog.create_namespace("n")
    numbers = [float("nan"), 1.0, 1.0]
    rows = pa.table({"id": [0, 1, 2], "x": numbers, "s": [{"x": number} for number in numbers]})
    table = catalog.create_table("n.t", rows.schema)
    table.append(rows)
    scan = RowScan(table.metadata, table.io, table.schema(), condition)
    batches = scan.to_record_batches(scan_tasks(table.metadata, table.io))
    assert [number for batch in batches for number in batch.column("id").to_pylist()] == expected
