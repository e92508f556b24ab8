"""publish_table, judged by PyIceberg and by DuckDB over the plain files."""

from __future__ import annotations

import datetime as dt
import json
import shutil
from collections.abc import Mapping
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from procedures.publishing.conftest import NAME, SOURCE, Shop
from pyiceberg.manifest import ManifestEntryStatus

from metastore.errors import InvalidRequestError, NotFoundError, ProcedureError
from metastore.procedures.publishing.publish import ENTRIES_A_MANIFEST

DAYS = [f"2026-11-{day:02d}" for day in range(1, 6)]


def _rows(first: int, **more: Any) -> dict[str, Any]:
    numbers = list(range(first, first + 10))
    return {"id": numbers, "name": [f"n{number}" if number % 3 else None for number in numbers], **more}


def _fill(shop: Shop, files: int = 2) -> None:
    for place, day in enumerate(DAYS):
        for file in range(files):
            shop.write(f"day={day}/{file}.parquet", _rows(100 * place + 10 * file), row_group_size=5)


ALL_TYPES = pa.table(
    {
        "small": pa.array([1, None], pa.int8()),
        "id": pa.array([1, 2], pa.int32()),
        "big": pa.array([1, 2**40], pa.int64()),
        "real": pa.array([1.5, None], pa.float32()),
        "double": pa.array([-0.0, 2.5], pa.float64()),
        "exact": pa.array([Decimal("-1.50"), Decimal("299.25")], pa.decimal128(9, 2)),
        "flag": pa.array([True, False]),
        "text": pa.array(["a", "ü" * 70]),
        "bytes": pa.array([b"\xff" * 70, b""]),
        "fixed": pa.array([b"abcd", None], pa.binary(4)),
        "day_": pa.array([dt.date(1969, 1, 1), dt.date(2026, 1, 1)]),
        "clock": pa.array([dt.time(1, 2, 3, 4), None], pa.time64("us")),
        "local": pa.array([dt.datetime(2026, 1, 1, 0, 0, 0, 1), None], pa.timestamp("us")),
        "instant": pa.array([dt.datetime(2026, 1, 1), None], pa.timestamp("us", "UTC")),
        "struct": pa.array([{"a": 1, "b": "x"}, None]),
        "list": pa.array([[1, 2], None]),
        "map": pa.array([[("k", 1)], None], pa.map_(pa.string(), pa.int64())),
    }
)


@pytest.mark.parametrize("format_version", [2, 3])
def test_rows_are_those_of_the_plain_files(shop: Shop, format_version: int) -> None:
    """All types of Iceberg, in two directories, are the same to PyIceberg and to DuckDB over the files."""
    shop.write("day=2026-11-01/a.parquet", ALL_TYPES)
    shop.write("day=2026-11-02/b.parquet", ALL_TYPES.slice(1))
    assert shop.publish(format_version=format_version)["outcome"] == "created"
    assert shop.table.format_version == format_version
    assert shop.rows() == shop.plain()
    assert {field.name for field in shop.table.spec().fields} == {"day"}


def test_bounds_and_counts_are_those_of_the_rows(shop: Shop) -> None:
    """Exact bounds, nulls counted, offsets of row groups; a column that a file lacks is all null in it."""
    shop.write("a.parquet", _rows(0, extra=list(range(10))), row_group_size=5)
    shop.write("b.parquet", _rows(10))
    shop.publish()
    files = {Path(row["file_path"]).name: row for row in shop.table.inspect.files().to_pylist()}
    first, second = (files[name]["readable_metrics"] for name in ("a.parquet", "b.parquet"))
    assert (first["id"]["lower_bound"], first["id"]["upper_bound"], first["id"]["null_value_count"]) == (0, 9, 0)
    assert (first["name"]["lower_bound"], first["name"]["null_value_count"]) == ("n1", 4)
    assert (second["extra"]["value_count"], second["extra"]["null_value_count"]) == (10, 10)
    groups = pq.ParquetFile(shop.root / "a.parquet").metadata
    starts = [groups.row_group(number).column(0) for number in range(groups.num_row_groups)]
    assert files["a.parquet"]["split_offsets"] == [
        min(one.data_page_offset, one.dictionary_page_offset or one.data_page_offset) for one in starts
    ]
    assert files["a.parquet"]["record_count"] == 10
    assert files["a.parquet"]["file_size_in_bytes"] == (shop.root / "a.parquet").stat().st_size


