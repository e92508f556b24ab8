"""``$row_id`` and what the file of a row says are columns of a table for who names them, and choose what is opened."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from metastore.config import Settings
from metastore.errors import InvalidRequestError, StaleRowIdError
from metastore.session import Session, connect

OLD = datetime(2001, 9, 9, 1, 46, 40, tzinfo=timezone.utc)


@dataclass(frozen=True)
class Lake:
    """``dfs.w.t``: four files in ``y=…/m=…``, six rows each in row groups of two; ``y=1/m=1`` is of the year 2001."""

    session: Session
    folder: Path

    def ask(self, text: str) -> list[dict[str, Any]]:
        """The rows of a query."""
        return self.session.sql(text).to_pylist()

    def ids(self, where: str) -> list[bytes]:
        """Row ids of the scan."""
        found: list[bytes] = self.session.tables.scan("dfs.w.t", where, row_id=True).to_arrow()["$row_id"].to_pylist()
        return found

    @contextmanager
    def opening_only(self, *names: str) -> Iterator[None]:
        """While it lasts, all files but those of ``names`` are zeros that look as before to a listing."""
        kept = {path: (path.read_bytes(), path.stat()) for path in self.folder.rglob("t/**/*.parquet")}
        try:
            for path, (content, stat) in kept.items():
                if path.name not in names:
                    path.write_bytes(bytes(len(content)))
                    os.utime(path, ns=(stat.st_atime_ns, stat.st_mtime_ns))
            yield
        finally:
            for path, (content, stat) in kept.items():
                path.write_bytes(content)
                os.utime(path, ns=(stat.st_atime_ns, stat.st_mtime_ns))


def write(path: Path, columns: dict[str, Any]) -> None:
    """Write one file, two rows a row group."""
    path.parent.mkdir(parents=True, exist_ok=True)
    pq.write_table(pa.table(columns), path, row_group_size=2)


@pytest.fixture
def lake(tmp_path: Path) -> Iterator[Lake]:
    """The table, and beside it ``dfs.w.own``, whose files have a column ``filename``, and ``dfs.w.texts`` of JSON."""
    folder = tmp_path / "lake"
    for y in (1, 2):
        for m in (1, 2):
            write(folder / f"t/y={y}/m={m}/f{y}{m}.parquet", {"id": range(y * 100 + m * 10, y * 100 + m * 10 + 6)})
    os.utime(folder / "t/y=1/m=1/f11.parquet", (OLD.timestamp(), OLD.timestamp()))
    write(folder / "own/a.parquet", {"id": [1, 2], "filename": ["x", "y"]})
    (folder / "texts").mkdir()
    (folder / "texts/a.json").write_text('{"id": 1}\n{"id": 2}\n')
    (folder / "texts/b").write_text('{"id": 3}\n')
    given = {
        "drill.metastore.iceberg.location.base_path": f"{tmp_path}/metastore",
        "drill.metastore.storage.dfs.workspaces.w.location": str(folder),
    }
    with connect(Settings.from_mapping(given, environ={})) as session:
        session.analyze("dfs.w.t")
        session.analyze("dfs.w.own")
        session.analyze("dfs.w.texts", format="json")
        yield Lake(session, folder)


def test_files_are_named_as_duckdb_names_them(lake: Lake) -> None:
    """Every row has the path of the file that DuckDB reads it from, and the parts of that path."""
    found = lake.ask('SELECT id, "$path", "$partition", fqn, filepath, filename, suffix FROM dfs.w.t ORDER BY id')
    with duckdb.connect() as engine:
        right = engine.execute(
            "SELECT id, filename FROM read_parquet(?, filename = true) ORDER BY id", [f"{lake.folder}/t/*/*/*.parquet"]
        ).fetchall()
    assert [(row["id"], row["$path"]) for row in found] == right
    for row in found:
        assert row["fqn"] == row["$path"] == f"{row['filepath']}/{row['filename']}"
        assert row["filepath"] == f"{lake.folder}/t/{row['$partition']}"
        assert row["suffix"] == "parquet"


def test_the_time_of_a_file_is_that_of_the_file_system(lake: Lake) -> None:
    """To the microsecond, in UTC."""
    for row in lake.ask('SELECT DISTINCT "$path" AS p, "$file_modified_time" AS t FROM dfs.w.t'):
        assert int(row["t"].timestamp() * 1_000_000 + 0.5) == os.stat(row["p"]).st_mtime_ns // 1000
    assert {OLD} < {row["t"] for row in lake.ask('SELECT "$file_modified_time" AS t FROM dfs.w.t')}


CONDITIONS = [
    ("filename = 'f12.parquet'", ["f12.parquet"]),
    ("FileName = 'f12.parquet' AND id > 0", ["f12.parquet"]),
    ("filename IN ('f12.parquet', 'f21.parquet', 'none')", ["f12.parquet", "f21.parquet"]),
    ("filename LIKE 'f2%'", ["f21.parquet", "f22.parquet"]),
    ("\"$partition\" = 'y=2/m=1'", ["f21.parquet"]),
    ("\"$partition\" LIKE 'y=1/%' AND id >= 120", ["f12.parquet"]),
    ("\"$file_modified_time\" < TIMESTAMPTZ '2002-01-01 00:00:00+00:00'", ["f11.parquet"]),
    ("filename = 'f12.parquet' OR id = 225", ["f12.parquet", "f22.parquet"]),
    ("suffix <> 'parquet'", []),
    ("\"$path\" LIKE '%'  AND filename = 'f22.parquet'", ["f22.parquet"]),
]


@pytest.mark.parametrize(("where", "names"), CONDITIONS)
def test_only_the_files_that_are_meant_are_opened(lake: Lake, where: str, names: list[str]) -> None:
    """SELECT, a scan, a count and ``prune`` agree on the files, and the rows are those of the same without pruning."""
    text = f'SELECT id, filename, "$partition", "$file_modified_time", "$path", suffix FROM dfs.w.t WHERE {where}'
    whole = lake.session.sql(
        text.replace(
            " FROM dfs.w.t",
            ' FROM (SELECT *, filename, "$partition", "$file_modified_time", "$path", suffix FROM dfs.w.t)',
        )
    )
    in_spark = where.replace('"', "`").replace("TIMESTAMPTZ", "TIMESTAMP")
    pruned = lake.session.prune("dfs.w.t", in_spark)
    assert sorted(Path(path).name for path in pruned.paths) == names
    with lake.opening_only(*names):
        found = lake.session.sql(text)
        scan = lake.session.tables.scan("dfs.w.t", in_spark)
        assert sorted(scan.to_arrow()["id"].to_pylist()) == sorted(found["id"].to_pylist())
        assert scan.count() == found.num_rows
    assert sorted(found.to_pylist(), key=str) == sorted(whole.to_pylist(), key=str)
    assert {row["filename"] for row in found.to_pylist()} == set(names)


def test_a_new_file_has_them_too(lake: Lake) -> None:
    """A file that ANALYZE has not seen is found by its name, and by no other."""
    write(lake.folder / "t/y=2/m=2/new.parquet", {"id": [7]})
    assert lake.ask("SELECT id, filename FROM dfs.w.t WHERE filename = 'new.parquet'") == [
        {"id": 7, "filename": "new.parquet"}
    ]
    assert "new.parquet" not in str(lake.session.prune("dfs.w.t", "filename = 'f11.parquet'").paths)


def test_stars_leave_them_out(lake: Lake) -> None:
    """``*`` has the table's own columns, whatever else the query names."""
    for star in ("*", "t.*", "* EXCLUDE (m)", "* REPLACE (1 AS y)", "COLUMNS(*)"):
        [row, *_] = lake.ask(f"SELECT {star} FROM dfs.w.t t WHERE filename = 'f12.parquet' AND \"$row_id\" IS NOT NULL")
        assert set(row) | {"m"} == {"id", "y", "m"}, star
    assert list(lake.ask('SELECT *, "$partition" FROM dfs.w.t LIMIT 1')[0]) == ["id", "y", "m", "$partition"]
    inner = "SELECT *, filename FROM dfs.w.t"
    assert list(lake.ask(f"SELECT * FROM ({inner}) WHERE filename = 'f12.parquet'")[0]) == ["id", "y", "m", "filename"]
    assert lake.ask("SELECT count(*) AS n FROM dfs.w.t WHERE suffix = 'parquet'") == [{"n": 24}]
    for text in ("FROM dfs.w.t WHERE filename = 'a'", "SELECT * EXCLUDE m FROM dfs.w.t WHERE filename = 'a'"):
        with pytest.raises(InvalidRequestError, match="filename"):
            lake.ask(text)


