"""Conditions on what lists and maps hold skip files at every door, and lose no row."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from fastavro import parse_schema, writer
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pyarrow import orc
from support.tables_of_kinds import settings_of_kinds

from metastore.analyze.units.partial_aggregates import file_parts
from metastore.model.elements import is_element
from metastore.model.statistics import ColumnStatistics
from metastore.model.vocabulary import MetadataType
from metastore.session import Session, connect

SCHEMA: Any = pa.schema(
    [
        ("id", pa.int64()),
        ("tags", pa.list_(pa.int64())),
        ("words", pa.list_(pa.string())),
        ("reals", pa.list_(pa.float64())),
        ("pairs", pa.map_(pa.string(), pa.int64())),
        ("st", pa.struct([("tags", pa.list_(pa.int32()))])),
        ("deep", pa.list_(pa.list_(pa.int64()))),
    ]
)


def file_of(number: int) -> pa.Table:
    """Rows whose elements are between ten times ``number`` and 9 more, beside nulls and empty containers."""
    low = 10 * number
    rows: list[dict[str, Any]] = [
        {
            "id": low,
            "tags": [low, low + 9],
            "words": [f"w{number}", None],
            "reals": [low + 0.5],
            "pairs": [(f"k{number}", low)],
            "st": {"tags": [low]},
            "deep": [[low]],
        },
        {"id": low + 1, "tags": None, "words": [], "reals": [None], "pairs": [], "st": {"tags": None}},
        {"id": low + 2, "tags": [], "words": None, "reals": [float("nan")], "pairs": [("z", None)], "st": None},
    ]
    return pa.Table.from_pylist(rows, SCHEMA)


ALL_ROWS: Any = pa.concat_tables([file_of(number) for number in range(4)])


@pytest.fixture
def session(tmp_path: Path) -> Iterator[Session]:
    """Settings of an empty lake."""
    (tmp_path / "lake" / "t").mkdir(parents=True)
    with connect(settings_of_kinds(tmp_path)) as made:
        yield made


def write_avro(rows: pa.Table, path: Path) -> None:
    """The columns of ``rows`` that Avro has words for."""
    lists = {"tags": "long", "words": "string", "reals": "double"}
    fields: list[Any] = [{"name": "id", "type": "long"}]
    fields += [{"name": name, "type": ["null", {"type": "array", "items": ["null", of]}]} for name, of in lists.items()]
    fields.append({"name": "pairs", "type": ["null", {"type": "map", "values": ["null", "long"]}]})
    records = [{**row, "pairs": dict(row["pairs"] or ())} for row in rows.drop_columns(["st", "deep"]).to_pylist()]
    with path.open("wb") as file:
        writer(file, parse_schema({"name": "r", "type": "record", "fields": fields}), records)


def write_json(rows: pa.Table, path: Path) -> None:
    """``rows`` without what JSON has no words for."""
    records = rows.drop_columns(["reals", "pairs"]).to_pylist()
    path.write_text("".join(f"{json.dumps(row)}\n" for row in records))


WRITERS: dict[str, Callable[[Any, Path], Any]] = {
    "parquet": pq.write_table,
    "orc": orc.write_table,
    "avro": write_avro,
    "json": write_json,
}

ASKED = [
    ("array_contains(tags, 19)", "list_contains(tags, 19)", 1, "tags"),
    ("array_contains(tags, 99)", "99 IN tags", 0, "tags"),
    ("array_contains(tags, 15)", "15 = ANY(tags)", 1, "tags"),
    ("arrays_overlap(tags, array(19, 30))", "list_has_any(tags, [19, 30])", 2, "tags"),
    ("array_contains(tags, 10) AND array_contains(tags, 19)", "list_has_all(tags, [10, 19])", 1, "tags"),
    ("array_contains(tags, 10) AND array_contains(tags, 30)", "tags @> [10, 30]", 0, "tags"),
    ("array_contains(words, 'w2')", "array_has(words, 'w2')", 1, "words"),
    ("array_contains(reals, 20.5)", "list_contains(reals, 20.5)", 1, "reals"),
    ("array_contains(st.tags, 30)", "list_contains(st.tags, 30)", 1, "st"),
    ("map_contains_key(pairs, 'k1')", "map_contains(pairs, 'k1')", 2, "pairs"),
    ("map_contains_key(pairs, 'zz')", "map_contains(pairs, 'zz')", 0, "pairs"),
    ("pairs['k3'] = 30", "pairs['k3'] = 30", 1, "pairs"),
    ("30 <= pairs['k3']", "pairs['k3'] >= 30", 1, "pairs"),
    ("element_at(pairs, 'k2') IN (19, 20)", "pairs['k2'] IN (19, 20)", 1, "pairs"),
    ("pairs['k2'] BETWEEN 18 AND 21", "pairs['k2'] BETWEEN 18 AND 21", 1, "pairs"),
    ("pairs['k1'] <> 10", "pairs['k1'] <> 10", 1, "pairs"),
    ("pairs['zz'] IS NOT NULL", "pairs['zz'] IS NOT NULL", 0, "pairs"),
    ("NOT array_contains(tags, 99)", "NOT list_contains(tags, 99)", 4, "tags"),
    ("pairs['k1'] IS NULL", "pairs['k1'] IS NULL", 4, "pairs"),
    ("NOT (pairs['k1'] = 10)", "NOT (pairs['k1'] = 10)", 4, "pairs"),
    ("array_contains(tags, 99) OR id = 1", "list_contains(tags, 99) OR id = 1", 1, "tags"),
    ("array_contains(deep[0], 10)", "list_contains(deep[1], 10)", 4, "deep"),
]
"""A condition in both dialects, the most files that are read for it, and its column."""


@pytest.mark.parametrize("format_", WRITERS)
def test_every_door_reads_the_files_that_may_match(session: Session, tmp_path: Path, format_: str) -> None:
    """The rows are those of DuckDB over all rows."""
    for number in range(4):
        WRITERS[format_](file_of(number), tmp_path / "lake" / "t" / f"{number}.{format_}")
    session.analyze("dfs.w.t", format=format_, bounds="data")
    has = set(session.tables.scan("dfs.w.t").columns)
    for spark, duck, files, column in ASKED:
        if column not in has:
            continue
        expected = [row for (row,) in duckdb.execute(f"SELECT id FROM ALL_ROWS WHERE {duck} ORDER BY id").fetchall()]
        assert len(session.prune("dfs.w.t", spark).paths) <= files, (format_, spark)
        in_sql: Any = session.sql(f"SELECT id FROM dfs.w.t WHERE {duck} ORDER BY id")["id"].to_pylist()
        assert in_sql == expected, duck
        if "overlap" in spark or "map_contains" in spark:
            continue  # without Spark, no engine has it by its name
        scan = session.tables.scan("dfs.w.t", spark)
        assert len(scan.plan.files) <= files, spark
        in_scan: Any = scan.to_arrow()["id"].to_pylist()
        assert sorted(in_scan) == expected, spark
        assert scan.count() == len(expected), spark


VALUES = st.none() | st.integers(-3, 3)
LISTS = st.lists(st.none() | st.lists(VALUES, max_size=3), min_size=1, max_size=6)
MAPS = st.lists(st.none() | st.dictionaries(st.sampled_from("abc"), VALUES, max_size=2), min_size=1, max_size=6)


@pytest.mark.exhaustive
@given(st.lists(st.tuples(LISTS, MAPS), min_size=1, max_size=3), st.integers(-4, 4), st.sampled_from("abcd"))
@settings(
    max_examples=25,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
def test_no_row_is_lost(
    tmp_path_factory: pytest.TempPathFactory, files: list[tuple[Any, Any]], value: int, key: str
) -> None:
    """Whatever is null, empty or missing, in files of two writers; counts from statistics agree."""
    place = tmp_path_factory.mktemp("lake")
    (place / "lake" / "t").mkdir(parents=True)
    of_list, of_map = pa.list_(pa.int64()), pa.map_(pa.string(), pa.int64())
    for number, (lists, maps) in enumerate(files):
        count = max(len(lists), len(maps))
        tags = pa.array([*lists, *[None] * (count - len(lists))], of_list)
        entries = [None if each is None else list(each.items()) for each in maps]
        pairs = pa.array([*entries, *[None] * (count - len(entries))], of_map)
        part = pa.table({"tags": tags, "m": pairs})
        path = place / "lake" / "t" / f"{number}.parquet"
        if number % 2:
            duckdb.from_arrow(part).write_parquet(str(path))
        else:
            pq.write_table(part, path, row_group_size=2)
    asked = [
        f"list_contains(tags, {value})",
        f"list_has_any(tags, [{value}, 3])",
        f"list_has_all(tags, [{value}, 0])",
        f"NOT list_contains(tags, {value})",
        f"m['{key}'] = {value}",
        f"m['{key}'] < {value}",
        f"m['{key}'] <> {value}",
        f"NOT (m['{key}'] = {value})",
        f"m['{key}'] IS NOT NULL OR list_contains(tags, {value})",
        f"map_contains(m, '{key}') AND m['{key}'] IS NULL",
    ]
    whole = f"read_parquet('{place}/lake/t/*.parquet')"
    with connect(settings_of_kinds(place)) as session:
        for bounds in ("footers", "data"):
            session.analyze("dfs.w.t", bounds=bounds)
            for where in asked:
                [(expected,)] = duckdb.execute(f"SELECT count(*) FROM {whole} WHERE {where}").fetchall()
                assert session.sql(f"SELECT * FROM dfs.w.t WHERE {where}").num_rows == expected, where
                # In Spark, whether a list with a null contains a value may be NULL; NOT is then NULL as well.
                if "list_has" not in where and "map_contains" not in where and "NOT list" not in where:
                    said = where.replace("list_contains", "array_contains")
                    assert session.tables.scan("dfs.w.t", said).count() == expected, said


def test_keys_that_are_numbers_are_no_positions(session: Session, tmp_path: Path) -> None:
    """DuckDB counts positions of lists from 1; the key of a map is what is written."""
    pairs = pa.array([[(5, 50)]], pa.map_(pa.int64(), pa.int64()))
    pq.write_table(pa.table({"m": pairs}), tmp_path / "lake" / "t" / "a.parquet")
    session.analyze("dfs.w.t")
    assert session.sql("SELECT * FROM dfs.w.t WHERE m[5] = 50").num_rows == 1
    assert session.tables.scan("dfs.w.t", "m[5] = 50").count() == 1
    assert session.prune("dfs.w.t", "m[4] = 50").paths == []


def test_files_of_an_older_version_leave_the_bounds_of_all_unknown(session: Session, tmp_path: Path) -> None:
    """Their units have no statistics of elements; then nothing is said of their segment."""
    for number in range(2):
        pq.write_table(file_of(number), tmp_path / "lake" / "t" / f"{number}.parquet")
    session.analyze("dfs.w.t")
    files: Any = session.tables.read().metadata_types(MetadataType.FILE).to_arrow().sort_by("path")
    root = str(tmp_path / "lake" / "t")
    assert file_parts(files, root)[0].statistics["`tags`.`[element]`"].max == 19
    old = [[pair for pair in pairs if "[element]" not in pair[0]] for pairs in files["columnsStatistics"].to_pylist()]
    place, type_ = files.schema.get_field_index("columnsStatistics"), files.schema.field("columnsStatistics").type
    mixed = pa.array([files["columnsStatistics"][0].as_py(), old[1]], type_)
    [part] = file_parts(files.set_column(place, files.schema.field(place), mixed), root)
    assert part.statistics["`tags`.`[element]`"].max is None
    assert not part.statistics["`tags`.`[element]`"].all_null


def test_spellings_of_one_column_are_one(session: Session, tmp_path: Path) -> None:
    """Columns that differ in case only keep the bounds of their elements."""
    for number, name in enumerate(("tags", "Tags")):
        rows = file_of(number).select(["id", "tags"]).rename_columns(["id", name])
        pq.write_table(rows, tmp_path / "lake" / "t" / f"{number}.parquet")
    session.analyze("dfs.w.t")
    for value, found in ((9, 1), (19, 1), (99, 0)):
        assert len(session.prune("dfs.w.t", f"array_contains(tags, {value})").paths) == found
        assert session.tables.scan("dfs.w.t", f"array_contains(tags, {value})").count() == found


def test_only_bounds_and_emptiness_are_kept(session: Session, tmp_path: Path) -> None:
    """Counts of what lists hold would count neither rows nor values, and PARTITION units need whole columns."""
    pq.write_table(
        pa.table({"tags": pa.array([[1], None], pa.list_(pa.int64()))}), tmp_path / "lake" / "t" / "a.parquet"
    )
    session.analyze("dfs.w.t", bounds="data")
    units = session.tables.read().metadata_types(MetadataType.ALL).to_arrow()
    texts = [text for pairs in units["columnsStatistics"].to_pylist() for key, text in pairs or () if "[" in key]
    assert texts
    for known in map(ColumnStatistics.from_json, texts):
        assert (known.nulls, known.non_nulls, known.rows) == (None, None, None)
    assert not any(is_element(tuple(column.split("."))) for column in units["column"].to_pylist() if column)


NULLS_AND_NUMBERS: list[list[int | None]] = [[None, None, None], [1, 2, 3]]


@pytest.mark.parametrize(
    "condition",
    [
        "NOT (id = SOME(tags))",
        "NOT (NULL = ANY(tags))",
        "NOT (id = ANY(tags))",
        "NULL <> ALL(tags)",
        "id > ALL(tags)",
        "NOT (3 < ANY(tags))",
    ],
)
def test_a_comparison_with_no_element_is_true_or_false_even_of_null(
    session: Session, tmp_path: Path, condition: str
) -> None:
    """So nothing is concluded from the NULL: these hold for the empty list."""
    tags = pa.array([[], [1], None], pa.list_(pa.int64()))
    folder = tmp_path / "lake" / "t"
    folder.mkdir(parents=True, exist_ok=True)
    for number, ids in enumerate(NULLS_AND_NUMBERS):
        columns = {"id": pa.array(ids, pa.int64()), "tags": tags, "n": pa.array([number] * 3)}
        pq.write_table(pa.table(columns), folder / f"{number}")
    rows = pa.concat_tables([pq.read_table(folder / name) for name in ("0", "1")])
    session.analyze("dfs.w.t", format="parquet")
    query = f"SELECT id, tags, n FROM {{}} WHERE {condition} ORDER BY ALL"
    with duckdb.connect() as judge:
        judge.register("rows", rows)
        expected = judge.execute(query.format("rows")).fetchall()
    assert [tuple(row.values()) for row in session.sql(query.format("dfs.w.t")).to_pylist()] == expected
    assert len(expected) >= 2
