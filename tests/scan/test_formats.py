"""Scans of ORC, Avro, CSV, TSV and JSON: the rows that DuckDB finds among all that were written, from fewer files."""

from __future__ import annotations

import json
import os
from collections import Counter
from datetime import date, datetime, timezone
from pathlib import Path
from random import Random
from typing import Any

import duckdb
import fastavro
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from pyarrow import orc
from support.scan_lake import Lake

from metastore.errors import EngineError, FormatError, InvalidRequestError, NotFoundError
from metastore.lake.formats.file_format import Opening
from metastore.lake.formats.names import format_record
from metastore.lake.formats.row_files import read_file

FORMATS = ("orc", "avro", "csv", "tsv", "json")
FIELDS: list[tuple[str, pa.DataType]] = [
    ("n", pa.int64()),
    ("d", pa.float64()),
    ("s", pa.string()),
    ("yes", pa.bool_()),
]
SCHEMA = pa.schema(FIELDS)
AVRO = {
    "type": "record",
    "name": "row",
    "fields": [
        {"name": "n", "type": ["null", "long"]},
        {"name": "d", "type": ["null", "double"]},
        {"name": "s", "type": ["null", "string"]},
        {"name": "yes", "type": ["null", "boolean"]},
    ],
}
TEXTS = ("", "a", "ab", "b,c", 'd"e', "line\nbreak", "ä", "10", "x\ty")


def write(path: Path, rows: list[dict[str, Any]], avro: Any = AVRO) -> None:
    """Write one file by a library that is not ours, or by hand; the suffix tells the format."""
    path.parent.mkdir(parents=True, exist_ok=True)
    kind = path.suffix[1:]
    if kind == "orc":
        orc.write_table(pa.Table.from_pylist(rows, SCHEMA), path)
    elif kind == "avro":
        with path.open("wb") as file:
            fastavro.writer(file, avro, rows)
    elif kind == "json":
        path.write_text("\n".join(json.dumps(row) for row in rows))
    else:
        lines = [list(rows[0]), *([_field(value) for value in row.values()] for row in rows)]
        path.write_text("".join(("," if kind == "csv" else "\t").join(line) + "\n" for line in lines))


def _field(value: Any) -> str:
    """An empty field is null, a quoted one is text."""
    if isinstance(value, str):
        return '"' + value.replace('"', '""') + '"'
    return "" if value is None else str(value).lower()


def made(chance: Random, number: int) -> list[dict[str, Any]]:
    """Ten rows whose ``n`` and ``d`` lie near the number of their file."""

    def value(made_: Any) -> Any:
        return None if chance.random() < 0.2 else made_

    return [
        {
            "n": value(number * 10 + chance.randrange(10)),
            "d": value(number + chance.randrange(100) / 8),
            "s": value(chance.choice(TEXTS)),
            "yes": value(number % 2 == 0),
        }
        for _ in range(10)
    ]


WHERE = (
    ("n >= 35", "n >= 35"),
    ("n < 12 OR d > 14.5e0", "n < 12 OR d > 14.5"),
    ("NOT (n IN (1, 11, 21))", "NOT (n IN (1, 11, 21))"),
    ("s = 'ab' AND yes", "s = 'ab' AND yes"),
    ("s LIKE 'a%' AND year = 2021", "s LIKE 'a%' AND year = 2021"),
    ("n IS NULL", "n IS NULL"),
    ("length(s) < 2 AND n > 5", "length(s) < 2 AND n > 5"),
    ("year > 2020 AND dir0 <> 'year=2021'", "year > 2021"),
)


def answer(truth: pa.Table, where: str) -> list[str]:
    """What DuckDB says."""
    with duckdb.connect() as engine:
        found = engine.from_arrow(truth).filter(where).project("n, d, s, yes, year").fetchall()
    return sorted(map(repr, found))


def rows(table: pa.Table) -> list[str]:
    """In no order."""
    return sorted(repr(tuple(row.values())) for row in table.select(["n", "d", "s", "yes", "year"]).to_pylist())


