"""What INFORMATION_SCHEMA says, beside what the files themselves say of the same data."""

from __future__ import annotations

import os
from datetime import datetime, timezone
from pathlib import Path

import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq
import pytest

from metastore.components.information_schema import InformationSchema
from metastore.components.information_schema.relations import RELATIONS
from metastore.errors import InvalidRequestError, NotFoundError
from metastore.model.identity import TableInfo
from metastore.model.materialized_view_unit import MaterializedViewMetadataUnit
from metastore.model.tuple_schema import SchemaColumn, TupleSchema
from metastore.model.view_unit import ViewMetadataUnit
from metastore.session import Session

OF_SALES = "table_schema = 'dfs.shop' and table_name = 'sales'"


def files_of(folder: Path) -> list[str]:
    """Paths of all data files below ``folder``."""
    return sorted(str(path) for path in folder.rglob("*.parquet"))


def test_tables_are_what_was_analyzed(known: InformationSchema, tmp_path: Path) -> None:
    """Rows and times are those of the files."""
    [found] = known.tables(where=OF_SALES).to_pylist()
    files = files_of(tmp_path / "data" / "sales")
    newest = max(os.stat(path).st_mtime_ns for path in files) // 1_000_000
    assert found == {
        "TABLE_CATALOG": "DRILL",
        "TABLE_SCHEMA": "dfs.shop",
        "TABLE_NAME": "sales",
        "TABLE_TYPE": "TABLE",
        "TABLE_SOURCE": "PARQUET",
        "LOCATION": str(tmp_path / "data" / "sales"),
        "NUM_ROWS": ds.dataset(files).count_rows(),
        "LAST_MODIFIED_TIME": datetime.fromtimestamp(newest / 1000, timezone.utc),
    }


def test_files_are_the_files(known: InformationSchema, tmp_path: Path) -> None:
    """Each once, with the size and the rows that it has."""
    found = known.files(["path", "num_rows", "length", "location", "metadata_key", "metadata_identifier"], OF_SALES)
    root = tmp_path / "data" / "sales"
    assert sorted(found.to_pylist(), key=lambda row: row["PATH"]) == [
        {
            "PATH": path,
            "NUM_ROWS": pq.read_metadata(path).num_rows,
            "LENGTH": os.path.getsize(path),
            "LOCATION": os.path.dirname(path),
            "METADATA_KEY": os.path.relpath(path, root).split("/")[0],
            "METADATA_IDENTIFIER": os.path.relpath(path, root),
        }
        for path in files_of(root)
    ]


def test_row_groups_are_those_of_the_footers(known: InformationSchema, tmp_path: Path) -> None:
    """With their rows and places, in order of their index."""
    columns = ["path", "row_group_index", "num_rows", "start", "length"]
    found = {tuple(row.values()) for row in known.row_groups(columns, OF_SALES).to_pylist()}
    expected = set()
    for path in files_of(tmp_path / "data" / "sales"):
        footer = pq.read_metadata(path)
        for index in range(footer.num_row_groups):
            group = footer.row_group(index)
            chunks = [group.column(n) for n in range(group.num_columns)]
            begins = [chunk.dictionary_page_offset or chunk.data_page_offset for chunk in chunks]
            length = sum(chunk.total_compressed_size for chunk in chunks)
            expected.add((path, index, group.num_rows, min(begins), length))
    assert found == expected
    assert len(found) == 9


