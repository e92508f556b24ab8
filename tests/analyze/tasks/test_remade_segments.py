"""Segments of which some files changed: made anew by tasks or by the driver, alike, and held by nobody longer."""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterator, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from support.lake_folder import Lake
from support.watched_engine import WatchedEngine

from metastore.analyze.request import AnalyzeRequest
from metastore.analyze.run import analyze
from metastore.analyze.tasks import footers
from metastore.analyze.tasks.chunks import Limits
from metastore.analyze.tasks.footers import FooterChunk
from metastore.analyze.tasks.segments import SegmentChunk, make_segments
from metastore.components.metastore import Metastore
from metastore.components.storage.file_groups import FileGroup
from metastore.engines.engine import Engine, LocalEngine
from metastore.errors import FormatError, StorageError
from metastore.lake.formats.parquet.parquet_footer import read_footer
from metastore.model.identity import TableInfo
from metastore.model.vocabulary import MetadataType
from metastore.sources.source_table import SourceTable

TABLE = TableInfo("dfs", "tmp", "t")
MAKERS = {
    "tasks": Limits(),
    "tasks, where few files are unknown": Limits(chunk_files=(1, 1)),
    "tasks, of small segments": Limits(stored_bytes=5_000),
    "tasks, of few files": Limits(known_files=2),
    "the driver": Limits(stored_bytes=0),
    "the driver, one by one": Limits(stored_bytes=0, driver_rows=1),
    "tasks that list directories": Limits(surveyed=(1, 0, 0)),
    "tasks that list directories, one by one": Limits(surveyed=(1, 0, 0), directory_files=(1, 20_000)),
    "the driver, of directories that tasks listed": Limits(surveyed=(1, 0, 0), directory_files=(1, 1), driver_rows=1),
}
"""Who makes segments, by the limits that say so."""


@pytest.fixture(autouse=True)
def begun(lake: Lake) -> Lake:
    """Four segments, nested and not, of several schemas; ``k`` is constant in some."""
    lake.write("year=2020/a.parquet", {"x": [1, 2, 3], "s": ["a", None, "é"]}, row_group_size=1)
    lake.write("year=2020/b.parquet", {"x": [4.5, None], "s": ["b", "b"]})
    lake.write("year=2020/month=1/c.parquet", {"x": [7]})
    lake.write("year=2021/a.parquet", {"x": [5], "k": [1]})
    lake.write("year=2021/b.parquet", {"x": [6], "k": [1]})
    lake.write("year=2021/c.parquet", {"x": [9], "k": [1]})
    lake.write("year=2022/a.parquet", {"x": pa.array([], pa.int64())})
    lake.write("year=2023/a.parquet", {"x": [8]})
    lake.write("top.parquet", {"x": [0], "y.z": [{"w": 1}]})
    return lake


def changed(lake: Lake) -> None:
    """Files are changed, added and removed; segments, too."""
    lake.write("year=2020/a.parquet", {"x": [2, 3], "s": ["c", "d"]}, row_group_size=1)
    lake.remove("year=2020/month=1/c.parquet")
    lake.write("year=2020/month=2/c.parquet", {"x": [None], "s": ["z"]})
    lake.remove("year=2021/c.parquet")
    lake.write("year=2022/b.parquet", {"x": [100]})
    lake.remove("year=2023/a.parquet")
    lake.write("year=2024/a.parquet", {"x": [50], "new": [True]})
    lake.touch("top.parquet")


def stored_file(metastore: Metastore, key: str) -> Path:
    """The data file that holds the units of a segment."""
    read = metastore.tables.read().metadata_types(MetadataType.ALL).filter(f"metadataKey = '{key}'")
    [group] = read.partitions().values()
    [path] = group.files.paths
    return Path(path)


