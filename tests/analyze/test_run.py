"""ANALYZE end to end on the local engine: what is stored, when nothing is, and that increments equal a fresh run."""

from __future__ import annotations

import datetime as dt
import threading
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, cast
from urllib.parse import urlsplit

import pyarrow as pa
import pytest
from support.lake_folder import Lake
from support.tables_of_kinds import make_tables, settings_of_kinds
from support.unit_rows import Units

from metastore.analyze.request import AnalyzeRequest
from metastore.analyze.result import AnalyzeResult
from metastore.analyze.run import analyze, drop_metadata
from metastore.analyze.stored_metadata import StoredMetadata
from metastore.analyze.tasks.segments import make_segments
from metastore.components.metastore import Metastore
from metastore.components.operations.read import Read
from metastore.engines.engine import Capabilities, Engine, ResultsTooLargeError
from metastore.errors import FormatError, InvalidRequestError, NotFoundError, StorageError
from metastore.lake.formats.source_file import SourceFile
from metastore.model.identity import TableInfo
from metastore.model.statistics_json import read_holders
from metastore.model.table_unit import TableMetadataUnit
from metastore.model.vocabulary import MetadataType
from metastore.session import connect
from metastore.sources.source_table import SourceTable

TABLE = TableInfo("dfs", "tmp", "t")


def stored(metastore: Metastore) -> pa.Table:
    """All units of the metastore."""
    return metastore.tables.read().metadata_types(MetadataType.ALL).to_arrow()


@pytest.fixture
def run(metastore: Metastore, lake: Lake, engine: Engine) -> Callable[..., AnalyzeResult]:
    """ANALYZE of the lake."""

    def run(on_progress: Any = None, **request: Any) -> AnalyzeResult:
        source = SourceTable(TABLE, str(lake.root))
        return analyze(metastore.tables, source, engine, AnalyzeRequest(**request), on_progress=on_progress)

    return run


@pytest.fixture
def units(metastore: Metastore, units_of: Callable[[pa.Table], Any]) -> Callable[[], Units]:
    """The units that stand in the metastore now."""
    return lambda: units_of(stored(metastore))


def test_the_table_unit_sums_up_all_files(
    lake: Lake, run: Callable[..., AnalyzeResult], units: Callable[[], Units]
) -> None:
    """General information has the merged schema with the directory columns, row count, level, keys and location."""
    lake.write("year=2024/a.parquet", {"x": [1, 2], "only_here": ["v", None]})
    lake.write("year=2025/b.parquet", {"x": [2.5]})
    result = run()
    assert (result.status, result.files, result.new, result.rows) == ("analyzed", 2, 2, 3)
    table = units().one("TABLE")
    assert table["metadataKey"] == table["metadataIdentifier"] == "GENERAL_INFO"
    assert (table["tableType"], table["location"]) == ("PARQUET", str(lake.root))
    assert table["owner"] == lake.root.owner()
    assert table["partitionKeys"] == [("year", "dir0")]
    assert table["interestingColumns"] is None
    assert {c.name: (c.type, c.required) for c in table["schema"].columns} == {
        "x": ("DOUBLE", False),
        "only_here": ("VARCHAR", False),
        "year": ("INT", False),
    }
    x, other = table["columnsStatistics"]["`x`"], table["columnsStatistics"]["`only_here`"]
    assert (x.min, x.max, x.nulls, x.rows) == (1, 2.5, 0, 3)
    assert (other.min, other.max, other.nulls, other.rows) == ("v", "v", 2, 3), "a file without the column is all null"
    assert read_holders(table["metadataStatistics"]) == {"rowCount": 3, "analyzeMetadataLevel": "ROW_GROUP"}


