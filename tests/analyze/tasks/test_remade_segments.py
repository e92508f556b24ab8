"""Segments of which some files changed: made anew by tasks or by the driver, alike, and held by nobody longer."""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from metastore.analyze import work
from metastore.analyze.run import Request, analyze
from metastore.analyze.tasks import footers
from metastore.analyze.tasks.chunks import remade_chunks
from metastore.analyze.tasks.remade_segments import remake_segments
from metastore.engine import Engine, LocalEngine
from metastore.errors import FormatError, StorageError
from metastore.formats.parquet_footer import read_footer
from metastore.metastore import Metastore
from metastore.model.identity import TableInfo
from metastore.model.vocabulary import MetadataType
from metastore.sources.source_table import SourceTable
from metastore.storage.parts import FileGroup

TABLE = TableInfo("dfs", "tmp", "t")
MAKERS: dict[str, dict[str, int]] = {
    "tasks": {},
    "tasks, where few files are unknown": {"SEGMENT_FILES": 1},
    "tasks, of small segments": {"STORED_BYTES": 5_000},
    "tasks, of few files": {"KNOWN_FILES": 2},
    "the driver": {"STORED_BYTES": 0},
    "the driver, one by one": {"STORED_BYTES": 0, "_ROWS_AT_ONCE": 1},
}
"""Who makes segments, by the limits that say so."""


@pytest.fixture(autouse=True)
def begun(lake: Any) -> Any:
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


def changed(lake: Any) -> None:
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
    [path] = group.paths
    return Path(path)


class Watching:
    """An engine that tells whether one of its tasks is running, in this process."""

    name = "watching"
    parallelism = 1

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self.is_at_work = False

    def run(self, chunks: Any, task: Any, schema: pa.Schema) -> Iterator[pa.RecordBatch]:
        """As the engine, in steps."""
        batches = self._engine.run(chunks, task, schema)
        while True:
            self.is_at_work = True
            batch = next(batches, None)
            self.is_at_work = False
            if batch is None:
                return
            yield batch

    def close(self) -> None:
        """Nothing of its own to close."""


@pytest.mark.parametrize("level", ["SEGMENT", "PARTITION", "FILE", "ROW_GROUP"])
def test_it_does_not_matter_who_makes_a_segment_anew(
    begun: Any,
    open_metastore: Callable[..., Metastore],
    tmp_path: Path,
    engine: Engine,
    as_units: Callable[[pa.Table], list[str]],
    level: str,
) -> None:
    """Every unit is that of a run over all files, and every run says the same of itself."""
    source, request = SourceTable(TABLE, str(begun.root)), Request(level=level)
    metastores = {who: open_metastore(location={"base_path": str(tmp_path / who)}) for who in (*MAKERS, "fresh")}
    for who in MAKERS:
        analyze(metastores[who].tables, source, engine, request)
    changed(begun)
    found, said = {}, {}
    for who, metastore in metastores.items():
        with pytest.MonkeyPatch.context() as patch:
            for limit, number in MAKERS.get(who, {}).items():
                patch.setattr(work, limit, number)
            result = analyze(metastore.tables, source, engine, request)
        found[who] = as_units(metastore.tables.read().metadata_types(MetadataType.ALL).to_arrow())
        said[who] = (result.new, result.changed, result.removed, result.segments_written, result.segments_removed)
    assert {who for who, units in found.items() if units != found["fresh"]} == set()
    # Without units of files it is not known which there were, but of segments that are gone how many.
    expected = (3, 2, 3, 5, 1) if level in {"FILE", "ROW_GROUP"} else (9, 0, 1, 5, 1)
    assert {who: numbers for who, numbers in said.items() if numbers != expected} == {"fresh": (9, 0, 0, 5, 0)}