@pytest.mark.parametrize("kind", FORMATS)
def test_scans_find_what_duckdb_finds(lake: Lake, kind: str) -> None:
    """Before and after files changed, came and went since ANALYZE, in every way of reading."""
    chance = Random(kind)
    held: dict[str, list[dict[str, Any]]] = {}

    def put(name: str, number: int) -> None:
        held[name] = made(chance, number)
        write(lake.root / f"{name}.{kind}", held[name])
        os.utime(lake.root / f"{name}.{kind}", (1_700_000_000 + len(held), 1_700_000_000 + number))

    for number in range(6):
        put(f"year={2020 + number // 2}/{number}", number)
    lake.analyze()
    for change in (False, True):
        if change:
            put("year=2020/1", 41)
            put("year=2022/new", 2)
            lake.remove(f"year=2021/3.{kind}")
            del held["year=2021/3"]
        truth = pa.Table.from_pylist(
            [{**row, "year": int(name[5:9])} for name, each in held.items() for row in each],
            pa.schema([*SCHEMA, ("year", pa.int32())]),
        )
        fewest = len(held)
        for spark, duck in WHERE:
            scan = lake.scan(spark)
            fewest = min(fewest, len(scan.files))
            expected = answer(truth, duck)
            assert rows(scan.to_arrow()) == expected, spark
            assert rows(scan.to_duckdb().to_arrow_table()) == expected
            assert scan.count() == len(expected)
        assert fewest < len(held)
        assert rows(lake.scan("n < 12").to_arrow_dataset().to_table()) == answer(truth, "n < 12")
        assert lake.scan("n < 12").to_polars().height == len(answer(truth, "n < 12"))
        assert Counter(lake.scan(columns=["year"]).to_arrow()["year"].to_pylist()) == Counter(truth["year"].to_pylist())
        told = lake.session.sql("SELECT count(*) AS c, min(n) AS low FROM dfs.tmp.t WHERE year = 2021").to_pylist()
        of_year = truth.filter(pc.equal(truth["year"], pa.scalar(2021)))
        assert told == [{"c": of_year.num_rows, "low": pc.min(of_year["n"]).as_py()}]


NESTED: list[dict[str, Any]] = [
    {"id": 1, "tags": ["a", "b"], "place": {"x": 1, "deep": {"y": "p"}}},
    {"id": 2, "tags": [], "place": None},
    {"id": 3, "tags": None, "place": {"x": 7, "deep": {"y": None}}},
]


def test_lists_and_structs_of_json_are_whole(lake: Lake) -> None:
    """Statistics pass over lists; rows do not. A new field of a struct is a column's change, not an error."""
    write(lake.root / "0.json", NESTED)
    lake.analyze()
    assert lake.scan().to_arrow().sort_by("id").to_pylist() == NESTED
    assert lake.scan("place.x > 3").to_arrow()["id"].to_pylist() == [3]
    write(lake.root / "1.json", [{"id": 4, "tags": ["c"], "more": 1}])
    assert lake.scan("id = 4", ["id", "tags", "place"]).to_arrow().to_pylist() == [
        {"id": 4, "tags": ["c"], "place": None}
    ]


def test_objects_without_fields_are_rows_like_others(lake: Lake) -> None:
    """An empty object has no field of other files' objects, in lists and structs, too; and is no null."""
    none: list[dict[str, Any]] = [{"id": 1, "tags": {}, "all": [{}], "s": {"y": {}}}, {"id": 3, "tags": None}]
    write(lake.root / "0.json", none)
    lake.analyze()
    lake.analyze(statistics=True)
    assert lake.scan().to_arrow().to_pylist() == [none[0], {"id": 3, "tags": None, "all": None, "s": None}]
    write(lake.root / "1.json", [{"id": 2, "tags": {"x": 1}, "all": [{"z": 2}], "s": {"y": {"x": 3}}}])
    lake.analyze()
    found = {row["id"]: row for row in lake.scan().to_arrow().to_pylist()}
    assert found[1] == {"id": 1, "tags": {"x": None}, "all": [{"z": None}], "s": {"y": {"x": None}}}
    assert found[2] == {"id": 2, "tags": {"x": 1}, "all": [{"z": 2}], "s": {"y": {"x": 3}}}
    for where, ids in (("tags IS NOT NULL", {1, 2}), ("tags.x IS NULL", {1, 3}), ("s.y.x = 3", {2})):
        assert set(lake.scan(where).to_arrow()["id"].to_pylist()) == ids


def test_numbers_in_a_column_of_text_are_their_text(lake: Lake) -> None:
    """In JSON, where one file's values are of another kind than another's."""
    write(lake.root / "0.json", [{"id": 1, "v": "x"}])
    write(lake.root / "1.json", [{"id": 2, "v": 5}, {"id": 3, "v": {"a": [1, None]}}, {"id": 4, "v": "5"}])
    lake.analyze()
    found = {row["id"]: row["v"] for row in lake.scan().to_arrow().to_pylist()}
    assert found == {1: "x", 2: "5", 3: '{"a":[1,null]}', 4: "5"}
    assert lake.scan("v = '5'").count() == 2