def test_files_are_listed_while_metadata_is_read(
    metastore: Metastore, lake: Lake, engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two waits are one: the listing does not begin after the table's unit has been read."""
    lake.write("a.parquet", {"x": [1]})
    listing = threading.Event()
    list_files, known = SourceTable.files, cast("Any", StoredMetadata.known_table).func

    def files(source: SourceTable) -> Any:
        listing.set()
        return list_files(source)

    def read(stored: StoredMetadata) -> Any:
        assert listing.wait(60)
        return known(stored)

    monkeypatch.setattr(SourceTable, "files", files)
    monkeypatch.setattr(StoredMetadata, "known_table", property(read))
    result = analyze(metastore.tables, SourceTable(TABLE, str(lake.root)), engine)
    assert (result.files, result.rows) == (1, 1)


def test_segments_nest(lake: Lake, run: Callable[..., AnalyzeResult], units: Callable[[], Units]) -> None:
    """Every directory is a segment with all files below it; files in no directory make the default segment."""
    paths = [
        lake.write(name, {"x": [n]}) for n, name in enumerate(["a.parquet", "1994/b.parquet", "1994/Q1/c.parquet"])
    ]
    run()
    segments = {row["metadataIdentifier"]: row for row in units().of_type("SEGMENT")}
    assert {name: row["locations"] for name, row in segments.items()} == {
        "DEFAULT_SEGMENT": [paths[0]],
        "1994": sorted(paths[1:]),
        "1994/Q1": [paths[2]],
    }
    quarter = segments["1994/Q1"]
    assert (quarter["metadataKey"], quarter["column"], quarter["partitionValues"]) == ("1994", "`dir1`", ["1994", "Q1"])
    assert quarter["location"] == quarter["path"] == str(lake.root / "1994/Q1")
    assert (segments["DEFAULT_SEGMENT"]["column"], segments["DEFAULT_SEGMENT"]["path"]) == (None, str(lake.root))
    assert segments["1994"]["columnsStatistics"]["`x`"].max == 2


def test_constant_columns_make_partitions(
    lake: Lake, run: Callable[..., AnalyzeResult], units: Callable[[], Units]
) -> None:
    """One unit for each directory and value of a column that is constant in every file; others make none."""
    day = dt.date(2020, 1, 2)
    a = lake.write("k/a.parquet", {"day": [day] * 2, "mixed": [1, 1], "gone": pa.nulls(2, pa.int64())})
    b = lake.write("k/b.parquet", {"day": [day], "mixed": [1], "gone": [7]})
    c = lake.write("k/s/c.parquet", {"day": [day] * 2, "mixed": [1, 2]})
    run()
    found = [
        (row["metadataIdentifier"], row["column"], row["partitionValues"], row["locations"], row["metadataKey"])
        for row in units().of_type("PARTITION")
    ]
    assert found == [
        ("k/2020-01-02", "`day`", ["2020-01-02"], [a, b], "k"),
        ("k/7", "`gone`", ["7"], [b], "k"),
        ("k/null", "`gone`", [None], [a], "k"),
        ("k/s/2020-01-02", "`day`", ["2020-01-02"], [c], "k"),
        ("k/s/null", "`gone`", [None], [c], "k"),
    ]


def test_nan_may_hide_in_a_constant_column(
    lake: Lake, run: Callable[..., AnalyzeResult], units: Callable[[], Units]
) -> None:
    """Equal bounds of a float column prove nothing where the writer passes over NaNs."""
    lake.write("a.parquet", {"x": [1.0, float("nan")]})
    run()
    assert units().of_type("PARTITION") == []


@pytest.mark.parametrize(
    ("level", "kinds"),
    [
        ("TABLE", {"TABLE"}),
        ("segment", {"TABLE", "SEGMENT"}),
        ("PARTITION", {"TABLE", "SEGMENT", "PARTITION"}),
        ("FILE", {"TABLE", "SEGMENT", "PARTITION", "FILE"}),
        ("ROW_GROUP", {"TABLE", "SEGMENT", "PARTITION", "FILE", "ROW_GROUP"}),
        ("ALL", {"TABLE", "SEGMENT", "PARTITION", "FILE", "ROW_GROUP"}),
    ],
)
def test_a_level_stores_its_units_and_those_above(
    lake: Lake, run: Callable[..., AnalyzeResult], units: Callable[[], Units], level: str, kinds: set[str]
) -> None:
    """Each level includes those above it, and is up to date on the second run."""
    lake.write("d/a.parquet", {"x": [1, 1]})
    run(level=level)
    assert {row["metadataType"] for row in units().rows} == kinds
    assert units().one("TABLE")["columnsStatistics"]["`x`"].max == 1
    assert run(level=level).status == "up to date"
    lake.write("d/b.parquet", {"x": [5]})
    assert run(level=level).rows == 3
    assert units().one("TABLE")["columnsStatistics"]["`x`"].max == 5


def test_an_unchanged_table_is_left_alone(lake: Lake, run: Callable[..., AnalyzeResult], metastore: Metastore) -> None:
    """A second run writes no snapshot, whatever part of the last run's columns it asks for."""
    lake.write("d/a.parquet", {"x": [1], "y": [2]})
    version = run().version
    for columns in (None, ["x"], []):
        again = run(columns=columns)
        assert (again.status, again.version, again.files) == ("up to date", version, 1)
    assert metastore.tables.metadata.version == version
    assert len(metastore.tables.metadata.history()) == 1


def test_one_run_is_one_snapshot_of_the_touched_segments(
    lake: Lake, run: Callable[..., AnalyzeResult], metastore: Metastore
) -> None:
    """New, changed and removed files and segments are counted, and only their segments are written."""
    for name in ("a/1", "a/2", "b/1", "c/1", "d/1"):
        lake.write(f"{name}.parquet", {"x": [1]})
    run()
    lake.write("a/1.parquet", {"x": [9]})
    lake.write("a/3.parquet", {"x": [3]})
    lake.remove("b/1.parquet")
    lake.write("e/1.parquet", {"x": [3]})
    result = run()
    assert (result.new, result.changed, result.removed, result.files) == (2, 1, 1, 6)
    assert (result.segments_written, result.segments_removed, result.reason) == (2, 1, None)
    assert len(metastore.tables.metadata.history()) == 2


@pytest.mark.parametrize(
    ("first", "second", "reason"),
    [
        ({}, {"level": "FILE"}, "level"),
        ({"columns": ["x"]}, {}, "columns"),
        ({"columns": ["x"]}, {"columns": ["x", "y"]}, "columns"),
        ({"columns": []}, {"columns": ["y"]}, "columns"),
    ],
)
def test_other_levels_and_columns_concern_all_files(
    lake: Lake, run: Callable[..., AnalyzeResult], units: Callable[[], Units], first: Any, second: Any, reason: str
) -> None:
    """The result has the reason, and equals that of a first run. Directories always have bounds."""
    lake.write("d/a.parquet", {"x": [1], "y": [2]})
    run(**first)
    assert reason in (run(**second).reason or "")
    wanted = {f"`{name}`" for name in ["dir0", *second.get("columns", ["x", "y"])]}
    assert set(units().one("TABLE")["columnsStatistics"]) == wanted


def test_fewer_columns_are_kept_up_with_the_known_ones(
    lake: Lake, run: Callable[..., AnalyzeResult], units: Callable[[], Units]
) -> None:
    """An incremental run for some of the known columns keeps all of them true."""
    lake.write("d/a.parquet", {"x": [1], "y": [2]})
    run(columns=["x", "y"])
    lake.write("d/b.parquet", {"x": [3], "y": [4]})
    assert run(columns=["y"]).reason is None
    assert units().one("TABLE")["interestingColumns"] == ["`x`", "`y`"]
    assert units().one("TABLE")["columnsStatistics"]["`x`"].max == 3


def test_a_table_emptied_keeps_its_general_information(
    lake: Lake, run: Callable[..., AnalyzeResult], units: Callable[[], Units]
) -> None:
    """Without files there are no segments, and the table has no rows."""
    lake.write("d/a.parquet", {"x": [1]})
    run()
    lake.remove("d/a.parquet")
    assert (run().removed, [row["metadataType"] for row in units().rows]) == (1, ["TABLE"])
    assert read_holders(units().one("TABLE")["metadataStatistics"])["rowCount"] == 0
    assert run().status == "up to date"


def test_a_corrupt_file_changes_nothing(lake: Lake, run: Callable[..., AnalyzeResult], metastore: Metastore) -> None:
    """The error names the file, and the metadata stays that of before."""
    lake.write("d/a.parquet", {"x": [1]})
    version = run().version
    lake.put("d/bad.parquet", b"nonsense")
    with pytest.raises(FormatError, match=r"d/bad\.parquet"):
        run()
    assert metastore.tables.metadata.version == version


def test_reserved_and_unknown_names_are_refused(
    lake: Lake, run: Callable[..., AnalyzeResult], metastore: Metastore
) -> None:
    """A directory called like a reserved key, an unknown column and an unknown level write nothing."""
    lake.write("a.parquet", {"x": [1]})
    with pytest.raises(InvalidRequestError, match="nope"):
        run(columns=["nope"])
    with pytest.raises(InvalidRequestError, match="depth"):
        run(level="depth")
    lake.write("DEFAULT_SEGMENT/a.parquet", {"x": [1]})
    with pytest.raises(InvalidRequestError, match="DEFAULT_SEGMENT"):
        run()
    assert metastore.tables.metadata.version == 0


def test_columns_that_the_table_lacks_are_refused_whenever_they_are_named(
    lake: Lake, run: Callable[..., AnalyzeResult], units: Callable[[], Units]
) -> None:
    """For bounds and for statistics, in a first run and where nothing changed; names are case-sensitive."""
    lake.write("a.parquet", {"id": [1], "s": [{"x": 1}], "l": [[1]]})
    wrong: list[dict[str, Any]] = [{"columns": ["nope"]}, {"statistics": ["nope"]}, {"statistics": ["ID"]}]
    wrong += [{"columns": ["s.nope"]}, {"columns": ["id"], "statistics": ["nope"]}, {"columns": ["id.x"]}]
    for request in wrong:
        with pytest.raises(InvalidRequestError, match="there is no column"):
            run(**request)
    run()
    for request in wrong:
        with pytest.raises(InvalidRequestError, match="there is no column"):
            run(**request)
    assert run(columns=["id", "s", "s.x", "l"]).status == "up to date"
    assert "metastore.sketches" not in units().one("TABLE")["additionalMetadata"]


def test_a_column_that_is_kept_up_may_go(
    lake: Lake, run: Callable[..., AnalyzeResult], units: Callable[[], Units]
) -> None:
    """Runs that do not name it go on, with what is left."""
    lake.write("a.parquet", {"id": [1], "old": [1]})
    run(columns=["id", "old"], statistics=["old"])
    lake.write("a.parquet", {"id": [2]})
    assert run(columns=["id"]).changed == 1
    assert units().one("TABLE")["columnsStatistics"]["`id`"].min == 2
    with pytest.raises(InvalidRequestError, match="old"):
        run(columns=["old"])


def test_a_path_that_is_here_a_struct_and_there_a_number_is_unknown(
    lake: Lake, run: Callable[..., AnalyzeResult], units: Callable[[], Units]
) -> None:
    """Where files disagree about nesting nothing is claimed of the column, least of all that it is null."""
    lake.write("a.parquet", {"x": [1]})
    lake.write("b.parquet", {"x": [{"y": 1}]})
    lake.write("c.parquet", {"x": [[1]]})
    run()
    statistics = units().one("TABLE")["columnsStatistics"]
    assert set(statistics) == {"`x`"}
    assert (statistics["`x`"].min, statistics["`x`"].max, statistics["`x`"].nulls) == (None, None, None)


def test_drop_forgets_the_table(lake: Lake, run: Callable[..., AnalyzeResult], metastore: Metastore) -> None:
    """Dropped metadata is gone, dropping nothing is an error unless allowed, and the data stays."""
    path = lake.write("d/a.parquet", {"x": [1]})
    run()
    assert drop_metadata(metastore.tables, TABLE)
    assert stored(metastore).num_rows == 0
    assert not drop_metadata(metastore.tables, TABLE, if_exists=True)
    with pytest.raises(NotFoundError, match=r"dfs\.tmp\.t"):
        drop_metadata(metastore.tables, TABLE)
    assert Path(path).exists()


def test_drop_needs_no_file_of_the_metadata(
    lake: Lake, run: Callable[..., AnalyzeResult], metastore: Metastore
) -> None:
    """Where data files of the component are lost, dropping is the way to analyze the table anew."""
    lake.write("d/a.parquet", {"x": [1]})
    run()
    for file in Path(urlsplit(metastore.tables.metadata.location or "").path).rglob("*.parquet"):
        file.unlink()
    with pytest.raises(StorageError):
        run()
    assert drop_metadata(metastore.tables, TABLE)
    assert run().new == 1


def test_metadata_that_its_keeper_brings_is_not_made_here(tmp_path: Path) -> None:
    """Bounds, statistics and parts of a table of Iceberg or Delta are refused, and nothing is stored."""
    with connect(settings_of_kinds(tmp_path)) as session:
        make_tables(session, tmp_path)
        for table, kept_as in (("lake.db.full", "ICEBERG"), ("delta.w.full", "DELTA")):
            for request, told in (
                ({"bounds": ["b"]}, f"{kept_as}: its bounds come with its metadata; leave BOUNDS out"),
                ({"statistics": True}, f"{kept_as}: its statistics come with its metadata"),
                ({"paths": ["a.parquet"]}, "it was not analyzed before; analyze it whole"),
            ):
                with pytest.raises(InvalidRequestError, match=told):
                    session.analyze(table, **request)
            assert stored(session.metastore).num_rows == 0
            session.analyze(table)
            with pytest.raises(InvalidRequestError, match="its catalog says which files it has; analyze it whole"):
                session.analyze(table, paths=["a.parquet"])
            session.drop_metadata(table)


def test_progress_counts_footers(lake: Lake, run: Callable[..., AnalyzeResult]) -> None:
    """Progress ends at the number of files, and counts up."""
    for number in range(40):
        lake.write(f"{number}.parquet", {"x": [number]})
    told: list[tuple[int, int]] = []
    run(on_progress=lambda done, total: told.append((done, total)))
    assert told[-1] == (40, 40)
    assert told == sorted(set(told))


class Interrupting:
    """An engine that lets something happen each time before it runs."""

    name = "interrupting"
    capabilities = Capabilities()
    parallelism = 1

    def __init__(self, engine: Engine, *happenings: Callable[[], object]) -> None:
        self._engine = engine
        self._happenings = list(happenings)

    def run(self, chunks: Any, task: Any, schema: pa.Schema) -> Any:
        """Let the next thing happen, then run."""
        if self._happenings:
            self._happenings.pop(0)()
        return self._engine.run(chunks, task, schema)

    def close(self) -> None:
        """Nothing of its own to close."""


def test_a_run_that_was_overtaken_decides_again(
    lake: Lake, run: Callable[..., AnalyzeResult], metastore: Metastore, engine: Engine
) -> None:
    """If another run of the table commits first, the later one builds on it instead of undoing it."""
    lake.write("a/1.parquet", {"x": [1]})

    def overtake() -> None:
        lake.write("b/1.parquet", {"x": [2]})
        assert run().files == 2

    result = analyze(metastore.tables, SourceTable(TABLE, str(lake.root)), Interrupting(engine, overtake))
    assert (result.status, result.files) == ("up to date", 2)
    assert len(metastore.tables.metadata.history()) == 1


def test_commits_to_other_tables_do_not_matter(
    lake: Lake, metastore: Metastore, engine: Engine, unit: Callable[..., TableMetadataUnit]
) -> None:
    """A commit to another table between decision and commit costs no second run."""
    lake.write("a/1.parquet", {"x": [1]})
    other = Interrupting(engine, lambda: metastore.tables.modify().overwrite([unit("other")]).execute())
    result = analyze(metastore.tables, SourceTable(TABLE, str(lake.root)), other)
    assert result.reason == "the table was not analyzed before"
    assert len(metastore.tables.metadata.history()) == 2


@pytest.mark.parametrize("looked_for", ["table", "segments"])
def test_the_version_that_it_began_from_may_expire(
    lake: Lake,
    run: Callable[..., AnalyzeResult],
    metastore: Metastore,
    unit: Callable[..., TableMetadataUnit],
    units: Callable[[], Units],
    monkeypatch: pytest.MonkeyPatch,
    looked_for: str,
) -> None:
    """Then it begins from the newest; a file of the data that is missing stays an error."""
    lake.write("x=1/a.parquet", {"v": [1]})
    lake.write("x=2/b.parquet", {"v": [2]})
    run()
    lake.write("x=1/a.parquet", {"v": [3]})
    begun = iter([True])

    def expire() -> None:
        if next(begun, False):
            metastore.tables.modify().overwrite([unit("another")]).execute()
            metastore.tables.expiration.expire()

    read, partitions = Read.to_arrow, Read.partitions

    def before_it_is_planned(self: Read[Any]) -> pa.Table:
        expire()
        return read(self)

    def before_a_task_reads(self: Read[Any]) -> Any:
        found = partitions(self)
        expire()
        return found

    if looked_for == "table":
        monkeypatch.setattr(Read, "to_arrow", before_it_is_planned)
    else:
        monkeypatch.setattr(Read, "partitions", before_a_task_reads)
    assert run().changed == 1
    assert next(begun, None) is None
    assert sorted(segment["metadataKey"] for segment in units().of_type("SEGMENT")) == ["x=1", "x=2"]
    lake.write("x=1/a.parquet", {"v": [4]})
    monkeypatch.setattr(SourceTable, "files", lambda _: [SourceFile(("x=1",), "c", f"{lake.root}/x=1/c", 9, 9)])
    with pytest.raises(NotFoundError, match="x=1/c is gone"):
        run()


class _Narrow:
    """The engine, of which segments are more than it hands over; after ``most`` of them."""

    def __init__(self, engine: Engine, most: int) -> None:
        self.name, self.parallelism, self.capabilities = engine.name, 4, engine.capabilities
        self._engine, self._most = engine, most

    def run(self, chunks: Sequence[Any], task: Any, schema: pa.Schema) -> Iterator[pa.RecordBatch]:
        """Footers as ever; of segments some, and then the error."""
        if task is not make_segments:
            yield from self._engine.run(chunks, task, schema)
            return
        yield from self._engine.run(chunks[: self._most], task, schema)
        raise ResultsTooLargeError("more than the engine hands over")

    def close(self) -> None:
        """Nothing was started."""


@pytest.mark.parametrize("most", [0, 1])
def test_segments_too_large_for_the_engine_are_read_in_pieces(
    metastore: Metastore, lake: Lake, engine: Engine, as_units: Callable[[pa.Table], list[str]], most: int
) -> None:
    """ANALYZE, and again after a change, stores what it stores where everything fits; what came before stays."""
    for number in range(40):
        lake.write(f"p{number % 4}/{number}.parquet", {"x": [number, None]})
    source = SourceTable(TABLE, str(lake.root))

    def stored_after(by: Any) -> list[str]:
        analyze(metastore.tables, source, by, AnalyzeRequest())
        return as_units(stored(metastore))

    narrow = _Narrow(engine, most)
    found = stored_after(narrow)
    lake.write("p1/41.parquet", {"x": [100]})
    changed = stored_after(narrow)
    drop_metadata(metastore.tables, TABLE)
    assert stored_after(engine) == changed
    lake.remove("p1/41.parquet")
    drop_metadata(metastore.tables, TABLE)
    assert stored_after(engine) == found
