"""What the register of writers' faults doubts is unknown, and so is what contradicts its type; all else is believed."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal
from pathlib import Path
from typing import Any

import duckdb
import polars as pl
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

from metastore.lake.formats.parquet.parquet_footer import read_footer
from metastore.lake.formats.parquet.parquet_plans import FooterPlan, Plans
from metastore.lake.formats.parquet.writer_faults import (
    ORC,
    PARQUET,
    WRITER_FAULTS,
    Doubt,
    Writer,
    WriterFault,
    WrittenColumn,
)
from metastore.model.tuple_schema import DOUBTED
from metastore.scan.parquet_parts import PARQUET_READER, ParquetFiles

TEXTS = pa.dictionary(pa.int32(), pa.string())
ROWS = pa.table(
    {
        "flag": pa.array([True, False, None]),
        "small": pa.array([17, 34, None], pa.uint8()),
        "long": pa.array([17, 34, None], pa.int64()),
        "real": pa.array([1.5, 2.5, None]),
        "half": pa.array([1.5, 2.5, None], pa.float16()),
        "price": pa.array([Decimal(1), Decimal(2), None], pa.decimal128(30, 2)),
        "day": pa.array([dt.date(2020, 1, 1), dt.date(2020, 1, 2), None]),
        "moment": pa.array([dt.datetime(2020, 1, 1), dt.datetime(2020, 1, 2), None], pa.timestamp("us")),
        "text": pa.array(["a", "b", None]),
        "kind": pa.array(["a", "b", None], TEXTS),
        "nested": pa.array([{"kind": "a"}, {"kind": "b"}, None], pa.struct([("kind", TEXTS)])),
    }
)
NAMES = {
    r"parquet-cpp(-arrow)?": ["parquet-cpp-arrow", "parquet-cpp"],
    r"parquet-mr( of Drill)?": ["parquet-mr"],
    r"Arrow2.*": ["Arrow2 - Native Rust implementation of Arrow"],
    r"parquet\.?js": ["parquet.js", "parquetjs"],
    r"hyparquet.*": ["hyparquet"],
    r"fastparquet.*": ["fastparquet-python"],
    r"cudf.*": ["cudf"],
    r"Parquet\.Net": ["Parquet.Net"],
}
"""What a writer of the register calls itself in a footer."""


def by(writer: str, content: bytes) -> bytes:
    """A Parquet file of pyarrow's that says that ``writer`` wrote it."""
    length = int.from_bytes(content[-8:-4], "little")
    body, footer = content[: -8 - length], content[-8 - length : -8]
    start = footer.rindex(b"parquet-cpp-arrow version")
    end = start + footer[start - 1]
    changed = footer[: start - 1] + bytes([len(writer)]) + writer.encode() + footer[end:]
    return body + changed + len(changed).to_bytes(4, "little") + b"PAR1"


def written(table: pa.Table, **options: Any) -> bytes:
    """``table`` as pyarrow writes it."""
    sink = pa.BufferOutputStream()
    pq.write_table(table, sink, **options)
    return bytes(sink.getvalue())


def measured(content: bytes) -> dict[str, tuple[Any, Any, int | None, int | None]]:
    """Bounds, nulls and values of each leaf of a file of one row group."""
    footer = read_footer(pa.BufferReader(content))
    group = footer.metadata.row_group(0)
    leaves = FooterPlan.of(footer, None).leaves
    return {leaf.key: leaf.measure(group.column(leaf.index), group.num_rows) for leaf in leaves}


def before(version: tuple[int, ...]) -> tuple[int, ...]:
    """The last version that one may write before ``version``."""
    return (*version[:-1], version[-1] - 1) if version[-1] else (*version[:-2], version[-2] - 1, 9)


def creators(fault: WriterFault) -> list[str]:
    """How files that have ``fault`` name their writer, in its first and its last version."""
    versions = [fault.since or (0, 1), *([before(fault.before)] if fault.before else [(99, 0)])]
    if fault.writer == "parquet-mr of Drill":
        return ["parquet-mr version 1.8.1-drill-r0 (build 6b605a4)"]
    names = NAMES.get(fault.writer, [fault.writer])
    numbered = [f"{name} version {'.'.join(map(str, version))}" for name in names for version in versions]
    return numbered if fault.since else [*names, *numbered]


OF_PARQUET = [fault for fault in WRITER_FAULTS if fault.format == PARQUET]


def test_the_register_names_its_reports() -> None:
    """There are at least 25 entries, each with a public reference and columns that it concerns."""
    assert len(WRITER_FAULTS) >= 25
    assert all("#" in fault.reference or "-" in fault.reference for fault in WRITER_FAULTS)
    assert all(fault.doubt for fault in WRITER_FAULTS)