@pytest.mark.parametrize("with_changes", [False, True])
@pytest.mark.parametrize("makers", ["tasks", "the driver, one by one"])
@pytest.mark.parametrize(
    ("before", "after"),
    [
        (Request(level="FILE"), Request(level="ROW_GROUP")),
        (Request(columns=["x"]), Request()),
        (Request(), Request(level="FILE")),
        (Request(), Request(level="SEGMENT")),
        (Request(), Request(level="TABLE")),
    ],
    ids=["to row groups", "other columns", "to files", "to segments", "to the table"],
)
def test_other_wishes_are_fulfilled(
    begun: Any,
    open_metastore: Callable[..., Metastore],
    tmp_path: Path,
    engine: Engine,
    as_units: Callable[[pa.Table], list[str]],
    monkeypatch: pytest.MonkeyPatch,
    before: Request,
    after: Request,
    makers: str,
    with_changes: bool,
) -> None:
    """Deeper, with more columns, less deep than before: whoever makes segments, the units are those of a first run."""
    source = SourceTable(TABLE, str(begun.root))
    kept, fresh = (open_metastore(location={"base_path": str(tmp_path / name)}) for name in ("kept", "fresh"))
    analyze(kept.tables, source, engine, before)
    if with_changes:
        changed(begun)
    for limit, number in MAKERS[makers].items():
        monkeypatch.setattr(work, limit, number)
    for metastore in (kept, fresh):
        analyze(metastore.tables, source, engine, after)
    units, expected = (one.tables.read().metadata_types(MetadataType.ALL).to_arrow() for one in (kept, fresh))
    assert as_units(units) == as_units(expected)


@pytest.mark.parametrize(("files", "by_driver"), [(["year=2020/a"], 1), (["year=2020/a", "year=2021/b"], 0)])
def test_the_driver_holds_no_units_of_segments_that_tasks_make(
    begun: Any,
    metastore: Metastore,
    engine: Engine,
    monkeypatch: pytest.MonkeyPatch,
    files: list[str],
    by_driver: int,
) -> None:
    """It reads those of one segment alone, while tasks read its footers; tasks read theirs, and no file that stays."""
    watching = Watching(engine)
    source = SourceTable(TABLE, str(begun.root))
    analyze(metastore.tables, source, watching)
    for name in files:
        begun.touch(f"{name}.parquet")
    batches = FileGroup.batches
    units: list[bool] = []
    opened: list[str] = []

    def noted_batches(self: FileGroup) -> Iterator[pa.RecordBatch]:
        units.append(watching.is_at_work)
        return batches(self)

    def noted_footer(*arguments: Any, **named: Any) -> Any:
        opened.append(str(arguments))
        return read_footer(*arguments, **named)

    monkeypatch.setattr(FileGroup, "batches", noted_batches)
    monkeypatch.setattr(footers, "read_footer", noted_footer)
    assert analyze(metastore.tables, source, watching).changed == len(files)
    assert (units.count(False), len(units)) == (by_driver, len(files))
    assert len(opened) == len(files)
    assert all(any(name in call for call in opened) for name in files)


