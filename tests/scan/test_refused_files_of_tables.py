"""Tables of Iceberg and Delta with files that Arrow refuses for one column: it is read, or refused alone."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyiceberg.manifest import DataFile, DataFileContent, FileFormat
from pyiceberg.typedef import Record
from support import delta_log
from support.footers import change_schema, element
from support.odd_parquet import PAIRS, write_odd_parquet
from thrift.Thrift import TType

from metastore.config.settings import Settings
from metastore.errors import FormatError
from metastore.lake.formats.parquet.thrift_structs import Struct
from metastore.session import Session, connect

DOORS: dict[str, Callable[[Session, str, list[str] | None], Any]] = {
    "arrow": lambda ms, table, names: ms.tables.scan(table, None, names).to_arrow(),
    "reader": lambda ms, table, names: ms.tables.scan(table, None, names).to_reader().read_all(),
    "dataset": lambda ms, table, names: ms.tables.scan(table, None, names).to_arrow_dataset().to_table(),
    "duckdb": lambda ms, table, names: ms.tables.scan(table, None, names).to_duckdb().to_arrow_table(),
    "polars": lambda ms, table, names: ms.tables.scan(table, None, names).to_polars().to_arrow(),
    "sql": lambda ms, table, names: ms.sql(f"SELECT {', '.join(names or ['*'])} FROM {table}"),
}
MAP: pa.DataType = pa.map_(pa.string(), pa.int64())
TYPES: dict[str, Any] = {
    "map_of_optional_keys": MAP,
    "map_of_optional_keys_of_hive": MAP,
    "map_of_optional_keys_in_struct": pa.struct([("n", pa.int64()), ("m", MAP)]),
    "map_of_optional_keys_in_list": pa.list_(MAP),
    "map_with_null_key": MAP,
    "map_of_three_fields": MAP,
    "list_of_two_fields": pa.list_(pa.int64()),
    "list_of_value": pa.list_(pa.int64()),
    "decimal_of_80": pa.binary(),
}
"""What the table says of the column, by the kind of file."""

READ = [kind for kind in TYPES if kind.startswith("map_of_optional_keys")]


@pytest.fixture
def ms(tmp_path: Path) -> Iterator[Session]:
    """A session with an Iceberg catalog, and a folder of Delta tables."""
    catalog = {"type": "sql", "uri": f"sqlite:///{tmp_path}/c.db", "warehouse": f"file://{tmp_path}/wh"}
    delta = {"type": "delta", "connection": "file:///", "workspaces": {"w": {"location": str(tmp_path)}}}
    given = {
        "drill.metastore.iceberg.location.base_path": f"{tmp_path}/store",
        "drill.metastore.catalogs.prod": catalog,
        "drill.metastore.storage": {"lake": {"type": "iceberg", "catalog": "prod"}, "delta": delta},
    }
    with connect(Settings.from_mapping(given, environ={})) as session:
        session.catalogs.open("prod").create_namespace("db")
        yield session


def make_iceberg(ms: Session, folder: Path, kind: str) -> str:
    """An Iceberg table of one file without field ids; PyIceberg refuses the file, so its entry is made by hand."""
    table = ms.catalogs.open("prod").create_table("db.t", pa.schema([("id", pa.int64()), ("v", TYPES[kind])]))
    path = folder / f"{kind}.parquet"
    entry = DataFile.from_args(
        content=DataFileContent.DATA,
        file_path=f"file://{path}",
        file_format=FileFormat.PARQUET,
        partition=Record(),
        record_count=4,
        file_size_in_bytes=path.stat().st_size,
    )
    with table.transaction() as change:
        change.set_properties({"schema.name-mapping.default": table.schema().name_mapping.model_dump_json()})
        with change.update_snapshot().fast_append() as files:
            files.append_data_file(entry)
    return "lake.db.t"


def make_delta(_ms: Session, folder: Path, kind: str) -> str:
    """A Delta table of one file."""
    columns: list[dict[str, Any]] = [
        {"name": name, "type": type_, "nullable": True, "metadata": {}}
        for name, type_ in (("id", "long"), ("v", _of_delta(TYPES[kind])))
    ]
    protocol = {"protocol": {"minReaderVersion": 1, "minWriterVersion": 2}}
    added = delta_log.added(folder, f"{kind}.parquet", {"numRecords": 4})
    delta_log.commit(folder, protocol, delta_log.table_of(columns), added)
    return "delta.w.files"


def _of_delta(type_: Any) -> Any:
    if pa.types.is_map(type_):
        return {"type": "map", "keyType": "string", "valueType": "long", "valueContainsNull": True}
    if pa.types.is_list(type_):
        return {"type": "array", "elementType": _of_delta(type_.value_type), "containsNull": True}
    if pa.types.is_struct(type_):
        fields = [type_.field(place) for place in range(type_.num_fields)]
        made = [{"name": each.name, "type": _of_delta(each.type), "nullable": True, "metadata": {}} for each in fields]
        return {"type": "struct", "fields": made}
    return "binary" if pa.types.is_binary(type_) else "long"


TABLES = {"iceberg": make_iceberg, "delta": make_delta}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Where the files of a table lie."""
    made = tmp_path / "files"
    made.mkdir()
    return made