@pytest.mark.parametrize(
    ("condition", "files"),
    [("id < 10", 1), ("day = '2026-11-02'", 2), ("name = 'n401'", 2), ("extra > 5", 1), ("extra IS NULL", 10)],
)
def test_files_are_planned_as_few_as_hold_rows(shop: Shop, condition: str, files: int) -> None:
    """PyIceberg opens only the files whose bounds, counts or directory fit."""
    _fill(shop)
    shop.write(f"day={DAYS[0]}/9.parquet", _rows(900, extra=[9] * 10))
    shop.publish()
    assert shop.planned(condition) == files


def test_publication_opens_no_data_file(shop: Shop) -> None:
    """Units say everything: a publication succeeds after the files are gone."""
    _fill(shop)
    shop.session.analyze(SOURCE)
    for path in shop.root.rglob("*.parquet"):
        path.unlink()
    assert shop.publish_stored()["files"] == 10


def test_manifests_are_small_and_clustered_by_directory(shop: Shop) -> None:
    """No manifest has more entries than the limit, and each spans a run of directories."""
    rows = pa.table({"id": [1]})
    for number in range(3):
        for file in range(ENTRIES_A_MANIFEST // 2 + 1):
            shop.write(f"k={number}/{file}.parquet", rows)
    assert shop.publish()["written_manifests"] == 2
    manifests = shop.table.current_snapshot().manifests(shop.table.io)  # type: ignore[union-attr] # there is one
    assert [manifest.added_files_count for manifest in manifests] == [2_000, 1_003]


# -- the difference


def _manifests(shop: Shop) -> set[str]:
    snapshot = shop.table.current_snapshot()
    assert snapshot is not None
    return {manifest.manifest_path for manifest in snapshot.manifests(shop.table.io)}


def test_an_unchanged_table_is_not_published_again(shop: Shop) -> None:
    """Neither the same version nor a newer one with the same units writes anything."""
    _fill(shop)
    first = shop.publish()
    location = shop.table.metadata_location
    assert shop.publish()["outcome"] == "unchanged"
    other = shop.root.parent / "other"
    other.mkdir()
    pq.write_table(pa.table({"x": [1]}), other / "a.parquet")
    shop.session.analyze("dfs.shop.other")
    assert (again := shop.publish_stored())["outcome"] == "unchanged"
    assert (again["snapshot_id"], shop.table.metadata_location) == (first["snapshot_id"], location)


def test_each_publication_is_one_snapshot_of_the_difference(shop: Shop) -> None:
    """Files that came, changed and went are one snapshot; its summary names the version and nothing else of ours."""
    _fill(shop)
    shop.publish()
    shop.write(f"day={DAYS[1]}/0.parquet", _rows(7_000))
    shop.write("day=2026-12-01/0.parquet", _rows(8_000))
    (shop.root / f"day={DAYS[4]}/1.parquet").unlink()
    row = shop.publish()
    assert (row["outcome"], row["added_files"], row["removed_files"], row["files"]) == ("changed", 2, 2, 10)
    snapshots = shop.table.snapshots()
    assert len(snapshots) == 2
    summary = snapshots[-1].summary
    assert summary is not None
    assert [key for key in summary.additional_properties if key.startswith("metastore.")] == [
        "metastore.published.version"
    ]
    assert shop.rows() == shop.plain()


def test_manifests_of_untouched_directories_are_carried_over(shop: Shop) -> None:
    """A change in one directory rewrites the manifest that has it, and no other."""
    one = pa.table({"id": [1]})
    for number in range(3):
        for file in range(ENTRIES_A_MANIFEST // 2 + 1):
            shop.write(f"k={number}/{file}.parquet", one)
    shop.publish()
    before = _manifests(shop)
    shop.write("k=2/new.parquet", one)
    assert shop.publish()["written_manifests"] == 2
    shop.write("k=9/new.parquet", one)
    now = _manifests(shop)
    assert shop.publish()["written_manifests"] == 1
    assert now < _manifests(shop)
    assert before.isdisjoint(now) is False or len(before) == 2


def test_types_widen_and_old_files_keep_their_rows(shop: Shop) -> None:
    """Int to long, float to double, more digits: ids stay, and every bound is one of the new type."""
    narrow = {
        "a": pa.array([1], pa.int32()),
        "b": pa.array([0.5], pa.float32()),
        "c": pa.array([Decimal("1.5")], pa.decimal128(9, 1)),
    }
    wide = {
        "a": pa.array([2**40], pa.int64()),
        "b": pa.array([1e300], pa.float64()),
        "c": pa.array([Decimal("123456789012.5")], pa.decimal128(20, 1)),
    }
    shop.write("k=1/a.parquet", narrow)
    shop.publish()
    ids = {field.name: field.field_id for field in shop.table.schema().fields}
    shop.write("k=2/b.parquet", wide)
    assert shop.publish()["added_files"] == 1
    assert {field.name: field.field_id for field in shop.table.schema().fields} == ids
    assert [str(field.field_type) for field in shop.table.schema().fields] == [
        "long",
        "double",
        "decimal(20, 1)",
        "int",
    ]
    assert shop.rows() == shop.plain()
    assert (shop.planned("a > 5"), shop.planned("a < 5"), shop.planned("b < 1.0")) == (1, 1, 1)


def test_columns_come_and_stay(shop: Shop) -> None:
    """A new column has a new id; one that no file has any more stays, and is null."""
    shop.write("k=1/a.parquet", {"id": [1], "old": ["x"]})
    shop.publish()
    old = shop.table.schema().find_field("old").field_id
    (shop.root / "k=1/a.parquet").unlink()
    shop.write("k=1/b.parquet", {"id": [1], "new": ["y"]})
    shop.publish()
    schema = shop.table.schema()
    assert (schema.find_field("old").field_id, schema.find_field("new").field_id > old) == (old, True)
    assert shop.table.scan().to_arrow()["old"].to_pylist() == [None]
    shop.write("k=1/c.parquet", {"id": [3], "old": ["z"]})
    shop.publish()
    assert shop.table.schema().find_field("old").field_id == old
    assert shop.rows() == shop.plain()


def test_names_in_any_case_are_one_column(shop: Shop) -> None:
    """The name mapping has every spelling, of columns and of fields, also of files that come later."""
    shop.write("a.parquet", {"Id": [1], "s": [{"X": 1}]})
    shop.publish()
    shop.write("b.parquet", {"ID": [2], "s": [{"x": 2}]})
    shop.publish()
    mapping = json.loads(shop.table.properties["schema.name-mapping.default"])
    assert [field["names"] for field in mapping] == [["Id", "ID"], ["s"]]
    assert mapping[1]["fields"][0]["names"] == ["X", "x"]
    assert set(shop.table.scan().to_arrow()["Id"].to_pylist()) == {1, 2}


# -- refusals

_IDS = {"PARQUET:field_id": "1"}, {"PARQUET:field_id": "2"}


def _with_ids(*names: str) -> pa.Table:
    fields = [pa.field(name, pa.int64(), metadata=each) for name, each in zip(names, _IDS, strict=True)]
    return pa.Table.from_pylist([dict(zip(names, (1, 2), strict=True))], pa.schema(fields))


REFUSED: Mapping[str, tuple[Mapping[str, Any], str, str]] = {
    "field ids in some": ({"a.parquet": _with_ids("x", "y"), "b.parquet": {"x": [1]}}, "field ids", "b.parquet"),
    "ids disagree": (
        {"a.parquet": _with_ids("x", "y"), "b.parquet": _with_ids("y", "x")},
        "swap such columns",
        "b.parquet",
    ),
    "scales": (
        {
            "a.parquet": {"x": pa.array([Decimal("1.5")], pa.decimal128(9, 1))},
            "b.parquet": {"x": pa.array([Decimal("1.5")], pa.decimal128(9, 2))},
        },
        "0.15 for 1.5",
        "b.parquet",
    ),
    "milliseconds": ({"a.parquet": {"x": pa.array([1], pa.timestamp("ms"))}}, "iceberg#17135", "a.parquet"),
    "in a list": ({"a.parquet": {"x": pa.array([[1]], pa.list_(pa.timestamp("ms")))}}, "milliseconds", "a.parquet"),
    "time": ({"a.parquet": {"x": pa.array([1], pa.time32("ms"))}}, "PyIceberg refuses", "a.parquet"),
    "nanoseconds": ({"a.parquet": {"x": pa.array([1], pa.timestamp("ns"))}}, "nanoseconds", "a.parquet"),
    "unsigned": ({"a.parquet": {"x": pa.array([1], pa.uint32())}}, "unsigned", "a.parquet"),
    "unsigned in a struct": (
        {"a.parquet": {"s": pa.array([{"x": 1}], pa.struct([("x", pa.uint8())]))}},
        "s.x",
        "a.parq",
    ),
    "half": ({"a.parquet": {"x": pa.array([np.float16(1)])}}, "FLOAT16", "a.parquet"),
    "no type": ({"a.parquet": {"x": pa.nulls(1), "y": [1]}}, "of no type", "a.parquet"),
    "long beside double": ({"a.parquet": {"x": [1]}, "b.parquet": {"x": [1.5]}}, "one type", "b.parquet"),
    "text beside number": ({"a.parquet": {"x": [1]}, "b.parquet": {"x": ["a"]}}, "one type", "b.parquet"),
    "twins": ({"a.parquet": {"x": [1], "X": [2]}}, "twin", "a.parquet"),
    "path and file": ({"day=1/a.parquet": {"day": [2]}}, "its directory", "day=1/a.parquet"),
    "path and some files": ({"day=1/a.parquet": {"day": [1]}, "day=1/b.parquet": {"x": [1]}}, "directory", "b.parquet"),
    "a name": ({"a#b.parquet": {"x": [1]}}, "#", "a#b.parquet"),
}


@pytest.mark.parametrize("shop", ["sql"], indirect=True)
@pytest.mark.parametrize("case", REFUSED)
def test_what_an_engine_reads_wrong_is_refused_by_name(shop: Shop, case: str) -> None:
    """The error says why and names the file, in a dry run too; nothing is made."""
    files, why, named = REFUSED[case]
    for name, columns in files.items():
        shop.write(name, columns)
    with pytest.raises(ProcedureError, match=why) as error:
        shop.publish()
    assert named in str(error.value)
    dry = shop.publish_stored(dry_run=True)
    assert (dry["outcome"], why in dry["message"]) == ("refused", True)
    with pytest.raises(NotFoundError):
        shop.session.catalogs.table("published", "shop", "sales")
    assert not list(shop.root.parents[1].glob("lake/**/*.*"))


def test_int96_is_refused(shop: Shop) -> None:
    """Times of INT96 have no meaning in Iceberg."""
    shop.write("a.parquet", {"x": pa.array([0], pa.timestamp("ns"))}, use_deprecated_int96_timestamps=True)
    with pytest.raises(ProcedureError, match="INT96"):
        shop.publish()


def test_all_offending_files_are_listed_up_to_a_limit(shop: Shop) -> None:
    """Twenty are named, and all are counted, for each reason."""
    for number in range(25):
        shop.write(f"{number:02d}.parquet", {"u": pa.array([1], pa.uint8()), "m": pa.array([1], pa.time32("ms"))})
    with pytest.raises(ProcedureError, match="25 files") as error:
        shop.publish()
    assert str(error.value).count(".parquet") == 40


@pytest.mark.parametrize("name", ["a.csv", "a.json"])
def test_other_formats_are_refused_by_name(shop: Shop, name: str) -> None:
    """Text files have no columns that engines agree about."""
    shop.root.mkdir(parents=True)
    (shop.root / name).write_text('{"x": 1}\n' if name == "a.json" else "x\n1\n")
    with pytest.raises(InvalidRequestError, match="JSON|CSV"):
        shop.publish()


def test_a_column_in_path_and_file_with_one_value_is_published(shop: Shop) -> None:
    """Where bounds prove that both agree, rows are the same to all."""
    shop.write("day=1/a.parquet", {"day": [1, 1], "x": [1, 2]})
    shop.write("day=2/a.parquet", {"day": [2], "x": [3]})
    shop.publish()
    assert shop.rows() == shop.plain()


def test_milliseconds_are_published_if_asked(shop: Shop) -> None:
    """Readers other than Iceberg for Java read them right."""
    shop.write("a.parquet", {"x": pa.array([dt.datetime(2026, 1, 1)], pa.timestamp("ms"))})
    assert shop.publish(milliseconds=True)["outcome"] == "created"
    assert shop.rows() == shop.plain()


def test_field_ids_that_agree_are_those_of_the_table(shop: Shop) -> None:
    """Engines find columns by the ids in files, so the table has the same."""
    fields = [pa.field("x", pa.int64(), metadata={"PARQUET:field_id": "7"})]
    shop.write("k=1/a.parquet", pa.Table.from_pylist([{"x": 1}], pa.schema(fields)))
    shop.publish()
    more = [pa.field("y", pa.int64(), metadata={"PARQUET:field_id": "3"}), *fields]
    shop.write("k=2/b.parquet", pa.Table.from_pylist([{"y": 1, "x": 2}], pa.schema(more)))
    shop.publish()
    assert {field.name: field.field_id for field in shop.table.schema().fields if field.name != "k"} == {"x": 7, "y": 3}
    assert shop.rows() == shop.plain()


def test_a_change_that_is_refused_changes_nothing_until_it_is_replaced(shop: Shop) -> None:
    """A text where numbers were stops the publication; ``replace`` publishes all files anew, with new ids."""
    shop.write("k=1/a.parquet", {"x": [1]})
    shop.publish()
    before, number = shop.table.metadata_location, shop.table.schema().find_field("x").field_id
    (shop.root / "k=1/a.parquet").unlink()
    shop.write("k=1/b.parquet", {"x": ["a"]})
    with pytest.raises(ProcedureError, match="column x is"):
        shop.publish()
    assert shop.table.metadata_location == before
    assert shop.publish_stored(replace=True)["outcome"] == "changed"
    assert shop.rows() == shop.plain()
    assert shop.table.schema().find_field("x").field_id > number
    shop.write("k=1/c.parquet", {"x": ["b"]})
    assert shop.publish()["added_files"] == 1
    assert shop.rows() == shop.plain()


def test_a_value_that_changes_the_type_of_a_directory_is_refused(shop: Shop) -> None:
    """Numbers and texts in directory names are one column of text, which published numbers are not."""
    shop.write("k=1/a.parquet", {"x": [1]})
    shop.publish()
    shop.write("k=other/a.parquet", {"x": [2]})
    with pytest.raises(ProcedureError, match="columns of directories were k int and are k string"):
        shop.publish()
    shop.publish_stored(replace=True)
    assert shop.rows() == [row.replace("('k', 1)", "('k', '1')") for row in shop.plain()]


def test_entries_say_when_they_came(shop: Shop) -> None:
    """An unchanged file beside a changed one keeps the snapshot that added it."""
    shop.write("k=1/a.parquet", {"x": [1]})
    first = shop.publish()["snapshot_id"]
    shop.write("k=1/b.parquet", {"x": [2]})
    second = shop.publish()["snapshot_id"]
    entries = shop.table.inspect.entries().to_pylist()
    found = {Path(each["data_file"]["file_path"]).name: (each["snapshot_id"], each["status"]) for each in entries}
    assert found == {
        "a.parquet": (first, ManifestEntryStatus.EXISTING.value),
        "b.parquet": (second, ManifestEntryStatus.ADDED.value),
    }


def test_what_is_not_analyzed_is_told(shop: Shop) -> None:
    """The error names the command."""
    with pytest.raises(NotFoundError, match="metastore analyze dfs"):
        shop.publish_stored()


@pytest.mark.parametrize("level", ["table", "segment", "partition"])
def test_a_level_without_files_is_refused(shop: Shop, level: str) -> None:
    """It is no table without files: neither a new publication nor one that has files loses them."""
    shop.write("k=1/a.parquet", {"x": [1]})
    for is_new in (True, False):
        shop.session.analyze(SOURCE, level=level)
        with pytest.raises(InvalidRequestError, match=r"no metadata of files.*--level file"):
            shop.publish_stored()
        if is_new:
            shop.session.drop_metadata(SOURCE)
            shop.publish()
            shop.session.drop_metadata(SOURCE)
    assert shop.rows() == shop.plain()


def test_a_table_whose_files_are_all_gone_is_empty(shop: Shop) -> None:
    """Its columns stay, and files that come again are rows again."""
    shop.root.mkdir(parents=True)
    with pytest.raises(ProcedureError, match="has no files"):
        shop.publish()
    shop.write("k=1/a.parquet", {"x": [1]})
    shop.publish()
    for replace in (False, True):
        shutil.rmtree(shop.root)
        shop.root.mkdir()
        assert shop.publish(replace=replace)["outcome"] == "changed"
        assert (shop.rows(), shop.planned("x = 1")) == ([], 0)
        assert shop.publish()["outcome"] == "unchanged"
        shop.write("k=2/b.parquet", {"x": [2], "y": ["new"]})
        shop.publish()
        assert shop.rows() == shop.plain()


@pytest.mark.parametrize("name", ["sales", "shop.sales", "metastore.components.tables", "published..x"])
def test_a_name_that_is_no_table_of_a_catalog_is_refused(shop: Shop, name: str) -> None:
    """A published table is named with its catalog, and is never one of the metastore's own."""
    shop.write("a.parquet", {"x": [1]})
    shop.session.analyze(SOURCE)
    with pytest.raises((InvalidRequestError, NotFoundError)):
        shop.publish_stored(to=name)


def test_sql_publishes(shop: Shop) -> None:
    """The call has named arguments whose names are words of SQL."""
    shop.write("a.parquet", {"x": [1]})
    shop.session.analyze(SOURCE)
    text = f"CALL metastore.system.publish_table(table => '{SOURCE}', to => '{NAME}', format_version => 2)"
    [row] = shop.session.sql(text).to_pylist()
    assert row["outcome"] == "created"


def test_analyze_publishes(shop: Shop) -> None:
    """One statement analyzes and publishes; its notes say what was published."""
    text = f"ANALYZE TABLE {SOURCE} REFRESH METADATA PUBLISH AS {NAME}"
    for number, outcome in enumerate(("created", "changed")):
        shop.write(f"{number}.parquet", {"x": [number]})
        [row] = shop.session.sql(text).to_pylist()
        assert row["notes"][-1] == f"{outcome}: {NAME} publishes {number + 1} files"
    assert shop.rows() == shop.plain()


def test_null_directories_and_odd_names_are_read(shop: Shop) -> None:
    """Hive's name for null is null in each type; blanks, percent signs and brackets are part of a name."""
    shop.write("day=2026-11-01/n=1/a b%20c.parquet", {"x": [1]})
    shop.write("day=__HIVE_DEFAULT_PARTITION__/n=2/a.parquet", {"x": [2]})
    shop.write("day=2026-11-02/n=__HIVE_DEFAULT_PARTITION__/[a]*.parquet", {"x": [3]})
    shop.publish()
    assert shop.rows() == shop.plain()
    assert [shop.planned(condition) for condition in ("day IS NULL", "n = 1", "n IS NULL")] == [1, 1, 1]


@pytest.mark.parametrize("shop", ["sql"], indirect=True)
def test_files_without_statistics_are_published(shop: Shop) -> None:
    """PyIceberg's add_files failed on them (iceberg-python#1353); nothing is known of them, so they are always read."""
    shop.write("k=1/a.parquet", {"x": [1, 2], "y": ["a", None]}, write_statistics=False)
    shop.write("k=2/b.parquet", {"x": [3, 4], "y": ["b", "c"]})
    assert shop.publish()["outcome"] == "created"
    assert shop.rows() == shop.plain()
    assert [shop.planned(condition) for condition in ("x = 3", "x = 9", "k = 2")] == [2, 1, 1]
