"""Rewriting carries variants and geometries unchanged, with their marks in Parquet, wherever they are in a row."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from support.variant_lake import readable_rows, table_with_variants

from metastore.errors import MetastoreError
from metastore.iceberg.live_files import live_files
from metastore.session import Session

CALL = "CALL lake.system.rewrite_data_files(table => 'db.t', options => MAP(ARRAY['rewrite-all'], ARRAY['true']))"


@pytest.fixture
def ms(tmp_path: Path) -> Iterator[Session]:
    """``lake.db.t`` with variants in columns, a struct, a list and a map."""
    with table_with_variants(tmp_path, nested=True) as session:
        yield session


def data_files(session: Session) -> list[str]:
    """The paths of the table's data files."""
    found = session.sql('SELECT file_path FROM lake.db."t$data_files" ORDER BY 1').to_pylist()
    return [row["file_path"].removeprefix("file://") for row in found]


def stored(paths: list[str]) -> list[dict[str, Any]]:
    """All rows as Parquet holds them, but for the columns of row lineage."""
    rows = pa.concat_tables(pq.ParquetFile(path).read() for path in paths)
    return rows.select([name for name in rows.column_names if not name.startswith("_")]).sort_by("id").to_pylist()


def test_bytes_are_as_they_were(ms: Session) -> None:
    """Deleted rows go; everything else of a row is the same."""
    ms.sql("DELETE FROM lake.db.t WHERE id = 3")
    before = [row for row in stored(data_files(ms)) if row["id"] != 3]
    ms.sql(CALL)
    [path] = data_files(ms)
    assert stored([path]) == before
    assert len(before) == 9
    expected = [row for row in readable_rows().to_pylist() if row["id"] != 3]
    assert ms.sql("SELECT * FROM lake.db.t ORDER BY id").to_pylist() == expected


def test_new_files_say_what_their_columns_are(ms: Session) -> None:
    """DuckDB reads variants by the mark alone; the coordinate systems are those of the table."""
    ms.sql(CALL)
    [path] = data_files(ms)
    schema = str(pq.ParquetFile(path).schema)
    assert schema.count("Variant(1)") == 4
    assert "place (Geometry(crs=srid:3857))" in schema
    assert "globe (Geography(crs=, algorithm=karney))" in schema
    with duckdb.connect() as database:
        found = database.sql(
            f"SELECT id, v::INT AS v, s.v::INT AS s, lv[1]::INT AS l, mv['a']::INT AS m FROM read_parquet('{path}')"
        ).fetchall()
    assert sorted(found) == [(n, n, n, n, n) for n in range(10)]


def test_manifests_have_no_bounds_of_bytes_that_nobody_reads(ms: Session) -> None:
    """Only of the other columns, as before."""
    ms.sql(CALL)
    table = ms.catalogs.target("lake", "db", "t").load()
    snapshot = table.metadata.current_snapshot()
    assert snapshot is not None
    [live] = live_files(table.metadata, table.io, snapshot).data
    file = live.file
    ids = {field.name: field.field_id for field in table.schema().fields}
    inner = table.schema().find_field("s.a").field_id
    keys = table.schema().find_field("mv.key").field_id
    assert set(file.lower_bounds) == {ids["id"], inner}
    assert set(file.value_counts) == set(file.column_sizes) == {ids["id"], inner, keys}


def test_rows_are_written_twice_over(ms: Session) -> None:
    """What a rewrite wrote can be rewritten, sorted by another column."""
    before = stored(data_files(ms))
    ms.sql(CALL)
    ms.sql(
        "CALL lake.system.rewrite_data_files(table => 'db.t', strategy => 'sort', sort_order => 'id DESC', "
        "options => MAP(ARRAY['rewrite-all'], ARRAY['true']))"
    )
    [path] = data_files(ms)
    assert stored([path]) == before
    assert pq.ParquetFile(path).read()["id"].to_pylist() == list(range(9, -1, -1))


@pytest.mark.parametrize("change", ["shredded", "without ids"])
def test_a_form_that_cannot_be_carried_is_refused(ms: Session, change: str) -> None:
    """Values would be lost: of a shredded variant the typed part, of a file without ids the column."""
    path, _ = data_files(ms)
    rows = pq.ParquetFile(path).read()
    if change == "shredded":
        place = rows.schema.get_field_index("v")
        column: Any = rows["v"].combine_chunks()
        parts = column.flatten()
        made = pa.StructArray.from_arrays([*parts, pa.array(range(5))], ["metadata", "value", "typed_value"])
        rows = rows.set_column(place, rows.schema.field("v").with_type(made.type), made)
    else:
        rows = rows.cast(pa.schema([pa.field(field.name, field.type) for field in rows.schema]))
    pq.write_table(rows, path)
    before = ms.sql('SELECT * FROM lake.db."t$snapshots"')
    with pytest.raises(MetastoreError, match="typed_value" if change == "shredded" else "no field ids"):
        ms.sql(CALL)
    assert ms.sql('SELECT * FROM lake.db."t$snapshots"').equals(before)


def test_the_order_of_a_variants_parts_does_not_matter(ms: Session) -> None:
    """Some writers store the value first."""
    path, _ = data_files(ms)
    rows = pq.ParquetFile(path).read()
    place, column = rows.schema.get_field_index("v"), rows["v"].combine_chunks()
    parts: Any = column
    metadata, value = parts.flatten()
    turned = pa.StructArray.from_arrays([value, metadata], ["value", "metadata"])
    pq.write_table(rows.set_column(place, rows.schema.field("v").with_type(turned.type), turned), path)
    before = stored(data_files(ms)[1:]) + rows.to_pylist()
    ms.sql(CALL)
    assert stored(data_files(ms)) == sorted(before, key=lambda row: row["id"])


def test_another_format_is_warned_about(ms: Session, caplog: pytest.LogCaptureFixture) -> None:
    """The property is kept; new files are Parquet."""
    ms.sql("ALTER TABLE lake.db.t SET PROPERTIES write.format.default = 'orc'")
    ms.sql(CALL)
    assert "new data files of lake.db.t are Parquet, though its property write.format.default is orc" in caplog.text
