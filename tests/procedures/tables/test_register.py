"""register_table, unregister_table and set_table_property: a catalog's entries, judged before they are made."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyiceberg.table import Table
from pyiceberg.table.snapshots import Snapshot
from support.catalog_lake import Lake

from metastore.errors import FormatError, InvalidRequestError, NotFoundError, ProcedureError
from metastore.model.table_unit import TableMetadataUnit
from metastore.procedures.tables.register import register_table, unregister_table
from metastore.procedures.tables.set_property import set_table_property


@pytest.fixture
def written(lake: Lake, rows: Callable[..., pa.Table]) -> Table:
    """A table with three rows in two files."""
    table: Table = lake.table()
    table.append(rows(1, 2))
    table.append(rows(3))
    return table.refresh()


@pytest.fixture
def left(lake: Lake, written: Table) -> Table:
    """The same table, out of its catalog."""
    lake.call(unregister_table)
    return written


def head(table: Table) -> Snapshot:
    """The table's current snapshot, which it must have."""
    snapshot = table.current_snapshot()
    assert snapshot is not None
    return snapshot


def ids(table: Table) -> list[int]:
    """The ids in the table, as PyIceberg reads it."""
    found: list[Any] = table.scan().to_arrow()["id"].to_pylist()
    return sorted(found)


def test_out_and_in_again(lake: Lake, written: Table) -> None:
    """Unregistering keeps every file and says which one registers the table again."""
    before = lake.files()
    [dry] = lake.call(unregister_table, dry_run=True)
    assert lake.catalog.table_exists("default.t")
    [row] = lake.call(unregister_table)
    assert dry == row
    assert row == {"table_uuid": str(written.metadata.table_uuid), "metadata_location": written.metadata_location}
    assert not lake.catalog.table_exists("default.t")
    [row] = lake.call(register_table, table="again", metadata_location=row["metadata_location"])
    assert row == {
        "current_snapshot_id": head(written).snapshot_id,
        "total_records_count": 3,
        "total_data_files_count": 2,
        "metadata_location": written.metadata_location,
    }
    assert ids(lake.table("again")) == [1, 2, 3]
    assert lake.files("again") == before


@pytest.mark.parametrize("suffix", ["", "/", "/metadata"])
def test_the_newest_in_a_folder(lake: Lake, left: Table, suffix: str) -> None:
    """A table's folder, or its metadata folder, means the newest metadata file in it."""
    [row] = lake.call(register_table, table="again", metadata_location=left.metadata.location + suffix)
    assert row["metadata_location"] == left.metadata_location


def test_a_named_file_in_a_folder(lake: Lake, left: Table) -> None:
    """An older file is registered when it is named; a name that is not there is an error."""
    older = left.metadata.metadata_log[-1].metadata_file
    name = older.rpartition("/")[2]
    [row] = lake.call(register_table, table="again", metadata_location=left.metadata.location, metadata_file=name)
    assert (row["metadata_location"], row["total_records_count"]) == (older, 2)
    with pytest.raises(NotFoundError, match="No metadata found at location .* by the name x.metadata.json"):
        lake.call(register_table, table="b", metadata_location=left.metadata.location, metadata_file="x.metadata.json")
    with pytest.raises(InvalidRequestError, match="metadata_file is the name of a file"):
        lake.call(register_table, table="b", metadata_location=left.metadata.location, metadata_file="../x")


def test_two_newest_files(lake: Lake, left: Table) -> None:
    """When two files have the newest version, one of them must be named."""
    path = Path(left.metadata_location.removeprefix("file://"))
    number = path.name.partition("-")[0]
    shutil.copy(path, path.with_name(f"{number}-00000000-0000-0000-0000-000000000000.metadata.json"))
    with pytest.raises(InvalidRequestError, match="More than one latest metadata file found"):
        lake.call(register_table, table="again", metadata_location=left.metadata.location)


