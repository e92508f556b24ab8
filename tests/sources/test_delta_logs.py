"""Delta logs as other writers leave them: widened types, columns mapped by id, and bounds that are cut."""

from __future__ import annotations

import datetime as dt
import json
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from metastore.config import Settings
from metastore.model.statistics import ColumnStatistics
from metastore.session import connect
from metastore.sources.delta import DeltaSource

UTC = dt.timezone.utc


class Log:
    """A Delta table that is written action by action."""

    def __init__(self, folder: Path, fields: list[dict[str, Any]], *features: str, **configuration: str) -> None:
        self.folder = folder
        (folder / "_delta_log").mkdir(parents=True)
        schema = {"type": "struct", "fields": [{"nullable": True, "metadata": {}, **field} for field in fields]}
        named = {"readerFeatures": [*features], "writerFeatures": [*features]}
        self._actions: list[dict[str, Any]] = [
            {"protocol": {"minReaderVersion": 3, "minWriterVersion": 7, **named}},
            {
                "metaData": {
                    "id": "t",
                    "format": {"provider": "parquet", "options": {}},
                    "schemaString": json.dumps(schema),
                    "partitionColumns": [],
                    "configuration": configuration,
                    "createdTime": 1,
                }
            },
        ]

    def add(self, name: str, rows: pa.Table, **stats: Any) -> None:
        """Write a file, and what the log says of it."""
        path = self.folder / name
        pq.write_table(rows, path)
        # As Spark writes them: deltalake reads escaped characters beyond the first plane as others.
        told = json.dumps({"numRecords": rows.num_rows, **stats}, ensure_ascii=False)
        action = {"path": name, "partitionValues": {}, "size": path.stat().st_size, "modificationTime": 10**12}
        self._actions.append({"add": {**action, "dataChange": True, "stats": told}})
        text = "".join(json.dumps(each, ensure_ascii=False) + "\n" for each in self._actions)
        (self.folder / "_delta_log" / f"{0:020}.json").write_text(text, "utf-8")

    def rows(self) -> list[dict[str, Any]]:
        """The rows of all files."""
        source = DeltaSource(str(self.folder))
        paths = [file.path for file in source.files()]
        reader = source.reader(paths)
        return [row for batch in reader.rows(paths, reader.logical, threads=False) for row in batch.to_pylist()]

    def statistics(self) -> dict[str, ColumnStatistics]:
        """The statistics of the only file, by column."""
        source = DeltaSource(str(self.folder))
        [content] = source.contents(source.files())
        return {key.strip("`"): known for key, known in content.statistics.items()}


def test_rows_that_a_log_does_not_count_are_unknown(tmp_path: Path) -> None:
    """ANALYZE says None and not zero, in an increment too, and counts are those of the rows, which are read."""
    log = Log(tmp_path / "t", [{"name": "i", "type": "long"}])
    delta = {"type": "delta", "connection": "file:///", "workspaces": {"w": {"location": str(tmp_path)}}}
    given = {"iceberg.location.base_path": f"{tmp_path}/m", "storage.delta": delta}
    with connect(Settings.from_mapping({"drill.metastore": given}, environ={})) as session:
        log.add("a.parquet", pa.table({"i": [1, 2]}))
        assert session.analyze("delta.w.t").rows == 2
        log.add("b.parquet", pa.table({"i": [3]}), numRecords=None)
        found = session.analyze("delta.w.t")
        assert (found.rows, found.new) == (None, 1)
        assert found.without_bounds == {"i": "the metadata of the DELTA table lacks bounds of it in some file"}
        log.add("c.parquet", pa.table({"i": [4]}))
        assert session.analyze("delta.w.t").rows is None
        assert session.tables.scan("delta.w.t").count() == 4
        assert session.sql("SELECT count(*) AS n FROM delta.w.t").to_pylist() == [{"n": 4}]
        told = session.information_schema.tables(["num_rows"], "table_name = 't'")
        assert told.column(0).to_pylist() == [None]
        assert session.tables.scan("delta.w.t", "i IS NULL").to_arrow().num_rows == 0


def test_widened_types_are_read(tmp_path: Path) -> None:
    """Old files have the narrow type, new ones the wide one; the rows are of the table's."""
    log = Log(tmp_path, [{"name": "i", "type": "long"}, {"name": "f", "type": "double"}], "typeWidening")
    log.add("a.parquet", pa.table({"i": pa.array([1, None], pa.int32()), "f": pa.array([1.1, None], pa.float32())}))
    log.add("b.parquet", pa.table({"i": [2**40], "f": [1e300]}))
    assert log.rows() == [{"i": 1, "f": float(np.float32(1.1))}, {"i": None, "f": None}, {"i": 2**40, "f": 1e300}]