@pytest.mark.parametrize("level", ["SEGMENT", "PARTITION", "FILE", "ROW_GROUP"])
def test_it_does_not_matter_who_makes_a_segment_anew(
    begun: Lake,
    open_metastore: Callable[..., Metastore],
    tmp_path: Path,
    engine: Engine,
    as_units: Callable[[pa.Table], list[str]],
    level: str,
) -> None:
    """Every unit is that of a run over all files, and every run says the same of itself."""
    source, request = SourceTable(TABLE, str(begun.root)), AnalyzeRequest(level=level)
    metastores = {who: open_metastore(location={"base_path": str(tmp_path / who)}) for who in (*MAKERS, "fresh")}
    for who in MAKERS:
        analyze(metastores[who].tables, source, engine, request)
    changed(begun)
    found, said = {}, {}
    for who, metastore in metastores.items():
        result = analyze(metastore.tables, source, engine, request, limits=MAKERS.get(who))
        found[who] = as_units(metastore.tables.read().metadata_types(MetadataType.ALL).to_arrow())
        said[who] = (result.new, result.changed, result.removed, result.segments_written, result.segments_removed)
    assert {who for who, units in found.items() if units != found["fresh"]} == set()
    # Without units of files it is not known which there were, but of segments that are gone how many.
    expected = (3, 2, 3, 5, 1) if level in {"FILE", "ROW_GROUP"} else (9, 0, 1, 5, 1)
    assert {who: numbers for who, numbers in said.items() if numbers != expected} == {"fresh": (9, 0, 0, 5, 0)}


@pytest.mark.parametrize("with_changes", [False, True])
@pytest.mark.parametrize("makers", ["tasks", "the driver, one by one", "tasks that list directories"])
@pytest.mark.parametrize(
    ("before", "after"),
    [
        (AnalyzeRequest(level="FILE"), AnalyzeRequest(level="ROW_GROUP")),
        (AnalyzeRequest(columns=["x"]), AnalyzeRequest()),
        (AnalyzeRequest(), AnalyzeRequest(level="FILE")),
        (AnalyzeRequest(), AnalyzeRequest(level="SEGMENT")),
        (AnalyzeRequest(), AnalyzeRequest(level="TABLE")),
    ],
    ids=["to row groups", "other columns", "to files", "to segments", "to the table"],
)
def test_another_request_is_fulfilled(
    begun: Lake,
    open_metastore: Callable[..., Metastore],
    tmp_path: Path,
    engine: Engine,
    as_units: Callable[[pa.Table], list[str]],
    before: AnalyzeRequest,
    after: AnalyzeRequest,
    makers: str,
    with_changes: bool,
) -> None:
    """Deeper, with more columns, less deep than before: whoever makes segments, the units are those of a first run."""
    source = SourceTable(TABLE, str(begun.root))
    kept, fresh = (open_metastore(location={"base_path": str(tmp_path / name)}) for name in ("kept", "fresh"))
    analyze(kept.tables, source, engine, before)
    if with_changes:
        changed(begun)
    for metastore in (kept, fresh):
        analyze(metastore.tables, source, engine, after, limits=MAKERS[makers])
    units, expected = (one.tables.read().metadata_types(MetadataType.ALL).to_arrow() for one in (kept, fresh))
    assert as_units(units) == as_units(expected)


@pytest.mark.parametrize("files", [["year=2020/a"], ["year=2020/a", "year=2021/b"]])
def test_the_driver_holds_no_units_of_segments_that_tasks_make(
    begun: Lake, metastore: Metastore, engine: Engine, monkeypatch: pytest.MonkeyPatch, files: list[str]
) -> None:
    """Tasks read the stored units and the changed footers, and no file that stays."""
    watched = WatchedEngine(engine)
    source = SourceTable(TABLE, str(begun.root))
    analyze(metastore.tables, source, watched)
    for name in files:
        begun.touch(f"{name}.parquet")
    batches = FileGroup.batches
    by_tasks: list[bool] = []
    opened: list[str] = []

    def noted_batches(self: FileGroup) -> Iterator[pa.RecordBatch]:
        by_tasks.append(watched.is_at_work)
        return batches(self)

    def noted_footer(*arguments: Any, **named: Any) -> Any:
        opened.append(str(arguments))
        return read_footer(*arguments, **named)

    monkeypatch.setattr(FileGroup, "batches", noted_batches)
    monkeypatch.setattr(footers, "read_footer", noted_footer)
    assert analyze(metastore.tables, source, watched).changed == len(files)
    assert by_tasks == [True] * len(files)
    assert len(opened) == len(files)
    assert all(any(name in call for call in opened) for name in files)