def test_a_second_entry_is_refused(lake: Lake, written: Table) -> None:
    """The same table under a second name is refused, unless it is forced; a name that is taken always is."""
    with pytest.raises(ProcedureError, match="lake.default.t is this table already"):
        lake.call(register_table, table="again", metadata_location=written.metadata_location)
    assert not lake.catalog.table_exists("default.again")
    lake.call(register_table, table="again", metadata_location=written.metadata_location, force=True)
    assert ids(lake.table("again")) == [1, 2, 3]
    with pytest.raises(InvalidRequestError, match="Table already exists: lake.default.t"):
        lake.call(register_table, metadata_location=written.metadata_location, force=True)


def test_what_is_no_table(lake: Lake, left: Table, tmp_path: Path) -> None:
    """A file that cannot be registered leaves no entry behind."""
    broken = tmp_path / "x.metadata.json"
    broken.write_text('{"format-version": 2}')
    with pytest.raises(FormatError, match="is not the metadata of an Iceberg table"):
        lake.call(register_table, table="again", metadata_location=str(broken))
    with pytest.raises(NotFoundError, match="there is no metadata file"):
        lake.call(register_table, table="again", metadata_location=str(tmp_path / "none.metadata.json"))
    with pytest.raises(NotFoundError, match="No metadata found at location"):
        lake.call(register_table, table="again", metadata_location=str(tmp_path / "nothing"))
    Path(head(left).manifest_list.removeprefix("file://")).write_bytes(b"x")
    with pytest.raises(FormatError, match="the manifest list .* cannot be read"):
        lake.call(register_table, table="again", metadata_location=left.metadata_location)
    with pytest.raises(NotFoundError, match="schema lake.nowhere does not exist; there are default"):
        lake.call(register_table, table="again", schema="nowhere", metadata_location=left.metadata_location)
    assert not lake.catalog.table_exists("default.again")


def test_a_copied_folder(lake: Lake, left: Table, tmp_path: Path) -> None:
    """Metadata that was copied names the original's files: by its folder it is refused, by its file it is meant."""
    copied = tmp_path / "copied"
    shutil.copytree(left.metadata.location.removeprefix("file://"), copied)
    with pytest.raises(InvalidRequestError, match="it names the files there"):
        lake.call(register_table, table="again", metadata_location=str(copied))


def test_components(lake: Lake, unit: Callable[..., TableMetadataUnit]) -> None:
    """The metastore's own tables are registered by nobody, nor is anything beside them."""
    lake.metastore.tables.modify().overwrite([unit("one")]).execute()
    own = {"catalog": "metastore", "schema": "components", "table": "tables"}
    with pytest.raises(ProcedureError, match="its catalog is the metastore itself"):
        lake.call(unregister_table, **own)
    with pytest.raises(ProcedureError, match="its catalog is the metastore itself"):
        lake.call(register_table, **own, metadata_location="/x")
    with pytest.raises(ProcedureError, match="would be set back by the next write"):
        lake.call(set_table_property, **own, key="a", value="b")


def test_set_table_property(lake: Lake, written: Table) -> None:
    """The property is set, and what it was is told; setting it to what it is makes no version."""
    assert lake.call(set_table_property, key="comment", value="x") == [
        {"key": "comment", "previous_value": None, "value": "x"}
    ]
    location = lake.table().metadata_location
    assert lake.call(set_table_property, key="comment", value="x")[0]["previous_value"] == "x"
    assert lake.table().metadata_location == location
    assert lake.table().properties["comment"] == "x"
    assert written.refresh().metadata_location == location


@pytest.mark.parametrize("key", ["", "format-version", "uuid", "location", "metastore.maintenance.unswept"])
def test_reserved_properties(lake: Lake, key: str) -> None:
    """What metadata says in another place, and what is the metastore's own, is no property to set."""
    lake.table()
    with pytest.raises(InvalidRequestError, match="is not a property that can be set"):
        lake.call(set_table_property, key=key, value="1")
