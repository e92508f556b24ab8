"""Statistics of text files against the rows that Hive's SerDes read out of them, in Spark: never wrong, seldom open.

Each text is the one row of a file of its own, so that one odd value hides no other.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Iterator, Mapping, Sequence
from datetime import date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from services.hive_tables import HiveMaker
from services.spark_hive import SparkHive

from metastore.model.statistics import ColumnStatistics, parse_many
from metastore.sources.hive.described_files import FRAGMENT, DescribedChunk, FileToDescribe, describe
from metastore.sources.hive.tables import HiveTable
from metastore.sources.hive.text.serdes import text_serde

pytestmark = [pytest.mark.integration, pytest.mark.spark, pytest.mark.slow]

TYPES = {
    "t": "tinyint",
    "i": "int",
    "l": "bigint",
    "f": "float",
    "d": "double",
    "b": "boolean",
    "n": "decimal(6,2)",
    "p": "decimal(3,3)",
    "day": "date",
    "ts": "timestamp",
    "s": "string",
    "v": "varchar(4)",
    "c": "char(4)",
}
TEXTS = [
    "",
    "\\N",
    "0",
    "-0",
    "+5",
    "007",
    "127",
    "128",
    "40000",
    "3000000000",
    "9223372036854775807",
    "9223372036854775808",
    "1.5",
    "1.",
    "-.5",
    ".5",
    " 1",
    "1 ",
    "1e3",
    "1E400",
    "abc",
    "NULL",
    "NaN",
    "Infinity",
    "1d",
    "1f",
    "0x10",
    "true",
    "TRUE",
    "False",
    "t",
    "1",
    "_1",
    "2024-02-29",
    "2024-02-31",
    "2024-1-5",
    "0001-01-01",
    "1582-10-14",
    "1969-12-31",
    "2024-01-01 00:00:00",
    "2024-01-01 00:00:00.123456",
    "2024-01-01 00:00:00.1234567",
    "2024-01-01T00:00:00",
    "2024-01-01 25:00:00",
    "1969-12-31 23:59:59.999999",
    "1.005",
    "1.10",
    "9999.99",
    "99999.99",
    "0.125",
    "-0.0",
    "é漢",
    "a b ",
    "\\N\\N",
    "abcdefgh",
    "1_000",
    "0.5e-3",
]
NATIVE: Mapping[str, Any] = {"date": date.fromisoformat, "timestamp": datetime.fromisoformat, "decimal": Decimal}

ESCAPED = [b"a\\,b,c", b"a\\\\,b", b"a\\", b"\\,,\\N", b"NULL,x", b"NUL\\L,x", b"a\\nb,c", b",", b"", b"a,b,c,d,e"]
QUOTED = [b'"a","b"', b'"a""x",b', b'"a,b",c,d', b'a"x,b', b' "a",b', b"", b",", b'"",""', b'"a\\"b",c']
QUOTED += [b"a\\b,c", b'"a']


def described(hive: HiveMaker, name: str) -> Iterator[tuple[str, list[ColumnStatistics | None]]]:
    """What is known of each file of a table, by its name."""
    table = HiveTable.of(hive.client.table(hive.database, name))
    serde = text_serde(table.raw.sd, table.parameters)
    paths = sorted((hive.folder / name).iterdir())
    files = [FileToDescribe(at, str(path), path.stat().st_size, serde) for at, path in enumerate(paths)]
    rows = pa.Table.from_batches(list(describe(DescribedChunk(table.columns, files))), FRAGMENT).to_pylist()
    assert [row["rows"] for row in rows] == [1] * len(files)
    return zip((path.name for path in paths), (parse_many(row["statistics"]) for row in rows), strict=True)


def read(hive: HiveMaker, spark: SparkHive, name: str, types: Mapping[str, str]) -> dict[str, list[Any]]:
    """The row of each file as Hive's SerDe reads it, by the file's name."""
    columns = ", ".join(f"cast({column} as string) as {column}" for column in types)
    rows = spark.sql(f"select input_file_name() as file, {columns} from {hive.database}.{name}")
    return {Path(row["file"]).name: [_value(row[column], type_) for column, type_ in types.items()] for row in rows}


def _value(text: str | None, type_: str) -> Any:
    if text is None or type_.startswith(("string", "varchar", "char")):
        return text
    if type_ in ("float", "double"):
        number = float(text.replace("Infinity", "inf"))
        return struct.unpack("f", struct.pack("f", number))[0] if type_ == "float" else number
    if type_ == "boolean":
        return text == "true"
    return NATIVE.get(type_.partition("(")[0], int)(text)


def wrong(known: ColumnStatistics, value: Any) -> bool:
    """Whether what is known of a file's one row does not hold for its ``value``."""
    if known.nulls is not None and known.nulls != (value is None):
        return True
    if value is None or (isinstance(value, float) and math.isnan(value)):
        return False
    return (known.min is not None and known.min > value) or (known.max is not None and known.max < value)