def test_columns_have_the_bounds_of_the_data(known: InformationSchema, tmp_path: Path) -> None:
    """Minimum, maximum and nulls as Arrow computes them, in texts; struct fields by their path."""
    data = ds.dataset(files_of(tmp_path / "data" / "sales")).to_table()
    flat = data.flatten().flatten()
    rows = known.columns(["column_name", "min_val", "max_val", "num_nulls", "est_num_non_nulls"], OF_SALES).to_pylist()
    found = {row["COLUMN_NAME"]: row for row in rows}
    for name in ("id", "shop", "day", "price", "buyer.name", "buyer.at.zip"):
        column = flat[name]
        values = [value for value in column.to_pylist() if value is not None]
        low, high = min(values), max(values)
        assert (found[name]["MIN_VAL"], found[name]["MAX_VAL"]) == (str(low), str(high))
        assert found[name]["NUM_NULLS"] == column.null_count
        assert found[name]["EST_NUM_NON_NULLS"] == len(column) - column.null_count
    assert found["sold"]["MIN_VAL"] == "2024-01-01T00:00:00+00:00"
    assert (found["paid"]["MIN_VAL"], found["code"]["MAX_VAL"]) == ("false", "0e")
    assert (found["weight"]["MIN_VAL"], found["weight"]["MAX_VAL"]) == ("0.0", "7.0")
    assert found["buyer"]["MIN_VAL"] is None


def test_columns_have_the_types_of_the_schema(known: InformationSchema) -> None:
    """Numbers with their digits; fields of a struct follow it at its position and are marked."""
    columns = ["column_name", "ordinal_position", "data_type", "is_nested", "numeric_precision", "numeric_scale"]
    rows = [tuple(row.values()) for row in known.columns(columns, OF_SALES).to_pylist()]
    nested = "STRUCT<`name` VARCHAR, `at` STRUCT<`zip` BIGINT>>"
    assert rows == [
        ("id", 1, "BIGINT", False, 64, 0),
        ("shop", 2, "VARCHAR", False, None, None),
        ("price", 3, "DECIMAL", False, 9, 2),
        ("day", 4, "DATE", False, None, None),
        ("sold", 5, "TIMESTAMP", False, None, None),
        ("weight", 6, "DOUBLE", False, 53, None),
        ("paid", 7, "BOOLEAN", False, None, None),
        ("code", 8, "VARBINARY", False, None, None),
        ("buyer", 9, nested, False, None, None),
        ("buyer.name", 9, "VARCHAR", True, None, None),
        ("buyer.at", 9, "STRUCT<`zip` BIGINT>", True, None, None),
        ("buyer.at.zip", 9, "BIGINT", True, 64, 0),
        ("tags", 10, "ARRAY<VARCHAR>", False, None, None),
        ("dir0", 11, "VARCHAR", False, None, None),
        ("dir1", 12, "VARCHAR", False, None, None),
    ]


def test_partitions_are_directories_and_constant_columns(known: InformationSchema) -> None:
    """A directory has the value of its own level; files that lie in none are no partition."""
    columns = ["metadata_key", "metadata_identifier", "partition_column", "partition_value"]
    found = known.partitions(columns, f"{OF_SALES} and metadata_type = 'SEGMENT'").to_pylist()
    assert sorted(tuple(row.values()) for row in found) == [
        ("2023", "2023", "`dir0`", "2023"),
        ("2023", "2023/Q1", "`dir1`", "Q1"),
        ("2023", "2023/Q2", "`dir1`", "Q2"),
        ("2024", "2024", "`dir0`", "2024"),
        ("2024", "2024/Q1", "`dir1`", "Q1"),
    ]
    assert known.partitions(where="table_name = 'plain' and metadata_type = 'SEGMENT'").num_rows == 0


def test_schemata_are_workspaces_and_what_metadata_speaks_of(session: Session, known: InformationSchema) -> None:
    """Also a workspace that this machine does not know; once each."""
    session.views.create(ViewMetadataUnit("lake", "raw", "v", dialect="duckdb", representations={"duckdb": "SELECT 1"}))
    found = {row["SCHEMA_NAME"]: (row["TYPE"], row["IS_MUTABLE"]) for row in known.schemata().to_pylist()}
    assert found == {
        "dfs.root": ("file", "NO"),
        "dfs.shop": ("file", "YES"),
        "dfs.tmp": ("file", "YES"),
        "information_schema": ("ischema", "NO"),
        "lake.raw": ("file", "NO"),
        "metastore.components": ("metastore", "NO"),
    }
    assert known.schemata().num_rows == len(found)