def test_a_real_column_hides_them(lake: Lake) -> None:
    """Of that name, in any case; also one of another table beside it, and a name that the query gives itself."""
    assert lake.ask("SELECT * FROM dfs.w.own WHERE filename = 'x'") == [{"id": 1, "filename": "x"}]
    assert lake.ask("SELECT FILENAME AS f FROM dfs.w.own ORDER BY f") == [{"f": "x"}, {"f": "y"}]
    joined = "FROM dfs.w.texts a JOIN dfs.w.own b USING (id) WHERE id = 1"
    assert lake.ask(f"SELECT filename {joined}") == [{"filename": "x"}]
    assert lake.ask(f"SELECT a.filename {joined}") == [{"filename": "a.json"}]
    assert lake.ask("SELECT 'n' AS filename, count(*) AS n FROM dfs.w.texts GROUP BY filename") == [
        {"filename": "n", "n": 3}
    ]
    with pytest.raises(InvalidRequestError, match="NATURAL"):
        lake.ask('SELECT * FROM dfs.w.texts a NATURAL JOIN dfs.w.own WHERE a."$path" IS NOT NULL')


def test_a_directory_of_that_name_hides_them(lake: Lake) -> None:
    """``filename=part_a/`` is a column of the table; DuckDB let one take the place of the other (duckdb#24310)."""
    for number, part in enumerate(("part_a", "part_b")):
        write(lake.folder / f"named/filename={part}/data.parquet", {"id": [number]})
    lake.session.analyze("dfs.w.named")
    assert lake.ask("SELECT id, filename FROM dfs.w.named ORDER BY id") == [
        {"id": 0, "filename": "part_a"},
        {"id": 1, "filename": "part_b"},
    ]
    assert lake.ask("SELECT id, suffix FROM dfs.w.named WHERE filename = 'part_b'") == [{"id": 1, "suffix": "parquet"}]