@pytest.mark.parametrize("kind", TYPES)
@pytest.mark.parametrize("make", TABLES)
def test_every_door_reads_the_column_or_refuses_it_alone(ms: Session, folder: Path, make: str, kind: str) -> None:
    """Before ANALYZE and after it; the refusal names the file and the column."""
    write_odd_parquet(folder, [kind])
    table = TABLES[make](ms, folder, kind)
    assert ms.analyze(table).rows == 4
    for door, read in DOORS.items():
        assert read(ms, table, ["id"])["id"].to_pylist() == [1, 2, 3, 4], door
        if kind in READ:
            assert read(ms, table, None).num_rows == 4, door
            continue
        with pytest.raises(FormatError, match=rf"{kind}\.parquet.* column v "):
            read(ms, table, None)
    assert ms.tables.scan(table, "id >= 3", ["id"]).to_arrow()["id"].to_pylist() == [3, 4]


@pytest.mark.parametrize("make", TABLES)
def test_maps_of_optional_keys_have_their_entries(ms: Session, folder: Path, make: str) -> None:
    """As they were written, nulls and empty maps included, and under a condition."""
    write_odd_parquet(folder, ["map_of_optional_keys"])
    table = TABLES[make](ms, folder, "map_of_optional_keys")
    ms.analyze(table)
    assert ms.tables.scan(table).to_arrow()["v"].to_pylist() == PAIRS.to_pylist()
    assert ms.tables.scan(table, "v IS NULL", ["id"]).to_arrow()["id"].to_pylist() == [2]
    assert ms.sql(f"SELECT id FROM {table} WHERE v IS NOT NULL")["id"].to_pylist() == [1, 3, 4]


def test_columns_of_delta_are_found_by_their_ids(ms: Session, folder: Path) -> None:
    """In a file whose names are others than the table's."""
    write_odd_parquet(folder, ["map_of_optional_keys"])

    def number(elements: list[Struct]) -> None:
        for name, own in (("id", 1), ("v", 2)):
            element(elements, name)[9] = (TType.I32, own)

    change_schema(folder / "map_of_optional_keys.parquet", number)
    columns = [
        delta_log.mapped("ident", "col-1", 1, "long"),
        delta_log.mapped("pairs", "col-2", 2, _of_delta(MAP)),
    ]
    protocol = {"protocol": {"minReaderVersion": 2, "minWriterVersion": 5}}
    described = delta_log.table_of(columns, columnMapping_mode="id", columnMapping_maxColumnId="2")
    added = delta_log.added(folder, "map_of_optional_keys.parquet", {"numRecords": 4})
    delta_log.commit(folder, protocol, described, added)
    ms.analyze("delta.w.files")
    rows = ms.tables.scan("delta.w.files").to_arrow()
    assert rows["ident"].to_pylist() == [1, 2, 3, 4]
    assert rows["pairs"].to_pylist() == PAIRS.to_pylist()
