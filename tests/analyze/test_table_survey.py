"""Large tables: tasks list, decide, read, roll up and store; the driver holds a line a segment and commits once."""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from support.lake_folder import Lake
from support.watched_engine import WatchedEngine

from metastore.analyze.request import AnalyzeRequest
from metastore.analyze.run import analyze
from metastore.analyze.tasks.chunks import Limits
from metastore.analyze.tasks.directories import DirectoryChunk, make_directories
from metastore.analyze.tasks.segments import SegmentChunk
from metastore.analyze.tasks.survey import SurveyChunk
from metastore.components.metastore import Metastore
from metastore.components.storage.file_groups import FetchedGroup
from metastore.engines.engine import Chunk, Engine
from metastore.errors import FormatError, InvalidRequestError
from metastore.model.identity import TableInfo
from metastore.model.vocabulary import MetadataType
from metastore.sources.source_table import SourceTable

TABLE = TableInfo("dfs", "tmp", "t")
LARGE = Limits(surveyed=(2, 0, 0))
"""A table of two directories counts as large."""


@pytest.fixture(autouse=True)
def begun(lake: Lake) -> Lake:
    """Four segments, nested ones and files in no directory among them."""
    lake.write("day=1/a.parquet", {"x": [1, 2]}, row_group_size=1)
    lake.write("day=1/hour=2/b.parquet", {"x": [3]})
    lake.write("day=2/a.parquet", {"x": [4]})
    lake.write("day=3/a.parquet", {"x": [5]})
    lake.write("top.parquet", {"x": [0]})
    return lake


def files_of(metastore: Metastore) -> set[str]:
    """The data files on the disk below the component."""
    location = metastore.tables.metadata.location
    assert location is not None
    return {str(path) for path in Path(location).rglob("*.parquet")}


def named_files(metastore: Metastore) -> set[str]:
    """The data files that the newest version names."""
    groups = metastore.tables.read().metadata_types(MetadataType.ALL).partitions().values()
    return {path for group in groups for path in group.files.paths}


class Twice:
    """An engine that runs each chunk twice and returns one of the attempts, as Spark does with speculative tasks."""

    name = "twice"
    parallelism = 2

    def __init__(self, engine: Engine) -> None:
        self.capabilities = engine.capabilities

    def run(
        self, chunks: Sequence[Chunk], task: Callable[[Chunk], Iterable[pa.RecordBatch]], schema: pa.Schema
    ) -> Iterator[pa.RecordBatch]:
        """Both attempts of a chunk run to their end."""
        for chunk in chunks:
            lost, counted = (list(task(pickle.loads(pickle.dumps(chunk)))) for _ in range(2))  # noqa: S301 - ours
            assert len(lost) == len(counted)
            yield from counted

    def close(self) -> None:
        """Nothing to close."""


def test_the_driver_sends_no_file_and_gets_no_content(begun: Lake, metastore: Metastore, engine: Engine) -> None:
    """Chunks name directories; answers have a row a segment, with no content of the partition's file."""
    watched = WatchedEngine(engine)
    result = analyze(metastore.tables, SourceTable(TABLE, str(begun.root)), watched, limits=LARGE)
    assert (result.files, result.new, result.segments_written, result.rows) == (5, 5, 4, 6)
    surveyed = [each for each in watched.chunks if isinstance(each, SurveyChunk)]
    made = [each for each in watched.chunks if isinstance(each, DirectoryChunk)]
    for listings in ([each.listing for each in surveyed], [each.listing for each in made]):
        assert [name for listing in listings for name in listing.names] == ["day=1", "day=2", "day=3"]
    # Files in no directory are the driver's, which has listed them.
    assert [len(each.footers.files) for each in watched.chunks if isinstance(each, SegmentChunk)] == [1]
    for chunk in made:
        assert chunk.segments.footers.files == []
        partitions: list[Any] = [each for batch in make_directories(chunk) for each in batch["partition"].to_pylist()]
        assert all(partition["content"] is None for partition in partitions)


@pytest.mark.parametrize("files", [1, 20])
def test_what_the_driver_gets_does_not_grow_with_files(
    begun: Lake, metastore: Metastore, engine: Engine, files: int
) -> None:
    """Each segment is one row of the survey and one of its maker, in a few kilobytes."""
    for number in range(files):
        begun.write(f"day=2/n{number}.parquet", {"x": [number]})
    sizes: list[int] = []

    def weigh(chunks: Sequence[Any], task: Callable[[Any], Iterable[pa.RecordBatch]]) -> None:
        if isinstance(chunks[0], SurveyChunk | DirectoryChunk):
            sizes.append(sum(batch.nbytes for chunk in chunks for batch in task(chunk)))

    watched = WatchedEngine(engine, weigh)
    analyze(metastore.tables, SourceTable(TABLE, str(begun.root)), watched, limits=LARGE)
    assert watched.rows == 3 + 1 + 3
    assert len(sizes) == 2
    assert sum(sizes) < 14_000