@pytest.mark.parametrize(
    ("said", "is_believed"),
    [
        ({}, False),
        ({"drill.version": "1.8.0"}, False),
        ({"drill-writer.version": "1"}, False),
        ({"drill-writer.version": "2"}, True),
        ({"drill-writer.version": "x", "is.date.correct": "false"}, False),
        ({"is.date.correct": "true"}, True),
    ],
)
def test_dates_of_drill_are_believed_if_the_file_says_that_they_are_right(
    said: dict[str, str], is_believed: bool
) -> None:
    """As Drill itself decides; a plan made for one of such files does not fit another."""
    day = dt.date(1969, 12, 30)
    writer = "parquet-mr version 1.8.1-drill-r0"
    contents = [
        by(writer, written(pa.table({"d": [day]}).replace_schema_metadata(each)))
        for each in (said, {"drill-writer.version": "2"}, {"drill.version": "1.8.0"})
    ]
    assert measured(contents[0])["`d`"] == ((-2, -2, 0, 1) if is_believed else (None, None, 0, 1))
    plans = Plans(None)
    for content, expected in zip(contents[1:] * 2, [True, False] * 2, strict=True):
        leaf = plans.plan(read_footer(pa.BufferReader(content))).leaves[0]
        assert (leaf.reading is not None) is expected


@pytest.mark.parametrize("fault", OF_PARQUET, ids=lambda fault: f"{fault.writer}, {fault.reference}")
def test_what_the_register_doubts_is_unknown(fault: WriterFault) -> None:
    """In a file of a writer with a fault, the doubted numbers of the columns that it concerns are unknown."""
    content = written(ROWS)
    plan = FooterPlan.of(read_footer(pa.BufferReader(content)), None)
    doubted = 0
    for creator in creators(fault):
        writer = Writer.of_parquet(creator)
        assert fault.is_of(writer), creator
        found = measured(by(creator, content))
        exact = {
            leaf.key: leaf.exact
            for leaf in FooterPlan.of(read_footer(pa.BufferReader(by(creator, content))), None).leaves
        }
        for leaf in plan.leaves:
            column = WrittenColumn(leaf.type, leaf.physical, leaf.path[-1] == "kind", len(leaf.path) > 1)
            if not fault.concerns(column):
                continue
            doubted += 1
            low, high, nulls, values = found[leaf.key]
            if Doubt.NULLS in fault.doubt:
                assert (nulls, values) == (None, None), (creator, leaf.key)
            if Doubt.BOUNDS in fault.doubt:
                assert (low, high) == (None, None), (creator, leaf.key)
            if Doubt.EXACTNESS in fault.doubt:
                assert low is None or not exact[leaf.key], (creator, leaf.key)
    # Of decimals of any length there is no writer at hand.
    assert doubted or fault.concerns(WrittenColumn("VARDECIMAL", "BYTE_ARRAY"))


@pytest.mark.parametrize(
    "fault",
    [fault for fault in OF_PARQUET if fault.doubt & (Doubt.NULLS | Doubt.BOUNDS)],
    ids=lambda fault: f"{fault.writer}, {fault.reference}",
)
def test_what_is_not_believed_is_said_of_the_column(fault: WriterFault) -> None:
    """With the writer, its version and the report, for the notes of prune, ANALYZE and ``describe``."""
    content = written(ROWS)
    for creator in creators(fault):
        writer = Writer.of_parquet(creator)
        plan = FooterPlan.of(read_footer(pa.BufferReader(by(creator, content))), None)
        for leaf in plan.leaves:
            column = WrittenColumn(leaf.type, leaf.physical, leaf.path[-1] == "kind", len(leaf.path) > 1)
            told = plan.schema.by_name[leaf.path[0]].leaf_property(DOUBTED, leaf.path)
            assert (told is not None) == bool(leaf.doubt & (Doubt.NULLS | Doubt.BOUNDS))
            if fault.concerns(column):
                assert told is not None
                assert fault.reference in told
                assert f"in footers of {writer} are not believed" in told
                assert ("bounds" in told, "null counts" in told) == (
                    Doubt.BOUNDS in leaf.doubt,
                    Doubt.NULLS in leaf.doubt,
                )


