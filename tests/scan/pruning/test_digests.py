"""Segments that their digests exclude: nothing of them is opened, and nothing else changes."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

from metastore import connect
from metastore.components.requests import of_table
from metastore.components.storage import data_files
from metastore.config.settings import Settings
from metastore.lake.iceberg.catalogs.file_system_catalog import FileSystemCatalog
from metastore.model.mapping.segment_digest import DIGEST_ID
from metastore.model.vocabulary import MetadataType
from metastore.scan.pruning.prune import UNIT_COLUMNS, prune
from metastore.scan.pruning.result import PruneResult
from metastore.scan.pruning.stored_units import StoredUnits
from metastore.session import Session

TABLE = "dfs.shop.sales"
SEGMENTS, FILES = 30, 2
Opened = list[str]


def write(folder: Path, first: int, name: str = "0.parquet") -> None:
    """A file of ten numbers in two row groups."""
    folder.mkdir(parents=True, exist_ok=True)
    pq.write_table(pa.table({"n": range(first, first + 10)}), folder / name, row_group_size=5)


@pytest.fixture
def lake(tmp_path: Path) -> Path:
    """The folder of the table: thirty segments of two files, ids of segment 23 are 2300 to 2319."""
    for segment in range(SEGMENTS):
        for number in range(FILES):
            write(tmp_path / "sales" / f"part={segment}", segment * 100 + number * 10, f"{number}.parquet")
    return tmp_path / "sales"


@pytest.fixture
def opened_session(lake: Path) -> Callable[[], Session]:
    """Opens sessions, each of which knows nothing yet."""
    places = {
        "iceberg.location.base_path": str(lake.parent),
        "iceberg.location.relative_path": "metastore",
        "storage.dfs.workspaces.shop.location": str(lake.parent),
        # No table is little.
        "iceberg.read.memory_size": 0,
        "iceberg.read.small_files": 0,
    }
    settings = Settings.from_mapping({f"drill.metastore.{key}": value for key, value in places.items()})
    return lambda: connect(settings)


@pytest.fixture
def opened(monkeypatch: pytest.MonkeyPatch) -> Iterator[Opened]:
    """The names of the partitions of which a data file of the metastore was opened."""
    found: Opened = []
    batches, columns = data_files.batches_of, data_files.fetched_columns

    def noted(io: Any, unit_type: Any, files: data_files.FilesToRead, *more: Any) -> Any:
        found.extend(Path(path).name for path in files.paths)
        return batches(io, unit_type, files, *more)

    def noted_columns(io: Any, files: Any) -> Any:
        found.extend(Path(planned.path).name for planned in files)
        return columns(io, files)

    with monkeypatch.context() as patch:
        patch.setattr("metastore.components.storage.file_groups.fetched_columns", noted_columns)
        patch.setattr("metastore.components.storage.reader.batches_of", noted)
        patch.setattr("metastore.components.storage.file_groups.batches_of", noted)
        yield found


def said(result: PruneResult) -> dict[str, Any]:
    """All that a decision says, whatever the order."""
    return {
        "files": sorted((file.path, file.row_groups, file.reason, file.size) for file in result.files),
        "skipped": sorted((file.path, file.reason) for file in result.skipped_files),
        "segments": sorted((segment.identifier, segment.reason) for segment in result.segments),
        "counts": (result.files_count, result.row_groups_count, result.bytes_count, result.segments_count),
        "skipped_by": result.skipped_by,
        "notes": list(result.notes),
    }


def in_memory(session: Session) -> pa.Table:
    """All units of the table, as they stand in the files."""
    read = session.tables.read().metadata_types(MetadataType.ALL).filter(of_table(session.table_info(TABLE)))
    return read.columns(*UNIT_COLUMNS).to_arrow()


def stored(session: Session) -> StoredUnits:
    """The units of the table in the newest version."""
    return StoredUnits(session.tables, session.table_info(TABLE), session.tables.metadata.version)


QUESTIONS = (
    "n = 2313",
    "n >= 0",
    "n < 3 or n > 2900",
    "n in (5, 215, 2911)",
    "part = 17",
    "part between 3 and 5 and n > 412",
    "dir0 = 'part=8'",
    "n is null",
    "n > 100 and n < 200 or part = 3",
    "n = 99999",
)


@pytest.mark.parametrize("question", QUESTIONS)
def test_a_digest_decides_as_the_segment_does(
    opened_session: Callable[[], Session], question: str, opened: Opened
) -> None:
    """Every list, count and reason."""
    with opened_session() as session:
        session.analyze(TABLE)
        units = in_memory(session)
        opened.clear()
        assert said(prune(question, stored(session))) == said(prune(question, units))


@pytest.mark.parametrize(("question", "most"), [("n = 2313", 1), ("part = 17", 1), ("n >= 2800", 2), ("n = 99999", 0)])
def test_a_segment_that_is_excluded_is_not_opened(
    opened_session: Callable[[], Session], opened: Opened, question: str, most: int
) -> None:
    """The table's own unit is, and the files of the metastore of the segments that are left."""
    with opened_session() as session:
        session.analyze(TABLE)
    opened.clear()
    with opened_session() as session:
        prune(question, stored(session))
        assert len(opened) == most + 1
        opened.clear()
        prune(question, stored(session))
        assert not opened


