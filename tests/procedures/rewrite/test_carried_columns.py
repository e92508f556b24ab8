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
from metastore.lake.formats.map_arrays import map_array
from metastore.lake.iceberg.rows.live_files import live_files
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
    assert ms.sql("SELECT id, place, globe, nothing FROM lake.db.t ORDER BY id").to_pylist() == expected


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


def test_a_file_without_field_ids_is_refused(ms: Session) -> None:
    """Nothing says which of its columns are variants."""
    path, _ = data_files(ms)
    rows = pq.ParquetFile(path).read()
    pq.write_table(rows.cast(pa.schema([pa.field(field.name, field.type) for field in rows.schema])), path)
    before = ms.sql('SELECT * FROM lake.db."t$snapshots"')
    with pytest.raises(MetastoreError, match="no field ids"):
        ms.sql(CALL)
    assert ms.sql('SELECT * FROM lake.db."t$snapshots"').equals(before)


def shred(path: str, folder: Path, value: str, shredding: str) -> None:
    """Store other variants in the five rows of a file, as DuckDB shreds them, in every column that has variants."""
    stored = folder / "shredded.parquet"
    with duckdb.connect() as database:
        database.execute(
            f"COPY (SELECT ({value})::VARIANT AS v FROM range(5) t(i)) TO '{stored}' "
            f"(FORMAT parquet, SHREDDING {{v: '{shredding}'}})"
        )
    made: Any = pq.ParquetFile(stored).read()["v"].combine_chunks()
    assert "typed_value" in [part.name for part in made.type]
    rows = pq.ParquetFile(path).read()
    for name in ("v", "s", "lv", "mv"):
        place, field = rows.schema.get_field_index(name), rows.schema.field(name)
        old: Any = rows[name].combine_chunks()
        if name == "v":
            new = made
        elif name == "s":
            parts = [field.type.field(0), field.type.field(1).with_type(made.type)]
            new = pa.StructArray.from_arrays([old.field(0), made], fields=parts)
        elif name == "lv":
            new = pa.ListArray.from_arrays(
                old.offsets, made, type=pa.list_(field.type.value_field.with_type(made.type))
            )
        else:
            kind = pa.map_(field.type.key_field, field.type.item_field.with_type(made.type))
            new = map_array(old.offsets, old.keys, made, kind, None)
        rows = rows.set_column(place, field.with_type(new.type), new)
    pq.write_table(rows, path, store_schema=False)


@pytest.mark.parametrize("statement", [CALL, "DELETE FROM lake.db.t WHERE id = 99 OR id = 3"])
def test_files_that_are_shredded_differently_become_one_form(ms: Session, tmp_path: Path, statement: str) -> None:
    """Variants have the values that they had, wherever they are in a row; DuckDB reads both."""
    first, second = sorted(data_files(ms), key=lambda path: stored([path])[0]["id"])
    shred(first, tmp_path, "CASE WHEN i = 1 THEN NULL ELSE {'a': i, 'b': [i, 2]} END", "STRUCT(a INTEGER)")
    shred(second, tmp_path, "{'a': 'x' || i, 'c': 1.5}", "STRUCT(c DECIMAL(2, 1), a BIGINT)")
    ms.sql("ALTER TABLE lake.db.t SET PROPERTIES write.delete.mode = 'copy-on-write'")
    ms.sql(statement)
    gone = statement != CALL
    expected = [
        (n, None if n == 1 else f"{{'a': {n}, 'b': [{n}, 2]}}" if n < 5 else f"{{'a': x{n - 5}, 'c': 1.5}}")
        for n in range(10)
        if not (gone and n == 3)
    ]
    with duckdb.connect() as database:
        new = [path for path in data_files(ms) if path not in (first, second)]
        assert len(new) == 1
        found = sorted(
            database.sql(
                f"SELECT id, v::TEXT, s.v::TEXT, lv[1]::TEXT, mv['a']::TEXT, s.a FROM read_parquet('{new[0]}')"
            ).fetchall()
        )
    assert found == [(n, text, text, text, text, n) for n, text in expected if n < 5 or not gone]


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
