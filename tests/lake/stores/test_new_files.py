"""What an attempt removes when it fails: the files that it certainly created, and never one that was there before."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from support.taken_names import TakenNames

from metastore.components.metastore import Metastore
from metastore.errors import StorageError
from metastore.lake.stores.local import LocalFile, LocalFileIO, create_if_absent, replace
from metastore.lake.stores.new_files import NewFiles
from metastore.model.table_unit import TableMetadataUnit
from metastore.model.vocabulary import MetadataType

MakeUnit = Callable[..., TableMetadataUnit]

MANY = 9
"""Partitions that are written by several threads."""


@pytest.fixture
def taken(monkeypatch: pytest.MonkeyPatch) -> TakenNames:
    """The disk that plants."""
    return TakenNames(monkeypatch)


def files(folder: Path) -> set[Path]:
    """Every file below ``folder``."""
    return {path for path in folder.rglob("*") if path.is_file()}


def owners(metastore: Metastore) -> set[str | None]:
    """The table names of all units."""
    return {unit.table_name for unit in metastore.tables.read().metadata_types(MetadataType.ALL).execute()}


@pytest.mark.parametrize("after", [0, 1, MANY - 1])
@pytest.mark.parametrize("ahead", [False, True])
def test_a_taken_data_file(
    metastore: Metastore, unit: MakeUnit, taken: TakenNames, tmp_path: Path, after: int, ahead: bool
) -> None:
    """Written by the caller, by threads or ahead: refused, the live file stays, what was created goes."""
    metastore.tables.modify().overwrite([unit("kept")]).execute()
    before = files(tmp_path)
    taken.take(".parquet", after)
    units = [unit(f"t{number}") for number in range(MANY)]
    modify = metastore.tables.modify()
    with pytest.raises(StorageError, match=r"File exists.*nothing was changed"):
        (modify.overwrite_ahead(units) if ahead else modify.overwrite(units)).execute()
    modify.abandon()
    taken.require_alive()
    assert files(tmp_path) == before | set(taken.planted)
    assert owners(metastore) == {"kept"}


@pytest.mark.parametrize(("suffix", "after"), [("-m0.avro", 0), (".avro", 1)])
def test_a_taken_manifest_or_list(
    metastore: Metastore, unit: MakeUnit, taken: TakenNames, tmp_path: Path, suffix: str, after: int
) -> None:
    """Manifest first, then its list: refused, the live file stays, what was created goes."""
    metastore.tables.modify().overwrite([unit("kept")]).execute()
    before = files(tmp_path)
    taken.take(suffix, after)
    with pytest.raises(StorageError, match=r"File exists.*nothing was changed"):
        metastore.tables.modify().overwrite([unit("new")]).execute()
    taken.require_alive()
    assert files(tmp_path) == before | set(taken.planted)
    assert owners(metastore) == {"kept"}


def test_half_a_file_of_ones_own_goes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The disk fills up while it is written: the file was created by this attempt, so it is removed."""

    class Full:
        def __init__(self, stream: Any) -> None:
            self._stream = stream

        def __enter__(self) -> Full:
            return self

        def __exit__(self, *_: object) -> None:
            self._stream.close()

        def write(self, _: bytes) -> int:
            raise OSError(28, "No space left on device")

    create = LocalFile.create
    monkeypatch.setattr(LocalFile, "create", lambda self, overwrite=False: Full(create(self, overwrite)))
    new = NewFiles(LocalFileIO())
    with pytest.raises(OSError, match="No space"):
        new.write(f"{tmp_path}/a", b"content")
    assert files(tmp_path) == {tmp_path / "a"}
    assert new.discard().removed == 1
    assert files(tmp_path) == set()


def test_only_what_was_created_is_discarded(tmp_path: Path) -> None:
    """Asked for others' files too, it removes its own alone, and each once."""
    new = NewFiles(LocalFileIO())
    (tmp_path / "theirs").write_bytes(b"")
    for name in ("a", "b"):
        new.write(f"{tmp_path}/{name}", b"")
    with new.stream(f"{tmp_path}/c") as stream:
        stream.write(b"")
    with pytest.raises(FileExistsError):
        new.stream(f"{tmp_path}/theirs")
    assert new.discard([f"{tmp_path}/theirs", f"{tmp_path}/a"]).removed == 1
    assert new.created_files == [f"{tmp_path}/b", f"{tmp_path}/c"]
    assert new.discard().removed == 2
    assert files(tmp_path) == {tmp_path / "theirs"}


@pytest.mark.parametrize("write", [create_if_absent, replace])
def test_a_taken_temporary_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, write: Callable[[str, bytes], object]
) -> None:
    """Also the name under which a version file or a hint is written first: refused, and the live file stays."""
    opened = open

    def planting(path: str, mode: str = "r") -> Any:
        if mode == "xb":
            Path(path).write_bytes(b"somebody's")
        return opened(path, mode)

    monkeypatch.setattr("metastore.lake.stores.local.open", planting, raising=False)
    with pytest.raises((StorageError, FileExistsError)):
        write(f"{tmp_path}/v1", b"content")
    [planted] = files(tmp_path)
    assert planted.read_bytes() == b"somebody's"
