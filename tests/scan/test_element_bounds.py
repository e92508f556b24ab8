"""Conditions on elements, keys and values read no row group whose footer excludes them, and lose no row at any door."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from support.footers import change_footer
from support.tables_of_kinds import settings_of_kinds
from thrift.Thrift import TType

from metastore.lake.formats.parquet.element_bounds import ElementProbe, groups_with_elements
from metastore.predicates.columns import Columns
from metastore.predicates.condition import DUCKDB, AllOf, Condition
from metastore.scan.probes import required_elements
from metastore.scan.rows import read_rows
from metastore.session import Session, connect

LISTS: Any = pa.list_(pa.int64())
TEXTS: Any = pa.list_(pa.string())
PAIRS: Any = pa.map_(pa.string(), pa.int64())
ROWS: Any = pa.table(
    {
        "id": pa.array(range(8), pa.int64()),
        "tags": pa.array([[10, 15], [12], [20, None], [], None, [None], [-5, 30], [40]], LISTS),
        "words": pa.array([["a"], ["b", None], ["x"], [], None, ["y"], ["m"], ["\U0001f600"]], TEXTS),
        "pairs": pa.array(
            [[("a", 1)], [("b", 2)], [("x", 5)], [], None, [("y", None)], [("m", 9)], [("n", -1)]], PAIRS
        ),
    }
)
"""Four row groups of two rows; in the third no list has a value but null."""


@pytest.fixture
def session(tmp_path: Path) -> Iterator[Session]:
    """A table of one file."""
    place = tmp_path / "lake" / "t"
    place.mkdir(parents=True)
    pq.write_table(ROWS, place / "a.parquet", row_group_size=2)
    with connect(settings_of_kinds(tmp_path)) as made:
        made.analyze("dfs.w.t")
        yield made


def groups_read(scan: Any) -> int:
    """Row groups that a scan reads."""
    return sum(len(part.row_groups) for part in scan._dataset(["id"]).get_fragments())


@pytest.mark.parametrize(
    ("spark", "duck", "groups"),
    [
        ("array_contains(tags, 12)", "list_contains(tags, 12)", 3),
        ("array_contains(tags, 20)", "list_contains(tags, 20)", 3),
        ("array_contains(tags, 99)", "list_contains(tags, 99)", 1),
        ("array_contains(tags, -5) AND id > 0", "list_contains(tags, -5) AND id > 0", 2),
        ("array_contains(words, 'a')", "list_contains(words, 'a')", 2),
        ("array_contains(words, '\U0001f600')", "list_contains(words, '\U0001f600')", 1),
        ("pairs['x'] = 5", "pairs['x'] = 5", 2),
        ("pairs['x'] = 1", "pairs['x'] = 1", 1),
        ("5 = pairs['x']", "5 = pairs['x']", 2),
        ("array_contains(tags, 99) OR id = 0", "list_contains(tags, 99) OR id = 0", 4),
        ("tags[0] = 99", "tags[1] = 99", 4),
    ],
)
def test_every_door_gives_the_rows(session: Session, spark: str, duck: str, groups: int) -> None:
    """Of no more than ``groups`` row groups; the rows are those that DuckDB finds in the table itself."""
    expected = [row for (row,) in duckdb.execute(f"SELECT id FROM ROWS WHERE {duck} ORDER BY id").fetchall()]
    scan = session.tables.scan("dfs.w.t", spark)
    assert groups_read(scan) <= groups
    in_tasks = [row["id"] for batch in read_rows(scan.chunk) for row in batch.to_pylist()]
    assert set(expected) <= set(in_tasks)
    found: tuple[Any, ...] = (
        scan.to_arrow(),
        scan.to_polars().to_arrow(),
        session.tables.scan("dfs.w.t", spark, row_id=True).to_arrow(),
        session.sql(f"SELECT id FROM dfs.w.t WHERE {duck}"),
    )
    for rows in found:
        assert sorted(rows["id"].to_pylist()) == expected
    assert scan.count() == len(expected)


def test_what_is_needed_is_read_in_both_dialects(session: Session) -> None:
    """Of tests that every row passes; places in lists, other types and other columns need nothing."""
    columns: Columns = session.tables.scan("dfs.w.t").plan.columns
    tag, key, value = ElementProbe("tags", 0, 1, 12), ElementProbe("pairs", 0, 2, "x"), ElementProbe("pairs", 1, 2, 5)
    for text, found in {
        "array_contains(tags, 12)": (tag,),
        "(array_contains(tags, 12)) AND (id = 1 AND map_contains_key(pairs, 'x'))": (tag, key),
        "element_at(pairs, 'x') = 5": (key, value),
        "array_contains(tags, 12) OR id = 1": (),
        "NOT array_contains(tags, 12)": (),
        "array_contains(tags, '12')": (),
        "array_contains(tags, 1.5)": (),
        "array_contains(tags, true)": (),
        "array_contains(tags, null)": (),
        "array_contains(tags, id)": (),
        "array_contains(array(1, 2), 12)": (),
        "tags[0] = 12": (),
        "pairs['x'] > 5": (key,),
        "pairs['x'] IS NULL": (),
    }.items():
        assert required_elements(text, columns) == found, text
    for text in ("list_contains(tags, 12)", "array_has(tags, 12)", "12 IN tags"):
        tree: Any = DUCKDB.sql().parse(text)[0]
        assert required_elements(Condition(tree, text, DUCKDB), columns) == (tag,), text
    asked: Any = DUCKDB.sql().parse("12 IN tags")[0]
    through_a_view = AllOf((Condition.of_spark("map_contains_key(pairs, 'x')"), Condition(asked, "12 IN tags", DUCKDB)))
    assert required_elements(through_a_view, columns) == (key, tag)


@given(
    st.lists(st.none() | st.lists(st.none() | st.integers(-(2**63), 2**63 - 1), max_size=3), min_size=1, max_size=12),
    st.integers(-(2**63), 2**63 - 1),
    st.randoms(use_true_random=False),
)
@settings(suppress_health_check=[HealthCheck.too_slow], deadline=None)
def test_no_row_group_with_the_element_is_left_out(lists: list[Any], value: int, random: Any) -> None:
    """Whatever is null, empty or missing."""
    present = [each for row in lists for each in row or () if each is not None]
    wanted = random.choice([*present, value])
    sink = pa.BufferOutputStream()
    pq.write_table(pa.table({"v": pa.array(lists, LISTS)}), sink, row_group_size=2)
    metadata = pq.read_metadata(pa.BufferReader(sink.getvalue()))
    left = groups_with_elements(metadata, [ElementProbe("v", 0, 1, wanted)], range(metadata.num_row_groups))
    with_it = {place // 2 for place, row in enumerate(lists) if wanted in (row or ())}
    assert with_it <= set(left)


def test_bounds_of_an_untrusted_writer_exclude_nothing(tmp_path: Path) -> None:
    """Nor do those of a column that is another's, or of another type."""
    path = tmp_path / "a.parquet"
    pq.write_table(ROWS, path)
    probe = ElementProbe("words", 0, 1, "\U0001f601")
    assert groups_with_elements(pq.read_metadata(path), [probe], [0]) == []
    change_footer(path, lambda footer: footer.update({6: (TType.STRING, b"parquet-mr version 1.8.1 (build 1)")}))
    metadata = pq.read_metadata(path)
    assert groups_with_elements(metadata, [probe], [0]) == [0]
    for other in (ElementProbe("tags", 0, 1, "zz"), ElementProbe("tags", 1, 2, 99), ElementProbe("none", 0, 1, 99)):
        assert groups_with_elements(metadata, [other], [0]) == [0]
    pq.write_table(ROWS.select(["tags"]).append_column("tags.x", ROWS["tags"]), path)
    assert groups_with_elements(pq.read_metadata(path), [ElementProbe("tags", 0, 1, 99)], [0]) == [0]