def test_another_engine_than_the_surveys_is_sent_stored_units(
    begun: Lake, metastore: Metastore, engine: Engine
) -> None:
    """A local engine lists, and reaches the store; executors that make segments afterwards may not."""
    source = SourceTable(TABLE, str(begun.root))
    analyze(metastore.tables, source, engine, limits=LARGE)
    begun.touch("day=2/a.parquet")
    asked: list[int] = []
    makers = WatchedEngine(Twice(engine))

    def chosen(files: int) -> Engine:
        asked.append(files)
        return engine if files == 0 else makers

    assert analyze(metastore.tables, source, chosen, limits=LARGE).changed == 1
    assert asked == [0, 1]
    [chunk] = makers.chunks
    stored = pickle.loads(pickle.dumps(chunk)).stored["day=2"]  # noqa: S301 - pickled here
    assert isinstance(stored, FetchedGroup)


def test_nothing_is_read_of_what_did_not_change(begun: Lake, metastore: Metastore, engine: Engine) -> None:
    """A second run surveys alone; a third makes the one directory that has changed."""
    source = SourceTable(TABLE, str(begun.root))
    analyze(metastore.tables, source, engine, limits=LARGE)
    watched = WatchedEngine(engine)
    result = analyze(metastore.tables, source, watched, limits=LARGE)
    assert (result.status, result.files) == ("up to date", 5)
    assert {type(chunk) for chunk in watched.chunks} == {SurveyChunk}
    begun.write("day=2/b.parquet", {"x": [9]})
    result = analyze(metastore.tables, source, watched, limits=LARGE)
    assert (result.new, result.changed, result.segments_written) == (1, 0, 1)
    [chunk] = [each for each in watched.chunks if isinstance(each, DirectoryChunk)]
    assert chunk.listing.names == ["day=2"]


@pytest.mark.parametrize(
    "limits",
    [Limits(surveyed=(5, 0, 0)), Limits(surveyed=(2, 6, 0)), Limits(surveyed=(2, 0, 2))],
    ids=["directories", "files", "files a directory"],
)
def test_smaller_tables_are_listed_by_the_driver(
    begun: Lake, metastore: Metastore, engine: Engine, limits: Limits
) -> None:
    """Before they were analyzed, by a sample; afterwards, by their units, of which each file has two or more."""
    watched, source = WatchedEngine(engine), SourceTable(TABLE, str(begun.root))
    analyze(metastore.tables, source, watched, limits=limits)
    begun.touch("top.parquet")
    analyze(metastore.tables, source, watched, limits=replace(limits, surveyed=(2, 100, 0)))
    assert {type(chunk) for chunk in watched.chunks} == {SegmentChunk}


def test_attempts_that_do_not_count_leave_nothing(begun: Lake, metastore: Metastore, engine: Engine) -> None:
    """Of tasks that ran twice, the commit names one file, and the other one is removed."""
    source = SourceTable(TABLE, str(begun.root))
    assert analyze(metastore.tables, source, Twice(engine), limits=LARGE).segments_written == 4
    assert files_of(metastore) == named_files(metastore)


def test_a_run_that_fails_leaves_nothing(begun: Lake, metastore: Metastore, engine: Engine) -> None:
    """What tasks had stored before one of them failed is removed; what stood before stays."""
    source = SourceTable(TABLE, str(begun.root))
    analyze(metastore.tables, source, engine, limits=LARGE)
    before = files_of(metastore)
    begun.touch("day=1/a.parquet")
    begun.put("day=3/a.parquet", b"PAR1 and nothing else PAR1")
    seen: list[set[str]] = []

    def look(chunks: Sequence[Any], task: Callable[[Any], Iterable[pa.RecordBatch]]) -> None:
        if isinstance(chunks[0], DirectoryChunk):
            list(task(chunks[0]))
            seen.append(files_of(metastore) - before)

    with pytest.raises(FormatError, match=r"day=3/a\.parquet"):
        analyze(metastore.tables, source, WatchedEngine(engine, look), limits=LARGE)
    assert [len(files) for files in seen] == [1]
    assert files_of(metastore) == before == named_files(metastore)


def test_the_removal_spares_files_of_other_runs(begun: Lake, metastore: Metastore, engine: Engine) -> None:
    """A file beside is no file of this run, whatever it is; only its own name proves that."""
    source = SourceTable(TABLE, str(begun.root))
    analyze(metastore.tables, source, engine, limits=LARGE)
    folder = Path(next(iter(named_files(metastore)))).parent
    (folder / "of-another-run.parquet").write_bytes(b"x")
    begun.touch("day=1/a.parquet")
    analyze(metastore.tables, source, Twice(engine), limits=LARGE)
    assert (folder / "of-another-run.parquet").exists()


