"""A column that an engine cannot hold refuses itself by a typed error, and never the other columns of its table."""

from __future__ import annotations

import json
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import write_deltalake
from support.odd_parquet import write_odd_parquet

from metastore.config.settings import Settings
from metastore.errors import FormatError, InvalidRequestError, MetastoreError, StorageError
from metastore.session import Session, connect

NUMBERS = pa.array([1, 2, None])
WIDE = [Decimal("1.5"), None, Decimal(2)]
ODD: dict[str, pa.Array[Any]] = {
    "decimal": pa.array(WIDE, pa.decimal256(45, 2)),
    "decimals": pa.array([[each] for each in WIDE], pa.list_(pa.decimal256(76, 2))),
    "struct": pa.array([{"d": each} for each in WIDE], pa.struct([("d", pa.decimal256(39, 2))])),
    "half": pa.array([1.5, None, 2.5], pa.float16()),
    "nothing": pa.nulls(3),
    "nothings": pa.array([[None], None, []], pa.list_(pa.null())),
    "in_struct": pa.array([{"x": None}, None, {"x": None}], pa.struct([("x", pa.null())])),
    "uuid": pa.array([b"1234567890123456", None, b"1234567890123457"], pa.uuid()),
    "json": pa.array(["{}", None, "[1]"], pa.json_()),
    "duration": pa.array([1, None, 2], pa.duration("us")),
    "map": pa.array([[("a", 1)], None, []], pa.map_(pa.string(), pa.int64())),
}
DOORS: dict[str, Callable[[Session, list[str] | None], int]] = {
    "arrow": lambda ms, names: ms.tables.scan("dfs.tmp.t", None, names).to_arrow().num_rows,
    "reader": lambda ms, names: ms.tables.scan("dfs.tmp.t", None, names).to_reader().read_all().num_rows,
    "dataset": lambda ms, names: ms.tables.scan("dfs.tmp.t", None, names).to_arrow_dataset().count_rows(),
    "duckdb": lambda ms, names: len(ms.tables.scan("dfs.tmp.t", None, names).to_duckdb().fetchall()),
    "polars": lambda ms, names: ms.tables.scan("dfs.tmp.t", None, names).to_polars().height,
    "pandas": lambda ms, names: len(ms.tables.scan("dfs.tmp.t", None, names).to_pandas()),
    "sql": lambda ms, names: ms.sql(f"SELECT {', '.join(names or ['*'])} FROM dfs.tmp.t").num_rows,
}


def session(folder: Path) -> Session:
    """A session with the workspace ``tmp`` of files and one of Delta tables."""
    base = "drill.metastore"
    return connect(
        Settings.from_mapping(
            {
                f"{base}.iceberg.location.base_path": f"{folder}/metastore",
                f"{base}.storage.dfs.workspaces.tmp.location": str(folder),
                f"{base}.storage.delta": {
                    "type": "delta",
                    "connection": "file:///",
                    "workspaces.tmp.location": str(folder),
                },
            },
            environ={},
        )
    )


@pytest.mark.parametrize("name", ODD)
def test_every_door_gives_the_rows_or_refuses_the_column(name: str, tmp_path: Path) -> None:
    """No exception of another library leaves, and the other columns are read at every door."""
    (tmp_path / "t").mkdir()
    pq.write_table(pa.table({"i": NUMBERS, "odd": ODD[name]}), tmp_path / "t" / "a.parquet")
    ms = session(tmp_path)
    assert ms.analyze("dfs.tmp.t").rows == 3
    for door, read in DOORS.items():
        assert read(ms, ["i"]) == 3, door
        try:
            assert read(ms, None) == 3, door
        except InvalidRequestError as error:
            assert "'odd' has DECIMAL" in str(error)  # noqa: PT017 - rows are as good
            assert door in ("duckdb", "polars", "sql")


@pytest.mark.parametrize(
    "kind",
    ["map_of_optional_keys", "map_with_null_key", "decimal_of_80", "map_of_three_fields", "list_of_value"],
)
def test_a_column_for_which_arrow_refuses_the_file_refuses_itself_alone(kind: str, tmp_path: Path) -> None:
    """Analyzed to each level or not at all, and beside a file that Arrow opens."""
    (tmp_path / "t").mkdir()
    write_odd_parquet(tmp_path / "t", [kind])
    pq.write_table(pa.table({"id": [5, 6]}), tmp_path / "t" / "plain.parquet")
    with pytest.raises((pa.ArrowInvalid, OSError)):
        pq.ParquetFile(tmp_path / "t" / f"{kind}.parquet")
    ms = session(tmp_path)
    for level in ("SEGMENT", "FILE", "ROW_GROUP"):
        assert ms.analyze("dfs.tmp.t", level=level, bounds="data").rows == 6
        for door, read in DOORS.items():
            assert read(ms, ["id"]) == 6, door
            if kind == "map_of_optional_keys":
                assert read(ms, None) == 6, door
                continue
            with pytest.raises((InvalidRequestError, FormatError), match=r"column '?v'? "):
                read(ms, None)