@pytest.mark.parametrize("fault", [fault for fault in OF_PARQUET if fault.before], ids=lambda fault: fault.reference)
def test_a_fault_ends_with_its_version(fault: WriterFault) -> None:
    """The version that mended a fault does not have it, nor has another writer."""
    assert fault.before is not None
    name = NAMES.get(fault.writer, [fault.writer])[0]
    assert not fault.is_of(Writer.of_parquet(f"{name} version {'.'.join(map(str, fault.before))} (build 1)"))
    assert not fault.is_of(Writer.of_parquet(f"another-{name} version 0.1"))


@pytest.mark.parametrize(
    ("created_by", "name", "version"),
    [
        ("parquet-mr version 1.12.2 (build 77e30c8093386ec52c3cfa6c34b7ef3321322c94)", "parquet-mr", (1, 12, 2)),
        ("parquet-mr version 1.8.1-drill-r0 (build 6b605a4)", "parquet-mr of Drill", (1, 8, 1)),
        ("parquet-mr (build 32c46643845ea8a705c35d4ec8fc654cc8ff816d)", "parquet-mr", ()),
        ("impala version 2.3.0-cdh5.5.0 (build 1)", "impala", (2, 3, 0)),
        ("Parquet.Net v4.5.0 (build 12)", "Parquet.Net", (4, 5, 0)),
        ("Polars (python) version 2.1.0 (build 7f902bd)", "Polars", (2, 1, 0)),
        ("DuckDB version v1.5.2 (build 8d78)", "DuckDB", (1, 5, 2)),
        ("ClickHouse v25.3.1.1", "ClickHouse", (25, 3, 1, 1)),
        ("Arrow2 - Native Rust implementation of Arrow", "Arrow2 - Native Rust implementation of Arrow", ()),
        ("", "", ()),
        (None, "", ()),
    ],
)
def test_writers_are_told_by_created_by(created_by: str | None, name: str, version: tuple[int, ...]) -> None:
    """Names and versions are found in the spellings that writers have for them."""
    assert Writer.of_parquet(created_by) == Writer(name, version)


def test_a_writer_without_known_faults_is_believed() -> None:
    """Numbers of today's Arrow and of parquet-mr are believed, but for nulls of dictionaries in structs."""
    for creator in ("parquet-cpp-arrow version 26.0.1", "parquet-mr version 1.15.2"):
        found = measured(by(creator, written(ROWS)))
        unknown = {key for key, numbers in found.items() if None in numbers}
        assert unknown == ({"`nested`.`kind`"} if "arrow" in creator else set())


def test_orc_has_its_own_faults() -> None:
    """Floats of no writer, texts before HIVE-8732, and timestamps before ORC-135."""
    old, new = Writer.of_orc(0, 0), Writer.of_orc(0, 9)
    doubts = [
        Doubt.BOUNDS in writer.doubts(WrittenColumn(type_), ORC)
        for writer in (old, new)
        for type_ in ("FLOAT8", "VARCHAR", "TIMESTAMP", "BIGINT")
    ]
    assert doubts == [True, True, True, False, True, False, False, False]
    assert Doubt.BOUNDS in Writer.of_orc(5, 9).doubts(WrittenColumn("TIMESTAMP"), ORC)


def test_plans_of_one_schema_keep_dictionaries_apart() -> None:
    """Files whose Parquet schema and writer are the same differ by what Arrow wrote them from."""
    plain = ROWS.select(["nested"]).cast(pa.schema([("nested", pa.struct([("kind", pa.string())]))]))
    plans = Plans(None)
    doubts = []
    for table in (ROWS.select(["nested"]), plain, ROWS.select(["nested"])):
        footer = read_footer(pa.BufferReader(written(table)))
        doubts.append(plans.plan(footer).leaves[0].doubt)
    assert doubts == [Doubt.NULLS, Doubt.NOTHING, Doubt.NULLS]
    unsaid = read_footer(pa.BufferReader(written(plain, store_schema=False)))
    assert plans.plan(unsaid).leaves[0].doubt == Doubt.NULLS


def test_files_of_polars_are_believed_where_polars_is_right(tmp_path: Path) -> None:
    """Polars bounds booleans beyond their values, and its other bounds are those of the data, as DuckDB finds them."""
    path = tmp_path / "a.parquet"
    pl.DataFrame({"b": [True, True, None], "i": [3, 1, None]}).write_parquet(path)
    footer = read_footer(str(path))
    leaves = {leaf.key: leaf for leaf in FooterPlan.of(footer, None).leaves}
    assert not leaves["`b`"].exact
    [low, high] = duckdb.read_parquet(str(path)).aggregate("min(i), max(i)").fetchall()[0]
    chunk = footer.metadata.row_group(0).column(1)
    assert leaves["`i`"].measure(chunk, 3) == (low, high, 1, 2)


