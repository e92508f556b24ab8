"""Data files of a commit: on a local disk they are written where the commit runs; all of them, or none stays."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from metastore.components.metastore import Metastore
from metastore.components.storage import partition_writer
from metastore.components.storage.parquet_content import ParquetContent
from metastore.config.settings import Settings
from metastore.errors import StorageError
from metastore.ground.threads import Threads
from metastore.model.table_unit import TableMetadataUnit
from metastore.model.vocabulary import MetadataType

MakeUnit = Callable[..., TableMetadataUnit]


@pytest.fixture
def pools(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How many threads each pool was made with."""
    made: list[int] = []

    class Counted(Threads):
        def __init__(self, max_workers: int) -> None:
            made.append(max_workers)
            super().__init__(max_workers)

    monkeypatch.setattr(partition_writer, "Threads", Counted)
    return made


@pytest.fixture
def metastore(tmp_path: Path) -> Iterator[Metastore]:
    """One that nobody has written to."""
    location = {"base_path": str(tmp_path), "relative_path": "metastore"}
    with Metastore.open(Settings.from_mapping({"drill.metastore.iceberg": {"location": location}})) as opened:
        yield opened


@pytest.mark.parametrize("partitions", [1, 100])
def test_partitions_on_the_local_disk_need_no_threads(
    metastore: Metastore, unit: MakeUnit, pools: list[int], partitions: int
) -> None:
    """Threads that come and go take a lock of Arrow's allocator, which a forked child would find taken for ever."""
    names = [f"t{number}" for number in range(partitions)]
    metastore.tables.modify().overwrite([unit(name) for name in names]).execute()
    found = metastore.tables.read().metadata_types(MetadataType.ALL).columns("tableName").to_arrow()
    assert (pools, set(found["tableName"].to_pylist())) == ([], set(names))


@pytest.mark.parametrize("partitions", [1, 100])
def test_when_one_file_cannot_be_written_none_stays(
    metastore: Metastore, tmp_path: Path, unit: MakeUnit, monkeypatch: pytest.MonkeyPatch, partitions: int
) -> None:
    """The store's error is told, and the folders hold no file of the others."""
    metastore.tables.initialize()
    whole = ParquetContent.of
    calls = []

    def broken_in_the_end(self: ParquetContent, *given: Any) -> Any:
        calls.append(given)
        if len(calls) == partitions:
            raise OSError("no space left")
        return whole(self, *given)

    monkeypatch.setattr(ParquetContent, "of", broken_in_the_end)
    with pytest.raises(StorageError, match="no space left; nothing was changed"):
        metastore.tables.modify().overwrite([unit(f"t{number}") for number in range(partitions)]).execute()
    assert len(calls) == partitions
    assert list(tmp_path.rglob("*.parquet")) == []