@pytest.mark.parametrize("kind", ["", "_of_flink", "_in_struct", "_in_list", "_in_map"])
def test_maps_of_optional_keys_are_those_that_duckdb_reads(kind: str, tmp_path: Path) -> None:
    """With a condition, and with row ids, beside what the directory says."""
    folder = tmp_path / "t" / "day=1"
    folder.mkdir(parents=True)
    write_odd_parquet(folder, [f"map_of_optional_keys{kind}"])
    expected = duckdb.execute(f"SELECT id, v FROM '{folder}/*.parquet' ORDER BY id").fetchall()
    ms = session(tmp_path)
    ms.analyze("dfs.tmp.t")
    found = ms.sql("SELECT id, v, day FROM dfs.tmp.t WHERE id > 1 ORDER BY id")
    assert found["day"].to_pylist() == [1, 1, 1]
    assert duckdb.execute("SELECT id, v FROM found").fetchall() == expected[1:]
    numbered = ms.tables.scan("dfs.tmp.t", "id < 4", ["id", "v"], row_id=True).to_arrow()
    assert duckdb.execute("SELECT id, v FROM numbered").fetchall() == expected[:3]
    assert len(set(numbered["$row_id"].to_pylist())) == 3


def test_required_and_optional_keys_are_one_column(tmp_path: Path) -> None:
    """Files of old and new writers stand in one table."""
    (tmp_path / "t").mkdir()
    write_odd_parquet(tmp_path / "t", ["map_of_2013", "map_of_optional_keys"])
    ms = session(tmp_path)
    ms.analyze("dfs.tmp.t")
    rows = ms.tables.scan("dfs.tmp.t").to_arrow()["v"].to_pylist()
    assert rows == [[("a", 1), ("b", None)], None, [], [("c", 3)]] * 2


def test_the_bytes_of_a_wide_decimal_are_no_values_of_another_type(tmp_path: Path) -> None:
    """Where another file of the table has bytes in the same column."""
    (tmp_path / "t").mkdir()
    write_odd_parquet(tmp_path / "t", ["decimal_of_80", "geometry"])
    ms = session(tmp_path)
    ms.analyze("dfs.tmp.t")
    assert ms.tables.scan("dfs.tmp.t", None, ["id"]).to_arrow().num_rows == 8
    with pytest.raises(FormatError, match=r"decimal_of_80\.parquet .* column v is DECIMAL\(80, 2\), and Arrow"):
        ms.tables.scan("dfs.tmp.t").to_arrow()


def delta(place: Path, feature: str, **more: Any) -> None:
    """A Delta table of three rows whose log asks readers for ``feature``, and whose files have ``more`` in it."""
    write_deltalake(str(place), pa.table({"id": [1, 2, 3]}))
    log = place / "_delta_log" / f"{0:020}.json"
    actions = [json.loads(line) for line in log.read_text().splitlines()]
    for action in actions:
        if "protocol" in action:
            named = {"readerFeatures": [feature], "writerFeatures": [feature]}
            action["protocol"] = {"minReaderVersion": 3, "minWriterVersion": 7, **named}
        if "add" in action:
            action["add"] |= more
    log.write_text("".join(json.dumps(action) + "\n" for action in actions))


def test_delta_tables_that_only_vacuum_differently_are_read(tmp_path: Path) -> None:
    """The feature vacuumProtocolCheck asks nothing of who does not vacuum."""
    delta(tmp_path / "t", "vacuumProtocolCheck")
    ms = session(tmp_path)
    assert ms.analyze("delta.tmp.t").rows == 3
    assert ms.tables.scan("delta.tmp.t", "id > 1").to_arrow()["id"].to_pylist() == [2, 3]


def test_a_lost_deletion_vector_is_an_error_of_ours(tmp_path: Path) -> None:
    """It names the table, and the metadata stays as it was."""
    vector = {"storageType": "u", "pathOrInlineDv": "ab^-aqEH.-t@S}K{vb[*k^", "offset": 4, "sizeInBytes": 40}
    delta(tmp_path / "t", "deletionVectors", deletionVector={**vector, "cardinality": 1})
    ms = session(tmp_path)
    with pytest.raises(StorageError, match=r"a deletion vector of the Delta table at .*/t cannot be read"):
        ms.analyze("delta.tmp.t")
    with pytest.raises(MetastoreError):
        ms.tables.scan("delta.tmp.t").to_arrow()