@pytest.mark.parametrize("value", [1.1, -1.1, 3e38, 1e-38, 0.0])
def test_bounds_of_floats_that_became_doubles_hold(tmp_path: Path, value: float) -> None:
    """The log has the shortest text of a float, which is another number as a double."""
    log = Log(tmp_path, [{"name": "f", "type": "double"}], "typeWidening")
    told = {"minValues": {"f": value}, "maxValues": {"f": value}, "nullCount": {"f": 0}}
    log.add("a.parquet", pa.table({"f": pa.array([value], pa.float32())}), **told)
    known = log.statistics()["f"]
    assert isinstance(known.min, float)
    assert isinstance(known.max, float)
    assert known.min <= float(np.float32(value)) <= known.max
    assert not known.min_exact or value == 0


def test_columns_mapped_by_id_are_found_by_it(tmp_path: Path) -> None:
    """Whatever files call them, within structs, too; a column that a file lacks is null."""

    def of(number: int) -> dict[str, Any]:
        return {"metadata": {"delta.columnMapping.id": number, "delta.columnMapping.physicalName": f"p{number}"}}

    def stored(name: str, type_: pa.DataType, number: int) -> pa.Field[Any]:
        return pa.field(name, type_, metadata={"PARQUET:field_id": str(number)})

    inner = {"type": "struct", "fields": [{"name": "i", "type": "string", "nullable": True, **of(3)}]}
    fields = [{"name": "x", "type": "long", **of(1)}, {"name": "s", "type": inner, **of(2)}]
    fields.append({"name": "n", "type": "long", **of(9)})
    log = Log(tmp_path, fields, "columnMapping", **{"delta.columnMapping.mode": "id"})
    schema = pa.schema(
        [
            stored("x", pa.int64(), 7),  # another column by the name of one
            stored("was_s", pa.struct([stored("was_i", pa.string(), 3)]), 2),
            stored("was_x", pa.int64(), 1),
        ]
    )
    log.add("a.parquet", pa.table({"x": [9, 9], "was_s": [{"was_i": "a"}, None], "was_x": [1, 2]}, schema=schema))
    assert log.rows() == [{"x": 1, "s": {"i": "a"}, "n": None}, {"x": 2, "s": None, "n": None}]


def test_offsets_cut_to_minutes_widen_bounds(tmp_path: Path) -> None:
    """Before zones were whole minutes from UTC, a moment in the log may be a minute from that of the file."""
    moment = dt.datetime(1900, 1, 1, 0, 0, 21, tzinfo=UTC)
    log = Log(tmp_path, [{"name": "t", "type": "timestamp"}, {"name": "new", "type": "timestamp"}], "v2Checkpoint")
    # Madrid was 14 minutes and 44 seconds behind UTC.
    cut, new = "1899-12-31T23:45:37.000-00:14", "2020-01-01T00:00:00.000Z"
    told = {"minValues": {"t": cut, "new": new}, "maxValues": {"t": cut, "new": new}, "nullCount": {"t": 0, "new": 0}}
    of_2020 = dt.datetime(2020, 1, 1, tzinfo=UTC)
    types = pa.schema([("t", pa.timestamp("us", "UTC")), ("new", pa.timestamp("us", "UTC"))])
    log.add("a.parquet", pa.table({"t": [moment], "new": [of_2020]}, schema=types), **told)
    known = log.statistics()
    assert known["t"].min <= moment <= known["t"].max  # type: ignore[operator] # both are moments
    assert known["new"].min == of_2020
    assert known["new"].max == of_2020 + dt.timedelta(microseconds=999)


@pytest.mark.parametrize(
    ("stats", "nulls"),
    [
        ({"minValues": {"a": 9}, "maxValues": {"a": 1}, "nullCount": {"a": 1}}, 1),
        ({"minValues": {"a": 9}, "maxValues": {"a": 1}, "nullCount": {"a": 7}}, None),
        ({"nullCount": {"a": -1}}, None),
    ],
)
def test_numbers_that_contradict_each_other_are_unknown(
    tmp_path: Path, stats: dict[str, Any], nulls: int | None
) -> None:
    """A lower bound above the upper one, and more nulls than rows."""
    log = Log(tmp_path, [{"name": "a", "type": "long"}])
    log.add("1.parquet", pa.table({"a": pa.array([1, 9, None], pa.int64())}), **stats)
    found = log.statistics()["a"]
    assert (found.min, found.max, found.nulls) == (None, None, nulls)


@pytest.mark.parametrize("text", ["x" * 40, "x" * 31 + "\ud7ff" * 2, "😀" * 40, "x"])
def test_texts_cut_without_a_mark_bound_what_they_begin(tmp_path: Path, text: str) -> None:
    """Not all writers mark an upper bound that they cut; so one as long as a cut one is taken for cut."""
    log = Log(tmp_path, [{"name": "s", "type": "string"}], "v2Checkpoint")
    told = {"minValues": {"s": text[:32]}, "maxValues": {"s": text[:32]}, "nullCount": {"s": 0}}
    log.add("a.parquet", pa.table({"s": [text]}), **told)
    known = log.statistics()["s"]
    assert known.max >= text  # type: ignore[operator] # both are texts
    assert not known.max_exact