def test_every_format_has_them(lake: Lake) -> None:
    """A file without a dot in its name has an empty suffix, as in Drill; one in no directory no partition."""
    assert lake.ask('SELECT id, suffix, "$partition" AS p FROM dfs.w.texts ORDER BY id') == [
        {"id": 1, "suffix": "json", "p": None},
        {"id": 2, "suffix": "json", "p": None},
        {"id": 3, "suffix": "", "p": None},
    ]


def constant(row_id: bytes) -> str:
    """An id as DuckDB writes it."""
    return "'" + "".join(f"\\x{byte:02X}" for byte in row_id) + "'::BLOB"


def test_row_ids_are_those_of_the_scan(lake: Lake) -> None:
    """Quoted either way, selected, compared, joined and counted."""
    scanned = lake.session.tables.scan("dfs.w.t", row_id=True).to_arrow()
    right = dict(zip(scanned["$row_id"].to_pylist(), scanned["id"].to_pylist(), strict=True))
    for name in ('"$row_id"', "`$row_id`"):
        assert {row["$row_id"]: row["id"] for row in lake.ask(f"SELECT id, {name} FROM dfs.w.t")} == right
    twice = 'SELECT count(*) AS n FROM dfs.w.t a JOIN dfs.w.t b ON a."$row_id" = b."$row_id"'
    assert lake.ask(twice) == [{"n": 24}]


@pytest.mark.parametrize(
    "write_id", [constant, lambda one: f"from_hex('{one.hex()}')", lambda one: f"unhex('{one.hex()}')"]
)
def test_a_lookup_reads_the_row_groups_named(lake: Lake, write_id: Any) -> None:
    """Of 12 row groups in 4 files two in two; the others are not opened. What else is asked still holds."""
    ids = lake.ids("id IN (111, 225)")
    listed = ", ".join(map(write_id, ids))
    text = f'SELECT id FROM dfs.w.t WHERE "$row_id" IN ({listed})'
    with lake.opening_only("f11.parquet", "f22.parquet"):
        assert lake.ask(f"{text} ORDER BY id") == [{"id": 111}, {"id": 225}]
        assert lake.ask(f"{text} AND id > 200") == [{"id": 225}]
        assert lake.ask(f'{text} AND {write_id(ids[1])} = "$row_id"') == [{"id": 225}]
    plan = lake.session.sql(f"EXPLAIN {text}")["plan"].to_pylist()
    assert "  files: 2 of 4 read, 2 skipped" in plan
    assert "  row groups: 2 of 12 read, 10 skipped" in plan


def test_what_looks_up_nothing_says_so(lake: Lake) -> None:
    """NOT IN, OR and subqueries give the right rows, by reading all, with a note."""
    [one] = lake.ids("id = 111")
    for where, count in (
        (f'"$row_id" NOT IN ({constant(one)})', 23),
        (f'"$row_id" = {constant(one)} OR id = 225', 2),
        (f'"$row_id" IN (SELECT {constant(one)})', 1),
    ):
        assert lake.ask(f"SELECT count(*) AS n FROM dfs.w.t WHERE {where}") == [{"n": count}], where
        plan = lake.session.sql(f"EXPLAIN SELECT id FROM dfs.w.t WHERE {where}")["plan"].to_pylist()
        assert any("$row_id chooses row groups only by" in line for line in plan), where


def test_ids_that_name_no_row_are_refused(lake: Lake) -> None:
    """One that was made up, one of another table, one of a partition that has changed since."""
    [one] = lake.ids("id = 225")
    text = 'SELECT id FROM dfs.w.t WHERE "$row_id" = {}'
    with pytest.raises(InvalidRequestError, match="24 bytes"):
        lake.ask(text.format("'abc'::BLOB"))
    with pytest.raises(InvalidRequestError, match="no row id of"):
        lake.ask(text.format(constant(bytes(24))))
    write(lake.folder / "t/y=2/m=2/new.parquet", {"id": [5]})
    with pytest.raises(StaleRowIdError, match="y=2"):
        lake.ask(text.format(constant(one)))
    with pytest.raises(InvalidRequestError, match="JSON"):
        lake.ask('SELECT "$row_id" FROM dfs.w.texts')