def test_tasks_without_the_store_return_the_content(
    begun: Lake,
    open_metastore: Callable[..., Metastore],
    tmp_path: Path,
    engine: Engine,
    as_units: Callable[[pa.Table], list[str]],
) -> None:
    """Executors that do not see the driver's metadata file store nothing; the driver does, and the units are equal."""
    source = SourceTable(TABLE, str(begun.root))
    here, there = (open_metastore(location={"base_path": str(tmp_path / name)}) for name in ("here", "there"))
    analyze(here.tables, source, engine, limits=LARGE)

    class Elsewhere(Twice):
        """Runs tasks where the metastore's folder is missing."""

        def run(self, chunks: Any, task: Any, schema: pa.Schema) -> Iterator[pa.RecordBatch]:
            """The folder is away while tasks run."""
            sent = [pickle.dumps(chunk) for chunk in chunks]
            (tmp_path / "there").rename(tmp_path / "away")
            batches = [batch for one in sent for batch in task(pickle.loads(one))]  # noqa: S301 - ours
            (tmp_path / "away").rename(tmp_path / "there")
            return iter(batches)

    elsewhere = WatchedEngine(Elsewhere(engine))
    analyze(there.tables, source, elsewhere, limits=LARGE)
    begun.touch("day=2/a.parquet")
    for metastore in (here, there):
        assert analyze(metastore.tables, source, elsewhere if metastore is there else engine, limits=LARGE).changed == 1
    found = [one.tables.read().metadata_types(MetadataType.ALL).to_arrow() for one in (here, there)]
    assert as_units(found[0]) == as_units(found[1])
    assert files_of(there) >= named_files(there)


def test_a_directory_that_goes_meanwhile_is_decided_anew(begun: Lake, metastore: Metastore, engine: Engine) -> None:
    """It had files for the survey and none for its maker: the run starts over, and the table has no such segment."""
    source = SourceTable(TABLE, str(begun.root))

    def remove(chunks: Sequence[Any], _: Callable[[Any], Any]) -> None:
        if isinstance(chunks[0], DirectoryChunk) and (begun.root / "day=3").exists():
            begun.remove("day=3/a.parquet")

    result = analyze(metastore.tables, source, WatchedEngine(engine, remove), limits=LARGE)
    assert (result.files, result.segments_written) == (4, 3)
    assert files_of(metastore) == named_files(metastore)


def test_a_file_that_comes_meanwhile_is_there(
    begun: Lake, open_metastore: Callable[..., Metastore], tmp_path: Path, engine: Engine
) -> None:
    """Its segment's state is that of the listing that its maker saw: the next run finds nothing to do."""
    metastore, source = open_metastore(location={"base_path": str(tmp_path / "m")}), SourceTable(TABLE, str(begun.root))

    def add(chunks: Sequence[Any], _: Callable[[Any], Any]) -> None:
        if isinstance(chunks[0], DirectoryChunk):
            begun.write("day=3/hour=7/new.parquet", {"x": [70]})

    assert analyze(metastore.tables, source, WatchedEngine(engine, add), limits=LARGE).rows == 7
    for limits in (LARGE, Limits()):
        assert analyze(metastore.tables, source, engine, limits=limits).status == "up to date"
    units = metastore.tables.read().metadata_types(MetadataType.TABLE).to_arrow()
    assert ("hour", "dir1") in units["partitionKeys"][0].as_py()


def test_directories_need_no_footers_of_other_formats(lake: Lake, metastore: Metastore, engine: Engine) -> None:
    """Text and described columns are read as for smaller tables; mixed formats are refused with a file's name."""
    source = SourceTable(TABLE, str(lake.root))
    assert analyze(metastore.tables, source, engine, AnalyzeRequest(statistics=["x"]), limits=LARGE).new == 5
    lake.write("day=4/a.csv", {"x": [1]})
    with pytest.raises(InvalidRequestError, match=r"several formats: CSV \(.*day=4/a\.csv\), PARQUET"):
        analyze(metastore.tables, SourceTable(TableInfo("dfs", "tmp", "u"), str(lake.root)), engine, limits=LARGE)


def test_text_in_directories(lake: Lake, metastore: Metastore, engine: Engine) -> None:
    """A large table of text is found to be one by the survey's samples."""
    for name in ("day=1/a.parquet", "day=1/hour=2/b.parquet", "day=2/a.parquet", "day=3/a.parquet", "top.parquet"):
        lake.remove(name)
    lake.write("k=1/a.csv", {"x": [1]})
    lake.write("k=2/a.csv", {"x": [2]})
    assert analyze(metastore.tables, SourceTable(TABLE, str(lake.root)), engine, limits=LARGE).rows == 2