def number(value: int, width: int = 4) -> bytes:
    """A bound in bytes."""
    return value.to_bytes(width, "little", signed=value < 0)


CONTRADICTIONS: dict[str, tuple[pa.Array[Any], list[tuple[bytes, bytes]]]] = {
    "UINT_8 of 32 bits": (pa.array([17, 34], pa.uint8()), [(number(34), b"\xff\xff\xff\xff")]),
    "INT_8 beyond": (pa.array([17, 34], pa.int8()), [(number(34), number(300))]),
    "INT_16 beyond": (pa.array([4660, 22136], pa.int16()), [(number(4660), number(-40_000))]),
    "UINT_16 beyond": (pa.array([17, 34], pa.uint16()), [(number(34), number(70_000))]),
    "min above max": (pa.array([17, 34], pa.int32()), [(number(17), number(99))]),
    "digits beyond": (
        pa.array([Decimal(17), Decimal(34)], pa.decimal32(3, 0)),
        [(number(34), number(1000))],
    ),
    "time beyond the day": (
        pa.array([17_000_001, 34_000_002], pa.time64("us")),
        [(number(34_000_002, 8), number(86_400_000_000, 8))],
    ),
}


@pytest.mark.parametrize("name", CONTRADICTIONS)
def test_bounds_that_a_type_cannot_hold_are_unknown(name: str) -> None:
    """Bounds that contradict the type or each other are unknown, and the counts beside them stay."""
    array, changes = CONTRADICTIONS[name]
    content = written(pa.table({"a": array}), store_decimal_as_integer=True, use_dictionary=False)
    length = int.from_bytes(content[-8:-4], "little")
    body, footer = content[: -8 - length], content[-8 - length :]
    assert None not in measured(content)["`a`"]
    for old, new in changes:
        assert old in footer
        footer = footer.replace(old, new)
    assert measured(body + footer)["`a`"] == (None, None, 0, 2)


@pytest.mark.parametrize(
    ("said", "expected"),
    [(3, (17, 17, None, None)), (2, (None, None, None, None)), (-1, (17, 17, None, None))],
)
def test_counts_that_do_not_add_up_are_unknown(said: int, expected: tuple[Any, ...]) -> None:
    """More nulls than rows, fewer than none, or bounds of no values."""
    content = written(pa.table({"a": pa.array([17, None], pa.int32())}), use_dictionary=False)
    # null_count, then max_value, in Thrift's compact form, whose numbers are zigzag.
    zigzag = 2 * said if said >= 0 else -2 * said - 1
    old, new = b"\x16\x02\x28\x04", bytes([0x16, zigzag]) + b"\x28\x04"
    assert old in content
    assert measured(content.replace(old, new))["`a`"] == expected


def test_datasets_skip_nothing_by_doubted_footers(tmp_path: Path) -> None:
    """A dataset that Arrow filters finds the rows that a wrong footer would hide."""
    store = pa.fs.LocalFileSystem()

    def found(path: Path) -> set[int]:
        part: Any = PARQUET_READER.make_fragment(str(path), store)
        dataset = ParquetFiles([part], pa.schema([("a", pa.uint8())]), PARQUET_READER, store)
        question = pc.field("a") == 17
        asked = dataset.to_table(filter=question).num_rows
        return {asked, dataset.filter(question).to_table().num_rows, dataset.filter(question).count_rows()}

    content = written(pa.table({"a": pa.array([17, 34], pa.uint8())}), use_dictionary=False)
    right, wrong = tmp_path / "right.parquet", tmp_path / "wrong.parquet"
    right.write_bytes(content)
    length = int.from_bytes(content[-8:-4], "little")
    footer = content[-8 - length :].replace(number(17), b"\xff\xff\xff\xff").replace(number(34), b"\xff\xff\xff\xff")
    wrong.write_bytes(content[: -8 - length] + footer)
    assert found(right) == found(wrong) == {1}


def test_decimals_of_orc_java_1_5_have_no_bounds() -> None:
    """ORC-517: these releases wrote 0 as both bounds; neither earlier files nor other writers did."""
    decimals = WrittenColumn("VARDECIMAL")
    doubts = {version: Writer.of_orc(0, version).doubts(decimals, ORC) for version in (5, 6, 7, 9)}
    assert doubts == {5: Doubt.NOTHING, 6: Doubt.BOUNDS, 7: Doubt.NOTHING, 9: Doubt.NOTHING}
    assert Writer.of_orc(1, 6).doubts(decimals, ORC) is Doubt.NOTHING
