"""Row ids: one for each row, the same however the row is read, and refused once they could mean another row."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from support.scan_lake import Lake

from metastore.errors import FormatError, InvalidRequestError, StaleRowIdError
from metastore.scan.pruning.row_id import LENGTH, ROW_ID, decode

TABLE = "dfs.tmp.t"


def numbered(start: int, count: int) -> dict[str, Any]:
    """Rows whose ``n`` counts from ``start``."""
    return {"n": pa.array(range(start, start + count), pa.int64())}


@pytest.fixture
def table(lake: Lake) -> Lake:
    """Three files in two partitions, in row groups of three, analyzed."""
    lake.write("p/a.parquet", numbered(0, 10), row_group_size=3)
    lake.write("p/q/b.parquet", numbered(10, 7), row_group_size=3)
    lake.write("r=1/c.parquet", numbered(20, 5), row_group_size=3)
    lake.analyze()
    return lake


def ids_by_row(lake: Lake, *args: Any, **options: Any) -> dict[int, bytes]:
    """``n`` -> row id."""
    rows = lake.scan(*args, row_id=True, **options).to_arrow()
    return dict(zip(rows["n"].to_pylist(), rows[ROW_ID].to_pylist(), strict=True))


def test_a_scan_has_ids_only_when_asked(table: Lake) -> None:
    """They are the last column then, binary."""
    assert ROW_ID not in table.scan().schema.names
    assert table.scan(row_id=True).schema.field(ROW_ID).type == pa.binary()
    assert table.scan(columns=[], row_id=True).to_arrow().schema.names == [ROW_ID]


def test_every_row_has_an_id_of_its_own_that_leads_back(table: Lake) -> None:
    """22 rows, 22 ids; each finds its row again, in whatever order and however often it is asked for."""
    ids = ids_by_row(table)
    assert len(set(ids.values())) == len(ids) == 22
    wanted = [21, 3, 16, 3, 0]
    found = table.tables.rows_by_id(TABLE, [ids[n] for n in wanted], row_id=True)
    assert found["n"].to_pylist() == wanted
    assert found[ROW_ID].to_pylist() == [ids[n] for n in wanted]
    assert table.tables.rows_by_id(TABLE, [], ["n"]).to_pylist() == []


def test_a_scan_among_ids_reads_their_row_groups(table: Lake) -> None:
    """Two of eight, whole, which every way to ask agrees on; of no ids nothing."""
    ids = ids_by_row(table)
    scan = table.scan(among=[ids[4], ids[21], ids[5]])
    assert scan.row_groups == {path: groups for path, groups in scan.row_groups.items() if groups in ((1,), (0,))}
    assert sorted(scan.to_arrow()["n"].to_pylist()) == [3, 4, 5, 20, 21, 22]
    assert scan.count() == 6
    assert table.scan("n > 4", among=[ids[4]], row_id=True).to_arrow()[ROW_ID].to_pylist() == [ids[5]]
    assert table.scan(among=[]).count() == 0


def test_ids_say_what_another_reader_counts(table: Lake) -> None:
    """Row number and row group of an id are those of DuckDB's own count of the file's rows."""
    with duckdb.connect() as engine:
        found = engine.execute(
            "SELECT n, filename, file_row_number FROM read_parquet(?, file_row_number = true, filename = true)",
            [table.paths()],
        ).fetchall()
    first_group = {"a.parquet": 0, "b.parquet": 4, "c.parquet": 0}
    ids = ids_by_row(table)
    for n, path, row in found:
        pieces = decode([ids[n]])
        assert (pieces.rows[0], pieces.groups[0]) == (row % 3, first_group[path.rpartition("/")[2]] + row // 3)
    assert len({ids[n][-12:] for n in range(17)}) == 1, "a nested segment belongs to its top-level one"
    assert ids[0][-12:] != ids[20][-12:]


def test_a_row_has_one_id_however_it_is_read(table: Lake) -> None:
    """Pruned or not, filtered by Arrow or by DuckDB, with other columns, in any library."""
    ids = ids_by_row(table)
    for where in ("n >= 4 AND n < 12", "n % 2 = 0", "dir0 = 'r=1'", "n IN (2, 15)", None):
        some = ids_by_row(table, where, ["n"])
        assert some.items() <= ids.items()
        assert some
    scan = table.scan("n > 8", row_id=True)
    expected = {(n, id_) for n, id_ in ids.items() if n > 8}
    frames = [scan.to_duckdb().select("n", '"$row_id"').fetchall(), scan.to_polars().select("n", ROW_ID).rows()]
    frames.append(list(scan.to_pandas()[["n", ROW_ID]].itertuples(index=False, name=None)))
    frames.append([tuple(row.values()) for row in scan.to_arrow_dataset().to_table(["n", ROW_ID]).to_pylist()])
    frames.append([(row["n"], row[ROW_ID]) for batch in scan.to_batches() for row in batch.to_pylist()])
    assert [set(frame) for frame in frames] == [expected] * 5


def test_rows_can_be_left_out_by_id(table: Lake) -> None:
    """``exclude`` takes exactly these rows out, of a question too; ids of rows it would not return change nothing."""
    ids = ids_by_row(table)
    out = [ids[n] for n in (0, 3, 9, 21)]
    rest = table.scan("n < 21", exclude=out, row_id=True).to_arrow()
    assert rest["n"].to_pylist() == [n for n in [*range(17), 20] if n not in (0, 3, 9)]
    assert table.scan("n < 5", exclude=out).count() == 3
    assert table.scan(exclude=out).to_arrow_dataset().to_table().num_rows == 18
    assert ids_by_row(table, exclude=out).items() <= ids.items()


def test_only_the_row_groups_of_the_ids_are_read(table: Lake) -> None:
    """The other row groups of the file may be anything: here the first one's bytes are overwritten."""
    ids = ids_by_row(table)
    path = table.root / "p/a.parquet"
    before = path.stat()
    chunk = pq.read_metadata(path).row_group(0).column(0)
    start = chunk.dictionary_page_offset or chunk.data_page_offset
    content = bytearray(path.read_bytes())
    content[start : start + chunk.total_compressed_size] = bytes(chunk.total_compressed_size)
    path.write_bytes(content)
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))
    assert table.tables.rows_by_id(TABLE, [ids[9], ids[3]])["n"].to_pylist() == [9, 3]
    with pytest.raises(FormatError, match=r"p/a\.parquet cannot be read"):
        table.tables.rows_by_id(TABLE, [ids[0]])