def test_a_digest_goes_with_the_file_that_it_is_of(opened_session: Callable[[], Session], lake: Path) -> None:
    """After an increment the new one counts, in the same session; of older versions the old one."""
    with opened_session() as session:
        session.analyze(TABLE)
        before = session.tables.metadata.version
        assert session.prune(TABLE, "n = 777777", list_files=False).paths == []
        write(lake / "part=4", 777770, "new.parquet")
        session.analyze(TABLE)
        assert [Path(path).name for path in session.prune(TABLE, "n = 777777", list_files=False).paths] == [
            "new.parquet"
        ]
        old = StoredUnits(session.tables, session.table_info(TABLE), before)
        assert prune("n = 777777", old).paths == []


def test_what_another_program_writes_anew_is_opened(
    opened_session: Callable[[], Session], lake: Path, opened: Opened
) -> None:
    """It knows no digests. That of the file before is gone with that file, so nothing is left out by it."""
    with opened_session() as session:
        session.analyze(TABLE)
        write(lake / "part=4", 777770, "new.parquet")
        session.analyze(TABLE)
        newer = session.tables.read().metadata_types(MetadataType.ALL).filter("metadataKey = 'part=4'").to_arrow()
    with opened_session() as session:
        theirs = FileSystemCatalog("other", str(lake.parent / "metastore")).load_table("tables")
        theirs.overwrite(newer, "metadataKey = 'part=4'")
        entries = [task.file for task in theirs.scan().plan_files()]
        assert sum(DIGEST_ID in (entry.lower_bounds or {}) for entry in entries) == SEGMENTS - 1
        opened.clear()
        result = prune("n = 777777", stored(session))
        assert [Path(path).name for path in result.paths] == ["new.parquet"]
        assert said(result) == said(prune("n = 777777", in_memory(session)))


def test_what_another_program_adds_to_a_partition_is_opened(opened_session: Callable[[], Session], lake: Path) -> None:
    """The partition's first file has a digest still, which tells nothing of the second."""
    with opened_session() as session:
        session.analyze(TABLE)
        read = session.tables.read().metadata_types(MetadataType.FILE, MetadataType.ROW_GROUP)
        rows = read.filter("metadataKey = 'part=23'").to_arrow()
        rows = rows.filter(pc.ends_with(rows["path"], "/0.parquet"))
        path = rows.schema.get_field_index("path")
        added = rows.set_column(path, rows.schema.field(path), pc.replace_substring(rows["path"], ".parquet", ".added"))
        for column in ("metadataKey", "metadataIdentifier", "path", "location"):
            place = rows.schema.get_field_index(column)
            moved = pc.replace_substring(added[column], "part=23", "part=4")
            added = added.set_column(place, added.schema.field(place), moved)
    FileSystemCatalog("other", str(lake.parent / "metastore")).load_table("tables").append(added)
    with opened_session() as session:
        result = prune("n = 2313", stored(session))
        assert result.files_count.total == SEGMENTS * FILES + 1
        assert said(result) == said(prune("n = 2313", in_memory(session)))


def test_tables_of_nested_directories_are_opened(opened_session: Callable[[], Session], lake: Path) -> None:
    """Beside segments that have a digest."""
    for month in range(3):
        write(lake / "part=40" / f"month={month}", 4000 + month * 10)
    write(lake, 9000, "own.parquet")
    with opened_session() as session:
        session.analyze(TABLE)
        units = in_memory(session)
        for question in (
            "n = 4015",
            "n = 9003",
            "n = 2313",
            "dir1 = 'month=2'",
            "dir0 is null",
            "n > 8999 or part = 40",
        ):
            assert said(prune(question, stored(session))) == said(prune(question, units)), question
            trusted = session.prune(TABLE, question, list_files=False)
            listed = session.prune(TABLE, question)
            assert sorted(trusted.paths) == sorted(listed.paths)


def test_a_listing_asks_the_files_of_every_segment(opened_session: Callable[[], Session], lake: Path) -> None:
    """One that changed is kept, whatever the digest of its segment says."""
    with opened_session() as session:
        session.analyze(TABLE)
        write(lake / "part=4", 500_000, "1.parquet")
        result = session.prune(TABLE, "n = 2313")
        assert sorted(Path(path).parent.name for path in result.paths) == ["part=23", "part=4"]
        assert result.files_count.total == SEGMENTS * FILES


def test_row_ids_open_only_the_segments_that_they_name(opened_session: Callable[[], Session], opened: Opened) -> None:
    """Making, excluding and finding ids opens the units of one segment; ids say which it is."""

    def opened_by(ask: Callable[[Session], pa.Table]) -> list[Any]:
        opened.clear()
        with opened_session() as session:
            rows = ask(session)
        assert len(set(opened)) == 2, "the files of the table's own unit and of one segment"
        return sorted(rows["n"].to_pylist())

    with opened_session() as session:
        session.analyze(TABLE)
        ids = session.tables.scan(TABLE, "n = 2313", row_id=True).to_arrow()["$row_id"]

    where = "n >= 2310 and n <= 2319"
    trusted: dict[str, Any] = {"list_files": False}
    rest = [n for n in range(2310, 2320) if n != 2313]
    made = opened_by(lambda session: session.tables.scan(TABLE, where, row_id=True, **trusted).to_arrow())
    assert made == list(range(2310, 2320))
    assert opened_by(lambda session: session.tables.scan(TABLE, where, exclude=ids, **trusted).to_arrow()) == rest
    assert opened_by(lambda session: session.tables.scan(TABLE, among=ids).to_arrow()) == list(range(2310, 2315))
    assert opened_by(lambda session: session.tables.rows_by_id(TABLE, ids)) == [2313]