def test_views_stand_among_tables_with_their_columns(session: Session, known: InformationSchema) -> None:
    """Views and materialized views, each with its query."""
    schema = TupleSchema((SchemaColumn("a", "INT"), SchemaColumn("b", "STRUCT<`c` VARCHAR>"))).to_json()
    session.views.create(
        ViewMetadataUnit(
            "dfs", "shop", "v", dialect="spark", representations={"spark": "Q", "trino": "P"}, schema=schema
        )
    )
    session.materialized_views.create(MaterializedViewMetadataUnit("dfs", "shop", "m", sql="M", schema=schema))
    assert known.views(["table_name", "view_definition"]).to_pylist() == [
        {"TABLE_NAME": "v", "VIEW_DEFINITION": "Q"},
        {"TABLE_NAME": "m", "VIEW_DEFINITION": "M"},
    ]
    kinds = known.tables(["table_name", "table_type"], "table_schema = 'dfs.shop'").to_pylist()
    assert {row["TABLE_NAME"]: row["TABLE_TYPE"] for row in kinds} == {
        "sales": "TABLE",
        "plain": "TABLE",
        "v": "VIEW",
        "m": "MATERIALIZED_VIEW",
    }
    columns = known.columns(["column_name", "is_nested"], "table_name = 'v'").to_pylist()
    assert [tuple(row.values()) for row in columns] == [("a", False), ("b", False), ("b.c", True)]


def test_the_metastores_own_tables_are_listed(known: InformationSchema) -> None:
    """With the columns that they have."""
    columns = ["table_name", "column_name"]
    rows = known.columns(columns, "table_schema = 'information_schema'").to_pylist()
    found: dict[str, list[str]] = {}
    for row in rows:
        found.setdefault(row["TABLE_NAME"], []).append(row["COLUMN_NAME"])
    assert found == {name: list(relation.columns) for name, relation in RELATIONS.items()}
    names = known.tables(["table_name"], "table_schema = 'metastore.components'")["TABLE_NAME"].to_pylist()
    assert {"tables", "views", "materialized_views"} <= set(names)


def test_an_empty_metastore_has_its_own_tables_only(metastore: InformationSchema) -> None:
    """Every relation answers, with its columns."""
    empty = InformationSchema(metastore)  # type: ignore[arg-type]
    for name, relation in RELATIONS.items():
        answer = empty.read(name)
        assert answer.schema == relation.schema
        assert (answer.num_rows > 0) == (name in {"SCHEMATA", "TABLES", "COLUMNS"})


def test_earlier_versions_are_as_they_were(session: Session, known: InformationSchema) -> None:
    """By version and by time; a version that is not kept is said so."""
    before = session.tables.metadata.version
    pinned = known.pin()
    session.drop_metadata(TableInfo("dfs", "shop", "sales"))
    assert known.files(where=OF_SALES).num_rows == 0
    assert known.at(before).files(where=OF_SALES).num_rows == 3
    assert pinned.files(where=OF_SALES).num_rows == 3
    moment = session.tables.metadata.history()[1].timestamp
    assert known.as_of(moment).files(where=OF_SALES).num_rows == 3
    assert known.at(0).files().num_rows == 0
    with pytest.raises(NotFoundError, match="version 7 is not kept"):
        known.at(7)


def test_what_is_not_there_is_named(known: InformationSchema) -> None:
    """A relation, a column, a column of a condition."""
    with pytest.raises(NotFoundError, match="no table FOO; its tables are SCHEMATA, TABLES"):
        known.read("FOO")
    with pytest.raises(InvalidRequestError, match="TABLES has no column nope; it has TABLE_CATALOG"):
        known.tables(["nope"])
    with pytest.raises(InvalidRequestError, match="unknown column 'nope'.*TABLE_CATALOG"):
        known.tables(where="nope = 1")


def test_batches_are_the_rows(known: InformationSchema) -> None:
    """The reader has the columns that were asked for, in their order."""
    reader = known.batches("files", ["path", "table_name"], OF_SALES)
    assert reader.schema == pa.schema([("PATH", pa.string()), ("TABLE_NAME", pa.string())])
    assert reader.read_all().num_rows == 3