def made(hive: HiveMaker, spark: SparkHive, columns: str, rows: Sequence[bytes], how: str) -> str:
    """A table of text with one file for each row."""
    name: str = hive.new_name()
    place = hive.folder / name
    place.mkdir()
    for number, row in enumerate(rows):
        (place / f"f{number:03}").write_bytes(row + b"\n")
    spark.sql(f"create external table {hive.database}.{name} ({columns}) row format {how} location 'file:{place}'")
    return name


@pytest.mark.exhaustive
def test_every_type(hive: HiveMaker, spark_hive: SparkHive) -> None:
    """Whatever stands in a field; and what is plainly a value is known with its bounds."""
    rows = ["\x01".join([text] * len(TYPES)).encode() for text in TEXTS]
    columns = ", ".join(f"{name} {type_}" for name, type_ in TYPES.items())
    name = made(hive, spark_hive, columns, rows, "delimited stored as textfile")
    truth = read(hive, spark_hive, name, TYPES)
    known = dict(described(hive, name))
    assert len(truth) == len(known) == len(TEXTS)
    for file, values in truth.items():
        for found, value, column in zip(known[file], values, TYPES, strict=True):
            assert found is not None
            assert not wrong(found, value), (TEXTS[int(file[1:])], column, found, value)
    by_text = {text: dict(zip(TYPES, known[f"f{at:03}"], strict=True)) for at, text in enumerate(TEXTS)}
    for text, column, value in (
        ("+5", "t", 5),
        ("128", "i", 128),
        ("9223372036854775807", "s", "9223372036854775807"),
        ("1e3", "d", 1000.0),
        ("False", "b", False),
        ("1.10", "n", Decimal("1.10")),
        ("2024-02-29", "day", date(2024, 2, 29)),
        ("é漢", "v", "é漢"),
    ):
        assert (by_text[text][column].min, by_text[text][column].max) == (value, value)  # type: ignore[union-attr]
    assert by_text["1969-12-31 23:59:59.999999"]["ts"].min == datetime(1969, 12, 31, 23, 59, 59, 999999)  # type: ignore[union-attr]
    for text in ("", "\\N", "abc"):
        for column in ("t", "i", "l", "b", "n", "day", "ts"):
            assert by_text[text][column].nulls == 1, (text, column)  # type: ignore[union-attr]
    open_ = sum(each.nulls is None for columns in by_text.values() for each in columns.values())  # type: ignore[union-attr]
    assert open_ < 0.5 * len(TEXTS) * len(TYPES)


@pytest.mark.parametrize(
    ("rows", "how", "most_open"),
    [
        (ESCAPED, "delimited fields terminated by ',' escaped by '\\\\' null defined as 'NULL' stored as textfile", 1),
        (QUOTED, "serde 'org.apache.hadoop.hive.serde2.OpenCSVSerde' stored as textfile", 4),
    ],
    ids=["escapes", "quotes"],
)
def test_fields(hive: HiveMaker, spark_hive: SparkHive, rows: Sequence[bytes], how: str, most_open: int) -> None:
    """Fields are those of the SerDe, or open."""
    types = dict.fromkeys("abc", "string")
    name = made(hive, spark_hive, "a string, b string, c string", rows, how)
    truth = read(hive, spark_hive, name, types)
    open_ = set()
    for file, known in described(hive, name):
        for found, value in zip(known, truth[file], strict=True):
            assert found is not None
            assert not wrong(found, value), (rows[int(file[1:])], found, value)
            if found.nulls is None:
                open_.add(file)
    assert len(open_) <= most_open