def test_avro_is_whole(lake: Lake) -> None:
    """Lists, maps, days and names that stand for values come as the rows have them."""
    schema = {
        "type": "record",
        "name": "row",
        "fields": [
            {"name": "id", "type": "int"},
            {"name": "tags", "type": {"type": "array", "items": "string"}},
            {"name": "counts", "type": {"type": "map", "values": "long"}},
            {"name": "kind", "type": {"type": "enum", "name": "kind", "symbols": ["A", "B"]}},
            {"name": "day", "type": ["null", {"type": "int", "logicalType": "date"}]},
        ],
    }
    held: list[dict[str, Any]] = [
        {"id": 1, "tags": ["a"], "counts": {"x": 5}, "kind": "A", "day": date(2024, 2, 29)},
        {"id": 2, "tags": [], "counts": {}, "kind": "B", "day": None},
    ]
    write(lake.root / "0.avro", held, schema)
    lake.analyze()
    expected = [{**row, "counts": list(row["counts"].items())} for row in held]
    assert lake.scan().to_arrow().to_pylist() == expected
    assert lake.scan("day > DATE '2024-01-01'").to_arrow()["id"].to_pylist() == [1]


@pytest.mark.parametrize("kind", FORMATS)
def test_files_that_cannot_be_read_are_named(lake: Lake, kind: str) -> None:
    """Broken ones, and ones that went while nobody looked."""
    write(lake.root / f"0.{kind}", made(Random(1), 1))
    write(lake.root / f"1.{kind}", made(Random(2), 2))
    lake.analyze()
    trusted = lake.scan(list_files=False)
    (lake.root / f"1.{kind}").write_bytes({"csv": b"n,m\n1\n", "tsv": b"n\tm\n1\n"}.get(kind, b"{nothing"))
    with pytest.raises(FormatError, match=rf"1\.{kind}"):
        lake.scan().to_arrow()
    lake.remove(f"1.{kind}")
    with pytest.raises(NotFoundError, match=rf"1\.{kind} is gone"):
        trusted.to_arrow()


@pytest.mark.parametrize("kind", FORMATS)
def test_only_row_groups_have_row_ids(lake: Lake, kind: str) -> None:
    """It is said of which files the table is."""
    write(lake.root / f"0.{kind}", made(Random(1), 1))
    lake.analyze()
    with pytest.raises(InvalidRequestError, match=f"{kind.upper()} files, which have none"):
        lake.scan(row_id=True)


def test_declared_columns_are_read_as_declared(lake: Lake) -> None:
    """Texts that look like numbers stay texts; a file without any of the columns still has its rows."""
    write(lake.root / "0.csv", [{"code": "007", "n": 1}, {"code": "8", "n": 2}])
    lake.analyze(schema="code VARCHAR, n INT")
    assert lake.scan().to_arrow().to_pylist() == [{"code": "007", "n": 1}, {"code": "8", "n": 2}]
    write(lake.root / "1.csv", [{"other": 1}, {"other": 2}])
    assert lake.scan(columns=["code"]).to_arrow()["code"].to_pylist() == ["007", "8", None, None]


def test_an_arrow_that_makes_other_times_of_orc_is_refused(tmp_path: Path) -> None:
    """A scan of a directory refuses them where one of an Iceberg table does; other columns are read."""
    at = pa.array([datetime(2020, 1, 1, tzinfo=timezone.utc)], pa.timestamp("us", "UTC"))
    table = pa.table({"n": [1], "at": at, "all": pa.ListArray.from_arrays([0, 1], at)})
    orc.write_table(table, tmp_path / "a.orc")
    old, new = (Opening(format_record("ORC"), str(tmp_path), arrow_version=release) for release in ("24.0.0", "25.0.0"))
    for column in table.schema:
        wanted = pa.schema([column])
        assert pa.Table.from_batches(read_file(new, f"{tmp_path}/a.orc", wanted)) == table.select([column.name])
        if column.name == "n":
            assert pa.Table.from_batches(read_file(old, f"{tmp_path}/a.orc", wanted)) == table.select(["n"])
            continue
        with pytest.raises(EngineError, match=rf"a\.orc .*column {column.name} has times in ORC.*pyarrow>=25"):
            list(read_file(old, f"{tmp_path}/a.orc", wanted))


def test_times_that_arrow_cannot_hold_are_an_error_of_a_scan(lake: Lake) -> None:
    """Of the release that is installed: never another time, and never a file that is passed over."""
    far = pa.array([253_402_300_799_000_000], pa.timestamp("us"))
    orc.write_table(pa.table({"n": [1], "until": far}), lake.root / "a.orc")
    lake.analyze(columns=["n"])
    assert lake.scan(columns=["n"]).to_arrow().to_pylist() == [{"n": 1}]
    for door in (lambda: lake.scan().to_arrow(), lambda: lake.session.sql("SELECT until FROM dfs.tmp.t"), lake.analyze):
        with pytest.raises((FormatError, EngineError), match=r"a\.orc.*column until"):
            door()
