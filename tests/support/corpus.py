"""A corpus of small data files: formats by writers by types by patterns of nulls by codecs, some 500 made in seconds.

Each file has a column ``id`` and one column ``v`` of the type that is tried, so that a fault shows which type it is.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import date, datetime, time, timedelta, timezone
from decimal import Decimal
from pathlib import Path
from typing import Any, Final

import deltalake
import duckdb
import fastavro
import polars as pl
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq
from pyarrow import orc
from support.odd_parquet import write_odd_parquet

DAY = date(2024, 2, 29)
NOON = datetime(2024, 2, 29, 12, 30, 15, 123456)
UTC = timezone.utc

VALUES: Final[Mapping[str, tuple[pa.DataType, Sequence[Any]]]] = {
    "bool": (pa.bool_(), [True, False, True]),
    "int8": (pa.int8(), [-128, 0, 127]),
    "int16": (pa.int16(), [-(2**15), 0, 2**15 - 1]),
    "int32": (pa.int32(), [-(2**31), 0, 2**31 - 1]),
    "int64": (pa.int64(), [-(2**63), 2**53 + 1, 2**63 - 1]),
    "uint8": (pa.uint8(), [0, 1, 255]),
    "uint16": (pa.uint16(), [0, 1, 2**16 - 1]),
    "uint32": (pa.uint32(), [0, 1, 2**32 - 1]),
    "uint64": (pa.uint64(), [0, 1, 2**64 - 1]),
    "float16": (pa.float16(), [-1.5, 0.0, 2.25]),
    "float32": (pa.float32(), [-1.5, 0.0, 3.4e38]),
    "float64": (pa.float64(), [-1.5, -0.0, 1.7e308]),
    "nan": (pa.float64(), [1.0, math.nan, -1.0]),
    "infinite": (pa.float64(), [math.inf, -math.inf, 0.0]),
    "decimal9": (pa.decimal128(9, 2), [Decimal("-1.25"), Decimal("0.00"), Decimal("9999999.99")]),
    "decimal38": (pa.decimal128(38, 10), [Decimal("-1.25"), Decimal(0), Decimal("1234567890123456789012345678.5")]),
    "decimal76": (pa.decimal256(76, 0), [Decimal(-1), Decimal(0), Decimal(10) ** 70]),
    "text": (pa.string(), ["", "a", "\u00e9\u4e2d"]),
    "large_text": (pa.large_string(), ["", "a", "zz" * 50]),
    "view_text": (pa.string_view(), ["", "a", "zz" * 50]),
    "bytes": (pa.binary(), [b"", b"\x00\xff", b"a"]),
    "fixed": (pa.binary(3), [b"abc", b"\x00\x00\x00", b"\xff\xff\xff"]),
    "date": (pa.date32(), [date(1, 1, 1), DAY, date(9999, 12, 31)]),
    "old_date": (pa.date32(), [date(1500, 1, 1), date(1582, 10, 14), DAY]),
    "time_ms": (pa.time32("ms"), [time(0), time(12, 30), time(23, 59, 59)]),
    "time_us": (pa.time64("us"), [time(0), time(12, 30, 0, 1), time(23, 59, 59, 999999)]),
    "time_ns": (pa.time64("ns"), [time(0), time(12, 30, 0, 1), time(23, 59, 59, 999999)]),
    "moment_s": (pa.timestamp("s"), [NOON.replace(microsecond=0), datetime(1969, 12, 31, 23, 59)]),
    "moment_ms": (pa.timestamp("ms"), [NOON.replace(microsecond=1000), datetime(1960, 1, 1), datetime(9999, 1, 1)]),
    "moment_us": (pa.timestamp("us"), [NOON, datetime(1960, 1, 1, 0, 0, 0, 1), datetime(1700, 1, 1)]),
    "moment_ns": (pa.timestamp("ns"), [NOON, datetime(1970, 1, 1), datetime(2200, 1, 1)]),
    "instant": (pa.timestamp("us", "UTC"), [NOON.replace(tzinfo=UTC), datetime(1960, 1, 1, tzinfo=UTC)]),
    "instant_berlin": (pa.timestamp("us", "Europe/Berlin"), [NOON.replace(tzinfo=UTC)]),
    "duration": (pa.duration("us"), [timedelta(1), timedelta(0), timedelta(-1)]),
    "nothing": (pa.null(), []),
    "dictionary": (pa.dictionary(pa.int32(), pa.string()), ["a", "b", "a"]),
    "list": (pa.list_(pa.int64()), [[1, 2], [], [None]]),
    "large_list": (pa.large_list(pa.string()), [["a"], [], [None, "b"]]),
    "fixed_list": (pa.list_(pa.int32(), 2), [[1, 2], [3, None]]),
    "map": (pa.map_(pa.string(), pa.int64()), [[("a", 1)], [], [("b", None)]]),
    "struct": (pa.struct([("x", pa.int64()), ("y", pa.string())]), [{"x": 1, "y": "a"}, {"x": None, "y": "b"}]),
    "deep": (
        pa.struct([("s", pa.struct([("n", pa.int32())])), ("l", pa.list_(pa.struct([("k", pa.string())])))]),
        [{"s": {"n": 1}, "l": [{"k": "a"}]}, {"s": None, "l": []}],
    ),
    "list_of_structs": (pa.list_(pa.struct([("k", pa.int64())])), [[{"k": 1}], [], [None, {"k": None}]]),
    "struct_of_dictionary": (
        pa.struct([("d", pa.dictionary(pa.int32(), pa.string()))]),
        [{"d": "a"}, {"d": None}],
    ),
}
"""Types by name, each with values at its edges."""

NULLS: Final[Mapping[str, Callable[[Sequence[Any]], list[Any]]]] = {
    "full": list,
    "some": lambda values: [None, *values, None],
    "all": lambda _: [None, None],
    "empty": lambda _: [],
}
"""Patterns of nulls by name."""

PARQUET_CODECS: Final = ("snappy", "zstd", "gzip", "brotli", "lz4", "none")
PARQUET_SHAPES: Final[Sequence[Mapping[str, Any]]] = (
    {},
    {"use_dictionary": False, "data_page_version": "2.0"},
    {"row_group_size": 2, "version": "1.0"},
    {"write_statistics": False},
    {"store_schema": False},
    {"write_page_index": True, "row_group_size": 1},
)
AVRO_CODECS: Final = ("null", "deflate", "snappy", "zstandard", "bzip2", "xz")


def _tables() -> Iterator[tuple[str, str, pa.Table]]:
    for kind, (type_, values) in VALUES.items():
        for nulls, pattern in NULLS.items():
            rows = pattern(values)
            columns = {"id": pa.array(range(len(rows)), pa.int64()), "v": _array(rows, type_)}
            yield kind, nulls, pa.table(columns)


def _array(rows: Sequence[Any], type_: pa.DataType) -> Any:
    if pa.types.is_struct(type_) and any(pa.types.is_dictionary(field.type) for field in type_):
        texts = [None if row is None else row["d"] for row in rows]
        encoded = pa.array(texts, pa.string()).dictionary_encode()
        return pa.StructArray.from_arrays([encoded], ["d"], mask=pa.array([row is None for row in rows], pa.bool_()))
    if pa.types.is_dictionary(type_):
        return pa.array(rows, pa.string()).dictionary_encode()
    return pa.array(rows, type_)


def _arrow_parquet(folder: Path) -> None:
    for number, (kind, nulls, table) in enumerate(_tables()):
        shape = PARQUET_SHAPES[(number // 6 + number) % 6]
        codec: Any = PARQUET_CODECS[number % 6]
        pq.write_table(table, folder / f"{kind}-{nulls}-{codec}.parquet", compression=codec, **shape)


def _arrow_int96(folder: Path) -> None:
    for kind in ("moment_s", "moment_us", "moment_ns", "instant"):
        for nulls, pattern in NULLS.items():
            type_, values = VALUES[kind]
            table = pa.table({"v": pa.array(pattern(values), type_)})
            pq.write_table(table, folder / f"{kind}-{nulls}.parquet", use_deprecated_int96_timestamps=True)


def _arrow_orc(folder: Path) -> None:
    codecs: Any = ("uncompressed", "zlib", "snappy", "zstd", "lz4")
    for number, (kind, nulls, table) in enumerate(_tables()):
        path = folder / f"{kind}-{nulls}.orc"
        try:
            orc.write_table(table, path, compression=codecs[number % 5])
        except (pa.ArrowException, OSError):  # ORC has no such type
            path.unlink(missing_ok=True)


def _arrow_csv(folder: Path) -> None:
    for kind, nulls, table in _tables():
        if nulls == "some" and not pa.types.is_nested(table.schema.field("v").type):
            try:
                rows = table.set_column(1, "v", table["v"].cast(pa.string()))
            except pa.ArrowException:  # no text of it
                continue
            pyarrow.csv.write_csv(rows, folder / f"{kind}-{nulls}.csv")


_IN_DUCKDB: Final = (
    "TRUE",
    "1::UTINYINT",
    "1::HUGEINT",
    "1.5::DECIMAL(18,3)",
    "1.5::DOUBLE",
    "'nan'::FLOAT",
    "'text'",
    "'\\x00\\xFF'::BLOB",
    "DATE '2024-02-29'",
    "TIME '12:30:00'",
    "TIMESTAMP '2024-02-29 12:30:00.123456'",
    "TIMESTAMPTZ '2024-02-29 12:30:00+00'",
    "TIMESTAMP_NS '2024-02-29 12:30:00.123456789'",
    "INTERVAL 1 DAY",
    "uuid '00000000-0000-0000-0000-00000000000a'",
    "[1, NULL]",
    "{'x': 1, 'y': [1]}",
    "MAP {'a': 1}",
    "'x'::ENUM ('x', 'y')",
    "'{\"a\": 1}'::JSON",
)


def _duckdb(folder: Path) -> None:
    with duckdb.connect() as engine:
        engine.execute("SET TimeZone = 'UTC'")
        for number, value in enumerate(_IN_DUCKDB):
            for nulls, rows in (("some", "UNION ALL SELECT 2, NULL"), ("empty", "LIMIT 0")):
                query = f"SELECT 1 AS id, {value} AS v {rows}"
                for format_, options in (("parquet", f"COMPRESSION {PARQUET_CODECS[number % 4]}"), ("csv", "HEADER")):
                    path = folder / f"{number}-{nulls}.{format_}"
                    engine.execute(f"COPY ({query}) TO '{path}' (FORMAT {format_}, {options})")
                engine.execute(f"COPY ({query}) TO '{folder}/{number}-{nulls}.json' (FORMAT json)")


_POLARS_ANYWHERE: Final = ("bool", "int32", "int64", "float64", "nan", "text", "date", "moment_us")
"""Types that Polars writes to every format."""


def _polars(folder: Path) -> None:
    for kind, nulls, table in _tables():
        if kind in ("decimal76", "map", "float16") or "dictionary" in kind or nulls != "some":
            continue
        frame = pl.DataFrame(pl.from_arrow(table))
        frame.write_parquet(folder / f"{kind}-{nulls}.parquet")
        if kind in _POLARS_ANYWHERE:
            frame.write_csv(folder / f"{kind}-{nulls}.csv")
            frame.write_ndjson(folder / f"{kind}-{nulls}.ndjson")
            frame.write_avro(folder / f"{kind}-{nulls}.avro")


_IN_AVRO: Final[Mapping[str, tuple[Any, Sequence[Any]]]] = {
    "bool": ("boolean", [True, False]),
    "int": ("int", [-(2**31), 2**31 - 1]),
    "long": ("long", [-(2**63), 2**63 - 1]),
    "float": ("float", [1.5, math.nan]),
    "double": ("double", [-0.0, math.inf]),
    "text": ("string", ["", "\u00e9"]),
    "bytes": ("bytes", [b"", b"\xff"]),
    "fixed": ({"type": "fixed", "name": "f", "size": 2}, [b"ab"]),
    "enum": ({"type": "enum", "name": "e", "symbols": ["A", "B"]}, ["A", "B"]),
    "date": ({"type": "int", "logicalType": "date"}, [DAY]),
    "time": ({"type": "long", "logicalType": "time-micros"}, [time(1, 2, 3, 4)]),
    "millis": ({"type": "long", "logicalType": "timestamp-millis"}, [NOON.replace(microsecond=0, tzinfo=UTC)]),
    "micros": ({"type": "long", "logicalType": "timestamp-micros"}, [NOON.replace(tzinfo=UTC)]),
    "local": ({"type": "long", "logicalType": "local-timestamp-micros"}, [NOON]),
    "decimal": ({"type": "bytes", "logicalType": "decimal", "precision": 9, "scale": 2}, [Decimal("-1.25")]),
    "uuid": ({"type": "string", "logicalType": "uuid"}, ["00000000-0000-0000-0000-00000000000a"]),
    "array": ({"type": "array", "items": ["null", "int"]}, [[1, None], []]),
    "map": ({"type": "map", "values": "long"}, [{"a": 1}, {}]),
    "record": ({"type": "record", "name": "r", "fields": [{"name": "x", "type": "int"}]}, [{"x": 1}]),
    "union": (["null", "int", "string"], [1, "a"]),
}


def _fastavro(folder: Path) -> None:
    for number, (kind, (type_, values)) in enumerate(_IN_AVRO.items()):
        for nulls, pattern in NULLS.items():
            union = type_ if isinstance(type_, list) else ["null", type_]
            fields = [{"name": "id", "type": "long"}, {"name": "v", "type": union}]
            rows = [{"id": place, "v": value} for place, value in enumerate(pattern(values))]
            with (folder / f"{kind}-{nulls}.avro").open("wb") as file:
                schema = {"type": "record", "name": "row", "fields": fields}
                fastavro.writer(file, schema, rows, codec=AVRO_CODECS[number % 6])


def _delta(folder: Path) -> None:
    for kind, nulls, table in _tables():
        if (
            nulls == "some"
            and kind in ("bool", "int32", "int64", "float64", "nan", "decimal9", "text", "bytes", "date")
        ) or (nulls == "some" and kind in ("moment_us", "instant", "list", "map", "struct", "deep")):
            deltalake.write_deltalake(str(folder / kind), table)


_JSON_ROWS: Final[Sequence[Sequence[Any]]] = (
    [{"a": 1}, {"a": None}, {}],
    [{"a": 1}, {"a": 1.5}, {"a": 2**53 + 1}],
    [{"a": 2**70}, {"a": 1}],
    [{"a": "x"}, {"a": 1}, {"a": True}],
    [{"a": []}, {"a": [1]}, {"a": [None]}],
    [{"a": [{"b": None}]}, {"a": [{"b": None, "c": {}}]}],
    [{"a": {}}, {"a": {"b": 1}}],
    [{"a": {"b": {"c": "x"}}}, {"a": None}],
    [],
    [{}],
    [{"a": "\u2028\ud83d\ude00"}, {"a": '\t\n"'}],
)


def _json(folder: Path) -> None:
    for number, rows in enumerate(_JSON_ROWS):
        lines = [json.dumps(row) for row in rows]
        (folder / f"{number}.json").write_text("\n".join(lines) or "\n")
        (folder / f"{number}-list.json").write_text(json.dumps(rows))
        (folder / f"{number}.ndjson").write_text("".join(f"{line}\r\n" for line in lines) or "\n")


WRITERS: Final[Mapping[str, Callable[[Path], None]]] = {
    "arrow_parquet": _arrow_parquet,
    "arrow_int96": _arrow_int96,
    "odd_parquet": write_odd_parquet,
    "arrow_orc": _arrow_orc,
    "arrow_csv": _arrow_csv,
    "duckdb": _duckdb,
    "polars": _polars,
    "fastavro": _fastavro,
    "delta": _delta,
    "json": _json,
}
"""What writes files into a folder, by name."""


def make_corpus(folder: Path, writers: Iterable[str] = WRITERS) -> int:
    """Write the files of ``writers`` below ``folder``, each into a folder of its own; the number of files."""
    for name in writers:
        (folder / name).mkdir(parents=True)
        WRITERS[name](folder / name)
    return sum(path.is_file() and "_delta_log" not in path.parts for path in folder.rglob("*"))