def test_the_driver_holds_a_few_segments_at_a_time(
    begun: Lake, metastore: Metastore, engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where it makes them itself: the footers of one are read before the units of the next, if both were too many."""
    source = SourceTable(TABLE, str(begun.root))
    analyze(metastore.tables, source, engine)
    changed(begun)
    events: list[str] = []
    batches = FileGroup.batches

    def noted_batches(self: FileGroup) -> Iterator[pa.RecordBatch]:
        events.append("units")
        return batches(self)

    def noted_footer(*arguments: Any, **named: Any) -> Any:
        events.append("footer")
        return read_footer(*arguments, **named)

    monkeypatch.setattr(FileGroup, "batches", noted_batches)
    monkeypatch.setattr(footers, "read_footer", noted_footer)
    analyze(metastore.tables, source, engine, limits=MAKERS["the driver, one by one"])
    # Of the four known segments that are touched, one lost a file: of it nothing is read.
    assert events.count("units") == 4
    assert sum(pair == ("units", "units") for pair in pairwise(events)) <= 1


def test_progress_ends_where_it_said(begun: Lake, metastore: Metastore, engine: Engine) -> None:
    """How many files are to be read is told as far as it is known, and is true in the end."""
    source = SourceTable(TABLE, str(begun.root))
    analyze(metastore.tables, source, engine)
    changed(begun)
    told: list[tuple[int, int]] = []
    analyze(metastore.tables, source, engine, on_progress=lambda *numbers: told.append(numbers))
    assert told[-1] == (5, 5)
    assert told == sorted(told)
    assert all(done <= total for done, total in told)


def test_above_level_file_every_file_of_a_segment_is_to_be_read(
    begun: Lake, metastore: Metastore, engine: Engine
) -> None:
    """That is known before: by it the engine is chosen, and a segment of many files is not left to one task."""
    source, request = SourceTable(TABLE, str(begun.root)), AnalyzeRequest(level="SEGMENT")
    analyze(metastore.tables, source, engine, request)
    begun.touch("year=2020/a.parquet")
    begun.touch("year=2021/a.parquet")
    asked: list[int] = []
    watched = WatchedEngine(engine)

    def chosen(files: int) -> WatchedEngine:
        asked.append(files)
        return watched

    limits = Limits(chunk_files=(1, 2))
    assert analyze(metastore.tables, source, chosen, request, limits=limits).segments_written == 2
    assert asked == [6]
    assert {type(chunk) for chunk in watched.chunks} == {FooterChunk}
    assert sum(len(chunk.files) for chunk in watched.chunks) == 6


def test_a_removed_file_needs_no_reading(begun: Lake, metastore: Metastore, engine: Engine) -> None:
    """And the result names no engine."""
    source = SourceTable(TABLE, str(begun.root))
    analyze(metastore.tables, source, engine)
    begun.remove("year=2021/c.parquet")
    begun.remove("year=2020/b.parquet")
    result = analyze(metastore.tables, source, engine)
    assert (result.removed, result.segments_written, result.engine) == (2, 2, None)


def test_who_is_sent_a_chunk_needs_no_metastore(
    begun: Lake, open_metastore: Callable[..., Metastore], tmp_path: Path, engine: Engine
) -> None:
    """Executors may be where it cannot be reached: the chunk has the files' content, and makes the same of it."""
    source = SourceTable(TABLE, str(begun.root))
    metastore = open_metastore(location={"base_path": str(tmp_path / "not there")})
    analyze(metastore.tables, source, engine)
    changed(begun)
    sent: list[tuple[bytes, list[pa.RecordBatch]]] = []

    def send(chunks: Sequence[Any], task: Callable[[Any], Iterator[pa.RecordBatch]]) -> None:
        sent.extend((pickle.dumps(chunk), list(task(chunk))) for chunk in chunks)

    sending = WatchedEngine(engine, send)
    analyze(metastore.tables, source, sending)
    assert {type(chunk) for chunk in sending.chunks} == {SegmentChunk}
    (tmp_path / "not there").rename(tmp_path / "elsewhere")
    for pickled, made in sent:
        assert b"not there" not in pickled
        again = list(make_segments(pickle.loads(pickled)))  # noqa: S301 - pickled above
        assert [batch.to_pylist() for batch in again] == [batch.to_pylist() for batch in made]
    assert sent


def test_helpers_make_them(
    begun: Lake, open_metastore: Callable[..., Metastore], tmp_path: Path, as_units: Callable[[pa.Table], list[str]]
) -> None:
    """In processes of their own, and to the same units."""
    source = SourceTable(TABLE, str(begun.root))
    kept, fresh = (open_metastore(location={"base_path": str(tmp_path / name)}) for name in ("kept", "fresh"))
    with LocalEngine(2, helpers_pay_from=0) as engine:
        analyze(kept.tables, source, engine)
        while engine.ready_for(make_segments) < 2:
            begun.touch("year=2020/a.parquet")
            begun.touch("year=2021/b.parquet")
            analyze(kept.tables, source, engine)
        changed(begun)
        with pytest.MonkeyPatch.context() as patch:
            patch.delattr(FileGroup, "batches")  # in this process
            assert analyze(kept.tables, source, engine).changed == 2
        begun.touch("year=2020/a.parquet")
        begun.touch("year=2021/a.parquet")
        path = stored_file(kept, "year=2021")
        content = path.read_bytes()
        path.unlink()
        with pytest.raises(StorageError, match="a file of tables cannot be read"):
            analyze(kept.tables, source, engine)
        path.write_bytes(content)
        assert analyze(kept.tables, source, engine).changed == 2
        analyze(fresh.tables, source, engine)
    units, expected = (one.tables.read().metadata_types(MetadataType.ALL).to_arrow() for one in (kept, fresh))
    assert as_units(units) == as_units(expected)


@pytest.mark.parametrize("makers", ["tasks", "the driver", "tasks that list directories"])
def test_errors_change_nothing(begun: Lake, metastore: Metastore, engine: Engine, makers: str) -> None:
    """A corrupt file is named; so is the component, where a file of its is lost or damaged."""
    source = SourceTable(TABLE, str(begun.root))
    analyze(metastore.tables, source, engine)
    limits = MAKERS[makers]
    version = metastore.tables.metadata.version
    begun.touch("year=2021/a.parquet")
    begun.put("year=2020/a.parquet", b"PAR1 and nothing else PAR1")
    with pytest.raises(FormatError, match=r"year=2020/a\.parquet"):
        analyze(metastore.tables, source, engine, limits=limits)
    begun.write("year=2020/a.parquet", {"x": [1]})
    path = stored_file(metastore, "year=2021")
    content = path.read_bytes()
    path.unlink()
    with pytest.raises(StorageError, match="a file of tables cannot be read"):
        analyze(metastore.tables, source, engine, limits=limits)
    path.write_bytes(b"PAR1 and nothing else PAR1")
    with pytest.raises(FormatError, match="a data file of tables cannot be read"):
        analyze(metastore.tables, source, engine, limits=limits)
    assert metastore.tables.metadata.version == version
    path.write_bytes(content)
    assert analyze(metastore.tables, source, engine, limits=limits).changed == 2