def test_a_changed_partition_makes_its_ids_stale_and_no_others(table: Lake) -> None:
    """Before ANALYZE, since the files are not those of the ids; after it, since the partition is another version."""
    ids = ids_by_row(table)
    table.write("p/q/new.parquet", numbered(100, 1))
    for old in ([ids[0]], [ids[20], ids[12]]):
        with pytest.raises(StaleRowIdError, match=r"partition p of dfs\.tmp\.t has changed since ANALYZE"):
            table.tables.rows_by_id(TABLE, old)
    with pytest.raises(StaleRowIdError, match="partition p "):
        table.scan(row_id=True)
    with pytest.raises(StaleRowIdError, match="partition p "):
        table.scan(exclude=[ids[0]])
    assert table.tables.rows_by_id(TABLE, [ids[20]])["n"].to_pylist() == [20]
    assert ids_by_row(table, "dir0 = 'r=1'") == {n: ids[n] for n in range(20, 25)}
    table.analyze()
    with pytest.raises(StaleRowIdError, match="partition p of dfs.tmp.t has changed since this row id"):
        table.tables.rows_by_id(TABLE, [ids[20], ids[0]])
    fresh = ids_by_row(table)
    assert {n: fresh[n] for n in range(20, 25)} == {n: ids[n] for n in range(20, 25)}
    assert not {fresh[n] for n in range(17)} & set(ids.values())


@pytest.mark.parametrize("change", ["rewritten", "removed", "gone"])
def test_every_change_makes_ids_stale(table: Lake, change: str) -> None:
    """A file with the same name and number of rows, a file that went, a partition that went."""
    ids = ids_by_row(table)
    if change == "rewritten":
        table.write("r=1/c.parquet", numbered(20, 5), row_group_size=3)
    elif change == "removed":
        table.remove("p/q/b.parquet")
    else:
        table.remove("r=1/c.parquet")
    touched = 0 if change == "removed" else 20
    for _ in range(2):
        with pytest.raises(StaleRowIdError, match=r"partition|gone"):
            table.tables.rows_by_id(TABLE, [ids[touched]])
        assert table.tables.rows_by_id(TABLE, [ids[20 - touched]])["n"].to_pylist() == [20 - touched]
        table.analyze()


