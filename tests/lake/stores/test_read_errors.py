"""A file that cannot be read is named, and whether its store or its content is to blame."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyarrow import orc
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.expressions import AlwaysTrue
from pyiceberg.manifest import DataFile, DataFileContent, FileFormat
from pyiceberg.table import FileScanTask, Table
from support.delete_files import delete_positions

from metastore.errors import FormatError, InvalidRequestError, MetastoreError, NotFoundError, StorageError
from metastore.lake.iceberg.rows.row_scan import RowScan
from metastore.lake.stores.arrow import open_location
from metastore.lake.stores.read_errors import is_of_store, reading_file


def test_a_failure_of_the_store_is_told_from_broken_content(forbidding_s3: dict[str, str], tmp_path: Path) -> None:
    """Pyarrow has one class for both; scans and every format of ANALYZE ask this."""
    store, path = open_location("s3://bucket/a.parquet", forbidding_s3)
    with pytest.raises(OSError, match=r"a\.parquet") as refused:
        store.open_input_file(path)
    assert is_of_store(refused.value)
    assert is_of_store(FileNotFoundError(2, "gone"))
    assert is_of_store(FileNotFoundError("PyIceberg's have no number"))
    (tmp_path / "a.orc").write_bytes(b"no ORC")
    with pytest.raises((OSError, pa.ArrowException)) as broken:
        orc.ORCFile(tmp_path / "a.orc")
    assert not is_of_store(broken.value)


def test_what_has_a_type_keeps_it() -> None:
    """A file system of this package says itself what is wrong."""
    refused = InvalidRequestError("nothing here knows ftp://")
    with pytest.raises(InvalidRequestError) as raised, reading_file("ftp://a"):
        raise refused
    assert raised.value is refused


def test_an_error_of_ours_gets_the_name_that_it_lacks() -> None:
    """Once: what names the file already stays as it is."""
    for said in ("a column is odd", "/t/a: a column is odd"):
        with pytest.raises(FormatError, match=r"^/t/a(?: cannot be read)?: a column is odd$"), reading_file("/t/a"):
            raise FormatError(said)


def test_what_is_gone_is_told_with_the_next_step() -> None:
    """Where the caller knows one; else the store failed."""
    gone = pytest.raises(NotFoundError, match=r"^/t/a is gone since noon; look again$")
    with gone, reading_file("/t/a", gone="noon; look again"):
        raise FileNotFoundError(2, "No such file")
    with pytest.raises(StorageError, match=r"^cannot read /t/a: No such file or directory$"), reading_file("/t/a"):
        raise FileNotFoundError(2, "No such file")


@pytest.fixture
def table(tmp_path: Path) -> Iterator[Table]:
    """Three files of two rows each; of the last one, a delete file takes a row."""
    catalog = SqlCatalog("lake", uri=f"sqlite:///{tmp_path}/lake.db", warehouse=f"file://{tmp_path}/lake")
    catalog.create_namespace("a")
    table = catalog.create_table("a.t", pa.schema([("n", pa.int64())]))
    for number in range(3):
        table.append(pa.table({"n": [2 * number, 2 * number + 1]}))
    delete_positions(table, {tasks_of(table)[-1].file.file_path: [1]})
    yield table.refresh()
    catalog.close()


def tasks_of(table: Table) -> list[FileScanTask]:
    """The table's files, the oldest first."""
    return sorted(table.scan().plan_files(), key=lambda task: task.file.lower_bounds[1])


def numbers(table: Table, tasks: list[FileScanTask]) -> list[int | None]:
    """What a scan of the files finds."""
    scan = RowScan(table.metadata, table.io, table.schema(), AlwaysTrue())
    return [n for batch in scan.to_record_batches(tasks) for n in batch["n"].to_pylist()]


@pytest.mark.parametrize(
    ("damage", "error"), [("missing", StorageError), ("junk", FormatError), ("other type", FormatError)]
)
@pytest.mark.parametrize("which", [0, 1, 2])
def test_the_file_of_a_scan_is_named(table: Table, which: int, damage: str, error: type[MetastoreError]) -> None:
    """Whichever of those that are read together it is."""
    tasks = tasks_of(table)
    assert numbers(table, tasks) == [0, 1, 2, 3, 4]
    spoil(tasks[which].file.file_path, damage)
    with pytest.raises(error, match=re.escape(tasks[which].file.file_path)):
        numbers(table, tasks)


@pytest.mark.parametrize(("damage", "error"), [("missing", StorageError), ("junk", FormatError)])
def test_a_delete_file_is_named(table: Table, damage: str, error: type[MetastoreError]) -> None:
    """Without it, deleted rows would come back."""
    tasks = tasks_of(table)
    [deletes] = tasks[-1].delete_files
    spoil(deletes.file_path, damage)
    with pytest.raises(error, match=re.escape(deletes.file_path)):
        numbers(table, tasks)


def test_a_format_that_is_not_read_is_refused(table: Table) -> None:
    """With what to do about it."""
    [like, *_] = tasks_of(table)
    other = DataFile.from_args(
        content=DataFileContent.DATA,
        file_path=like.file.file_path,
        file_format=FileFormat.PUFFIN,
        partition=like.file.partition,
        record_count=1,
        file_size_in_bytes=100,
    )
    other.spec_id = 0
    with pytest.raises(InvalidRequestError, match=r"parquet is in PUFFIN, which is not read; rewrite"):
        numbers(table, [like, FileScanTask(other)])


def spoil(location: str, damage: str) -> None:
    """Do it to the file at ``location``."""
    path = Path(location.removeprefix("file://"))
    if damage == "missing":
        path.unlink()
    elif damage == "junk":
        path.write_bytes(b"no Parquet, of whatever kind")
    else:
        texts = pa.field("n", pa.string(), metadata={"PARQUET:field_id": "1"})
        pq.write_table(pa.table({"n": ["one"]}, pa.schema([texts])), path)