def test_the_driver_holds_a_few_segments_at_a_time(
    begun: Any, metastore: Metastore, engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where it makes them itself: one is written before the next is read, if more would be too many rows."""
    source = SourceTable(TABLE, str(begun.root))
    analyze(metastore.tables, source, engine)
    changed(begun)
    for limit, number in MAKERS["the driver, one by one"].items():
        monkeypatch.setattr(work, limit, number)
    events: list[str] = []
    batches, segments = FileGroup.batches, work.Work._segments

    def noted_batches(self: FileGroup) -> Iterator[pa.RecordBatch]:
        events.append("read")
        return batches(self)

    def noted_segments(self: work.Work, *arguments: Any) -> Any:
        events.append("made")
        return segments(self, *arguments)

    monkeypatch.setattr(FileGroup, "batches", noted_batches)
    monkeypatch.setattr(work.Work, "_segments", noted_segments)
    analyze(metastore.tables, source, engine)
    assert events.count("read") == 4
    assert all(pair != ("read", "read") for pair in pairwise(events))


def test_progress_ends_where_it_said(begun: Any, metastore: Metastore, engine: Engine) -> None:
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
    begun: Any, metastore: Metastore, engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    """That is known before: by it the engine is chosen, and a segment of many files is not left to one task."""
    source, request = SourceTable(TABLE, str(begun.root)), Request(level="SEGMENT")
    analyze(metastore.tables, source, engine, request)
    begun.touch("year=2020/a.parquet")
    begun.touch("year=2021/a.parquet")
    asked: list[int] = []
    here: list[str] = []
    made_here = work.Work._made_here

    def chosen(files: int) -> Engine:
        asked.append(files)
        return engine

    def noted(self: work.Work, segments: Any, *arguments: Any) -> Any:
        here.extend(segments)
        return made_here(self, segments, *arguments)

    monkeypatch.setattr(work.Work, "_made_here", noted)
    monkeypatch.setattr(work, "SEGMENT_FILES", 2)
    assert analyze(metastore.tables, source, chosen, request).segments_written == 2
    assert (asked, here) == ([6], ["year=2020", "year=2021"])


def test_a_removed_file_needs_no_reading(begun: Any, metastore: Metastore, engine: Engine) -> None:
    """And the result names no engine."""
    source = SourceTable(TABLE, str(begun.root))
    analyze(metastore.tables, source, engine)
    begun.remove("year=2021/c.parquet")
    begun.remove("year=2020/b.parquet")
    result = analyze(metastore.tables, source, engine)
    assert (result.removed, result.segments_written, result.engine) == (2, 2, None)


def test_who_is_sent_a_chunk_needs_no_metastore(
    begun: Any, open_metastore: Callable[..., Metastore], tmp_path: Path, engine: Engine, monkeypatch: Any
) -> None:
    """Executors may be where it cannot be reached: the chunk has the files' content, and makes the same of it."""
    source = SourceTable(TABLE, str(begun.root))
    metastore = open_metastore(location={"base_path": str(tmp_path / "not there")})
    analyze(metastore.tables, source, engine)
    changed(begun)
    sent: list[tuple[bytes, list[pa.RecordBatch]]] = []

    def noted(*arguments: Any, **named: Any) -> Any:
        chunks = remade_chunks(*arguments, **named)
        sent.extend((pickle.dumps(chunk), list(remake_segments(chunk))) for chunk in chunks)
        return chunks

    monkeypatch.setattr(work, "remade_chunks", noted)
    analyze(metastore.tables, source, engine)
    (tmp_path / "not there").rename(tmp_path / "elsewhere")
    for pickled, made in sent:
        assert b"not there" not in pickled
        again = list(remake_segments(pickle.loads(pickled)))  # noqa: S301 - pickled above
        assert [batch.to_pylist() for batch in again] == [batch.to_pylist() for batch in made]
    assert sent


def test_helpers_make_them(
    begun: Any, open_metastore: Callable[..., Metastore], tmp_path: Path, as_units: Any, monkeypatch: Any
) -> None:
    """In processes of their own, and to the same units."""
    monkeypatch.setattr("metastore.engine._JUDGED_AFTER", -1.0)
    monkeypatch.setattr("metastore.engine._HELPERS_PAY_FROM", -1.0)
    source = SourceTable(TABLE, str(begun.root))
    kept, fresh = (open_metastore(location={"base_path": str(tmp_path / name)}) for name in ("kept", "fresh"))
    with LocalEngine(2) as engine:
        analyze(kept.tables, source, engine)
        while sum(helper.is_ready_for(remake_segments) for helper in engine._idle) < 2:
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


@pytest.mark.parametrize("makers", ["tasks", "the driver"])
def test_errors_change_nothing(
    begun: Any, metastore: Metastore, engine: Engine, monkeypatch: pytest.MonkeyPatch, makers: str
) -> None:
    """A corrupt file is named; so is the component, where a file of its is lost or damaged."""
    source = SourceTable(TABLE, str(begun.root))
    analyze(metastore.tables, source, engine)
    for limit, number in MAKERS[makers].items():
        monkeypatch.setattr(work, limit, number)
    version = metastore.tables.metadata.version
    begun.touch("year=2021/a.parquet")
    begun.put("year=2020/a.parquet", b"PAR1 and nothing else PAR1")
    with pytest.raises(FormatError, match=r"year=2020/a\.parquet"):
        analyze(metastore.tables, source, engine)
    begun.write("year=2020/a.parquet", {"x": [1]})
    path = stored_file(metastore, "year=2021")
    content = path.read_bytes()
    path.unlink()
    with pytest.raises(StorageError, match="a file of tables cannot be read"):
        analyze(metastore.tables, source, engine)
    path.write_bytes(b"PAR1 and nothing else PAR1")
    with pytest.raises(FormatError, match="a data file of tables cannot be read"):
        analyze(metastore.tables, source, engine)
    assert metastore.tables.metadata.version == version
    path.write_bytes(content)
    assert analyze(metastore.tables, source, engine).changed == 2