def test_ids_outlive_what_changes_no_data(table: Lake) -> None:
    """Analyzed anew for other columns, dropped and analyzed again: the partition is the same, so are its ids."""
    ids = ids_by_row(table)
    table.analyze(columns=[])
    table.analyze()
    assert ids_by_row(table) == ids
    table.session.drop_metadata(TABLE)
    table.analyze()
    assert ids_by_row(table) == ids


def test_forged_and_foreign_ids_are_refused(table: Lake) -> None:
    """A row or row group that is not there, bytes at random, an id of another table."""
    real = ids_by_row(table)[24]
    row, group, component = real[:8], real[8:12], real[12:]
    forged = [
        (2).to_bytes(8, "big") + group + component,
        (2**64 - 1).to_bytes(8, "big") + group + component,
        row + (7).to_bytes(4, "big") + component,
        row + (2**32 - 1).to_bytes(4, "big") + component,
        bytes(range(LENGTH)),
        bytes(LENGTH),
        row + group + component[:1] + bytes(11),
    ]
    other = table.root.parent / "u"
    other.mkdir()
    (other / "a.parquet").write_bytes((table.root / "p/a.parquet").read_bytes())
    table.session.analyze("dfs.tmp.u")
    forged.append(table.tables.scan("dfs.tmp.u", row_id=True).to_arrow()[ROW_ID][0].as_py())
    for wrong in forged:
        with pytest.raises(InvalidRequestError, match="no row id of"):
            table.tables.rows_by_id(TABLE, [real, wrong])
        with pytest.raises(InvalidRequestError, match="no row id of"):
            table.scan(exclude=[wrong])


def test_a_level_without_row_groups_has_no_ids(lake: Lake) -> None:
    """It says which level is needed."""
    lake.write("a.parquet", numbered(0, 3))
    lake.analyze(level="FILE")
    with pytest.raises(InvalidRequestError, match="level FILE: run ANALYZE at level ROW_GROUP"):
        lake.scan(row_id=True)


FILES = ["a.parquet", "b.parquet", "p/a.parquet", "p/q/a.parquet", "r=1/a.parquet"]


@settings(suppress_health_check=[HealthCheck.too_slow], max_examples=12)
@given(
    steps=st.lists(
        st.dictionaries(
            st.sampled_from(FILES), st.none() | st.tuples(st.integers(1, 9), st.integers(1, 4)), min_size=1, max_size=3
        ),
        min_size=2,
        max_size=4,
    )
)
def test_an_id_means_one_row_for_ever(steps: list[dict[str, Any]], new_lake: Callable[[Path], Any]) -> None:
    """Over any history of files ids are never used twice, and find the row they were made for or are stale."""
    seen: dict[bytes, int] = {}
    number = 0
    with TemporaryDirectory() as folder:
        lake = new_lake(Path(folder))
        lake.write("s/always.parquet", numbered(-5, 5), row_group_size=2)
        for step in steps:
            for name, made in step.items():
                if made is not None:
                    lake.write(name, numbered(number, made[0]), row_group_size=made[1])
                    number += made[0]
                elif (lake.root / name).exists():
                    lake.remove(name)
            lake.analyze()
            ids = {id_: n for n, id_ in ids_by_row(lake).items()}
            assert len(ids) == lake.scan().count()
            for id_, n in ids.items():
                assert seen.setdefault(id_, n) == n
            for id_ in seen:
                if id_ not in ids:
                    with pytest.raises(StaleRowIdError):
                        lake.tables.rows_by_id("dfs.tmp.t", [id_])
            assert lake.tables.rows_by_id(TABLE, list(ids))["n"].to_pylist() == list(ids.values())
            assert {ids_by_row(lake)[n] for n in range(-5, 0)} == {id_ for id_, n in seen.items() if n < 0}


def test_rows_are_numbered_through_a_large_row_group(lake: Lake) -> None:
    """It comes in several batches, and the numbers go on."""
    rows = 300_000
    lake.write("a.parquet", numbered(0, rows), row_group_size=rows)
    lake.analyze()
    scan = lake.scan(row_id=True)
    assert len(list(scan.to_batches())) > 1
    ids = scan.to_arrow()[ROW_ID]
    assert decode(ids).rows.tolist() == list(range(rows))
    assert lake.tables.rows_by_id(TABLE, [ids[200_000].as_py()])["n"].to_pylist() == [200_000]
    left = lake.scan("n >= 199999 AND n <= 200001", exclude=[ids[200_000].as_py()])
    assert left.to_arrow()["n"].to_pylist() == [199_999, 200_001]
